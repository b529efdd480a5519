"""Damped Gauss-Newton against Adam on images: steps and CPU seconds until a training loss is reached.

    python -m learning_dynamics.experiments.damping.adam_race
    python -m learning_dynamics.experiments.damping.adam_race --samples 8000 --seeds 8

make two kept results of the chapter: 49-32-10 tanh networks on images of MNIST (means over blocks of 4 by 4 pixels),
one CPU thread. Every method runs in turn for one seed before the next seed begins, so that what slows the machine
slows all. Only the optimizer's own work is timed, not the evaluation. Seconds are CPU seconds of this process: they
depend on the machine, their ratios much less.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from learning_dynamics import curvature, data
from learning_dynamics.experiments.command import Call, Experiment, Option, Scaled
from learning_dynamics.optimizers import DampedGaussNewton
from learning_dynamics.runs import Run

CHAPTER = "curvature/damping"
THRESHOLDS = (0.5, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 1e-4, 1e-5)
METHODS = (  # name, learning rate, batch size (0: all samples)
    ("gauss-newton", 0.0, 0),
    ("adam", 0.03, 0),
    ("adam", 0.1, 0),
    ("adam", 0.3, 0),
    ("adam", 0.01, 100),
    ("adam", 0.03, 100),
    ("adam", 0.1, 100),
)
HELD_OUT = 2000
GAUSS_NEWTON_STEPS = 25


class Problem(NamedTuple):
    """Training and held-out images with their labels.

    Attributes:
        inputs: `(n, 49)`, images to train on.
        targets: `(n)` int64.
        fresh_inputs: `(2000, 49)`, images held out.
        fresh_targets: `(2000)` int64.
    """

    inputs: Tensor
    targets: Tensor
    fresh_inputs: Tensor
    fresh_targets: Tensor


class Curve(NamedTuple):
    """What is measured along one run.

    Attributes:
        steps: `(points)`, updates so far.
        seconds: `(points)`, CPU seconds in the optimizer so far.
        losses: `(points)`, mean training loss over all samples.
        errors: `(points)`, share of held-out images that are misclassified.
    """

    steps: Tensor
    seconds: Tensor
    losses: Tensor
    errors: Tensor


def problem(seed: int, samples: int) -> Problem:
    """Return a random split of the 10,000 images, 2,000 of them held out.

    Args:
        seed: of the split.
        samples: how many to train on.
    """
    mnist = data.load("mnist-10k")
    images = mnist.inputs.reshape(-1, 7, 4, 7, 4).mean((2, 4)).reshape(-1, 49)
    images = (images - images.mean(0)) / images.std(0).clamp(min=0.1)
    order = torch.randperm(len(images), generator=Run(CHAPTER).generator("images", seed=seed))
    some, rest = order[:samples], order[-HELD_OUT:]
    return Problem(images[some], mnist.targets[some], images[rest], mnist.targets[rest])


def network(seed: int) -> nn.Sequential:
    """Return a 49-32-10 tanh network in float64, weights of variance 1/inputs, no bias at the start.

    Args:
        seed: of the weights.
    """
    source = Run(CHAPTER).generator("network", seed=seed)
    model = nn.Sequential(nn.Linear(49, 32), nn.Tanh(), nn.Linear(32, 10)).to(torch.float64)
    with torch.no_grad():
        for layer in model:
            if not isinstance(layer, nn.Linear):
                continue
            layer.weight.normal_(0, layer.in_features**-0.5, generator=source)
            layer.bias.zero_()
    return model


def updates(method: tuple[str, float, int], model: nn.Module, given: Problem, seed: int) -> Iterator[int]:
    """Yield the number of updates now and then, training for ever.

    Gauss-Newton: after each; Adam on all samples: whenever three per cent more have been made; with minibatches: after
    each epoch.

    Args:
        method: name, step size and batch size, one of `METHODS`.
        model: the network, trained in place.
        given: the data.
        seed: of the minibatches.
    """
    name, rate, batch = method
    if name == "gauss-newton":
        damped = DampedGaussNewton(model, curvature.Categorical())
        count = 0
        while True:
            damped.step(inputs=given.inputs, targets=given.targets)
            yield (count := count + 1)
    adam, count, n = torch.optim.Adam(model.parameters(), lr=rate), 0, len(given.inputs)
    source, shown = Run(CHAPTER).generator("order", seed=seed), 0
    while True:
        order = torch.randperm(n, generator=source).split(batch) if batch else [slice(None)]
        for rows in order:
            adam.zero_grad()
            cross_entropy(model(given.inputs[rows]), given.targets[rows]).backward()
            adam.step()
            count += 1
        if batch or count >= 1.03 * shown:
            yield (shown := count)


def train(method: tuple[str, float, int], seed: int, samples: int, most: int) -> Curve:
    """Return the curve of one run.

    Args:
        method: one of `METHODS`.
        seed: of the split, the start and the order of the minibatches.
        samples: training images, at most 8000.
        most: updates after which the run ends; Adam ends earlier when it is below the lowest threshold.
    """
    given, model = problem(seed, samples), network(seed)
    steps, seconds, found = [0], [0.0], [evaluate(model, given)]
    source = updates(method, model, given, seed)
    while steps[-1] < most:
        begin = time.process_time()
        steps.append(next(source))
        seconds.append(seconds[-1] + time.process_time() - begin)
        found.append(evaluate(model, given))
        if found[-1][0] < THRESHOLDS[-1] and method[0] == "adam":
            break
    losses, errors = zip(*found, strict=True)
    return Curve(*(torch.tensor(each, dtype=torch.float64) for each in (steps, seconds, losses, errors)))


@torch.no_grad()
def evaluate(model: nn.Module, given: Problem) -> tuple[float, float]:
    """Return training loss and held-out error.

    Args:
        model: the network.
        given: its data.
    """
    loss = cross_entropy(model(given.inputs), given.targets).item()
    wrong = model(given.fresh_inputs).argmax(1) != given.fresh_targets
    return loss, wrong.to(torch.float64).mean().item()


def first_below(curve: Curve, thresholds: Sequence[float] = THRESHOLDS) -> tuple[Tensor, Tensor]:
    """Return steps and seconds until the training loss is below each threshold, `(thresholds)`; inf if never.

    Args:
        curve: one run.
        thresholds: the losses in question.
    """
    steps, seconds = [], []
    for bound in thresholds:
        below = (curve.losses < bound).nonzero()
        first = int(below[0]) if len(below) else None
        steps.append(math.inf if first is None else curve.steps[first].item())
        seconds.append(math.inf if first is None else curve.seconds[first].item())
    return torch.tensor(steps, dtype=torch.float64), torch.tensor(seconds, dtype=torch.float64)


def updates_of(method: tuple[str, float, int], samples: int) -> int:
    """Return how long a method may run, in updates.

    Gauss-Newton 25; Adam five million gradients of one sample with full batches, one million with minibatches.

    Args:
        method: name, step size and batch size, one of `METHODS`.
        samples: number of training samples.
    """
    name, _, batch = method
    if name == "gauss-newton":
        return GAUSS_NEWTON_STEPS
    return 1_000_000 // batch if batch else 5_000_000 // samples


def compute(call: Call) -> dict[str, Tensor]:
    """Return what is kept of all methods on all seeds; inf for a loss that is never reached.

    Returns:
        `steps` and `seconds` until the loss is below each of `THRESHOLDS`, `(seeds, methods, thresholds)`;
        `best_error` and `last_error` on held-out images and `whole`, the seconds of the whole run, `(seeds, methods)`;
        `gauss_newton_losses`, `(seeds, 26)`; some points of the curves of the first seed, `seed0_...`.
    """
    arrays: dict[str, list[Tensor]] = {"steps": [], "seconds": [], "best_error": [], "last_error": []}
    arrays["whole"] = []
    curves: dict[str, Tensor] = {}
    losses = []
    samples, most = call.options.samples, call.run.pick(smoke=3, book=10**9, paper=10**9)
    for method in METHODS:  # what torch does only once is not timed
        train(method, call.seeds[0], 200, 2)
    for seed in call.seeds:
        found = [train(m, seed, samples, min(most, updates_of(m, samples))) for m in METHODS]
        steps, seconds = zip(*(first_below(curve) for curve in found), strict=True)
        whole = [curve.seconds[-1] for curve in found]
        best, last = zip(*((curve.errors.min(), curve.errors[-1]) for curve in found), strict=True)
        for name, values in zip(arrays, (steps, seconds, best, last, whole), strict=True):
            arrays[name].append(torch.stack(list(values)))
        losses.append(found[0].losses)
        if seed == call.seeds[0]:
            for number, curve in enumerate(found):
                share = torch.logspace(-2, 0, 60, dtype=torch.float64)
                rows = (share * (len(curve.steps) - 1)).round().long().unique()
                curves |= {f"seed0_{name}_{number}": getattr(curve, name)[rows] for name in Curve._fields}
        print(f"seed {seed} done", flush=True)
    stacked = {name: torch.stack(values) for name, values in arrays.items()}
    return stacked | {"gauss_newton_losses": torch.stack(losses)} | curves


EXPERIMENT = Experiment(
    chapter=CHAPTER,
    name=lambda options: f"adam-race-{options.samples}",
    compute=compute,
    options=(Option("--samples", "training images, at most 8000", Scaled(500, 2000, 8000)),),
    seeds=Scaled(2, 12, 24),
    rtol=10.0,  # seconds differ between machines
    devices=("cpu",),
    kept=("", "--samples 8000 --seeds 8"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute and keep; see `learning_dynamics.experiments.command`."""
    return EXPERIMENT.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
