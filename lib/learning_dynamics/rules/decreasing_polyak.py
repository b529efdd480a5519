"""The decreasing stochastic Polyak step."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from learning_dynamics.rules.hyperparameters import (
    Hyperparameter,
    Schedule,
    like,
    require_positive,
    require_schedule,
    require_step_numbers,
    value_at,
)
from learning_dynamics.rules.rule import as_column, require_parameters, require_step, squared_norm
from learning_dynamics.rules.stochastic_polyak import polyak_ratio
from learning_dynamics.rules.torch_twin import torch_twin


def square_root_growth(k: int) -> float:
    """Return sqrt(k + 1), by which DecSPS divides."""
    return math.sqrt(k + 1)


def decsps_step_size(
    loss: Tensor,
    squared_norm: Tensor,
    smallest: Tensor,
    cap: Hyperparameter,
    c_k: Hyperparameter,
    c_0: Hyperparameter,
    lower_bound: Hyperparameter = 0.0,
) -> tuple[Tensor, Tensor]:
    r"""Return the DecSPS step and the smallest Polyak ratio so far (Orvieto, Lacoste-Julien, Loizou 2022).

    The source's recursion, with :math:`c_{-1} = c_0` and :math:`\eta_{-1} = \eta_{\max}`, is a running minimum:

    .. math:: \eta_k = \frac1{c_k}\min\Big\{\frac{f_{S_k} - \ell_{S_k}}{\|\nabla f_{S_k}\|^2},\
        c_{k-1}\eta_{k-1}\Big\}
        = \frac1{c_k}\min\Big\{\min_{j\le k}\frac{f_{S_j} - \ell_{S_j}}{\|\nabla f_{S_j}\|^2},\
        c_0\eta_{\max}\Big\}

    A batch that is fitted, whose loss stands at its lower bound to rounding while its gradient is not yet zero, says
    nothing of the ratio: it makes no step and does not enter the minimum. (One such batch would end all movement: with
    an L-smooth loss the ratio of the exact numbers is at least 1/(2 L).) A loss below the bound by more than
    1e-6 max(1, |bound|) says that the bound is wrong; its ratio is 0.

    Args:
        loss: f_S; any shape, as all other arguments broadcast against it.
        squared_norm: of the shape of `loss`, the squared norm of the gradient of f_S; where it is 0 the minimum
            stays as it is.
        smallest: of the shape of `loss`, the smallest ratio of the steps before; infinity at the first.
        cap: eta_max > 0 (the source's gamma_b).
        c_k: divisor of this step, > 0.
        c_0: divisor of the first step, > 0.
        lower_bound: l_S, at most the infimum of f_S. A loss below it counts as equal to it.

    Returns:
        The step size and the smallest ratio with this step's, both of the common shape.

    Raises:
        ValueError: a tensor is not real floating point, or the shapes do not broadcast.
    """
    require_step_numbers(
        loss=loss,
        squared_norm=squared_norm,
        smallest=smallest,
        cap=cap,
        c_k=c_k,
        c_0=c_0,
        lower_bound=lower_bound,
    )
    bound = torch.as_tensor(lower_bound, dtype=loss.dtype, device=loss.device)
    gap, size = loss - bound, bound.abs()
    fitted = (gap <= torch.finfo(loss.dtype).eps * size) & (gap >= -1e-6 * size.clamp(min=1))
    fitted = fitted & (squared_norm != 0)
    ratio = torch.where(fitted, torch.inf, polyak_ratio(loss, squared_norm, bound))
    smallest = torch.minimum(ratio, smallest)
    first = torch.as_tensor(c_0 * cap, dtype=loss.dtype, device=loss.device)
    return torch.where(fitted, 0.0, torch.minimum(smallest, first) / c_k), smallest


class DecSPSState(NamedTuple):
    """State of `DecSPS`.

    Attributes:
        step: number of steps taken.
        step_size: `(*batch)`, the step size used last; NaN before the first step.
        smallest: `(*batch)`, the smallest Polyak ratio so far; infinite before the first step.
    """

    step: int
    step_size: Tensor
    smallest: Tensor


@torch_twin("learning_dynamics.optimizers.DecSPS")
@dataclass(frozen=True, eq=False)
class DecSPS:
    r"""The decreasing stochastic Polyak step, DecSPS (Orvieto, Lacoste-Julien, Loizou 2022).

    .. math:: \theta_{k+1} = \theta_k - \eta_k \nabla f_{S_k}(\theta_k), \qquad
        \eta_k = \frac1{c_k}\min\Big\{\frac{f_{S_k}(\theta_k) - \ell_{S_k}}{\|\nabla f_{S_k}(\theta_k)\|^2},\
        c_{k-1}\eta_{k-1}\Big\}, \qquad c_k = c_0\sqrt{k+1}

    with :math:`c_{-1} = c_0`, :math:`\eta_{-1} = \eta_{\max}`. The product of c_k and the step never grows, so
    that one very small Polyak ratio, as a loss with kinks or a lower bound that is a little too high gives, is kept for
    ever. The step needs the loss: `rule.step(theta, gradient, state, loss)`.

    Args:
        cap: eta_max > 0 (the source's gamma_b); a number or a tensor `(*batch, 1)`.
        c0: > 0; a number or a tensor `(*batch, 1)`.
        lower_bound: l_S, at most the infimum of the batch's loss; a number, a tensor `(*batch, 1)`, or a
            function of the step number, where it belongs to the batch of that step. A loss at it makes no step; one
            below it, beyond rounding, shows a wrong bound: no step, and none after it.
        growth: k -> c_k / c_0, positive and not decreasing.

    Raises:
        ValueError: a hyper-parameter is out of range, not finite, or has a coordinate axis.
    """

    cap: Hyperparameter = 10.0
    c0: Hyperparameter = 1.0
    lower_bound: Schedule = 0.0
    growth: Callable[[int], float] = square_root_growth

    needs_loss: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the hyper-parameters."""
        require_positive("cap", self.cap)
        require_positive("c0", self.c0)
        require_schedule("lower_bound", self.lower_bound, -math.inf)

    def start(self, theta: Tensor) -> DecSPSState:
        """Return the state before the first step; `theta (*batch, d)`.

        Raises:
            ValueError: theta is not real floating point `(*batch, d)`.
        """
        require_parameters(theta)
        runs = theta[..., 0]
        return DecSPSState(0, torch.full_like(runs, torch.nan), torch.full_like(runs, torch.inf))

    def step(
        self, theta: Tensor, gradient: Tensor, state: DecSPSState, loss: Tensor
    ) -> tuple[Tensor, DecSPSState]:
        """Return `theta (*batch, d)` and the state after one step; `loss (*batch)`.

        Raises:
            ValueError: theta is not real floating point, or a gradient or loss does not fit to it.
        """
        require_step(theta, gradient)
        c0 = like(self.c0, theta)
        eta, smallest = decsps_step_size(
            as_column(loss, theta),
            squared_norm(gradient),
            state.smallest[..., None],
            like(self.cap, theta),
            c0 * self.growth(state.step),
            c0 * self.growth(0),
            value_at("lower_bound", self.lower_bound, state.step, theta),
        )
        return theta - eta * gradient, DecSPSState(state.step + 1, eta[..., 0], smallest[..., 0])
