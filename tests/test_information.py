"""Properties of the Gram matrices, Rényi entropies, mutual informations and HSIC."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck
from torch.func import vmap
from torch.utils._python_dispatch import TorchDispatchMode

from cignn.information import (
    bandwidth,
    causal_terms,
    conditional_mutual_information,
    donsker_varadhan,
    gaussian_gram,
    hsic,
    joint_entropy,
    label_gram,
    mutual_information,
    power_trace,
    renyi_entropy,
)

ORDERS = [0.1, 0.5, 1.01, 2, 3.0]


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def draw_labels(*shape: int, classes: int = 3, seed: int = 0) -> Tensor:
    return torch.randint(classes, shape, generator=torch.Generator().manual_seed(seed))


def brute_gram(x: np.ndarray, sigma: float) -> np.ndarray:
    n = len(x)
    gram = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            gram[i, j] = math.exp(-sum((x[i] - x[j]) ** 2) / sigma**2)
    return gram


def brute_entropy(*grams: np.ndarray, order: float) -> float:
    product = np.ones_like(grams[0])
    for gram in grams:
        product = product * gram
    total = 0.0
    for value in np.linalg.eigvalsh(product / np.trace(product)):
        if value > 1e-14:
            total += value**order
    return math.log2(total) / (1 - order)


def brute_bandwidth(x: np.ndarray, neighbours: int) -> float:
    means = []
    for i in range(len(x)):
        others = sorted(float(np.linalg.norm(x[i] - x[j])) for j in range(len(x)) if j != i)
        means.append(np.mean(others[:neighbours]))
    return float(np.mean(means))


def random_variables(n: int, distinct: int, width: float, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Gram matrices of a (with duplicates where distinct < n), b and three classes."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(distinct, 2))[rng.integers(distinct, size=n)]
    b = rng.normal(size=(n, 3)) + a[:, :1]
    y = rng.integers(3, size=n)
    grams = [gaussian_gram(torch.from_numpy(x), width) for x in (a, b)]
    return grams[0], grams[1], label_gram(torch.from_numpy(y), torch.float64)


@pytest.fixture
def variables() -> tuple[Tensor, Tensor, Tensor]:
    """Gram matrices of a, b (dependent on a) and labels (dependent on both), 20 samples."""
    a = draw(20, 4, seed=1)
    b = draw(20, 3, seed=2) + 0.7 * a[:, :3]
    y = (a[:, 0] + b[:, 0] > 0).long() + (a[:, 1] > 1).long()
    return gaussian_gram(a, 2.0), gaussian_gram(b, 1.5), label_gram(y, torch.float64)


# Gram matrices


def test_gaussian_gram_equals_brute_force():
    x = draw(12, 3)
    np.testing.assert_allclose(gaussian_gram(x, 1.7), brute_gram(x.numpy(), 1.7), rtol=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_gaussian_gram_is_symmetric_with_unit_diagonal(offset):
    x = draw(5, 40, 6, dtype=torch.float32) + offset
    gram = gaussian_gram(x)
    assert gram.dtype == torch.float32
    assert torch.equal(gram, gram.mT)
    assert torch.equal(gram.diagonal(dim1=-2, dim2=-1), torch.ones(5, 40))
    assert gram.min() >= 0


def test_gaussian_gram_is_one_between_duplicates():
    x = draw(30, 6, dtype=torch.float32) + 1e3
    gram = gaussian_gram(torch.cat([x, x]))
    assert torch.equal(gram[:30, 30:].diagonal(), torch.ones(30))


@pytest.mark.parametrize("scale", [1e-30, 1e-8, 1e6, 1e30])
def test_gaussian_gram_with_its_own_width_ignores_the_scale(scale):
    x = draw(20, 4, dtype=torch.float32)
    torch.testing.assert_close(gaussian_gram(scale * x), gaussian_gram(x), rtol=1e-4, atol=1e-6)


def test_gaussian_gram_takes_one_width_per_batch():
    x, sigma = draw(3, 8, 2), torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    expected = torch.stack([gaussian_gram(x[i], float(sigma[i])) for i in range(3)])
    torch.testing.assert_close(gaussian_gram(x, sigma), expected)


def test_label_gram_does_not_depend_on_label_values():
    y = draw_labels(4, 15)
    gram = label_gram(y)
    assert torch.equal(gram, label_gram(10 * y))
    assert torch.equal(gram, label_gram(torch.tensor([7, -3, 2])[y]))
    for b in range(4):
        for i in range(15):
            for j in range(15):
                assert gram[b, i, j] == (1.0 if y[b, i] == y[b, j] else 0.0)


def test_label_gram_dtype():
    y = draw_labels(5)
    assert label_gram(y).dtype == torch.float32
    assert label_gram(y, dtype=torch.float64).dtype == torch.float64


@pytest.mark.parametrize(("n", "neighbours"), [(40, 10), (40, 3), (11, 10), (6, 10), (2, 10)])
def test_bandwidth_equals_brute_force_over_nearest_others(n, neighbours):
    x = draw(n, 4) * torch.linspace(0.1, 3, n, dtype=torch.float64)[:, None]
    assert float(bandwidth(x, neighbours)) == pytest.approx(brute_bandwidth(x.numpy(), neighbours), rel=1e-12)


def test_bandwidth_averages_ten_neighbours_by_default():
    x = draw(40, 4)
    assert torch.equal(bandwidth(x), bandwidth(x, neighbours=10))
    torch.testing.assert_close(gaussian_gram(x), gaussian_gram(x, bandwidth(x)))


def test_bandwidth_does_not_depend_on_sample_order():
    # Widths that differ along the samples: a width taken from the first ten of them would change.
    x = draw(50, 3) * torch.linspace(0.1, 5, 50, dtype=torch.float64)[:, None]
    torch.testing.assert_close(bandwidth(x), bandwidth(x.flip(0)), rtol=1e-12, atol=0)
    torch.testing.assert_close(bandwidth(x), bandwidth(torch.cat([x[1::2], x[::2]])), rtol=1e-12, atol=0)


def test_bandwidth_carries_no_gradient():
    x = draw(15, 3).requires_grad_()
    assert not bandwidth(x).requires_grad
    weights = draw(15, 15, seed=1)
    (own,) = torch.autograd.grad((weights * gaussian_gram(x)).sum(), x)
    (fixed,) = torch.autograd.grad((weights * gaussian_gram(x, float(bandwidth(x)))).sum(), x)
    torch.testing.assert_close(own, fixed)


@pytest.mark.parametrize("jitter", [0.0, 1e-7])
def test_bandwidth_of_duplicates_is_the_mean_pairwise_distance(jitter):
    # Two places, twenty samples each: all ten nearest others are duplicates, up to rounding.
    x = torch.zeros(40, 3)
    x[20:] = 5.0
    x = x + jitter * draw(40, 3, dtype=torch.float32)
    expected = math.sqrt(75) * 2 * 20 * 20 / (40 * 39)
    assert float(bandwidth(x)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("x", [torch.full((12, 3), 0.3), torch.ones(1, 3), torch.zeros(2, 5)])
def test_bandwidth_of_constant_samples_is_one(x):
    assert float(bandwidth(x)) == 1.0


@pytest.mark.parametrize("scale", [1e-44, 1e-30, 1e30, 3e38])
def test_bandwidth_is_finite_and_positive_at_the_ends_of_float32(scale):
    x = scale * torch.tensor([[-1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, -1.0, -1.0]])
    width = bandwidth(x)
    assert width.dtype == torch.float32
    assert torch.isfinite(width) and width > 0


# Entropies


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("n", [1, 2, 7, 32])
def test_entropy_of_identical_and_of_far_apart_samples(order, n):
    same = gaussian_gram(torch.full((n, 3), 0.7))
    apart = gaussian_gram(100.0 * torch.arange(n)[:, None], 1.0)
    assert float(renyi_entropy(same, order)) == pytest.approx(0.0, abs=1e-6)
    assert float(renyi_entropy(apart, order)) == pytest.approx(math.log2(n), abs=1e-6)


@pytest.mark.parametrize("order", ORDERS)
def test_entropy_of_balanced_labels_is_log2_of_the_classes(order):
    for classes in (1, 2, 4):
        gram = label_gram(torch.arange(classes).repeat(6), torch.float64)
        assert float(renyi_entropy(gram, order)) == pytest.approx(math.log2(classes), abs=1e-9)


@pytest.mark.parametrize("order", [0.1, 0.2, 0.3, 0.5, 0.9, 1.01, 2, 5, 10])
@pytest.mark.parametrize("n", [2, 12, 60, 300])
def test_entropy_of_labels_is_that_of_their_frequencies(order, n):
    for classes in (2, 3, 5):
        y = draw_labels(n, classes=classes, seed=n + classes)
        shares = y.bincount()[y.unique()].double() / n
        expected = float(shares.pow(order).sum().log2() / (1 - order))
        assert float(renyi_entropy(label_gram(y, torch.float64), order)) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("order", [0.1, 0.3, 1.01, 3.0, 10])
def test_copies_of_samples_change_no_entropy(order):
    x = draw(10, 3)
    once, often = gaussian_gram(x, 1.0), gaussian_gram(x.repeat(30, 1), 1.0)
    torch.testing.assert_close(renyi_entropy(often, order), renyi_entropy(once, order), rtol=0, atol=1e-9)


@pytest.mark.parametrize("order", [0.1, 0.3, 0.5])
def test_gradients_at_low_orders_are_finite_where_the_spectrum_is_deficient(order):
    x = draw(8, 3).repeat(5, 1).requires_grad_()
    gram = gaussian_gram(x, 1.0)
    (gradient,) = torch.autograd.grad(renyi_entropy(gram, order), x)
    assert torch.isfinite(gradient).all() and gradient.abs().sum() > 0


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(1, 24),
    distinct=st.integers(1, 24),
    width=st.floats(0.01, 100),
    order=st.floats(0.3, 4).filter(lambda order: abs(order - 1) > 1e-3),
    seed=st.integers(0, 2**31),
)
def test_entropy_bounds(n, distinct, width, order, seed):
    """0 ≤ H ≤ log2 n and H(a, b) ≥ max(H(a), H(b)) at every order."""
    a, b, _ = random_variables(n, distinct, width, seed)
    h_a, h_b, h_ab = (float(joint_entropy(*grams, order=order)) for grams in ([a], [b], [a, b]))
    for h in (h_a, h_b, h_ab):
        assert -1e-9 <= h <= math.log2(n) + 1e-9
    # At small orders it shows which eigenvalues are taken for rounding.
    tolerance = 1e-6 if order > 1 else 2 * n * (1e-12) ** order / (1 - order) + 1e-6
    assert h_ab >= max(h_a, h_b) - tolerance


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(1, 24),
    distinct=st.integers(1, 24),
    width=st.floats(0.01, 100),
    seed=st.integers(0, 2**31),
)
def test_informations_are_not_negative_in_the_shannon_limit(n, distinct, width, seed):
    """(Strong) subadditivity of the von Neumann entropy; at other orders it can fail."""
    terms = causal_terms(*random_variables(n, distinct, width, seed), 1 + 1e-6, with_mi=True)
    for term in terms:
        assert -1e-4 <= float(term) <= 2 * math.log2(n) + 1e-4


@pytest.mark.parametrize("order", [0.5, 1.01, 3.0])
def test_entropy_bounds_survive_negative_eigenvalues_from_rounding(order):
    noise = 1e-5 * draw(200, 16, 16)
    noise = (noise + noise.mT) * (1 - torch.eye(16, dtype=torch.float64))
    for gram in (torch.ones(16, 16) + noise, torch.eye(16) + noise):
        entropy = renyi_entropy(gram, order)
        assert entropy.min() >= 0 and entropy.max() <= 4


@pytest.mark.parametrize("order", ORDERS)
def test_entropy_ignores_the_trace(order, variables):
    gram = variables[0]
    torch.testing.assert_close(renyi_entropy(17.0 * gram, order), renyi_entropy(gram, order))


@pytest.mark.parametrize("order", [1.01, 1.5, 2, 3.0])
def test_entropies_and_informations_equal_numpy_brute_force(order, variables):
    a, b, y = variables
    h = partial(brute_entropy, order=order)
    na, nb, ny = a.numpy(), b.numpy(), y.numpy()
    pairs = [
        (renyi_entropy(a, order), h(na)),
        (joint_entropy(a, y, order=order), h(na, ny)),
        (joint_entropy(a, b, y, order=order), h(na, nb, ny)),
        (mutual_information(a, b, order), h(na) + h(nb) - h(na, nb)),
        (mutual_information(a, y, order), h(na) + h(ny) - h(na, ny)),
        (
            conditional_mutual_information(a, y, b, order),
            h(na, nb) + h(ny, nb) - h(nb) - h(na, ny, nb),
        ),
    ]
    for ours, theirs in pairs:
        assert float(ours) == pytest.approx(theirs, abs=1e-7)
        assert abs(theirs) > 1e-3


def test_default_order_is_that_of_the_paper(variables):
    a, b, y = variables
    assert torch.equal(renyi_entropy(a), renyi_entropy(a, 1.01))
    assert torch.equal(joint_entropy(a, b), joint_entropy(a, b, order=1.01))
    assert torch.equal(mutual_information(a, b), mutual_information(a, b, 1.01))
    ours, explicit = conditional_mutual_information(a, y, b), conditional_mutual_information(a, y, b, 1.01)
    assert torch.equal(ours, explicit)
    assert torch.equal(causal_terms(a, b, y).cmi, explicit)


def test_order_two_needs_no_eigenvalues_and_equals_their_formula(monkeypatch, variables):
    a, b, y = variables
    expected = brute_entropy(a.numpy(), order=2)
    near = causal_terms(a, b, y, 2 + 1e-7, with_mi=True)
    monkeypatch.setattr(torch.linalg, "eigh", None)
    assert float(renyi_entropy(a, 2)) == pytest.approx(expected, abs=1e-10)
    exact = causal_terms(a, b, y, 2.0, with_mi=True)
    for left, right in zip(exact, near, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-5)


@pytest.mark.parametrize("order", [1 - 1e-5, 1 + 1e-5])
def test_order_near_one_approaches_shannon(order, variables):
    values = np.linalg.eigvalsh(variables[0].numpy() / 20)
    shannon = -sum(v * math.log2(v) for v in values if v > 1e-14)
    assert float(renyi_entropy(variables[0], order)) == pytest.approx(shannon, abs=1e-4)


def test_large_orders_approach_min_entropy(variables):
    largest = np.linalg.eigvalsh(variables[0].numpy() / 20)[-1]
    assert float(renyi_entropy(variables[0], 1e5)) == pytest.approx(-math.log2(largest), abs=1e-3)


# Mutual informations


@pytest.mark.parametrize("order", ORDERS)
def test_mutual_information_is_symmetric(order, variables):
    a, b, y = variables
    torch.testing.assert_close(mutual_information(a, b, order), mutual_information(b, a, order))
    torch.testing.assert_close(
        conditional_mutual_information(a, y, b, order), conditional_mutual_information(y, a, b, order)
    )


@pytest.mark.parametrize("order", ORDERS)
def test_informations_do_not_depend_on_sample_order(order, variables):
    shuffle = torch.randperm(20, generator=torch.Generator().manual_seed(0))
    shuffled = [gram[shuffle][:, shuffle] for gram in variables]
    before, after = (causal_terms(*grams, order, with_mi=True) for grams in (variables, shuffled))
    for left, right in zip(before, after, strict=True):
        torch.testing.assert_close(left, right)


def test_shuffling_one_variable_alone_loses_information():
    a = draw(40, 2)
    noise = draw(40, 2, seed=1)
    gram, other = gaussian_gram(a, 1.0), gaussian_gram(a + 0.1 * noise, 1.0)
    shuffle = torch.randperm(40, generator=torch.Generator().manual_seed(0))
    related = mutual_information(gram, other)
    assert related > mutual_information(gram, other[shuffle][:, shuffle]) + 0.3


def test_information_of_a_label_about_itself(variables):
    _, b, y = variables
    torch.testing.assert_close(mutual_information(y, y), renyi_entropy(y))
    zero = torch.zeros((), dtype=torch.float64)
    torch.testing.assert_close(conditional_mutual_information(b, y, y), zero, rtol=0, atol=1e-9)
    torch.testing.assert_close(mutual_information(b, torch.ones_like(b)), zero, rtol=0, atol=1e-6)


@pytest.mark.parametrize("with_mi", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_causal_terms_equal_the_separate_functions(order, with_mi, variables):
    a, b, y = variables
    terms = causal_terms(a, b, y, order, with_mi=with_mi)
    torch.testing.assert_close(terms.independence, mutual_information(a, b, order))
    torch.testing.assert_close(terms.cmi, conditional_mutual_information(a, y, b, order))
    if with_mi:
        torch.testing.assert_close(terms.mi, mutual_information(a, y, order))
    else:
        assert terms.mi is None


def test_one_eigenvalue_call_each(monkeypatch, variables):
    a, b, y = variables
    spectra = []
    original = torch.linalg.eigh

    def counted(matrices: Tensor) -> tuple[Tensor, Tensor]:
        spectra.append(len(matrices))
        return original(matrices)

    monkeypatch.setattr(torch.linalg, "eigh", counted)
    causal_terms(a, b, y)
    assert spectra == [5]
    causal_terms(a, b, y, with_mi=True)
    assert spectra == [5, 7]
    mutual_information(a, b)
    conditional_mutual_information(a, y, b)
    assert spectra == [5, 7, 3, 4]


@pytest.mark.parametrize("order", ORDERS)
def test_batched_equals_loop(order):
    a, b, y = draw(2, 3, 9, 4), draw(2, 3, 9, 2, seed=1), draw_labels(9)
    ga, gb, gy = gaussian_gram(a), gaussian_gram(b), label_gram(y)  # gy: one for all, float32
    terms = causal_terms(ga, gb, gy, order, with_mi=True)
    assert terms.cmi.shape == (2, 3)
    for i in range(2):
        for j in range(3):
            ka, kb = gaussian_gram(a[i, j]), gaussian_gram(b[i, j])
            torch.testing.assert_close(ga[i, j], ka)
            torch.testing.assert_close(hsic(ga, gb)[i, j], hsic(ka, kb))
            torch.testing.assert_close(renyi_entropy(ga, order)[i, j], renyi_entropy(ka, order))
            for left, right in zip(terms, causal_terms(ka, kb, gy, order, with_mi=True), strict=True):
                torch.testing.assert_close(left[i, j], right)


def test_results_have_the_dtype_of_the_inputs():
    for dtype in (torch.float32, torch.float64):
        a, b = gaussian_gram(draw(6, 2, dtype=dtype)), gaussian_gram(draw(6, 3, dtype=dtype))
        y = label_gram(draw_labels(6))
        results = [*causal_terms(a, b, y, with_mi=True), renyi_entropy(a), joint_entropy(a, b), hsic(a, b)]
        assert {result.dtype for result in results} == {dtype}


# Gradients and numbers


@pytest.mark.parametrize("order", ORDERS)
def test_gradients(order):
    # Few close samples: no eigenvalue so small that finite differences would take it for rounding.
    a, b = draw(6, 3).requires_grad_(), draw(6, 2, seed=1).requires_grad_()
    y = label_gram(torch.tensor([0, 1, 0, 2, 1, 0]), torch.float64)
    gram = partial(gaussian_gram, sigma=1.3)
    assert gradcheck(lambda a: renyi_entropy(gram(a), order), (a,))
    assert gradcheck(lambda a, b: mutual_information(gram(a), gram(b), order), (a, b))
    assert gradcheck(lambda a, b: conditional_mutual_information(gram(a), y, gram(b), order), (a, b))
    assert gradcheck(lambda a, b: tuple(causal_terms(gram(a), gram(b), y, order, with_mi=True)), (a, b))
    assert gradcheck(lambda a, b: hsic(gram(a), gram(b)), (a, b))


def awkward_batches(n: int, d: int, count: int, seed: int) -> Tensor:
    """float32 (count, n, d): random, duplicates, constant, outliers, dead features; scales 1e-8 to 1e6."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, n, d))
    x[1::5] = np.take_along_axis(x[1::5], rng.integers(max(n // 4, 1), size=(len(x[1::5]), n, 1)), axis=1)
    x[2::5] = x[2::5, :1]
    x[3::5, 0] *= 1e5
    x[4::5, :, 1:] = 0
    x += rng.choice([0, 1, 1e4], size=(count, 1, 1))
    x *= rng.choice([1e-8, 1e-4, 1, 1e3, 1e6], size=(count, 1, 1))
    return torch.from_numpy(x).float()


@pytest.mark.parametrize("order", [1.01, 2])
@pytest.mark.parametrize(("n", "count"), [(1, 1000), (2, 2500), (3, 2500), (12, 3000), (32, 1000)])
def test_float32_stays_finite_forward_and_backward(n, count, order):
    a = awkward_batches(n, 5, count, seed=n).requires_grad_()
    b = awkward_batches(n, 3, count, seed=n + 100).roll(1, 0).requires_grad_()
    y = label_gram(draw_labels(count, n, seed=n))
    ka, kb = gaussian_gram(a), gaussian_gram(b)
    terms = causal_terms(ka, kb, y, order, with_mi=True)
    loss = sum(term.sum() for term in terms) + hsic(ka, kb).sum()
    gradients = torch.autograd.grad(loss, (a, b))
    for values in (*terms, bandwidth(a), *gradients):
        assert values.dtype == torch.float32
        assert torch.isfinite(values).all()
    assert max(float(term.detach().abs().max()) for term in terms) <= 2 * math.log2(n) + 1e-4
    if n > 2:
        assert all(gradient.abs().sum() > 0 for gradient in gradients)


# Spectra that do not converge


class Stubborn:
    """An `eigh` that gives up on batches, and on some of the matrices alone."""

    def __init__(self, hopeless: int) -> None:
        self.hopeless, self.alone, self.original = hopeless, 0, torch.linalg.eigh

    def __call__(self, matrices: Tensor) -> tuple[Tensor, Tensor]:
        self.alone += matrices.ndim == 2
        if matrices.ndim > 2 or self.alone <= self.hopeless:
            raise torch.linalg.LinAlgError("the algorithm failed to converge")
        return self.original(matrices)


@pytest.mark.parametrize("order", [0.5, 1.01])
def test_a_spectrum_that_does_not_converge_is_computed_in_another_way(monkeypatch, order, variables):
    a, b, y = (gram.clone().requires_grad_() for gram in variables)
    expected = causal_terms(a, b, y, order, with_mi=True)
    slopes = torch.autograd.grad(sum(expected), (a, b))
    monkeypatch.setattr(torch.linalg, "eigh", Stubborn(hopeless=0))
    found = causal_terms(a, b, y, order, with_mi=True)
    for left, right in zip(found, expected, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-7)
    for left, right in zip(torch.autograd.grad(sum(found), (a, b)), slopes, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-5)


def test_a_stack_of_spectra_that_do_not_converge_is_computed_in_another_way(monkeypatch):
    grams = gaussian_gram(draw(4, 9, 3)).requires_grad_()
    expected = renyi_entropy(grams)
    (slopes,) = torch.autograd.grad(expected.sum(), grams)

    def never(matrices: Tensor) -> tuple[Tensor, Tensor]:
        raise torch.linalg.LinAlgError("the algorithm failed to converge")

    monkeypatch.setattr(torch.linalg, "eigh", never)
    found = vmap(renyi_entropy)(grams)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-7)
    torch.testing.assert_close(torch.autograd.grad(found.sum(), grams)[0], slopes, rtol=0, atol=1e-5)
    assert vmap(partial(renyi_entropy, order=0.5))(grams).isnan().all()


def test_a_spectrum_that_never_converges_is_no_number_and_spoils_no_other(monkeypatch):
    grams = gaussian_gram(draw(3, 8, 2)).requires_grad_()
    expected = renyi_entropy(grams, 0.5)
    (slopes,) = torch.autograd.grad(expected.sum(), grams)
    monkeypatch.setattr(torch.linalg, "eigh", Stubborn(hopeless=1))
    found = renyi_entropy(grams, 0.5)
    (gradient,) = torch.autograd.grad(found.sum(), grams)
    assert found.isnan().tolist() == [True, False, False]
    torch.testing.assert_close(found[1:], expected[1:], rtol=0, atol=1e-7)
    assert torch.equal(gradient[0], torch.zeros(8, 8, dtype=torch.float64))
    torch.testing.assert_close(gradient[1:], slopes[1:], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("without_eigenvalues", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_what_is_not_finite_has_no_value_and_no_gradient(request, order, without_eigenvalues, stacked):
    if without_eigenvalues:
        request.getfixturevalue("no_eigenvalues")
    a, b = gaussian_gram(draw(4, 8, 2)), gaussian_gram(draw(4, 8, 3, seed=1))
    y = label_gram(draw_labels(4, 8), torch.float64)

    def terms_and_gradients(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a, b = a.clone().requires_grad_(), b.clone().requires_grad_()
        function = partial(causal_terms, order=order, with_mi=True)
        terms = torch.stack(list((vmap(function) if stacked else function)(a, b, y)))
        return (terms, *torch.autograd.grad(terms.sum(), (a, b)))

    expected, expected_a, expected_b = terms_and_gradients(a, b)
    spoilt = b.clone()
    spoilt[1, 2, 3] = math.nan
    spoilt[2, 0, 0] = math.inf
    terms, slopes_a, slopes_b = terms_and_gradients(a, spoilt)
    # I(α; β) and I(α; Y | β) need b, I(α; Y) does not.
    assert terms.isnan().tolist() == [[False, True, True, False], [False, True, True, False], [False] * 4]
    assert torch.equal(slopes_b[1:3], torch.zeros(2, 8, 8, dtype=torch.float64))
    assert slopes_a.isfinite().all()
    for found, whole in ((terms.mT, expected.mT), (slopes_a, expected_a), (slopes_b, expected_b)):
        torch.testing.assert_close(found[::3], whole[::3], rtol=0, atol=1e-12)


def test_a_matrix_without_a_trace_has_no_entropy():
    gram = torch.stack([torch.zeros(3, 3), torch.eye(3)]).requires_grad_()
    for order in ORDERS:
        entropy = renyi_entropy(gram, order)
        (gradient,) = torch.autograd.grad(entropy.sum(), gram)
        assert entropy.isnan().tolist() == [True, False]
        assert torch.equal(gradient[0], torch.zeros(3, 3)) and gradient.isfinite().all()


# Without eigenvalues


@pytest.fixture
def no_eigenvalues(monkeypatch):
    """The way of CUDA tensors at orders above 1, on the CPU."""
    monkeypatch.setattr(power_trace, "_without_eigenvalues", lambda matrices, order: 1 < order <= 64)


def singular_and_regular_samples(n: int) -> list[Tensor]:
    few = draw(max(n // 4, 1), 4)
    return [draw(n, 6), draw(n, 1), draw(n, 56), few.repeat(n, 1)[:n], torch.ones(n, 3, dtype=torch.float64)]


@pytest.mark.parametrize("order", [1 + 1e-6, 1.01, 1.3, 1.99, 2.5, 3.0, 10])
@pytest.mark.parametrize("n", [2, 3, 8, 32, 128])
def test_entropies_without_eigenvalues_are_those_with(request, n, order):
    y = label_gram(torch.arange(n) % 3, torch.float64)

    def entropies_and_gradients() -> list[tuple[Tensor, Tensor]]:
        results = []
        for x in singular_and_regular_samples(n):
            for sigma in (None, 0.1, 10.0):
                leaf = x.clone().requires_grad_()
                gram = gaussian_gram(leaf, sigma)
                for grams in ([gram], [gram, y]):
                    entropy = joint_entropy(*grams, order=order)
                    (gradient,) = torch.autograd.grad(entropy, leaf, retain_graph=True)
                    results.append((entropy, gradient))
        results.append((renyi_entropy(y, order), torch.zeros(())))
        return results

    expected = entropies_and_gradients()
    request.getfixturevalue("no_eigenvalues")
    for (left, left_gradient), (right, right_gradient) in zip(
        entropies_and_gradients(), expected, strict=True
    ):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-6)
        assert (left_gradient - right_gradient).norm() <= 1e-5 * right_gradient.norm() + 1e-9


def test_fractional_powers_hold_for_any_spectrum():
    """The worst spectrum of 128 samples costs less than 1e-6 bits."""
    values = torch.logspace(-18, 0, 5000, dtype=torch.float64)
    most = torch.minimum(torch.full_like(values, 128), 1 / values)  # eigenvalues of that size there can be
    for exponent in (1e-6, 0.01, 0.1, 0.3, 0.5, 0.9, 0.999):
        found = power_trace._power(values[:, None, None], exponent).flatten()
        error = most * values * (found - values**exponent) / (exponent * math.log(2))
        assert error.abs().max() < 1e-6


def test_float32_rounding_does_no_harm_without_eigenvalues(no_eigenvalues):
    for n, count in ((2, 500), (3, 500), (12, 200), (32, 100), (128, 10)):
        a = awkward_batches(n, 5, count, seed=n).requires_grad_()
        b = awkward_batches(n, 3, count, seed=n + 100).roll(1, 0).requires_grad_()
        y = label_gram(draw_labels(count, n, seed=n))
        terms = causal_terms(gaussian_gram(a), gaussian_gram(b), y, with_mi=True)
        gradients = torch.autograd.grad(sum(term.sum() for term in terms), (a, b))
        for values in (*terms, *gradients):
            assert values.dtype == torch.float32 and values.isfinite().all()
        assert min(float(term.detach().min()) for term in terms) >= -1e-4
        assert max(float(term.detach().abs().max()) for term in terms) <= 2 * math.log2(n) + 1e-4


def test_a_matrix_with_negative_eigenvalues_has_no_entropy_without_eigenvalues(no_eigenvalues):
    gram = torch.stack([torch.tensor([[1.0, 2.0], [2.0, 1.0]]), torch.ones(2, 2), torch.eye(2)])
    gram.requires_grad_()
    entropy = renyi_entropy(gram)
    (gradient,) = torch.autograd.grad(entropy.sum(), gram)
    assert entropy.isnan().tolist() == [True, False, False]
    assert torch.equal(gradient[0], torch.zeros(2, 2)) and gradient.isfinite().all()


class NoAnswers(TorchDispatchMode):
    """Refuse operations that make the host wait for an answer of the device."""

    WAITING = (
        "_local_scalar_dense",
        "nonzero",
        "is_nonzero",
        "equal",
        "check_errors",
        "eigh",
        "masked_select",
    )

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.__name__
        assert not any(waiting in name for waiting in self.WAITING), name
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("order", [1.01, 2, 3.0])
def test_a_training_step_without_eigenvalues_needs_no_answer(no_eigenvalues, order):
    a, b, y = draw(5, 8, 3).requires_grad_(), draw(5, 8, 2).requires_grad_(), draw_labels(5, 8)

    def loss(a: Tensor, b: Tensor, y: Tensor) -> Tensor:
        gram_a, gram_b = gaussian_gram(a), gaussian_gram(b)
        terms = causal_terms(gram_a, gram_b, label_gram(y), order, with_mi=True)
        return sum(terms) + hsic(gram_a, gram_b) + donsker_varadhan(a @ a.mT)

    with NoAnswers():
        torch.autograd.grad(vmap(loss)(a, b, y).sum(), (a, b))
    with pytest.raises(AssertionError, match="eigh"), NoAnswers():
        renyi_entropy(gaussian_gram(a), 0.5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("order", [1.01, 2, 3.0])
def test_a_training_step_can_be_captured(order):
    a, b = draw(5, 32, 8).cuda().requires_grad_(), draw(5, 32, 4, seed=1).cuda().requires_grad_()
    y = draw_labels(5, 32).cuda()

    def loss(a: Tensor, b: Tensor, y: Tensor) -> Tensor:
        terms = causal_terms(gaussian_gram(a), gaussian_gram(b), label_gram(y), order)
        return terms.independence - terms.cmi

    def gradients() -> tuple[Tensor, ...]:
        return torch.autograd.grad(vmap(loss)(a, b, y).sum(), (a, b))

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        expected = gradients()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = gradients()
    graph.replay()
    for left, right in zip(found, expected, strict=True):
        torch.testing.assert_close(left, right)


# Stacks


@pytest.mark.parametrize("without_eigenvalues", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_a_stack_gives_the_numbers_of_one_by_one(request, order, without_eigenvalues):
    if without_eigenvalues:
        request.getfixturevalue("no_eigenvalues")
    a, b, y, scores = draw(4, 9, 5), draw(4, 9, 3, seed=1), draw_labels(4, 9), draw(4, 7, 7)

    def functions(a: Tensor, b: Tensor, y: Tensor, scores: Tensor) -> tuple[Tensor, ...]:
        gram_a, gram_b, gram_y = gaussian_gram(a), gaussian_gram(b), label_gram(y)
        return (
            *causal_terms(gram_a, gram_b, gram_y, order, with_mi=True),
            renyi_entropy(gram_a, order),
            joint_entropy(gram_a, gram_b, order=order),
            mutual_information(gram_a, gram_y, order),
            conditional_mutual_information(gram_a, gram_y, gram_b, order),
            hsic(gram_a, gram_b),
            donsker_varadhan(scores),
            bandwidth(a),
        )

    def values_and_gradients(call) -> tuple[Tensor, ...]:
        leaves = [x.clone().requires_grad_() for x in (a, b, scores)]
        values = torch.stack(list(call(leaves[0], leaves[1], y, leaves[2])), -1)
        return (values, *torch.autograd.grad(values.sum(), leaves))

    def one_by_one(*arguments: Tensor) -> list[Tensor]:
        rows = [functions(*(x[i] for x in arguments)) for i in range(4)]
        return [torch.stack(column) for column in zip(*rows, strict=True)]

    for stacked, alone in zip(
        values_and_gradients(vmap(functions)), values_and_gradients(one_by_one), strict=True
    ):
        torch.testing.assert_close(stacked, alone, rtol=1e-9, atol=1e-9)


# HSIC


def test_hsic_equals_brute_force_with_explicit_centring(variables):
    a, b, y = variables
    n = 20
    centring = np.eye(n) - np.ones((n, n)) / n
    for left, right in ((a, b), (a, y), (b, b)):
        expected = np.trace(left.numpy() @ centring @ right.numpy() @ centring) / n**2
        assert float(hsic(left, right)) == pytest.approx(expected, rel=1e-10)
        torch.testing.assert_close(hsic(left, right), hsic(right, left))


def test_hsic_tells_dependent_from_independent():
    a, other = draw(300, 1), draw(300, 1, seed=1)
    squared = a.square() + 0.1 * other  # uncorrelated with a, yet a function of it
    independent, dependent = hsic(gaussian_gram(a, 1.0), gaussian_gram(torch.stack([other, squared]), 1.0))
    assert 0 <= independent < 3e-3
    assert dependent > 10 * independent


def test_hsic_with_a_constant_is_zero():
    gram = gaussian_gram(draw(10, 3))
    assert float(hsic(gram, torch.ones_like(gram))) == pytest.approx(0, abs=1e-12)
    assert float(hsic(torch.ones(1, 1), torch.ones(1, 1))) == 0


# Errors


@pytest.mark.parametrize("order", [0, -1.0, 1, 1.0, math.nan, math.inf])
def test_bad_orders(order):
    gram = torch.eye(3)
    for call in (
        lambda: renyi_entropy(gram, order),
        lambda: joint_entropy(gram, gram, order=order),
        lambda: mutual_information(gram, gram, order),
        lambda: conditional_mutual_information(gram, gram, gram, order),
        lambda: causal_terms(gram, gram, gram, order),
    ):
        with pytest.raises(ValueError, match=f"order must be positive and different from 1, got {order}"):
            call()


@pytest.mark.parametrize("shape", [(3, 4), (5, 3, 4), (3,)])
def test_gram_must_be_square(shape):
    for call in (renyi_entropy, lambda gram: hsic(gram, gram), lambda gram: mutual_information(gram, gram)):
        with pytest.raises(ValueError, match=r"must be square, \(..., n, n\), got \(" + str(shape[0])):
            call(torch.ones(shape))


def test_grams_must_be_over_the_same_samples():
    for call in (mutual_information, hsic):
        with pytest.raises(ValueError, match=r"over the same samples, got sizes \[3, 4\]"):
            call(torch.eye(3), torch.eye(4))


def test_bad_samples_widths_and_labels():
    with pytest.raises(ValueError, match=r"samples must have shape \(..., n, d\), got \(3,\)"):
        gaussian_gram(torch.ones(3))
    with pytest.raises(ValueError, match=r"sigma must be positive, got 0.0"):
        gaussian_gram(torch.ones(3, 2), 0.0)
    for neighbours in (0, 1.5, True, math.nan):
        with pytest.raises(ValueError, match=f"whole number of at least 1, got {neighbours}"):
            bandwidth(torch.ones(3, 2), neighbours)
    with pytest.raises(ValueError, match=r"labels must be integers, got torch.float32; use gaussian_gram"):
        label_gram(torch.ones(3))
