"""A rule with Gaussian noise, before or after its preconditioner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import require_choice, require_generator
from learning_dynamics.rules.hyperparameters import Hyperparameter, like, require, step_size_at
from learning_dynamics.rules.rule import Rule, reads_loss, require_parameters, require_step

PLACES = ("gradient", "update")


class PerturbedState(NamedTuple):
    """State of a rule with noise.

    Attributes:
        step: number of steps taken.
        inner: the state of the rule inside.
    """

    step: int
    inner: Any


@dataclass(frozen=True, eq=False)
class Perturbed:
    r"""A rule with independent Gaussian noise :math:`\xi_k` of standard deviation sigma in every coordinate.

    In the gradient the rule sees :math:`g_k+\xi_k` in the place of :math:`g_k`. In the update the rule sees
    :math:`g_k`, and :math:`\eta_k\xi_k` is subtracted afterwards. For gradient descent the two are the same; a rule
    that divides by the size of the gradient divides the noise too only in the first case (Orvieto 2023, app. C.1.3).

    Args:
        rule: a rule of this package that has a `step_size` and does not read the loss.
        std: sigma >= 0; a number or a tensor `(*batch, 1)`.
        generator: source of the noise, on the device of the parameters; it moves on with every step.
        where: "gradient" or "update".

    Raises:
        ValueError: an argument is not as described.
    """

    rule: Rule[Any]
    std: Hyperparameter
    generator: torch.Generator
    where: Literal["gradient", "update"] = "gradient"

    def __post_init__(self) -> None:
        """Check the arguments."""
        if reads_loss(self.rule) or not hasattr(self.rule, "step_size"):
            raise ValueError(
                f"rule = {type(self.rule).__name__}; allowed: one with a step_size that does not read the loss"
            )
        require("std", self.std, 0.0)
        require_generator(self.generator)
        require_choice("where", self.where, PLACES)

    def start(self, theta: Tensor) -> PerturbedState:
        """Return the state before the first step; `theta (*batch, d)`.

        Raises:
            ValueError: theta is not real floating point `(*batch, d)`.
        """
        require_parameters(theta)
        return PerturbedState(0, self.rule.start(theta))

    def step(self, theta: Tensor, gradient: Tensor, state: PerturbedState) -> tuple[Tensor, PerturbedState]:
        """Return `theta (*batch, d)` and the state after one step.

        Raises:
            ValueError: theta is not real floating point, or the gradient has another shape, dtype or device.
        """
        require_step(theta, gradient)
        noise = torch.randn(theta.shape, generator=self.generator, dtype=theta.dtype, device=theta.device)
        noise = like(self.std, theta) * noise
        if self.where == "gradient":
            theta, inner = self.rule.step(theta, gradient + noise, state.inner)
        else:
            given: Any = self.rule
            eta = step_size_at(given.step_size, state.step, theta)
            moved, inner = self.rule.step(theta, gradient, state.inner)
            theta = moved - eta * noise
        return theta, PerturbedState(state.step + 1, inner)
