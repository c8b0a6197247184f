"""From files to a report: your own cohort.

A study is a folder with ``participants.tsv`` (one line per subject: id, label and, optionally, site, age and
sex) and a folder ``series/`` with one table per subject (rows are time points, columns are regions). The
first part of the script writes such a folder with simulated subjects. With data of your own, start at
`load_cohort`. The script then checks the cohort for confounds, trains a model, scores it and writes an HTML
report.
"""

from pathlib import Path

import pandas as pd
from sklearn.model_selection import train_test_split

from cignn import CIGNNClassifier, load_cohort
from cignn.connectome import make_connectome_pipeline
from cignn.datasets import make_cohort
from cignn.evaluation import audit
from cignn.report import report_of, write_report

study = Path("my_study")
(study / "series").mkdir(parents=True, exist_ok=True)
made_up = make_cohort(100, n_rois=30, n_edges=12, effect=0.5, n_sites=2, lengths=(90, 110), random_state=0)
rows = []
for i, series in enumerate(made_up.series):
    name = f"sub-{i + 1:03d}"
    pd.DataFrame(series).to_csv(study / "series" / f"{name}.tsv", sep="\t", index=False, header=False)
    person = {column: made_up.covariates[column].iloc[i] for column in ("age", "sex")}
    label = "patient" if made_up.y[i] else "control"
    rows.append({"participant_id": name, "label": label, "site": made_up.sites[i], **person})
pd.DataFrame(rows).to_csv(study / "participants.tsv", sep="\t", index=False)

cohort = load_cohort(study)
print(cohort.summary())
print(audit(cohort))  # does the site, age or sex predict the class?

train, test = train_test_split(range(len(cohort)), stratify=cohort.y, random_state=0)
pipe = make_connectome_pipeline(CIGNNClassifier(epochs=15, n_estimators=2, random_state=0))
pipe.fit(cohort[train], cohort.y[train])
print(f"accuracy on {len(test)} test subjects: {pipe.score(cohort[test], cohort.y[test]):.2f}")

data = report_of(pipe, cohort[test], cohort[test], title="My study")
print("open", write_report("report.html", data))
