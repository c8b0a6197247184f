"""Cohorts from disk: every way to write the same numbers reads the same; what is bad is named in one line."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat

from cignn import Cohort, load_cohort
from cignn.datasets import Atlas, DataError, check_cohort, make_cohort
from cignn.datasets.exclusions import exclusion_lines
from cignn.datasets.roi_files import read_roi_file
from cignn.estimators.classifier import class_codes

R, N = 6, 8


def values(i: int = 0, n: int = 40) -> np.ndarray:
    return np.random.default_rng(i).normal(size=(n + i, R)).astype(np.float32)


def table(n: int = N, **change: Any) -> pd.DataFrame:
    columns = {
        "participant_id": [f"sub-{i:03d}" for i in range(n)],
        "label": ["patient", "control"] * (n // 2),
        "site": ["A", "A", "B", "B"] * (n // 4),
        "age": [20.5 + i for i in range(n)],
        "sex": ["m", "female", "F", "Male"] * (n // 4),
    }
    return pd.DataFrame(columns | change)


def write_study(folder: Path, frame: pd.DataFrame | None = None, kind: str = "series", n: int = N) -> Path:
    (folder / kind).mkdir(parents=True, exist_ok=True)
    (table() if frame is None else frame).to_csv(folder / "participants.tsv", sep="\t", index=False)
    for i in range(n):
        data = values(i) if kind == "series" else np.corrcoef(values(i), rowvar=False)
        np.save(folder / kind / f"sub-{i:03d}.npy", data)
    return folder


# ------------------------------------------------------------------------- one file


def as_text(data: np.ndarray, mark: str) -> str:
    return "\n".join(mark.join(f"{value:.6f}" for value in row) for row in data) + "\n"


NAMES = [f"roi{i}" for i in range(R)]
CODES = [str(2000 + i) for i in range(R)]
TEXTS: dict[str, tuple[str, Callable[[np.ndarray], str]]] = {
    "1D": ("x.1D", lambda d: "\t".join(f"#{code}" for code in CODES) + "\n" + as_text(d, "\t")),
    "trailing tabs": ("x.1D", lambda d: as_text(d, "\t").replace("\n", "\t\n")),
    "spaces": ("x.txt", lambda d: "  " + as_text(d, "   ").replace("\n", "  \n  ")),
    "commas": ("x.csv", lambda d: as_text(d, ",")),
    "commas and spaces": ("x.csv", lambda d: as_text(d, " , ")),
    "windows": ("x.csv", lambda d: as_text(d, ",").replace("\n", "\r\n")),
    "comments": ("x.txt", lambda d: "# made by hand\n% twice\n\n" + as_text(d, " ")),
    "header": ("x.tsv", lambda d: "\t".join(NAMES) + "\n" + as_text(d, "\t")),
    "mark": ("x.csv", lambda d: "\ufeff" + ",".join(NAMES) + "\n" + as_text(d, ",")),
    "counted": ("x.csv", lambda d: ",".join(str(i) for i in range(R)) + "\n" + as_text(d, ",")),
    "pandas": ("x.csv", lambda d: pd.DataFrame(d, columns=NAMES).to_csv()),
    "pandas, no names": ("x.csv", lambda d: pd.DataFrame(d).to_csv()),
    "row names": ("x.csv", lambda d: pd.DataFrame(d, [f"t{i}" for i in range(len(d))], NAMES).to_csv()),
    "R": (
        "x.txt",
        lambda d: (
            " ".join(NAMES) + "\n" + "\n".join(f"t{i} " + " ".join(map(str, r)) for i, r in enumerate(d))
        ),
    ),
    "decimal commas": ("x.csv", lambda d: as_text(d, ";").replace(".", ",")),
    "counted, as broken numbers": (
        "x.csv",
        lambda d: ",".join(f"{i}.0" for i in range(R)) + "\n" + as_text(d, ","),
    ),
    "numbered rows": ("x.csv", lambda d: pd.DataFrame(d).to_csv(header=False)),
    "named rows": ("x.csv", lambda d: pd.DataFrame(d).rename(index="t{}".format).to_csv(header=False)),
    "time": (
        "x.csv",
        lambda d: pd.DataFrame(d, 0.8 * np.arange(len(d)), NAMES).to_csv(index_label="seconds"),
    ),
    "3dROIstats": (
        "x.1D",
        lambda d: (
            "\t".join(["File", "Sub-brick", *(name + "  " for name in NAMES)])
            + "".join(f"\na.nii.gz\t{i}[?]\t" + "\t".join(map(str, r)) for i, r in enumerate(d))
        ),
    ),
}
NAMED = ("header", "mark", "pandas", "row names", "R", "time", "3dROIstats")


@pytest.mark.parametrize("case", TEXTS)
def test_every_way_to_write_numbers(tmp_path: Path, case: str) -> None:
    name, write = TEXTS[case]
    (tmp_path / name).write_text(write(values()), encoding="utf-8", newline="")
    got = read_roi_file(tmp_path / name)
    np.testing.assert_allclose(got.values, values(), atol=1e-5)
    assert got.values.dtype == np.float32
    assert got.names == (NAMES if case in NAMED else CODES if case == "1D" else None)


def test_codes_of_regions_are_no_time_point(tmp_path: Path) -> None:
    codes = ["2001", "2002", "2101", "8301", "9001", "2102"]
    for written in (codes, [f"{code}.0" for code in codes]):
        pd.DataFrame(values(), columns=written).to_csv(tmp_path / "x.csv", index=False)
        got = read_roi_file(tmp_path / "x.csv")
        assert got.names == codes
        np.testing.assert_allclose(got.values, values(), atol=1e-5)
    whole = np.array([[2001, 2002, 2101], [1999, 2005, 2090], [2000, 2001, 2102]])  # counts of a scanner
    np.savetxt(tmp_path / "y.csv", whole, fmt="%d", delimiter=",")
    np.testing.assert_array_equal(read_roi_file(tmp_path / "y.csv").values, whole)


ODD_NAMES = ["PCC, left", "IFG; pars opercularis", "mPFC", "a 5,3", "V1", "V 2"]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("rows", ["", "index", "named"])
def test_names_may_hold_what_separates_others(tmp_path: Path, separator: str, rows: str) -> None:
    index = [f"t, {i}; x" for i in range(len(values()))] if rows == "named" else None
    frame = pd.DataFrame(values(), index, ODD_NAMES)
    frame.to_csv(
        tmp_path / "x.csv", sep=separator, index=bool(rows), decimal="." if separator == "," else ","
    )
    got = read_roi_file(tmp_path / "x.csv")
    assert got.names == ODD_NAMES
    np.testing.assert_allclose(got.values, values(), atol=1e-5)


def test_binary_files(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", values().astype(float))
    savemat(tmp_path / "a.mat", {"anything": values(), "TR": 2.0, "name": "x", "order": np.arange(9)})
    savemat(tmp_path / "b.mat", {"ROISignals": values(), "other": values(1)})
    for name in ("a.npy", "a.mat", "b.mat"):
        np.testing.assert_array_equal(read_roi_file(tmp_path / name).values, values())


def test_missing_numbers_are_nan(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1.5,,3\n4,n/a,6\nNaN,inf,1\n")
    got = read_roi_file(tmp_path / "a.csv").values
    np.testing.assert_array_equal(got, [[1.5, np.nan, 3], [4, np.nan, 6], [np.nan, np.inf, 1]])


BAD_FILES: dict[str, tuple[str, str | bytes, str]] = {
    "empty": ("a.csv", "", "holds no numbers"),
    "comments": ("a.1D", "# only\n", "holds no numbers"),
    "header only": ("a.csv", "a,b,c\n", "holds a header but no numbers"),
    "a word": ("a.csv", "a,b\n1,2\n3,x\n", "line 3: expected 2 numbers, got 'x'"),
    "cut line": ("a.csv", "1,2,3\n3,4,5\n6,7\n", "line 3: expected 3 numbers, got 2"),
    "cut in the middle": ("a.tsv", "5\t2\t3\n3\n6\t7\t8\n", "line 2: expected 3 numbers, got 1"),
    "cut first line": ("a.csv", "a,b,c\n1,2\n3,4,5\n6,7,8\n", "line 2: expected 3 numbers, got 2"),
    "cut to one cell": ("a.csv", "a,b,c\n1,2,3\n3,4,5\n6", "line 4: expected 3 numbers, got 1"),
    "cut spaces": ("a.1D", "1  2  3\n3  4  5\n6  7\n", "line 3: expected 3 numbers, got 2"),
    "long line": ("a.txt", "1 2\n3 4\n5 6 7\n", "line 3: expected 2 numbers, got 3"),
    "header too long": ("a.csv", "a,b,c,d\n1,2\n", "4 names in its header for 2 columns"),
    "rows in another order": (
        "a.csv",
        ",a,b,c\na,1,.2,.3\nc,.3,.4,1\nb,.2,1,.4\n",
        "order than its columns: c where",
    ),
    "binary": ("a.txt", b"\xff\xfe\x00\x01\x80", "is not a text file"),
    "no npy": ("a.npy", b"hello", "is not a readable .npy file"),
    "no mat": ("a.mat", b"hello", "is not a readable .mat file"),
    "ending": ("a.xlsx", b"", "has no known ending"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_are_named(tmp_path: Path, case: str) -> None:
    name, content, words = BAD_FILES[case]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=words) as error:
        read_roi_file(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_mat_with_several_arrays(tmp_path: Path) -> None:
    savemat(tmp_path / "a.mat", {"one": values(), "two": values()})
    with pytest.raises(ValueError, match=r'holds several arrays \(one, two\); pass variable="one" or "two"'):
        read_roi_file(tmp_path / "a.mat")


# ------------------------------------------------------------------- a folder with a table


@pytest.mark.parametrize("kind", ["series", "matrices"])
def test_folder(tmp_path: Path, kind: str) -> None:
    got = load_cohort(write_study(tmp_path, kind=kind))
    assert got.subjects.tolist() == table()["participant_id"].tolist()
    assert got.y.tolist() == table()["label"].tolist() and got.sites.tolist() == table()["site"].tolist()
    assert got.covariates["age"].tolist() == table()["age"].tolist()
    assert got.covariates["sex"].tolist() == list("MFFM") * 2
    assert list(got.covariates) == ["age", "sex"]
    for i, subject in enumerate(got):
        if kind == "series":
            np.testing.assert_array_equal(subject.series, values(i))
        else:
            np.testing.assert_allclose(subject.matrix, np.corrcoef(values(i), rowvar=False), atol=1e-6)
    assert load_cohort(got.save(tmp_path / "saved")).digest() == got.digest()


@pytest.mark.parametrize(
    ("ids", "name"),
    [
        (lambda i: f"sub-{i:03d}", lambda i: f"{i:03d}.npy"),
        (lambda i: f"{i:03d}", lambda i: f"sub-{i:03d}.npy"),
        (lambda i: f"sub-{i:03d}", lambda i: f"sub-{i:03d}_task-rest_timeseries.npy"),
        (lambda i: str(i), lambda i: f"sub-{i:03d}.npy"),
        (lambda i: f"{i:03d}", lambda i: f"{i}.npy"),
        (lambda i: f"S_{i}", lambda i: f"S_{i}_aal.npy"),
        (lambda i: f"s.{i}", lambda i: f"s.{i}.npy"),
    ],
)
def test_ids_find_their_files(tmp_path: Path, ids: Callable[[int], str], name: Callable[[int], str]) -> None:
    write_study(tmp_path, table(16, participant_id=[ids(i) for i in range(16)]), n=0)
    for i in range(16):
        np.save(tmp_path / "series" / name(i), values(i))
    got = load_cohort(tmp_path)
    assert got.subjects.tolist() == [ids(i) for i in range(16)] and got.lengths.tolist() == list(
        range(40, 56)
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\t", "\t  ").replace("\n", " \n"),
        lambda text: text.replace("\n", "\r\n") + "\r\n\r\n",
        lambda text: text.replace("\t", ","),
        lambda text: text.replace("\t", " ; "),
        lambda text: text.replace("\t", " "),
        lambda text: text.replace("participant_id", "Participant_ID").replace("label", "Label"),
        lambda text: text.rstrip("\n"),
    ],
    ids=["mark", "spaces", "windows", "commas", "semicolons", "words", "capitals", "no last newline"],
)
def test_every_way_to_write_the_table(tmp_path: Path, change: Callable[[str], str]) -> None:
    plain = load_cohort(write_study(tmp_path))
    path = tmp_path / "participants.tsv"
    text = path.read_text()
    for written in (change(text).encode(), change(text).encode("utf-16")):
        path.write_bytes(written)
        assert load_cohort(tmp_path).digest() == plain.digest()


def test_labels_of_every_kind(tmp_path: Path) -> None:
    for column, want, kind in (
        (["1", "2"] * 4, [1, 2] * 4, "i"),
        (["0.0", "1.0"] * 4, [0, 1] * 4, "i"),
        (["01", "2b"] * 4, ["01", "2b"] * 4, "U"),
    ):
        got = load_cohort(write_study(tmp_path, table(dx=column)), label="dx")
        assert got.y.tolist() == want and got.y.dtype.kind == kind
        assert "label" in got.covariates and "dx" not in got.covariates
    assert load_cohort(tmp_path, label=None).y is None


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ({"label": ["HC", "hc", "MDD", "MDD"] * 2}, "the labels 'HC' and 'hc' differ in spelling only"),
        ({"label": ["1", "1.0", "x", "x"] * 2}, "the labels '1' and '1.0' differ in spelling only"),
        ({"site": ["New York", "New  york"] * 4}, "the sites 'New York' and 'New  york' differ in spelling"),
        ({"label": ["1", "-999", "0", "0"] * 2}, "no label for sub-001, sub-005; pass missing_labels"),
        ({"label": [20.5 + i for i in range(8)]}, "labels must be classes, got the numbers 20.5, 21.5"),
    ],
)
def test_words_that_would_make_classes_of_their_own(tmp_path: Path, column: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        load_cohort(write_study(tmp_path, table(**column)))
    assert "\n" not in str(error.value)


def test_columns_of_other_spelling(tmp_path: Path) -> None:
    frame = table(participant_id=[f"{i}.0" for i in range(N)], age=[-9999, *range(30, 37)])
    for names in (("SubjectID", "SiteID"), ("ScanDir ID", "Site Name"), ("Subject", "institution")):
        got = load_cohort(
            write_study(tmp_path, frame.set_axis([names[0], "label", names[1], "age", "sex"], axis=1))
        )
        assert got.sites.tolist() == frame["site"].tolist()
        assert list(got.covariates) == ["age", "sex"]
        assert np.isnan(got.covariates["age"][0]) and got.covariates["age"][1:].mean() == 33
    twice = frame.assign(again=1).set_axis([*frame.columns, "label"], axis=1)
    with pytest.raises(ValueError, match="has the column label more than once"):
        load_cohort(write_study(tmp_path, twice))


def test_files_that_are_nobodys(tmp_path: Path) -> None:
    write_study(tmp_path, table(participant_id=[f"A{i}" for i in range(N)]))
    with pytest.raises(
        ValueError, match=r"no file \(sub-000.npy, sub-001.npy and 6 more\) .* \(A0, A1 and 6 more\)"
    ):
        load_cohort(tmp_path)
    (tmp_path / "below").mkdir()
    (tmp_path / "series").rename(tmp_path / "below" / "func")
    (tmp_path / "below").rename(tmp_path / "series")
    with pytest.raises(ValueError, match="put those of the folders below into this one"):
        load_cohort(tmp_path)


def test_vectors_are_no_matrices(tmp_path: Path) -> None:
    write_study(tmp_path, n=0, kind="matrices")
    for i in range(N):
        np.save(tmp_path / "matrices" / f"sub-{i:03d}.npy", values(i)[:15, :1])
    with pytest.raises(ValueError, match=r"must be ROIs × ROIs, got sub-000 \(15×1\), .*; unfold vectors"):
        load_cohort(tmp_path)


def test_age_and_motion_are_numbers(tmp_path: Path) -> None:
    ages = ["20,5", "25", " 31.5", "unknown", "n/a", "?", "40", "1e1"]
    got = load_cohort(write_study(tmp_path, table(age=ages, func_mean_fd=["0,1"] * N, iq=["99,5"] * N)))
    np.testing.assert_array_equal(got.covariates["age"], [20.5, 25, 31.5, *[np.nan] * 3, 40, 10])
    assert (got.covariates["mean_fd"] == 0.1).all() and (got.covariates["iq"] == 99.5).all()
    write_study(tmp_path, table(age=["20", "25 years", "30", "old", *["n/a"] * 4]))
    words = r"participants.tsv: age must be a number, got '25 years' for \S*1, \S*3; correct it, or write n/a"
    with pytest.raises(ValueError, match=words):
        load_cohort(tmp_path)


def test_words_stay_words(tmp_path: Path) -> None:
    hands = ["left", "1,5", "unknown", "2"] * 2
    assert load_cohort(write_study(tmp_path, table(hand=hands))).covariates["hand"].tolist() == hands


def test_names_of_rois(tmp_path: Path) -> None:
    write_study(tmp_path, n=0)
    for i in range(N):
        pd.DataFrame(values(i), columns=NAMES).to_csv(tmp_path / "series" / f"sub-{i:03d}.csv", index=False)
    assert load_cohort(tmp_path).roi_names == NAMES
    atlas = Atlas([f"A{i}" for i in range(R)])
    got = load_cohort(tmp_path, atlas=atlas)
    assert got.roi_names == atlas.names and got.atlas == atlas


def test_an_atlas_in_another_order_and_spelling(tmp_path: Path) -> None:
    write_study(tmp_path, n=0)
    for i in range(N):
        pd.DataFrame(values(i), columns=NAMES).to_csv(tmp_path / "series" / f"sub-{i:03d}.csv", index=False)
    spelt = Atlas([name.replace("roi", "ROI ") for name in reversed(NAMES)])
    got = load_cohort(tmp_path, atlas=spelt)
    assert got.roi_names == spelt.names
    np.testing.assert_allclose(got.series[0], values(0)[:, ::-1], atol=1e-5)
    with pytest.raises(ValueError, match=r"series: .*: roi5 is number 1 and number 6, other only in one"):
        load_cohort(tmp_path, atlas=Atlas([*reversed(NAMES[1:]), "other"]))


@pytest.mark.parametrize("kind", ["series", "matrices"])
def test_regions_in_another_order_are_brought_into_one(tmp_path: Path, kind: str) -> None:
    write_study(tmp_path, n=0, kind=kind)
    for i in range(N):
        data = values(i) if kind == "series" else np.corrcoef(values(i), rowvar=False)
        whole = pd.DataFrame(data, columns=NAMES, index=NAMES if kind == "matrices" else None)
        if i == 5:
            whole = whole.iloc[:, ::-1] if kind == "series" else whole.iloc[::-1, ::-1]
        whole.to_csv(tmp_path / kind / f"sub-{i:03d}.csv", index=kind == "matrices")
    got = load_cohort(tmp_path)
    assert got.roi_names == NAMES
    for i in range(N):
        want = values(i) if kind == "series" else np.corrcoef(values(i), rowvar=False)
        np.testing.assert_allclose(got[i].series if kind == "series" else got[i].matrix, want, atol=1e-6)
    turned = load_cohort(tmp_path, atlas=Atlas(NAMES[::-1]))
    assert turned.roi_names == NAMES[::-1]
    one, other = (c[2].series if kind == "series" else c[2].matrix for c in (got, turned))
    np.testing.assert_array_equal(other, one[:, ::-1] if kind == "series" else one[::-1, ::-1])


def test_files_of_other_regions_are_named(tmp_path: Path) -> None:
    write_study(tmp_path, n=0)
    for i in range(N):
        names = [*NAMES[:-1], "elsewhere"] if i == 5 else NAMES
        pd.DataFrame(values(i), columns=names).to_csv(tmp_path / "series" / f"sub-{i:03d}.csv", index=False)
    words = (
        r"other regions than most do in sub-005 \(elsewhere instead of roi5\); pass mixed_rois=\"drop_subject"
    )
    with pytest.raises(ValueError, match=words) as error:
        load_cohort(tmp_path)
    assert "\n" not in str(error.value)
    left = load_cohort(tmp_path, mixed_rois="drop_subject")
    assert len(left) == N - 1 and "sub-005" not in left.subjects and left.roi_names == NAMES
    np.save(tmp_path / "series" / "sub-005.npy", values(5))
    (tmp_path / "series" / "sub-005.csv").unlink()
    assert len(load_cohort(tmp_path)) == N, "a file without names is taken to be like the others"
    pd.DataFrame(values(1), columns=NAMES[::-1]).to_csv(tmp_path / "series" / "sub-001.csv", index=False)
    with pytest.raises(ValueError, match="in different orders, with sub-005 without names; name every"):
        load_cohort(tmp_path)


def test_sites_that_are_missing(tmp_path: Path) -> None:
    write_study(tmp_path, table(site=["NA", *SITES[1:]]))
    got = load_cohort(tmp_path, missing_sites="own_site")
    assert got.sites.tolist() == ["unknown", *SITES[1:]]
    write_study(tmp_path, table(site=["n/a", ""] * 4))
    assert load_cohort(tmp_path).sites is None, "nobody has a site"
    for gone in (None, np.nan, "n/a"):
        made = Cohort(matrices=np.stack([np.corrcoef(values(i), rowvar=False) for i in range(4)]),
                      sites=np.array(["A", gone, "B", "B"], object))  # fmt: skip
        with pytest.raises(ValueError, match="no site for sub-0002; pass missing_sites="):
            check_cohort(made)
        assert check_cohort(made, missing_sites="drop_subject").sites.tolist() == ["A", "B", "B"]


def test_several_files_of_a_subject_are_its_scans(tmp_path: Path) -> None:
    write_study(tmp_path)
    np.save(tmp_path / "series" / "sub-002_run-2.npy", values(20))
    with pytest.raises(
        ValueError, match=r'more than one file for sub-002.*, or pass duplicates="keep" where they are scans'
    ):
        load_cohort(tmp_path)
    got = load_cohort(tmp_path, duplicates="keep")
    assert got.subjects.tolist() == [f"sub-{i:03d}" for i in [0, 1, 2, 2, *range(3, N)]]
    np.testing.assert_array_equal(got.series[3], values(20))
    assert got.y[2] == got.y[3] and got.covariates["age"][2] == got.covariates["age"][3]


@pytest.mark.parametrize("written", [["ses-1", "ses-2"], ["1", "2"], ["01", "02"]])
def test_lines_of_a_subject_find_their_scans(tmp_path: Path, written: list[str]) -> None:
    ids = np.repeat(["sub-001", "002", "sub-003", "sub-004"], 2)
    ids[3] = "sub-002"  # the same subject, spelt in another way
    frame = table(participant_id=ids, session_id=written * 4, label=["pre", "post"] * 4)
    write_study(tmp_path, frame, n=0)
    for i in range(N):
        name = f"sub-{i // 2 + 1:03d}_ses-{i % 2 + 1}_task-rest.npy"
        np.save(tmp_path / "series" / name, values(i))
    got = load_cohort(tmp_path, duplicates="keep")
    assert got.y.tolist() == ["pre", "post"] * 4 and got.lengths.tolist() == [40 + i for i in range(N)]
    assert got.subjects.tolist() == np.repeat(["sub-001", "002", "sub-003", "sub-004"], 2).tolist()
    (tmp_path / "series" / "sub-003_ses-2_task-rest.npy").unlink()
    with pytest.raises(ValueError, match="no file in series/ for sub-003; pass missing="):
        load_cohort(tmp_path, duplicates="keep")
    assert len(load_cohort(tmp_path, duplicates="keep", missing="drop_subject")) == N - 1
    write_study(tmp_path, frame.drop(columns="session_id"), n=0)
    with pytest.raises(ValueError, match=r"more than one line for sub-001_ses-1.*by a column session or run"):
        load_cohort(tmp_path, duplicates="keep")
    with pytest.raises(
        ValueError, match=r'the same id occurs more than once for sub-001.*, or pass duplicates="keep" where'
    ):
        load_cohort(tmp_path)


def test_another_table_and_turned_files(tmp_path: Path) -> None:
    write_study(tmp_path, n=0)
    (tmp_path / "participants.tsv").rename(tmp_path / "people.tsv")
    for i in range(N):
        np.save(tmp_path / "series" / f"sub-{i:03d}.npy", values(i).T)
    with pytest.raises(
        FileNotFoundError, match=r"participants.tsv does not exist; write one line per subject"
    ):
        load_cohort(tmp_path)
    with pytest.raises(ValueError, match="pass transpose=True, or "):
        load_cohort(tmp_path, participants=tmp_path / "people.tsv", n_rois=R)
    for i in range(N):
        np.save(tmp_path / "series" / f"sub-{i:03d}.npy", values(0).T)
    with pytest.raises(
        ValueError,
        match=r"the shortest 6 with 40 ROIs; pass .* transpose=True if the files hold ROIs × time points",
    ):
        load_cohort(tmp_path, participants=tmp_path / "people.tsv", duplicates="keep")
    for i in range(N):
        np.save(tmp_path / "series" / f"sub-{i:03d}.npy", values(i).T)
    for given in (tmp_path / "people.tsv", table()):
        got = load_cohort(tmp_path, participants=given, transpose=True)
        assert got.n_rois == R and got.lengths.tolist() == list(range(40, 48))
    assert got.covariates["age"].tolist() == table()["age"].tolist()


@pytest.mark.parametrize("kind", ["series", "matrices"])
def test_an_atlas_of_other_regions_is_not_the_subjects_fault(tmp_path: Path, kind: str) -> None:
    write_study(tmp_path, kind=kind)
    atlas = Atlas([f"region {i}" for i in range(9)])
    words = r"the atlas has 9 regions, all of the 8 files have 6; give the atlas of these files\.$"
    for rules in ({}, {"mixed_rois": "drop_subject"}):
        with pytest.raises(ValueError, match=words):
            load_cohort(tmp_path, atlas=atlas, **rules)
    with pytest.raises(ValueError, match=r"n_rois is 7, all of the 8 files have 6; leave it out"):
        load_cohort(tmp_path, n_rois=7)


def slow_series(i: int, t: int = 60, n_rois: int = 40) -> np.ndarray:
    """(t, n_rois): moves slowly, and neighbouring regions are a little alike."""
    rng = np.random.default_rng(i)
    steps = rng.normal(size=(t, n_rois + 1))
    for k in range(1, t):
        steps[k] += 0.85 * steps[k - 1]
    return steps[:, 1:] + 0.4 * steps[:, :-1]


@pytest.mark.parametrize("where", ["folder", "npz"])
def test_turned_series_of_one_length_are_noticed(tmp_path: Path, where: str) -> None:
    def save(turned: bool) -> Path:
        data = [slow_series(i).T if turned else slow_series(i) for i in range(N)]
        if where == "npz":
            np.savez(tmp_path / "a.npz", series=np.stack(data), label=["a", "b"] * (N // 2))
            return tmp_path / "a.npz"
        write_study(tmp_path, n=0)
        for i, one in enumerate(data):
            np.save(tmp_path / "series" / f"sub-{i:03d}.npy", one)
        return tmp_path

    assert load_cohort(save(turned=False)).n_rois == 40
    with pytest.raises(
        ValueError, match=r"of 40×60 look like ROIs × time points .* pass transpose=True .*or pass n_rois=60"
    ):
        load_cohort(save(turned=True))
    assert load_cohort(save(turned=True), n_rois=60).n_rois == 60  # the caller knows
    got = load_cohort(save(turned=True), transpose=True)
    assert got.n_rois == 40 and set(got.lengths.tolist()) == {60}
    np.testing.assert_allclose(got.series[1], slow_series(1), rtol=1e-5)


def test_simulated_time_points_without_memory_are_not_turned(tmp_path: Path) -> None:
    blocks = 0.9 * np.kron(np.eye(4), np.ones((5, 5))) + 0.1 * np.eye(20)
    rng = np.random.default_rng(0)
    series = rng.multivariate_normal(np.zeros(20), blocks, (N, 50))
    np.savez(tmp_path / "a.npz", series=series, label=[0, 1] * (N // 2))
    assert load_cohort(tmp_path / "a.npz").n_rois == 20


def test_matrices_among_series_are_refused(tmp_path: Path) -> None:
    write_study(tmp_path, n=0)
    for i in range(N):
        np.save(tmp_path / "series" / f"sub-{i:03d}.npy", np.corrcoef(slow_series(i), rowvar=False))
    with pytest.raises(ValueError, match="symmetric tables of 40×40; put connectivity into matrices/"):
        load_cohort(tmp_path)


def test_options_that_a_file_cannot_meet(tmp_path: Path) -> None:
    stacked = np.concatenate([values(i) for i in range(4)])
    np.savez(tmp_path / "a.npz", series=stacked, lengths=[40, 41, 42, 43], label=[0, 1, 0, 1])
    for wrong, words in (
        ({"n_rois": 7}, "n_rois is 7, the file has 6"),
        ({"data": "matrices"}, "holds no matrices"),
        ({"transpose": True}, r"only series \(subjects, ROIs, time points\) can be"),
    ):
        with pytest.raises(ValueError, match=words):
            load_cohort(tmp_path / "a.npz", **wrong)


def test_many_files_in_parallel_with_a_bar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = load_cohort(write_study(tmp_path), n_jobs=1)
    assert load_cohort(tmp_path, n_jobs=4, verbose=1).digest() == plain.digest()
    shown = capsys.readouterr()
    assert "reading subjects" in shown.err and not shown.out


# ----------------------------------------------------------------------------- bad cohorts


def spoil(i: int, change: Callable[[np.ndarray], np.ndarray], kind: str = "series") -> Callable[[Path], None]:
    def do(folder: Path) -> None:
        path = folder / kind / f"sub-{i:03d}.npy"
        np.save(path, change(np.load(path)))

    return do


def put(value: float, *where: Any) -> Callable[[np.ndarray], np.ndarray]:
    def change(data: np.ndarray) -> np.ndarray:
        data[where] = value
        return data

    return change


def rename(folder: Path) -> None:
    (folder / "series" / "sub-002.npy").rename(folder / "series" / "sub-777.npy")


def copy(folder: Path) -> None:
    np.save(folder / "series" / "sub-005.npy", values(1))


def frame(**change: Any) -> Callable[[Path], None]:
    return lambda folder: table(**change).to_csv(folder / "participants.tsv", sep="\t", index=False)


LABELS = table()["label"].tolist()
SITES = table()["site"].tolist()
IDS = table()["participant_id"].tolist()
# what is wrong: how it comes about, the words, and for each remedy who is left
BAD: dict[str, tuple[Callable[[Path], None], str, dict[str, int]]] = {
    "nan": (spoil(3, put(np.nan, 5, 2)), "NaN or infinite values in sub-003; pass non_finite=",
            {"non_finite=drop_subject": 7, "non_finite=zero": 8}),
    "infinite": (spoil(3, put(-np.inf, 5, 2)), "NaN or infinite values in sub-003",
                 {"non_finite=drop_subject": 7, "non_finite=zero": 8}),
    "constant": (spoil(3, put(4.2, slice(None), [1, 4])),
                 r"subject sub-003 has 2 constant ROIs \(ROI-002, ROI-005\); pass constant_rois=",
                 {"constant_rois=drop_subject": 7, "constant_rois=zero": 8, "constant_rois=drop_roi": 8}),
    "short": (spoil(3, lambda d: d[:12]), "fewer than 30 time points in sub-003, the shortest 12; pass sh",
              {"short_series=drop_subject": 7, "short_series=keep": 8, "min_length=12": 8}),
    "mixed": (spoil(3, lambda d: d[:, :4]), r"of 6 ROIs, got sub-003 \(43×4\); pass mixed_rois=",
              {"mixed_rois=drop_subject": 7}),
    "no label": (frame(label=["n/a", *LABELS[1:]]), "no label for sub-000; pass missing_labels=",
                 {"missing_labels=drop_subject": 7, "missing_labels=keep": 8}),
    "no number": (frame(label=["", *[0, 1, 1, 0, 1, 0, 1]]), "no label for sub-000",
                  {"missing_labels=drop_subject": 7}),
    "no site": (frame(site=["n/a", "", *SITES[2:]]), "no site for sub-000, sub-001; pass missing_sites=",
                {"missing_sites=drop_subject": 6, "missing_sites=own_site": 8}),
    "one class": (frame(label=["x"] * 8), r"all labels are x \(8 subjects\), expected at least two",
                  {"one_class=keep": 8, "label=site": 8}),
    "id twice": (frame(participant_id=[*IDS[:7], IDS[0]]), "same id occurs more than once for sub-000; pass",
                 {"duplicates=keep_first missing=drop_subject": 7}),
    "data twice": (copy, "identical data under two ids: sub-001 = sub-005; pass duplicates=",
                   {"duplicates=keep_first": 7, "duplicates=keep": 8}),
    "no file": (lambda f: (f / "series" / "sub-002.npy").unlink(), "no file in series/ for sub-002; pass",
                {"missing=drop_subject": 7}),
    "no line": (frame(n=4), "no line in the table for sub-004.npy, sub-005.npy, .*; pass missing=",
                {"missing=drop_subject": 4}),
    "two files": (lambda f: np.save(f / "series" / "sub-002_b.npy", values(99)),
                  r"more than one file for sub-002 \(sub-002.npy, sub-002_b.npy\); pass duplicates=",
                  {"duplicates=keep_first": 8}),
}  # fmt: skip


def options(text: str) -> dict[str, Any]:
    pairs = (item.split("=") for item in text.split())
    return {name: int(value) if value.isdigit() else value for name, value in pairs}


@pytest.mark.parametrize("case", BAD)
def test_bad_cohorts(tmp_path: Path, case: str) -> None:
    ruin, words, remedies = BAD[case]
    ruin(write_study(tmp_path))
    with pytest.raises(ValueError, match=words) as error:
        load_cohort(tmp_path)
    lines = str(error.value).split("\n")
    assert len(lines) == 1 and str(tmp_path) in lines[0]
    for remedy, left in remedies.items():
        got = load_cohort(tmp_path, **options(remedy))
        assert len(got) == left
        assert all(np.isfinite(one).all() for one in got.series)


FACTS = {  # the option, who, and what was found
    "nan": ("non_finite", ["sub-003"], []),
    "constant": ("constant_rois", ["sub-003"], ["ROI-002", "ROI-005"]),
    "short": ("short_series", ["sub-003"], [12]),
    "mixed": ("mixed_rois", ["sub-003"], ["43×4"]),
    "no label": ("missing_labels", ["sub-000"], []),
    "no site": ("missing_sites", ["sub-000", "sub-001"], []),
    "one class": ("one_class", IDS, ["x"]),
    "data twice": ("duplicates", ["sub-005"], ["sub-001 = sub-005"]),
    "no file": ("missing", ["sub-002"], []),
    "two files": ("duplicates", ["sub-002"], ["sub-002.npy", "sub-002_b.npy"]),
}


@pytest.mark.parametrize("case", FACTS)
def test_errors_carry_their_facts(tmp_path: Path, case: str) -> None:
    ruin, _, remedies = BAD[case]
    ruin(write_study(tmp_path))
    with pytest.raises(DataError) as caught:
        load_cohort(tmp_path)
    error = pickle.loads(pickle.dumps(caught.value))  # from another process
    option, subjects, found = FACTS[case]
    assert error.options[0].name == option and list(error.subjects) == subjects
    assert [value for value in error.values if value in found] == found
    given = [value for remedy in remedies for name, value in options(remedy).items() if name == option]
    assert set(given) <= {value for one in error.options for value in one.values}
    assert str(error) == str(caught.value) and str(error).startswith(error.source)


def test_several_problems_are_one_error_with_all_facts() -> None:
    made = make_cohort(8, 8, n_edges=2, random_state=0)
    made.series[2][:, 3] = 1.0
    made.series[4][0, 0] = np.nan
    with pytest.raises(DataError) as caught:
        check_cohort(made)
    error = caught.value
    assert error.subjects == ("sub-0005", "sub-0003") and len(error.errors) == 2
    assert [one.options[0].name for one in error.errors] == ["non_finite", "constant_rois"]
    assert str(error).split("\n") == [str(one) for one in error.errors]
    assert [str(one).split(": ")[0] for one in error.at("a.npz").errors] == ["a.npz", "a.npz"]


LEFT_OUT = {  # remedy: who, and why
    "nan": ("non_finite=drop_subject", ["sub-003"], "NaN or infinite values"),
    "constant": ("constant_rois=drop_subject", ["sub-003"], "2 constant ROIs"),
    "short": ("short_series=drop_subject", ["sub-003"], "12 time points"),
    "mixed": ("mixed_rois=drop_subject", ["sub-003"], "43×4"),
    "no label": ("missing_labels=drop_subject", ["sub-000"], "no label"),
    "no site": ("missing_sites=drop_subject", ["sub-000", "sub-001"], "no site"),
    "data twice": ("duplicates=keep_first", ["sub-005"], "same data as sub-001"),
    "no file": ("missing=drop_subject", ["sub-002"], "no file in series/"),
    "no line": ("missing=drop_subject", [f"{name}.npy" for name in IDS[4:]], "no line in the table"),
    "two files": ("duplicates=keep_first", ["sub-002"], "file sub-002_b.npy"),
}


@pytest.mark.parametrize("case", LEFT_OUT)
def test_exclusions_are_data(tmp_path: Path, case: str) -> None:
    remedy, subjects, why = LEFT_OUT[case]
    BAD[case][0](write_study(tmp_path))
    got = load_cohort(tmp_path, **options(remedy)).exclusions
    assert got["subject"].tolist() == subjects and set(got["detail"]) == {why}
    assert set(got["reason"]) == {remedy.split("=")[0]} and not got["roi"].any()


def test_an_id_that_occurs_often_is_named_once() -> None:
    made = make_cohort(6, 8, n_edges=2, random_state=0)._with(subjects=[*"aaabbc"])
    with pytest.raises(DataError, match="more than once for a, b; pass") as caught:
        check_cohort(made)
    assert caught.value.subjects == ("a", "b")


def test_exclusions_survive(tmp_path: Path) -> None:
    made = make_cohort(12, 8, n_edges=2, random_state=0)
    assert made.exclusions.empty and check_cohort(made).exclusions.empty
    made.series[2][:, 3] = made.series[5][:, 4] = 1.0
    made.series[4][0, 0] = np.nan
    part = check_cohort(made, constant_rois="drop_roi", non_finite="drop_subject")
    want = [("sub-0005", "", "non_finite"), *(("", made.roi_names[i], "constant_rois") for i in (3, 4))]
    assert list(part.exclusions[["subject", "roi", "reason"]].itertuples(index=False, name=None)) == want
    part.series[0][:, 1] = 0.0
    part = check_cohort(part, constant_rois="drop_subject")
    assert part.exclusions["subject"].tolist() == ["sub-0005", "", "", "sub-0001"]
    part = part._with(exclusions=part.exclusions.assign(rater="A"))  # a column of one's own
    again = load_cohort(part.save(tmp_path / "cohort.npz"))
    sparse = part.with_matrices(np.zeros((len(part), 6, 6)))
    for one in (again, part[:3], part[[0, 2]], part.with_y(None), sparse, pickle.loads(pickle.dumps(part))):
        pd.testing.assert_frame_equal(one.exclusions, part.exclusions)
    assert part.digest() == again.digest() == part._with(exclusions=None).digest()
    lines = exclusion_lines(part.exclusions)
    assert lines[0] == "left out (non_finite): sub-0005: NaN or infinite values"
    assert lines[1].startswith("left out of everyone (constant_rois): ") and "sub-0001" in lines[2]


def test_what_repairs_do(tmp_path: Path) -> None:
    write_study(tmp_path)
    spoil(3, put(np.nan, 5, 2))(tmp_path)
    got = load_cohort(tmp_path, non_finite="zero")
    want = values(3)
    want[5, 2] = 0
    np.testing.assert_array_equal(got[3].series, want)
    spoil(3, put(7.0, slice(None), 2))(tmp_path)
    got = load_cohort(tmp_path, constant_rois="zero")
    assert (got[3].series[:, 2] == 0).all() and (got[4].series[:, 2] != 0).all()
    got = load_cohort(tmp_path, constant_rois="drop_roi")
    assert got.roi_names == [f"ROI-00{i}" for i in (1, 2, 4, 5, 6)]
    np.testing.assert_array_equal(got[4].series, np.delete(values(4), 2, 1))


def test_all_problems_at_once_one_line_each(tmp_path: Path) -> None:
    write_study(tmp_path)
    for ruin in (spoil(3, put(np.nan, 5, 2)), spoil(1, put(1.0, slice(None), 2)), spoil(2, lambda d: d[:9])):
        ruin(tmp_path)
    with pytest.raises(ValueError, match="NaN") as error:
        load_cohort(tmp_path)
    lines = str(error.value).split("\n")
    assert len(lines) == 3 and all(line.startswith(f"{tmp_path}: ") and "; pass " in line for line in lines)


def test_at_most_five_names() -> None:
    series = np.random.default_rng(0).normal(size=(20, 40, 3))
    series[:9, :, 1] = 0
    with pytest.raises(ValueError, match=r"in 9 subjects: sub-0001 \(1\), .*sub-0005 \(1\) and 4 more;"):
        check_cohort(Cohort(series))


def test_matrices_that_are_not_symmetric(tmp_path: Path) -> None:
    write_study(tmp_path, kind="matrices")
    spoil(2, put(0.9, 0, 1), "matrices")(tmp_path)
    with pytest.raises(ValueError, match='matrices are not symmetric in sub-002; pass asymmetric="drop_sub'):
        load_cohort(tmp_path)
    assert len(load_cohort(tmp_path, asymmetric="drop_subject")) == 7
    got = load_cohort(tmp_path, asymmetric="symmetrise").matrices
    np.testing.assert_array_equal(got, got.swapaxes(1, 2))
    assert got[2, 0, 1] == pytest.approx((0.9 + np.corrcoef(values(2), rowvar=False)[0, 1]) / 2)


def test_rounding_and_half_matrices_are_made_symmetric() -> None:
    whole = np.corrcoef(values(), rowvar=False).astype(np.float32)
    rounded = whole.copy()
    rounded[0, 1] += 1e-5
    got = check_cohort(Cohort(matrices=np.stack([rounded, np.corrcoef(values(1), rowvar=False)])))
    np.testing.assert_array_equal(got.matrices, got.matrices.swapaxes(1, 2))
    half = Cohort(matrices=np.stack([np.triu(whole), np.tril(whole)]))
    with pytest.raises(ValueError, match="not symmetric"):
        check_cohort(half)
    got = check_cohort(half, asymmetric="symmetrise", duplicates="keep")
    np.testing.assert_allclose(got.matrices, [whole, whole])


def test_checking_changes_nothing_in_the_cohort_given() -> None:
    made = make_cohort(6, 8, n_edges=2, random_state=0)
    made.series[2][:, 3] = 1.0
    made.series[4][0, 0] = np.nan
    before = made.digest()
    got = check_cohort(made, constant_rois="zero", non_finite="zero")
    assert made.digest() == before != got.digest()
    whole = make_cohort(6, 8, n_edges=2, random_state=0)
    assert check_cohort(whole) is whole
    matrices = whole.with_matrices(np.full((6, 8, 8), np.nan))
    with pytest.raises(ValueError, match="NaN"):
        check_cohort(matrices)
    assert np.isnan(matrices.matrices[:, 0, 1:]).all()


def test_dropped_rois_take_their_truth_along() -> None:
    made = make_cohort(6, 8, n_edges=6, site_effect=0.2, n_site_edges=3, random_state=0)
    made.series[2][:, 3] = 1.0
    got = check_cohort(made, constant_rois="drop_roi")
    keep = [i for i in range(8) if i != 3]
    np.testing.assert_array_equal(got.edge_truth, made.edge_truth[np.ix_(keep, keep)])
    np.testing.assert_array_equal(got.site_truth, made.site_truth[np.ix_(keep, keep)])
    np.testing.assert_array_equal(got.subject_truth(0), made.subject_truth(0)[np.ix_(keep, keep)])
    assert got.atlas.names == got.roi_names == [made.roi_names[i] for i in keep]


def test_the_column_of_the_labels_is_guessed_by_the_error(tmp_path: Path) -> None:
    write_study(tmp_path)
    table = tmp_path / "participants.tsv"
    table.write_text(table.read_text().replace("label", "Diagnosis", 1))
    with pytest.raises(ValueError, match='name the column of the labels with label="Diagnosis"'):
        load_cohort(tmp_path)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            {"constant_rois": "ignore"},
            "constant_rois must be one of raise, drop_subject, drop_roi, zero, keep, got",
        ),
        ({"min_length": 1}, "min_length must be a whole number of at least 2"),
        ({"data": "graphs"}, "data must be series or matrices"),
        ({"label": "diagnosis"}, "has no column 'diagnosis', got participant_id, label.*label=None"),
        ({"data": "matrices"}, "has no folder matrices/ with one file"),
    ],
)
def test_wrong_options(tmp_path: Path, wrong: dict, words: str) -> None:
    write_study(tmp_path)
    with pytest.raises(ValueError, match=words):
        load_cohort(tmp_path, **wrong)
    with pytest.raises(TypeError, match="no option 'constant_roi'; did you mean 'constant_rois'"):
        load_cohort(tmp_path, constant_roi="zero")


def test_folders_that_are_no_cohort(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere does not exist; give a cohort's folder"):
        load_cohort(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"no folder series/ or matrices/.*RoiSeries"):
        load_cohort(tmp_path)
    write_study(tmp_path)
    write_study(tmp_path, kind="matrices")
    with pytest.raises(ValueError, match="both series/ and matrices/; pass data="):
        load_cohort(tmp_path)
    assert load_cohort(tmp_path, data="matrices").matrices is not None
    with pytest.raises(ValueError, match=r"neither a folder nor an .npz"):
        load_cohort(tmp_path / "participants.tsv")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "participants.tsv is empty"),
        ("participant_id\tlabel\n", "has a header but no participants"),
        ("name\tlabel\nx\t1\n", "no column participant_id, got name, label; call the column of the ids so"),
        ("participant_id label\nsub-001 has autism\n", "got participant_id label; separate columns by tabs"),
        ("participant_id\tlabel\nn/a\t1\n", "has no participant_id in 1 lines"),
    ],
)
def test_bad_tables(tmp_path: Path, text: str, words: str) -> None:
    write_study(tmp_path)
    (tmp_path / "participants.tsv").write_text(text)
    with pytest.raises(ValueError, match=words):
        load_cohort(tmp_path)


TABLE = "participant_id,label,site,age\nsub-000,a,A,20\nsub-001,b,A,21\nsub-002,a,B,22\nsub-003,b,B,23\n"
RAGGED = {
    "header short": ("site,", "", "line 2: expected 3 cells, one for each name in the header, got 4"),
    "header long": ("age", "age,sex", r"line 2: expected 5 cells.* got 4 \(3 more lines.*correct the header"),
    "first row": ("sub-000,a,A,20", "sub-000,a,A", "line 2: expected 4 cells.* got 3; correct the line"),
    "last row": ("sub-003,b,B,23", "sub-003,b,B,23,x", "line 5: expected 4 cells.* got 5; correct the line"),
    "separators behind rows": ("0\n", "0,\n", "line 2: expected 4 cells.* got 5"),
    "open quote": ("sub-002,a", 'sub-002,"a', "cells cannot be told apart.*close or remove the quotes"),
    "twice": ("site", "age", "has the column age more than once; keep or rename one"),
    "zero bytes": ("sub-002", "sub\0002", "holds zero bytes"),
}


@pytest.mark.parametrize("case", RAGGED)
@pytest.mark.parametrize("separator", [",", "\t", ";", "  "])
def test_tables_whose_rows_and_header_differ_are_refused(tmp_path: Path, case: str, separator: str) -> None:
    old, new, words = RAGGED[case]
    if separator == "  " and case in ("separators behind rows", "open quote"):
        pytest.skip("spaces behind a row separate nothing, and quotes are letters there")
    write_study(tmp_path, n=4)
    (tmp_path / "participants.tsv").write_text(TABLE.replace(",", separator))
    assert load_cohort(tmp_path).y.tolist() == list("abab")
    (tmp_path / "participants.tsv").write_text(TABLE.replace(old, new).replace(",", separator))
    with pytest.raises(ValueError, match=f"participants.tsv,? ?{words}|participants.tsv.*{words}") as error:
        load_cohort(tmp_path)
    assert "\n" not in str(error.value)


def test_the_same_reader_reads_atlases(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,x,y\na,1,2,3\nb,1,2,3\n")  # x would be read as y
    with pytest.raises(ValueError, match=r"a.csv, line 2: expected 3 cells.* got 4"):
        Atlas.from_table(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("name,x,y,z\na,1,2,3\na,1,2,3\n")
    with pytest.raises(ValueError, match=r"a.csv: atlas names must differ"):
        Atlas.from_table(tmp_path / "a.csv")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", ",\n"),  # a separator behind every line, the header's too
        lambda text: text.replace("\n", "\n,,,\n") + ",,\n\n",  # lines of nothing
        lambda text: text.replace("a,A", '"a", "A"').replace("age", '"age"'),
        lambda text: text.replace(",A,", ',"A,\n 1",').replace(",B,", ',"A,\n 1",'),
    ],
)
def test_tables_that_only_look_ragged(tmp_path: Path, change: Callable[[str], str]) -> None:
    write_study(tmp_path, n=4)
    (tmp_path / "participants.tsv").write_text(change(TABLE))
    got = load_cohort(tmp_path)
    assert got.y.tolist() == list("abab") and got.covariates["age"].tolist() == [20, 21, 22, 23]
    assert all("\n" not in site for site in got.sites)


def test_labels_under_two_names_are_refused(tmp_path: Path) -> None:
    write_study(tmp_path, table().assign(Label="x").rename(columns={"label": "LABEL"}))
    with pytest.raises(ValueError, match="has the columns LABEL, Label; choose one of them with label"):
        load_cohort(tmp_path)
    frame = pd.concat([table(), table()[["label"]]], axis=1)
    with pytest.raises(ValueError, match="has the column label more than once"):
        load_cohort(tmp_path, participants=frame)


@pytest.mark.parametrize("column", ["age", "mean_fd", "iq"])
@pytest.mark.parametrize("value", ["inf", "-Infinity", "1e999"])
def test_infinite_covariates_are_refused_by_name(tmp_path: Path, column: str, value: str) -> None:
    frame = table().astype({"age": object}).rename(columns={"age": column})
    frame.loc[3, column] = value
    write_study(tmp_path, frame)
    with pytest.raises(ValueError, match=rf"participants.tsv: {column} of sub-003 is infinite; correct it"):
        load_cohort(tmp_path)


def test_codes_of_missing_values_are_no_classes(tmp_path: Path) -> None:
    for code in ("-9999", "-999", "-9999.0"):
        write_study(tmp_path, table(label=["patient", "control", code, "control"] * 2))
        with pytest.raises(ValueError, match="no label for sub-002, sub-006"):
            load_cohort(tmp_path)
        assert set(load_cohort(tmp_path, missing_labels="drop_subject").y) == {"patient", "control"}
        kept = load_cohort(tmp_path, missing_labels="keep").y
        assert pd.isna(kept[[2, 6]]).all() and not pd.isna(kept[[0, 1]]).any()


def test_a_score_is_no_class() -> None:
    cohort = make_cohort(92, 12, n_edges=3, random_state=0)
    for score in (np.arange(92) % 23, (np.arange(92) % 23).astype(float), (np.arange(92) % 23).astype(str)):
        with pytest.raises(ValueError, match=r"23 different numbers from 0 to 22 with 4 members.*a score"):
            check_cohort(cohort.with_y(score))
        with pytest.raises(
            ValueError, match="a score, not classes; predict it as a score with target, or make classes"
        ):
            class_codes(score)  # what every classifier asks before it is trained
    for classes in (
        [f"c{i % 23}" for i in range(92)],  # words
        np.arange(92) % 9,  # few
        np.repeat(np.arange(23), 4) // 12,
    ):
        assert len(check_cohort(cohort.with_y(classes))) == 92
    large = make_cohort(300, 4, n_edges=1, random_state=0, data="matrices")
    assert len(check_cohort(large.with_y(np.arange(300) % 15))) == 300  # many, with enough members


def test_numbers_too_large_for_a_whole_one_stay_as_they_are() -> None:
    cohort = make_cohort(20, 12, n_edges=3, random_state=0)
    with pytest.raises(ValueError, match="labels must be classes, got the numbers inf"):
        check_cohort(cohort.with_y([0.0, 1.0] * 9 + [0.0, np.inf]))


@pytest.mark.parametrize("wrong", [0, -1, 1.5, float("nan"), "six", True])
def test_numbers_of_rois_that_cannot_be(tmp_path: Path, wrong: Any) -> None:
    write_study(tmp_path)
    with pytest.raises(ValueError, match="n_rois must be a whole number of at least 1, got"):
        load_cohort(tmp_path, n_rois=wrong)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 2.5, "30", None])
def test_lengths_that_cannot_be(tmp_path: Path, wrong: Any) -> None:
    write_study(tmp_path)
    with pytest.raises(ValueError, match="min_length must be a whole number of at least 2, got"):
        load_cohort(tmp_path, min_length=wrong)


def test_a_header_one_name_short_loses_no_region(tmp_path: Path) -> None:
    text = as_text(values(), ",")
    (tmp_path / "a.csv").write_text(",".join(NAMES[1:]) + "\n" + text)
    with pytest.raises(ValueError, match="has 5 names in its header for 6 columns"):
        read_roi_file(tmp_path / "a.csv")


def test_words_of_truth_are_no_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1.5,True\n2.5,False\n")
    with pytest.raises(ValueError, match="line 2: expected 2 numbers, got 'True'"):
        read_roi_file(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("a,b\n1.5,1_0\n2.5,2\n")
    with pytest.raises(ValueError, match="line 2: expected 2 numbers, got '1_0'"):
        read_roi_file(tmp_path / "a.csv")


# --------------------------------------------------------------------- one scan under two ids


def almost(cohort: Cohort, pairs: list[tuple[int, int]]) -> Cohort:
    """The second of each pair has the scan of the first, a little noise and a scale of its own."""
    series = [one.copy() for one in cohort.series]
    for first, second in pairs:
        noise = np.random.default_rng(second).normal(size=series[first].shape)
        series[second] = 3 * series[first] + 0.3 * noise + 100
    return cohort._with(series=series)


def test_near_duplicates_are_named_and_dropped_on_demand(caplog: pytest.LogCaptureFixture) -> None:
    cohort = make_cohort(60, 30, n_edges=3, random_state=0)
    y = np.arange(60) % 2
    alike = almost(cohort.with_y(y), [(2, 9), (20, 40)])
    assert check_cohort(alike) is alike
    assert "sub-0003 ≈ sub-0010 (labels 0 and 1), sub-0021 ≈ sub-0041;" in caplog.text
    with pytest.raises(ValueError, match="near-identical scans under two ids: sub-0003 ≈ sub-0010"):
        check_cohort(alike, near_duplicates="raise")
    gone = {"sub-0003", "sub-0010", "sub-0021", "sub-0041"}
    left = check_cohort(alike, near_duplicates="drop_subject").subjects
    assert len(left) == 56 and gone.isdisjoint(left)
    left = check_cohort(alike, near_duplicates="keep_first").subjects
    assert len(left) == 58 and {"sub-0010", "sub-0041"}.isdisjoint(left)
    caplog.clear()
    assert check_cohort(alike, near_duplicates="keep") is alike and not caplog.text
    scans = alike._with(subjects=np.where(np.arange(60) == 9, "sub-0003", alike.subjects))
    caplog.clear()
    check_cohort(scans, duplicates="keep")
    assert "sub-0021 ≈ sub-0041" in caplog.text and "≈ sub-0003" not in caplog.text  # scans of one subject


@pytest.mark.parametrize("kind", ["series", "matrices"])
@pytest.mark.parametrize("site_effect", [0.0, 1.0])
def test_strangers_are_no_near_duplicates(kind: str, site_effect: float) -> None:
    for seed in range(3):
        cohort = make_cohort(
            60,
            20,
            n_edges=3,
            data=kind,
            site_effect=site_effect,
            n_site_edges=30,
            motion=1,
            random_state=seed,
        )
        assert check_cohort(cohort, near_duplicates="raise") is cohort


# -------------------------------------------------------------------------------- .npz


def test_foreign_npz(tmp_path: Path) -> None:
    stacked = np.concatenate([values(i) for i in range(4)])
    path = tmp_path / "a.npz"
    np.savez(path, series=stacked, lengths=[40, 41, 42, 43], label=[0, 1, 0, 1], dx=list("abab"))
    got = load_cohort(path)
    np.testing.assert_array_equal(got[2].series, values(2))
    assert (
        load_cohort(path, label="dx").y.tolist() == list("abab") and load_cohort(path, label=None).y is None
    )
    np.savez(path, series=np.stack([values(0), values(0) + 1]), label=[0, 1])
    assert load_cohort(path).lengths.tolist() == [40, 40]


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"label": [0, 1]}, "one of the arrays series and matrices, got label"),
        ({"series": np.ones((50, 3))}, "need an array 'lengths'"),
        ({"series": np.ones((50, 3)), "lengths": [20, 20]}, "add up to the 50 time points, got 40"),
        ({"series": np.ones((50, 3)), "lengths": [25, 25], "label": [1]}, "y must have one entry"),
        ({"series": np.array([None])}, r"'series' holds Python objects; save np.concatenate\(series\)"),
        (
            {"series": np.ones((50, 3)), "lengths": [50], "label": [1], "sites": ["A"]},
            "no array 'site' but 'sites'; rename it to 'site'",
        ),
        (
            {"series": np.ones((50, 3)), "lengths": [50], "label": np.array(["a"], object)},
            r"'label' holds Python objects; .*\.astype\(str\)",
        ),
        (
            {"matrices": np.ones((2, 3, 3)), "y": [0, 1]},
            "no array 'label' but 'y'; pass label=.y., or rename",
        ),
    ],
)
def test_bad_npz(tmp_path: Path, arrays: dict, words: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ValueError, match=words) as error:
        load_cohort(tmp_path / "a.npz")
    assert "a.npz" in str(error.value) and "\n" not in str(error.value)


def test_npz_of_bytes_with_age_and_sex(tmp_path: Path) -> None:
    arrays = {
        "label": [b"HC", b"MDD"],
        "site": [b"A", b"B"],
        "roi": [n.encode() for n in NAMES],
        "age": [30, 40],
    }
    np.savez(tmp_path / "a.npz", series=np.stack([values(0), values(1)[:40]]), sex=["M", "n/a"], **arrays)
    got = load_cohort(tmp_path / "a.npz")
    assert got.y.tolist() == ["HC", "MDD"] and got.sites.tolist() == ["A", "B"] and got.roi_names == NAMES
    assert got.covariates["age"].tolist() == [30, 40] and got.covariates["sex"].isna().tolist() == [
        False,
        True,
    ]


def test_checks_reach_npz(tmp_path: Path) -> None:
    series = np.random.default_rng(0).normal(size=(6, 40, 3))
    series[2, :, 1] = 0
    path = tmp_path / "a.npz"
    np.savez(path, series=series, label=[0, 1] * 3)
    with pytest.raises(ValueError, match=r"sub-0003 has 1 constant ROI \(ROI-002\)"):
        load_cohort(path)
    assert len(load_cohort(path, constant_rois="drop_subject")) == 5
    # what was saved as a cohort comes back as it was, unless something is asked for
    saved = Cohort(series, y=[1] * 6).save(tmp_path / "b")
    assert load_cohort(saved).digest() == Cohort(series, y=[1] * 6).digest()
    with pytest.raises(ValueError, match="sub-0003 has 1 constant"):
        load_cohort(saved, non_finite="zero")


# -------------------------------------------------------------------------- derivatives


class Extract:
    """Stands in for RoiSeries: series whose length tells the scan, one subject fails."""

    def __init__(self, fail: str = "") -> None:
        self.fail = fail

    def transform(self, paths: list[str]) -> Cohort:
        self.paths = [Path(path).name for path in paths]
        names = [name.split("_")[0] for name in self.paths]
        kept = [name for name in names if name != self.fail]
        return Cohort([values(int(name[-2:])) for name in kept], subjects=kept)


def write_derivatives(folder: Path, n: int = 4, tails: tuple[str, ...] = ("task-rest_space-MNI",)) -> Path:
    for i in range(n):
        scans = folder / f"sub-{i:02d}" / "ses-1" / "func"
        scans.mkdir(parents=True)
        for tail in tails:
            (scans / f"sub-{i:02d}_{tail}_desc-preproc_bold.nii.gz").touch()
            (scans / f"sub-{i:02d}_{tail}_desc-brain_mask.nii.gz").touch()
        (scans / f"sub-{i:02d}_desc-preproc_bold.nii.gz").touch()
    frame = pd.DataFrame({"participant_id": [f"{i:02d}" for i in range(n)], "label": [0, 1] * (n // 2)})
    frame["site"] = [f"s{i}" for i in range(n)]
    frame.to_csv(folder / "participants.tsv", sep="\t", index=False)
    return folder


def test_derivatives_go_through_the_extractor(tmp_path: Path) -> None:
    write_derivatives(tmp_path)
    with pytest.raises(ValueError, match=r"holds scans, not series; pass extract=RoiSeries\(atlas=…\)"):
        load_cohort(tmp_path)
    extract = Extract(fail="sub-01")
    got = load_cohort(tmp_path, extract=extract)
    assert extract.paths == [f"sub-0{i}_task-rest_space-MNI_desc-preproc_bold.nii.gz" for i in range(4)]
    assert got.subjects.tolist() == ["00", "02", "03"] and got.y.tolist() == [0, 0, 1]
    assert got.sites.tolist() == ["s0", "s2", "s3"] and got.lengths.tolist() == [40, 42, 43]


def test_derivatives_below_their_table(tmp_path: Path) -> None:
    folder = write_derivatives(tmp_path / "derivatives" / "fmriprep")
    (folder / "participants.tsv").rename(tmp_path / "participants.tsv")
    assert len(load_cohort(folder, extract=Extract())) == 4


def test_which_scans(tmp_path: Path) -> None:
    tails = ("task-rest_space-MNI", "task-rest_space-T1w", "task-nback_space-MNI")
    write_derivatives(tmp_path, tails=tails)
    with pytest.raises(ValueError, match=r"scans in 2 spaces \(MNI, T1w\); pass entities=\{'space'"):
        load_cohort(tmp_path, extract=Extract())
    with pytest.raises(ValueError, match=r"more than one file for 00 .*pass entities=\{'task'"):
        load_cohort(tmp_path, extract=Extract(), entities={"space": "MNI"})
    extract = Extract()
    load_cohort(tmp_path, extract=extract, entities={"space": "MNI", "task": "nback"})
    assert all("nback" in name for name in extract.paths)
    with pytest.raises(ValueError, match="no scan with task-motor, only nback, rest"):
        load_cohort(tmp_path, extract=Extract(), entities={"task": "motor"})


def test_scans_to_a_cohort_with_the_real_extractor(tmp_path: Path) -> None:
    import nibabel

    from cignn.connectome import RoiSeries

    labels = np.zeros((6, 6, 6), np.int16)
    labels[:3], labels[3:] = 1, 2
    affine = np.diag([3.0, 3.0, 3.0, 1.0])
    write_derivatives(tmp_path)
    for scan in tmp_path.rglob("*_space-MNI_desc-preproc_bold.nii.gz"):
        seed = int(scan.name[4:6])
        series = np.random.default_rng(seed).normal(100, 5, size=(50, 2)).astype(np.float32)
        nibabel.save(nibabel.Nifti1Image(series.T[np.maximum(labels, 1) - 1], affine), scan)
    atlas = nibabel.Nifti1Image(labels, affine)
    extract = RoiSeries(atlas, names=["front", "back"], drop=0, band=None, confounds=None, t_r=2.0)
    got = load_cohort(tmp_path, extract=extract)
    assert got.subjects.tolist() == ["00", "01", "02", "03"] and got.y.tolist() == [0, 1, 0, 1]
    assert got.roi_names == ["front", "back"] and got.lengths.tolist() == [50] * 4
    truth = np.random.default_rng(3).normal(100, 5, size=(50, 2))
    assert all(np.corrcoef(truth[:, k], got[3].series[:, k])[0, 1] > 0.9 for k in (0, 1))
