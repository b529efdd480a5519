"""Deep ReLU networks on digits under SGD, RMSprop and Adam: narrow, rescaled, residual, wide, convolutional.

    python -m learning_dynamics.experiments.vanishing_curvature.deep_training --network plain rescaled residual
    python -m learning_dynamics.experiments.vanishing_curvature.deep_training --network plain --width 64 --steps 1000

and the same with `--network convolutional --width 4 --steps 500`
make the kept results of the chapter: 64 hidden layers without bias, cross-entropy, minibatches of 64 of 1,500 digits,
float32, the step size falling linearly to zero. All settings of a network and all seeds are trained as one batch; the
runs of one seed share the start, the minibatches and nothing else.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, conv2d, cross_entropy, normalize

from learning_dynamics import data, rules
from learning_dynamics.experiments.command import Call, Experiment, Option, Scaled
from learning_dynamics.rules import Rule
from learning_dynamics.runs import Run

CHAPTER = "adaptivity/vanishing_curvature"
INPUTS, CLASSES, TRAINING = 64, 10, 1500
NETWORKS = ("plain", "rescaled", "residual")
CONVOLUTIONAL = "convolutional"
RECORDS = 21


class Setting(NamedTuple):
    """A rule and its first step size.

    Attributes:
        rule: its name.
        rate: the step size.
    """

    rule: str
    rate: float


SETTINGS: dict[str, tuple[Setting, ...]] = {
    "plain": (
        *(Setting("sgd", rate) for rate in (0.01, 0.03, 0.1, 0.3)),
        *(Setting(rule, rate) for rule in ("rmsprop", "adam") for rate in (3e-4, 1e-3)),
    ),
    "rescaled": (*(Setting("sgd", rate) for rate in (1e-3, 3e-3, 1e-2)), Setting("rmsprop", 1e-3)),
    "residual": (*(Setting("sgd", rate) for rate in (0.03, 0.1)), Setting("rmsprop", 1e-3)),
    CONVOLUTIONAL: (
        *(Setting("sgd", rate) for rate in (0.01, 0.03, 0.1, 0.3)),
        *(Setting("rmsprop", rate) for rate in (3e-4, 1e-3)),
    ),
}
WIDE = (*(Setting("sgd", rate) for rate in (1e-3, 3e-3, 1e-2)), Setting("rmsprop", 3e-4))


class DeepNetworks:
    """Many ReLU networks without bias of one shape, each a row of `theta (B, d)`.

    Args:
        width: units of a hidden layer, m.
        depth: hidden layers, D.
        residual: add the input of each layer to its output, and divide the latter by the root of the depth.
    """

    def __init__(self, width: int, depth: int, *, residual: bool = False) -> None:
        self.width, self.depth, self.residual = width, depth, residual
        self.shapes: tuple[tuple[int, ...], ...] = (
            (INPUTS, width),
            (depth, width, width),
            (width, CLASSES),
        )

    def weights(self, theta: Tensor) -> list[Tensor]:
        """Return first, hidden and last weights: `(B, 64, m)`, `(B, D, m, m)`, `(B, m, 10)`.

        Args:
            theta: `(B, d)`, the parameters of B networks.
        """
        parts = theta.split([math.prod(shape) for shape in self.shapes], -1)
        return [part.reshape(-1, *shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def features(self, theta: Tensor, x: Tensor) -> Tensor:
        """Return the last hidden layer, `(B, n, m)`.

        Args:
            theta: `(B, d)`, the parameters of B networks.
            x: `(B, n, 64)`, inputs.
        """
        first, hidden, _ = self.weights(theta)
        h = torch.relu(x @ first)
        for weight in hidden.unbind(1):
            layer = torch.relu(h @ weight)
            h = h + layer / math.sqrt(self.depth) if self.residual else layer
        return h

    def losses(self, theta: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean cross-entropy and the accuracy of each network, `(B)` each.

        Args:
            theta: `(B, d)`, the parameters of B networks.
            x: `(B, n, 64)`, inputs.
            y: `(B, n)`, labels.
        """
        scores = self.features(theta, x) @ self.weights(theta)[2]
        loss = cross_entropy(scores.flatten(0, 1), y.flatten(), reduction="none").view(y.shape).mean(1)
        return loss, (scores.argmax(-1) == y).to(loss).mean(1)

    def gradient(self, theta: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the losses `(B)` and their gradients `(B, d)`.

        Args:
            theta: `(B, d)`, the parameters of B networks.
            x: `(B, n, 64)`, inputs.
            y: `(B, n)`, labels.
        """
        theta = theta.detach().requires_grad_()
        loss, _ = self.losses(theta, x, y)
        (slope,) = torch.autograd.grad(loss.sum(), theta)
        return loss.detach(), slope

    def start(self, seed: int) -> Tensor:
        """Return He's start `(d)` (He et al. 2015, variance 2/m of the hidden weights) of one seed.

        Args:
            seed: of the weights.
        """
        source = Run(CHAPTER).generator("network", seed=seed)
        scales = (math.sqrt(2 / INPUTS), math.sqrt(2 / self.width), math.sqrt(1 / self.width))
        pieces = [
            torch.randn(shape, generator=source) * scale
            for shape, scale in zip(self.shapes, scales, strict=True)
        ]
        return torch.cat([piece.flatten() for piece in pieces])

    @torch.no_grad()
    def rescaled(self, theta: Tensor, x: Tensor) -> Tensor:
        """Return `theta (d)` with every hidden layer multiplied so that it keeps the mean square of the signal.

        Args:
            theta: `(d)`, one network.
            x: `(n, 64)`, the inputs on which it is kept.
        """
        first, hidden, last = (part[0].clone() for part in self.weights(theta[None]))
        h = torch.relu(x @ first)
        for j in range(self.depth):
            layer = torch.relu(h @ hidden[j])
            factor = (h.square().sum() / layer.square().sum()).sqrt()
            hidden[j] *= factor
            h = layer * factor
        return torch.cat([first.flatten(), hidden.flatten(), last.flatten()])


class ConvolutionalNetworks(DeepNetworks):
    """Many convolutional ReLU networks without bias: digits of 4 by 4 pixels, kernels of 3 by 3, D hidden layers.

    Each hidden layer has m channels on 4 by 4 positions; the last layer sees all of them.

    Args:
        width: channels of a hidden layer, m.
        depth: hidden layers, D.
    """

    SIDE = 4

    def __init__(self, width: int, depth: int) -> None:
        super().__init__(width, depth)
        self.shapes = (
            (width, 1, 3, 3),
            (depth, width, width, 3, 3),
            (width * self.SIDE**2, CLASSES),
        )

    def features(self, theta: Tensor, x: Tensor) -> Tensor:
        """Return the last hidden layer, `(B, n, 16 m)`.

        Args:
            theta: `(B, d)`, the parameters of B networks.
            x: `(B, n, 64)`, inputs, of which two by two pixels are averaged.
        """
        first, hidden, _ = self.weights(theta)
        count, n = x.shape[:2]
        h = avg_pool2d(x.reshape(count, n, 8, 8), 2).transpose(0, 1)  # one group of channels for each network
        for weight in (first, *hidden.unbind(1)):
            h = torch.relu(conv2d(h, weight.flatten(0, 1), padding=1, groups=count))
        return h.reshape(n, count, -1).transpose(0, 1)

    def start(self, seed: int) -> Tensor:
        """Return He's start `(d)`, variance 2/(9 m) of the hidden weights, of one seed.

        Args:
            seed: of the weights.
        """
        source = Run(CHAPTER).generator("convolutional network", seed=seed)
        fans = (9 / 2, 9 * self.width / 2, self.width * self.SIDE**2)
        pieces = [
            torch.randn(shape, generator=source) / math.sqrt(fan)
            for shape, fan in zip(self.shapes, fans, strict=True)
        ]
        return torch.cat([piece.flatten() for piece in pieces])


def digits() -> tuple[Tensor, Tensor]:
    """Return 1,500 standardized digits `(1500, 64)` in float32 and their labels, in a fixed random order."""
    given = data.load("digits", dtype=torch.float32)
    pixels = given.inputs.flatten(1)
    x = (pixels - pixels.mean(0)) / (pixels.std(0) + 1e-2)
    order = torch.randperm(len(x), generator=Run(CHAPTER).generator("digits", seed=0))[:TRAINING]
    return x[order], given.targets[order]


def rule_of(setting: Setting, steps: int) -> Rule:
    """Return the rule of a setting; its step size falls linearly to zero.

    Args:
        setting: one of `settings_of`.
        steps: after how many steps it is zero.
    """

    def schedule(k: int) -> float:
        return setting.rate * (1 - k / steps)

    if setting.rule == "sgd":
        return rules.GradientDescent(schedule)
    if setting.rule == "rmsprop":
        return rules.RMSprop(schedule, beta2=0.99)
    return rules.Adam(schedule)


def settings_of(network: str, width: int) -> tuple[Setting, ...]:
    """Return the settings that a network is trained with.

    Args:
        network: its name.
        width: m.
    """
    return WIDE if network == "plain" and width >= 64 else SETTINGS[network]


def train(
    network: str, width: int, depth: int, seeds: Sequence[int], steps: int, stop: int | None = None
) -> dict[str, Tensor]:
    """Train all settings of a network on all seeds.

    Args:
        network: one of `NETWORKS`, or "convolutional".
        width: units (channels) of a hidden layer.
        depth: hidden layers.
        seeds: of the start and of the minibatches.
        steps: number of steps that the schedules are made for.
        stop: steps that are made, all of them if left out.

    Returns:
        `records (R)`, step numbers; `losses` and `accuracies (settings, seeds, R)` on all 1,500 digits;
        `gradients (settings, seeds, R)`, the norm on the minibatch of that step; `cosines (seeds)`, the mean cosine
        of the last hidden layer of 64 digits at the start. Infinite where a run has diverged.
    """
    model = DeepNetworks(width, depth, residual=network == "residual")
    if network == CONVOLUTIONAL:
        model = ConvolutionalNetworks(width, depth)
    x, y = digits()
    starts = [model.start(seed) for seed in seeds]
    if network == "rescaled":
        starts = [model.rescaled(start, x[:256]) for start in starts]
    settings, count = settings_of(network, width), len(seeds)
    first = torch.stack(starts)
    thetas = [first.clone() for _ in settings]
    made = [rule_of(setting, steps) for setting in settings]
    states = [rule.start(theta) for rule, theta in zip(made, thetas, strict=True)]
    sources = [Run(CHAPTER).generator("minibatches", seed=seed) for seed in seeds]
    records = torch.linspace(0, steps, RECORDS).round().long().tolist()
    records = [k for k in records if stop is None or k <= stop]
    seen: dict[str, list[Tensor]] = {"losses": [], "accuracies": [], "gradients": []}
    shape = (len(settings), count)
    for k in range((steps if stop is None else stop) + 1):
        rows = torch.stack([torch.randint(TRAINING, (64,), generator=source) for source in sources])
        rows = rows.repeat(len(settings), 1)
        theta = torch.cat(thetas)
        _, slopes = model.gradient(theta, x[rows], y[rows])
        if k in records:
            with torch.no_grad():
                whole = [model.losses(part, x.expand(count, -1, -1), y.expand(count, -1)) for part in thetas]
            seen["losses"].append(torch.stack([loss for loss, _ in whole]))
            seen["accuracies"].append(torch.stack([accuracy for _, accuracy in whole]))
            seen["gradients"].append(slopes.norm(dim=1).view(shape))
        for number, slope in enumerate(slopes.split(count)):
            thetas[number], states[number] = made[number].step(thetas[number], slope, states[number])
    with torch.no_grad():
        unit = normalize(model.features(first, x[:64].expand(count, -1, -1)), dim=-1)
    cosines = (unit.sum(1).square().sum(-1) - 64) / (64 * 63)
    found = {name: torch.stack(values, -1).nan_to_num(torch.inf) for name, values in seen.items()}
    return {"records": torch.tensor(records), **found, "cosines": cosines}


def compute(call: Call) -> dict[str, Tensor]:
    """Return what `train` does, for one network."""
    o = call.options
    return train(o.network, o.width, o.depth, call.seeds, o.steps)


EXPERIMENT = Experiment(
    chapter=CHAPTER,
    name=lambda options: (
        f"deep-training-{options.network}-{options.width}"
        + (f"-{options.depth}" if options.depth > 64 else "")
    ),
    compute=compute,
    options=(
        Option("--network", "which networks", NETWORKS, allowed=(*NETWORKS, CONVOLUTIONAL)),
        Option("--width", "units or channels of a hidden layer", Scaled(8, 16, 16)),
        Option("--depth", "hidden layers", Scaled(8, 64, 64)),
        Option("--steps", "steps", Scaled(20, 2000, 4000)),
    ),
    seeds=Scaled(2, 10, 10),
    each="network",
    rtol=0.5,  # trained in float32: late losses are chaotic
    devices=("cpu",),
    kept=("", "--network plain --width 64 --steps 1000", "--network convolutional --width 4 --steps 500"),
    paper=tuple(f"--network plain --width {m} --depth {d} --steps 20000" for m, d in ((32, 128), (16, 500))),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute and keep; see `learning_dynamics.experiments.command`."""
    return EXPERIMENT.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
