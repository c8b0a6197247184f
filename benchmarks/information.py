"""The information term of the loss as a share of the training step it is part of."""

from __future__ import annotations

import torch

from benchmarks.brains import make_brains
from benchmarks.timing import Quartiles, Row, Work, in_turn
from benchmarks.training_step import BATCH, ci_gnn_step
from cignn.information import causal_terms, gaussian_gram, label_gram

N_CAUSAL, N_NONCAUSAL = 56, 8
TARGET = 0.1


def information_term(device: torch.device) -> Work:
    """Gram matrices, all spectra and the gradient of −I(α; Y | β) + I(α; β) for one batch of latents."""
    generator = torch.Generator().manual_seed(0)
    alpha = torch.randn(BATCH, N_CAUSAL, generator=generator).to(device).requires_grad_()
    beta = torch.randn(BATCH, N_NONCAUSAL, generator=generator).to(device).requires_grad_()
    y = (torch.arange(BATCH) % 2).to(device)

    def term() -> None:
        terms = causal_terms(gaussian_gram(alpha), gaussian_gram(beta), label_gram(y))
        torch.autograd.grad(terms.independence - terms.cmi, (alpha, beta))

    return term


def measure(device: torch.device, quick: bool) -> list[Row]:
    """Time the term and a whole step in turn."""
    step = ci_gnn_step(make_brains(BATCH), device)
    term, whole = in_turn(information_term(device), step, device, 10 if quick else 60)
    ratio = Quartiles.of(term / whole)
    return [
        Row(
            f"information term, latents ({BATCH}, {N_CAUSAL}) and ({BATCH}, {N_NONCAUSAL}) / training step",
            {"information": Quartiles.of(term), "CI-GNN step": Quartiles.of(whole)},
            ratio,
            f"<= {TARGET}",
            ratio.median <= TARGET,
        )
    ]
