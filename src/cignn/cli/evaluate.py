"""`cignn evaluate`: scores of methods by cross-validation, stored task by task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cignn._files import write_csv
from cignn.cli import options as opt
from cignn.cli.app import (
    FailedWorkError,
    InterruptedWorkError,
    command,
    complain,
    positive_words,
    say,
    say_json,
    show_table,
)
from cignn.cli.decisions import (
    Calibrate,
    Specificity,
    Threshold,
    check_decisions,
    show_points,
    with_decisions,
    write_decisions,
)
from cignn.cli.learning import (
    LearningCurveOption,
    Sizes,
    check_curve,
    check_sizes,
    learning_table,
    show_learning,
)
from cignn.cli.models import (
    check_kind,
    check_methods,
    estimators_of,
    explainable,
    refuse_for_graphs,
)
from cignn.cli.nuisances import checked_predictions, show_nuisances
from cignn.cli.outputs import (
    TRIVIAL,
    compared,
    kept_tasks,
    permuted_table,
    show_permutations,
    write_comparison,
    write_predictions,
)
from cignn.cli.reading import (
    check_data,
    check_folder,
    missing_tasks,
    name_of,
    read_data,
    write_plan,
)
from cignn.cli.scores import (
    EVALUATED,
    FOR_CLASSES,
    SCORE_NAMES,
    Target,
    refuse_classes,
    refuse_target,
    score_methods,
    show_sites,
    write_sites,
)
from cignn.cli.settings import FILE, assignments, names_in, with_table, write_settings
from cignn.cli.views import View, Views, check_views, share_table, with_steps

if TYPE_CHECKING:
    import pandas as pd


# tables of scores, each as wide as a screen of 80 columns
SHOWN = ("accuracy", "balanced_accuracy", "mcc", "roc_auc", *SCORE_NAMES)
DEFAULT_METHODS = "ci-gnn,rbf-svm,gin"
OF_CLASSES = ("sensitivity", "specificity", "f1")
EXPLAINED = {  # tables of explanations, each as wide as a screen of 80 columns
    "explanations": {
        "explanation_accuracy": "accuracy",
        "fidelity_plus": "fidelity+",
        "fidelity_minus": "fidelity−",
        "milliseconds": "ms",
    },
    "explanations, worst change over supersets, and of the mask of cut graphs": {
        "superset_worst": "supersets",
        "superset_worst_random": "random",
        "superset_label_changes": "class",
        "self_difference": "mask",
    },
    "explanations, known edges": {
        "explanation_roc_auc": "ROC-AUC",
        "explanation_roc_auc_overall": "overall",
        "explanation_gap": "gap",
        "precision_at_k": "precision",
    },
}


@command()
def evaluate(
    context: typer.Context,
    data: opt.Study,
    out: Annotated[
        Path,
        typer.Option(
            help="Folder for the results; an unfinished evaluation there is resumed.", file_okay=False
        ),
    ] = Path("results"),
    protocol: Annotated[
        str,
        typer.Option(
            help="holdout, kfold or loso (leave one site out).",
            autocompletion=opt._words(opt.PROTOCOLS),
            metavar="NAME",
        ),
    ] = "holdout",
    methods: Annotated[
        str,
        typer.Option(
            help="Methods separated by commas, named as in fit --method; with --target by default "
            "ci-gnn,ridge,svr,cpm.",
            autocompletion=opt._words(opt.METHODS),
            callback=opt.method_named,
            metavar="NAMES",
        ),
    ] = DEFAULT_METHODS,
    seeds: Annotated[int, typer.Option(min=1, help="Number of runs, with seeds 0, 1, …", metavar="N")] = 1,
    folds: Annotated[
        int | None, typer.Option(min=2, help="Number of folds of kfold; 10 by default.", metavar="N")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Number of repeats of holdout or kfold per seed.", metavar="N")
    ] = None,
    explainers: Annotated[
        str | None,
        typer.Option(
            help="Explainers to score on the test graphs, such as built-in,gnn-explainer.",
            autocompletion=opt._words(opt.EXPLAINERS),
            metavar="NAMES",
        ),
    ] = None,
    permutations: Annotated[
        int,
        typer.Option(
            min=0,
            help="Repeat everything N times with labels permuted within sites and test the scores against "
            "that. Takes long; resumed like the rest.",
            metavar="N",
        ),
    ] = 0,
    learning_curve: LearningCurveOption = False,
    train_sizes: Sizes = None,
    jobs: opt.Jobs = 1,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Address of a Dask cluster to use instead of --jobs.", metavar="tcp://…"),
    ] = None,
    stack: opt.Stack = "auto",
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run failed tasks again.")] = False,
    positive: opt.Positive = None,
    specificity: Specificity = None,
    connectivity: opt.Kind = None,
    fisher: opt.Fisher = False,
    combat: opt.Combat = False,
    combat_on: opt.CombatOn = "all",
    repeated_scans: opt.Repeated = "raise",
    covariates: opt.Covariates = None,
    unseen_sites: opt.Unseen = "grand_mean",
    missing_covariates: opt.Missing = "raise",
    deconfound: opt.Deconfound = None,
    deconfound_on: opt.DeconfoundOn = "auto",
    density: opt.Density = None,
    views: Views = None,
    view: View = None,
    calibrate: Calibrate = None,
    threshold: Threshold = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Set a parameter of all methods that have it, or of one: gin.epochs=50. Repeatable.",
            rich_help_panel=opt.MODEL,
            metavar="NAME=VALUE",
            callback=with_table("set"),
        ),
    ] = None,
    device: opt.Device = "auto",
    label: opt.Label = "label",
    target: Target = None,
    atlas: opt.AtlasName = None,
    format: opt.Format = "auto",
    load: opt.Load = None,
    config: opt.Config = None,
    as_json: opt.Json = False,
) -> None:
    """Evaluate methods on a cohort (or graphs) by holdout or cross-validation.

    Every step is fitted on training data only. Finished tasks are stored in the
    folder, and the same command resumes an interrupted evaluation. With --target
    a score such as age is predicted, and methods are regressors.

    Example: [bold]cignn evaluate my_study --protocol loso --methods ci-gnn,rbf-svm[/]
    """
    methods = EVALUATED if target is not None and methods == DEFAULT_METHODS else methods
    check_methods(names_in(methods))
    chosen = score_methods(names_in(methods), target)
    refuse_classes(context, target, *FOR_CLASSES)
    refuse_target(target, deconfound, deconfound_on)
    check_data(data, format, label, assignments(load), target)
    check_kind(connectivity, fisher)
    check_views(views, view, connectivity)
    sizes = check_sizes(learning_curve, train_sizes)
    cut, shares = check_decisions(calibrate, threshold, specificity)
    from cignn import Cohort
    from cignn.evaluation import Store, make_protocol, positive_class
    from cignn.evaluation.runner import plan, run_tasks
    from cignn.evaluation.splits import labels_of
    from cignn.evaluation.trivial import trivial_scores

    check_folder(out)
    given = {"n_splits": folds, "n_repeats": repeats}
    how = make_protocol(protocol, **{name: value for name, value in given.items() if value is not None})
    wanted = assignments(settings) | ({} if target is None else {"target": target})
    estimators = estimators_of(chosen, wanted, device)
    read: dict[str, Any] = {"format": format, "label": label, "atlas": atlas, "target": target}
    cohort = read_data(data, **read, load=assignments(load), quiet=as_json)
    counted = None if target is not None else positive_class(labels_of(cohort).y, positive)
    able = explainable(estimators)
    by = "site" if protocol == "loso" else "subject"  # what inner folds hold together
    if isinstance(cohort, Cohort):
        cohort, estimators = with_steps(context, cohort, estimators, by)
    else:
        refuse_for_graphs(context)
    if target is None:
        n_classes = len(set(labels_of(cohort).y.tolist()))
        estimators = with_decisions(estimators, calibrate, cut, counted, n_classes, by)
    if learning_curve:
        check_curve(sizes, cohort, how)
    named = {name_of(data): cohort}
    tasks = plan(estimators, named, how, seeds, names_in(explainers) or None, positive=positive)
    write_settings(out / FILE, context)
    planned = write_plan(out, tasks)
    running: dict[str, Any] = {"n_jobs": jobs, "scheduler": scheduler, "stack": stack, "positive": positive}
    running |= {"retry_failed": retry_failed, "verbose": int(not as_json)}
    with Store(out) as store:
        before = len(store.tasks())
        try:
            results = run_tasks(tasks, named, store=store, **running)
        except KeyboardInterrupt:
            raise InterruptedWorkError(kept_tasks(store, before, out, planned)) from None
        missing = missing_tasks(planned, store)
        write_predictions(out, store, results)
        points, sites = None, None
        if target is None:
            points = write_decisions(out, store, results, counted, shares)
        else:
            sites = write_sites(out, store, results)
        checked = checked_predictions(store, planned, cohort, counted)
    trivial = trivial_scores(tasks, cohort)
    table = _write_scores(out, results, trivial)
    comparison = compared(results)
    write_comparison(out, comparison)
    if not as_json:
        _show(results, trivial, protocol, counted, comparison)
        show_points(points)
        show_sites(sites if protocol != "loso" else None)
    tested, learnt = None, None
    if permutations:
        tested = permuted_table(out, estimators, named, how, seeds, results, trivial, permutations, **running)
    if learning_curve:
        with Store(out) as store:
            learnt = learning_table(out, estimators, named, how, seeds, sizes, results, store, **running)
    failed = results[(results["metric"] == "error") & (results["explainer"] == "")]
    if as_json:
        simple = trivial.groupby(["method", "metric"], sort=False)["value"].mean().reset_index()
        of_target: dict[str, Any] = {"site_controlled_auc": checked.areas}
        if target is not None:
            of_target = {"target": target, "site_controlled_r2": checked.within, "sites": sites}
        say_json(
            {"out": out, "positive": counted, "summary": table, "comparison": _decisive(comparison, target)}
            | {"missing": [str(task) for task in missing], "trivial": simple, "permutations": tested}
            | {"operating_points": points, "nuisances": checked.table, "learning_curve": learnt}
            | of_target
            | {"failed": failed[["method", "split", "seed", "error"]]}
        )
    else:
        show_nuisances(checked, "label" if target is None else "score")
        if tested is not None:
            show_permutations(tested)
        if learnt is not None:
            show_learning(learnt, out)
        say(f"every score, prediction and time: {out}")
        if able:
            say(f"to look at them: cignn report {out}")
    _refuse_failed(failed)


def _write_scores(out: Path, results: pd.DataFrame, trivial: pd.DataFrame) -> pd.DataFrame:
    """Write every score, those of trivial methods and the summary, which is returned."""
    from cignn.evaluation import summary

    table = summary(results, as_text=False)
    table.columns = [" ".join(pair).strip() for pair in table.columns]
    table = table.reset_index()
    write_csv(out / "summary.csv", table)
    write_csv(out / "scores.csv", results)
    write_csv(out / TRIVIAL, trivial)
    return table


def _decisive(comparison: pd.DataFrame | None, target: str | None) -> pd.DataFrame | None:
    """The comparisons by the score that decides."""
    main = "accuracy" if target is None else "mae"
    return None if comparison is None else comparison[comparison["metric"] == main]


def _refuse_failed(failed: pd.DataFrame) -> None:
    """End with an error where tasks failed."""
    if len(failed):
        first = failed.iloc[0]
        where = f"{first['method']} (split {first['split']}, seed {first['seed']})"
        raise FailedWorkError(
            f"{len(failed)} tasks failed, first {where}: {first['error']} --retry-failed runs them again."
        )


def _show(
    results: pd.DataFrame,
    trivial: pd.DataFrame,
    protocol: str,
    positive: Any,
    comparison: pd.DataFrame | None,
) -> None:
    import pandas as pd

    from cignn.evaluation import site_table, summary

    own = results[results["explainer"] == ""]
    beside = pd.concat([own, trivial.reindex(columns=own.columns)], ignore_index=True)
    there = set(own["metric"])
    for number, wanted in enumerate((SHOWN, OF_CLASSES)):
        metrics = [metric for metric in wanted if metric in there]
        if not metrics:
            continue
        table = summary(beside, metrics).reset_index().drop(columns=["data", "positive"], errors="ignore")
        table = table.rename(columns=SCORE_NAMES)
        title = f"mean ± std over tasks{positive_words(positive)}"
        if "failed" in table:
            done = beside[beside["metric"] == metrics[0]].groupby("method").size()
            count = [int(done.get(name, 0)) for name in table["method"]]
            of_all = [f"{n} of {n + lost}" for n, lost in zip(count, table.pop("failed"), strict=True)]
            table.insert(1, "tasks", of_all)
            title = f"unfinished, not to be ranked: mean ± std over the tasks done{positive_words(positive)}"
        show_table(table, title if not number else "the same, by class" + positive_words(positive))
    shares = share_table(own)
    if shares is not None:
        show_table(shares, "share of each view in the fusion: mean over tasks")
    _show_explanations(results[results["explainer"] != ""])
    main = "accuracy" if "accuracy" in there else "mae"
    if protocol == "loso" and main in there:
        show_table(site_table(own, main).reset_index(), f"{SCORE_NAMES.get(main, main)} at each site")
    if comparison is not None:
        columns = ["first", "second", "difference", "low", "high", "p_holm"]
        rows = comparison[comparison["metric"] == main]
        of_fusion = rows["second"].str.endswith("/stacked")  # of views, what the fusion gains is asked
        rows = rows[of_fusion] if of_fusion.any() else rows
        what = SCORE_NAMES.get(main, main)
        show_table(rows[columns], f"{what}: corrected resampled t-tests, 95 % intervals")


def _show_explanations(others: pd.DataFrame) -> None:
    """Show the scores of explainers, and say which of them failed."""
    from cignn.evaluation import summary

    if not len(others):
        return
    for title, names in EXPLAINED.items():
        kept = [metric for metric in names if metric in set(others["metric"])]
        if kept:
            table = summary(others, kept, digits=2).reset_index().drop(columns="data")
            show_table(table.rename(columns=names), f"{title}: mean ± std over tasks")
    failed = others[others["metric"] == "error"].drop_duplicates(["explainer", "method"])
    for explainer, method, error in failed[["explainer", "method", "error"]].itertuples(index=False):
        complain("note", f"{explainer} did not explain {method}: {error}")
