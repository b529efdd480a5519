"""Four curvature matrices under one Levenberg-Marquardt rule, on true and on partly random labels.

    python -m learning_dynamics.experiments.damping.levenberg_race

makes a kept result of the chapter: 8-5-10 tanh networks on 200 images of digits, full batches, 24 seeds. Source of the
question: Martens (2020), sections 8.1 and 10, which quotes Martens (2010) and gives no formula and no data.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.func import hessian, jacrev, vmap

from learning_dynamics import data, ensembles
from learning_dynamics._internal.arguments import require_choice
from learning_dynamics.curvature import gain_ratio, model_change, next_damping
from learning_dynamics.experiments.command import Call, Experiment, Scaled
from learning_dynamics.runs import Run

CHAPTER = "curvature/damping"
MATRICES = ("gauss-newton", "shifted", "clipped", "absolute")
FACTORS = (1.5, 3.0)
STEPS = 20
RANDOM = (0.0, 0.3)  # share of labels replaced by random ones
COMPONENTS, HIDDEN, CLASSES, SAMPLES = 8, 5, 10, 200
PIECES = [COMPONENTS * HIDDEN, HIDDEN, HIDDEN * CLASSES, CLASSES]


def network(theta: Tensor, x: Tensor) -> Tensor:
    """Return the logits `(..., 10)` of one network, `theta (105)`, at inputs `x (..., 8)`."""
    W, b, V, c = torch.split(theta, PIECES)
    return torch.tanh(x @ W.reshape(COMPONENTS, HIDDEN) + b) @ V.reshape(HIDDEN, CLASSES) + c


def loss(theta: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Return the mean cross-entropy `()` of one network.

    Args:
        theta: `(d)`.
        x: `(n, 8)`, inputs.
        y: `(n, 10)`, one-hot labels.
    """
    return -(network(theta, x).log_softmax(-1) * y).sum(-1).mean()


def problems(seeds: Sequence[int], random_labels: float = 0.0) -> tuple[Tensor, Tensor, Tensor]:
    """Return inputs `(seeds, 200, 8)`, one-hot labels `(seeds, 200, 10)` and starts `(seeds, 105)`.

    The inputs are the first eight principal components of scikit-learn's digits, each of variance one.

    Args:
        seeds: one problem for each.
        random_labels: share of the labels that are drawn anew, each class alike.
    """
    digits = data.load("digits")
    pixels = digits.inputs.reshape(len(digits.inputs), -1)
    pixels = pixels - pixels.mean(0)
    axes = torch.linalg.eigh(pixels.T @ pixels).eigenvectors[:, -COMPONENTS:]
    axes = axes * axes.sum(0).sign()  # the same sign everywhere
    features = pixels @ axes
    features = features / features.std(0)

    def one(seed: int) -> tuple[Tensor, Tensor, Tensor]:
        source = Run(CHAPTER).generator("digits", seed=seed)
        rows = torch.randperm(len(features), generator=source)[:SAMPLES]
        start = 0.5 * torch.randn(sum(PIECES), generator=source, dtype=features.dtype)
        replaced = torch.rand(SAMPLES, generator=source) < random_labels
        drawn = torch.randint(CLASSES, (SAMPLES,), generator=source)
        labels = torch.where(replaced, drawn, digits.targets[rows])
        return features[rows], torch.nn.functional.one_hot(labels, CLASSES).to(features), start

    x, y, start = ensembles.stack_over_seeds(one, list(seeds))
    return x, y, start


def gauss_newton(theta: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradient `(seeds, d)` and the Gauss-Newton (Fisher) matrix `(seeds, d, d)` of each network.

    Args:
        theta: `(seeds, d)`.
        x: `(seeds, n, 8)`, inputs.
        y: `(seeds, n, 10)`, one-hot labels.
    """
    J = vmap(vmap(jacrev(network), (None, 0)))(theta, x)  # (seeds, n, classes, d)
    p = vmap(network)(theta, x).softmax(-1)
    mean = torch.einsum("snc,sncd->snd", p, J)
    root = (p.sqrt()[..., None] * (J - mean[:, :, None])).flatten(1, 2)
    return torch.einsum("snc,sncd->sd", p - y, J) / x.shape[1], root.mT @ root / x.shape[1]


def matrix(kind: str, theta: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return gradient and curvature matrix; the Hessian made positive semidefinite in one of three ways.

    "shifted" adds the least multiple of the identity, "clipped" sets negative eigenvalues to zero, "absolute" takes
    their absolute values (Dauphin et al. 2014).

    Args:
        kind: one of `MATRICES`.
        theta: `(seeds, d)`.
        x: `(seeds, n, 8)`, inputs.
        y: `(seeds, n, 10)`, one-hot labels.

    Returns:
        The gradient `(seeds, d)` and the matrix `(seeds, d, d)`.

    Raises:
        ValueError: the kind is none of `MATRICES`.
    """
    require_choice("kind", kind, MATRICES)
    gradient, C = gauss_newton(theta, x, y)
    if kind == "gauss-newton":
        return gradient, C
    values, vectors = torch.linalg.eigh(vmap(hessian(loss))(theta, x, y))
    positive = {
        "shifted": values + 1.001 * (-values[:, :1]).clamp(min=0),
        "clipped": values.clamp(min=0),
        "absolute": values.abs(),
    }[kind]
    return gradient, (vectors * positive[:, None]) @ vectors.mT


def race(kind: str, factor: float, x: Tensor, y: Tensor, start: Tensor, steps: int = STEPS) -> Tensor:
    """Return the training loss `(steps + 1, seeds)` of the damped method, damping 1 at the start.

    Args:
        kind: one of `MATRICES`.
        factor: by which the damping changes, > 1.
        x: `(seeds, n, 8)`, inputs.
        y: `(seeds, n, 10)`, one-hot labels.
        start: `(seeds, d)`.
        steps: number of steps, >= 1.
    """
    eye = torch.eye(start.shape[-1], dtype=start.dtype)
    theta, damping, losses = start, torch.ones(len(start), dtype=start.dtype), [vmap(loss)(start, x, y)]
    for _ in range(steps):
        gradient, C = matrix(kind, theta, x, y)
        delta = -torch.linalg.solve(C + damping[:, None, None] * eye, gradient)
        proposed = vmap(loss)(theta + delta, x, y)
        rho = gain_ratio(losses[-1], proposed, model_change(C, gradient, delta))
        accepted = proposed < losses[-1]
        theta = torch.where(accepted[:, None], theta + delta, theta)
        losses.append(torch.where(accepted, proposed, losses[-1]))
        damping = next_damping(damping, rho, factor)
    return torch.stack(losses)


def compute(call: Call) -> dict[str, Tensor]:
    """Return `losses (label sets, matrices, factors, steps + 1, seeds)` in the order of the constants above."""
    found = []
    for share in RANDOM:
        problem = problems(call.seeds, share)
        rows = [torch.stack([race(kind, factor, *problem) for factor in FACTORS]) for kind in MATRICES]
        found.append(torch.stack(rows))
    return {"losses": torch.stack(found)}


EXPERIMENT = Experiment(
    chapter=CHAPTER,
    name=lambda options: "levenberg-race",
    compute=compute,
    seeds=Scaled(2, 24, 40),
    rtol=1e-2,
    devices=("cpu",),
    kept=("",),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute and keep; see `learning_dynamics.experiments.command`."""
    return EXPERIMENT.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
