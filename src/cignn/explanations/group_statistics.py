"""Statistics of maps of connections: against permuted labels, by system, as networks, against nuisances.

A map has one value per connection, in the order of `cignn._arrays.upper_pairs`. Maps under permuted labels,
(P, e), come from the same procedure as the map itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse, special, stats
from scipy.sparse import csgraph

from cignn._arrays import upper_indices

NUISANCE = 0.3  # rank correlation with a nuisance's map above which a map is flagged


class Scores(NamedTuple):
    """Standardised maps."""

    observed: np.ndarray  # (e,)
    null: np.ndarray  # (P, e)


class NullTest(NamedTuple):
    """The map against maps under permuted labels."""

    p: np.ndarray  # (e,)
    q: np.ndarray  # (e,) Benjamini–Hochberg


def q_values(observed: np.ndarray, null: np.ndarray, two_sided: bool = True, scale: bool = False) -> NullTest:
    """Test every connection against the values of all connections under permuted labels.

    The null is pooled: p is (1 + the number of null values at least as large) / (1 + P e). So a few
    permutations are enough for small p-values, if connections have the same null distribution.

    Parameters
    ----------
    observed : array of shape (e,)
        The map.
    null : array of shape (P, e)
        Maps under permuted labels.
    two_sided : bool, default=True
        Whether absolute values are compared. Otherwise only large values count.
    scale : bool, default=False
        Standardise each connection first, see `standardised`, where connections differ in the spread of
        their null.

    Returns
    -------
    NullTest
        ``p`` and ``q``, both of shape (e,).
    """
    observed, null = _maps(observed, null)
    if scale:
        observed, null = standardised(observed, null, two_sided)
    p = permutation_p(observed, null, two_sided, pool=True)
    return NullTest(p, stats.false_discovery_control(p))


def permutation_p(
    observed: np.ndarray, null: np.ndarray, two_sided: bool = True, pool: bool = False
) -> np.ndarray:
    """(e,) p-values of observed (e,) against null (P, e), each against its own null or against all of it."""
    if two_sided:
        observed, null = np.abs(observed), np.abs(null)
    if not pool:
        return (1 + (null >= observed).sum(0)) / (1 + len(null))
    pooled = np.sort(null, axis=None)
    return (1 + len(pooled) - np.searchsorted(pooled, observed)) / (1 + len(pooled))


def standardised(observed: np.ndarray, null: np.ndarray, two_sided: bool = True) -> Scores:
    """Divide each connection by the standard deviation of its own null, shrunk towards the mean of all.

    observed : (e,); null : (P, e). Deviations are from zero, or from the connection's null mean where not
    ``two_sided``. Each null map is standardised without itself, since the observed one is: with its own value
    in the standard deviation a null map would have shorter tails. Logarithms of variances are shrunk by
    the share of their spread over connections that is expected of P normal values with one variance.
    """
    observed, null = _maps(observed, null)
    n = len(null)
    if n < 3:  # no spread of its own to speak of
        spread = np.sqrt((null**2).mean()) or 1.0
        return Scores(observed / spread, null / spread)
    mean = np.zeros_like(observed) if two_sided else null.mean(0)
    rest_mean = np.zeros_like(null) if two_sided else (n * mean - null) / (n - 1)
    square = (null**2).sum(0)
    variance = square / n - mean**2
    rest = (square - null**2) / (n - 1) - rest_mean**2
    floor = 1e-12 * variance.mean() or 1.0
    log, rest_log = (np.log(np.maximum(one, floor)) for one in (variance, rest))
    spread = log.var()
    shrinkage = min(1.0, special.polygamma(1, n / 2) / spread) if spread > 0 else 1.0
    log, rest_log = (one + shrinkage * (log.mean() - one) for one in (log, rest_log))
    return Scores((observed - mean) / np.exp(log / 2), (null - rest_mean) / np.exp(rest_log / 2))


def enrichment(values: np.ndarray, systems: np.ndarray, null: np.ndarray, pool: bool = False) -> pd.DataFrame:
    """Test in which pairs of functional systems a map concentrates, against permuted labels.

    Means over a pair of systems are relative to the mean absolute value of the whole map: a map that is
    larger everywhere than those of permuted labels is not enriched everywhere.

    Parameters
    ----------
    values : array of shape (e,)
        The map.
    systems : array of shape (n,)
        The system of each node.
    null : array of shape (P, e)
        Maps under permuted labels.
    pool : bool, default=False
        Compare the standardised statistic of a pair with that of all pairs under permuted labels. With few
        permutations no pair can survive correction otherwise: the smallest p is 1 / (1 + P).

    Returns
    -------
    DataFrame
        One row per pair of systems that connections join, the smallest p first: ``source_system``,
        ``target_system``, the number ``n`` of connections, their ``mean`` value; ``enrichment``, their mean
        absolute value, relative to the map's, in standard deviations of the null from the null's mean, with
        ``p`` (one-sided) and ``q`` (Benjamini–Hochberg over pairs); ``shift``, the same for the signed mean,
        with ``shift_p`` (two-sided) and ``shift_q``.
    """
    values, null = _maps(values, null)
    names, codes = np.unique(np.asarray(systems).astype(str), return_inverse=True)
    rows, columns = upper_indices(len(codes))
    if len(rows) != len(values):
        raise ValueError(f"{len(codes)} nodes have {len(rows)} connections, got {len(values)} values.")
    ends = np.sort(codes[np.stack([rows, columns])], axis=0)
    pairs, which, counts = np.unique(ends[0] * len(names) + ends[1], return_inverse=True, return_counts=True)
    shape = (len(pairs), len(values))
    means = sparse.csr_array((1 / counts[which], (which, np.arange(len(values)))), shape)
    table = pd.DataFrame(
        {
            "source_system": names[pairs // len(names)],
            "target_system": names[pairs % len(names)],
            "n": counts,
            "mean": means @ values,
        }
    )
    values, null = _relative(values), _relative(null)
    for name, own, nulls, two_sided in (
        ("enrichment", means @ np.abs(values), (means @ np.abs(null).T).T, False),
        ("shift", means @ values, (means @ null.T).T, True),
    ):
        prefix = "" if name == "enrichment" else f"{name}_"
        table[name], p = _against_null(own, nulls, two_sided, pool)
        table[f"{prefix}p"] = p
        table[f"{prefix}q"] = stats.false_discovery_control(p) if len(null) else np.nan
    order = np.lexsort([-table["enrichment"], table["p"]])
    return table.iloc[order].reset_index(drop=True)


def _relative(maps: np.ndarray) -> np.ndarray:
    """(..., e) maps divided by their mean absolute value."""
    size = np.abs(maps).mean(-1, keepdims=True)
    return np.divide(maps, size, out=np.zeros_like(maps), where=size > 0)


def _against_null(
    own: np.ndarray, null: np.ndarray, two_sided: bool, pool: bool
) -> tuple[np.ndarray, np.ndarray]:
    """(m,) z against the null, and p, of statistics own (m,) and null (P, m)."""
    if len(null) < 2:
        nothing = np.full(len(own), np.nan)
        return nothing, nothing if not len(null) else permutation_p(own, null, two_sided)
    spread = null.std(0, ddof=1)
    z = np.divide(own - null.mean(0), spread, out=np.zeros_like(own), where=spread > 0)
    if not pool:
        return z, permutation_p(own, null, two_sided)
    return z, permutation_p(*standardised(own, null, two_sided), two_sided, pool=True)


def connected_components(selected: np.ndarray, n: int, null: np.ndarray | None = None) -> pd.DataFrame:
    """Return the networks that selected connections form, as network-based statistics report them.

    Parameters
    ----------
    selected : array of shape (e,)
        Which connections are selected.
    n : int
        Number of nodes.
    null : array of shape (P, e), default=None
        Which connections are selected under permuted labels, by the same threshold or as many.

    Returns
    -------
    DataFrame
        One row per component of two or more nodes, the largest first: ``component`` (from 1), ``n_edges``,
        ``n_nodes``, ``nodes`` (a tuple of node numbers), and ``p``: how often the largest component under
        permuted labels has at least as many edges, (1 + #) / (1 + P); NaN without null.

    References
    ----------
    A. Zalesky, A. Fornito and E. T. Bullmore, Network-based statistic: identifying differences in brain
    networks, NeuroImage 53, 2010.
    """
    node, sizes = _component_sizes(np.asarray(selected, bool), n)
    null = np.zeros((0, len(selected)), bool) if null is None else np.asarray(null, bool)
    most = np.array([_component_sizes(one, n)[1].max(initial=0) for one in null])
    rows: list[tuple[object, ...]] = []
    for label in np.argsort(-sizes, kind="stable"):
        if not sizes[label]:
            break
        nodes = tuple(np.flatnonzero(node == label).tolist())
        p = (1 + (most >= sizes[label]).sum()) / (1 + len(most)) if len(most) else np.nan
        rows.append((len(rows) + 1, int(sizes[label]), len(nodes), nodes, p))
    return pd.DataFrame(rows, columns=["component", "n_edges", "n_nodes", "nodes", "p"])


def _component_sizes(selected: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """(n,) the component of each node, and (components,) the number of edges in each."""
    rows, columns = upper_indices(n)
    if selected.shape != rows.shape:
        raise ValueError(f"{n} nodes have {len(rows)} connections, got a selection of {selected.shape}.")
    ends = rows[selected], columns[selected]
    count, node = csgraph.connected_components(
        sparse.coo_array((np.ones(len(ends[0])), ends), (n, n)), directed=False
    )
    return node, np.bincount(node[ends[0]], minlength=count)


def nuisance_correlation(values: np.ndarray, nuisances: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Return how much a map resembles the maps of nuisances.

    values : (e,) the map. nuisances : by name (e,) the nuisance's own map. One without negative values, such
    as a share of variance, has no sign and is compared with the absolute values of the map. Returns a table
    with ``nuisance``, Spearman's ``rho`` and ``flag``, whether it exceeds 0.3 in absolute value.
    """
    values = np.asarray(values, np.float64)
    rows = []
    for name, nuisance in nuisances.items():
        nuisance = np.asarray(nuisance, np.float64)
        if nuisance.shape != values.shape:
            raise ValueError(
                f"the map of {name} must have {len(values)} values, one per connection, got {nuisance.shape}."
            )
        own = np.abs(values) if (nuisance >= 0).all() else values
        rho = rank_correlation(own, nuisance)
        rows.append((name, rho, abs(rho) > NUISANCE))
    return pd.DataFrame(rows, columns=["nuisance", "rho", "flag"])


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's correlation of two (e,) maps; 0 where one of them is constant."""
    ranks = stats.rankdata(np.stack([a, b]), axis=1)
    ranks -= ranks.mean(1, keepdims=True)
    size = np.sqrt((ranks**2).sum(1).prod())
    return float(ranks[0] @ ranks[1] / size) if size else 0.0


def _maps(observed: np.ndarray, null: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a map (e,) and null maps (P, e) in float64; refuse other shapes, NaN and infinity."""
    observed, null = np.asarray(observed, np.float64), np.asarray(null, np.float64)
    if observed.ndim != 1 or null.ndim != 2 or null.shape[1] != len(observed):
        raise ValueError(
            f"the map must be (e,) and maps under permuted labels (P, e), got {observed.shape} and "
            f"{null.shape}."
        )
    if not (np.isfinite(observed).all() and np.isfinite(null).all()):
        raise ValueError("maps must be finite; some values are NaN or infinite.")
    return observed, null
