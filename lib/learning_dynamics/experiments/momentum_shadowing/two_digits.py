r"""Gradient descent, heavy ball and their flows on threes and fives: how far apart, for how long, at which step.

    python -m learning_dynamics.experiments.momentum_shadowing.two_digits

makes the three kept results of the chapter, one a study: `paths` (two weight decays, 250 steps), `time-steps` (the gap
against h) and `starts` (the gap against the scale of the start). One linear unit with the sigmoid loss

.. math:: L(\theta) = \frac1n\sum_i \frac1{1 + e^{y_i\,\theta^\top x_i}} + \frac\lambda2\lVert\theta\rVert^2

on the threes (y = 1) and fives (y = -1) of the shipped 10,000 images. Source: Orvieto (2023), section 2.4.4, where n is
10,000; float64 throughout.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from learning_dynamics import data
from learning_dynamics._internal.arguments import (
    require_broadcast,
    require_last,
    require_real,
    require_tensors,
)
from learning_dynamics.experiments.command import Call, Experiment, Option, Scaled
from learning_dynamics.runs import Run

CHAPTER = "momentum/momentum_shadowing"
STUDIES = ("paths", "time-steps", "starts")
DECAYS = (0.005, 0.0005)
TIME_STEPS = (0.1, 0.2, 0.5, 1.0)
SCALES = (0.03, 0.1, 0.3, 1.0)
FRICTION, SCALE = 0.3, 0.3

Gradient = Callable[[Tensor], Tensor]


def signed_images() -> Tensor:
    """Return the threes and minus the fives, pixels in [0, 1] with a one appended, `(n, 785)`."""
    mnist = data.load("mnist-10k")
    chosen = (mnist.targets == 3) | (mnist.targets == 5)
    images = mnist.inputs[chosen].flatten(1)
    images = torch.cat([images, torch.ones_like(images[:, :1])], 1)
    return images * torch.where(mnist.targets[chosen] == 3, 1.0, -1.0)[:, None]


def loss(theta: Tensor, rows: Tensor, decay: float | Tensor) -> Tensor:
    """Return the sigmoid loss with weight decay, `(*batch)`.

    Args:
        theta: `(*batch, d)`.
        rows: `(n, d)`, inputs times labels.
        decay: lambda, a number or `(*batch, 1)`.

    Raises:
        ValueError: the tensors do not fit together.
    """
    _require(theta, rows, decay)
    return torch.sigmoid(-theta @ rows.mT).mean(-1) + 0.5 * (decay * theta * theta).sum(-1)


def gradient(theta: Tensor, rows: Tensor, decay: float | Tensor) -> Tensor:
    """Return the gradient of `loss`, `(*batch, d)`.

    Args:
        theta: `(*batch, d)`.
        rows: `(n, d)`, inputs times labels.
        decay: lambda, a number or `(*batch, 1)`.

    Raises:
        ValueError: the tensors do not fit together.
    """
    _require(theta, rows, decay)
    wrong = torch.sigmoid(-theta @ rows.mT)
    return decay * theta - (wrong * (1 - wrong)) @ rows / len(rows)


def _require(theta: Tensor, rows: Tensor, decay: float | Tensor) -> None:
    if theta.ndim < 1 or not theta.is_floating_point():
        raise ValueError(f"theta is {theta.dtype} {tuple(theta.shape)}; allowed: real (*batch, d)")
    require_last("rows", rows, theta, theta.shape[-1])
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(f"rows has shape {tuple(rows.shape)}; allowed: (n, d), none of these zero")
    if isinstance(decay, Tensor):
        require_real("decay", decay)
        require_broadcast("decay", decay, theta.shape)


def starts(seeds: Sequence[int], scale: float = SCALE) -> Tensor:
    """Return independent normal starts, `(seeds, 785)`; those of one seed at two scales differ by a factor only.

    Args:
        seeds: one start each.
        scale: standard deviation of an entry.
    """
    run = Run(CHAPTER)
    rows = [
        torch.randn(785, generator=run.generator("start", seed=seed), dtype=torch.float64) for seed in seeds
    ]
    return scale * torch.stack(rows)


def sampled(field: Gradient, state: Tensor, count: int, substeps: int, time_step: float = 1.0) -> Tensor:
    """Return a flow at the times 0, h, ..., count h by Runge and Kutta's method of order 4.

    Args:
        field: velocity of `state`, same shape.
        state: any shape.
        count: number of samples after the first.
        substeps: integrator steps between two samples.
        time_step: h.

    Returns:
        `(count + 1, *shape)`.
    """
    tau, path = time_step / substeps, [state]
    for _ in range(count):
        for _ in range(substeps):
            k1 = field(state)
            k2 = field(state + tau / 2 * k1)
            k3 = field(state + tau / 2 * k2)
            k4 = field(state + tau * k3)
            state = state + tau / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        path.append(state)
    return torch.stack(path)


def heavy_ball_flow(
    slope: Gradient, start: Tensor, count: int, substeps: int, time_step: float = 1.0, corrected: bool = False
) -> Tensor:
    r"""Return positions along the flow of the heavy ball at the times 0, h, ..., count h.

    The flow of the source is :math:`\ddot\theta + a\dot\theta + \nabla L = 0` from rest. The corrected one is
    :math:`(1 - \frac{ah}2)\ddot\theta + a\dot\theta + \nabla L = 0` with the velocity
    :math:`-\frac h2\nabla L(\theta_0)`: heavy ball with the time step h follows it to second order.

    Args:
        slope: the gradient of the loss.
        start: `(*batch, d)`.
        count: number of samples after the first.
        substeps: integrator steps between two samples.
        time_step: h.
        corrected: which flow.

    Returns:
        `(count + 1, *batch, d)`.
    """
    mass = 1 - FRICTION * time_step / 2 if corrected else 1.0
    velocity = -time_step / 2 * slope(start) if corrected else torch.zeros_like(start)

    def field(state: Tensor) -> Tensor:
        return torch.stack([state[1], -(FRICTION * state[1] + slope(state[0])) / mass])

    return sampled(field, torch.stack([start, velocity]), count, substeps, time_step)[:, 0]


def descend(slope: Gradient, start: Tensor, count: int, time_step: float = 1.0) -> Tensor:
    """Return the iterates of gradient descent with the step size h, `(count + 1, *batch, d)`.

    Args:
        slope: the gradient of the loss.
        start: `(*batch, d)`.
        count: number of steps.
        time_step: h.
    """
    path = [start]
    for _ in range(count):
        path.append(path[-1] - time_step * slope(path[-1]))
    return torch.stack(path)


def roll(slope: Gradient, start: Tensor, count: int, time_step: float = 1.0) -> Tensor:
    """Return the iterates of heavy ball with the step size h^2 and the momentum 1 - a h, `(count + 1, *batch, d)`.

    Args:
        slope: the gradient of the loss.
        start: `(*batch, d)`.
        count: number of steps.
        time_step: h.
    """
    path = [start, start]
    for _ in range(count):
        here, before = path[-1], path[-2]
        path.append(here + (1 - FRICTION * time_step) * (here - before) - time_step**2 * slope(here))
    return torch.stack(path[1:])


def gap(orbit: Tensor, flow: Tensor) -> Tensor:
    """Return the distance of two sequences relative to the second, `(K + 1, *batch)`.

    Args:
        orbit: `(K + 1, *batch, d)`.
        flow: `(K + 1, *batch, d)`.

    Raises:
        ValueError: the tensors do not fit together.
    """
    require_tensors(orbit=(orbit, "*batch d"), flow=(flow, "*batch d"))
    return (orbit - flow).norm(dim=-1) / flow.norm(dim=-1)


def paths(seeds: Sequence[int], steps: int, substeps: int = 10) -> dict[str, Tensor]:
    """Follow both methods and both flows with h = 1, for two weight decays.

    Args:
        seeds: of the starts.
        steps: K.
        substeps: integrator steps in one step of the method; the source has 10.

    Returns:
        `gap_gd`, `gap_hb` `(decays, seeds, K + 1)`, relative; the losses `loss_gd, loss_hb, loss_gd_flow,
        loss_hb_flow`, of the same shape; `accuracies (2, decays, seeds)` of the two methods at the end.
    """
    rows = signed_images()
    decay = torch.tensor(DECAYS, dtype=torch.float64)[:, None, None]
    start = starts(seeds).expand(len(DECAYS), -1, -1)

    def slope(theta: Tensor) -> Tensor:
        return gradient(theta, rows, decay)

    found, ends = {}, []
    flows = {
        "gd": sampled(lambda theta: -slope(theta), start, steps, substeps),
        "hb": heavy_ball_flow(slope, start, steps, substeps),
    }
    for name, method in (("gd", descend), ("hb", roll)):
        orbit = method(slope, start, steps)
        found[f"gap_{name}"] = gap(orbit, flows[name])
        found[f"loss_{name}"] = torch.stack([loss(theta, rows, decay) for theta in orbit])
        found[f"loss_{name}_flow"] = torch.stack([loss(theta, rows, decay) for theta in flows[name]])
        ends.append((orbit[-1] @ rows.mT > 0).double().mean(-1))
    return {
        **{name: values.movedim(0, -1).float() for name, values in found.items()},
        "accuracies": torch.stack(ends),
    }


def time_steps(seeds: Sequence[int], horizon: int, integrator: float = 0.1) -> dict[str, Tensor]:
    """Follow the methods up to one time with several time steps h, weight decay 0.005.

    Args:
        seeds: of the starts.
        horizon: the last time, a whole number.
        integrator: step of the integrator, of which every h is a multiple.

    Returns:
        `gap_gd, gap_hb, gap_hb_corrected (time steps, seeds, horizon + 1)`: the largest relative
        gap up to each whole time, over all steps taken so far.
    """
    rows, start, decay = signed_images(), starts(seeds), DECAYS[0]

    def slope(theta: Tensor) -> Tensor:
        return gradient(theta, rows, decay)

    fine = round(horizon / integrator)
    gd_flow = sampled(lambda theta: -slope(theta), start, fine, 1, integrator)
    hb_flow = heavy_ball_flow(slope, start, fine, 1, integrator)
    found: dict[str, list[Tensor]] = {"gap_gd": [], "gap_hb": [], "gap_hb_corrected": []}
    for h in TIME_STEPS:
        count, every = round(horizon / h), round(h / integrator)
        orbits = {"gd": descend(slope, start, count, h), "hb": roll(slope, start, count, h)}
        flows = {
            "gap_gd": gd_flow[::every],
            "gap_hb": hb_flow[::every],
            "gap_hb_corrected": heavy_ball_flow(slope, start, count, every, h, corrected=True),
        }
        for name, flow in flows.items():
            largest = gap(orbits[name[4:6]], flow).cummax(0).values
            found[name].append(largest[:: round(1 / h)].mT)
    return {name: torch.stack(values) for name, values in found.items()}


def start_scales(seeds: Sequence[int], steps: int, substeps: int = 10) -> dict[str, Tensor]:
    """Follow the methods with h = 1 from small and large starts, weight decay 0.005.

    Args:
        seeds: of the starts.
        steps: K.
        substeps: integrator steps in one step of the method.

    Returns:
        `gap_gd, gap_hb, gap_hb_corrected (scales, seeds)`, the largest relative ones, and
        `accuracies (2, scales, seeds)` at the end.
    """
    rows, decay = signed_images(), DECAYS[0]
    start = torch.stack([starts(seeds, scale) for scale in SCALES])

    def slope(theta: Tensor) -> Tensor:
        return gradient(theta, rows, decay)

    gd, hb = descend(slope, start, steps), roll(slope, start, steps)
    flow = sampled(lambda theta: -slope(theta), start, steps, substeps)
    corrected = heavy_ball_flow(slope, start, steps, substeps, corrected=True)
    return {
        "gap_gd": gap(gd, flow).amax(0),
        "gap_hb": gap(hb, heavy_ball_flow(slope, start, steps, substeps)).amax(0),
        "gap_hb_corrected": gap(hb, corrected).amax(0),
        "accuracies": torch.stack([(end @ rows.mT > 0).double().mean(-1) for end in (gd[-1], hb[-1])]),
    }


def compute(call: Call) -> dict[str, Tensor]:
    """Return what the study of the call does."""
    o = call.options
    study = {"paths": paths, "time-steps": time_steps, "starts": start_scales}[o.study]
    return study(call.seeds, {"paths": o.steps, "time-steps": o.horizon, "starts": o.horizon}[o.study])


EXPERIMENT = Experiment(
    chapter=CHAPTER,
    name=lambda options: f"two-digits-{options.study}",
    compute=compute,
    options=(
        Option("--study", "which studies", STUDIES, allowed=STUDIES),
        Option("--steps", "steps of the paths", Scaled(5, 250, 1000)),
        Option("--horizon", "last time of the other studies", Scaled(4, 40, 40)),
    ),
    seeds=Scaled(2, 12, 12),
    each="study",
    rtol=1e-5,
    devices=("cpu", "cuda"),
    kept=("",),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute and keep; see `learning_dynamics.experiments.command`."""
    return EXPERIMENT.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
