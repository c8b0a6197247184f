"""Harmonise sites with ComBat inside the fold.

In this simulated cohort patients and controls do not differ at all. But scanners shift connections, and most
patients come from one site, so that a classifier can recognise the scanner and be right more often than
chance. The audit says so beforehand. There are two remedies: to leave out whole sites when testing, and to
take the shift of every site out with ComBat, which estimates it on the training subjects of each fold. Both
must bring the score back to chance.
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
