"""Steps preconditioned by the diagonal of the empirical Fisher, with any exponent, damping and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import require_choice
from learning_dynamics.rules.hyperparameters import (
    Hyperparameter,
    StepSize,
    like,
    require,
    require_step_size,
    step_size_at,
)
from learning_dynamics.rules.rule import overflow_as_nan, require_parameters, require_step
from learning_dynamics.rules.torch_twin import torch_twin

MEMORIES = ("none", "decayed", "corrected", "largest", "mean", "sum")
"""What `DiagonalFisher` may remember of the squared gradients."""


class DiagonalFisherState(NamedTuple):
    """State of `DiagonalFisher`.

    Attributes:
        step: number of steps taken.
        average: `(*batch, d)`, the estimate u of the squared gradients (decayed mean before its correction).
        largest: `(*batch, d)`, the largest decayed mean so far.
    """

    step: int
    average: Tensor
    largest: Tensor


@torch_twin("torch.optim.RMSprop, for the exponent 1/2")
@dataclass(frozen=True, eq=False)
class DiagonalFisher:
    r"""One rule for the diagonal methods that divide by a power of past squared gradients (Martens 2020, Eq. 10).

    .. math:: \theta_{k+1} = \theta_k - \eta_k\,(u_{k+1} + \lambda)^{-q}\,g_k

    The memory says what u is: `"none"`, the present :math:`g_k^2`; `"decayed"`,
    :math:`\beta_2 u_k + (1 - \beta_2) g_k^2` from 0 (RMSprop); `"corrected"`, the same divided by
    :math:`1 - \beta_2^{k+1}` (Adam without momentum); `"largest"`, the largest decayed mean so far (AMSGrad
    without corrections and momentum); `"mean"` and `"sum"` of all squares so far (AdaGrad is the sum). A coordinate
    with gradient zero does not move.

    Args:
        step_size: eta >= 0; a number, a tensor `(*batch, 1)`, or a schedule k -> eta_k.
        exponent: q >= 0; a number or a tensor `(*batch, 1)`.
        damping: lambda >= 0, in units of the squared gradient, inside the power.
        memory: one of the names above.
        beta2: decay in [0, 1), read by the three decayed memories only.

    Raises:
        ValueError: a hyper-parameter is out of range, not finite, or has a coordinate axis, or the memory has no
            such name.
    """

    step_size: StepSize
    exponent: Hyperparameter = 0.5
    damping: Hyperparameter = 0.0
    memory: Literal["none", "decayed", "corrected", "largest", "mean", "sum"] = "none"
    beta2: Hyperparameter = 0.9

    def __post_init__(self) -> None:
        """Check the hyper-parameters."""
        require_step_size(self.step_size)
        require("exponent", self.exponent, 0.0)
        require("damping", self.damping, 0.0)
        require("beta2", self.beta2, 0.0, below=1.0)
        require_choice("memory", self.memory, MEMORIES)

    def start(self, theta: Tensor) -> DiagonalFisherState:
        """Return the state before the first step, nothing remembered; `theta (*batch, d)`.

        Raises:
            ValueError: theta is not real floating point `(*batch, d)`.
        """
        require_parameters(theta)
        return DiagonalFisherState(0, torch.zeros_like(theta), torch.zeros_like(theta))

    def step(
        self, theta: Tensor, gradient: Tensor, state: DiagonalFisherState
    ) -> tuple[Tensor, DiagonalFisherState]:
        """Return `theta (*batch, d)` and the state after one step.

        Raises:
            ValueError: theta is not real floating point, or the gradient has another shape, dtype or device.
        """
        require_step(theta, gradient)
        eta, count = step_size_at(self.step_size, state.step, theta), state.step + 1
        beta2, square = like(self.beta2, theta), overflow_as_nan(gradient**2)
        average, largest = state.average, state.largest
        if self.memory == "none":
            average = u = square
        elif self.memory == "sum":
            average = u = average + square
        elif self.memory == "mean":
            average = u = average + (square - average) / count
        else:
            average = u = beta2 * average + (1 - beta2) * square
            if self.memory == "corrected":
                u = average / (1 - beta2**count)
            if self.memory == "largest":
                largest = u = torch.maximum(largest, average)
        power = (u + like(self.damping, theta)) ** -like(self.exponent, theta)
        update = torch.where(gradient == 0, 0.0, power * gradient)
        return theta - eta * update, DiagonalFisherState(count, average, largest)
