r"""The hyperbolic entropy :math:`Q_\alpha`, its gradient, and its least value among the solutions of :math:`X\beta=y`.

The model :math:`f(x)=\langle\theta_+^2-\theta_-^2,x\rangle` trained by gradient flow from
:math:`\theta_+=\theta_-=\alpha` ends at the interpolant :math:`\beta` of least

.. math:: Q_\alpha(\beta)=\alpha^2\sum_i\psi(\beta_i/\alpha^2),\qquad
    \psi(z)=2-\sqrt{4+z^2}+z\operatorname{arcsinh}(z/2),\qquad
    [\nabla Q_\alpha(\beta)]_i=\operatorname{arcsinh}\frac{\beta_i}{2\alpha^2},

which is about :math:`\lVert\beta\rVert^2/4\alpha^2` for large and :math:`\lVert\beta\rVert_1\ln\alpha^{-2}` for small
alpha. Everywhere `alpha` is a number or a tensor that broadcasts against the weights `(*batch, d)`: one scale per
instance has the shape `(*batch, 1)`, one per coordinate `(*batch, d)`. Scales down to 1e-150 are fine: where
:math:`\alpha^2` would be lost next to :math:`\beta`, logarithms are added instead of numbers multiplied.

Source: Woodworth et al. (2020), Kernel and rich regimes in overparametrized models, theorem 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import (
    require_broadcast,
    require_numbers,
    require_tensors,
)

STAGE = 1.0  # largest change of ln(alpha) between two problems of a continuation


class LeastPotential(NamedTuple):
    """The interpolant of least potential, with its certificate.

    Attributes:
        weights: beta `(*batch, d)`.
        dual: nu `(*batch, n)`; X^T nu is the gradient of the potential at beta (minus that at the start).
        misfit: `(*batch)`, the largest entry of |X beta - y| over the largest of |X| |beta| + |y|.
        iterations: Newton steps taken over all stages.
    """

    weights: Tensor
    dual: Tensor
    misfit: Tensor
    iterations: int


def potential(beta: Tensor, alpha: float | Tensor, start: Tensor | None = None) -> Tensor:
    r"""Return :math:`Q_\alpha(\beta)`, or with `start` its Bregman divergence from there.

    Uses :math:`2-\sqrt{4+z^2}=-z^2/(2+\sqrt{4+z^2})`, so that neither small nor large arguments lose digits.

    Args:
        beta: `(*batch, d)`.
        alpha: positive; broadcasts against `beta`.
        start: beta(0) `(*batch, d)`; then the result is
            :math:`Q_\alpha(\beta)-Q_\alpha(\beta_0)-\langle\nabla Q_\alpha(\beta_0),\beta-\beta_0\rangle`.

    Returns:
        `(*batch)`.

    Raises:
        ValueError: `alpha` is not positive and finite.
    """
    scale = _scale(alpha, "beta", beta)
    if start is not None:
        require_tensors(beta=(beta, "*batch d"), start=(start, "*batch d"))
    c = 2 * scale.square()
    terms = beta.abs() * _arcsinh_ratio(beta, scale) - beta.square() / (c + torch.hypot(c, beta))
    value = terms.sum(-1)
    if start is None:
        return value
    return value - potential(start, scale) - (gradient(start, scale) * (beta - start)).sum(-1)


def gradient(beta: Tensor, alpha: float | Tensor) -> Tensor:
    r"""Return :math:`\nabla Q_\alpha(\beta)=\operatorname{arcsinh}(\beta/2\alpha^2)`, entry by entry.

    Args:
        beta: `(*batch, d)`.
        alpha: positive; broadcasts against `beta`.

    Raises:
        ValueError: `alpha` is not positive and finite.
    """
    scale = _scale(alpha, "beta", beta)
    return beta.sign() * _arcsinh_ratio(beta, scale)


def weights_of(slope: Tensor, alpha: float | Tensor) -> Tensor:
    r"""Return :math:`2\alpha^2\sinh(u)`, the weights at which the potential has the gradient `slope` = u.

    Args:
        slope: `(*batch, d)`.
        alpha: positive; broadcasts against `slope`.

    Raises:
        ValueError: `alpha` is not positive and finite.
    """
    return _weights(slope, 2 * _scale(alpha, "slope", slope).log())


def kernel_weights(beta: Tensor, alpha: float | Tensor) -> Tensor:
    r"""Return :math:`\theta_+^2+\theta_-^2=\sqrt{\beta^2+4\alpha^4}`; the tangent kernel is 4 X diag(of these) X^T.

    Args:
        beta: `(*batch, d)`.
        alpha: positive; broadcasts against `beta`.

    Returns:
        `(*batch, d)`.

    Raises:
        ValueError: `alpha` is not positive and finite.
    """
    return torch.hypot(beta, 2 * _scale(alpha, "beta", beta).square())


def from_parameters(positive: Tensor, negative: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return scale and weights of a general start: :math:`\alpha_i^2=[\theta_+]_i[\theta_-]_i` and beta(0).

    Args:
        positive: theta_+(0) `(*batch, d)`, no entry zero.
        negative: theta_-(0) `(*batch, d)`, no entry zero; signs do not matter.

    Returns:
        The scale alpha and the weights beta(0), each `(*batch, d)`.

    Raises:
        ValueError: the shapes differ or an entry is zero: it would stay zero for ever.
    """
    require_tensors(positive=(positive, "*batch d"), negative=(negative, "*batch d"))
    if positive.shape != negative.shape:
        raise ValueError(f"negative has shape {tuple(negative.shape)}; allowed: {tuple(positive.shape)}")
    if bool((positive == 0).any() | (negative == 0).any()):
        raise ValueError("positive and negative; allowed: no zero entries, they would stay zero")
    return (positive.abs().sqrt() * negative.abs().sqrt()), positive.square() - negative.square()


def least_potential(
    X: Tensor,
    y: Tensor,
    alpha: float | Tensor,
    start: Tensor | None = None,
    *,
    tolerance: float = 1e-14,
    max_steps: int = 60,
) -> LeastPotential:
    r"""Return the minimizer of :math:`Q_\alpha` (or of its Bregman divergence from `start`) on :math:`X\beta=y`.

    Newton's method on the n-dimensional dual :math:`D(\nu)=\sum_i2\alpha_i^2\cosh(x_i^\top\nu+c_i)-y^\top\nu`, with
    :math:`c=\operatorname{arcsinh}(\beta_0/2\alpha^2)`. With s the Newton direction and
    :math:`\delta=\max_i|x_i^\top s|` one has :math:`|D'''[s,s,s]|\le\delta D''[s,s]`, so that the step length
    :math:`\ln(1+\delta)/\delta` never increases D and tends to 1: no line search. Small alpha is reached from a large
    one, where the problem is a least-squares problem, along the tangent of :math:`\nu(\ln\alpha)`.

    Do not use it for n > d or dependent rows: then the dual has no unique solution.

    Args:
        X: `(*batch, n, d)`, independent rows, n <= d.
        y: `(*batch, n)`.
        alpha: positive; broadcasts against the weights `(*batch, d)`.
        start: beta(0), of a shape that broadcasts against the weights; zero if left out.
        tolerance: misfit at which to stop; rounding may end the iteration earlier.
        max_steps: most Newton steps on the last problem.

    Raises:
        ValueError: the shapes do not fit, n > d, the rows are dependent, or `alpha` is not positive and finite.
    """
    beta0, level = _problem(X, y, alpha, start)
    top = _linear_level(X, y, beta0)
    lift = (top[..., None] - level.amin(-1, keepdim=True)).clamp(min=0)  # (*batch, 1) in ln(alpha)
    stages = max(1, math.ceil(float(lift.max()) / STAGE)) if bool((lift > 0).any()) else 0
    nu = torch.zeros_like(_fit(X, beta0) + y)
    count = 0
    for k in range(stages):
        now, later = (level + lift * (1 - j / stages) for j in (k, k + 1))
        nu, used = _newton(X, y, nu, now, beta0, 1e-4, max_steps)
        nu = _predict(X, nu, now, later, beta0)
        count += used
    nu, used = _newton(X, y, nu, level, beta0, tolerance, max_steps)
    return _report(X, y, nu, level, beta0, count + used)


def least_potential_path(
    X: Tensor, y: Tensor, alphas: Sequence[float] | Tensor, *, tolerance: float = 1e-14, max_steps: int = 60
) -> LeastPotential:
    r"""Return `least_potential` for a decreasing list of scales, each problem started from the one before.

    Args:
        X: `(*batch, n, d)`, independent rows, n <= d.
        y: `(*batch, n)`.
        alphas: `(A,)`, positive, strictly decreasing; the same for all instances.
        tolerance: misfit at which to stop.
        max_steps: most Newton steps on one problem.

    Returns:
        As `least_potential`, with a leading axis A.

    Raises:
        ValueError: as `least_potential`, or `alphas` does not decrease.
    """
    require_tensors(X=(X, "*batch n d"), y=(y, "*batch n"))
    scales = require_numbers("alphas", alphas, X)
    if scales.ndim > 1 or scales.numel() == 0 or not bool((scales.reshape(-1).diff() < 0).all()):
        raise ValueError(f"alphas = {scales.tolist()}; allowed: (A,), strictly decreasing, at least one")
    scales = scales.reshape(-1)
    first = least_potential(X, y, scales[0].item(), tolerance=tolerance, max_steps=max_steps)
    found, count = [first], first.iterations
    nu, beta0 = first.dual, torch.zeros_like(first.weights)
    for one, two in pairwise(scales.log()):
        stages = math.ceil(float(one - two) / STAGE)
        for j in range(1, stages + 1):
            now, later = (torch.zeros_like(beta0) + one + (two - one) * i / stages for i in (j - 1, j))
            nu = _predict(X, nu, now, later, beta0)
            nu, used = _newton(X, y, nu, later, beta0, tolerance if j == stages else 1e-4, max_steps)
            count += used
        found.append(_report(X, y, nu, later, beta0, 0))
    weights, dual, misfit = (torch.stack(part) for part in zip(*(each[:3] for each in found), strict=True))
    return LeastPotential(weights, dual, misfit, count)


def _scale(alpha: float | Tensor, name: str, weights: Tensor) -> Tensor:
    """Return alpha as a tensor after checking it and the weights `(*batch, d)` against which it broadcasts."""
    given: dict[str, Any] = {name: (weights, "*batch d")}
    require_tensors(**given)
    scale = require_numbers("alpha", alpha, weights)
    require_broadcast("alpha", scale, weights.shape, enlarge=True)
    if not bool((scale > 0).all() & scale.isfinite().all()):
        raise ValueError(f"alpha = {scale.tolist()}; allowed: positive, finite numbers")
    return scale


def _arcsinh_ratio(beta: Tensor, scale: Tensor) -> Tensor:
    """Return arcsinh(|beta| / 2 alpha^2); beyond 1e8 it is ln(|beta| / alpha^2) to the last digit."""
    once = beta.abs() / scale
    far = once > 2e8 * scale
    ratio = torch.where(far, torch.zeros_like(once), once / (2 * scale))
    logarithm = torch.where(far, once, torch.ones_like(once)).log() - scale.log()
    return torch.where(far, logarithm, torch.asinh(ratio))


def _weights(slope: Tensor, log_square: Tensor) -> Tensor:
    size = slope.abs()
    return -slope.sign() * torch.exp(size + log_square) * torch.expm1(-2 * size)


def _curvature(slope: Tensor, log_square: Tensor) -> Tensor:
    size = slope.abs()
    return torch.exp(size + log_square) * (1 + torch.exp(-2 * size))


def _fit(X: Tensor, beta: Tensor) -> Tensor:
    return (X @ beta[..., None]).squeeze(-1)


def _problem(X: Tensor, y: Tensor, alpha: float | Tensor, start: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return beta(0) and ln(alpha), both `(*batch, d)`, after checking the shapes."""
    n, d = require_tensors(X=(X, "*batch n d"), y=(y, "*batch n"), finite=True).values()
    if start is not None:
        require_tensors(X=(X, "*batch n d"), start=(start, "*batch d"), finite=True)
    if n > d:
        raise ValueError(f"X has shape {tuple(X.shape)}; allowed: at most as many samples n as weights d")
    singular = torch.linalg.svdvals(X)
    if not bool((singular[..., -1] > d * torch.finfo(X.dtype).eps * singular[..., 0]).all()):
        raise ValueError(f"X (n = {n}, d = {d}) is rank deficient; allowed: independent rows")
    scale = require_numbers("alpha", alpha, X)
    if not bool((scale > 0).all() & scale.isfinite().all()):
        raise ValueError(f"alpha = {scale.tolist()}; allowed: positive, finite numbers")
    shapes = tuple(scale.shape), None if start is None else tuple(start.shape)
    try:
        batch = torch.broadcast_shapes(
            X.shape[:-2], y.shape[:-1], scale.shape[:-1], () if start is None else start.shape[:-1]
        )
        beta0 = torch.zeros(*batch, d, dtype=X.dtype, device=X.device) + (0 if start is None else start)
        level = torch.zeros_like(beta0) + scale.log()
    except RuntimeError as error:
        raise ValueError(
            f"alpha and start have shapes {shapes}; allowed: broadcasting against (*batch, {d})"
        ) from error
    if beta0.shape != (*batch, d) or level.shape != (*batch, d):
        raise ValueError(f"alpha, start = {shapes}; allowed: at most (*batch, {d})")
    return beta0, level


def _linear_level(X: Tensor, y: Tensor, beta0: Tensor) -> Tensor:
    """Return ln(alpha) from which on the potential is nearly quadratic at the solution, `(*batch)`."""
    Q, R = torch.linalg.qr(X.mT)
    missing = (y - _fit(X, beta0))[..., None]
    nearest = (Q @ torch.linalg.solve_triangular(R.mT, missing, upper=False)).squeeze(-1)
    size = (nearest.abs() + beta0.abs()).amax(-1)
    return 0.5 * size.clamp(min=torch.finfo(X.dtype).tiny).log()


def _state(X: Tensor, nu: Tensor, level: Tensor, beta0: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return slope X^T nu + c, weights and curvature at nu."""
    offset = beta0.sign() * _arcsinh_ratio(beta0, level.exp())
    slope = (nu[..., None, :] @ X).squeeze(-2) + offset
    return slope, _weights(slope, 2 * level), _curvature(slope, 2 * level)


def _solve(X: Tensor, curvature: Tensor, right: Tensor) -> Tensor:
    """Solve X diag(curvature) X^T s = right; the diagonal is lifted by rounding where the factorization needs it."""
    H = (X * curvature[..., None, :]) @ X.mT
    factor, failed = torch.linalg.cholesky_ex(H)
    if bool((failed != 0).any()):
        lift = (failed != 0) * 10 * H.shape[-1] * torch.finfo(H.dtype).eps
        largest = H.diagonal(dim1=-2, dim2=-1).amax(-1)
        H = H + (lift * largest)[..., None, None] * torch.eye(H.shape[-1], dtype=H.dtype, device=H.device)
        factor = torch.linalg.cholesky(H)
    return torch.cholesky_solve(right[..., None], factor).squeeze(-1)


def _misfit(X: Tensor, y: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    residual = y - _fit(X, beta)
    size = (_fit(X.abs(), beta.abs()) + y.abs()).amax(-1)
    return residual, residual.abs().amax(-1) / size.clamp(min=torch.finfo(X.dtype).tiny)


def _newton(
    X: Tensor, y: Tensor, nu: Tensor, level: Tensor, beta0: Tensor, tolerance: float, max_steps: int
) -> tuple[Tensor, int]:
    """Take damped Newton steps on the dual until every instance fits, or no longer improves."""
    best, least, stuck = nu, torch.full_like(nu[..., 0], torch.inf), 0
    for k in range(max_steps):
        _, beta, curvature = _state(X, nu, level, beta0)
        residual, misfit = _misfit(X, y, beta)
        better = misfit < least
        best, least = torch.where(better[..., None], nu, best), torch.where(better, misfit, least)
        stuck = 0 if bool((better & (least > tolerance)).any()) else stuck + 1
        if bool((least <= tolerance).all()) or (stuck > 3 and bool((least < 1e-12).all())):
            return best, k
        step = _solve(X, curvature, residual)
        change = (step[..., None, :] @ X).abs().squeeze(-2).amax(-1, keepdim=True).clamp(min=1e-300)
        nu = nu + torch.log1p(change) / change * step
    return best, max_steps


def _predict(X: Tensor, nu: Tensor, now: Tensor, later: Tensor, beta0: Tensor) -> Tensor:
    r"""Follow the tangent of nu in h = ln(alpha^2): from X beta = y, X diag(w) (X^T nu' + c') = -X beta."""
    _, beta, curvature = _state(X, nu, now, beta0)
    ratio = beta0 / torch.hypot(beta0, 2 * (2 * now).exp())  # minus c'
    slope = _solve(X, curvature, -_fit(X, beta - curvature * ratio))
    return nu + 2 * (later - now)[..., :1] * slope


def _report(X: Tensor, y: Tensor, nu: Tensor, level: Tensor, beta0: Tensor, count: int) -> LeastPotential:
    _, beta, _ = _state(X, nu, level, beta0)
    return LeastPotential(beta, nu, _misfit(X, y, beta)[1], count)
