r"""A ReLU network on a few MNIST images, trained with shaken weights: all layers or one at a time, at several widths.

    python -m learning_dynamics.experiments.layerwise_noise.mnist_widths

makes one kept result for each width. Full batches of 256 images, gradient descent, noise in the first nine tenths of
the steps; of one seed, all methods and noise levels start from the same weights. Source: Orvieto (2023), figures
59 (right) and 60, where the images are 1,024 of Fashion-MNIST and the widths 1,000 and 5,000; float32.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from learning_dynamics import data
from learning_dynamics.experiments.command import Call, Experiment, Option, Scaled
from learning_dynamics.noise import shaking
from learning_dynamics.runs import Run

CHAPTER = "noise/layerwise_noise"
WIDTHS = ("200", "800")
METHODS = ("all", "one")
SIGMAS = (0.05, 0.1, 0.2)
TRAINED, TESTED, EVERY = 256, 3000, 25


def images() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return 256 training images and classes, and 3,000 to test with, pixels in [0, 1], `(n, 784)` and `(n,)`."""
    mnist = data.load("mnist-10k")
    inputs, targets = mnist.inputs.flatten(1).float(), mnist.targets
    held = slice(5000, 5000 + TESTED)
    return inputs[:TRAINED], targets[:TRAINED], inputs[held], targets[held]


def network(width: int, depth: int, generator: torch.Generator) -> nn.Sequential:
    """Return a ReLU network with `depth` hidden layers, weights of variance 2 / inputs, and no bias at the start.

    Args:
        width: of every hidden layer.
        depth: number of hidden layers.
        generator: source of the weights.
    """
    parts: list[nn.Module] = []
    for fan_in, fan_out in pairwise((784, *[width] * depth, 10)):
        layer = nn.Linear(fan_in, fan_out)
        with torch.no_grad():
            layer.weight.copy_((2 / fan_in) ** 0.5 * torch.randn(fan_out, fan_in, generator=generator))
            layer.bias.zero_()
        parts += [layer, nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def train(
    width: int,
    depth: int,
    sigma: float,
    layers: Literal["all", "one"],
    seed: int,
    steps: int,
    step_size: float,
) -> dict[str, Tensor]:
    """Train one network.

    Args:
        width: of the hidden layers.
        depth: number of hidden layers.
        sigma: standard deviation of the noise; none if zero.
        layers: "all" or "one".
        seed: of the weights and of the noise.
        steps: number of steps.
        step_size: eta.

    Returns:
        `accuracy` and `loss`, `(records,)`: on the test images, and on the training images at unshaken weights,
        every 25 steps from 0 on and at the end; infinite losses and accuracy zero where the run has diverged.
    """
    source = Run(CHAPTER)
    model = network(width, depth, source.generator("weights", seed=seed))
    noise = source.generator("noise", seed=seed)
    optimizer = torch.optim.SGD(model.parameters(), step_size)
    x, y, x_test, y_test = images()
    accuracy, losses = [], []
    for k in range(steps + 1):
        if k % EVERY == 0 or k == steps:
            with torch.no_grad():
                loss = cross_entropy(model(x), y)
                right = (model(x_test).argmax(1) == y_test).float().mean()
            finite = bool(loss.isfinite())
            accuracy.append(right if finite else torch.zeros(()))
            losses.append(loss if finite else torch.tensor(torch.inf))
        if k == steps:
            break
        shakes = sigma > 0 and k < 0.9 * steps
        with shaking.shaken(model, sigma, layers=layers, generator=noise) if shakes else nullcontext():
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
        optimizer.step()
    return {"accuracy": torch.stack(accuracy), "loss": torch.stack(losses)}


def compute(call: Call) -> dict[str, Tensor]:
    """Return the curves `plain_* (seeds, records)` and `all_*`, `one_* (sigmas, seeds, records)`."""
    o, width = call.options, int(call.options.width)

    def curves(name: str, sigma: float, layers: str) -> dict[str, Tensor]:
        found = [
            call.piece(f"{name}-{seed}", train, width, o.hidden, sigma, layers, seed, o.steps, o.step_size)
            for seed in call.seeds
        ]
        return {key: torch.stack([each[key] for each in found]) for key in ("accuracy", "loss")}

    arrays = {f"plain_{key}": value for key, value in curves("plain", 0.0, "all").items()}
    for layers in METHODS:
        grid = [curves(f"{layers}-{sigma}", sigma, layers) for sigma in o.sigmas]
        arrays |= {f"{layers}_{key}": torch.stack([each[key] for each in grid]) for key in grid[0]}
    return arrays


def _named(options: argparse.Namespace) -> str:
    """Return a result's name: the layers, and the noise levels where they are not the usual ones."""
    levels = "" if options.sigmas == SIGMAS else "-at-" + "-".join(map(str, options.sigmas)).replace(".", "_")
    return f"mnist-{options.hidden}x{options.width}{levels}"


EXPERIMENT = Experiment(
    chapter=CHAPTER,
    name=_named,
    compute=compute,
    options=(
        Option("--width", "widths of the hidden layers", WIDTHS),
        Option("--hidden", "number of hidden layers", 2),
        Option("--sigmas", "standard deviations of the noise", SIGMAS),
        Option("--steps", "number of steps", Scaled(4, 600, 5000)),
        Option("--step-size", "eta", 0.1),
    ),
    seeds=Scaled(2, 5, 10),
    each="width",
    rtol=0.05,
    resumable=True,
    devices=("cpu",),
    kept=(
        "--width 200",
        "--width 800",
        "--width 300 --hidden 5",
        "--width 800 --sigmas 0.1 --seed 1 --seeds 12",
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute and keep; see `learning_dynamics.experiments.command`."""
    return EXPERIMENT.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
