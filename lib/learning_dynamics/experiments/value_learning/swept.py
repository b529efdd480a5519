"""Implicit weights of many features, whose solves are sweeps from the last solution in the place of factorizations.

For the CPU, in NumPy on the memory of the tensors: its calls cost a third of PyTorch's, and its exponential half.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from learning_dynamics.experiments.value_learning.models import Implicit, ImplicitActions

MOST_SWEEPS = 60


class Sweeps(NamedTuple):
    r"""Solves with :math:`A=I-\hat\gamma S` and its transpose, for one matrix.

    With :math:`S=\mathrm{diag}(s)+N`, :math:`D=I-\hat\gamma\,\mathrm{diag}(s)` and
    :math:`M=\hat\gamma D^{-1}N` one has :math:`A=D(I-M)`. A sweep for :math:`A\beta=u` is
    :math:`\beta\leftarrow D^{-1}u+M\beta`, one for :math:`A^\top a=g` is :math:`Da\leftarrow g+M^\top Da`.
    While the rows of N are nearly proportional to each other, one direction of the error shrinks slowly and all others
    at once. The left eigenvector of M sees that direction, and each sweep takes it out. What does not settle is solved
    by factorization.

    Attributes:
        M: `(d, d)`, with zeros on the diagonal.
        s: `(d,)`, the diagonal of S.
        D: `(d,)`.
        left: `(d,)`, about the dominant left eigenvector of M, with sum 1.
        of_left: `(d,)`, the product of the transpose of M with `left`.
        of_ones: `(d,)`, the product of M with the ones.
        gap: left (I - M) 1.
    """

    M: np.ndarray
    s: np.ndarray
    D: np.ndarray
    left: np.ndarray
    of_left: np.ndarray
    of_ones: np.ndarray
    gap: float

    @classmethod
    def of(cls, rows: np.ndarray, total: np.ndarray, discount: float, left: np.ndarray) -> Sweeps:
        """Return the solver of a matrix.

        Args:
            rows: `(d, d)`, the rows of S times `total`; changed in place into M.
            total: `(d,)`, their sums.
            discount: in [0, 1).
            left: `(d,)`, the attribute of the matrix before, or positive numbers with sum 1.
        """
        diagonal = rows.reshape(-1)[:: len(rows) + 1]
        s = diagonal / total
        diagonal[:] = 0
        D = 1 - discount * s
        rows *= (discount / (D * total))[:, None]
        left = left @ rows
        left /= left.sum()
        of_ones = discount * (1 - s) / D
        return cls(rows, s, D, left, left @ rows, of_ones, float(left @ (1 - of_ones)))

    def solve(self, right: np.ndarray, start: np.ndarray, tolerance: float) -> np.ndarray:
        """Return the solution of A x = right.

        Args:
            right: `(d,)`.
            start: `(d,)`, where the sweeps begin.
            tolerance: they end when one changes no entry by more than this, relative to the largest.
        """
        scaled, x, size = right / self.D, start, math.inf
        for k in range(MOST_SWEEPS):
            y = self.M @ x
            y += scaled
            change = y - x
            y += self.of_ones * (self.left @ change / self.gap)
            x = y
            if k == 1:
                size = np.abs(x).max()
            if k > 0 and not np.abs(change).max() > tolerance * size:  # so too if the run has diverged to nan
                return x
        return np.linalg.solve(self._matrix(), right).astype(right.dtype)

    def solve_transposed(self, right: np.ndarray, tolerance: float) -> np.ndarray:
        """Return D a for the solution a of A' a = right.

        Args:
            right: `(d,)`.
            tolerance: as in `solve`.
        """
        x, size = right + self.of_left * (right.sum() / self.gap), math.inf
        for k in range(MOST_SWEEPS):
            y = x @ self.M
            y += right
            change = y - x
            y += self.of_left * (change.sum() / self.gap)
            x = y
            if k == 1:
                size = np.abs(x).max()
            if k > 0 and not np.abs(change).max() > tolerance * size:
                return x
        return self.D * np.linalg.solve(self._matrix().T, right).astype(right.dtype)

    def _matrix(self) -> np.ndarray:
        return np.diag(self.D) - self.D[:, None] * self.M


class _Run(NamedTuple):
    """The arrays of one run, on the memory of the model's tensors."""

    u: np.ndarray
    Z: np.ndarray
    beta: np.ndarray
    left: np.ndarray
    rows: np.ndarray  # room for a matrix
    discount: float
    step_size: float


class _Sweeping:
    """What the sweeping models have beside the parameters; it is made when the others have it."""

    u: Tensor
    Z: Tensor
    discount: Tensor
    step_size: Tensor

    def _prepare(self) -> None:
        shape = self.u.shape
        self.tolerance = 10 * torch.finfo(self.u.dtype).eps
        self.beta = self.u.new_zeros(*shape[:2], shape[-1])
        self.runs: list[_Run] = []
        self.solver: list[Sweeps] = []
        columns = [each[..., 0].expand(shape[:2]) for each in (self.discount, self.step_size)]
        for at in itertools.product(range(shape[0]), range(shape[1])):
            discount, step_size = (column[at].item() for column in columns)
            if not discount > 0:
                raise ValueError(f"discount = {discount}; allowed: a number in (0, 1)")
            u, Z, beta = (tensor[at].numpy() for tensor in (self.u, self.Z, self.beta))
            left, rows = np.full_like(beta, 1 / len(beta)), np.empty((len(beta),) * 2, beta.dtype)
            self.runs.append(_Run(u, Z, beta, left, rows, discount, step_size))


class ImplicitSwept(_Sweeping, Implicit):
    """An `Implicit` on the CPU that sweeps, see `Sweeps`, with a tolerance of ten roundings.

    The arguments are as in `Implicit`, but a discount of 0 leaves nothing to sweep.

    Raises:
        ValueError: a discount is outside (0, 1).
    """

    @np.errstate(all="ignore")  # a run that diverges ends as nan
    def weights(self) -> Tensor:
        """Solve for the values, from the last ones."""
        self.solver = []
        for run in self.runs:
            total = _exponentials(run.Z, run.rows)
            solver = Sweeps.of(run.rows, total, run.discount, run.left)
            run.beta[:], run.left[:] = solver.solve(run.u, run.beta, self.tolerance), solver.left
            self.solver.append(solver)
        return self.beta

    @np.errstate(all="ignore")
    def step(self, gradient: Tensor) -> None:
        """Move rewards and logits; `weights` must have been called since the last step."""
        slopes = gradient.numpy().reshape(len(self.runs), -1)
        for run, solver, slope in zip(self.runs, self.solver, slopes, strict=True):
            moved = run.step_size * solver.solve_transposed(slope, self.tolerance)
            _move(run.Z, run.u, solver, run.beta, moved, run.discount)

    def preconditioner(self) -> Tensor:
        """Return P, by factorization."""
        return Implicit(self.u, self.Z, self.discount, self.step_size).preconditioner()


class ImplicitActionsSwept(_Sweeping, ImplicitActions):
    """An `ImplicitActions` on the CPU that sweeps, as `ImplicitSwept` does.

    The arguments are as in `ImplicitActions`, but a discount of 0 leaves nothing to sweep.

    Raises:
        ValueError: a discount is outside (0, 1).
    """

    def _prepare(self) -> None:
        super()._prepare()
        self.state, self.ones = np.arange(self.u.shape[-1]), np.ones_like(self.runs[0].left)
        self.chains = [S.numpy() for S in self.S.flatten(0, 1)]
        self.policy = [greedy.numpy() for greedy in self.greedy.flatten(0, 1)]

    @np.errstate(all="ignore")  # a run that diverges ends as nan
    def weights(self) -> Tensor:
        """Solve for the values of the greedy policy, from the last ones."""
        self.solver = []
        for run, S, policy in zip(self.runs, self.chains, self.policy, strict=True):
            for _ in range(self.solves):
                run.rows[:] = S[policy, self.state]
                solver = Sweeps.of(run.rows, self.ones, run.discount, run.left)
                run.beta[:] = solver.solve(run.u[policy, self.state], run.beta, self.tolerance)
                better = run.u + run.discount * (S.reshape(-1, S.shape[-1]) @ run.beta).reshape(run.u.shape)
                gains = better.max(0) > run.beta + 10 * self.tolerance * np.abs(run.beta).max()
                if not gains.any():
                    break
                policy[gains] = better.argmax(0)[gains]
            run.left[:] = solver.left
            self.solver.append(solver)
        return self.beta

    @np.errstate(all="ignore")
    def step(self, gradient: Tensor) -> None:
        """Move the rows of the greedy policy; `weights` must have been called since the last step."""
        slopes = gradient.numpy().reshape(len(self.runs), -1)
        for run, S, policy, solver, slope in zip(
            self.runs, self.chains, self.policy, self.solver, slopes, strict=True
        ):
            moved = run.step_size * solver.solve_transposed(slope, self.tolerance)
            Z, u = run.Z[policy, self.state], run.u[policy, self.state]
            _move(Z, u, solver, run.beta, moved, run.discount)
            total = _exponentials(Z, run.rows)
            run.Z[policy, self.state], run.u[policy, self.state] = Z, u
            S[policy, self.state] = run.rows / total[:, None]


def _exponentials(Z: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Put exp Z into `out` and return its row sums, finite: rows of Z are shifted where they would not be."""
    for _ in range(2):
        np.exp(Z, out=out)
        total = out @ np.ones_like(out[0])
        if 1e-12 < total.min() and total.max() < 1e12:
            break
        Z -= Z.max(1, keepdims=True)
    return total


def _move(
    Z: np.ndarray, u: np.ndarray, solver: Sweeps, beta: np.ndarray, moved: np.ndarray, discount: float
) -> None:
    """Take a step in place; `moved` is D a times the step size."""
    drop = (beta - u) / discount  # S beta
    diagonal = discount * solver.s * (beta - drop) * moved / solver.D
    change = np.subtract.outer(-drop, -beta)
    change *= solver.M
    change *= moved[:, None]
    Z -= change
    Z.reshape(-1)[:: len(Z) + 1] -= diagonal
    u -= moved / solver.D
