"""What the phase diagram of sparse recovery costs as one batch and as a loop over its cells, in one process."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from learning_dynamics.ensembles import iterate
from learning_dynamics.implicit_bias.sparse import squared_weights_gradient
from learning_dynamics.rules import GradientDescent
from timing import Row, one_thread, shortest, show

SAMPLES, ONES, WEIGHTS, SEEDS, STEPS = (
    (8, 12, 16, 22, 28, 36, 44, 54, 66),
    (1, 2, 3, 4, 6, 8, 11),
    100,
    10,
    100,
)
ALPHA, ETA = 1e-4, 0.05


def data() -> tuple[Tensor, Tensor, list[tuple[int, int]]]:
    """Return the samples of every seed, the truth of every cell, and the cells (samples, ones)."""
    random = torch.Generator().manual_seed(0)
    X = torch.randn(SEEDS, SAMPLES[-1], WEIGHTS, generator=random, dtype=torch.float64)
    cells = [(n, s) for n in SAMPLES for s in ONES]
    truths = torch.stack([(torch.arange(WEIGHTS) < s).double() for _, s in cells])
    return X, truths, cells


def one_batch(X: Tensor, truths: Tensor, cells: list[tuple[int, int]]) -> Tensor:
    """Run all cells of all seeds together; a cell weighs the rows it does not use with zero."""
    rows = torch.stack([(torch.arange(X.shape[1]) < n).double() / n for n, _ in cells])
    gradient = squared_weights_gradient(X, truths @ X.mT, rows)
    start = torch.full((SEEDS, len(cells), WEIGHTS), ALPHA, dtype=torch.float64)
    return iterate(GradientDescent(ETA), gradient, start, STEPS, record=[STEPS]).last


def loop(X: Tensor, truths: Tensor, cells: list[tuple[int, int]], seeds: int = SEEDS) -> Tensor:
    """Run the cells one after the other, each seed by itself, on its own rows alone."""
    ends = []
    start = torch.full((WEIGHTS,), ALPHA, dtype=torch.float64)
    for samples in X[:seeds]:
        for truth, (n, _) in zip(truths, cells, strict=True):
            gradient = squared_weights_gradient(samples[:n], samples[:n] @ truth)
            ends.append(iterate(GradientDescent(ETA), gradient, start, STEPS, record=[STEPS]).last)
    return torch.stack(ends).reshape(seeds, len(cells), WEIGHTS)


def rows() -> Iterator[Row]:
    """Yield how many times faster one batch is than the loop over the cells, after checking that they agree."""
    with one_thread():  # both on one core
        grid = data()
        assert torch.allclose(one_batch(*grid)[:1], loop(*grid, seeds=1), rtol=1e-9)
        (together,) = shortest(lambda: one_batch(*grid), repeats=3)
        (single,) = shortest(lambda: loop(*grid), repeats=1)
    label = f"phase diagram, {len(grid[2])} cells and {SEEDS} seeds, one batch against a loop ({STEPS} steps)"
    yield label, f"{single / together:.1f} times faster"


if __name__ == "__main__":
    show(rows())
