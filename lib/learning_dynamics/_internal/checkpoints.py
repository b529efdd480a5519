"""Checkpoints: a long computation stops when its time is up and goes on where it was."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch

from learning_dynamics._internal.files import write_whole


class OutOfTimeError(RuntimeError):
    """The time is up; what was done is saved, and the same call goes on from there. The message says how far it is."""


def save(path: Path, state: dict[str, Any], *, settings: str) -> None:
    """Write a state; the file is whole from the first moment it has its name, and an older one stays until then.

    Args:
        path: the file; its folder is made if needed.
        state: tensors, numbers, strings, and lists and dicts of them.
        settings: what the computation is, in words that change when it does.
    """
    content = io.BytesIO()
    torch.save({"settings": settings, "state": state}, content)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content.getvalue())


def load(path: Path, *, settings: str) -> dict[str, Any] | None:
    """Return the state, its tensors on the CPU, or None if there is no such file.

    Raises:
        ValueError: the file is of another computation, or no checkpoint.
    """
    if not path.exists():
        return None
    try:
        held = torch.load(path, map_location="cpu", weights_only=True)
        found, state = held["settings"], held["state"]
    except Exception as error:
        raise ValueError(f"checkpoint = {path}; allowed: a file written by checkpoints.save") from error
    if found != settings:
        raise ValueError(f"checkpoint = {path} is of {found}; allowed: {settings}")
    return state
