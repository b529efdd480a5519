"""A grid of runs as one tensor: configurations (step size, internal discount, reward offset) times seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import require_choice
from learning_dynamics.experiments.value_learning.models import (
    Explicit,
    Implicit,
    ImplicitActions,
    LatentStart,
    Model,
)
from learning_dynamics.experiments.value_learning.problems import ValueProblem
from learning_dynamics.experiments.value_learning.swept import ImplicitActionsSwept, ImplicitSwept
from learning_dynamics.experiments.value_learning.training import (
    BATCH,
    DIVERGED,
    Record,
    predictions,
    train,
)
from learning_dynamics.rules import GradientDescent

SWEPT_FROM = 200
"""The number of weights from which implicit models sweep."""
OFFSETS = tuple(i / 10 for i in range(11))
INTERNAL_DISCOUNTS = (0.8, 0.9, 0.95, 0.975)
EXPLICIT_STEPS = {
    "chain": tuple(2.0**i for i in range(-2, 4)),
    "four_rooms": tuple(2.0**i for i in range(2, 8)),
    "mountain_car": tuple(2.0**i for i in range(2, 8)),
}
IMPLICIT_STEPS = {
    "chain": tuple(2.0**i for i in range(-8, -2)),
    "four_rooms": tuple(2.0**i for i in range(-3, 3)),
    "mountain_car": tuple(2.0**i for i in range(-3, 3)),
}
BEST_EXPLICIT = {"chain": 2.0**-1, "four_rooms": 2.0**5, "mountain_car": 2.0**7}
BEST_IMPLICIT = {
    "chain": (2.0**-5, 2.0**-6, 2.0**-6, 2.0**-7),
    "four_rooms": (2.0**2, 2.0**1, 2.0**0, 2.0**-2),
    "mountain_car": (2.0**2, 2.0**1, 2.0**0, 2.0**-2),
}


class Grid(NamedTuple):
    """Configurations to be trained at once.

    Attributes:
        step_size: `(configurations,)`.
        discount: `(configurations,)`, internal.
        offset: `(configurations,)`, added to every reward.
    """

    step_size: Tensor
    discount: Tensor
    offset: Tensor


def combinations(
    step_sizes: Sequence[float], discounts: Sequence[float], offsets: Sequence[float] = OFFSETS
) -> Grid:
    """Return all combinations, step size slowest, offset fastest.

    Args:
        step_sizes: of the grid.
        discounts: internal ones, in [0, 1).
        offsets: added to every reward.
    """
    axes = [torch.tensor(values, dtype=torch.float64) for values in (step_sizes, discounts, offsets)]
    return Grid(*torch.cartesian_prod(*axes).unbind(-1))


class Measured(NamedTuple):
    """What `run_grid` returns: a record, the moment ratios and the visited share of the final residual.

    Attributes:
        record: with the axes (evaluations, configurations, seeds).
        visited: `(configurations, seeds)`, norm of the final residual over the states in the data (tabular
            domains; states without features are left out).
        unvisited: `(configurations, seeds)`, the same over the other states.
        ratio: `(configurations, seeds)`, E‖Δβ‖² / ‖EΔβ‖² of the next update, to first order in the step size.
        bound: `(configurations, seeds)`, 1 + (max |r| / min |r|)² / b over the states in the data, r the mean
            residual on their data points.
    """

    record: Record
    visited: Tensor
    unvisited: Tensor
    ratio: Tensor
    bound: Tensor


def run_grid(
    kind: str,
    problem: ValueProblem,
    start: LatentStart,
    indices: Tensor,
    configurations: Grid,
    *,
    chunk: int = 4,
    seeds_at_a_time: int | None = None,
) -> Measured:
    """Train every configuration, a few at a time so that their matrices stay in the cache.

    On the CPU implicit models of many weights sweep, see `swept.Sweeps`; all others factorize.

    Args:
        kind: `"explicit"`, from the implicit weights of the same seed and discount, or `"implicit"`; a start with
            several actions makes the implicit model one with several actions.
        problem: the data, on the device and in the dtype of the computation.
        start: the latent start, likewise.
        indices: `(steps, seeds, b)`, the batches.
        configurations: the grid.
        chunk: configurations trained at a time.
        seeds_at_a_time: seeds trained at a time; all if left out.

    Returns:
        What was measured, with the axes (configurations, seeds).

    Raises:
        ValueError: `kind` is neither.
    """
    require_choice("kind", kind, ("explicit", "implicit"))
    width = problem.seeds if seeds_at_a_time is None else seeds_at_a_time
    columns = []
    for first in range(0, problem.seeds, width):
        seeds = slice(first, first + width)
        some, from_there = problem.of(seeds), LatentStart(*(part[seeds] for part in start))
        pieces = []
        for begin in range(0, len(configurations.offset), chunk):
            part = Grid(*(axis[begin : begin + chunk].to(start.rewards) for axis in configurations))
            model = make_model(kind, from_there, part)
            record = train(model, some, part.offset, indices[:, seeds])
            pieces.append(Measured(record, *_by_visit(some, record.last), *moments(model, some, part.offset)))
        columns.append(_joined(pieces, 0))
    return _joined(columns, 1)


def _joined(pieces: Sequence[Measured], axis: int) -> Measured:
    """Return what was measured in pieces along the configurations (0) or the seeds (1)."""
    records = [piece.record for piece in pieces]
    record = Record(
        records[0].steps,
        torch.cat([each.norm for each in records], axis + 1),
        torch.cat([each.ones for each in records], axis + 1),
        torch.cat([each.last for each in records], axis),
    )
    others = list(zip(*pieces, strict=True))[1:]
    return Measured(record, *(torch.cat(column, axis) for column in others))


def make_model(kind: str, start: LatentStart, part: Grid) -> Model:
    """Return the model of each configuration and seed at its start.

    Args:
        kind: `"explicit"` or `"implicit"`.
        start: the latent start of each seed.
        part: the configurations.
    """
    seeds, actions, d = start.rewards.shape
    shape = (len(part.offset), seeds, actions, d)
    u = start.rewards.expand(shape).clone()
    if kind == "explicit":
        one = _latent(u, start.logits.expand(*shape, d), part)
        return Explicit(one.weights(), GradientDescent(part.step_size[:, None, None]))
    return _latent(u, start.logits.expand(*shape, d).clone(), part)


def _latent(u: Tensor, Z: Tensor, part: Grid) -> Implicit | ImplicitActions:
    many = u.shape[-1] >= SWEPT_FROM and u.device.type == "cpu"
    if u.shape[2] == 1:
        one = ImplicitSwept if many else Implicit
        return one(u[:, :, 0], Z[:, :, 0], part.discount, part.step_size)
    several = ImplicitActionsSwept if many else ImplicitActions
    return several(u, Z, part.discount, part.step_size)


def _by_visit(problem: ValueProblem, last: Tensor) -> tuple[Tensor, Tensor]:
    if problem.evaluation.shape != problem.table.shape or problem.table.ndim == 3:
        blank = torch.zeros_like(last[..., 0])
        return blank, blank
    with_features = problem.table.abs().sum(-1) > 0
    visited = problem.visited
    gone = torch.isinf(last).any(-1)
    parts = [
        torch.where(which & with_features, last, 0.0).norm(dim=-1).masked_fill(gone, math.inf)
        for which in (visited, ~visited)
    ]
    return parts[0], parts[1]


def moments(model: Model, problem: ValueProblem, offsets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the moment ratio of the next update and the right side of its bound, `(configurations, seeds)` each.

    With V_i = P r_i phi_i (P = I for explicit weights) and batches of b with replacement the ratio is
    (n sum ‖V_i‖² / ‖sum V_i‖² + b - 1) / b. It is inf where a run diverged; models with several actions have none.

    Args:
        model: models of all configurations and seeds.
        problem: their data.
        offsets: `(configurations,)`.
    """
    beta = model.weights()
    target = problem.returns + offsets[:, None, None] * problem.annuities
    states = problem.states.expand_as(target)
    predicted = predictions(problem.table, beta)
    error = predicted.gather(-1, states) - target
    zeros = torch.zeros_like(predicted)
    drawn = problem.is_point.to(error).expand_as(error)
    error = error * drawn
    counts = zeros.scatter_add(-1, states, drawn)
    total, squares = zeros.scatter_add(-1, states, error), zeros.scatter_add(-1, states, error**2)
    mean = (total / counts).abs()
    seen = (counts > 0) & (problem.table.abs().sum(-1) > 0)
    largest = mean.masked_fill(~seen, 0.0).amax(-1)
    bound = 1 + (largest / mean.masked_fill(~seen, math.inf).amin(-1)) ** 2 / BATCH
    if isinstance(model, ImplicitActions):
        ratio = torch.full_like(bound, math.inf)
    else:
        table = problem.table if problem.table.ndim == 3 else problem.table[None]
        if isinstance(model, Implicit):  # rows P phi_s
            rows = torch.einsum("jsd,cjed->cjse", table.expand(beta.shape[1], -1, -1), model.preconditioner())
            lengths, summed = rows.square().sum(-1), torch.einsum("cjs,cjse->cje", total, rows)
        else:
            each = table.expand(beta.shape[1], -1, -1)
            lengths, summed = each.square().sum(-1), torch.einsum("cjs,jse->cje", total, each)
        second = (squares * lengths).sum(-1)
        first = summed.square().sum(-1)
        ratio = (drawn.sum(-1) * second / first + BATCH - 1) / BATCH
    alive = torch.isfinite(ratio) & (beta.abs().amax(-1) < DIVERGED)
    finite = torch.isfinite(bound) & torch.isfinite(error.square().sum(-1))  # else nothing was left to train
    return ratio.where(alive, math.inf), bound.where(finite, math.inf)
