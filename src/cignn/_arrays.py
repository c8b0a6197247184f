"""What every room does with arrays: selections, checks, upper triangles of symmetric matrices, digests."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

ROUNDING = 1e-4  # asymmetry of a matrix that counts as rounding
BLOCK = 2**21  # values looked at at once: bounds the memory beyond the data


Index = slice | Sequence[int] | Sequence[bool] | np.ndarray  # what picks graphs or subjects


def positions(key: Index, length: int) -> np.ndarray:
    """Positions that numpy would pick from ``length`` items: by list, mask, slice or array."""
    if not isinstance(key, slice):
        key = np.asarray(key)
        key = key if key.size else key.astype(int)  # an empty list picks nothing
    index = np.arange(length)[key]
    if index.ndim != 1:
        raise IndexError(f"index with a number or in one dimension, got {index.ndim} dimensions.")
    return index


def blocks(array: Any) -> Iterator[np.ndarray]:
    """Yield consecutive rows of an array, in memory or on disk, of at most `BLOCK` values together."""
    if hasattr(array, "blocks"):
        yield from array.blocks()
        return
    step = max(1, BLOCK // max(1, math.prod(array.shape[1:])))
    for start in range(0, len(array), step):
        yield array[start : start + step]


def is_finite(matrices: Any) -> np.ndarray:
    """(...,) bool: which of (..., n, m) matrices hold finite values alone."""
    return by_block(lambda block: np.isfinite(block).all((-2, -1)), matrices)


def is_symmetric(matrices: Any) -> np.ndarray:
    """(...,) bool: which of (..., n, n) matrices equal their transpose up to rounding."""
    return by_block(asymmetry, matrices) <= ROUNDING


def by_block(function: Callable[[np.ndarray], np.ndarray], matrices: Any) -> np.ndarray:
    """(n,) what a function of (k, ...) matrices returns for (n, ...) matrices, computed block by block."""
    if matrices.ndim < 3 or not len(matrices):
        return function(np.asarray(matrices))
    return np.concatenate([function(block) for block in blocks(matrices)])


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

    parts : arrays (in memory or on disk; words of any width), bytes, None, and what JSON can hold; other
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
    if not isinstance(part, np.ndarray) and not hasattr(part, "blocks"):
        return hashlib.sha256(b"json" + json.dumps(part, sort_keys=True, default=_plain).encode()).digest()
    words = part.dtype.kind in "OU"
    content = hashlib.sha256(f"{'U' if words else part.dtype.str}{part.shape}".encode())
    if words:
        content.update("\0".join(map(str, part.ravel())).encode("utf-8", "surrogatepass"))
    else:
        for block in blocks(part) if len(part.shape) else [part]:
            content.update(np.ascontiguousarray(block).reshape(-1).view(np.uint8).data)
    return content.digest()


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


def subject_halves(subjects: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """(g,) bool: every other subject of each class; all graphs of a subject are in the same half.

    subjects : (g,), whose each graph is; codes : (g,), classes.
    """
    _, first, of_graph = np.unique(subjects, return_index=True, return_inverse=True)
    half = np.zeros(len(first), bool)
    half[np.lexsort([first, codes[first]])] = np.arange(len(first)) % 2 == 0
    return half[of_graph]
