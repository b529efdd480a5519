"""The heavy ball as one step of its differential equation, in positions and velocities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from learning_dynamics.rules.hyperparameters import Hyperparameter, like, require, require_positive
from learning_dynamics.rules.rule import require_parameters, require_step


class PhaseState(NamedTuple):
    """State of `HeavyBallPhase`.

    Attributes:
        step: number of steps taken, k.
        velocity: `(*batch, d)`, v_k in units of theta per unit of time.
    """

    step: int
    velocity: Tensor


@dataclass(frozen=True, eq=False)
class HeavyBallPhase:
    r"""The heavy ball in phase space: a semi-implicit Euler step of :math:`\ddot\theta + a\dot\theta + \nabla L = 0`.

    .. math:: v_{k+1} = v_k - h\,(a\,v_k + \nabla L(\theta_k)), \qquad \theta_{k+1} = \theta_k + h\,v_{k+1},
        \qquad v_0 = 0

    The positions are the iterates of `HeavyBall` with the step size :math:`h^2` and the momentum :math:`1 - ah`
    (`step_size` and `momentum` here); what is added is the velocity, so that a run may also start with one, by
    `rule.step(theta, gradient, PhaseState(0, velocity))`, and the clock: k steps last the time kh.

    Source: Orvieto (2023), Eq. HB-PS of section 2.4.3; Shi, Du, Su, Jordan (2019).

    Args:
        time_step: h > 0; a number or a tensor `(*batch, 1)`.
        friction: a >= 0; a number or a tensor `(*batch, 1)`.

    Raises:
        ValueError: a hyper-parameter lies outside, is not finite, or has a coordinate axis.
    """

    time_step: Hyperparameter
    friction: Hyperparameter

    def __post_init__(self) -> None:
        """Check the hyper-parameters."""
        require_positive("time_step", self.time_step)
        require("friction", self.friction, 0.0)

    @property
    def step_size(self) -> Hyperparameter:
        """The step size eta = h^2 of `HeavyBall`, a number or `(*batch, 1)`."""
        return self.time_step * self.time_step

    @property
    def momentum(self) -> Hyperparameter:
        """The momentum beta_1 = 1 - a h of `HeavyBall`, a number or `(*batch, 1)`; negative where a h > 1."""
        return 1 - self.friction * self.time_step

    def start(self, theta: Tensor) -> PhaseState:
        """Return the state at rest; `theta (*batch, d)`.

        Raises:
            ValueError: theta is not real floating point `(*batch, d)`.
        """
        require_parameters(theta)
        return PhaseState(0, theta * 0)

    def step(self, theta: Tensor, gradient: Tensor, state: PhaseState) -> tuple[Tensor, PhaseState]:
        """Return `theta (*batch, d)` and the state after one step.

        Raises:
            ValueError: theta is not real floating point, or the gradient has another shape, dtype or device.
        """
        require_step(theta, gradient)
        h, a = like(self.time_step, theta), like(self.friction, theta)
        velocity = state.velocity - h * (a * state.velocity + gradient)
        return theta + h * velocity, PhaseState(state.step + 1, velocity)
