"""Flows: the limit of small steps, with and without momentum, integrated adaptively, or exactly where linear."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import special
from scipy.integrate import solve_ivp
from torch import Tensor
from torch.func import jvp, vmap

from learning_dynamics._internal.arguments import (
    require_choice,
    require_count,
    require_finite,
    require_number,
    require_numbers,
    require_symmetric,
    require_tensors,
)

VectorField = Callable[[Tensor, float], Tensor]
"""`vector_field(theta, t)`: the velocity at `theta` and time t, of the shape of `theta`."""


class FlowPath(NamedTuple):
    """A flow seen at chosen times.

    Attributes:
        times: `(T,)`, the times asked for.
        values: `(T, *shape)`, theta at these times; infinite from where the solver gave up.
        event_time: the first time at which the event changed sign, None if it never did.
        success: whether the solver reached the last time (False for a flow that blows up before).
    """

    times: Tensor
    values: Tensor
    event_time: float | None
    success: bool


def gradient_flow(
    vector_field: VectorField,
    theta0: Tensor,
    times: Sequence[float] | Tensor,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    method: Literal["DOP853", "LSODA"] = "DOP853",
    event: Callable[[Tensor, float], float | Tensor] | None = None,
    log_time: bool = False,
    max_evaluations: int = 1_000_000,
) -> FlowPath:
    r"""Integrate :math:`\dot\theta = v(\theta, t)`, :math:`\theta(0) = \theta_0`, with an adaptive step.

    With `log_time` the solver moves in :math:`s = \ln(1 + t)`, that is, it integrates
    :math:`d\theta/ds = (1 + t)\, v(\theta, t)`: the same path, with steps that grow like t. It is the choice
    for a path that slows down like 1/t (a margin that grows like ln t) and is to be followed over many
    decades. A path that relaxes exponentially becomes stiff in s: take `method="LSODA"` there.

    The solver works in float64 on the CPU; the field sees tensors of the dtype and device of `theta0`, which
    should be float64 for tolerances below 1e-6. A batch is integrated as one system with common steps: one
    run that blows up ends all, so integrate runs that may blow up one by one.

    Source: `scipy.integrate.solve_ivp`; DOP853 is Dormand and Prince's explicit method of order 8 (Hairer,
    Norsett and Wanner 1993, sec. II.5), LSODA switches between Adams' methods and backward differentiation
    (Petzold 1983).

    Args:
        vector_field: `vector_field(theta, t)`, minus the gradient for a gradient flow.
        theta0: floating point, any shape; the value at time 0.
        times: `(T,)`, increasing, >= 0, the last one > 0; where to report.
        rtol: tolerance of one step relative to theta, >= 100 eps = 2.3e-14 in float64 and >= 10 eps = 1.2e-6 in
            float32, where the field is rounded to eps and a smaller tolerance is never met. If left out, 1e-10 in
            float64 and 10 eps in others.
        atol: tolerance of one step in units of theta, >= 0. If left out, 1e-12 in float64 and `rtol` / 100 in others.
        method: "DOP853", or "LSODA" for stiff flows.
        event: `event(theta, t)`; the first change of its sign is located. The flow goes on behind it.
        log_time: integrate in ln(1 + t).
        max_evaluations: of the field; a path that needs more ends there, with `success` False.

    Returns:
        The path at these times, and where the event was.

    Raises:
        ValueError: `times`, `rtol`, `atol`, `method`, `max_evaluations` or the dtype of `theta0` is not one of those
            allowed, `theta0` or the field there is not finite, or the field has another shape than `theta0`
            or is not real.
    """
    grid = _times(times)
    require_count("max_evaluations", max_evaluations)
    if grid[-1] == 0:
        raise ValueError("times = [0]; allowed: a last time > 0")
    if not theta0.is_floating_point():
        raise ValueError(f"theta0 has dtype {theta0.dtype}; allowed: a floating point dtype")
    require_choice("method", method, ("DOP853", "LSODA"))
    require_finite("theta0", theta0)
    rtol, atol = _tolerances(theta0.dtype, rtol, atol)
    progress = _Progress(max_evaluations)

    def tensor(flat: NDArray[np.float64]) -> Tensor:
        return torch.as_tensor(flat.copy(), dtype=theta0.dtype, device=theta0.device).reshape(theta0.shape)

    def time(clock: float) -> float:
        return float(np.expm1(clock)) if log_time else clock

    def velocity(clock: float, flat: NDArray[np.float64]) -> NDArray[np.float64]:
        progress.evaluations += 1
        t = time(clock)
        field = vector_field(tensor(flat), t)
        _require_field(field, theta0.shape)
        return _flat(field) * ((1 + t) if log_time else 1.0)

    def crossing(clock: float, flat: NDArray[np.float64]) -> float:
        assert event is not None
        return float(event(tensor(flat), time(clock)))

    if not np.isfinite(velocity(0.0, _flat(theta0))).all():  # a first step could not be chosen
        raise ValueError(
            "vector_field at theta0 has entries that are NaN or infinite; allowed: finite numbers"
        )
    clocks = np.log1p(grid) if log_time else grid
    with np.errstate(over="ignore", invalid="ignore"):  # a blow-up is reported by `success`
        solution = solve_ivp(
            velocity,
            (0.0, clocks[-1]),
            _flat(theta0),
            method=method,
            t_eval=clocks,
            events=[progress] if event is None else [progress, crossing],
            rtol=rtol,
            atol=atol,
        )
    values = np.full((len(grid), theta0.numel()), np.inf)
    if len(solution.t):  # none where the path ends before the first time
        values[: len(solution.t)] = solution.y.T
    crossings = [] if event is None else solution.t_events[1]
    return FlowPath(
        torch.as_tensor(grid).to(theta0),
        torch.as_tensor(values).to(theta0).reshape(len(grid), *theta0.shape),
        time(float(crossings[0])) if len(crossings) else None,
        solution.status == 0,
    )


class _Progress:
    """The event that ends a solution: 1 after each step, and 0 for good after one that led nowhere.

    LSODA would go on for ever there. `solve_ivp` stops where an event that is `terminal` becomes 0.
    """

    terminal = True

    def __init__(self, most: int) -> None:
        self.evaluations, self._most = 0, most
        self._reached, self._stuck = -1.0, False

    def __call__(self, clock: float, flat: NDArray[np.float64]) -> float:
        nowhere = clock - self._reached <= 2 * np.spacing(abs(self._reached)) or not np.isfinite(flat).all()
        self._stuck = self._stuck or nowhere or self.evaluations > self._most
        self._reached = clock
        return 0.0 if self._stuck else 1.0


def _tolerances(dtype: torch.dtype, rtol: float | None, atol: float | None) -> tuple[float, float]:
    """Return the tolerances of `gradient_flow` for the dtype of its field, after checking those given."""
    double = dtype == torch.float64
    least = (100 if double else 10) * torch.finfo(dtype).eps
    rtol = (1e-10 if double else least) if rtol is None else rtol
    atol = (1e-12 if double else rtol / 100) if atol is None else atol
    if not least <= rtol < np.inf or not 0 <= atol < np.inf:
        raise ValueError(f"rtol = {rtol}, atol = {atol}; allowed: rtol >= {least:.1e}, atol >= 0")
    return rtol, atol


def _require_field(field: object, shape: torch.Size) -> None:
    """Raise a ValueError unless a field returned real numbers of a shape."""
    if not isinstance(field, Tensor) or field.is_complex():
        what = field.dtype if isinstance(field, Tensor) else type(field).__name__
        raise ValueError(f"vector_field is {what}; allowed: a real tensor")
    if field.shape != shape:
        raise ValueError(f"vector_field has shape {tuple(field.shape)}; allowed: {tuple(shape)}")


def linear_flow(A: Tensor, b: Tensor, theta0: Tensor, times: Sequence[float] | Tensor) -> Tensor:
    r"""Return the exact solution of :math:`\dot\theta = -(A\theta - b)`, :math:`\theta(0) = \theta_0`.

    In the eigenbasis :math:`A = Q\Lambda Q^\top` every coordinate is solved by variation of constants,

    .. math:: \tilde\theta_i(t) = e^{-\lambda_i t}\,\tilde\theta_i(0) + t\,\varphi(-\lambda_i t)\,\tilde b_i,
        \qquad \varphi(z) = \frac{e^z - 1}{z}, \quad \varphi(0) = 1,

    so that nothing is divided by zero along the null space: there theta moves as :math:`\theta_0 + t b`, at
    rest when b has no component in it. Eigenvalues below d eps max|lambda| (the rank rule of
    `torch.linalg.matrix_rank`) count as zero. Negative eigenvalues are allowed; the flow then grows.

    Source: Higham (2008), Functions of Matrices, sec. 2.1.

    Args:
        A: `(*batch, d, d)`, symmetric.
        b: `(*batch, d)`.
        theta0: `(*batch, d)`; batch axes broadcast.
        times: `(T,)`, increasing, >= 0.

    Returns:
        `(T, *batch, d)` in the dtype and on the device of A.

    Raises:
        ValueError: a is not square or not symmetric (to 100 d eps max|A|), or `times` is not increasing from
            >= 0.
    """
    d = require_tensors(A=(A, "*batch d d"), b=(b, "*batch d"), theta0=(theta0, "*batch d"), finite=True)["d"]
    require_symmetric("A", A)
    eps = torch.finfo(A.dtype).eps
    eigenvalues, Q = torch.linalg.eigh(A)
    null = eigenvalues.abs() <= d * eps * eigenvalues.abs().amax(-1, keepdim=True)
    rates = torch.where(null, torch.ones_like(eigenvalues), eigenvalues)

    axes = max(eigenvalues.ndim, theta0.ndim, b.ndim)
    t = torch.as_tensor(_times(times)).to(A).reshape(-1, *[1] * axes)
    decay = torch.where(null, torch.ones_like(t), torch.exp(-rates * t))
    drive = torch.where(null, t, -torch.expm1(-rates * t) / rates)  # t phi(-lambda t)
    start, source = ((Q.mT @ vector[..., None])[..., 0] for vector in (theta0, b))
    return torch.einsum("...ij,...j->...i", Q, decay * start + drive * source)  # copies Q for no time


def sampled_flow(
    field: Callable[[Tensor], Tensor],
    theta0: Tensor,
    time_step: float,
    steps: int,
    *,
    rtol: float = 1e-12,
    atol: float = 1e-14,
) -> Tensor:
    r"""Return :math:`\vartheta_k = \Phi_h^k(\theta_0)`, the flow of an autonomous field seen once a time step h.

    :math:`\Phi_h` is the time-h map of :math:`\dot\theta = v(\theta)`. With :math:`v = -\nabla\mathcal L` and h the
    step size these are the points that gradient descent should meet if it followed its flow.

    Source: Orvieto (2023), section 2.4.2; integrated by `gradient_flow`.

    Args:
        field: :math:`v`, of the shape of `theta0`; minus the gradient for a gradient flow.
        theta0: floating point, any shape; float64 for tolerances below 1e-6.
        time_step: h, not zero; negative to run backwards in time.
        steps: number K of time steps, >= 1.
        rtol: tolerance of one step of the integrator relative to theta, >= 2.3e-14.
        atol: tolerance of one step of the integrator in units of theta, >= 0.

    Returns:
        `(K + 1, *shape)`, theta0 first; infinite from where the flow blew up.

    Raises:
        ValueError: `time_step` is zero or not finite, `steps` < 1, or what `gradient_flow` refuses.
    """
    if time_step == 0 or not np.isfinite(time_step):
        raise ValueError(f"time_step = {time_step}; allowed: finite, not zero")
    require_count("steps", steps)
    sign = 1.0 if time_step > 0 else -1.0
    times = [abs(time_step) * k for k in range(steps + 1)]
    return gradient_flow(
        lambda theta, _: field(theta) if sign > 0 else -field(theta), theta0, times, rtol=rtol, atol=atol
    ).values


def modified_field(gradient: Callable[[Tensor], Tensor], step_size: float) -> Callable[[Tensor], Tensor]:
    r"""Return the field whose flow gradient descent with step size h follows to second order.

    .. math:: v_h(\theta) = -\nabla\mathcal L(\theta) - \tfrac h2\nabla^2\mathcal L(\theta)\nabla\mathcal L(\theta)
        = -\nabla\Bigl(\mathcal L + \tfrac h4\lVert\nabla\mathcal L\rVert^2\Bigr)(\theta).

    One step of gradient descent and the time-h map of this field differ by :math:`O(h^3)`, in place of the
    :math:`O(h^2)` of the gradient flow. The second term costs one Hessian-vector product.

    Source: backward error analysis of Euler's method, Hairer, Lubich & Wanner (2006), section IX.1; Barrett &
    Dherin (2021) for gradient descent.

    Args:
        gradient: :math:`\nabla\mathcal L`, made of torch operations.
        step_size: h, >= 0.

    Returns:
        :math:`v_h`, of the shape of its argument.

    Raises:
        ValueError: `step_size` is negative or not finite.
    """
    require_number("step_size", step_size, least=0)

    def field(theta: Tensor) -> Tensor:
        frozen = gradient(theta)
        return -(frozen + step_size / 2 * jvp(gradient, (theta,), (frozen,))[1])

    return field


class MomentumPath(NamedTuple):
    """A path with momentum seen at chosen times.

    Attributes:
        times: `(T,)`, the times asked for.
        values: `(T, *shape)`, theta at these times; infinite from where the solver gave up.
        velocities: `(T, *shape)`, the velocity there.
        event_time: the first time at which the event changed sign, None if it never did.
        success: whether the solver reached the last time.
    """

    times: Tensor
    values: Tensor
    velocities: Tensor
    event_time: float | None
    success: bool


def momentum_flow(
    gradient: Callable[[Tensor], Tensor],
    theta0: Tensor,
    times: Sequence[float] | Tensor,
    friction: float | Callable[[float], float],
    *,
    force: Callable[[float], float] | None = None,
    velocity0: Tensor | None = None,
    start: float | None = None,
    event: Callable[[Tensor, Tensor, float], float | Tensor] | None = None,
    rtol: float = 1e-10,
    atol: float = 1e-12,
    log_time: bool = False,
) -> MomentumPath:
    r"""Integrate :math:`\ddot\theta + a(t)\,\dot\theta + s(t)\,\nabla L(\theta) = 0` with an adaptive step.

    With :math:`a = 3/t` and s = 1 it is the limit of Nesterov's method at :math:`t = k\sqrt\eta` (Su, Boyd, Candes
    2016), with a constant friction that of the heavy ball (Polyak 1964). A friction that is infinite at time 0 is met
    by starting at a small positive time, at rest: the error is of the order of its square. It is solved by
    `gradient_flow` in position and velocity.

    Args:
        gradient: `gradient(theta)`, of the shape of theta.
        theta0: floating point, any shape; where the path starts.
        times: `(T,)`, increasing, none before the start, the last one after it.
        friction: a, a number, or a function of the time.
        force: s, a function of the time that multiplies the gradient; 1 if left out.
        velocity0: the shape of `theta0`; at rest if left out.
        start: the time of the start, >= 0; if left out 0 for a friction that is a number, 1e-6 for a function.
        event: `event(theta, velocity, t)`; the first change of its sign is located.
        rtol: as in `gradient_flow`.
        atol: as in `gradient_flow`.
        log_time: integrate in ln(1 + t - start), for paths over many decades.

    Returns:
        Positions and velocities at these times, and where the event was.

    Raises:
        ValueError: a time lies before the start, the start is negative, `velocity0` has another shape than `theta0`,
            or as in `gradient_flow`.
    """
    begin = (1e-6 if callable(friction) else 0.0) if start is None else float(start)
    if not begin >= 0:
        raise ValueError(f"start = {start}; allowed: >= 0")
    if velocity0 is not None and velocity0.shape != theta0.shape:
        raise ValueError(f"velocity0 has shape {tuple(velocity0.shape)}; allowed: {tuple(theta0.shape)}")
    grid = _times(times)
    if not grid[0] >= begin:
        raise ValueError(f"times = {grid[0]} at first; allowed: none before the start, {begin}")

    def field(state: Tensor, clock: float) -> Tensor:
        t = begin + clock
        theta, velocity = state
        pull = gradient(theta) if force is None else force(t) * gradient(theta)
        return torch.stack([velocity, -(friction(t) if callable(friction) else friction) * velocity - pull])

    path = gradient_flow(
        field,
        torch.stack([theta0, torch.zeros_like(theta0) if velocity0 is None else velocity0]),
        torch.as_tensor(grid - begin),
        rtol=rtol,
        atol=atol,
        event=None if event is None else (lambda state, clock: event(state[0], state[1], begin + clock)),
        log_time=log_time,
    )
    return MomentumPath(
        torch.as_tensor(grid).to(theta0),
        path.values[:, 0],
        path.values[:, 1],
        None if path.event_time is None else begin + path.event_time,
        path.success,
    )


def nesterov_flow_quadratic(
    H: Tensor, theta0: Tensor, times: Sequence[float] | Tensor, nu: float = 3.0
) -> MomentumPath:
    r"""Return the exact solution of :math:`\ddot\theta + \frac\nu t\dot\theta + H\theta = 0` from rest at time 0.

    With :math:`m = (\nu-1)/2` each coordinate in the eigenbasis of H is

    .. math:: \tilde\theta_i(t) = \tilde\theta_i(0)\,\Gamma(m+1)\,\frac{J_m(x)}{(x/2)^m}, \qquad
        x = \sqrt{\lambda_i}\,t,

    and its derivative follows from :math:`(J_m(x)/x^m)' = -J_{m+1}(x)/x^m`.

    Source: Su, Boyd, Candes (2016), sec. 3.2, for nu = 3; Watson (1944), sec. 3.2, for the derivative.

    Args:
        H: `(*batch, d, d)`, symmetric, no negative eigenvalue (beyond rounding, which counts as zero).
        theta0: `(*batch, d)`; batch axes broadcast.
        times: `(T,)`, increasing, >= 0.
        nu: the friction's numerator, > -1.

    Returns:
        Positions and velocities, `(T, *batch, d)`, in the dtype and on the device of H.

    Raises:
        ValueError: H is not square, not symmetric or has a negative eigenvalue, nu <= -1, or `times` is not increasing
            from >= 0.
    """
    d = require_tensors(H=(H, "*batch d d"), theta0=(theta0, "*batch d"), finite=True)["d"]
    require_symmetric("H", H)
    slack = 100 * d * torch.finfo(H.dtype).eps * H.abs().amax()
    eigenvalues, Q = torch.linalg.eigh(H)
    if not eigenvalues.amin() >= -slack:
        raise ValueError(f"H has the eigenvalue {eigenvalues.amin():.3g}; allowed: none below 0")
    require_number("nu", nu, above=-1)
    grid = _times(times)
    order = (nu - 1) / 2
    axes = max(eigenvalues.ndim, theta0.ndim)
    root = eigenvalues.detach().clamp(min=0).sqrt().to("cpu", torch.float64)
    root = root.reshape(*[1] * (axes - root.ndim), *root.shape).numpy()
    x = grid.reshape(-1, *[1] * axes) * root
    small = x < 1e-6
    safe = np.where(small, 1.0, x)
    scale = special.gamma(order + 1) / (safe / 2) ** order
    profile = np.where(small, 1 - x**2 / (4 * (order + 1)), scale * special.jv(order, safe))
    slope = np.where(small, -x / (2 * (order + 1)), -scale * special.jv(order + 1, safe)) * root
    start = (Q.mT @ theta0[..., None])[..., 0]

    def rotated(factor: NDArray[np.float64]) -> Tensor:
        return torch.einsum("...ij,...j->...i", Q, torch.as_tensor(factor).to(H) * start)

    return MomentumPath(torch.as_tensor(grid).to(H), rotated(profile), rotated(slope), None, True)


def flow_map(
    field: Callable[[Tensor], Tensor], theta: Tensor, time: float, *, rtol: float = 1e-11, atol: float = 1e-13
) -> Tensor:
    r"""Return :math:`\Phi_t(\theta)`, the point a time t later on the solution of :math:`\dot\theta=v(\theta)`.

    The time may be negative: :math:`\Phi_{-t}` undoes :math:`\Phi_t`. A batch of points moves as one system with common
    steps, as in `gradient_flow`.

    Source: Orvieto (2023), Definition A.1.4 and Proposition A.1.2.

    Args:
        field: `field(theta) -> (*shape)`, an autonomous vector field (minus the gradient for a gradient flow).
        theta: `(*shape)`, floating point; the points to move.
        time: t, finite, of either sign.
        rtol: tolerance of one step relative to theta, >= 2.3e-14.
        atol: tolerance of one step in units of theta, >= 0.

    Returns:
        `(*shape)`, in the dtype and on the device of theta; infinite where the solution does not reach the time t.

    Raises:
        ValueError: the time is not finite, or an argument is one that `gradient_flow` refuses.
    """
    require_number("time", time)
    if time == 0:
        return theta.clone()
    sign = 1.0 if time > 0 else -1.0
    path = gradient_flow(lambda point, t: sign * field(point), theta, [abs(time)], rtol=rtol, atol=atol)
    return path.values[-1]


class Sensitivity(NamedTuple):
    """Where a flow takes one point, and how it takes its neighbours.

    Attributes:
        value: `(d)`, the point a time t later.
        U: `(d, d)`, its derivative by the starting point.
    """

    value: Tensor
    U: Tensor


def sensitivity(
    field: Callable[[Tensor], Tensor],
    theta0: Tensor,
    time: float,
    *,
    rtol: float = 1e-11,
    atol: float = 1e-13,
) -> Sensitivity:
    r"""Return :math:`\Phi_t(\theta_0)` and :math:`U(t)=\partial\Phi_t/\partial\theta` at theta_0.

    U solves the variational equation, beside the flow,

    .. math:: \dot U = J_v(\Phi_t(\theta_0))\,U, \qquad U(0) = I,

    whose right side takes d forward derivatives of the field; no Jacobian of the solver is formed.

    Source: Orvieto (2023), Theorem A.1.4; Hairer, Norsett and Wanner (1993), sec. I.14.

    Args:
        field: `field(theta) -> (d)`, differentiable by `torch.func.jvp`.
        theta0: `(d)`, floating point.
        time: t, finite, of either sign.
        rtol: tolerance of one step, relative, >= 2.3e-14.
        atol: tolerance of one step, absolute, >= 0.

    Returns:
        The value `(d)` and U `(d, d)`; row i belongs to component i of the value.

    Raises:
        ValueError: `theta0` is no vector, or an argument is one that `flow_map` refuses.
    """
    if theta0.ndim != 1:
        raise ValueError(f"theta0 has shape {tuple(theta0.shape)}; allowed: (d)")

    def both(state: Tensor) -> Tensor:
        point, directions = (
            state[0],
            state[1:],
        )  # row 1 + j: how the point moves with component j of the start
        moved = vmap(lambda u: jvp(field, (point,), (u,))[1])(directions)
        return torch.cat([field(point)[None], moved])

    identity = torch.eye(len(theta0), dtype=theta0.dtype, device=theta0.device)
    end = flow_map(both, torch.cat([theta0[None], identity]), time, rtol=rtol, atol=atol)
    return Sensitivity(end[0], end[1:].mT)


class PicardPath(NamedTuple):
    """Picard's iterates on a grid of times.

    Attributes:
        times: `(nodes,)`, from 0 to the last time, denser at the ends.
        values: `(iterations + 1, nodes, d)`, the curves, the first one included.
    """

    times: Tensor
    values: Tensor


def picard(
    field: VectorField,
    theta0: Tensor,
    time: float,
    iterations: int,
    *,
    first: Callable[[float], Tensor] | None = None,
    nodes: int = 48,
) -> PicardPath:
    r"""Return Picard's iterates :math:`\theta^{(m+1)}(t)=\theta_0+\int_0^tv(\theta^{(m)}(s),s)\,ds`.

    Each curve is a polynomial through its values at Chebyshev's points of [0, time], and is integrated exactly as such.
    For an analytic field the error is rounding; near a point where the field is not smooth it falls only like a power
    of the number of nodes.

    Source: Picard (1890) and Lindelof (1894); Orvieto (2023), Theorem A.1.1. The integration: Trefethen (2013),
    Approximation Theory and Approximation Practice, ch. 19.

    Args:
        field: `field(theta, t) -> (d)`.
        theta0: `(d)`, floating point, the value at time 0.
        time: the last time, > 0.
        iterations: number of iterations, >= 0.
        first: `first(t) -> (d)`, the first curve; constantly `theta0` if left out.
        nodes: number of Chebyshev points, from 3 to 400.

    Returns:
        The times and the curves at them.

    Raises:
        ValueError: a number is out of range, or `theta0` is no vector.
    """
    require_tensors(theta0=(theta0, "d"))
    require_number("time", time, above=0)
    require_count("iterations", iterations, least=0)
    require_count("nodes", nodes, least=3, most=400)
    points = -np.cos(np.pi * np.arange(nodes) / (nodes - 1))
    # of the polynomial through them
    coefficients = np.linalg.inv(np.polynomial.chebyshev.chebvander(points, nodes - 1))
    integrals = np.polynomial.chebyshev.chebint(coefficients, lbnd=-1.0, axis=0) * time / 2
    integrate = torch.as_tensor(np.polynomial.chebyshev.chebval(points, integrals).T).to(theta0)
    times = [float(t) for t in (points + 1) * time / 2]
    curve = torch.stack([theta0 if first is None else first(t) for t in times])
    curves = [curve]
    for _ in range(iterations):
        velocity = torch.stack([field(theta, t) for theta, t in zip(curves[-1], times, strict=True)])
        curves.append(theta0 + integrate @ velocity)
    return PicardPath(torch.tensor(times, dtype=torch.float64).to(theta0), torch.stack(curves))


def _times(times: Sequence[float] | Tensor) -> NDArray[np.float64]:
    """Return the times as a float64 array after checking that they increase from >= 0."""
    found = require_numbers("times", times)
    if found.ndim > 1:
        raise ValueError(f"times has shape {tuple(found.shape)}; allowed: (T,)")
    grid = found.detach().reshape(-1).cpu().numpy()
    increasing = len(grid) > 0 and grid[0] >= 0 and (np.diff(grid) > 0).all() and np.isfinite(grid[-1])
    if not increasing:
        raise ValueError(f"times = {grid.tolist()}; allowed: finite, >= 0, strictly increasing, at least one")
    return grid


def _flat(values: Tensor) -> NDArray[np.float64]:
    return values.detach().to("cpu", torch.float64).reshape(-1).numpy()
