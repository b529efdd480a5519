"""What the rules with momentum share: a step size, a momentum, and one vector of memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from learning_dynamics.rules.hyperparameters import (
    Hyperparameter,
    Momentum,
    StepSize,
    require_schedule,
    require_step_size,
    step_size_at,
    value_at,
)
from learning_dynamics.rules.rule import require_parameters


class MomentumState(NamedTuple):
    """State of `HeavyBall`, `Nesterov` and `SGD`.

    Attributes:
        step: number of steps taken, k; under `Restarted` a tensor `(*batch, 1)`, one count a run.
        memory: `(*batch, d)`; `HeavyBall`: the iterate before the present one; `Nesterov`: x_k, where the last gradient
            step arrived; `SGD`: torch's buffer b.
    """

    step: int | Tensor
    memory: Tensor


@dataclass(frozen=True, eq=False)
class MomentumRule:
    """Base of the rules with momentum, started at rest.

    Args:
        step_size: eta >= 0; a number, a tensor `(*batch, 1)`, or a schedule k -> eta_k.
        momentum: beta_1 >= 0; a number, a tensor `(*batch, 1)`, or a schedule k -> beta_{1,k}.

    Raises:
        ValueError: a hyper-parameter is negative, not finite, or has a coordinate axis. What a schedule returns
            is used as it is.
    """

    step_size: StepSize
    momentum: Momentum

    def __post_init__(self) -> None:
        """Check the hyper-parameters."""
        require_step_size(self.step_size)
        require_schedule("momentum", self.momentum, 0.0)

    def start(self, theta: Tensor) -> MomentumState:
        """Return the state at rest; `theta (*batch, d)`.

        Raises:
            ValueError: theta is not real floating point `(*batch, d)`.
        """
        require_parameters(theta)
        return MomentumState(0, theta)

    def _at(self, step: int | Tensor, theta: Tensor) -> tuple[Hyperparameter, Hyperparameter]:
        """Return eta_k and beta_{1,k} of step number k, ready to multiply `theta`."""
        return step_size_at(self.step_size, step, theta), value_at("momentum", self.momentum, step, theta)
