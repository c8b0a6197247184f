"""Scores of an evaluation in the card of a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cignn._files import write_text
from cignn.estimators.model_card import CARD
from cignn.estimators.persistence import card_text, read_folder
from cignn.evaluation.resampling import bootstrap_intervals

NAMES = {"roc_auc": "ROC-AUC", "mcc": "MCC", "f1": "F1", "r2": "R²", "mae": "mean absolute error"}
PROTOCOLS = {"holdout": "random hold-outs", "kfold": "cross-validation", "loso": "leaving one site out"}


def write_model_card(
    path: str | Path, predictions: pd.DataFrame | None = None, *, positive: Any = None, note: str = ""
) -> Path:
    """Write the card of a saved model again, with the scores of an evaluation.

    Every saved model has a card, ``MODEL_CARD.md``: its data, settings, limits and what it must not be used
    for. Without ``predictions`` it says that no evaluation is attached.

    Parameters
    ----------
    path : str or Path
        Folder of the model.
    predictions : DataFrame or None, default=None
        Rows of `Store.predictions` of the model's method, each by a model that had not seen the subject.
    positive : object, default=None
        The positive class of two; see `positive_class`.
    note : str, default=""
        A sentence to add, for instance how the models of the evaluation differ from this one.

    Returns
    -------
    Path
        The card.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import make_estimator
    >>> from cignn.evaluation import KFold, Store, evaluate, write_model_card
    >>> graphs, folder = make_ba2motifs(40, random_state=0), mkdtemp()
    >>> with Store() as store:
    ...     results = evaluate({"lasso": {"C": 1.0}}, graphs, KFold(4), store=store)
    ...     predictions = store.predictions()
    >>> make_estimator("lasso", C=1.0).fit(graphs).save(f"{folder}/model")
    >>> card = write_model_card(f"{folder}/model", predictions)
    >>> "95 % interval" in card.read_text()
    True
    """
    saved = read_folder(path)
    lines = [] if predictions is None else score_lines(predictions, positive, note)
    card = Path(path) / CARD
    write_text(card, card_text(saved.config, saved.files, lines))
    return card


def score_lines(predictions: pd.DataFrame, positive: Any = None, note: str = "") -> list[str]:
    """Lines of Markdown about an evaluation of one method: how it was made, and its scores."""
    methods = predictions["method"].unique().tolist()
    if len(methods) != 1:
        raise ValueError(f"a model card has the scores of one method, got {', '.join(map(str, methods))}.")
    table = bootstrap_intervals(predictions, positive=positive)
    tests = len(predictions[["split", "seed"]].drop_duplicates())
    how = PROTOCOLS.get(str(predictions["protocol"].iloc[0]), str(predictions["protocol"].iloc[0]))
    n = predictions["subject"].nunique()
    counted = table["positive"].dropna().unique().tolist()
    of_class = f" Positive class: {counted[0]}." if counted else ""
    lines = [
        f"Of {methods[0]}, trained anew in each of {tests} splits ({how}); {n} subjects, each predicted by "
        f"models that had not seen it. The model in this folder is none of these.{of_class}",
        "",
    ]
    lines += [f"{note} ", ""] if note else []
    lines += ["| score | mean | 95 % interval (bootstrap over subjects) |", "|---|---|---|"]
    for row in table.itertuples():
        ends = "–" if np.isnan(row.low) else f"{row.low:.3f} to {row.high:.3f}"
        called = NAMES.get(str(row.metric), str(row.metric).replace("_", " "))
        lines.append(f"| {called} | {row.value:.3f} | {ends} |")
    return lines
