"""How sure is a score? Intervals and p-values by resampling the subjects behind `Store.predictions`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cignn._checks import number, whole
from cignn.estimators.subjects import Subjects
from cignn.evaluation.classification import (
    ERRORS,
    LABEL_METRICS,
    METRICS,
    Coded,
    classification_scores,
    code,
    counted_by,
    positive_class,
    scores_of_truths,
    weighted_scores,
)
from cignn.evaluation.regression import (
    REGRESSION_METRICS,
    Scored,
    number_scores,
    regression_scores_of_truths,
    weighted_regression_scores,
)
from cignn.evaluation.tables import NAMES, SETTINGS, refuse_repeats

# resampling inflates the calibration error, which is a sum of distances: its intervals would miss it
RESAMPLED = tuple(metric for metric in METRICS if metric != "calibration_error")
EVERY = (*RESAMPLED, *REGRESSION_METRICS)
CHUNK = 500  # resamples at a time: bounds the memory


class Part(NamedTuple):
    """Predictions of one task."""

    coded: Coded | Scored
    subject: np.ndarray  # (n,) numbers
    scan: np.ndarray  # (n,) numbers; without positions a subject is one scan


def bootstrap_intervals(
    predictions: pd.DataFrame,
    metrics: Sequence[str] | None = None,
    *,
    level: float = 0.95,
    n_resamples: int = 2000,
    random_state: int = 0,
    positive: Any = None,
) -> pd.DataFrame:
    """Bootstrap intervals of the mean score over tasks, by resampling test subjects with all their scans.

    The intervals say how the score depends on who was tested; the models stay as they were trained. There are
    none of the calibration error, which resampling inflates.

    Parameters
    ----------
    predictions : DataFrame
        Rows of `Store.predictions`.
    metrics : sequence of str or None, default=None
        The scores, by default all that the predictions allow but "calibration_error".
    level : float, default=0.95
        Level of the intervals.
    n_resamples : int, default=2000
        Number of draws.
    random_state : int, default=0
        Seed of the draws.
    positive : object, default=None
        The positive class of two; see `positive_class`.

    Returns
    -------
    DataFrame
        One row per method, data, protocol, settings and metric: value, low, high and the positive class.

    Examples
    --------
    >>> import pandas as pd
    >>> from cignn.evaluation import bootstrap_intervals
    >>> columns = {"method": "gin", "data": "ABIDE", "protocol": "holdout", "split": "1", "seed": 0}
    >>> columns |= {"subject": list("abcd"), "y_true": [0, 0, 1, 1], "y_pred": [0, 0, 1, 1]}
    >>> table = bootstrap_intervals(pd.DataFrame(columns), ["accuracy"], n_resamples=100)
    >>> table[["value", "low", "high"]].to_numpy().tolist()
    [[1.0, 1.0, 1.0]]
    """
    number("level", level, 0, 1)
    metrics = _known_metrics(metrics or EVERY, EVERY)
    rows = []
    for names, parts, n_subjects in prediction_parts(predictions, positive):
        rng = np.random.default_rng(random_state)
        there = [m for m in metrics if m in _allowed(parts)]
        drawn: dict[str, list[np.ndarray]] = {m: [] for m in there}
        for size in _chunks(n_resamples):
            counts = rng.multinomial(n_subjects, np.full(n_subjects, 1 / n_subjects), size).astype(float)
            for metric, values in mean_scores(parts, counts).items():
                if metric in drawn:
                    drawn[metric].append(values)
        whole = mean_scores(parts, np.ones((1, n_subjects)))
        for metric in there:
            values = np.concatenate(drawn[metric])
            values = values[~np.isnan(values)]
            ends = np.quantile(values, [(1 - level) / 2, (1 + level) / 2]) if len(values) else [np.nan] * 2
            value = float(whole[metric][0])
            rows.append((*names, metric, value, *(float(end) for end in ends), _counted(parts)))
    columns = [*_names(predictions), "metric", "value", "low", "high", "positive"]
    return pd.DataFrame(rows, columns=columns)


def permutation_test(
    predictions: pd.DataFrame,
    metric: str = "auto",
    *,
    n_permutations: int = 2000,
    random_state: int = 0,
    positive: Any = None,
) -> pd.DataFrame:
    """Test scores against chance, by permuting the labels of the predictions.

    Labels are permuted over subjects, within a split where each is tested once; those of a subject with scans
    of several classes over these scans. Models are not trained again. That is exact for a single hold-out;
    scores of folds, whose training sets share subjects, vary more than assumed here and get small p-values
    somewhat too often.

    Parameters
    ----------
    predictions : DataFrame
        Rows of `Store.predictions`.
    metric : str, default="auto"
        The score; "auto" is "accuracy", and of predicted scores "r2".
    n_permutations : int, default=2000
        Number of permutations.
    random_state : int, default=0
        Seed of the permutations.
    positive : object, default=None
        The positive class of two; see `positive_class`.

    Returns
    -------
    DataFrame
        One row per method, data, protocol and settings: value, chance (the mean over permutations), p_value
        and the positive class.

    Examples
    --------
    >>> import pandas as pd
    >>> from cignn.evaluation import permutation_test
    >>> columns = {"method": "gin", "data": "ABIDE", "protocol": "holdout", "split": "1", "seed": 0}
    >>> columns |= {"subject": list("abcdefgh"), "y_true": [0, 1] * 4, "y_pred": [0, 1] * 4}
    >>> table = permutation_test(pd.DataFrame(columns), n_permutations=200)
    >>> table["value"].item(), table["p_value"].item() < 0.1
    (1.0, True)
    """
    _known_metrics([metric], ("auto", *EVERY))
    asked, rows = metric, []
    for names, parts, n_subjects in prediction_parts(predictions, positive):
        usual = "r2" if isinstance(parts[0].coded, Scored) else "accuracy"
        metric = usual if asked == "auto" else asked
        if metric not in _allowed(parts):
            needs = (
                "probabilities" if metric in RESAMPLED and usual == "accuracy" else "another kind of labels"
            )
            raise ValueError(f"{metric} needs {needs}, {names[0]!r} gives none.")
        rng = np.random.default_rng(random_state)
        owner, truth, several = _scans(parts)
        label = np.zeros(n_subjects, int)
        label[owner] = truth
        times = np.zeros(n_subjects, int)
        for part in parts:
            times[np.unique(part.subject)] += 1
        pools = [np.unique(part.subject) for part in parts] if times.max() == 1 else [np.arange(n_subjects)]
        pools = [np.setdiff1d(pool, several) for pool in pools]
        null = []
        for size in _chunks(n_permutations):
            labels = np.tile(label, (size, 1))
            for pool in pools:
                labels[:, pool] = rng.permuted(labels[:, pool], axis=1)
            labels = labels[:, owner]  # of scans
            for subject in several:
                own = np.flatnonzero(owner == subject)
                labels[:, own] = rng.permuted(np.tile(truth[own], (size, 1)), axis=1)
            scores = [_of_truths(part.coded, labels[:, part.scan])[metric] for part in parts]
            null.append(_nanmean(np.stack(scores)))
        value = float(mean_scores(parts, np.ones((1, n_subjects)))[metric][0])
        chance = np.concatenate(null)
        sign = -1 if metric in ERRORS else 1
        p_value = permutation_p_value(sign * value, sign * chance)
        rows.append((*names, metric, value, float(_nanmean(chance)), p_value, _counted(parts)))
    columns = [*_names(predictions), "metric", "value", "chance", "p_value", "positive"]
    return pd.DataFrame(rows, columns=columns)


def permutation_p_value(score: float, null: Sequence[float] | np.ndarray) -> float:
    """Return the p-value of a score among scores under the null hypothesis; never 0.

    Parameters
    ----------
    score : float
        The score with true labels.
    null : array of shape (n,)
        Scores with permuted labels; NaN are left out.

    Returns
    -------
    float
        (1 + how many null scores reach the score) / (1 + how many there are); NaN where the score is NaN.

    Examples
    --------
    >>> from cignn.evaluation import permutation_p_value
    >>> permutation_p_value(0.7, [0.4, 0.5, 0.6])
    0.25
    """
    if np.isnan(score):
        return np.nan
    chance = np.asarray(null, float)
    chance = chance[~np.isnan(chance)]
    return float((1 + np.sum(chance >= score - 1e-9)) / (1 + len(chance)))


def rescored(results: pd.DataFrame, predictions: pd.DataFrame, positive: Any) -> pd.DataFrame:
    """Return results whose scores of classifiers count another of two classes as positive.

    results : from `evaluate` or `Store.results`; predictions : from `Store.predictions`, of these tasks at
    least. Nothing is trained: scores are computed again from the predictions. The column ``positive`` names
    the class.
    """
    kept = predictions[predictions["key"].isin(results["key"])]
    scores: dict[tuple, float] = {}
    counted: dict[Any, Any] = {}
    for _, of_data in kept.groupby("data", sort=False):
        known = np.unique(np.concatenate(prediction_arrays(of_data)[:3]))
        label = positive_class(known, positive)
        for key, some in of_data.groupby("key", sort=False):
            true, predicted, classes, chances = prediction_arrays(some)
            found = classification_scores(
                true, predicted, known if chances is None else classes, chances, label
            )
            scores |= {(key, metric): value for metric, value in found.items()}
            counted[key] = label
    own = (results["explainer"] == "").to_numpy() if "explainer" in results else np.ones(len(results), bool)
    pairs = zip(results["key"], results["metric"], results["value"], own, strict=True)
    values = [scores.get((key, metric), value) if mine else value for key, metric, value, mine in pairs]
    labels = pd.Series([counted.get(key) for key in results["key"]], index=results.index, dtype=object)
    return results.assign(value=values, positive=labels)


# ----------------------------------------------------------------------- helpers


def _names(predictions: pd.DataFrame) -> list[str]:
    """What tells one method on one data set from others."""
    return [*NAMES, *([SETTINGS] if SETTINGS in predictions else [])]


def _counted(parts: list[Part]) -> Any:
    """The class, of two, that scores are of."""
    labels = parts[0].coded.labels.tolist()
    return labels[1] if len(labels) == 2 and isinstance(parts[0].coded, Coded) else None


def _allowed(parts: list[Part]) -> tuple[str, ...]:
    """The metrics that predictions allow."""
    if isinstance(parts[0].coded, Scored):
        return REGRESSION_METRICS
    return LABEL_METRICS if parts[0].coded.probabilities is None else RESAMPLED


def _of_truths(coded: Coded | Scored, truths: np.ndarray) -> dict[str, np.ndarray]:
    """Scores, (b,), of the same predictions for b other truths."""
    if isinstance(coded, Scored):
        return regression_scores_of_truths(coded, truths)
    return scores_of_truths(coded, truths)


def _weighted(coded: Coded | Scored, weights: np.ndarray) -> dict[str, np.ndarray]:
    """Scores, (b,), under b ways of weighting the predictions."""
    if isinstance(coded, Scored):
        return weighted_regression_scores(coded, weights)
    return weighted_scores(coded, weights)


def are_scores(predictions: pd.DataFrame) -> bool:
    """Whether rows of `Store.predictions` are of a regressor: numbers, not whole, without probabilities."""
    chances = [c for c in predictions if str(c).startswith("p_") and predictions[c].notna().any()]
    both = pd.concat([predictions["y_true"], predictions["y_pred"]])
    numbers = pd.to_numeric(both, errors="coerce")
    return not chances and not numbers.isna().any() and bool((numbers % 1 != 0).any())


def prediction_parts(
    predictions: pd.DataFrame, positive: Any = None
) -> Iterator[tuple[tuple, list[Part], int]]:
    """Yield the names, the tasks and the number of subjects of every method on every data set."""
    for name in [*NAMES, "split", "seed", "subject", "y_true", "y_pred"]:
        if name not in predictions:
            raise ValueError(f"predictions must come from Store.predictions, these have no column {name!r}.")
    if not len(predictions):
        raise ValueError("there are no predictions; evaluate with this store first.")
    refuse_repeats(predictions)
    for names, some in predictions.groupby(_names(predictions), sort=False):
        _, subject = np.unique(some["subject"].to_numpy().astype(str), return_inverse=True)
        scan = subject
        if "position" in some:
            _, scan = np.unique(some["position"].to_numpy(), return_inverse=True)
        parts = []
        if are_scores(some):
            true, predicted = (some[name].to_numpy(np.float64) for name in ("y_true", "y_pred"))
            for rows in some.groupby(["split", "seed"], sort=False).indices.values():
                parts.append(
                    Part(number_scores(true[rows], predicted[rows], true), subject[rows], scan[rows])
                )
            yield names, parts, int(subject.max()) + 1
            continue
        true, predicted, classes, chances = prediction_arrays(some)
        for rows in some.groupby(["split", "seed"], sort=False).indices.values():
            given = None if chances is None else chances[rows]
            coded = counted_by(code(true[rows], predicted[rows], classes, given), positive)
            parts.append(Part(coded, subject[rows], scan[rows]))
        yield names, parts, int(subject.max()) + 1


def _scans(parts: list[Part]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(scans,) subjects and classes by number, and the subjects with scans of several classes."""
    n = 1 + max(int(part.scan.max()) for part in parts)
    owner, truth = np.zeros(n, int), np.zeros(n, int)
    for part in parts:
        owner[part.scan], truth[part.scan] = part.subject, part.coded.truth
        if (truth[part.scan] != part.coded.truth).any():
            raise ValueError(
                'a subject has scans of several classes, which only the column "position" tells apart; '
                "keep it as Store.predictions gives it."
            )
    has = Subjects.of(owner, truth, int(truth.max()) + 1).has
    return owner, truth, np.flatnonzero(has.sum(1) > 1)


def prediction_arrays(some: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """True and predicted labels, all classes and, (n, classes), their probabilities."""
    columns = [c for c in some if str(c).startswith("p_") and some[c].notna().any()]
    names = [str(c)[2:] for c in columns]
    true, predicted = (np.array(some[column].tolist()) for column in ("y_true", "y_pred"))
    by_name: dict[str, Any] = {str(label): label for label in [*true.tolist(), *predicted.tolist()]}
    if not set(names) <= set(by_name):  # a class that nobody had or was given: only its name is known
        true, predicted = true.astype(str), predicted.astype(str)
        by_name = {name: name for name in [*by_name, *names]}
    classes = np.unique(np.array(list(by_name.values())))
    if not columns:
        return true, predicted, classes, None
    chances = np.zeros((len(some), len(classes)))
    chances[:, np.searchsorted(classes, [by_name[name] for name in names])] = some[columns].fillna(0)
    return true, predicted, classes, chances


def mean_scores(parts: list[Part], counts: np.ndarray) -> dict[str, np.ndarray]:
    """Every score, (b,), the mean over tasks, with (b, subjects) weights."""
    scores = [_weighted(part.coded, counts[:, part.subject]) for part in parts]
    return {metric: _nanmean(np.stack([one[metric] for one in scores])) for metric in scores[0]}


def _nanmean(values: np.ndarray) -> np.ndarray:
    """Mean over the first axis of what is there."""
    there = ~np.isnan(values)
    total = np.where(there, values, 0).sum(0)
    return np.divide(total, there.sum(0), out=np.full(total.shape, np.nan), where=there.any(0))


def _known_metrics(metrics: Sequence[str], known: Sequence[str]) -> list[str]:
    metrics = [metrics] if isinstance(metrics, str) else list(metrics)
    for metric in metrics:
        if metric not in known:
            raise ValueError(f"metric must be one of {', '.join(known)}, got {metric!r}.")
    return metrics


def _chunks(n: int) -> list[int]:
    whole("the number of resamples", n, 1)
    return [min(CHUNK, n - start) for start in range(0, n, CHUNK)]
