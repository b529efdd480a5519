"""Sums against a noisy path, the generator of a diffusion, and a change of its clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.func import grad, hessian, vmap

from learning_dynamics._internal.arguments import require_choice, require_tensors

Coefficient = Callable[[Tensor, float], Tensor]
"""`coefficient(x, t)`: a drift `(*batch, d)`, or a noise matrix `(*batch, d, m)`."""


def stochastic_sum(
    values: Tensor, increments: Tensor, point: Literal["left", "middle", "right"] = "left"
) -> Tensor:
    r"""Return :math:`\sum_i\zeta_i\,(W_{t_{i+1}}-W_{t_i})` along a path, with the value at one of three points.

    `left` takes the value at the beginning of each interval, which the increment cannot have influenced: the limit is
    Ito's integral, of mean zero. `right` takes the value at its end, `middle` the mean of the two (Stratonovich).

    Source: Ito (1944); Orvieto (2023), Definition A.2.13 and Remark A.2.1.

    Args:
        values: `(K + 1, *batch)`, the integrand at the K + 1 times.
        increments: `(K, *batch)`, of the path between them.
        point: which value of an interval is taken.

    Returns:
        `(*batch)`.

    Raises:
        ValueError: `point` is unknown, or there is not one more value than increments.
    """
    require_choice("point", point, ("left", "middle", "right"))
    require_tensors(values=(values, "*any"), increments=(increments, "*any2"))
    fits = values.shape[1:] == increments.shape[1:] and values.ndim and increments.ndim
    if not fits or len(values) != len(increments) + 1:
        raise ValueError(
            f"values and increments have shapes {tuple(values.shape)} and {tuple(increments.shape)}; "
            "allowed: (K + 1, *batch) and (K, *batch)"
        )
    left, right = values[:-1], values[1:]
    chosen = {"left": left, "right": right, "middle": (left + right) / 2}[point]
    return (chosen * increments).sum(0)


def generator(
    energy: Callable[[Tensor, Tensor], Tensor], drift: Coefficient, diffusion: Coefficient
) -> Callable[[Tensor, float], Tensor]:
    r"""Return the function :math:`\mathcal A E` for the diffusion :math:`dx=v(x,t)\,dt+B(x,t)\,dW`.

    .. math:: \mathcal A E=\partial_tE+\langle\nabla E,v\rangle+\tfrac12\,\mathrm{tr}\bigl(\nabla^2E\,BB^\top\bigr)

    It is the rate at which the mean of E changes (Dynkin's formula).

    Source: Orvieto (2023), Eq. (179); Oksendal (2003), Theorem 7.3.3.

    Args:
        energy: `energy(x, t) -> ()` of one point `x (d)` and a scalar tensor t, twice differentiable in x.
        drift: `drift(x, t) -> (N, d)`.
        diffusion: `diffusion(x, t) -> (N, d, m)`, or anything that broadcasts to it.

    Returns:
        `generated(x, t) -> (N)` for points `x (N, d)` and a number t.

    Raises:
        ValueError: at the call, if x is not `(N, d)`.
    """

    def generated(x: Tensor, t: float) -> Tensor:
        if x.ndim != 2:
            raise ValueError(f"x has shape {tuple(x.shape)}; allowed: (N, d)")
        now = torch.as_tensor(t, dtype=x.dtype, device=x.device)
        over_points = (0, None)
        slope_t = vmap(grad(energy, argnums=1), over_points)(x, now)
        slope = vmap(grad(energy), over_points)(x, now)
        bend = vmap(hessian(energy), over_points)(x, now)
        B = diffusion(x, t)
        return slope_t + (slope * drift(x, t)).sum(-1) + (bend * (B @ B.mT)).sum((-1, -2)) / 2

    return generated


def time_changed(
    drift: Coefficient, diffusion: Coefficient, rate: Callable[[float], float]
) -> tuple[Coefficient, Coefficient]:
    r"""Return the coefficients of the same diffusion under the clock c with :math:`\dot c=\eta(t)`.

    If :math:`dx=v(x)\,ds+B(x)\,dW`, then :math:`dy=\eta(t)\,v(y)\,dt+\sqrt{\eta(t)}\,B(y)\,dW` has at time t the law
    that x has at time c(t). The noise gets the root of the rate, since its variance, not its size, is proportional to
    time.

    Source: Oksendal (2003), Theorem 8.5.7; Orvieto (2023), Theorem A.2.5.

    Args:
        drift: `drift(x, s) -> (*batch, d)`, which must not depend on s.
        diffusion: `diffusion(x, s)`, of a shape that `euler_maruyama` takes; must not depend on s.
        rate: `rate(t) -> eta`, positive.

    Returns:
        The drift and the diffusion of y, functions of (y, t).

    Raises:
        ValueError: at the call, if the rate is not positive and finite.
    """

    def eta(t: float) -> float:
        value = float(rate(t))
        if not 0 < value < float("inf"):
            raise ValueError(f"rate({t}) = {value}; allowed: finite, > 0")
        return value

    return (lambda y, t: eta(t) * drift(y, 0.0)), (lambda y, t: eta(t) ** 0.5 * diffusion(y, 0.0))
