"""Matrices that are known by their products: `A @ v` with a shape, a dtype and a device."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor
from torch.func import vmap

from learning_dynamics._internal.arguments import require_count, require_generator
from learning_dynamics.curvature.conjugate_gradient import Solution, conjugate_gradient
from learning_dynamics.curvature.lanczos import Eigenpairs, SpectralDensity, spectral_density, top_eigenpairs
from learning_dynamics.curvature.network import plainly
from learning_dynamics.curvature.products import Product


class LinearOperator(ABC):
    """A real matrix of shape `(rows, columns)` without its entries.

    `A @ v` takes a vector `(columns)` or a block of vectors `(columns, k)`, whose products are computed
    together; `A.T` is the transpose.

    Attributes:
        shape: `(rows, columns)`.
        dtype: the parameters' dtype, which vectors must have.
        device: the parameters' device, where vectors must be.
    """

    def __init__(
        self, shape: tuple[int, int], like: Tensor, samples: int = 1, one_by_one: bool = False
    ) -> None:
        """Set what every operator has.

        Args:
            shape: `(rows, columns)`.
            like: a tensor of any shape, of the operator's dtype and device.
            samples: how many samples one product holds in memory; large batches take fewer columns at once.
            one_by_one: multiply the columns of a block one after the other, where that is faster.
        """
        self.shape = shape
        self._one_by_one = one_by_one
        self._columns_at_once = min(64, max(1, 2**17 // samples))
        self.dtype = like.dtype
        self.device = like.device

    @abstractmethod
    def _times(self, v: Tensor) -> Tensor:
        """Return A v `(rows)` for v `(columns)`."""

    @property
    @abstractmethod
    def T(self) -> LinearOperator:  # noqa: N802
        """The transpose."""

    def __matmul__(self, v: Tensor) -> Tensor:
        """Return A v `(rows)` or `(rows, k)`.

        Raises:
            ValueError: v is no vector or block of this operator's width, dtype and device.
        """
        if not isinstance(v, Tensor) or v.ndim not in (1, 2) or len(v) != self.shape[1] or 0 in v.shape:
            what = f"has shape {tuple(v.shape)}" if isinstance(v, Tensor) else f"is a {type(v).__name__}"
            raise ValueError(f"v {what}; allowed: a tensor ({self.shape[1]},) or ({self.shape[1]}, k)")
        if v.dtype != self.dtype or v.device != self.device:
            raise ValueError(f"v is {v.dtype} on {v.device}; allowed: {self.dtype} on {self.device}")
        v = v.detach()
        with plainly(self.device):
            if v.ndim == 1:
                return self._times(v)
            if v.shape[1] == 1 or self._one_by_one:
                return torch.stack([self._times(column) for column in v.T.contiguous()], 1)
            return vmap(self._times, in_dims=1, out_dims=1, chunk_size=self._columns_at_once)(v)

    def dense(self) -> Tensor:
        """Return the matrix with its entries, `(rows, columns)`, from the products with all unit vectors."""
        rows, columns = self.shape
        if rows < columns:
            return (self.T @ torch.eye(rows, dtype=self.dtype, device=self.device)).T
        return self @ torch.eye(columns, dtype=self.dtype, device=self.device)

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"{type(self).__name__}({rows} x {columns}, {self.dtype}, {self.device})"


class SymmetricOperator(LinearOperator):
    """A symmetric matrix `(d, d)`: what can be asked of it by products alone."""

    @property
    def T(self) -> SymmetricOperator:  # noqa: N802
        """The operator itself."""
        return self

    def diagonal(self, samples: int | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Return the diagonal `(d)`, exact or estimated.

        Args:
            samples: None for the exact diagonal, else the number of random sign vectors z in Hutchinson's
                estimate, the mean of z * (A z) (Bekas, Kokiopoulou and Saad 2007): unbiased; the variance of
                entry i is the sum of the squared A_ij, j != i, divided by `samples`.
            generator: where the signs are drawn from; needed with `samples`.

        Raises:
            ValueError: `samples` is below 1, or given without a generator.
        """
        if samples is None:
            return self._diagonal()
        signs = self._signs(samples, generator)
        return (signs * (self @ signs)).mean(1)

    def trace(self, samples: int | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Return the trace, exact (the sum of the exact diagonal) or by Hutchinson's estimate.

        Args:
            samples: None for the exact trace, else the number of random sign vectors (Hutchinson 1989).
            generator: where the signs are drawn from; needed with `samples`.

        Returns:
            A number `()`.

        Raises:
            ValueError: `samples` is below 1, or given without a generator.
        """
        return self.diagonal(samples, generator).sum()

    def top_eigenpairs(
        self,
        k: int = 1,
        *,
        tolerance: float | None = None,
        max_steps: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Eigenpairs:
        """Return the k algebraically largest eigenvalues with their vectors, by Lanczos' method; see `top_eigenpairs`.

        Args:
            k: how many, 1 to d.
            tolerance: relative residual; default 1e-8 in float64, 1e-4 in float32.
            max_steps: largest dimension of the Krylov space; default min(d, 300 + 10 k).
            generator: where the start vector is drawn from; by default it is the same at every call.

        Raises:
            ValueError: k, tolerance or max_steps is not as allowed.
        """
        return top_eigenpairs(self, k, self._start(generator), tolerance=tolerance, max_steps=max_steps)

    def top_eigenvalues(
        self,
        k: int = 1,
        *,
        tolerance: float | None = None,
        max_steps: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Return the k algebraically largest eigenvalues `(k)`, largest first.

        Args:
            k: how many, 1 to d.
            tolerance: relative residual; default 1e-8 in float64, 1e-4 in float32.
            max_steps: largest dimension of the Krylov space; default min(d, 300 + 10 k).
            generator: where the start vector is drawn from; by default it is the same at every call.

        Raises:
            RuntimeError: Lanczos did not reach the tolerance within `max_steps`; `top_eigenpairs` returns what it
                found with its residuals.
            ValueError: k, tolerance or max_steps is not as allowed.
        """
        found = self.top_eigenpairs(k, tolerance=tolerance, max_steps=max_steps, generator=generator)
        if not found.converged:
            worst = float(found.residuals.max())
            raise RuntimeError(f"the {k} largest eigenvalues did not converge: residual up to {worst:.1e}")
        return found.values

    def spectral_density(
        self, samples: int = 4, steps: int = 50, *, generator: torch.Generator
    ) -> SpectralDensity:
        """Return the distribution of the eigenvalues as weighted points; see `spectral_density`.

        Args:
            samples: number of random sign vectors.
            steps: quadrature points for each, 1 to d.
            generator: where the signs are drawn from.

        Raises:
            ValueError: no generator is given, or a number is out of range.
        """
        return spectral_density(self, self._signs(samples, generator), steps)

    def solve(
        self,
        b: Tensor,
        *,
        damping: float = 0.0,
        preconditioner: Product | None = None,
        tolerance: float | None = None,
        max_steps: int | None = None,
        start: Tensor | None = None,
    ) -> Solution:
        """Solve (A + damping I) x = b by conjugate gradients; see `conjugate_gradient`.

        Args:
            b: `(d)` or `(d, k)`, each column a system of its own.
            damping: added to the diagonal, >= 0.
            preconditioner: an operator, tensor or function near the inverse of A + damping I.
            tolerance: relative residual at which to stop.
            max_steps: give up after so many steps.
            start: `(d)` or `(d, k)`, where to start; zero if left out.

        Returns:
            The solution with its residuals.

        Raises:
            ValueError: as `conjugate_gradient`.
        """
        return conjugate_gradient(
            self,
            b,
            damping=damping,
            preconditioner=preconditioner,
            tolerance=tolerance,
            max_steps=max_steps,
            start=start,
        )

    def _diagonal(self) -> Tensor:
        """Return the diagonal from the products with all unit vectors, some at a time."""
        d, entries = self.shape[0], []
        for start in range(0, d, self._columns_at_once):
            at = torch.arange(start, min(start + self._columns_at_once, d), device=self.device)
            units = torch.zeros(d, len(at), dtype=self.dtype, device=self.device)
            units[at, at - start] = 1.0
            entries.append((self @ units)[at, at - start])
        return torch.cat(entries)

    def _signs(self, samples: int, generator: torch.Generator | None) -> Tensor:
        require_count("samples", samples)
        generator = require_generator(generator)
        bits = torch.randint(2, (self.shape[0], samples), generator=generator, device=generator.device)
        return (2 * bits - 1).to(self.device, self.dtype)

    def _start(self, generator: torch.Generator | None) -> Tensor:
        generator = generator or torch.Generator().manual_seed(0)
        start = torch.randn(self.shape[0], generator=generator, device=generator.device, dtype=self.dtype)
        return start.to(self.device)
