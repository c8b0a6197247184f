"""Options that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from cignn._checks import Option, whole
from cignn.cli.settings import for_table, read_config, with_table

DATA, MODEL = "Data", "Model"  # headings in the help

METHODS = ["linear-svm", "rbf-svm", "random-forest", "lasso", "logistic"]
METHODS += ["gcn", "gat", "gin", "sib", "dir", "ci-gnn"]
SHORT = {"svm": "linear-svm", "forest": "random-forest", "logistic-regression": "logistic"}
EXPLAINERS = [
    *("built-in", "contributions", "gnn-explainer", "pg-explainer", "rc-explainer", "orphicx"),
    *("gradient", "univariate", "coefficients", "haufe", "connectivity", "degree", "random"),
]
PROTOCOLS = ["holdout", "kfold", "loso"]
KINDS = ["correlation", "partial", "tangent", "covariance"]
UNSEEN = ["raise", "pass", "grand_mean"]
MISSING = ["raise", "mean"]
FIT_ON = ["auto", "all", "controls", "within_classes"]
REPEATED = ["raise", "first"]
NUISANCES = ["age", "sex", "motion", "site"]
FORMATS = ["auto", "cohort", "tu", "ba2motifs", "spmotif", "abide", "rest-meta-mdd", "srpbs"]


# step and parameter that errors advise → its option here; those of loaders are given with --load
FLAGS = {
    ("", "label"): "--label",
    ("", "target"): "--target",
    ("", "variable"): "--variable",
    ("ComBat", "unseen"): "--unseen-sites",
    ("ComBat", "missing"): "--missing-covariates",
    ("ComBat", "covariates"): "--covariates",
    ("ComBat", "fit_on"): "--combat-on",
    ("ComBat", "control"): "--positive",
    ("ComBat", "repeated"): "--repeated-scans",
    ("Deconfound", "unseen"): "--unseen-sites",
    ("Deconfound", "covariates"): "--deconfound",
    ("Deconfound", "control"): "--positive",
    ("kfold", "n_splits"): "--folds",
}
ONLY_IN_PYTHON = {"extract", "n_inner"}


def as_flag(option: Option) -> str | None:
    """Return an option that an error advises as it is typed here; None for one that only Python has."""
    values = option.listed(_typed) if option.values else ""
    if option.name == "entities":  # of BIDS, each an option of its own
        ways = [" ".join(f"--load {k}={v}" for k, v in dict(value).items()) for value in option.values]
        return " or ".join(ways) or "--load task=…"
    flag = FLAGS.get((option.step, option.name))
    if option.name in ONLY_IN_PYTHON or (option.name, option.values) == ("label", (None,)):
        return None
    if flag is None:
        return f"--load {option.name}={values}" if values else f"--load {option.name}"
    return f"{flag} {values}".rstrip()


def _typed(value: object) -> str:
    return "none" if value in (None, ()) else str(value).lower() if isinstance(value, bool) else str(value)


def with_variable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command that reads data with an option --variable, a short form of --load variable=…"""
    signature = inspect.signature(function, eval_str=True)
    if "load" not in signature.parameters:
        return function

    @wraps(function)
    def called(*args: Any, variable: str | None = None, **options: Any) -> Any:
        return function(*args, **options)  # the callback of the option has put it into load

    parameters = list(signature.parameters.values())
    short = inspect.Parameter(
        "variable", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=Variable
    )
    parameters.insert(list(signature.parameters).index("load"), short)
    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in parameters}
    return called


def _words(known: list[str]):  # type: ignore[no-untyped-def]
    """Complete a word, or the last of a list separated by commas."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{word}" for word in known if word.startswith(last)]

    return complete


def _one_of(known: list[str]):  # type: ignore[no-untyped-def]
    """Refuse any other word before the data are read."""

    def check(word: str) -> str:
        if word not in known:
            raise typer.BadParameter(f"must be one of {', '.join(known)}, got {word}.")
        return word

    return check


def some_processes(jobs: int) -> int:
    """Refuse to work in no process at all."""
    if jobs == 0:
        raise typer.BadParameter("must be a number of processes, or -1 for all cores, got 0.")
    return jobs


def stack_size(stack: str) -> int | str:
    """Return a number of tasks, or "auto"."""
    if stack == "auto":
        return stack
    try:
        return whole("", int(stack), 1)
    except ValueError:
        raise typer.BadParameter(f"must be auto or a whole number of at least 1, got {stack}.") from None


Study = Annotated[
    Path,
    typer.Argument(
        help="Folder with participants.tsv and series/ or matrices/, fMRIPrep's output, an .npz, or "
        "TU-format graphs.",
        metavar="DATA",
    ),
]
Subjects = Annotated[
    Path,
    typer.Argument(help="New subjects: a folder or file as for fit; labels are not needed.", metavar="NEW"),
]
ModelFolder = Annotated[Path, typer.Argument(help="Folder that cignn fit wrote.", metavar="MODEL")]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="TOML file with settings; options given here override it.",
        callback=read_config,
        is_eager=True,
        metavar="FILE",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]
Seed = Annotated[int, typer.Option(min=0, help="Random seed.", metavar="N")]
Jobs = Annotated[
    int,
    typer.Option(
        "--jobs", "-j", help="Number of processes; -1 for all cores.", metavar="N", callback=some_processes
    ),
]
Stack = Annotated[
    str,
    typer.Option(
        "--stack",
        help="Tasks of a neural method trained at the same time; auto: up to 100 on a GPU, 1 on a CPU.",
        metavar="N",
        callback=stack_size,
    ),
]
Format = Annotated[
    str,
    typer.Option(
        "--format",
        help=f"Format of the data: {', '.join(FORMATS)}.",
        autocompletion=_words(FORMATS),
        rich_help_panel=DATA,
        metavar="NAME",
    ),
]
Label = Annotated[str, typer.Option(help="Column with the labels.", rich_help_panel=DATA, metavar="COLUMN")]
Positive = Annotated[
    str | None,
    typer.Option(
        help="Positive class (patients) of sensitivity and F1; by default the second in sorted order.",
        metavar="LABEL",
    ),
]
AtlasName = Annotated[
    str | None,
    typer.Option(
        "--atlas",
        help="Name of an atlas (aal116, schaefer200, difumo64, power264, …), table of regions (columns name, "
        "x, y, z, system) or volume; by default the data's regions.csv.",
        rich_help_panel=DATA,
        metavar="NAME|FILE",
    ),
]
Load = Annotated[
    list[str] | None,
    typer.Option(
        "--load",
        help="Option of load_cohort or another loader, such as duplicates=keep; for scans also of RoiSeries, "
        "and task=rest. Repeatable.",
        rich_help_panel=DATA,
        metavar="NAME=VALUE",
        callback=with_table("load"),
    ),
]
Variable = Annotated[
    str | None,
    typer.Option(
        "--variable",
        help="What to read of files with several arrays: a variable of .mat files, a matrix of .netcc files.",
        rich_help_panel=DATA,
        metavar="NAME",
        expose_value=False,
        is_eager=True,
        callback=for_table("load"),
    ),
]
Kind = Annotated[
    str | None,
    typer.Option(
        "--connectivity",
        help=f"Kind of connectivity: {', '.join(KINDS)}; correlation by default, tangent often predicts a "
        "little better.",
        autocompletion=_words(KINDS),
        rich_help_panel=MODEL,
        metavar="KIND",
    ),
]
Fisher = Annotated[
    bool, typer.Option("--fisher", help="Apply Fisher's z to correlations.", rich_help_panel=MODEL)
]
Combat = Annotated[
    bool,
    typer.Option(
        "--combat",
        help="Remove site effects with ComBat, fitted on training data only.",
        rich_help_panel=MODEL,
    ),
]
CombatOn = Annotated[
    str,
    typer.Option(
        "--combat-on",
        help="Training subjects on whom ComBat is fitted: all or controls.",
        callback=_one_of(FIT_ON[1:3]),
        autocompletion=_words(FIT_ON[1:3]),
        rich_help_panel=MODEL,
        metavar="WHO",
    ),
]
Repeated = Annotated[
    str,
    typer.Option(
        "--repeated-scans",
        help="What ComBat does with several scans of a training subject: raise, or fit on the first.",
        callback=_one_of(REPEATED),
        autocompletion=_words(REPEATED),
        rich_help_panel=MODEL,
        metavar="WHAT",
    ),
]
Covariates = Annotated[
    str | None,
    typer.Option(
        help="Covariates whose effect ComBat preserves; by default age,sex if present; none for none.",
        rich_help_panel=MODEL,
        metavar="NAMES",
    ),
]
Unseen = Annotated[
    str,
    typer.Option(
        "--unseen-sites",
        help="What is done with a site that was not in training: raise, pass or grand_mean.",
        callback=_one_of(UNSEEN),
        autocompletion=_words(UNSEEN),
        rich_help_panel=MODEL,
        metavar="WHAT",
    ),
]
Missing = Annotated[
    str,
    typer.Option(
        "--missing-covariates",
        help="What ComBat does with missing covariates: raise or mean.",
        callback=_one_of(MISSING),
        autocompletion=_words(MISSING),
        rich_help_panel=MODEL,
        metavar="WHAT",
    ),
]
Deconfound = Annotated[
    str | None,
    typer.Option(
        "--deconfound",
        help="Covariates to regress out of every connection, such as age,sex,motion,site.",
        autocompletion=_words(NUISANCES),
        rich_help_panel=MODEL,
        metavar="NAMES",
    ),
]
DeconfoundOn = Annotated[
    str,
    typer.Option(
        "--deconfound-on",
        help="Training subjects on whom these effects are estimated: all, controls or within_classes; "
        "auto: within classes, or all where a score is predicted.",
        callback=_one_of(FIT_ON),
        autocompletion=_words(FIT_ON),
        rich_help_panel=MODEL,
        metavar="WHO",
    ),
]
Density = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=1.0,
        help="Share of the strongest connections to keep; all by default.",
        rich_help_panel=MODEL,
        metavar="SHARE",
    ),
]


def method_named(names: str) -> str:
    """Methods, separated by commas, by the names of the package where shorter ones were given."""
    return ",".join(SHORT.get(name.strip(), name) for name in str(names).split(","))


MethodName = Annotated[
    str,
    typer.Option(
        "--method",
        help=f"Classifier: {', '.join(METHODS)}.",
        autocompletion=_words(METHODS),
        callback=method_named,
        rich_help_panel=MODEL,
        metavar="NAME",
    ),
]
Preset = Annotated[
    str | None,
    typer.Option(
        help="Preset of ci-gnn: auto, motif, connectome or paper.", rich_help_panel=MODEL, metavar="NAME"
    ),
]
Epochs = Annotated[
    int | None, typer.Option(min=1, help="Number of training epochs.", rich_help_panel=MODEL, metavar="N")
]
NEstimators = Annotated[
    int | None,
    typer.Option(
        min=1, help="Number of networks in the ensemble of ci-gnn.", rich_help_panel=MODEL, metavar="N"
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Set a parameter of the method, such as dropout=0.3. Repeatable.",
        rich_help_panel=MODEL,
        metavar="NAME=VALUE",
        callback=with_table("set"),
    ),
]
Device = Annotated[str, typer.Option(help="Device: auto, cpu or cuda.", metavar="NAME")]
ExplainerName = Annotated[
    str,
    typer.Option(
        "--explainer",
        help=f"auto (the model's own, else contributions), {', '.join(EXPLAINERS[:6])}, …",
        autocompletion=_words(EXPLAINERS),
        metavar="NAME",
    ),
]
