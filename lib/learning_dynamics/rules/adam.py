"""Adam."""

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


class AdamState(NamedTuple):
    """Number of steps taken; running means m of gradients and v of their squares, each `(*batch, d)`."""

    step: int
    mean: Tensor
    mean_square: Tensor


@dataclass(frozen=True, eq=False)
class Adam:
    r"""Adam (Kingma & Ba 2015, Algorithm 1), as in `torch.optim.Adam` without weight decay.

    .. math:: m_{k+1} = \beta_1 m_k + (1 - \beta_1) g_k, \qquad v_{k+1} = \beta_2 v_k + (1 - \beta_2) g_k^2

    .. math:: \theta_{k+1} = \theta_k - \eta_k \frac{m_{k+1} / (1 - \beta_1^{k+1})}
        {\sqrt{v_{k+1} / (1 - \beta_2^{k+1})} + \epsilon}, \qquad m_0 = v_0 = 0

    Args:
        step_size: eta >= 0; a number, a tensor `(*batch, 1)`, or a schedule k -> eta_k.
        beta1: decay of the mean gradient, in [0, 1); a number or a tensor `(*batch, 1)`.
        beta2: decay of the mean squared gradient, in [0, 1); a number or a tensor `(*batch, 1)`.
        epsilon: >= 0, in units of the gradient.

    Raises:
        ValueError: a hyper-parameter is out of range, not finite, or has a coordinate axis.
    """

    step_size: StepSize = 1e-3
    beta1: Hyperparameter = 0.9
    beta2: Hyperparameter = 0.999
    epsilon: Hyperparameter = 1e-8

    def __post_init__(self) -> None:
        """Check the hyper-parameters."""
        require_step_size(self.step_size)
        require("beta1", self.beta1, 0.0, below=1.0)
        require("beta2", self.beta2, 0.0, below=1.0)
        require("epsilon", self.epsilon, 0.0)

    def start(self, theta: Tensor) -> AdamState:
        """Return the state before the first step, m = v = 0; `theta (*batch, d)`."""
        return AdamState(0, torch.zeros_like(theta), torch.zeros_like(theta))

    def step(self, theta: Tensor, gradient: Tensor, state: AdamState) -> tuple[Tensor, AdamState]:
        """Return `theta (*batch, d)` and the state after one step."""
        eta = step_size_at(self.step_size, state.step, theta)
        beta1, beta2 = like(self.beta1, theta), like(self.beta2, theta)
        count = state.step + 1
        mean = beta1 * state.mean + (1 - beta1) * gradient
        mean_square = beta2 * state.mean_square + (1 - beta2) * gradient**2
        root = (mean_square / (1 - beta2**count)).sqrt()
        update = mean / (1 - beta1**count) / (root + like(self.epsilon, theta))
        return theta - eta * update, AdamState(count, mean, mean_square)
