"""Damped natural gradient, SGD and Adam on digits: steps, seconds and held-out accuracy, each method tuned.

    python -m learning_dynamics.experiments.fisher_and_ggn.natural_training --part METHOD

makes a kept result of the chapter, one for each of `METHODS`: 16-12-10 tanh networks on scikit-learn's digits, averaged
over blocks of 2 by 2 pixels, batches of 200. Every method takes the setting of its grid with the fewest steps to the
target on six starts and splits that are used for nothing else. Seconds are CPU seconds of one thread for the
optimizer's own work.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import grad, vmap

from learning_dynamics import data, ensembles, rules
from learning_dynamics._internal.arguments import require_choice, require_first, require_tensors
from learning_dynamics.experiments.command import Call, Experiment, Scaled
from learning_dynamics.runs import Run

CHAPTER = "curvature/fisher_and_ggn"
RUN_NAME = "natural-training"
METHODS = ("natural", "empirical", "sgd", "momentum", "adam")
PIXELS, HIDDEN, CLASSES = 16, 12, 10
PIECES = [HIDDEN * PIXELS, HIDDEN, CLASSES * HIDDEN, CLASSES]
TRAINING, VALIDATION, BATCH = 1000, 297, 200
TARGET = 0.15  # training loss
TUNING = tuple(range(10_000, 10_006))  # seeds on which the settings are chosen
STEPS = {"natural": 80, "empirical": 400, "sgd": 2000, "momentum": 1000, "adam": 1000}
DAMPINGS = {
    "natural": (2e-4, 4e-4, 8e-4, 1.6e-3, 3.2e-3, 6.4e-3),
    "empirical": (2.56e-2, 5.12e-2, 1.024e-1),
}
RATES = {
    "natural": (0.1, 0.2, 0.4),
    "empirical": (0.8, 1.6, 3.2),
    "sgd": (0.25, 0.5, 1.0, 2.0, 4.0),
    "momentum": (0.1, 0.2, 0.4, 0.8, 1.6),
    "adam": (0.02, 0.04, 0.08, 0.16, 0.32),
}
EVERY = {
    "natural": 1,
    "empirical": 1,
    "sgd": 5,
    "momentum": 5,
    "adam": 5,
}  # steps between two looks at the training set


class Problem(NamedTuple):
    """Digits of several seeds, each with its own split and start.

    Attributes:
        x: `(seeds, 1797, 16)`, images between 0 and 1; the first 1,000 are for training, the next 297 for validation.
        y: `(seeds, 1797, 10)`, one-hot labels.
        start: `(seeds, d)`.
        seeds: the seeds, for the order of the batches.
    """

    x: Tensor
    y: Tensor
    start: Tensor
    seeds: tuple[int, ...]


def network(theta: Tensor, x: Tensor) -> Tensor:
    """Return the logits `(..., n, 10)` of networks `theta (..., d)` at inputs `x (..., n, 16)`."""
    W, b, V, c = theta.split(PIECES, -1)
    hidden = torch.tanh(x @ W.unflatten(-1, (HIDDEN, PIXELS)).mT + b[..., None, :])
    return hidden @ V.unflatten(-1, (CLASSES, HIDDEN)).mT + c[..., None, :]


def loss(theta: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Return the mean cross-entropy `(...)` of networks `theta (..., d)`.

    Args:
        theta: `(..., d)`.
        x: `(..., n, 16)`, inputs.
        y: `(..., n, 10)`, one-hot labels.
    """
    return -(network(theta, x).log_softmax(-1) * y).sum(-1).mean(-1)


def problems(seeds: Sequence[int]) -> Problem:
    """Return images, labels and starts.

    Args:
        seeds: one split and one start for each.
    """
    digits = data.load("digits")
    images = torch.nn.functional.avg_pool2d(digits.inputs.reshape(-1, 1, 8, 8), 2).flatten(1)
    labels = torch.nn.functional.one_hot(digits.targets, CLASSES).to(images)

    def one(seed: int) -> tuple[Tensor, Tensor, Tensor]:
        source = Run(CHAPTER).generator("digits", seed=seed)
        rows = torch.randperm(len(images), generator=source)
        W, V = (torch.randn(size, generator=source, dtype=images.dtype) for size in PIECES[::2])
        zeros = [images.new_zeros(size) for size in PIECES[1::2]]
        return images[rows], labels[rows], torch.cat([W / PIXELS**0.5, zeros[0], V / HIDDEN**0.5, zeros[1]])

    x, y, start = ensembles.stack_over_seeds(one, list(seeds))
    return Problem(x, y, start, tuple(seeds))


def jacobians(theta: Tensor, x: Tensor) -> Tensor:
    """Return the Jacobians `(..., n, 10, d)` of the logits of networks `theta (..., d)` at inputs `x (..., n, 16)`."""
    W, b, V, _ = theta.split(PIECES, -1)
    hidden = torch.tanh(x @ W.unflatten(-1, (HIDDEN, PIXELS)).mT + b[..., None, :])
    weights = V.unflatten(-1, (CLASSES, HIDDEN))
    slope = weights[..., None, :, :] * (1 - hidden**2)[..., None, :]  # (..., n, 10, 12)
    eye = torch.eye(CLASSES, dtype=theta.dtype)
    first = (slope[..., None] * x[..., None, None, :]).flatten(-2)
    second = (eye[..., None] * hidden[..., None, None, :]).flatten(-2)
    return torch.cat([first, slope, second, eye.expand(*hidden.shape[:-1], CLASSES, CLASSES)], -1)


def fisher(theta: Tensor, x: Tensor) -> Tensor:
    """Return the Fisher matrix `(d, d)` of one network `theta (d)` over the inputs `x (n, 16)`."""
    J, p = jacobians(theta, x), network(theta, x).softmax(-1)
    centred = J - torch.einsum("nc,ncd->nd", p, J)[:, None]
    root = (p.sqrt()[..., None] * centred).flatten(0, 1)
    return root.T @ root / len(x)


def empirical_fisher(theta: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Return the empirical Fisher matrix `(d, d)` of one network `theta (d)`.

    Args:
        theta: `(d)`.
        x: `(n, 16)`, inputs.
        y: `(n, 10)`, one-hot labels.
    """
    gradients = torch.einsum("nc,ncd->nd", network(theta, x).softmax(-1) - y, jacobians(theta, x))
    return gradients.T @ gradients / len(x)


def direction(method: str, damping: float, theta: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Return the vector `(seeds, d)` along which a method steps.

    The gradient for the methods of first order, else the gradient divided by the damped matrix of the same batch.

    Args:
        method: one of `METHODS`.
        damping: lambda > 0, for the methods with a matrix.
        theta: `(seeds, d)`.
        x: `(seeds, n, 16)`, inputs.
        y: `(seeds, n, 10)`, one-hot labels.

    Raises:
        ValueError: the method is none of `METHODS`.
    """
    require_choice("method", method, METHODS)
    gradient = grad(lambda each: loss(each, x, y).sum())(theta)
    if method not in ("natural", "empirical"):
        return gradient
    C = vmap(fisher)(theta, x) if method == "natural" else vmap(empirical_fisher)(theta, x, y)
    return torch.linalg.solve(C + damping * torch.eye(theta.shape[-1], dtype=theta.dtype), gradient)


def rule_of(method: str, rate: float) -> rules.Rule:
    """Return the rule that follows `direction`.

    Args:
        method: one of `METHODS`.
        rate: the step size.
    """
    if method == "momentum":
        return rules.HeavyBall(rate, 0.9)
    return rules.Adam(rate) if method == "adam" else rules.GradientDescent(rate)


def train(method: str, rate: float, damping: float, problem: Problem, steps: int) -> dict[str, Tensor]:
    """Train one network for each seed.

    Args:
        method: one of `METHODS`.
        rate: step size.
        damping: lambda, for the methods with a matrix.
        problem: as `problems` returns it.
        steps: number of steps, >= 1.

    Returns:
        `loss` on the whole training set, inf where it is no number, `validation` and `test` accuracy,
        `(looks, seeds)`, every `EVERY[method]` steps.
    """
    x, y = problem.x, problem.y
    draw = [Run(CHAPTER).generator("batches", seed=seed) for seed in problem.seeds]
    rows = torch.stack([torch.randint(TRAINING, (steps, BATCH), generator=each) for each in draw], 1)
    own = torch.arange(len(problem.seeds))[:, None]
    ends = (TRAINING, TRAINING + VALIDATION)

    def follow(theta: Tensor, k: int) -> Tensor:
        return direction(method, damping, theta, x[own, rows[k]], y[own, rows[k]])

    def look(theta: Tensor) -> Tensor:
        right = (network(theta, x).argmax(-1) == y.argmax(-1)).to(x)
        shares = [right[:, ends[0] : ends[1]].mean(-1), right[:, ends[1] :].mean(-1)]
        return torch.stack([loss(theta, x[:, :TRAINING], y[:, :TRAINING]), *shares], -1)

    rule = rule_of(method, rate)
    seen = ensembles.iterate(
        rule, follow, problem.start, steps, range(0, steps + 1, EVERY[method]), look
    ).values
    accuracy = torch.where(seen[..., 1:].isfinite(), seen[..., 1:], 0.0)
    losses = torch.where(seen[..., 0].isfinite(), seen[..., 0], torch.inf)
    return {"loss": losses, "validation": accuracy[..., 0], "test": accuracy[..., 1]}


def steps_to(losses: Tensor, every: int, target: float = TARGET) -> Tensor:
    """Return the first step with a loss at most `target`, `(seeds)`; inf where there is none.

    Args:
        losses: `(looks, seeds)`, the first at the start.
        every: steps between two looks.
        target: a loss.

    Raises:
        ValueError: the losses are not real floating point, or none.
    """
    require_first("losses", losses)
    below = losses <= target
    first = below.to(torch.int64).argmax(0) * float(every)
    return torch.where(below.any(0), first, torch.inf).to(losses)


def grid(method: str) -> list[tuple[float, float]]:
    """Return the pairs (step size, damping) that are tried.

    Args:
        method: one of `METHODS`.
    """
    return [(rate, damping) for rate in RATES[method] for damping in DAMPINGS.get(method, (0.0,))]


def score(losses: Tensor, every: int) -> tuple[float, float]:
    """Return what settings are ranked by: the mean number of steps to the target, then the mean of the last loss.

    The mean number of steps is inf if one seed did not get there.

    Args:
        losses: `(looks, seeds)`.
        every: steps between two looks.

    Raises:
        ValueError: the losses are not real floating point, none, or have another number of axes.
    """
    require_tensors(losses=(losses, "looks runs"))
    return float(steps_to(losses, every).mean()), float(losses[-1].mean())


def seconds_a_step(method: str, rate: float, damping: float, problem: Problem, steps: int = 20) -> float:
    """Return the CPU seconds of one step of one network: batch, gradient, matrix, solve, update.

    Args:
        method: one of `METHODS`.
        rate: step size.
        damping: lambda.
        problem: its first seed is used.
        steps: number of steps that are timed, after as many that are not.
    """
    theta, rule = problem.start[:1], rule_of(method, rate)
    state = rule.start(theta)
    for k in range(2 * steps):
        if k == steps:
            began = time.process_time()
        x, y = (each[:1, k * BATCH % 800 :][:, :BATCH] for each in (problem.x, problem.y))
        theta, state = rule.step(theta, direction(method, damping, theta, x, y), state)
    return (time.process_time() - began) / steps


def one_method(method: str, tuning: Problem, final: Problem, smoke: bool) -> dict[str, Tensor]:
    """Return what the book keeps of one method.

    Args:
        method: one of `METHODS`.
        tuning: the problems on which its setting is chosen.
        final: those on which it is judged.
        smoke: a tenth of the steps, two settings only.
    """
    steps, tried = STEPS[method], grid(method)
    if smoke:
        steps, tried = 10, tried[-2:]
    curves = [train(method, *each, tuning, steps)["loss"] for each in tried]
    scores = [score(losses, EVERY[method]) for losses in curves]
    best = tried[min(range(len(tried)), key=scores.__getitem__)]
    found = train(method, *best, final, steps)
    return {
        "grid": torch.tensor(tried, dtype=torch.float64),
        "tried": torch.tensor([steps for steps, _ in scores], dtype=torch.float64),
        "best": torch.tensor(best, dtype=torch.float64),
        "seconds": torch.tensor(seconds_a_step(method, *best, final), dtype=torch.float64),
        **{name: values.float() for name, values in found.items()},
    }


def compute(call: Call) -> dict[str, Tensor]:
    """Return the grid of one method, its mean steps to the target, the best setting, and the curves."""
    smoke = call.run.scale == "smoke"
    return one_method(call.part, problems(TUNING[:1] if smoke else TUNING), problems(call.seeds), smoke)


EXPERIMENT = Experiment(
    chapter=CHAPTER,
    name=lambda options: RUN_NAME,
    compute=compute,
    seeds=Scaled(2, 12, 40),
    parts=METHODS,
    rtol=10.0,  # seconds differ between machines
    devices=("cpu",),
    kept=tuple(f"--part {method}" for method in METHODS),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute and keep; see `learning_dynamics.experiments.command`."""
    return EXPERIMENT.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
