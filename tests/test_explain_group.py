"""Group explanations: what half-samples say, which reading is chosen, and that noise is not selected."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import FunctionTransformer

from cignn import GraphSet
from cignn.connectome import Deconfound, make_connectome_pipeline
from cignn.datasets import make_cohort
from cignn.estimators import make_estimator
from cignn.explainers import explain_group
from cignn.explainers.half_samples import Work, half_samples, permuted
from cignn.explainers.readings import Modes, Networks, _shrink, choose, overlaps

RUN = {"n_resamples": 8, "n_permutations": 6}


def svm():
    return make_estimator("linear-svm", C=1e-3, random_state=0)


def network(**params):
    return make_estimator("ci-gnn", epochs=2, device="cpu", **params)


@pytest.fixture(scope="module")
def cohort():
    return make_cohort(80, n_rois=12, n_edges=4, effect=0.5, data="matrices", random_state=0)


@pytest.fixture(scope="module")
def group(cohort):
    return explain_group(make_connectome_pipeline(svm()), cohort, **RUN)


def test_planted_connections_lead_the_map_and_are_selected(cohort, group):
    upper = np.triu_indices(12, 1)
    truth = cohort.edge_truth[upper]
    assert roc_auc_score(truth, np.abs(group.map[upper])) > 0.95
    selected = group.matrix("selected")[upper]
    assert selected[truth].sum() >= 3
    assert selected[~truth].sum() <= 2


def test_map_is_symmetric_and_ranks_the_table(group):
    assert_allclose(group.map, group.map.T)
    assert (np.diag(group.map) == 0).all()
    assert (np.diff(np.abs(group.table["value"])) <= 0).all()
    assert group.n_subjects == 80 and group.n_resamples == 8 and group.n_permutations == 6


def test_sign_follows_the_difference_of_the_classes(cohort, group):
    upper = np.triu_indices(12, 1)
    truth = cohort.edge_truth[upper]
    assert (np.sign(group.map[upper][truth]) == np.sign(group.matrix("effect")[upper][truth])).all()


def test_target_turns_the_map_round(cohort, group):
    other = explain_group(make_connectome_pipeline(svm()), cohort, target=0, **RUN)
    assert_allclose(other.map, -group.map, atol=1e-6 * np.abs(group.map).max())
    assert other.classes == (1, 0)


def test_same_seed_gives_the_same_map_and_another_seed_another(cohort, group):
    again = explain_group(make_connectome_pipeline(svm()), cohort, **RUN)
    other = explain_group(make_connectome_pipeline(svm()), cohort, random_state=1, **RUN)
    assert_allclose(again.map, group.map)
    assert not np.allclose(other.map, group.map)


def test_map_depends_on_the_model(cohort, group):
    other = explain_group(make_connectome_pipeline(make_estimator("lasso", C=0.1)), cohort, **RUN)
    assert not np.allclose(other.use, group.use)


def test_estimator_stays_as_it_is(cohort):
    pipe = make_connectome_pipeline(svm())
    explain_group(pipe, cohort, n_resamples=2, n_permutations=0)
    assert not hasattr(pipe[-1], "classes_")


def test_networks_train_one_per_half_sample_on_a_graph_set(cohort):
    graphs = make_connectome_pipeline().fit_transform(cohort)
    found = explain_group(network(n_estimators=3), graphs, n_resamples=4, n_permutations=2)
    assert found.map.shape == (12, 12)
    assert np.isfinite(found.map).all()
    assert found.nuisance.empty  # covariates of graphs are no cohort


def test_idle_terms_are_left_out_only_where_they_are_idle(cohort):
    graphs = make_connectome_pipeline().fit_transform(cohort)
    bare = Work.of(network(), graphs, None, None).classifier
    coupled = Work.of(network(settings={"mask_from": "latents"}), graphs, None, None).classifier
    assert bare.settings["reconstruction"] == 0
    assert dict(coupled.settings) == {"mask_from": "latents"}
    history = bare.fit(graphs).history_
    assert not {"features", "adjacency", "kl", "causal", "independence", "hsic"} & set(history)


@pytest.mark.parametrize("reading", ["use", "pattern", "size"])
def test_reading_can_be_asked_for(cohort, reading):
    found = explain_group(
        make_connectome_pipeline(svm()), cohort, n_resamples=4, n_permutations=0, reading=reading
    )
    assert found.reading == reading
    assert not found.table["selected"].any()  # nothing is tested without permutations


def test_noise_selects_nothing():
    wrong = 0
    for seed in range(4):
        noise = make_cohort(60, n_rois=12, n_edges=0, data="matrices", random_state=seed)
        wrong += explain_group(make_connectome_pipeline(svm()), noise, random_state=seed, **RUN).n_selected
    assert wrong <= 2


def test_labels_that_shape_the_connections_are_permuted_there_too(cohort):
    plain = make_connectome_pipeline(svm(), deconfound=Deconfound(["age", "motion"], "all"))
    within = make_connectome_pipeline(svm(), deconfound=["age", "motion"])
    controls = make_connectome_pipeline(svm(), deconfound=["age", "motion"])
    controls.set_params(deconfound__fit_on="controls")
    assert Work.of(plain, cohort, None, None).steps is None
    assert Work.of(within, cohort, None, None).steps is not None
    assert Work.of(controls, cohort, None, None).steps is not None
    unknown = make_connectome_pipeline(svm())
    unknown.steps.insert(1, ("own", FunctionTransformer()))
    assert Work.of(unknown, cohort, None, None).steps is not None
    found = explain_group(controls, cohort, n_resamples=2, n_permutations=2)
    assert set(found.nuisance["nuisance"]) >= {"motion", "age", "sex", "site"}


def test_halves_are_complementary_and_keep_subjects_together():
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 6, 6))
    subject = np.repeat(np.arange(30), 2)
    y = np.repeat(np.arange(30) % 2, 2)
    graphs = GraphSet.from_arrays(x + x.swapaxes(1, 2), y=y, aligned=True, meta={"subject": subject})
    work = Work.of(svm(), graphs, None, None)
    for permutation in (-1, 0):
        first, second = half_samples(work, 1, permutation, random)
        assert np.intersect1d(subject[first.rows], subject[second.rows]).size == 0
        assert len(first.rows) + len(second.rows) == 60
    labels = permuted(work, random)
    assert (labels[::2] == labels[1::2]).all()
    assert labels.sum() == y.sum() and (labels != y).any()


def test_modes_invert_and_smooth():
    random = np.random.default_rng(0)
    x = random.normal(size=(50, 4)) @ random.normal(size=(4, 4))
    modes = Modes.of(x)
    correlation = np.corrcoef(x, rowvar=False)
    w = random.normal(size=(3, 4))
    assert_allclose(modes.power(w, 1.0), w @ correlation, atol=1e-10)
    assert_allclose(modes.power(modes.power(w, -1.0, 0.5), 1.0, 0.5), w, atol=1e-10)


def test_overlap_counts_signs():
    first = np.zeros(100)
    first[:5] = 3.0
    assert overlaps(np.stack([first, first])) == [5]
    assert overlaps(np.stack([first, -first])) == [-5]


def networks_of(diffuse, random, n=40, e=300):
    """Networks whose coefficients return along ten of thirty strong modes, or in five connections."""
    loadings = random.normal(size=(30, e))
    modes = Modes.of(random.normal(size=(200, 30)) @ loadings + random.normal(size=(200, e)))
    signal = np.zeros(e)
    if diffuse:
        signal += 0.15 * random.normal(size=10) @ loadings[:10]
    else:
        signal[:5] = 3.0
    permutation = np.repeat([-1, *range(10)], [n, *[4] * 10])
    w = random.normal(size=(len(permutation), e)) + np.where(permutation < 0, 1, 0)[:, None] * signal
    return Networks(w, np.abs(w), permutation), modes


def test_sparse_differences_choose_the_use_and_diffuse_ones_the_pattern():
    random = np.random.default_rng(0)
    assert choose(*networks_of(False, random)).reading.name == "use"
    assert choose(*networks_of(True, random)).reading.name == "pattern"


def test_what_comes_back_with_permuted_labels_too_chooses_nothing():
    networks, modes = networks_of(True, np.random.default_rng(0))
    rows = np.r_[np.arange(40), np.tile(np.arange(4), 10)]  # permuted labels give the same networks
    same = Networks(networks.coefficients[rows], networks.sizes[rows], networks.permutation)
    chosen = choose(same, modes)
    assert chosen.reading.name == "use"
    assert "No reading comes back" in chosen.reason


def test_signs_of_sizes_are_those_of_the_use_with_permuted_labels_too():
    chosen = choose(*networks_of(False, np.random.default_rng(0)), "size")
    assert (np.sign(chosen.reading.values) == np.sign(chosen.use.values)).all()
    assert (np.sign(chosen.reading.null) == np.sign(chosen.use.null)).all()


def test_classes_are_plain_words_and_the_second_is_explained(cohort, group):
    words = np.where(cohort.y == 1, "TD", "ASD")
    found = explain_group(make_connectome_pipeline(svm()), cohort, words, **RUN)
    assert found.classes == ("ASD", "TD") and type(found.classes[1]) is str
    assert_allclose(found.map, group.map)


def test_interrupted_networks_make_no_map(cohort, stop):
    graphs = make_connectome_pipeline().fit_transform(cohort)
    stop(1, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        explain_group(network(), graphs, n_resamples=2, n_permutations=0)


def test_permuted_labels_are_read_on_the_graphs_they_shaped(cohort, monkeypatch):
    pipe = make_connectome_pipeline(svm(), deconfound=["age"])
    pipe.set_params(deconfound__fit_on="controls")
    read = []
    monkeypatch.setattr(
        "cignn.explainers.group._explained",
        lambda model, graphs, target: read.append(graphs.digest()) or np.zeros((len(graphs), 66)),
    )
    explain_group(pipe, cohort, n_resamples=2, n_permutations=2)
    own = pipe[:-1].fit_transform(cohort, cohort.y)
    assert read[:2] == [own.digest()] * 2
    assert len(set(read)) == 1 + len(read[2:])  # other graphs in every half-sample of permuted labels


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reading": "all"}, "reading must be"),
        ({"n_resamples": 1}, "n_resamples"),
        ({"target": 7}, "target must be one of"),
        ({"y": np.zeros(80, int)}, "two classes"),
        ({"y": (np.arange(80) < 5).astype(int)}, "needs 8 subjects of every class, class 1 has 5"),
        ({"y": np.arange(80) % 3}, "name the one to explain"),
    ],
)
def test_bad_input_is_named(cohort, change, message):
    with pytest.raises(ValueError, match=message):
        explain_group(make_connectome_pipeline(svm()), cohort, **change)


def test_what_is_no_classifier_of_graphs_is_refused(cohort):
    with pytest.raises(TypeError, match="classifier or regressor of graphs"):
        explain_group(object(), cohort)
    with pytest.raises(TypeError, match="GridSearchCV; fit it and give its best_estimator_"):
        explain_group(make_connectome_pipeline(GridSearchCV(svm(), {"C": [1.0]})), cohort)
    with pytest.raises(TypeError, match="needs a Cohort or a GraphSet, got ndarray"):
        explain_group(svm(), np.zeros((20, 4, 4)))


def test_null_maps_of_few_networks_get_the_spread_of_many():
    random = np.random.default_rng(0)
    shared = random.normal(size=(20, 1, 400))
    noise = random.normal(size=(20, 3, 400))
    opposite = np.stack([noise, -noise], 2).reshape(20, 6, 400)  # halves that err in opposite directions
    groups = list(shared + 3 * opposite)
    null = np.array([group.mean(0) for group in groups])
    assert_allclose(_shrink(groups, null, 100), 1.0, atol=0.02)  # pairs agree: nothing to shrink
    groups = list(shared + 3 * random.normal(size=(20, 6, 400)))
    null = np.array([group.mean(0) for group in groups])
    expected = np.sqrt((1 + 9 / 100) / (1 + 9 / 6))
    assert_allclose(_shrink(groups, null, 100), expected, rtol=0.1)
