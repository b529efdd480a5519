"""The diagonal linear recurrence x_j = lambda x_{j-1} + b_j, evaluated in three ways that agree."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor

Method = Literal["auto", "loop", "scan", "fft"]
METHODS = ("auto", "loop", "scan", "fft")
SHORT = 32
"""Up to this length `auto` takes the loop."""


def linear_recurrence(
    eigenvalues: Tensor,
    inputs: Tensor,
    *,
    method: Method = "auto",
    start: Tensor | None = None,
    stable: bool = True,
) -> Tensor:
    r"""Return the states of the recurrence :math:`x_j=\lambda\odot x_{j-1}+b_j` for j = 0, ..., T - 1.

    `loop` takes T steps one after the other. `scan` cuts the sequence into about :math:`\sqrt T` pieces, runs all
    pieces side by side from zero, hands the last state from piece to piece and adds :math:`\lambda^{i+1}` times it:
    twice the arithmetic of the loop in :math:`2\sqrt T` large steps instead of T small ones (a two-level form of the
    parallel scan, Blelloch 1990). `fft` convolves with the powers of lambda (work T log T). `auto` takes the loop up
    to T = 32 and else the scan. The backward pass is the same recurrence run backwards with the conjugate
    eigenvalues, by the same method; it keeps the states and nothing else.

    Args:
        eigenvalues: `(*batch, N)`, real or complex; the batch axes broadcast against those of `inputs`.
        inputs: `(*batch, T, N)`, what enters each state (B u_j); T >= 1.
        method: `auto`, `loop`, `scan` or `fft`.
        start: the state before the first input, `(*batch, N)`; zero if left out.
        stable: demand |lambda| < 1 (on a GPU this waits for the device). With False any eigenvalue goes, and the
            states may overflow.

    Returns:
        `(*batch, T, N)`, in the common dtype of eigenvalues and inputs, on their device.

    Raises:
        ValueError: an unknown method, an empty sequence, widths that differ, integers, or, with `stable`, an
            eigenvalue on or outside the unit circle.
    """
    if method not in METHODS:
        raise ValueError(f"method = {method!r}; allowed: {', '.join(METHODS)}")
    if inputs.ndim < 2 or inputs.shape[-2] < 1:
        raise ValueError(f"inputs have shape {tuple(inputs.shape)}; allowed: (*batch, T, N) with T >= 1")
    if eigenvalues.ndim < 1 or eigenvalues.shape[-1] != inputs.shape[-1]:
        raise ValueError(
            f"eigenvalues have shape {tuple(eigenvalues.shape)}; allowed: (*batch, N) with N = {inputs.shape[-1]}, "
            "the last axis of inputs"
        )
    dtype = torch.promote_types(eigenvalues.dtype, inputs.dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"inputs have dtype {dtype}; allowed: a real or complex floating point dtype")
    radius = eigenvalues.detach().abs() if stable else None
    if radius is not None and not bool((radius < 1).all()):
        raise ValueError(
            f"eigenvalues reach |lambda| = {float(radius.max()):.6g}; allowed: below 1 (or stable=False)"
        )
    if start is not None:
        if start.shape[-1:] != inputs.shape[-1:]:
            raise ValueError(f"start has shape {tuple(start.shape)}; allowed: (*batch, {inputs.shape[-1]})")
        first = inputs[..., :1, :] + (eigenvalues * start)[..., None, :]
        rest = inputs[..., 1:, :].expand(*first.shape[:-2], -1, -1)
        inputs = torch.cat([first, rest.to(first.dtype)], dim=-2)
    batch = torch.broadcast_shapes(eigenvalues.shape[:-1], inputs.shape[:-2])
    inputs = inputs.to(dtype).expand(*batch, *inputs.shape[-2:])
    if method == "auto":
        method = "loop" if inputs.shape[-2] <= SHORT else "scan"
    return _Recurrence.apply(eigenvalues.to(dtype), inputs, method)


class _Recurrence(torch.autograd.Function):
    """The recurrence with its adjoint; `lam (*batch, N)`, `b (*batch, T, N)` of one dtype."""

    @staticmethod
    def forward(lam: Tensor, b: Tensor, method: str) -> Tensor:
        return {"loop": _loop, "scan": _scan, "fft": _fft}[method](lam, b)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        lam, _, ctx.method = inputs
        ctx.save_for_backward(lam, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        lam, x = ctx.saved_tensors
        adjoint = linear_recurrence(lam.conj(), grad.flip(-2), method=ctx.method, stable=False).flip(-2)
        of_lam = (adjoint[..., 1:, :] * x[..., :-1, :].conj()).sum(-2)
        return of_lam.sum_to_size(lam.shape), adjoint, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], lam: Tensor, b: Tensor, method: str
    ) -> tuple[Tensor, int]:
        lam = lam.movedim(in_dims[0], 0) if in_dims[0] is not None else lam[None]
        b = b.movedim(in_dims[1], 0) if in_dims[1] is not None else b.expand(info.batch_size, *b.shape)
        if lam.ndim < b.ndim - 1:  # line the new axis up with that of b
            lam = lam.reshape(lam.shape[0], *(1,) * (b.ndim - 1 - lam.ndim), *lam.shape[1:])
        return _Recurrence.apply(lam, b, method), 0


def _loop(lam: Tensor, b: Tensor) -> Tensor:
    x = b.clone(memory_format=torch.contiguous_format)
    for j in range(1, x.shape[-2]):
        x[..., j, :].addcmul_(lam, x[..., j - 1, :])
    return x


def _scan(lam: Tensor, b: Tensor) -> Tensor:
    length = b.shape[-2]
    size = math.isqrt(length)
    pieces = length // size
    x = b.clone(memory_format=torch.contiguous_format)
    head = x[..., : pieces * size, :].unflatten(-2, (pieces, size))
    for i in range(1, size):  # inside all pieces at once
        head[..., i, :].addcmul_(lam[..., None, :], head[..., i - 1, :])
    powers = powers_of(lam, size + 1)[..., 1:, :]
    for p in range(1, pieces):  # the last states, from piece to piece
        head[..., p, -1, :].addcmul_(powers[..., -1, :], head[..., p - 1, -1, :])
    if pieces > 1 and size > 1:  # what each piece inherits
        head[..., 1:, :-1, :].addcmul_(powers[..., None, :-1, :], head[..., :-1, -1:, :])
    for j in range(pieces * size, length):
        x[..., j, :].addcmul_(lam, x[..., j - 1, :])
    return x


def _fft(lam: Tensor, b: Tensor) -> Tensor:
    length = b.shape[-2]
    kernel = powers_of(lam, length)
    if b.is_complex():
        spectrum = torch.fft.fft(kernel, 2 * length, dim=-2) * torch.fft.fft(b, 2 * length, dim=-2)
        return torch.fft.ifft(spectrum, dim=-2)[..., :length, :]
    spectrum = torch.fft.rfft(kernel, 2 * length, dim=-2) * torch.fft.rfft(b, 2 * length, dim=-2)
    return torch.fft.irfft(spectrum, 2 * length, dim=-2)[..., :length, :]


def powers_of(eigenvalues: Tensor, count: int) -> Tensor:
    """Return lambda^0, ..., lambda^{count - 1} of `eigenvalues (*batch, N)` as `(*batch, count, N)`.

    By repeated doubling, so that rounding grows with log(count).

    Args:
        eigenvalues: `(*batch, N)`.
        count: how many, >= 1.

    Raises:
        ValueError: `count` is less than 1.
    """
    if count < 1:
        raise ValueError(f"count = {count}; allowed: at least 1")
    powers = torch.ones_like(eigenvalues)[..., None, :]
    step = eigenvalues[..., None, :]
    while powers.shape[-2] < count:
        powers = torch.cat([powers, step * powers], dim=-2)
        step = step * step
    return powers[..., :count, :]
