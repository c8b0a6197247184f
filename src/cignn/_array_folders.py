"""Named arrays in one .npz file, or in a folder of .npy files whose large arrays stay on disk.

A folder is an unpacked .npz: ``<name>.npy`` for every array. ``arrays.json``, which `write_arrays` adds,
lists the files with shapes and checksums. Replacing it is the commit: before it, the old list names the old
files; after it, the new list names the new ones. A process killed at any moment leaves all old arrays or all
new ones.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np

from cignn._array_files import NUMBERS_AND_WORDS, names_in, read_npy, read_npz, regular
from cignn._arrays import digest
from cignn._files import locked, replacing, unwritten, write_text
from cignn._mapped import SCRATCH, MappedArray, write_npy

INDEX = "arrays.json"
FORMAT, VERSION = "cignn arrays", 1
AGAIN = "write the folder again"
TEMPORARY = ".cignn-"  # how names of files begin that are not finished


def array_path(path: str | Path, mapped: bool) -> Path:
    """Return where to write arrays: the folder, or the file with ".npz" added where it is missing."""
    path = Path(path)
    if mapped and path.suffix == ".npz":
        raise ValueError(
            f"arrays in one .npz file cannot stay on disk, got {path.name}; give a folder's name."
        )
    if mapped and path.exists() and not _replaceable(path):
        raise ValueError(f"{path} exists and is not a folder of arrays; choose another path.")
    if not mapped and path.suffix != ".npz":
        path = path.with_name(path.name + ".npz")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} into; make it first.")
    return path


def write_arrays(path: str | Path, arrays: Mapping[str, Any], mapped: bool) -> Path:
    """Write arrays and return the path of the file or, with ``mapped``, of the folder; None is left out."""
    path = array_path(path, mapped)
    there = {name: array for name, array in arrays.items() if array is not None}
    if not mapped:
        with replacing(path) as new:
            np.savez(new, **there)
        return path
    try:
        path.mkdir(exist_ok=True)
        with locked(path):
            _write_folder(path, there)
    except BaseException as error:
        with suppress(OSError, ValueError):
            if not _listing(path):  # the folder is new
                (path / INDEX).unlink()
                path.rmdir()
        if isinstance(error, OSError):
            raise unwritten(path, error) from error
        raise
    return path


def _write_folder(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays to new files of a folder, then the list of them; what fails leaves the old ones."""
    files: dict[str, dict[str, Any]] = {}
    if not (path / INDEX).exists():
        _write_index(path, files)  # a folder that is never finished holds nothing
    _clean(path)
    try:
        for name, array in arrays.items():
            file = f"{name}.npy" if not (path / f"{name}.npy").exists() else f"{name}.{token_hex(4)}.npy"
            with replacing(path / file) as new, new.open("wb") as stream:
                crc = write_npy(stream, array)
            files[name] = {"file": file, "shape": list(array.shape), "dtype": _dtype(array), "crc32": crc}
        _write_index(path, files)
    finally:
        _clean(path)


def _write_index(path: Path, files: Mapping[str, Mapping[str, Any]]) -> None:
    index = {"format": FORMAT, "version": VERSION, "arrays": files, "checksum": digest(files)}
    write_text(path / INDEX, json.dumps(index, indent=1) + "\n")


def read_arrays(
    path: str | Path, only: Collection[str] | None = None, mapped: Collection[str] = ()
) -> dict[str, Any]:
    """Return the arrays of an .npz file or a folder, by name.

    only : names of the arrays to read, None for all. mapped : names of those that stay on disk, in a folder.
    """
    path = Path(path)
    if not path.is_dir():
        return dict(read_npz(path, only=only))
    listing = _listing(path)
    chosen = {name: facts for name, facts in listing.items() if only is None or name in only}
    try:
        return {name: _read(path / facts["file"], facts, name in mapped) for name, facts in chosen.items()}
    except FileNotFoundError:
        if _listing(path) != listing:  # another process has just replaced them
            return read_arrays(path, only, mapped)
        raise


def array_names(path: str | Path) -> list[str]:
    """Return the names of the arrays of an .npz file or a folder."""
    return list(_listing(Path(path))) if Path(path).is_dir() else names_in(Path(path))


def is_array_folder(path: Path, names: Collection[str]) -> bool:
    """Whether a folder holds arrays: a list of them, or a file of one of these names."""
    return (path / INDEX).is_file() or any((path / f"{name}.npy").is_file() for name in names)


def _read(file: Path, facts: Mapping[str, Any], mapped: bool) -> Any:
    """Read or open an array and compare it with what the list says of it."""
    file = regular(file, AGAIN)
    array: Any = MappedArray.open(file) if mapped else read_npy(file, NUMBERS_AND_WORDS)
    if "crc32" in facts:
        if list(array.shape) != facts["shape"]:
            found, wanted = (" × ".join(map(str, shape)) for shape in (array.shape, facts["shape"]))
            raise ValueError(f"{file} holds {found} values, {INDEX} says {wanted}; {AGAIN}.")
        if _checksum(array) != (facts["dtype"], facts["crc32"]):
            raise ValueError(f"{file} is damaged or was changed (its checksum is another); {AGAIN}.")
    return array


def _checksum(array: Any) -> tuple[str, int]:
    if isinstance(array, MappedArray):
        return _dtype(array), array.file.checksum()
    return _dtype(array), write_npy(_Nowhere(), array)  # type: ignore[arg-type]


class _Nowhere:
    """A file that keeps nothing."""

    def write(self, part: Any) -> int:
        return len(part)


def _listing(path: Path) -> dict[str, dict[str, Any]]:
    """Return the files of a folder by the name of their array; what is known of them only with a list."""
    index = path / INDEX
    if not index.is_file():
        return {file.stem: {"file": file.name} for file in sorted(path.glob("*.npy")) if file.name[0] != "."}
    try:
        content = json.loads(index.read_bytes())
        if content["format"] != FORMAT:
            raise ValueError
        version = content["version"]
        arrays = {str(name): _facts(facts) for name, facts in content["arrays"].items()}
        if version == VERSION and content["checksum"] != digest(content["arrays"]):
            raise ValueError
    except OSError as error:
        raise type(error)(f"{index} cannot be read ({error.strerror}).") from error
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
        raise ValueError(f"{index} is damaged or no list of arrays; {AGAIN}.") from None
    if version != VERSION:
        raise ValueError(f"{path} was written by another cignn (format {version}); upgrade cignn.")
    for facts in arrays.values():
        if not (path / facts["file"]).exists():
            raise FileNotFoundError(
                f"{path} is not a whole folder of arrays: {facts['file']} is missing; {AGAIN}."
            )
    return arrays


def _facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    file = facts["file"]
    if not file.endswith(".npy") or Path(file).name != file:
        raise ValueError
    return {
        "file": file,
        "shape": list(facts["shape"]),
        "dtype": str(facts["dtype"]),
        "crc32": int(facts["crc32"]),
    }


def _replaceable(path: Path) -> bool:
    """Whether a folder is empty or holds arrays of ours, and nothing else."""
    if not path.is_dir():
        return False
    names = [item.name for item in path.iterdir() if not item.name.startswith(TEMPORARY)]
    return not names or (INDEX in names and all(name == INDEX or name.endswith(".npy") for name in names))


def _clean(path: Path) -> None:
    """Remove arrays that are not listed: of older writings, of those that failed or were killed."""
    with suppress(ValueError, OSError):
        listed = {facts["file"] for facts in _listing(path).values()}
        for item in list(path.iterdir()):
            unlisted = item.suffix == ".npy" and item.name not in listed
            abandoned = item.name.startswith(TEMPORARY)
            if (unlisted or abandoned) and not item.name.startswith(SCRATCH):
                with suppress(OSError):
                    item.unlink()


def _dtype(array: Any) -> str:
    return np.dtype(array.dtype).newbyteorder("=").str
