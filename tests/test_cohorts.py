"""A cohort indexes like an array, keeps its data once and survives a file."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.model_selection import LeaveOneGroupOut, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline

from cignn import Cohort, GraphSet, load_cohort
from cignn.connectome import ComBat, ConnectomeGraphs
from cignn.datasets import Atlas, aal116, check_cohort
from cignn.datasets.atlas import SYSTEMS
from cignn.datasets.series import SeriesStack
from cignn.evaluation import audit, make_protocol
from cignn.evaluation.splits import labels_of

R = 5
TRUTH = np.eye(R, dtype=bool)[::-1] & ~np.eye(R, dtype=bool)


def cohort(kind: str = "series", n: int = 12, **change: object) -> Cohort:
    rng = np.random.default_rng(0)
    matrices = rng.normal(size=(n, R, R))
    data = {
        "series": {"series": [rng.normal(size=(20 + i, R)) for i in range(n)]},
        "matrices": {"matrices": matrices + matrices.swapaxes(1, 2)},
    }[kind]
    rest = {
        "y": np.arange(n) % 2,
        "sites": np.array(["A", "B", "C"])[np.arange(n) % 3],
        "covariates": {"age": rng.uniform(8, 40, n), "sex": np.array(["M", "F"])[np.arange(n) // 2 % 2]},
        "edge_truth": TRUTH,
        "edge_sets": np.stack([TRUTH, ~TRUTH]),
        "carries": np.arange(2 * n).reshape(n, 2) % 3 - 1,
        "induced_truth": ~TRUTH,
    }
    return Cohort(**(data | rest | change))  # type: ignore[arg-type]


KINDS = ["series", "matrices"]


@pytest.mark.parametrize("kind", KINDS)
def test_indexes_like_an_array(kind: str) -> None:
    whole = cohort(kind)
    mask = whole.y == 1
    for index in (mask, np.flatnonzero(mask), np.flatnonzero(mask).tolist(), slice(1, None, 2)):
        part = whole[index]
        assert isinstance(part, Cohort) and len(part) == 6 and part.shape == (6,)
        assert part.digest() == whole[mask].digest()
        for got, i in zip(part, np.flatnonzero(mask), strict=True):
            want = whole[int(i)]
            assert (got.subject, got.y, got.site, got.covariates) == (
                want.subject,
                want.y,
                want.site,
                want.covariates,
            )
            np.testing.assert_array_equal(
                getattr(got, kind.replace("ices", "ix")), getattr(want, kind.replace("ices", "ix"))
            )
    assert whole[[3, 1]].subjects.tolist() == ["sub-0004", "sub-0002"]
    assert whole[mask][[2, 0]].subjects.tolist() == ["sub-0006", "sub-0002"]
    assert len(whole[[]]) == 0 and whole[-1].subject == "sub-0012"
    assert whole[[0], ...].subjects.tolist() == ["sub-0001"]
    with pytest.raises(IndexError):
        whole[12]
    with pytest.raises(IndexError, match="one dimension"):
        whole[np.zeros((2, 2), int)]


def test_series_keep_their_lengths_and_share_memory() -> None:
    whole = cohort()
    assert whole.lengths is not None and whole.lengths.tolist() == list(range(20, 32))
    part = whole[[7, 2]]
    assert [one.shape for one in part.series] == [(27, R), (22, R)]
    assert all(np.shares_memory(one, whole.series.values) for one in part.series)
    assert all(one.dtype == np.float32 for one in part.series)
    stacked = np.random.default_rng(0).normal(size=(4, 30, R)).astype(np.float32)
    same = Cohort(stacked)
    assert np.shares_memory(same.series[2], stacked) and same.lengths.tolist() == [30] * 4
    assert same.digest() == Cohort(list(stacked)).digest()


def test_a_selection_travels_without_the_rest() -> None:
    whole = Cohort(np.random.default_rng(0).normal(size=(100, 50, R)))
    part = whole[[40, 3]]
    sent = pickle.dumps(part)
    assert len(sent) < 20_000
    assert pickle.loads(sent).digest() == part.digest()


class _Mean(BaseEstimator, TransformerMixin):
    def fit(self, cohort: Cohort, y: object = None) -> _Mean:
        return self

    def transform(self, cohort: Cohort) -> np.ndarray:
        return np.array([one.series.mean(0) for one in cohort])


class _Majority(ClassifierMixin, BaseEstimator):
    def fit(self, X: np.ndarray, y: np.ndarray) -> _Majority:
        self.classes_, counts = np.unique(y, return_counts=True)
        self.top_ = self.classes_[counts.argmax()]
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), self.top_)


def test_scikit_learn_splits_it() -> None:
    whole = cohort()
    train, test = train_test_split(whole, test_size=4, stratify=whole.y, random_state=0)
    assert isinstance(train, Cohort) and sorted([*train.subjects, *test.subjects]) == whole.subjects.tolist()
    pipe = make_pipeline(_Mean(), _Majority())
    scores = cross_val_score(pipe, whole, whole.y, groups=whole.sites, cv=LeaveOneGroupOut())
    assert scores.shape == (3,) and (scores == 0.5).all()


def test_what_travels_along() -> None:
    whole = cohort()
    matrices = np.zeros((12, R, R))
    for made in (whole.with_matrices(matrices), whole[:], whole.with_y(whole.y)):
        assert made.subjects.tolist() == whole.subjects.tolist() and made.roi_names == whole.roi_names
        for name in ("edge_truth", "edge_sets", "carries", "induced_truth"):
            np.testing.assert_array_equal(getattr(made, name), getattr(whole, name))
        pd.testing.assert_frame_equal(made.covariates, whole.covariates)
    connected = whole.with_matrices(matrices)
    assert connected.series is None and connected.lengths is None and connected.matrices.dtype == np.float32
    assert whole.with_y(None).y is None
    with pytest.raises(ValueError, match=r"matrices must have shape \(12, 5, 5\), got \(12, 4, 4\)"):
        whole.with_matrices(np.zeros((12, 4, 4)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "y",
    [np.arange(12) % 2, np.array(["ASD", "TD"] * 6), np.array(["x", np.nan, "y"] * 4, object), None],
    ids=["numbers", "words", "missing", "none"],
)
def test_saved_and_loaded_is_the_same(tmp_path: Path, kind: str, y: np.ndarray | None) -> None:
    atlas = Atlas([f"r{i}" for i in range(R)], np.arange(3 * R).reshape(R, 3), ["a"] * R, {"a": "#123456"})
    missing = {"age": [np.nan, *range(11)], "sex": [None, *"MF" * 5, "M"], "left": [True] * 12}
    saved = cohort(kind, y=y, atlas=atlas, covariates=missing)
    path = saved.save(tmp_path / "some.v1")
    assert path.name == "some.v1.npz" and list(tmp_path.iterdir()) == [path]
    loaded = load_cohort(path)
    assert loaded.digest() == saved.digest() and loaded.atlas == atlas
    pd.testing.assert_frame_equal(loaded.covariates, saved.covariates)
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere to write x\.npz into"):
        saved.save(tmp_path / "nowhere" / "x")
    part = saved[[5, 2]]
    assert load_cohort(part.save(tmp_path / "part.npz")).digest() == part.digest()
    for path in (tmp_path / "part.npz", part.save(tmp_path / "folder", mapped=True)):
        read = load_cohort(path)
        np.testing.assert_array_equal(read.edge_sets, saved.edge_sets)
        np.testing.assert_array_equal(read.carries, saved.carries[[5, 2]])
        np.testing.assert_array_equal(read.subject_truth(1), saved.subject_truth(2))


@pytest.mark.parametrize(
    "other",
    [
        lambda c: c[::-1],
        lambda c: c.with_y(1 - c.y),
        lambda c: c.with_matrices(np.zeros((12, R, R))),
        lambda c: cohort(sites=np.array(["A"] * 12)),
        lambda c: cohort(roi_names=list("abcde")),
        lambda c: cohort(edge_truth=None),
        lambda c: cohort(induced_truth=None),
        lambda c: cohort(carries=-c.carries),
        lambda c: cohort(covariates={"age": np.ones(12)}),
        lambda c: Cohort([s + (i == 3) for i, s in enumerate(c.series)], y=c.y),
        lambda c: c._with(zeros_mean_absent=True),
    ],
)
def test_digest_tells_cohorts_apart(other: Callable[[Cohort], Cohort]) -> None:
    assert cohort().digest() == cohort().digest()
    assert other(cohort()).digest() != cohort().digest()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"series": None}, "exactly one of series and matrices"),
        ({"matrices": np.zeros((12, R, R))}, "exactly one of series and matrices"),
        ({"series": None, "matrices": np.zeros((12, R, 4))}, r"matrices must be .*\(12, 5, 4\)"),
        (
            {"series": None, "matrices": [np.zeros((R, R)), np.zeros((4, 4)), np.zeros((R, R))]},
            r"same number of ROIs, most have shape \(5, 5\), matrix 1 has \(4, 4\); use the same atlas",
        ),
        ({"series": None, "matrices": [[["a"]]]}, "matrices must hold real numbers, got <U1"),
        ({"series": [np.zeros((9, R)), np.zeros((9, 4))]}, r"same number of ROIs, got \[4, 5\]"),
        ({"series": [np.zeros(9)]}, r"series 0 must be \(time points, ROIs\)"),
        ({"y": [0, 1]}, r"y must have one entry per subject \(12\)"),
        ({"sites": [0, 1]}, "sites must have one entry"),
        ({"subjects": ["a"]}, "subjects must have one entry"),
        ({"covariates": {"age": [1.0]}}, r"covariates must have one row per subject \(12\), got 1"),
        ({"roi_names": ["a"]}, "expected 5 roi_names, got 1"),
        ({"atlas": aal116()}, "the atlas has 116 regions, the data 5 ROIs"),
        ({"edge_truth": np.triu(np.ones((R, R)), 1)}, "edge_truth must be a symmetric"),
        ({"edge_sets": None}, "edge_sets and carries belong together"),
        ({"edge_sets": TRUTH}, r"edge_sets must be symmetric arrays \(sets, 5, 5\), got shape \(5, 5\)"),
        ({"carries": np.zeros((12, 3))}, r"carries must have shape \(12, 2\), .* got \(12, 3\)"),
        ({"carries": np.full((12, 2), 2)}, "carries must hold -1, 0 and 1, got 2"),
    ],
)
def test_constructor_checks_shapes(change: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        cohort(**change)


SERIES = np.random.default_rng(0).normal(size=(3, 40, 4))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SeriesStack(np.ones((10, 3)), [2.5, 7.5]), "lengths must be whole numbers.* got 2.5, 7.5"),
        (lambda: SeriesStack(np.ones((10, 3)), [np.nan, 10]), "lengths must be whole numbers"),
        (lambda: SeriesStack(np.ones((10, 3)), ["a", "b"]), "lengths must be whole numbers"),
        (lambda: Cohort(SERIES + 1j), "series must hold real numbers, got complex128"),
        (lambda: Cohort(list(SERIES + 1j)), "series 0 must hold real numbers, got complex128"),
        (lambda: Cohort(np.zeros((3, 40, 4), "M8[s]")), "series must hold real numbers, got datetime64"),
        (
            lambda: Cohort(matrices=np.zeros((3, 4, 4), "m8[s]")),
            "matrices must hold real numbers, got timede",
        ),
        (lambda: Cohort(matrices=np.zeros((3, 4, 4)) + 1j), "matrices must hold real numbers, got complex"),
        (lambda: Cohort(np.zeros((3, 40, 0))), "series need at least one ROI"),
        (lambda: Cohort([np.zeros((40, 0))] * 3), "series need at least one ROI"),
        (lambda: Cohort(matrices=np.zeros((3, 0, 0))), r"matrices must be \(subjects, ROIs, ROIs\)"),
        (lambda: Cohort(SERIES, covariates={"age": [20, np.inf, 30]}), "age of sub-0002 is infinite"),
        (lambda: Cohort(SERIES, covariates={"iq": [20, np.nan, -np.inf]}), "iq of sub-0003 is infinite"),
        (lambda: Cohort(SERIES, covariates={"age": [1, 2], "sex": ["M"]}), "columns of equal length"),
        (
            lambda: Cohort(SERIES, covariates=pd.DataFrame(np.ones((3, 2)), columns=["a", "a"])),
            "column a more",
        ),
    ],
)
def test_data_that_are_no_numbers_are_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_numbers_of_python_and_huge_ones_are_numbers() -> None:
    assert Cohort(SERIES.astype(object)).series.values.dtype == np.float32
    assert np.isinf(Cohort(SERIES * 1e300).series.values).all()  # which `check_cohort` names


def test_combat_says_which_covariate_it_leaves_out() -> None:
    matrices = np.stack([np.corrcoef(np.random.default_rng(i).normal(size=(4, 30))) for i in range(24)])
    sites = np.array(["A", "B"] * 12)
    columns = {"age": np.full(24, 30.0), "sex": np.array(["M", "F", "F", "M"] * 6)}
    cohort = Cohort(matrices=matrices, sites=sites, covariates=columns)
    with pytest.warns(UserWarning, match="age does not vary in the training cohort; it is left out"):
        ComBat().fit(cohort)
    ages = np.arange(24.0)
    ages[3] = 1e200  # finite, but no mean and spread
    with (
        pytest.raises(ValueError, match=r"age has no mean and spread \(infinite or huge"),
        np.errstate(all="ignore"),
    ):
        ComBat().fit(cohort._with(covariates=cohort.covariates.assign(age=ages)))
    cohort.covariates["age"] = np.where(np.arange(24) == 3, np.inf, 30.0)  # behind the constructor's back
    with pytest.raises(ValueError, match="age of sub-0004 is infinite"):
        ComBat().fit(cohort)


def test_summary_is_the_demographic_table() -> None:
    made = Cohort(
        np.zeros((6, 3, 2)),
        y=[1, 1, 1, 0, 0, 0],
        sites=list("AABABB"),
        covariates={"age": [10, 12, 14, 20, 30, np.nan], "sex": ["male", "M", "F", "F", None, "f"]},
    )
    table = made.summary({0: "TD", 1: "ASD"})
    assert table.index.tolist() == [(s, g) for s in ("all", "A", "B") for g in ("TD", "ASD")]
    assert table.loc[("all", "ASD")].tolist() == [3, "12.0 ± 2.0", "2/1"]
    assert table.loc[("all", "TD")].tolist() == [3, "25.0 ± 7.1", "0/2"]
    assert table.loc[("B", "ASD")].tolist() == [1, "14.0", "0/1"]
    assert table.loc["all", "subjects"].sum() == table["subjects"].iloc[2:].sum() == 6
    bare = Cohort(np.zeros((4, 3, 2))).summary()
    assert bare.index.tolist() == [("all", "all")] and bare["subjects"].tolist() == [4]


@pytest.mark.parametrize("gone", [None, np.nan, pd.NA, "n/a"])
@pytest.mark.parametrize("where", ["A", 2])
def test_missing_sites_are_named_where_sites_matter(gone: object, where: object) -> None:
    sites = [where, gone, *[where, "B" if where == "A" else 3] * 5]
    odd = cohort("matrices", sites=sites)
    assert odd.sites.tolist() == [str(site) if site is not gone else "n/a" for site in sites]
    assert "3 sites" in repr(odd) and len(odd.summary())
    for use in (ComBat(()).fit, lambda c: make_protocol("loso").splits(labels_of(c), 0)):
        with pytest.raises(
            ValueError, match=r"(everyone's site|site of every subject).* sub-0002.*.*drop the subject"
        ):
            use(odd)
    assert audit(odd) is not None


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_diagonal_that_is_not_finite_is_no_objection(value: float) -> None:
    plain = np.array(cohort("matrices").matrices)
    plain[:, range(R), range(R)] = 0
    given = plain.copy()
    given[:, range(R), range(R)] = value
    odd = cohort("matrices", matrices=given)
    assert check_cohort(odd).digest() == cohort("matrices", matrices=plain).digest()
    assert not np.isfinite(given).all()  # what was given is left alone
    for graphs in (ConnectomeGraphs().fit_transform(odd), GraphSet.from_arrays(given)):
        np.testing.assert_array_equal(np.stack([graph.weights for graph in graphs]), plain)
    given[3, 1, 2] = given[3, 2, 1] = value
    with pytest.raises(ValueError, match="NaN or infinite values in sub-0004; pass non_finite"):
        check_cohort(cohort("matrices", matrices=given))


# ----------------------------------------------------------------------- atlases


def test_an_atlas_in_another_order_goes_with_the_names_of_the_regions() -> None:
    names, turned = list("dbcea"), [4, 1, 2, 0, 3]
    atlas = Atlas(names, np.arange(3 * R).reshape(R, 3), [f"of {name}" for name in names])
    own = [names[i] for i in turned]
    for got in (cohort(roi_names=own).with_atlas(atlas), cohort(roi_names=own, atlas=atlas)):
        assert got.roi_names == got.atlas.names == own
        assert got.atlas.systems.tolist() == [f"of {name}" for name in own]
        np.testing.assert_array_equal(got.atlas.coordinates[:, 0], 3 * np.array(turned))
    spelt = Atlas([name.upper() for name in names], systems=atlas.systems)
    assert cohort(roi_names=own).with_atlas(spelt).atlas.systems.tolist() == [f"of {name}" for name in own]
    with pytest.raises(
        ValueError, match="a is number 1 and number 5, x only in one of them; give both the same"
    ):
        cohort(roi_names=["a", "b", "c", "d", "x"]).with_atlas(atlas)
    plain = cohort().with_atlas(atlas)  # names nobody gave say nothing of the order
    assert plain.roi_names == names and plain.atlas == atlas


def test_aal116() -> None:
    atlas = aal116()
    assert len(atlas) == 116 and atlas.names[0] == "Precentral_L" and atlas.names[-1] == "Vermis_10"
    assert set(atlas.systems) == set(SYSTEMS) == set(atlas.colours) and len(SYSTEMS) == 9
    left = np.array([name.endswith("_L") for name in atlas.names])
    right = np.array([name.endswith("_R") for name in atlas.names])
    assert (atlas.coordinates[left, 0] < 0).all() and (atlas.coordinates[right, 0] > 0).all()
    vermis = np.array(["Vermis" in name or "Cerebe" in name for name in atlas.names])
    assert (atlas.systems[vermis] == "CBL").all() and vermis.sum() == 26


@pytest.mark.parametrize("gap", ["", "n/a", None])
def test_regions_without_a_system_share_one_that_says_so(tmp_path: Path, gap: str | None) -> None:
    table = pd.DataFrame({"name": ["a", "b", "c"], "system": ["VN", gap, gap]})
    table.to_csv(tmp_path / "a.csv", index=False)
    for given in (table, tmp_path / "a.csv"):
        assert Atlas.from_table(given).systems.tolist() == ["VN", "none", "none"]


def test_atlas_from_table_and_parts(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {" Name": ["a", "b", "c"], "x": [1, 2, 3], "y": 0.0, "z": 1.5, "system": ["VN", "q", "q"]}
    )
    table.to_csv(tmp_path / "a.csv", index=False, encoding="utf-8-sig")
    table.to_csv(tmp_path / "a.tsv", index=False, sep="\t")
    atlas = Atlas.from_table(table)
    assert atlas == Atlas.from_table(tmp_path / "a.csv") == Atlas.from_table(str(tmp_path / "a.tsv"))
    assert atlas.colours == {"VN": SYSTEMS["VN"]} and atlas.coordinates[1].tolist() == [2, 0, 1.5]
    for mark, ending in ((";", "csv"), (";", "txt"), (" ", "txt"), ("\t", "txt")):
        table.rename(columns=str.strip).to_csv(tmp_path / f"b.{ending}", index=False, sep=mark)
        assert Atlas.from_table(tmp_path / f"b.{ending}") == atlas
    (tmp_path / "c.csv").write_text("name;x;y;z\na;1,5;2;3\nb;;;\n")
    comma = Atlas.from_table(tmp_path / "c.csv")
    assert comma.coordinates[0].tolist() == [1.5, 2, 3] and np.isnan(comma.coordinates[1]).all()
    (tmp_path / "c.csv").write_text("name,x,y,z\na,1,2,3\nb,1,left,3\n")
    with pytest.raises(ValueError, match=r"c\.csv: y of b is 'left', expected millimetres"):
        Atlas.from_table(tmp_path / "c.csv")
    part = atlas[[2, 0]]
    assert part.names == ["c", "a"] and part.systems.tolist() == ["q", "VN"] and part.coordinates[0, 0] == 3
    assert Atlas.from_table(table[[" Name"]]).coordinates is None
    with pytest.raises(ValueError, match="needs x, y and z, or none"):
        Atlas.from_table(table.drop(columns="z"))
    with pytest.raises(ValueError, match="has no column name"):
        Atlas.from_table(table.drop(columns=" Name"))
    with pytest.raises(ValueError, match="names must differ, got a more than once"):
        Atlas(["a", "b", "a"])


def test_atlas_from_a_label_volume() -> None:
    import nibabel

    volume = np.zeros((6, 6, 6), np.int16)
    volume[0:2, 0, 0] = 7
    volume[3, 3, 1:4] = 2
    affine = np.diag([2.0, 2.0, 2.0, 1.0])
    affine[:3, 3] = (-10, 0, 5)
    atlas = Atlas.from_labels(nibabel.Nifti1Image(volume, affine))
    assert atlas.names == ["label-2", "label-7"]
    np.testing.assert_allclose(atlas.coordinates, [[-4, 6, 9], [-9, 0, 5]])
    assert Atlas.from_labels(nibabel.Nifti1Image(volume, affine), ["u", "v"]).names == ["u", "v"]
    with pytest.raises(ValueError, match="expected 2 names"):
        Atlas.from_labels(nibabel.Nifti1Image(volume, affine), ["u"])
    with pytest.raises(ValueError, match="whole numbers"):
        Atlas.from_labels(nibabel.Nifti1Image(volume / np.float32(3), affine))


@pytest.mark.data
def test_real_label_volume_has_the_tables_centroids(real_data: Callable[[str], Path]) -> None:
    atlas = Atlas.from_labels(real_data("aal116/aal.nii.gz"), aal116().names)
    assert np.abs(atlas.coordinates - aal116().coordinates).max() < 1
