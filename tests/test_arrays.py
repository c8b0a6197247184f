"""What must hold for upper triangles and digests."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from cignn._arrays import (
    above_diagonal,
    digest,
    sha256,
    symmetric,
    upper_indices,
    upper_pairs,
    upper_triangle,
)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_upper_triangles_are_taken_and_put_back(n: int) -> None:
    matrices = np.random.default_rng(0).normal(size=(3, 2, n, n))
    matrices = matrices + matrices.swapaxes(-1, -2)
    values = upper_triangle(matrices)
    assert values.shape == (3, 2, n * (n - 1) // 2)
    np.testing.assert_array_equal(symmetric(values, matrices), matrices)
    back = symmetric(values, np.zeros_like(matrices))
    np.testing.assert_array_equal(upper_triangle(back), values)
    assert not np.diagonal(back, axis1=-2, axis2=-1).any()
    rows, columns = upper_indices(n)
    assert (rows < columns).all() and len(upper_pairs(n)) == len(rows) == above_diagonal(n).sum()
    assert above_diagonal(n)[rows, columns].all()


def test_all_callers_share_the_indices_and_none_can_change_them() -> None:
    with pytest.raises(ValueError, match="read-only"):
        upper_indices(4)[0][0] = 3
    with pytest.raises(ValueError, match="read-only"):
        above_diagonal(4)[0, 0] = True


def test_equal_data_have_equal_digests() -> None:
    a = np.arange(6.0).reshape(2, 3)
    assert digest(a) == digest(np.asfortranarray(a)) == digest(a.copy())
    assert digest(np.array(["a", "bc"])) == digest(np.array(["a", "bc"], object))
    assert digest({"x": 1, "y": [2.5, None]}) == digest({"y": (2.5, None), "x": np.int64(1)})
    assert digest(a, a) == digest(a, a.copy())
    assert len(digest(a, length=16)) == 16 and digest(a).startswith(digest(a, length=16))


def test_other_data_have_other_digests() -> None:
    a = np.arange(6.0)
    parts = [(a,), (a.reshape(2, 3),), (a.astype(np.float32),), (a, a), (a, None), (None, a), (a.tobytes(),)]
    parts += [
        ("a",),
        (b"a",),
        (np.array(["a"]),),
        (np.array(["ab"]),),
        (np.array(["a", "b"]),),
        ("a", "b"),
        (),
    ]
    assert len({digest(*one) for one in parts}) == len(parts)


def test_checksums_of_files_are_those_of_everybody(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    assert sha256(tmp_path / "file") == sha256(b"content") == hashlib.sha256(b"content").hexdigest()
