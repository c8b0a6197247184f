"""The information term of the loss as a share of a training step, and for several networks at once."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import vmap

from benchmarks.brains import make_brains
from benchmarks.timing import Quartiles, Row, Work, in_turn
from benchmarks.training_step import BATCH, ci_gnn_step
from cignn.information import causal_terms, gaussian_gram, label_gram

N_CAUSAL, N_NONCAUSAL = 56, 8
NETWORKS = 5
TARGET, STACK_TARGET = 0.1, 0.8


def information_term(device: torch.device, networks: int = 1) -> Work:
    """Gram matrices, all spectra and the gradient of −I(α; Y | β) + I(α; β) for one batch of each network.

    On CUDA it is captured in a CUDA graph, as it is in training.
    """
    generator = torch.Generator().manual_seed(0)
    alpha = torch.randn(networks, BATCH, N_CAUSAL, generator=generator).to(device).requires_grad_()
    beta = torch.randn(networks, BATCH, N_NONCAUSAL, generator=generator).to(device).requires_grad_()
    y = (torch.arange(BATCH) % 2).to(device)

    def loss(alpha: Tensor, beta: Tensor) -> Tensor:
        terms = causal_terms(gaussian_gram(alpha), gaussian_gram(beta), label_gram(y))
        return terms.independence - terms.cmi

    def term() -> None:
        torch.autograd.grad(vmap(loss)(alpha, beta).sum(), (alpha, beta))

    if device.type != "cuda":
        return term
    with torch.cuda.stream(torch.cuda.Stream()):
        term()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        term()
    return graph.replay


def measure(device: torch.device, quick: bool) -> list[Row]:
    """Time the term and a whole step in turn, then the terms of one network and of several."""
    repeats = 10 if quick else 60
    one, stack = information_term(device), information_term(device, NETWORKS)
    term, whole = in_turn(one, ci_gnn_step(make_brains(BATCH), device), device, repeats)
    share = Quartiles.of(term / whole)
    alone, together = in_turn(one, stack, device, repeats)
    gain = Quartiles.of(together / (NETWORKS * alone))
    return [
        Row(
            f"information term, latents ({BATCH}, {N_CAUSAL}) and ({BATCH}, {N_NONCAUSAL}) / training step",
            {"information": Quartiles.of(term), "CI-GNN step": Quartiles.of(whole)},
            share,
            f"<= {TARGET}",
            share.median <= TARGET,
        ),
        Row(
            f"information terms of {NETWORKS} networks at once / {NETWORKS} times those of one",
            {"at once": Quartiles.of(together), "one": Quartiles.of(alone)},
            gain,
            f"<= {STACK_TARGET}",
            gain.median <= STACK_TARGET,
        ),
    ]
