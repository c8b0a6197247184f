"""`cignn demo`: train on data whose causal edges are known, draw the explanations, write a report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cignn._files import replacing
from cignn.cli import options as opt
from cignn.cli.app import InterruptedWorkError, command, say, say_json, show_facts
from cignn.cli.reading import check_folder
from cignn.cli.settings import FILE, write_settings

if TYPE_CHECKING:
    from cignn import Cohort

SECONDS = "training seconds"
NETWORK: dict[str, Any] = {"epochs": 40, "settings": {"patience": None}}  # on the simulated cohort
BASELINES = ("linear-svm", "rbf-svm")
CLASSES = {0: "controls", 1: "patients"}


@command()
def demo(
    context: typer.Context,
    out: Annotated[
        Path, typer.Option(file_okay=False, help="Folder for the report, figures and models.")
    ] = Path("demo"),
    graphs: Annotated[
        int, typer.Option(min=100, help="Number of motif graphs to generate.", metavar="N")
    ] = 1000,
    subjects: Annotated[int, typer.Option(min=40, help="Number of subjects to simulate.", metavar="N")] = 200,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed of data, splits and training.", metavar="N")
    ] = 0,
    as_json: opt.Json = False,
) -> None:
    """Train on data whose causal edges are known and write a report.

    First on generated graphs with motifs, then on a simulated cohort with
    planted edges; the report on the cohort opens in any browser.

    Example: [bold]cignn demo --out demo[/]
    """
    from cignn.estimators.persistence import check_model_path

    check_folder(out)
    check_model_path(out / "model")
    check_model_path(out / "cohort_model")
    motifs = _motifs(out, graphs, seed, as_json)
    try:
        cohort = _cohort(out, subjects, seed, as_json)
    except KeyboardInterrupt:
        raise InterruptedWorkError(
            f"six explained graphs and their model are kept in {out}; there is no report yet."
        ) from None
    write_settings(out / FILE, context)
    if as_json:
        say_json(motifs | {"cohort": cohort, "report": cohort["report"]})
        return
    say(f"six explained graphs: {motifs['picture']}")
    say(f"the models:           {motifs['model']}, {cohort['model']}")
    say(f"the report:           {Path(cohort['report']).resolve()}")


def _motifs(out: Path, graphs: int, seed: int, as_json: bool) -> dict[str, Any]:
    """Train on motif graphs and draw six of them."""
    import numpy as np
    from sklearn.model_selection import train_test_split

    from cignn import CIGNNClassifier
    from cignn.datasets import make_ba2motifs
    from cignn.evaluation import classification_scores, explanation_roc_auc, precision_at_k
    from cignn.report import draw_graphs

    data = make_ba2motifs(graphs, random_state=seed)
    y = np.asarray(data.y)
    train, test = train_test_split(np.arange(len(data)), test_size=0.1, stratify=y, random_state=seed)
    started = time.perf_counter()
    model = CIGNNClassifier(n_estimators=1, random_state=seed, verbose=not as_json).fit(data[train])
    _check_whole(model)
    seconds = time.perf_counter() - started
    model.save(out / "model")
    explanations = model.explain(data[test])
    predictions = model.predict(data[test])
    figures = {
        "accuracy": classification_scores(y[test], predictions)["accuracy"],
        "explanation ROC-AUC": float(np.nanmean(explanation_roc_auc(explanations))),
        "precision@k": float(np.nanmean(precision_at_k(explanations))),
        SECONDS: round(seconds, 1),
    }
    names = np.array(["cycle", "house"])
    shown = np.concatenate([np.flatnonzero(y[test] == label)[:3] for label in (0, 1)])
    titles = [f"{names[y[test][i]]}, predicted {names[predictions[i]]}" for i in shown]
    picture = out / "explained_graphs.png"
    with replacing(picture) as new:
        draw_graphs(explanations[shown], titles).savefig(new, dpi=150)
    if not as_json:
        show_facts(figures, f"CI-GNN on {len(test)} unseen graphs")
    return figures | {"picture": str(picture), "model": str(out / "model")}


def _cohort(out: Path, subjects: int, seed: int, as_json: bool) -> dict[str, Any]:
    """Train on a simulated cohort, score it beside baselines and write the report."""
    import numpy as np

    from cignn import CIGNNClassifier, CohortClassifier
    from cignn.datasets import make_cohort
    from cignn.evaluation import Holdout, audit, explanation_roc_auc
    from cignn.report import report_of, write_report

    cohort = make_cohort(subjects, n_edges=20, effect=0.5, site_effect=0.3, random_state=seed)
    split = Holdout(test_size=0.25).splits(cohort, seed)[0]
    started = time.perf_counter()
    network = CIGNNClassifier(n_estimators=2, random_state=seed, verbose=not as_json, **NETWORK)
    model = CohortClassifier.make(network).fit(cohort[split.development])
    _check_whole(model.classifier_)
    seconds = time.perf_counter() - started
    model.save(out / "cohort_model")
    held_out = np.isin(np.arange(len(cohort)), split.test)
    explanations = model.explain(cohort)
    figures = {
        "accuracy": float((model.predict(cohort[split.test]) == np.asarray(cohort.y)[split.test]).mean()),
        "explanation ROC-AUC": float(np.nanmean(explanation_roc_auc(explanations[held_out]))),
        SECONDS: round(seconds, 1),
    }
    if not as_json:
        show_facts(figures, f"CI-GNN on {len(split.test)} unseen subjects of a simulated cohort")
    content = report_of(
        model.classifier_,
        explanations.graphs,
        cohort,
        _beside_baselines(cohort, out, seed, as_json),
        audit(cohort),
        explanations=explanations,
        held_out=held_out,
        class_names=CLASSES,
        title="A simulated cohort with planted edges",
        verbose=int(not as_json),
    )
    path = write_report(out / "report.html", content)
    return figures | {"model": str(out / "cohort_model"), "report": str(path)}


def _check_whole(model: Any) -> None:
    """A training stopped by Ctrl-C has kept its best epoch; a demonstration wants the whole."""
    if model.interrupted_:
        raise KeyboardInterrupt


def _beside_baselines(cohort: Cohort, out: Path, seed: int, as_json: bool) -> Any:
    """Score CI-GNN and two baselines on three random splits."""
    from cignn.evaluation import Holdout, evaluate

    if not as_json:
        say("scoring CI-GNN beside two baselines on three splits")
    methods: dict[str, Any] = {"ci-gnn": {"n_estimators": 1, **NETWORK}, **dict.fromkeys(BASELINES)}
    protocol = Holdout(n_repeats=3, test_size=0.25)
    data = {"simulated cohort": cohort}
    return evaluate(methods, data, protocol, [seed], store=out / "results", verbose=int(not as_json))
