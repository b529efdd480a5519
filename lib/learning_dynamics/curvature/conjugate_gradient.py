"""Conjugate gradients for symmetric positive definite systems that are known by products."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import require_finite
from learning_dynamics.curvature.products import Product, multiply


class Solution(NamedTuple):
    """What conjugate gradients found.

    Attributes:
        x: `(d)` or `(d, k)`, the solution.
        steps: how many products with A were needed after the first residual.
        residual: the relative residual |b - (A + damping I) x| / |b|, `()` or `(k)`, recomputed from x.
        converged: whether this residual is within the tolerance, `()` or `(k)`.
        indefinite: whether a direction p with p^T (A + damping I) p <= 0 was met, where the column stops; `()` or
            `(k)`.
    """

    x: Tensor
    steps: int
    residual: Tensor
    converged: Tensor
    indefinite: Tensor


def conjugate_gradient(
    A: Product,
    b: Tensor,
    *,
    damping: float = 0.0,
    preconditioner: Product | None = None,
    tolerance: float | None = None,
    max_steps: int | None = None,
    start: Tensor | None = None,
) -> Solution:
    r"""Solve :math:`(A + \lambda I) x = b`, each column of a block by itself, with products shared.

    After k steps x minimizes the quadratic :math:`\frac12 x^\top (A + \lambda I) x - b^\top x` over the start plus the
    Krylov space of dimension k; the error in the energy norm falls at least like
    :math:`2((\sqrt\kappa - 1)/(\sqrt\kappa + 1))^k`.

    Source: Hestenes and Stiefel (1952); Golub and Van Loan, Matrix Computations, algorithm 11.5.1.

    Args:
        A: symmetric, A + damping I positive definite on the Krylov space: an operator, tensor or function.
        b: `(d)` or `(d, k)`.
        damping: lambda >= 0.
        preconditioner: an approximation of the inverse of A + damping I, symmetric positive definite; as a function
            it sees residuals of the shape of b, such as `lambda r: (r.T / diagonal).T`.
        tolerance: stop a column at this relative residual; default 1e-10 in float64, 1e-5 in float32.
        max_steps: give up after this many steps; default 10 d, at most 1000.
        start: first x, of the shape of b; default zero.

    Returns:
        The solution with its residual; a column that did not converge says so and is not hidden.

    Raises:
        ValueError: b is no vector or block of finite numbers in float32 or float64; damping, tolerance, max_steps or
            start is not as allowed; a product has another shape or dtype than b; the preconditioner is not positive
            definite.
    """
    if not isinstance(b, Tensor) or b.ndim not in (1, 2) or b.dtype not in (torch.float32, torch.float64):
        what = f"{b.dtype} {tuple(b.shape)}" if isinstance(b, Tensor) else type(b).__name__
        raise ValueError(f"b = {what}; allowed: a float32 or float64 tensor (d) or (d, k)")
    if b.numel() == 0:
        raise ValueError(f"b has shape {tuple(b.shape)}; allowed: (d) or (d, k), none of these zero")
    require_finite("b", b)
    if not damping >= 0:
        raise ValueError(f"damping = {damping}; allowed: >= 0")
    tolerance = (1e-10 if b.dtype == torch.float64 else 1e-5) if tolerance is None else tolerance
    max_steps = min(10 * len(b), 1000) if max_steps is None else max_steps
    if not tolerance > 0 or not max_steps >= 0:
        raise ValueError(f"tolerance = {tolerance}, max_steps = {max_steps}; allowed: > 0 and >= 0")
    if start is not None and (start.shape != b.shape or start.dtype != b.dtype or start.device != b.device):
        raise ValueError(f"start is {start.dtype} {tuple(start.shape)}; allowed: {b.dtype} {tuple(b.shape)}")

    def times(v: Tensor) -> Tensor:
        return multiply(A, v) + damping * v

    def precondition(r: Tensor) -> Tensor:
        return r if preconditioner is None else multiply(preconditioner, r)

    x = torch.zeros_like(b) if start is None else start.detach().clone()
    size = torch.linalg.vector_norm(b, dim=0)
    enough = 0.5 * tolerance * size  # half, so that rounding in the running residual does not decide
    r = b - times(x) if start is not None else b.clone()
    z = precondition(r)
    p, rz = z, (r * z).sum(0)
    indefinite = torch.zeros_like(size, dtype=torch.bool)
    steps = 0
    active = torch.linalg.vector_norm(r, dim=0) > enough
    while steps < max_steps and active.any():
        if (active & (rz <= 0)).any():
            raise ValueError(
                "preconditioner is not positive definite: r^T P r <= 0; allowed: positive definite"
            )
        Ap = times(p)
        curvature = (p * Ap).sum(0)
        indefinite |= active & ~(curvature > 0)
        active &= curvature > 0
        alpha = torch.where(active, rz / torch.where(active, curvature, 1.0), 0.0)
        x, r = x + alpha * p, r - alpha * Ap
        z = precondition(r)
        rz_next = (r * z).sum(0)
        p = z + torch.where(active, rz_next / torch.where(active, rz, 1.0), 0.0) * p
        rz = rz_next
        steps += 1
        active &= torch.linalg.vector_norm(r, dim=0) > enough
    residual = torch.linalg.vector_norm(b - times(x), dim=0)
    relative = torch.where(size > 0, residual / torch.where(size > 0, size, 1.0), residual)
    return Solution(x, steps, relative, relative <= tolerance, indefinite)
