"""AMSGrad."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from learning_dynamics.rules.adam import AdamRule, AdamState, adam_start
from learning_dynamics.rules.rule import require_parameters, require_step
from learning_dynamics.rules.torch_twin import torch_twin


class AMSGradState(NamedTuple):
    """State of `AMSGrad`.

    Attributes:
        step: number of steps taken, k.
        adam: the state of `Adam` on the same gradients.
        largest: `(*batch, d)`, the largest running mean of the squared gradients so far.
    """

    step: int
    adam: AdamState
    largest: Tensor


@torch_twin("torch.optim.Adam, with amsgrad=True")
@dataclass(frozen=True, eq=False)
class AMSGrad(AdamRule):
    r"""AMSGrad (Reddi, Kale, Kumar 2018), as in `torch.optim.Adam(amsgrad=True)` without weight decay.

    .. math:: m_{k+1} = \beta_1 m_k + (1 - \beta_1) g_k, \qquad v_{k+1} = \beta_2 v_k + (1 - \beta_2) g_k^2,
        \qquad \hat v_{k+1} = \max\{\hat v_k, v_{k+1}\}

    .. math:: \theta_{k+1} = \theta_k - \eta_k \frac{m_{k+1} / (1 - \beta_1^{k+1})}
        {\sqrt{\hat v_{k+1} / (1 - \beta_2^{k+1})} + \epsilon}, \qquad m_0 = v_0 = \hat v_0 = 0

    The bias corrections are torch's; the source has none.

    Args:
        step_size: eta >= 0; a number, a tensor `(*batch, 1)`, or a schedule k -> eta_k.
        beta1: decay of the mean gradient, in [0, 1); a number, a tensor `(*batch, 1)`, or a schedule, as in `Adam`.
        beta2: decay of the mean squared gradient, in [0, 1); a number or a tensor `(*batch, 1)`.
        epsilon: >= 0, in units of the gradient.

    Raises:
        ValueError: a hyper-parameter is out of range, not finite, or has a coordinate axis.
    """

    def start(self, theta: Tensor) -> AMSGradState:
        """Return the state before the first step, all means 0; `theta (*batch, d)`.

        Raises:
            ValueError: theta is not real floating point `(*batch, d)`.
        """
        require_parameters(theta)
        return AMSGradState(0, adam_start(theta), torch.zeros_like(theta))

    def step(self, theta: Tensor, gradient: Tensor, state: AMSGradState) -> tuple[Tensor, AMSGradState]:
        """Return `theta (*batch, d)` and the state after one step.

        Raises:
            ValueError: theta is not real floating point, or the gradient has another shape, dtype or device.
        """
        require_step(theta, gradient)
        after, corrected = self._means(theta, gradient, state.adam)
        largest = torch.maximum(state.largest, after.mean_square)
        return self._moved(theta, state.step, corrected, largest), AMSGradState(after.step, after, largest)
