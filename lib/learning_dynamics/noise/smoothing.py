r"""Losses averaged over normal noise on the parameters: exact for polynomials, and to second order for any model.

The smoothed loss is :math:`\mathcal L_\sigma(\theta)=\mathbb E\,\mathcal L(\theta+\sigma\epsilon)` with a standard
normal :math:`\epsilon`. Source: Orvieto (2023), section 6.4.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.func import hessian, jacrev

from learning_dynamics._internal.arguments import require_count, require_number, require_tensors

MOST_POINTS = 2**20
"""Largest number of points of a product rule."""


def normal_nodes(dimension: int, nodes: int, like: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return points and weights whose sums are means over a standard normal vector.

    The product of Gauss-Hermite rules: exact for polynomials that hold no coordinate to a power above 2 nodes - 1. With
    two nodes the points are coins, +1 and -1.

    Args:
        dimension: d, length of the vector.
        nodes: of each coordinate; nodes ** d is at most 2 ** 20.
        like: gives dtype and device, `(*batch)`.

    Returns:
        points `(nodes ** d, d)` and weights `(nodes ** d,)` that add up to 1.

    Raises:
        ValueError: an argument is not as described.
    """
    require_count("dimension", dimension)
    require_count("nodes", nodes)
    require_tensors(like=(like, "*batch"))
    if nodes**dimension > MOST_POINTS:
        raise ValueError(
            f"nodes ** dimension = {nodes} ** {dimension}; allowed: at most {MOST_POINTS} points"
        )
    places, shares = np.polynomial.hermite_e.hermegauss(nodes)
    at = torch.as_tensor(places, dtype=like.dtype, device=like.device)
    share = torch.as_tensor(shares / math.sqrt(2 * math.pi), dtype=like.dtype, device=like.device)
    points = torch.cartesian_prod(*[at] * dimension).reshape(-1, dimension)
    weights = torch.cartesian_prod(*[share] * dimension).reshape(-1, dimension).prod(-1)
    return points, weights


def smoothed(function: Callable[[Tensor], Tensor], theta: Tensor, sigma: float, *, nodes: int = 3) -> Tensor:
    r"""Return the mean of a function over normal noise on its argument, by a product rule.

    Args:
        function: takes `(points, d)` to `(points, *out)`.
        theta: `(d,)`.
        sigma: standard deviation of the noise, >= 0.
        nodes: of each coordinate, as in `normal_nodes`.

    Returns:
        `(*out)`.

    Raises:
        ValueError: an argument is not as described.
    """
    d = require_tensors(theta=(theta, "d"))["d"]
    require_number("sigma", sigma, least=0)
    points, weights = normal_nodes(d, nodes, theta)
    values = function(theta + sigma * points)
    return torch.tensordot(weights, values, dims=1)


def effective_loss(
    predict: Callable[[Tensor], Tensor], criterion: Callable[[Tensor], Tensor], theta: Tensor, sigma: float
) -> Tensor:
    r"""Return the loss plus the Gauss-Newton part of the smoothing (Orvieto 2023, eq. 167).

    .. math:: \mathcal L^{\mathrm{eff}}_\sigma=\ell(f(\theta))+\tfrac{\sigma^2}2\,\mathrm{tr}\,J^\top H_{\mathrm{out}}J

    It differs from the smoothed loss by an order above :math:`\sigma^2` where every prediction has a Hessian of trace
    zero. It costs one Jacobian and can be differentiated.

    Args:
        predict: f, from `(d,)` to all predictions `(N,)`.
        criterion: from predictions `(N,)` to a scalar.
        theta: `(d,)`.
        sigma: standard deviation of the noise, >= 0.

    Returns:
        a scalar.

    Raises:
        ValueError: theta or sigma is not as described.
    """
    require_tensors(theta=(theta, "d"))
    require_number("sigma", sigma, least=0)
    outputs = predict(theta)
    J = jacrev(predict)(theta)
    H_out = hessian(criterion)(outputs)
    return criterion(outputs) + sigma**2 / 2 * ((H_out @ J) * J).sum()
