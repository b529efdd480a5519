"""Schedule-free gradient descent: the mean of the iterates, with the gradient taken between mean and iterate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from learning_dynamics.rules.hyperparameters import (
    Hyperparameter,
    StepSize,
    like,
    require,
    require_step_size,
    step_size_at,
)
from learning_dynamics.rules.rule import require_parameters, require_step


class ScheduleFreeState(NamedTuple):
    """State of `ScheduleFree`.

    Attributes:
        step: number of steps taken, k.
        moved: `(*batch, d)`, z_k, the point that makes the gradient steps.
        mean: `(*batch, d)`, the mean of z_0, ..., z_k: what the method returns.
    """

    step: int
    moved: Tensor
    mean: Tensor


@dataclass(frozen=True, eq=False)
class ScheduleFree:
    r"""A running mean whose gradient is asked for between the mean and the point that moves.

    .. math:: z_{k+1} = z_k - \eta_k\nabla L(\theta_k), \qquad \bar z_k = \frac1{k+1}\sum_{i\le k} z_i, \qquad
        \theta_k = (1-\zeta)\,z_k + \zeta\,\bar z_k

    The parameters are the points theta_k where the gradient is taken; what the method returns is the mean,
    `iterate(..., watch=lambda state: state.mean)`. With zeta = 0 it is Polyak's and Ruppert's averaging beside plain
    gradient descent, with zeta = 1 and the step 2 eta the mean is the iterate of `PolynomialMemory(eta, 2)`.

    Source: Defazio et al. (2024), The Road Less Scheduled, Eq. (7)-(9), where zeta is called beta and the points are
    numbered from 1.

    Args:
        step_size: eta >= 0; a number, a tensor `(*batch, 1)`, or a schedule k -> eta_k.
        interpolation: zeta from 0 to 1; a number or a tensor `(*batch, 1)`.

    Raises:
        ValueError: a hyper-parameter is out of range, not finite, or has a coordinate axis.
    """

    step_size: StepSize
    interpolation: Hyperparameter = 0.9

    def __post_init__(self) -> None:
        """Check the hyper-parameters."""
        require_step_size(self.step_size)
        require("interpolation", self.interpolation, 0.0)
        if bool(torch.as_tensor(self.interpolation).gt(1).any()):
            raise ValueError(f"interpolation = {self.interpolation!r}; allowed: from 0 to 1")

    def start(self, theta: Tensor) -> ScheduleFreeState:
        """Return the state before the first step; `theta (*batch, d)`.

        Raises:
            ValueError: theta is not real floating point `(*batch, d)`.
        """
        require_parameters(theta)
        return ScheduleFreeState(0, theta, theta)

    def step(
        self, theta: Tensor, gradient: Tensor, state: ScheduleFreeState
    ) -> tuple[Tensor, ScheduleFreeState]:
        """Return `theta (*batch, d)` and the state after one step.

        Raises:
            ValueError: theta is not real floating point, or the gradient has another shape, dtype or device.
        """
        require_step(theta, gradient)
        moved = state.moved - step_size_at(self.step_size, state.step, theta) * gradient
        mean = state.mean + (moved - state.mean) / (state.step + 2)
        zeta = like(self.interpolation, theta)
        return moved + zeta * (mean - moved), ScheduleFreeState(state.step + 1, moved, mean)
