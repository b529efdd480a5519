"""Means of the iterates of any rule: of all of them, of the last ones, and with a decaying memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import require_count
from learning_dynamics.rules.rule import LossRule, Rule, reads_loss, require_parameters, require_step
from learning_dynamics.rules.torch_twin import torch_twin


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
class _Around:
    """A rule around another one, whose loss it asks for where that rule does."""

    rule: Rule[Any] | LossRule[Any]
    needs_loss: bool = field(init=False)

    def __post_init__(self) -> None:
        """Ask for the loss where the rule does."""
        object.__setattr__(self, "needs_loss", reads_loss(self.rule))


@torch_twin("torch.optim.swa_utils.AveragedModel")
@dataclass(frozen=True, eq=False)
class Averaged(_Around):
    r"""A rule that also keeps the mean of its iterates (Polyak & Juditsky 1992); the iterates are the rule's own.

    .. math:: \bar\theta_k = \frac{\sum_{j<k} w_j \theta_j}{\sum_{j<k} w_j}

    `ensembles.iterate(Averaged(rule), ..., watch=lambda state: state.mean)` records it.

    Args:
        rule: any rule of this package.
        weight: j -> w_j > 0; equal weights if left out.

    Raises:
        ValueError: `rule` is no rule.
    """

    weight: Callable[[int], float] | None = None

    def start(self, theta: Tensor) -> AveragedState:
        """Return the state before the first step; `theta (*batch, d)`.

        Raises:
            ValueError: theta is not real floating point `(*batch, d)`.
        """
        require_parameters(theta)
        return AveragedState(0, self.rule.start(theta), theta, 0.0)

    def step(
        self, theta: Tensor, gradient: Tensor, state: AveragedState, *loss: Tensor
    ) -> tuple[Tensor, AveragedState]:
        """Return `theta (*batch, d)` and the state after one step; `loss (*batch)` where the rule needs it.

        Raises:
            ValueError: theta is not real floating point, or a gradient or loss does not fit to it.
        """
        require_step(theta, gradient)
        weight = 1.0 if self.weight is None else self.weight(state.step)
        total = state.weight + weight
        mean = torch.lerp(state.mean, theta, weight / total)
        moved, inner = self.rule.step(theta, gradient, state.inner, *loss)
        return moved, AveragedState(state.step + 1, inner, mean, total)


class MeanState(NamedTuple):
    """State of `RunningAverage` and of `TailAverage`.

    Attributes:
        step: number of steps taken, k.
        inner: the state of the rule.
        mean: `(*batch, d)`, the mean that ends with theta_k; theta_0 before the first step.
    """

    step: int
    inner: Any
    mean: Tensor


@dataclass(frozen=True, eq=False)
class _WithMean(_Around):
    """A rule whose state also holds a mean of its iterates, theta_k included."""

    def start(self, theta: Tensor) -> MeanState:
        """Return the state before the first step; `theta (*batch, d)`.

        Raises:
            ValueError: theta is not real floating point `(*batch, d)`.
        """
        require_parameters(theta)
        return MeanState(0, self.rule.start(theta), theta)

    def step(
        self, theta: Tensor, gradient: Tensor, state: MeanState, *loss: Tensor
    ) -> tuple[Tensor, MeanState]:
        """Return `theta (*batch, d)` and the state after one step; `loss (*batch)` where the rule needs it.

        Raises:
            ValueError: theta is not real floating point, or a gradient or loss does not fit to it.
        """
        require_step(theta, gradient)
        k = state.step + 1
        moved, inner = self.rule.step(theta, gradient, state.inner, *loss)
        return moved, MeanState(k, inner, torch.lerp(state.mean, moved, self._weight(k)))

    def _weight(self, k: int) -> float:
        """Return the weight of theta_k in the mean after k steps."""
        raise NotImplementedError


@torch_twin("torch.optim.swa_utils.AveragedModel")
@dataclass(frozen=True, eq=False)
class RunningAverage(_WithMean):
    r"""A rule that also keeps an exponentially decaying mean of its iterates; the iterates are the rule's own.

    .. math:: \bar\theta_k = (1-m_k)\,\theta_k + m_k\,\bar\theta_{k-1}, \qquad m_k = \min\{1-1/k,\ \text{most}\}

    Since m_1 = 0 the start is forgotten at once; until 1 - 1/k reaches `most` it is the mean of
    theta_1, ..., theta_k. After k steps the state's mean includes theta_k (that of `Averaged` ends with theta_{k-1}).

    Source: Martens (2020), New Insights and Perspectives on the Natural Gradient Method, sec. 14.3.

    Args:
        rule: any rule of this package.
        most: the largest memory m_k, above 0 and at most 1; with 1 the mean of theta_1, ..., theta_k.

    Raises:
        ValueError: `rule` is no rule, or `most` is out of range.
    """

    most: float = 0.99

    def __post_init__(self) -> None:
        """Check the memory."""
        super().__post_init__()
        if not 0 < self.most <= 1:
            raise ValueError(f"most = {self.most}; allowed: above 0 and at most 1")

    def _weight(self, k: int) -> float:
        return max(1 / k, 1 - self.most)


@torch_twin("torch.optim.swa_utils.AveragedModel")
@dataclass(frozen=True, eq=False)
class TailAverage(_WithMean):
    r"""A rule that also keeps the mean of its iterates from one step on; the iterates are the rule's own.

    .. math:: \bar\theta_k = \frac1{k-m+1}\sum_{i=m}^k\theta_i \quad (k \ge m), \qquad \bar\theta_k=\theta_k \quad (k<m)

    After k steps the state's mean includes theta_k (that of `Averaged` ends with theta_{k-1}).

    Source: Jain et al. (2018), Parallelizing Stochastic Gradient Descent for Least Squares Regression, sec. 2.

    Args:
        rule: any rule of this package.
        first: m >= 0, number of the first iterate in the mean; with 0 the mean of all of them.

    Raises:
        ValueError: `rule` is no rule, or `first` is not an integer >= 0.
    """

    first: int = 0

    def __post_init__(self) -> None:
        """Check the number of the first iterate."""
        super().__post_init__()
        require_count("first", self.first, least=0)

    def _weight(self, k: int) -> float:
        return 1 / max(k - self.first + 1, 1)
