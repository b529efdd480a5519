"""The stochastic Polyak step, capped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from learning_dynamics.optimizers.hyperparameters import (
    Hyperparameter,
    Schedule,
    require,
    require_positive,
    value_at,
)
from learning_dynamics.optimizers.rule import as_column
from learning_dynamics.optimizers.whole_vector import WholeVectorOptimizer, require_number


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
        squared_norm: the squared norm of the gradient of f_S.
        cap: eta_max > 0 (the source's gamma_b); infinity means no cap.
        c: > 0.
        lower_bound: l_S, at most the infimum of f_S. A loss below it counts as equal to it.

    Returns:
        the step size; the cap (0 if that is infinite) where the gradient is zero, so that nothing moves there.
    """
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
    """Number of steps taken, and the step size used last, `(*batch)`; NaN before the first step."""

    step: int
    step_size: Tensor


@dataclass(frozen=True, eq=False)
class SPSRule:
    r"""Stochastic gradient descent with the capped stochastic Polyak step (Loizou et al. 2021).

    .. math:: \theta_{k+1} = \theta_k - \eta_k \nabla f_{S_k}(\theta_k), \qquad
        \eta_k = \min\Big\{\frac{f_{S_k}(\theta_k) - \ell_{S_k}}{c_k \|\nabla f_{S_k}(\theta_k)\|^2},\
        \eta_{\max}\Big\}

    With c = 1 it has the guarantee for convex losses, with c >= 1/2 that for strongly convex ones. It converges
    to the minimizer only under interpolation, whatever the schedule of c or of the cap; see `DecSPSRule`.
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
        if not callable(self.lower_bound):
            require("lower_bound", self.lower_bound, -torch.inf)

    def start(self, theta: Tensor) -> SPSState:
        """Return the state before the first step; `theta (*batch, d)`."""
        return SPSState(0, torch.full_like(theta[..., 0], torch.nan))

    def step(self, theta: Tensor, gradient: Tensor, state: SPSState, loss: Tensor) -> tuple[Tensor, SPSState]:
        """Return `theta (*batch, d)` and the state after one step; `loss (*batch)`."""
        eta = sps_step_size(
            as_column(loss, theta),
            gradient.square().sum(-1, keepdim=True),
            value_at("cap", self.cap, state.step, theta),
            value_at("c", self.c, state.step, theta),
            value_at("lower_bound", self.lower_bound, state.step, theta),
        )
        return theta - eta * gradient, SPSState(state.step + 1, eta[..., 0])


class SPS(WholeVectorOptimizer):
    r"""The capped stochastic Polyak step as a torch optimizer (Loizou et al. 2021, SPS_max).

    .. math:: \theta \leftarrow \theta - \eta\nabla f_S(\theta), \qquad
        \eta = \min\Big\{\frac{f_S(\theta) - \ell}{c\,\|\nabla f_S(\theta)\|^2},\ \mathtt{lr}\Big\}

    Example:
        >>> optimizer = SPS(model.parameters(), lr=1.0)
        >>> loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        >>> optimizer.zero_grad()
        >>> loss.backward()
        >>> optimizer.step(loss=loss)

    One step size serves the whole parameter vector: loss and gradient norm are those of all groups together;
    a group's own `lr` and `c` cap and divide its own step. See `WholeVectorOptimizer` for what all these
    optimizers share, and `SPSRule` for ensembles of runs.

    Args:
        params: parameters, or dictionaries of parameter groups.
        lr: the largest step eta_max > 0, on which a scheduler acts.
        c: > 0.
        lower_bound: l, at most the infimum of the batch's loss.

    Raises:
        ValueError: a hyper-parameter is out of range, or a parameter is not real floating point.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1.0, c: float = 1.0, lower_bound: float = 0.0
    ) -> None:
        super().__init__(params, {"lr": lr, "c": c, "lower_bound": lower_bound})

    def _require(self, group: dict[str, Any]) -> None:
        super()._require(group)
        require_number("c", group["c"], above=0)

    def _step_sizes(self, gap: float, squared_norms: list[float]) -> list[float]:
        square = sum(squared_norms)
        return [
            group["lr"] if square == 0 else min(gap / square / group["c"], group["lr"])
            for group in self.param_groups
        ]
