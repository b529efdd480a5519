"""The decreasing stochastic Polyak step."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

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

    One step size serves the whole parameter vector, and the smallest Polyak ratio is that of the whole vector;
    a group's own `lr` and `c0` cap and divide its own step. A scheduler needs not act here: the steps decrease by
    themselves. If one does, the cap of step k is c_0 lr_k / c_k. See `WholeVectorOptimizer` for what all these
    optimizers share, and `rules.DecSPS` for ensembles of runs.

    Args:
        params: parameters, or dictionaries of parameter groups.
        lr: cap of the first step, eta_max > 0.
        c0: > 0.
        lower_bound: l, at most the infimum of the batch's loss.

    Raises:
        ValueError: a hyper-parameter is out of range, `params` are no parameters, or one of them is not real floating
            point.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 10.0, c0: float = 1.0, lower_bound: float = 0.0
    ) -> None:
        super().__init__(params, {"lr": lr, "c0": c0, "lower_bound": lower_bound})

    def _require(self, group: dict[str, Any]) -> None:
        super()._require(group)
        require_number("c0", group["c0"], above=0)

    def _step_sizes(self, gap: float, squared_norms: list[float]) -> list[float]:
        whole = self._whole(step=0, smallest=math.inf)
        square = sum(squared_norms)
        if square > 0:
            whole["smallest"] = min(whole["smallest"], gap / square)
        growth = square_root_growth(whole["step"])
        whole["step"] += 1
        return [
            min(whole["smallest"], group["c0"] * group["lr"]) / (group["c0"] * growth)
            for group in self.param_groups
        ]
