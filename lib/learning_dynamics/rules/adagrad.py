"""AdaGrad, one step size for each coordinate."""

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
from learning_dynamics.rules.rule import overflow_as_nan, require_parameters, require_step
from learning_dynamics.rules.torch_twin import torch_twin


class AdaGradState(NamedTuple):
    """State of `AdaGrad`.

    Attributes:
        step: number of steps taken.
        sum_of_squares: `(*batch, d)`, the sum s of the squared gradients.
    """

    step: int
    sum_of_squares: Tensor


@torch_twin("torch.optim.Adagrad")
@dataclass(frozen=True, eq=False)
class AdaGrad:
    r"""AdaGrad with a diagonal (Duchi, Hazan, Singer 2011), as in `torch.optim.Adagrad`.

    .. math:: s_{k+1} = s_k + g_k^2, \qquad
        \theta_{k+1} = \theta_k - \eta_k \frac{g_k}{\sqrt{s_{k+1}} + \epsilon}, \qquad s_0 = 0

    Args:
        step_size: eta >= 0; a number, a tensor `(*batch, 1)`, or a schedule k -> eta_k.
        epsilon: >= 0, in units of the gradient; with 0 a coordinate whose gradients were all zero is undefined.

    Raises:
        ValueError: a hyper-parameter is out of range, not finite, or has a coordinate axis.
    """

    step_size: StepSize = 1e-2
    epsilon: Hyperparameter = 1e-10

    def __post_init__(self) -> None:
        """Check the hyper-parameters."""
        require_step_size(self.step_size)
        require("epsilon", self.epsilon, 0.0)

    def start(self, theta: Tensor) -> AdaGradState:
        """Return the state before the first step, s = 0; `theta (*batch, d)`.

        Raises:
            ValueError: theta is not real floating point `(*batch, d)`.
        """
        require_parameters(theta)
        return AdaGradState(0, torch.zeros_like(theta))

    def step(self, theta: Tensor, gradient: Tensor, state: AdaGradState) -> tuple[Tensor, AdaGradState]:
        """Return `theta (*batch, d)` and the state after one step.

        Raises:
            ValueError: theta is not real floating point, or the gradient has another shape, dtype or device.
        """
        require_step(theta, gradient)
        eta = step_size_at(self.step_size, state.step, theta)
        sum_of_squares = state.sum_of_squares + overflow_as_nan(gradient**2)
        update = gradient / (sum_of_squares.sqrt() + like(self.epsilon, theta))
        return theta - eta * update, AdaGradState(state.step + 1, sum_of_squares)
