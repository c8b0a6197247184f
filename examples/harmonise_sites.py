"""Harmonise sites with ComBat inside the fold.

In this simulated cohort the brains of patients and controls do not differ. But scanners shift connections,
and most patients come from one site. So a classifier that recognises the scanner is right more often than by
chance. The audit reports this before anything is trained. There are two remedies: test on whole sites that
were left out of the training, or remove the shift of every site with ComBat, fitted on the training subjects
of each fold. Both should bring the score back to chance.
"""

from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cignn.connectome import ComBat, Connectivity, make_connectome_pipeline
from cignn.datasets import make_cohort
from cignn.estimators import GraphVectors
from cignn.evaluation import audit, evaluate, summary

cohort = make_cohort(
    240,
    n_rois=40,
    n_edges=0,  # nothing to find
    n_sites=4,
    site_effect=1.0,
    n_site_edges=80,
    confounded=0.8,  # share of the patients at the first site
    lengths=(100, 140),
    random_state=0,
)
for finding in audit(cohort):
    if finding.severity == "serious":
        print(f"{finding.name}: {finding.message}")

classifier = make_pipeline(GraphVectors(), StandardScaler(), LogisticRegression(max_iter=1000))
fisher = Connectivity(fisher=True)
combat = ComBat(covariates=("age", "sex"), unseen="grand_mean")
methods = {
    "as they are": make_connectome_pipeline(classifier, connectivity=fisher),
    "with ComBat": make_connectome_pipeline(classifier, connectivity=fisher, combat=combat),
}
for protocol, words in {"kfold": "random folds", "loso": "one site left out at a time"}.items():
    results = evaluate(methods, cohort, protocol, verbose=0)
    print(words)
    print(summary(results, ["accuracy", "balanced_accuracy", "roc_auc"]))
