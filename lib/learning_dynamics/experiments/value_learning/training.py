"""Fitting values by SGD; all runs of a seed share its data, its start and its batches.

Residuals are predicted minus true values on the evaluation set.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from learning_dynamics import runs
from learning_dynamics._internal.arguments import require_last
from learning_dynamics.experiments.value_learning.models import Model
from learning_dynamics.experiments.value_learning.problems import ValueProblem

BATCH, STEPS, EVERY = 25, 300, 10
KEPT_STEPS = (0, 10, 20, 50, 100, 200, 300)
"""The steps whose residuals a kept result holds."""
DIVERGED = 1e4
"""A residual norm above this, a hundred times the largest start, counts as diverged and is recorded as inf."""


def batches(
    run: runs.Run,
    seeds: Sequence[int],
    points: int | Sequence[int],
    steps: int = STEPS,
    size: int = BATCH,
    *,
    replacement: bool = True,
) -> Tensor:
    """Return the data points of every step, `(steps, seeds, size)` int64.

    Args:
        run: gives the random streams.
        seeds: the seeds.
        points: number of data points of a seed, or of each.
        steps: number of steps.
        size: of a batch.
        replacement: draw with replacement, as the released code does, or without inside a batch, as the paper says.

    Raises:
        ValueError: a batch without replacement is larger than the data.
    """
    each = [points] * len(seeds) if isinstance(points, int) else list(points)
    if len(each) != len(seeds):
        raise ValueError(f"points has {len(each)} entries; allowed: {len(seeds)}, one for each seed")
    if not replacement and size > min(each):
        raise ValueError(f"size = {size!r}; allowed: at most the {min(each)} data points")
    drawn = []
    for seed, n in zip(seeds, each, strict=True):
        source = run.generator("batches", seed=seed)
        if replacement:
            drawn.append(torch.randint(n, (steps, size), generator=source))
        else:
            order = torch.rand(steps, n, generator=source).argsort(-1)
            drawn.append(order[:, :size])
    return torch.stack(drawn, 1)


class Record(NamedTuple):
    """Residuals along training, inf from where a run had diverged.

    Attributes:
        steps: `(evaluations,)`.
        norm: `(evaluations, configurations, seeds)`, Euclidean norm over the evaluation set.
        ones: `(evaluations, configurations, seeds)`, its component along the ones, |mean| sqrt(size).
        last: `(configurations, seeds, e)`, the residuals after the last step.
    """

    steps: Tensor
    norm: Tensor
    ones: Tensor
    last: Tensor


def train(
    model: Model,
    problem: ValueProblem,
    offsets: Tensor,
    indices: Tensor,
    *,
    evaluate_every: int = EVERY,
) -> Record:
    """Minimize half the mean squared error of each batch and record the residuals.

    Args:
        model: what is trained, with axes (configurations, seeds).
        problem: the data.
        offsets: `(configurations,)`, the reward offset of each.
        indices: `(steps, seeds, b)`, the data points of each step.
        evaluate_every: steps between two evaluations.

    Returns:
        The residuals along the way.

    Raises:
        ValueError: the batches belong to another number of seeds, or `evaluate_every` is less than 1.
    """
    if indices.shape[1] != problem.seeds:
        raise ValueError(f"indices has {indices.shape[1]} seeds; allowed: the problem's {problem.seeds}")
    if evaluate_every < 1:
        raise ValueError(f"evaluate_every = {evaluate_every!r}; allowed: an integer >= 1")
    offsets = offsets[:, None, None]
    truth = problem.values + offsets * problem.value_annuities
    truth = truth.expand(len(offsets), problem.seeds, truth.shape[-1])
    steps, norms, ones = [], [], []
    for k in range(len(indices) + 1):
        beta = model.weights()
        if k % evaluate_every == 0 or k == len(indices):
            residual = predictions(problem.evaluation, beta) - truth
            steps.append(k)
            norms.append(residual.norm(dim=-1))
            ones.append(residual.mean(-1).abs() * math.sqrt(residual.shape[-1]))
            if not torch.isfinite(norms[-1]).any():  # nothing is left to train
                break
        if k < len(indices):
            states = problem.states.gather(1, indices[k])
            target = problem.returns.gather(1, indices[k]) + offsets * problem.annuities.gather(1, indices[k])
            if problem.table.ndim == 3:  # a table for each seed: only the rows of the batch
                rows = torch.stack(
                    [table.index_select(0, own) for table, own in zip(problem.table, states, strict=True)]
                )
                error = (predictions(rows, beta) - target) / indices.shape[-1]
                model.step(_pulled_back(rows, error))
                continue
            states = states.expand_as(target)
            predicted = predictions(problem.table, beta)
            error = (predicted.gather(-1, states) - target) / indices.shape[-1]
            weight = torch.zeros_like(predicted).scatter_add_(-1, states, error)
            model.step(_pulled_back(problem.table, weight))
    all_steps = sorted({*range(0, len(indices) + 1, evaluate_every), len(indices)})
    norm, along = (torch.stack(each + each[-1:] * (len(all_steps) - len(steps))) for each in (norms, ones))
    gone = (~(norm <= DIVERGED)).long().cumsum(0) > 0
    last = torch.where(gone[-1][..., None], math.inf, residual)
    return Record(
        torch.tensor(all_steps), norm.masked_fill(gone, math.inf), along.masked_fill(gone, math.inf), last
    )


def predictions(table: Tensor, beta: Tensor) -> Tensor:
    """Return the values of all states of a table.

    Args:
        table: features, `(s, d)` or `(seeds, s, d)`.
        beta: weights, `(configurations, seeds, d)`.

    Returns:
        `(configurations, seeds, s)`.

    Raises:
        ValueError: the tensors do not fit together.
    """
    require_last("beta", beta, table, table.shape[-1])
    if not table.is_floating_point() or table.ndim not in (2, 3):
        raise ValueError(
            f"table is {table.dtype} {tuple(table.shape)}; allowed: real (s, d) or (seeds, s, d)"
        )
    if table.ndim == 2 or len(table) == 1:
        return beta @ (table if table.ndim == 2 else table[0]).mT
    return torch.einsum("jsd,cjd->cjs", table, beta)


def _pulled_back(table: Tensor, weight: Tensor) -> Tensor:
    """Return the gradient `(c, seeds, d)` of what `predictions` returns, weighted by `(c, seeds, s)`."""
    if table.ndim == 2 or len(table) == 1:
        return weight @ (table if table.ndim == 2 else table[0])
    return torch.einsum("jsd,cjs->cjd", table, weight)
