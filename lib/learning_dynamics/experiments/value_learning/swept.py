"""Implicit weights of many features, whose solves are sweeps from the last solution in the place of factorizations."""

from __future__ import annotations

import itertools
from typing import NamedTuple

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
        gap: scalar, left (I - M) 1.
    """

    M: Tensor
    s: Tensor
    D: Tensor
    left: Tensor
    of_left: Tensor
    of_ones: Tensor
    gap: Tensor

    @classmethod
    def of(cls, S: Tensor, discount: float, left: Tensor) -> Sweeps:
        """Return the solver of a matrix.

        Args:
            S: `(d, d)`, rows that sum to 1; changed in place into M.
            discount: in [0, 1).
            left: `(d,)`, the attribute of the matrix before, or positive numbers with sum 1.
        """
        s = S.diagonal().clone()
        S.diagonal().zero_()
        D = 1 - discount * s
        M = S.mul_((discount / D)[:, None])
        left = torch.mv(M.T, left)
        left = left / left.sum()
        of_ones = discount * (1 - s) / D
        return cls(M, s, D, left, torch.mv(M.T, left), of_ones, left @ (1 - of_ones))

    def solve(self, right: Tensor, start: Tensor, tolerance: float) -> Tensor:
        """Return the solution of A x = right.

        Args:
            right: `(d,)`.
            start: `(d,)`, where the sweeps begin.
            tolerance: they end when one changes no entry by more than this, relative to the largest.
        """
        scaled, x = right / self.D, start
        for _ in range(MOST_SWEEPS):
            y = torch.addmv(scaled, self.M, x)
            change = y - x
            x = torch.addcmul(y, self.of_ones, self.left @ change / self.gap)
            if _settled(change, x, tolerance):
                return x
        return torch.linalg.solve(self._matrix(), right)

    def solve_transposed(self, right: Tensor, tolerance: float) -> Tensor:
        """Return D a for the solution a of A' a = right.

        Args:
            right: `(d,)`.
            tolerance: as in `solve`.
        """
        x = torch.addcmul(right, self.of_left, right.sum() / self.gap)
        for _ in range(MOST_SWEEPS):
            y = torch.addmv(right, self.M.T, x)
            change = y - x
            x = torch.addcmul(y, self.of_left, change.sum() / self.gap)
            if _settled(change, x, tolerance):
                return x
        return self.D * torch.linalg.solve(self._matrix().T, right)

    def _matrix(self) -> Tensor:
        return torch.diag(self.D) - self.D[:, None] * self.M


def _settled(change: Tensor, x: Tensor, tolerance: float) -> bool:
    size = torch.linalg.vector_norm(torch.stack([change, x]), torch.inf, dim=1).tolist()
    return not size[0] > tolerance * size[1]  # also when either is not a number: the run has diverged


class ImplicitSwept(Implicit):
    """An `Implicit` that sweeps, see `Sweeps`.

    Args:
        rewards: as in `Implicit`.
        logits: as in `Implicit`.
        discount: as in `Implicit`, but not 0.
        step_size: as in `Implicit`.
        tolerance: of the sweeps; by default ten roundings.

    Raises:
        ValueError: a discount is outside (0, 1).
    """

    def __init__(
        self,
        rewards: Tensor,
        logits: Tensor,
        discount: Tensor | float,
        step_size: Tensor | float,
        tolerance: float | None = None,
    ) -> None:
        super().__init__(rewards, logits, discount, step_size)
        self.tolerance = _tolerance(tolerance, rewards)
        self.runs = _runs(rewards.shape, self.discount, self.step_size)
        self.beta = torch.zeros_like(rewards)
        self.left = torch.full_like(rewards, 1 / rewards.shape[-1])
        self.solver: list[Sweeps] = []

    def weights(self) -> Tensor:
        """Solve for the values, from the last ones."""
        self.solver = []
        for at, discount, _ in self.runs:
            solver = Sweeps.of(torch.softmax(self.Z[at], -1), discount, self.left[at])
            self.beta[at] = solver.solve(self.u[at], self.beta[at], self.tolerance)
            self.left[at] = solver.left
            self.solver.append(solver)
        return self.beta

    def step(self, gradient: Tensor) -> None:
        """Move rewards and logits; `weights` must have been called since the last step."""
        for (at, discount, step_size), solver in zip(self.runs, self.solver, strict=True):
            moved = step_size * solver.solve_transposed(gradient[at], self.tolerance)
            _move(self.Z[at], self.u[at], solver, self.beta[at], moved, discount)

    def preconditioner(self) -> Tensor:
        """Return P, by factorization."""
        self.weights()
        exact = Implicit(self.u, self.Z, self.discount, self.step_size)
        return exact.preconditioner()


class ImplicitActionsSwept(ImplicitActions):
    """An `ImplicitActions` that sweeps, see `Sweeps`.

    Args:
        rewards: as in `ImplicitActions`.
        logits: as in `ImplicitActions`.
        discount: as in `ImplicitActions`, but not 0.
        step_size: as in `ImplicitActions`.
        tolerance: of the sweeps; by default ten roundings.

    Raises:
        ValueError: a discount is outside (0, 1).
    """

    def __init__(
        self,
        rewards: Tensor,
        logits: Tensor,
        discount: Tensor | float,
        step_size: Tensor | float,
        tolerance: float | None = None,
    ) -> None:
        super().__init__(rewards, logits, discount, step_size)
        self.tolerance = _tolerance(tolerance, rewards)
        self.runs = _runs(rewards.shape, self.discount, self.step_size)
        self.beta = torch.zeros_like(rewards[:, :, 0])
        self.left = torch.full_like(self.beta, 1 / rewards.shape[-1])
        self.state = torch.arange(rewards.shape[-1], device=rewards.device)
        self.solver: list[Sweeps] = []

    def weights(self) -> Tensor:
        """Solve for the values of the greedy policy, from the last ones."""
        self.solver = []
        for at, discount, _ in self.runs:
            S, u, greedy, beta = self.S[at], self.u[at], self.greedy[at], self.beta[at]
            for _ in range(self.solves):
                solver = Sweeps.of(S[greedy, self.state], discount, self.left[at])
                beta = solver.solve(u[greedy, self.state], beta, self.tolerance)
                better = u + discount * torch.mv(S.flatten(0, 1), beta).reshape(u.shape)
                best = better.max(0)
                gains = best.values > beta + 10 * self.tolerance * beta.abs().max()
                if not gains.any():
                    break
                greedy = torch.where(gains, best.indices, greedy)
            self.beta[at], self.left[at], self.greedy[at] = beta, solver.left, greedy
            self.solver.append(solver)
        return self.beta

    def step(self, gradient: Tensor) -> None:
        """Move the rows of the greedy policy; `weights` must have been called since the last step."""
        for (at, discount, step_size), solver in zip(self.runs, self.solver, strict=True):
            moved = step_size * solver.solve_transposed(gradient[at], self.tolerance)
            rows = self.greedy[at], self.state
            Z, u = self.Z[at][rows], self.u[at][rows]
            _move(Z, u, solver, self.beta[at], moved, discount)
            self.Z[at][rows], self.u[at][rows] = Z, u
            self.S[at][rows] = torch.softmax(Z, -1)


def _move(Z: Tensor, u: Tensor, solver: Sweeps, beta: Tensor, moved: Tensor, discount: float) -> None:
    """Take a step in place; `moved` is D a times the step size."""
    drop = (beta - u) / discount  # S beta
    diagonal = discount * solver.s * (beta - drop) * moved / solver.D
    change = (beta - drop[:, None]).mul_(solver.M)
    Z.addcmul_(change, moved[:, None], value=-1.0)
    Z.diagonal().sub_(diagonal)
    u.sub_(moved / solver.D)


def _tolerance(given: float | None, like: Tensor) -> float:
    return 10 * torch.finfo(like.dtype).eps if given is None else given


def _runs(
    shape: torch.Size, discount: Tensor, step_size: Tensor
) -> list[tuple[tuple[int, int], float, float]]:
    """Return the place, the internal discount and the step size of each run."""
    columns = [each[..., 0].expand(shape[:2]) for each in (discount, step_size)]
    found = [
        ((i, j), columns[0][i, j].item(), columns[1][i, j].item())
        for i, j in itertools.product(range(shape[0]), range(shape[1]))
    ]
    for _, each, _ in found:
        if not each > 0:
            raise ValueError(f"discount = {each}; allowed: a number in (0, 1)")
    return found
