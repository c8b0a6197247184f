"""Reads .mat files in a process of its own: a damaged file may crash the readers of SciPy and HDF5.

A module of its own because `mat_files` runs it by its path, without importing the package, which would take
seconds: one line of JSON comes in for each file, its path and the name of the variable or null; one line of
JSON and the bytes of the table go out.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, BinaryIO

import numpy as np

SIGNALS, CELLS = "ROISignals", "data"  # the series in files of DPABI and of CONN
NAMES = ("names", "roi_names", "roinames")  # of the regions, in small letters
COORDINATES = ("xyz", "coords", "coordinates", "mni")  # no series
NOTHING = memoryview(b"")


def table_of(path: str, variable: str | None = None) -> tuple[dict[str, Any], memoryview]:
    """Return the shape of a file's table, or what is wrong with the file, and the table's bytes."""
    from scipy.io import loadmat

    try:
        content = loadmat(path)
    except NotImplementedError:  # of version 7.3
        try:
            content = hdf5_content(path)
        except ImportError:
            return {
                "wrong": "is a MATLAB 7.3 file, which needs h5py: pip install 'cignn[matlab]', or save it in "
                "MATLAB with save(…, '-v7')."
            }, NOTHING
        except Exception:
            return {"wrong": "is not a readable MATLAB 7.3 file; save it again."}, NOTHING
    except MemoryError:
        return {"wrong": "asks for more memory than there is; save it again."}, NOTHING
    except OSError as error:
        return {"wrong": f"cannot be read ({error.strerror or error})."}, NOTHING
    except Exception:  # foreign bytes make SciPy raise nearly anything
        return {"wrong": "is not a readable .mat file; save it again."}, NOTHING
    content = {name: array for name, array in content.items() if isinstance(array, np.ndarray)}
    tables = {name: table for name, array in content.items() if (table := as_table(array)) is not None}
    chosen = choose(content, tables, variable)
    if not isinstance(chosen, str):
        return chosen, NOTHING
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, which is refused later
        values = np.ascontiguousarray(tables[chosen], np.float32)
    about = {"shape": values.shape, "bytes": values.nbytes, "cells": content[chosen].dtype.kind == "O"}
    about["names"] = region_names(content, values.shape[1])
    return about, values.data.cast("B")


def choose(
    content: dict[str, np.ndarray], tables: dict[str, np.ndarray], variable: str | None
) -> str | dict[str, Any]:
    """Return the name of the variable to read, or what is wrong."""
    if variable is not None:
        return variable if variable in tables else {"without": variable, "found": list(tables)}
    if SIGNALS in tables:
        return SIGNALS
    if CELLS in tables and content[CELLS].dtype.kind == "O" and region_names(content, tables[CELLS].shape[1]):
        return CELLS
    names = [name for name in tables if not (name.lower() in COORDINATES and 3 in tables[name].shape)]
    if len(names) > 1:
        return {"several": names}
    if names:
        return names[0]
    found = f"coordinates ({', '.join(tables)})" if tables else "none"
    return {"wrong": f"must hold one two-dimensional array of numbers, or {SIGNALS}, got {found}."}


def as_table(array: np.ndarray) -> np.ndarray | None:
    """Return numbers in rows and columns; None for anything else.

    Of a row of cells, each with the series of a region (t, k), the means over k become the columns; an empty
    cell becomes NaN.
    """
    if array.ndim == 2 and array.dtype.kind in "biuf":
        return array if min(array.shape) > 1 else None
    if array.dtype.kind != "O" or array.ndim != 2 or min(array.shape) != 1 or array.size < 2:
        return None
    cells = list(array.ravel())
    if not all(isinstance(c, np.ndarray) and c.ndim == 2 and c.dtype.kind in "biuf" for c in cells):
        return None
    lengths = {len(cell) for cell in cells if cell.size}
    if len(lengths) != 1 or (t := lengths.pop()) < 2:
        return None
    columns = [cell.mean(1, dtype=np.float64) if cell.size else np.full(t, np.nan) for cell in cells]
    return np.stack(columns, axis=1)


def region_names(content: dict[str, np.ndarray], n: int) -> list[str] | None:
    """Return the names that a file gives to so many regions, or None."""
    for name, array in content.items():
        if name.lower() in NAMES and array.dtype.kind in "OU":
            words = [_word(cell) for cell in array.ravel()]
            if len(words) == n and all(words):
                return words
    return None


def _word(cell: Any) -> str:
    if isinstance(cell, np.ndarray):
        cell = "".join(map(str, cell.ravel()))
    return str(cell).strip().encode("utf-8", "replace").decode()


# ------------------------------------------------------------------------------ version 7.3


def hdf5_content(path: str) -> dict[str, np.ndarray]:
    """Return the numbers, texts and cells of a file of version 7.3, as SciPy returns those of version 7."""
    import h5py

    with h5py.File(path, "r") as file:
        return {
            name: _value(file, item)
            for name, item in file.items()
            if isinstance(item, h5py.Dataset) and not name.startswith("#")
        }


def _value(file: Any, item: Any) -> np.ndarray:
    """Return one variable: MATLAB stores columns first, letters as numbers and cells as references."""
    matlab = item.attrs.get("MATLAB_class", b"")
    matlab = matlab.decode() if isinstance(matlab, bytes) else str(matlab)
    if "MATLAB_empty" in item.attrs:
        return np.empty((0, 0), object if matlab == "cell" else float)
    array = np.asarray(item[()]).T
    if matlab == "char":
        return np.array(["".join(map(chr, array.ravel()))])
    if matlab == "cell":
        out = np.empty(array.shape, object)
        for place, reference in np.ndenumerate(array):
            out[place] = _value(file, file[reference])
        return out
    return array


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer until there are no more requests."""
    for line in requests:
        about, content = table_of(*json.loads(line))
        answers.write(json.dumps(about).encode() + b"\n")
        answers.write(content)
        answers.flush()


if __name__ == "__main__":
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is expected, its image is of no use
    except (ImportError, ValueError, OSError):
        pass
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what others print must not come between the answers
    serve(sys.stdin.buffer, replies)
