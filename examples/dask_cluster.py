"""Run an evaluation on a Dask cluster.

`evaluate` sends its tasks (one method on one data set, split and seed) to the workers of a Dask cluster. Here
the scheduler and two workers run on this machine. To use a cluster of your own, pass its address. The scores
are the same as without a cluster. Finished tasks are kept in the store: an interrupted script resumes when it
is started again.

The script needs the extra ``cluster`` (``pip install "cignn[cluster]"``). Whoever can reach the scheduler can
run code on the workers. Use ``tcp://`` only in a network that you trust, and TLS elsewhere.
"""

from distributed import LocalCluster

from cignn.datasets import make_cohort
from cignn.evaluation import evaluate, summary


def main() -> None:
    """Evaluate three methods on the workers and print their scores."""
    cohort = make_cohort(90, n_rois=30, n_edges=12, effect=0.5, n_sites=3, random_state=0)
    methods = {"lasso": {}, "linear-svm": {}, "gin": {"epochs": 5}}
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        print("scheduler at", cluster.scheduler_address)
        results = evaluate(
            methods, cohort, "loso", store="cluster_results", scheduler=cluster.scheduler_address, verbose=0
        )
    print(f"{results['key'].nunique()} tasks")
    print(summary(results, ["accuracy", "roc_auc"]))


if __name__ == "__main__":  # workers import this file
    main()
