"""What every room does with arrays: checks and upper triangles of symmetric matrices, digests of data."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

ROUNDING = 1e-4  # asymmetry of a matrix that counts as rounding


def is_finite(matrices: np.ndarray) -> np.ndarray:
    """(...,) bool: which of (..., n, m) matrices hold finite values alone."""
    return np.isfinite(matrices).all((-2, -1))


def is_symmetric(matrices: np.ndarray) -> np.ndarray:
    """(...,) bool: which of (..., n, n) matrices equal their transpose up to rounding."""
    return asymmetry(matrices) <= ROUNDING


def asymmetry(matrices: np.ndarray) -> np.ndarray:
    """(...,) largest difference of (..., n, n) matrices from their transpose, relative to the largest value.

    0 for matrices of zeros and for those that are not finite.
    """
    with np.errstate(invalid="ignore"):
        apart = np.abs(matrices - np.swapaxes(matrices, -2, -1)).max((-2, -1), initial=0.0)
    largest = np.abs(matrices).max((-2, -1), initial=0.0)
    known = is_finite(matrices) & (largest > 0)
    return np.divide(apart, largest, out=np.zeros(np.shape(largest)), where=known)


@lru_cache(8)
def upper_indices(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns, two (n(n-1)/2,) arrays, of what lies above the diagonal, row by row."""
    rows, columns = np.triu_indices(n, 1)
    rows.flags.writeable = columns.flags.writeable = False  # all callers share them
    return rows, columns


@lru_cache(8)
def above_diagonal(n: int) -> np.ndarray:
    """(n, n) bool, True above the diagonal: each undirected edge has one place there."""
    above = np.tri(n, k=-1, dtype=bool).T
    above.flags.writeable = False
    return above


def upper_pairs(n: int) -> np.ndarray:
    """(n(n-1)/2, 2) pairs i < j of n nodes, row by row."""
    return np.stack(upper_indices(n), axis=1)


def upper_triangle(matrices: np.ndarray) -> np.ndarray:
    """(..., n(n-1)/2) what (..., n, n) matrices hold above their diagonal, row by row."""
    rows, columns = upper_indices(matrices.shape[-1])
    return matrices[..., rows, columns]


def symmetric(values: np.ndarray, into: np.ndarray) -> np.ndarray:
    """Put upper triangles back.

    values : (..., n(n-1)/2), as `upper_triangle` returns them. into : (..., n, n), whose diagonal stays; it
    is copied. Returns (..., n, n).
    """
    rows, columns = upper_indices(into.shape[-1])
    filled = into.copy()
    filled[..., rows, columns] = filled[..., columns, rows] = values
    return filled


def digest(*parts: Any, length: int = 64) -> str:
    """Return hexadecimal digits that are the same for equal parts, in any process and on any machine.

    parts : arrays (of any layout in memory; words of any width), bytes, None, and what JSON can hold; other
    values count as their text. An array that occurs twice is read once. length : digits, at most 64.
    """
    known: dict[int, bytes] = {}
    for part in parts:
        if id(part) not in known:
            known[id(part)] = _digest(part)
    return hashlib.sha256(b"".join(known[id(part)] for part in parts)).hexdigest()[:length]


def sha256(content: bytes | Path) -> str:
    """Return the SHA-256 of bytes or of a file, as ``sha256sum`` prints it."""
    if isinstance(content, Path):
        with open(content, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    return hashlib.sha256(content).hexdigest()


def _digest(part: Any) -> bytes:
    """Return 32 bytes for one part; its type and shape count."""
    if isinstance(part, bytes):
        return hashlib.sha256(b"bytes" + part).digest()
    if not isinstance(part, np.ndarray):
        return hashlib.sha256(b"json" + json.dumps(part, sort_keys=True, default=_plain).encode()).digest()
    words = part.dtype.kind in "OU"
    content = hashlib.sha256(f"{'U' if words else part.dtype.str}{part.shape}".encode())
    if words:
        content.update("\0".join(map(str, part.ravel())).encode("utf-8", "surrogatepass"))
    else:
        content.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return content.digest()


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)
