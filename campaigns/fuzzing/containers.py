"""Ways to damage what is inside .npy, .npz, .mat, safetensors and SQLite files that stay whole outside."""

from __future__ import annotations

import io
import json
import pickle
import sqlite3
import struct
import warnings
import zipfile
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy import sparse
from scipy.io import savemat

from campaigns.fuzzing.mutators import RAW, Mutator, edited, json_text, json_values, table, toml_values, words
from campaigns.fuzzing.oddities import DTYPES, SHAPES, SQL, TENSOR_TYPES, TOKENS
from cignn._arrays import sha256
from cignn.estimators.persistence import CONFIG, sealed

# ------------------------------------------------------------------------------ one array


def npy(data: bytes, rng: Random) -> bytes:
    """Damage the header of an .npy file, or write another array."""
    return npy_header(data, rng) if rng.random() < 0.5 else to_npy(odd_array(from_npy(data), rng))


def from_npy(data: bytes) -> np.ndarray:
    """Read a valid array."""
    return np.load(io.BytesIO(data), allow_pickle=False)


def to_npy(array: np.ndarray) -> bytes:
    """Write an array; objects are pickled."""
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asanyarray(array), allow_pickle=True)
    return out.getvalue()


def npy_header(data: bytes, rng: Random) -> bytes:
    """Edit the header of an .npy file; its length stays true."""
    array = from_npy(data)
    order, shape, dtype = str(array.flags.fnc), str(array.shape), repr(array.dtype.str)
    body = array.tobytes("F" if array.flags.fnc else "C")
    what = rng.randrange(6)
    if what == 0:
        shape = rng.choice(SHAPES)
    elif what == 1:
        dtype = rng.choice(DTYPES)
    elif what == 2:
        order = rng.choice(["True", "1", "None", "'C'", "[]"])
    header = f"{{'descr': {dtype}, 'fortran_order': {order}, 'shape': {shape}, }}"
    if what == 3:
        odd = ["", "{}", "None", "[", "{" * 200, "1", "{'descr': '<f4'}", "\0", "{'shape': (1,)}", "(" * 9000]
        header = rng.choice(
            [*odd, header[:-3], header + "+1", header.replace("'", '"'), header + " " * 70000]
        )
    version = rng.choice(
        [b"\x01\x00"] * 6 + [b"\x02\x00", b"\x03\x00", b"\x04\x00", b"\x00\x00", b"\xff\xff"]
    )
    raw = header.encode("latin-1", "replace") + b"\n"
    length = len(raw) + (rng.choice([-5, 5, 1000, 10**9]) if what == 4 else 0)
    wide = version in (b"\x02\x00", b"\x03\x00")
    size = struct.pack("<I", length & 0xFFFFFFFF) if wide else struct.pack("<H", length & 0xFFFF)
    if what == 5:
        body = body[: rng.randrange(len(body) + 1)]
    return b"\x93NUMPY" + version + size + raw + body


def odd_array(array: np.ndarray, rng: Random) -> np.ndarray:
    """Another array in the place of this one: odd values, kinds or shapes."""
    array = np.array(array)
    what = rng.random()
    if what < 0.35 and array.size:
        return _odd_entries(array, rng)
    if what < 0.65:
        return _odd_kind(array, rng)
    return _odd_shape(array, rng)


def _odd_entries(array: np.ndarray, rng: Random) -> np.ndarray:
    at = [rng.randrange(array.size) for _ in range(rng.choice([1, 1, 3]))]
    if array.dtype.kind in "fiu":
        array = array.astype(np.float64)
        array.flat[at] = rng.choice(
            [np.nan, np.inf, -np.inf, 1e300, -9999.0, 0.5, -1.0, 0.0, 2.0, 7.0, 2.0**62]
        )
    elif array.dtype.kind == "U":
        array = array.astype(object)
        array.flat[at] = rng.choice(
            ["", "n/a", "nan", "-9999", "\0", "x" * 300, "patient", " ", "=1", "ä", "1.0"]
        )
        array = array.astype(str)
    else:
        array.flat[at] = rng.choice([0, 1])
    return array


def _odd_kind(array: np.ndarray, rng: Random) -> np.ndarray:
    kind = rng.choice(
        ["O", "S", "U", "c8", "bool", "M8[D]", "m8[s]", ">f8", "f2", "i1", "i8", "u8", "g", "V", "code"]
    )
    if kind == "V":
        return np.zeros(array.shape, [("a", "f4"), ("b", "i4")])
    if kind == "code":  # characters that no text holds
        return np.frombuffer(
            np.full(array.size, rng.choice([0xD800, 0x110000, 0xFFFFFFFF]), "<u4").tobytes(), "<U1"
        ).reshape(array.shape)
    if kind == "S":
        return np.full(array.shape, rng.choice([b"\xff\xfe", b"abc", b"", b"1"]))
    with np.errstate(all="ignore"):
        numbers = (
            np.nan_to_num(array) if array.dtype.kind in "fiu" else np.arange(array.size).reshape(array.shape)
        )
        base = array if kind in ("O", "U") else numbers.astype(np.int64) if kind[0] in "Mm" else numbers
        return base.astype(kind)


def _odd_shape(array: np.ndarray, rng: Random) -> np.ndarray:
    what = rng.randrange(9)
    if what == 0:
        return array.reshape(-1)[:1].reshape(()) if array.size else array
    if what == 1:
        return array[None]
    if what == 2:
        return array[..., None]
    if what == 3:
        return array[: rng.randrange(len(array) + 1)] if array.ndim else array
    if what == 4:
        return array[..., :-1] if array.ndim else array
    if what == 5:
        return np.concatenate([array, array]) if array.ndim else array
    if what == 6:
        return array.T
    if what == 7:
        return array.reshape(-1)
    return np.empty((0, *array.shape[1:]), array.dtype)


# ------------------------------------------------------------------------------- archives


def unzipped(data: bytes) -> dict[str, bytes]:
    """Read the members of a valid archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def zipped(members: list[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> bytes:
    """Write members, always the same bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        for name, content in members:
            file.writestr(zipfile.ZipInfo(name), content, method)
    return out.getvalue()


def npz(data: bytes, rng: Random) -> bytes:
    """Damage arrays inside an archive that stays whole."""
    members = unzipped(data)
    for name in rng.sample(sorted(members), rng.choice([1, 1, 1, 2])):
        members[name] = npy(members[name], rng)
    return zipped(list(members.items()), rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))


def archive(data: bytes, rng: Random) -> bytes:
    """Lose, rename, double or damage members of an archive, or fields of its directory."""
    members = list(unzipped(data).items())
    i = rng.randrange(len(members))
    name, content = members[i]
    what = rng.randrange(9)
    if what == 0:
        del members[i]
    elif what == 1:
        others = [
            "",
            "x",
            name + "x",
            name.upper(),
            "../" + name,
            name + "/",
            name[:-4],
            "a" * 70000,
            "\ud83d.npy",
            "pickle",
        ]
        members[i] = (
            rng.choice(others).encode("utf-16", "surrogatepass").decode("utf-16", "replace")[:60000],
            content,
        )
    elif what == 2:
        members.append((name, RAW["overwrite"](content, rng)))
    elif what == 3:
        members[i] = (name, RAW[rng.choice(sorted(RAW))](content, rng))
    elif what == 4:
        members[i] = (name, pickle.dumps({"x": 1}))
    elif what == 5:
        members[i] = (name, rng.choice(members)[1])
    elif what == 6:
        members = []
    elif what == 7:
        members += [(f"{k}.npy", content) for k in range(300)]
    method = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name twice is meant
        out = bytearray(zipped(members, method))
    if what == 8:  # version, flags, method, time, sum, sizes: of the first member, here or in the directory
        at = rng.choice([4, 6, 8, 14, 18, 22, 26, 28])
        start = rng.choice([0, max(out.rfind(b"PK\x01\x02"), 0) + 2])
        out[start + at] = rng.choice([0, 1, 9, 99, 255])
    return bytes(out)


def json_in_archive(data: bytes, rng: Random) -> bytes:
    """Damage the JSON of an archive (what skops keeps) and leave the rest."""
    members = unzipped(data)
    for name in sorted(members):
        if name.endswith(".json"):
            members[name] = json_text(edited(json.loads(members[name]), rng), rng)
    return zipped(list(members.items()))


# ----------------------------------------------------------------------------------- .mat


def mat(data: bytes, rng: Random) -> bytes:
    """Write other variables into a .mat file, or damage the tags in front of them."""
    if rng.random() < 0.4:
        return mat_tags(data, rng)
    numbers = np.linspace(-1, 1, 24).reshape(6, 4)
    others: list[Any] = [
        *(
            numbers,
            numbers + 1j,
            numbers > 0,
            numbers.astype(np.int8),
            numbers[:, :1],
            numbers[:0],
            numbers[None],
        ),
        *(
            "words",
            ["a", "b"],
            {"a": numbers},
            [numbers, numbers],
            sparse.csc_matrix(numbers),
            np.array(1.0),
            np.nan,
        ),
        *(
            np.full((6, 4), np.nan),
            np.full((6, 4), np.inf),
            np.array([[numbers, "x"]], dtype=object),
            b"\xff",
        ),
    ]
    content = {
        rng.choice(["ROISignals", "x", "a" * 31, "y"]): rng.choice(others)
        for _ in range(rng.choice([1, 1, 2, 3]))
    }
    out = io.BytesIO()
    savemat(
        out,
        content,
        do_compression=rng.random() < 0.3,
        format=rng.choice(["5", "5", "5", "4"]) if _flat(content) else "5",
    )
    return _dateless(out.getvalue())


def _flat(content: dict[str, Any]) -> bool:
    """Whether all is a plain array that the older format holds."""
    return all(
        isinstance(v, np.ndarray) and v.dtype.kind in "fi" and v.ndim == 2 and v.size
        for v in content.values()
    )


def _dateless(data: bytes) -> bytes:
    """Without the time of writing: the same generator writes the same bytes."""
    return b"MATLAB 5.0 MAT-file".ljust(116) + data[116:] if data.startswith(b"MATLAB") else data


def mat_tags(data: bytes, rng: Random) -> bytes:
    """Overwrite numbers in the first 60 words behind the header: types, counts, flags, dimensions."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2])):
        at = rng.choice([124, 126, 128 + 4 * rng.randrange(min(60, max((len(out) - 132) // 4, 1)))])
        value = rng.choice(
            [0, 1, 2, 5, 9, 14, 15, 16, 17, 255, 0x7FFFFFFF, 0xFFFFFFFF, 0x80000000, rng.randrange(2**32)]
        )
        out[at : at + 4] = struct.pack("<I", value)
    return bytes(out)


# ---------------------------------------------------------------------------- safetensors


def tensors(data: bytes, rng: Random) -> bytes:
    """Edit the header of a safetensors file, its metadata, or the numbers; its length stays true."""
    size = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8 : 8 + size]), bytearray(data[8 + size :])
    names = sorted(name for name in header if name != "__metadata__")
    what = rng.random()
    if what < 0.35 and "__metadata__" in header:
        _odd_metadata(header, rng)
    elif what < 0.55 and names:
        one = header[rng.choice(names)]
        start, stop = one["data_offsets"]
        body[start:stop] = _other_numbers(bytes(body[start:stop]), rng)
    elif what < 0.7 and names:
        one = header[rng.choice(names)]
        one["dtype"] = rng.choice(TENSOR_TYPES)
    elif what < 0.85 and names:
        one = header[rng.choice(names)]
        shape = one["shape"]
        one["shape"] = rng.choice(
            [shape[::-1], [*shape, 1], [1, *shape], shape[1:], [int(np.prod(shape))], [0], [2**62]]
        )
    elif what < 0.93 and names:
        name = rng.choice(names)
        header[
            rng.choice(
                [name + "x", "optimiser.x.y", "optimiser.1", "generator.cpu", "network.", "0.mean", ""]
            )
        ] = header.pop(name)
    else:
        header = edited(header, rng)
    raw = json_text(header, rng)
    return struct.pack("<Q", len(raw)) + raw + bytes(body)


def _other_numbers(content: bytes, rng: Random) -> bytes:
    """Other numbers in a tensor: extreme ones, or the same in another order and with another sign."""
    n = len(content)
    if rng.random() < 0.5:
        words = [content[i : i + 4] for i in range(0, n, 4)]
        if rng.random() < 0.5:
            words = [word[:3] + bytes([word[3] ^ 0x80]) if len(word) == 4 else word for word in words]
        return b"".join(reversed(words))
    fills = [b"\xff", b"\x00", b"\x7f", b"\x00\x00\xc0\x7f", b"\x00\x00\x80\x7f", rng.randbytes(4)]
    return (rng.choice(fills) * (n + 1))[:n]


def _odd_metadata(header: dict[str, Any], rng: Random) -> None:
    """Other values of valid type (all are text), or JSON within them that means something else."""
    said = header["__metadata__"]
    key = rng.choice(sorted(said))
    inner = ["", "x", "[]", "null", "{}", "1", "-1", "1e400", "[" * 5000, "NaN", "1.5", "9" * 5000]
    if key == "progress" and rng.random() < 0.8:
        said[key] = json_text(edited(json.loads(said[key]), rng), rng).decode("utf-8", "replace")
    else:
        said[key] = rng.choice([*inner, said[key] + "0", said[key][:-1]])
    if rng.random() < 0.1:
        del said[key]


# -------------------------------------------------------------------------------- SQLite


def database(data: bytes, rng: Random) -> bytes:
    """Change values, rows, tables or the version of a valid SQLite file, by SQL."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.sqlite"
        path.write_bytes(data)
        db = sqlite3.connect(path, isolation_level=None)
        try:
            db.execute("PRAGMA journal_mode = DELETE")
            db.execute("PRAGMA ignore_check_constraints = ON")
            for _ in range(rng.choice([1, 1, 2])):
                try:
                    _change(db, rng)
                except sqlite3.Error:  # a row that is there already, a table that is gone
                    continue
        finally:
            db.close()
        return path.read_bytes()


def _change(db: sqlite3.Connection, rng: Random) -> None:
    tables = sorted(row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'"))
    name = rng.choice(tables)
    columns = [row[1] for row in db.execute(f"PRAGMA table_info({name})")]
    column, value = rng.choice(columns), rng.choice(SQL)
    how = rng.random()
    if how < 0.65:
        chosen = rng.choice(
            ["", " WHERE key = (SELECT min(key) FROM tasks)", " WHERE key = (SELECT max(key) FROM tasks)"]
        )
        if rng.random() < 0.1 and isinstance(value, bytes):
            db.execute(f"UPDATE {name} SET {column} = CAST(? AS TEXT){chosen}", [value])
        else:
            db.execute(f"UPDATE {name} SET {column} = ?{chosen}", [value])
    elif how < 0.73:
        db.execute(f"DELETE FROM {name} WHERE key = (SELECT min(key) FROM {name})")
    elif how < 0.78:
        db.execute(f"DROP TABLE {name}")
    elif how < 0.83:
        db.execute(f"ALTER TABLE {name} RENAME COLUMN {column} TO other")
    elif how < 0.88:
        db.execute(f"ALTER TABLE {name} ADD COLUMN another TEXT DEFAULT 'x'")
    elif how < 0.92:
        db.execute(f"PRAGMA user_version = {rng.choice([0, 2, 99, -1, 2**31 - 1])}")
    elif how < 0.96:
        db.execute(f"ALTER TABLE {name} RENAME TO was_{name}")
        db.execute(f"CREATE VIEW {name} AS SELECT * FROM was_{name}")
    else:
        db.execute(f"INSERT INTO {name} (key) VALUES (?)", [rng.choice(TOKENS)])


# ------------------------------------------------------------------------------ by ending

_TABLE: dict[str, Mutator] = {"table": table}
STRUCTURED: dict[str, dict[str, Mutator]] = {
    ".tsv": _TABLE,
    ".csv": _TABLE,
    ".txt": _TABLE,
    ".1D": _TABLE,
    ".npy": {"npy": npy, "npy_header": npy_header},
    ".npz": {"npz": npz, "archive": archive},
    ".mat": {"mat": mat, "mat_tags": mat_tags},
    ".json": {"json_values": json_values},
    ".toml": {"toml_values": toml_values},
    ".safetensors": {"tensors": tensors},
    ".ckpt": {"tensors": tensors},
    ".skops": {"archive": archive, "json_in_archive": json_in_archive},
    ".sqlite": {"database": database},
    ".words": {"words": words},
}


def reseal(path: str | Path) -> None:
    """Update the sizes and checksums in the config of a model folder whose files were changed."""
    folder = Path(path)
    config = json.loads((folder / CONFIG).read_bytes())
    for kind in ("files", "notes"):
        config[kind] = {
            name: {"bytes": (folder / name).stat().st_size, "sha256": sha256(folder / name)}
            for name in config[kind]
        }
    (folder / CONFIG).write_bytes(sealed(config))
