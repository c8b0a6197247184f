"""Files of others: damaged, foreign and hostile ones end in one line that names them, and in nothing else."""

from __future__ import annotations

import io
import os
import random
import shutil
import socket
import sys
import time
import traceback
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from cignn import _array_files, load_cohort
from cignn._array_files import read_npy, read_npz
from cignn.datasets import (
    Atlas,
    load_abide,
    load_ba2motifs,
    load_rest_meta_mdd,
    load_tu,
    make_cohort,
    mat_files,
)
from cignn.datasets.mat_files import MatReader
from cignn.datasets.roi_files import read_roi_file
from test_cohort_files import table, values, write_study
from test_derivative_files import netcc

# ----------------------------------------------------------------------------- .npy and .npz


def header(shape: str, kind: str = "<f4", tail: bytes = bytes(48)) -> bytes:
    """An .npy file whose header says this."""
    words = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    words += b" " * (-(len(words) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(words).to_bytes(2, "little") + words + tail


BAD_NPY = {
    "terabytes": (
        header("(1000000, 1000000)"),
        "should have 1000000 × 1000000 values of 4 bytes, 48",
    ),
    "beyond all": (header(f"({10**30}, 2)"), "48 bytes are there"),
    "one value less": (header("(4, 3)", tail=bytes(44)), "should have 4 × 3 values of 4 bytes, 44 bytes are"),
    "one value more": (header("(4, 3)", tail=bytes(52)), "52 bytes are there"),
    "negative": (header("(-4, -3)"), "48 bytes are there"),
    "nothing, but wide": (header(f"(0, {2**50})", tail=b""), "0 bytes are there"),
    "complex": (header("(2, 3)", "<c8"), "holds complex numbers"),
    "dates": (header("(2, 3)", "<M8[s]"), "holds dates"),
    "times": (header("(2, 3)", "<m8[s]"), "holds times"),
    "records": (header("(2, 3)", [("a", "<f4")]), "holds records"),  # type: ignore[arg-type]
    "words": (header("(2, 3)", "<U2"), "holds words"),
    "objects": (header("(2, 3)", "|O"), "holds Python objects"),
    "no kind": (header("(2, 3)", "nonsense"), "is not a readable .npy file"),
    "no shape": (header("'abc'"), "is not a readable .npy file"),
    "a program": (header("__import__('os').system('false')"), "is not a readable .npy file"),
    "version": (b"\x93NUMPY\x09\x00" + header("(4, 3)")[8:], "is not a readable .npy file"),
    "magic only": (b"\x93NUMPY", "is not a readable .npy file"),
    "nothing": (b"", "is not a readable .npy file"),
    "one number": (header("()", tail=bytes(4)), r"must hold a table of numbers, got shape \(\)"),
    "a row": (header("(12,)"), r"must hold a table of numbers, got shape \(12,\)"),
}


@pytest.mark.parametrize("case", BAD_NPY)
def test_headers_are_held_against_the_bytes(tmp_path: Path, case: str) -> None:
    content, words = BAD_NPY[case]
    (tmp_path / "sub-000.npy").write_bytes(content)
    with pytest.raises(ValueError, match=f"sub-000.npy.*{words}") as error:
        read_roi_file(tmp_path / "sub-000.npy")
    assert "\n" not in str(error.value)


def test_every_order_and_kind_of_numbers_is_read(tmp_path: Path) -> None:
    data = np.arange(12).reshape(4, 3)
    for kind in ("<f8", ">f4", "<f2", "|b1", ">i2", "<u8", "g"):
        for order in "CF":
            wanted = np.array(data, kind, order=order)  # type: ignore[call-overload]
            np.save(tmp_path / "a.npy", wanted)
            np.testing.assert_array_equal(read_npy(tmp_path / "a.npy"), wanted)
            np.savez_compressed(tmp_path / "a.npz", a=wanted, b=np.array(["ä", ""]), c=np.array([b"x"]), d=3)
            got = read_npz(tmp_path / "a.npz")
            np.testing.assert_array_equal(got["a"], wanted)
            assert got["b"].tolist() == ["ä", ""] and got["c"].tolist() == ["x"] and got["d"] == 3


def test_headers_are_parsed_by_one_thread_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's parser of literals fails now and then where two threads are in it (3.11.7)."""
    np.save(tmp_path / "a.npy", np.ones((4, 3)))
    inside, most = [0], [0]
    parse = _array_files._HEADERS[1, 0]

    def slow(stream: Any) -> Any:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.002)
        inside[0] -= 1
        return parse(stream)

    monkeypatch.setitem(_array_files._HEADERS, (1, 0), slow)
    with ThreadPoolExecutor(4) as pool:
        assert all(one.shape == (4, 3) for one in pool.map(read_npy, [tmp_path / "a.npy"] * 20))
    assert most == [1]


def archive(path: Path, members: dict[str, bytes], size: int | None = None) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    if size is not None:  # what the directory says of the first member
        content = bytearray(path.read_bytes())
        at = content.index(b"PK\x01\x02") + 24
        content[at : at + 4] = size.to_bytes(4, "little")
        path.write_bytes(content)
    return path


def saved(array: object) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.asarray(array))
    return stream.getvalue()


GOOD = {"series": saved(np.zeros((60, 3), np.float32)), "lengths": saved([30, 30]), "label": saved([0, 1])}
BAD_NPZ = {
    "a claim of terabytes": (
        {"series": header("(1000000, 1000000)")},
        "'series' should have 1000000 × 1",
    ),
    "one label for all": ({"label": saved(1)}, r"'label' must have 1 dimensions, got shape \(\)"),
    "one number": ({"series": saved(1.5)}, r"'series' must have 2 or 3 dimensions, got shape \(\)"),
    "lengths of words": ({"lengths": saved(["a", "b"])}, "'lengths' must hold numbers"),
    "broken lengths": ({"lengths": saved([29.5, 30.5])}, "lengths must be whole numbers of time points"),
    "complex": ({"series": saved(np.ones((60, 3), complex))}, "'series' holds complex numbers"),
    "dates": ({"label": saved(np.zeros(2, "M8[s]"))}, "'label' holds dates"),
    "beyond Unicode": (
        {"subject": saved(["ab", "cd"])[:-16] + b"\xff" * 16},
        "'subject' holds characters that do not exist",
    ),
    "half a character": ({"site": saved(["\ud800", "a"])}, "'site' holds characters that do not exist"),
    "foreign bytes": ({"site": saved([b"\xff", b"a"])}, "'site' holds words that are not UTF-8"),
    "ages": ({"age": saved([1.0, 2.0, 3.0])}, "covariates must|same length|one row per subject"),
    "infinite age": ({"age": saved([1.0, np.inf])}, "age of sub-0002 is infinite"),
    "colours": (
        {"atlas_names": saved(list("abc")), "atlas_colours": saved([list("abc")])},
        "'atlas_colours' must",
    ),
    "places": ({"atlas_names": saved(list("abc")), "atlas_coordinates": saved([["a"]])}, "must hold numbers"),
}


@pytest.mark.parametrize("case", BAD_NPZ)
def test_arrays_of_a_cohort_are_checked_by_name(tmp_path: Path, case: str) -> None:
    change, words = BAD_NPZ[case]
    path = archive(tmp_path / "a.npz", GOOD | change)
    with pytest.raises(ValueError, match=f"a.npz: .*({words})") as error:
        load_cohort(path, constant_rois="zero", duplicates="keep")
    assert "\n" not in str(error.value)


def test_what_a_zip_says_of_itself_is_not_believed(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.npz", {"series": saved(np.zeros(9))}, size=2**32 - 2)
    with pytest.raises(ValueError, match=r"a.npz says that 'series' is larger than it can be"):
        read_npz(path)
    for size in (10, 130, 300):
        with pytest.raises(ValueError, match=r"a.npz"):
            read_npz(archive(path, {"series": saved(np.zeros(9))}, size=size))
    with zipfile.ZipFile(path, "w") as file, pytest.warns(UserWarning, match="Duplicate name"):
        file.writestr("a.npy", saved(1))
        file.writestr("a.npy", saved(2))
    with pytest.raises(ValueError, match="holds the array 'a' twice"):
        read_npz(path)


def test_more_than_the_memory_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "a.npy", values())
    monkeypatch.setattr("cignn._array_files.memory", lambda: 100.0)
    with pytest.raises(ValueError, match=r"a.npy: the array takes .* more than this machine's memory"):
        read_roi_file(tmp_path / "a.npy")


def test_memory_that_runs_out_is_told_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError

    np.save(tmp_path / "a.npy", values())
    monkeypatch.setattr("cignn._array_files._fill", full)
    with pytest.raises(OSError, match=r"not enough memory to read .*a.npy"):
        read_roi_file(tmp_path / "a.npy")


# -------------------------------------------------------------------------------------- .mat


def test_many_mat_files_from_many_threads(tmp_path: Path) -> None:
    frame = table(12, label=["a", "b"] * 6, site="A", sex="M")
    write_study(tmp_path, frame, n=0)
    for i in range(12):
        savemat(
            tmp_path / "series" / f"sub-{i:03d}.mat", {"ROISignals": values(i)}, do_compression=i % 2 == 0
        )
    got = load_cohort(tmp_path, n_jobs=4)
    for i, subject in enumerate(got):
        np.testing.assert_array_equal(subject.series, values(i))


@pytest.fixture
def bad_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have .mat files read by a process that does something else with those called bad."""

    def make(deed: str) -> None:
        original = mat_files.WORKER.read_text()
        deed = f"    if 'bad' in path:\n        import os, signal, time\n        {deed}\n"
        worker = tmp_path / "worker.py"
        worker.write_text(
            original.replace(
                "    from scipy.io import loadmat\n", deed + "    from scipy.io import loadmat\n"
            )
        )
        monkeypatch.setattr(mat_files, "WORKER", worker)

    return make


def test_a_crash_takes_no_other_file_along(tmp_path: Path, bad_worker: Callable[[str], None]) -> None:
    bad_worker("os.kill(os.getpid(), signal.SIGKILL)")
    for name in ("good.mat", "bad.mat"):
        savemat(tmp_path / name, {"a": values()})
    with MatReader() as mats:
        for _ in range(2):
            with pytest.raises(ValueError, match=r"bad.mat is damaged: it crashed SciPy's reader"):
                read_roi_file(tmp_path / "bad.mat", mats)
            np.testing.assert_array_equal(read_roi_file(tmp_path / "good.mat", mats).values, values())


def test_a_file_that_takes_too_long_is_given_up(
    tmp_path: Path, bad_worker: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    bad_worker("time.sleep(60)")
    savemat(tmp_path / "bad.mat", {"a": values()})
    monkeypatch.setattr(mat_files, "PATIENCE", 2.0)
    start = time.monotonic()
    with pytest.raises(ValueError, match=r"bad.mat was not read within 2 seconds"):
        read_roi_file(tmp_path / "bad.mat")
    assert time.monotonic() - start < 30


@pytest.mark.medium
@pytest.mark.data
def test_bits_flipped_in_real_headers_kill_nothing(tmp_path: Path, real_data: Callable[[str], Path]) -> None:
    content = sorted(real_data("rest_meta_mdd").glob("*.mat"))[0].read_bytes()
    outcomes = set()
    with MatReader() as mats:
        for at in (130, 150, 172, 192, 193):  # of the last three many flips end the process
            for bit in range(8):
                flipped = bytearray(content)
                flipped[at] ^= 1 << bit
                (tmp_path / "a.mat").write_bytes(flipped)
                try:
                    read_roi_file(tmp_path / "a.mat", mats)
                    outcomes.add("read")
                except ValueError as error:
                    assert "a.mat" in str(error)
                    outcomes.add("crashed" if "crashed" in str(error) else "refused")
    assert "refused" in outcomes


# ----------------------------------------------------------------- what is no regular file


def call_readers(path: Path) -> list[Callable[[], object]]:
    return [
        lambda: load_cohort(path),
        lambda: load_abide(path),
        lambda: load_ba2motifs(path),
        lambda: Atlas.from_table(path),
        lambda: read_npz(path),
        lambda: read_roi_file(path),
    ]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipes_sockets_and_devices_are_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe.npz")
    monkeypatch.chdir(tmp_path)  # the path of a socket has at most 100 letters
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket.npz")
    for path, what in (("pipe.npz", "a named pipe"), ("socket.npz", "a socket"), ("/dev/zero", "a device")):
        for read in call_readers(Path(path)):
            with pytest.raises(ValueError, match=f"{path} is {what}, expected a regular file"):
                read()
    study = write_study(tmp_path / "study")
    (study / "series" / "sub-002.npy").unlink()
    os.mkfifo(study / "series" / "sub-002.npy")
    with pytest.raises(ValueError, match=r"series/sub-002.npy is a named pipe"):
        load_cohort(study)
    (study / "participants.tsv").unlink()
    os.mkfifo(study / "participants.tsv")
    with pytest.raises(ValueError, match=r"participants.tsv is a named pipe"):
        load_cohort(study)
    os.mkfifo(tmp_path / "X_A.txt")
    (tmp_path / "X_graph_indicator.txt").write_text("1\n")
    (tmp_path / "X_graph_labels.txt").write_text("1\n")
    with pytest.raises(ValueError, match=r"X_A.txt is a named pipe"):
        load_tu(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no names that are not UTF-8")
def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    write_study(folder)
    readers = [load_cohort, load_abide, load_ba2motifs, load_tu, load_rest_meta_mdd, Atlas.from_table]
    for read in readers:
        with pytest.raises(ValueError, match=r"the name of .*\\xff.* is not UTF-8; rename") as error:
            read(folder)  # type: ignore[operator]
        str(error.value).encode()
    study = write_study(tmp_path / "study")
    data = study / "series" / "sub-002.npy"
    data.rename(Path(os.fsdecode(os.fsencode(study / "series") + b"/sub-002_\xe4.npy")))
    with pytest.raises(ValueError, match=r"the name of .*sub-002_\\xe4.npy is not UTF-8; rename"):
        load_cohort(study)


def test_names_longer_than_names_can_be(tmp_path: Path) -> None:
    for read in (load_cohort, load_abide, load_ba2motifs, load_tu, load_rest_meta_mdd, Atlas.from_table):
        for name in ("a" * 300, "a\0b", str(tmp_path / "nowhere" / ("ä" * 200))):
            with pytest.raises(FileNotFoundError, match=r"does not exist|is not a folder") as error:
                read(name)
            assert len(str(error.value)) < 400
    study = write_study(
        tmp_path / "study", table(participant_id=["x" * 260, *(f"sub-{i:03d}" for i in range(1, 8))])
    )
    with pytest.raises(ValueError, match=r"no file in series/ for x{40}…; pass missing"):
        load_cohort(study, missing="raise")
    long = make_cohort(20, 4, n_edges=1, random_state=0)
    long = long._with(subjects=["y" * 250, *long.subjects[1:]])
    long.save(tmp_path / "long.npz")
    with pytest.raises(ValueError, match=r"ids of more than 200 letters.*y{40}…"):
        load_cohort(tmp_path / "long.npz", near_duplicates="keep")


# ----------------------------------------------------------------------------------- at random


def mutated(content: bytes, rng: random.Random) -> bytes:
    """The same bytes with a few small accidents, most of them near the beginning."""
    out = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = rng.randrange(min(len(out), rng.choice([150, len(out)]))) if out else 0
        deed = rng.randrange(5)
        if deed == 0:
            out[at : at + 1] = bytes([rng.randrange(256)])
        elif deed == 1:
            out = out[:at]
        elif deed == 2:
            out[at:at] = rng.randbytes(rng.randrange(1, 9))
        elif deed == 3:
            del out[at : at + rng.randrange(1, 20)]
        else:
            out[at:at] = out[at : at + rng.randrange(1, 30)]
    return bytes(out)


def repacked(content: bytes, rng: random.Random) -> bytes:
    """The same archive with accidents in its members, whose check sums are right."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(stream, "w") as new:
        for name in old.namelist():
            member = old.read(name)
            new.writestr(name, mutated(member, rng) if rng.random() < 0.3 else member)
    return stream.getvalue()


def samples(folder: Path) -> dict[str, tuple[str, bytes, Callable[[Path], object]]]:
    """Of every format a file, and who reads it."""
    cohort = make_cohort(6, 12, n_edges=3, lengths=(30, 40), random_state=0)
    content = cohort.save(folder / "a.npz").read_bytes()
    text = "\n".join(",".join(f"{v:.3f}" for v in row) for row in values()).encode()
    frame = table().to_csv(sep="\t", index=False).encode()
    study = write_study(folder / "study")
    tu = {"A": "1, 2\n2, 1\n3, 4\n4, 3\n", "graph_indicator": "1\n1\n2\n2\n", "graph_labels": "1\n-1\n"}
    for kind, words in tu.items():
        (folder / f"X_{kind}.txt").write_text(words)
    motifs = saved(np.zeros((2, 25, 25))), saved(np.ones((2, 25, 3))), saved([0, 1])
    archive(folder / "m.npz", dict(zip(("adj", "x", "y"), motifs, strict=True)))
    regions = b"name,x,y,z,system\na,1,2,3,VN\nb,4,5,6,DMN\n"

    def participants(path: Path) -> object:
        shutil.copy(path, study / "participants.tsv")
        return load_cohort(study)

    return {
        "cohort": ("c.npz", content, lambda path: load_cohort(path, constant_rois="zero", min_length=10)),
        "npy": ("c.npy", saved(values()), read_roi_file),
        "csv": ("c.csv", text, read_roi_file),
        "netcc": ("c.netcc", netcc({"CC": np.corrcoef(values(), rowvar=False)}).encode(), read_roi_file),
        "participants": ("c.tsv", frame, participants),
        "indicator": (
            "X_graph_indicator.txt",
            tu["graph_indicator"].encode(),
            lambda path: load_tu(path.parent),
        ),
        "edges": ("X_A.txt", tu["A"].encode(), lambda path: load_tu(path.parent)),
        "motifs": ("c.npz", (folder / "m.npz").read_bytes(), load_ba2motifs),
        "atlas": ("c.csv", regions, Atlas.from_table),
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "case", ["cohort", "npy", "csv", "netcc", "participants", "indicator", "edges", "motifs", "atlas"]
)
def test_accidents_end_in_errors_of_our_own(tmp_path: Path, case: str) -> None:
    name, content, read = samples(tmp_path)[case]
    rng = random.Random(f"{case} 0")
    for _ in range(120):
        damage = repacked if name.endswith(".npz") and rng.random() < 0.5 else mutated
        (tmp_path / name).write_bytes(damage(content, rng))
        try:
            read(tmp_path / name)
        except (ValueError, OSError) as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            assert f"src{os.sep}cignn" in frame.filename and "raise" in (frame.line or ""), frame
            assert str(tmp_path) in str(error)
