"""In which precision a recurrence is computed: at least single, under autocast and in half-precision models too."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

LIFTED = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.complex32: torch.complex64,
}
"""Dtypes whose rounding adds up over a sequence, and what stands in for them."""


def lifted(tensor: Tensor) -> Tensor:
    """Return the tensor in at least single precision; itself where it has that already."""
    dtype = LIFTED.get(tensor.dtype)
    return tensor if dtype is None else tensor.to(dtype)


def autocast_is_on(device: torch.device) -> bool:
    """Say whether operations on this device are autocast at the moment."""
    kind = device.type
    return torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)


def as_it_stands(device: torch.device) -> AbstractContextManager[object]:
    """Return a context without autocast, in which operations keep the dtypes of their tensors."""
    return torch.autocast(device.type, enabled=False) if autocast_is_on(device) else nullcontext()


def admitted(name: str, tensor: Tensor, like: Tensor) -> Tensor:
    """Return an input of a layer in the precision in which the layer computes.

    Args:
        name: what an error calls the input.
        tensor: the input; of the dtype of `like`, or of any real floating point dtype under autocast.
        like: a parameter of the layer.

    Raises:
        ValueError: another dtype or device.
    """
    if tensor.device != like.device:
        raise ValueError(f"{name} lies on {tensor.device}; allowed: {like.device}, where the layer is")
    if tensor.dtype != like.dtype and not (tensor.is_floating_point() and autocast_is_on(tensor.device)):
        raise ValueError(f"{name} has dtype {tensor.dtype}; allowed: {like.dtype}, that of the layer")
    return tensor.to(LIFTED.get(like.dtype, like.dtype))
