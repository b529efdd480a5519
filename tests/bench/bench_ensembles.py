"""What an ensemble costs against a loop of single runs, measured side by side in one process."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from learning_dynamics.ensembles import batched, iterate, stack_over_seeds
from learning_dynamics.rules import HeavyBall
from timing import Row, shortest, show

INPUTS, WIDTH, SAMPLES, STEPS = 4, 8, 16, 100


def make_run(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the inputs, targets and first weights of one seed."""
    random = torch.Generator().manual_seed(seed)
    X = torch.randn(SAMPLES, INPUTS, generator=random, dtype=torch.float64)
    theta = torch.randn(WIDTH * (INPUTS + 1), generator=random, dtype=torch.float64) / INPUTS**0.5
    return X, torch.sin(X.sum(-1)), theta


def loss(theta: Tensor, X: Tensor, y: Tensor) -> Tensor:
    """Return the squared error of a tanh network with one hidden layer."""
    hidden = torch.tanh(X @ theta[: WIDTH * INPUTS].reshape(INPUTS, WIDTH))
    return ((hidden @ theta[WIDTH * INPUTS :] - y) ** 2).mean()


def train(X: Tensor, y: Tensor, theta0: Tensor) -> Tensor:
    """Return the weights after STEPS steps, for one run or for a batch of runs."""
    return iterate(HeavyBall(0.02, 0.9), batched(loss, X, y), theta0, STEPS, record=[STEPS]).last


def rows() -> Iterator[Row]:
    """Yield for ensembles of 1, 8 and 64 how many times faster they are than a loop over their runs."""
    train(*make_run(0))  # first calls load kernels
    for size in (1, 8, 64):
        singles = [make_run(seed) for seed in range(size)]
        stacked = stack_over_seeds(make_run, range(size))
        (together,) = shortest(lambda stacked=stacked: train(*stacked), repeats=3)
        (loop,) = shortest(
            lambda singles=singles: [train(*single) for single in singles], repeats=1 if size > 8 else 3
        )
        label = f"ensemble of {size} against a loop of {size} single runs ({STEPS} steps)"
        yield label, f"{loop / together:.1f} times faster"


if __name__ == "__main__":
    show(rows())
