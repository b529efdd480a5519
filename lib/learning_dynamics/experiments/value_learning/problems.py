"""The three value learning problems of Gehring et al. 2021: data, and the set on which residuals are evaluated."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from learning_dynamics import runs
from learning_dynamics._internal.arguments import require_tensors
from learning_dynamics.parameterization import mdp
from learning_dynamics.parameterization.mdp import mountain_car

DOMAINS = ("chain", "four_rooms", "mountain_car")


@dataclass(frozen=True, eq=False)
class ValueProblem:
    """Data and evaluation set of every seed; targets are affine in the reward offset c.

    Attributes:
        discount: the true discount gamma.
        table: `(s, d)` or `(seeds, s, d)`, features of the states that the data refer to.
        states: `(seeds, n)` int64, the state of each data point. A seed with fewer of them than n is filled up at
            the end; its batches are drawn from the first `points` only.
        returns: `(seeds, n)`, its target at offset 0.
        annuities: `(seeds, n)`, the discounted number of rewards in it: the target at offset c adds c times this.
        evaluation: `(e, d)` or `(seeds, e, d)`, features of the evaluation set.
        values: `(e,)` or `(seeds, e)`, its true values at offset 0.
        value_annuities: `(e,)` or `(seeds, e)`, what an offset of 1 adds to them.
        counts: `(seeds,)` int64, how many of the n columns are data points; all of them if left out.

    Raises:
        ValueError: the tensors do not fit together.
    """

    discount: float
    table: Tensor
    states: Tensor
    returns: Tensor
    annuities: Tensor
    evaluation: Tensor
    values: Tensor
    value_annuities: Tensor
    counts: Tensor | None = None

    def __post_init__(self) -> None:
        """Check that the tensors fit together."""
        require_tensors(
            table=(self.table, "*seeds s d"),
            evaluation=(self.evaluation, "*seeds e d"),
            values=(self.values, "*seeds e"),
            value_annuities=(self.value_annuities, "*seeds e"),
            returns=(self.returns, "j n"),
            annuities=(self.annuities, "j n"),
        )
        if self.states.dtype != torch.int64 or self.states.shape != self.returns.shape:
            raise ValueError(
                f"states is {self.states.dtype} {tuple(self.states.shape)}; allowed: torch.int64 "
                f"{tuple(self.returns.shape)}, as returns"
            )
        if self.counts is not None:
            seeds, n = self.states.shape
            if self.counts.dtype != torch.int64 or self.counts.shape != (seeds,):
                raise ValueError(
                    f"counts is {self.counts.dtype} {tuple(self.counts.shape)}; allowed: torch.int64 ({seeds},)"
                )
            if not ((self.counts >= 1) & (self.counts <= n)).all():
                raise ValueError(
                    f"counts = {self.counts.tolist()}; allowed: numbers of data points from 1 to {n}"
                )

    @property
    def seeds(self) -> int:
        """The number of seeds."""
        return len(self.states)

    @property
    def points(self) -> list[int]:
        """The number of data points of each seed."""
        return [self.states.shape[1]] * self.seeds if self.counts is None else self.counts.tolist()

    @property
    def is_point(self) -> Tensor:
        """Whether a column holds a data point, `(seeds, n)`."""
        counts = torch.tensor(self.points, device=self.states.device)
        return torch.arange(self.states.shape[1], device=self.states.device) < counts[:, None]

    @property
    def weights(self) -> int:
        """The number of features d."""
        return self.table.shape[-1]

    @property
    def visited(self) -> Tensor:
        """Whether a state of the table is in the data, `(seeds, s)`."""
        counts = torch.zeros(self.seeds, self.table.shape[-2], dtype=torch.int64, device=self.states.device)
        return counts.scatter_add(-1, self.states, self.is_point.long()) > 0

    def of(self, seeds: slice) -> ValueProblem:
        """Return the problem of some of the seeds.

        Args:
            seeds: which.
        """
        per_seed = {"states", "returns", "annuities", "counts"}
        if self.table.ndim == 3:
            per_seed.add("table")
        if self.evaluation.ndim == 3:
            per_seed.add("evaluation")
        per_seed |= {name for name in ("values", "value_annuities") if getattr(self, name).ndim == 2}
        parts = {name: getattr(self, name) for name in per_seed}
        return replace(self, **{name: part[seeds] for name, part in parts.items() if part is not None})

    def to(self, device: torch.device | str, dtype: torch.dtype) -> ValueProblem:
        """Return the problem on a device and in a floating point type.

        Args:
            device: where to.
            dtype: a floating point type.
        """
        moved: dict[str, Any] = {
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
            the absorbing state is neither in the data nor in the evaluation, and no offset is paid in it.
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
    counts = active.sum(1)
    first = active.int().argsort(dim=1, descending=True, stable=True)[:, : int(counts.max())]
    chain, _ = process.under(policy)
    until_goal = mdp.chain_values(chain, (process.features.sum(-1) > 0).to(chain.dtype), process.discount)
    return replace(
        data,
        table=data.table[:cells],
        states=data.states.gather(1, first).clamp_max(cells - 1),
        returns=data.returns.gather(1, first),
        annuities=annuities.gather(1, first),
        evaluation=data.evaluation[:cells],
        values=data.values[:cells],
        value_annuities=until_goal[:cells],
        counts=counts,
    )


def mountain_car_problem(run: runs.Run, seeds: Sequence[int]) -> ValueProblem:
    """Return mountain car's data: 10 episodes of at most 200 steps, and 1000 fresh steps to evaluate on.

    Args:
        run: whose streams are drawn from.
        seeds: one data set for each.
    """
    discount, columns = 0.99, []
    for seed in seeds:
        train = mountain_car.episodes(10, 200, run.generator("data", seed=seed))
        test = mountain_car.episodes(20, 200, run.generator("evaluation", seed=seed))
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
    counts = torch.tensor([len(parts[0][1]) for parts in columns])
    table, returns, annuities = (
        torch.nn.utils.rnn.pad_sequence([parts[0][i] for parts in columns], batch_first=True)
        for i in range(3)
    )
    evaluation, values, value_annuities = (torch.stack([parts[1][i] for parts in columns]) for i in range(3))
    states = torch.arange(table.shape[1]).expand(len(seeds), -1).contiguous()
    return ValueProblem(
        discount, table, states, returns, annuities, evaluation, values, value_annuities, counts
    )


def problem(domain: str, run: runs.Run, seeds: Sequence[int], **options: Any) -> ValueProblem:
    """Return the data of a domain by its name.

    Args:
        domain: `chain`, `four_rooms` or `mountain_car`.
        run: whose streams are drawn from.
        seeds: one data set for each.
        **options: handed on to the domain's function.

    Raises:
        ValueError: there is no such domain.
    """
    makers: dict[str, Callable[..., ValueProblem]] = {
        "chain": chain_problem,
        "four_rooms": four_rooms_problem,
        "mountain_car": mountain_car_problem,
    }
    if domain not in makers:
        raise ValueError(f"domain = {domain!r}; allowed: {', '.join(DOMAINS)}")
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
