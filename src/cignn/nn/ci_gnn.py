"""CI-GNN: encoder, decoders, causal effect estimator, causal subgraph and classifier in one module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cignn.graphs import GraphBatch
from cignn.information import causal_terms, gaussian_gram, hsic, label_gram
from cignn.nn.autoencoder import FeatureDecoder, GraphEncoder, InnerProduct, Latent, Parts
from cignn.nn.classifiers import EdgeNetwork, GraphNetwork
from cignn.nn.layers import mean_readout, strongest_edges, zero_padding
from cignn.nn.model import Explained, GraphModel, Losses
from cignn.nn.subgraph import edge_use, sample_edges

CAUSAL_EFFECTS = ("cmi", "cmi_prediction", "mi", None)
MASKS = ("stochastic", "soft")

PRICES = ("explained", "fixed")
# share of the edge price due before anything is explained, without which logits run away at once, and the
# share of edges that is free of this part
PRICE_FLOOR, FLOOR_KEEP = 0.2, 0.5
# explained shares of the label's entropy between which price and rest grow from nothing to all: what an easy
# shortcut explains stays below, and a network is not held to the first thing it finds
EXPLAINED_FROM, EXPLAINED_FULL = 0.7, 0.9
# of every fourth graph the classifier also sees what its subgraph leaves
REST_STRIDE = 4


class CIGNNOutput(NamedTuple):
    """What one pass through CI-GNN gives.

    logits : (b, classes); edge_logits, edges, edge_weights : (b, n, n), the second 1 on the graph's edges and
    0 elsewhere, the third 0 off them; while an `EdgeNetwork` trains, (b, pairs): each edge once.
    alpha : (b, n, K); beta : (b, n, L); latent : the Gaussian they come from. rest_logits : class logits of
    what the subgraphs of some graphs leave, or None.
    """

    logits: Tensor
    edge_logits: Tensor
    edges: Tensor
    edge_weights: Tensor
    alpha: Tensor
    beta: Tensor
    latent: Latent
    rest_logits: Tensor | None = None


class CIGNN(GraphModel):
    """The whole model.

    ``separate_products`` gives each of the two inner products, Â and the subgraph, a projection of its own;
    ``mask`` says whether edges are sampled while training ("stochastic") or weighted ("soft");
    ``rest`` says whether the edges left out must tell nothing of the class. On aligned graphs of ``n_nodes``
    nodes, ``node_vectors`` adds a learned vector to every node's latent and the readout "edges" makes the
    classifier an `EdgeNetwork`.
    """

    edge_centre: Tensor  # (n, n) what is taken from an edge's weight before an EdgeNetwork reads it
    edge_scale: Tensor  # (n, n) what it is then divided by

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
        separate_products: bool = True,
        mask: str = "stochastic",
        temperature: float = 1.0,
        rest: bool = False,
        causal_effect: str | None = "cmi",
        independence: bool = True,
        renyi_order: float = 1.01,
        pricing: str = "explained",
        n_nodes: int | None = None,
        node_vectors: bool = False,
        initial_noise: float = 1.0,
    ) -> None:
        super().__init__(n_features, n_classes)
        n_latent = n_causal + n_noncausal
        self.n_causal = n_causal
        self.mask = mask
        self.temperature = temperature
        self.rest = rest
        self.causal_effect = causal_effect
        self.independence = independence
        self.renyi_order = renyi_order
        self.pricing = pricing
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
        )
        self.decoders = nn.ModuleDict(
            {
                "features": FeatureDecoder(n_latent, n_features),
                "adjacency": InnerProduct(n_latent, separate_products, learned=separate_products),
            }
        )
        self.subgraph = InnerProduct(n_causal, separate_products)
        if node_vectors:
            self._part_nodes()
        self.classifier: nn.Module
        if readout == "edges":
            assert n_nodes is not None
            self.classifier = EdgeNetwork(n_nodes, n_classes, head_hidden, dropout)
            self.register_buffer("edge_centre", torch.zeros(n_nodes, n_nodes))
            self.register_buffer("edge_scale", torch.ones(n_nodes, n_nodes))
        else:
            self.classifier = GraphNetwork(
                n_features, n_classes, classifier, classifier_hidden, head_hidden, readout, dropout
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
        vectors[:, :n_causal] = (
            nn.init.orthogonal_(torch.empty(n_nodes, n_causal)) * max(n_nodes, n_causal) ** 0.5
        )
        for parameter in self.encoder.mean.parameters():
            parameter.zero_()
        if self.subgraph.projection is not None:
            nn.init.orthogonal_(self.subgraph.projection.weight, 3**-0.5)  # as long as nn.Linear's rows

    # ----------------------------------------------------------------- passes

    def encode(
        self, batch: GraphBatch, edge_weights: Tensor | None = None, x: Tensor | None = None
    ) -> tuple[Latent, Tensor]:
        """Return the latent Gaussian and one value of it: a draw while training, its mean otherwise.

        x : the `features` of the batch, where they are known.
        """
        adj, threshold = batch.adj, None
        if edge_weights is not None:
            adj = adj * edge_weights
        elif self.encoder.density is not None:
            threshold = batch.threshold(self.encoder.density)
        x = self.features(batch) if x is None else x
        latent = self.encoder(x, adj, batch.padding, threshold)
        return latent, latent.sample() if self.training and self.noisy else latent.mean

    def forward(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> CIGNNOutput:
        """Classify a batch through its causal subgraph; edge_weights as in `read`."""
        out = self._pass(batch, edge_weights, self.features(batch))
        return out._replace(edge_weights=out.edge_weights * out.edges)

    def _pass(self, batch: GraphBatch, edge_weights: Tensor | None, x: Tensor) -> CIGNNOutput:
        """Do what `forward` does; the weights of pairs that are no edges, which nothing reads, stay in."""
        if edge_weights is not None and isinstance(self.classifier, EdgeNetwork):
            edge_weights = (edge_weights + edge_weights.transpose(1, 2)) / 2  # it reads a pair once
        latent, z = self.encode(batch, edge_weights, x)
        alpha, beta = self._parts(z)
        if self.training and isinstance(self.classifier, EdgeNetwork):  # symmetric: one half is enough
            edge_logits = self.subgraph.of_pairs(alpha, self.classifier.pairs)
            whole, edges = self._pair_evidence(batch)
        else:
            edge_logits, edges, whole = self.subgraph(alpha), batch.edges, self.evidence(batch)
        sampled = self.training and self.mask == "stochastic"
        prob = sample_edges(edge_logits, self.temperature) if sampled else torch.sigmoid(edge_logits)
        if edge_weights is not None:
            prob = prob * (edge_weights if prob.dim() == 3 else self.classifier.pairs.of(edge_weights))  # type: ignore[union-attr, operator]
        logits, rest_logits = self.classify(batch, whole, prob, x)
        return CIGNNOutput(logits, edge_logits, edges, prob, alpha, beta, latent, rest_logits)

    def _parts(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """α and β of latents (b, n, K + L)."""
        alpha, beta = z.split([self.n_causal, z.shape[-1] - self.n_causal], -1)
        return alpha, beta

    def classify(
        self, batch: GraphBatch, whole: Tensor, prob: Tensor, x: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Class logits of the subgraphs and, while training, of what they leave of some graphs.

        whole : what the classifier reads of the edges, see `evidence`; prob : their weights; x : `features`.
        Both go through the classifier together, so that its batch statistics are those of one pass.
        """
        mask = batch.padding
        adj = whole * prob
        if not (self.training and self.rest):
            return self.classifier(x, adj, mask), None
        some = slice(None, None, REST_STRIDE)
        x, adj = torch.cat([x, x[some]]), torch.cat([adj, whole[some] - adj[some]])
        logits = self.classifier(x, adj, None if mask is None else torch.cat([mask, mask[some]]))
        return logits[: len(batch)], logits[len(batch) :]

    def evidence(self, batch: GraphBatch) -> Tensor:
        """(b, n, n) what the classifier reads of the edges before they are masked.

        A GNN reads the weights. An `EdgeNetwork` reads how far each is from its mean in the training graphs:
        an edge left out then says nothing, where a weight of 0 would say much.
        """
        if not isinstance(self.classifier, EdgeNetwork):
            return batch.adj
        return _deviation(batch.adj, batch.edges, self.edge_centre, self.edge_scale)

    def _pair_evidence(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """`evidence` of an `EdgeNetwork`, and 1 where an edge is, of each pair of nodes once: (b, pairs)."""
        assert isinstance(self.classifier, EdgeNetwork)
        adj, edges = batch.pairs
        centre, scale = (self.classifier.pairs.of(m) for m in (self.edge_centre, self.edge_scale))
        return _deviation(adj, edges, centre, scale), edges

    def embed(self, batch: GraphBatch, edge_weights: Tensor | None = None) -> Tensor:
        """Mean causal latents of the nodes, (b, n, K)."""
        latent, _ = self.encode(batch, edge_weights)
        return zero_padding(latent.mean[..., : self.n_causal], batch.padding)

    def explain(self, batch: GraphBatch) -> Explained:
        """Classify a batch and say by which edges: `forward` without what only training and reports read.

        Neither latents nor their σ are made where edge logits come straight from the encoder's last layer.
        """
        if self.training or not isinstance(self.encoder.mean, nn.Linear):
            return super().explain(batch)
        x = self.features(batch)
        edge_logits = self._mean_edge_logits(batch, x)
        if not isinstance(self.classifier, EdgeNetwork):
            prob = torch.sigmoid_(edge_logits)
            return Explained(self.classify(batch, batch.adj, prob, x)[0], prob)
        prob = torch.sigmoid_(self.classifier.pairs.of(edge_logits))
        return Explained(self.classifier(x, self._pair_evidence(batch)[0] * prob), prob)

    def _mean_edge_logits(self, batch: GraphBatch, x: Tensor) -> Tensor:
        """Edge logits of the mean latents, (b, n, n)."""
        encoder, adj = self.encoder, batch.adj
        if encoder.density is not None:
            threshold = batch.threshold(encoder.density)
            adj = strongest_edges(adj, encoder.density, batch.padding, threshold)
        head, k = encoder.mean, self.n_causal
        assert isinstance(head, nn.Linear)
        offset = head.bias[:k]
        if encoder.node_vectors is not None:
            offset = offset + encoder.node_vectors[:, :k]
        h = encoder.embed(x, adj, batch.padding)
        return self.subgraph.of_affine(h, head.weight[:k], torch.atleast_2d(offset))

    # ----------------------------------------------------------------- losses

    def generative_losses(self, batch: GraphBatch) -> Losses:
        """Terms of L1, paper eq. (13): the GraphVAE and the causal effect."""
        x = self.features(batch)
        latent, z = self.encode(batch, None, x)
        losses = self.reconstruction_losses(latent, z, batch, x)
        logits = self(batch).logits if self.causal_effect == "cmi_prediction" else None
        return losses | self.causal_losses(latent.mean, logits, batch)

    def classification_losses(
        self, batch: GraphBatch, keep: float | None = None, generative: bool = False
    ) -> Losses:
        """Terms of L2, paper eq. (16), and the price of edges above the share ``keep``.

        With ``rest`` the edges left out must tell nothing of the class: each class then needs evidence of its
        own in its subgraphs, and what merely goes along with a class does not count. Price and rest wait
        until the batch's predictions explain most of the label's entropy (``pricing`` "fixed" asks the full
        price at once): a network is hardly asked to save edges it has not yet learnt to use. With
        ``generative`` the GraphVAE runs beside the classifier and shapes β: it reads α but does not move it.
        """
        x = self.features(batch)
        out = self._pass(batch, None, x)
        losses = {"classification": self.cross_entropy(out.logits, batch)}
        share = 1 - losses["classification"].detach() / self.label_entropy
        explained = ((share - EXPLAINED_FROM) / (EXPLAINED_FULL - EXPLAINED_FROM)).clamp(0, 1)
        if out.rest_logits is not None:
            known = self.class_share.expand_as(out.rest_logits)
            losses["rest"] = explained * (F.cross_entropy(out.rest_logits, known) - self.label_entropy)
        if keep is not None:
            use = edge_use(out.edge_logits, out.edges)
            losses["edges"] = use.information(keep)
            if self.pricing == "explained":
                floor = use.information(max(keep, FLOOR_KEEP))
                losses["edges"] = PRICE_FLOOR * floor + (1 - PRICE_FLOOR) * explained * losses["edges"]
        if generative:
            rest = Latent(*(self._parts(part)[1] for part in out.latent))
            losses |= self.reconstruction_losses(rest, (out.alpha.detach(), out.beta), batch, x)
        return losses | self.causal_losses(out.latent.mean, out.logits, batch)

    def reconstruction_losses(
        self, latent: Latent, z: Parts, batch: GraphBatch, x: Tensor | None = None
    ) -> Losses:
        """‖X − X̂‖_F, ‖A − Â‖_F and KL(q(Z|A,X) ‖ N(0, I)), each a mean over graphs.

        z : (b, n, K + L), whole or in parts; x : the `features` of the batch, where they are known.
        """
        x = self.features(batch) if x is None else x
        features = self.decoders["features"].distance(z, x, batch.padding)  # type: ignore[operator]
        adjacency = self.decoders["adjacency"].distance(z, batch.edges, batch.padding)  # type: ignore[operator]
        return {
            "features": features.mean(),
            "adjacency": adjacency.mean(),
            "kl": _node_mean(latent.kl(), batch).sum(1).mean(),
        }

    def causal_losses(self, z: Tensor, logits: Tensor | None, batch: GraphBatch) -> Losses:
        """I(α; β) and minus the causal effect of α, over the graphs of the batch; HSIC(α, β) beside them.

        z : (b, n, K + L), the mean latents: drawn ones, pooled over nodes, are mostly noise, and the
        estimates would be those of independent samples whatever the encoder does.
        """
        pooled = _node_mean(z, batch)
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


def _node_mean(x: Tensor, batch: GraphBatch) -> Tensor:
    """Mean over the real nodes of each graph: (b, n, d) → (b, d)."""
    return mean_readout(zero_padding(x, batch.padding), batch.padding)


def _deviation(adj: Tensor, edges: Tensor, centre: Tensor, scale: Tensor) -> Tensor:
    """How far edges are from their usual weight, in its spread; 0 where there are none."""
    return (adj - centre) / scale * edges
