"""What must hold for CI-GNN as a whole: its subgraph, its losses and the gradients that reach each part."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

import cignn.nn.ci_gnn as module
from cignn import CIGNNClassifier, GraphSet
from cignn.graphs import GraphBatch
from cignn.information import (
    conditional_mutual_information,
    gaussian_gram,
    hsic,
    label_gram,
    mutual_information,
)
from cignn.nn import CIGNN, InnerProduct, Latent, Noise, edge_information
from cignn.nn.ci_gnn import PRICE_FLOOR, _node_mean
from cignn.nn.classifiers import GraphNetwork
from cignn.nn.layers import NodeNorm

close = torch.testing.assert_close

K, L = 5, 3
SMALL = {"n_causal": K, "n_noncausal": L, "encoder_hidden": (8, 8), "classifier_hidden": (8, 8)}
FORMS: dict[str, dict[str, Any]] = {
    "default": {"encoder": "gin"},
    "paper": {"encoder_activation": "sigmoid", "mask": "soft", "separate_products": False},
    "attention": {"encoder": "gat", "classifier": "gat", "readout": "mean"},
    "sparse encoder": {"encoder_density": 0.3, "classifier": "gcn", "readout": "max"},
    "motif": {
        "encoder": "gin",
        "mask_by": "pairs",
        "temperature": 0.3,
        "node_weights": True,
        "bound": 3.0,
        "constant": True,
        "rest": True,
        "cut": True,
        "limit": True,
        "pricing": "relative",
        "readout": "max",
    },
}
every_form = pytest.mark.parametrize("form", FORMS)


def make_model(form: str = "default", **settings: Any) -> CIGNN:
    """A small network of the form, not trained, in eval mode; its running statistics are not special."""
    torch.manual_seed(0)
    model = CIGNN(3, 2, **{**SMALL, "head_hidden": (6,), **FORMS[form], **settings}).double()
    for part in model.modules():
        if isinstance(part, NodeNorm):
            nn.init.normal_(part.running_mean, 0, 0.1)
            nn.init.uniform_(part.running_var, 0.5, 2)
    if form == "motif":
        model.label_entropy.fill_(10.0)  # as if labels were explained: every term counts
    return model.eval()


def make_batch(sizes: list[int], density: float = 0.6, seed: int = 0) -> GraphBatch:
    """Graphs with signed weights, three features and classes 0, 1, 0, 1 …, in float64."""
    rng = np.random.default_rng(seed)
    adj = []
    for n in sizes:
        upper = np.triu(rng.normal(size=(n, n)) * (rng.random((n, n)) < density), 1)
        adj.append(upper + upper.T)
    graphs = GraphSet.from_arrays(adj, [rng.normal(size=(n, 3)) for n in sizes])
    batch = graphs.batch(y=np.arange(len(sizes)) % 2)
    return replace(batch, x=batch.x.double(), adj=batch.adj.double())


def take(batch: GraphBatch, i: int) -> GraphBatch:
    """Graph i alone, without padding."""
    n = int(batch.n_nodes[i])
    one = slice(i, i + 1)
    y = None if batch.y is None else batch.y[one]
    return GraphBatch(batch.x[one, :n], batch.adj[one, :n, :n], batch.mask[one, :n], y, padded=False)


def pad(batch: GraphBatch, more: int) -> GraphBatch:
    fill = nn.functional.pad
    x, adj = fill(batch.x, (0, 0, 0, more)), fill(batch.adj, (0, more, 0, more))
    return GraphBatch(x, adj, fill(batch.mask, (0, more)), batch.y)


class Fixed(nn.Module):
    """Stands for a part of the model: always gives the same answer."""

    def __init__(self, answer: Tensor) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, *_: Any) -> Tensor:
        return self.answer


class FixedClassifier(GraphNetwork):
    """A classifier that always gives the same logits."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__(3, 2)
        self.logits = logits

    def forward(self, *_: Any) -> Tensor:
        return self.logits


def losses_of(model: CIGNN, batch: GraphBatch, seed: int = 0) -> dict[str, Tensor]:
    """Every loss of all stages, the last with all its options; noise is that of graphs without padding."""
    noise = Noise([torch.Generator().manual_seed(seed)])
    noise.widths = [int(batch.n_nodes.max())]
    stages = {
        "generative": model.generative_losses(batch, noise),
        "warm-up": model.warm_up_losses(batch, noise),
        "classification": model.classification_losses(batch, keep=0.5, generative=True, noise=noise),
    }
    return {f"{stage} {name}": value for stage, terms in stages.items() for name, value in terms.items()}


# ------------------------------------------------------------------- the graph


@every_form
@pytest.mark.parametrize("training", [False, True])
def test_edge_weights_lie_on_the_edges(form: str, training: bool) -> None:
    batch = make_batch([6, 4, 1, 7])
    weights = make_model(form).train(training)(batch).edge_weights
    close(weights, weights.transpose(1, 2), atol=0, rtol=0)
    assert not weights[~batch.edge_mask].any()
    inside = weights[batch.edge_mask]
    assert ((inside > 0) & (inside < 1)).all()


@every_form
def test_relabelling_nodes_permutes_the_edge_weights_and_keeps_the_prediction(form: str) -> None:
    model, batch, order = make_model(form), make_batch([6, 6]), torch.tensor([3, 0, 5, 1, 4, 2])
    moved = replace(batch, x=batch.x[:, order], adj=batch.adj[:, order][:, :, order])
    here, there = model(batch), model(moved)
    close(there.edge_weights, here.edge_weights[:, order][:, :, order])
    close(there.logits, here.logits)
    close(model.generative_losses(moved), model.generative_losses(batch))


@every_form
def test_padding_changes_nothing(form: str) -> None:
    model, batch = make_model(form), make_batch([6, 3, 1, 7])
    here, there = model(batch), model(pad(batch, 4))
    close(there.logits, here.logits)
    close(there.edge_weights[:, :7, :7], here.edge_weights)
    assert not there.edge_weights[:, 7:].any()
    close(losses_of(model, pad(batch, 4)), losses_of(model, batch))


@every_form
def test_a_batch_without_padding_may_skip_the_masks(form: str) -> None:
    """The short way round and the masked way give the same numbers, batch statistics and all."""
    batch = make_batch([5, 5, 5, 5])
    assert batch.padding is None
    masked = replace(batch, padded=True)
    one, other = make_model(form).train(), make_model(form).train()
    close(losses_of(one, batch), losses_of(other, masked))
    close(one.state_dict(), other.state_dict())


@every_form
def test_a_prediction_does_not_depend_on_its_batch_mates(form: str) -> None:
    model, batch = make_model(form), make_batch([6, 3, 1, 7])
    together = model(batch)
    assert (together.logits - together.logits.roll(1, 0)).abs().amax(1).min() > 1e-4
    for i, n in enumerate(batch.n_nodes.tolist()):
        alone = model(take(batch, i))
        close(alone.logits, together.logits[i : i + 1])
        close(alone.edge_weights, together.edge_weights[i : i + 1, :n, :n])


# ---------------------------------------------------------------- the subgraph


@every_form
def test_every_graph_has_a_mask_of_its_own(form: str) -> None:
    model, batch = make_model(form), make_batch([6, 6, 6], density=1)
    weights = model(batch).edge_weights
    assert (weights - weights.roll(1, 0)).abs().amax((1, 2)).min() > 1e-4


@every_form
def test_edge_weights_are_one_sigmoid_of_their_logits(form: str) -> None:
    model, batch = make_model(form), make_batch([6, 4])
    out = model(batch)
    close(out.edge_weights, torch.sigmoid(out.edge_logits) * batch.edge_mask)


@pytest.mark.parametrize("form", ["default", "paper"])
def test_edge_weights_can_span_the_unit_interval(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Squashed twice they would lie in [0.5, 0.73], three times in [0.62, 0.68]."""
    model, batch = make_model(form), make_batch([8], density=1)
    z = torch.zeros(1, 8, K + L, dtype=torch.float64)
    z[0, :, 0] = 100 * torch.tensor([1, 1, 1, 1, -1, -1, -1, -1])
    monkeypatch.setattr(model, "encode", lambda *_: (Latent(z, z), z))
    inside = model(batch).edge_weights[batch.edge_mask]
    assert inside.min() < 0.1 and inside.max() > 0.9


def test_the_classifier_reads_the_subgraph_only() -> None:
    """An edge that is out is, to the classifier, no edge; the signs of the others stay."""
    model, batch = make_model(), make_batch([6, 5])
    gone = torch.zeros_like(batch.adj, dtype=torch.bool)
    gone[:, 0] = gone[:, :, 0] = True
    assert (batch.edge_mask & gone).any()
    model.subgraph = Fixed(torch.where(gone, -1e4, 1e4).double())
    there = model(batch).logits
    close(there, model.classifier(batch.x, batch.adj.masked_fill(gone, 0), batch.mask))
    assert not torch.allclose(there, model.classifier(batch.x, batch.adj, batch.mask), atol=1e-3)


def test_edges_are_drawn_while_training_and_only_then() -> None:
    model, batch = make_model(), make_batch([6, 4])
    model.noisy = False
    model.train()
    one, other = model(batch), model(batch)
    close(one.edge_logits, other.edge_logits)
    assert not torch.allclose(one.edge_weights, other.edge_weights)
    model.mask = "soft"
    out = model(batch)
    close(out.edge_weights, torch.sigmoid(out.edge_logits) * batch.edge_mask)


@every_form
def test_latents_are_drawn_while_training_and_only_then(form: str) -> None:
    model, batch = make_model(form), make_batch([6, 4])
    latent, z = model.encode(batch)
    close(z, latent.mean, atol=0, rtol=0)
    close(model(batch).logits, model(batch).logits, atol=0, rtol=0)
    model.train()
    assert not torch.allclose(model.encode(batch)[1], model.encode(batch)[1])
    model.noisy = False  # an encoder that is no longer trained
    latent, z = model.encode(batch)
    close(z, latent.mean, atol=0, rtol=0)


def test_alpha_and_beta_are_the_two_parts_of_the_latent() -> None:
    model, batch = make_model(), make_batch([6, 4])
    out = model(batch)
    close(torch.cat([out.alpha, out.beta], -1), out.latent.mean)
    assert out.alpha.shape[-1] == K and out.beta.shape[-1] == L
    close(out.edge_logits, model.subgraph(out.alpha))  # β says nothing about the subgraph


# ------------------------------------------------------------------- gradients


def trainable(form: str, **settings: Any) -> CIGNN:
    """In train mode, normalised by running statistics: by the batch's own, a bias before them cancels."""
    model = make_model(form, dropout=0.0, **settings).train()
    for part in model.modules():
        if isinstance(part, NodeNorm):
            part.eval()
    return model


def assert_all_reached(loss: Tensor, *parts: nn.Module) -> None:
    for part in parts:
        trained = [(name, value) for name, value in part.named_parameters() if value.requires_grad]
        names, parameters = zip(*trained, strict=True)
        gradients = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
        for name, gradient in zip(names, gradients, strict=True):
            assert gradient is not None, f"no gradient for {type(part).__name__}.{name}"
            assert gradient.isfinite().all() and gradient.abs().max() > 1e-12, name


@pytest.mark.parametrize("form", ["default", "paper"])
def test_stage_one_moves_every_parameter_of_encoder_and_decoders(form: str) -> None:
    model = trainable(form)
    losses = model.generative_losses(make_batch([6, 4, 7, 5]))
    assert_all_reached(sum(losses.values()), model.encoder, model.decoders)


@every_form
def test_stage_two_moves_every_parameter_of_encoder_subgraph_and_classifier(form: str) -> None:
    model = trainable(form)
    losses = model.classification_losses(make_batch([6, 4, 7, 5]), keep=0.3)
    assert_all_reached(sum(losses.values()), model.encoder, model.subgraph, model.classifier)


def head(layer: nn.Module) -> nn.Parameter:
    """The weight (K + L, hidden) of a latent head."""
    return getattr(layer, "linear", layer).weight


@pytest.mark.parametrize("term", ["classification", "causal", "independence"])
@pytest.mark.parametrize("form", ["default", "paper"])
def test_labels_and_the_causal_terms_reach_alpha(form: str, term: str) -> None:
    model = trainable(form)
    loss = model.classification_losses(make_batch([6, 4, 7, 5]))[term]
    (gradient,) = torch.autograd.grad(loss, [head(model.encoder.mean)], retain_graph=True)
    assert gradient[:K].any(1).all()
    (deep,) = torch.autograd.grad(loss, [next(model.encoder.layers[0].parameters())])
    assert deep.any()


@pytest.mark.parametrize("term", ["features", "adjacency", "kl"])
@pytest.mark.parametrize("form", ["default", "paper"])
def test_beside_the_classifier_reconstruction_moves_beta_and_not_alpha(form: str, term: str) -> None:
    model = trainable(form)
    loss = model.classification_losses(make_batch([6, 4, 7, 5]), generative=True)[term]
    heads = [head(model.encoder.mean), head(model.encoder.log_std)]
    for gradient in torch.autograd.grad(loss, heads):
        assert not gradient[:K].any()
        assert gradient[K:].any(1).all()


def test_in_stage_one_reconstruction_moves_alpha_too() -> None:
    model = trainable("default")
    losses = model.generative_losses(make_batch([6, 4, 7, 5]))
    for term in ("features", "adjacency", "kl"):
        (gradient,) = torch.autograd.grad(losses[term], head(model.encoder.mean), retain_graph=True)
        assert gradient.any(1).all()


# ------------------------------------------------------------------ the GraphVAE


def divergence(model: CIGNN, batch: GraphBatch, mean: Tensor, log_std: Tensor) -> Tensor:
    z = torch.zeros_like(mean)
    return model.reconstruction_losses(Latent(mean, log_std), z, batch)["kl"]


def test_kl_is_the_divergence_from_the_standard_normal() -> None:
    model, batch = make_model(), make_batch([6, 2, 4])
    mean, log_std = torch.randn(2, 3, 6, K + L, dtype=torch.float64)
    normal = torch.zeros_like(mean)
    expected = kl_divergence(Normal(mean, log_std.exp()), Normal(normal, normal + 1)).sum(-1)
    per_graph = [row[nodes].mean() for row, nodes in zip(expected, batch.mask, strict=True)]
    close(divergence(model, batch, mean, log_std), torch.stack(per_graph).mean())
    assert divergence(model, batch, normal, normal) == 0


def test_minimising_kl_pulls_the_latent_to_the_standard_normal() -> None:
    model, batch = make_model(), make_batch([3, 3])
    mean, log_std = 0.5 * torch.randn(2, 2, 3, K + L, dtype=torch.float64)
    parameters = [mean.requires_grad_(), log_std.requires_grad_()]
    optimiser = torch.optim.SGD(parameters, lr=1.0)
    for _ in range(100):
        optimiser.zero_grad()
        divergence(model, batch, *parameters).backward()
        optimiser.step()
    assert mean.abs().max() < 0.01 and log_std.abs().max() < 0.01


def test_training_adds_the_terms_of_both_stages() -> None:
    """What stage I minimises is the sum with +KL, and what the paper's stage II minimises is L2."""
    batch = make_batch([5, 6] * 8)
    adj = [take(batch, i).adj[0].numpy() for i in range(16)]
    classifier = CIGNNClassifier(
        "paper",
        settings=SMALL | {"generative_epochs": 2, "causal_weight": 0.7},
        epochs=3,
        device="cpu",
        random_state=0,
    ).fit(GraphSet.from_arrays(adj, y=np.arange(16) % 2))
    rows = classifier.history_.set_index("stage")
    causal = 0.7 * (rows["independence"] + rows["causal"])
    first = (rows["features"] + rows["adjacency"] + rows["kl"] + causal)["generative"]
    np.testing.assert_allclose(rows["loss"]["generative"], first, rtol=1e-5)
    second = (rows["classification"] + causal)["classification"]
    np.testing.assert_allclose(rows["loss"]["classification"], second, rtol=1e-5)


@every_form
def test_reconstruction_is_a_mean_over_graphs(form: str) -> None:
    model, batch = make_model(form), make_batch([6, 2, 4])
    latent, z = model.encode(batch)
    together = model.reconstruction_losses(latent, z, batch)
    alone = []
    for i in range(3):
        one = take(batch, i)
        alone.append(model.reconstruction_losses(*model.encode(one), one))
    for name, value in together.items():
        close(value, torch.stack([losses[name] for losses in alone]).mean())


def test_reconstruction_vanishes_for_a_perfect_decoder() -> None:
    model, batch = make_model(), make_batch([6, 2, 4])
    latent, z = model.encode(batch)
    z = z.detach().clone()
    model.feature_scale.copy_(torch.tensor([2, 0.5, 3]))
    same = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    garbage = torch.where(batch.mask.unsqueeze(-1), 0.0, 99.0)  # padded nodes do not count
    batch = replace(batch, x=same + garbage)
    last = model.decoders["features"][-1]
    last.weight.data.zero_()
    last.bias.data.copy_(same / model.feature_scale)
    # logits 1e3 · (1 - zzᵀ), zzᵀ = 0 on edges and 2 or more elsewhere
    gram = 2 * (1 - batch.edges) + 20 * torch.eye(6, dtype=torch.float64)
    z[..., :6] = torch.linalg.cholesky(gram)
    z[..., 6:] = 0
    model.decoders["adjacency"] = InnerProduct(K + L, projected=False).double()
    model.decoders["adjacency"].gain.data.fill_(-1e3)
    model.decoders["adjacency"].bias.data.fill_(1e3)
    losses = model.reconstruction_losses(latent, z, batch)
    assert losses["features"] < 1e-5 and losses["adjacency"] < 1e-5
    (gradient,) = torch.autograd.grad(losses["features"], last.weight)
    assert gradient.isfinite().all()  # a norm has none at zero of itself


# ------------------------------------------------------------ the causal effect


def pooled(node_values: Tensor, batch: GraphBatch) -> Tensor:
    """(graphs, d): the mean over the real nodes of each graph, one by one."""
    return torch.stack([value[nodes].mean(0) for value, nodes in zip(node_values, batch.mask, strict=True)])


def test_information_is_measured_over_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not over nodes: a batch of 32 brains would have thousands of samples, at cubic cost."""
    model, batch, seen = make_model().train(), make_batch([6, 2, 4, 7, 5]), []
    monkeypatch.setattr(module, "gaussian_gram", lambda x: seen.append(x.shape) or gaussian_gram(x))
    model.classification_losses(batch)
    assert sorted(seen) == [(5, L), (5, K)]


@pytest.mark.parametrize("causal_effect", ["cmi", "cmi_prediction", "mi"])
def test_one_call_for_all_eigenvalues(causal_effect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch, calls = make_model(causal_effect=causal_effect), make_batch([6, 2, 4]), []
    eigh = torch.linalg.eigh
    monkeypatch.setattr(torch.linalg, "eigh", lambda x: calls.append(x.shape) or eigh(x))
    model.classification_losses(batch, keep=0.5, generative=True)
    assert len(calls) == 1


def causal_losses(causal_effect: str | None, y: Tensor, logits: Tensor, **more: Any) -> dict[str, Tensor]:
    """The causal losses of one and the same batch of graphs, with other labels and logits."""
    model, batch = make_model(causal_effect=causal_effect, **more), make_batch([6, 2, 4, 7, 5, 3])
    out = model(batch)
    return model.causal_losses(_node_mean(out.latent.mean, batch), logits, replace(batch, y=y))


LABELS = torch.tensor([0, 1, 2, 0, 1, 2])
OTHER_LABELS = torch.tensor([0, 0, 0, 1, 1, 1])
LOGITS = torch.randn(6, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
OTHER_LOGITS = torch.randn(6, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def test_causal_losses_are_the_informations_of_the_paper() -> None:
    batch = make_batch([6, 2, 4, 7, 5, 3])
    out = make_model()(batch)
    alpha, beta = (gaussian_gram(pooled(value, batch)) for value in (out.alpha, out.beta))
    y, prediction = label_gram(LABELS), gaussian_gram(torch.softmax(LOGITS, -1))
    expected = {
        "cmi": conditional_mutual_information(alpha, y, beta),
        "cmi_prediction": conditional_mutual_information(alpha, prediction, beta),
        "mi": mutual_information(alpha, y),
    }
    assert len({round(value.item(), 6) for value in expected.values()}) == 3
    for causal_effect, value in expected.items():
        losses = causal_losses(causal_effect, LABELS, LOGITS)
        close(losses["causal"], -value)
        close(losses["independence"], mutual_information(alpha, beta))
        close(losses["hsic"], hsic(alpha, beta))
        assert not losses["hsic"].requires_grad  # a check beside the loss, not part of it


@pytest.mark.parametrize("causal_effect", ["cmi", "mi"])
def test_labels_enter_as_names_not_as_numbers(causal_effect: str) -> None:
    value = causal_losses(causal_effect, LABELS, LOGITS)["causal"]
    renamed = torch.tensor([7, 1, 0])[LABELS]
    close(causal_losses(causal_effect, renamed, OTHER_LOGITS)["causal"], value)
    assert abs(causal_losses(causal_effect, OTHER_LABELS, LOGITS)["causal"] - value) > 1e-3


def test_the_effect_on_the_prediction_needs_no_labels() -> None:
    value = causal_losses("cmi_prediction", LABELS, LOGITS)["causal"]
    close(causal_losses("cmi_prediction", OTHER_LABELS, LOGITS)["causal"], value)
    assert abs(causal_losses("cmi_prediction", LABELS, OTHER_LOGITS)["causal"] - value) > 1e-3


def test_latent_noise_does_not_enter_the_information_terms() -> None:
    """Drawn latents pooled over nodes are mostly noise: estimates would be those of independent samples."""
    model, batch = make_model().train(), make_batch([6, 4, 7, 5])
    model.encoder.eval()  # the same batch statistics in both passes
    first, second = model(batch), model(batch)
    assert not torch.equal(first.alpha, second.alpha)
    terms = [
        model.causal_losses(_node_mean(out.latent.mean, batch), out.logits, batch) for out in (first, second)
    ]
    losses = model.classification_losses(batch)
    for name in ("independence", "causal", "hsic"):
        close(terms[0][name], terms[1][name])
        close(losses[name], terms[0][name])


def test_terms_can_be_left_out() -> None:
    assert set(causal_losses("cmi", LABELS, LOGITS)) == {"independence", "causal", "hsic"}
    assert set(causal_losses(None, LABELS, LOGITS)) == {"independence", "hsic"}
    assert set(causal_losses("mi", LABELS, LOGITS, independence=False)) == {"causal", "hsic"}
    assert set(causal_losses(None, LABELS, LOGITS, independence=False)) == {"hsic"}


# ------------------------------------------------------------ what is left out


def test_the_rest_is_what_the_subgraph_leaves() -> None:
    """Subgraph and rest add up to the graph, and the rest is read of every fourth graph only."""
    model, batch = make_model(rest=True).train(), make_batch([6, 4, 7, 5, 3])
    read: list[Tensor] = []
    forward = model.classifier.forward

    def record(x: Tensor, adj: Tensor, *rest: Any) -> Tensor:
        read.append(adj)
        return forward(x, adj, *rest)

    model.classifier.forward = record  # type: ignore[method-assign]
    out = model(batch)
    (adj,) = read
    some = slice(None, None, module.SOME)
    close(adj[: len(batch)], batch.adj * out.edge_weights)
    close(adj[len(batch) :] + adj[: len(batch)][some], batch.adj[some])
    assert out.logits.shape == (5, 2) and out.rest_logits is not None and out.rest_logits.shape == (2, 2)


def test_the_rest_costs_nothing_where_it_tells_only_how_frequent_classes_are() -> None:
    """Nor before the subgraphs themselves tell anything."""
    model, batch = make_model(rest=True).train(), make_batch([6, 4, 7, 5])
    share = torch.tensor([0.75, 0.25], dtype=torch.float64)
    model.class_share.copy_(share)
    model.label_entropy.fill_(-(share * share.log()).sum())
    sure = torch.tensor([[9.0, -9.0]], dtype=torch.float64)
    right = 100.0 * torch.nn.functional.one_hot(batch.y, 2).double()
    entropy = model.label_entropy.item()
    for subgraphs, told, cost in (
        (right, share.log()[None], 0.0),
        (right, sure, 0.25 * 18 - entropy),  # 18: what log-odds 9 : -9 deny
        (-right, sure, 0.0),
    ):
        model.classifier = FixedClassifier(torch.cat([subgraphs, told]))
        losses = model.classification_losses(batch)
        assert losses["rest"].item() == pytest.approx(cost, abs=1e-6)


def test_the_rest_is_not_read_when_predicting_or_when_not_asked_for() -> None:
    batch = make_batch([6, 4, 7, 5])
    assert make_model(rest=True).eval()(batch).rest_logits is None
    assert "rest" not in make_model().train().classification_losses(batch)


# --------------------------------------------------------------- price and limits


@pytest.mark.parametrize("whole", [1.0, 0.5])
def test_an_edge_costs_little_before_it_explains_anything(whole: float) -> None:
    """A small part at first; all of it once subgraphs explain most of what whole graphs explain."""
    model, batch = make_model(pricing="relative"), make_batch([6, 4, 7, 5])
    model.whole_share.fill_(whole)
    full = edge_information(model(batch).edge_logits, batch.edge_mask, 0.2).item()
    right = torch.nn.functional.one_hot(batch.y, 2).double()
    prices = []
    for share in (-5.0, 0.0, 0.55, 0.7, 0.8, 0.91, 1.0):  # of what whole graphs explain
        surety = -np.log(2 ** (1 - min(share * whole, 0.99)) - 1)  # whose cross-entropy leaves the rest
        model.classifier = FixedClassifier(surety * right)
        prices.append(model.classification_losses(batch, keep=0.2)["edges"].item())
    assert full > 0.01
    assert prices[:3] == pytest.approx([PRICE_FLOOR * full] * 3)
    assert prices[2] < prices[3] < prices[4] < prices[5]
    assert prices[5:] == pytest.approx([full] * 2)
    fixed = make_model(pricing="fixed")
    paid = edge_information(fixed(batch).edge_logits, batch.edge_mask, 0.2).item()
    for logits in (-10 * right, 100 * right):
        fixed.classifier = FixedClassifier(logits)
        assert fixed.classification_losses(batch, keep=0.2)["edges"].item() == pytest.approx(paid)


def test_the_price_measures_explanation_against_the_entropy_of_the_classes() -> None:
    """Where one class is rare, naming its frequency explains nothing either."""
    model, batch = make_model(pricing="relative"), make_batch([6, 4, 7, 5])
    share = torch.tensor([0.75, 0.25], dtype=torch.float64)
    rare = replace(batch, y=torch.tensor([0, 0, 0, 1]))
    model.label_entropy.fill_(-(share * share.log()).sum())
    model.classifier = FixedClassifier(share.log().expand(4, 2))
    full = edge_information(model(rare).edge_logits, rare.edge_mask, 0.2)
    price = model.classification_losses(rare, keep=0.2)["edges"]
    assert price.item() == pytest.approx(PRICE_FLOOR * full.item())


def test_the_price_does_not_reward_a_worse_prediction() -> None:
    model = trainable("default")
    model.pricing = "relative"
    price = model.classification_losses(make_batch([6, 4, 7, 5]), keep=0.2)["edges"]
    gradients = torch.autograd.grad(price, list(model.classifier.parameters()), allow_unused=True)
    assert all(gradient is None for gradient in gradients)


def test_without_keep_edges_are_free() -> None:
    assert "edges" not in make_model().classification_losses(make_batch([6, 4]))


def twins() -> GraphBatch:
    one = make_batch([5])
    parts = [part.repeat_interleave(4, 0) for part in (one.x, one.adj, one.mask)]
    return GraphBatch(*parts, torch.tensor([0, 1, 0, 1]), padded=False)


HARD = {
    "a graph of one node": lambda: make_batch([5, 1, 6]),
    "no edges": lambda: make_batch([5, 4, 6], density=0),
    "one graph": lambda: make_batch([5]),
    "one graph of one node": lambda: make_batch([1]),
    "equal graphs": twins,
    "one class": lambda: replace(make_batch([5, 4, 6]), y=torch.zeros(3, dtype=torch.long)),
    "huge features": lambda: replace(make_batch([5, 4, 6]), x=1e6 * make_batch([5, 4, 6]).x),
}


@pytest.mark.parametrize("causal_effect", ["cmi", "cmi_prediction", "mi"])
@pytest.mark.parametrize("hard", HARD)
@every_form
def test_losses_and_gradients_are_finite(form: str, hard: str, causal_effect: str) -> None:
    model = make_model(form, causal_effect=causal_effect).train()
    losses = losses_of(model, HARD[hard]())
    assert all(value.isfinite() for value in losses.values()), losses
    sum(losses.values()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name
    assert all(value.isfinite().all() for value in model.state_dict().values())


# ---------------------------------------------------------------------- imports


@pytest.mark.medium
def test_networks_need_no_plotting_or_imaging_package() -> None:
    """A GPU box may have only torch and scikit-learn."""
    code = """
import sys
for name in ("nilearn", "matplotlib", "rdkit"):
    sys.modules[name] = None  # import raises ModuleNotFoundError
import cignn.graphs, cignn.information, cignn.nn, cignn.estimators, cignn.explainers
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
