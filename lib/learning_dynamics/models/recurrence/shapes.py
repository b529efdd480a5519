"""What every recurrent layer demands of its sizes and of the sequence that it is given."""

from __future__ import annotations

import torch
from torch import Tensor


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


def numbers(tensor: Tensor) -> Tensor:
    """Return the numbers behind a tensor, to look at: under `torch.func.vmap` those of all runs at once."""
    if not torch.compiler.is_compiling():
        while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor
