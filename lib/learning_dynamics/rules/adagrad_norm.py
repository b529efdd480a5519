"""AdaGrad-Norm: AdaGrad with one step size for the whole vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from learning_dynamics.rules.hyperparameters import (
    Hyperparameter,
    StepSize,
    like,
    require_positive,
    require_step_size,
    step_size_at,
)
from learning_dynamics.rules.rule import require_parameters, require_step, squared_norm
from learning_dynamics.rules.torch_twin import torch_twin


class AdaGradNormState(NamedTuple):
    """State of `AdaGradNorm`.

    Attributes:
        step: number of steps taken.
        step_size: `(*batch)`, eta_k / b_{k+1} as used last; NaN before the first step.
        square: `(*batch)`, b_k squared: b_0 squared and the squared norms of all gradients so far.
    """

    step: int
    step_size: Tensor
    square: Tensor


@torch_twin("learning_dynamics.optimizers.AdaGradNorm")
@dataclass(frozen=True, eq=False)
class AdaGradNorm:
    r"""AdaGrad-Norm (Ward, Wu, Bottou 2019, Algorithm 1).

    .. math:: b_{k+1}^2 = b_k^2 + \|g_k\|^2, \qquad \theta_{k+1} = \theta_k - \frac{\eta_k}{b_{k+1}} g_k

    Args:
        step_size: eta >= 0; a number, a tensor `(*batch, 1)`, or a schedule k -> eta_k.
        b0: > 0, in units of the gradient; a number or a tensor `(*batch, 1)`.

    Raises:
        ValueError: a hyper-parameter is out of range, not finite, or has a coordinate axis.
    """

    step_size: StepSize
    b0: Hyperparameter = 0.1

    def __post_init__(self) -> None:
        """Check the hyper-parameters."""
        require_step_size(self.step_size)
        require_positive("b0", self.b0)

    def start(self, theta: Tensor) -> AdaGradNormState:
        """Return the state before the first step, b = b_0; `theta (*batch, d)`.

        Raises:
            ValueError: theta is not real floating point `(*batch, d)`.
        """
        require_parameters(theta)
        square = torch.zeros_like(theta[..., :1]) + like(self.b0, theta) ** 2
        return AdaGradNormState(0, torch.full_like(theta[..., 0], torch.nan), square[..., 0])

    def step(
        self, theta: Tensor, gradient: Tensor, state: AdaGradNormState
    ) -> tuple[Tensor, AdaGradNormState]:
        """Return `theta (*batch, d)` and the state after one step.

        Raises:
            ValueError: theta is not real floating point, or the gradient has another shape, dtype or device.
        """
        require_step(theta, gradient)
        square = state.square[..., None] + squared_norm(gradient)
        eta = step_size_at(self.step_size, state.step, theta) / square.sqrt()
        return theta - eta * gradient, AdaGradNormState(state.step + 1, eta[..., 0], square[..., 0])
