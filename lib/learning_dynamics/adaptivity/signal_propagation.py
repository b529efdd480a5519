r"""What random layers do to the length of a signal: its law, its moments, and who carries its mean.

Layers are :math:`h_{k+1} = \phi(W_k h_k)` of width m with independent symmetric weights, and
:math:`\phi` is the identity or ReLU. At the usual start (Glorot & Bengio 2010 with variance 1/m, He et al. 2015 with
2/m) Gaussian weights multiply :math:`\lVert h\rVert^2` by independent factors: :math:`\chi^2_m/m` in a linear layer,
:math:`2\chi^2_M/m` with :math:`M\sim\mathrm{Bin}(m,\frac12)` in a ReLU layer.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
import torch
from scipy.special import digamma, polygamma
from scipy.stats import binom
from torch import Tensor

from learning_dynamics._internal.arguments import (
    require_choice,
    require_count,
    require_counts,
    require_generator,
    require_number,
    require_tensors,
)

ACTIVATIONS = ("linear", "relu")


class Moments(NamedTuple):
    """Expectations after 0, 1, ..., D layers.

    Attributes:
        square: `(D + 1)`, of the squared norm.
        fourth: `(D + 1)`, of the fourth power of the norm.
        entrywise: `(D + 1)`, of the sum of the fourth powers of the entries.
    """

    square: Tensor
    fourth: Tensor
    entrywise: Tensor


class LogNormLaw(NamedTuple):
    """Mean and standard deviation of the log of the squared norm in the networks that pass a signal.

    Attributes:
        mean: of the log.
        std: of the log.
        dead: the share of networks whose output is exactly zero.
    """

    mean: float
    std: float
    dead: float


def log_output_norms(
    width: int,
    depth: int,
    count: int,
    generator: torch.Generator,
    *,
    activation: Literal["linear", "relu"] = "relu",
    size_biased: bool = False,
) -> Tensor:
    r"""Draw :math:`\ln\lVert h_D\rVert^2` of many Gaussian networks from its exact law, without any matrix.

    Args:
        width: m >= 1.
        depth: D >= 1, number of layers.
        count: number of networks.
        generator: source of the random numbers.
        activation: "linear" (variance 1/m) or "relu" (variance 2/m).
        size_biased: draw every network with a probability proportional to :math:`\lVert h_D\rVert^2`.

    Returns:
        `(count)`, float64, for :math:`\lVert h_0\rVert = 1`; minus infinity for a dead network.

    Raises:
        ValueError: an argument is out of range.
    """
    require_counts(width=width, depth=depth, count=count)
    _require_activation(activation)
    seed = int(torch.randint(2**62, (), generator=require_generator(generator)))
    source = np.random.default_rng(seed)
    total = np.zeros(count)
    with np.errstate(divide="ignore"):
        for _ in range(depth):
            if activation == "linear":
                total += np.log(source.chisquare(width + 2 * size_biased, count) / width)
                continue
            alive = source.binomial(width - size_biased, 0.5, count) + 3 * size_biased
            total += np.log(2 * source.standard_gamma(alive / 2) * 2 / width)
    return torch.from_numpy(total)


def log_norm_law(width: int, depth: int, activation: Literal["linear", "relu"] = "relu") -> LogNormLaw:
    r"""Return the exact mean and deviation of :math:`\ln\lVert h_D\rVert^2` at the usual Gaussian start.

    For a linear layer :math:`\mathbb E\ln = \mathrm{digamma}(m/2)+\ln(2/m)\approx-1/m` with the variance
    :math:`\mathrm{trigamma}(m/2)\approx2/m`; for ReLU about :math:`-\frac5{2m}` and :math:`\frac5m`.

    Args:
        width: m >= 1.
        depth: D >= 1.
        activation: "linear" or "relu".

    Returns:
        the law of the networks that are not dead.

    Raises:
        ValueError: an argument is out of range.
    """
    require_counts(width=width, depth=depth)
    _require_activation(activation)
    if activation == "linear":
        mean, variance = digamma(width / 2) + math.log(2 / width), polygamma(1, width / 2)
        return LogNormLaw(float(depth * mean), float(math.sqrt(depth * variance)), 0.0)
    alive = np.arange(1, width + 1)
    weight = binom.pmf(alive, width, 0.5) / (1 - 0.5**width)
    centers = digamma(alive / 2) + math.log(4 / width)
    mean = weight @ centers
    variance = weight @ (polygamma(1, alive / 2) + (centers - mean) ** 2)
    dead = -math.expm1(depth * math.log1p(-(0.5**width)))
    return LogNormLaw(float(depth * mean), float(math.sqrt(depth * variance)), dead)


def forward_moments(
    width: int,
    depth: int,
    *,
    variance: float,
    kurtosis: float,
    gate_mean: float,
    start: tuple[float, float, float],
) -> Moments:
    r"""Return second and fourth moments through random layers (Orvieto 2023, prop. 3.2.5).

    With p the mean of a gate, :math:`\sigma_w^2` the variance and kurt the kurtosis of the weights, each layer
    multiplies the pair of fourth moments by

    .. math:: p^2m\sigma_w^4\begin{pmatrix} m+2 & \frac{{\rm kurt}-3+(1-p)(m+2)}p \\
        3 & \frac{{\rm kurt}-3p}p\end{pmatrix}

    and the second moment by :math:`pm\sigma_w^2`. The vector is the pre-activation; for ReLU the law of the input is
    symmetric in each coordinate.

    Args:
        width: m.
        depth: D.
        variance: of the weights.
        kurtosis: fourth moment of a weight over its squared variance: 3 for Gaussian, 9/5 for uniform weights.
        gate_mean: 1 for linear layers, 1/2 for ReLU.
        start: the three moments of the input, in the order of `Moments`.

    Raises:
        ValueError: a count is out of range, or `gate_mean` is not above 0 and at most 1.
    """
    require_count("width", width)
    require_count("depth", depth, least=0)
    require_number("gate_mean", gate_mean, above=0, most=1)
    p, m = gate_mean, width
    matrix = torch.tensor(
        [[m + 2, (kurtosis - 3 + (1 - p) * (m + 2)) / p], [3, (kurtosis - 3 * p) / p]], dtype=torch.float64
    )
    layers = torch.arange(depth + 1, dtype=torch.float64)
    pairs = [torch.tensor(start[1:], dtype=torch.float64)]
    for _ in range(depth):
        pairs.append(p**2 * m * variance**2 * matrix @ pairs[-1])
    return Moments(start[0] * (p * m * variance) ** layers, *torch.stack(pairs).T)


def share_carrying_half(size_biased: Tensor) -> float:
    r"""Return which share of all networks carries half of the mean of their squared output.

    Args:
        size_biased: `(count)`, draws of :math:`\ln\lVert h_D\rVert^2` by `log_output_norms(..., size_biased=True)`.

    Returns:
        the probability that the squared output is above the value beyond which half of its mean lies.

    Raises:
        ValueError: there is no draw, or `size_biased` is not real floating point of this shape.
    """
    require_tensors(size_biased=(size_biased, "count"))
    above = size_biased >= size_biased.median()
    return float((above * (-size_biased).exp()).mean())


def _require_activation(activation: str) -> None:
    require_choice("activation", activation, ACTIVATIONS)
