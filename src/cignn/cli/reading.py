"""Paths to data and models: what the commands read, and where they may write."""

from __future__ import annotations

import inspect
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cignn._checks import meant, shown
from cignn._files import write_text
from cignn.cli.app import complain
from cignn.cli.options import FORMATS
from cignn.cli.scans import KNOWN, are_scans, read_atlas, scan_options
from cignn.cli.settings import TASKS

if TYPE_CHECKING:
    from cignn import Cohort, GraphSet
    from cignn.evaluation import Store
    from cignn.evaluation.tasks import MissingTask, Task


# annotation of a reader's option → what it may be on the command line, and in words
LOADED: dict[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "a word"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "bool": ((bool,), "true or false"),
    "None": ((type(None),), "none"),
    "Sequence": ((list,), "a list"),
    "Iterable": ((list,), "a list"),
    "RandomState": ((int, type(None)), "a whole number"),
}


def check_folder(out: Path) -> None:
    """Make the folder and try to write into it: better told before a training than after."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise typer.BadParameter(
            f"cannot write into '{out}' ({error.strerror}); choose another folder.", param_hint="'--out'"
        ) from None


def check_file(out: Path, ending: str) -> None:
    """Refuse a file of another ending or at a place that cannot be written."""
    if out.is_dir() or out.suffix.lower() != ending:
        raise typer.BadParameter(f"must be a file that ends in {ending}, got '{out}'.", param_hint="'--out'")
    check_folder(out.parent)


def check_model(path: Path) -> None:
    """Refuse what is no model folder before anything heavy is imported for it."""
    if not path.is_dir():
        raise FileNotFoundError(f"there is no model folder at {path}; train one with cignn fit.")
    if not (path / "config.json").is_file():
        raise FileNotFoundError(
            f"{path} is not a model folder, config.json is missing; give a folder written by cignn fit."
        )


def read_data(
    path: Path,
    *,
    format: str = "auto",
    label: str | None = "label",
    atlas: str | None = None,
    load: Mapping[str, Any] | None = None,
    new: bool = False,
    quiet: bool = False,
    target: str | None = None,
) -> Cohort | GraphSet:
    """Read a cohort or graphs.

    format : one of `FORMATS`; "auto" looks at what the path holds
    target : column with a score to predict instead of classes
    load : options of the reader
    new : subjects to predict: labels may be missing, or all the same
    """
    from cignn import datasets
    from cignn.datasets.exclusions import exclusion_lines

    found_format = format_of(path, format)
    reader: Callable[..., Any] = getattr(datasets, f"load_{found_format.replace('-', '_')}")
    options = dict(load or {})
    scans = found_format == "cohort" and are_scans(path)
    _check_options(reader, options, found_format, KNOWN if scans else {})
    if found_format == "cohort":
        named = _label(path, label, options) if new or target is not None else label
        named = named if target is None or named in arrays_in(path) else None  # in tables it is a covariate
        named = None if new and target == "label" else named  # numbers would be refused as classes
        if scans:
            options = {"label": named} | scan_options(path, atlas, options, quiet)
        else:
            options = {"label": named, "atlas": read_atlas(atlas, path)} | options
        if new:
            options = {"missing_labels": "keep", "missing_sites": "own_site", "one_class": "keep"} | options
    elif found_format == "tu" and new:
        options = {"missing_labels": "keep"} | options
    elif atlas is not None:
        raise typer.BadParameter(
            f"is for your own cohorts; {found_format} data have theirs.", param_hint="'--atlas'"
        )
    if "verbose" in inspect.signature(reader).parameters:
        options.setdefault("verbose", int(not quiet))
    missing = options.pop("missing_labels", "raise") if target is not None else "raise"
    found = reader(path, **options)
    if target is not None:
        found = _with_target(found, target, missing, new)
    if not quiet and isinstance(found, datasets.Cohort):
        for line in exclusion_lines(found.exclusions):
            complain("note", line)
    return found


def _with_target(found: Any, target: str, missing: str, new: bool) -> Cohort:
    """The cohort with a score to predict; of new subjects it need not be known."""
    from cignn import Cohort
    from cignn.datasets.scores import scores_of

    if not isinstance(found, Cohort):
        raise typer.BadParameter(
            "is for cohorts, the data are graphs; leave it out.", param_hint="'--target'"
        )
    if new:
        try:
            scores_of(found.covariates, target, found.subjects)
        except ValueError:
            return found.with_y(None)
    return found.with_target(target, missing="keep" if new else missing)


def check_data(
    path: Path, format: str, label: str, load: Mapping[str, Any], target: str | None = None
) -> None:
    """Refuse a path, a format or a column of labels that is not there, before the wait for imports."""
    table = load.get("participants")
    if format_of(path, format) != "cohort" or path.is_file() or arrays_in(path):
        return
    if table is not None and not isinstance(table, str):
        return  # the reader says what is wrong
    from cignn.datasets import participants

    frame, source = participants.participants_table(table, [path, *path.parents[:2]])
    if target is None:
        participants.label_column(frame, label, source)
    elif participants.known_column(frame, target) is None:
        raise typer.BadParameter(
            f"{source} has no column {target!r}, got {', '.join(frame.columns)}; name that of the scores.",
            param_hint="'--target'",
        )


def format_of(path: Path, format: str = "auto") -> str:
    """Return what a path holds, one of `FORMATS`: what ``format`` says, or what it looks like."""
    if not path.exists():
        raise FileNotFoundError(
            f"{path} does not exist; give a cohort's folder or .npz file, or a TU folder."
        )
    if format not in FORMATS:
        hint = meant(format, FORMATS)
        raise typer.BadParameter(f"there is no format '{format}'; {hint}", param_hint="'--format'")
    if format != "auto":
        return format
    if path.is_file():
        arrays = arrays_in(path)
        if {"n_nodes", "n_edges", "split"} <= arrays:
            return "spmotif"
        return "ba2motifs" if {"adj", "x"} <= arrays else "cohort"
    if any(path.glob("*_A.txt")) or any(path.glob("raw/*_A.txt")):
        return "tu"
    if (path / "ts_aal.npz").is_file() or any(path.glob("[Pp]henotypic*.csv")):
        return "abide"
    return "ba2motifs" if (path / "ba2motifs.npz").is_file() else "cohort"


def arrays_in(path: Path) -> set[str]:
    """Return the names of the arrays of an .npz file or a folder; none where it is no such thing."""
    import zipfile

    if path.is_dir():
        from cignn._array_folders import array_names
        from cignn.datasets.cohort_arrays import holds_arrays

        return set(array_names(path)) if holds_arrays(path) else set()
    if path.suffix != ".npz" or not zipfile.is_zipfile(path):
        return set()
    with zipfile.ZipFile(path) as file:
        return {name.removesuffix(".npy") for name in file.namelist()}


def name_of(path: Path) -> str:
    """Return what to call the data of a path."""
    return path.stem if path.is_file() else path.resolve().name


def _label(path: Path, label: str | None, options: Mapping[str, Any]) -> str | None:
    """The column of the labels where there is one."""
    from cignn.datasets.participants import participants_table

    arrays = arrays_in(path)
    if label is None or (label == "label" and (arrays or path.is_file())):
        return label
    if arrays or path.is_file():
        return label if label in arrays else None
    try:
        table, _ = participants_table(options.get("participants"), [path, *path.parents[:2]])
    except (OSError, ValueError):
        return label  # the reader says what is wrong
    return label if label.lower() in {str(column).lower() for column in table} else None


def _check_options(
    reader: Callable[..., Any], options: Mapping[str, Any], format: str, more: Mapping[str, str]
) -> None:
    """Refuse options that a reader does not take; more : others, as annotations."""
    from cignn.datasets.cohort_checks import Checks

    parameters = inspect.signature(reader).parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    known = {name: str(p.annotation) for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY}
    if open_ended:
        known = {field.name: str(field.type) for field in fields(Checks)} | known
    known |= more
    for name, value in options.items():
        if name not in known:
            hint = meant(name, known)
            raise typer.BadParameter(f"{format} data have no option '{name}'; {hint}", param_hint="'--load'")
        expected = [LOADED[word] for word in re.split(r" \| |\[.*", known[name]) if word in LOADED]
        if not any(type(value) in types for types, _ in expected):
            what = " or ".join(words for _, words in expected) or "given in Python"
            raise typer.BadParameter(f"{name} must be {what}, got {shown(value)}.", param_hint="'--load'")


def as_graphs(model: Any, data: Any) -> tuple[Any, GraphSet]:
    """Return the classifier of a model and the data as it sees them."""
    from cignn import Cohort, CohortClassifier
    from cignn.estimators import GraphEstimator

    of_graphs = isinstance(getattr(model, "estimator_", model), GraphEstimator)
    if of_graphs and isinstance(data, Cohort):
        raise ValueError("the model was trained on graphs, the data are a cohort; give graphs.")
    if not of_graphs and not isinstance(data, Cohort):
        raise ValueError("the model was trained on a cohort, the data are graphs; give subjects.")
    if isinstance(model, CohortClassifier):
        return model.classifier_, model.to_graphs(data)
    return model, data  # a model made of others reads the subjects itself


def how_many(subjects: Iterable[str]) -> str:
    """Say "24 subjects", or "24 scans of 12 subjects" where names repeat."""
    names = list(subjects)
    n = len(set(names))
    people = f"{n} subject{'s' if n != 1 else ''}"
    return people if n == len(names) else f"{len(names)} scans of {people}"


def write_plan(folder: Path, tasks: Iterable[Task]) -> list[list[str]]:
    """Write down which tasks the evaluation in a folder is made of, and return what `planned` reads of it."""
    rows = [(t.key, t.method, t.data, t.protocol.name, t.split.name, t.seed) for t in tasks]
    plan = [[" ".join(str(part).split()) for part in row] for row in rows]
    write_text(folder / TASKS, "".join("\t".join(row) + "\n" for row in plan))
    return plan


def missing_tasks(plan: list[list[str]], store: Store) -> list[MissingTask]:
    """Return the tasks of a plan, see `planned`, that a store has no scores of, with the reason."""
    from cignn.evaluation.tasks import MissingTask

    kept = store.tasks().set_index("key")
    out = []
    for key, *names in plan:
        why = "not yet run"
        if key in kept.index:
            row = kept.loc[key]
            if row["status"] == "done":
                continue
            names = [str(row[name]) for name in ("method", "data", "protocol", "split", "seed")]
            why = f"failed: {row['error']}"
        method, of, protocol, split, seed = names if len(names) == 5 else ["?"] * 5
        out.append(MissingTask(method, of, protocol, split, seed, why))
    return out


def planned(folder: Path) -> list[list[str]]:
    """Return key and, in files of today, names of every task of the last evaluation in a folder."""
    if not (folder / TASKS).is_file():  # nor a pipe, which would be waited for
        return []
    try:
        text = (folder / TASKS).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        line = str(error).partition("\n")[0]
        raise ValueError(f"{folder / TASKS} cannot be read ({line}); evaluate again.") from None
    return [line.split("\t") for line in text.split("\n") if line]


def subject_names(data: Cohort | GraphSet) -> list[str]:
    """Return the names of subjects, or of graphs by their number."""
    if hasattr(data, "subjects"):
        return [str(name) for name in data.subjects]
    return [f"graph-{i:04d}" for i in range(len(data))]
