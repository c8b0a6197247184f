"""Save a trained model and use it on new subjects.

A model is a folder with ``model.safetensors`` and JSON files. Nothing in it is unpickled, so a folder from
somebody else runs no code of theirs. A `CohortClassifier` keeps the steps before the network too: new
subjects enter as series or matrices, and their regions are put into the model's order by name.
"""

from cignn import CIGNNClassifier, load_model
from cignn.datasets import make_cohort
from cignn.estimators import CohortClassifier

cohort = make_cohort(140, n_rois=30, n_edges=12, effect=0.5, lengths=(100, 140), random_state=0)
training, new = cohort[:120], cohort[120:]

model = CohortClassifier.make(CIGNNClassifier(epochs=15, n_estimators=2, random_state=0))
model.fit(training, training.y)
model.save("model")

# Somewhere else, some time later.
model = load_model("model")
print(model)
probabilities = model.predict_proba(new)
for subject, row in zip(new.subjects, probabilities, strict=True):
    print(subject, " ".join(f"P({label}) = {p:.2f}" for label, p in zip(model.classes_, row, strict=True)))
print(f"accuracy on {len(new)} new subjects: {model.score(new, new.y):.2f}")

explanation = model.explain(new)[0]
print("the connections that weigh most in the first new subject:")
print(explanation.top_edges(5).to_string(index=False))
