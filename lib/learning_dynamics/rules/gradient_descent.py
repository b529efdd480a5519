"""Gradient descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from learning_dynamics.rules.hyperparameters import StepSize, require_step_size, step_size_at
from learning_dynamics.rules.rule import require_parameters, require_step
from learning_dynamics.rules.torch_twin import torch_twin


class GradientDescentState(NamedTuple):
    """State of `GradientDescent`.

    Attributes:
        step: number of steps taken.
    """

    step: int


@torch_twin("torch.optim.SGD")
@dataclass(frozen=True, eq=False)
class GradientDescent:
    r"""Gradient descent (Cauchy 1847).

    .. math:: \theta_{k+1} = \theta_k - \eta_k \nabla L(\theta_k)

    Args:
        step_size: eta >= 0; a number, a tensor `(*batch, 1)`, or a schedule k -> eta_k.

    Raises:
        ValueError: the step size is negative, not finite, or has a coordinate axis.
    """

    step_size: StepSize

    def __post_init__(self) -> None:
        """Check the step size."""
        require_step_size(self.step_size)

    def start(self, theta: Tensor) -> GradientDescentState:
        """Return the state before the first step; `theta (*batch, d)`.

        Raises:
            ValueError: theta is not real floating point `(*batch, d)`.
        """
        require_parameters(theta)
        return GradientDescentState(0)

    def step(
        self, theta: Tensor, gradient: Tensor, state: GradientDescentState
    ) -> tuple[Tensor, GradientDescentState]:
        """Return `theta (*batch, d)` and the state after one step.

        Raises:
            ValueError: theta is not real floating point, or the gradient has another shape, dtype or device.
        """
        require_step(theta, gradient)
        eta = step_size_at(self.step_size, state.step, theta)
        return theta - eta * gradient, GradientDescentState(state.step + 1)
