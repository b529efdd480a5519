r"""Optimal values of Markov decision processes, many at once.

The equation solved is :math:`V=\max_a(r_a+\gamma P_aV)`, entry by entry. `transitions (*batch, a, s, s)` and
`rewards (*batch, a, s)` carry the same batch axes; the processes of a batch do not touch each other.
"""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import (
    require_count,
    require_indices,
    require_number,
    require_tensors,
)
from learning_dynamics.parameterization.mdp.process import require_discount, require_stochastic


class Plan(NamedTuple):
    """What planning found.

    Attributes:
        values: `(*batch, s)`, optimal values.
        actions: `(*batch, s)` int64, the greedy actions.
        rounds: number of sweeps or solves.
        converged: `(*batch)`, whether the last one changed nothing beyond the tolerance.
    """

    values: Tensor
    actions: Tensor
    rounds: int
    converged: Tensor


def action_values(transitions: Tensor, rewards: Tensor, discount: float, values: Tensor) -> Tensor:
    """Return the values of one action followed by `values`, shape `(*batch, a, s)`.

    Args:
        transitions: `(*batch, a, s, s)`, row-stochastic.
        rewards: `(*batch, a, s)`.
        discount: in [0, 1).
        values: `(*batch, s)`.

    Raises:
        ValueError: the shapes do not fit.
    """
    require_tensors(
        transitions=(transitions, "*batch a s s"),
        rewards=(rewards, "*batch a s"),
        values=(values, "*batch s"),
    )
    return _action_values(transitions, rewards, discount, values)


def _action_values(transitions: Tensor, rewards: Tensor, discount: float, values: Tensor) -> Tensor:
    return rewards + discount * (transitions @ values[..., None, :, None])[..., 0]


def value_iteration(
    transitions: Tensor,
    rewards: Tensor,
    discount: float,
    *,
    tolerance: float = 1e-6,
    sweeps: int = 5000,
    start: Tensor | None = None,
) -> Plan:
    """Apply the optimality operator until no value changes by more than `tolerance`.

    The error is then at most `discount / (1 - discount)` times the tolerance.

    Args:
        transitions: `(*batch, a, s, s)`, row-stochastic.
        rewards: `(*batch, a, s)`.
        discount: in [0, 1).
        tolerance: > 0, largest change of a value in the last sweep.
        sweeps: at most so many, >= 1.
        start: `(*batch, s)`; the largest immediate reward if left out.

    Returns:
        Values and greedy actions.

    Raises:
        ValueError: an argument is out of range or a row is not a probability distribution.
    """
    _check(transitions, rewards, discount, sweeps)
    if start is not None:
        require_tensors(rewards=(rewards, "*batch a s"), start=(start, "*batch s"), finite=True)
    if not tolerance > 0:
        raise ValueError(f"tolerance = {tolerance!r}; allowed: a number > 0")
    values = rewards.amax(-2) if start is None else start
    for sweep in count(1):
        new = _action_values(transitions, rewards, discount, values).amax(-2)
        change = (new - values).abs().amax(-1)
        values = new
        if (change <= tolerance).all() or sweep == sweeps:
            break
    best = _action_values(transitions, rewards, discount, values).argmax(-2)
    return Plan(values, best, sweep, change <= tolerance)


def policy_iteration(
    transitions: Tensor,
    rewards: Tensor,
    discount: float,
    *,
    actions: Tensor | None = None,
    solves: int = 100,
) -> Plan:
    """Solve for the values of a policy and make it greedy, until no state gains by another action.

    An action is changed only for a gain beyond rounding, so that ties do not keep it going.

    Args:
        transitions: `(*batch, a, s, s)`, row-stochastic.
        rewards: `(*batch, a, s)`.
        discount: in [0, 1).
        actions: `(*batch, s)` int64, where to start; the best immediate reward if left out.
        solves: at most so many linear solves, >= 1.

    Returns:
        Values and greedy actions.

    Raises:
        ValueError: an argument is out of range or a row is not a probability distribution.
    """
    _check(transitions, rewards, discount, solves)
    actions = rewards.argmax(-2) if actions is None else actions
    _require_actions(actions, rewards)
    identity = torch.eye(rewards.shape[-1], dtype=rewards.dtype, device=rewards.device)
    for solve in count(1):
        chain, reward = _chosen(transitions, rewards, actions)
        values = torch.linalg.solve(identity - discount * chain, reward)
        better = _action_values(transitions, rewards, discount, values)
        slack = 1e3 * torch.finfo(rewards.dtype).eps * values.abs().amax(-1, keepdim=True)
        gains = better.amax(-2) > values + slack
        actions = torch.where(gains, better.argmax(-2), actions)
        if not gains.any() or solve == solves:
            break
    return Plan(values, actions, solve, ~gains.any(-1))


def chosen(transitions: Tensor, rewards: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
    """Return the chain `(*batch, s, s)` and the rewards `(*batch, s)` of one action a state.

    Args:
        transitions: `(*batch, a, s, s)`.
        rewards: `(*batch, a, s)`.
        actions: `(*batch, s)` int64, the action of each state.

    Raises:
        ValueError: the shapes do not fit, or an action is none.
    """
    require_tensors(transitions=(transitions, "*batch a s s"), rewards=(rewards, "*batch a s"))
    if transitions.shape[:-1] != rewards.shape:
        raise ValueError(
            f"rewards has shape {tuple(rewards.shape)}; allowed: {tuple(transitions.shape[:-1])}"
        )
    _require_actions(actions, rewards)
    return _chosen(transitions, rewards, actions)


def _chosen(transitions: Tensor, rewards: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
    index = actions[..., None, :]
    rows = index[..., None].expand(*index.shape, transitions.shape[-1])
    return transitions.gather(-3, rows).squeeze(-3), rewards.gather(-2, index).squeeze(-2)


def epsilon_greedy(preferred: Tensor, actions: int, epsilon: float, dtype: torch.dtype) -> Tensor:
    """Return the policy `(*batch, s, actions)` that takes the preferred action, or with probability epsilon any.

    Args:
        preferred: `(*batch, s)` int64.
        actions: number of actions.
        epsilon: in [0, 1]; a random action may be the preferred one.
        dtype: of the policy.

    Raises:
        ValueError: epsilon is outside [0, 1], or a preferred action is none.
    """
    require_indices("preferred", preferred)
    if preferred.numel() and not bool(((preferred >= 0) & (preferred < actions)).all()):
        raise ValueError(f"preferred has other entries; allowed: 0 to {actions - 1}")
    require_number("epsilon", epsilon, least=0, most=1)
    greedy = torch.nn.functional.one_hot(preferred, actions).to(dtype)
    return (1 - epsilon) * greedy + epsilon / actions


def _require_actions(actions: Tensor, rewards: Tensor) -> None:
    """Raise unless there is one of the actions for every state."""
    shape, count = rewards.shape[:-2] + rewards.shape[-1:], rewards.shape[-2]
    if (
        actions.dtype != torch.int64
        or actions.shape != shape
        or not bool(((actions >= 0) & (actions < count)).all())
    ):
        raise ValueError(
            f"actions = {actions.dtype} of shape {tuple(actions.shape)}; "
            f"allowed: int64 {tuple(shape)}, 0 to {count - 1}"
        )


def _check(transitions: Tensor, rewards: Tensor, discount: float, rounds: int) -> None:
    require_discount("discount", discount)
    require_tensors(transitions=(transitions, "*batch a s s"), rewards=(rewards, "*batch a s"), finite=True)
    require_stochastic("transitions", transitions)
    if transitions.shape[:-1] != rewards.shape or transitions.shape[-1] != transitions.shape[-2]:
        raise ValueError(
            f"rewards has shape {tuple(rewards.shape)} and transitions {tuple(transitions.shape)}; "
            "allowed: (*batch, a, s) and (*batch, a, s, s)"
        )
    require_count("sweeps or solves", rounds)
