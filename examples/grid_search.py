"""Search settings of CI-GNN with scikit-learn's GridSearchCV.

Settings are searched like other parameters: ``classifier__settings__dropout`` is the dropout of the
pipeline's classifier. Here the kind of connectivity is searched too. The whole pipeline is fitted inside each
inner fold. The test subjects are not part of the search; they are scored once, at the end.
"""

import pandas as pd
from sklearn.model_selection import GridSearchCV, train_test_split

from cignn import CIGNNClassifier
from cignn.connectome import Connectivity, make_connectome_pipeline
from cignn.datasets import make_cohort

cohort = make_cohort(120, n_rois=30, n_edges=12, effect=0.4, lengths=(100, 140), random_state=0)
train, test = train_test_split(range(len(cohort)), stratify=cohort.y, random_state=0)

clf = CIGNNClassifier(epochs=10, n_estimators=1, random_state=0)
pipe = make_connectome_pipeline(clf, connectivity=Connectivity(fisher=True))
grid = {"classifier__settings__dropout": [0.2, 0.8], "connectivity__kind": ["correlation", "partial"]}
search = GridSearchCV(pipe, grid, cv=3, scoring="roc_auc").fit(cohort[train], cohort.y[train])

columns = [f"param_{name}" for name in grid] + ["mean_test_score", "std_test_score"]
print(pd.DataFrame(search.cv_results_)[columns].round(3).to_string(index=False))
print("chosen:", search.best_params_)
print(f"AUC on {len(test)} test subjects: {search.score(cohort[test], cohort.y[test]):.2f}")
print(search.best_estimator_[-1].settings_)
