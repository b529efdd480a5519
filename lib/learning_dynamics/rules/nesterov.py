"""Nesterov's accelerated gradient with a constant momentum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from learning_dynamics.rules.hyperparameters import (
    Hyperparameter,
    StepSize,
    like,
    require,
    require_step_size,
    step_size_at,
)


class NesterovState(NamedTuple):
    """Number of steps taken, and x_k: where the last gradient step arrived, `(*batch, d)`."""

    step: int
    arrived: Tensor


@dataclass(frozen=True, eq=False)
class Nesterov:
    r"""Nesterov's accelerated gradient (Nesterov 1983), started at rest.

    .. math:: x_{k+1} = \theta_k - \eta_k \nabla L(\theta_k), \qquad
        \theta_{k+1} = x_{k+1} + \beta_1 (x_{k+1} - x_k), \qquad x_0 = \theta_0

    The parameters are the extrapolated points theta_k, where the gradient is taken (Sutskever et al. 2013,
    in the variables torch uses): with a constant step size they are the iterates of
    `torch.optim.SGD(lr=eta, momentum=beta_1, nesterov=True)`. The points x_k are in the state.

    Args:
        step_size: eta >= 0; a number, a tensor `(*batch, 1)`, or a schedule k -> eta_k.
        momentum: beta_1 >= 0; a number or a tensor `(*batch, 1)`.

    Raises:
        ValueError: a hyper-parameter is negative, not finite, or has a coordinate axis.
    """

    step_size: StepSize
    momentum: Hyperparameter

    def __post_init__(self) -> None:
        """Check the hyper-parameters."""
        require_step_size(self.step_size)
        require("momentum", self.momentum, 0.0)

    def start(self, theta: Tensor) -> NesterovState:
        """Return the state at rest; `theta (*batch, d)`."""
        return NesterovState(0, theta)

    def step(self, theta: Tensor, gradient: Tensor, state: NesterovState) -> tuple[Tensor, NesterovState]:
        """Return `theta (*batch, d)` and the state after one step."""
        eta = step_size_at(self.step_size, state.step, theta)
        beta1 = like(self.momentum, theta)
        arrived = theta - eta * gradient
        return arrived + beta1 * (arrived - state.arrived), NesterovState(state.step + 1, arrived)
