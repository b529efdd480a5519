r"""The neural chain: a linear network of width one, its derivatives, its typical size and its escape from a plateau.

The output is :math:`f(\theta) = x\prod_j\theta_j` and the loss :math:`\frac12(f-y)^2` (Orvieto 2023, eq. 50).
"""

from __future__ import annotations

import math

import torch
from scipy.integrate import quad
from torch import Tensor

from learning_dynamics._internal.arguments import require_count, require_tensors


def products_without(theta: Tensor) -> Tensor:
    """Return the products of all entries but one.

    Args:
        theta: `(*batch, D)`.

    Returns:
        `(*batch, D)`; entry j is the product of all but entry j. Nothing is divided, so that zeros are allowed.

    Raises:
        ValueError: theta is not real floating point of this shape.
    """
    require_tensors(theta=(theta, "*batch D"))
    before, after = _products_around(theta)
    return before * after


def gradient(theta: Tensor, x: float = 1.0, y: float = 1.0) -> Tensor:
    r"""Return the gradient of the chain's loss, :math:`(f-y)\,x\prod_{i\ne j}\theta_i` (Orvieto 2023, eq. 53).

    Args:
        theta: `(*batch, D)`, the weights.
        x: the input.
        y: the target.

    Returns:
        `(*batch, D)`.

    Raises:
        ValueError: theta is not real floating point of this shape.
    """
    require_tensors(theta=(theta, "*batch D"))
    residual = x * theta.prod(-1, keepdim=True) - y
    return residual * x * products_without(theta)


def hessian(theta: Tensor, x: float = 1.0, y: float = 1.0) -> Tensor:
    r"""Return the Hessian of the chain's loss (Orvieto 2023, app. C.1.1, with the powers of x).

    The diagonal is :math:`x^2\prod_{i\ne j}\theta_i^2`, and off it stands
    :math:`(2f-y)\,x\prod_{i\ne j,l}\theta_i`.

    Args:
        theta: `(*batch, D)`, the weights, D >= 2.
        x: the input.
        y: the target.

    Returns:
        `(*batch, D, D)`.

    Raises:
        ValueError: there are fewer than two weights, or theta is not real floating point.
    """
    require_tensors(theta=(theta, "*batch D"))
    depth = theta.shape[-1]
    require_count("D", depth, least=2)
    before, after = _products_around(theta)
    one = torch.ones_like(theta[..., :1])
    pairs = torch.zeros(*theta.shape, depth, dtype=theta.dtype, device=theta.device)
    for j in range(depth - 1):
        between = torch.cat([one, theta[..., j + 1 : -1].cumprod(-1)], -1)
        pairs[..., j, j + 1 :] = before[..., j : j + 1] * between * after[..., j + 1 :]
    factor = (2 * x * theta.prod(-1) - y) * x
    whole = factor[..., None, None] * (pairs + pairs.mT)
    return whole + torch.diag_embed((x * products_without(theta)) ** 2)


def escape_time_bound(start: float, depth: int) -> float:
    r"""Return a time before which gradient flow on a chain of equal weights cannot have left the plateau.

    .. math:: t_{\rm up} = \frac{w_0^{2-D}-1}{D-2}

    The flow :math:`\dot w = w^{D-1}(1-w^D)` is slower than :math:`\dot w = w^{D-1}`, which from
    the same start reaches the solution 1 at this time (Orvieto 2023, eq. 57-58).

    Args:
        start: the weight at the start, w_0, above 0 and below 1.
        depth: D >= 3.

    Raises:
        ValueError: an argument is out of range.
    """
    _require_plateau(start, depth)
    return float((start ** (2 - depth) - 1) / (depth - 2))


def escape_time(start: float, end: float, depth: int) -> float:
    r"""Return the time in which gradient flow on a chain of equal weights goes from one weight to another.

    .. math:: \int_{w_0}^{w_1}\frac{dw}{w^{D-1}(1-w^D)}

    Args:
        start: the weight at the start, w_0, above 0.
        end: the weight at the end, w_1, from w_0 on and below 1.
        depth: D >= 3.

    Raises:
        ValueError: an argument is out of range.
    """
    _require_plateau(start, depth)
    if not start <= end < 1:
        raise ValueError(f"end = {end}; allowed: from start = {start} on and below 1")

    def in_logs(u: float) -> float:  # w = e^u, so that the steep start is smooth
        return math.exp((2 - depth) * u) / -math.expm1(depth * u)

    return float(quad(in_logs, math.log(start), math.log(end), epsabs=0.0, epsrel=1e-11, limit=400)[0])


def _products_around(theta: Tensor) -> tuple[Tensor, Tensor]:
    """Return the products of the entries before each one and of those after it, both `(*batch, D)`."""
    one = torch.ones_like(theta[..., :1])
    before = torch.cat([one, theta[..., :-1].cumprod(-1)], -1)
    after = torch.cat([theta[..., 1:].flip(-1).cumprod(-1).flip(-1), one], -1)
    return before, after


def _require_plateau(start: float, depth: int) -> None:
    require_count("depth", depth, least=3)
    if not 0 < start < 1:
        raise ValueError(f"start = {start}; allowed: above 0 and below 1")
