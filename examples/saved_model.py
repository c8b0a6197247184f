"""Save a trained model and use it on new subjects.

A saved model is a folder with ``model.safetensors`` and JSON files. Nothing is pickled, so loading a model
runs no code from it. The steps before the network are saved too: new subjects are given as series or
matrices, and their regions are put into the model's order by name.
"""

from cignn import CIGNNClassifier, load_model, save_model
from cignn.connectome import make_connectome_pipeline
from cignn.datasets import make_cohort

cohort = make_cohort(140, n_rois=30, n_edges=12, effect=0.5, lengths=(100, 140), random_state=0)
training, new = cohort[:120], cohort[120:]

pipe = make_connectome_pipeline(CIGNNClassifier(epochs=15, n_estimators=2, random_state=0))
pipe.fit(training, training.y)
save_model(pipe, "model")

# Later, perhaps on another machine
model = load_model("model")
print(model)
probabilities = model.predict_proba(new)
for subject, row in zip(new.subjects, probabilities, strict=True):
    print(subject, " ".join(f"P({label}) = {p:.2f}" for label, p in zip(model.classes_, row, strict=True)))
print(f"accuracy on {len(new)} new subjects: {model.score(new, new.y):.2f}")

explanation = model.explain(new)[0]
print("top connections of the first new subject:")
print(explanation.top_edges(5).to_string(index=False))
