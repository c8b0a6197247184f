"""What the epochs that a training kept say about it: hardly trained, or not yet done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

FEWEST = 10  # epochs allowed: with fewer nobody meant to train to the end
EARLY, EARLY_SHARE = 3, 0.05  # up to this epoch, or share of the epochs allowed, hardly anything has moved
MAJORITY = 0.5  # of the networks of an ensemble, above which it is told


class KeptEpochWarning(ConvergenceWarning):
    """A training kept one of its first epochs, or the last that it was allowed.

    One of the first is up to epoch 3, or within the first twentieth of the epochs allowed. Of an ensemble it
    is told where it holds for more than half of the networks. Trainings of fewer than 10 epochs tell nothing,
    and where the learning rate falls to the end the last epoch is nothing to tell.

    Examples
    --------
    >>> import warnings
    >>> from cignn.estimators import KeptEpochWarning
    >>> warnings.simplefilter("ignore", KeptEpochWarning)  # say nothing about it
    >>> warnings.simplefilter("default", KeptEpochWarning)
    """


def told_by_epochs(
    kept: Sequence[int], epochs: int, has_mask: bool, before: int = 0, settles: bool = False
) -> str | None:
    """Return what to tell of the epochs kept, one of each network; None where there is nothing.

    epochs : how many each was allowed. has_mask : whether the networks weigh edges. before : epochs of a
    first stage, which trains neither the classifier nor the mask. settles : whether the learning rate falls
    to the end, so that the last epoch is meant to be the best.
    """
    if epochs - before < FEWEST:
        return None
    bound = before + max(EARLY, EARLY_SHARE * (epochs - before))
    early = [epoch for epoch in kept if epoch <= bound]
    last = [epoch for epoch in kept if epoch >= epochs]
    if len(early) > MAJORITY * len(kept):
        what = f"epoch {kept[0]}" if len(kept) == 1 else f"epochs {', '.join(map(str, kept))}"
        why = "no later one did better on the validation graphs"
        if has_mask:
            why = "the mask hardly moved from its start, so its weights tell edges hardly apart"
        return f"kept {what} of {epochs}: {why}; more graphs or a lower learning_rate may help."
    if len(last) > MAJORITY * len(kept) and not settles:
        whose = "" if len(kept) == 1 else f" of {len(last)} of {len(kept)} networks"
        return f"kept the last epoch ({epochs}){whose}: more epochs may help."
    return None


def told_by_epochs_of(estimator: Any, mask_only: bool = False) -> str | None:
    """Return what to tell of the epochs that a fitted estimator of networks kept; None of others.

    mask_only : only what those who read its explanations have to know, no advice for the next training.
    """
    kept = getattr(estimator, "best_epoch_", None)
    if kept is None or getattr(estimator, "interrupted_", False):
        return None
    settings = estimator.settings_
    return told_by_epochs(
        np.atleast_1d(kept).tolist(),
        settings["epochs"],
        hasattr(estimator, "explain"),
        settings.get("generative_epochs", 0),
        mask_only or settings.get("rate_decay", 0) > 0,
    )
