"""Tables people keep beside their data: participants, regions of an atlas."""

from __future__ import annotations

import codecs
import io
from pathlib import Path

import pandas as pd

MISSING = {"", "n/a", "na", "nan", "null", "none", "<na>"}  # what tables write for a missing value

NO_VALUES = (-9999, -999)  # what tables of ABIDE, ADHD-200 and others write for a missing number


def read_table(path: str | Path, rows: str = "participants") -> pd.DataFrame:
    """Read a .tsv, .csv or .txt table, every cell as text; rows : what its lines are, for messages.

    Columns are separated by tabs, commas, semicolons or, where all lines have as many words, by spaces.
    A byte-order mark, UTF-16, spaces around names and values, and commas in a .tsv do no harm.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist; give a .tsv or .csv table of {rows}.")
    text = _decoded(path.read_bytes())
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"{path} is empty; expected a header line and then the {rows}, one per line.")
    try:
        frame = pd.read_csv(
            io.StringIO(text),
            sep=_separator(lines),
            dtype=str,
            keep_default_na=False,
            skip_blank_lines=True,
            skipinitialspace=True,
            index_col=False,
        )
    except ValueError as error:
        raise ValueError(f"{path} is not a readable table: {str(error).splitlines()[0]}") from error
    frame = frame.rename(columns=lambda name: str(name).strip()).fillna("")
    frame = frame.apply(lambda column: column.str.strip())
    frame = frame[(frame != "").any(axis=1)].reset_index(drop=True)
    if frame.empty:
        raise ValueError(f"{path} has a header but no {rows}.")
    return frame


def no_column(source: str, wanted: str, of: str, frame: pd.DataFrame) -> str:
    """Say that the column of something is missing, and whether columns look as if they hung together."""
    names = [str(name) for name in frame.columns]
    together = len(names) == 1 and len(names[0].split()) > 1
    remedy = "separate columns by tabs or commas" if together else f"call the column of the {of} so"
    return f"{source} has no column {wanted}, got {', '.join(names)}; {remedy}."


def _decoded(content: bytes) -> str:
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # Excel's "Unicode text"
        return content.decode("utf-16", errors="replace").lstrip("\ufeff")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _separator(lines: list[str]) -> str:
    mark = next((mark for mark in "\t,;" if mark in lines[0]), None)
    if mark is None:
        words = {len(line.split()) for line in lines}
        mark = r"\s+" if len(words) == 1 and words != {1} else "\t"
    return mark
