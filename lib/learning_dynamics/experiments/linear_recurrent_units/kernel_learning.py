"""Learn a convolution with one recurrent layer, linear or tanh, all seeds and learning rates at once; kept.

    python -m learning_dynamics.experiments.linear_recurrent_units.kernel_learning
    python -m learning_dynamics.experiments.linear_recurrent_units.kernel_learning --radius 0.95

The set-up of Orvieto 2023, section 5.4: 32 sequences sin(.05 a j) cos(.05 c j)^2 of length 100 with a, c uniform on
(.5, 3.5) (our choice of range), convolved with h_j = exp(-.015 j) cos(.04 j)^2 / 10; one layer of 100 states, Glorot
start, Adam.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from learning_dynamics import ensembles
from learning_dynamics._internal.arguments import require_same
from learning_dynamics.experiments.command import Call, Experiment, Option, Scaled
from learning_dynamics.models.recurrence import DenseRecurrence
from learning_dynamics.models.recurrence.dense import Activation
from learning_dynamics.rules import Adam

CHAPTER = "recurrence/linear_recurrent_units"
LEARNING_RATES = (1e-4, 3e-4, 1e-3)
LENGTH, SEQUENCES, STATES = 100, 32, 100


class Convolution(NamedTuple):
    """Sequences, and what a kernel makes of them.

    Attributes:
        inputs: `(seeds, 32, 100, 1)`.
        targets: `(seeds, 32, 100, 1)`.
        kernel: `(100,)`.
    """

    inputs: Tensor
    targets: Tensor
    kernel: Tensor


def kernel(length: int = LENGTH) -> Tensor:
    """Return h_j = exp(-.015 j) cos(.04 j)^2 / 10 for j = 0, ..., length - 1.

    Args:
        length: how many, >= 1.

    Returns:
        `(length,)`, float64.
    """
    j = torch.arange(length, dtype=torch.float64)
    return (torch.exp(-0.015 * j) * torch.cos(0.04 * j) ** 2 / 10).float()


def make_data(seeds: Sequence[int]) -> Convolution:
    """Return the sequences of each seed.

    Args:
        seeds: of the draws.

    Raises:
        ValueError: no seeds.
    """
    if not seeds:
        raise ValueError("seeds = (); allowed: at least one")
    j, made = torch.arange(LENGTH), []
    for seed in seeds:
        a, c = 0.5 + 3 * torch.rand(2, SEQUENCES, 1, generator=torch.Generator().manual_seed(seed))
        made.append(torch.sin(0.05 * a * j) * torch.cos(0.05 * c * j) ** 2)
    inputs, h = torch.stack(made), kernel()
    lag = j[:, None] - j
    toeplitz = torch.where(lag >= 0, h[lag.clamp(min=0)], 0.0)
    return Convolution(inputs[..., None], (inputs @ toeplitz.T)[..., None], h)


def learn(
    activation: Activation,
    seeds: Sequence[int],
    steps: int,
    *,
    radius: float | None = None,
    rates: Sequence[float] = LEARNING_RATES,
) -> Tensor:
    """Return the mean squared errors `(rates, seeds, steps)`, infinite from where a run diverged.

    Args:
        activation: `linear`, `tanh` or `relu`.
        seeds: each has its own sequences and its own start.
        steps: number of steps of Adam.
        radius: rescale the start of the state matrix to this spectral radius; as drawn if left out.
        rates: learning rates of Adam.

    Raises:
        ValueError: no seeds, or an unknown activation.
    """
    data = make_data(seeds)
    layers = [
        DenseRecurrence(
            1, STATES, activation=activation, generator=torch.Generator().manual_seed(10_000 + seed)
        )
        for seed in seeds
    ]
    for layer in layers:
        if radius is not None:
            with torch.no_grad():
                layer.A.mul_(radius / torch.linalg.eigvals(layer.A).abs().max())
    rate = torch.tensor(rates).repeat_interleave(len(seeds))[:, None]
    inputs, targets = (part.repeat(len(rates), 1, 1, 1) for part in (data.inputs, data.targets))
    ensemble = ensembles.ModuleEnsemble([each for _ in rates for each in layers], Adam(rate), squared_error)
    losses = ensemble.train(itertools.repeat((inputs, targets)), steps).losses
    return losses.T.reshape(len(rates), len(seeds), steps)


def squared_error(model: Callable[[Tensor], Tensor], u: Tensor, y: Tensor) -> Tensor:
    """Return the mean squared error `()` of a model's outputs.

    Args:
        model: from sequences to outputs.
        u: `(n, T, 1)`, sequences.
        y: `(n, T, 1)`, targets.

    Raises:
        ValueError: the outputs have another shape or dtype than the targets.
    """
    outputs = model(u)
    require_same("y", y, outputs, "the outputs")
    return (outputs - y).square().mean()


def compute(call: Call) -> dict[str, Tensor]:
    """Train both layers with all seeds and rates; return every tenth error and the first twenty."""
    kept = {"learning_rates": torch.tensor(LEARNING_RATES)}
    for activation in ("linear", "tanh"):
        kept |= call.piece(activation, _curves, call, activation)
    return kept


def _curves(call: Call, activation: Activation) -> dict[str, Tensor]:
    errors = learn(activation, call.seeds, call.options.steps, radius=call.options.radius)
    print(activation, errors[..., -1].median(-1).values.tolist(), file=sys.stderr, flush=True)
    return {f"{activation}_errors": errors[..., 9::10], f"{activation}_first": errors[..., :20]}


EXPERIMENT = Experiment(
    chapter=CHAPTER,
    name=lambda options: "kernel-learning" if options.radius is None else "kernel-learning-radius",
    compute=compute,
    options=(
        Option("--steps", "number of steps", Scaled(20, 1000, 1000)),
        Option("--radius", "spectral radius of the start; as drawn if left out", kind=float),
    ),
    seeds=Scaled(2, 12, 12),
    rtol=0.5,
    resumable=True,
    devices=("cpu",),
    kept=("", "--radius 0.95"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute and keep; see `learning_dynamics.experiments.command`."""
    return EXPERIMENT.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
