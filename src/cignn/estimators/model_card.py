"""`MODEL_CARD.md` of a model folder: its data, settings, scores and limits, for whoever gets the folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cignn._checks import name_some
from cignn.datasets.cohort import Cohort
from cignn.graphs import GraphSet

CARD = "MODEL_CARD.md"
NO_SCORES = (
    "No evaluation is attached. Scores on the subjects that a model was trained on say nothing about others. "
    "`cignn fit --results FOLDER` attaches those of `cignn evaluate`; in Python, "
    "`cignn.evaluation.write_model_card`."
)
LIMITS = (
    "Probabilities hold, at best, for people scanned, preprocessed and selected as those above. Other sites, "
    "scanners, atlases or preprocessing can make them meaningless.",
    "A model can learn site, head motion, age or sex instead of the label. `cignn audit` and the report of "
    "an evaluation measure some of this, not all.",
    "Contributions and weights of connections show what this model relies on. They do not show that a "
    "connection causes anything.",
    "Scores of a cohort are of groups of people. They do not say how far a single prediction can be trusted.",
)
FORBIDDEN = (
    "diagnosis, screening, prognosis or treatment of anyone: this is research software, not a medical "
    "device, and it has not been validated for clinical use;",
    "decisions about single people, such as insurance, employment, custody or legal responsibility;",
    "finding out something about people who did not agree to it.",
)
LARGEST = 6  # settings of many values are left to config.json


class Described(NamedTuple):
    """What a card tells of a model: its config, the steps before it, and the models that it is made of."""

    config: Mapping[str, Any]
    steps: Sequence[Mapping[str, Any]] = ()
    parts: Sequence[Described] = ()


def training_facts(data: GraphSet | Cohort, labels: np.ndarray) -> dict[str, Any]:
    """Count the graphs, subjects, sites and classes that a model learns from, as plain data."""
    facts: dict[str, Any] = {"scans" if isinstance(data, Cohort) else "graphs": len(data)}
    known: dict[str, Any] = data.meta if isinstance(data, GraphSet) else {"subject": data.subjects}
    subjects = known.get("subject")
    sites = known.get("site", data.groups) if isinstance(data, GraphSet) else data.sites
    if subjects is not None:
        facts["subjects"] = len({str(name) for name in subjects})
    if sites is not None and not {str(site) for site in sites} <= {"train", "val", "test"}:
        counts = pd.Series([str(site) for site in sites]).value_counts(sort=False).sort_index()
        facts["sites"] = {str(site): int(n) for site, n in counts.items()}
    values = np.asarray(labels)
    if values.dtype.kind == "f" and len(np.unique(values)) > 2:
        names = ("mean", "std", "min", "max")
        facts["scores"] = {name: float(getattr(values, name)()) for name in names}
    else:
        counts = pd.Series([str(label) for label in values.tolist()]).value_counts(sort=False).sort_index()
        facts["classes"] = {str(label): int(n) for label, n in counts.items()}
    return facts


def model_card(model: Described, scores: Sequence[str] = ()) -> str:
    """Return the text of a model card; scores : lines of Markdown about an evaluation."""
    config = model.config
    lines = [
        f"# Model card: {config.get('estimator', 'model')}",
        "",
        "**Research software, not a medical device.** See [what it must not be used for](#not-for).",
        "",
        "## Training data",
        "",
        *_data_lines(config),
        "",
        "## Model",
        "",
        *_model_lines(model),
        "",
        "## Scores",
        "",
        *(scores or [NO_SCORES]),
        "",
        "## Limits",
        "",
        *(f"- {line}" for line in LIMITS),
        "",
        '## <a id="not-for"></a>Not for',
        "",
        *(f"- {line}" for line in FORBIDDEN),
        "",
        "## Versions",
        "",
        ", ".join(f"{name} {version}" for name, version in dict(config.get("versions", {})).items()) + ".",
    ]
    return "\n".join(lines) + "\n"


def _data_lines(config: Mapping[str, Any]) -> list[str]:
    facts = dict(config.get("training") or {})
    n = facts.get("scans", facts.get("graphs", len(config.get("graphs", ()))))
    people = facts.get("subjects")
    what = "scans" if "scans" in facts else "graphs"
    lines = [f"- {n} {what}" + ("" if people is None else f" of {people} subjects") + "."]
    if facts.get("classes"):
        lines.append("- Classes: " + ", ".join(f"{_word(k)} {v}" for k, v in facts["classes"].items()) + ".")
    if facts.get("scores"):
        found = facts["scores"]
        lines.append(
            f"- Scores from {found['min']:.4g} to {found['max']:.4g}, mean {found['mean']:.4g}, standard "
            f"deviation {found['std']:.4g}."
        )
    if facts.get("sites"):
        listed = ", ".join(f"{_word(k)} {v}" for k, v in facts["sites"].items())
        lines.append(f"- Sites: {len(facts['sites'])} ({listed}).")
    nodes = config.get("n_nodes")
    if nodes is not None:
        names = config.get("node_names")
        which = "" if names is None else f": {name_some([_word(one) for one in names], 3)}"
        lines.append(f"- {nodes} regions (nodes){which}.")
    digest = config.get("training_digest", "")
    lines.append(f"- Fingerprint: `{digest}`. The data themselves are not in the folder.")
    return lines


def _model_lines(model: Described) -> list[str]:
    config, lines = model.config, []
    for step in model.steps:
        params = dict(step.get("params", {}))
        shown = ", ".join(f"{k} = {_value(v)}" for k, v in params.items() if k not in ("n_jobs", "verbose"))
        lines.append(f"- {_word(step.get('step', ''))}: {shown or 'defaults'}.")
    settings = dict(config.get("settings", {}))
    shown = ", ".join(f"{k} = {_value(v)}" for k, v in settings.items() if np.size(v) <= LARGEST)
    lines.append(f"- {config.get('estimator')}: {shown or 'defaults'}.")
    epochs = config.get("best_epoch")
    if epochs is not None:
        lines.append(f"- Epoch chosen on validation data: {_value(epochs)}.")
    for title, part in zip(config.get("part_titles", []), model.parts, strict=False):
        lines.append(f"- {_word(title)}:")
        lines += [f"  {line}" for line in _model_lines(part)]
    return lines


def _value(value: Any) -> str:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(map(str, value)) + ")"
    return _word(value)


def _word(value: Any) -> str:
    """Text of the data in one line, without Markdown and HTML of its own."""
    text = " ".join(str(value).split())
    for sign in "\\`*_[]<>|#":
        text = text.replace(sign, "\\" + sign)
    return text
