"""What the iterative solvers take for a matrix: anything that multiplies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from torch import Tensor


@runtime_checkable
class Matrix(Protocol):
    """Anything with `A @ v` for v `(d)` and `(d, k)`: an operator or a tensor."""

    def __matmul__(self, v: Tensor, /) -> Tensor: ...


Product = Matrix | Callable[[Tensor], Tensor]
"""A matrix, or a function v -> A v that keeps the shape of v."""


def multiply(A: Product, v: Tensor) -> Tensor:
    """Return A v."""
    return A @ v if isinstance(A, Matrix) else A(v)
