"""Adam."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from learning_dynamics.rules.hyperparameters import (
    Hyperparameter,
    Momentum,
    StepSize,
    like,
    require,
    require_schedule,
    require_step_size,
    step_size_at,
    value_at,
)
from learning_dynamics.rules.rule import overflow_as_nan, require_parameters, require_step
from learning_dynamics.rules.torch_twin import torch_twin


class AdamState(NamedTuple):
    """State of `Adam`.

    Attributes:
        step: number of steps taken, k.
        mean: `(*batch, d)`, running mean m of the gradients.
        mean_square: `(*batch, d)`, running mean v of their squares.
        kept: `(*batch, 1)`, under a schedule of beta_1 the product of its values so far; else 1.
    """

    step: int
    mean: Tensor
    mean_square: Tensor
    kept: Tensor


def adam_start(theta: Tensor) -> AdamState:
    """Return the state of `Adam` before the first step, m = v = 0; `theta (*batch, d)`."""
    zero = torch.zeros_like(theta)
    return AdamState(0, zero, zero, torch.ones_like(theta[..., :1]))


@dataclass(frozen=True, eq=False)
class AdamRule:
    """Base of `Adam` and `AMSGrad`: their hyper-parameters, running means and step.

    Args:
        step_size: eta >= 0; a number, a tensor `(*batch, 1)`, or a schedule k -> eta_k.
        beta1: decay of the mean gradient, in [0, 1); a number, a tensor `(*batch, 1)`, or a schedule.
        beta2: decay of the mean square, in [0, 1); a number or a tensor `(*batch, 1)`.
        epsilon: >= 0, in units of the gradient.

    Raises:
        ValueError: a hyper-parameter is out of range, not finite, or has a coordinate axis.
    """

    step_size: StepSize = 1e-3
    beta1: Momentum = 0.9
    beta2: Hyperparameter = 0.999
    epsilon: Hyperparameter = 1e-8

    def __post_init__(self) -> None:
        """Check the hyper-parameters."""
        require_step_size(self.step_size)
        require_schedule("beta1", self.beta1, 0.0, below=1.0)
        require("beta2", self.beta2, 0.0, below=1.0)
        require("epsilon", self.epsilon, 0.0)

    def _means(self, theta: Tensor, gradient: Tensor, state: AdamState) -> tuple[AdamState, Tensor]:
        """Return the state after one step, and its mean gradient corrected for the start at zero."""
        beta1, beta2 = value_at("beta1", self.beta1, state.step, theta), like(self.beta2, theta)
        count = state.step + 1
        mean = beta1 * state.mean + (1 - beta1) * gradient
        mean_square = beta2 * state.mean_square + (1 - beta2) * overflow_as_nan(gradient**2)
        kept = state.kept * beta1 if callable(self.beta1) else state.kept
        corrected = mean / (1 - (kept if callable(self.beta1) else beta1**count))
        return AdamState(count, mean, mean_square, kept), corrected

    def _moved(self, theta: Tensor, step: int, corrected: Tensor, mean_square: Tensor) -> Tensor:
        """Return the parameters after step number `step`."""
        root = (mean_square / (1 - like(self.beta2, theta) ** (step + 1))).sqrt()
        eta = step_size_at(self.step_size, step, theta)
        return theta - eta * (corrected / (root + like(self.epsilon, theta)))


@torch_twin("torch.optim.Adam")
@dataclass(frozen=True, eq=False)
class Adam(AdamRule):
    r"""Adam (Kingma & Ba 2015, Algorithm 1), as in `torch.optim.Adam` without weight decay.

    .. math:: m_{k+1} = \beta_{1,k} m_k + (1 - \beta_{1,k}) g_k, \qquad v_{k+1} = \beta_2 v_k + (1 - \beta_2) g_k^2

    .. math:: \theta_{k+1} = \theta_k - \eta_k \frac{m_{k+1} / (1 - \prod_{j \le k} \beta_{1,j})}
        {\sqrt{v_{k+1} / (1 - \beta_2^{k+1})} + \epsilon}, \qquad m_0 = v_0 = 0

    The product is :math:`\beta_1^{k+1}` for a constant; under a schedule too the weights of the past gradients in the
    corrected mean sum to one.

    Args:
        step_size: eta >= 0; a number, a tensor `(*batch, 1)`, or a schedule k -> eta_k.
        beta1: decay of the mean gradient, in [0, 1); a number, a tensor `(*batch, 1)`, or a schedule k -> beta_{1,k}.
        beta2: decay of the mean squared gradient, in [0, 1); a number or a tensor `(*batch, 1)`.
        epsilon: >= 0, in units of the gradient.

    Raises:
        ValueError: a hyper-parameter is out of range, not finite, or has a coordinate axis.
    """

    def start(self, theta: Tensor) -> AdamState:
        """Return the state before the first step, m = v = 0; `theta (*batch, d)`.

        Raises:
            ValueError: theta is not real floating point `(*batch, d)`.
        """
        require_parameters(theta)
        return adam_start(theta)

    def step(self, theta: Tensor, gradient: Tensor, state: AdamState) -> tuple[Tensor, AdamState]:
        """Return `theta (*batch, d)` and the state after one step.

        Raises:
            ValueError: theta is not real floating point, or the gradient has another shape, dtype or device.
        """
        require_step(theta, gradient)
        after, corrected = self._means(theta, gradient, state)
        return self._moved(theta, state.step, corrected, after.mean_square), after
