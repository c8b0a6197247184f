"""Graph sets to learn from: motif generators with edge truth, BA-2Motifs as published, TU folders."""

from cignn.datasets.ba2motifs import load_ba2motifs
from cignn.datasets.motifs import make_ba2motifs, make_spurious_motifs
from cignn.datasets.tu import load_tu

__all__ = [
    "load_ba2motifs",
    "load_tu",
    "make_ba2motifs",
    "make_spurious_motifs",
]
