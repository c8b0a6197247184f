"""CI-GNN: encoder, decoders, causal effect estimator, causal subgraph and classifier in one module."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cignn.graphs import GraphBatch
from cignn.information import causal_terms, gaussian_gram, hsic, label_gram
from cignn.nn.autoencoder import FeatureDecoder, GraphEncoder, InnerProduct, Latent
from cignn.nn.classifiers import EdgeNetwork, GraphNetwork, SubgraphClassifier
from cignn.nn.layers import edge_positions, mean_readout, zero_padding
from cignn.nn.model import Losses, Path, SingleModel
from cignn.nn.noise import Noise
from cignn.nn.subgraph import (
    EdgeMeans,
    EdgeScorer,
    edge_matrices,
    heaviest_edges,
    sample_edges,
)

CAUSAL_EFFECTS = ("cmi", "cmi_prediction", "mi", None)
MASKS = ("stochastic", "soft")
MASK_SOURCES = ("latents", "nodes")
PRICES = ("relative", "fixed")
MASK_FORMS = ("pairs", "products")
SOME = 4  # every fourth graph is reconstructed, read without its subgraph, and cut to its heaviest edges
LOGIT_LIMIT = 3.0  # beyond it logits are held back: where p (1 − p) vanishes no price moves an edge any more
# shares of what whole graphs explain between which price, rest and cut grow from little or nothing to all: a
# network is not held to the first thing it finds, and one that loses its way is let go
EXPLAINED_FROM, EXPLAINED_FULL, PRICE_FLOOR = 0.6, 0.9, 0.05
# how fast the share that the warm-up explains is averaged, and its least value
WHOLE_RATE, LEAST_WHOLE = 0.05, 0.05
# drawn edges are nearly whole or gone at temperatures below 1; without draws those of p < 1/2 are read as
# gone, by a sigmoid of this share of the temperature
READ_TEMPERATURE = 1 / 3
START = 1.4  # logit of every edge before training, p = 0.8


class CIGNNOutput(NamedTuple):
    """What a pass through CI-GNN gives.

    Parameters
    ----------
    logits : Tensor of shape (b, classes)
        Class logits of the subgraphs.
    edge_logits : Tensor of shape (b, n, n)
        Logits of the edge probabilities, of every pair of nodes.
    edge_weights : Tensor of shape (b, n, n)
        Weights of the edges, drawn or the probabilities themselves; 0 where there is no edge.
    alpha : Tensor of shape (b, n, K) or None
        Causal latents; None where the mask needs none, see ``mask_from``: `CIGNN.encode` computes them.
    beta : Tensor of shape (b, n, L) or None
        Non-causal latents, or None.
    latent : Latent or None
        The Gaussian of both, or None.
    rest_logits : Tensor of shape (r, classes), default=None
        Class logits of what the subgraphs of some graphs leave; None outside training.

    Examples
    --------
    >>> from cignn.nn import CIGNNOutput
    >>> CIGNNOutput._fields[:3]
    ('logits', 'edge_logits', 'edge_weights')
    """

    logits: Tensor
    edge_logits: Tensor
    edge_weights: Tensor
    alpha: Tensor | None
    beta: Tensor | None
    latent: Latent | None
    rest_logits: Tensor | None = None


class _Mask(NamedTuple):
    """A causal subgraph; values : logits of edges; prob : their weights, which say where the model looks;
    read : the weights the classifier reads, all three in its form.
    """

    edge_logits: Tensor
    values: Tensor
    prob: Tensor
    read: Tensor
    alpha: Tensor | None
    beta: Tensor | None
    latent: Latent | None


class _Pass(NamedTuple):
    """What a pass computes: the subgraphs, their class logits and those of what they leave."""

    mask: _Mask
    logits: Tensor
    rest_logits: Tensor | None


class CIGNN(SingleModel):
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
        Whether a graph cut to its heaviest edges has to keep its class and the weights of these edges.
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

    def __init__(
        self,
        n_features: int,
        n_classes: int,
        *,
        n_causal: int = 56,
        n_noncausal: int = 8,
        encoder: str = "gcn",
        encoder_hidden: Sequence[int] = (128,),
        encoder_activation: str = "relu",
        encoder_density: float | None = None,
        classifier: str = "gin",
        classifier_hidden: Sequence[int] = (128, 128, 128),
        head_hidden: Sequence[int] = (64, 32),
        readout: str = "sum",
        dropout: float = 0.5,
        n_pooled: int = 0,
        separate_products: bool = True,
        mask: str = "stochastic",
        temperature: float = 1.0,
        mask_by: str = "products",
        node_weights: bool = False,
        bound: float = math.inf,
        constant: bool = False,
        rest: bool = False,
        cut: bool = False,
        limit: bool = False,
        causal_effect: str | None = "cmi",
        independence: bool = True,
        renyi_order: float = 1.01,
        pricing: str = "fixed",
        n_nodes: int | None = None,
        node_vectors: bool = False,
        initial_noise: float = 1.0,
        causal_noise: bool = True,
        mask_from: str = "latents",
    ) -> None:
        super().__init__(n_features, n_classes)
        n_latent = n_causal + n_noncausal
        self.constant = constant
        n_features += constant
        self.n_causal = n_causal
        self.n_noncausal = n_noncausal
        self.mask = mask
        self.mask_from = mask_from
        self.temperature = temperature
        self.mask_by = mask_by
        self.node_weights = node_weights
        self.rest = rest
        self.cut = cut
        self.limit = limit
        self.causal_effect = causal_effect
        self.independence = independence
        self.renyi_order = renyi_order
        self.pricing = pricing
        # share of the labels' entropy that whole graphs explain, found by the warm-up
        self.register_buffer("whole_share", torch.ones(()))
        self.noisy = True
        self.encoder = GraphEncoder(
            n_features,
            n_latent,
            encoder_hidden,
            encoder,
            encoder_activation,
            encoder_density,
            n_nodes if node_vectors else None,
            initial_noise,
            None if causal_noise else n_noncausal,
            bound,
        )
        self.decoders = nn.ModuleDict(
            {
                "features": FeatureDecoder(n_latent, n_features),
                "adjacency": InnerProduct(n_latent, separate_products, learned=separate_products),
            }
        )
        self.subgraph: InnerProduct | EdgeScorer
        if mask_by == "pairs":
            self.subgraph = EdgeScorer(n_causal, start=START)
        else:
            self.subgraph = InnerProduct(n_causal, separate_products)
        if node_vectors:
            self._part_nodes()
        self.classifier: SubgraphClassifier
        if readout == "edges":
            assert n_nodes is not None
            self.classifier = EdgeNetwork(n_nodes, n_classes, head_hidden, dropout, n_pooled)
        else:
            self.classifier = GraphNetwork(
                n_features, n_classes, classifier, classifier_hidden, head_hidden, readout, dropout, bound
            )

    @torch.no_grad()
    def _part_nodes(self) -> None:
        """Begin with node vectors at right angles, nothing beside them in the latents' means.

        All edges then have the same logit, and the gradient of one does not move the others: where the
        mask goes is for the data to say, not for the draw of the first vectors.
        """
        vectors = self.encoder.node_vectors
        assert vectors is not None
        n_nodes, n_causal = len(vectors), self.n_causal
        orthogonal = nn.init.orthogonal_(torch.empty(n_nodes, n_causal))
        vectors[:, :n_causal] = orthogonal * max(n_nodes, n_causal) ** 0.5
        for parameter in self.encoder.mean.parameters():
            parameter.zero_()
        if isinstance(self.subgraph, InnerProduct) and self.subgraph.projection is not None:
            nn.init.orthogonal_(self.subgraph.projection.weight, 3**-0.5)  # as long as nn.Linear's rows

    # ----------------------------------------------------------------- passes

    def encode(
        self, batch: GraphBatch, edge_weights: Tensor | None = None, noise: Noise | None = None
    ) -> tuple[Latent, Tensor]:
        """Encode a batch.

        Parameters
        ----------
        batch : GraphBatch
            The graphs.
        edge_weights : Tensor of shape (b, n, n), default=None
            See `GraphModel.read`.
        noise : Noise, default=None
            Source of random numbers while training; None is torch's own.

        Returns
        -------
        latent : Latent
            The Gaussian of the latents.
        z : Tensor of shape (b, n, K + L)
            A draw from it while training, otherwise its mean.
        """
        latent = self.encoder.latents(*self._hidden(batch, edge_weights))  # q(Z | A, X), eq. (3)
        return latent, latent.sample(noise) if self.training and self.noisy else latent.mean

    def _hidden(
        self, batch: GraphBatch, edge_weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """The encoder's hidden vectors of all nodes, see `GraphEncoder.hidden`."""
        x, mask = self.features(batch), batch.padding
        if edge_weights is not None:
            return self.encoder.hidden(x, batch.adj * edge_weights, mask)
        return self.encoder.hidden(x, batch.adj, mask, batch.strongest, self.sums(batch))

    def features(self, batch: GraphBatch) -> Tensor:
        """Return the scaled node features, see `SingleModel.features`, and the constant.

        Parameters
        ----------
        batch : GraphBatch
            The graphs.

        Returns
        -------
        Tensor of shape (b, n, n_features) or (b, n, n_features + 1)
            Features, 0 at padded nodes.
        """
        x = super().features(batch)
        return torch.cat([x, batch.mask.unsqueeze(-1).to(x.dtype)], -1) if self.constant else x

    def sums(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> Tensor | None:
        """Return the sums of neighbours' features, see `SingleModel.sums`, with those of the constant.

        Parameters
        ----------
        batch : GraphBatch
            The graphs.
        edge_weights : Tensor of shape (b, n, n), default=None
            See `GraphModel.read`.

        Returns
        -------
        Tensor of shape (b, n, n_features) or (b, n, n_features + 1), or None
            Scaled as `features` are.
        """
        sums = super().sums(batch, edge_weights)
        if sums is None or not self.constant:
            return sums
        adj = batch.adj if batch.strongest is None else batch.strongest
        return torch.cat([sums, adj.sum(-1, keepdim=True)], -1)

    def _reader(self) -> tuple[float | None, nn.ModuleList]:
        return self.encoder.density, self.encoder.layers

    def prepare(self, batch: GraphBatch) -> GraphBatch:
        """Compute what the encoder needs of every graph, see `SingleModel.prepare`.

        Parameters
        ----------
        batch : GraphBatch
            The graphs.

        Returns
        -------
        GraphBatch
            The same graphs with the encoder's edges and the neighbours' sums; of a single GIN layer the sums
            are enough.
        """
        batch = super().prepare(batch)
        if batch.sums is not None and len(self.encoder.layers) == 1 and not self.constant:
            batch = replace(batch, strongest=None)
        if isinstance(self.classifier, EdgeNetwork):
            batch = replace(batch, pairs=self.classifier.edge_values(batch.adj))
        if self.mask_by == "pairs":
            batch = replace(batch, edge_list=edge_positions(batch.adj))
        return batch

    def forward(
        self, batch: GraphBatch, edge_weights: Tensor | None = None, noise: Noise | None = None
    ) -> CIGNNOutput:
        """Classify a batch through its causal subgraph.

        Parameters
        ----------
        batch : GraphBatch
            The graphs.
        edge_weights : Tensor of shape (b, n, n), default=None
            See `GraphModel.read`.
        noise : Noise, default=None
            Source of random numbers while training; None is torch's own.

        Returns
        -------
        CIGNNOutput
            Logits, edge weights and latents.
        """
        mask, logits, rest_logits = self._read(batch, edge_weights, noise)
        weights = self.classifier.edge_matrix(mask.prob) * batch.edges
        return CIGNNOutput(logits, mask.edge_logits, weights, mask.alpha, mask.beta, mask.latent, rest_logits)

    def path(self, batch: GraphBatch) -> Path:
        """Return the way from no edges to the graphs of a batch.

        Parameters
        ----------
        batch : GraphBatch
            The graphs.

        Returns
        -------
        Path
            With ``readout="edges"`` the masked evidence of all edges grows together and the mask stays that
            of the whole graph; else see `SingleModel.path`.
        """
        classifier = self.classifier
        if not isinstance(classifier, EdgeNetwork):
            return super().path(batch)
        whole = classifier.evidence(batch) * self._mask(batch, None, None).read
        return Path(whole, classifier.project, classifier.decide, classifier.edge_matrix)

    def _read(self, batch: GraphBatch, edge_weights: Tensor | None, noise: Noise | None) -> _Pass:
        """Classify a batch through its causal subgraph."""
        mask = self._mask(batch, edge_weights, noise)
        return _Pass(mask, *self._classify(batch, mask.read, noise))

    def _mask(
        self, batch: GraphBatch, edge_weights: Tensor | None, noise: Noise | None, sample: bool | None = None
    ) -> _Mask:
        """Find the causal subgraph of every graph; sample : whether to draw it, by default while training."""
        sample = self.training if sample is None else sample
        if edge_weights is not None and not self.classifier.directed:
            edge_weights = (edge_weights + edge_weights.transpose(1, 2)) / 2
        latent, alpha, beta = None, None, None
        if self.mask_from == "latents":
            latent, z = self.encode(batch, edge_weights, noise)
            alpha, beta = z.split([self.n_causal, self.n_noncausal], -1)
        edge_logits = self._edge_logits(self._mask_vectors(alpha), batch)

        values = self.classifier.edge_values(edge_logits)
        drawn = values.expand(len(batch), *values.shape[1:])
        if sample and self.mask == "stochastic":
            prob = read = sample_edges(drawn, self.temperature, noise)
        else:
            prob = read = torch.sigmoid(drawn)
            if self.mask == "stochastic" and self.temperature < 1:
                read = torch.sigmoid(drawn / (READ_TEMPERATURE * self.temperature))
        if edge_weights is not None:
            given = self.classifier.edge_values(edge_weights)
            prob, read = prob * given, read * given
        return _Mask(edge_logits.expand(len(batch), -1, -1), values, prob, read, alpha, beta, latent)

    def _edge_logits(self, vectors: Tensor, batch: GraphBatch) -> Tensor:
        """Logits of edges by the vectors of their nodes, equation (14) before its sigmoid: (b or 1, n, n)."""
        if self.mask_by == "products":
            return self.subgraph(vectors)
        edges = edge_positions(batch.adj) if batch.edge_list is None else batch.edge_list
        vectors = vectors.expand(len(batch), -1, -1)
        return edge_matrices(self.subgraph(vectors, edges) * (edges > 0), edges, batch.adj)

    def _mask_vectors(self, alpha: Tensor | None) -> Tensor:
        """Vectors of nodes that the mask is made of: those of each graph, or (1, n, K), the same for all."""
        if alpha is not None:
            return alpha
        assert self.encoder.node_vectors is not None
        return self.encoder.node_vectors[None, :, : self.n_causal]

    def _classify(
        self, batch: GraphBatch, prob: Tensor, noise: Noise | None, rest: bool | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Class logits of the subgraphs and, while training, of what they leave of some graphs.

        prob : edge weights in the form the classifier reads. Both go through the classifier together, so that
        its batch statistics are those of one pass.
        """
        x = self.features(batch) if isinstance(self.classifier, GraphNetwork) else batch.x
        whole, mask = self.classifier.evidence(batch), batch.padding
        rest = self.training and self.rest if rest is None else rest
        if rest:
            some = slice(None, None, SOME)
            x, whole, prob = (
                torch.cat(pair) for pair in ((x, x[some]), (whole, whole[some]), (prob, 1 - prob[some]))
            )
            mask = None if mask is None else torch.cat([mask, mask[some]])
        if self.node_weights:
            weights = self.classifier.node_weights(prob * (whole != 0))
            mask = mask if weights is None else weights
        logits = self.classifier(x, whole * prob, mask, noise)
        return logits[: len(batch)], logits[len(batch) :] if len(logits) > len(batch) else None

    def embed(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> Tensor:
        """Return the mean causal latents of the nodes.

        Parameters
        ----------
        batch : GraphBatch
            The graphs.
        edge_weights : Tensor of shape (b, n, n), default=None
            See `GraphModel.read`.

        Returns
        -------
        Tensor of shape (b, n, K)
            Means of α, 0 at padded nodes.
        """
        latent, _ = self.encode(batch, edge_weights)
        return zero_padding(latent.mean[..., : self.n_causal], batch.padding)

    # ----------------------------------------------------------------- losses

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
        loss = self.cross_entropy(logits, batch)
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
    ) -> Losses:
        """Return the terms of L2, equation (16) of the paper, and those of the subgraph beside them.

        With ``rest`` the edges left out must tell nothing of the class: each class then needs evidence of its
        own in its subgraphs, and what merely goes along with a class does not count. With ``cut`` a graph cut
        to its heaviest edges, few or many, has to keep its class, and these edges their weights. These terms
        and the price count as far as the labels are explained.

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

        Returns
        -------
        dict of str to Tensor
            "classification", those of `causal_losses` and, where asked for, "rest", "edges", "logits", "cut",
            "consistency" and those of `reconstruction_losses`.
        """
        out = self._read(batch, None, noise)
        losses = {"classification": self.cross_entropy(out.logits, batch)}
        share = 1 - losses["classification"].detach() / self.label_entropy
        explained = share / self.whole_share - EXPLAINED_FROM
        explained = (explained / (EXPLAINED_FULL - EXPLAINED_FROM)).clamp(0, 1)
        if out.rest_logits is not None:
            known = self.class_share.expand_as(out.rest_logits)
            losses["rest"] = explained * (F.cross_entropy(out.rest_logits, known) - self.label_entropy)
        if keep is not None:
            present = self.classifier.presence(batch)
            if len(out.mask.values) < len(present):  # one mask for all: it counts by how many have an edge
                present = present.sum(0, keepdim=True)
            present = present.flatten()
            edges = EdgeMeans.of(out.mask.values.flatten(), present)
            losses["edges"] = edges.information(keep)
            if self.pricing == "relative":
                losses["edges"] = (PRICE_FLOOR + (1 - PRICE_FLOOR) * explained) * losses["edges"]
            if self.limit:
                beyond = torch.relu(out.mask.values.flatten().abs() - LOGIT_LIMIT).square()
                losses["logits"] = (beyond * present).sum() / present.sum().clamp(min=1)
        if self.cut:
            losses |= {
                name: explained * value
                for name, value in self._cut_losses(batch, out.mask.values, noise).items()
            }
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

    def _cut_losses(self, batch: GraphBatch, values: Tensor, noise: Noise | None) -> Losses:
        """Classify graphs cut to their heaviest edges, as graphs of their own; values : logits of all graphs.

        Nothing of it moves the mask of the whole graph or the batch statistics.
        """
        some = slice(min(SOME // 2, len(batch) - 1), None, SOME)  # at least one graph
        values = values.detach().expand(len(batch), *values.shape[1:])[some]
        batch = batch.part(some)
        weights = self.classifier.edge_matrix(torch.sigmoid(values)) * batch.edges
        kept = heaviest_edges(weights, batch.edges, noise)
        with known_statistics(self):
            mask = self._mask(batch, kept, noise, sample=True)
            logits, _ = self._classify(batch, mask.read, noise)
        again = torch.sigmoid(mask.edge_logits)
        gap = ((again - weights).abs() * kept).sum() / kept.sum().clamp(min=1)
        return {"cut": self.cross_entropy(logits, batch), "consistency": gap}

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
            if self.causal_effect == "cmi_prediction":
                gram_y = gaussian_gram(torch.softmax(logits, -1))  # type: ignore[arg-type]
            else:
                gram_y = label_gram(batch.y)  # type: ignore[arg-type]
            terms = causal_terms(
                gram_alpha, gram_beta, gram_y, order=self.renyi_order, with_mi=self.causal_effect == "mi"
            )
            if self.independence:
                losses["independence"] = terms.independence
            if self.causal_effect is not None:
                losses["causal"] = -(terms.mi if self.causal_effect == "mi" else terms.cmi)  # type: ignore[operator]
        losses["hsic"] = hsic(gram_alpha.detach(), gram_beta.detach())
        return losses


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
