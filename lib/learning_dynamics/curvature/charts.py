r"""Charts: other coordinates for the same parameters, and what a step becomes in them.

A chart writes the parameters as :math:`\theta = \zeta(\chi)` with smooth one-to-one functions. Gradients pick up the
Jacobian, :math:`\nabla_\chi = J_\zeta^\top \nabla_\theta`; matrices of the form :math:`\sum J^\top A J` are pulled
back, :math:`C_\chi = J_\zeta^\top C_\theta J_\zeta` (Martens 2020, sec. 12).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import jacrev

from learning_dynamics._internal.arguments import require_number, require_tensors

Map = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Chart:
    r"""Coordinates :math:`\chi` with :math:`\theta = \zeta(\chi)`.

    Attributes:
        to_theta: the map zeta, `(d) -> (d)`, written in torch so that it can be differentiated; NaN outside the
            chart's range.
        from_theta: its inverse, `(d) -> (d)`.
    """

    to_theta: Map
    from_theta: Map

    def jacobian(self, chi: Tensor) -> Tensor:
        r"""Return :math:`J_\zeta(\chi)`, the derivative of theta with respect to chi.

        Args:
            chi: `(d)`, or a scalar `()` for one parameter.

        Returns:
            `(d, d)`, or `()` for a scalar.

        Raises:
            ValueError: chi is no real point.
        """
        _require_point("chi", chi)
        return jacrev(self.to_theta)(chi)


def in_chart(function: Callable[..., Tensor], chart: Chart) -> Callable[..., Tensor]:
    """Return a function of theta as a function of chi; further arguments are passed on.

    Args:
        function: `function(theta, *rest)`: a loss, or a model `f(theta, x)`.
        chart: the coordinates.

    Returns:
        `composed(chi, *rest) = function(chart.to_theta(chi), *rest)`.
    """

    def composed(chi: Tensor, *rest: Any) -> Tensor:
        return function(chart.to_theta(chi), *rest)

    return composed


def pullback(C: Tensor, J: Tensor) -> Tensor:
    r"""Return :math:`J^\top C J`, the matrix of a quadratic form in the new coordinates.

    Source: Martens (2020), Eq. (14).

    Args:
        C: `(..., d, d)`.
        J: `(..., d, e)`, the Jacobian of theta with respect to chi.

    Returns:
        `(..., e, e)`.

    Raises:
        ValueError: the shapes do not match.
    """
    require_tensors(C=(C, "*batch d d"), J=(J, "*batch d e"))
    return J.mT @ C @ J


def step_in_chart(
    velocity: Map, chart: Chart, theta: Tensor, step_size: float, weight: float = 0.0
) -> Tensor:
    r"""Take one step of the flow :math:`\dot\theta = v(\theta)` in the coordinates of a chart.

    In the chart the velocity is :math:`w(\chi) = J_\zeta^{-1} v(\zeta(\chi))`, and the step solves

    .. math:: (I - \gamma \eta\, Dw(\chi))\, \delta = \eta\, w(\chi), \qquad \theta' = \zeta(\chi + \delta).

    With weight :math:`\gamma = 0` it is Euler's explicit step, with 1 the linearly implicit one; both leave a
    difference between charts of second order in the step. With 1/2, the linearly implicit midpoint rule, it is of
    third order. In an affine chart the result is that of the identity chart for every weight.

    Source: the one-stage Rosenbrock methods (Hairer and Wanner 1996, Solving Ordinary Differential Equations II,
    sec. IV.7); integrators for the natural gradient: Song, Song and Ermon (2018).

    Args:
        velocity: `v(theta)`, of the shape of theta; minus the natural gradient, for instance.
        chart: the coordinates.
        theta: `(d)`, or `()` for one parameter.
        step_size: eta, > 0.
        weight: gamma, from 0 to 1.

    Returns:
        The new theta, of the same shape; NaN where the step leaves the chart.

    Raises:
        ValueError: `step_size`, `weight` or the shape of theta is not one of those allowed.
    """
    require_number("step_size", step_size, above=0)
    require_number("weight", weight, least=0, most=1)

    _require_point("theta", theta)

    def moved(chi: Tensor) -> Tensor:  # J^{-1} v, for vectors and for scalars
        J, v = chart.jacobian(chi), velocity(chart.to_theta(chi))
        return v / J if chi.ndim == 0 else torch.linalg.solve(J, v)

    chi = chart.from_theta(theta)
    delta = step_size * moved(chi)
    if weight:
        slope = weight * step_size * jacrev(moved)(chi)
        if chi.ndim == 0:
            delta = delta / (1 - slope)
        else:
            eye = torch.eye(len(chi), dtype=chi.dtype, device=chi.device)
            delta = torch.linalg.solve(eye - slope, delta)
    return chart.to_theta(chi + delta)


def _require_point(name: str, point: Tensor) -> None:
    if not point.is_floating_point() or point.ndim > 1 or point.numel() == 0:
        raise ValueError(
            f"{name} has dtype {point.dtype} and shape {tuple(point.shape)}; allowed: real floating point, (d) or ()"
        )


def coin_charts() -> dict[str, Chart]:
    """Return five coordinates for the probability p of a coin: p itself, its logarithm, arcsine, probit and logit.

    The arcsine coordinate is 2 arcsin sqrt(p), in which the Fisher information is one. `to_theta` gives NaN for a
    coordinate that belongs to no probability (an arcsine outside [0, pi], a logarithm above 0).

    Returns:
        Name to chart; the maps act on tensors of any shape, entry by entry.
    """

    def within(low: float, high: float, function: Map) -> Map:
        return lambda chi: torch.where((chi >= low) & (chi <= high), function(chi), torch.nan)

    inf = math.inf
    return {
        "probability": Chart(within(0, 1, lambda chi: chi), lambda p: p),
        "log p": Chart(within(-inf, 0, torch.exp), torch.log),
        "arcsine": Chart(
            within(0, math.pi, lambda chi: torch.sin(chi / 2) ** 2), lambda p: 2 * torch.asin(p.sqrt())
        ),
        "probit": Chart(torch.special.ndtr, torch.special.ndtri),
        "logit": Chart(torch.sigmoid, torch.logit),
    }
