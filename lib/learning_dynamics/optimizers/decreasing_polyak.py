"""The decreasing stochastic Polyak step."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from torch import Tensor

from learning_dynamics.optimizers.whole_vector import WholeVectorOptimizer, require_number
from learning_dynamics.rules.decreasing_polyak import square_root_growth


class DecSPS(WholeVectorOptimizer):
    r"""The decreasing stochastic Polyak step as a torch optimizer (Orvieto, Lacoste-Julien, Loizou 2022).

    .. math:: \theta_{k+1} = \theta_k - \eta_k \nabla f_{S_k}(\theta_k), \qquad
        \eta_k = \frac1{c_k}\min\Big\{\frac{f_{S_k}(\theta_k) - \ell}{\|\nabla f_{S_k}(\theta_k)\|^2},\
        c_{k-1}\eta_{k-1}\Big\}, \qquad c_k = c_0\sqrt{k+1}

    with :math:`c_{-1} = c_0` and :math:`\eta_{-1} = \mathtt{lr}`.

    Example:
        >>> optimizer = DecSPS(model.parameters())
        >>> loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        >>> optimizer.zero_grad()
        >>> loss.backward()
        >>> optimizer.step(loss=loss)

    A batch that is fitted already, with its loss at the lower bound to rounding, makes no step and does not enter the
    minimum, which it would bring to 0 for good.

    One step size serves the whole parameter vector, and the smallest Polyak ratio is that of the whole vector;
    a group's own `lr` and `c0` cap and divide its own step. A scheduler needs not act here: the steps decrease by
    themselves. If one does, the cap of step k is c_0 lr_k / c_k. See `WholeVectorOptimizer` for what all these
    optimizers share, and `rules.DecSPS` for ensembles of runs.

    Args:
        params: parameters, or dictionaries of parameter groups.
        lr: cap of the first step, eta_max > 0.
        c0: > 0.
        lower_bound: l, at most the infimum of the batch's loss.
        weight_decay: lambda >= 0, added to loss and gradient as a penalty.
        decoupled_weight_decay: shrink the parameters instead, as AdamW.
        average_loss: average the loss over the processes of the default group, where there are several.

    Raises:
        ValueError: a hyper-parameter is out of range, `params` are no parameters, or one of them is not real floating
            point.
    """

    remembers = ("step", "smallest")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 10.0,
        c0: float = 1.0,
        lower_bound: float = 0.0,
        *,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        average_loss: bool = True,
    ) -> None:
        defaults = {"lr": lr, "c0": c0, "lower_bound": lower_bound}
        decay = {"weight_decay": weight_decay, "decoupled_weight_decay": decoupled_weight_decay}
        super().__init__(params, defaults | decay, average_loss=average_loss)

    def _require(self, group: dict[str, Any]) -> None:
        super()._require(group)
        require_number("c0", group["c0"], above=0)

    def _step_sizes(self, gap: float, squared_norms: list[float]) -> list[float]:
        whole, square = self._whole(), sum(squared_norms)
        step, smallest = whole["step"], whole["smallest"]
        fitted = gap == 0 and square > 0
        if square > 0 and not fitted:
            smallest = min(smallest, gap / square)
        self._keep_whole(step=step + 1, smallest=smallest)
        growth = square_root_growth(step)
        return [
            0.0 if fitted else min(smallest, group["c0"] * group["lr"]) / (group["c0"] * growth)
            for group in self.param_groups
        ]

    def _start(self, group: dict[str, Any], parameter: Tensor) -> dict[str, Any]:
        return {"step": 0, "smallest": math.inf}
