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
    """Return A v.

    Raises:
        ValueError: the product is no tensor of v's shape and dtype, which would broadcast or lose digits later.
    """
    found = A @ v if isinstance(A, Matrix) else A(v.clone())  # a function may write into what it is given
    if not isinstance(found, Tensor) or found.shape != v.shape or found.dtype != v.dtype:
        what = f"{found.dtype} {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
        raise ValueError(f"A @ v is {what}; allowed: {v.dtype} {tuple(v.shape)}, as v")
    return found
