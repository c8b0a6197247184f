"""Cohorts and graph sets to learn from: own data, public data, and generators that know the true edges."""

from cignn._checks import DataError
from cignn.datasets.abide import load_abide
from cignn.datasets.atlas import Atlas, aal116
from cignn.datasets.cohort import Cohort, Subject
from cignn.datasets.cohort_checks import check_cohort
from cignn.datasets.cohort_files import load_cohort
from cignn.datasets.molecules import mutagenic_groups
from cignn.datasets.motif_files import load_ba2motifs, load_spmotif
from cignn.datasets.motifs import make_ba2motifs, make_spurious_motifs
from cignn.datasets.planting import plant_edges
from cignn.datasets.rest_meta_mdd import load_rest_meta_mdd
from cignn.datasets.simulated import make_cohort
from cignn.datasets.srpbs import load_srpbs
from cignn.datasets.tu import load_tu

__all__ = [
    "Atlas",
    "Cohort",
    "DataError",
    "Subject",
    "aal116",
    "check_cohort",
    "load_abide",
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
