"""Compare explainers with CI-GNN's own explanation and with trivial ones.

Each explainer gives weights to the edges of the same test graphs. CI-GNN explains itself (``built-in``); the
others explain a GIN, a plain graph neural network. There are three scores: the ROC-AUC against the known
edges, the area under the curve of the explanation accuracy (how often the predicted class stays the same if
only the top edges are kept), and the time per graph. An explainer that is no better than ``degree`` or
``random`` explains nothing, however plausible it looks.
"""

import time

import pandas as pd
from sklearn.model_selection import train_test_split

from cignn.datasets import make_ba2motifs
from cignn.estimators import make_estimator
from cignn.evaluation import explanation_accuracy, explanation_roc_auc
from cignn.explainers import make_explainer
from cignn.report import draw_explanation_curves

graphs = make_ba2motifs(500, random_state=0)
train, test = train_test_split(range(len(graphs)), stratify=graphs.y, random_state=0)
gin = make_estimator("gin", epochs=40, random_state=0).fit(graphs[train])
ci_gnn = make_estimator("ci-gnn", epochs=40, random_state=0).fit(graphs[train])
print(f"accuracy: GIN {gin.score(graphs[test]):.2f}, CI-GNN {ci_gnn.score(graphs[test]):.2f}")

compared = {"built-in": ci_gnn, "gradient": gin, "gnn-explainer": gin, "degree": gin, "random": gin}
rows, curves = [], {}
for name, classifier in compared.items():
    explainer = make_explainer(name, random_state=0).fit(classifier, graphs[train])
    start = time.perf_counter()
    ex = explainer.explain(graphs[test])
    seconds = time.perf_counter() - start
    curves[name] = explanation_accuracy(classifier, ex)
    auc = explanation_roc_auc(ex).mean()
    scores = {"ROC-AUC": auc, "area": curves[name].auc, "ms per graph": 1000 * seconds / len(test)}
    rows.append({"explainer": name, **scores})

print(pd.DataFrame(rows).round(2).to_string(index=False))
draw_explanation_curves(curves, path="compare_explainers.png")
