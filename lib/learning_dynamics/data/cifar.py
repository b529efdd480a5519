"""CIFAR-10's binary archive: records of one label byte and 3 x 32 x 32 pixel bytes. Nothing is unpickled."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

RECORD = 1 + 3 * 32 * 32


def read(path: Path | str, members: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return images (n, 3, 32, 32) and labels (n,), uint8, of the named members in their order.

    Raises:
        ValueError: the archive is damaged, a member is absent, or is not a whole number of records.
    """
    path = Path(path)
    try:
        with gzip.open(path) as stream:  # to the end, where the checksum stands; tarfile stops before
            while stream.read(1 << 20):
                pass
        with tarfile.open(path, "r:gz") as archive:
            names = archive.getnames()
            streams = [archive.extractfile(member) if member in names else None for member in members]
            contents = [None if stream is None else stream.read() for stream in streams]
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path.name} = a damaged archive ({error}); allowed: a whole .tar.gz") from error
    parts = []
    for member, content in zip(members, contents, strict=True):
        if content is None:  # absent, or a folder
            raise ValueError(f"{path.name} has no file {member!r}; allowed: an archive that has it")
        if not content or len(content) % RECORD:
            raise ValueError(
                f"{path.name}: {member} has {len(content)} bytes; allowed: a multiple of {RECORD}"
            )
        parts.append(np.frombuffer(content, np.uint8).reshape(-1, RECORD))
    if not parts:
        raise ValueError("members = []; allowed: at least one name")
    records = np.concatenate(parts)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]
