"""The application, and how it ends: 0, 1 (failed), 2 (bad input) or 130 (Ctrl-C, SIGTERM), with one line."""

from __future__ import annotations

import json
import logging
import math
import os
import platform
import re
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from ctypes.util import find_library
from importlib.metadata import PackageNotFoundError, version
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from typer.core import TyperCommand, TyperGroup

from cignn import __version__
from cignn._checks import DataError, closest_name
from cignn.cli import options as opt
from cignn.cli.columns import Fitted, fitted_columns

if TYPE_CHECKING:
    import pandas as pd


T = TypeVar("T")
SHORT = 20  # letters
COLOURS = {"error": "bold red", "failed": "bold red", "interrupted": "bold yellow", "note": "bold cyan"}
NAMES = {"f1": "F1", "mcc": "MCC", "roc_auc": "ROC-AUC", "p_holm": "p (Holm)"}


def complain(severity: str, message: str) -> None:
    """Write one line (or one per problem) to stderr; a terminal breaks it between words."""
    console = Console(stderr=True)
    line = f"[{COLOURS[severity]}]{severity}[/] {escape(message)}"
    console.print(line, highlight=False, soft_wrap=not console.is_terminal)


def say(line: str) -> None:
    """Write a line to stdout, letter by letter: what is to be copied, a path, stays whole."""
    Console().print(escape(line), highlight=False, soft_wrap=True)


def say_words(text: str, mark: str = "", style: str = "", bold: str = "") -> None:
    """Write a sentence to stdout, after a mark; a terminal breaks it between words, below its start.

    bold : what the sentence begins with.
    """
    console = Console()
    sentence = (f"[bold]{escape(bold)}[/]" if bold else "") + escape(text)
    first = f"[{style}]{escape(mark)}[/]" if style else escape(mark)
    if not console.is_terminal:
        console.print(first + sentence, highlight=False, soft_wrap=True)
        return
    grid = Table.grid()
    grid.add_column(width=len(mark), no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(first, sentence)
    console.print(grid, highlight=False)


def say_json(content: dict[str, Any]) -> None:
    """Write one JSON object to stdout."""
    typer.echo(json.dumps(plain(content), ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """Return what JSON can hold: NaN and infinite numbers become null, tables lists of rows."""
    import numpy as np
    import pandas as pd

    if isinstance(value, pd.DataFrame):
        return [plain(row) for row in value.to_dict("records")]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def show_table(
    table: pd.DataFrame, title: str, digits: int = 3, most: int | None = None, right: Sequence[str] = ()
) -> None:
    """Write a table to stdout, at most so many rows; numbers and the columns in ``right`` to the right."""
    import pandas as pd

    drawn = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    console = Console()
    cells, widths = _fitted(table, digits, most)
    for k, name in enumerate(table.columns):
        whole = k == 0 and _short_names(table)
        number = pd.api.types.is_numeric_dtype(table[name]) and not pd.api.types.is_bool_dtype(table[name])
        justify: Literal["left", "right"] = "right" if number or name in right else "left"
        width = None if widths is None else widths[k]
        drawn.add_column(escape(cells[k][0]), justify=justify, overflow="fold", no_wrap=whole, width=width)
    for row in zip(*(column[1:] for column in cells), strict=True):
        drawn.add_row(*map(escape, row))
    console.print(f"[bold]{escape(title)}[/]", highlight=False)
    console.print(drawn)
    if most is not None and len(table) > most:
        console.print(f"… and {len(table) - most} more", highlight=False)


def fits_screen(table: pd.DataFrame, digits: int = 3) -> bool:
    """Whether a table can be shown without breaking words."""
    return _fitted(table, digits, None).widths is not None


def _fitted(table: pd.DataFrame, digits: int, most: int | None) -> Fitted:
    """Cells and widths of a table on this screen; beside its letters, a column takes two of the frame's."""
    rows = table.head(most or len(table)).itertuples(index=False)
    lines = [[_name(name) for name in table.columns]]
    lines += [[_cell(value, digits) for value in row] for row in rows]
    room = Console().width - 2 * table.shape[1] - 1
    return fitted_columns(list(zip(*lines, strict=True)), room, _short_names(table))


def _short_names(table: pd.DataFrame) -> bool:
    """Whether the names of rows are short, and so stay whole: headings break before them."""
    return bool(table.iloc[:, 0].astype(str).str.len().max() <= SHORT)


def show_facts(facts: dict[str, Any], title: str, digits: int = 3) -> None:
    """Write names and values as a table of two columns."""
    drawn = Table(show_header=False, box=box.SIMPLE)
    for name, value in facts.items():
        drawn.add_row(escape(_name(name)), escape(_cell(value, digits)))
    console = Console()
    if title:
        console.print(f"[bold]{escape(title)}[/]", highlight=False)
    console.print(drawn)


def positive_words(positive: Any) -> str:
    """What a title says of the class, of two, that sensitivity and F1 are of."""
    return "" if positive is None else f"; positive: {positive}"


def _name(name: Any) -> str:
    return NAMES.get(str(name), str(name).replace("_", " "))


def _cell(value: Any, digits: int) -> str:
    if str(value) in ("True", "False"):
        return "yes" if value else "no"
    if isinstance(value, Real) and not isinstance(value, Integral):  # numpy's too
        return "–" if math.isnan(value) else f"{value:.{digits}f}"
    return "–" if value is None else str(value)


# as people meet them
ORDER = (
    "demo",
    "audit",
    "fit",
    "predict",
    "explain",
    "group",
    "evaluate",
    "validate",
    "report",
    "reproduce",
    "info",
)


def _bare(params: list[Any]) -> list[Any]:
    """Options as the help shows them: no type behind a flag."""
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _bare(super().get_params(ctx))


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _bare(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=ORDER.index)


app = typer.Typer(
    name="cignn",
    cls=_Group,
    add_completion=True,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Graph classifiers that show the edges behind a decision. Research software, not a medical device.",
)


def command(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that makes a function a command; options : those of ``app.command``."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        return app.command(cls=_Command, **options)(opt.with_variable(function))

    return register


UsageError: Any = typer.BadParameter.__mro__[1]  # of whichever click this typer uses
TRACEBACK = "CIGNN_TRACEBACK"
# what a user can put right; all else is a failure
BAD_INPUT = (
    ValueError,
    FileNotFoundError,
    FileExistsError,
    NotADirectoryError,
    IsADirectoryError,
    PermissionError,
    ImportError,
)


class _Notes(logging.Handler):
    """Shows what readers warn of, such as scans that are nearly the same."""

    def emit(self, record: logging.LogRecord) -> None:
        about = record.args[0] if isinstance(record.args, tuple) and record.args else None
        complain("note", _worded(about) if isinstance(about, DataError) else record.getMessage())


_NOTES = _Notes(logging.WARNING)


def _worded(error: BaseException) -> str:
    """Return a message with its advice in options of the command line."""
    return error.described(opt.as_flag) if isinstance(error, DataError) else str(error)


class InterruptedWorkError(Exception):
    """Ctrl-C; the message says what was finished and kept."""


class FailedWorkError(Exception):
    """The command ran and failed, or some of its work did."""


def main() -> None:
    """Run the command line; whatever goes wrong ends in one clear line and its exit code."""
    _end_as_by_ctrl_c()
    # of an interrupted training the commands tell themselves
    logging.getLogger("cignn.estimators").addHandler(logging.NullHandler())
    logging.getLogger("cignn.datasets").addHandler(_NOTES)
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: complain("note", str(message))
        _run()


def _end_as_by_ctrl_c() -> None:
    """Let what a batch system or a closed terminal sends end the work as Ctrl-C does: all done is kept."""
    for name in ("SIGTERM", "SIGHUP"):
        sent = getattr(signal, name, None)
        if sent is not None and signal.getsignal(sent) is signal.SIG_DFL:  # nohup has it ignored
            signal.signal(sent, signal.default_int_handler)


def _run() -> None:
    if os.environ.get(TRACEBACK):
        app(prog_name="cignn")
    try:
        code = app(standalone_mode=False, prog_name="cignn")
    except UsageError as error:
        sys.exit(_usage(error))
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except InterruptedWorkError as error:
        complain("interrupted", str(error))
        sys.exit(130)
    except FailedWorkError as error:
        complain("failed", str(error))
        sys.exit(1)
    except BAD_INPUT as error:
        complain("error", _worded(error))
        sys.exit(2)
    except (OSError, FloatingPointError) as error:
        complain("failed", str(error) or type(error).__name__)
        sys.exit(1)
    except Exception as error:
        line = (str(error).splitlines() or [""])[0]
        if _asked_for_too_much(error):
            complain("failed", f"there is not enough memory for this ({line or 'MemoryError'}).")
            sys.exit(1)
        complain("failed", f"{type(error).__name__}: {line} ({TRACEBACK}=1 shows where; please report it.)")
        sys.exit(1)
    if code == 130:
        complain("interrupted", "nothing was finished.")
    sys.exit(code if isinstance(code, int) else 0)


def _asked_for_too_much(error: Exception) -> bool:
    """Whether an error says that memory has run out, Python's, the processor's or a GPU's."""
    by_torch = type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)
    return isinstance(error, MemoryError) or by_torch


def _usage(error: Exception) -> int:
    """Tell a wrong call in one line, with the nearest right one, or show the help where nothing was asked."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()  # type: ignore[attr-defined]
        return 2
    # click lists what is alike by the alphabet: we name the closest
    message = re.sub(r" \(Possible options: .*\)$", "", error.format_message().rstrip(". "))  # type: ignore[attr-defined]
    option = getattr(error, "option_name", None)
    if option and context is not None:
        known = [name for param in context.command.params for name in param.opts if name.startswith("--")]
        close = closest_name(option, known)
        message += "" if close is None else f"; did you mean {close}?"
    path = context.command_path if context is not None else "cignn"
    complain("error", f"{message if message.endswith('?') else message + '.'} See '{path} --help'.")
    return 2


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Handle options that need no command."""
    if show_version:
        typer.echo(f"cignn {__version__}")
        raise typer.Exit


PACKAGES = ("torch", "torch-geometric", "numpy", "scikit-learn", "nilearn")


@command()
def info(as_json: opt.Json = False) -> None:
    """Show the versions of cignn and its main packages, and the device.

    Example: [bold]cignn info[/]
    """
    facts = {"python": platform.python_version(), "cignn": __version__}
    facts |= {package: _version(package) for package in PACKAGES}
    facts |= _device()
    if as_json:
        say_json(facts)
    else:
        show_facts(facts, "")


def _device() -> dict[str, str]:
    """What torch computes on, and in how many threads; it is only asked where there may be a GPU."""
    if os.name == "posix" and not Path("/proc/driver/nvidia").exists() and find_library("cuda") is None:
        from joblib import cpu_count

        said = os.environ.get("OMP_NUM_THREADS", "")
        threads = said if said.isdigit() else str(cpu_count(only_physical_cores=True))
        return {"device": "cpu", "threads": threads}
    import torch

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    return {"device": device, "threads": str(torch.get_num_threads())}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
