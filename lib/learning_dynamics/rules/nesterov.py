"""Nesterov's accelerated gradient."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from learning_dynamics.rules.momentum import MomentumRule, MomentumState
from learning_dynamics.rules.rule import require_step
from learning_dynamics.rules.torch_twin import torch_twin


@torch_twin("torch.optim.SGD, with nesterov=True")
@dataclass(frozen=True, eq=False)
class Nesterov(MomentumRule):
    r"""Nesterov's accelerated gradient (Nesterov 1983), started at rest.

    .. math:: x_{k+1} = \theta_k - \eta_k \nabla L(\theta_k), \qquad
        \theta_{k+1} = x_{k+1} + \beta_{1,k} (x_{k+1} - x_k), \qquad x_0 = \theta_0

    The parameters are the extrapolated points theta_k, where the gradient is taken (Sutskever et al. 2013,
    in the variables torch uses): with a constant step size and momentum they are the iterates of
    `torch.optim.SGD(lr=eta, momentum=beta_1, nesterov=True)`. For smooth convex losses the momentum is a schedule,
    such as `lambda k: k / (k + 3)` (Su, Boyd, Candes 2016, Eq. 1, counted from 0).

    Args:
        step_size: eta >= 0; a number, a tensor `(*batch, 1)`, or a schedule k -> eta_k.
        momentum: beta_1 >= 0; a number, a tensor `(*batch, 1)`, or a schedule k -> beta_{1,k}.

    Raises:
        ValueError: as `MomentumRule`, whose state this has: its memory is x_k.
    """

    def step(self, theta: Tensor, gradient: Tensor, state: MomentumState) -> tuple[Tensor, MomentumState]:
        """Return `theta (*batch, d)` and the state after one step.

        Raises:
            ValueError: theta is not real floating point, or the gradient has another shape, dtype or device.
        """
        require_step(theta, gradient)
        eta, beta1 = self._at(state.step, theta)
        arrived = theta - eta * gradient
        return arrived + beta1 * (arrived - state.memory), MomentumState(state.step + 1, arrived)
