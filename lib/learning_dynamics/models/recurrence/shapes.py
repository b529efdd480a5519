"""What every recurrent layer demands of its sizes and of the sequence that it is given."""

from __future__ import annotations

import torch
from torch import Tensor


def require_widths(**widths: int) -> None:
    """Raise a `ValueError` that names the first width that is not a whole number of at least 1."""
    for name, width in widths.items():
        if isinstance(width, bool) or not isinstance(width, int) or width < 1:
            raise ValueError(f"{name} = {width!r}; allowed: a whole number of at least 1")


def require_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise a `ValueError` if `value` is not one of `allowed`."""
    if value not in allowed:
        raise ValueError(f"{name} = {value!r}; allowed: {', '.join(allowed)}")


def require_sequence(name: str, sequence: Tensor, width: int) -> None:
    """Raise a `ValueError` unless `sequence` is `(*batch, T, width)` with T >= 1."""
    if sequence.ndim < 2 or sequence.shape[-1] != width or sequence.shape[-2] < 1:
        raise ValueError(
            f"{name} has shape {tuple(sequence.shape)}; allowed: (*batch, T, {width}) with T >= 1"
        )


def require_position(name: str, position: Tensor, width: int) -> None:
    """Raise a `ValueError` unless `position` is `(*batch, width)`."""
    if position.ndim < 1 or position.shape[-1] != width:
        raise ValueError(f"{name} has shape {tuple(position.shape)}; allowed: (*batch, {width})")


def admitted_state(state: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return the state of a layer in its dtype; a `ValueError` for another shape or a dtype that would lose digits."""
    if not isinstance(state, Tensor) or tuple(state.shape) != shape:
        found = f"shape {tuple(state.shape)}" if isinstance(state, Tensor) else repr(state)
        raise ValueError(f"state has {found}; allowed: shape {shape}")
    if torch.promote_types(state.dtype, dtype) != dtype:
        raise ValueError(f"state has dtype {state.dtype}; allowed: {dtype}")
    return state.to(dtype)
