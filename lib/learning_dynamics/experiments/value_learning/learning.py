r"""Fitting values by SGD, explicitly or through the values of a latent chain: the experiments of Gehring et al. 2021.

A grid of runs is one tensor: configurations (step size, internal discount, reward offset) times seeds. All runs of a
seed share its data, its start and its batches. Residuals are predicted minus true values on the evaluation set.

The command `python -m learning_dynamics.experiments.value_learning.learning DOMAIN KIND` computes the kept
results of the chapter.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from learning_dynamics import results, runs
from learning_dynamics.parameterization import mdp
from learning_dynamics.parameterization.mdp import mountain_car
from learning_dynamics.parameterization.mdp.process import require_discount
from learning_dynamics.rules import GradientDescent, Rule

CHAPTER = "parameterization/value_learning"
DOMAINS = ("chain", "four_rooms", "mountain_car")
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
BATCH, STEPS, EVERY, SEEDS = 25, 300, 10, 20
DIVERGED = 1e4
"""A residual norm above this, a hundred times the largest start, counts as diverged and is recorded as inf."""


@dataclass(frozen=True, eq=False)
class ValueProblem:
    """Data and evaluation set of every seed; targets are affine in the reward offset c.

    Attributes:
        discount: the true discount gamma.
        table: `(s, d)` or `(seeds, s, d)`, features of the states that the data refer to.
        states: `(seeds, n)` int64, the state of each data point.
        returns: `(seeds, n)`, its target at offset 0.
        annuities: `(seeds, n)`, the discounted number of rewards in it: the target at offset c adds c times this.
        evaluation: `(e, d)` or `(seeds, e, d)`, features of the evaluation set.
        values: `(e,)` or `(seeds, e)`, its true values at offset 0.
        value_annuities: like `values`.
    """

    discount: float
    table: Tensor
    states: Tensor
    returns: Tensor
    annuities: Tensor
    evaluation: Tensor
    values: Tensor
    value_annuities: Tensor

    @property
    def seeds(self) -> int:
        """The number of seeds."""
        return len(self.states)

    @property
    def weights(self) -> int:
        """The number of features d."""
        return self.table.shape[-1]

    @property
    def visited(self) -> Tensor:
        """Whether a state of the table is in the data, `(seeds, s)`."""
        counts = torch.zeros(self.seeds, self.table.shape[-2], dtype=torch.int64, device=self.states.device)
        return counts.scatter_add(-1, self.states, torch.ones_like(self.states)) > 0

    def to(self, device: torch.device | str, dtype: torch.dtype) -> ValueProblem:
        """Return the problem on a device and in a floating point type."""
        moved = {
            name: value.to(device, dtype if value.is_floating_point() else None)
            for name, value in vars(self).items()
            if isinstance(value, Tensor)
        }
        return replace(self, **moved)


def chain_problem(
    run: runs.Run, seeds: Sequence[int], *, described: bool = False, trajectories: int = 50, steps: int = 100
) -> ValueProblem:
    """Return the chain's data: the first state of each trajectory, with the return of the whole.

    Args:
        run: gives the random streams.
        seeds: the seeds.
        described: as the paper's text has it: reward 1 on the way, and all states of each trajectory.
        trajectories: how many a seed.
        steps: length of each.
    """
    process = mdp.chain(pays_on_the_way=described)
    data = _tabular(run, seeds, process, mdp.chain_policy(), trajectories, steps)
    if described:
        return data
    first = slice(None, None, steps)
    return replace(
        data, states=data.states[:, first], returns=data.returns[:, first], annuities=data.annuities[:, first]
    )


def four_rooms_problem(
    run: runs.Run, seeds: Sequence[int], *, described: bool = False, trajectories: int = 80, steps: int = 80
) -> ValueProblem:
    """Return the four rooms' data: all states of each trajectory, with the return of what is left of it.

    Args:
        run: gives the random streams.
        seeds: the seeds.
        described: as the paper's text has it: the agent stays put with probability 1/3, and the goal is terminal. Then
            the absorbing state is neither in the data nor in the evaluation, and no offset is paid in it; every seed
            keeps as many data points as the seed with the fewest.
        trajectories: how many a seed.
        steps: length of each.
    """
    process = mdp.four_rooms(slips=not described)
    policy = mdp.four_rooms_policy(process)
    data = _tabular(run, seeds, process, policy, trajectories, steps)
    if not described:
        return data
    cells = data.weights
    active = data.states < cells
    lengths = active.reshape(len(seeds), trajectories, steps).to(data.returns.dtype)
    annuities = mdp.discounted_returns(lengths, process.discount).flatten(1)
    n = int(active.sum(1).min())
    first = torch.stack([torch.nonzero(row)[:n, 0] for row in active])
    chain, _ = process.under(policy)
    until_goal = mdp.chain_values(chain, (process.features.sum(-1) > 0).to(chain.dtype), process.discount)
    return replace(
        data,
        table=data.table[:cells],
        states=data.states.gather(1, first),
        returns=data.returns.gather(1, first),
        annuities=annuities.gather(1, first),
        evaluation=data.evaluation[:cells],
        values=data.values[:cells],
        value_annuities=until_goal[:cells],
    )


def mountain_car_problem(run: runs.Run, seeds: Sequence[int]) -> ValueProblem:
    """Return mountain car's data: 10 episodes of at most 200 steps, and 1000 fresh steps to evaluate on."""
    discount, columns = 0.99, []
    for seed in seeds:
        train = mountain_car.episodes(10, 200, run.generator("data", seed=seed))
        test = mountain_car.episodes(10, 200, run.generator("evaluation", seed=seed))
        parts = []
        for drawn, keep in ((train, math.inf), (test, 1000)):
            kept = drawn.active.flatten().cumsum(0).reshape(drawn.active.shape) <= keep
            active = drawn.active & kept
            returns = mdp.discounted_returns(torch.where(active, drawn.rewards, 0.0), discount)
            annuities = mdp.discounted_returns(active.double(), discount)
            parts.append(
                (mountain_car.radial_features(drawn.observations[active]), returns[active], annuities[active])
            )
        columns.append(parts)
    n = min(len(parts[0][1]) for parts in columns)
    table, returns, annuities = (torch.stack([parts[0][i][:n] for parts in columns]) for i in range(3))
    evaluation, values, value_annuities = (torch.stack([parts[1][i] for parts in columns]) for i in range(3))
    states = torch.arange(n).expand(len(seeds), n).contiguous()
    return ValueProblem(discount, table, states, returns, annuities, evaluation, values, value_annuities)


def problem(domain: str, run: runs.Run, seeds: Sequence[int], **options: Any) -> ValueProblem:
    """Return the data of a domain by its name.

    Raises:
        ValueError: there is no such domain.
    """
    makers: dict[str, Callable[..., ValueProblem]] = {
        "chain": chain_problem,
        "four_rooms": four_rooms_problem,
        "mountain_car": mountain_car_problem,
    }
    if domain not in makers:
        raise ValueError(f"domain = {domain!r}; allowed: one of {', '.join(DOMAINS)}")
    return makers[domain](run, seeds, **options)


def _tabular(
    run: runs.Run,
    seeds: Sequence[int],
    process: mdp.MarkovDecisionProcess,
    policy: Tensor,
    trajectories: int,
    steps: int,
) -> ValueProblem:
    states, rewards = [], []
    for seed in seeds:
        source = run.generator("data", seed=seed)
        starts = torch.randint(process.states, (trajectories,), generator=source)
        drawn = mdp.rollouts(process, policy, starts, steps, source)
        states.append(drawn.states)
        rewards.append(drawn.rewards)
    returns = mdp.discounted_returns(torch.stack(rewards), process.discount)
    annuities = mdp.discounted_returns(torch.ones_like(returns), process.discount)
    values = process.values(policy)
    return ValueProblem(
        process.discount,
        process.features,
        torch.stack(states).flatten(1),
        returns.flatten(1),
        annuities.flatten(1),
        process.features,
        values,
        torch.full_like(values, 1 / (1 - process.discount)),
    )


class Model(Protocol):
    """What is trained: weights of the features, and how a gradient with respect to them moves the parameters."""

    def weights(self) -> Tensor:
        """Return the effective weights `(configurations, seeds, d)`."""
        ...

    def step(self, gradient: Tensor) -> None:
        """Take one step, given the gradient `(configurations, seeds, d)` with respect to the weights."""
        ...


class Explicit:
    """Weights that are stored and moved by an update rule.

    Args:
        start: `(configurations, seeds, d)`.
        rule: an update rule with step sizes `(configurations, 1, 1)`.
        precondition: maps the gradient before the rule sees it; the identity if left out.
    """

    def __init__(
        self, start: Tensor, rule: Rule[Any], precondition: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        self.theta, self.rule, self.precondition = start, rule, precondition
        self.state = rule.start(start)

    def weights(self) -> Tensor:
        """Return the weights."""
        return self.theta

    def step(self, gradient: Tensor) -> None:
        """Move the weights."""
        if self.precondition is not None:
            gradient = self.precondition(gradient)
        self.theta, self.state = self.rule.step(self.theta, gradient, self.state)


class Implicit:
    r"""Weights that are the values of a latent chain, :math:`\beta=A^{-1}u` with :math:`A=I-\hat\gamma S_Z`.

    One LU factorization of A serves both directions. With :math:`a=A^{-\top}\nabla_\beta` the gradient is a with
    respect to u, and :math:`[a]_k[S_Z]_{kj}(\hat\gamma\beta_j-[\hat\gamma S_Z\beta]_k)` with respect to Z, where
    :math:`\hat\gamma S_Z\beta=\beta-u`.

    Args:
        rewards: latent rewards u, `(configurations, seeds, d)`; changed in place.
        logits: latent logits Z, `(configurations, seeds, d, d)`; changed in place.
        discount: internal discounts, `(configurations,)` or a number, in [0, 1).
        step_size: `(configurations,)` or a number.

    Raises:
        ValueError: a discount is outside [0, 1).
    """

    def __init__(
        self, rewards: Tensor, logits: Tensor, discount: Tensor | float, step_size: Tensor | float
    ) -> None:
        self.u, self.Z = rewards, logits
        self.discount, self.step_size = _column(discount, rewards), _column(step_size, rewards)
        for value in self.discount.flatten().tolist():
            require_discount("discount", value)
        self.eye = torch.eye(rewards.shape[-1], dtype=rewards.dtype, device=rewards.device)

    def weights(self) -> Tensor:
        """Solve for the values; the factorization is kept for the backward solve."""
        self.S = torch.softmax(self.Z, -1)
        A = self.S * -self.discount[..., None]
        A.diagonal(dim1=-2, dim2=-1).add_(1.0)
        self.lu = torch.linalg.lu_factor_ex(A)[:2]
        self.beta = torch.linalg.lu_solve(*self.lu, self.u[..., None])[..., 0]
        return self.beta

    def step(self, gradient: Tensor) -> None:
        """Move rewards and logits; `weights` must have been called since the last step."""
        a = torch.linalg.lu_solve(*self.lu, gradient[..., None], adjoint=True)[..., 0] * self.step_size
        change = (self.discount * self.beta)[..., None, :] - (self.beta - self.u)[..., None]
        self.Z -= change.mul_(self.S).mul_(a[..., None])
        self.u -= a

    def preconditioner(self) -> Tensor:
        """Return P, `(configurations, seeds, d, d)`: to first order a step moves the weights by -step P gradient."""
        self.weights()
        inverse = torch.linalg.lu_solve(*self.lu, self.eye.expand_as(self.S).contiguous())
        moved = (self.discount * self.beta)[..., None, :] - (self.beta - self.u)[..., None]
        squared = (self.S * moved).square().sum(-1)
        return (inverse * (1 + squared)[..., None, :]) @ inverse.mT


class ImplicitActions:
    r"""Weights that solve :math:`\beta=\max_a(u_a+\hat\gamma S_{Z_a}\beta)`, with the gradient of the greedy chain.

    The fixed point is found by policy iteration, started at the last greedy policy. Only the rows that the greedy
    policy uses are moved.

    Args:
        rewards: `(configurations, seeds, a, d)`; changed in place.
        logits: `(configurations, seeds, a, d, d)`; changed in place.
        discount: as in `Implicit`.
        step_size: as in `Implicit`.
        solves: most linear solves a step; a run that is still changing then keeps its last policy.
    """

    def __init__(
        self,
        rewards: Tensor,
        logits: Tensor,
        discount: Tensor | float,
        step_size: Tensor | float,
        solves: int = 30,
    ) -> None:
        self.u, self.Z, self.solves = rewards, logits, solves
        self.discount, self.step_size = _column(discount, rewards), _column(step_size, rewards)
        for value in self.discount.flatten().tolist():
            require_discount("discount", value)
        self.S = torch.softmax(logits, -1)
        self.greedy = rewards.argmax(-2)

    def weights(self) -> Tensor:
        """Solve for the values of the greedy policy."""
        for _ in range(self.solves):
            self.rows, self.used = mdp.chosen(self.S, self.u, self.greedy)
            A = self.rows * -self.discount[..., None]
            A.diagonal(dim1=-2, dim2=-1).add_(1.0)
            self.lu = torch.linalg.lu_factor_ex(A)[:2]
            self.beta = torch.linalg.lu_solve(*self.lu, self.used[..., None])[..., 0]
            better = self.u + self.discount[..., None] * (self.S @ self.beta[..., None, :, None])[..., 0]
            slack = 1e3 * torch.finfo(self.u.dtype).eps * self.beta.abs().amax(-1, keepdim=True)
            gains = better.amax(-2) > self.beta + slack
            if not gains.any():
                break
            self.greedy = torch.where(gains, better.argmax(-2), self.greedy)
        return self.beta

    def step(self, gradient: Tensor) -> None:
        """Move the rows of the greedy policy; `weights` must have been called since the last step."""
        a = torch.linalg.lu_solve(*self.lu, gradient[..., None], adjoint=True)[..., 0] * self.step_size
        change = (self.discount * self.beta)[..., None, :] - (self.beta - self.used)[..., None]
        change.mul_(self.rows).mul_(a[..., None])
        index = self.greedy[..., None, :]
        wide = index[..., None].expand(*index.shape, self.Z.shape[-1])
        self.Z.scatter_add_(-3, wide, -change[..., None, :, :])
        self.u.scatter_add_(-2, index, -a[..., None, :])
        moved = torch.softmax(self.Z.gather(-3, wide), -1)
        self.S.scatter_(-3, wide, moved)


class LatentStart(NamedTuple):
    """Latent rewards `(seeds, a, d)` and logits `(seeds, a, d, d)` before the first step."""

    rewards: Tensor
    logits: Tensor


def latent_start(run: runs.Run, seeds: Sequence[int], weights: int, actions: int = 1) -> LatentStart:
    """Return the released start: log(Dirichlet(1, ..., 1) + 2 on the diagonal), rewards 0.1 N(0, 1).

    Each row of logits is shifted so that its maximum is zero. The seeds' streams do not depend on the number of
    seeds; the first action is the same whatever the number of actions.
    """
    rewards, logits = [], []
    for seed in seeds:
        source = run.generator("start", seed=seed)
        for _ in range(actions):
            rewards.append(0.1 * torch.randn(weights, generator=source, dtype=torch.float64))
            gaps = (
                -torch.rand(weights, weights, generator=source, dtype=torch.float64).clamp_min(1e-300).log()
            )
            simplex = gaps / gaps.sum(-1, keepdim=True)
            Z = (simplex + 2 * torch.eye(weights, dtype=torch.float64)).log()
            logits.append(Z - Z.amax(-1, keepdim=True))
    shape = (len(seeds), actions, weights)
    return LatentStart(torch.stack(rewards).reshape(shape), torch.stack(logits).reshape(*shape, weights))


def batches(
    run: runs.Run,
    seeds: Sequence[int],
    points: int,
    steps: int = STEPS,
    size: int = BATCH,
    *,
    replacement: bool = True,
) -> Tensor:
    """Return the data points of every step, `(steps, seeds, size)` int64.

    Args:
        run: gives the random streams.
        seeds: the seeds.
        points: number of data points of a seed.
        steps: number of steps.
        size: of a batch.
        replacement: draw with replacement, as the released code does, or without inside a batch, as the paper says.

    Raises:
        ValueError: a batch without replacement is larger than the data.
    """
    if not replacement and size > points:
        raise ValueError(f"size = {size!r}; allowed: at most the {points} data points")
    drawn = []
    for seed in seeds:
        source = run.generator("batches", seed=seed)
        if replacement:
            drawn.append(torch.randint(points, (steps, size), generator=source))
        else:
            order = torch.rand(steps, points, generator=source).argsort(-1)
            drawn.append(order[:, :size])
    return torch.stack(drawn, 1)


class Record(NamedTuple):
    """Residuals along training, `(evaluations, configurations, seeds)` each, inf from where a run had diverged.

    Attributes:
        steps: `(evaluations,)`.
        norm: Euclidean norm over the evaluation set.
        ones: its component along the ones, |mean| sqrt(size).
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
            residual = _apply(problem.evaluation, beta) - truth
            steps.append(k)
            norms.append(residual.norm(dim=-1))
            ones.append(residual.mean(-1).abs() * math.sqrt(residual.shape[-1]))
        if k < len(indices):
            states = problem.states.gather(1, indices[k])
            target = problem.returns.gather(1, indices[k]) + offsets * problem.annuities.gather(1, indices[k])
            states = states.expand_as(target)
            predicted = _apply(problem.table, beta)
            error = (predicted.gather(-1, states) - target) / indices.shape[-1]
            weight = torch.zeros_like(predicted).scatter_add_(-1, states, error)
            model.step(_apply_transposed(problem.table, weight))
    norm, along = torch.stack(norms), torch.stack(ones)
    gone = (~(norm <= DIVERGED)).long().cumsum(0) > 0
    last = torch.where(gone[-1][..., None], math.inf, residual)
    return Record(
        torch.tensor(steps), norm.masked_fill(gone, math.inf), along.masked_fill(gone, math.inf), last
    )


def _apply(table: Tensor, beta: Tensor) -> Tensor:
    """Return values `(c, seeds, s)` of features `(s, d)` or `(seeds, s, d)` with weights `(c, seeds, d)`."""
    if table.ndim == 2:
        return beta @ table.mT
    return torch.einsum("jsd,cjd->cjs", table, beta)


def _apply_transposed(table: Tensor, weight: Tensor) -> Tensor:
    """Return the gradient `(c, seeds, d)` of what `_apply` returns, weighted by `(c, seeds, s)`."""
    if table.ndim == 2:
        return weight @ table
    return torch.einsum("jsd,cjs->cjd", table, weight)


def _column(value: Tensor | float, like: Tensor) -> Tensor:
    """Return one number a configuration as `(configurations or 1, 1, 1)`."""
    return torch.as_tensor(value, dtype=like.dtype, device=like.device).reshape(-1, 1, 1)


class Grid(NamedTuple):
    """One entry a configuration: step sizes, internal discounts, offsets, each `(configurations,)`."""

    step_size: Tensor
    discount: Tensor
    offset: Tensor


def grid(step_sizes: Sequence[float], discounts: Sequence[float], offsets: Sequence[float] = OFFSETS) -> Grid:
    """Return all combinations, step size slowest, offset fastest."""
    axes = [torch.tensor(values, dtype=torch.float64) for values in (step_sizes, discounts, offsets)]
    return Grid(*torch.cartesian_prod(*axes).unbind(-1))


class Measured(NamedTuple):
    """What `run_grid` returns: a record, the moment ratios and the visited share of the final residual.

    Attributes:
        record: with the axes (evaluations, configurations, seeds).
        visited: `(configurations, seeds)`, norm of the final residual over the states in the data (tabular
            domains; states without features are left out).
        unvisited: the same over the other states.
        ratio: `(configurations, seeds)`, E‖Δβ‖² / ‖EΔβ‖² of the next update, to first order in the step size.
        bound: 1 + (max |r| / min |r|)² / b over the states in the data, r the mean residual on their data points.
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
) -> Measured:
    """Train every configuration, a few at a time so that their matrices stay in the cache.

    Args:
        kind: `"explicit"`, from the implicit weights of the same seed and discount, or `"implicit"`; a start with
            several actions makes the implicit model one with several actions.
        problem: the data, on the device and in the dtype of the computation.
        start: the latent start, likewise.
        indices: the batches.
        configurations: the grid.
        chunk: configurations trained at a time.

    Raises:
        ValueError: `kind` is neither.
    """
    if kind not in ("explicit", "implicit"):
        raise ValueError(f"kind = {kind!r}; allowed: 'explicit' or 'implicit'")
    pieces = []
    for begin in range(0, len(configurations.offset), chunk):
        part = Grid(*(axis[begin : begin + chunk].to(start.rewards) for axis in configurations))
        model = make_model(kind, start, part)
        record = train(model, problem, part.offset, indices)
        pieces.append(
            Measured(record, *_by_visit(problem, record.last), *moments(model, problem, part.offset))
        )
    records = [piece.record for piece in pieces]
    joined = Record(
        records[0].steps,
        torch.cat([record.norm for record in records], 1),
        torch.cat([record.ones for record in records], 1),
        torch.cat([record.last for record in records], 0),
    )
    return Measured(joined, *(torch.cat(column) for column in list(zip(*pieces, strict=True))[1:]))


def make_model(kind: str, start: LatentStart, part: Grid) -> Model:
    """Return the model of each configuration and seed at its start."""
    seeds, actions, d = start.rewards.shape
    shape = (len(part.offset), seeds, actions, d)
    u = start.rewards.expand(shape).clone()
    if kind == "explicit":
        one = _latent(u, start.logits.expand(*shape, d), part)
        return Explicit(one.weights(), GradientDescent(part.step_size[:, None, None]))
    return _latent(u, start.logits.expand(*shape, d).clone(), part)


def _latent(u: Tensor, Z: Tensor, part: Grid) -> Implicit | ImplicitActions:
    if u.shape[2] == 1:
        return Implicit(u[:, :, 0], Z[:, :, 0], part.discount, part.step_size)
    return ImplicitActions(u, Z, part.discount, part.step_size)


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
    """
    beta = model.weights()
    target = problem.returns + offsets[:, None, None] * problem.annuities
    states = problem.states.expand_as(target)
    predicted = _apply(problem.table, beta)
    error = predicted.gather(-1, states) - target
    zeros = torch.zeros_like(predicted)
    counts = zeros.scatter_add(-1, states, torch.ones_like(error))
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
        else:
            rows = table.expand(*beta.shape[:2], *table.shape[-2:])
        second = (squares * rows.square().sum(-1)).sum(-1)
        first = torch.einsum("cjs,cjse->cje", total, rows).square().sum(-1)
        ratio = (error.shape[-1] * second / first + BATCH - 1) / BATCH
    alive = torch.isfinite(ratio) & (beta.abs().amax(-1) < DIVERGED)
    return ratio.where(alive, math.inf), bound.where(torch.isfinite(bound), math.inf)


KEPT_STEPS = (0, 10, 20, 50, 100, 200, 300)


def kept_name(
    domain: str,
    kind: str,
    actions: int = 1,
    part: str = "all",
    offsets: Sequence[float] = OFFSETS,
    best: bool = False,
    described: bool = False,
) -> str:
    """Return the name of a kept result, such as `four_rooms_implicit_part_3`."""
    name = f"{domain}_{kind}" + (f"_{actions}_actions" if actions > 1 else "")
    name += "_described" if described else ""
    name += "_best" if best else ""
    name += f"_{len(offsets)}_offsets" if list(offsets) != list(OFFSETS) else ""
    return name if part == "all" else f"{name}_part_{part.split('/')[0]}"


def compute(
    run: runs.Run,
    domain: str,
    kind: str,
    *,
    actions: int = 1,
    offsets: Sequence[float] = OFFSETS,
    best: bool = False,
    described: bool = False,
    seeds: int = SEEDS,
    chunk: int = 1,
) -> dict[str, Tensor]:
    """Return the arrays of a kept result.

    Args:
        run: gives streams, device, dtype and the part: a part takes its share of the four internal discounts.
        domain: one of `DOMAINS`.
        kind: `"explicit"` or `"implicit"`.
        actions: number of latent actions.
        offsets: the reward offsets.
        best: only the best step size of each internal discount.
        described: the set-up of the paper's text in the place of the released one (chain and four rooms).
        seeds: number of seeds.
        chunk: configurations trained at a time.

    Returns:
        `step_sizes (discounts, steps)`, `discounts`, `offsets`, `steps`, the curves `norm` and `ones`
        (evaluations, discounts, steps, offsets, seeds) and `visited`, `unvisited`, `ratio`, `bound` (discounts, steps,
        offsets, seeds) after the last step; inf where a run diverged.
    """
    count = list(range(seeds))
    data = problem(domain, run, count, **({"described": True} if described else {}))
    drawn = batches(run, count, data.states.shape[1], replacement=not described)
    start = latent_start(run, count, data.weights, actions)
    data = data.to(run.device, run.dtype)
    start = LatentStart(*(part.to(run.device, run.dtype) for part in start))
    discounts = run.share(list(INTERNAL_DISCOUNTS))
    pieces, sizes = [], []
    for discount in discounts:
        if not best:
            steps = (EXPLICIT_STEPS if kind == "explicit" else IMPLICIT_STEPS)[domain]
        elif kind == "explicit":
            steps = (BEST_EXPLICIT[domain],)
        else:
            steps = (BEST_IMPLICIT[domain][INTERNAL_DISCOUNTS.index(discount)],)
        sizes.append(torch.tensor(steps))
        cells = grid(steps, [discount], offsets)
        pieces.append((run_grid(kind, data, start, drawn.to(run.device), cells, chunk=chunk), len(steps)))
    kept = [k // EVERY for k in KEPT_STEPS]
    columns: dict[str, list[Tensor]] = {}
    for piece, steps in pieces:
        shape = (steps, len(offsets), seeds)
        for name in ("norm", "ones"):
            curve = getattr(piece.record, name)[kept].reshape(len(kept), *shape)
            columns.setdefault(name, []).append(curve)
        for name in ("visited", "unvisited", "ratio", "bound"):
            columns.setdefault(name, []).append(getattr(piece, name).reshape(shape))
    joined = {
        name: torch.stack(parts, 1 if name in ("norm", "ones") else 0).cpu().float()
        for name, parts in columns.items()
    }
    axes = {"discounts": discounts, "offsets": list(offsets), "steps": list(KEPT_STEPS)}
    return {name: torch.tensor(values) for name, values in axes.items()} | {
        "step_sizes": torch.stack(sizes),
        **joined,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute one kept result and write it."""
    parser = argparse.ArgumentParser(
        prog="python -m learning_dynamics.experiments.value_learning.learning", description=__doc__
    )
    parser.add_argument("domain", choices=DOMAINS)
    parser.add_argument("kind", choices=("explicit", "implicit"))
    parser.add_argument("--actions", type=int, default=1, help="latent actions")
    parser.add_argument("--part", default="all", help="k/4: the k-th internal discount only")
    parser.add_argument(
        "--best", action="store_true", help="only the best step size of each internal discount"
    )
    parser.add_argument("--described", action="store_true", help="the set-up of the paper's text")
    parser.add_argument("--offsets", type=float, nargs="+", default=list(OFFSETS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--float32", action="store_true")
    parser.add_argument(
        "--chunk", type=int, help="configurations trained at a time; by default what fits the cache"
    )
    parser.add_argument("--overwrite", action="store_true")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    dtype = torch.float32 if given.float32 else torch.float64
    run = runs.Run(CHAPTER, scale="paper", device=given.device, part=given.part, dtype=dtype)
    begun = time.perf_counter()
    arrays = compute(
        run,
        given.domain,
        given.kind,
        actions=given.actions,
        offsets=given.offsets,
        best=given.best,
        described=given.described,
        chunk=given.chunk or (11 if given.domain == "chain" else 1),
    )
    words = [given.domain, given.kind]
    words += ["--actions", str(given.actions)] if given.actions > 1 else []
    words += ["--part", given.part] if given.part != "all" else []
    words += ["--described"] if given.described else []
    words += ["--best"] if given.best else []
    words += ["--offsets", *map(str, given.offsets)] if list(given.offsets) != list(OFFSETS) else []
    words += ["--float32"] if given.float32 else []
    results.keep(
        CHAPTER,
        kept_name(
            given.domain, given.kind, given.actions, given.part, given.offsets, given.best, given.described
        ),
        arrays,
        command=" ".join(["python", "-m", "learning_dynamics.experiments.value_learning.learning", *words]),
        seeds=range(SEEDS),
        device=run.device,
        wall_time=time.perf_counter() - begun,
        rtol=1e-2 if given.float32 else 1e-4,
        overwrite=given.overwrite,
    )


if __name__ == "__main__":
    main()
