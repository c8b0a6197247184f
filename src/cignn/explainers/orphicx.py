"""`OrphicX` (Lin et al. 2022): latent causal factors of a prediction and the edges decoded from them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cignn._random import RandomState, torch_seed
from cignn.estimators.classifier import GraphClassifier
from cignn.estimators.settings import choice, widths
from cignn.explainers.base import EdgeBatch, NetworkExplainer, check_params, device_of, frozen
from cignn.explainers.gnn_explainer import binary_entropy
from cignn.graphs import GraphBatch, GraphSet
from cignn.nn import LAYERS, GraphEncoder, InnerProduct, Latent

START = 5.0  # initial logit of an edge: on nearly whole graphs the model predicts as before
ALIGNED_DENSITY = 0.1  # share of strongest edges the encoder of aligned graphs looks at


class InformationFlow(NamedTuple):
    """Information flow from the latent factors of `OrphicX` to the model's prediction.

    Parameters
    ----------
    alpha : float
        Nats that flow from the causal factors α.
    beta : float
        Nats that flow from the other factors β.

    Examples
    --------
    >>> from cignn.explainers import InformationFlow
    >>> InformationFlow(alpha=0.5, beta=0.25).alpha
    0.5
    """

    alpha: float
    beta: float


class OrphicX(NetworkExplainer):
    """OrphicX: a graph VAE on the model's input with Z = [α; β], whose mask is decoded from α.

    The objective is the information flow from α to the model's prediction, plus reconstruction, KL divergence
    and the size and entropy of the mask. The flow is that of an intervention: α is set, β is drawn from its
    prior, and the model reads the graph masked by both; the bound H(Ŷ) + E log p(ŷ | do(α)) is maximised. An
    explanation is the mask of α's mean with β at 0.

    Parameters
    ----------
    n_causal : int, default=16
        Dimensions of α.
    n_noncausal : int, default=8
        Dimensions of β.
    encoder : {"gin", "gcn", "gat"}, default="gin"
        GNN layer of the encoder.
    hidden : tuple of int, default=(32, 32)
        Widths of the encoder's layers.
    epochs : int, default=30
        Passes over the graphs of ``fit``.
    learning_rate : float, default=0.005
        Learning rate of Adam.
    flow_weight : float, default=1.0
        Weight of the information flow.
    reconstruction : float, default=0.1
        Weight of the adjacency's reconstruction.
    kl_weight : float, default=0.001
        Weight of the KL divergence.
    size_weight : float, default=1.0
        Weight of the mean edge weight.
    entropy_weight : float, default=0.1
        Weight of the mask's mean entropy.
    n_draws : int, default=2
        Draws of β for every α.
    train_batch_size : int, default=32
        Graphs in a training step.
    batch_size : int, default=128
        Graphs explained at a time.
    random_state : int, RandomState, Generator or None, default=None
        Source of all random numbers.
    verbose : int, default=0
        Whether to show a progress bar.

    References
    ----------
    Lin et al., "OrphicX: A causality-inspired latent variable model for interpreting graph neural networks",
    CVPR 2022.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import make_estimator
    >>> from cignn.explainers import OrphicX
    >>> graphs = make_ba2motifs(8, random_state=0)
    >>> gnn = make_estimator("gin", epochs=1, random_state=0).fit(graphs)
    >>> explainer = OrphicX(epochs=1, random_state=0).fit(gnn, graphs)
    >>> explainer.explain(graphs[:2])[0].weights.shape
    (25, 25)
    """

    def __init__(
        self,
        n_causal: int = 16,
        n_noncausal: int = 8,
        encoder: str = "gin",
        hidden: tuple[int, ...] = (32, 32),
        epochs: int = 30,
        learning_rate: float = 0.005,
        flow_weight: float = 1.0,
        reconstruction: float = 0.1,
        kl_weight: float = 0.001,
        size_weight: float = 1.0,
        entropy_weight: float = 0.1,
        n_draws: int = 2,
        train_batch_size: int = 32,
        batch_size: int = 128,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.n_causal = n_causal
        self.n_noncausal = n_noncausal
        self.encoder = encoder
        self.hidden = hidden
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.flow_weight = flow_weight
        self.reconstruction = reconstruction
        self.kl_weight = kl_weight
        self.size_weight = size_weight
        self.entropy_weight = entropy_weight
        self.n_draws = n_draws
        self.train_batch_size = train_batch_size
        self.batch_size = batch_size
        self.random_state = random_state
        self.verbose = verbose

    def _check(self, estimator: GraphClassifier) -> None:
        super()._check(estimator)
        check_params(
            self,
            ("n_causal", "n_noncausal", "epochs", "n_draws", "train_batch_size"),
            ("learning_rate",),
            ("flow_weight", "reconstruction", "kl_weight", "size_weight", "entropy_weight"),
        )
        params = self.get_params(deep=False)
        choice(params, "encoder", LAYERS)
        widths(params, "hidden")

    def _fit(self, graphs: GraphSet) -> None:
        batches = [self._edges(graphs, index) for index in graphs.batch_indices(self.train_batch_size, True)]
        density = ALIGNED_DENSITY if graphs.aligned else None
        self.vae_ = CausalVAE(
            graphs.n_features, self.n_causal, self.n_noncausal, self.encoder, self.hidden, density
        ).to(batches[0].graph.device)
        scale = torch.from_numpy(np.abs(graphs.feature_range()).max(0))
        self.vae_.feature_scale.copy_(torch.where(scale > 0, scale, 1.0))
        with frozen(self.network_), torch.no_grad():
            targets = [self.network_.read(edges.batch).argmax(1) for edges in batches]
        self._descend(self.vae_, len(batches), lambda i, epoch: self._loss(batches[i], targets[i]))

    def _loss(self, edges: EdgeBatch, target: Tensor) -> Tensor:
        batch, vae = edges.batch, self.vae_
        latent = vae.encode(batch)
        z = latent.sample()
        read = self._log_prob(edges, z[..., : self.n_causal], None, self.n_draws)
        flow = read.gather(1, target[:, None]).mean()
        logits = edges.read(vae.mask_logits(z[..., : self.n_causal]))
        mask = torch.sigmoid(logits)
        share = 1 / (edges.count(torch.as_tensor(edges.counts, device=z.device)) * len(batch))
        terms = {
            "flow": -self.flow_weight * flow,
            "adjacency": self.reconstruction * vae.reconstruction_loss(z, batch),
            "kl": self.kl_weight * latent.kl().sum(-1)[batch.mask].mean(),
            "size": self.size_weight * (share * mask).sum(),
            "entropy": self.entropy_weight * (share * binary_entropy(logits, mask)).sum(),
        }
        return torch.stack(list(terms.values())).sum()

    def _log_prob(self, edges: EdgeBatch, alpha: Tensor | None, beta: Tensor | None, n_draws: int) -> Tensor:
        """(b, classes) log p(y | do(factor)); the factor that is None is drawn ``n_draws`` times."""
        shape, device = edges.batch.x.shape[:2], edges.graph.device
        drawn = []
        for _ in range(n_draws):
            a = torch.randn(*shape, self.n_causal, device=device) if alpha is None else alpha
            b = torch.randn(*shape, self.n_noncausal, device=device) if beta is None else beta
            weights = torch.sigmoid(self.vae_.mask_logits(a, b))
            drawn.append(F.log_softmax(self.network_.read(edges.batch, weights), 1))
        return torch.logsumexp(torch.stack(drawn), 0) - math.log(n_draws)

    def _weigh(self, edges: EdgeBatch) -> Tensor:
        latent = self.vae_.encode(edges.batch)
        return torch.sigmoid(edges.read(self.vae_.mask_logits(latent.mean[..., : self.n_causal])))

    @torch.no_grad()
    def information_flow(self, graphs: GraphSet, n_draws: int = 20) -> InformationFlow:
        """Return the information flow from α and from β to the model's prediction.

        One factor is set to that of each graph and the other is drawn: the flow is the mutual information
        between the class predicted on the whole graph and the class predicted then. It is at most the entropy
        of the predicted classes.

        Parameters
        ----------
        graphs : GraphSet
            The graphs.
        n_draws : int, default=20
            Draws of the other factor.

        Returns
        -------
        InformationFlow
            Nats from α and from β.
        """
        graphs = self._seen(graphs)
        n_classes = len(self.estimator_.classes_)
        joint = torch.zeros(2, n_classes, n_classes, dtype=torch.float64)
        with frozen(self.network_), torch_seed(self.seed_, device_of(self.estimator_)):
            for index in graphs.batch_indices(self.batch_size):
                edges = self._edges(graphs, index)
                target = self.network_.read(edges.batch).argmax(1).cpu()
                mean = self.vae_.encode(edges.batch).mean
                alpha, beta = mean[..., : self.n_causal], mean[..., self.n_causal :]
                for table, factors in zip(joint, ((alpha, None), (None, beta)), strict=True):
                    prob = self._log_prob(edges, *factors, n_draws).exp().double().cpu()
                    table.index_add_(0, target, prob / len(graphs))
        return InformationFlow(*(mutual_information(table) for table in joint.numpy()))


def mutual_information(joint: np.ndarray) -> float:
    """Mutual information in nats of the rows and columns of a table of probabilities."""
    independent = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    there = joint > 0
    return float((joint[there] * np.log(joint[there] / independent[there])).sum())


class CausalVAE(nn.Module):
    """Encoder to Z = [α; β], the products that decode the adjacency from Z and the mask from α (and β)."""

    feature_scale: Tensor  # (d,) divisor of the node features

    def __init__(
        self, n_features: int, k: int, rest: int, encoder: str, hidden: tuple[int, ...], density: float | None
    ) -> None:
        super().__init__()
        self.register_buffer("feature_scale", torch.ones(n_features))
        self.encoder = GraphEncoder(n_features, k + rest, hidden, encoder, density=density)
        self.adjacency = InnerProduct(k + rest, True)
        self.causal = InnerProduct(k, True)
        self.other = InnerProduct(rest, True)
        nn.init.constant_(self.causal.bias, START)

    def encode(self, batch: GraphBatch) -> Latent:
        """Return the latent Gaussian of every node."""
        return self.encoder(batch.x / self.feature_scale, batch.adj, batch.padding)

    def mask_logits(self, alpha: Tensor, beta: Tensor | None = None) -> Tensor:
        """(b, n, n) edge logits from α, β at 0 where it is left out."""
        logits = self.causal(alpha)
        return logits if beta is None else logits + self.other(beta) - self.other.bias

    def reconstruction_loss(self, z: Tensor, batch: GraphBatch) -> Tensor:
        """Cross-entropy of Â, with equal weight for node pairs with and without an edge."""
        pairs = batch.mask[:, :, None] & batch.mask[:, None]
        pairs = pairs & ~torch.eye(z.shape[1], dtype=torch.bool, device=z.device)
        there, absent = batch.edge_mask, pairs & ~batch.edge_mask
        logits = self.adjacency(z)
        loss = F.softplus(-logits)[there].mean() if there.any() else logits.sum() * 0
        return loss + (F.softplus(logits)[absent].mean() if absent.any() else logits.sum() * 0)
