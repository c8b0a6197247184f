"""The pairs of nodes of graphs of one size, each once."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Pairs(nn.Module):
    """From a symmetric matrix to its upper triangle and back, for matrices of ``n`` rows; no parameters."""

    upper: Tensor  # (n (n - 1) / 2,) where the upper triangle stands in a flattened matrix
    place: Tensor  # (n²,) which pair each cell of a matrix belongs to; 0 on the diagonal

    def __init__(self, n: int) -> None:
        super().__init__()
        self.n = n
        row, column = torch.triu_indices(n, n, 1)
        place = torch.zeros(n, n, dtype=torch.long)
        place[row, column] = place[column, row] = torch.arange(len(row))
        self.register_buffer("upper", row * n + column, persistent=False)
        self.register_buffer("place", place.flatten(), persistent=False)

    def __len__(self) -> int:
        return len(self.upper)

    def of(self, matrix: Tensor) -> Tensor:
        """The upper triangle of (..., n, n), (..., n (n - 1) / 2)."""
        return matrix.flatten(-2).index_select(-1, self.upper)

    def matrix(self, values: Tensor) -> Tensor:
        """The symmetric matrix (b, n, n), zero on the diagonal, of values : (b, n (n - 1) / 2)."""
        flat = values.index_select(1, self.place)
        flat[:, :: self.n + 1] = 0
        return flat.view(len(values), self.n, self.n)
