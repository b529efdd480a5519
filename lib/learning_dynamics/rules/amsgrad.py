"""AMSGrad."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from learning_dynamics.rules.adam import Adam
from learning_dynamics.rules.hyperparameters import like, step_size_at


class AMSGradState(NamedTuple):
    """State of `AMSGrad`.

    Attributes:
        step: number of steps taken.
        mean: `(*batch, d)`, running mean m of the gradients.
        mean_square: `(*batch, d)`, running mean v of their squares.
        largest: `(*batch, d)`, the largest v so far.
    """

    step: int
    mean: Tensor
    mean_square: Tensor
    largest: Tensor


@dataclass(frozen=True, eq=False)
class AMSGrad(Adam):
    r"""AMSGrad (Reddi, Kale, Kumar 2018), as in `torch.optim.Adam(amsgrad=True)` without weight decay.

    .. math:: m_{k+1} = \beta_1 m_k + (1 - \beta_1) g_k, \qquad v_{k+1} = \beta_2 v_k + (1 - \beta_2) g_k^2,
        \qquad \hat v_{k+1} = \max\{\hat v_k, v_{k+1}\}

    .. math:: \theta_{k+1} = \theta_k - \eta_k \frac{m_{k+1} / (1 - \beta_1^{k+1})}
        {\sqrt{\hat v_{k+1} / (1 - \beta_2^{k+1})} + \epsilon}, \qquad m_0 = v_0 = \hat v_0 = 0

    The bias corrections are torch's; the source has none.

    Hyper-parameters, their defaults and their errors are those of `Adam`.
    """

    def start(self, theta: Tensor) -> AMSGradState:
        """Return the state before the first step, all means 0; `theta (*batch, d)`."""
        return AMSGradState(0, *(torch.zeros_like(theta) for _ in range(3)))

    def step(self, theta: Tensor, gradient: Tensor, state: AMSGradState) -> tuple[Tensor, AMSGradState]:
        """Return `theta (*batch, d)` and the state after one step."""
        eta = step_size_at(self.step_size, state.step, theta)
        beta1, beta2 = like(self.beta1, theta), like(self.beta2, theta)
        count = state.step + 1
        mean = beta1 * state.mean + (1 - beta1) * gradient
        mean_square = beta2 * state.mean_square + (1 - beta2) * gradient**2
        largest = torch.maximum(state.largest, mean_square)
        root = (largest / (1 - beta2**count)).sqrt()
        update = mean / (1 - beta1**count) / (root + like(self.epsilon, theta))
        return theta - eta * update, AMSGradState(count, mean, mean_square, largest)
