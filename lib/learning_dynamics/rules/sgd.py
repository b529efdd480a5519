"""The update of torch.optim.SGD."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from learning_dynamics.rules.hyperparameters import Hyperparameter, Momentum, like, require
from learning_dynamics.rules.momentum import MomentumRule, MomentumState
from learning_dynamics.rules.rule import require_parameters, require_step
from learning_dynamics.rules.torch_twin import torch_twin


@torch_twin("torch.optim.SGD")
@dataclass(frozen=True, eq=False)
class SGD(MomentumRule):
    r"""Momentum the way `torch.optim.SGD` keeps it: a running sum of gradients.

    .. math:: g_k = \nabla L(\theta_k) + \lambda\theta_k, \qquad b_0 = g_0, \qquad
        b_k = \beta_{1,k} b_{k-1} + (1 - \tau) g_k, \qquad \theta_{k+1} = \theta_k - \eta_k b_k

    and with `nesterov` the step is :math:`\theta_{k+1} = \theta_k - \eta_k (g_k + \beta_{1,k} b_k)`. The first
    gradient is not dampened: that is torch's convention. A schedule that returns the momentum 0 empties the buffer,
    which torch would put aside. Where the gradient is stochastic, the randomness is
    the caller's; the rule only takes what it is given.

    Source: documentation of `torch.optim.SGD`; Sutskever et al. (2013) for the Nesterov form.

    Args:
        step_size: eta >= 0; a number, a tensor `(*batch, 1)`, or a schedule k -> eta_k.
        momentum: beta_1 >= 0; a number, a tensor `(*batch, 1)`, or a schedule k -> beta_{1,k}.
        dampening: tau in [0, 1]; only with momentum, and not with `nesterov`.
        weight_decay: lambda >= 0; adds lambda/2 times the squared norm to the loss.
        nesterov: take the step with the look-ahead form.

    Raises:
        ValueError: a hyper-parameter is out of range, not finite, or has a coordinate axis; dampening without
            momentum (torch would ignore it) or with `nesterov`.
    """

    momentum: Momentum = 0.0
    dampening: Hyperparameter = 0.0
    weight_decay: Hyperparameter = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        """Check the hyper-parameters."""
        super().__post_init__()
        require("dampening", self.dampening, 0.0)
        require("weight_decay", self.weight_decay, 0.0)
        dampening = torch.as_tensor(self.dampening)
        without = not callable(self.momentum) and bool((torch.as_tensor(self.momentum) == 0).any())
        if (dampening > 1).any():
            raise ValueError(f"dampening = {self.dampening!r}; allowed: between 0 and 1")
        if (dampening > 0).any() and (self.nesterov or without):
            raise ValueError(
                f"dampening = {self.dampening!r}; allowed: 0 where momentum is 0 or nesterov is set "
                f"(momentum = {self.momentum!r}, nesterov = {self.nesterov})"
            )

    def start(self, theta: Tensor) -> MomentumState:
        """Return the state before the first step, with an empty buffer; `theta (*batch, d)`.

        Raises:
            ValueError: theta is not real floating point `(*batch, d)`.
        """
        require_parameters(theta)
        return MomentumState(0, torch.zeros_like(theta))

    def step(self, theta: Tensor, gradient: Tensor, state: MomentumState) -> tuple[Tensor, MomentumState]:
        """Return `theta (*batch, d)` and the state after one step.

        Raises:
            ValueError: theta is not real floating point, or the gradient has another shape, dtype or device.
        """
        require_step(theta, gradient)
        eta, beta1 = self._at(state.step, theta)
        gradient = gradient + like(self.weight_decay, theta) * theta
        fresh = gradient if state.step == 0 else (1 - like(self.dampening, theta)) * gradient
        buffer = beta1 * state.memory + fresh
        direction = gradient + beta1 * buffer if self.nesterov else buffer
        return theta - eta * direction, MomentumState(state.step + 1, buffer)
