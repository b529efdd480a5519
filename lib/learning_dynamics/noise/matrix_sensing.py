r"""Matrix sensing: a matrix of low rank, found as :math:`UU^\top` from a few of its inner products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import (
    require_count,
    require_counts,
    require_generator,
    require_symmetric,
    require_tensors,
)


@dataclass(frozen=True, eq=False)
class MatrixSensing:
    r"""The loss :math:`\mathcal L(U)=\frac1{2n}\sum_i(\langle X_i,UU^\top\rangle-y_i)^2` of a factor U `(size, m)`.

    Several problems of one size are leading axes; runs on them are further axes in front. The parameters are flat,
    `theta (*runs, *problems, size * m)`, row by row of U, so that they fit `ensembles.iterate`; m is read from them.
    With m = size the problem has more unknowns than samples, and many factors have the loss zero; the trace of the
    Hessian tells them apart (Orvieto 2023, section 6.3).

    Args:
        measurements: `(*problems, n, size, size)`, the symmetric matrices X_i.
        targets: `(*problems, n)`, the numbers y_i.

    Raises:
        ValueError: the tensors do not fit together, are not finite, or a matrix is not symmetric.
    """

    measurements: Tensor
    targets: Tensor

    def __post_init__(self) -> None:
        """Check the arguments."""
        require_tensors(
            finite=True,
            measurements=(self.measurements, "*problems n size size"),
            targets=(self.targets, "*problems n"),
        )
        if self.measurements.shape[:-2] != self.targets.shape:
            raise ValueError(
                f"targets has shape {tuple(self.targets.shape)}; allowed: {tuple(self.measurements.shape[:-2])}"
            )
        require_symmetric("measurements", self.measurements)

    @property
    def size(self) -> int:
        """Return the number of rows of the factor."""
        return self.measurements.shape[-1]

    def factor(self, theta: Tensor) -> Tensor:
        """Return the factor U `(*runs, *problems, size, m)` of the flat parameters.

        Args:
            theta: `(*runs, *problems, size * m)`, the parameters.

        Returns:
            `(*runs, *problems, size, m)`, a view of them.

        Raises:
            ValueError: the length is no multiple of the size, the problems' axes do not end the leading ones, or the
                dtype or device is not that of the measurements.
        """
        problems = self.targets.shape[:-1]
        fits = theta.ndim > len(problems) and theta.shape[-1] % self.size == 0 and theta.shape[-1] > 0
        if not fits or theta.shape[theta.ndim - 1 - len(problems) : -1] != problems:
            raise ValueError(
                f"theta has shape {tuple(theta.shape)}; allowed: (*runs, *{tuple(problems)}, {self.size} m)"
            )
        like = self.measurements
        if theta.dtype != like.dtype or theta.device != like.device:
            raise ValueError(
                f"theta is {theta.dtype} on {theta.device}; allowed: {like.dtype} on {like.device}, as measurements"
            )
        return theta.unflatten(-1, (self.size, -1))

    def residual(self, theta: Tensor) -> Tensor:
        r"""Return :math:`\langle X_i,UU^\top\rangle-y_i`.

        Args:
            theta: `(*runs, *problems, size * m)`, the parameters.

        Returns:
            `(*runs, *problems, n)`.

        Raises:
            ValueError: see `factor`.
        """
        U = self.factor(theta)
        X, product = self._flat(U @ U.mT)
        return torch.einsum("snk,lsk->lsn", X, product).reshape(*U.shape[:-2], X.shape[1]) - self.targets

    def loss(self, theta: Tensor) -> Tensor:
        """Return the loss `(*runs, *problems)`.

        Args:
            theta: `(*runs, *problems, size * m)`, the parameters.

        Returns:
            `(*runs, *problems)`.

        Raises:
            ValueError: see `factor`.
        """
        return self.residual(theta).square().mean(-1) / 2

    def gradient(self, theta: Tensor) -> Tensor:
        r"""Return the gradient :math:`\frac2n\sum_ir_iX_iU`.

        Args:
            theta: `(*runs, *problems, size * m)`, the parameters.

        Returns:
            `(*runs, *problems, size * m)`, flat like the parameters.

        Raises:
            ValueError: see `factor`.
        """
        U = self.factor(theta)
        return (2 * self._weighted(self.residual(theta)) @ U).flatten(-2)

    def trace(self, theta: Tensor) -> Tensor:
        r"""Return the trace of the Hessian.

        It is :math:`\frac4n\sum_i\lVert X_iU\rVert_F^2+\frac{2m}n\sum_ir_i\,\mathrm{tr}X_i`.

        Args:
            theta: `(*runs, *problems, size * m)`, the parameters.

        Returns:
            `(*runs, *problems)`.

        Raises:
            ValueError: see `factor`.
        """
        U = self.factor(theta)
        square = (self.measurements @ self.measurements).mean(-3)  # mean of X_i² (*problems, size, size)
        bend = self._weighted(self.residual(theta)).diagonal(dim1=-2, dim2=-1).sum(-1)
        return 4 * (U * (square @ U)).sum((-2, -1)) + 2 * U.shape[-1] * bend

    def hessian(self, theta: Tensor) -> Tensor:
        r"""Return the Hessian, :math:`\frac1nJ^\top J+\frac2n\sum_ir_iX_i\otimes I_m` with rows :math:`J_i=2X_iU`.

        Args:
            theta: `(*runs, *problems, size * m)`, the parameters.

        Returns:
            `(*runs, *problems, size * m, size * m)`.

        Raises:
            ValueError: see `factor`.
        """
        U = self.factor(theta)
        J = 2 * (self.measurements @ U[..., None, :, :]).flatten(-2)  # (*runs, *problems, n, size m)
        eye = torch.eye(U.shape[-1], dtype=U.dtype, device=U.device)
        weighted = 2 * self._weighted(self.residual(theta))
        bend = (weighted[..., :, None, :, None] * eye[:, None, :]).flatten(-4, -3).flatten(-2)
        return J.mT @ J / J.shape[-2] + bend

    def largest_eigenvalue(self, theta: Tensor) -> Tensor:
        """Return the largest eigenvalue of the Hessian; infinite for a run that is not finite.

        Args:
            theta: `(*runs, *problems, size * m)`, the parameters.

        Returns:
            `(*runs, *problems)`.

        Raises:
            ValueError: see `factor`.
        """
        H = self.hessian(theta)
        alive = H.isfinite().all((-2, -1)) if H.numel() else H.new_ones(H.shape[:-2], dtype=torch.bool)
        H = torch.where(alive[..., None, None], H, torch.eye(H.shape[-1], dtype=H.dtype, device=H.device))
        return torch.where(alive, torch.linalg.eigvalsh(H)[..., -1], math.inf)

    def _weighted(self, r: Tensor) -> Tensor:
        """The matrices (1/n) Σ r_i X_i `(*runs, *problems, size, size)`."""
        X = self.measurements.reshape(-1, r.shape[-1], self.size**2)
        runs = r.reshape(r.numel() // X[..., 0].numel(), X.shape[0], r.shape[-1])
        mean = torch.einsum("lsn,snk->lsk", runs, X) / r.shape[-1]
        return mean.reshape(*r.shape[:-1], self.size, self.size)

    def _flat(self, product: Tensor) -> tuple[Tensor, Tensor]:
        """The measurements `(problems, n, size²)` and the products `(runs, problems, size²)`."""
        X = self.measurements.reshape(-1, self.measurements.shape[-3], self.size**2)
        runs = product.numel() // X[:, 0].numel()
        return X, product.reshape(runs, X.shape[0], self.size**2)


def gaussian_sensing(
    n: int,
    size: int,
    rank: int,
    generators: Sequence[torch.Generator],
    *,
    dtype: torch.dtype = torch.float64,
) -> tuple[MatrixSensing, Tensor]:
    r"""Return random problems, one a generator, and the matrix that each of them hides.

    The measurements are the symmetric parts of Gaussian matrices; the truth is :math:`GG^\top` with G Gaussian
    `(size, rank)`, scaled to the Frobenius norm one.

    Args:
        n: number of measurements, >= 1.
        size: rows of the matrices, >= 1.
        rank: rank of the truth, from 1 to `size`.
        generators: sources of the problems, all on one device, at least one.
        dtype: of the tensors.

    Returns:
        The problems, with one leading axis `(problems)`, and the truths `(problems, size, size)`.

    Raises:
        ValueError: an argument is not as described.
    """
    require_counts(n=n, size=size)
    require_count("rank", rank, most=size)
    if not generators:
        raise ValueError("generators = (); allowed: at least one")
    measurements, truths = [], []
    for generator in generators:
        require_generator(generator)
        device = generator.device
        X = torch.randn(n, size, size, generator=generator, dtype=dtype, device=device)
        G = torch.randn(size, rank, generator=generator, dtype=dtype, device=device)
        measurements.append((X + X.mT) / 2)
        truths.append(G @ G.mT / torch.linalg.matrix_norm(G @ G.mT))
    X, truth = torch.stack(measurements), torch.stack(truths)
    return MatrixSensing(X, torch.einsum("snij,sij->sn", X, truth)), truth
