"""What must hold where batches are read without their padding."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from cignn.nn import layers
from cignn.nn.classifiers import GraphNetwork
from cignn.nn.packing import Packing

close = torch.testing.assert_close


@pytest.fixture
def batch() -> tuple[Tensor, Tensor, Tensor]:
    """Features, edges and mask of rings with chords, of 4 to 40 nodes, in float64."""
    torch.manual_seed(0)
    sizes = [4, 40, 9, 13, 4, 22]
    x, adj = torch.randn(6, 40, 5).double(), torch.zeros(6, 40, 40).double()
    mask = torch.arange(40) < torch.tensor(sizes)[:, None]
    for graph, n in enumerate(sizes):
        for i in range(n):
            adj[graph, i, (i + 1) % n] = adj[graph, (i + 1) % n, i] = torch.rand(())
    adj[1, 3, 17] = adj[1, 17, 3] = -0.7
    return x * mask.unsqueeze(-1), adj, mask


def network() -> GraphNetwork:
    torch.manual_seed(1)
    return GraphNetwork(5, 3, hidden=(8, 8), head=(8,), dropout=0.0).double()


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_nothing_changes_but_the_time(
    batch: tuple[Tensor, Tensor, Tensor], training: bool, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, adj, mask = batch
    nodes = mask * torch.rand(mask.shape).double() if weighted else mask
    found = []
    one, other = network(), network()
    for model in (one, other):
        model.train(training)
        edges = adj.clone().requires_grad_(training)
        logits = model(x, edges, nodes)
        gradients = torch.autograd.grad(logits.square().sum(), [*model.parameters(), *([edges] * training)])
        # pairs of nodes without an edge are not read, and where there are edges gradients agree
        found.append((logits, [*gradients[:-1], gradients[-1] * (adj != 0) if training else gradients[-1]]))
        monkeypatch.setattr(Packing, "of", lambda adj, mask: None)
    close(found[0], found[1])
    close(one.state_dict(), other.state_dict())  # the running statistics


def test_a_node_of_weight_0_is_left_out_with_its_edges(batch: tuple[Tensor, Tensor, Tensor]) -> None:
    x, adj, mask = batch
    nodes = mask.double()
    nodes[1, 5] = 0
    packing = Packing.of(adj, nodes)
    assert packing is not None and len(packing.nodes) == int(mask.sum()) - 1
    assert len(packing.links.weights) == int((adj != 0).sum()) - 4  # two neighbours, both ways
    whole = packing.unpack(packing.links @ packing.pack(x))
    close(whole, (adj @ (x * (nodes > 0).unsqueeze(-1))) * (nodes > 0).unsqueeze(-1))


def test_only_what_it_is_worth_is_packed(batch: tuple[Tensor, Tensor, Tensor]) -> None:
    _, adj, mask = batch
    assert Packing.of(adj, mask) is not None
    assert Packing.of(adj, None) is None
    assert Packing.of(adj, torch.ones_like(mask)) is None  # no padding
    assert Packing.of(adj, torch.zeros_like(mask)) is None  # nothing else
    complete = (mask[:, :, None] & mask[:, None]).double()
    assert Packing.of(complete, mask) is None  # a list of all pairs would be longer than the matrices


def test_networks_in_a_stack_have_nothing_packed(batch: tuple[Tensor, Tensor, Tensor]) -> None:
    _, adj, mask = batch
    packed = []

    def look(adj: Tensor) -> Tensor:
        packed.append(Packing.of(adj, mask))
        return adj

    torch.vmap(look)(adj.expand(2, -1, -1, -1))
    assert packed == [None]


def test_a_left_out_edge_keeps_its_gradient(batch: tuple[Tensor, Tensor, Tensor]) -> None:
    x, adj, mask = batch
    model = network().eval()
    weights = torch.ones_like(adj)
    weights[1, 3, 17] = weights[1, 17, 3] = 0.0
    weights.requires_grad_()
    (gradient,) = torch.autograd.grad(model(x, adj * weights, mask).square().sum(), weights)
    assert gradient[1, 3, 17] != 0


def test_networks_in_a_stack_read_padded_batches(batch: tuple[Tensor, Tensor, Tensor]) -> None:
    x, adj, mask = batch
    models = [network().eval(), network().eval()]
    nn.init.normal_(models[1].head[0].weight)
    alone = torch.stack([model(x, adj, mask) for model in models])
    params, buffers = torch.func.stack_module_state(models)  # type: ignore[arg-type]
    base = copy.deepcopy(models[0])

    def call(params: dict[str, Tensor], buffers: dict[str, Tensor], adj: Tensor) -> Tensor:
        return torch.func.functional_call(base, (params, buffers), (x, adj, mask))

    close(torch.vmap(call)(params, buffers, adj.expand(2, -1, -1, -1)), alone)


def test_layers_of_other_kinds_read_matrices(batch: tuple[Tensor, Tensor, Tensor]) -> None:
    x, adj, mask = batch
    for kind in ("gcn", "gat"):
        stack = layers.make_layers(kind, [5, 8]).double()
        one_by_one = torch.relu(stack[0](x, adj, mask))
        close(layers.apply_layers(stack, torch.relu, x, adj, mask), one_by_one)
