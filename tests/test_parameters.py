"""What must hold for parameters: wrong kinds and numbers, NaN among them, are refused by name."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from datetime import date
from typing import Any

import nibabel as nib
import numpy as np
import pytest

from cignn import Cohort, Explanations, GraphSet
from cignn._checks import DataError, choice, jobs, number, shown, whole, widths
from cignn._random import as_random_state
from cignn.connectome import ComBat, Connectivity, ConnectomeGraphs, Deconfound, RoiSeries
from cignn.datasets import make_ba2motifs, make_cohort
from cignn.estimators import make_estimator, stacks
from cignn.estimators.registry import ESTIMATORS
from cignn.evaluation import (
    Holdout,
    KFold,
    LeaveOneSiteOut,
    calibration_curve,
    characterisation_score,
    corrected_interval,
    corrected_t_test,
    critical_difference,
    sparsity,
    superset_sufficiency,
    top_edge_masks,
)
from cignn.evaluation.splits import labels_of
from cignn.explainers import make_explainer

HUGE = 10**5000  # more digits than Python writes
MUCH = 10**9
WRONG: list[Any] = [
    *("abc", "", None, math.nan, math.inf, -math.inf, -1, 0, 1.5, True, HUGE, -HUGE, 1j, b"x", MUCH),
    *([], {}, set(), [[1]], ["a"], (HUGE,), np.array([1, 2]), date(2020, 1, 1), object),
]


@pytest.fixture(scope="module")
def motifs() -> GraphSet:
    """Thirty graphs."""
    return make_ba2motifs(30, random_state=0)


class TrainingBeganError(Exception):
    """The parameters passed."""


def refused(work: Callable[[], Any], name: str) -> bool:
    """Return whether it was refused in one line that names the parameter; a foreign error fails the test."""
    try:
        work()
    except TrainingBeganError:
        return False
    except (ValueError, TypeError) as error:
        assert type(error) in (ValueError, TypeError, DataError), repr(error)
        words = str(error)
        assert name in words and "\n" not in words and len(words) < 400, words
        return True
    return False


def parameters(kind: Any, *without: str) -> list[str]:
    """Names of the parameters of a class."""
    return [name for name in inspect.signature(kind).parameters if name not in without]


@pytest.mark.medium
@pytest.mark.parametrize("name", ["lasso", "random-forest", "gin", "sib", "dir", "ci-gnn"])
def test_wrong_parameters_of_classifiers_are_refused_by_name(
    motifs: GraphSet, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def begin(*_: Any, **__: Any) -> None:
        raise TrainingBeganError

    monkeypatch.setattr(stacks, "train", begin)
    method = ESTIMATORS[name]
    quick = {"n_estimators": 2} if name == "random-forest" else {}
    n_refused = 0
    for parameter in parameters(method.estimator, *method.settled, "verbose", "checkpoint"):
        for value in WRONG:
            if parameter in ("n_estimators", "n_estimators", "C") and value is MUCH:
                continue  # much work, and no mistake
            model = make_estimator(name, **(quick | {parameter: value}))
            n_refused += refused(lambda model=model: model.fit(motifs), parameter)
    assert n_refused > 12 * (2 if method.settled else 4)


STEPS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "Connectivity": (Connectivity, ("covariance_estimator", "verbose")),
    "ConnectomeGraphs": (ConnectomeGraphs, ()),
    "ComBat": (ComBat, ()),
    "Deconfound": (Deconfound, ("control",)),
}


@pytest.mark.parametrize("name", STEPS)
def test_wrong_parameters_of_steps_are_refused_by_name(name: str) -> None:
    made, without = STEPS[name]
    cohort = make_cohort(12, 6, n_edges=2, lengths=(30, 40), n_sites=2, random_state=0)
    cohort = cohort if name == "Connectivity" else Connectivity().fit_transform(cohort)
    n_refused = 0
    for parameter in parameters(made, *without):
        for value in WRONG:
            step = made(**{parameter: value})
            n_refused += refused(lambda step=step: step.fit(cohort).transform(cohort), parameter)
    assert n_refused > 12 * len(parameters(made, *without))


ATLAS = nib.Nifti1Image(np.ones((2, 2, 2), np.int16), np.eye(4))


@pytest.mark.parametrize("parameter", ["drop", "band", "filter", "smoothing", "t_r", "n_jobs"])
def test_wrong_parameters_of_the_extraction_are_refused_by_name(parameter: str) -> None:
    for value in (*WRONG, (math.nan, 0.1), (0.01, "a"), (0.01,)):
        refused(lambda value=value: RoiSeries(ATLAS, **{parameter: value}).fit(), parameter)
    for value in (math.nan, "abc", HUGE, 1j):
        assert refused(lambda value=value: RoiSeries(ATLAS, **{parameter: value}).fit(), parameter)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"threshold": math.nan}, r"threshold must lie in \[0, inf\), got nan"),
        ({"threshold": math.inf}, r"threshold must lie in \[0, inf\), got inf"),
        ({"density": math.nan}, r"density must lie in \(0, 1\], got nan"),
        ({"neighbours": 1.5}, "neighbours must be a whole number of at least 1, got 1.5"),
        ({"neighbours": math.nan}, "neighbours must be a whole number of at least 1, got nan"),
    ],
)
def test_graphs_are_not_thinned_out_by_what_is_no_number(settings: dict[str, Any], words: str) -> None:
    cohort = Cohort(matrices=np.stack([np.eye(5)] * 4))
    with pytest.raises(ValueError, match=words):
        ConnectomeGraphs(**settings).fit(cohort)


@pytest.mark.parametrize("kind", [Holdout, KFold, LeaveOneSiteOut])
def test_wrong_parameters_of_protocols_are_refused_by_name(kind: Any) -> None:
    cohort = make_cohort(24, 6, n_edges=2, lengths=(30, 40), n_sites=3, random_state=0)
    labels = labels_of(cohort)
    for parameter in parameters(kind, "n_inner"):
        for value in WRONG:
            if not (parameter == "n_repeats" and value is MUCH):
                refused(lambda p=parameter, v=value: kind(**{p: v}).splits(labels), parameter)
        assert refused(lambda p=parameter: kind(**{p: math.nan}).splits(labels), parameter)


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        (name, parameter)
        for name in ("gnn-explainer", "pg-explainer", "rc-explainer", "orphicx")
        for parameter in ("learning_rate", "epochs", "hidden", "temperatures", "beam", "steps", "batch_size")
        if parameter in parameters(type(make_explainer(name)))
    ],
)
def test_wrong_parameters_of_explainers_are_refused_by_name(
    motifs: GraphSet, monkeypatch: pytest.MonkeyPatch, name: str, parameter: str
) -> None:
    model = make_estimator("gin", epochs=1, hidden=(4,), head_hidden=()).fit(motifs)

    def begin(*_: Any, **__: Any) -> None:
        raise TrainingBeganError

    kind = type(make_explainer(name))
    monkeypatch.setattr(kind, "_fit", begin)
    for value in WRONG:
        explainer = make_explainer(name, **{parameter: value})
        refused(lambda explainer=explainer: explainer.fit(model, motifs), parameter)
    for value in (math.nan, "abc", -1):
        assert refused(lambda v=value: make_explainer(name, **{parameter: v}).fit(model, motifs), parameter)


FOUR = make_ba2motifs(4, random_state=0)
EXPLAINED = Explanations(FOUR, [np.ones(n) for n in FOUR.n_edges])
NUMBERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "alpha": (lambda x: critical_difference(3, 10, x), "alpha"),
    "methods": (lambda x: critical_difference(x, 10), "n_methods"),
    "level": (lambda x: corrected_interval(np.arange(4.0), 0.1, x), "level"),
    "overlap": (lambda x: corrected_interval(np.arange(4.0), x), "overlap"),
    "n_train": (lambda x: corrected_t_test(np.arange(4.0), x, 10), "n_train"),
    "n_test": (lambda x: corrected_t_test(np.arange(4.0), 10, x), "n_test"),
    "bins": (lambda x: calibration_curve([0, 1], [[1, 0], [0, 1]], np.arange(2), x), "n_bins"),
    "plus_weight": (lambda x: characterisation_score(0.5, 0.5, x), "plus_weight"),
    "share": (lambda x: top_edge_masks(EXPLAINED, x), "share"),
    "threshold": (lambda x: sparsity(EXPLAINED, x), "threshold"),
    "least weight": (lambda x: superset_sufficiency(None, EXPLAINED, threshold=x), "threshold"),
    "draws": (lambda x: superset_sufficiency(None, EXPLAINED, n_draws=x), "n_draws"),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_the_evaluation_are_checked(name: str) -> None:
    work, parameter = NUMBERS[name]
    for value in (math.nan, "abc", 1j, HUGE, math.inf, -math.inf):
        assert refused(lambda value=value: work(value), parameter), value


def test_the_checks_themselves() -> None:
    assert whole("n", np.int64(3), 1) == 3 and type(whole("n", np.int64(3), 1)) is int
    assert number("p", np.float32(0.5), 0, 1) == 0.5 and number("p", 0, 0, 1, include_low=True) == 0
    assert widths("hidden", np.array([8, 4])) == (8, 4) and widths("hidden", []) == ()
    assert jobs("n_jobs", -1) == -1
    assert choice("kind", np.str_("a"), ["a", "b"]) == "a" and choice("flag", 0, (True, False)) is False
    with pytest.raises(ValueError, match=r"^hidden must be .*, 1 or more, such as \(64, 64\), got \(\)\.$"):
        widths("hidden", (), least=1)
    with pytest.raises(ValueError, match="got a number of 16610 bits"):
        whole("n", HUGE, 1)
    with pytest.raises(ValueError, match="n_jobs must be a number of processes"):
        jobs("n_jobs", 0)
    with pytest.raises(ValueError, match=r"random_state must be less than 2\*\*32"):
        as_random_state(2**32)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert shown(deep) == "a list" and shown([10**5000]) == "a list" and len(shown("x" * 1000)) < 110
