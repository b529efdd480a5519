"""Gradient descent with kicks on the iterate: independent, or each minus the one before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import require_choice, require_generator
from learning_dynamics.rules.hyperparameters import (
    Hyperparameter,
    StepSize,
    like,
    require,
    require_step_size,
    step_size_at,
)
from learning_dynamics.rules.rule import require_parameters, require_step

CORRELATIONS = ("none", "differenced")
KICKS = ("signs", "normal")


class KickState(NamedTuple):
    """State of gradient descent with kicks.

    Attributes:
        step: number of steps taken.
        kick: `(*batch, d)`, the last kick; zero before the first step.
    """

    step: int
    kick: Tensor


@dataclass(frozen=True, eq=False)
class PerturbedGradientDescent:
    r"""Gradient descent whose iterate is kicked by :math:`\zeta_k`, or by :math:`\zeta_k-\zeta_{k-1}`.

    The kicks are independent, of mean zero and standard deviation sigma in every coordinate. Plain kicks add up; of
    differenced kicks (Anti-PGD, Orvieto 2023, eq. 147) only the last is in the iterate, and
    :math:`\bar\theta_k=\theta_k-\zeta_{k-1}` (`unperturbed`) makes plain gradient steps whose gradient is asked at a
    shaken point, :math:`\bar\theta_{k+1}=\bar\theta_k-\eta\nabla\mathcal L(\bar\theta_k+\zeta_{k-1})`.

    Args:
        step_size: eta, a number, a tensor `(*batch, 1)` or a schedule.
        std: sigma >= 0; a number or a tensor `(*batch, 1)`.
        generator: source of the kicks, on the device of the parameters; it moves on with every step.
        correlation: "none" or "differenced".
        kicks: "signs" (plus or minus sigma) or "normal".

    Raises:
        ValueError: an argument is not as described.
    """

    step_size: StepSize
    std: Hyperparameter
    generator: torch.Generator
    correlation: Literal["none", "differenced"] = "none"
    kicks: Literal["signs", "normal"] = "signs"

    def __post_init__(self) -> None:
        """Check the arguments."""
        require_step_size(self.step_size)
        require("std", self.std, 0.0)
        require_generator(self.generator)
        require_choice("correlation", self.correlation, CORRELATIONS)
        require_choice("kicks", self.kicks, KICKS)

    def start(self, theta: Tensor) -> KickState:
        """Return the state before the first step; `theta (*batch, d)`.

        Raises:
            ValueError: theta is not real floating point `(*batch, d)`.
        """
        require_parameters(theta)
        return KickState(0, torch.zeros_like(theta))

    def step(self, theta: Tensor, gradient: Tensor, state: KickState) -> tuple[Tensor, KickState]:
        """Return `theta (*batch, d)` and the state after one step.

        Raises:
            ValueError: theta is not real floating point, or the gradient has another shape, dtype or device.
        """
        require_step(theta, gradient)
        if self.kicks == "signs":
            unit = torch.empty(theta.shape, dtype=theta.dtype, device=theta.device)
            unit = unit.bernoulli_(0.5, generator=self.generator) * 2 - 1
        else:
            unit = torch.randn(theta.shape, generator=self.generator, dtype=theta.dtype, device=theta.device)
        kick = like(self.std, theta) * unit
        eta = step_size_at(self.step_size, state.step, theta)
        shift = kick - state.kick if self.correlation == "differenced" else kick
        return theta - eta * gradient + shift, KickState(state.step + 1, kick)

    def unperturbed(self, theta: Tensor, state: KickState) -> Tensor:
        """Return the point behind the last kick, which is the one to report and to keep.

        Args:
            theta: `(*batch, d)`, the parameters after a step.
            state: the state after the same step.

        Returns:
            `(*batch, d)`, the parameters minus the last kick; of plain kicks only the last is taken back.

        Raises:
            ValueError: theta is not of the kick's shape, dtype and device.
        """
        require_step(theta, state.kick)
        return theta - state.kick
