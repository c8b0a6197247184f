"""Graphs whose causal edges are known: does the explanation find them?

Every BA-2Motifs graph is a random tree with a motif attached to it. The motif, a five-cycle or a house,
determines the class, so its edges are the right explanation. The ROC-AUC measures whether they have larger
weights than the others: 1 is perfect, 0.5 is chance. Precision@k is the share of motif edges among the top k,
where k is their number. Two trivial explanations are shown for comparison: random weights, and weights by the
degree of the nodes. A method that is not above them explains nothing. One run says little: with 300 graphs
instead of 500, three seeds gave ROC-AUCs of 0.79, 0.98 and 0.99, all at an accuracy of 0.98 or more. Try
several seeds.
"""

from sklearn.model_selection import train_test_split

from cignn import CIGNNClassifier
from cignn.datasets import make_ba2motifs
from cignn.evaluation import explanation_roc_auc, precision_at_k
from cignn.explainers import make_explainer
from cignn.report import draw_graphs

graphs = make_ba2motifs(500, random_state=0)
train, test = train_test_split(range(len(graphs)), stratify=graphs.y, random_state=0)

clf = CIGNNClassifier(epochs=40, random_state=0).fit(graphs[train])
print(f"accuracy on {len(test)} test graphs: {clf.score(graphs[test]):.2f}")

explanations = {"CI-GNN": clf.explain(graphs[test])}
for name in ("degree", "random"):
    explainer = make_explainer(name, random_state=0).fit(clf, graphs[train])
    explanations[name] = explainer.explain(graphs[test])

print("explanation    ROC-AUC  precision@k")
for name, ex in explanations.items():
    print(f"{name:12s}   {explanation_roc_auc(ex).mean():7.2f}  {precision_at_k(ex).mean():11.2f}")

print("top edges of the first test graph:")
print(explanations["CI-GNN"][0].top_edges(6).to_string(index=False))

draw_graphs(explanations["CI-GNN"][:6], path="known_edges.png")
