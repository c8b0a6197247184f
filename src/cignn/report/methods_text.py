"""A methods paragraph in words that are true of one run, with versions, settings and references."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cignn import __version__
from cignn.connectome import Connectivity
from cignn.evaluation.trivial import TRIVIAL
from cignn.report.decisions import decision_view
from cignn.report.methods_steps import (
    BASELINES,
    classifier_words,
    connectivity_words,
    counted,
    data_words,
    listed,
)
from cignn.report.performance import MIN_TASKS, scored_of
from cignn.report.references import Citations, Reference
from cignn.report.report_data import ReportData

TOLD = ("decisions of the evaluation", "views of the evaluation")  # facts that are sentences
OTHER = "settings of the evaluation"  # a fact, where the model of a report has others
SHALLOW = ("linear-svm", "rbf-svm", "random-forest", "lasso")
READINGS = {
    "pattern": "the pattern reading, that is connections that vary together with the model's score",
    "use": "the use reading, that is connections that the model reads, weighed by what they change",
    "size": "the size reading, that is connections that help to tell the classes in either direction",
}


class MethodsText(NamedTuple):
    """Paragraphs by their heading, with numbers in brackets that refer to the references."""

    paragraphs: dict[str, str]
    references: list[Reference]

    def markdown(self, title: str) -> str:
        """Return the text as Markdown, with its references."""
        lines = [f"# Methods: {title}", ""]
        for heading, text in self.paragraphs.items():
            lines += [f"**{heading}.** {text}", ""]
        lines += ["## References", ""]
        for number, one in enumerate(self.references, 1):
            lines.append(f"{number}. {one.text} [{one.label}]({one.url})")
        return "\n".join(lines) + "\n"


def methods_text(data: ReportData) -> MethodsText:
    """Describe how the results of a report came about.

    Every sentence follows from the report's data: steps and settings of the model, splits of the evaluation,
    tests that were made. What a report does not know, such as scanners and preprocessing, is left to you.
    """
    cite = Citations()
    made = {
        "Data": data_words(data, cite),
        "Connectivity": connectivity_words(data, cite),
        "Classifier": classifier_words(data, cite),
        "Evaluation": _evaluation(data, cite),
        "Explanations": _explanations(data, cite),
        "Software": _software(data, cite),
    }
    return MethodsText({name: " ".join(text) for name, text in made.items() if text}, cite.references)


# -------------------------------------------------------------------- evaluation


def _evaluation(data: ReportData, cite: Citations) -> list[str]:
    text: list[str] = []
    rows = data.results
    if rows is None or not len(rows):
        return _single(data, cite)
    if "explainer" in rows:
        rows = rows[rows["explainer"].fillna("") == ""]
    needed = {"protocol", "split", "seed", "n_train", "n_validation", "n_test"}
    if needed <= set(rows):
        text += [_protocol(str(name), some) for name, some in rows.groupby("protocol", sort=False)]
        text.append(f"{_fitted(data)}, and every test part was scored once.")
    methods = [str(name) for name in rows["method"].unique()]
    others = [BASELINES.get(name, name) for name in methods if name != _own(data)]
    if _own(data) in methods and others:
        text.append(
            f"For comparison, {listed(others)} {'were' if len(others) > 1 else 'was'} evaluated on the same "
            "splits."
        )
    if set(methods) & set(SHALLOW):
        text.append("Methods without epochs learnt from the training and validation parts together.")
    if data.trivial is not None:
        text.append(f"As references without connectivity, {_trivial(data.trivial)}.")
    text += [str(data.facts[name]) for name in TOLD if name in data.facts]
    text += _intervals(data, rows, cite) + _tests(data, methods, rows, cite) + _checks(data, cite)
    other = data.facts.get(OTHER)
    if other is not None:
        text.append(f"The methods that were evaluated differed from the model described here in {other}.")
    if data.missing:
        text.append(f"The evaluation was unfinished: {counted(len(data.missing), 'task')} had no scores.")
    return text


def _fitted(data: ReportData) -> str:
    """Say what was fitted inside the fold."""
    steps = {type(step).__name__: step for step in data.steps}
    learnt = {"ComBat": "harmonisation", "Deconfound": "the removal of nuisance effects"}
    inside = [words for name, words in learnt.items() if name in steps]
    if getattr(steps.get("Connectivity"), "kind", None) == "tangent":
        inside.insert(0, "the reference of the tangent space")
    included = f", {listed(inside)} included," if inside else ""
    return f"Every step{included} was fitted without the test part"


def _own(data: ReportData) -> str | None:
    return None if data.predictions is None else str(data.predictions["method"].iloc[0])


def _single(data: ReportData, cite: Citations) -> list[str]:
    scored = scored_of(data)
    if scored is None:
        return ["The model was not scored."]
    if data.trained_on:
        return [
            "Scores are of the subjects that the model was trained on and do not estimate its performance on "
            "others."
        ]
    text = f"The model was scored on {scored.n_subjects} subjects that it was not trained on."
    return [text, "Intervals are 95 % bootstrap intervals over these subjects.", *_checks(data, cite)]


def _protocol(name: str, rows: pd.DataFrame) -> str:
    tests = rows[["split", "seed", "n_train", "n_validation", "n_test"]].drop_duplicates()
    splits = tests["split"].nunique()
    total = int((tests["n_train"] + tests["n_validation"] + tests["n_test"]).max())
    parts = {"n_train": "training", "n_validation": "validation", "n_test": "test"}
    sizes = f"on average {listed([f'{tests[part].mean():.0f} {word}' for part, word in parts.items()])} scans"
    seeds = [str(seed) for seed in sorted(tests["seed"].unique())]
    repeated = f", with random seed{'s' if len(seeds) > 1 else ''} {listed(seeds)}"
    if name == "kfold":
        tested = tests.groupby("seed")["n_test"].sum().mean() / max(total, 1)
        repeats = max(1, round(float(tested)))
        folds = round(splits / repeats)
        often = f" repeated {repeats} times" if repeats > 1 else ""
        how = f"{folds}-fold cross-validation stratified by class{often}{repeated}"
        return f"Performance was estimated by {how} ({sizes})."
    if name == "loso":
        return f"Performance was estimated by leaving out each of {splits} sites in turn{repeated} ({sizes})."
    if name == "holdout":
        often = f"{splits} random stratified hold-outs" if splits > 1 else "a random stratified hold-out"
        return f"Performance was estimated by {often}{repeated} ({sizes})."
    return f"Performance was estimated on {counted(splits, 'given split')}{repeated} ({sizes})."


def _trivial(table: pd.DataFrame) -> str:
    names = set(table["method"].astype(str))
    what = "majority class" if TRIVIAL[0] in names else "mean"
    if names & {TRIVIAL[1], TRIVIAL[3]}:
        return f"the {what} of all training subjects and that of a subject's own site were predicted"
    return f"the {what} of all training subjects was predicted"


def _intervals(data: ReportData, rows: pd.DataFrame, cite: Citations) -> list[str]:
    tests = len(rows[["split", "seed"]].drop_duplicates()) if {"split", "seed"} <= set(rows) else 0
    text = []
    if tests >= MIN_TASKS:
        text.append(
            "Intervals of mean scores of methods are Student's 95 % intervals over test sets, with the "
            f"variance corrected for overlapping training sets {cite('nadeau-bengio')}."
        )
    if data.predictions is not None:
        text.append(
            f"Intervals of the scores of {_own(data)} alone are 95 % bootstrap intervals over subjects."
        )
        if data.sites is not None:
            text.append(f"Accuracies at single sites have Wilson's 95 % intervals {cite('wilson')}.")
    return text


def _tests(data: ReportData, methods: list[str], rows: pd.DataFrame, cite: Citations) -> list[str]:
    text = []
    enough = {"split", "seed"} <= set(rows) and len(rows[["split", "seed"]].drop_duplicates()) > 1
    if len(methods) > 1 and enough and not data.missing:
        text.append(
            f"Methods were compared by corrected resampled t-tests {cite('nadeau-bengio')}, with p-values "
            f"corrected for the number of pairs by Holm's method {cite('holm')}."
        )
    table = data.permutations
    if table is not None and len(table):
        n = int(table["n_permutations"].max())
        where = " within sites" if data.sites is not None else ""
        text.append(
            f"Scores were tested against chance by repeating the whole evaluation {counted(n, 'time')} "
            f"with labels permuted over subjects{where} {cite('permutation')}."
        )
    return text


def _checks(data: ReportData, cite: Citations) -> list[str]:
    """What was asked of the predictions beside their scores."""
    text = []
    if data.nuisances is not None and len(data.nuisances.table):
        names = [str(name) for name in data.nuisances.table["nuisance"]]
        text.append(
            f"Whether predictions follow {listed(names)} at equal label was tested by permuting the nuisance "
            f"within classes {cite('nuisance')}, with Holm's correction {cite('holm')}."
        )
    if decision_view(data) is not None:
        text.append(
            f"Decision curves show the net benefit of acting on the prediction {cite('decision-curve')}."
        )
    return text


# ------------------------------------------------------------------ explanations


def _explanations(data: ReportData, cite: Citations) -> list[str]:
    text = []
    person = "graph" if data.unit == "graph" else "subject"
    if data.explanations.edge_contributions is not None:
        text.append(
            f"The decision for each {person} was explained by contributions of single connections to the "
            "log-odds of a class, which together with a base add up to the model's log-odds."
        )
    else:
        text.append(
            f"The decision for each {person} was explained by a weight between 0 and 1 for every edge."
        )
    if data.predictions is not None:
        n = None if data.held_out is None else int((~np.asarray(data.held_out, bool)).sum())
        on = "" if n is None else f", on {n} of {len(data.graphs)} scans"
        text.append(f"The model that is explained was trained separately from those that were scored{on}.")
    group = data.group
    if group is None:
        text.append("Means over subjects are descriptive: no connection was tested.")
        return text
    paired = cite("stability")
    read = READINGS.get(group.reading, group.reading)
    pattern = f" {cite('haufe')}" if group.reading == "pattern" else ""
    before = ", with the steps before it fitted on all of them" if data.steps else ""
    text.append(
        f"For the group, the classifier was trained again on {group.n_resamples} half-samples of "
        f"{group.n_subjects} subjects in complementary pairs {paired}{before}; connections were ranked by "
        f"{read}{pattern}."
    )
    if group.n_permutations:
        text.append(
            f"They were tested against {counted(group.n_permutations, 'permutation')} of the labels; the "
            f"false discovery rate was controlled at {group.alpha:g} {cite('fdr')}. Of {len(group.table)} "
            f"connections, {group.n_selected} survived."
        )
    else:
        text.append("No labels were permuted, so no connection was tested.")
    text.append("Effect sizes of connections are standardised mean differences between the classes.")
    return text


# ---------------------------------------------------------------------- software


def _software(data: ReportData, cite: Citations) -> list[str]:
    versions = {str(name): str(value) for name, value in data.facts.items()}
    used = [f"cignn {__version__}"]
    if "torch" in versions and "epochs" in data.settings:
        used.append(f"PyTorch {versions['torch']} {cite('torch')}")
    if "scikit-learn" in versions:
        used.append(f"scikit-learn {versions['scikit-learn']} {cite('scikit-learn')}")
    steps = {type(step): step for step in data.steps}
    measure: Any = steps.get(Connectivity)
    if measure is not None and measure.kind != "correlation":
        used.append(f"nilearn {_version('nilearn')} {cite('nilearn')}")
    for name in ("numpy", "python"):
        if name in versions:
            used.append(f"{'NumPy' if name == 'numpy' else 'Python'} {versions[name]}")
    digest = versions.get("fingerprint of the training data")
    known = f" The fingerprint of the training data is {digest[:16]}." if digest else ""
    return [f"Analyses used {listed(used)}.{known}"]


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "(version unknown)"
