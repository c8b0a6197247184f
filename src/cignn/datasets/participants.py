"""The table of participants: who they are, and which file is whose."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from cignn._array_files import named
from cignn._checks import DataError, Option, letters, name_some
from cignn.datasets.cohort_checks import Checks, remedies
from cignn.datasets.exclusions import excluded, joined
from cignn.datasets.labels import clean_labels
from cignn.datasets.reading import MISSING, NO_VALUES, check_finite_column, no_column, read_table, repeated
from cignn.datasets.scores import is_score

if TYPE_CHECKING:
    from cignn.datasets.cohort import Cohort


TABLES = ("participants.tsv", "participants.csv")
# names under which tables hold the same thing, the one used here first
COLUMNS = {
    "participant_id": (
        "participant_id",
        "participant",
        "subject_id",
        "subject",
        "sub_id",
        "id",
        "scandir_id",
    ),
    "site": ("site", "site_id", "site_name", "center", "centre", "institution", "scanner"),
    "age": ("age", "age_at_scan"),
    "sex": ("sex", "gender"),
    "session": ("session", "session_id", "ses"),
    "run": ("run", "run_id"),
    "mean_fd": (
        "mean_fd",
        "func_mean_fd",
        "fd_mean",
        "mean_framewise_displacement",
        "framewise_displacement",
        "mean_fd_power",
        "mean_fd_jenkinson",
        "fd",
    ),
}
NUMBERS = ("age", "mean_fd")  # never categories
# columns that may hold the classes where no column has the name asked for, and how many classes they may hold
LABELS = ("label", "diagnosis", "dx", "dx_group", "group", "class", "patient", "case", "status", "condition")
MOST_CLASSES = 10
ENTITIES = {"session": "ses", "run": "run"}  # a column of the table → its word in names of files
UNKNOWN = {"unknown", "unk", "missing", "?", "-", "."}  # said of a number that is not known
_SEXES = {"m": "M", "male": "M", "man": "M", "f": "F", "female": "F", "woman": "F"}


def known_column(frame: pd.DataFrame, name: str) -> str | None:
    """Return the column that holds ``name`` in whatever spelling (Site ID, SITE_ID), or None."""
    by_name = {letters(column): column for column in reversed(frame.columns)}
    aliases = [letters(alias) for alias in COLUMNS.get(name, (name,))]
    return next((by_name[alias] for alias in aliases if alias in by_name), None)


def known_name(column: str) -> str | None:
    """Return the name under which a column is known ("age" for "AGE_AT_SCAN"), or None."""
    return next((name for name, aliases in COLUMNS.items() if letters(column) in map(letters, aliases)), None)


def tidy(column: pd.Series) -> pd.Series:
    """Missing values as NaN, numbers as numbers, the rest as text."""
    known = column.where(~column.str.lower().isin(MISSING), None)
    numbers = pd.to_numeric(known, errors="coerce")
    if numbers.notna().sum() == known.notna().sum() and known.notna().any():
        return numbers.astype(float) if numbers.isna().any() else numbers
    return known


def numbers(column: pd.Series, name: str, subjects: Any, source: str) -> pd.Series:
    """A column of `NUMBERS`, NaN where a number is not known; the rest of words is refused.

    subjects : their names. source : what the column is from.
    """
    if pd.api.types.is_numeric_dtype(column):
        check_finite_column(column, name, subjects, source)
        return column.mask(column.isin(NO_VALUES)) if column.isin(NO_VALUES).any() else column
    words = column.astype(object).where(column.notna(), "").astype(str).str.strip()
    words = _with_points(words.where(~words.str.lower().isin(MISSING | UNKNOWN), ""))
    out = pd.to_numeric(words, errors="coerce").astype(float)
    wrong = (out.isna() & (words != "")).to_numpy()
    if wrong.any():
        whom = np.asarray(subjects)[wrong]
        raise DataError(
            f"{name} must be a number, got {words[wrong].iloc[0]!r} for {name_some(whom)}",
            subjects=whom,
            values=words[wrong],
            remedy="correct it, or write n/a where it is not known",
            source=source,
        )
    check_finite_column(out, name, subjects, source)
    return out.mask(out.isin(NO_VALUES))


def _with_points(column: pd.Series) -> pd.Series:
    """Points for decimal commas, where that makes numbers of all there is."""
    points = column.str.replace(r"^([+-]?\d+),(\d+)$", r"\1.\2", regex=True)
    there = ~points.str.lower().isin(MISSING)
    return points if pd.to_numeric(points[there], errors="coerce").notna().all() else column


def tidy_sex(column: pd.Series) -> pd.Series:
    """M and F where the table says so in words; numbers stay numbers, their meaning differs."""
    if not pd.api.types.is_numeric_dtype(column):
        return column.map(lambda value: _SEXES.get(str(value).lower(), value), na_action="ignore")
    return column


def covariates(
    frame: pd.DataFrame, leave_out: Sequence[str | None], source: str = "the table of participants"
) -> pd.DataFrame:
    """Every other column of the table; age, sex, mean_fd, session and run under these names."""
    out = {}
    taken = set(leave_out)
    for name in ("age", "sex", "mean_fd", *ENTITIES):
        column = known_column(frame, name)
        if column is not None and column not in taken:
            if name in NUMBERS:
                out[name] = numbers(tidy(frame[column]), name, frame["participant_id"], source)
            elif name in ENTITIES:
                words = frame[column].astype(str)
                out[name] = tidy(words.map(lambda value, name=name: occasion_number(value, ENTITIES[name])))
            else:
                out[name] = tidy_sex(tidy(frame[column]))
            taken.add(column)
    others = [column for column in frame if column not in taken and column not in out]
    out |= {column: tidy(_with_points(frame[column])) for column in others}
    for column, values in out.items():
        check_finite_column(values, column, frame["participant_id"], source)
    return pd.DataFrame(out, index=frame.index)


def label_column(frame: pd.DataFrame, label: str, source: str | Path) -> str:
    """Return the column called ``label``, in these or other capitals."""
    alike = [column for column in frame if column.lower() == label.lower()]
    if label in frame:
        return label
    if len(alike) > 1:
        which = Option("label", advice="choose one of them with {}")
        raise DataError(f"{source} has the columns {', '.join(alike)}", values=alike, options=[which])
    if not alike:
        raise DataError(
            f"{source} has no column {label!r}, got {', '.join(frame.columns)}",
            values=frame.columns,
            options=[
                Option("label", likely_labels(frame), "name the column of the labels with {}"),
                Option("label", (None,), "pass {} for a cohort without labels"),
            ],
        )
    return alike[0]


def likely_labels(frame: pd.DataFrame) -> tuple[str, ...]:
    """Return the columns whose names and values look like those of classes."""
    named = [column for column in frame if letters(column) in map(letters, LABELS)]
    return tuple(column for column in named if 2 <= tidy(frame[column]).nunique() <= MOST_CLASSES)


def labels(frame: pd.DataFrame, label: str | None, source: str | Path) -> np.ndarray | None:
    """(n,) the labels, whole numbers as integers; None where none are wanted."""
    if label is None:
        return None
    values = tidy(frame[label_column(frame, label, source)])
    return values.to_numpy(object) if values.isna().any() else clean_labels(values)


def participants_table(
    given: str | Path | pd.DataFrame | None, folders: Sequence[Path]
) -> tuple[pd.DataFrame, str]:
    """The table of participants, as text, with the participants' ids in ``participant_id``."""
    if isinstance(given, pd.DataFrame):
        source = "the table of participants"
        if twice := repeated(map(str, given.columns)):
            raise DataError(f"{source} has the column {twice} more than once", remedy="keep or rename one")
        frame = given.astype(object).where(given.notna(), "").astype(str).reset_index(drop=True)
        frame.columns = frame.columns.map(str)
    else:
        places = [named(given)] if given is not None else [f / name for f in folders for name in TABLES]
        place = next((place for place in places if os.path.exists(place)), None)
        if place is None:
            raise FileNotFoundError(
                f"{places[0]} does not exist; write one line per subject there (columns participant_id and "
                f"label, separated by tabs), or give participants= another table."
            )
        frame, source = read_table(place), str(place)
    column = known_column(frame, "participant_id")
    if column is None:
        raise no_column(source, "participant_id", "ids", frame)
    frame = frame.rename(columns={column: "participant_id"})
    nameless = frame["participant_id"].str.lower().isin(MISSING)
    if nameless.any():
        raise DataError(f"{source} has no participant_id in {nameless.sum()} lines", remedy="fill it in")
    if frame["participant_id"].str.fullmatch(r"\d+\.0").all():  # whole numbers that were in a column with NaN
        frame["participant_id"] = frame["participant_id"].str[:-2]
    return frame, source


def describe(frame: pd.DataFrame, label: str | None, source: str) -> dict[str, Any]:
    """What the table says of the subjects, as arguments of `Cohort`."""
    site = known_column(frame, "site")
    column = None if label is None else label_column(frame, label, source)
    return {
        "y": labels(frame, label, source),
        "sites": None if site is None else frame[site].to_numpy(str),
        "subjects": frame["participant_id"].to_numpy(str),
        "covariates": covariates(frame, ["participant_id", site, column], source),
    }


# ----------------------------------------------------------------------------- who is whose

_PREFIX = re.compile(r"ROI(Signals|Correlation(_FisherZ)?)_", re.IGNORECASE)
_SUBJECT = re.compile(r"[_.](sub-[a-z0-9]|subject[-_]?\d)", re.IGNORECASE)


def bare(name: str) -> str:
    """An id without ``sub-``, for comparison."""
    return re.sub(r"^sub(ject)?[-_]?(?=.)", "", name.strip(), flags=re.IGNORECASE).casefold()


def short(name: str) -> str:
    """An id without leading zeros where it is a number."""
    return name.lstrip("0") or "0" if name.isdigit() else name


def occasion_number(value: str, word: str) -> str:
    """A session or run without its word: ``ses-01``, ``01`` and ``1`` are the same."""
    return short(re.sub(rf"^{word}[-_]?(?=.)", "", value.strip().lower()))


def files_of(ids: Sequence[str], paths: Sequence[Path], root: Path | None = None) -> dict[str, list[Path]]:
    """Find each participant's files: ``001.csv``, ``sub-001.csv`` or ``sub-001_anything.csv``.

    Ids match with or without ``sub-``; where that finds nothing, with or without leading zeros. Where a name
    does not begin with an id, what programs write before it is left out (``ROISignals_001.mat``,
    ``ROI_Subject001_Condition000.mat``); then the folders between ``root`` and the file are asked.
    """
    wanted = {bare(name): name for name in ids}
    shortened: dict[str, list[str]] = {}
    for name in wanted:
        shortened.setdefault(short(name), []).append(name)
    found: dict[str, list[Path]] = {name: [] for name in ids}
    for path in paths:
        stem = path.name.split(".")[0] if path.name.count(".") == 1 else path.name[: -len(path.suffix)]
        folders = () if root is None else path.relative_to(root).parts[:-1]
        owners = (_owner(words, wanted, shortened) for words in (stem, *_behind(stem), *folders))
        owner = next((name for name in owners if name is not None), None)
        if owner is not None:
            found[owner].append(path)
    return found


def _behind(stem: str) -> list[str]:
    """What follows the words that programs write before an id: DPABI's, and any before a subject."""
    subject = _SUBJECT.search(stem)
    return [stem[match.end() :] for match in [_PREFIX.match(stem)] if match] + (
        [stem[subject.start(1) :]] if subject else []
    )


def _owner(words: str, wanted: dict[str, str], shortened: dict[str, list[str]]) -> str | None:
    """Whose id the words begin with."""
    stem = bare(words)
    parts = re.split(r"[_.]", stem)
    heads = [stem, *("_".join(parts[:k]) for k in range(len(parts), 0, -1))]
    exact = next((wanted[head] for head in heads if head in wanted), None)
    if exact is not None:
        return exact
    near = [shortened[short(head)] for head in heads if short(head) in shortened]
    return wanted[near[0][0]] if near and len(near[0]) == 1 else None


SCANS = Option("duplicates", ("keep",), "pass {} where they are scans of one subject")
APART = "tell its scans apart by a column session or run"


class Matched(NamedTuple):
    """One line of the table and one file per scan, and who has been left out."""

    frame: pd.DataFrame
    paths: list[Path]
    excluded: pd.DataFrame


def one_scan_each(
    frame: pd.DataFrame,
    files: list[Path],
    folder: Path,
    source: str,
    rules: Checks,
    options: Sequence[Option] = (SCANS,),
) -> Matched:
    """Match every participant with one file; options : what else helps where there are several."""
    keep_first = Option("duplicates", ("keep_first",))
    twice = frame["participant_id"].map(bare).duplicated()
    if twice.any() and rules.duplicates != "keep_first":  # two lines cannot share one file
        names = frame["participant_id"][twice].unique()
        raise DataError(
            f"the same id occurs more than once for {name_some(names)}",
            subjects=names,
            options=[keep_first, *(option for option in options if option is SCANS)],
            remedy=APART,
            source=source,
        )
    gone = [excluded(frame["participant_id"][twice], "duplicates", "second line of the same id")]
    frame = frame[~twice].reset_index(drop=True)
    matched = files_of(frame["participant_id"].tolist(), files, folder)
    errors = []
    several = {name: paths for name, paths in matched.items() if len(paths) > 1}
    if several and rules.duplicates != "keep_first":
        names = name_some(f"{n} ({', '.join(p.name for p in paths[:3])})" for n, paths in several.items())
        errors.append(
            DataError(
                f"more than one file for {names}",
                subjects=several,
                values=[path.name for paths in several.values() for path in paths],
                options=[keep_first, *options],
                source=folder,
            )
        )
    later = [(name, path.name) for name, paths in several.items() for path in paths[1:]]
    gone.append(excluded([name for name, _ in later], "duplicates", [f"file {file}" for _, file in later]))
    without = [name for name, paths in matched.items() if not paths]
    owned = {path for paths in matched.values() for path in paths}
    ownerless = names_of([path for path in files if path not in owned], folder)
    gone.append(refuse_missing(without, ownerless, len(files), folder, source, rules, errors))
    frame = frame[~frame["participant_id"].isin(without)].reset_index(drop=True)
    return Matched(frame, [matched[name][0] for name in frame["participant_id"]], joined(*gone))


def names_of(files: Sequence[Path], folder: Path) -> list[str]:
    """Return the names of files, with their folders where names repeat."""
    names = [path.name for path in files]
    whole = len(set(names)) < len(names)
    return [path.relative_to(folder).as_posix() for path in files] if whole else names


def refuse_missing(
    without: list[str],
    ownerless: list[str],
    n_files: int,
    folder: Path,
    source: str,
    rules: Checks,
    errors: Sequence[DataError] = (),
) -> pd.DataFrame:
    """Raise for ids without a file and files without an id, unless the rules leave them out.

    errors : what else is wrong. Returns who is left out.
    """
    errors = list(errors)
    if len(ownerless) == n_files:
        raise DataError(
            f"no file ({name_some(ownerless, 2)}) belongs to an id of {source} ({name_some(without, 2)})",
            subjects=without,
            values=ownerless,
            remedy="name files by their participant_id",
            source=folder,
        )
    no_file, no_line = f"no file in {folder.name}/", "no line in the table"
    if rules.missing == "raise":
        drop = [remedies("missing")]
        if without:
            problem = f"{no_file} for {name_some(without)}"
            errors.append(DataError(problem, subjects=without, options=drop, source=source))
        if ownerless:
            problem = f"{no_line} for {name_some(ownerless)}"
            errors.append(DataError(problem, values=ownerless, options=drop, source=folder))
    if errors:
        raise DataError.together(errors)
    return joined(excluded(without, "missing", no_file), excluded(ownerless, "missing", no_line))


def demographic_table(cohort: Cohort, class_names: dict[Any, str]) -> pd.DataFrame:
    """Size, age, sex and motion per class, then per site and class; see `Cohort.summary`.

    A subject with several scans is described once, by its first; the column "scans" counts them.
    """
    nothing = cohort.y is None or is_score(cohort.y)
    labels = pd.Series(["all"] * len(cohort) if nothing else cohort.y)
    order = sorted(labels.dropna().unique())
    sites = [("all", np.ones(len(cohort), bool))]
    if cohort.sites is not None:
        sites += [(site, cohort.sites == site) for site in np.unique(cohort.sites)]
    rows, index = [], []
    repeated = len(np.unique(cohort.subjects)) < len(cohort)
    for site, here in sites:
        for label in order:
            inside = here & (labels == label).to_numpy()
            index.append((str(site), str(class_names.get(label, label))))
            once = np.flatnonzero(inside)[~pd.Series(cohort.subjects[inside]).duplicated().to_numpy()]
            scans = {"scans": int(inside.sum())} if repeated else {}
            rows.append({"subjects": len(once)} | scans | _describe(cohort.covariates.iloc[once]))
    return pd.DataFrame(rows, index=pd.MultiIndex.from_tuples(index, names=["site", "class"]))


def _describe(table: pd.DataFrame) -> dict[str, str]:
    out = {}
    if "age" in table:
        out["age"] = _mean_std(table["age"], 1)
    if "sex" in table:
        sex = table["sex"].dropna().map(lambda value: _SEXES.get(str(value).strip().lower(), str(value)))
        if set(sex) <= {"M", "F"}:
            out["sex (M/F)"] = f"{(sex == 'M').sum()}/{(sex == 'F').sum()}"
        else:
            out["sex (M/F)"] = ", ".join(f"{value}: {count}" for value, count in sex.value_counts().items())
    if "mean_fd" in table:
        out["mean FD"] = _mean_std(table["mean_fd"], 2)
    return out


def _mean_std(values: pd.Series, digits: int) -> str:
    numbers = pd.to_numeric(values, errors="coerce").dropna()
    if numbers.empty:
        return "–"
    spread = f" ± {numbers.std():.{digits}f}" if len(numbers) > 1 else ""
    return f"{numbers.mean():.{digits}f}{spread}"
