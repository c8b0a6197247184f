"""The command line: `cignn demo` and `cignn info`."""

from __future__ import annotations

import json
import platform
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cignn import __version__

app = typer.Typer(
    add_completion=True,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Graph classifiers that show which edges made the decision. Research software, no medical device.",
)
screen = Console()
errors = Console(stderr=True)


def main() -> None:
    """Run the command line; bad input ends in one clear line and exit code 2."""
    try:
        app()
    except (ValueError, OSError, FloatingPointError) as error:
        errors.print(f"[bold red]error[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        errors.print("interrupted")
        sys.exit(130)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Show the version and leave.")] = False,
) -> None:
    """Handle options that need no command."""
    if show_version:
        typer.echo(f"cignn {__version__}")
        raise typer.Exit


@app.command()
def demo(
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder for pictures and model.")] = Path("demo"),
    graphs: Annotated[int, typer.Option(min=100, help="Number of graphs to generate.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of graphs, split and training.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Train on generated graphs whose causal edges are known and draw what the model found.

    Example: [bold]cignn demo --out demo[/]
    """
    import numpy as np
    from sklearn.model_selection import train_test_split

    from cignn import CIGNNClassifier
    from cignn.datasets import make_ba2motifs
    from cignn.estimators.persistence import check_model_path
    from cignn.evaluation import classification_scores, explanation_roc_auc, precision_at_k
    from cignn.report import draw_graphs

    _check_folder(out)
    check_model_path(out / "model")
    data = make_ba2motifs(graphs, random_state=seed)
    y = np.asarray(data.y)
    train, test = train_test_split(np.arange(len(data)), test_size=0.1, stratify=y, random_state=seed)
    started = time.perf_counter()
    model = CIGNNClassifier(random_state=seed, verbose=not as_json).fit(data[train])
    seconds = time.perf_counter() - started
    model.save(out / "model")

    explanations = model.explain(data[test])
    predictions = model.predict(data[test])
    scores = classification_scores(y[test], predictions)
    figures = {
        "accuracy": scores["accuracy"],
        "explanation ROC-AUC": float(np.nanmean(explanation_roc_auc(explanations))),
        "precision@k": float(np.nanmean(precision_at_k(explanations))),
        "training seconds": round(seconds, 1),
    }
    names = np.array(["cycle", "house"])
    shown = np.concatenate([np.flatnonzero(y[test] == label)[:3] for label in (0, 1)])
    titles = [f"{names[y[test][i]]}, predicted {names[predictions[i]]}" for i in shown]
    picture = out / "explained_graphs.png"
    draw_graphs(explanations[shown], titles).savefig(picture, dpi=150)

    if as_json:
        typer.echo(json.dumps(figures | {"picture": str(picture), "model": str(out / "model")}))
        return
    table = Table(title=f"CI-GNN on {len(test)} unseen graphs", title_justify="left")
    table.add_column("figure")
    table.add_column("value", justify="right")
    for name, value in figures.items():
        table.add_row(name, f"{value:.3f}" if name != "training seconds" else f"{value:.1f}")
    screen.print(table)
    screen.print(f"six explained graphs: {picture}\nthe model:            {out / 'model'}", highlight=False)


@app.command()
def info() -> None:
    """Show versions and devices.

    Example: [bold]cignn info[/]
    """
    import torch

    table = Table(show_header=False)
    table.add_row("python", platform.python_version())
    table.add_row("cignn", __version__)
    for package in ("torch", "torch-geometric", "numpy", "scikit-learn", "nilearn"):
        table.add_row(package, _version(package))
    table.add_row("device", torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu")
    screen.print(table)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _check_folder(out: Path) -> None:
    """Make the folder and try to write into it: better told before a training than after."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise typer.BadParameter(
            f"cannot write into '{out}' ({error.strerror}); choose another folder.", param_hint="'--out'"
        ) from None
