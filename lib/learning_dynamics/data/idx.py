"""The IDX format of MNIST and its relatives.

Layout (big-endian): two zero bytes, a type code, the number of axes, one uint32 per axis, then the values.
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np

TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read(path: Path | str) -> np.ndarray:
    """Return the array that an IDX file holds; a file whose name ends in .gz is unpacked.

    Raises:
        ValueError: the file is not in IDX format, or holds more or fewer values than its header says.
    """
    path = Path(path)
    content = path.read_bytes()
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{path.name} = no whole gzip file ({error}); allowed: one") from error
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in TYPES or not content[3]:
        raise ValueError(f"{path.name}: header = {content[:4].hex()!r}; allowed: an IDX header")
    start = 4 + 4 * content[3]
    if len(content) < start:
        raise ValueError(f"{path.name}: the header ends after {len(content)} bytes; allowed: {start}")
    shape = tuple(int(size) for size in np.frombuffer(content[4:start], ">u4"))
    dtype = np.dtype(TYPES[content[2]])
    expected = start + math.prod(shape) * dtype.itemsize
    if len(content) != expected:
        raise ValueError(f"{path.name}: {len(content)} bytes; allowed: {expected} for shape {shape}")
    return np.frombuffer(content, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))
