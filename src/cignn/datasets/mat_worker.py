"""Reads .mat files in a process of its own: a damaged file may crash SciPy's reader.

A module of its own because `mat_files` runs it by its path, without importing the package, which would take
seconds: one path per line comes in, as JSON; one line of JSON and the bytes of the array go out for each.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, BinaryIO

import numpy as np

SIGNALS = "ROISignals"
NOTHING = memoryview(b"")


def table_of(path: str) -> tuple[dict[str, Any], memoryview]:
    """Return the shape of a file's table, or what is wrong with the file, and the table's bytes."""
    from scipy.io import loadmat

    try:
        content = loadmat(path)
    except NotImplementedError:
        return {"wrong": "is a MATLAB 7.3 file; save it in MATLAB with save(…, '-v7')."}, NOTHING
    except MemoryError:
        return {"wrong": "asks for more memory than there is; save it again."}, NOTHING
    except OSError as error:
        return {"wrong": f"cannot be read ({error.strerror or error})."}, NOTHING
    except Exception:  # foreign bytes make SciPy raise nearly anything
        return {"wrong": "is not a readable .mat file; save it again."}, NOTHING
    tables = {
        name: array
        for name, array in content.items()
        if not name.startswith("__")
        and isinstance(array, np.ndarray)
        and array.ndim == 2
        and array.dtype.kind in "biuf"
        and min(array.shape) > 1
    }
    names = [SIGNALS] if SIGNALS in tables else list(tables)
    if len(names) != 1:
        found = ", ".join(names) or "none"
        return {
            "wrong": f"must hold one two-dimensional array of numbers, or {SIGNALS}, got {found}."
        }, NOTHING
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, which is refused later
        values = np.ascontiguousarray(tables[names[0]], np.float32)
    return {"shape": values.shape, "bytes": values.nbytes}, values.data.cast("B")


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer until there are no more requests."""
    for line in requests:
        about, content = table_of(json.loads(line))
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
