"""Explainers of graph classifiers with one interface and one result type, `cignn.Explanations`."""

from cignn._checks import nearest
from cignn.explainers.base import Explainer, NetworkExplainer
from cignn.explainers.gnn_explainer import GNNExplainer
from cignn.explainers.group import explain_group
from cignn.explainers.maps import (
    CoefficientExplainer,
    HaufeExplainer,
    UnivariateExplainer,
    effective_coefficients,
)
from cignn.explainers.orphicx import InformationFlow, OrphicX
from cignn.explainers.pg_explainer import PGExplainer
from cignn.explainers.rc_explainer import RCExplainer
from cignn.explainers.references import (
    BuiltInExplainer,
    ConnectivityExplainer,
    ContributionExplainer,
    DegreeExplainer,
    GradientExplainer,
    RandomExplainer,
)

EXPLAINERS: dict[str, type[Explainer]] = {
    "gnn-explainer": GNNExplainer,
    "pg-explainer": PGExplainer,
    "rc-explainer": RCExplainer,
    "orphicx": OrphicX,
    "built-in": BuiltInExplainer,
    "contributions": ContributionExplainer,
    "random": RandomExplainer,
    "degree": DegreeExplainer,
    "connectivity": ConnectivityExplainer,
    "gradient": GradientExplainer,
    "univariate": UnivariateExplainer,
    "coefficients": CoefficientExplainer,
    "haufe": HaufeExplainer,
}
"""Explainers by the names that `make_explainer` takes."""


def make_explainer(name: str, **params: object) -> Explainer:
    """Make an explainer by its name.

    Parameters
    ----------
    name : str
        A key of `EXPLAINERS`: "gnn-explainer", "pg-explainer", "rc-explainer", "orphicx", "built-in",
        "contributions", "random", "degree", "connectivity", "gradient" or, for aligned graphs alone,
        "univariate", "coefficients" or "haufe".
    **params : object
        Parameters of the explainer.

    Returns
    -------
    Explainer
        The explainer, not yet fitted.

    Examples
    --------
    >>> from cignn.explainers import make_explainer
    >>> make_explainer("gnn-explainer", steps=300)
    GNNExplainer(steps=300)
    """
    if name not in EXPLAINERS:
        raise ValueError(f"there is no explainer {name!r}{nearest(name, EXPLAINERS)}")
    known = EXPLAINERS[name]._get_param_names()
    for param in params:
        if param not in known:
            raise ValueError(f"{name!r} has no parameter {param!r}{nearest(param, known)}")
    return EXPLAINERS[name](**params)


__all__ = [
    "EXPLAINERS",
    "BuiltInExplainer",
    "CoefficientExplainer",
    "ConnectivityExplainer",
    "ContributionExplainer",
    "DegreeExplainer",
    "Explainer",
    "GNNExplainer",
    "GradientExplainer",
    "HaufeExplainer",
    "InformationFlow",
    "NetworkExplainer",
    "OrphicX",
    "PGExplainer",
    "RCExplainer",
    "RandomExplainer",
    "UnivariateExplainer",
    "effective_coefficients",
    "explain_group",
    "make_explainer",
]
