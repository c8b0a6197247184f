"""Draw the top connections of a group as a ring (connectogram).

The cohort is simulated: it has the 116 regions of the AAL atlas, and 30 connections differ between patients
and controls. The figure shows the 30 connections with the largest mean weight over the test subjects. The
printed lines say how many of these were planted. A plain t-test is shown for comparison: if the means of two
classes differ, it ranks the connections as well as a network does.
"""

import numpy as np
from scipy.stats import ttest_ind
from sklearn.model_selection import train_test_split

from cignn import CIGNNClassifier
from cignn.connectome import Connectivity, make_connectome_pipeline
from cignn.datasets import make_cohort
from cignn.report import draw_connectogram

cohort = make_cohort(160, n_edges=30, effect=0.35, random_state=0)
train, test = train_test_split(range(len(cohort)), stratify=cohort.y, random_state=0)

clf = CIGNNClassifier(epochs=15, n_estimators=2, random_state=0)
pipe = make_connectome_pipeline(clf, connectivity=Connectivity(fisher=True))
pipe.fit(cohort[train], cohort.y[train])
print(f"accuracy on {len(test)} test subjects: {pipe.score(cohort[test], cohort.y[test]):.2f}")

group = pipe[-1].explain(pipe[:-1].transform(cohort[test])).mean()
draw_connectogram(group, top=30, title="Connections that weigh most", path="connectogram.png")

upper = np.triu_indices(cohort.n_rois, k=1)
planted = np.asarray(cohort.edge_truth)[upper]
vectors = np.stack([one[upper] for one in pipe[0].transform(cohort[train]).matrices])
patients = cohort.y[train] == 1
strength = np.abs(ttest_ind(vectors[patients], vectors[~patients]).statistic)
for name, order in {"CI-GNN": group.weights[upper], "t-test": strength}.items():
    found = planted[np.argsort(-order)[:30]].sum()
    print(f"{name}: {found} of its top 30 connections were planted")
