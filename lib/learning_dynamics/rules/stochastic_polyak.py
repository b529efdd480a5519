"""The stochastic Polyak step, capped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from learning_dynamics.rules.hyperparameters import (
    Hyperparameter,
    Schedule,
    require_positive,
    require_schedule,
    require_step_numbers,
    value_at,
)
from learning_dynamics.rules.rule import as_column, require_parameters, require_step, squared_norm
from learning_dynamics.rules.torch_twin import torch_twin


def sps_step_size(
    loss: Tensor,
    squared_norm: Tensor,
    cap: Hyperparameter,
    c: Hyperparameter = 1.0,
    lower_bound: Hyperparameter = 0.0,
) -> Tensor:
    r"""Return the capped stochastic Polyak step (Loizou et al. 2021, SPS_max).

    .. math:: \eta = \min\Big\{\frac{f_S(\theta) - \ell_S}{c\,\|\nabla f_S(\theta)\|^2},\ \eta_{\max}\Big\}

    Args:
        loss: f_S; any shape, as all other arguments broadcast against it.
        squared_norm: of the shape of `loss`, the squared norm of the gradient of f_S.
        cap: eta_max > 0 (the source's gamma_b); infinity means no cap.
        c: > 0.
        lower_bound: l_S, at most the infimum of f_S. A loss below it counts as equal to it.

    Returns:
        the step size, of the common shape; the cap (0 if that is infinite) where the gradient is zero, so that
        nothing moves there.

    Raises:
        ValueError: a tensor is not real floating point, or the shapes do not broadcast.
    """
    require_step_numbers(loss=loss, squared_norm=squared_norm, cap=cap, c=c, lower_bound=lower_bound)
    cap = torch.as_tensor(cap, dtype=loss.dtype, device=loss.device)
    ratio = polyak_ratio(loss, squared_norm, lower_bound) / c
    step = torch.minimum(ratio, cap)
    return torch.where(squared_norm == 0, torch.where(cap.isinf(), 0.0, cap), step)


def polyak_ratio(loss: Tensor, squared_norm: Tensor, lower_bound: Hyperparameter = 0.0) -> Tensor:
    r"""Return :math:`(f_S - \ell_S) / \|\nabla f_S\|^2`, infinite where the gradient is zero.

    Args:
        loss: f_S; any shape, as all other arguments broadcast against it.
        squared_norm: the squared norm of the gradient of f_S.
        lower_bound: l_S. A loss below it counts as equal to it: the ratio is never negative.
    """
    ratio = (loss - lower_bound).clamp(min=0) / squared_norm
    return torch.where(squared_norm == 0, torch.inf, ratio)


class SPSState(NamedTuple):
    """State of `SPS`.

    Attributes:
        step: number of steps taken.
        step_size: `(*batch)`, the step size used last; NaN before the first step.
    """

    step: int
    step_size: Tensor


@torch_twin("learning_dynamics.optimizers.SPS")
@dataclass(frozen=True, eq=False)
class SPS:
    r"""Stochastic gradient descent with the capped stochastic Polyak step (Loizou et al. 2021).

    .. math:: \theta_{k+1} = \theta_k - \eta_k \nabla f_{S_k}(\theta_k), \qquad
        \eta_k = \min\Big\{\frac{f_{S_k}(\theta_k) - \ell_{S_k}}{c_k \|\nabla f_{S_k}(\theta_k)\|^2},\
        \eta_{\max}\Big\}

    With c = 1 it has the guarantee for convex losses, with c >= 1/2 that for strongly convex ones. It converges
    to the minimizer only under interpolation, whatever the schedule of c or of the cap; see `DecSPS`.
    The step needs the loss: `rule.step(theta, gradient, state, loss)`.

    Args:
        cap: eta_max > 0 (the source's gamma_b), infinity allowed; a number, a tensor `(*batch, 1)`, or a
            schedule k -> eta_max.
        c: > 0; a number, a tensor `(*batch, 1)`, or a schedule k -> c_k.
        lower_bound: l_S, at most the infimum of the batch's loss; a number, a tensor `(*batch, 1)`, or a
            function of the step number, where it belongs to the batch of that step. A loss below it counts
            as equal to it: no step.

    Raises:
        ValueError: a hyper-parameter is out of range, not finite, or has a coordinate axis. What a schedule
            returns is used as it is.
    """

    cap: Schedule
    c: Schedule = 1.0
    lower_bound: Schedule = 0.0

    needs_loss: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the hyper-parameters."""
        if not callable(self.cap):
            require_positive("cap", self.cap, finite=False)
        if not callable(self.c):
            require_positive("c", self.c)
        require_schedule("lower_bound", self.lower_bound, -torch.inf)

    def start(self, theta: Tensor) -> SPSState:
        """Return the state before the first step; `theta (*batch, d)`.

        Raises:
            ValueError: theta is not real floating point `(*batch, d)`.
        """
        require_parameters(theta)
        return SPSState(0, torch.full_like(theta[..., 0], torch.nan))

    def step(self, theta: Tensor, gradient: Tensor, state: SPSState, loss: Tensor) -> tuple[Tensor, SPSState]:
        """Return `theta (*batch, d)` and the state after one step; `loss (*batch)`.

        Raises:
            ValueError: theta is not real floating point, or a gradient or loss does not fit to it.
        """
        require_step(theta, gradient)
        eta = sps_step_size(
            as_column(loss, theta),
            squared_norm(gradient),
            value_at("cap", self.cap, state.step, theta),
            value_at("c", self.c, state.step, theta),
            value_at("lower_bound", self.lower_bound, state.step, theta),
        )
        return theta - eta * gradient, SPSState(state.step + 1, eta[..., 0])
