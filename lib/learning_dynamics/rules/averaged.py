"""The mean of the iterates of any rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from learning_dynamics.rules.rule import LossRule, Rule


class AveragedState(NamedTuple):
    """State of `Averaged`.

    Attributes:
        step: number of steps taken, k.
        inner: the state of the rule.
        mean: `(*batch, d)`, the weighted mean of theta_0, ..., theta_{k-1}; theta_0 before the first step.
        weight: the sum of the weights so far.
    """

    step: int
    inner: Any
    mean: Tensor
    weight: float


@dataclass(frozen=True, eq=False)
class Averaged:
    r"""A rule that also keeps the mean of its iterates (Polyak & Juditsky 1992); the iterates are the rule's own.

    .. math:: \bar\theta_k = \frac{\sum_{j<k} w_j \theta_j}{\sum_{j<k} w_j}

    `ensembles.iterate(Averaged(rule), ..., watch=lambda state: state.mean)` records it.

    Args:
        rule: any rule of this package.
        weight: j -> w_j > 0; equal weights if left out.
    """

    rule: Rule[Any] | LossRule[Any]
    weight: Callable[[int], float] | None = None
    needs_loss: bool = field(init=False)

    def __post_init__(self) -> None:
        """Ask for the loss where the rule does."""
        object.__setattr__(self, "needs_loss", getattr(self.rule, "needs_loss", False))

    def start(self, theta: Tensor) -> AveragedState:
        """Return the state before the first step; `theta (*batch, d)`."""
        return AveragedState(0, self.rule.start(theta), theta, 0.0)

    def step(
        self, theta: Tensor, gradient: Tensor, state: AveragedState, *loss: Tensor
    ) -> tuple[Tensor, AveragedState]:
        """Return `theta (*batch, d)` and the state after one step; `loss (*batch)` where the rule needs it."""
        weight = 1.0 if self.weight is None else self.weight(state.step)
        total = state.weight + weight
        mean = torch.lerp(state.mean, theta, weight / total)
        moved, inner = self.rule.step(theta, gradient, state.inner, *loss)
        return moved, AveragedState(state.step + 1, inner, mean, total)
