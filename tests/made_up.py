"""Data of the kinds the docs speak of, small and made up, laid out as people have them."""

from __future__ import annotations

from pathlib import Path

import nibabel as nib
import numpy as np
import pandas as pd
from scipy.io import savemat

from cignn.datasets import make_ba2motifs, make_cohort
from commands import write_studies

N_VOLUMES = 80


def write_world(folder: Path) -> None:
    """Write my_study, other_study, new_subjects, abide and the other data that the pages name."""
    write_studies(folder)
    write_abide(folder / "abide")
    write_abide(folder / "my" / "data" / "abide")
    write_motifs(folder / "my" / "data" / "ba2motifs.npz")
    write_molecules(folder / "path" / "to" / "MUTAG")
    write_fmriprep(folder / "derivatives" / "fmriprep", folder / "aal.nii.gz", 12)
    write_xcpd(folder / "derivatives" / "xcp_d")
    write_conn(folder / "conn_study")


def write_abide(folder: Path) -> None:
    """Thirty-six subjects of three sites, all series in one file, beside a phenotype table."""
    folder.mkdir(parents=True)
    cohort = make_cohort(36, n_edges=10, effect=0.8, n_sites=3, lengths=(40, 50), random_state=0)
    assert cohort.series is not None and cohort.sites is not None
    number = [50002 + i for i in range(len(cohort))]
    site = np.array(["PITT", "UM_1", "NYU"])[np.unique(cohort.sites, return_inverse=True)[1]]
    np.savez(
        folder / "ts_aal.npz",
        data=np.concatenate(list(cohort.series)),
        lengths=[len(one) for one in cohort.series],
        file_id=[f"{where}_00{i}" for where, i in zip(site, number, strict=True)],
        label_asd=cohort.y,
        site=site,
    )
    table = {"SUB_ID": number, "SITE_ID": site, "DX_GROUP": 2 - np.asarray(cohort.y)}
    sex = np.where(cohort.covariates["sex"] == "M", 1, 2)
    people = {
        "AGE_AT_SCAN": cohort.covariates["age"],
        "SEX": sex,
        "func_mean_fd": cohort.covariates["mean_fd"],
    }
    pd.DataFrame(table | people).to_csv(folder / "phenotypic.csv", index=False)


def write_motifs(path: Path) -> None:
    """Forty-eight graphs in the form of the published BA-2Motifs."""
    graphs = make_ba2motifs(48, random_state=0)
    adj = np.stack([graphs[i].weights for i in range(len(graphs))])
    np.savez(path, adj=adj, x=np.full((*adj.shape[:2], 10), 0.1, np.float32), y=graphs.y)


def write_molecules(folder: Path) -> None:
    """Two triangles, one of them with a tail, in TU format."""
    folder.mkdir(parents=True)
    pairs = [(1, 2), (2, 3), (1, 3), (4, 5), (5, 6), (4, 6), (6, 7)]
    lines = [f"{a}, {b}\n{b}, {a}" for a, b in pairs]
    (folder / "MUTAG_A.txt").write_text("\n".join(lines) + "\n")
    (folder / "MUTAG_graph_indicator.txt").write_text("1\n1\n1\n2\n2\n2\n2\n")
    (folder / "MUTAG_graph_labels.txt").write_text("1\n-1\n")


def write_fmriprep(folder: Path, atlas: Path, n: int = 2) -> None:
    """Scans of four regions as fMRIPrep leaves them, a table of subjects and the label volume."""
    rng = np.random.default_rng(0)
    affine = np.diag([4.0, 4.0, 4.0, 1.0])
    labels = np.zeros((4, 4, 4), np.uint8)
    labels[:2, :2], labels[:2, 2:], labels[2:, :2], labels[2:, 2:] = 1, 2, 3, 4
    nib.save(nib.Nifti1Image(labels, affine), atlas)
    names = [f"sub-{i:02d}" for i in range(1, n + 1)]
    for name in names:
        place = folder / name / "func"
        place.mkdir(parents=True)
        scan = nib.Nifti1Image(rng.normal(1000, 10, (4, 4, 4, N_VOLUMES)).astype(np.float32), affine)
        scan.header.set_xyzt_units("mm", "sec")
        scan.header.set_zooms((4.0, 4.0, 4.0, 2.0))
        nib.save(scan, place / f"{name}_task-rest_space-MNI152NLin6Asym_desc-preproc_bold.nii.gz")
        write_confounds(place / f"{name}_task-rest_desc-confounds_timeseries.tsv", rng)
    table = pd.DataFrame({"participant_id": names, "label": ["patient", "control"] * (n // 2)})
    table.to_csv(folder / "participants.tsv", sep="\t", index=False)


def write_confounds(path: Path, rng: np.random.Generator) -> None:
    """fMRIPrep's table of head motion with its expansion, white matter and CSF."""
    table = pd.DataFrame({"white_matter": rng.normal(size=N_VOLUMES), "csf": rng.normal(size=N_VOLUMES)})
    for name in (f"{kind}_{axis}" for kind in ("trans", "rot") for axis in "xyz"):
        table[name] = rng.normal(size=N_VOLUMES)
        table[f"{name}_derivative1"] = table[name].diff()
        table[f"{name}_power2"] = table[name] ** 2
        table[f"{name}_derivative1_power2"] = table[f"{name}_derivative1"] ** 2
    table["framewise_displacement"] = np.r_[np.nan, rng.uniform(0.05, 0.3, N_VOLUMES - 1)]
    table.to_csv(path, sep="\t", na_rep="n/a", index=False)
    path.with_suffix(".json").write_text("{}")


def write_xcpd(folder: Path) -> None:
    """Two runs of four subjects in two atlases, as xcp_d leaves them."""
    rng = np.random.default_rng(0)
    names = [f"sub-0{i}" for i in range(1, 5)]
    for name in names:
        place = folder / name / "func"
        place.mkdir(parents=True)
        for run, atlas in [(1, "Gordon"), (2, "Gordon"), (1, "Tian"), (2, "Tian")]:
            stem = f"{name}_task-rest_run-{run}_space-MNI152NLin6Asym_seg-{atlas}"
            series = pd.DataFrame(rng.normal(size=(N_VOLUMES, 5)), columns=[f"{atlas}{i}" for i in range(5)])
            series.to_csv(place / f"{stem}_stat-mean_timeseries.tsv", sep="\t", index=False)
            matrix = series.corr().rename_axis("Node")
            matrix.to_csv(place / f"{stem}_stat-pearsoncorrelation_relmat.tsv", sep="\t")
    table = pd.DataFrame({"participant_id": names, "label": ["patient", "control"] * 2})
    table.to_csv(folder / "participants.tsv", sep="\t", index=False)


def write_conn(folder: Path) -> None:
    """Twelve subjects as CONN writes them: cells of tissues, of an atlas and of networks."""
    rng = np.random.default_rng(0)
    (folder / "series").mkdir(parents=True)
    regions = [f"{source}.{i}" for source in ("atlas", "networks") for i in range(6)]
    names = ["Grey Matter", "White Matter", "CSF", *regions]
    for i in range(1, 13):
        cells = np.empty((2, 1, len(names)), object)
        cells[0, 0] = [rng.normal(size=(60, 1)) for _ in names]
        cells[1, 0] = names
        path = folder / "series" / f"ROI_Subject{i:03d}_Condition000.mat"
        savemat(path, {"data": cells[0], "names": cells[1]})
    table = pd.DataFrame({"participant_id": range(1, 13), "label": ["patient", "control"] * 6})
    table.to_csv(folder / "participants.tsv", sep="\t", index=False)
