"""AdaGrad-Norm: AdaGrad with one step size for the whole vector."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from learning_dynamics.optimizers.hyperparameters import (
    Hyperparameter,
    StepSize,
    like,
    require_positive,
    require_step_size,
    step_size_at,
)
from learning_dynamics.optimizers.whole_vector import WholeVectorOptimizer, require_number


class AdaGradNormState(NamedTuple):
    """State of `AdaGradNormRule`.

    Attributes:
        step: number of steps taken.
        step_size: `(*batch)`, eta_k / b_{k+1} as used last; NaN before the first step.
        square: `(*batch)`, b_k squared: b_0 squared and the squared norms of all gradients so far.
    """

    step: int
    step_size: Tensor
    square: Tensor


@dataclass(frozen=True, eq=False)
class AdaGradNormRule:
    r"""AdaGrad-Norm (Ward, Wu, Bottou 2019, Algorithm 1).

    .. math:: b_{k+1}^2 = b_k^2 + \|g_k\|^2, \qquad \theta_{k+1} = \theta_k - \frac{\eta_k}{b_{k+1}} g_k

    Args:
        step_size: eta >= 0; a number, a tensor `(*batch, 1)`, or a schedule k -> eta_k.
        b0: > 0, in units of the gradient; a number or a tensor `(*batch, 1)`.

    Raises:
        ValueError: a hyper-parameter is out of range, not finite, or has a coordinate axis.
    """

    step_size: StepSize
    b0: Hyperparameter = 0.1

    def __post_init__(self) -> None:
        """Check the hyper-parameters."""
        require_step_size(self.step_size)
        require_positive("b0", self.b0)

    def start(self, theta: Tensor) -> AdaGradNormState:
        """Return the state before the first step, b = b_0; `theta (*batch, d)`."""
        square = torch.zeros_like(theta[..., :1]) + like(self.b0, theta) ** 2
        return AdaGradNormState(0, torch.full_like(theta[..., 0], torch.nan), square[..., 0])

    def step(
        self, theta: Tensor, gradient: Tensor, state: AdaGradNormState
    ) -> tuple[Tensor, AdaGradNormState]:
        """Return `theta (*batch, d)` and the state after one step."""
        square = state.square[..., None] + gradient.square().sum(-1, keepdim=True)
        eta = step_size_at(self.step_size, state.step, theta) / square.sqrt()
        return theta - eta * gradient, AdaGradNormState(state.step + 1, eta[..., 0], square[..., 0])


class AdaGradNorm(WholeVectorOptimizer):
    r"""AdaGrad-Norm as a torch optimizer (Ward, Wu, Bottou 2019).

    .. math:: b_{k+1}^2 = b_k^2 + \|g_k\|^2, \qquad \theta_{k+1} = \theta_k - \frac{\mathtt{lr}}{b_{k+1}} g_k

    Example:
        >>> optimizer = AdaGradNorm(model.parameters(), lr=1.0)
        >>> loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        >>> optimizer.zero_grad()
        >>> loss.backward()
        >>> optimizer.step()

    One norm b serves the whole parameter vector, so that b0 is the same for all groups. See
    `WholeVectorOptimizer` for what all these optimizers share (this one needs no loss), and `AdaGradNormRule` for
    ensembles of runs.

    Args:
        params: parameters, or dictionaries of parameter groups.
        lr: eta > 0, on which a scheduler acts.
        b0: > 0, in units of the gradient.

    Raises:
        ValueError: a hyper-parameter is out of range, or a parameter is not real floating point.
    """

    needs_loss = False
    shared = "b0"

    def __init__(self, params: Iterable[Any], lr: float = 1.0, b0: float = 0.1) -> None:
        super().__init__(params, {"lr": lr, "b0": b0})

    def _require(self, group: dict[str, Any]) -> None:
        super()._require(group)
        require_number("b0", group["b0"], above=0)

    def _step_sizes(self, gap: float, squared_norms: list[float]) -> list[float]:
        whole = self._whole(square=self.param_groups[0]["b0"] ** 2)
        whole["square"] += sum(squared_norms)
        return [group["lr"] / math.sqrt(whole["square"]) for group in self.param_groups]
