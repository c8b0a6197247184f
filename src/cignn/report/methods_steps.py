"""What a methods paragraph says of subjects, steps before the classifier, and the classifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cignn.connectome import ComBat, Connectivity, ConnectomeGraphs, Deconfound
from cignn.estimators.ci_gnn_settings import PRESETS
from cignn.report.references import REFERENCES, Citations
from cignn.report.report_data import ReportData

BASELINES = {
    "linear-svm": "a linear support vector machine",
    "rbf-svm": "a support vector machine with a Gaussian kernel",
    "random-forest": "a random forest",
    "lasso": "logistic regression with an L1 penalty",
    "logistic": "logistic regression with an L2 penalty",
    "gcn": "a graph convolutional network",
    "gin": "a graph isomorphism network",
    "gat": "a graph attention network",
    "sib": "subgraph information bottleneck",
    "dir": "discovering invariant rationales",
    "ci-gnn": "CI-GNN",
}
MODELS = {"SIBClassifier": "sib", "DIRClassifier": "dir", "CIGNNClassifier": "ci-gnn"}
KINDS = {
    "correlation": "Pearson's correlation of their time series",
    "partial": "the partial correlation of their time series",
    "tangent": "the tangent-space projection of the covariance of their time series at the geometric mean of "
    "the training subjects",
    "covariance": "the covariance of their time series",
}
SHRUNK = ("partial", "tangent", "covariance")


# -------------------------------------------------------------------------- data


def data_words(data: ReportData, cite: Citations) -> list[str]:
    """Who was analysed, and who was left out."""
    people = len(np.unique(data.subjects))
    word = "graphs" if data.unit == "graph" else "subjects"
    counts = [f"{int((data.truth == k).sum())} {name}" for k, name in enumerate(data.class_labels)]
    known = bool((data.truth >= 0).any())
    scans = f", with {len(data.graphs)} scans," if data.unit == "scan" else ""
    of_scans = "scans: " if data.unit == "scan" else ""
    split = f" ({of_scans}{', '.join(counts)})" if known else ""
    sites = "" if data.sites is None else f" from {counted(len(np.unique(data.sites)), 'site')}"
    text = [f"The data were {people} {word}{scans}{split}{sites}."]
    if data.exclusions:
        listed = "; ".join(line.rstrip(".") for line in data.exclusions[:3])
        more = f"; and {len(data.exclusions) - 3} more" if len(data.exclusions) > 3 else ""
        text.append(f"Before the analysis: {listed}{more}.")
    return text


def connectivity_words(data: ReportData, cite: Citations) -> list[str]:
    """How connections were measured, harmonised and made graphs; nothing for graphs that are no brains."""
    if not data.graphs.aligned or data.unit == "graph":
        return []
    n = int(data.graphs.n_nodes[0])
    steps = {type(step): step for step in data.steps}
    atlas = " of the AAL atlas " + cite("aal116") if _is_aal(data) else ""
    measure: Any = steps.get(Connectivity)
    text = []
    if measure is None:
        text.append(f"Each was represented by a given connectivity matrix of {n} regions{atlas}.")
    else:
        text.append(f"Connectivity between {n} regions{atlas} was {_measured(measure, cite)}.")
    if ComBat in steps:
        text += _harmonised(steps[ComBat], cite)
    if Deconfound in steps:
        text += _deconfounded(steps[Deconfound])
    if ConnectomeGraphs in steps:
        text.append(_graphs(steps[ConnectomeGraphs]))
    return text


def _is_aal(data: ReportData) -> bool:
    from cignn.datasets import aal116

    names = data.graphs.node_names
    return names is not None and list(map(str, names)) == [str(name) for name in aal116().names]


def _measured(step: Any, cite: Citations) -> str:
    kind = str(step.kind)
    words = KINDS.get(kind, f"{kind} of their time series")
    if kind == "tangent":
        words += " " + cite("tangent")
    if kind in SHRUNK:
        estimator = step.covariance_estimator
        how = f"shrunk as proposed by Ledoit and Wolf {cite('ledoit-wolf')}"
        if estimator is not None and type(estimator).__name__ != "LedoitWolf":
            how = f"estimated by scikit-learn's {type(estimator).__name__}"
        words += f", with covariances {how}"
        z_scored = kind != "covariance" if step.standardise is None else bool(step.standardise)
        words += " of z-scored series" if z_scored else ""
    if step.fisher:
        words += ", as Fisher's z"
    return words


def _harmonised(step: Any, cite: Citations) -> list[str]:
    kept = list(step.covariates) + (["the label"] if step.keep_label else [])
    effects = f", keeping effects of {listed(kept)}" if kept else ""
    what = "shifts" if step.mean_only else "shifts and spreads"
    text = [
        f"Site {what} of every connection were removed by ComBat "
        f"{cite('combat', 'combat-imaging', 'combat-fc')}{effects}, estimated on training subjects only."
    ]
    if getattr(step, "fit_on", "all") == "controls":
        text[0] = text[0].replace("training subjects only", "the controls among training subjects only")
    if step.unseen == "grand_mean":
        text.append(
            "Subjects of sites without training subjects were shifted together towards the grand mean."
        )
    return text


def _deconfounded(step: Any) -> list[str]:
    names = {"motion": "head motion (mean framewise displacement)"}
    which = listed([names.get(str(name), str(name)) for name in step.covariates])
    within = "on the training subjects at equal label"
    who = {
        "controls": "on the controls among the training subjects",
        "within_classes": within,
        "auto": within,  # not fitted yet; a pipeline that predicts scores has "all"
    }.get(str(getattr(step, "fit_on_", step.fit_on)), "on the training subjects")
    return [f"Effects of {which} were regressed out of every connection, with coefficients estimated {who}."]


def _graphs(step: Any) -> str:
    kept = "all connections"
    if step.density is not None:
        kept = f"the strongest {100 * step.density:g} % of connections"
    elif step.threshold is not None:
        kept = f"connections of at least {step.threshold:g} in absolute value"
    elif step.neighbours is not None:
        kept = f"the {step.neighbours} strongest connections of each region"
    sign = {
        "positive": ", positive ones only",
        "negative": ", negative ones only",
        "absolute": ", as absolute values",
    }
    signed = sign.get(str(step.sign), " with their sign")
    return f"Regions were the nodes of a graph and {kept}{signed} its weighted edges."


# -------------------------------------------------------------------- classifier


def classifier_words(data: ReportData, cite: Citations) -> list[str]:
    """Which classifier, with which settings, and how its epoch was chosen."""
    settings, name = data.settings, str(data.facts.get("model", ""))
    key = MODELS.get(name) or str(settings.get("layer" if name == "GNNClassifier" else "model", ""))
    called = BASELINES.get(key, name)
    cited = f" {cite(key)}" if key in REFERENCES else ""
    text = [
        f"Subjects were classified by {called}{cited}."
        if data.unit != "graph"
        else f"Graphs were classified by {called}{cited}."
    ]
    if key == "ci-gnn":
        text += _preset(settings)
    if data.member_probabilities is not None:
        n = len(data.member_probabilities)
        text.append(f"Probabilities were the mean over {n} networks that started from different weights.")
    if "epochs" in settings:
        text += _training(data, settings, cite)
    elif key in ("linear-svm", "rbf-svm", "lasso", "logistic"):
        strength = settings.get("C", "auto")
        how = "chosen in three folds of the training subjects" if strength == "auto" else f"set to {strength}"
        text.append(f"Its regularisation was {how}.")
    return text


def _preset(settings: Mapping[str, object]) -> list[str]:
    preset = str(settings.get("preset", ""))
    if preset not in PRESETS:
        return []
    usual = PRESETS[preset]
    changed = [
        f"{name} = {_value(value)}"
        for name, value in settings.items()
        if name in usual and usual[name] != "auto" and _value(usual[name]) != _value(value)
    ]
    text = f'Its settings were those of the preset "{preset}"'
    return [f"{text}, except {listed(changed)}." if changed else f"{text} of the software."]


def _training(data: ReportData, settings: Mapping[str, object], cite: Citations) -> list[str]:
    n, patience = settings["epochs"], settings.get("patience")
    stopped = f", and stopped after {patience} epochs without improvement" if patience else ""
    rule = {"loss": "loss", "accuracy": "accuracy"}.get(str(settings.get("choose_by", "")), "")
    by = f" by its {rule}" if rule else ""
    batch, rate = settings.get("batch_size"), settings.get("learning_rate")
    text = [
        f"Networks were trained by Adam {cite('adam')} (learning rate {rate}, batches of {batch}) for at "
        f"most {n} epochs{stopped}; the epoch was chosen on validation data{by}."
    ]
    kept = data.facts.get("epoch chosen on validation data")
    if kept is not None:
        several = "," in str(kept)
        text.append(f"The model that is explained kept epoch{'s' if several else ''} {kept}.")
    return text


# ----------------------------------------------------------------------- helpers


def listed(words: Sequence[str]) -> str:
    """Words in a row: a, b and c."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def counted(n: int, word: str) -> str:
    """A number and its word: 1 site, 2 sites."""
    return f"{n} {word}" if n == 1 else f"{n} {word}s"


def _value(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(map(str, value)) + ")"
    return str(value)
