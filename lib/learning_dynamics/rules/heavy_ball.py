"""Polyak's heavy ball."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from learning_dynamics.rules.hyperparameters import (
    Hyperparameter,
    StepSize,
    like,
    require,
    require_step_size,
    step_size_at,
)


class HeavyBallState(NamedTuple):
    """Number of steps taken, and the iterate before the present one, `(*batch, d)`."""

    step: int
    previous: Tensor


@dataclass(frozen=True, eq=False)
class HeavyBall:
    r"""The heavy ball, started at rest (Polyak 1964).

    .. math:: \theta_{k+1} = \theta_k - \eta_k \nabla L(\theta_k) + \beta_1 (\theta_k - \theta_{k-1}),
        \qquad \theta_{-1} = \theta_0

    With a constant step size these are the iterates of `torch.optim.SGD(lr=eta, momentum=beta_1)`. Under a
    schedule they differ: here a past gradient keeps the step size it was taken with; torch's buffer holds
    bare gradients and multiplies all of them by the present one (see `SGD`).

    Args:
        step_size: eta >= 0; a number, a tensor `(*batch, 1)`, or a schedule k -> eta_k.
        momentum: beta_1 >= 0; a number or a tensor `(*batch, 1)`.

    Raises:
        ValueError: a hyper-parameter is negative, not finite, or has a coordinate axis.
    """

    step_size: StepSize
    momentum: Hyperparameter

    def __post_init__(self) -> None:
        """Check the hyper-parameters."""
        require_step_size(self.step_size)
        require("momentum", self.momentum, 0.0)

    def start(self, theta: Tensor) -> HeavyBallState:
        """Return the state at rest; `theta (*batch, d)`."""
        return HeavyBallState(0, theta)

    def step(self, theta: Tensor, gradient: Tensor, state: HeavyBallState) -> tuple[Tensor, HeavyBallState]:
        """Return `theta (*batch, d)` and the state after one step."""
        eta = step_size_at(self.step_size, state.step, theta)
        beta1 = like(self.momentum, theta)
        moved = theta - eta * gradient + beta1 * (theta - state.previous)
        return moved, HeavyBallState(state.step + 1, theta)
