"""Checks of arguments that many modules share; each raises one line that names the argument."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterable
from numbers import Real

import numpy as np
import torch
from torch import Tensor


def require_finite(name: str, tensor: Tensor) -> None:
    """Raise a ValueError when a floating point tensor has an entry that is NaN or infinite."""
    if not tensor.is_floating_point() or torch.isfinite(tensor.sum()):
        return  # the sum, which is cheap, keeps NaN and infinity; it may overflow by itself
    if not torch.isfinite(tensor).all():
        raise ValueError(f"{name} has entries that are NaN or infinite; allowed: finite numbers")


def require_tensors(
    *, finite: bool = False, empty: bool = False, **arguments: tuple[object, str]
) -> dict[str, int]:
    """Check that arguments are real floating point tensors of one dtype and device whose shapes fit together.

    `require_tensors(X=(X, "*batch n d"), y=(y, "*batch n"))` returns `{"n": ..., "d": ...}`. An axis of one name has
    one size everywhere; leading axes `*batch` are any number, those of one name broadcast against each other; a digit
    is a size itself.

    Args:
        finite: refuse NaN and infinity too.
        empty: let the named axes have the size 0; the leading ones may always.
        arguments: by name the argument and the names of its axes.

    Returns:
        The size of each axis by its name, without the leading ones.

    Raises:
        ValueError: an argument is no tensor, of an integer or complex dtype, of another dtype or device than the
            first, of a shape that does not fit, or with `finite` not finite.
    """
    sizes: dict[str, int] = {}
    leading: dict[str, tuple[int, ...]] = {}
    first: tuple[str, Tensor] | None = None
    for name, (value, axes) in arguments.items():
        shape = "(" + axes.replace(" ", ", ") + ")"
        if not isinstance(value, Tensor):
            raise ValueError(f"{name} is a {type(value).__name__}; allowed: a tensor {shape}")
        if not value.is_floating_point():
            raise ValueError(f"{name} has dtype {value.dtype}; allowed: a real floating point dtype")
        first = first or (name, value)
        for what in ("dtype", "device"):
            if getattr(value, what) != getattr(first[1], what):
                expected = getattr(first[1], what)
                raise ValueError(
                    f"{name} has {what} {getattr(value, what)}; allowed: {expected}, as {first[0]}"
                )
        words = axes.split()
        own = words[1:] if words[:1] and words[0].startswith("*") else words
        fits = value.ndim == len(own) if own == words else value.ndim >= len(own)
        start = value.ndim - len(own)
        wanted = [int(word) if word.isdigit() else sizes.get(word) for word in own]
        fits = fits and all(n is None or n == m for n, m in zip(wanted, value.shape[start:], strict=True))
        fits = fits and len({*zip(own, value.shape[start:], strict=True)}) == len({*own})
        if fits and own != words:
            try:
                leading[words[0]] = np.broadcast_shapes(leading.get(words[0], ()), value.shape[:start])
            except ValueError:
                fits = False
        if not empty and fits and 0 in value.shape[start:]:
            raise ValueError(f"{name} has shape {tuple(value.shape)}; allowed: {shape}, none of these zero")
        if not fits:
            known = ", ".join(f"{word} = {sizes[word]}" for word in own if word in sizes)
            before = leading.get(words[0]) if own != words else None
            batch = f", {words[0]} against {tuple(before)}" if before else ""
            raise ValueError(
                f"{name} has shape {tuple(value.shape)}; allowed: {shape}{f' with {known}' if known else ''}{batch}"
            )
        sizes |= {
            word: size for word, size in zip(own, value.shape[start:], strict=True) if not word.isdigit()
        }
        if finite:
            require_finite(name, value)
    return sizes


def require_numbers(name: str, value: object, like: Tensor | None = None) -> Tensor:
    """Return a number, several, or a tensor of them in the dtype and on the device of another tensor, or in float64.

    Raises:
        ValueError: they are not real, or lie on another device.
    """
    if like is None:
        like = torch.empty(0, dtype=torch.float64, device=getattr(value, "device", "cpu"))
    if isinstance(value, Tensor) and value.ndim and value.device != like.device:
        raise ValueError(f"{name} has device {value.device}; allowed: {like.device}")
    if not isinstance(value, Tensor):
        try:
            return torch.as_tensor(value, dtype=like.dtype, device=like.device)
        except (TypeError, ValueError, RuntimeError):
            raise ValueError(f"{name} = {value!r}; allowed: real numbers") from None
    if value.is_complex() or value.dtype == torch.bool:
        raise ValueError(f"{name} has dtype {value.dtype}; allowed: real numbers")
    return value.to(like)


def require_real(name: str, value: object) -> None:
    """Raise a ValueError for a tensor of complex numbers or booleans; a number of Python passes."""
    if isinstance(value, Tensor) and (value.is_complex() or value.dtype == torch.bool):
        raise ValueError(f"{name} has dtype {value.dtype}; allowed: real numbers")


def require_first(name: str, values: Tensor) -> None:
    """Raise a ValueError unless a tensor is real floating point `(K, ...)` with K >= 1."""
    if not values.is_floating_point() or values.ndim < 1 or len(values) < 1:
        raise ValueError(
            f"{name} has dtype {values.dtype} and shape {tuple(values.shape)}; allowed: real floating point (K, ...)"
        )


def require_same(name: str, value: Tensor, like: Tensor, of: str) -> None:
    """Raise a ValueError unless two tensors have one shape and one real floating point dtype."""
    if value.shape != like.shape or value.dtype != like.dtype or not value.is_floating_point():
        raise ValueError(
            f"{name} is {value.dtype} {tuple(value.shape)}; allowed: real {like.dtype} {tuple(like.shape)}, as {of}"
        )


def require_broadcast(name: str, tensor: Tensor, shape: torch.Size, *, enlarge: bool = False) -> None:
    """Raise a ValueError unless a tensor broadcasts against a shape, with `enlarge` also in more leading axes.

    Args:
        name: the argument's name.
        tensor: what is broadcast.
        shape: `(*batch, d)`; the last axis is never enlarged.
        enlarge: let the tensor have leading axes that the shape has not.
    """
    try:
        common = torch.broadcast_shapes(tensor.shape, shape)
        fits = common[-1:] == shape[-1:] if enlarge else common == shape
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(
            f"{name} has shape {tuple(tensor.shape)}; allowed: what broadcasts to {tuple(shape)}"
        )


def require_last(name: str, tensor: Tensor, like: Tensor, size: int) -> None:
    """Raise a ValueError unless a tensor has the dtype and device of another one and a last axis of this size.

    It costs a microsecond, for functions that are called at every step.
    """
    if tensor.shape[-1:] != (size,):
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}; allowed: (*batch, {size})")
    if tensor.dtype != like.dtype or tensor.device != like.device:
        raise ValueError(
            f"{name} is {tensor.dtype} on {tensor.device}; allowed: {like.dtype} on {like.device}"
        )


def require_input(name: str, value: object, like: Tensor, *sizes: int | None, batch: bool = True) -> None:
    """Raise a ValueError unless a layer's input ends in axes of these sizes and has the layer's dtype and device.

    It looks at no entry and costs a few microseconds, for what is called at every step, also under vmap and autocast
    (which takes any floating point dtype).

    Args:
        name: the argument's name.
        value: the input.
        like: a parameter of the layer.
        sizes: of the last axes; None stands for any size >= 1.
        batch: let there be further axes in front.
    """
    if not isinstance(value, Tensor):
        raise ValueError(f"{name} is a {type(value).__name__}; allowed: a tensor")
    found = value.shape[max(0, value.ndim - len(sizes)) :]
    fits = len(found) == len(sizes) and (batch or value.ndim == len(sizes))
    if not fits or any(
        n != size if size is not None else n < 1 for n, size in zip(found, sizes, strict=True)
    ):
        wanted = ", ".join(
            [*(["*batch"] if batch else []), *(">= 1" if n is None else str(n) for n in sizes)]
        )
        raise ValueError(f"{name} has shape {tuple(value.shape)}; allowed: ({wanted})")
    if value.device != like.device:
        raise ValueError(f"{name} has device {value.device}; allowed: {like.device}, where the layer is")
    cast = value.is_floating_point() and torch.amp.is_autocast_available(value.device.type)
    if value.dtype != like.dtype and not (cast and torch.is_autocast_enabled(value.device.type)):
        raise ValueError(f"{name} has dtype {value.dtype}; allowed: {like.dtype}, that of the layer")


def require_symbols(name: str, value: object, *sizes: int | None) -> None:
    """Raise a ValueError unless a tensor has an integer dtype and ends in axes of these sizes, None for any >= 1."""
    whole = isinstance(value, Tensor) and value.dtype in (torch.int64, torch.int32)
    if not isinstance(value, Tensor) or not whole:
        found = f"dtype {value.dtype}" if isinstance(value, Tensor) else f"type {type(value).__name__}"
        raise ValueError(f"{name} has {found}; allowed: a tensor of torch.int64 or torch.int32")
    require_input(name, value, value, *sizes)


def require_symmetric(name: str, matrix: Tensor, factor: float = 100.0) -> None:
    """Raise a ValueError when a matrix differs from its transpose by more than rounding, `factor` d eps max|entry|.

    Args:
        name: the argument's name.
        matrix: `(*batch, d, d)`.
        factor: how many units of rounding are allowed.
    """
    if matrix.numel() == 0:
        return
    size, eps = matrix.abs().amax(), torch.finfo(matrix.dtype).eps
    asymmetry = (matrix - matrix.mT).abs().amax()
    if not asymmetry <= factor * matrix.shape[-1] * eps * size:
        raise ValueError(f"{name} differs from its transpose by {asymmetry:.1e}; allowed: a symmetric matrix")


def require_indices(name: str, tensor: object) -> None:
    """Raise a ValueError unless a tensor has an integer dtype, an axis and an entry on its last axis."""
    if not isinstance(tensor, Tensor):
        raise ValueError(f"{name} is a {type(tensor).__name__}; allowed: a tensor of indices")
    integer = not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)
    if not integer or tensor.ndim == 0 or tensor.shape[-1] == 0:
        raise ValueError(
            f"{name} has dtype {tensor.dtype} and shape {tuple(tensor.shape)}; allowed: integers, at least one"
        )


def require_generator(generator: object) -> torch.Generator:
    """Return the generator; a ValueError where nothing says where random numbers come from, never the global state."""
    if not isinstance(generator, torch.Generator):
        raise ValueError(f"generator is a {type(generator).__name__}; allowed: a torch.Generator")
    return generator


def require_count(name: str, value: object, least: int = 1, most: int | None = None) -> None:
    """Raise a ValueError when a value is no integer from `least` to `most`."""
    upwards = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if not upwards or (isinstance(value, int) and most is not None and value > most):
        upper = "" if most is None else f" and <= {most}"
        raise ValueError(f"{name} = {value!r}; allowed: an integer >= {least}{upper}")


def require_counts(**values: object) -> None:
    """Raise a ValueError that names the first value which is no integer >= 1."""
    for name, value in values.items():
        require_count(name, value)


def require_choice(name: str, value: object, allowed: Collection[str]) -> None:
    """Raise a ValueError when a value is none of the names allowed, which the message lists."""
    if value not in allowed:
        raise ValueError(f"{name} = {value!r}; allowed: {', '.join(allowed)}")


def require_number(
    name: str,
    value: object,
    *,
    above: float = -math.inf,
    least: float = -math.inf,
    below: float = math.inf,
    most: float = math.inf,
) -> None:
    """Raise a ValueError unless a value is one finite real number in a range.

    Args:
        name: the argument's name.
        value: a number of Python or numpy, or a tensor `()`; a boolean is none.
        above: the number is larger.
        least: the number is at least this.
        below: the number is smaller.
        most: the number is at most this.
    """
    number = math.nan
    if isinstance(value, Real) and not isinstance(value, bool):
        number = float(value)
    elif (
        isinstance(value, Tensor) and value.ndim == 0 and value.dtype != torch.bool and not value.is_complex()
    ):
        number = value.item()
    if math.isfinite(number) and above < number < below and least <= number <= most:
        return
    ends = ((">", above), (">=", least), ("<", below), ("<=", most))
    within = " and ".join(f"{sign} {end:g}" for sign, end in ends if math.isfinite(end))
    raise ValueError(f"{name} = {value!r}; allowed: a finite number {within}".rstrip())


def step_numbers(record: Iterable[int], steps: int) -> tuple[int, ...]:
    """Return the step numbers to record, after checking that they increase from >= 0 to <= `steps`.

    Raises:
        ValueError: they do not, or there is none.
    """
    given = tuple(record)
    try:
        numbers = tuple(operator.index(k) for k in given)
    except TypeError:
        raise ValueError(f"record = {given}; allowed: integers") from None
    if not numbers or list(numbers) != sorted({*numbers}) or numbers[0] < 0 or numbers[-1] > steps:
        raise ValueError(
            f"record = {numbers}; allowed: increasing step numbers between 0 and steps = {steps}"
        )
    return numbers
