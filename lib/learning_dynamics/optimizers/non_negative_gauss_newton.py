"""The non-negative Gauss-Newton step, NGN."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from learning_dynamics.optimizers.whole_vector import WholeVectorOptimizer, require_number


class NGN(WholeVectorOptimizer):
    r"""The non-negative Gauss-Newton step as a torch optimizer (Orvieto & Xiao 2024).

    .. math:: \theta_{k+1} = \theta_k - (1-\beta_1)\eta_k \nabla f_{S_k}(\theta_k)
        + \beta_1(\theta_k - \theta_{k-1}), \qquad
        \eta_k = \frac{\eta_{\max}}{1 + \frac{\eta_{\max}}{2 f_{S_k}(\theta_k)} \|\nabla f_{S_k}(\theta_k)\|^2}

    with :math:`\eta_{\max} = \mathtt{lr}` (the source's sigma); momentum 0 is NGN, and with momentum it is NGN-M
    (Islamov, Ajroldi, Orvieto, Lucchi 2025).

    Example:
        >>> optimizer = NGN(model.parameters(), lr=1.0)
        >>> loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        >>> optimizer.zero_grad()
        >>> loss.backward()
        >>> optimizer.step(loss=loss)

    One step size serves the whole parameter vector. Where groups have an `lr` of their own, the penalty of the
    Gauss-Newton model is :math:`\sum_g \|p_g\|^2 / (2\eta_{\max,g})`, and its minimizer gives group g the step

    .. math:: \eta_g = \frac{\eta_{\max,g}}{1 + \frac{1}{2 f_S}\sum_h \eta_{\max,h} \|\nabla_h f_S\|^2}

    See `WholeVectorOptimizer` for what all these optimizers share, and `rules.NGN` for ensembles of runs.

    Args:
        params: parameters, or dictionaries of parameter groups.
        lr: the largest step eta_max > 0, on which a scheduler acts.
        momentum: beta_1 in [0, 1).
        lower_bound: taken from the loss first.
        weight_decay: lambda >= 0, added to loss and gradient as a penalty.
        decoupled_weight_decay: shrink the parameters instead, as AdamW.
        average_loss: average the loss over the processes of the default group, where there are several.

    Raises:
        ValueError: a hyper-parameter is out of range, `params` are no parameters, or one of them is not real floating
            point.
    """

    remembers = ("displacement",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        momentum: float = 0.0,
        lower_bound: float = 0.0,
        *,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        average_loss: bool = True,
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "lower_bound": lower_bound}
        decay = {"weight_decay": weight_decay, "decoupled_weight_decay": decoupled_weight_decay}
        super().__init__(params, defaults | decay, average_loss=average_loss)

    def _require(self, group: dict[str, Any]) -> None:
        super()._require(group)
        require_number("momentum", group["momentum"], least=0, below=1)

    def _step_sizes(self, gap: float, squared_norms: list[float]) -> list[float]:
        weighted = sum(
            group["lr"] * square for group, square in zip(self.param_groups, squared_norms, strict=True)
        )
        shrunk = 1.0 if weighted == 0 else gap / (gap + weighted / 2)
        return [group["lr"] * shrunk for group in self.param_groups]

    def _move(
        self, group: dict[str, Any], parameters: list[Tensor], gradients: list[Tensor], step_size: float
    ) -> None:
        beta1 = group["momentum"]
        if beta1 == 0 and not any(parameter in self.state for parameter in parameters):
            super()._move(group, parameters, gradients, step_size)
            return
        displacements = [self.state[parameter]["displacement"] for parameter in parameters]
        torch._foreach_mul_(displacements, beta1)
        torch._foreach_add_(displacements, gradients, alpha=-(1 - beta1) * step_size)
        torch._foreach_add_(parameters, displacements)

    def _start(self, group: dict[str, Any], parameter: Tensor) -> dict[str, Any]:
        return {"displacement": torch.zeros_like(parameter)} if group["momentum"] else {}
