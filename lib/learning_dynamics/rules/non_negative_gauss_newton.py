"""The non-negative Gauss-Newton step, NGN."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from learning_dynamics.rules.hyperparameters import (
    Hyperparameter,
    Momentum,
    Schedule,
    require_positive,
    require_schedule,
    require_step_numbers,
    value_at,
)
from learning_dynamics.rules.rule import as_column, require_parameters, require_step, squared_norm
from learning_dynamics.rules.torch_twin import torch_twin


def ngn_step_size(
    loss: Tensor, squared_norm: Tensor, cap: Hyperparameter, lower_bound: Hyperparameter = 0.0
) -> Tensor:
    r"""Return the NGN step (Orvieto & Xiao 2024).

    .. math:: \eta = \frac{\eta_{\max}}{1 + \frac{\eta_{\max}}{2 f_S(\theta)} \|\nabla f_S(\theta)\|^2}

    It is the Gauss-Newton step on :math:`f_S = r^2` with :math:`r = \sqrt{f_S}` and the penalty
    :math:`\|p\|^2 / (2\eta_{\max})`; it lies between 0 and the cap.

    Args:
        loss: f_S >= 0; any shape, as all other arguments broadcast against it.
        squared_norm: of the shape of `loss`, the squared norm of the gradient of f_S.
        cap: the largest step eta_max > 0 (the source's sigma).
        lower_bound: taken from the loss first. A loss below it counts as equal to it.

    Returns:
        the step size, of the common shape; the cap where the gradient is zero, and 0 where the loss is zero but the
        gradient is not.

    Raises:
        ValueError: a tensor is not real floating point, or the shapes do not broadcast.
    """
    require_step_numbers(loss=loss, squared_norm=squared_norm, cap=cap, lower_bound=lower_bound)
    twice = 2 * (loss - lower_bound).clamp(min=0)
    share = torch.where(twice == 0, twice, twice / (twice + cap * squared_norm))  # 0 where both underflow
    return torch.where(squared_norm == 0, cap, cap * share)


class NGNState(NamedTuple):
    """State of `NGN`.

    Attributes:
        step: number of steps taken.
        step_size: `(*batch)`, the step size used last; NaN before the first step.
        previous: `(*batch, d)`, the iterate before the present one.
    """

    step: int
    step_size: Tensor
    previous: Tensor


@torch_twin("learning_dynamics.optimizers.NGN")
@dataclass(frozen=True, eq=False)
class NGN:
    r"""The non-negative Gauss-Newton step, NGN (Orvieto & Xiao 2024), with momentum if wanted.

    .. math:: \theta_{k+1} = \theta_k - (1-\beta_{1,k})\eta_k \nabla f_{S_k}(\theta_k)
        + \beta_{1,k}(\theta_k - \theta_{k-1}), \qquad
        \eta_k = \frac{\eta_{\max}}{1 + \frac{\eta_{\max}}{2 f_{S_k}(\theta_k)} \|\nabla f_{S_k}(\theta_k)\|^2}

    started at rest; momentum 0 is NGN, and with momentum it is NGN-M (Islamov, Ajroldi, Orvieto, Lucchi 2025,
    Algorithm 1). The step needs the loss: `rule.step(theta, gradient, state, loss)`.

    Args:
        cap: the largest step eta_max > 0 (the source's sigma); a number, a tensor `(*batch, 1)`, or a schedule
            k -> eta_max.
        momentum: beta_1 in [0, 1); a number, a tensor `(*batch, 1)`, or a schedule k -> beta_{1,k}.
        lower_bound: taken from the loss first; a number, a tensor `(*batch, 1)`, or a function of the step
            number. A loss below it counts as equal to it: no step.

    Raises:
        ValueError: a hyper-parameter is out of range, not finite, or has a coordinate axis. What a schedule
            returns is used as it is.
    """

    cap: Schedule
    momentum: Momentum = 0.0
    lower_bound: Schedule = 0.0

    needs_loss: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the hyper-parameters."""
        if not callable(self.cap):
            require_positive("cap", self.cap)
        require_schedule("momentum", self.momentum, 0.0, below=1.0)
        require_schedule("lower_bound", self.lower_bound, -math.inf)

    def start(self, theta: Tensor) -> NGNState:
        """Return the state at rest; `theta (*batch, d)`.

        Raises:
            ValueError: theta is not real floating point `(*batch, d)`.
        """
        require_parameters(theta)
        return NGNState(0, torch.full_like(theta[..., 0], torch.nan), theta)

    def step(self, theta: Tensor, gradient: Tensor, state: NGNState, loss: Tensor) -> tuple[Tensor, NGNState]:
        """Return `theta (*batch, d)` and the state after one step; `loss (*batch)`.

        Raises:
            ValueError: theta is not real floating point, or a gradient or loss does not fit to it.
        """
        require_step(theta, gradient)
        eta = ngn_step_size(
            as_column(loss, theta),
            squared_norm(gradient),
            value_at("cap", self.cap, state.step, theta),
            value_at("lower_bound", self.lower_bound, state.step, theta),
        )
        beta1 = value_at("momentum", self.momentum, state.step, theta)
        moved = theta - (1 - beta1) * eta * gradient + beta1 * (theta - state.previous)
        return moved, NGNState(state.step + 1, eta[..., 0], theta)
