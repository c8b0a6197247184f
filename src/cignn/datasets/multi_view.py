"""`MultiViewCohort`: subjects with several descriptions, matched by their ids."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cignn._arrays import digest, positions
from cignn._checks import DataError, name_some, nearest
from cignn.datasets.cohort import Cohort, Subject

ID_COLUMNS = ("subject", "participant_id")  # where a table has ids, if not in its index


class MultiViewCohort(Cohort):
    """A cohort whose subjects have further views: other atlases, or tables.

    It is the cohort it is made of, and a selection of its subjects selects those of every view. A view is a
    cohort of the same subjects (another atlas, another modality) or a table (anatomy, questionnaires).
    Subjects are matched by id, in any order; a view may have more of them.

    Parameters
    ----------
    cohort : Cohort
        The subjects, with labels, sites and covariates, which hold for all views.
    views : mapping of str to Cohort or DataFrame
        The views by name. A table has the ids in its index, or in a column "subject" or "participant_id".
        Of subjects with several scans a view has one row, or as many in the same order.

    Attributes
    ----------
    cohort : Cohort
        The cohort without its views.
    views : dict of str to Cohort or DataFrame
        The views, with one row per scan of the cohort.

    Examples
    --------
    >>> import pandas as pd
    >>> from cignn.datasets import MultiViewCohort, make_cohort
    >>> cohort = make_cohort(12, n_rois=6, n_edges=2, lengths=(30, 40), random_state=0)
    >>> finer = make_cohort(12, n_rois=9, n_edges=2, lengths=(30, 40), random_state=1)
    >>> volumes = pd.DataFrame({"hippocampus": range(12)}, index=cohort.subjects[::-1])
    >>> both = MultiViewCohort(cohort, {"finer": finer, "anatomy": volumes})
    >>> both[:3].view("finer").n_rois, both[:3].views["anatomy"]["hippocampus"].tolist()
    (9, [11, 10, 9])
    """

    cohort: Cohort
    views: dict[str, Cohort | pd.DataFrame]

    def __init__(self, cohort: Cohort, views: Mapping[str, Cohort | pd.DataFrame]) -> None:
        if not isinstance(cohort, Cohort):
            raise TypeError(f"views are added to a Cohort, got {type(cohort).__name__}.")
        known = dict(cohort.views) if isinstance(cohort, MultiViewCohort) else {}
        plain = cohort.cohort if isinstance(cohort, MultiViewCohort) else cohort
        added = {str(name): _matched(str(name), view, plain.subjects) for name, view in views.items()}
        self._take(plain, known | added)

    def _take(self, cohort: Cohort, views: dict[str, Cohort | pd.DataFrame]) -> None:
        vars(self).update(vars(cohort))  # the arrays are shared
        self.cohort, self.views = cohort, views

    @classmethod
    def _of(cls, cohort: Cohort, views: dict[str, Cohort | pd.DataFrame]) -> MultiViewCohort:
        """Put a cohort and views of the same scans in the same order together."""
        new = cls.__new__(cls)
        new._take(cohort, views)
        return new

    def view(self, name: str) -> Cohort:
        """Return one view as a cohort, with the labels and sites of this one.

        Parameters
        ----------
        name : str
            Name of the view.

        Returns
        -------
        Cohort
            The view's data. Of a table, the data of this cohort with the table as covariates.
        """
        if name not in self.views:
            raise ValueError(f"there is no view {name!r}{nearest(name, self.views)}")
        view = self.views[name]
        if isinstance(view, pd.DataFrame):
            return self.cohort._with(covariates=view)
        own = {"y": self.y, "sites": self.sites, "subjects": self.subjects, "covariates": self.covariates}
        return view._with(**own)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
            key = key[0]
        taken = self.cohort[key]
        if isinstance(taken, Subject):
            return taken
        index = positions(key, len(self))
        return self._of(taken, {name: _rows(view, index) for name, view in self.views.items()})

    def _with(self, **change: Any) -> Cohort:
        cohort = self.cohort._with(**change)
        if len(cohort) != len(self):
            raise ValueError(f"a cohort with views stays {len(self)} scans, got {len(cohort)}; index it.")
        return self._of(cohort, self.views)

    def __repr__(self) -> str:
        sizes = [f"{name} ({_size(view)})" for name, view in self.views.items()]
        return f"MultiView{self.cohort!r}"[:-1] + f", views {', '.join(sizes) or 'none'})"

    def digest(self) -> str:
        """Return a fingerprint of the subjects, their data and their views.

        Returns
        -------
        str
            16 hexadecimal digits; equal cohorts have equal digests.
        """
        parts = [part for name in sorted(self.views) for part in (name, self.view(name).digest())]
        return digest(self.cohort.digest(), *parts, length=16)

    def save(self, path: str | Path, *, mapped: bool | None = None) -> Path:
        """Refuse: one file holds one view.

        Parameters
        ----------
        path : str or Path
            Not used.
        mapped : bool, default=None
            Not used.

        Returns
        -------
        Path
            Nothing is written.
        """
        raise TypeError("a cohort with views is saved view by view: cohort.save(…) and view(name).save(…).")


def _size(view: Cohort | pd.DataFrame) -> str:
    return f"{view.shape[1]} columns" if isinstance(view, pd.DataFrame) else f"{view.n_rois} ROIs"


def _rows(view: Cohort | pd.DataFrame, index: np.ndarray) -> Cohort | pd.DataFrame:
    return view.iloc[index].reset_index(drop=True) if isinstance(view, pd.DataFrame) else view[index]


def _matched(name: str, view: Any, subjects: np.ndarray) -> Cohort | pd.DataFrame:
    """Return a view with one row for each scan, found by the subject's id."""
    if isinstance(view, pd.DataFrame):
        view, ids = _with_ids(view)
    elif isinstance(view, Cohort):
        ids = view.subjects
    else:
        raise TypeError(f"view {name!r} must be a Cohort or a DataFrame, got {type(view).__name__}.")
    absent = np.setdiff1d(subjects, ids)
    if len(absent):
        raise DataError(
            f"view {name!r} lacks {len(absent)} of {len(np.unique(subjects))} subjects: {name_some(absent)}",
            subjects=absent,
            remedy="add them to the view or drop them from the cohort",
        )
    order = pd.Series(np.arange(len(ids))).groupby(ids).agg(list)
    wanted = pd.Series(subjects).groupby(subjects).cumcount().to_numpy()  # which scan of its subject
    counts = pd.Series(subjects).value_counts()
    uneven = [s for s, n in counts.items() if len(order[s]) not in (1, n)]
    if uneven:
        first = uneven[0]
        raise DataError(
            f"view {name!r} has {len(order[first])} rows of {first}, the cohort {counts[first]} scans",
            subjects=uneven,
            remedy="give one row per subject, or one per scan in the same order",
        )
    places = [
        order[s][k] if len(order[s]) > 1 else order[s][0] for s, k in zip(subjects, wanted, strict=True)
    ]
    return _rows(view, np.array(places, np.int64))


def _with_ids(table: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table without its column of ids, and the ids."""
    column = next((name for name in ID_COLUMNS if name in table), None)
    ids = table.index if column is None else table[column]
    rest = table if column is None else table.drop(columns=column)
    return rest, np.asarray(ids).astype(str)
