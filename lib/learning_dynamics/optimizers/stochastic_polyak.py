"""The stochastic Polyak step, capped."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from learning_dynamics.optimizers.whole_vector import WholeVectorOptimizer, require_number


class SPS(WholeVectorOptimizer):
    r"""The capped stochastic Polyak step as a torch optimizer (Loizou et al. 2021, SPS_max).

    .. math:: \theta \leftarrow \theta - \eta\nabla f_S(\theta), \qquad
        \eta = \min\Big\{\frac{f_S(\theta) - \ell}{c\,\|\nabla f_S(\theta)\|^2},\ \mathtt{lr}\Big\}

    Example:
        >>> optimizer = SPS(model.parameters(), lr=1.0)
        >>> loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        >>> optimizer.zero_grad()
        >>> loss.backward()
        >>> optimizer.step(loss=loss)

    One step size serves the whole parameter vector: loss and gradient norm are those of all groups together;
    a group's own `lr` and `c` cap and divide its own step. See `WholeVectorOptimizer` for what all these
    optimizers share, and `rules.SPS` for ensembles of runs.

    Args:
        params: parameters, or dictionaries of parameter groups.
        lr: the largest step eta_max > 0, on which a scheduler acts.
        c: > 0.
        lower_bound: l, at most the infimum of the batch's loss.
        weight_decay: lambda >= 0, added to loss and gradient as a penalty.
        decoupled_weight_decay: shrink the parameters instead, as AdamW.
        average_loss: average the loss over the processes of the default group, where there are several.

    Raises:
        ValueError: a hyper-parameter is out of range, `params` are no parameters, or one of them is not real floating
            point.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        c: float = 1.0,
        lower_bound: float = 0.0,
        *,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        average_loss: bool = True,
    ) -> None:
        defaults = {"lr": lr, "c": c, "lower_bound": lower_bound}
        decay = {"weight_decay": weight_decay, "decoupled_weight_decay": decoupled_weight_decay}
        super().__init__(params, defaults | decay, average_loss=average_loss)

    def _require(self, group: dict[str, Any]) -> None:
        super()._require(group)
        require_number("c", group["c"], above=0)

    def _step_sizes(self, gap: float, squared_norms: list[float]) -> list[float]:
        square = sum(squared_norms)
        return [
            group["lr"] if square == 0 else min(gap / square / group["c"], group["lr"])
            for group in self.param_groups
        ]
