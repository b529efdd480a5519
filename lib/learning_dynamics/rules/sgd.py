"""The update of torch.optim.SGD."""

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


class SGDState(NamedTuple):
    """Number of steps taken, and torch's momentum buffer b, `(*batch, d)`."""

    step: int
    buffer: Tensor


@dataclass(frozen=True, eq=False)
class SGD:
    r"""Momentum the way `torch.optim.SGD` keeps it: a running sum of gradients.

    .. math:: g_k = \nabla L(\theta_k) + \lambda\theta_k, \qquad b_0 = g_0, \qquad
        b_k = \beta_1 b_{k-1} + (1 - \tau) g_k, \qquad \theta_{k+1} = \theta_k - \eta_k b_k

    and with `nesterov` the step is :math:`\theta_{k+1} = \theta_k - \eta_k (g_k + \beta_1 b_k)`. The first
    gradient is not dampened: that is torch's convention. Where the gradient is stochastic, the randomness is
    the caller's; the rule only takes what it is given.

    Source: documentation of `torch.optim.SGD`; Sutskever et al. (2013) for the Nesterov form.

    Args:
        step_size: eta >= 0; a number, a tensor `(*batch, 1)`, or a schedule k -> eta_k.
        momentum: beta_1 >= 0; a number or a tensor `(*batch, 1)`.
        dampening: tau in [0, 1]; only with momentum, and not with `nesterov`.
        weight_decay: lambda >= 0; adds lambda/2 times the squared norm to the loss.
        nesterov: take the step with the look-ahead form.

    Raises:
        ValueError: a hyper-parameter is out of range, not finite, or has a coordinate axis; dampening without
            momentum (torch would ignore it) or with `nesterov`.
    """

    step_size: StepSize
    momentum: Hyperparameter = 0.0
    dampening: Hyperparameter = 0.0
    weight_decay: Hyperparameter = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        """Check the hyper-parameters."""
        require_step_size(self.step_size)
        require("momentum", self.momentum, 0.0)
        require("dampening", self.dampening, 0.0)
        require("weight_decay", self.weight_decay, 0.0)
        dampening, momentum = torch.as_tensor(self.dampening), torch.as_tensor(self.momentum)
        if (dampening > 1).any():
            raise ValueError(f"dampening = {self.dampening!r}; allowed: between 0 and 1")
        if (dampening > 0).any() and (self.nesterov or (momentum == 0).any()):
            raise ValueError(
                f"dampening = {self.dampening!r}; allowed: 0 where momentum is 0 or nesterov is set "
                f"(momentum = {self.momentum!r}, nesterov = {self.nesterov})"
            )

    def start(self, theta: Tensor) -> SGDState:
        """Return the state before the first step, with an empty buffer; `theta (*batch, d)`."""
        return SGDState(0, torch.zeros_like(theta))

    def step(self, theta: Tensor, gradient: Tensor, state: SGDState) -> tuple[Tensor, SGDState]:
        """Return `theta (*batch, d)` and the state after one step."""
        eta = step_size_at(self.step_size, state.step, theta)
        beta1 = like(self.momentum, theta)
        gradient = gradient + like(self.weight_decay, theta) * theta
        fresh = gradient if state.step == 0 else (1 - like(self.dampening, theta)) * gradient
        buffer = beta1 * state.buffer + fresh
        direction = gradient + beta1 * buffer if self.nesterov else buffer
        return theta - eta * direction, SGDState(state.step + 1, buffer)
