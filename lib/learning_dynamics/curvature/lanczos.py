"""Lanczos: a symmetric matrix seen through a Krylov space, its extreme eigenvalues and its density of eigenvalues."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import (
    require_count,
    require_finite,
    require_symmetric,
    require_tensors,
)
from learning_dynamics.curvature.products import Product, multiply

_RESTARTS = 0x5EED_1A7C_205  # far from the seeds of callers, whose start vectors must not come again


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

        Raises:
            ValueError: the grid is not real floating point of this shape.
        """
        require_tensors(grid=(grid, "g"))
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
    """Return the k algebraically largest eigenpairs, each as often as its multiplicity.

    The Krylov space grows until the k largest Ritz values have residuals below `tolerance` times the largest
    modulus seen. Of a multiple eigenvalue one such space holds one copy. So for k > 1 further spaces are built from
    random vectors in the complement of the pairs found, which hold the next copies, until one of them holds no
    larger value than the smallest found. For the smallest eigenvalues give `lambda v: -(A @ v)`.

    Source: restarts in the complement are the locking of Parlett, The Symmetric Eigenvalue Problem, sec. 13.10.

    Args:
        A: symmetric: an operator, tensor or function.
        k: how many, 1 to d.
        start: `(d)`, a random vector.
        tolerance: relative residual; default 1e-8 in float64, 1e-4 in float32.
        max_steps: dimension of one Krylov space at which to give up (`converged` is then False); default
            min(d, 300 + 10 k).

    Raises:
        ValueError: k, tolerance or max_steps is not as allowed; the products are not finite, or not those of a
            symmetric matrix.
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
        process.extend_by(max(k - process.size, 5))
        values, vectors, residuals = process.ritz(k)
        scale = max(process.scale, float(values.abs().max()))
        small = bool((residuals <= tolerance * scale).all())
        if process.size == max_steps or small:
            break
    found = Eigenpairs(values, vectors, residuals, small)
    if k == 1 or process.size == d:
        return found
    # fresh vectors in each round: what is found in an eigenspace is all that the last start had of it
    random = torch.Generator().manual_seed(_RESTARTS - k)
    while found.converged:
        fresh = torch.randn(d, generator=random, dtype=torch.float64, device=random.device).to(values)
        more = _copies(A, found, fresh, tolerance, scale, max_steps)
        if more is found:
            break
        found = more
    return found


def _copies(
    A: Product, found: Eigenpairs, start: Tensor, tolerance: float, scale: float, max_steps: int
) -> Eigenpairs:
    """Return the pairs after a search in the complement of those found; the very same where it holds no larger value.

    The search ends when what enters the k largest has converged and the first value that stays outside either has,
    too, or lies below the others by more than its residual.
    """
    d, k = found.vectors.shape
    if d == k:
        return found
    process = _Process(A, start, min(max_steps, d - k), found.vectors, scale)
    passed = False
    while True:
        process.extend_by(5)
        values, vectors, residuals = process.ritz(min(k + 1, process.size))
        pool = torch.cat([found.values, values])
        order = pool.argsort(descending=True, stable=True)[:k]
        least = pool[order[-1]]
        enters = int((order >= k).sum())
        converged = bool((residuals[:enters] <= tolerance * scale).all())
        if bool((pool[order] - found.values <= tolerance * scale).all()):  # nothing new but equal values
            enters, least = 0, found.values[-1]
        outside = slice(enters, enters + 1)
        small = residuals[outside] <= tolerance * scale
        clear = (values[outside] + residuals[outside] < least) & (
            residuals[outside] <= tolerance**0.5 * scale
        )
        passed, before = converged and bool((small | clear).all()) and process.size > enters, passed
        done = passed and before  # twice: a hidden neighbour of the value shows after a few more steps
        if done or process.size == min(max_steps, d - k):
            break
    settled = done or process.size == d - k
    if enters == 0:
        return found if settled else found._replace(converged=False)
    merged = torch.cat([found.vectors, vectors], 1)[:, order]
    products = multiply(A, merged)
    values = (merged * products).sum(0)
    order = values.argsort(descending=True, stable=True)
    values, merged, products = values[order], merged[:, order], products[:, order]
    residuals = torch.linalg.vector_norm(products - merged * values, dim=0)
    # a vector of the complement carries the residuals of those it was kept apart from
    near = bool((residuals <= (k + 1) ** 0.5 * tolerance * scale).all())
    return Eigenpairs(values, merged, residuals, near and settled)


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

    Raises:
        ValueError: starts are not real floating point of this shape, or as `lanczos`.
    """
    require_tensors(starts=(starts, "d samples"))
    points, weights = starts.new_zeros(2, starts.shape[1], steps)
    for row, start in enumerate(starts.T):
        found = lanczos(A, start, steps)
        values, vectors = found.eigenpairs()
        points[row, : len(values)], weights[row, : len(values)] = values, vectors[0].square()
    return SpectralDensity(points, weights)


class _Process:
    """The basis and the tridiagonal matrix while they grow, in the complement of some vectors."""

    def __init__(
        self, A: Product, start: Tensor, most: int, locked: Tensor | None = None, norm: float = 0.0
    ) -> None:
        self._A = A
        if isinstance(A, Tensor):
            _require_matrix(A, len(start))
        self._locked = locked
        self._basis = start.new_zeros(most, len(start))
        self._diagonal: list[Tensor] = []
        self._beside: list[Tensor] = []
        self.size = 0
        self.invariant = False
        self._norm = norm  # largest |A q| so far, a lower bound of the norm of A
        start = start.detach() if locked is None else self._orthogonal(start.detach())
        self._next = start / torch.linalg.vector_norm(start)

    @property
    def scale(self) -> float:
        """The largest modulus on the diagonal."""
        return float(torch.stack(self._diagonal).abs().max())

    def extend_by(self, count: int) -> None:
        """Add so many vectors, or as many as there is room for."""
        for _ in range(min(count, len(self._basis) - self.size)):
            self.extend()

    def extend(self) -> None:
        """Add one vector."""
        if self.invariant:
            self._restart()
        q = self._next
        self._basis[self.size] = q
        self.size += 1
        w = multiply(self._A, q)
        size = torch.linalg.vector_norm(w)
        if not torch.isfinite(size):
            raise ValueError("A @ v has entries that are NaN or infinite; allowed: finite products")
        self._diagonal.append(q @ w)
        self._norm = max(self._norm, float(size))
        self._require_symmetric(w)
        w = self._orthogonal(w)
        beside = torch.linalg.vector_norm(w)
        self.invariant = float(beside) <= 100 * torch.finfo(q.dtype).eps * self._norm
        self._beside.append(torch.zeros_like(beside) if self.invariant else beside)
        self._next = w / beside

    def ritz(self, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the k largest Ritz values `(k)` with vectors `(d, k)` and residuals `(k)`."""
        found = self.result()
        values, vectors = found.eigenpairs()
        values, vectors = values.flip(0)[:k], vectors.flip(1)[:, :k]
        return values, found.basis @ vectors, (found.off_diagonal[-1] * vectors[-1]).abs()

    def result(self) -> Tridiagonal:
        return Tridiagonal(self._basis[: self.size].T, torch.stack(self._diagonal), torch.stack(self._beside))

    def _require_symmetric(self, w: Tensor) -> None:
        """Refuse products whose projection on the basis is not the tridiagonal matrix that symmetry makes of it."""
        if self.size < 2:
            return
        row = self._basis[: self.size - 1] @ w
        row[-1] -= self._beside[-1]
        gap = float(row.abs().max())
        if gap > torch.finfo(w.dtype).eps ** 0.5 * self._norm:
            raise ValueError(
                f"A is not symmetric: u^T A v and v^T A u differ by {gap:.1e}; allowed: a symmetric matrix"
            )

    def _orthogonal(self, w: Tensor) -> Tensor:
        Q = self._basis[: self.size]
        for _ in range(2):
            if self._locked is not None:
                w = w - self._locked @ (self._locked.T @ w)
            w = w - Q.T @ (Q @ w)
        return w

    def _restart(self) -> None:
        """Go on in the complement of an invariant space, where copies of eigenvalues may still hide."""
        d = self._basis.shape[1]
        random = torch.Generator().manual_seed(_RESTARTS + self.size)
        w = self._orthogonal(
            torch.randn(d, generator=random, dtype=torch.float64, device=random.device).to(self._next)
        )
        self._next = w / torch.linalg.vector_norm(w)


def _require_start(start: Tensor) -> None:
    good = isinstance(start, Tensor) and start.ndim == 1 and start.dtype in (torch.float32, torch.float64)
    if not good or not torch.isfinite(start).all() or not start.any():
        what = f"{start.dtype} {tuple(start.shape)}" if isinstance(start, Tensor) else type(start).__name__
        raise ValueError(
            f"start = {what}; allowed: a vector (d) of finite numbers in float32 or float64, not all zero"
        )


def _require_matrix(A: Tensor, d: int) -> None:
    if A.shape != (d, d):
        raise ValueError(f"A has shape {tuple(A.shape)}; allowed: ({d}, {d}), as start")
    require_finite("A", A)
    require_symmetric("A", A)
