"""Gradient descent along a normalized average of the past gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from learning_dynamics.rules.hyperparameters import (
    Hyperparameter,
    StepSize,
    like,
    require,
    require_step_size,
    step_size_at,
)
from learning_dynamics.rules.momentum import MomentumState
from learning_dynamics.rules.rule import require_parameters, require_step


@dataclass(frozen=True, eq=False)
class GradientMemory:
    r"""Momentum and step size from one sequence of look-aheads, so that a rate holds for convex losses.

    .. math:: \theta_{k+1} = \theta_k + \frac{\nu_k}{\nu_{k+1}+1}(\theta_k - \theta_{k-1})
        - \frac{\eta}{\nu_{k+1}+1}\nabla L(\theta_k), \qquad \theta_{-1}=\theta_0

    Looked ahead along its last movement, the iterate makes a plain gradient step:
    :math:`z_k=\theta_k+\nu_k(\theta_k-\theta_{k-1})` obeys :math:`z_{k+1}=z_k-\eta\nabla L(\theta_k)`.

    Source: Orvieto (2023), thesis, Eq. (38)-(39) and Lemma 2.3.3, where nu is called lambda; the lemma's proof needs
    :math:`\nu_{k+1}\le\nu_k+1`, which is asked for here.

    Args:
        step_size: eta >= 0; a number, a tensor `(*batch, 1)`, or a schedule k -> eta_k.
        lookahead: k -> nu_k >= 0 for k = 0, 1, 2, ..., with nu_{k+1} <= nu_k + 1.

    Raises:
        ValueError: the step size is out of range; during a step, the look-ahead is negative or grows by more than 1.
    """

    step_size: StepSize
    lookahead: Callable[[int], float]

    def __post_init__(self) -> None:
        """Check the step size and the first look-ahead."""
        require_step_size(self.step_size)
        self._at(0)

    def start(self, theta: Tensor) -> MomentumState:
        """Return the state at rest, whose memory is the iterate before; `theta (*batch, d)`.

        Raises:
            ValueError: theta is not real floating point `(*batch, d)`.
        """
        require_parameters(theta)
        return MomentumState(0, theta)

    def step(self, theta: Tensor, gradient: Tensor, state: MomentumState) -> tuple[Tensor, MomentumState]:
        """Return `theta (*batch, d)` and the state after one step.

        Raises:
            ValueError: theta is not real floating point, or the gradient has another shape, dtype or device.
        """
        require_step(theta, gradient)
        eta = step_size_at(self.step_size, state.step, theta)
        now, after = self._at(int(state.step))
        moved = theta + now / (after + 1) * (theta - state.memory) - eta / (after + 1) * gradient
        return moved, MomentumState(state.step + 1, theta)

    def _at(self, k: int) -> tuple[float, float]:
        """Return nu_k and nu_{k+1} after checking them."""
        now, after = float(self.lookahead(k)), float(self.lookahead(k + 1))
        # the increment is exact in theory; in numbers nu_{k+1} - nu_k may exceed 1 by its rounding
        if not (now >= 0 and 0 <= after <= now + 1 + 1e-12 * after):
            raise ValueError(
                f"lookahead({k}), lookahead({k + 1}) = {now:g}, {after:g}; allowed: >= 0, growing by at most 1"
            )
        return now, after


@dataclass(frozen=True, eq=False)
class PolynomialMemory:
    r"""Gradient descent along an average of the past gradients with weights like a polynomial of degree p - 1.

    .. math:: \theta_{k+1} = \theta_k + \frac{k}{k+p}(\theta_k - \theta_{k-1}) - \frac{p}{k+p}\,\eta\nabla L(\theta_k)

    The weights of all past gradients sum to one. With p = 2 the iterate is the mean of the points of gradient descent
    with the step 2 eta, whose gradients are taken at the mean. It is `GradientMemory` with the step
    :math:`\frac p{p-1}\eta` and the look-ahead k / (p - 1), for p > 1.

    Source: Orvieto, Kohler and Lucchi (2019), The Role of Memory in Stochastic Optimization; Orvieto (2023), thesis,
    Theorem 2.3.2, which proves a rate for p >= 2 and eta <= (p - 1) / (p L).

    Args:
        step_size: eta >= 0; a number, a tensor `(*batch, 1)`, or a schedule k -> eta_k.
        power: p >= 1; a number or a tensor `(*batch, 1)`.

    Raises:
        ValueError: a hyper-parameter is out of range, not finite, or has a coordinate axis.
    """

    step_size: StepSize
    power: Hyperparameter = 2.0

    def __post_init__(self) -> None:
        """Check the hyper-parameters."""
        require_step_size(self.step_size)
        require("power", self.power, 1.0)

    def start(self, theta: Tensor) -> MomentumState:
        """Return the state at rest, whose memory is the iterate before; `theta (*batch, d)`.

        Raises:
            ValueError: theta is not real floating point `(*batch, d)`.
        """
        require_parameters(theta)
        return MomentumState(0, theta)

    def step(self, theta: Tensor, gradient: Tensor, state: MomentumState) -> tuple[Tensor, MomentumState]:
        """Return `theta (*batch, d)` and the state after one step.

        Raises:
            ValueError: theta is not real floating point, or the gradient has another shape, dtype or device.
        """
        require_step(theta, gradient)
        k = state.step
        eta = step_size_at(self.step_size, k, theta)
        power = like(self.power, theta)
        moved = theta + (k * (theta - state.memory) - power * eta * gradient) / (k + power)
        return moved, MomentumState(k + 1, theta)
