"""Checkpoints: a long computation stops when its time is up and goes on where it was."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

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
    stream = io.BytesIO()
    torch.save({"settings": settings, "state": state}, stream)
    content = stream.getvalue()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, hashlib.sha256(content).digest() + content)


def load(path: Path, *, settings: str) -> dict[str, Any] | None:
    """Return the state, its tensors on the CPU, or None if there is no such file.

    Raises:
        ValueError: the file is of another computation, or no checkpoint, or a bit of it has changed since.
    """
    if not path.exists():
        return None
    found, state = read(path)
    if found != settings:
        raise ValueError(f"checkpoint = {path} is of {found}; allowed: {settings}")
    return state


def read(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the settings and the state of a checkpoint, the tensors on the CPU.

    Raises:
        ValueError: the file is no checkpoint, or a bit of it has changed since it was written.
    """
    content = path.read_bytes()
    digest, content = content[:32], content[32:]
    try:
        if hashlib.sha256(content).digest() != digest:
            raise OSError("its checksum is another one")
        held = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        return held["settings"], held["state"]
    except Exception as error:
        raise ValueError(
            f"checkpoint = {path}; allowed: an undamaged file written by checkpoints.save"
        ) from error


def fingerprint(*parts: Tensor | Path) -> str:
    """Return a name of the content: 16 digits of a SHA-256 over dtypes, shapes and values, or over the files.

    Args:
        parts: tensors on any device, and files or folders (every file under a folder, with its name).

    Raises:
        OSError: a file cannot be read.
    """
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, Tensor):
            values = part.detach().cpu().contiguous()
            digest.update(f"{values.dtype} {tuple(values.shape)} ".encode())
            digest.update(values.reshape(-1).view(torch.uint8).numpy().tobytes())
        else:
            for file in _files(part):
                digest.update(f"{file.relative_to(part).as_posix()} {file.stat().st_size} ".encode())
                with file.open("rb") as stream:
                    digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:16]


def _files(path: Path) -> Iterable[Path]:
    return sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
