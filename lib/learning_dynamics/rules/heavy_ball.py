"""Polyak's heavy ball."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from learning_dynamics.rules.momentum import MomentumRule, MomentumState
from learning_dynamics.rules.rule import require_step
from learning_dynamics.rules.torch_twin import torch_twin


@torch_twin("torch.optim.SGD, with momentum")
@dataclass(frozen=True, eq=False)
class HeavyBall(MomentumRule):
    r"""The heavy ball, started at rest (Polyak 1964).

    .. math:: \theta_{k+1} = \theta_k - \eta_k \nabla L(\theta_k) + \beta_{1,k} (\theta_k - \theta_{k-1}),
        \qquad \theta_{-1} = \theta_0

    With a constant step size these are the iterates of `torch.optim.SGD(lr=eta, momentum=beta_1)`. Under a
    schedule they differ: here a past gradient keeps the step size it was taken with; torch's buffer holds
    bare gradients and multiplies all of them by the present one (see `SGD`).

    Args:
        step_size: eta >= 0; a number, a tensor `(*batch, 1)`, or a schedule k -> eta_k.
        momentum: beta_1 >= 0; a number, a tensor `(*batch, 1)`, or a schedule k -> beta_{1,k}.

    Raises:
        ValueError: as `MomentumRule`, whose state this has: its memory is theta_{k-1}.
    """

    def step(self, theta: Tensor, gradient: Tensor, state: MomentumState) -> tuple[Tensor, MomentumState]:
        """Return `theta (*batch, d)` and the state after one step.

        Raises:
            ValueError: theta is not real floating point, or the gradient has another shape, dtype or device.
        """
        require_step(theta, gradient)
        eta, beta1 = self._at(state.step, theta)
        moved = theta - eta * gradient + beta1 * (theta - state.memory)
        return moved, MomentumState(state.step + 1, theta)
