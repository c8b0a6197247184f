"""How alike subjects are: two scans of practically the same connectivity are one scan under two names."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cignn._arrays import BLOCK, above_diagonal, digest, upper_indices
from cignn._checks import DataError
from cignn.datasets.cohort import Cohort
from cignn.datasets.series import SeriesStack

NEAR_IDENTICAL = 0.7
SAME = 0.999  # of connectivity as it is: copies, whatever else holds
BROAD = 10  # leading patterns taken off before subjects are compared: motion and site make strangers alike
SHORTEST = 3  # time points: two always correlate fully
LARGEST = 2**30  # bytes of memory for the comparison of subjects whose data are on disk
DIRECTIONS = 512  # of random projections
TILE = 2048  # subjects compared at once
FEWEST_SUBJECTS, FEWEST_ROIS = 20, 10  # below, the cohort's own mean and chance decide who is alike


def identical_pairs(cohort: Cohort, among: np.ndarray) -> list[tuple[int, int]]:
    """Pairs (first, later) of subjects with the very same numbers that are not all constant."""
    seen: dict[str, int] = {}
    pairs = []
    for i, one in enumerate(data_of(cohort)):
        if among[i] and one.size and one.min() != one.max():
            key = digest(one)
            if key in seen:
                pairs.append((seen[key], i))
            seen.setdefault(key, i)
    return pairs


def near_duplicates(cohort: Cohort) -> pd.DataFrame:
    """Pairs of scans under different names that are practically the same: first, second, correlation.

    1100 subjects with 116 ROIs take two seconds. Cohorts of fewer than 20 subjects or 10 ROIs have none.
    Those on disk that are too large to compare in memory are searched by random projections.
    """
    few = len(cohort) < FEWEST_SUBJECTS or cohort.n_rois < FEWEST_ROIS
    if few or (cohort.lengths is not None and cohort.lengths.min() < SHORTEST):
        return pd.DataFrame({"first": np.empty(0, int), "second": np.empty(0, int), "correlation": []})
    if too_many(cohort):
        return _projected_pairs(cohort)
    pairs = near_identical_pairs(connectivity_vectors(cohort)[0])
    strangers = cohort.subjects[pairs["first"]] != cohort.subjects[pairs["second"]]
    return pairs[strangers].reset_index(drop=True)


def too_many(cohort: Cohort) -> str:
    """Say why the subjects of a cohort on disk are not compared with each other; "" where they are."""
    edges = cohort.n_rois * (cohort.n_rois - 1) // 2
    need = len(cohort) * (10 * edges + 32 * len(cohort))  # vectors, twice, and products of all pairs
    if not cohort.mapped or need <= LARGEST:
        return ""
    return f"{len(cohort)} subjects would take {need / 2**30:.0f} GiB of memory; use some thousands of them"


def data_of(cohort: Cohort) -> SeriesStack | np.ndarray:
    """Return the series or matrices of a cohort."""
    return cohort.series if cohort.series is not None else cohort.matrices  # type: ignore[return-value]


def connectivity_vectors(cohort: Cohort) -> tuple[np.ndarray, np.ndarray]:
    """(n, edges) connectivity without the cohort's mean, 0 where undefined; (n, R) ROIs without signal."""
    if cohort.lengths is not None and (short := cohort.lengths < SHORTEST).any():
        at = short.argmax()
        problem = f"subject {cohort.subjects[at]} has {cohort.lengths[at]} time points"
        raise DataError(
            f"{problem}; connectivity needs {SHORTEST} or more",
            subjects=cohort.subjects[short],
            values=cohort.lengths[short],
        )
    vectors, constant = _raw_vectors(cohort)
    known = _known(constant)
    mean = np.divide((vectors * known).sum(0), known.sum(0), out=np.zeros(known.shape[1]), where=known.any(0))
    return np.where(known, vectors - mean.astype(np.float32), np.float32(0)), constant


def _raw_vectors(cohort: Cohort) -> tuple[np.ndarray, np.ndarray]:
    """(n, edges) connectivity as it is, finite; (n, R) ROIs without signal."""
    rows, columns = upper_indices(cohort.n_rois)
    vectors = np.empty((len(cohort), len(rows)), np.float32)
    constant = np.empty((len(cohort), cohort.n_rois), bool)
    off = ~np.eye(cohort.n_rois, dtype=bool)
    for i, one in enumerate(data_of(cohort)):
        finite = np.nan_to_num(one, posinf=0, neginf=0)
        if cohort.series is not None:
            constant[i] = _flat(one)
            finite = _correlation(finite)
        else:
            constant[i] = _flat(one, off, tolerance=1e-6)
        vectors[i] = finite[rows, columns]
    return vectors, constant


def _projected_pairs(cohort: Cohort) -> pd.DataFrame:
    """Pairs of strangers as `near_duplicates` finds them, in memory that does not grow with subjects × edges.

    Random projections keep correlations up to 1 / √`DIRECTIONS`. They name candidates, whose correlations are
    then computed from all edges; the leading patterns are those of the projections.
    """
    n, edges = len(cohort), cohort.n_rois * (cohort.n_rois - 1) // 2
    step = max(1, 4 * BLOCK // edges)
    parts = [slice(start, start + step) for start in range(0, n, step)]
    mean = _mean_vector(cohort, parts)
    few = edges <= DIRECTIONS  # then all edges are as good
    signs = np.random.default_rng(0).integers(0, 2, (0 if few else edges, DIRECTIONS), np.int8)
    turned = (2 * signs - 1).astype(np.float32) / np.float32(np.sqrt(DIRECTIONS))
    blocks = (_centred(cohort[part], mean) for part in parts)
    projected = np.concatenate([block if few else block @ turned for block in blocks])
    values, axes = np.linalg.eigh((projected.T @ projected).astype(np.float64))
    k = min(BROAD, n // 10)
    leading = axes[:, len(values) - k :].astype(np.float32)
    patterns = projected @ leading
    left = values[: len(values) - k]
    dimensions = left.sum() ** 2 / max((left**2).sum(), np.finfo(float).tiny)
    threshold = max(NEAR_IDENTICAL, np.tanh(6 / np.sqrt(max(dimensions, 1))))
    found = []
    for i, j in _candidates(projected - patterns @ leading.T, threshold - 5 / np.sqrt(DIRECTIONS)):
        if cohort.subjects[i] != cohort.subjects[j]:
            pair = _centred(cohort[[i, j]], mean).astype(np.float64)
            gram = pair @ pair.T - patterns[[i, j]] @ patterns[[i, j]].T
            found.append((i, j, _as_correlation(gram)[0, 1]))
    table = pd.DataFrame(found, columns=["first", "second", "correlation"])
    table = table.astype({"first": int, "second": int, "correlation": float})
    return table[table["correlation"] > threshold].reset_index(drop=True)


def _mean_vector(cohort: Cohort, parts: list[slice]) -> np.ndarray:
    """(edges,) mean connectivity over the subjects in whom it is defined."""
    sums, counts = 0.0, 0
    for part in parts:
        vectors, known = _known_vectors(cohort[part])
        sums, counts = sums + (vectors * known).sum(0, dtype=np.float64), counts + known.sum(0)
    return (sums / np.maximum(counts, 1)).astype(np.float32)


def _centred(cohort: Cohort, mean: np.ndarray) -> np.ndarray:
    """(n, edges) connectivity without a mean, 0 where undefined."""
    vectors, known = _known_vectors(cohort)
    return np.where(known, vectors - mean, np.float32(0))


def _known_vectors(cohort: Cohort) -> tuple[np.ndarray, np.ndarray]:
    """(n, edges) connectivity as it is, and (n, edges) whether both ROIs have signal."""
    vectors, constant = _raw_vectors(cohort)
    return vectors, _known(constant)


def _known(constant: np.ndarray) -> np.ndarray:
    """(n, edges) whether both ROIs have signal; constant : (n, R) which have none."""
    rows, columns = upper_indices(constant.shape[1])
    return ~(constant[:, rows] | constant[:, columns])


def _candidates(vectors: np.ndarray, threshold: float) -> list[tuple[int, int]]:
    """Pairs i < j of rows of (n, k) vectors that correlate above a threshold, computed tile by tile."""
    norm = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, norm, out=np.zeros_like(vectors), where=norm > 1e-3 * norm.max(initial=1e-12))
    pairs: list[tuple[int, int]] = []
    for a in range(0, len(unit), TILE):
        for b in range(a, len(unit), TILE):
            found = np.argwhere(unit[a : a + TILE] @ unit[b : b + TILE].T > threshold) + np.array([a, b])
            pairs += [(int(i), int(j)) for i, j in found if i < j]
    return sorted(pairs)


def near_identical_pairs(vectors: np.ndarray, threshold: float = NEAR_IDENTICAL) -> pd.DataFrame:
    """Pairs of rows of (n, e) centred vectors that are too alike: first, second, correlation.

    Correlations are those of what is left without the leading patterns of all rows. Among few ROIs strangers
    correlate by chance; there the threshold rises to six standard deviations of such correlations.
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"near_identical must lie in (0, 1], got {threshold}.")
    gram = (vectors @ vectors.T).astype(np.float64)
    values, patterns = _leading(gram, min(BROAD, len(gram) // 10))
    left = np.trace(gram) - values.sum()
    squares = (gram**2).sum() - (values**2).sum()
    dimensions = left**2 / max(squares, np.finfo(float).tiny)
    threshold = max(threshold, np.tanh(6 / np.sqrt(max(dimensions, 1))))
    alike = _as_correlation(gram - (patterns * values) @ patterns.T)
    found = (alike > threshold) | (_as_correlation(gram) > SAME)
    first, second = np.nonzero(found & above_diagonal(len(gram)))
    return pd.DataFrame({"first": first, "second": second, "correlation": alike[first, second]})


def _leading(gram: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """(k,) largest eigenvalues and (n, k) eigenvectors of a positive matrix, by subspace iteration.

    A full decomposition of thousands of subjects would take minutes.
    """
    n = len(gram)
    basis = np.random.default_rng(0).standard_normal((n, min(n, 2 * k)))
    for _ in range(10 if k else 0):
        basis = np.linalg.qr(gram @ basis)[0]
    values, turn = np.linalg.eigh(basis.T @ gram @ basis)
    return values[len(values) - k :], (basis @ turn)[:, len(values) - k :]


def _correlation(series: np.ndarray) -> np.ndarray:
    """(R, R) correlations of (t, R) series, 0 where one does not vary."""
    centred = series - series.mean(0, dtype=np.float64)
    norm = np.sqrt((centred**2).sum(0))
    centred *= np.divide(1, norm, out=np.zeros_like(norm), where=norm > 0)
    return centred.T @ centred


def _flat(columns: np.ndarray, inside: np.ndarray | None = None, tolerance: float = 0.0) -> np.ndarray:
    """(R,) which columns of (t, R) do not vary; values that are not finite do not count."""
    counts = np.isfinite(columns) if inside is None else np.isfinite(columns) & inside
    high = np.where(counts, columns, -np.inf).max(0, initial=-np.inf)
    low = np.where(counts, columns, np.inf).min(0, initial=np.inf)
    return ~(high > low + tolerance)


def _as_correlation(gram: np.ndarray) -> np.ndarray:
    norm = np.sqrt(np.clip(np.diag(gram), 0, None))
    scale = np.divide(1, norm, out=np.zeros_like(norm), where=norm > 1e-3 * max(norm.max(), 1e-12))
    return gram * scale * scale[:, None]
