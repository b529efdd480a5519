"""CIFAR-10's binary archive: records of one label byte and 3 x 32 x 32 pixel bytes. Nothing is unpickled."""

from __future__ import annotations

import tarfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

RECORD = 1 + 3 * 32 * 32


def read(path: Path | str, members: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return images (n, 3, 32, 32) and labels (n,), uint8, of the named members in their order.

    Raises:
        ValueError: A member is absent, or is not a whole number of records.
    """
    path = Path(path)
    parts = []
    with tarfile.open(path, "r:gz") as archive:
        for member in members:
            stream = archive.extractfile(member) if member in archive.getnames() else None
            if stream is None:  # absent, or a folder
                raise ValueError(f"{path.name} has no file {member!r}; allowed: an archive that has it")
            content = stream.read()
            if not content or len(content) % RECORD:
                raise ValueError(
                    f"{path.name}: {member} has {len(content)} bytes; allowed: a multiple of {RECORD}"
                )
            parts.append(np.frombuffer(content, np.uint8).reshape(-1, RECORD))
    records = np.concatenate(parts)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]
