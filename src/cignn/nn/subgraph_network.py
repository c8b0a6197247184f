"""CI-GNN without its losses: encoder, causal subgraph and classifier, and the passes through them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from cignn.graphs import GraphBatch
from cignn.nn.autoencoder import FeatureDecoder, GraphEncoder, InnerProduct, Latent
from cignn.nn.classifiers import EdgeNetwork, GraphNetwork, SubgraphClassifier
from cignn.nn.layers import edge_positions, zero_padding
from cignn.nn.model import Path, SingleModel
from cignn.nn.noise import Noise
from cignn.nn.subgraph import EdgeScorer, edge_matrices, pair_draws, sample_edges

MASKS = ("stochastic", "soft")
MASK_SOURCES = ("latents", "nodes")
MASK_FORMS = ("pairs", "products")
SOME = 4  # every fourth graph is reconstructed, read without its subgraph, and cut to its heaviest edges
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
    """A causal subgraph.

    values, present : logits of edges and where there are some, as matrices, pairs or lists; prob : their
    weights, which say where the model looks; read : the weights the classifier reads, both in its form.
    """

    edge_logits: Tensor
    values: Tensor
    present: Tensor
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


class SubgraphNetwork(SingleModel):
    """A network that reads graphs through the subgraph it finds in them: `CIGNN` without its losses.

    The parameters are those of `CIGNN`.
    """

    whole_share: Tensor

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
        vectors = self._mask_vectors(alpha)
        edges = self._edge_list(batch)
        if edges is None:
            edge_logits = self.subgraph(vectors)  # equation (14) before its sigmoid: (b or 1, n, n)
            values, present = self.classifier.edge_values(edge_logits), self.classifier.presence(batch)
        else:
            values, present = self.subgraph(vectors.expand(len(batch), -1, -1), edges), edges > 0
            edge_logits = edge_matrices(values * present, edges, batch.adj)
        drawn = values.expand(len(batch), *values.shape[1:])
        if sample and self.mask == "stochastic":
            draw = None if edges is None else pair_draws(batch.adj, edges, noise)
            weights = sharp = sample_edges(drawn, self.temperature, noise, draw)
        else:
            weights = sharp = torch.sigmoid(drawn)
            if self.mask == "stochastic" and self.temperature < 1:
                sharp = torch.sigmoid(drawn / (READ_TEMPERATURE * self.temperature))

        def form(part: Tensor) -> Tensor:
            """Bring weights into the form that the classifier reads."""
            return part if edges is None else self._classifier_form(part * present, edges, batch)

        prob = form(weights)
        read = prob if sharp is weights else form(sharp)
        if edge_weights is not None:
            given = self.classifier.edge_values(edge_weights)
            prob, read = prob * given, read * given
        return _Mask(edge_logits.expand(len(batch), -1, -1), values, present, prob, read, alpha, beta, latent)

    def _edge_list(self, batch: GraphBatch) -> Tensor | None:
        """Where the edges are whose logits are computed one by one, see `edge_positions`; None for pairs."""
        if self.mask_by == "products":
            return None
        return edge_positions(batch.adj) if batch.edge_list is None else batch.edge_list

    def _classifier_form(self, values: Tensor, edges: Tensor, batch: GraphBatch) -> Tensor:
        """Bring values (b, e) of edges into the form that the classifier reads."""
        return self.classifier.edge_values(edge_matrices(values, edges, batch.adj))

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
