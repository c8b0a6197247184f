"""Break the package on purpose, one defect at a time, and see whether the tests notice: ``make mutants``.

Every defect is put into a copy of ``src``, never into the working tree, and the tests that should die of it
run against that copy. Exit code 1 where a defect survives, or can no longer be put in because its line has
changed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 900  # seconds for the tests of one defect: an endless loop counts as noticed


class Mutant(NamedTuple):
    """A defect: ``old``, which stands exactly once in ``file``, becomes ``new``."""

    name: str
    file: str  # below src/cignn
    old: str
    new: str
    tests: str  # files that should notice, by what follows "test_"
    words: str = ""  # which of their tests, as in ``pytest -k``; all by default


MUTANTS = [
    # ------------------------------------------------------------------ information
    Mutant(
        "rounding counts as eigenvalues",
        "information/power_trace.py",
        "absent = ratios <= _ROUNDINGS",
        "absent = ratios <= 0 * _ROUNDINGS",
        "information",
    ),
    Mutant(
        "a matrix that is not finite spoils the gradient of others",
        "information/renyi.py",
        "torch.where(finite, matrices, 0.0).unbind()",
        "matrices.unbind()",
        "information",
    ),
    Mutant(
        "a spectrum that is not finite has a gradient",
        "information/power_trace.py",
        "slope = slope.masked_fill(unknown[..., None, None], 0.0)",
        "slope = slope.clone()",
        "information",
    ),
    Mutant(
        "the sum of inverses is too short",
        "information/power_trace.py",
        "_LARGEST_SHIFT = 16, ",
        "_LARGEST_SHIFT = 12, ",
        "information",
    ),
    Mutant(
        "the joint entropy is that of a sum",
        "information/renyi.py",
        "reduce(torch.mul, factors)",
        "reduce(torch.add, factors)",
        "information",
    ),
    Mutant(
        "the condition is left out",
        "information/renyi.py",
        "cmi=(h_ab + h_yb - h_b - h_ayb)",
        "cmi=(h_ab + h_yb - h_a - h_ayb)",
        "information",
    ),
    Mutant(
        "a sample is its own neighbour",
        "information/gram.py",
        "distances.topk(k + 1,",
        "distances.topk(k,",
        "information",
    ),
    Mutant(
        "HSIC forgets the overall mean",
        "information/gram.py",
        "gram - rows - columns + rows.mean(-2, keepdim=True)",
        "gram - rows - columns",
        "information",
        "hsic",
    ),
    Mutant(
        "false pairs keep the true ones",
        "information/gram.py",
        "-torch.inf)",
        "0.0)",
        "sib_dir",
        "bound or information",
    ),
    # --------------------------------------------------------------------- networks
    Mutant(
        "one mask for all graphs",
        "nn/subgraph_network.py",
        "edge_logits = self.subgraph(vectors)  # equation (14)",
        "edge_logits = self.subgraph(vectors).mean(0, True).expand(len(vectors), -1, -1)  # equation (14)",
        "ci_gnn",
        "mask or mates",
    ),
    Mutant(
        "one mask for all subjects",
        "nn/subgraph_network.py",
        "alpha, beta = z.split([self.n_causal, self.n_noncausal], -1)\n",
        "alpha, beta = z[:1].expand_as(z).split([self.n_causal, self.n_noncausal], -1)\n",
        "aligned estimators",
        "subject or whole_network",
    ),
    Mutant(
        "the classifier sees the whole graph",
        "nn/subgraph_network.py",
        "self.classifier(x, whole * prob, mask, noise)",
        "self.classifier(x, whole + 0 * prob, mask, noise)",
        "ci_gnn",
        "subgraph",
    ),
    Mutant(
        "the rest is the subgraph",
        "nn/subgraph_network.py",
        "(prob, 1 - prob[some])",
        "(prob, prob[some])",
        "ci_gnn",
        "rest",
    ),
    Mutant(
        "the price never waits",
        "nn/ci_gnn.py",
        "due = least + (1 - least) * explained",
        "due = least + (1 - least)",
        "ci_gnn",
        "edge or price",
    ),
    Mutant(
        "the VAE moves α beside the classifier",
        "nn/ci_gnn.py",
        "z[..., : self.n_causal].detach()",
        "z[..., : self.n_causal]",
        "ci_gnn",
        "reconstruction",
    ),
    Mutant(
        "the causal effect is minimised",
        "nn/ci_gnn.py",
        'losses["causal"] = -(terms.mi',
        'losses["causal"] = (terms.mi',
        "ci_gnn",
        "causal or informations",
    ),
    Mutant(
        "nodes outside the subgraph count",
        "nn/subgraph_network.py",
        "mask = mask if weights is None else weights",
        "mask = mask if weights is None else weights.clamp(min=1)",
        "motif_preset",
        "outside",
    ),
    Mutant(
        "cutting puts every module into training",
        "nn/ci_gnn.py",
        "            module.training = training\n",
        "            module.training = True\n",
        "motif_preset",
        "mode",
    ),
    Mutant(
        "cut graphs keep their mask whatever subgraphs explain",
        "nn/ci_gnn.py",
        'losses["consistency"] = explained * ',
        'losses["consistency"] = ',
        "motif_preset",
        "level",
    ),
    Mutant(
        "a cut graph keeps its lightest edges",
        "nn/subgraph.py",
        ".sort(dim=1, descending=True).values",
        ".sort(dim=1, descending=False).values",
        "motif_preset",
        "heaviest or expected",
    ),
    Mutant(
        "the warm-up finds nothing out",
        "nn/ci_gnn.py",
        ".add_(WHOLE_RATE * share)",
        ".add_(WHOLE_RATE)",
        "motif_preset",
        "warm_up",
    ),
    Mutant(
        "the refinement draws its subgraphs",
        "nn/ci_gnn.py",
        "mask = self._mask(batch, None, noise, sample=False)",
        "mask = self._mask(batch, None, noise, sample=True)",
        "refinement",
        "drawn",
    ),
    Mutant(
        "the refinement forgets the warm-up",
        "estimators/training_loop.py",
        "(one.state.best_weights | one.state.earlier).items()",
        "one.state.best_weights.items()",
        "refinement",
        "warm_up",
    ),
    Mutant(
        "a refined classifier is always kept",
        "estimators/training.py",
        "(merit - clear_difference(len(one.validation)), *rest)",
        "(merit - 10, *rest)",
        "refinement",
        "clearly",
    ),
    Mutant(
        "an epoch from before the mask settled must be better twice over",
        "estimators/training.py",
        "    if epoch >= one.stages[number].settled_from:",
        "    if True:",
        "refinement",
        "clearly",
    ),
    Mutant(
        "a refined classifier is like any other",
        "estimators/training_loop.py",
        "expect_better(one)",
        "pass",
        "refinement",
        "prefers",
    ),
    Mutant(
        "the class of cut graphs counts as little as their mask",
        "estimators/ci_gnn_stages.py",
        "REFINED_CUT * settings",
        "settings",
        "refinement",
        "second_graph",
    ),
    Mutant(
        "edges are drawn one way",
        "nn/subgraph.py",
        "return draw + draw.transpose(1, 2)",
        "return draw + draw",
        "layers",
        "draw",
    ),
    Mutant(
        "latents have no noise",
        "nn/autoencoder.py",
        "normal(self.log_std, noise, nodes=1)",
        "torch.zeros_like(self.log_std)",
        "layers ci_gnn",
        "draw or drawn",
    ),
    Mutant(
        "padding counts in a mean",
        "nn/layers.py",
        "/ mask.sum(1, keepdim=True).clamp(min=1e-6)",
        "/ x.shape[1]",
        "layers",
        "readout",
    ),
    Mutant(
        "an ensemble listens to its first",
        "nn/model.py",
        "reduce(torch.add, log_odds) / len(weights)",
        "log_odds[0]",
        "aligned",
        "ensemble",
    ),
    Mutant(
        "interventions teach complements",
        "nn/dir.py",
        "torch.sigmoid(complement_logits.detach())",
        "torch.sigmoid(complement_logits)",
        "sib_dir",
        "complement",
    ),
    Mutant(
        "SIB's subgraph is the graph",
        "nn/sib.py",
        "subgraph = (prob * h).sum(1)",
        "subgraph = (h + 0 * prob).sum(1)",
        "sib_dir",
    ),
    # ------------------------------------------------------------------- estimators
    Mutant(
        "λ is 0 by default",
        "estimators/ci_gnn_settings.py",
        "causal_weight=1e-3,",
        "causal_weight=0.0,",
        "settings",
        "presets",
    ),
    Mutant(
        "the rest costs nothing by default",
        "estimators/ci_gnn_settings.py",
        "rest_weight=1.0,",
        "rest_weight=0.0,",
        "estimators",
        "rest",
    ),
    Mutant(
        "the weight of the rest is ignored",
        "estimators/ci_gnn_stages.py",
        '"rest": settings["rest_weight"]',
        '"rest": 1.0',
        "estimators",
        "rest",
    ),
    Mutant(
        "the rest is not in the loss",
        "estimators/ci_gnn_stages.py",
        '            "rest": settings["rest_weight"],\n',
        "",
        "estimators",
        "rest",
    ),
    Mutant(
        "the running average is off",
        "estimators/network_stack.py",
        "kept = torch.minimum(ema_decay, self.steps / (self.steps + WARM_UP))",
        "kept = torch.zeros_like(self.steps)",
        "estimators",
        "average",
    ),
    Mutant(
        "members share a validation split",
        "estimators/neural.py",
        "eval_set, seed + member)",
        "eval_set, seed)",
        "estimators",
        "member",
    ),
    Mutant(
        "the last epoch is kept",
        "estimators/training.py",
        "if state.best_score and score < state.best_score:",
        "if False:",
        "estimators",
        "kept",
    ),
    Mutant(
        "averaged weights read with the statistics of all steps",
        "estimators/training_loop.py",
        "        self.stack.keep_changed(NodeNorm.RUNNING, share)\n",
        "",
        "estimators",
        "averaged_weights",
    ),
    Mutant(
        "averaged weights read with the statistics of the last batch",
        "estimators/training_loop.py",
        "averaged / (number + 1)",
        "averaged",
        "stacks",
        "renewed",
    ),
    Mutant(
        "a GPU reads as few large graphs at once as a CPU",
        "estimators/neural.py",
        "target.values, BATCH_CELLS[device.type])",
        "target.values)",
        "stacks",
        "device",
    ),
    Mutant(
        "a GPU pads to every number of nodes",
        "estimators/feeds.py",
        'rounded_up(most) if self.device.type == "cuda" else most',
        "most",
        "stacks",
        "widths",
    ),
    Mutant(
        "a mask that says nothing is not told",
        "estimators/explaining.py",
        "    if not usual < FLAT:",
        "    if not usual < 0:",
        "flat_masks",
    ),
    Mutant(
        "steps of all kinds share what was captured",
        "estimators/captured.py",
        "key = (step, batch.place.shape",
        "key = (batch.place.shape",
        "stacks",
        "kinds",
    ),
    Mutant(
        "batch statistics depend on the longest training of the stack",
        "estimators/training_loop.py",
        "            generator.manual_seed(seed)  # it",
        "            pass  # it",
        "stacks",
        "trained_alone",
    ),
    Mutant(
        "the mask begins with what the draw gives",
        "estimators/ci_gnn_stages.py",
        "        heirs=_heirs(settings),\n",
        "",
        "motif_preset",
        "begins_as",
    ),
    Mutant(
        "an epoch before the mask has settled is as good as one after",
        "estimators/training.py",
        "if epoch < stage.settled_from:",
        "if False:",
        "motif_preset",
        "one_of_the_last",
    ),
    Mutant(
        "a price that was hardly asked comes back",
        "estimators/ci_gnn_stages.py",
        "in range(trial)]) < LEAST_LEVEL)",
        "in range(trial)]) < 0)",
        "motif_preset",
        "trial",
    ),
    Mutant(
        "where small subgraphs are given up every edge is free",
        "estimators/ci_gnn_stages.py",
        '"level": 0.0, "least": 1.0}',
        '"level": 0.0, "least": PRICE_FLOOR}',
        "motif_preset",
        "larger_subgraphs",
    ),
    Mutant(
        "an epoch kept before larger subgraphs were asked for stays",
        "estimators/training_loop.py",
        "if stage.anew(epoch, one):",
        "if False:",
        "motif_preset",
        "larger_subgraphs",
    ),
    Mutant(
        "one of few validation graphs takes the price back",
        "estimators/ci_gnn_stages.py",
        "return max(FREE_LOST, 1 / len(training.validation))",
        "return FREE_LOST",
        "motif_preset",
        "one_validation_graph",
    ),
    Mutant(
        "edges of nodes that are left out are packed",
        "nn/packing.py",
        "        if not real.all():",
        "        if False:",
        "packing",
    ),
    Mutant(
        "a packed edge forgets its direction",
        "nn/packing.py",
        "h[0].index_select(0, self.source)",
        "h[0].index_select(0, self.target)",
        "packing",
    ),
    Mutant(
        "an epoch without a validation loss is kept",
        "estimators/training.py",
        " or not np.isfinite(cost):",
        ":",
        "estimators",
        "validation_loss",
    ),
    Mutant(
        "information that is no number is trained on",
        "estimators/training_loop.py",
        "terms[name].detach().isfinite() for",
        "terms[name].detach().isfinite() | True for",
        "estimators",
        "information_that",
    ),
    Mutant(
        "dropout stays on in what stands still",
        "estimators/training.py",
        "            module.eval()\n",
        "            pass\n",
        "estimators",
        "stands_still",
    ),
    Mutant(
        "scans of a subject fall on both sides",
        "estimators/subjects.py",
        "        of_graph = np.arange(len(graphs))\n    subjects",
        "        pass\n    of_graph = np.arange(len(graphs))\n    subjects",
        "estimators",
        "subject",
    ),
    Mutant(
        "classes count the same in validation",
        "estimators/settings.py",
        "    if not isinstance(class_weight, str):\n        return weight\n",
        "    return np.ones_like(weight)\n",
        "estimators",
        "class_weight",
    ),
    Mutant(
        "threads do not wait",
        "_random.py",
        "with one_thread(), torch.random.fork_rng",
        "with torch.random.fork_rng",
        "threads",
        "fits",
    ),
    # ----------------------------------------------------------------------- stacks
    Mutant(
        "all networks draw from the first generator",
        "nn/noise.py",
        "            noise._write(part, row, fill, nodes)\n",
        "            noise._write(part, 0, fill, nodes)\n",
        "stacks",
    ),
    Mutant(
        "networks that wait move",
        "estimators/network_stack.py",
        "-rate[:, None] * active[:, None] * root / corrections[0]",
        "-rate[:, None] * root / corrections[0]",
        "stacks",
    ),
    Mutant(
        "statistics of networks that wait move",
        "estimators/network_stack.py",
        "old.copy_(torch.where(_by_network(active, new) > 0, new, old))",
        "old.copy_(new)",
        "stacks",
    ),
    Mutant(
        "averages of networks that wait move",
        "estimators/network_stack.py",
        "((1 - kept) * active)[:, None]",
        "(1 - kept)[:, None]",
        "stacks",
    ),
    Mutant(
        "steps of networks that wait are counted",
        "estimators/network_stack.py",
        "self.adam_steps += active",
        "self.adam_steps += 1",
        "stacks",
    ),
    Mutant(
        "batches read again count in the losses",
        "estimators/training_loop.py",
        "counted = active * finite[name] if name in finite else active",
        "counted = finite[name].float() if name in finite else torch.ones_like(active)",
        "stacks",
    ),
    Mutant(
        "all keep the weights of the first network",
        "estimators/training_loop.py",
        "partial(self.stack.state_of, row, average=True)",
        "partial(self.stack.state_of, 0, average=True)",
        "stacks",
    ),
    Mutant(
        "the learning rate of the first is that of all",
        "estimators/training_loop.py",
        "[one.learning_rate for one in members]",
        "[members[0].learning_rate for one in members]",
        "stacks",
    ),
    Mutant(
        "a network that diverges ends the others",
        "estimators/training_loop.py",
        "        self._end(failed)\n",
        "        self._end([any(failed)] * len(failed))\n",
        "stacks",
    ),
    Mutant(
        "what is computed changes when the first network leaves",
        "estimators/training_loop.py",
        "        stage = self.stage\n        self.noise.widths",
        "        stage = self.stages[0]\n        self.noise.widths",
        "stacks",
        "company",
    ),
    Mutant(
        "padding for the sake of others changes the noise",
        "estimators/training_loop.py",
        "        self.noise.widths = batch.own\n",
        "",
        "stacks",
        "alone",
    ),
    Mutant(
        "graphs of one network are read by the next",
        "estimators/feeds.py",
        "[fitted(pool, width, at) for pool, at in zip(pools, rows, strict=True)]",
        "[fitted(pool, width, at) for pool, at in zip(pools, rows.roll(1, 0), strict=True)]",
        "stacks",
    ),
    Mutant(
        "labels do not follow their graphs",
        "estimators/training_loop.py",
        "np.stack([one.y[i] for one, i in zip(data, at, strict=True)])",
        "np.stack([np.sort(one.y[i]) for one, i in zip(data, at, strict=True)])",
        "stacks",
    ),
    Mutant(
        "the last graphs of an epoch are left out",
        "estimators/feeds.py",
        "-(-len(self) // length)).round()",
        "max(1, len(self) // length)).round()",
        "stacks",
    ),
    # ------------------------------------------------------------------ persistence
    Mutant(
        "an epoch draws what the one before it drew",
        "estimators/training_loop.py",
        "np.random.default_rng([one.seed, position])",
        "np.random.default_rng([one.seed, 0])",
        "stacks",
        "epoch_of_its_own",
    ),
    Mutant(
        "a checkpoint forgets the optimiser",
        "estimators/checkpoint.py",
        'moments = {name: parts[name] for name in ("mean", "square")}',
        'moments = {k: {n: 0 * v for n, v in parts[k].items()} for k in ("mean", "square")}',
        "persistence",
        "checkpoint or killed",
    ),
    Mutant(
        "damaged weights are read",
        "estimators/persistence.py",
        'if sha256(content) == facts["sha256"]:',
        "if True:",
        "persistence",
        "damaged",
    ),
    # ------------------------------------------------------------------- explainers
    Mutant(
        "the gradient has no size",
        "explainers/references.py",
        "edges.relative(gradient.abs(), ROUNDING)",
        "edges.relative(gradient.clamp(min=0), ROUNDING)",
        "explainers",
        "gradient",
    ),
    Mutant(
        "a mask costs nothing",
        "explainers/gnn_explainer.py",
        "size = self.size_weight * (seen * mask).sum()",
        "size = 0 * mask.sum()",
        "explainers",
        "pyg or lighter",
    ),
    Mutant(
        "PGExplainer draws each edge once",
        "explainers/pg_explainer.py",
        "edges.directed(there, back)",
        "edges.directed(there, there)",
        "explainers",
        "pg_explainer_is",
    ),
    Mutant(
        "rewards have the wrong sign",
        "explainers/rc_explainer.py",
        "return -gain.sum(0).mean()",
        "return gain.sum(0).mean()",
        "explainers",
        "decide or chance",
    ),
    Mutant(
        "OrphicX does not ask for the prediction",
        "explainers/orphicx.py",
        '"flow": -self.flow_weight * flow,',
        '"flow": self.flow_weight * flow,',
        "explainers",
        "orphicx",
    ),
    Mutant(
        "explaining freezes the network for good",
        "explainers/base.py",
        "parameter.requires_grad_(needed)",
        "pass",
        "explainers",
        "network_stays",
    ),
    # ------------------------------------------------------------------- evaluation
    Mutant(
        "sensitivity and specificity change places",
        "evaluation/classification.py",
        "sensitivity = recall[..., -1]",
        "sensitivity = recall[..., 0]",
        "evaluation",
    ),
    Mutant(
        "calibration forgets the signs",
        "evaluation/classification.py",
        "= came - promised",
        "= np.abs(came - promised)",
        "evaluation",
    ),
    Mutant(
        "truth marked one way is missed",
        "evaluation/known_edges.py",
        "marked[source, target] | marked[target, source]",
        "marked[source, target]",
        "evaluation faithfulness",
    ),
    Mutant(
        "a gap is of all edges",
        "evaluation/known_edges.py",
        "values[~true].mean()",
        "values.mean()",
        "evaluation",
    ),
    Mutant(
        "edges of the explanation are drawn too",
        "evaluation/sufficiency.py",
        "[kept | other for other in others]",
        "[other for other in others]",
        "sufficiency",
    ),
    Mutant(
        "a prediction that rises is no change",
        "evaluation/sufficiency.py",
        "np.abs(after[:, row, label] - before[row, label]).max(0)",
        "(before[row, label] - after[:, row, label]).max(0)",
        "sufficiency",
    ),
    Mutant(
        "weights of other edges are compared",
        "evaluation/sufficiency.py",
        "order[np.searchsorted(codes, wanted, sorter=order)]",
        "np.arange(len(wanted))",
        "sufficiency",
    ),
    Mutant(
        "the test part helps to choose",
        "evaluation/splits.py",
        "self.drawn.scans(part) for part in (train, validation, test)",
        "self.drawn.scans(part) for part in (train, test, test)",
        "splitters",
    ),
    Mutant(
        "overlap of training sets is ignored",
        "evaluation/statistics.py",
        "(1 / len(values) + overlap)",
        "(1 / len(values))",
        "statistics",
    ),
    Mutant(
        "a p-value may be 0",
        "evaluation/resampling.py",
        "(1 + np.sum(chance >= score - 1e-9))",
        "np.sum(chance >= score - 1e-9)",
        "statistics",
    ),
    Mutant(
        "Holm does not step",
        "evaluation/statistics.py",
        "p[order] * np.arange(len(p), 0, -1)",
        "p[order] * len(p)",
        "statistics",
    ),
    Mutant(
        "the lightest edges are kept",
        "evaluation/removal.py",
        "-np.concatenate([np.empty(0, np.float32), *scores])",
        "np.concatenate([np.empty(0, np.float32), *scores])",
        "faithfulness",
    ),
    Mutant(
        "what speaks against a decision is removed first",
        "evaluation/removal.py",
        'return contributions if side == "for" else [-values for values in contributions]',
        'return contributions if side != "for" else [-values for values in contributions]',
        "faithfulness",
    ),
    # ------------------------------------------------------------------- connectome
    Mutant(
        "ComBat takes a subject for its site",
        "connectome/combat.py",
        "real = max(observed.var() - 1 / len(residuals), 0.0)",
        "real = observed.var()",
        "connectome",
        "combat",
    ),
    Mutant(
        "ComBat leaves the spread",
        "connectome/combat.py",
        "/ np.sqrt(self.spread_[place])",
        "/ 1.0",
        "connectome",
        "combat",
    ),
    Mutant(
        "Fisher z is r",
        "connectome/connectivity.py",
        "    np.arctanh(matrices, out=matrices)\n",
        "",
        "connectome",
        "fisher",
    ),
    Mutant(
        "only positive connections are strong",
        "connectome/connectome_graphs.py",
        "self._kept(np.abs(left))",
        "self._kept(left)",
        "connectome",
    ),
    # ----------------------------------------------------------------- arrays on disk
    Mutant(
        "rows after a gap on disk are not found",
        "_mapped.py",
        "int(rows[start]) * self._row",
        "(int(rows[0]) + int(start)) * self._row",
        "mapped",
        "indexed",
    ),
    Mutant(
        "arrays on disk are believed whatever their checksums",
        "_array_folders.py",
        'if _checksum(array) != (facts["dtype"], facts["crc32"]):',
        "if not facts:",
        "mapped",
        "damaged",
    ),
    Mutant(
        "matrices on disk that are not exactly symmetric stay so",
        "graphs/building.py",
        "return adj if exact else adj.with_step(symmetrised)",
        "return adj",
        "mapped",
        "second_copy",
    ),
    Mutant(
        "a forked process removes temporary files",
        "_mapped.py",
        "if os.getpid() == owner:",
        "if owner:",
        "mapped",
        "temporary",
    ),
    # --------------------------------------------------------------------- datasets
    Mutant(
        "the joint counts as motif",
        "datasets/motifs.py",
        ">= len(edges) - len(motif_edges)",
        ">= len(base_edges)",
        "datasets",
    ),
    Mutant(
        "training bases are unbiased",
        "datasets/motifs.py",
        'chance = np.where(groups == "train", bias, 1 / 3)',
        'chance = np.where(groups == "train", 1 / 3, 1 / 3)',
        "datasets",
    ),
    Mutant(
        "planted edges move controls",
        "datasets/simulated.py",
        "draw_carriers(ill, subtypes, either_direction, rng)",
        "draw_carriers(~ill, subtypes, either_direction, rng)",
        "simulated_cohorts",
    ),
    Mutant(
        "loops count as neighbours",
        "datasets/tu.py",
        "low[low != high] * n_nodes + high[low != high]",
        "low * n_nodes + high",
        "datasets",
    ),
    # ------------------------------------------------------------ numbers in reports
    Mutant(
        "Wilson's interval forgets its centre",
        "report/curves.py",
        "middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)",
        "middle = share + 0 * n",
        "score_figures",
    ),
    Mutant(
        "edges between systems are missed from one end",
        "explanations/explanation.py",
        "np.minimum(source, target) * len(names) + np.maximum(source, target)",
        "source * len(names) + target",
        "explanations",
    ),
    Mutant(
        "pooled directions are tried on the graphs they were made from",
        "estimators/excess_variance.py",
        "areas[i] = 0.5 + found.signs * (_area(sizes[:, ~half], own[~half]) - 0.5)",
        "areas[i] = 0.5 + found.signs * (_area(np.abs(found.project(z[half])), own[half]) - 0.5)",
        "excess_variance",
        "linear_model",
    ),
    Mutant(
        "modes that do not return are pooled",
        "explanations/pooling.py",
        "return np.sqrt(ratios[0] * ratios[1]) > LEAST_RATIO",
        "return np.sqrt(ratios[0] * ratios[1]) > 0",
        "pooling",
    ),
    Mutant(
        "what networks have learnt by heart is pooled",
        "explanations/pooling.py",
        "> LEAST_RATIO * squares[~unseen.own].mean(0)",
        "> 0 * squares[~unseen.own].mean(0)",
        "pooling",
    ),
    Mutant(
        "contributions are turned without their base",
        "explanations/explained_graphs.py",
        "base=base * signs,",
        "base=base,",
        "explanations",
    ),
    Mutant(
        "what speaks against counts as speaking for",
        "report/evidence.py",
        "for side, part in enumerate((values, -values)):",
        "for side, part in enumerate((values, values)):",
        "report_evidence",
        "add_up",
    ),
    Mutant(
        "means of contributions mix both classes' signs",
        "report/evidence.py",
        "signs = np.where(found.explained == positive, 1.0, -1.0)",
        "signs = np.where(found.explained == positive, 1.0, 1.0)",
        "report_evidence",
        "positive_class",
    ),
    Mutant(
        "top connections of opposite sign count as shared",
        "explainers/readings.py",
        "np.sign(maps), 0.0)",
        "1.0, 0.0)",
        "explain_group",
        "overlap",
    ),
    Mutant(
        "a reading is chosen without regard to permuted labels",
        "explainers/readings.py",
        "if len(self.null) < 3:\n            return CLEAR",
        "if True:\n            return CLEAR",
        "explain_group",
        "chooses_nothing",
    ),
    Mutant(
        "a group is explained by networks that were interrupted",
        "explainers/group.py",
        "            raise KeyboardInterrupt\n",
        "            pass\n",
        "explain_group",
        "interrupted",
    ),
    Mutant(
        "pairs of systems that do not survive have a colour",
        "report/group.py",
        "stars, caption, note, coloured=stars)",
        "stars, caption, note, coloured=~stars)",
        "report_evidence",
        "pairs_of_systems",
    ),
    Mutant(
        "methods are ranked upside down",
        "report/performance.py",
        "key=lambda m: -np.nan_to_num(",
        "key=lambda m: np.nan_to_num(",
        "html_report",
        "ranked or listed",
    ),
]


class Outcome(NamedTuple):
    """What came of a defect: "killed", "survived", "not there" or "no answer", and after how many seconds."""

    mutant: Mutant
    verdict: str
    seconds: float
    last: str = ""  # words of pytest


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, run, print the table; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m campaigns.mutants", description=__doc__)
    parser.add_argument("--only", default="", help="words of the names of defects, separated by commas")
    parser.add_argument("--jobs", type=int, default=2, help="defects tried at the same time")
    parser.add_argument("--source", type=Path, default=ROOT / "src", help="what is broken, a copy of it")
    given = parser.parse_args(arguments)
    only = [word for word in given.only.split(",") if word]
    chosen = [mutant for mutant in MUTANTS if not only or any(word in mutant.name for word in only)]
    with TemporaryDirectory(prefix="cignn-mutants-") as folder:
        source = shutil.copytree(given.source, Path(folder) / "whole")  # the same for all, whoever edits
        check_import(source)
        with ThreadPoolExecutor(given.jobs) as pool:
            asked = sorted({(mutant.tests, mutant.words) for mutant in chosen})
            sound = dict(zip(asked, pool.map(lambda tests: passes(source, *tests), asked), strict=True))
            outcomes = []
            for outcome in pool.map(lambda mutant: try_mutant(mutant, source), chosen):
                if not sound[outcome.mutant.tests, outcome.mutant.words]:
                    outcome = outcome._replace(verdict="no answer", last="its tests fail without it")
                outcomes.append(outcome)
                print(f"{outcome.verdict:10} {outcome.seconds:5.0f} s  {outcome.mutant.name}", flush=True)
                if outcome.verdict != "killed":
                    print(f"             {outcome.mutant.file}: {outcome.mutant.old.strip()}\n{outcome.last}")
    killed = sum(outcome.verdict == "killed" for outcome in outcomes)
    print(f"{killed} of {len(outcomes)} defects were noticed")
    return int(killed < len(outcomes))


def try_mutant(mutant: Mutant, source: Path) -> Outcome:
    """Run the tests of a defect against a copy of ``source`` that has it."""
    began = time.monotonic()
    text = (source / "cignn" / mutant.file).read_text()
    if text.count(mutant.old) != 1:
        return Outcome(mutant, "not there", 0.0)
    with TemporaryDirectory(prefix="cignn-mutant-") as folder:
        copy = shutil.copytree(source, Path(folder) / "src")
        (copy / "cignn" / mutant.file).write_text(text.replace(mutant.old, mutant.new))
        try:
            done = run_tests(copy, mutant.tests, mutant.words)
        except subprocess.TimeoutExpired:
            return Outcome(mutant, "killed", time.monotonic() - began)
    verdict = {0: "survived", 1: "killed"}.get(done.returncode, "no answer")
    return Outcome(mutant, verdict, time.monotonic() - began, done.stdout[-800:])


def passes(source: Path, tests: str, words: str) -> bool:
    """Whether the tests pass without any defect; else say what fails, since they could notice nothing."""
    done = run_tests(source, tests, words)
    if done.returncode:
        print(
            f"without any defect, tests of {tests} ({words or 'all'}) fail:\n{done.stdout[-3000:]}",
            flush=True,
        )
    return not done.returncode


def run_tests(source: Path, tests: str, words: str) -> subprocess.CompletedProcess[str]:
    """Run files of tests against the package in ``source`` until the first failure."""
    files = [str(ROOT / "tests" / f"test_{name}.py") for name in tests.split()]
    options = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", *(["-k", words] if words else [])]
    return _python(source, "-m", "pytest", *options, *files)


def check_import(source: Path) -> None:
    """Make sure that tests see the package in ``source`` and not the one that is installed."""
    found = _python(source, "-c", "import cignn; print(cignn.__file__)").stdout.strip()
    if Path(found).resolve().parent != (source / "cignn").resolve():
        raise RuntimeError(f"tests would import {found}, not the copy in {source}.")


def _python(source: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    settings = {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
    )


if __name__ == "__main__":
    sys.exit(main())
