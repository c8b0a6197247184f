"""A reader with every fault that a campaign of damaged inputs must notice, by the digit it reads."""

from __future__ import annotations

import os
import time
from pathlib import Path

from campaigns.fuzzing.readers import Files, Reader

SAMPLE = {"digit.txt": b"9\n"}


def samples(folder: Path) -> list[Files]:
    return [SAMPLE]


def read(folder: Path) -> str:
    digit = (folder / "digit.txt").read_text().strip()
    if digit == "0":
        raise KeyError(digit)
    if digit == "1":
        os.abort()
    if digit == "2":
        time.sleep(600)
    if digit == "3":
        return "wrong"
    if digit == "4":
        bytearray(2**40)
    if digit == "5":
        raise ValueError("digit.txt is refused, but not by the package")
    return "right"


def check(found: str, reference: str, original: Files, files: Files) -> str | None:
    return None if found == reference else "another answer"


TARGETS = {"digits": Reader(samples, read, check)}
