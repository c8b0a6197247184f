"""`RCExplainer` (Wang et al. 2022): a policy adds edges one by one, by the gain of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cignn._checks import choice
from cignn._random import RandomState
from cignn.estimators.classifier import GraphClassifier
from cignn.explainers.base import EdgeBatch, NetworkExplainer, check_params, frozen
from cignn.explanations import Explanations
from cignn.graphs import GraphSet
from cignn.nn import GraphModel

BEAMS = (1, 2, 4, 8, 16)
PASSES = 512  # subgraphs that go through the network together
CELLS = 2**26  # numbers in the policy's largest tensors: bounds the memory of a batch


class RCExplainer(NetworkExplainer):
    """RCExplainer: a policy adds edges to an empty graph.

    The reward of an edge is the gain in log-probability of the class that the network predicts for the whole
    graph. The policy reads the edge, the subgraph so far and the class, and is trained by REINFORCE. Edges
    are weighted by the order in which they are added; those left after ``max_edges`` follow by their score.

    A wider beam never has a lower reward: a search of width B includes those of all smaller widths and keeps
    the sequence of highest reward, which is the mean over its steps of the log-probability gained so far.

    Parameters
    ----------
    beam : {1, 2, 4, 8, 16}, default=1
        Width of the beam search; 1 follows the policy.
    max_edges : int, default=20
        Edges added one by one.
    epochs : int, default=10
        Passes over the graphs of ``fit``.
    learning_rate : float, default=0.003
        Learning rate of Adam.
    hidden : int, default=64
        Width of the policy network.
    discount : float, default=0.5
        Factor per step by which later gains count for an earlier edge.
    entropy_weight : float, default=0.01
        Weight of the policy's entropy, which keeps it exploring.
    train_batch_size : int, default=32
        Graphs in a training step.
    batch_size : int, default=128
        Graphs explained at a time.
    random_state : int, RandomState, Generator or None, default=None
        Source of all random numbers.
    verbose : int, default=0
        Whether to show a progress bar.

    References
    ----------
    Wang et al., "Reinforced causal explainer for graph neural networks", IEEE TPAMI 2022.

    Examples
    --------
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import make_estimator
    >>> from cignn.explainers import RCExplainer
    >>> graphs = make_ba2motifs(8, random_state=0)
    >>> gnn = make_estimator("gin", epochs=1, random_state=0).fit(graphs)
    >>> explainer = RCExplainer(epochs=1, max_edges=2, random_state=0).fit(gnn, graphs)
    >>> explainer.explain(graphs[:2])[0].weights.shape
    (25, 25)
    """

    def __init__(
        self,
        beam: int = 1,
        max_edges: int = 20,
        epochs: int = 10,
        learning_rate: float = 0.003,
        hidden: int = 64,
        discount: float = 0.5,
        entropy_weight: float = 0.01,
        train_batch_size: int = 32,
        batch_size: int = 128,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.beam = beam
        self.max_edges = max_edges
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.hidden = hidden
        self.discount = discount
        self.entropy_weight = entropy_weight
        self.train_batch_size = train_batch_size
        self.batch_size = batch_size
        self.random_state = random_state
        self.verbose = verbose

    def _check(self, estimator: GraphClassifier) -> None:
        super()._check(estimator)
        whole_numbers = ("max_edges", "epochs", "hidden", "train_batch_size")
        check_params(self, whole_numbers, ("learning_rate",), ("discount", "entropy_weight"))
        choice("beam", self.beam, BEAMS)

    # ---------------------------------------------------------------- learning

    def _fit(self, graphs: GraphSet) -> None:
        indices = self._batches(graphs, self.train_batch_size, self.max_edges, True)
        with frozen(self.network_):
            batches = [self._problem(graphs, index) for index in indices]
        h = batches[0].h
        self.policy_ = Policy(h.shape[-1], len(self.estimator_.classes_), self.hidden).to(h.device)
        self._descend(self.policy_, len(batches), lambda i, epoch: self._reinforce(batches[i]))

    def _reinforce(self, problem: Problem) -> Tensor:
        """Minus the expected return of one random walk per graph, with the gradient of REINFORCE."""
        z = self.policy_.edges(problem)
        chosen = torch.zeros_like(problem.there)
        before = problem.log_prob(self.network_, chosen)
        rewards, choices, entropies = [], [], []
        for _ in range(min(self.max_edges, z.shape[1])):
            free = problem.there & ~chosen
            active = free.any(1)
            logits = self.policy_.scores(z, chosen, problem.target).masked_fill(~free, -torch.inf)
            logits = torch.where(active[:, None], logits, 0.0)
            log_prob = F.log_softmax(logits, 1)
            action = torch.multinomial(log_prob.detach().exp(), 1)
            choices.append(log_prob.gather(1, action).squeeze(1) * active)
            finite = log_prob.masked_fill(log_prob.isinf(), 0.0)
            entropies.append(-(finite.exp() * finite * free).sum(1))
            chosen = chosen | (F.one_hot(action.squeeze(1), z.shape[1]).bool() & active[:, None])
            after = problem.log_prob(self.network_, chosen)
            rewards.append(after - before)  # the causal effect of the edge on the decision
            before = after
        future = torch.zeros_like(before)
        returns: list[Tensor] = []
        for reward in reversed(rewards):
            future = reward + self.discount * future
            returns.insert(0, future)
        advantage = torch.stack(returns)
        advantage = advantage - advantage.mean(1, keepdim=True)  # minus the expectation at this step
        advantage = advantage / advantage.std().clamp(min=1e-6)
        gain = torch.stack(choices) * advantage + self.entropy_weight * torch.stack(entropies)
        return -gain.sum(0).mean()

    # --------------------------------------------------------------- searching

    def _explain(self, graphs: GraphSet) -> Explanations:
        weights: list[np.ndarray] = [np.empty(0)] * len(graphs)
        batches = self._batches(graphs, self.batch_size, self.beam)
        with frozen(self.network_), torch.no_grad():
            for index in self._track(batches, "explaining", len(batches)):
                problem = self._problem(graphs, index)
                values = self._weigh_problem(problem).cpu().numpy()
                ends = problem.edges.counts.cumsum()
                for i, start, end in zip(index, ends - problem.edges.counts, ends, strict=True):
                    weights[i] = values[start:end]
        return self._explained(graphs, weights)

    def _weigh(self, edges: EdgeBatch) -> Tensor:
        return self._weigh_problem(Problem.of(edges, self.network_))

    def _weigh_problem(self, problem: Problem) -> Tensor:
        z = self.policy_.edges(problem)
        best = self._search(problem, z, 1)
        for width in [width for width in BEAMS if 1 < width <= self.beam]:
            found = self._search(problem, z, width)
            better = found.reward > best.reward
            best = Found(
                torch.where(better, found.reward, best.reward),
                torch.where(better[:, None], found.place, best.place),
            )
        last = self.policy_.scores(z, best.place < z.shape[1], problem.target)
        score = torch.where(best.place < z.shape[1], z.shape[1] - best.place + 1.0, torch.sigmoid(last))
        return problem.edges.rank_weights(problem.flat(score))

    def _search(self, problem: Problem, z: Tensor, width: int) -> Found:
        """Beam search: of all next edges the most probable are tried and the most rewarding are kept."""
        b, e, _ = z.shape
        device = z.device
        rows = torch.arange(b, device=device)[:, None]
        keys = torch.randint(2**62, (e,), device=device, generator=torch.Generator(device).manual_seed(0))
        empty = problem.log_prob(self.network_, torch.zeros_like(problem.there))
        # the step at which each edge was added; e where it was not
        place = torch.full((b, width, e), e, device=device)
        path = torch.full((b, width), -torch.inf, device=device)
        path[:, 0] = 0
        total = path.clone()  # sum over steps of the gain so far
        for step in range(min(self.max_edges, e)):
            free = problem.there[:, None] & (place == e)
            active = (problem.there.sum(1) > step)[:, None]
            logits = self.policy_.scores(z, place < e, problem.target).masked_fill(~free, -torch.inf)
            log_prob = F.log_softmax(torch.where(active[..., None], logits, 0.0), -1)
            tried = 1 if width == 1 else min(2 * width, width * e)
            likely = (path[..., None] + log_prob).flatten(1).topk(tried)
            parent, edge = likely.indices // e, likely.indices % e
            new = place[rows, parent].scatter(2, edge[..., None], step)
            gained = problem.log_prob(self.network_, new < e) - empty[:, None]
            reward = (total[rows, parent] + gained).masked_fill(likely.values.isinf(), -torch.inf)
            same = _seen_before(((new < e) * keys).sum(-1), reward)
            reward = reward.masked_fill(same, -torch.inf)
            kept = reward.topk(min(width, tried))
            total_, path_ = _pad(kept.values, width), _pad(likely.values[rows, kept.indices], width)
            path_ = path_.masked_fill(total_.isinf(), -torch.inf)
            place_ = place.clone()
            place_[:, : kept.indices.shape[1]] = new[rows, kept.indices]
            total, path = torch.where(active, total_, total), torch.where(active, path_, path)
            place = torch.where(active[..., None], place_, place)
        steps = problem.there.sum(1).clamp(1, self.max_edges)
        best = total.argmax(1)
        return Found(total[rows[:, 0], best] / steps, place[rows[:, 0], best])

    # ----------------------------------------------------------------- scoring

    def reward(self, explanations: Explanations) -> np.ndarray:
        """Return the reward that the search maximises, for any explanations of the same network.

        Parameters
        ----------
        explanations : Explanations
            Explanations by any method.

        Returns
        -------
        ndarray of shape (g,)
            Mean over the top ``max_edges`` edges, in order of weight, of the log-probability gained so far.
        """
        graphs = self._seen(explanations.graphs)
        rewards = torch.empty(len(graphs))
        with frozen(self.network_), torch.no_grad():
            for index in graphs.batch_indices(self.batch_size):
                problem = self._problem(graphs, index)
                weights = torch.cat([torch.as_tensor(explanations.edge_weights[i]) for i in index])
                order = problem.padded(weights.to(problem.h.device), -1.0).argsort(
                    dim=1, descending=True, stable=True
                )
                place = order.argsort(1)
                empty = problem.log_prob(self.network_, torch.zeros_like(problem.there))
                total = torch.zeros_like(empty)
                steps = problem.there.sum(1).clamp(max=self.max_edges)
                for step in range(int(steps.max())):
                    gained = problem.log_prob(self.network_, (place <= step) & problem.there) - empty
                    total += torch.where(step < steps, gained, 0.0)
                rewards[index] = (total / steps.clamp(min=1)).cpu()
        return rewards.numpy()

    def _problem(self, graphs: GraphSet, index: np.ndarray) -> Problem:
        return Problem.of(self._edges(graphs, index), self.network_)

    def _batches(self, graphs: GraphSet, size: int, copies: int, shuffle: bool = False) -> list[np.ndarray]:
        """Batches small enough for ``copies`` of the policy's tensors: for beams and walks."""
        most = CELLS // max(1, int(graphs.n_edges.max()) * self.hidden * copies)
        return graphs.batch_indices(max(1, min(size, most)), shuffle)


class Found(NamedTuple):
    """The best sequence of each graph."""

    reward: Tensor  # (b,)
    place: Tensor  # (b, E) step at which each edge was added, E where it was not


def _seen_before(key: Tensor, reward: Tensor) -> Tensor:
    """(b, K) bool: the row has the same edges in another order with a higher reward, or earlier."""
    equal = key[:, :, None] == key[:, None]
    k = key.shape[1]
    earlier = torch.ones(k, k, dtype=torch.bool, device=key.device).tril(-1)
    higher = reward[:, None] > reward[:, :, None]
    tied = (reward[:, None] == reward[:, :, None]) & earlier
    return (equal & (higher | tied)).any(2)


def _pad(values: Tensor, width: int) -> Tensor:
    return F.pad(values, (0, width - values.shape[1]), value=-torch.inf)


@dataclass(frozen=True)
class Problem:
    """A batch with the edges of each graph in one row, padded to E edges."""

    edges: EdgeBatch
    there: Tensor  # (b, E) bool, False where padded
    slot: Tensor  # (e,) position of each edge in its row
    h: Tensor  # (b, n, d) node embeddings of the whole graphs
    target: Tensor  # (b,) the class explained

    @classmethod
    @torch.no_grad()
    def of(cls, edges: EdgeBatch, network: GraphModel) -> Problem:
        """The problem of explaining the graphs of ``edges``."""
        counts = torch.as_tensor(edges.counts, device=edges.graph.device)
        slot = torch.arange(len(edges), device=counts.device) - edges.count(counts.cumsum(0) - counts)
        there = torch.arange(max(1, int(counts.max())), device=counts.device) < counts[:, None]
        batch = edges.batch
        return cls(edges, there, slot, network.embed(batch), network.read(batch).argmax(1))

    def flat(self, rows: Tensor) -> Tensor:
        """(b, ..., E) → (..., e)."""
        return rows[self.edges.graph, ..., self.slot].movedim(0, -1)

    def padded(self, flat: Tensor, fill: float) -> Tensor:
        """(e,) → (b, E)."""
        rows = flat.new_full(self.there.shape, fill)
        rows[self.edges.graph, self.slot] = flat
        return rows

    @torch.no_grad()
    def log_prob(self, network: GraphModel, chosen: Tensor) -> Tensor:
        """Log-probability of the target class from the chosen edges: (b, E) → (b,), (b, K, E) → (b, K)."""
        batch = self.edges.batch
        if chosen.ndim == 2:
            return self.log_prob(network, chosen[:, None])[:, 0]
        masks = self.flat(chosen.float())  # (K, e)
        out = []
        for part in masks.split(max(1, PASSES // len(batch))):
            k = len(part)
            many = replace(
                batch,
                x=batch.x.repeat(k, 1, 1),
                adj=batch.adj.repeat(k, 1, 1),
                mask=batch.mask.repeat(k, 1),
                y=None,
            )
            logits = network.read(many, self.edges.dense(part).flatten(0, 1))
            log_prob = F.log_softmax(logits, 1).view(k, len(batch), -1)
            index = self.target.expand(k, -1).unsqueeze(-1)
            out.append(log_prob.gather(2, index).squeeze(-1))
        return torch.cat(out).T


class Policy(nn.Module):
    """Scores of edges, given the subgraph so far and the class."""

    def __init__(self, n_in: int, n_classes: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(2 * n_in)
        self.edge = nn.Linear(2 * n_in, hidden)
        self.own = nn.Linear(hidden, hidden)
        self.subgraph = nn.Linear(hidden, hidden, bias=False)
        self.label = nn.Embedding(n_classes, hidden)
        self.score = nn.Linear(hidden, 1)

    def edges(self, problem: Problem) -> Tensor:
        """(b, E, d) embeddings of edges, the same from either end."""
        source, target = problem.edges.ends(problem.h)
        z = torch.relu(self.edge(self.norm(torch.cat([source + target, source * target], 1))))
        rows = z.new_zeros(*problem.there.shape, z.shape[1])
        return rows.index_put((problem.edges.graph, problem.slot), z)

    def scores(self, z: Tensor, chosen: Tensor, target: Tensor) -> Tensor:
        """Logits of all edges, (b, ..., E); chosen : (b, ..., E), the subgraph so far."""
        picked = chosen.to(z.dtype).view(len(z), -1, z.shape[1])  # (b, K, E)
        subgraph = picked @ z / picked.sum(-1, keepdim=True).clamp(min=1)
        state = self.subgraph(subgraph) + self.label(target)[:, None]  # (b, K, d)
        out = self.score(torch.relu(self.own(z)[:, None] + state[:, :, None])).squeeze(-1)
        return out.view(chosen.shape)
