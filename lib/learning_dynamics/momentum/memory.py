r"""Memories of past gradients: which average of them a flow follows.

A memory M turns gradient flow into

.. math:: \dot\theta(t) = -\int_0^t \frac{\dot M(s)}{M(t)}\,\nabla L(\theta(s))\,ds, \qquad\text{or}\qquad
    \ddot\theta + \frac{\dot M}{M}\,\dot\theta + \frac{\dot M}{M}\,\nabla L(\theta) = 0 .

Because M starts at zero, the weights of the past integrate to one at every time.

Source: Orvieto, Kohler and Lucchi (2019), The Role of Memory in Stochastic Optimization, sec. 3; Orvieto (2023),
thesis, Definition 2.3.1 and Table 1, where M is called m.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import require_broadcast, require_number, require_tensors


@dataclass(frozen=True, eq=False)
class MemoryFunction:
    """A memory M: zero at time zero, increasing ever after (thesis, Definition 2.3.1).

    Attributes:
        value: `value(t)`, M at the times `t (*)`; of the shape of `t`.
        rate: `rate(t)`, its derivative there; of the shape of `t`. It says how fast the past is forgotten.

    Raises:
        ValueError: M does not start at zero, or is not increasing on (0, 10].
    """

    value: Callable[[Tensor], Tensor]
    rate: Callable[[Tensor], Tensor]

    def __post_init__(self) -> None:
        """Check that M is a memory function as far as a grid can tell."""
        times = torch.linspace(0, 10, 101, dtype=torch.float64)
        values = self.value(times)
        if not float(values[0]) == 0:
            raise ValueError(
                f"value(0) = {float(values[0]):.3g}; allowed: 0, or the weights do not sum to one"
            )
        if not bool((values.diff() > 0).all()):
            raise ValueError(
                "value(t) = a function that falls somewhere on (0, 10]; allowed: an increasing one"
            )

    def weights(self, s: Tensor, t: Tensor) -> Tensor:
        r"""Return the weight :math:`\dot M(s)/M(t)` that the velocity at time t gives to the gradient at time s.

        Args:
            s: `(*)`, times of the past, 0 <= s <= t.
            t: `(*)`, the present, > 0; broadcasts against `s`.

        Returns:
            `(*)`, the weights; their integral over s from 0 to t is one.

        Raises:
            ValueError: the times are not real floating point, or do not broadcast.
        """
        require_tensors(s=(s, "*times"))
        require_tensors(t=(t, "*times"))  # of another floating point dtype, perhaps: it is promoted
        require_broadcast("t", t, s.shape, enlarge=True)
        return self.rate(s) / self.value(t)

    def friction(self, t: Tensor) -> Tensor:
        r"""Return the coefficient :math:`\dot M(t)/M(t)` of the second-order equation (thesis, Table 1).

        Args:
            t: `(*)`, times > 0.

        Returns:
            `(*)`, the friction; it multiplies the velocity and the gradient alike.

        Raises:
            ValueError: the times are not real floating point.
        """
        require_tensors(t=(t, "*times"))
        return self.rate(t) / self.value(t)


def power_memory(power: float) -> MemoryFunction:
    """Return the memory M(t) = t^p, which forgets like the power p - 1.

    Args:
        power: p >= 1; 1 keeps all gradients with the same weight.

    Returns:
        The memory function.

    Raises:
        ValueError: `power` is below 1.
    """
    require_number("power", power, least=1)
    return MemoryFunction(lambda t: t**power, lambda t: power * t ** (power - 1))


def exponential_memory(decay: float) -> MemoryFunction:
    """Return the memory M(t) = exp(a t) - 1: the heavy ball of friction a, with Adam's bias correction.

    Args:
        decay: a > 0.

    Returns:
        The memory function.

    Raises:
        ValueError: `decay` is not positive.
    """
    require_number("decay", decay, above=0)
    return MemoryFunction(lambda t: torch.expm1(decay * t), lambda t: decay * torch.exp(decay * t))


def stretched_memory(power: float) -> MemoryFunction:
    """Return the memory M(t) = exp(t^p) - 1, which forgets faster the longer it has run.

    Args:
        power: p >= 1; with 1 it is `exponential_memory(1)`.

    Returns:
        The memory function.

    Raises:
        ValueError: `power` is below 1.
    """
    require_number("power", power, least=1)
    return MemoryFunction(
        lambda t: torch.expm1(t**power), lambda t: power * t ** (power - 1) * torch.exp(t**power)
    )


MEMORIES: dict[str, MemoryFunction] = {
    "decaying": MemoryFunction(torch.log1p, lambda t: 1 / (1 + t)),
    "constant": power_memory(1.0),
    "square-root": power_memory(1.5),
    "linear": power_memory(2.0),
    "quadratic": power_memory(3.0),
    "exponential": exponential_memory(1.0),
    "super-exponential": stretched_memory(1.5),
}
"""The seven memories of the thesis's Table 1 by their names there, which say how the past is forgotten."""
