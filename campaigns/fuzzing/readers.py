"""What a campaign needs to know of a reader."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

Files = dict[str, bytes]  # of a sample: name → content
Samples = Callable[[Path], list[Files]]  # makes them, with a folder to work in
Check = Callable[[Any, Any, Files, Files], str | None]


class Reader(NamedTuple):
    """Reads a folder.

    samples : valid folders to damage
    read : gives an answer, or refuses
    check : says what is wrong with an answer; it gets that of the undamaged sample and the files of both
    weight : share of a campaign's inputs
    damaged : which files of a sample to damage
    seal : writes checksums anew, so that a change reaches what is behind them
    unsealed : the check where a change met its checksums
    """

    samples: Samples
    read: Callable[[Path], Any]
    check: Check
    weight: int = 4
    damaged: Callable[[str], bool] = lambda name: True
    seal: Callable[[Path], None] | None = None
    unsealed: Check | None = None
