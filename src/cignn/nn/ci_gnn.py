"""CI-GNN: encoder, decoders, causal effect estimator, causal subgraph and classifier in one module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cignn.graphs import GraphBatch
from cignn.information import causal_terms, gaussian_gram, hsic, label_gram
from cignn.nn.classifier import GraphNetwork
from cignn.nn.decoders import FeatureDecoder, InnerProduct
from cignn.nn.encoder import GraphEncoder, Latent
from cignn.nn.layers import mean_readout
from cignn.nn.subgraph import edge_information, sample_edges

CAUSAL_EFFECTS = ("cmi", "cmi_prediction", "mi", None)
MASKS = ("stochastic", "soft")

Losses = dict[str, Tensor]


class CIGNNOutput(NamedTuple):
    """What one pass through CI-GNN gives.

    logits : (b, classes); edge_logits, edge_weights : (b, n, n), the latter zero off the graph's edges.
    alpha : (b, n, K); beta : (b, n, L); latent : the Gaussian they come from.
    """

    logits: Tensor
    edge_logits: Tensor
    edge_weights: Tensor
    alpha: Tensor
    beta: Tensor
    latent: Latent


class CIGNN(nn.Module):
    """The whole model.

    ``separate_products`` gives each of the two inner products, Â and the subgraph, a projection of its own;
    ``mask`` says whether edges are sampled while training ("stochastic") or weighted ("soft");
    ``frozen_encoder`` switches the latent noise off once the encoder is trained.
    """

    feature_scale: Tensor  # (d,) what node features are divided by
    class_weight: Tensor  # (classes,)
    label_entropy: Tensor  # () nats, of the training labels

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
        causal_effect: str | None = "cmi",
        independence: bool = True,
        order: float = 1.01,
    ) -> None:
        super().__init__()
        n_latent = n_causal + n_noncausal
        self.n_causal = n_causal
        self.mask = mask
        self.temperature = temperature
        self.causal_effect = causal_effect
        self.independence = independence
        self.order = order
        self.noisy = True
        self.encoder = GraphEncoder(
            n_features, n_latent, encoder_hidden, encoder, encoder_activation, encoder_density
        )
        self.decoders = nn.ModuleDict(
            {
                "features": FeatureDecoder(n_latent, n_features),
                "adjacency": InnerProduct(n_latent, projected=separate_products),
            }
        )
        self.subgraph = InnerProduct(n_causal, projected=separate_products)
        self.classifier = GraphNetwork(
            n_features, n_classes, classifier, classifier_hidden, head_hidden, readout, dropout
        )
        self.register_buffer("feature_scale", torch.ones(n_features))
        self.register_buffer("class_weight", torch.ones(n_classes))
        self.register_buffer("label_entropy", torch.tensor(float(n_classes)).log())

    # ----------------------------------------------------------------- passes

    def encode(self, batch: GraphBatch) -> tuple[Latent, Tensor]:
        """Return the latent Gaussian and one value of it: a draw while training, its mean otherwise."""
        latent = self.encoder(batch.x / self.feature_scale, batch.adj, batch.padding)
        return latent, latent.sample() if self.training and self.noisy else latent.mean

    def forward(self, batch: GraphBatch) -> CIGNNOutput:
        """Classify a batch through its causal subgraph."""
        latent, z = self.encode(batch)
        alpha, beta = z[..., : self.n_causal], z[..., self.n_causal :]
        edge_logits = self.subgraph(alpha)
        sampled = self.training and self.mask == "stochastic"
        prob = sample_edges(edge_logits, self.temperature) if sampled else torch.sigmoid(edge_logits)
        weights = prob * batch.edge_mask
        logits = self.classifier(batch.x / self.feature_scale, batch.adj * prob, batch.padding)
        return CIGNNOutput(logits, edge_logits, weights, alpha, beta, latent)

    # ----------------------------------------------------------------- losses

    def generative_losses(self, batch: GraphBatch) -> Losses:
        """Terms of L1, paper eq. (15): the GraphVAE and the causal effect."""
        latent, z = self.encode(batch)
        losses = self.reconstruction_losses(latent, z, batch)
        logits = self(batch).logits if self.causal_effect == "cmi_prediction" else None
        return losses | self.causal_losses(z[..., : self.n_causal], z[..., self.n_causal :], logits, batch)

    def classification_losses(
        self, batch: GraphBatch, keep: float | None = None, generative: bool = False
    ) -> Losses:
        """Terms of L2, paper eq. (19), and the price of edges above the share ``keep``.

        The price is scaled by the squared share of the label's entropy that the batch's predictions explain:
        a network is not asked to save edges it has not yet learnt to use. With ``generative`` the GraphVAE
        runs beside the classifier and shapes β: it reads α but does not move it.
        """
        out = self(batch)
        losses = {"classification": F.cross_entropy(out.logits, batch.y, self.class_weight)}  # type: ignore[arg-type]
        if keep is not None:
            explained = (1 - losses["classification"].detach() / self.label_entropy).clamp(0, 1).square()
            losses["edges"] = explained * edge_information(out.edge_logits, batch.edge_mask, keep)
        if generative:
            rest = Latent(out.latent.mean[..., self.n_causal :], out.latent.log_std[..., self.n_causal :])
            z = torch.cat([out.alpha.detach(), out.beta], -1)
            losses |= self.reconstruction_losses(rest, z, batch)
        return losses | self.causal_losses(out.alpha, out.beta, out.logits, batch)

    def reconstruction_losses(self, latent: Latent, z: Tensor, batch: GraphBatch) -> Losses:
        """‖X − X̂‖_F, ‖A − Â‖_F and KL(q(Z|A,X) ‖ N(0, I)), each a mean over graphs."""
        nodes = batch.mask.to(z.dtype)
        x = batch.x / self.feature_scale
        features = ((x - self.decoders["features"](z)) * nodes.unsqueeze(-1)).flatten(1)
        pairs = nodes.unsqueeze(1) * nodes.unsqueeze(2)
        adjacency = (batch.edge_mask.to(z.dtype) - torch.sigmoid(self.decoders["adjacency"](z))) * pairs
        kl = 0.5 * (latent.mean.square() + (2 * latent.log_std).exp() - 1) - latent.log_std
        return {
            "features": _norm(features).mean(),
            "adjacency": _norm(adjacency.flatten(1)).mean(),
            "kl": ((kl.sum(-1) * nodes).sum(1) / nodes.sum(1)).mean(),
        }

    def causal_losses(self, alpha: Tensor, beta: Tensor, logits: Tensor | None, batch: GraphBatch) -> Losses:
        """I(α; β) and minus the causal effect of α, over the graphs of the batch; HSIC(α, β) beside them."""
        gram_alpha = gaussian_gram(mean_readout(alpha * batch.mask.unsqueeze(-1), batch.mask))
        gram_beta = gaussian_gram(mean_readout(beta * batch.mask.unsqueeze(-1), batch.mask))
        losses: Losses = {}
        if self.independence or self.causal_effect is not None:
            if self.causal_effect == "cmi_prediction":
                gram_y = gaussian_gram(torch.softmax(logits, -1))  # type: ignore[arg-type]
            else:
                gram_y = label_gram(batch.y)  # type: ignore[arg-type]
            terms = causal_terms(
                gram_alpha, gram_beta, gram_y, order=self.order, with_mi=self.causal_effect == "mi"
            )
            if self.independence:
                losses["independence"] = terms.independence
            if self.causal_effect is not None:
                losses["causal"] = -(terms.mi if self.causal_effect == "mi" else terms.cmi)  # type: ignore[operator]
        losses["hsic"] = hsic(gram_alpha.detach(), gram_beta.detach())
        return losses


def _norm(x: Tensor) -> Tensor:
    """Frobenius norm of each row, with a finite gradient at zero."""
    return torch.sqrt(x.square().sum(1) + 1e-12)
