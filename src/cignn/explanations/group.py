"""`GroupExplanation`: which connections separate two classes of subjects, and how sure that is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from textwrap import wrap

import numpy as np
import pandas as pd
from scipy import stats

from cignn._array_files import read_npz
from cignn._arrays import symmetric, upper_indices, upper_triangle
from cignn._checks import number
from cignn._files import replacing, write_csv
from cignn.explanations.group_statistics import (
    NullTest,
    Scores,
    connected_components,
    enrichment,
    nuisance_correlation,
    permutation_p,
    q_values,
    standardised,
)
from cignn.explanations.group_summary import paragraphs
from cignn.explanations.stability import false_selection_bound, largest, selection_frequencies, top_count

TABLES = ("table", "systems", "components", "nuisance")
FILES = ("connections", "systems", "components", "nuisance")  # of the CSV of each table


@dataclass(frozen=True, eq=False, repr=False)
class GroupExplanation:
    """The explanation of a group: one signed value per connection, with its uncertainty.

    `cignn.explainers.explain_group` returns it; `from_maps` makes it of maps. All parameters are attributes.

    Parameters
    ----------
    map : ndarray of shape (n, n)
        Symmetric; the value of each connection, which ranks them. Positive values speak for ``classes[1]``.
    table : DataFrame
        One row per connection, the largest absolute value first: ``source``, ``target``, their systems where
        known, ``value``, ``direction`` ("higher" or "lower" in ``classes[1]``), ``effect`` (standardised mean
        difference, ``classes[1]`` minus ``classes[0]``), ``contribution`` (mean, in log-odds), ``selection``
        (share of half-samples in which it is among the top connections), ``bound`` (on the expected number of
        false selections at this frequency), ``q`` and ``selected`` (``q <= alpha``).
    systems : DataFrame
        One row per pair of systems, see `cignn.explanations.group_statistics.enrichment`.
    components : DataFrame
        The networks of selected connections: ``component``, ``n_edges``, ``n_nodes``, ``nodes``, ``p``.
    nuisance : DataFrame
        Rank correlation of the map with those of nuisances: ``nuisance``, ``rho``, ``flag`` (above 0.3).
    pattern : ndarray of shape (n, n)
        The reading "pattern": what goes along with the decision.
    use : ndarray of shape (n, n)
        The reading "use": what the decision is made from.
    reading : str
        The name of the reading that ``map`` is.
    reason : str
        Why it was chosen, one sentence.
    alpha : float
        The q-value up to which connections are selected.
    classes : tuple
        Both classes.
    n_subjects : int
        Number of subjects.
    n_resamples : int
        Number of half-samples.
    n_permutations : int
        Number of permutations of the labels.
    n_top : int
        Number of connections selected on each half-sample.
    p : float
        Of the map as a whole: how often the largest value under permuted labels is at least as large as that
        of the map, (1 + #) / (1 + P). Other than ``q`` it bounds the chance that any connection is selected
        where the classes do not differ, also for maps whose connections rise and fall together.
    score : str
        Name of the score that is predicted; empty for classes. "direction" then says whether a connection is
        higher or lower where the score is higher, "effect" is its correlation with the score, "contribution"
        in units of the score per standard deviation, and ``classes`` are low and high scores.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.explanations import GroupExplanation
    >>> random = np.random.default_rng(0)
    >>> values = np.array([9.0, 0.1, -0.2])  # connections 0-1, 0-2, 1-2
    >>> halves = values + 0.1 * random.normal(size=(20, 3))
    >>> null = random.normal(size=(99, 3))
    >>> group = GroupExplanation.from_maps(values, halves, null, classes=("control", "patient"))
    >>> group.table[["source", "target", "direction", "selection", "selected"]]
       source  target direction  selection  selected
    0       0       1    higher        1.0      True
    1       1       2     lower        0.0     False
    2       0       2    higher        0.0     False
    """

    map: np.ndarray
    table: pd.DataFrame
    systems: pd.DataFrame
    components: pd.DataFrame
    nuisance: pd.DataFrame
    pattern: np.ndarray
    use: np.ndarray
    reading: str
    reason: str
    alpha: float
    classes: tuple[object, object]
    n_subjects: int
    n_resamples: int
    n_permutations: int
    n_top: int
    p: float = np.nan
    score: str = ""

    @classmethod
    def from_maps(
        cls,
        values: np.ndarray,
        halves: np.ndarray,
        null: np.ndarray,
        *,
        effects: np.ndarray | None = None,
        contributions: np.ndarray | None = None,
        second_p: np.ndarray | None = None,
        pattern: np.ndarray | None = None,
        use: np.ndarray | None = None,
        nuisances: Mapping[str, np.ndarray] | None = None,
        node_names: Sequence[str] | None = None,
        systems: np.ndarray | None = None,
        classes: Sequence[object] = (0, 1),
        n_subjects: int = 0,
        alpha: float = 0.1,
        reading: str = "use",
        reason: str = "",
        n_top: int | None = None,
        scale: bool = True,
        score: str = "",
    ) -> GroupExplanation:
        """Make the explanation of maps; maps are upper triangles, row by row.

        Parameters
        ----------
        values : array of shape (e,)
            The map, e = n (n − 1) / 2.
        halves : array of shape (R, e)
            Maps of half-samples; rows 2j and 2j + 1 are of disjoint halves.
        null : array of shape (P, e)
            Maps under permuted labels, from the same procedure as ``values``. P may be 0: nothing is tested.
        effects : array of shape (e,), default=None
            Standardised mean difference between the classes. By default unknown.
        contributions : array of shape (e,), default=None
            Mean contribution. By default unknown.
        second_p : array of shape (e,), default=None
            p of a second test that selected connections have to pass as well: the larger of both counts.
        pattern : array of shape (e,), default=None
            The reading "pattern". By default ``values``.
        use : array of shape (e,), default=None
            The reading "use". By default ``values``.
        nuisances : mapping of str to array of shape (e,), default=None
            The map of each nuisance.
        node_names : sequence of str, default=None
            Names of the n nodes. By default their numbers.
        systems : array of shape (n,), default=None
            The system of each node. Without them there is no table of systems.
        classes : sequence of two labels, default=(0, 1)
            The classes.
        n_subjects : int, default=0
            Number of subjects.
        alpha : float, default=0.1
            The q-value up to which connections are selected.
        reading : str, default="use"
            The name of the reading that ``values`` are.
        reason : str, default=""
            Why it was chosen.
        n_top : int, default=None
            Number of connections selected on each half-sample. By default 100, or 5 % where that is fewer.
        scale : bool, default=True
            Divide each connection by the spread of its null before testing, so that connections of larger
            spread are not favoured.
        score : str, default=""
            Name of the score that is predicted, in place of classes.

        Returns
        -------
        GroupExplanation
            The explanation.
        """
        values, null = np.asarray(values, np.float64), np.asarray(null, np.float64)
        n = _n_nodes(len(values))
        alpha = number("alpha", alpha, 0, 1)
        names = np.arange(n) if node_names is None else np.asarray(node_names).astype(str)
        systems = None if systems is None else np.asarray(systems).astype(str)
        for what, given in (("node_names", names), ("systems", systems)):
            if given is not None and given.shape != (n,):
                raise ValueError(f"{what} must have {n} entries, one per node, got {given.shape}.")
        n_top = top_count(len(values)) if n_top is None else n_top
        table = _connections(names, systems, values, effects, contributions)
        table["selection"] = table["bound"] = np.nan
        if len(halves):
            table["selection"] = selection_frequencies(halves, n_top).single
            table["bound"] = false_selection_bound(table["selection"], n_top, len(values), len(halves) // 2)
        table["q"] = _both_q(q_values(values, null, scale=scale), second_p) if len(null) else np.nan
        table["selected"] = selected = (table["q"] <= alpha).to_numpy()
        scores = standardised(values, null) if scale and len(null) else Scores(values, null)
        components = connected_components(selected, n, largest(scores.null, int(selected.sum())))
        components["nodes"] = ["; ".join(map(str, names[list(nodes)])) for nodes in components["nodes"]]
        order = np.argsort(-np.abs(values), kind="stable")
        dense = [
            symmetric(np.asarray(values if one is None else one, np.float64), np.zeros((n, n)))
            for one in (values, pattern, use)
        ]
        return cls(
            map=dense[0],
            table=table.iloc[order].reset_index(drop=True),
            systems=_systems(values, systems, null, alpha),
            components=components,
            nuisance=nuisance_correlation(values, nuisances or {}),
            pattern=dense[1],
            use=dense[2],
            reading=reading,
            reason=reason,
            alpha=alpha,
            classes=(classes[0], classes[1]),
            n_subjects=int(n_subjects),
            n_resamples=len(halves),
            n_permutations=len(null),
            n_top=int(n_top),
            p=_whole_map_p(scores),
            score=score,
        )

    @property
    def n_selected(self) -> int:
        """Number of connections that survive.

        Returns
        -------
        int
            How many have ``q <= alpha``.
        """
        return int(self.table["selected"].sum())

    def matrix(self, column: str) -> np.ndarray:
        """Return a column of `table` as a matrix.

        Parameters
        ----------
        column : str
            "q", "selection", "selected", "effect" or another column.

        Returns
        -------
        ndarray of shape (n, n)
            Symmetric; the diagonal is NaN, False, -1 or "".
        """
        found = self.table[column].to_numpy()
        by_pair = np.empty_like(found)
        by_pair[self._order] = found
        empty = {"f": np.nan, "b": False, "i": -1}.get(found.dtype.kind, "")
        return symmetric(by_pair, np.full(self.map.shape, empty, found.dtype))

    @cached_property
    def _order(self) -> np.ndarray:
        """(e,) the pair of nodes, by number, of each row of the table."""
        return np.argsort(-np.abs(upper_triangle(self.map)), kind="stable")

    def __repr__(self) -> str:
        survive = f"{self.n_selected} of {len(self.table)} connections at q <= {self.alpha:g}"
        return f"GroupExplanation({len(self.map)} nodes, {survive}, reading {self.reading!r})"

    def summary(self, width: int = 80) -> str:
        """Return what was found in words, also where nothing was.

        Parameters
        ----------
        width : int, default=80
            Longest line, in characters.

        Returns
        -------
        str
            Paragraphs on the data, the reading, connections, systems, components and nuisances.
        """
        return "\n".join(
            line
            for text in paragraphs(self)
            for line in wrap(text, width, subsequent_indent="  ", break_on_hyphens=False)
        )

    def to_csv(self, folder: str | Path) -> list[Path]:
        """Write the tables as CSV files.

        Parameters
        ----------
        folder : str or Path
            Where to write ``connections.csv``, ``systems.csv``, ``components.csv`` and ``nuisance.csv``;
            made if it does not exist.

        Returns
        -------
        list of Path
            The files.
        """
        paths = [Path(folder) / f"{name}.csv" for name in FILES]
        for path, name in zip(paths, TABLES, strict=True):
            write_csv(path, getattr(self, name))
        return paths

    def save(self, path: str | Path) -> Path:
        """Write the explanation to one file of plain arrays and JSON.

        Parameters
        ----------
        path : str or Path
            The file, ``.npz`` by custom.

        Returns
        -------
        Path
            The file.
        """
        arrays: dict[str, np.ndarray] = {}
        plain: dict[str, object] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                arrays[field.name] = value
            elif isinstance(value, pd.DataFrame):
                for column in value:
                    words = value[column].dtype.kind not in "biuf"
                    content = value[column].astype(str) if words else value[column]
                    arrays[f"{field.name}.{column}"] = content.to_numpy(str if words else None)
            else:
                plain[field.name] = value
        arrays["settings"] = np.array(json.dumps(plain, default=_scalar))
        with replacing(path) as new, new.open("wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> GroupExplanation:
        """Read an explanation that `save` wrote.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        GroupExplanation
            The explanation.
        """
        remedy = "write it with GroupExplanation.save"
        arrays = read_npz(path, remedy=remedy)
        try:
            plain = json.loads(str(arrays.pop("settings")))
            plain["classes"] = tuple(plain["classes"])
            for name in TABLES:
                columns = [key for key in arrays if key.startswith(f"{name}.")]
                plain[name] = pd.DataFrame({key.split(".", 1)[1]: arrays.pop(key) for key in columns})
            return cls(**{**plain, **arrays})
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is not a group explanation; {remedy}.") from error


def _both_q(test: NullTest, second_p: np.ndarray | None) -> np.ndarray:
    """(e,) q of the larger of two p-values: a connection has to pass both tests."""
    if second_p is None:
        return test.q
    return stats.false_discovery_control(np.maximum(test.p, second_p))


def _n_nodes(n_connections: int) -> int:
    """Return n of n (n − 1) / 2 connections."""
    n = round((1 + np.sqrt(1 + 8 * n_connections)) / 2)
    if n * (n - 1) // 2 != n_connections or n < 2:
        raise ValueError(f"a map must have n (n - 1) / 2 values, one per pair of nodes, got {n_connections}.")
    return int(n)


def _connections(
    names: np.ndarray,
    systems: np.ndarray | None,
    values: np.ndarray,
    effects: np.ndarray | None,
    contributions: np.ndarray | None,
) -> pd.DataFrame:
    """Return the table of connections without statistics, in the order of pairs."""
    rows, columns = upper_indices(len(names))
    table: dict[str, object] = {"source": names[rows], "target": names[columns]}
    if len(np.unique(names)) < len(names):
        table |= {"source_node": rows, "target_node": columns}
    if systems is not None:
        table |= {"source_system": systems[rows], "target_system": systems[columns]}
    unknown = np.full(len(values), np.nan)
    effect = unknown if effects is None else np.asarray(effects, np.float64)
    sign = np.sign(values if effects is None else effect)
    table["value"] = values
    table["direction"] = np.select([sign > 0, sign < 0], ["higher", "lower"], "")
    table["effect"] = effect
    table["contribution"] = unknown if contributions is None else np.asarray(contributions, np.float64)
    return pd.DataFrame(table)


def _whole_map_p(scores: Scores) -> float:
    """Return the p-value of the largest absolute score; NaN without permutations."""
    most = np.abs(scores.null).max(1, initial=0)
    if not len(most):
        return np.nan
    return float(permutation_p(np.abs(scores.observed).max(keepdims=True), most[:, None])[0])


def _systems(values: np.ndarray, systems: np.ndarray | None, null: np.ndarray, alpha: float) -> pd.DataFrame:
    """Return the table of systems; the null is pooled where it is too small for correction over pairs."""
    columns = ["source_system", "target_system", "n", "mean", "enrichment", "p", "q"]
    if systems is None:
        return pd.DataFrame({name: [] for name in [*columns, "shift", "shift_p", "shift_q"]})
    n_systems = len(np.unique(systems))
    few = len(null) + 1 < n_systems * (n_systems + 1) / 2 / alpha
    return enrichment(values, systems, null, pool=few)


def _scalar(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else str(value)
