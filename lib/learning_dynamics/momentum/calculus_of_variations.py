r"""Is a stationary path a minimum? Actions of curves, their first variation, and the modes that decide.

For the Lagrangian :math:`w(t)\,(\frac12\|\dot\theta\|^2 - L(\theta))` with the friction :math:`a = \dot w/w` and the
curvature :math:`h(t)` along the path, the second variation in one direction is
:math:`\frac12\int w\,(\dot\zeta^2 - h\,\zeta^2)\,dt`. Its stationary perturbations (Jacobi fields) solve
:math:`\ddot\zeta + a\,\dot\zeta + h\,\zeta = 0`, and :math:`z = \sqrt w\,\zeta` removes the weight:
:math:`\frac12\int \dot z^2 - (h - \chi)\,z^2\,dt` with the barrier :math:`\chi = a^2/4 + \dot a/2`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.linalg import eigh_tridiagonal
from scipy.optimize import brentq
from torch import Tensor

from learning_dynamics._internal.arguments import require_count, require_number, require_tensors

Lagrangian = Callable[[Tensor, Tensor, Tensor], Tensor]
"""`lagrangian(theta, velocity, t)`: from `(T, *shape)`, `(T, *shape)` and `(T,)` to `(T,)`, each time by itself."""


class Modes(NamedTuple):
    """The lowest modes of a second variation on a window.

    Attributes:
        values: `(count,)`, the eigenvalues, smallest first; as many negative ones as conjugate times in the window.
        times: `(nodes - 1,)`, the interior nodes.
        modes: `(count, nodes - 1)`, the modes z there, of unit norm in the integral of z squared.
    """

    values: Tensor
    times: Tensor
    modes: Tensor


def action(lagrangian: Lagrangian, curve: Tensor, times: Tensor) -> Tensor:
    r"""Return the action :math:`\int\Lambda(\theta, \dot\theta, t)\,dt` of a curve through nodes, by the midpoint rule.

    Between two nodes the curve is straight, and the Lagrangian is taken in the middle: the error is of the order of the
    square of the distance of the nodes. The result can be differentiated with respect to `curve`.

    Source: Gelfand and Fomin (1963), Calculus of Variations, sec. 1.

    Args:
        lagrangian: a function of positions, velocities and times.
        curve: `(T, *shape)`, the curve at the nodes, T >= 2.
        times: `(T,)`, increasing.

    Returns:
        The action, a scalar.

    Raises:
        ValueError: `times` is not increasing or has another length than `curve`.
    """
    require_tensors(times=(times, "T"), curve=(curve, "*T"))
    if len(times) < 2 or not bool((times.diff() > 0).all()):
        raise ValueError(f"times has shape {tuple(times.shape)}; allowed: (T >= 2,), increasing")
    if curve.shape[:1] != times.shape:
        raise ValueError(f"curve has shape {tuple(curve.shape)}; allowed: one for each of {len(times)} times")
    gaps = times.diff()
    velocity = curve.diff(dim=0) / gaps.reshape(-1, *[1] * (curve.ndim - 1))
    middle = (curve[1:] + curve[:-1]) / 2
    density = lagrangian(middle, velocity, (times[1:] + times[:-1]) / 2)
    if density.shape != gaps.shape:
        raise ValueError(f"lagrangian returns shape {tuple(density.shape)}; allowed: {tuple(gaps.shape)}")
    return (density * gaps).sum()


def first_variation(lagrangian: Lagrangian, curve: Tensor, times: Tensor) -> Tensor:
    r"""Return the slope of the action at the interior nodes, per unit of time.

    It approximates :math:`\partial_\theta\Lambda - \frac{d}{dt}\partial_{\dot\theta}\Lambda`, which is zero along a
    stationary curve (Euler and Lagrange), up to the square of the distance of the nodes.

    Args:
        lagrangian: as in `action`.
        curve: `(T, *shape)`, T >= 3.
        times: `(T,)`, increasing.

    Returns:
        `(T - 2, *shape)`, one slope for each interior node.

    Raises:
        ValueError: as in `action`.
    """
    require_tensors(times=(times, "T"), curve=(curve, "*T"))
    slope = torch.func.grad(lambda nodes: action(lagrangian, nodes, times))(curve)
    width = (times[2:] - times[:-2]) / 2
    return slope[1:-1] / width.reshape(-1, *[1] * (curve.ndim - 1))


def damping_barrier(friction: float | Callable[[Tensor], Tensor], times: Tensor) -> Tensor:
    r"""Return :math:`\chi = a^2/4 + \dot a/2`, by which friction lowers the curvature in the second variation.

    For :math:`a = \nu/t` it is :math:`\nu(\nu-2)/(4t^2)`, for a constant it is :math:`a^2/4`.

    Source: Liouville's normal form of a linear equation of second order (Coddington and Levinson 1955, ch. 8).

    Args:
        friction: a, a number or a function of a tensor of times, each time by itself.
        times: `(T,)`.

    Returns:
        The barrier, `(T,)`.

    Raises:
        ValueError: the times are not real floating point of this shape.
    """
    require_tensors(times=(times, "T"))
    if not callable(friction):
        return torch.full_like(times, friction**2 / 4)
    found = torch.func.jvp(friction, (times,), (torch.ones_like(times),))  # the value and its derivative
    return found[0] ** 2 / 4 + found[1] / 2


def lowest_modes(
    potential: Callable[[Tensor], Tensor], start: float, length: float, *, nodes: int = 2000, count: int = 3
) -> Modes:
    r"""Return the lowest eigenvalues and modes of :math:`-z'' + V(t)\,z` on a window with fixed ends.

    With :math:`V = \chi - h` they are those of the second variation: all positive means that the path is a minimum on
    the window, and each negative one is a direction in which the action falls. Second differences on a uniform grid;
    the error is of the order of the square of the spacing.

    Args:
        potential: V, a function of the times `(T,)`.
        start: where the window starts.
        length: how long it is, > 0.
        nodes: number of intervals, >= count + 1.
        count: number of modes, >= 1.

    Returns:
        The eigenvalues `(count,)`, the interior nodes and the modes there, in float64.

    Raises:
        ValueError: the length is not positive, or there are fewer nodes than modes.
    """
    require_count("count", count)
    require_count("nodes", nodes, least=count + 1)
    require_number("length", length, above=0)
    width = length / nodes
    times = start + width * torch.arange(1, nodes, dtype=torch.float64)
    diagonal = 2 / width**2 + potential(times).detach().cpu().numpy()
    side = np.full(nodes - 2, -1 / width**2)
    values, vectors = eigh_tridiagonal(diagonal, side, select="i", select_range=(0, count - 1))
    modes = torch.as_tensor(vectors.T / math.sqrt(width))
    sign = torch.where(modes.sum(-1, keepdim=True) < 0, -1.0, 1.0)
    return Modes(torch.as_tensor(values), times, sign * modes)


def conjugate_points(
    friction: float | Callable[[float], float],
    curvature: float | Callable[[float], float],
    start: float,
    end: float,
    *,
    rtol: float = 1e-11,
    log_time: bool = False,
) -> Tensor:
    r"""Return the times in (start, end) that are conjugate to `start`.

    They are the zeros of the field :math:`\ddot\zeta + a\,\dot\zeta + h\,\zeta = 0` with :math:`\zeta = 0` at first.
    Its phase, :math:`\tan\varphi = \zeta/\dot\zeta`, obeys

    .. math:: \dot\varphi = \cos^2\varphi + h\sin^2\varphi + a\sin\varphi\cos\varphi

    and passes each multiple of pi once, upwards, so that no zero is missed and nothing overflows.

    Source: Pruefer (1926); Coddington and Levinson (1955), ch. 8.

    Args:
        friction: a, a number or a function of the time.
        curvature: h, a number or a function of the time.
        start: the time to which they are conjugate.
        end: the last time looked at, > start.
        rtol: tolerance of the integration.
        log_time: integrate in ln t, for windows over many decades; needs start > 0.

    Returns:
        The conjugate times, increasing, `(n,)` in float64; n may be 0.

    Raises:
        ValueError: end <= start, or start <= 0 with `log_time`.
    """
    if not start < end < math.inf:
        raise ValueError(f"end = {end}; allowed: finite, > {start}")
    if log_time and not start > 0:
        raise ValueError(f"start = {start}; allowed: > 0 with log_time=True")

    def at(value: float | Callable[[float], float], t: float) -> float:
        return float(value(t)) if callable(value) else value

    def turning(clock: float, phase: NDArray[np.float64]) -> list[float]:
        t = math.exp(clock) if log_time else clock
        a, h = at(friction, t), at(curvature, t)
        if log_time:  # in ln t: friction t a - 1, curvature t^2 h
            a, h = t * a - 1, t * t * h
        sine, cosine = math.sin(phase[0]), math.cos(phase[0])
        return [cosine**2 + h * sine**2 + a * sine * cosine]

    clocks = (math.log(start), math.log(end)) if log_time else (start, end)
    solution = solve_ivp(turning, clocks, [0.0], method="DOP853", rtol=rtol, atol=1e-12, dense_output=True)
    phases: NDArray[np.float64] = solution.y[0]
    found: list[float] = []
    for turn in range(1, math.ceil(phases[-1] / math.pi)):
        behind = int(np.argmax(phases > turn * math.pi))  # the first step that ends beyond it
        left, right = solution.t[behind - 1], solution.t[behind]
        clock = brentq(lambda s, turn=turn: solution.sol(s)[0] - turn * math.pi, left, right, xtol=1e-13)
        if clock > left:  # one Newton step, without the interpolation: there the phase has the speed 1
            exact = solve_ivp(
                turning, (left, clock), [phases[behind - 1]], method="DOP853", rtol=rtol, atol=1e-12
            )
            clock -= exact.y[0, -1] - turn * math.pi
        found.append(float(clock))
    return torch.as_tensor([math.exp(clock) if log_time else clock for clock in found], dtype=torch.float64)
