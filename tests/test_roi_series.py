"""What must hold for series extracted from scans: what was painted comes back, what goes wrong is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pandas as pd
import pytest
from nilearn.maskers import NiftiLabelsMasker

from cignn.connectome import RoiSeries, extraction
from cignn.connectome.extraction import read_table
from cignn.datasets import aal116, load_cohort
from made_up import write_fmriprep

AFFINE = np.diag([4.0, 4.0, 4.0, 1.0])
T_R = 2.0
N_VOLUMES = 130
LABELS = [1, 2, 5, 9]
NOTHING = {"band": None, "detrend": False, "standardise": False, "confounds": None, "drop": 0}


def make_atlas(shape: tuple[int, int, int] = (8, 8, 8)) -> nib.Nifti1Image:
    """Four labels, not numbered through."""
    labels = np.zeros(shape, np.uint8)
    for place, label in zip([(0, 0), (0, 4), (4, 0), (4, 4)], LABELS, strict=True):
        labels[place[0] : place[0] + 4, place[1] : place[1] + 4, 1:7] = label
    return nib.Nifti1Image(labels, AFFINE)


def paint(
    series: np.ndarray,
    atlas: nib.Nifti1Image,
    *,
    t_r: float = T_R,
    noise: float = 0.0,
    unit: str = "sec",
    seed: int = 0,
) -> nib.Nifti1Image:
    """A scan whose voxels carry the series, (volumes, labels), of their label."""
    labels = np.asarray(atlas.dataobj).astype(int)
    rng = np.random.default_rng(seed)
    volume = np.zeros((*labels.shape, len(series)), np.float32)
    for column, label in enumerate(np.unique(labels)[1:]):
        inside = labels == label
        volume[inside] = series[:, column] + rng.normal(0, noise, (inside.sum(), len(series)))
    image = nib.Nifti1Image(volume, atlas.affine)
    image.header.set_xyzt_units("mm", unit)
    image.header.set_zooms((*image.header.get_zooms()[:3], t_r))
    return image


def in_band(n: int, n_series: int, rng: np.random.Generator) -> np.ndarray:
    """(n, n_series) of mean 0 and variance 1 with rhythms between 0.015 and 0.09 Hz."""
    frequency = rng.uniform(0.015, 0.09, (8, n_series))
    phase = rng.uniform(0, 2 * np.pi, (8, n_series))
    time = T_R * np.arange(n)
    series = np.sin(2 * np.pi * frequency * time[:, None, None] + phase).sum(1)
    return (series - series.mean(0)) / series.std(0)


def contaminate(series: np.ndarray, drop: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Add settling first volumes, drift, motion and a 0.2 Hz rhythm; returns the series and the motion."""
    n, n_rois = len(series) + drop, series.shape[1]
    settling = 8 * np.exp(-np.arange(drop) / 3)[:, None]
    truth = np.concatenate([series[:drop] + settling, series])
    motion = np.cumsum(rng.normal(size=(n, 6)), axis=0)
    motion = (motion - motion.mean(0)) / motion.std(0)
    moved = truth + 0.5 * motion @ rng.normal(size=(6, n_rois))
    drift = np.linspace(-2, 2, n)[:, None] * rng.normal(1, 0.5, n_rois)
    rhythm = np.sin(2 * np.pi * 0.2 * T_R * np.arange(n))[:, None]
    return 1000 + 10 * (moved + drift + rhythm), motion


def correlations(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = a - a.mean(0), b - b.mean(0)
    return (a * b).sum(0) / np.sqrt((a**2).sum(0) * (b**2).sum(0))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def study(tmp_path: Path, rng: np.random.Generator) -> pd.DataFrame:
    """Three scans on disk with their motion tables."""
    atlas = make_atlas()
    rows = []
    for i in range(3):
        series, motion = contaminate(in_band(N_VOLUMES - 10, 4, rng), 10, rng)
        path, table = tmp_path / f"sub-{i}_bold.nii.gz", tmp_path / f"rp_{i}.txt"
        nib.save(paint(series, atlas, noise=2.0, seed=i), path)
        np.savetxt(table, motion)
        rows.append({"subject": f"sub-{i}", "path": path, "confounds": table, "age": 20 + i})
    nib.save(atlas, tmp_path / "atlas.nii.gz")
    return pd.DataFrame(rows)


# -------------------------------------------------------------------- recovery


@pytest.mark.medium
@pytest.mark.data
@pytest.mark.parametrize("number", [5, 20])
def test_a_real_series_painted_into_the_aal_atlas_is_recovered(
    real_data: Any, rng: np.random.Generator, number: int
) -> None:
    """Compared with the painted series itself, in each of 116 regions, with the default settings.

    The subject (University of Michigan, 295 volumes at 2 s) was band-passed to 0.01–0.1 Hz when the data
    were released, so no part of the truth lies outside the band. The scan is painted at 5 mm, where every
    label still has voxels, and extracted with the 1 mm atlas.
    """
    with np.load(real_data("abide/ts_aal.npz")) as stored:
        subject = np.flatnonzero(stored["site"] == "UM_1")[number]
        start = stored["lengths"][:subject].sum()
        truth = stored["data"][start : start + stored["lengths"][subject]].astype(float)
    truth = (truth - truth.mean(0)) / truth.std(0)
    path = real_data("aal116/aal.nii.gz")
    atlas = nib.load(path)
    affine = atlas.affine @ np.diag([5, 5, 5, 1])
    coarse = nib.Nifti1Image(np.asarray(atlas.dataobj)[::5, ::5, ::5], affine)
    series, motion = contaminate(truth, 10, rng)
    scan = paint(series, coarse, noise=5.0)

    cohort = RoiSeries(path, names=aal116(), confounds=[motion]).transform([scan])
    assert cohort.roi_names == aal116().names and cohort.series[0].shape == truth.shape
    assert correlations(cohort.series[0], truth).min() >= 0.95
    dirty = RoiSeries(path, names=aal116(), **(NOTHING | {"drop": 10})).transform([scan])
    assert np.median(correlations(dirty.series[0], truth)) < 0.7  # there was something to clean


def test_a_painted_series_is_recovered(rng: np.random.Generator) -> None:
    atlas, truth = make_atlas(), in_band(240, 4, rng)
    series, motion = contaminate(truth, 10, rng)
    extractor = RoiSeries(atlas, confounds=[motion])
    recovered = extractor.fit([]).transform([paint(series, atlas, noise=5.0)]).series[0]
    assert correlations(recovered, truth).min() > 0.97
    np.testing.assert_allclose(recovered.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(recovered.std(0, ddof=1), 1, rtol=1e-4)


@pytest.mark.parametrize("name", sorted(extraction.FILTERS))
def test_each_filter_passes_the_band_and_stops_the_rest(name: str) -> None:
    time = T_R * np.arange(200)
    rhythms = np.stack([np.sin(2 * np.pi * f * time) for f in (0.004, 0.03, 0.08, 0.2)], axis=1)
    settings = NOTHING | {"band": (0.01, 0.1), "filter": name}
    out = RoiSeries(make_atlas(), **settings).transform([paint(100 + rhythms, make_atlas())]).series[0]
    power = out.var(0) / rhythms.var(0)
    assert (power[[1, 2]] > 0.9).all() and (power[[0, 3]] < 0.1).all()


def test_butterworth_is_nilearns_masker(rng: np.random.Generator) -> None:
    series, motion = contaminate(in_band(150, 4, rng), 10, rng)
    scan = paint(series, make_atlas(), noise=2.0)
    ours = RoiSeries(make_atlas(), filter="butterworth", confounds=[motion], smoothing=6).transform([scan])
    masker = NiftiLabelsMasker(
        make_atlas(),
        smoothing_fwhm=6,
        standardize="zscore_sample",
        detrend=True,
        low_pass=0.1,
        high_pass=0.01,
        t_r=T_R,
        reports=False,
    )
    theirs = masker.fit_transform(scan.slicer[..., 10:], confounds=motion[10:])
    np.testing.assert_allclose(ours.series[0], theirs, atol=1e-3)


def test_without_cleaning_the_means_of_the_regions_come_back(rng: np.random.Generator) -> None:
    series = rng.normal(100, 10, (40, 4))
    out = RoiSeries(make_atlas(), **NOTHING).transform([paint(series, make_atlas())])
    np.testing.assert_allclose(out.series[0], series, rtol=1e-5)
    dropped = RoiSeries(make_atlas(), **(NOTHING | {"drop": 7})).transform([paint(series, make_atlas())])
    np.testing.assert_allclose(dropped.series[0], series[7:], rtol=1e-5)


def test_the_repetition_time_is_the_headers_or_is_asked_for(rng: np.random.Generator) -> None:
    series = 100 + in_band(100, 4, rng)
    settings = NOTHING | {"band": (0.01, 0.1)}
    seconds, milliseconds = paint(series, make_atlas()), paint(series, make_atlas(), t_r=2000, unit="msec")
    a, b, c = (
        RoiSeries(make_atlas(), t_r=t_r, **settings).transform([scan]).series[0]
        for scan, t_r in ((seconds, None), (milliseconds, None), (paint(series, make_atlas(), t_r=9), 2.0))
    )
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(a, c)
    untold = paint(series, make_atlas(), t_r=1.0, unit="unknown")
    with pytest.raises(ValueError, match="does not give the repetition time; pass t_r"):
        RoiSeries(make_atlas(), **settings).transform([untold])
    with pytest.raises(ValueError, match=r"not below 0.05 Hz, half the sampling rate at t_r=10 s"):
        RoiSeries(make_atlas(), t_r=10, **settings).transform([seconds])


# -------------------------------------------------------------------- coverage


def test_columns_stay_in_atlas_order_when_regions_are_out_of_view(rng: np.random.Generator) -> None:
    series = rng.normal(100, 10, (40, 4))
    scan = paint(series, make_atlas())
    half = nib.Nifti1Image(
        np.asarray(scan.dataobj)[:, 4:], AFFINE @ [[1, 0, 0, 0], [0, 1, 0, 4], *np.eye(4)[2:]]
    )
    half.header.set_zooms((4, 4, 4, T_R))
    extractor = RoiSeries(make_atlas(), names=list("abcd"), **NOTHING)
    with pytest.warns(UserWarning, match=r"regions without signal(.|\n)*sub-0001: 2 \(a, c\)"):
        out = extractor.transform([half])
    assert out.roi_names == list("abcd") and extractor.missing_ == {"sub-0001": ["a", "c"]}
    np.testing.assert_allclose(out.series[0][:, [1, 3]], series[:, [1, 3]], rtol=1e-5)
    assert (out.series[0][:, [0, 2]] == 0).all()


def test_a_region_without_signal_does_not_become_noise(rng: np.random.Generator) -> None:
    series, motion = contaminate(in_band(100, 4, rng), 10, rng)
    series[:, 2] = 1234.567
    extractor = RoiSeries(make_atlas(), confounds=[motion])
    with pytest.warns(UserWarning, match=r"sub-0001: 1 \(label-5\)"):
        out = extractor.transform([paint(series, make_atlas())])
    assert (out.series[0][:, 2] == 0).all() and (out.series[0].std(0) > 0.9).sum() == 3


def test_a_mask_narrows_the_regions(rng: np.random.Generator) -> None:
    series = rng.normal(100, 10, (40, 4))
    scan = paint(series, make_atlas())
    inside = np.ones((8, 8, 8), np.uint8)
    inside[:2] = 0
    scan.dataobj[:2] = 1e4
    spoilt = RoiSeries(make_atlas(), **NOTHING).transform([scan])
    assert (spoilt.series[0][:, :2] > 1000).all()
    out = RoiSeries(make_atlas(), mask=nib.Nifti1Image(inside, AFFINE), **NOTHING).transform([scan])
    np.testing.assert_allclose(out.series[0], series, rtol=1e-5)


# ------------------------------------------------------------------- confounds


def test_a_frame_brings_subjects_and_confounds(study: pd.DataFrame, tmp_path: Path) -> None:
    extractor = RoiSeries(tmp_path / "atlas.nii.gz")
    cohort = extractor.transform(study)
    assert cohort.subjects.tolist() == ["sub-0", "sub-1", "sub-2"] and extractor.failures_ == {}
    assert cohort.series[0].shape == (120, 4) and cohort.atlas.coordinates.shape == (4, 3)
    tables = [np.loadtxt(path) for path in study["confounds"]]
    listed = RoiSeries(tmp_path / "atlas.nii.gz", confounds=tables).transform(list(study["path"]))
    assert listed.subjects.tolist() == cohort.subjects.tolist()
    for a, b in zip(cohort.series, listed.series, strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.warns(UserWarning, match="no confounds found for 3 subjects.*confounds=None"):
        bare = RoiSeries(tmp_path / "atlas.nii.gz").transform(list(study["path"]))
    assert np.abs(bare.series[0] - cohort.series[0]).max() > 0.1
    accepted = RoiSeries(tmp_path / "atlas.nii.gz", confounds=None).transform(study)
    np.testing.assert_array_equal(accepted.series[0], bare.series[0])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "1 2\n3 4\n5 7\n"),
        ("a.1D", "# 1 2\n1 2\n3 4\n5 7\n"),
        ("a.tsv", "x\ty\n1\tn/a\n3\t4\n5\t7\n"),
        ("a.csv", "x,y\n1,\n3,4\n5,7\n"),
        ("b.csv", "1, 2\n3, 4\n5, 7\n"),
    ],
)
def test_confound_tables_are_read_with_and_without_header(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    first = [1, 4] if name in ("a.tsv", "a.csv") else [1, 2]  # a derivative has no first value
    np.testing.assert_array_equal(read_table(tmp_path / name), [first, [3, 4], [5, 7]])


def make_fmriprep(folder: Path, rng: np.random.Generator, spikes: tuple[int, ...] = ()) -> pd.DataFrame:
    """A scan as fMRIPrep leaves it; returns its confounds table."""
    series, motion = contaminate(in_band(N_VOLUMES - 10, 4, rng), 10, rng)
    stem = folder / "sub-01_task-rest"
    nib.save(paint(series, make_atlas()), f"{stem}_space-MNI152NLin2009cAsym_desc-preproc_bold.nii.gz")
    table = pd.DataFrame(motion, columns=[f"{kind}_{axis}" for kind in ("trans", "rot") for axis in "xyz"])
    for name in list(table):
        table[f"{name}_derivative1"] = table[name].diff()
        table[f"{name}_power2"] = table[name] ** 2
        table[f"{name}_derivative1_power2"] = table[f"{name}_derivative1"] ** 2
    for name in ("white_matter", "csf", *(f"a_comp_cor_{i:02d}" for i in range(60))):
        table[name] = rng.normal(size=len(table))
    table["framewise_displacement"] = np.where(np.isin(np.arange(len(table)), spikes), 3.0, 0.1)
    table["std_dvars"] = 1.0
    table.to_csv(f"{stem}_desc-confounds_timeseries.tsv", sep="\t", na_rep="n/a", index=False)
    Path(f"{stem}_desc-confounds_timeseries.json").write_text("{}")
    return table


def test_fmriprep_confounds_are_found_beside_the_scan(tmp_path: Path, rng: np.random.Generator) -> None:
    table = make_fmriprep(tmp_path, rng)
    scan = next(tmp_path.glob("*bold.nii.gz"))
    found = RoiSeries(make_atlas()).transform([scan])
    assert found.subjects.tolist() == ["sub-01"]
    chosen = [c for c in table if c.startswith(("trans", "rot")) or c in ("white_matter", "csf")]
    assert len(chosen) == 26
    named = RoiSeries(make_atlas(), confounds=[table[chosen]]).transform([scan])
    np.testing.assert_allclose(found.series[0], named.series[0], atol=2e-2)
    # the whole table in the column confounds means the same 26, not all it holds
    whole = pd.DataFrame({"subject": ["a"], "path": [scan], "confounds": [next(tmp_path.glob("*.tsv"))]})
    np.testing.assert_allclose(RoiSeries(make_atlas()).transform(whole).series[0], named.series[0], atol=1e-5)
    few = RoiSeries(make_atlas(), confounds={"strategy": ("motion",), "motion": "basic"}).transform([scan])
    assert np.abs(few.series[0] - found.series[0]).max() > 0.05


def test_head_motion_comes_from_the_confounds(tmp_path: Path, rng: np.random.Generator) -> None:
    table = make_fmriprep(tmp_path, rng, spikes=(0, 20, 21))
    scan = next(tmp_path.glob("*bold.nii.gz"))
    mean = table["framewise_displacement"].mean()
    own = pd.DataFrame({"subject": ["a"], "path": [scan], "confounds": [pd.DataFrame({"FD": [0.2] * 2})]})
    for options in ({}, {"confounds": None}, {"cache": tmp_path / "cache"}, {"cache": tmp_path / "cache"}):
        found = RoiSeries(make_atlas(), **options).transform([scan]).covariates
        assert found["mean_fd"].tolist() == pytest.approx([mean])
    step = RoiSeries(make_atlas(), confounds=None)
    assert step.transform(own).covariates["mean_fd"].tolist() == pytest.approx([0.2])
    bare = RoiSeries(make_atlas(), confounds=None, t_r=2.0).transform([nib.load(scan)])
    assert "mean_fd" not in bare.covariates
    next(tmp_path.glob("*timeseries.tsv")).write_text("not\ta table\n1\n2\t3\t4\n")
    assert "mean_fd" not in step.transform([scan]).covariates


def test_head_motion_of_the_table_goes_before_that_of_the_confounds(tmp_path: Path) -> None:
    write_fmriprep(tmp_path / "derivatives", tmp_path / "atlas.nii.gz")
    step = RoiSeries(tmp_path / "atlas.nii.gz", drop=0)
    found = load_cohort(tmp_path / "derivatives", extract=step).covariates
    assert found["mean_fd"].between(0.05, 0.3).all()
    people = pd.read_csv(tmp_path / "derivatives" / "participants.tsv", sep="\t")
    people.assign(meanFD=[0.7, None], AGE=[20, 30]).to_csv(
        tmp_path / "derivatives" / "participants.tsv", sep="\t", na_rep="n/a", index=False
    )
    told = load_cohort(tmp_path / "derivatives", extract=step).covariates
    assert told["mean_fd"].tolist() == pytest.approx([0.7, found["mean_fd"][1]])
    assert told["age"].tolist() == [20, 30]


@pytest.mark.parametrize("name", sorted(extraction.FILTERS))
def test_scrubbed_volumes_are_left_out(tmp_path: Path, rng: np.random.Generator, name: str) -> None:
    make_fmriprep(tmp_path, rng, spikes=(3, 60, 90))
    scan = next(tmp_path.glob("*bold.nii.gz"))
    scrub = {"strategy": ("motion", "scrub"), "motion": "basic", "scrub": 0, "fd_threshold": 1.0}
    out = RoiSeries(make_atlas(), confounds=scrub, filter=name).transform([scan])
    assert len(out.series[0]) == 118  # the first of the three is among the dropped
    kept = RoiSeries(make_atlas(), confounds={"strategy": ("motion",), "motion": "basic"}, filter=name)
    kept_series = np.delete(kept.transform([scan]).series[0], [50, 80], axis=0)
    assert correlations(out.series[0], kept_series).min() > 0.95


# ------------------------------------------------------- failures, cache, jobs


def test_what_fails_is_reported_and_the_rest_is_kept(study: pd.DataFrame, tmp_path: Path) -> None:
    nib.save(make_atlas(), tmp_path / "flat.nii.gz")
    (tmp_path / "torn.nii.gz").write_bytes(Path(study["path"][0]).read_bytes()[:5000])
    np.savetxt(tmp_path / "short.txt", np.zeros((120, 6)))
    rows = [
        ("gone", tmp_path / "nowhere.nii.gz", None),
        ("flat", tmp_path / "flat.nii.gz", None),
        ("torn", tmp_path / "torn.nii.gz", study["confounds"][0]),
        ("short", study["path"][0], tmp_path / "short.txt"),
    ]
    bad = pd.DataFrame(rows, columns=["subject", "path", "confounds"])
    extractor = RoiSeries(make_atlas())
    with pytest.warns(
        UserWarning, match=r"4 of 7 subjects failed and are left out:(.|\n)*gone: .*does not exist"
    ):
        cohort = extractor.transform(pd.concat([bad, study], ignore_index=True))
    assert cohort.subjects.tolist() == ["sub-0", "sub-1", "sub-2"]
    assert list(extractor.failures_) == ["gone", "flat", "torn", "short"]
    assert (
        dict(zip(cohort.exclusions["subject"], cohort.exclusions["detail"], strict=True))
        == extractor.failures_
    )
    assert "must be 4-D" in extractor.failures_["flat"]
    assert "has 120 rows, the scan 130 volumes" in extractor.failures_["short"]
    with pytest.raises(ValueError, match=r"all 4 subjects failed:(.|\n)*flat: the scan must be 4-D"):
        extractor.transform(bad)


def test_the_cache_knows_what_changed(
    study: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = []
    original = extraction._region_means
    monkeypatch.setattr(extraction, "_region_means", lambda *args: computed.append(1) or original(*args))

    def run(**settings: Any) -> tuple[int, np.ndarray]:
        computed.clear()
        cohort = RoiSeries(make_atlas(), cache=tmp_path / "cache", **settings).transform(study)
        return len(computed), cohort.series.values

    first, series = run()
    again, same = run(verbose=1)
    assert (first, again) == (3, 0)
    np.testing.assert_array_equal(series, same)
    assert run(band=(0.02, 0.08))[0] == 3 and run(filter="butterworth")[0] == 3 and run(t_r=1.9)[0] == 3
    assert run(drop=12)[0] == 3 and run()[0] == 0

    motion = np.loadtxt(study["confounds"][1])
    np.savetxt(study["confounds"][1], motion[::-1])
    assert run()[0] == 1
    np.savetxt(study["confounds"][1], motion)
    assert run()[0] == 0
    nib.save(nib.load(study["path"][1]), study["path"][0])  # another scan under the same name
    assert run()[0] == 1
    for entry in (tmp_path / "cache").iterdir():
        entry.write_bytes(b"damaged")
    assert run()[0] == 3 and run()[0] == 0


def test_two_jobs_give_the_same(study: pd.DataFrame, capsys: pytest.CaptureFixture) -> None:
    one = RoiSeries(make_atlas()).transform(study)
    two = RoiSeries(make_atlas(), n_jobs=2, verbose=1).transform(study)
    np.testing.assert_array_equal(one.series.values, two.series.values)
    assert "extracting series" in capsys.readouterr().err


# ---------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"drop": -1}, "drop must be a whole number of at least 0, got -1"),
        ({"band": (0.1, 0.01)}, "band must be .* with low < high"),
        ({"band": (0, 0.1)}, "band must be .* above 0"),
        ({"filter": "fir"}, "filter must be one of 'cosine', 'butterworth', got 'fir'"),
        ({"t_r": 0}, r"t_r, in seconds, must lie in \(0, inf\), got 0"),
        ({"smoothing": -6}, r"smoothing, in mm, must lie in \(0, inf\), got -6"),
        ({"confounds": "motion"}, "confounds must be 'auto', 'fmriprep', None"),
        ({"names": ["a", "b"]}, "names must name the 4 labels of the atlas, got 2 names"),
        ({"names": aal116()}, "names must name the 4 labels of the atlas, got 116 names"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        RoiSeries(make_atlas(), **settings).fit()


def test_wrong_scans_are_named(study: pd.DataFrame, tmp_path: Path) -> None:
    extractor = RoiSeries(make_atlas())
    with pytest.raises(ValueError, match="must be a list of paths or a frame"):
        extractor.transform(study["path"][0])
    with pytest.raises(ValueError, match="must have the columns path and subject"):
        extractor.transform(study.drop(columns="subject"))
    with pytest.raises(ValueError, match="subject sub-0 has more than one scan"):
        extractor.transform([study["path"][0], study["path"][0]])
    with pytest.raises(ValueError, match="there are no scans"):
        extractor.transform([])
    with pytest.raises(ValueError, match=r"one table per scan \(3\), got 1"):
        RoiSeries(make_atlas(), confounds=[None]).transform(list(study["path"]))
    with pytest.raises(ValueError, match="no fMRIPrep confounds"):
        RoiSeries(make_atlas(), confounds="fmriprep").transform(study)
    with pytest.raises(FileNotFoundError, match=r"atlas .*nowhere.nii does not exist"):
        RoiSeries(tmp_path / "nowhere.nii").transform(study)
    with pytest.raises(ValueError, match="drop=200 leaves too few"):
        RoiSeries(make_atlas(), drop=200).transform(study)
    with pytest.raises(ValueError, match="whole-number labels"):
        RoiSeries(nib.Nifti1Image(np.full((3, 3, 3), 0.5), AFFINE)).fit()
