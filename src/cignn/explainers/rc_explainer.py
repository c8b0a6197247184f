"""`RCExplainer` (Wang et al. 2022): edges are added one by one, each for the gain it brings."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from cignn._checks import choice
from cignn.explainers.base import EdgeBatch, NetworkExplainer, check_params, frozen
from cignn.explainers.references import Policy, Problem
from cignn.explanations import Explanations
from cignn.graphs import GraphSet

BEAMS = (1, 2, 4, 8, 16)
CELLS = 2**26  # numbers in the policy's largest tensors: bounds the memory of a batch


class RCExplainer(NetworkExplainer):
    """Explain by a policy that adds edges to an empty graph.

    The reward of an edge is what adding it gains in the log-probability of the class the network predicts for
    the whole graph. The policy reads the edge, the subgraph so far and the class, and is trained by
    REINFORCE. Edges weigh by the order in which they come; those left after ``max_edges`` follow by their
    score.

    A wider beam never earns less: a search of width B includes those of the widths below it, and of all
    sequences found the one with the highest reward, the mean over its steps of the log-probability gained so
    far, is kept.

    Parameters
    ----------
    beam : 1 (follow the policy), 2, 4, 8 or 16
    max_edges : edges added one by one
    epochs : passes over the graphs of ``fit``; learning_rate : of Adam; hidden : width of the policy;
        train_batch_size : graphs in a step
    discount : what a later gain counts for an earlier edge; entropy_weight : keeps the policy curious
    batch_size : graphs explained at a time
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
        random_state: Any = None,
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

    def _check(self, estimator: Any) -> None:
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
        """Walk once through every graph by chance; minus the expected return, by its score function."""
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
        advantage = advantage - advantage.mean(1, keepdim=True)  # what a graph may expect at this step
        advantage = advantage / advantage.std().clamp(min=1e-6)
        gain = torch.stack(choices) * advantage + self.entropy_weight * torch.stack(entropies)
        return -gain.sum(0).mean()

    # --------------------------------------------------------------- searching

    def _explain(self, graphs: GraphSet) -> Explanations:
        weights: list[Any] = [None] * len(graphs)
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
        """Beam search: of all ways to go on, the most probable are tried and the most rewarding kept."""
        b, e, _ = z.shape
        device = z.device
        rows = torch.arange(b, device=device)[:, None]
        keys = torch.randint(2**62, (e,), device=device, generator=torch.Generator(device).manual_seed(0))
        empty = problem.log_prob(self.network_, torch.zeros_like(problem.there))
        place = torch.full((b, width, e), e, device=device)  # when each edge came; e where it did not
        path = torch.full((b, width), -torch.inf, device=device)
        path[:, 0] = 0
        total = path.clone()  # sum over steps of what was gained so far
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

    def reward(self, explanations: Explanations) -> Any:
        """(g,) mean over the first ``max_edges`` edges, heaviest first, of the log-probability gained so far.

        What the search maximises, asked again of any explanations of the same network.
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

    def _problem(self, graphs: GraphSet, index: Any) -> Problem:
        return Problem.of(self._edges(graphs, index), self.network_)

    def _batches(self, graphs: GraphSet, size: int, copies: int, shuffle: bool = False) -> list[Any]:
        """Batches small enough for ``copies`` of the policy's tensors: a beam's states or a walk's steps."""
        most = CELLS // max(1, int(graphs.n_edges.max()) * self.hidden * copies)
        return graphs.batch_indices(max(1, min(size, most)), shuffle)


class Found(NamedTuple):
    """The best sequence of each graph: reward : (b,); place : (b, E) when each edge came, E if it did not."""

    reward: Tensor
    place: Tensor


def _seen_before(key: Tensor, reward: Tensor) -> Tensor:
    """(b, K) bool: the same edges in another order stand in the row with a higher reward, or earlier."""
    equal = key[:, :, None] == key[:, None]
    k = key.shape[1]
    earlier = torch.ones(k, k, dtype=torch.bool, device=key.device).tril(-1)
    higher = reward[:, None] > reward[:, :, None]
    tied = (reward[:, None] == reward[:, :, None]) & earlier
    return (equal & (higher | tied)).any(2)


def _pad(values: Tensor, width: int) -> Tensor:
    return F.pad(values, (0, width - values.shape[1]), value=-torch.inf)
