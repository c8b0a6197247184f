"""Draw the pictures of docs/figures.md from simulated data and made-up tables; run it from anywhere.

Made-up methods have letters for names: a picture drawn from invented numbers says nothing of any method.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from PIL import Image

from cignn import Explanations, report
from cignn.connectome import ConnectomeGraphs
from cignn.datasets import make_ba2motifs, make_cohort
from cignn.evaluation import decision_curves
from cignn.evaluation.faithfulness import RemovalCurve

FOLDER = Path(__file__).parent / "images" / "figures"
DPI = 150  # for a page; publish with path="figure.pdf"
METHODS = [f"method {letter}" for letter in "ABCDEFGHI"]
STRENGTHS = [0.0, -2.0, -3.5, -0.5, -1.5, -4.0, -1.0, -3.0, -2.5]  # in no order of the names


def brain_explanations() -> Explanations:
    """Explanations of a simulated cohort in which planted edges weigh more in patients (y = 1)."""
    cohort = make_cohort(40, n_edges=50, data="matrices", random_state=0)
    graphs = ConnectomeGraphs(density=0.3).fit_transform(cohort)
    rng = np.random.default_rng(0)
    weights = []
    for i in range(len(graphs)):
        edges = graphs.edges(i)
        planted = np.asarray(cohort.edge_truth)[tuple(edges.T)]
        height = np.where(planted, 0.6 if graphs.y[i] else 0.35, 0.15)
        weights.append(np.clip(rng.normal(height, 0.15), 0, 1))
    return Explanations(graphs, weights)


def motif_explanations() -> Explanations:
    """Explanations of motif graphs that mostly find the motif."""
    graphs = make_ba2motifs(6, random_state=1)
    rng = np.random.default_rng(1)
    weights = []
    for i in range(len(graphs)):
        true = graphs[i].edge_truth[tuple(graphs.edges(i).T)]
        weights.append(np.clip(rng.normal(np.where(true, 0.85, 0.15), 0.12), 0, 1))
    return Explanations(graphs, weights)


def history() -> pd.DataFrame:
    """A made-up training in two stages."""
    rng = np.random.default_rng(2)
    epoch = np.arange(1, 61)
    second = epoch > 20
    fall = np.exp(-epoch / 15)
    later = np.where(second, np.exp(-(epoch - 20) / 12), np.nan)

    def noisy(values: np.ndarray, size: float) -> np.ndarray:
        return values + rng.normal(0, size, len(epoch))

    return pd.DataFrame(
        {
            "epoch": epoch,
            "stage": np.where(second, "classification", "generative"),
            "features": noisy(14 + 6 * fall, 0.15),
            "adjacency": noisy(12 + 2 * fall, 0.05),
            "kl": noisy(0.5 + 2 * fall, 0.03),
            "independence": noisy(1.2 + 1.5 * fall, 0.05),
            "causal": noisy(-0.3 + 0.25 * fall, 0.008),
            "classification": noisy(0.1 + 0.6 * later, 0.015),
            "validation_accuracy": np.clip(noisy(np.nan_to_num(0.95 - 0.4 * later, nan=0.52), 0.015), 0, 1),
            "validation_loss": noisy(np.nan_to_num(0.2 + 0.5 * later, nan=0.69), 0.012),
        }
    )


def curves() -> pd.DataFrame:
    """Made-up explanation accuracy of five explainers, three seeds each."""
    rng = np.random.default_rng(3)
    losses = zip("ABCDE", (0.4, 0.2, 0.5, 0.35, 0.45), strict=True)
    loss = {f"explainer {letter}": most for letter, most in losses}
    rows = [
        (method, share, np.clip(1 - most * (1 - share) ** 1.4 + rng.normal(0, 0.012), 0, 1))
        for method, most in loss.items()
        for share in np.arange(1, 11) / 10
        for _ in range(3)
    ]
    return pd.DataFrame(rows, columns=["method", "share", "accuracy"])


def runs() -> pd.DataFrame:
    """Made-up accuracies of an ablation, five runs each."""
    rng = np.random.default_rng(4)
    data = {"motifs": 0.90, "cohort 1": 0.64, "cohort 2": 0.68, "cohort 3": 0.79}
    variants = {"variant A": 0.02, "variant B": 0.06, "variant C": 0.0, "variant D": 0.04}
    rows = [
        (d, v, base + gain + rng.normal(0, 0.012))
        for d, base in data.items()
        for v, gain in variants.items()
        for _ in range(5)
    ]
    return pd.DataFrame(rows, columns=["data", "method", "value"])


def sensitivity() -> pd.DataFrame:
    """Made-up accuracies over a ratio, on two data sets without names."""
    rng = np.random.default_rng(5)
    rows = [
        (d, ratio, best - 0.25 * (ratio - 0.8) ** 2 + rng.normal(0, 0.008))
        for d, best in {"cohort 1": 0.70, "cohort 2": 0.73}.items()
        for ratio in (0.2, 0.4, 0.6, 0.8, 0.9)
        for _ in range(3)
    ]
    return pd.DataFrame(rows, columns=["data", "ratio", "value"])


def scores() -> pd.DataFrame:
    """(12, methods) made-up scores, rows data sets × metrics."""
    rng = np.random.default_rng(6)
    return pd.DataFrame(rng.normal(STRENGTHS, 1, (12, len(METHODS))), columns=METHODS)


def predictions() -> pd.DataFrame:
    """Made-up probabilities, one method too sure and one honest."""
    rng = np.random.default_rng(7)
    honest = rng.beta(0.9, 0.9, 600)
    sure = rng.beta(0.5, 0.5, 600)
    parts = {"method A": (sure, 0.5 + 0.6 * (sure - 0.5)), "method B": (honest, honest)}
    return pd.concat(
        [
            pd.DataFrame({"method": name, "probability": p, "y": rng.random(600) < truth})
            for name, (p, truth) in parts.items()
        ]
    )


def out_of_fold() -> pd.DataFrame:
    """Made-up predictions of two methods in five folds."""
    rng = np.random.default_rng(9)
    y = rng.integers(0, 2, 200)
    parts = []
    for method, effect in (("method A", 1.2), ("method B", 0.7)):
        p = 1 / (1 + np.exp(-rng.normal(effect * (2 * y - 1) / 2, 1)))
        columns = {"method": method, "data": "d", "protocol": "kfold", "split": np.arange(200) % 5, "seed": 0}
        columns |= {"subject": np.arange(200), "y_true": y, "y_pred": (p > 0.5).astype(int)}
        parts.append(pd.DataFrame(columns | {"p_0": 1 - p, "p_1": p}))
    return pd.concat(parts, ignore_index=True)


def learning_curve() -> pd.DataFrame:
    """A made-up learning curve with a power law."""
    sizes = np.array([40, 80, 160, 320, 640])
    rows = []
    for method, law in (("method A", (0.78, 1.6, 0.55)), ("method B", (0.70, 1.1, 0.6))):
        a, b, c = law
        measured = a - b * sizes**-c + np.random.default_rng(10).normal(size=5) / 120
        for n, value in zip(sizes, measured, strict=True):
            rows.append((method, "roc_auc", n, value, value - 0.03, value + 0.03, "measured", 0.5))
        for n in np.geomspace(40, 2560, 30):
            width = 0.01 + 0.02 * np.log2(max(n / 640, 1))
            value = a - b * n**-c
            rows.append((method, "roc_auc", n, value, value - width, value + width, "fitted", 0.5))
    names = ["method", "metric", "n", "value", "low", "high", "kind", "chance"]
    return pd.DataFrame(rows, columns=names)


def sites() -> pd.DataFrame:
    """Made-up accuracies at twelve sites, two methods."""
    rng = np.random.default_rng(8)
    sizes = rng.integers(20, 180, 12)
    rows = [
        (f"site-{i + 1:02d}", method, rng.binomial(n, p) / n, n)
        for i, n in enumerate(sizes)
        for method, p in (("method A", 0.66), ("method B", 0.70))
    ]
    return pd.DataFrame(rows, columns=["site", "method", "value", "n"])


def symptoms() -> tuple[np.ndarray, np.ndarray]:
    """Invented observed and predicted scores of 120 subjects."""
    rng = np.random.default_rng(0)
    observed = rng.normal(20, 6, 120)
    return observed, 20 + 0.6 * (observed - 20) + rng.normal(0, 3, 120)


def figures() -> dict[str, Figure]:
    """Every figure of the gallery by its name."""
    from scikit_posthocs import posthoc_nemenyi_friedman

    ex, motifs, table = brain_explanations(), motif_explanations(), scores()
    ill = ex.graphs.y == 1
    patients, controls = ex[ill].mean(), ex[~ill].mean()
    subject = ex[int(np.flatnonzero(ill)[0])]
    p_values = posthoc_nemenyi_friedman(table.to_numpy())
    p_values.index = p_values.columns = pd.Index(METHODS)
    ranks = table.rank(axis=1, ascending=False).mean()
    left = np.arange(11) / 10
    removal = RemovalCurve(
        left, 1 - 0.7 * left**0.6, 0.95 - 0.6 * left**0.6, 1 - 0.7 * left**2, 0.95 - 0.6 * left**2
    )
    shares = report.draw_sensitivity(sensitivity(), setting="ratio", setting_label="K / (K + L)")
    return {
        "connectome": report.draw_connectome(patients, title="Patients"),
        "connectomes": report.draw_connectomes({"Patients": patients, "Controls": controls}, colours="paper"),
        "against_group": report.draw_against_group(subject, patients, titles=("sub-0001", "patients")),
        "connectogram": report.draw_connectogram(patients),
        "connectogram_difference": report.draw_connectogram(patients, other=controls, width=report.COLUMN),
        "system_matrix": report.draw_system_matrix(patients),
        "system_matrix_difference": report.draw_system_matrix(patients, other=controls),
        "graphs": report.draw_graphs(motifs, [f"graph {i}" for i in range(6)], width=report.PAGE),
        "history": report.draw_history(history(), 52),
        "explanation_curves": report.draw_explanation_curves(curves()),
        "removal_curve": report.draw_removal_curve(removal),
        "ablation": report.draw_ablation(runs()),
        "sensitivity": shares,
        "p_values": report.draw_p_values(p_values),
        "critical_difference": report.draw_critical_difference(ranks, len(table)),
        "roc": report.draw_roc(out_of_fold()),
        "confusion": report.draw_confusion(
            out_of_fold().query("method == 'method A'"), class_names={0: "controls", 1: "patients"}
        ),
        "calibration": report.draw_calibration(predictions()),
        "decision_curves": report.draw_decision_curves(decision_curves(out_of_fold())),
        "learning_curve": report.draw_learning_curve(learning_curve()),
        "sites": report.draw_sites(sites()),
        "scores": report.draw_scores(*symptoms(), target="score"),
    }


def main() -> None:
    """Write the pictures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, figure in figures().items():
        picture = BytesIO()
        figure.savefig(picture, format="png", dpi=DPI)
        # a palette makes a third of the size; this one keeps colours that are rare in the picture
        few = (
            Image.open(picture)
            .convert("RGB")
            .quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        )
        few.save(FOLDER / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
