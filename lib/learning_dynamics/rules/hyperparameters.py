"""What a hyper-parameter of an update rule may be, and how a rule reads it.

A hyper-parameter is a number, or a tensor that broadcasts against the parameters `theta (*batch, d)`. The
coordinate axis of such a tensor must have length one, so that a grid of values is a batch axis and can never
be mistaken for one value per coordinate: `torch.tensor([0.1, 0.2])[:, None]` gives two runs, each its own
step size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real

import torch
from torch import Tensor

Hyperparameter = float | Tensor
"""A number, or a tensor of shape `(*batch, 1)` (or without axes)."""

Schedule = Hyperparameter | Callable[[int], Hyperparameter]
"""A hyper-parameter, or a function of the step number 0, 1, 2, ... that returns one."""

StepSize = Schedule
"""A number, a tensor or a schedule k -> eta_k that multiplies the update of a rule."""

Momentum = Schedule
"""A number, a tensor or a schedule k -> beta_{1,k}: how much of the past step number k keeps."""


def require(name: str, value: object, low: float, below: float = math.inf) -> None:
    """Check that every entry of a hyper-parameter lies in `[low, below)`.

    Args:
        name: the argument's name, for the message.
        value: the hyper-parameter.
        low: least allowed value; minus infinity means any finite value.
        below: the values stay strictly below this one; infinity means any finite value.

    Raises:
        ValueError: the value is no real number or tensor, lies outside, is not finite, or has a last axis
            longer than one.
    """
    allowed = (
        "finite"
        + (f", >= {low}" if low > -math.inf else "")
        + (f" and < {below}" if below < math.inf else "")
    )
    if isinstance(value, Tensor):
        _require_no_coordinates(name, value)
        inside = bool(((value >= low) & (value < below) & value.isfinite()).all())
    else:
        inside = isinstance(value, Real) and low <= float(value) < below and float(value) > -math.inf
    if not inside:
        raise ValueError(f"{name} = {value!r}; allowed: {allowed}")


def require_schedule(name: str, value: object, low: float, below: float = math.inf) -> None:
    """Check a hyper-parameter as `require` does, unless it is a schedule: what that returns is used as it is.

    Raises:
        ValueError: as `require`.
    """
    if not callable(value):
        require(name, value, low, below)


def require_positive(name: str, value: object, finite: bool = True) -> None:
    """Check that every entry of a hyper-parameter is > 0, and finite unless `finite` is false.

    Raises:
        ValueError: the value is no real number or tensor, lies outside, or has a last axis longer than one.
    """
    top = math.inf if finite else math.nan
    if isinstance(value, Tensor):
        _require_no_coordinates(name, value)
        inside = bool(((value > 0) & (value != top)).all())
    else:
        inside = isinstance(value, Real) and float(value) > 0 and float(value) != top
    if not inside:
        raise ValueError(f"{name} = {value!r}; allowed: > 0{' and finite' if finite else ''}")


def require_step_size(step_size: StepSize) -> None:
    """Check a constant step size: finite and not negative. What a schedule returns is used as it is."""
    require_schedule("step_size", step_size, 0.0)


def like(value: Hyperparameter, theta: Tensor) -> Hyperparameter:
    """Return the hyper-parameter in the dtype and on the device of `theta`, so that it never changes them."""
    return value.to(theta) if isinstance(value, Tensor) else value


def step_size_at(step_size: StepSize, step: int | Tensor, theta: Tensor) -> Hyperparameter:
    """Return the step size eta_k of step number `step`, ready to multiply `theta`.

    Raises:
        ValueError: a schedule returned a tensor whose last axis is longer than one.
    """
    return value_at("step_size", step_size, step, theta)


def value_at(name: str, value: Schedule, step: int | Tensor, theta: Tensor) -> Hyperparameter:
    """Return the value of a hyper-parameter or schedule at step number `step`, in the dtype of `theta`.

    Raises:
        ValueError: a schedule returned a tensor whose last axis is longer than one.
    """
    if callable(value):
        value = value(step)  # type: ignore[arg-type]  # a tensor only under `Restarted`
        if isinstance(value, Tensor):
            _require_no_coordinates(name, value)
    return like(value, theta)


def require_step_numbers(**arguments: Hyperparameter) -> None:
    """Check what a formula of a step size is given: its tensors are real, of floating point, and broadcast.

    Raises:
        ValueError: one is not, or an argument without a dtype of its own is no real number.
    """
    for name, value in arguments.items():
        if isinstance(value, Tensor) and not value.is_floating_point() or isinstance(value, complex):
            given = value.dtype if isinstance(value, Tensor) else "a complex number"
            raise ValueError(f"{name} is {given}; allowed: real floating point")
    shapes = {name: value.shape for name, value in arguments.items() if isinstance(value, Tensor)}
    try:
        torch.broadcast_shapes(*shapes.values())
    except RuntimeError:
        given = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
        raise ValueError(f"shapes = {given}; allowed: shapes that broadcast") from None


def _require_no_coordinates(name: str, value: Tensor) -> None:
    if value.is_complex() or value.dtype == torch.bool:
        raise ValueError(f"{name} has dtype {value.dtype}; allowed: real numbers")
    if value.ndim > 0 and value.shape[-1] != 1:
        raise ValueError(
            f"{name} has shape {tuple(value.shape)}; allowed: a number or a tensor (*batch, 1), "
            "one value per run (a grid of values is a batch axis: write values[:, None])"
        )
