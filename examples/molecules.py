"""Molecules: which bonds made a compound active?

``python examples/molecules.py path/to/MUTAG`` reads a data set in the format of the TU Dortmund collection.
Without an argument the script writes a data set of its own. Its molecules are rings of six carbons with one
nitrogen and two oxygens. In active molecules (class 1) the oxygens are bound to the nitrogen, in the others
to the ring. All molecules have the same atoms, so only the oxygens' bonds explain the class.

The pictures need the extra ``molecules`` (rdkit).
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

from cignn import CIGNNClassifier
from cignn.datasets import load_tu
from cignn.report import draw_molecules

SYMBOLS = ("C", "N", "O", "F", "I", "Cl", "Br")  # of MUTAG's node labels 0 to 6


def write_made_up(folder: Path, n: int = 200) -> None:
    """Write n molecules, half of them with a nitro group."""
    rng = np.random.default_rng(0)
    bonds, owner, labels, atoms = [], [], [], []
    for molecule in range(n):
        first = len(atoms) + 1
        active = molecule % 2
        at = rng.permutation(6)[:3]
        ends = (6, 6) if active else at[1:]
        pairs = [(i, (i + 1) % 6) for i in range(6)] + [(at[0], 6), (ends[0], 7), (ends[1], 8)]
        bonds += [f"{first + a}, {first + b}\n{first + b}, {first + a}" for a, b in pairs]
        atoms += [0] * 6 + [1, 2, 2]
        owner += [molecule + 1] * 9
        labels.append(active)
    folder.mkdir(exist_ok=True)
    columns = {"A": bonds, "graph_indicator": owner, "graph_labels": labels, "node_labels": atoms}
    for name, lines in columns.items():
        (folder / f"RINGS_{name}.txt").write_text("\n".join(map(str, lines)) + "\n")


folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("rings")
if len(sys.argv) == 1:
    write_made_up(folder)
graphs = load_tu(folder)
train, test = train_test_split(range(len(graphs)), stratify=graphs.y, random_state=0)
clf = CIGNNClassifier(epochs=40, random_state=0).fit(graphs[train])
largest = np.unique(graphs.y[test], return_counts=True)[1].max() / len(test)
print(f"accuracy {clf.score(graphs[test]):.2f}, share of the largest class {largest:.2f}")

of_class = [np.flatnonzero(graphs.y[test] == label)[:3] for label in clf.classes_[:2]]
shown = graphs[np.asarray(test)[np.concatenate(of_class)]]
predicted = clf.predict(shown)
titles = [f"{i + 1}: class {shown.y[i]}, predicted {predicted[i]}" for i in range(len(shown))]
labels = [int(name.removeprefix("label ")) for name in graphs.feature_names if name.startswith("label ")]
atoms = [[SYMBOLS[labels[k]] for k in shown[i].x[:, : len(labels)].argmax(1)] for i in range(len(shown))]
explained = dict(zip(titles, clf.explain(shown), strict=True))
draw_molecules(explained, dict(zip(titles, atoms, strict=True)), top=2, path="molecules.png")
