"""Mountain car: an engine too weak for the hill, and radial features of position and velocity."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import require_counts, require_number, require_tensors

POSITIONS, VELOCITIES = (-1.2, 0.6), (-0.07, 0.07)
GOAL = 0.5


class Episodes(NamedTuple):
    """Episodes on the hill.

    Attributes:
        observations: `(N, T, 2)`, positions and velocities.
        rewards: `(N, T)`.
        active: `(N, T)` bool, whether the episode had not ended before.
    """

    observations: Tensor
    rewards: Tensor
    active: Tensor


def move(observation: Tensor, action: Tensor, *, wall_stops: bool = False) -> Tensor:
    """Return position and velocity after one step.

    The velocity gains `0.001 (action - 1) - 0.0025 cos(3 position)`.

    Args:
        observation: `(*batch, 2)`, position and velocity.
        action: `(*batch)`, 0 (back), 1 (idle) or 2 (forward).
        wall_stops: clip the velocity before it moves the car and stop the car at the left wall, as gymnasium's
            MountainCar-v0 does; if False the position takes the unclipped velocity and the wall stops nothing, as in
            the released code of Gehring et al. 2021.

    Raises:
        ValueError: an action is not 0, 1 or 2, or a shape does not fit.
    """
    require_tensors(observation=(observation, "*batch 2"))
    if action.is_floating_point() or action.is_complex() or action.shape != observation.shape[:-1]:
        raise ValueError(
            f"action is {action.dtype} of shape {tuple(action.shape)}; "
            f"allowed: integers of shape {tuple(observation.shape[:-1])}"
        )
    if action.numel() and (action.min() < 0 or action.max() > 2):
        raise ValueError(f"action from {action.min().item()} to {action.max().item()}; allowed: 0, 1 or 2")
    position, velocity = observation.unbind(-1)
    velocity = velocity + 0.001 * (action - 1).to(velocity) - 0.0025 * torch.cos(3 * position)
    clipped = velocity.clamp(*VELOCITIES)
    position = (position + (clipped if wall_stops else velocity)).clamp(*POSITIONS)
    if wall_stops:
        clipped = torch.where((position == POSITIONS[0]) & (clipped < 0), 0.0, clipped)
    return torch.stack([position, clipped], -1)


def episodes(
    count: int,
    steps: int,
    generator: torch.Generator,
    *,
    epsilon: float = 0.1,
    dtype: torch.dtype = torch.float64,
) -> Episodes:
    """Push back if the velocity is negative, else forward, with probability epsilon at random.

    Every step costs 1, the last one nothing.

    Args:
        count: number of episodes N; each starts at rest, at a position uniform in (-0.6, -0.4).
        steps: at most so many steps T an episode.
        generator: a CPU generator.
        epsilon: in [0, 1].
        dtype: of the observations.

    Returns:
        The episodes.

    Raises:
        ValueError: a count is less than 1 or epsilon outside [0, 1].
    """
    require_counts(count=count, steps=steps)
    require_number("epsilon", epsilon, least=0, most=1)
    start = -0.6 + 0.2 * torch.rand(count, generator=generator, dtype=dtype)
    observation = torch.stack([start, torch.zeros_like(start)], -1)
    going = torch.ones(count, dtype=torch.bool)
    seen = []
    for _ in range(steps):
        random = torch.rand(count, generator=generator, dtype=dtype) < epsilon
        any_action = torch.randint(3, (count,), generator=generator)
        forward = 2 * (observation[:, 1] >= 0).long()  # so too at rest, where every episode starts
        action = torch.where(random, any_action, forward)
        after = move(observation, action)
        arrives = after[:, 0] >= GOAL
        seen.append((observation, torch.where(going & ~arrives, -1.0, 0.0).to(dtype), going))
        observation, going = torch.where(going[:, None], after, observation), going & ~arrives
    observations, rewards, active = zip(*seen, strict=True)
    return Episodes(torch.stack(observations, 1), torch.stack(rewards, 1), torch.stack(active, 1))


def radial_features(observations: Tensor, *, grid: int = 20, width: float = 0.1) -> Tensor:
    """Return normalized radial features `(*batch, grid * grid)`, which are positive and sum to 1.

    They are the softmax over the centres of minus the squared distance, each direction in units of `width` times its
    range; the centres lie on a grid that includes the ends of both ranges.

    Args:
        observations: `(*batch, 2)`, positions and velocities.
        grid: number of centres in each direction, >= 2.
        width: of a feature, as a share of each range, > 0.

    Raises:
        ValueError: the grid has fewer than 2 points, the width is not positive, or a shape does not fit.
    """
    if grid < 2 or not width > 0:
        raise ValueError(f"grid = {grid!r}, width = {width!r}; allowed: an integer >= 2 and a number > 0")
    require_tensors(observations=(observations, "*batch 2"))
    low, high = torch.tensor([POSITIONS, VELOCITIES], dtype=observations.dtype, device=observations.device).T
    points = torch.linspace(0, 1, grid, dtype=observations.dtype, device=observations.device)
    centres = torch.cartesian_prod(points, points)
    scaled = (observations - low) / (high - low)
    return torch.softmax(-(((scaled[..., None, :] - centres) / width) ** 2).sum(-1), -1)
