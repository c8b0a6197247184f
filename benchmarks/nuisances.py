"""Does a prediction follow motion that follows the label, and does `Deconfound` help?

    python -m benchmarks.nuisances --seeds 20
    python -m benchmarks.nuisances --seeds 20 --effect 0.15
    python -m benchmarks.nuisances --seeds 20 --permuted
    python -m benchmarks.nuisances --null 2000

Simulated cohorts in which patients move more and motion changes every connection. `audit` fits a linear model
of the label in five folds and tests whether its predictions follow motion beyond the label: as they are, and
with motion regressed out inside the folds in each of `Deconfound`'s ways. Beside that: the AUC of the label,
and how well the t-test of the cleaned connections finds the planted ones. With ``--permuted`` labels say
nothing, and an AUC other than 0.5 would be a leak. ``--null`` draws predictions that know the label alone,
for which p-values must be uniform.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.metrics import roc_auc_score

from cignn import Cohort
from cignn._arrays import upper_triangle
from cignn.connectome import Connectivity, Deconfound
from cignn.datasets import make_cohort
from cignn.evaluation import audit, nuisance_test

WAYS = {
    "none": None,
    **{way: Deconfound(("motion",), way) for way in ("all", "controls", "within_classes")},
    "default": Deconfound(("motion",)),
}
N_EDGES = 20


def cohort_of(seed: int, args: argparse.Namespace) -> Cohort:
    """Patients who move more, and connections that move with them."""
    sizes: dict[str, Any] = {"n_edges": N_EDGES, "lengths": (120, 160), "data": "matrices"}
    motion = {"motion": args.motion, "motion_shift": args.shift}
    cohort = make_cohort(args.subjects, args.rois, effect=args.effect, random_state=seed, **motion, **sizes)
    return cohort.with_y(np.random.default_rng(seed).permutation(cohort.y)) if args.permuted else cohort


def of_seed(seed: int, args: argparse.Namespace) -> list[dict[str, Any]]:
    """One row per way to take motion out."""
    cohort = cohort_of(seed, args)
    rows = []
    for way, step in WAYS.items():
        found = audit(cohort, deconfound=step)
        test, auc = found["prediction → motion | label"], found["AUC within sites"]
        rows.append({"seed": seed, "deconfound": way, "association": test.size, "AUC": auc.size})
        rows[-1] |= {"p": float(test.message.partition("p = ")[2].rstrip(")"))} | edges_found(cohort, step)
    return rows


def edges_found(cohort: Cohort, step: Deconfound | None) -> dict[str, float]:
    """How well |t| between the classes finds the planted connections."""
    clean = Connectivity().fit_transform(cohort)
    if step is not None:
        clean = step.fit_transform(clean, cohort.y)
    values, y = upper_triangle(np.asarray(clean.matrices)), np.asarray(cohort.y)
    size = np.abs(stats.ttest_ind(values[y == 1], values[y == 0]).statistic)
    truth = upper_triangle(np.asarray(cohort.edge_truth))
    return {
        "edges ROC-AUC": float(roc_auc_score(truth, size)),
        "precision@k": float(truth[np.argsort(-size)[: truth.sum()]].mean()),
    }


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Per way: how often p is small, and whether the p-values are uniform (Kolmogorov and Smirnov)."""
    out = []
    for way, some in rows.groupby("deconfound", sort=False):
        p = some["p"].to_numpy()
        line = {
            "deconfound": way,
            "p < 0.01": f"{(p < 0.01).sum()} of {len(p)}",
            "p < 0.05": (p < 0.05).sum(),
        }
        line |= {"median p": np.median(p), "p (uniform)": stats.kstest(p, "uniform").pvalue}
        line |= {"association": some["association"].mean(), "sd": some["association"].std()}
        line |= {"AUC": some["AUC"].mean(), "sd of AUC": some["AUC"].std()}
        out.append(line | some[["edges ROC-AUC", "precision@k"]].mean().to_dict())
    return pd.DataFrame(out)


def null_p_values(n: int, subjects: int = 200) -> pd.DataFrame:
    """p-values where predictions know the label alone, of numbers and categories, two and three classes."""
    out = []
    for classes in (2, 3):
        for kind in ("number", "category"):
            p = []
            for seed in range(n):
                rng = np.random.default_rng(seed)
                y = rng.integers(0, classes, subjects)
                motion = np.exp(0.5 * y + rng.normal(size=subjects))  # skewed, and it follows the label
                nuisance: Any = motion if kind == "number" else np.digitize(motion, [0.8, 1.5, 4]).astype(str)
                scores = np.eye(classes)[y] + rng.standard_t(3, (subjects, classes))
                p.append(nuisance_test(y, scores, nuisance, n_permutations=199, random_state=seed).p_value)
            found = np.array(p)
            line = {"classes": classes, "nuisance": kind, "p < 0.01": (found <= 0.01).mean()}
            line |= {"p < 0.05": (found <= 0.05).mean(), "p < 0.5": (found <= 0.5).mean()}
            out.append(line | {"p (uniform)": stats.kstest(found, "uniform").pvalue})
    return pd.DataFrame(out)


def main() -> None:
    """Run the seeds and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--subjects", type=int, default=400)
    parser.add_argument("--rois", type=int, default=60)
    parser.add_argument("--effect", type=float, default=0.08, help="of planted connections, in Fisher z")
    parser.add_argument("--motion", type=float, default=1.0, help="strength of the artefact")
    parser.add_argument("--shift", type=float, default=0.75, help="standard deviations patients move more")
    parser.add_argument("--permuted", action="store_true", help="permute the labels")
    parser.add_argument("--null", type=int, default=0, metavar="N", help="only draws without an association")
    args = parser.parse_args()
    if args.null:
        print(null_p_values(args.null).round(3).to_string(index=False))
        return
    started = time.perf_counter()
    rows = pd.DataFrame(
        [row for seed in range(args.first_seed, args.first_seed + args.seeds) for row in of_seed(seed, args)]
    )
    print(summary(rows).round(3).to_string(index=False))
    print(f"{args.seeds} seeds in {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
