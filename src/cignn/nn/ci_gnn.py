"""CI-GNN: a network that reads graphs through their causal subgraphs, and the losses that train it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cignn.graphs import GraphBatch
from cignn.information import causal_terms, gaussian_gram, hsic, label_gram
from cignn.nn.autoencoder import Latent
from cignn.nn.layers import mean_readout, zero_padding
from cignn.nn.model import Losses
from cignn.nn.noise import Noise
from cignn.nn.subgraph import EdgeMeans, heaviest_edges
from cignn.nn.subgraph_network import SOME, SubgraphNetwork

CAUSAL_EFFECTS = ("cmi", "cmi_prediction", "mi", None)
PRICES = ("relative", "fixed")
LOGIT_LIMIT = 3.0  # beyond it logits are held back: where p (1 − p) vanishes no price moves an edge any more
# shares of what whole graphs explain between which price, rest and consistency grow from little or nothing to
# all: a network is not held to the first thing it finds, and one that loses its way is let go
EXPLAINED_FROM, EXPLAINED_FULL, PRICE_FLOOR = 0.6, 0.9, 0.05
# how fast the share that the warm-up explains is averaged, and its least value
WHOLE_RATE, LEAST_WHOLE = 0.05, 0.05


class CIGNN(SubgraphNetwork):
    """The whole CI-GNN: GraphVAE, causal effect estimator, causal subgraph generator and classifier.

    Parameters
    ----------
    n_features : int
        Number of node features.
    n_classes : int
        Number of classes.
    n_causal : int, default=56
        Size K of the causal latents α.
    n_noncausal : int, default=8
        Size L of the non-causal latents β.
    encoder : str, default="gcn"
        Kind of GNN layer in the encoder, a key of `LAYERS`.
    encoder_hidden : sequence of int, default=(128,)
        Widths of the encoder's layers.
    encoder_activation : str, default="relu"
        Activation of the encoder, "relu" or "sigmoid".
    encoder_density : float or None, default=None
        Share of node pairs whose edges the encoder reads, the strongest by absolute weight; None reads all.
    classifier : str, default="gin"
        Kind of GNN layer in the classifier, a key of `LAYERS`.
    classifier_hidden : sequence of int, default=(128, 128, 128)
        Widths of the classifier's GNN layers.
    head_hidden : sequence of int, default=(64, 32)
        Widths of the hidden layers of the classifier's MLP.
    readout : str, default="sum"
        How the classifier pools nodes, a key of `READOUTS`; or "edges", an MLP on the masked edges of aligned
        graphs instead of a GNN.
    dropout : float, default=0.5
        Dropout in the classifier's MLP.
    n_pooled : int, default=0
        Number of directions over the edges whose projections, whatever their sign, the classifier reads
        beside the edges; for ``readout="edges"``.
    separate_products : bool, default=True
        Whether each of the two inner products, Â and the subgraph, has a learned projection of its own.
    mask : str, default="stochastic"
        "stochastic" draws the edges while training, "soft" weights them by their probability throughout.
    temperature : float, default=1.0
        Temperature of the draws.
    mask_by : str, default="products"
        How the vectors of two nodes give the logit of their edge: "products", by their inner product, or
        "pairs", by an MLP on both.
    node_weights : bool, default=False
        Whether a node counts for the classifier by the largest weight of its edges, so that nothing outside
        the subgraph reaches it; without it nodes count whether their edges are kept or not.
    bound : float, default=inf
        Largest value of an activation of the layers, see `GINLayer`.
    constant : bool, default=False
        Whether every node gets a constant feature beside its own, so that degrees can be read.
    rest : bool, default=False
        Whether the edges left out have to say nothing about the class.
    cut : bool, default=False
        Whether a graph cut to its heaviest edges has to keep the weights of these edges and, once masks no
        longer change, its class.
    limit : bool, default=False
        Whether logits of edges beyond ±3 are held back, where the price of edges is asked for.
    causal_effect : str or None, default="cmi"
        Estimate of the causal effect: I(α; Y | β) ("cmi"), I(α; Ŷ | β) ("cmi_prediction"), I(α; Y) ("mi") or
        none.
    independence : bool, default=True
        Whether I(α; β) is part of the loss.
    renyi_order : float, default=1.01
        Order of the Rényi entropies.
    pricing : str, default="fixed"
        Whether the price of edges grows with the share of the labels' entropy that subgraphs explain, of that
        which whole graphs explained in the warm-up ("relative"), or not ("fixed").
    n_nodes : int or None, default=None
        Number of nodes of aligned graphs.
    node_vectors : bool, default=False
        Whether a learned vector is added to each node's latent mean; needs ``n_nodes``.
    initial_noise : float, default=1.0
        About the standard deviation of the latents before training.
    causal_noise : bool, default=True
        Whether the causal latents are drawn at random while training; if not, only β is.
    mask_from : str, default="latents"
        What the mask is made of: "latents", the causal latents of each graph, or "nodes", the learned vectors
        of the nodes alone, which all graphs share; needs ``node_vectors``.

    References
    ----------
    Equations (3) to (16) of the paper.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.nn import CIGNN
    >>> batch = make_ba2motifs(4, random_state=0).batch()
    >>> out = CIGNN(batch.x.shape[-1], n_classes=2, encoder="gin")(batch)
    >>> out.logits.shape, out.alpha.shape[-1], out.beta.shape[-1]
    (torch.Size([4, 2]), 56, 8)
    >>> bool((out.edge_weights[~batch.edge_mask] == 0).all())
    True
    """

    def generative_losses(self, batch: GraphBatch, noise: Noise | None = None) -> Losses:
        """Return the terms of L1, equation (13) of the paper.

        Parameters
        ----------
        batch : GraphBatch
            Graphs with labels.
        noise : Noise, default=None
            Source of random numbers; None is torch's own.

        Returns
        -------
        dict of str to Tensor
            Those of `reconstruction_losses` and of `causal_losses`.
        """
        latent, z = self.encode(batch, noise=noise)
        losses = self.reconstruction_losses(latent, z, batch)
        logits = self(batch, noise=noise).logits if self.causal_effect == "cmi_prediction" else None
        return losses | self.causal_losses(_node_mean(latent.mean, batch), logits, batch)

    def warm_up_losses(self, batch: GraphBatch, noise: Noise | None = None) -> Losses:
        """Return the loss of the classifier before there is a mask: it reads the whole graphs.

        A mask that begins beside a classifier that knows nothing serves the first thing it finds, often the
        part of the graph that merely goes along with the class.

        Parameters
        ----------
        batch : GraphBatch
            Graphs with labels.
        noise : Noise, default=None
            Source of random numbers; None is torch's own.

        Returns
        -------
        dict of str to Tensor
            "classification".
        """
        prob = self.classifier.presence(batch)
        logits, _ = self._classify(batch, prob, noise, rest=False)
        loss = self.prediction_loss(logits, batch)
        with torch.no_grad():
            share = (1 - loss / self.label_entropy).clamp(LEAST_WHOLE, 1)
            self.whole_share.mul_(1 - WHOLE_RATE).add_(WHOLE_RATE * share)
        return {"classification": loss}

    def classification_losses(
        self,
        batch: GraphBatch,
        keep: float | Tensor | None = None,
        generative: bool = False,
        noise: Noise | None = None,
        level: float | Tensor = 1.0,
        least: float | Tensor = PRICE_FLOOR,
    ) -> Losses:
        """Return the terms of L2, equation (16) of the paper, and those of the subgraph beside them.

        With ``rest`` the edges left out must tell nothing of the class: each class then needs evidence of its
        own in its subgraphs, and what merely goes along with a class does not count. With ``cut`` the edges
        to which a graph is cut, its heaviest, few or many, have to keep their weights. These terms and the
        price count as far as subgraphs explain the labels as whole graphs did in the warm-up.

        Parameters
        ----------
        batch : GraphBatch
            Graphs with labels.
        keep : float, Tensor of shape () or None, default=None
            Share of edges free of charge; None asks no price.
        generative : bool, default=False
            Whether the GraphVAE runs beside the classifier and shapes β: it reads α but does not move it. It
            reads every fourth graph.
        noise : Noise, default=None
            Source of random numbers; None is torch's own.
        level : float or Tensor of shape (), default=1.0
            How much price, "rest" and "consistency" count besides.
        least : float or Tensor of shape (), default=0.05
            The part of a relative price that counts whatever is explained, 0 to 1.

        Returns
        -------
        dict of str to Tensor
            "classification", those of `causal_losses` and, where asked for, "rest", "edges", "logits",
            "consistency" and those of `reconstruction_losses`.
        """
        out = self._read(batch, None, noise)
        losses = {"classification": self.prediction_loss(out.logits, batch)}
        explained = level * self._explained(losses["classification"])
        if out.rest_logits is not None:
            losses["rest"] = explained * self.rest_loss(out.rest_logits)
        if keep is not None:
            due = least + (1 - least) * explained
            losses |= self._price_losses(out.mask.values, out.mask.present, keep, due)
        if self.cut:
            losses["consistency"] = explained * self._consistency_loss(batch, out.mask.edge_logits, noise)
        if out.mask.latent is None and not (generative or self.independence or self.causal_effect):
            return losses  # nothing reads the latents
        some = slice(None, None, SOME)
        if out.mask.latent is not None:
            assert out.mask.alpha is not None and out.mask.beta is not None
            latent = Latent(*(part[some] for part in out.mask.latent))
            z = torch.cat([out.mask.alpha[some], out.mask.beta[some]], -1)
            pooled = _node_mean(out.mask.latent.mean, batch)
        else:
            h, adj, mask = self._hidden(batch)
            pooled = self.encoder.pooled(h, adj, mask)
            if generative:
                latent = self.encoder.latents(h[some], adj[some], None if mask is None else mask[some])
                z = latent.sample(noise) if self.noisy else latent.mean
        if generative:
            beta = Latent(*(part[..., -self.n_noncausal :] for part in latent))
            z = torch.cat([z[..., : self.n_causal].detach(), z[..., self.n_causal :]], -1)
            losses |= self.reconstruction_losses(beta, z, batch.part(some))
        return losses | self.causal_losses(pooled, out.logits, batch)

    def refinement_losses(self, batch: GraphBatch, noise: Noise | None = None) -> Losses:
        """Return the losses of the classifier alone, on the subgraphs of a mask that no longer changes.

        Nothing is drawn: the classifier reads what it will read later.

        Parameters
        ----------
        batch : GraphBatch
            Graphs with labels.
        noise : Noise, default=None
            Source of random numbers; None is torch's own.

        Returns
        -------
        dict of str to Tensor
            "classification" and, where asked for, "cut" of every second graph.
        """
        with torch.no_grad():
            mask = self._mask(batch, None, noise, sample=False)
        logits, _ = self._classify(batch, mask.read, noise, rest=False)
        losses = {"classification": self.prediction_loss(logits, batch)}
        if self.cut:
            losses["cut"] = self._cut_loss(batch, mask.edge_logits, noise)
        return losses

    def prediction_loss(self, logits: Tensor, batch: GraphBatch) -> Tensor:
        """Return the loss of predictions: the cross-entropy.

        Parameters
        ----------
        logits : Tensor of shape (b, classes)
            Class logits.
        batch : GraphBatch
            Graphs with labels.

        Returns
        -------
        Tensor of shape ()
            See `SingleModel.cross_entropy`.
        """
        return self.cross_entropy(logits, batch)

    def rest_loss(self, rest_logits: Tensor) -> Tensor:
        """Return how far predictions from the edges left out are from knowing nothing.

        Parameters
        ----------
        rest_logits : Tensor of shape (r, classes)
            Class logits of what subgraphs leave.

        Returns
        -------
        Tensor of shape ()
            Cross-entropy with the shares of the classes, beyond its least value.
        """
        known = self.class_share.expand_as(rest_logits)
        return F.cross_entropy(rest_logits, known) - self.label_entropy

    def target_gram(self, logits: Tensor | None, batch: GraphBatch) -> Tensor:
        """Return the Gram matrix of what is predicted.

        Parameters
        ----------
        logits : Tensor of shape (b, classes) or None
            Predictions Ŷ, on which the kernel is Gaussian; None for the labels Y.
        batch : GraphBatch
            Graphs with labels.

        Returns
        -------
        Tensor of shape (b, b)
            Gram matrix.
        """
        if logits is not None:
            return gaussian_gram(torch.softmax(logits, -1))
        assert batch.y is not None
        return label_gram(batch.y)

    def _explained(self, loss: Tensor) -> Tensor:
        """How far subgraphs of this cross-entropy explain what whole graphs do, 0 to 1; no gradient."""
        share = (1 - loss.detach() / self.label_entropy) / self.whole_share
        return ((share - EXPLAINED_FROM) / (EXPLAINED_FULL - EXPLAINED_FROM)).clamp(0, 1)

    def _price_losses(
        self, values: Tensor, present: Tensor, keep: float | Tensor, due: float | Tensor
    ) -> Losses:
        """The price of edges and what holds their logits back.

        values : logits of all graphs, or one mask; present : where there are edges, of all graphs; due : how
        much a relative price counts.
        """
        if len(values) < len(present):  # one mask for all: it counts by how many have an edge
            present = present.sum(0, keepdim=True)
        present, values = present.flatten(), values.flatten()
        losses = {"edges": EdgeMeans.of(values, present).information(keep)}
        if self.pricing == "relative":
            losses["edges"] = due * losses["edges"]
        if self.limit:
            beyond = torch.relu(values.abs() - LOGIT_LIMIT).square()
            losses["logits"] = (beyond * present).sum() / present.sum().clamp(min=1)
        return losses

    def _consistency_loss(self, batch: GraphBatch, edge_logits: Tensor, noise: Noise | None) -> Tensor:
        """How much edges change their weights when every fourth graph is cut to its heaviest ones.

        edge_logits : of all graphs, which it does not move. The class of such graphs is not asked for: few
        edges may tell none, and a classifier that has to name one all the same can learn to tell a class by
        what is missing.
        """
        cut = _Cut.of(batch, edge_logits, noise, SOME)
        with known_statistics(self):
            again = torch.sigmoid(self._mask(cut.batch, cut.kept, noise).edge_logits)
        return ((again - cut.weights).abs() * cut.kept).sum() / cut.kept.sum().clamp(min=1)

    def _cut_loss(self, batch: GraphBatch, edge_logits: Tensor, noise: Noise | None) -> Tensor:
        """Loss of the classes of every second graph, cut to its heaviest edges and read as another graph.

        edge_logits : of all graphs. Masks do not learn from it.
        """
        cut = _Cut.of(batch, edge_logits, noise, SOME // 2)
        with known_statistics(self):
            with torch.no_grad():
                mask = self._mask(cut.batch, cut.kept, noise, sample=False)
            logits, _ = self._classify(cut.batch, mask.read, noise)
        return self.prediction_loss(logits, cut.batch)

    def reconstruction_losses(self, latent: Latent, z: Tensor, batch: GraphBatch) -> Losses:
        """Return the terms of the GraphVAE, equation (5) of the paper, each a mean over graphs.

        Parameters
        ----------
        latent : Latent
            The Gaussian whose divergence from N(0, I) is a term.
        z : Tensor of shape (b, n, K + L)
            Latents to decode.
        batch : GraphBatch
            The graphs to reconstruct.

        Returns
        -------
        dict of str to Tensor
            "features" ‖X − X̂‖_F, "adjacency" ‖A − Â‖_F and "kl" KL(q(Z|A,X) ‖ N(0, I)), to be added.
        """
        mask = batch.padding
        features = zero_padding(self.features(batch) - self.decoders["features"](z), mask)  # X − X̂
        adjacency = batch.edges - torch.sigmoid(self.decoders["adjacency"](z))  # A − Â
        adjacency = zero_padding(zero_padding(adjacency, mask).transpose(1, 2), mask)
        return {
            "features": torch.linalg.matrix_norm(features).mean(),
            "adjacency": torch.linalg.matrix_norm(adjacency).mean(),
            "kl": _node_mean(latent.kl(), batch).sum(1).mean(),
        }

    def causal_losses(self, pooled: Tensor, logits: Tensor | None, batch: GraphBatch) -> Losses:
        """Return the terms of the causal loss, equation (8) of the paper, over the graphs of the batch.

        Parameters
        ----------
        pooled : Tensor of shape (b, K + L)
            The mean latents of the graphs. Drawn ones, pooled over nodes, would be mostly noise.
        logits : Tensor of shape (b, classes) or None
            Predictions, for ``causal_effect="cmi_prediction"``.
        batch : GraphBatch
            Graphs with labels.

        Returns
        -------
        dict of str to Tensor
            "independence", I(α; β), and "causal", minus the causal effect, in bits, where they are part of
            the loss; "hsic", HSIC(α, β), without a gradient.
        """
        gram_alpha = gaussian_gram(pooled[:, : self.n_causal])
        gram_beta = gaussian_gram(pooled[:, self.n_causal :])
        losses: Losses = {}
        if self.independence or self.causal_effect is not None:
            gram_y = self.target_gram(logits if self.causal_effect == "cmi_prediction" else None, batch)
            terms = causal_terms(
                gram_alpha, gram_beta, gram_y, order=self.renyi_order, with_mi=self.causal_effect == "mi"
            )
            if self.independence:
                losses["independence"] = terms.independence
            if self.causal_effect is not None:
                losses["causal"] = -(terms.mi if self.causal_effect == "mi" else terms.cmi)  # type: ignore[operator]
        losses["hsic"] = hsic(gram_alpha.detach(), gram_beta.detach())
        return losses


class _Cut(NamedTuple):
    """Some graphs of a batch, the weights of their edges, and which of these a cut to the heaviest leaves."""

    batch: GraphBatch
    weights: Tensor
    kept: Tensor

    @classmethod
    def of(cls, batch: GraphBatch, edge_logits: Tensor, noise: Noise | None, every: int) -> _Cut:
        """Cut one graph of so many, at least one; edge_logits : of all graphs."""
        some = slice(min(every // 2, len(batch) - 1), None, every)
        part = batch.part(some)
        weights = torch.sigmoid(edge_logits[some].detach()) * part.edges
        return cls(part, weights, heaviest_edges(weights, part.edges, noise))


@contextmanager
def known_statistics(network: nn.Module) -> Iterator[None]:
    """Switch off dropout and batch statistics; every module is left in the mode it was in."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def _node_mean(x: Tensor, batch: GraphBatch) -> Tensor:
    """Mean over the real nodes of each graph: (b, n, d) → (b, d)."""
    return mean_readout(zero_padding(x, batch.padding), batch.padding)
