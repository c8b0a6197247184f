"""Cohorts and graph sets to learn from: own data, public data, and generators that know the true edges."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cignn._checks import DataError
    from cignn.datasets.abide import load_abide
    from cignn.datasets.atlas import Atlas, aal116
    from cignn.datasets.cohort import Cohort, Subject
    from cignn.datasets.cohort_checks import check_cohort
    from cignn.datasets.cohort_files import load_cohort
    from cignn.datasets.molecules import mutagenic_groups
    from cignn.datasets.motif_files import load_ba2motifs, load_spmotif
    from cignn.datasets.motifs import make_ba2motifs, make_spurious_motifs
    from cignn.datasets.multi_view import MultiViewCohort
    from cignn.datasets.named_atlases import load_atlas
    from cignn.datasets.planting import plant_edges
    from cignn.datasets.rest_meta_mdd import load_rest_meta_mdd
    from cignn.datasets.simulated import make_cohort
    from cignn.datasets.srpbs import load_srpbs
    from cignn.datasets.tu import load_tu

__all__ = [
    "Atlas",
    "Cohort",
    "DataError",
    "MultiViewCohort",
    "Subject",
    "aal116",
    "check_cohort",
    "load_abide",
    "load_atlas",
    "load_ba2motifs",
    "load_cohort",
    "load_rest_meta_mdd",
    "load_spmotif",
    "load_srpbs",
    "load_tu",
    "make_ba2motifs",
    "make_cohort",
    "make_spurious_motifs",
    "mutagenic_groups",
    "plant_edges",
]

# Names come when they are first asked for: a cohort is read, or refused, without waiting for torch.
_PLACES = {
    "Atlas": "atlas",
    "Cohort": "cohort",
    "DataError": "cohort_checks",
    "MultiViewCohort": "multi_view",
    "Subject": "cohort",
    "aal116": "atlas",
    "check_cohort": "cohort_checks",
    "load_abide": "abide",
    "load_atlas": "named_atlases",
    "load_ba2motifs": "motif_files",
    "load_cohort": "cohort_files",
    "load_rest_meta_mdd": "rest_meta_mdd",
    "load_spmotif": "motif_files",
    "load_srpbs": "srpbs",
    "load_tu": "tu",
    "make_ba2motifs": "motifs",
    "make_cohort": "simulated",
    "make_spurious_motifs": "motifs",
    "mutagenic_groups": "molecules",
    "plant_edges": "planting",
}


def __getattr__(name: str) -> Any:
    if name in _PLACES.values():
        return import_module(f"cignn.datasets.{name}")
    if name not in _PLACES:
        raise AttributeError(f"module 'cignn.datasets' has no attribute {name!r}")
    found = getattr(import_module(f"cignn.datasets.{_PLACES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
