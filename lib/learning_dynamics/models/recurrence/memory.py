"""What the state of a linear recurrence holds of its inputs, and how to read them back."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import require_counts
from learning_dynamics.models.recurrence.linear import powers_of


def memory_matrix(eigenvalues: Tensor, length: int, *, real: bool = False) -> Tensor:
    r"""Return the matrix that maps the inputs of a linear recurrence to its last state (Orvieto 2023, eq. 134).

    For one input into every state, :math:`x_j=\lambda\odot x_{j-1}+u_j` and :math:`x_{-1}=0`, the last state is
    :math:`x_{T-1}=Mu` with :math:`M_{il}=\lambda_i^{T-1-l}`, a Vandermonde matrix with its columns reversed.

    Args:
        eigenvalues: `(*batch, N)`, real or complex.
        length: number of inputs T, >= 1.
        real: stack the real rows upon the imaginary ones, so that the matrix is real; real eigenvalues have no
            imaginary rows.

    Returns:
        `(*batch, N, T)`; with `real` and complex eigenvalues `(*batch, 2 N, T)`.

    Raises:
        ValueError: the eigenvalues are integers or have no axis, or `length` is less than 1.
    """
    _require_eigenvalues(eigenvalues)
    require_counts(length=length)
    powers = powers_of(eigenvalues, length).flip(-2).mT
    if real and powers.is_complex():
        return torch.cat([powers.real, powers.imag], dim=-2)
    return powers


def reconstruct(states: Tensor, eigenvalues: Tensor, length: int, *, rcond: float | None = None) -> Tensor:
    r"""Return the real inputs of least norm that explain the last state best, by least squares.

    Real and imaginary part of each state are one equation each, so that N complex states suffice for 2 N inputs.

    Args:
        states: `(*batch, N)`, the state after the last input.
        eigenvalues: `(N)`, those of the recurrence.
        length: number of inputs T, >= 1.
        rcond: singular values of the memory matrix below this share of the largest count as zero; by default
            the machine epsilon of the states' dtype times the larger side of the matrix.

    Returns:
        `(*batch, T)`, real.

    Raises:
        ValueError: shapes, dtypes or devices that do not fit, or an `rcond` outside [0, 1).
    """
    _require_eigenvalues(eigenvalues)
    if eigenvalues.ndim != 1 or states.ndim < 1 or states.shape[-1] != eigenvalues.shape[-1]:
        raise ValueError(
            f"states, eigenvalues have shapes {tuple(states.shape)}, {tuple(eigenvalues.shape)}; "
            "allowed: (*batch, N) and (N)"
        )
    if not (states.is_floating_point() or states.is_complex()):
        raise ValueError(f"states have dtype {states.dtype}; allowed: a real or complex floating point dtype")
    if states.device != eigenvalues.device:
        raise ValueError(f"states lie on {states.device}; allowed: {eigenvalues.device}, as eigenvalues")
    if rcond is not None and not 0 <= rcond < 1:
        raise ValueError(f"rcond = {rcond}; allowed: at least 0 and below 1")
    _require_finite(eigenvalues)
    dtype = torch.promote_types(states.dtype, eigenvalues.dtype)
    matrix = memory_matrix(eigenvalues.to(dtype), length, real=True)
    known = states.to(dtype)
    known = torch.cat([known.real, known.imag], dim=-1) if dtype.is_complex else known
    U, sizes, Vh = torch.linalg.svd(matrix, full_matrices=False)
    share = torch.finfo(matrix.dtype).eps * max(matrix.shape) if rcond is None else rcond
    inverse = torch.where(sizes > share * sizes[..., :1], 1 / sizes, torch.zeros_like(sizes))
    return (known @ U * inverse) @ Vh


def half_roots(length: int, *, dtype: torch.dtype = torch.complex128) -> Tensor:
    r"""Return T / 2 eigenvalues whose state holds T real inputs with condition number one.

    They are the roots of -1 in the upper half plane, :math:`e^{i\pi(2i-1)/T}` i = 1, ..., T / 2, lowest phase first.
    Real and imaginary rows of their memory matrix are orthogonal, each of squared length T / 2.

    Args:
        length: number of inputs T, even, >= 2.
        dtype: a complex dtype.

    Returns:
        `(T / 2)`, complex, on the unit circle.

    Raises:
        ValueError: `length` is odd or less than 2.
    """
    if isinstance(length, bool) or not isinstance(length, int) or length < 2 or length % 2:
        raise ValueError(f"length = {length!r}; allowed: an even whole number of at least 2")
    phases = math.pi / length * torch.arange(1, length, 2, dtype=torch.float64)
    return torch.polar(torch.ones_like(phases), phases).to(dtype)


def slots(eigenvalues: Tensor, length: int, share: float) -> Tensor:
    """Return how many numbers about its inputs a state holds: singular values above a share of the largest.

    Counted are those of the real form of `memory_matrix`. A sensible share is the relative rounding of the states:
    2^-23 in float32, 2^-8 in bfloat16.

    Args:
        eigenvalues: `(*batch, N)`, real or complex.
        length: number of inputs T, >= 1.
        share: in (0, 1).

    Returns:
        `(*batch)`, whole numbers.

    Raises:
        ValueError: eigenvalues or length as in `memory_matrix`, or a share outside (0, 1).
    """
    if not 0 < share < 1:
        raise ValueError(f"share = {share}; allowed: above 0 and below 1")
    _require_finite(eigenvalues)
    sizes = torch.linalg.svdvals(memory_matrix(eigenvalues, length, real=True))
    return (sizes > share * sizes[..., :1]).sum(-1)


def input_count(clock_state: Tensor, clock_eigenvalue: float) -> Tensor:
    r"""Return how many inputs a recurrence has seen, from a state that is fed with ones (Orvieto 2023, eq. 136).

    After k inputs that state is :math:`s=(1-\lambda_0^k)/(1-\lambda_0)`, hence
    :math:`k=\log(1-(1-\lambda_0)s)/\log\lambda_0`.

    Args:
        clock_state: s, of any shape, real.
        clock_eigenvalue: lambda_0 in (0, 1).

    Returns:
        k in the shape of `clock_state`, not rounded; infinite where the state has saturated.

    Raises:
        ValueError: an eigenvalue outside (0, 1), or a state that is not real floating point.
    """
    if not 0 < clock_eigenvalue < 1:
        raise ValueError(f"clock_eigenvalue = {clock_eigenvalue}; allowed: above 0 and below 1")
    if not clock_state.is_floating_point():
        raise ValueError(f"clock_state has dtype {clock_state.dtype}; allowed: a real floating point dtype")
    left = (1 - (1 - clock_eigenvalue) * clock_state).clamp(min=0)
    return left.log() / math.log(clock_eigenvalue)


def _require_eigenvalues(eigenvalues: Tensor) -> None:
    if eigenvalues.ndim < 1:
        raise ValueError(f"eigenvalues have shape {tuple(eigenvalues.shape)}; allowed: (*batch, N)")
    if not (eigenvalues.is_floating_point() or eigenvalues.is_complex()):
        raise ValueError(
            f"eigenvalues have dtype {eigenvalues.dtype}; allowed: a real or complex floating point dtype"
        )


def _require_finite(eigenvalues: Tensor) -> None:
    if not bool(eigenvalues.isfinite().all()):
        raise ValueError("eigenvalues have entries that are NaN or infinite; allowed: finite numbers")
