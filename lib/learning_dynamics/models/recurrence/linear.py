"""The diagonal linear recurrence x_j = lambda x_{j-1} + b_j, evaluated in three ways that agree."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter

from learning_dynamics._internal.arguments import require_choice
from learning_dynamics.models.recurrence.precision import LIFTED, as_it_stands, lifted
from learning_dynamics.models.recurrence.shapes import numbers

Method = Literal["auto", "loop", "scan", "fft"]
METHODS = ("auto", "loop", "scan", "fft")
SHORT = 32
"""Up to this length `auto` takes the loop."""
SLAB = 2**18
"""So many states are worked on at a time; more would leave the cache of a CPU."""
SPAN = 2**10
"""So many positions are summed by doubling at most; the powers of eigenvalues outside the circle would overflow."""
FRESH = 2**25
"""Results of so many bytes always come in memory that is new to the process (the C library keeps smaller ones)."""
PAGE = 2**21
"""Bytes of a huge page."""


def linear_recurrence(
    eigenvalues: Tensor,
    inputs: Tensor,
    *,
    method: Method = "auto",
    start: Tensor | None = None,
    stable: bool = True,
) -> Tensor:
    r"""Return the states of the recurrence :math:`x_j=\lambda\odot x_{j-1}+b_j` for j = 0, ..., T - 1.

    `loop` takes T steps one after the other. `scan` adds up neighbours, then pairs of neighbours, and so on, and fills
    the gaps on the way back: twice the arithmetic of the loop in :math:`2\log_2T` large steps instead of T small ones
    (the parallel scan, Blelloch 1990), in slabs of at most 1,024 positions, which on a CPU stay in the cache. `fft`
    convolves with the powers of lambda (work T log T); its rounding is relative to the largest state of the sequence.
    `auto` takes the loop up to T = 32 and else the scan. The backward pass is the same recurrence run backwards with
    the conjugate eigenvalues, by the same method; it keeps the states and nothing else. Forward-mode derivatives
    (`torch.func.jvp`, `jacfwd`) run it forwards once more; all of it goes under `vmap`. On a CPU, results of 32 MB and
    more lie in memory that numpy has asked for in huge pages; it can be written to, but not resized.

    Half precision (float16, bfloat16) is computed in float32 and rounded at the end; autocast changes nothing. An input
    that is NaN or infinite spoils its own state from its own position on, and no other.

    Args:
        eigenvalues: `(*batch, N)`, real or complex; the batch axes broadcast against those of `inputs`.
        inputs: `(*batch, T, N)`, what enters each state (B u_j); T >= 1.
        method: `auto`, `loop`, `scan` or `fft`; `fft` for |lambda| < 1 only.
        start: the state before the first input, `(*batch, N)`; zero if left out.
        stable: demand |lambda| < 1 (on a GPU this waits for the device). With False any eigenvalue goes, and the
            states may overflow.

    Returns:
        `(*batch, T, N)`, in the common dtype of eigenvalues, inputs and start, on their device.

    Raises:
        ValueError: an unknown method, an empty sequence, widths or batch axes or devices that differ, integers, or,
            with `stable` or `fft`, an eigenvalue on or outside the unit circle.
    """
    require_choice("method", method, METHODS)
    if inputs.ndim < 2 or inputs.shape[-2] < 1:
        raise ValueError(f"inputs have shape {tuple(inputs.shape)}; allowed: (*batch, T, N) with T >= 1")
    if eigenvalues.ndim < 1 or eigenvalues.shape[-1] != inputs.shape[-1]:
        raise ValueError(
            f"eigenvalues have shape {tuple(eigenvalues.shape)}; allowed: (*batch, N) with N = {inputs.shape[-1]}, "
            "the last axis of inputs"
        )
    if start is not None and (start.ndim < 1 or start.shape[-1] != inputs.shape[-1]):
        raise ValueError(f"start has shape {tuple(start.shape)}; allowed: (*batch, {inputs.shape[-1]})")
    dtype = torch.promote_types(eigenvalues.dtype, inputs.dtype)
    dtype = dtype if start is None else torch.promote_types(dtype, start.dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"inputs have dtype {dtype}; allowed: a real or complex floating point dtype")
    for name, other in (("eigenvalues", eigenvalues), ("start", start)):
        if other is not None and other.device != inputs.device:
            raise ValueError(f"{name} lie on {other.device}; allowed: {inputs.device}, where inputs are")
    radius = numbers(lifted(eigenvalues.detach()).abs()) if stable else None
    if radius is not None and not bool((radius < 1).all()):
        raise ValueError(
            f"eigenvalues reach |lambda| = {float(radius.max()):.6g}; allowed: below 1 (or stable=False)"
        )
    batch = _common_batch(eigenvalues, inputs, start)
    wide = LIFTED.get(dtype, dtype)
    with as_it_stands(inputs.device):
        eigenvalues, inputs = eigenvalues.to(wide), inputs.to(wide)
        if inputs.shape[:-2] != batch:
            inputs = inputs.expand(*batch, *inputs.shape[-2:])
        if start is not None:
            first = inputs[..., :1, :] + (eigenvalues * start.to(wide))[..., None, :]
            inputs = torch.cat([first, inputs[..., 1:, :]], dim=-2)
        if method == "auto":
            method = "loop" if inputs.shape[-2] <= SHORT else "scan"
        return _recurrence(eigenvalues, inputs, method, False).to(dtype)


def _common_batch(eigenvalues: Tensor, inputs: Tensor, start: Tensor | None) -> torch.Size:
    batch = inputs.shape[:-2]
    if all(each is None or each.shape[:-1] in ((), batch) for each in (eigenvalues, start)):
        return batch  # the common case, without the 10 microseconds of what follows
    axes = [eigenvalues.shape[:-1], inputs.shape[:-2]] + ([] if start is None else [start.shape[:-1]])
    try:
        return torch.broadcast_shapes(*axes)
    except RuntimeError:
        shapes = ", ".join(str(tuple(batch)) for batch in axes)
        raise ValueError(
            f"batch axes of eigenvalues, inputs and start = {shapes}; allowed: axes that broadcast"
        ) from None


class _Recurrence(torch.autograd.Function):
    """The recurrence with its adjoint; `lam (*batch, N)`, `b (*batch, T, N)` of one dtype.

    With `backwards` it runs from the last position to the first: x_j = lambda x_{j+1} + b_j.
    """

    @staticmethod
    def forward(lam: Tensor, b: Tensor, method: str, backwards: bool) -> Tensor:
        return {"loop": _loop, "scan": _scan, "fft": _fft}[method](lam.resolve_conj(), b, backwards)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        lam, _, ctx.method, ctx.backwards = inputs
        ctx.save_for_backward(lam, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, None, None]:
        lam, x = ctx.saved_tensors
        with as_it_stands(grad.device):
            adjoint = _recurrence(lam.conj(), grad, ctx.method, not ctx.backwards)
            later, earlier = (adjoint, x) if not ctx.backwards else (x.conj(), adjoint.conj())
            of_lam = None
            if ctx.needs_input_grad[0]:
                of_lam = _paired(later[..., 1:, :], earlier[..., :-1, :]).sum_to_size(lam.shape)
        return of_lam, adjoint, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], lam: Tensor, b: Tensor, method: str, backwards: bool
    ) -> tuple[Tensor, int]:
        lam = lam.movedim(in_dims[0], 0) if in_dims[0] is not None else lam[None]
        b = b.movedim(in_dims[1], 0) if in_dims[1] is not None else b.expand(info.batch_size, *b.shape)
        if lam.ndim < b.ndim - 1:  # line the new axis up with that of b
            lam = lam.reshape(lam.shape[0], *(1,) * (b.ndim - 1 - lam.ndim), *lam.shape[1:])
        return _recurrence(lam, b, method, backwards), 0


class _WithTangent(_Recurrence):
    """The recurrence with its derivative in forward mode, too, which torch.compile does not take."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _Recurrence.setup_context(ctx, inputs, output)
        ctx.save_for_forward(inputs[0], output)

    @staticmethod
    def jvp(ctx: Any, of_lam: Tensor | None, of_b: Tensor | None, *_: None) -> Tensor:
        lam, x = ctx.saved_tensors
        with as_it_stands(x.device):
            entering = torch.zeros_like(x) if of_b is None else of_b
            if of_lam is not None:  # x_j - lambda x_{j-1} = b_j, differentiated
                none, rest = torch.zeros_like(x[..., :1, :]), x.shape[-2] - 1
                before = [x[..., 1:, :], none] if ctx.backwards else [none, x[..., :rest, :]]
                entering = entering + of_lam[..., None, :] * torch.cat(before, dim=-2)
            return _recurrence(lam, entering, ctx.method, ctx.backwards)


def _recurrence(lam: Tensor, b: Tensor, method: str, backwards: bool) -> Tensor:
    kind = _Recurrence if torch.compiler.is_compiling() else _WithTangent
    return kind.apply(lam, b, method, backwards)


# `apply` asks for the signature at each call, which takes as long as ten operations
_Recurrence.forward.__signature__ = inspect.signature(_Recurrence.forward)  # type: ignore[attr-defined]  # any function takes one


def _paired(later: Tensor, earlier: Tensor) -> Tensor:
    """Return the sum over positions of later * conj(earlier), in slabs that stay in the cache where there is much."""
    length, width = later.shape[-2:]
    if later.ndim < 3 or later.numel() <= SLAB:
        return (later * earlier.conj()).sum(-2)
    if length * width > SLAB:  # parts of one sequence
        together = max(1, SLAB // (later.numel() // length))
        parts = zip(later.split(together, -2), earlier.split(together, -2), strict=True)
        return torch.stack([(a * x.conj()).sum(-2) for a, x in parts]).sum(0)
    together = SLAB // (length * width)
    pairs = zip(later.flatten(0, -3).split(together), earlier.flatten(0, -3).split(together), strict=True)
    return torch.cat([(a * x.conj()).sum(-2) for a, x in pairs]).reshape(*later.shape[:-2], width)


def _loop(lam: Tensor, b: Tensor, backwards: bool = False) -> Tensor:
    x = _room(b).copy_(b)
    _run(lam, x.unbind(-2), backwards)
    return x


def _run(lam: Tensor, rows: Sequence[Tensor], backwards: bool) -> None:
    """Add lambda times the row before to each row, in place."""
    rows = rows[::-1] if backwards else rows
    for before, row in pairwise(rows):
        row.addcmul_(lam, before)


def _scan(lam: Tensor, b: Tensor, backwards: bool = False) -> Tensor:
    """Sum up by doubling, in slabs, each of which is handed the last state of the one before."""
    x = _room(b)
    length = b.shape[-2]
    together = min(length, SPAN)
    if b.device.type == "cpu" and b.numel():
        together = min(together, max(1, SLAB * length // b.numel()))
    powers, power = [lam[..., None, :]], _in_double(lam)[..., None, :]  # lambda to the powers 1, 2, 4, ...
    while 2 ** len(powers) < together:
        power = power * power
        powers.append(power.to(lam.dtype))
    first, last = (-1, 0) if backwards else (0, -1)
    slabs = list(zip(b.split(together, -2), x.split(together, -2), strict=True))
    before = None
    for given, slab in reversed(slabs) if backwards else slabs:
        slab.copy_(given)
        if before is not None:
            slab[..., first, :].addcmul_(lam, before)
        _double(powers, slab, backwards)
        before = slab[..., last, :]
    return x


def _double(powers: Sequence[Tensor], x: Tensor, backwards: bool) -> None:
    """Run the recurrence in place, by 2 log2(T) steps in which every row is met about twice (Blelloch 1990).

    On the way up, row 2^(k+1) m - 1 gets the sum over the 2^(k+1) inputs that end with it; on the way down, the rows
    between are completed.
    """
    for k, power in enumerate(powers):
        _add_rows(power, x, 2 * 2**k - 1, 2**k, backwards)
    for k, power in reversed(list(enumerate(powers))):
        _add_rows(power, x, 3 * 2**k - 1, 2**k, backwards)


def _add_rows(power: Tensor, x: Tensor, first: int, step: int, backwards: bool) -> None:
    """Add to row `first`, and to every (2 step)-th after it, the power times the row that is `step` before it."""
    length = x.shape[-2]
    count = (length - 1 - first) // (2 * step) + 1
    if count < 1:
        return
    at, before = (length - 1 - first - (count - 1) * 2 * step, step) if backwards else (first, -step)
    _every(x, at, 2 * step, count).addcmul_(power, _every(x, at + before, 2 * step, count))


def _every(x: Tensor, first: int, step: int, count: int) -> Tensor:
    """Return a view of so many rows of a tensor, from the first on; in half the time of a slice, which counts here."""
    if torch.compiler.is_compiling():
        return x[..., first : first + (count - 1) * step + 1 : step, :]
    size, stride = list(x.shape), list(x.stride())
    row, size[-2], stride[-2] = stride[-2], count, step * stride[-2]
    return x.as_strided(size, stride, x.storage_offset() + first * row)


def _room(like: Tensor) -> Tensor:
    """Return a contiguous tensor of this shape, dtype and device, not filled; a large one on a CPU in huge pages.

    A system hands out fresh memory page by page, cleared; in pages of 4 kB that takes longer than the recurrence.
    numpy asks for huge pages (on Linux), torch does not.
    """
    size = like.numel() * like.element_size()
    plain = (
        like.device.type == "cpu" and type(like) in (Tensor, Parameter) and not torch.compiler.is_compiling()
    )
    if size < FRESH or not plain:
        return torch.empty_like(like, memory_format=torch.contiguous_format)
    space = np.empty(size + PAGE, np.uint8)
    first = -space.ctypes.data % PAGE // like.element_size()
    room = torch.empty(0, dtype=like.dtype, device="cpu")
    return room.set_(torch.from_numpy(space).untyped_storage(), first, like.shape, _dense(like.shape))


def _dense(shape: torch.Size) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _fft(lam: Tensor, b: Tensor, backwards: bool = False) -> Tensor:
    """Convolve; where the result is not finite, take the scan, which lets nothing flow back in time."""
    radius = numbers(lam.abs())
    if bool((radius >= 1).any()):
        raise ValueError(
            f"eigenvalues reach |lambda| = {float(radius.max()):.6g}; allowed: below 1 (or another method than fft)"
        )
    if not b.numel():
        return b.clone()
    length = b.shape[-2]
    kernel = powers_of(_in_double(lam), length).to(lam.dtype)
    turned = b.flip(-2) if backwards else b
    if b.is_complex():
        spectrum = torch.fft.fft(kernel, 2 * length, dim=-2) * torch.fft.fft(turned, 2 * length, dim=-2)
        x = torch.fft.ifft(spectrum, dim=-2)[..., :length, :]
    else:
        spectrum = torch.fft.rfft(kernel, 2 * length, dim=-2) * torch.fft.rfft(turned, 2 * length, dim=-2)
        x = torch.fft.irfft(spectrum, 2 * length, dim=-2)[..., :length, :]
    if not bool(numbers(torch.isfinite(x)).all()):
        return _scan(lam, b, backwards)
    return x.flip(-2) if backwards else x


def _in_double(lam: Tensor) -> Tensor:
    """Return eigenvalues in double precision where there is one, since each squaring doubles the relative error."""
    return lam if lam.device.type == "mps" else lam.to(torch.promote_types(lam.dtype, torch.float64))


def powers_of(eigenvalues: Tensor, count: int) -> Tensor:
    """Return lambda^0, ..., lambda^{count - 1} of `eigenvalues (*batch, N)` as `(*batch, count, N)`.

    By repeated doubling, so that rounding grows with log(count).

    Args:
        eigenvalues: `(*batch, N)`.
        count: how many, >= 1.

    Raises:
        ValueError: `count` is less than 1, or there is no axis.
    """
    if eigenvalues.ndim < 1:
        raise ValueError("eigenvalues have shape (); allowed: (*batch, N)")
    if count < 1:
        raise ValueError(f"count = {count}; allowed: at least 1")
    powers = torch.ones_like(eigenvalues)[..., None, :]
    step = eigenvalues[..., None, :]
    while powers.shape[-2] < count:
        powers = torch.cat([powers, step * powers], dim=-2)
        step = step * step
    return powers[..., :count, :]
