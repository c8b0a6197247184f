"""What must hold for dense layers, readouts, encoder, inner products and edge draws."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck
from torch.distributions import Bernoulli, kl_divergence
from torch_geometric.nn import GATConv, GCNConv, GINConv

from cignn.graphs import GraphBatch
from cignn.nn import (
    LAYERS,
    READOUTS,
    GATLayer,
    GCNLayer,
    GINLayer,
    GraphEncoder,
    InnerProduct,
    Latent,
    edge_information,
    sample_edges,
    strongest_edges,
)
from cignn.nn.autoencoder import ACTIVATIONS
from cignn.nn.classifiers import EdgeNetwork, GraphNetwork, SubgraphClassifier
from cignn.nn.layers import NodeNorm

close = torch.testing.assert_close
every_layer = pytest.mark.parametrize("name", LAYERS)
every_readout = pytest.mark.parametrize("readout", READOUTS)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def weights(n: int, b: int = 1, density: float = 0.5, seed: int = 0) -> Tensor:
    """(b, n, n) symmetric, signed, zero diagonal; never two equal weights."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.normal(size=(b, n, n)) * (rng.random((b, n, n)) < density), 1)
    return torch.from_numpy(upper + upper.transpose(0, 2, 1))


def pad(x: Tensor, adj: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Pad to n nodes; the padded features are not zero, as after a sigmoid."""
    more = n - x.shape[1]
    mask = torch.arange(n).expand(len(x), n) < x.shape[1]
    x = nn.functional.pad(x, (0, 0, 0, more), value=7.0)
    return x, nn.functional.pad(adj, (0, more, 0, more)), mask


def randomised(module: nn.Module, seed: int = 1) -> Any:
    """Give every parameter and running statistic a value that is not special; eval mode."""
    torch.manual_seed(seed)
    module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.5)
        for part in module.modules():
            if isinstance(part, nn.BatchNorm1d):
                part.running_mean.normal_()
                part.running_var.uniform_(0.5, 2)
    return module.eval()


def make_layer(name: str, width: int = 8) -> Any:
    return randomised(LAYERS[name](4, width))


# ---------------------------------------------------------------------- layers


@every_layer
@pytest.mark.parametrize("training", [False, True])
def test_relabelling_nodes_permutes_the_output(name: str, training: bool) -> None:
    layer, x, adj = make_layer(name).train(training), draw(2, 6, 4), weights(6, 2)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    close(layer(x[:, order], adj[:, order][:, :, order]), layer(x, adj)[:, order])


@every_layer
@pytest.mark.parametrize("training", [False, True])
def test_padding_changes_neither_output_nor_statistics(name: str, training: bool) -> None:
    plain = make_layer(name).train(training)
    padded, x, adj = copy.deepcopy(plain), draw(3, 5, 4), weights(5, 3)
    out = padded(*pad(x, adj, 9))
    close(out[:, :5], plain(x, adj))
    assert not out[:, 5:].any()
    close(padded.state_dict(), plain.state_dict())


@every_layer
def test_a_graph_alone_is_the_same_graph_in_a_batch(name: str) -> None:
    layer = make_layer(name)
    small, large = (draw(1, 3, 4), weights(3)), (draw(1, 7, 4, seed=2), weights(7, seed=2))
    parts = zip(pad(*small, 7), pad(*large, 7), strict=True)
    out = layer(*[torch.cat(pair) for pair in parts])
    close(out[:1, :3], layer(*small))
    close(out[1:], layer(*large))


@every_layer
def test_a_node_without_edges_is_as_good_as_absent(name: str) -> None:
    layer, x, adj = make_layer(name), draw(1, 6, 4), weights(6)
    adj[:, 5] = adj[:, :, 5] = 0
    close(layer(x, adj)[:, :5], layer(x[:, :5], adj[:, :5, :5]))


@every_layer
@pytest.mark.parametrize("sign", [-1, 1])
def test_an_edge_of_vanishing_weight_is_no_edge(name: str, sign: int) -> None:
    layer, x, adj = make_layer(name), draw(1, 5, 4), weights(5, density=1)
    without, almost = adj.clone(), adj.clone()
    without[:, 0, 1] = without[:, 1, 0] = 0
    almost[:, 0, 1] = almost[:, 1, 0] = sign * 1e-9
    close(layer(x, almost), layer(x, without), atol=1e-6, rtol=0)
    assert not torch.allclose(layer(x, adj), layer(x, without), atol=1e-3)


@every_layer
def test_the_sign_of_a_weight_matters(name: str) -> None:
    layer, x, adj = make_layer(name), draw(1, 5, 4), weights(5, density=1)
    other = adj.clone()
    other[:, 0, 1] = other[:, 1, 0] = -adj[:, 0, 1]
    assert not torch.allclose(layer(x, adj)[:, :2], layer(x, other)[:, :2], atol=1e-3)


@every_layer
def test_a_gradient_reaches_every_edge_weight(name: str) -> None:
    layer, x, adj = make_layer(name, width=64), draw(1, 6, 4), weights(6)
    edges = adj != 0
    (layer(x, adj.requires_grad_()) * draw(1, 6, 64, seed=3)).sum().backward()
    assert adj.grad is not None and edges.any()
    assert adj.grad[edges].isfinite().all() and (adj.grad[edges] != 0).all()


@every_layer
@pytest.mark.parametrize("training", [False, True])
def test_gradients_are_finite_where_nothing_is_connected(name: str, training: bool) -> None:
    layer = make_layer(name).train(training)
    x, adj = draw(2, 4, 4).requires_grad_(), torch.zeros(2, 4, 4, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True] * 4, [True] + [False] * 3])
    layer(x, adj, mask).square().sum().backward()
    for tensor in (x, adj, *layer.parameters()):
        assert tensor.grad is not None and tensor.grad.isfinite().all()


def test_gcn_is_the_formula_of_the_paper() -> None:
    layer, x, adj = make_layer("gcn"), draw(1, 6, 4), weights(6)
    degree = 1 + adj[0].abs().sum(1).numpy()  # degrees from absolute weights: never negative
    scale = np.diag(degree**-0.5)
    expected = scale @ (adj[0].numpy() + np.eye(6)) @ scale @ layer.linear(x[0]).detach().numpy()
    np.testing.assert_allclose(layer(x, adj)[0].detach().numpy(), expected, atol=1e-12)


def sparse(adj: Tensor) -> tuple[Tensor, Tensor]:
    """The edge list of adj : (n, n), as PyTorch Geometric wants it."""
    index = adj.nonzero().T
    return index, adj[index[0], index[1]]


def test_gcn_is_pyg_gcn_for_positive_weights() -> None:
    layer, x, adj = make_layer("gcn"), draw(1, 6, 4), weights(6).abs()
    assert isinstance(layer, GCNLayer)
    peer = GCNConv(4, 8, bias=False).double()
    peer.lin.weight = layer.linear.weight
    nn.init.zeros_(layer.linear.bias)
    close(layer(x, adj)[0], peer(x[0], *sparse(adj[0])))


def state_for(theirs: nn.Module, mine: nn.Module) -> dict[str, Tensor]:
    """The state of a module of ours for a peer, which may also count batches."""
    counted = {name: v for name, v in theirs.state_dict().items() if name == "num_batches_tracked"}
    return mine.state_dict() | counted


def test_gin_is_pyg_gin() -> None:
    """PyG's layer takes no weights; an edge of weight 2 is an edge that stands there twice."""
    layer, x, adj = make_layer("gin"), draw(1, 7, 4), weights(7)
    assert isinstance(layer, GINLayer)
    mlp = nn.Sequential(
        nn.Linear(4, 8, bias=False),
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.Linear(8, 8, bias=False),
        nn.BatchNorm1d(8),
    ).double()
    peer = GINConv(mlp, eps=layer.eps.item()).eval()  # which draws the weights of its network anew
    for mine, theirs in zip(
        (layer.first, layer.norm, layer.second, layer.out_norm), (mlp[0], mlp[1], mlp[3], mlp[4]), strict=True
    ):
        theirs.load_state_dict(state_for(theirs, mine))
    counts = (adj != 0).long() + (adj.abs() > 1).long()
    assert set(counts.unique().tolist()) == {0, 1, 2}
    index, times = sparse(counts[0])
    close(layer(x, counts.double())[0], peer(x[0], index.repeat_interleave(times, 1)))


def test_gat_is_pyg_gat_for_edges_of_weight_one() -> None:
    layer, x, adj = make_layer("gat"), draw(1, 6, 4), (weights(6) != 0).double()
    assert isinstance(layer, GATLayer)
    peer = GATConv(4, 8 // layer.heads, heads=layer.heads).double()
    with torch.no_grad():
        peer.lin.weight.copy_(layer.linear.weight)
        peer.att_src.copy_(layer.source[None])
        peer.att_dst.copy_(layer.target[None])
        peer.bias.copy_(layer.bias)
    close(layer(x, adj)[0], peer(x[0], sparse(adj[0])[0]))


def test_gat_attention_is_a_convex_combination_for_positive_weights() -> None:
    layer, x, adj = make_layer("gat"), draw(1, 7, 4), weights(7).abs()
    nn.init.zeros_(layer.bias)
    h, out = layer.linear(x)[0], layer(x, adj)[0]
    for i in range(7):
        around = h[(adj[0, i] > 0) | (torch.arange(7) == i)]
        assert (out[i] <= around.amax(0) + 1e-12).all() and (out[i] >= around.amin(0) - 1e-12).all()
    same = x[:, :1].expand(1, 7, 4)  # attention sums to one: an average of equal vectors is that vector
    close(layer(same, adj), layer.linear(same))


def test_gat_needs_a_width_its_heads_can_share() -> None:
    with pytest.raises(ValueError, match="multiple of its 4 heads, got 6"):
        GATLayer(4, 6)


def test_node_norm_is_batch_norm_over_the_real_nodes() -> None:
    mine = randomised(NodeNorm(3)).train()
    theirs = nn.BatchNorm1d(3).double()
    theirs.load_state_dict(state_for(theirs, mine))
    mask = torch.arange(6) < torch.tensor([6, 2, 1, 4])[:, None]
    for step in range(3):
        x = 3 * draw(4, 6, 3, seed=step) + 5
        one, other = x.clone().requires_grad_(), x.clone().requires_grad_()
        out, expected = mine(one * mask.unsqueeze(-1), mask), theirs(other[mask])
        close(out[mask], expected)
        assert not out[~mask].any()
        direction = draw(*expected.shape, seed=9)
        gradients = torch.autograd.grad((out[mask] * direction).sum(), [one, *mine.parameters()])
        close(gradients, torch.autograd.grad((expected * direction).sum(), [other, *theirs.parameters()]))
        close(state_for(theirs, mine), theirs.state_dict())
    close(mine.eval()(x, mask)[mask], theirs.eval()(x[mask]))


@pytest.mark.parametrize("with_mask", [False, True])
def test_node_norm_bears_a_single_node(with_mask: bool) -> None:
    norm = randomised(NodeNorm(3)).train()
    mask = torch.ones(1, 1, dtype=torch.bool) if with_mask else None
    close(norm(draw(1, 1, 3), mask)[0, 0], norm.bias)  # its own mean is itself
    assert all(value.isfinite().all() for value in norm.state_dict().values())


# -------------------------------------------------------------------- readouts

EXPLICIT: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sum": lambda nodes: nodes.sum(0),
    "mean": lambda nodes: nodes.mean(0),
    "max": lambda nodes: nodes.max(0),
}


@every_readout
def test_readouts_pool_the_real_nodes(readout: str) -> None:
    mask = torch.arange(5) < torch.tensor([5, 2, 1])[:, None]
    x = -draw(3, 5, 4).abs() * mask.unsqueeze(-1)  # all below the zero of the padding
    expected = [EXPLICIT[readout](graph[nodes].numpy()) for graph, nodes in zip(x, mask, strict=True)]
    np.testing.assert_allclose(READOUTS[readout](x, mask).numpy(), np.stack(expected), atol=1e-12)
    close(READOUTS[readout](x[:1], None)[0], torch.from_numpy(expected[0]))


@every_readout
@every_layer
def test_a_graph_network_sees_a_graph_not_its_drawing(name: str, readout: str) -> None:
    """Neither the order of nodes nor padding changes the logits."""
    network = randomised(GraphNetwork(4, 3, name, (8, 8), (5,), readout))
    x, adj = draw(2, 6, 4), weights(6, 2)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    logits = network(x, adj)
    assert logits.shape == (2, 3) and not torch.allclose(logits[0], logits[1], atol=1e-3)
    close(network(x[:, order], adj[:, order][:, :, order]), logits)
    close(network(*pad(x, adj, 9)), logits)


CLASSIFIERS: dict[str, Callable[[], SubgraphClassifier]] = {
    "graph": lambda: GraphNetwork(4, 3, "gin", (8,), (5,)),
    "edges": lambda: EdgeNetwork(6, 3, (5,)),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_have_one_interface(name: str) -> None:
    """What they read of an edge has one form, from which the matrix comes back."""
    classifier, adj = randomised(CLASSIFIERS[name]()), weights(6, 2)
    values = classifier.edge_values(adj)
    close(classifier.edge_matrix(values), adj)
    batch = GraphBatch(draw(2, 6, 4), adj, torch.ones(2, 6, dtype=torch.bool), padded=False)
    evidence = classifier.evidence(batch)
    assert evidence.shape == values.shape and ((evidence != 0) == (values != 0)).all()
    assert classifier(batch.x, evidence, batch.padding).shape == (2, 3)


def test_dropout_is_off_outside_training() -> None:
    network, x, adj = randomised(GraphNetwork(4, 3, "gcn", (8,), (16, 16))), draw(2, 6, 4), weights(6, 2)
    close(network(x, adj), network(x, adj), atol=0, rtol=0)
    network.train()
    assert not torch.allclose(network(x, adj), network(x, adj))


# --------------------------------------------------------------------- encoder


@every_layer
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("density", [None, 0.3])
def test_an_encoder_follows_relabelling_and_ignores_padding(
    name: str, activation: str, density: float | None
) -> None:
    encoder = randomised(GraphEncoder(4, 6, (8, 8), name, activation, density))
    x, adj = draw(2, 6, 4), weights(6, 2, density=1)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    moved = encoder(x[:, order], adj[:, order][:, :, order])
    padded = encoder(*pad(x, adj, 10))
    for here, there, wider in zip(encoder(x, adj), moved, padded, strict=True):
        assert here.shape == (2, 6, 6)
        close(there, here[:, order])
        close(wider[:, :6], here)


def test_a_draw_has_the_latent_mean_and_standard_deviation() -> None:
    mean, log_std = torch.tensor([[[1.0, -2.0]]]), torch.tensor([[[0.5, -1.0]]])
    torch.manual_seed(0)
    sample = Latent(mean.expand(1, 20000, 2), log_std.expand(1, 20000, 2)).sample()
    close(sample.mean(1), mean[0], atol=0.05, rtol=0)
    close(sample.std(1), log_std[0].exp(), atol=0, rtol=0.05)


def test_sigma_stays_a_number_however_large_the_features() -> None:
    encoder = randomised(GraphEncoder(4, 6, (8,)))
    latent = encoder(1e6 * draw(1, 6, 4), weights(6))
    assert latent.log_std.exp().isfinite().all() and (latent.log_std.exp() > 0).all()


@pytest.mark.parametrize("density", [0.01, 0.1, 0.25, 0.5, 1.0])
def test_strongest_edges_keeps_the_share_by_absolute_weight(density: float) -> None:
    adj = weights(12, 3, density=1)
    adj[1] *= 100  # every graph has its own threshold
    kept = strongest_edges(adj, density)
    close(kept, kept.transpose(1, 2))
    wanted = max(1, density * 12 * 11 / 2)
    for graph, mine in zip(adj, kept, strict=True):
        inside = mine != 0
        assert abs(inside.sum().item() / 2 - wanted) < 1
        assert (mine[inside] == graph[inside]).all()
        assert mine[inside].abs().min() > graph[~inside].abs().max()
    if density >= 0.1:
        assert (kept > 0).any((1, 2)).all() and (kept < 0).any((1, 2)).all()


def test_strongest_edges_invents_none() -> None:
    adj = weights(8, density=0.1)
    close(strongest_edges(adj, 0.9), adj)
    assert not strongest_edges(torch.zeros(2, 1, 1), 0.5).any()


def spread(latent: Latent) -> float:
    """The largest difference of two nodes' means."""
    return (latent.mean.amax(1) - latent.mean.amin(1)).max().item()


def test_a_gcn_cannot_tell_the_nodes_of_a_complete_graph_apart() -> None:
    """Why encoders keep only the strongest edges: (A + I) / n gives every node the same average."""
    n, x = 20, draw(1, 20, 4)
    equal = torch.ones(n, n, dtype=torch.float64).fill_diagonal_(0)[None]
    almost = equal * (1 + 1e-6 * weights(n, density=1))
    plain, picky = (randomised(GraphEncoder(4, 6, (8,), "gcn", density=density)) for density in (None, 0.1))
    assert spread(plain(x, equal)) < 1e-12 and spread(plain(x, almost)) < 1e-4
    assert spread(picky(x, almost)) > 0.1
    assert spread(picky(x, weights(n, density=1))) > 0.1


# -------------------------------------------------------------- inner products


@pytest.mark.parametrize("projected", [False, True])
def test_inner_product_is_symmetric_and_one_node_pair_at_a_time(projected: bool) -> None:
    product, z = randomised(InnerProduct(5, projected)), draw(2, 6, 5)
    logits = product(z)
    close(logits, logits.transpose(1, 2))
    close(product(z[:, [1, 4]]), logits[:, [1, 4]][:, :, [1, 4]])


def test_the_plain_inner_product_is_linear_in_the_product() -> None:
    product, z = InnerProduct(5, projected=False).double(), draw(2, 6, 5)
    gram = torch.einsum("bid,bjd->bij", z, z)
    close(product(z), gram)
    with torch.no_grad():
        product.gain.fill_(-3)
        product.bias.fill_(0.7)
    close(product(z), -3 * gram + 0.7)


@pytest.mark.parametrize("projected", [False, True])
def test_inner_product_has_its_gradient(projected: bool) -> None:
    product, z = randomised(InnerProduct(3, projected)), draw(2, 4, 3).requires_grad_()
    names, parameters = zip(*product.named_parameters(), strict=True)

    def logits(z: Tensor, *values: Tensor) -> Tensor:
        return torch.func.functional_call(product, dict(zip(names, values, strict=True)), (z,))

    assert gradcheck(logits, (z, *parameters))


@pytest.mark.parametrize("projected", [False, True])
def test_inner_product_is_its_formula_in_numpy(projected: bool) -> None:
    product, z = randomised(InnerProduct(3, projected)), draw(2, 5, 3)
    u = z.numpy()
    if product.projection is not None:
        u = u @ product.projection.weight.detach().numpy().T
        u = u / np.sqrt(3 + (u**2).sum(-1, keepdims=True))
    expected = product.gain.item() * (u @ u.transpose(0, 2, 1)) + product.bias.item()
    np.testing.assert_allclose(product(z).detach().numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-6, 1, 1e4])
def test_projected_logits_are_bounded_and_can_still_move(scale: float) -> None:
    """However large the latents, no logit exceeds the learned gain and bias, and none loses its gradient."""
    torch.manual_seed(0)
    product, z = InnerProduct(5).double(), (scale * draw(1, 6, 5)).requires_grad_()
    logits = product(z)
    assert (logits.abs() < product.gain.abs() + product.bias.abs()).all()
    for gradient in torch.autograd.grad((logits * draw(1, 6, 6, seed=1)).sum(), [z, *product.parameters()]):
        assert gradient.isfinite().all() and gradient.any()


@pytest.mark.parametrize("projected", [False, True])
def test_few_pairs_can_be_in_and_most_out(projected: bool) -> None:
    """A Gram matrix of 20 vectors in the plane has about as many positive pairs as negative; b makes few."""
    torch.manual_seed(0)
    product, z = InnerProduct(2, projected).double(), torch.zeros(1, 20, 2, dtype=torch.float64)
    z[:, :2] = 10
    wanted = torch.zeros(1, 20, 20, dtype=torch.float64)
    wanted[:, :2, :2] = 1
    optimiser = torch.optim.Adam([product.gain, product.bias], lr=0.3)
    for _ in range(50):
        optimiser.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(product(z), wanted).backward()
        optimiser.step()
    prob = torch.sigmoid(product(z))
    assert (prob[wanted == 1] > 0.9).all() and (prob[wanted == 0] < 0.1).all()


# ---------------------------------------------------------------- causal edges


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
def test_one_draw_per_undirected_edge(temperature: float) -> None:
    torch.manual_seed(0)
    prob = sample_edges(torch.zeros(2, 12, 12, dtype=torch.float64), temperature)
    close(prob, prob.transpose(1, 2), atol=0, rtol=0)
    row, column = torch.triu_indices(12, 12, 1)
    draws = prob[:, row, column]
    assert ((draws > 0) & (draws < 1)).all()
    assert len(draws.unique()) == draws.numel()


@pytest.mark.parametrize("temperature", [0.5, 1.0])
@pytest.mark.parametrize("logit", [-2.0, 0.0, 1.0])
def test_an_edge_is_mostly_in_as_often_as_its_probability_says(logit: float, temperature: float) -> None:
    torch.manual_seed(0)
    row, column = torch.triu_indices(120, 120, 1)
    draws = sample_edges(torch.full((1, 120, 120), logit), temperature)[0, row, column]
    assert (draws > 0.5).double().mean().item() == pytest.approx(1 / (1 + math.exp(-logit)), abs=0.02)
    if logit == 0:
        assert draws.mean().item() == pytest.approx(0.5, abs=0.02)


def test_higher_logits_give_stochastically_larger_weights() -> None:
    logits = weights(8, density=1)
    torch.manual_seed(0)
    low = sample_edges(logits)
    torch.manual_seed(0)
    high = sample_edges(logits + 0.5)
    assert (high > low).all()


def test_draws_pass_a_gradient_to_their_logits() -> None:
    logits = weights(5, density=1).requires_grad_()
    torch.manual_seed(0)
    (gradient,) = torch.autograd.grad(sample_edges(logits).sum(), logits)
    assert (gradient > 0).all()


EDGES = weights(6, 2) != 0


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9])
def test_edge_information_is_the_divergence_from_keep(keep: float) -> None:
    logits = 3 * draw(2, 6, 6)
    expected = kl_divergence(Bernoulli(logits=logits), Bernoulli(torch.tensor(keep).double()))[EDGES].mean()
    close(edge_information(logits, EDGES, keep), expected, rtol=1e-6, atol=1e-6)
    free = torch.full_like(logits, math.log(keep / (1 - keep)))
    assert edge_information(free, EDGES, keep).item() == pytest.approx(0, abs=1e-12)
    for other in (free - 0.1, free + 0.1):
        assert edge_information(other, EDGES, keep) > 1e-5


def test_edge_information_of_each_pair_once_is_that_of_the_matrix() -> None:
    logits, edges = weights(6, 2, density=1), EDGES.double()
    row, column = torch.triu_indices(6, 6, 1)
    once = edge_information(logits[:, row, column], edges[:, row, column], 0.3)
    close(once, edge_information(logits, edges, 0.3))


def test_edge_information_looks_at_edges_only() -> None:
    logits = draw(2, 6, 6)
    elsewhere = torch.where(EDGES, logits, 50.0)
    close(edge_information(elsewhere, EDGES, 0.3), edge_information(logits, EDGES, 0.3))
    assert edge_information(logits, torch.zeros_like(EDGES), 0.3) == 0
    padded = nn.functional.pad(logits, (0, 3, 0, 3), value=9.0), nn.functional.pad(EDGES, (0, 3, 0, 3))
    close(edge_information(*padded, 0.3), edge_information(logits, EDGES, 0.3))


def test_edge_information_of_sure_edges_is_finite() -> None:
    for logit, expected in ((1e4, -math.log(0.3)), (-1e4, -math.log(0.7))):
        logits = torch.full((2, 6, 6), logit, requires_grad=True)
        value = edge_information(logits, EDGES, 0.3)
        value.backward()
        assert value.item() == pytest.approx(expected, abs=0.01)
        assert logits.grad is not None and logits.grad.isfinite().all()


def test_edge_information_has_its_gradient() -> None:
    logits = weights(6, 2, density=1, seed=4).requires_grad_()
    assert gradcheck(lambda value: edge_information(value, EDGES, 0.3), logits)
