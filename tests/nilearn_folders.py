"""Atlases as nilearn keeps them on disk, small: its own fetchers read them without a network."""

from __future__ import annotations

from pathlib import Path

import nibabel as nib
import numpy as np
import pandas as pd

AFFINE = np.diag([4.0, 4.0, 4.0, 1.0])
AFFINE[:3, 3] = -20.0  # x = 0 is in the middle of ten voxels


def volume(labels: list[int]) -> nib.Nifti1Image:
    """A column of voxels for each label: even ones left, odd ones right, one step further back each."""
    data = np.zeros((10, len(labels) + 1, 4), np.int32)
    for k, label in enumerate(labels):
        data[1 : 3 if k % 2 == 0 else 1, k] = label
        data[7 : 9 if k % 2 else 7, k] = label
    return nib.Nifti1Image(data, AFFINE)


def centres(n: int) -> np.ndarray:
    """(n, 3) where the labels of `volume` are, in mm."""
    k = np.arange(n)
    return np.stack([np.where(k % 2 == 0, 1.5, 7.5) * 4 - 20, k * 4.0 - 20, np.full(n, 1.5 * 4 - 20)], 1)


def maps(n: int) -> nib.Nifti1Image:
    """n blobs that overlap with their neighbours."""
    grid = np.indices((10, n + 4, 6)).astype(float)
    data = np.zeros((10, n + 4, 6, n), np.float32)
    for k in range(n):
        far = (grid[0] - (2 if k % 2 == 0 else 7)) ** 2 + (grid[1] - k - 2) ** 2 + (grid[2] - 3) ** 2
        data[..., k] = np.where(far <= 5, np.exp(-far / 2), 0)
    return nib.Nifti1Image(data, AFFINE)


def save(image: nib.Nifti1Image, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    nib.save(image, path)


def write_schaefer(folder: Path, n: int = 100, networks: int = 7, mm: int = 1) -> list[str]:
    """schaefer_2018/, whose parcels go through the networks."""
    yeo = ["Vis", "SomMot", "DorsAttn", "SalVentAttn", "Limbic_OFC", "Cont_Par", "Default_PFC"]
    if networks == 17:
        yeo = ["VisCent_ExStr", "SomMotA", "DefaultB_PFCd", "TempPar"]
    names = [f"{networks}Networks_{'LR'[k % 2]}H_{yeo[k % len(yeo)]}_{k // len(yeo) + 1}" for k in range(n)]
    place = folder / "schaefer_2018"
    stem = f"Schaefer2018_{n}Parcels_{networks}Networks_order"
    save(volume(list(range(1, n + 1))), place / f"{stem}_FSLMNI152_{mm}mm.nii.gz")
    lines = [f"{k}\t{name}\t120\t18\t131\t0" for k, name in enumerate(names, 1)]
    (place / f"{stem}.txt").write_text("\n".join(lines) + "\n")
    return names


def write_aal(folder: Path, names: list[str]) -> None:
    """aal_SPM12/, with its labels in the thousands."""
    place = folder / "aal_SPM12" / "aal" / "atlas"
    labels = [2001 + 60 * k for k in range(len(names))]
    save(volume(labels), place / "AAL.nii")
    rows = [
        f"<label><index>{n}</index><name>{name}</name></label>" for n, name in zip(labels, names, strict=True)
    ]
    (place / "AAL.xml").write_text(f"<atlas><data>{''.join(rows)}</data></atlas>")


def write_harvard_oxford(folder: Path) -> list[str]:
    """fsl/, where FSL's own folders are."""
    place = folder / "fsl" / "data" / "atlases"
    names = [f"{side} {name}" for name in ("Frontal Pole", "Insular Cortex") for side in ("Left", "Right")]
    save(volume([1, 2, 3, 4]), place / "HarvardOxford" / "HarvardOxford-cortl-maxprob-thr25-2mm.nii.gz")
    rows = [f'<label index="{k}" x="0" y="0" z="0">{name}</label>' for k, name in enumerate(names)]
    file = place / "HarvardOxford-Cortical-Lateralized.xml"
    file.write_text(f"<atlas><data>{''.join(rows)}</data></atlas>")
    return names


def write_destrieux(folder: Path) -> None:
    """destrieux_2009/, whose table has a label that the volume lacks."""
    place = folder / "destrieux_2009"
    save(volume([1, 3]), place / "destrieux2009_rois_lateralized.nii.gz")
    lines = ["index,name", "0,Background", "1,L G_and_S_frontomargin", "2,L Medial_wall", "3,R S_temporal"]
    (place / "destrieux2009_rois_labels_lateralized.csv").write_text("\n".join(lines) + "\n")
    (place / "destrieux2009.rst").write_text("Destrieux\n")


def write_difumo(folder: Path, n: int = 64) -> None:
    """difumo_atlases/, two of whose components have the same name and one no network."""
    place = folder / "difumo_atlases"
    save(maps(n), place / str(n) / "2mm" / "maps.nii.gz")
    networks = ["Vis", "Default", "No network found", "Cont"]
    table = pd.DataFrame({"Component": range(1, n + 1)})
    table["Difumo_names"] = ["Lingual gyrus", "Lingual gyrus", *(f"Component {k}" for k in range(3, n + 1))]
    table["Yeo_networks7"] = [networks[k % 4] for k in range(n)]
    table["Yeo_networks17"] = "VisCent"
    table.to_csv(place / str(n) / f"labels_{n}_dictionary.csv", index=False)
    (place / "README.md").write_text("DiFuMo\n")


def write_msdl(folder: Path) -> None:
    """msdl_atlas/, which has coordinates and networks of its own."""
    place = folder / "msdl_atlas" / "MSDL_rois"
    save(maps(5), place / "msdl_rois.nii")
    lines = ["x, y, z, name, net name"]
    lines += [f"{k}, {k + 1}, {k + 2}, region {k}, {'DMN' if k < 3 else 'Aud'}" for k in range(5)]
    text = "\n".join(lines).replace(", ", ",")
    (place / "msdl_rois_labels.csv").write_text(text + "\n")
