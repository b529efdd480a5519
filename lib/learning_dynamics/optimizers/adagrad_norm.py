"""AdaGrad-Norm: AdaGrad with one step size for the whole vector."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from torch import Tensor

from learning_dynamics.optimizers.whole_vector import WholeVectorOptimizer, require_number


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
    `WholeVectorOptimizer` for what all these optimizers share (this one needs no loss), and `rules.AdaGradNorm` for
    ensembles of runs.

    Args:
        params: parameters, or dictionaries of parameter groups.
        lr: eta > 0, on which a scheduler acts.
        b0: > 0, in units of the gradient.
        weight_decay: lambda >= 0, added to loss and gradient as a penalty.
        decoupled_weight_decay: shrink the parameters instead, as AdamW.

    Raises:
        ValueError: a hyper-parameter is out of range, `params` are no parameters, or one of them is not real floating
            point.
    """

    needs_loss = False
    shared = "b0"
    remembers = ("square",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        b0: float = 0.1,
        *,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
    ) -> None:
        defaults = {"lr": lr, "b0": b0}
        decay = {"weight_decay": weight_decay, "decoupled_weight_decay": decoupled_weight_decay}
        super().__init__(params, defaults | decay)

    def _require(self, group: dict[str, Any]) -> None:
        super()._require(group)
        require_number("b0", group["b0"], above=0)

    def _step_sizes(self, gap: float, squared_norms: list[float]) -> list[float]:
        square = self._whole()["square"] + sum(squared_norms)
        self._keep_whole(square=square)
        return [group["lr"] / math.sqrt(square) for group in self.param_groups]

    def _start(self, group: dict[str, Any], parameter: Tensor) -> dict[str, Any]:
        return {"square": group["b0"] ** 2}
