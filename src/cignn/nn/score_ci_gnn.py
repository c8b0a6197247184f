"""CI-GNN that predicts a score: squared error, and a Gaussian kernel on the score in the causal terms."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn import functional as F

from cignn.graphs import GraphBatch
from cignn.information import gaussian_gram
from cignn.nn.ci_gnn import CIGNN


class ScoreCIGNN(CIGNN):
    """CI-GNN with one output, a standardised score, in place of class logits.

    Labels of batches are scores of mean 0 and standard deviation 1 in the training graphs. ``label_entropy``
    is then their variance, the loss of a network that predicts the mean: what subgraphs explain of the labels
    is their R².

    Parameters
    ----------
    n_features : int
        Number of node features.
    n_outputs : int, default=1
        Number of scores; 1.
    **settings : dict
        Those of `CIGNN`.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.nn import ScoreCIGNN
    >>> batch = make_ba2motifs(4, random_state=0).batch()
    >>> ScoreCIGNN(batch.x.shape[-1], encoder="gin")(batch).logits.shape
    torch.Size([4, 1])
    """

    score_name = "r2"

    def __init__(self, n_features: int, n_outputs: int = 1, **settings: Any) -> None:
        super().__init__(n_features, n_outputs, **settings)
        self.label_entropy.fill_(1.0)

    def prediction_loss(self, logits: Tensor, batch: GraphBatch) -> Tensor:
        """Return the mean squared error.

        Parameters
        ----------
        logits : Tensor of shape (b, 1)
            Predicted scores, standardised.
        batch : GraphBatch
            Graphs with standardised scores as labels.

        Returns
        -------
        Tensor of shape ()
            Squared error, 1 for a network that predicts the mean.
        """
        assert batch.y is not None
        return F.mse_loss(logits[:, 0], batch.y.to(logits.dtype))

    def rest_loss(self, rest_logits: Tensor) -> Tensor:
        """Return how far predictions from the edges left out are from the mean score.

        Parameters
        ----------
        rest_logits : Tensor of shape (r, 1)
            Predictions by what subgraphs leave.

        Returns
        -------
        Tensor of shape ()
            Mean square.
        """
        return rest_logits.square().mean()

    def target_gram(self, logits: Tensor | None, batch: GraphBatch) -> Tensor:
        """Return the Gaussian Gram matrix of the scores, or of predicted ones.

        Parameters
        ----------
        logits : Tensor of shape (b, 1) or None
            Predictions Ŷ; None for the scores Y.
        batch : GraphBatch
            Graphs with scores.

        Returns
        -------
        Tensor of shape (b, b)
            Gram matrix, of the kernel that the latents have too.
        """
        if logits is not None:
            return gaussian_gram(logits)
        assert batch.y is not None
        return gaussian_gram(batch.y[:, None])

    def graph_scores(self, logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return how well each of some validation graphs is predicted.

        Parameters
        ----------
        logits : Tensor of shape (b, 1)
            Predicted scores, standardised.
        y : Tensor of shape (b,)
            Standardised scores.

        Returns
        -------
        score : Tensor of shape (b,)
            1 minus the squared error, whose mean is R² beside the mean of the training scores.
        loss : Tensor of shape (b,)
            Squared error.
        """
        loss = F.mse_loss(logits[:, 0], y.to(logits.dtype), reduction="none")
        return 1 - loss, loss
