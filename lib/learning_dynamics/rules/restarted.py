"""Momentum that is dropped whenever it has carried the iterate uphill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import require_choice
from learning_dynamics.rules.heavy_ball import HeavyBall
from learning_dynamics.rules.momentum import MomentumState
from learning_dynamics.rules.nesterov import Nesterov
from learning_dynamics.rules.rule import as_column, require_parameters, require_step
from learning_dynamics.rules.torch_twin import torch_twin


class RestartState(NamedTuple):
    """State of `Restarted`.

    Attributes:
        inner: the state of the rule; its step number, a tensor `(*batch, 1)`, counts from the run's last restart.
        loss: `(*batch, 1)`, the loss seen at the last step; infinite before the first and with `when="gradient"`.
        restarts: `(*batch, 1)` int64, the number of restarts so far.
    """

    inner: MomentumState
    loss: Tensor
    restarts: Tensor


def nesterov_momentum(k: int | Tensor) -> float | Tensor:
    """Return the momentum k / (k + 3) of step number k = 0, 1, ... in Nesterov's method for convex losses.

    It is (k - 1)/(k + 2) in the count from 1 (Su, Boyd, Candes 2016, Eq. 1). A schedule for `Nesterov` and `HeavyBall`;
    for `Restarted`, whose runs count their own steps, k is a tensor.

    Args:
        k: the number of the step, or a tensor of them of any shape.

    Returns:
        The momentum, a number, or a tensor of the shape of k.

    Raises:
        ValueError: k is complex.
    """
    if isinstance(k, Tensor) and k.is_complex():
        raise ValueError(f"k has dtype {k.dtype}; allowed: real numbers")
    return k / (k + 3)


@torch_twin("torch.optim.SGD, with nesterov=True")
@dataclass(frozen=True, eq=False)
class Restarted:
    r"""Adaptive restart: set the momentum to zero, and its schedule to the start, when a run has gone uphill.

    With x_k the iterate (of `HeavyBall` theta_k itself, of `Nesterov` the point before the extrapolation):

    - `when="gradient"`: after a step with :math:`\nabla L(\theta_k)^\top (x_{k+1} - x_k) > 0` the next one starts from
      x_{k+1} at rest;
    - `when="loss"`: if :math:`L(\theta_k) > L(\theta_{k-1})`, where the gradients are taken, step number k starts from
      theta_k at rest.

    Every run of a batch has its own restarts. A schedule is called with the run's own count, a tensor `(*batch, 1)`.

    Source: O'Donoghue and Candes (2015), Adaptive Restart for Accelerated Gradient Schemes, sec. 3.2; their test of the
    loss looks at x_k, which would cost a second evaluation here.

    Args:
        rule: a `Nesterov` or a `HeavyBall`.
        when: "gradient" or "loss"; the latter makes it a rule that reads the loss.

    Raises:
        ValueError: the rule or `when` is not one of those allowed.
    """

    rule: Nesterov | HeavyBall
    when: Literal["gradient", "loss"] = "gradient"

    def __post_init__(self) -> None:
        """Check the arguments, and read the loss where the test does."""
        if not isinstance(self.rule, Nesterov | HeavyBall):
            raise ValueError(f"rule = {type(self.rule).__name__}; allowed: Nesterov, HeavyBall")
        require_choice("when", self.when, ("gradient", "loss"))
        object.__setattr__(self, "needs_loss", self.when == "loss")

    def start(self, theta: Tensor) -> RestartState:
        """Return the state at rest; `theta (*batch, d)`.

        Raises:
            ValueError: theta is not real floating point `(*batch, d)`.
        """
        require_parameters(theta)
        column = theta[..., :1]
        count = torch.zeros_like(column, dtype=torch.int64)
        return RestartState(MomentumState(count, theta), torch.full_like(column, torch.inf), count)

    def step(
        self, theta: Tensor, gradient: Tensor, state: RestartState, *loss: Tensor
    ) -> tuple[Tensor, RestartState]:
        """Return `theta (*batch, d)` and the state after one step; `loss (*batch)` with `when="loss"`.

        Raises:
            ValueError: theta is not real floating point, or a gradient or loss does not fit to it.
        """
        require_step(theta, gradient)
        inner, restarts = state.inner, state.restarts
        if self.when == "loss":
            now = as_column(loss[0], theta)
            uphill = now > state.loss
            inner = _at_rest(uphill, theta, inner)
            moved, after = self.rule.step(theta, gradient, inner)
            return moved, RestartState(after, now, restarts + uphill)
        moved, after = self.rule.step(theta, gradient, inner)
        before, arrived = theta, moved
        if isinstance(self.rule, Nesterov):
            before, arrived = inner.memory, after.memory
        uphill = (gradient * (arrived - before)).sum(-1, keepdim=True) > 0
        return torch.where(uphill, arrived, moved), RestartState(
            _at_rest(uphill, arrived, after), state.loss, restarts + uphill
        )


def _at_rest(uphill: Tensor, theta: Tensor, state: MomentumState) -> MomentumState:
    """Return the state with its count and memory started anew from `theta` in the runs that went `uphill`."""
    return MomentumState(torch.where(uphill, 0, state.step), torch.where(uphill, theta, state.memory))
