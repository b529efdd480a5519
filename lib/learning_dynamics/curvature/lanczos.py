"""Lanczos: a symmetric matrix seen through a Krylov space, its extreme eigenvalues and its density of eigenvalues."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import require_count
from learning_dynamics.curvature.products import Product, multiply


class Tridiagonal(NamedTuple):
    """A = Q T Q^T on a Krylov space.

    Attributes:
        basis: Q `(d, m)`, orthonormal columns.
        diagonal: `(m)`, the diagonal of T.
        off_diagonal: `(m)`, the entries beside it; the last one leads out of the space and is about zero when the
            space is invariant.
    """

    basis: Tensor
    diagonal: Tensor
    off_diagonal: Tensor

    def eigenpairs(self) -> tuple[Tensor, Tensor]:
        """Return T's eigenvalues `(m)`, increasing, and eigenvectors `(m, m)`."""
        beside = self.off_diagonal[:-1]
        T = torch.diag(self.diagonal) + torch.diag(beside, 1) + torch.diag(beside, -1)
        return torch.linalg.eigh(T)


class Eigenpairs(NamedTuple):
    """Eigenvalues with their vectors.

    Attributes:
        values: `(k)`, largest first.
        vectors: `(d, k)`, orthonormal.
        residuals: `(k)`, |A v - value v|: an eigenvalue of A lies within this distance of the value.
        converged: whether every residual reached the tolerance.
    """

    values: Tensor
    vectors: Tensor
    residuals: Tensor
    converged: bool


class SpectralDensity(NamedTuple):
    """A distribution of eigenvalues as weighted points.

    Attributes:
        points: `(samples, steps)`.
        weights: `(samples, steps)`, each row sums to one.
    """

    points: Tensor
    weights: Tensor

    def smoothed(self, grid: Tensor, width: float) -> Tensor:
        """Return the density, each point widened to a Gaussian.

        Args:
            grid: `(g)`, where to evaluate it.
            width: standard deviation of the Gaussian, in units of the eigenvalues.

        Returns:
            `(g)`.
        """
        bells = torch.exp(-0.5 * ((grid - self.points[..., None]) / width) ** 2) / (
            width * (2 * torch.pi) ** 0.5
        )
        return (self.weights[..., None] * bells).sum((0, 1)) / len(self.points)


def lanczos(A: Product, start: Tensor, steps: int) -> Tridiagonal:
    """Build an orthonormal basis of span(v, Av, ..., A^{steps-1} v), orthogonalizing fully (twice).

    Stops early when the space is invariant (the next vector is zero to rounding).

    Source: Golub and Van Loan, Matrix Computations, sec. 10.3; twice is enough (Parlett 1980).

    Args:
        A: symmetric: an operator, tensor or function.
        start: `(d)`, not zero.
        steps: dimension of the space, 1 to d.

    Returns:
        Basis and tridiagonal matrix, of the dimension reached.

    Raises:
        ValueError: start is no finite vector other than zero, or steps is not as allowed.
    """
    _require_start(start)
    require_count("steps", steps, most=len(start))
    process = _Process(A, start, steps)
    while process.size < steps and not process.invariant:
        process.extend()
    return process.result()


def top_eigenpairs(
    A: Product, k: int, start: Tensor, *, tolerance: float | None = None, max_steps: int | None = None
) -> Eigenpairs:
    """Return the k algebraically largest eigenpairs.

    The Krylov space grows until the k largest Ritz values have residuals below `tolerance` times the largest
    modulus seen. Of a multiple eigenvalue it holds one copy; more are found where the space becomes invariant
    and the search starts again in its complement. For the smallest eigenvalues give `lambda v: -(A @ v)`.

    Args:
        A: symmetric: an operator, tensor or function.
        k: how many, 1 to d.
        start: `(d)`, a random vector.
        tolerance: relative residual; default 1e-8 in float64, 1e-4 in float32.
        max_steps: dimension at which to give up (`converged` is then False); default min(d, 300 + 10 k).

    Raises:
        ValueError: k, tolerance or max_steps is not as allowed.
    """
    _require_start(start)
    d = len(start)
    require_count("k", k, most=d)
    tolerance = (1e-8 if start.dtype == torch.float64 else 1e-4) if tolerance is None else tolerance
    max_steps = min(d, 300 + 10 * k) if max_steps is None else min(d, max_steps)
    if not tolerance > 0 or max_steps < k:
        raise ValueError(f"tolerance = {tolerance}, max_steps = {max_steps}; allowed: > 0 and >= k = {k}")
    process = _Process(A, start, max_steps)
    while True:
        for _ in range(max(k - process.size, 5)):
            if process.size < max_steps:
                process.extend()
        found = process.result()
        values, vectors = found.eigenpairs()
        values, vectors = values.flip(0)[:k], vectors.flip(1)[:, :k]
        residuals = (found.off_diagonal[-1] * vectors[-1]).abs()
        scale = max(float(found.diagonal.abs().max()), float(values.abs().max()))
        small = bool((residuals <= tolerance * scale).all())
        if process.size == max_steps or small:
            return Eigenpairs(values, found.basis @ vectors, residuals, small)


def spectral_density(A: Product, starts: Tensor, steps: int) -> SpectralDensity:
    r"""Return the distribution of eigenvalues by stochastic Lanczos quadrature.

    For each start z the Ritz values are Gauss quadrature points of the eigenvalues, weighted by the squared overlap
    with z. With random signs the mean of :math:`\sum_j w_j f(\lambda_j)` over starts is
    :math:`tr f(A)/d` for every polynomial f of degree below 2 steps, in expectation.

    Source: Golub and Welsch (1969); Ubaru, Chen and Saad (2017).

    Args:
        A: symmetric: an operator, tensor or function.
        starts: `(d, samples)`, random signs.
        steps: quadrature points, 1 to d; a space that is invariant earlier fills up with weight zero.
    """
    points, weights = starts.new_zeros(2, starts.shape[1], steps)
    for row, start in enumerate(starts.T):
        found = lanczos(A, start, steps)
        values, vectors = found.eigenpairs()
        points[row, : len(values)], weights[row, : len(values)] = values, vectors[0].square()
    return SpectralDensity(points, weights)


class _Process:
    """The basis and the tridiagonal matrix while they grow."""

    def __init__(self, A: Product, start: Tensor, most: int) -> None:
        self._A = A
        self._basis = start.new_zeros(most, len(start))
        self._next = start.detach() / torch.linalg.vector_norm(start)
        self._diagonal: list[Tensor] = []
        self._beside: list[Tensor] = []
        self.size = 0
        self.invariant = False
        self._scale = 0.0  # largest |A q| so far, a lower bound of the norm of A

    def extend(self) -> None:
        """Add one vector."""
        if self.invariant:
            self._restart()
        q = self._next
        self._basis[self.size] = q
        self.size += 1
        w = multiply(self._A, q)
        size = torch.linalg.vector_norm(w)
        self._diagonal.append(q @ w)
        w = self._orthogonal(w)
        beside = torch.linalg.vector_norm(w)
        self._scale = max(self._scale, float(size))
        self.invariant = float(beside) <= 100 * torch.finfo(q.dtype).eps * self._scale
        self._beside.append(torch.zeros_like(beside) if self.invariant else beside)
        self._next = w / beside

    def result(self) -> Tridiagonal:
        return Tridiagonal(self._basis[: self.size].T, torch.stack(self._diagonal), torch.stack(self._beside))

    def _orthogonal(self, w: Tensor) -> Tensor:
        Q = self._basis[: self.size]
        for _ in range(2):
            w = w - Q.T @ (Q @ w)
        return w

    def _restart(self) -> None:
        """Go on in the complement of an invariant space, where copies of eigenvalues may still hide."""
        d = self._basis.shape[1]
        random = torch.Generator().manual_seed(self.size)
        w = self._orthogonal(torch.randn(d, generator=random, dtype=torch.float64).to(self._next))
        self._next = w / torch.linalg.vector_norm(w)


def _require_start(start: Tensor) -> None:
    good = isinstance(start, Tensor) and start.ndim == 1 and start.is_floating_point()
    if not good or not torch.isfinite(start).all() or not start.any():
        raise ValueError(
            f"start = {start!r}; allowed: a floating point vector (d) of finite numbers, not all zero"
        )
