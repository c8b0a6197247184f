"""ComBat fitted on controls alone, and scans that are not independent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cignn import Cohort, CohortClassifier, load_model
from cignn._arrays import upper_triangle
from cignn.connectome import ComBat
from cignn.datasets import make_cohort
from cignn.estimators import make_estimator


def confounded(n: int = 160, effect: float = 0.8) -> Cohort:
    """Patients most of whom are at one site, and who differ much."""
    sizes = {"n_edges": 10, "effect": effect, "site_effect": 0.5, "n_site_edges": 30, "n_sites": 2}
    return make_cohort(n, 16, data="matrices", confounded=0.85, lengths=(60, 80), random_state=0, **sizes)


def gap(cohort: Cohort) -> float:
    """Mean size of the difference of the classes in the planted connections."""
    values, y = upper_triangle(np.asarray(cohort.matrices)), np.asarray(cohort.y)
    truth = upper_triangle(np.asarray(cohort.edge_truth))
    return float(np.abs(values[y == 1].mean(0) - values[y == 0].mean(0))[truth].mean())


def test_patients_are_not_mistaken_for_their_site() -> None:
    cohort = confounded()
    plain, controls = (ComBat((), fit_on=who).fit_transform(cohort) for who in ("all", "controls"))
    assert gap(controls) > gap(plain) * 1.2
    healthy = controls[np.asarray(controls.y) == 0]
    sites = np.asarray(healthy.sites)
    values = upper_triangle(np.asarray(healthy.matrices))
    means = np.stack([values[sites == site].mean(0) for site in np.unique(sites)])
    raw = upper_triangle(np.asarray(cohort[np.asarray(cohort.y) == 0].matrices))
    before = np.stack([raw[sites == site].mean(0) for site in np.unique(sites)])
    assert np.abs(means[0] - means[1]).mean() < np.abs(before[0] - before[1]).mean() / 2


def test_what_is_learnt_does_not_depend_on_the_patients() -> None:
    cohort = confounded()
    ill = np.asarray(cohort.y) == 1
    other = cohort.with_matrices(np.where(ill[:, None, None], 0.5 * cohort.matrices, cohort.matrices))
    first, second = (ComBat((), fit_on="controls").fit(one) for one in (cohort, other))
    assert np.array_equal(first.shift_, second.shift_) and np.array_equal(first.scale_, second.scale_)
    words = np.where(ill, "MDD", "HC")
    named = ComBat((), fit_on="controls").fit(cohort, words)
    assert np.array_equal(named.shift_, first.shift_)
    turned = ComBat((), fit_on="controls", control="MDD").fit(cohort, words)
    assert not np.allclose(turned.shift_, first.shift_)


def test_a_site_without_enough_controls_is_named() -> None:
    cohort = confounded(60)
    y, site = np.asarray(cohort.y), np.asarray(cohort.sites)
    lonely = cohort[(y == 1) | (site != "site-1")]
    with pytest.raises(ValueError, match=r"needs 3 controls at each site, there are fewer at site-1 \(0\)"):
        ComBat((), fit_on="controls").fit(lonely)
    with pytest.raises(ValueError, match='fit_on="controls" needs labels'):
        ComBat((), fit_on="controls").fit(cohort.with_y(None))
    with pytest.raises(ValueError, match="keep_label=True has no use"):
        ComBat((), fit_on="controls", keep_label=True).fit(cohort)
    with pytest.raises(ValueError, match="fit_on must be"):
        ComBat((), fit_on="patients").fit(cohort)
    with pytest.raises(ValueError, match="no training subject has the label 'HC'"):
        ComBat((), fit_on="controls", control="HC").fit(cohort)


def test_repeated_scans_are_refused_by_name_or_counted_once() -> None:
    cohort = confounded(60)
    twice = cohort[[*range(60), 3, 5]]
    names = f"{cohort.subjects[3]}, {cohort.subjects[5]}"
    with pytest.raises(ValueError, match=f"{names} have several.* repeated="):
        ComBat(()).fit(twice)
    once = ComBat(()).fit(cohort)
    first = ComBat((), repeated="first").fit(twice)
    assert np.array_equal(first.shift_, once.shift_) and len(first.transform(twice)) == 62
    assert len(once.transform(twice)) == 62  # only what is learnt needs independent scans


def test_it_is_saved_with_the_model(tmp_path: Path) -> None:
    cohort = confounded(60)
    step = ComBat((), fit_on="controls", control=np.int64(0), repeated="first")
    model = CohortClassifier.make(make_estimator("linear-svm", random_state=0), combat=step).fit(cohort)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert np.allclose(loaded.predict_proba(cohort), model.predict_proba(cohort))
    assert loaded["combat"].get_params()["fit_on"] == "controls"
