"""RMSprop."""

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


class RMSpropState(NamedTuple):
    """State of `RMSprop`.

    Attributes:
        step: number of steps taken.
        mean_square: `(*batch, d)`, the running mean v of the squared gradients.
    """

    step: int
    mean_square: Tensor


@torch_twin("torch.optim.RMSprop")
@dataclass(frozen=True, eq=False)
class RMSprop:
    r"""RMSprop (Tieleman & Hinton 2012, lecture 6.5).

    .. math:: v_{k+1} = \beta_2 v_k + (1 - \beta_2) g_k^2, \qquad
        \theta_{k+1} = \theta_k - \eta_k \frac{g_k}{\sqrt{v_{k+1}} + \epsilon}, \qquad v_0 = 0

    Epsilon stands outside the root, as in `torch.optim.RMSprop`. The mean starts at zero and is not corrected, so
    that the first steps are longer by up to :math:`1/\sqrt{1-\beta_2}`.

    Args:
        step_size: eta >= 0; a number, a tensor `(*batch, 1)`, or a schedule k -> eta_k.
        beta2: decay of the mean, in [0, 1) (torch calls it alpha); a number or a tensor `(*batch, 1)`.
        epsilon: >= 0, in units of the gradient.

    Raises:
        ValueError: a hyper-parameter is out of range, not finite, or has a coordinate axis.
    """

    step_size: StepSize = 1e-2
    beta2: Hyperparameter = 0.99
    epsilon: Hyperparameter = 1e-8

    def __post_init__(self) -> None:
        """Check the hyper-parameters."""
        require_step_size(self.step_size)
        require("beta2", self.beta2, 0.0, below=1.0)
        require("epsilon", self.epsilon, 0.0)

    def start(self, theta: Tensor) -> RMSpropState:
        """Return the state before the first step, v = 0; `theta (*batch, d)`.

        Raises:
            ValueError: theta is not real floating point `(*batch, d)`.
        """
        require_parameters(theta)
        return RMSpropState(0, torch.zeros_like(theta))

    def step(self, theta: Tensor, gradient: Tensor, state: RMSpropState) -> tuple[Tensor, RMSpropState]:
        """Return `theta (*batch, d)` and the state after one step.

        Raises:
            ValueError: theta is not real floating point, or the gradient has another shape, dtype or device.
        """
        require_step(theta, gradient)
        eta = step_size_at(self.step_size, state.step, theta)
        beta2 = like(self.beta2, theta)
        mean_square = beta2 * state.mean_square + (1 - beta2) * overflow_as_nan(gradient**2)
        update = gradient / (mean_square.sqrt() + like(self.epsilon, theta))
        return theta - eta * update, RMSpropState(state.step + 1, mean_square)
