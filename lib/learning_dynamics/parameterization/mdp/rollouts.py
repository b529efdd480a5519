"""Trajectories of a policy, drawn side by side, and the returns along them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import require_count, require_generator, require_tensors
from learning_dynamics.parameterization.mdp.process import (
    MarkovDecisionProcess,
    require_discount,
    require_stochastic,
)


class Rollouts(NamedTuple):
    """N trajectories of T steps.

    Attributes:
        states: `(N, T)` int64.
        actions: `(N, T)` int64.
        rewards: `(N, T)`.
    """

    states: Tensor
    actions: Tensor
    rewards: Tensor


def rollouts(
    process: MarkovDecisionProcess,
    policy: Tensor,
    starts: Tensor,
    steps: int,
    generator: torch.Generator,
) -> Rollouts:
    """Follow a policy from given states; an absorbing state is stayed in like any other.

    Args:
        process: the process.
        policy: `(s, a)`.
        starts: `(N,)` int64.
        steps: T >= 1.
        generator: a CPU generator; the draws are made on the CPU whatever the device.

    Returns:
        The trajectories.

    Raises:
        ValueError: a start is not a state, `steps` < 1, there is no generator, or the policy has another shape or a row
            that is no distribution.
    """
    require_tensors(policy=(policy, "s a"), finite=True)
    require_stochastic("policy", policy)
    actions, states = process.rewards.shape
    if policy.shape != (states, actions):
        raise ValueError(f"policy has shape {tuple(policy.shape)}; allowed: {(states, actions)}")
    require_count("steps", steps)
    require_generator(generator)
    if starts.dtype != torch.int64 or starts.ndim != 1 or not len(starts):
        raise ValueError(
            f"starts is {starts.dtype} of shape {tuple(starts.shape)}; allowed: int64 (N,), N >= 1"
        )
    if starts.min() < 0 or starts.max() >= states:
        raise ValueError(f"starts = {starts.tolist()!r}; allowed: states from 0 to {states - 1}")
    choose, move = policy.cpu().double().cumsum(-1), process.transitions.cpu().double().cumsum(-1)
    state, seen = starts.cpu(), []
    for _ in range(steps):
        action = _draw(choose[state], generator)
        seen.append((state, action))
        state = _draw(move[action, state], generator)
    visited, taken = (
        torch.stack(column, -1).to(process.rewards.device) for column in zip(*seen, strict=True)
    )
    return Rollouts(visited, taken, process.rewards[taken, visited])


def discounted_returns(rewards: Tensor, discount: float) -> Tensor:
    r"""Return :math:`G_t=R_t+\gamma G_{t+1}` along the last axis, with nothing after its end.

    Args:
        rewards: `(*batch, T)`.
        discount: gamma in [0, 1).

    Returns:
        `(*batch, T)`.

    Raises:
        ValueError: the discount is outside [0, 1), or the rewards are not real floating point.
    """
    require_discount("discount", discount)
    require_tensors(rewards=(rewards, "*batch T"))
    returns = rewards.clone()
    for t in range(rewards.shape[-1] - 2, -1, -1):
        returns[..., t] += discount * returns[..., t + 1]
    return returns


def _draw(cumulative: Tensor, generator: torch.Generator) -> Tensor:
    """Draw one index a row from cumulative probabilities `(N, m)`."""
    uniform = torch.rand(
        len(cumulative), 1, generator=generator, dtype=torch.float64, device=generator.device
    )
    return (uniform >= cumulative[:, :-1]).sum(-1)
