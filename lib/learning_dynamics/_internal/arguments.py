"""Checks of arguments that many modules share; each raises one line that names the argument."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def require_finite(name: str, tensor: Tensor) -> None:
    """Raise a ValueError when a floating point tensor has an entry that is NaN or infinite."""
    if tensor.is_floating_point() and not torch.isfinite(tensor).all():
        raise ValueError(f"{name} has entries that are NaN or infinite; allowed: finite numbers")


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


def step_numbers(record: Iterable[int], steps: int) -> tuple[int, ...]:
    """Return the step numbers to record, after checking that they increase from >= 0 to <= `steps`.

    Raises:
        ValueError: they do not, or there is none.
    """
    numbers = tuple(int(k) for k in record)
    if not numbers or list(numbers) != sorted({*numbers}) or numbers[0] < 0 or numbers[-1] > steps:
        raise ValueError(
            f"record = {numbers}; allowed: increasing step numbers between 0 and steps = {steps}"
        )
    return numbers
