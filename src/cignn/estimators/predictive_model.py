"""`ConnectomePredictiveModel`: sums of connections that go along with a score, and a line through them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.stats import t as t_distribution
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from cignn._checks import number


class ConnectomePredictiveModel(RegressorMixin, BaseEstimator):
    """Connectome-based predictive modelling (CPM) of vectors of connections.

    Connections whose correlation with the score in the training subjects has a p-value below a threshold are
    selected. Those that rise with the score are summed, and so are those that fall; the prediction is a
    linear function of the two sums, fitted by least squares. If nothing is selected, it is the mean.

    Parameters
    ----------
    threshold : float, default=0.01
        Largest p-value of a connection that is selected.

    Attributes
    ----------
    coef_ : ndarray of shape (n_connections,)
        What the prediction changes by per unit of a connection, 0 for those that are not selected.
    intercept_ : float
        The prediction where all connections are 0.
    selected_ : ndarray of shape (n_connections,)
        1 for connections that rise with the score, -1 for those that fall, 0 for those not selected.
    n_features_in_ : int
        Number of connections.

    References
    ----------
    Shen et al. (2017), Using connectome-based predictive modeling to predict individual behavior from brain
    connectivity, Nature Protocols 12.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.estimators import ConnectomePredictiveModel
    >>> x = np.random.default_rng(0).normal(size=(80, 5))
    >>> model = ConnectomePredictiveModel(threshold=1e-4).fit(x, x[:, 1] - x[:, 3])
    >>> model.selected_.tolist()
    [0, 1, 0, -1, 0]
    """

    def __init__(self, threshold: float = 0.01) -> None:
        self.threshold = threshold

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # two sums of features fit hardly anything but connectomes
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Select connections and fit the line.

        Parameters
        ----------
        X : array of shape (n, n_connections)
            Connections.
        y : array of shape (n,)
            Scores.

        Returns
        -------
        ConnectomePredictiveModel
            The fitted model.
        """
        threshold = number("threshold", self.threshold, 0, 1, include_high=True)
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        r, p = correlations(X, np.asarray(y, np.float64))
        self.selected_ = np.where(p < threshold, np.sign(r), 0).astype(np.int8)
        sides = [side for side in (1, -1) if (self.selected_ == side).any()]
        masks = np.array([self.selected_ == side for side in sides], np.float64).reshape(-1, X.shape[1])
        sums, level = X @ masks.T, y.mean()
        slopes = np.linalg.lstsq(sums - sums.mean(0), y - level, rcond=None)[0]
        self.coef_ = slopes @ masks
        self.intercept_ = float(level - sums.mean(0) @ slopes)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predict scores.

        Parameters
        ----------
        X : array of shape (n, n_connections)
            Connections.

        Returns
        -------
        ndarray of shape (n,)
            Scores.
        """
        check_is_fitted(self)
        return validate_data(self, X, dtype=np.float64, reset=False) @ self.coef_ + self.intercept_


def correlations(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pearson correlations (features,) of columns with y, and their two-sided p-values.

    A column that does not vary has r = 0 and p = 1.
    """
    x, y = x - x.mean(0), y - y.mean()
    sizes = np.sqrt(np.square(x).sum(0) * np.square(y).sum())
    r = np.clip(np.divide(y @ x, sizes, out=np.zeros(x.shape[1]), where=sizes > 0), -1, 1)
    freedom = len(y) - 2
    if freedom < 1:
        return r, np.ones(len(r))
    with np.errstate(divide="ignore"):
        t = np.abs(r) * np.sqrt(freedom / (1 - r**2))
    return r, np.where(sizes > 0, 2 * t_distribution.sf(t, freedom), 1.0)
