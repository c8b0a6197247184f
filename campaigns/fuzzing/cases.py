"""One damaged input: made from a seed, a target and a number, written to disk, read and judged."""

from __future__ import annotations

import os
import shutil
import traceback
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import cignn
from campaigns.fuzzing.commands import CommandError, RefusedError
from campaigns.fuzzing.containers import STRUCTURED
from campaigns.fuzzing.mutators import RAW, splice
from campaigns.fuzzing.readers import Files, Reader

FINE, REFUSED, FOREIGN, CRASH, HANG, WRONG = OUTCOMES = (
    "read",
    "refused",
    "foreign",
    "crash",
    "hang",
    "wrong",
)
BAD = (FOREIGN, CRASH, HANG, WRONG)
PACKAGE = str(Path(cignn.__file__).parent)
RAW_SHARE, SEALED_SHARE = 0.4, 0.7  # of inputs damaged byte by byte; of others whose checksums are made right
# what may stand in the place of a file
FOLDER, FIFO, LOOP = b"\0a folder\0", b"\0a fifo\0", b"\0a link to itself\0"


@dataclass
class Case:
    """A damaged input, with the sample it was made of."""

    target: str
    number: int
    original: Files
    files: Files
    what: list[str] = field(default_factory=list)
    sealed: bool = False  # whether the checksums are those of the damaged files


class Verdict(NamedTuple):
    """What came of a case: one of `OUTCOMES`, where, in which words, and how many warnings got out."""

    outcome: str
    where: str = ""
    detail: str = ""
    warned: int = 0
    sealed: bool = False  # whether the checksums could be made right


# --------------------------------------------------------------------------------- making


def make_case(seed: int, target: str, number: int, reader: Reader, samples: list[Files]) -> Case:
    """Damage a sample; the same arguments give the same case."""
    rng = Random(f"{seed}/{target}/{number}")
    original = rng.choice(samples)
    case = Case(target, number, original, dict(original))
    # a model's card is for people: nothing reads it
    names = sorted(name for name in original if reader.damaged(name) and not name.endswith(".md"))
    words = names[0].endswith(".words")  # no file: what a shell hands over
    if rng.random() < 0.02 and not words:
        _change_folder(case, rng.choice(names), rng)
        return case
    raw = rng.random() < RAW_SHARE and not words
    for _ in range(rng.choice([1, 1, 1, 2, 3]) if raw else rng.choice([1, 1, 1, 2])):
        name = rng.choice(names)
        if raw:
            _damage_bytes(case, name, names, rng)
        else:
            ways = STRUCTURED[Path(name).suffix]
            how = rng.choice(sorted(ways))
            try:  # what was damaged before may be no such file any more: the sample always is
                case.files[name] = ways[how](original[name], rng)
                case.what.append(f"{how}: {name}")
            except MemoryError:  # of a compressor: the process may have little of it left
                _damage_bytes(case, name, names, rng)
    case.sealed = reader.seal is not None and rng.random() < (SEALED_SHARE / 2 if raw else SEALED_SHARE)
    return case


def _damage_bytes(case: Case, name: str, names: list[str], rng: Random) -> None:
    how = rng.choice([*sorted(RAW), "splice"])
    if how == "splice":
        other = rng.choice(names)
        case.files[name] = splice(case.files[name], case.original[other], rng)
        case.what.append(f"splice: {name} and {other}")
    else:
        case.files[name] = RAW[how](case.files[name], rng)
        case.what.append(f"{how}: {name}")


def _change_folder(case: Case, name: str, rng: Random) -> None:
    """Take a file away, put something else in its place, rename it or add another."""
    # settings may come through a pipe on purpose: --config <(…)
    how = rng.choice(["gone", "empty", "folder", "fifo", "loop", "renamed", "another", "long", "bytes"])
    how = "empty" if how == "fifo" and name == "run.toml" else how
    content = case.files.pop(name)
    stem, ending = os.path.splitext(name)
    there = {"empty": b"", "folder": FOLDER, "fifo": FIFO, "loop": LOOP, "another": content}
    if how in there:
        case.files[name] = there[how]
    if how == "another":
        case.files[f"{stem}_copy{ending}"] = content
    elif how == "renamed":
        case.files[f"{stem}x{ending}"] = content
    elif how == "long":
        case.files[os.path.join(os.path.dirname(name), "s" * 240 + ending)] = content
    elif how == "bytes":
        case.files[f"{stem}\udcff{ending}"] = content
    case.what.append(f"{how}: {name}")


def write_files(files: Mapping[str, bytes], folder: Path) -> None:
    """Write a sample or a case into an empty folder."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content == FOLDER:
            path.mkdir()
        elif content == FIFO:
            os.mkfifo(path)
        elif content == LOOP:
            path.symlink_to(path.name)
        else:
            path.write_bytes(content)


def write_case(case: Case, reader: Reader, folder: Path) -> None:
    """Write the damaged files, with checksums of what they are now where the case says so."""
    shutil.rmtree(folder, ignore_errors=True)
    write_files(case.files, folder)
    if case.sealed and reader.seal is not None:
        try:
            reader.seal(folder)
        except Exception:  # too damaged to be sealed: it stays as it is
            shutil.rmtree(folder)
            write_files(case.files, folder)
            case.sealed = False


# -------------------------------------------------------------------------------- judging


class Judge:
    """Reads cases and says what came of them; remembers what undamaged samples give."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[tuple[str, int], Any] = {}

    def __call__(self, case: Case, reader: Reader) -> Verdict:
        """Read a case and judge the answer, or the exception."""
        reference = self._reference(case, reader)
        place = self.folder / "input"
        write_case(case, reader, place)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                verdict = self._judged(case, reader, place, reference)
            except BaseException as error:
                verdict = judge_error(error, place, case)
        leaked = [one for one in caught if not one.filename.startswith(PACKAGE)]
        return verdict._replace(warned=len(leaked), sealed=case.sealed)

    def _judged(self, case: Case, reader: Reader, place: Path, reference: Any) -> Verdict:
        found = reader.read(place)
        check = reader.check if case.sealed or reader.unsealed is None else reader.unsealed
        wrong = check(found, reference, case.original, case.files)
        return Verdict(FINE) if wrong is None else Verdict(WRONG, wrong.split(",")[0][:60], wrong)

    def _reference(self, case: Case, reader: Reader) -> Any:
        key = case.target, hash(tuple(sorted(case.original.items())))
        if key not in self._known:
            place = self.folder / "original"
            shutil.rmtree(place, ignore_errors=True)
            write_files(case.original, place)
            self._known[key] = reader.read(place)
        return self._known[key]


def judge_error(error: BaseException, folder: Path, case: Case) -> Verdict:
    """Tell a refusal in our own words, which names what it is about, from anything else."""
    trace = "".join(traceback.format_exception(error))
    if isinstance(error, RefusedError):
        if error.cause is None or _ours(error.cause) or _of_the_command_line(error.cause):
            return Verdict(REFUSED)
        return Verdict(FOREIGN, _place(error.cause), trace + "".join(traceback.format_exception(error.cause)))
    if isinstance(error, CommandError) and error.__cause__ is not None:
        return Verdict(FOREIGN, _place(error.__cause__), trace)
    if not _ours(error):
        return Verdict(FOREIGN, _place(error), trace)
    if _names(str(error), folder, case) or _after_reading(error):
        return Verdict(REFUSED)
    return Verdict(FOREIGN, f"names no file: {_place(error)}", trace)


def _ours(error: BaseException) -> bool:
    """Whether it is a kind that tells of bad input and was raised by the package itself."""
    kinds = ValueError | TypeError | OSError | FloatingPointError  # the last of a training that went on
    if not isinstance(error, kinds) or isinstance(error, UnicodeError):
        return False
    return traceback.extract_tb(error.__traceback__)[-1].filename.startswith(PACKAGE)


def _of_the_command_line(error: BaseException) -> bool:
    """Whether it is a complaint of click or typer about an option."""
    return any(kind.__name__ == "UsageError" for kind in type(error).__mro__)


def _names(message: str, folder: Path, case: Case) -> bool:
    """Whether a message names the file or the folder."""
    known = {str(folder), *(os.path.basename(name) for name in (*case.files, *case.original))}
    return any(name in message for name in known)


def _after_reading(error: BaseException) -> bool:
    """Whether a model was accepted and refused the data, or a training went on: no file to be named."""
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, FloatingPointError) or any(frame.name == "predict_proba" for frame in frames)


def _place(error: BaseException) -> str:
    """The kind of an exception and the last line of the package, or of the campaign, that it passed."""
    with suppress(AttributeError):  # what an exception group or a chain hides
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if frame.filename.startswith(PACKAGE)] or frames
        if own:
            file = Path(own[-1].filename)
            return f"{type(error).__name__} in {file.parent.name}/{file.name}:{own[-1].name}"
    return type(error).__name__
