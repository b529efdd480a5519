"""LIBSVM's text format: a line is `target index:value index:value ...`, indices count from 1, zeros are left out."""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Callable
from io import BufferedIOBase
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from sklearn.datasets import load_svmlight_file

from learning_dynamics._internal.arguments import require_count

LARGEST_DENSE = 4 * 2**30
"""Bytes that a dense array may take; a larger file is for `read_sparse`."""


def read(path: Path | str, features: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and targets of a LIBSVM file as dense arrays; a file ending in .gz or .bz2 is unpacked.

    Args:
        path: The file.
        features: Number of columns; the largest index in the file if left out.

    Returns:
        Inputs (n, features) and targets (n,), float64, the targets as they stand in the file.

    Raises:
        ValueError: As `read_sparse`; or the inputs would take more than 4 GiB.
    """
    inputs, targets = read_sparse(path, features)
    rows, columns = inputs.shape
    if rows * columns * 8 > LARGEST_DENSE:
        size = rows * columns * 8 / 2**30
        raise ValueError(
            f"{Path(path).name} = {rows} x {columns} numbers, {size:.1f} GiB dense; "
            "allowed: at most 4 GiB, or read_sparse"
        )
    return inputs.toarray(), targets


def read_sparse(path: Path | str, features: int | None = None) -> tuple[csr_array, np.ndarray]:
    """Return inputs and targets of a LIBSVM file, without the zeros: memory in proportion to what is written.

    Args:
        path: The file; unpacked where its name ends in .gz or .bz2.
        features: Number of columns; the largest index in the file if left out.

    Returns:
        Inputs (n, features) and targets (n,), float64, the targets as they stand in the file.

    Raises:
        ValueError: A line is not in the format (a number like 1_000 included, which Python reads), the compressed file
            is damaged, an index exceeds `features`, a number is not finite, or the file holds no sample.
    """
    path = Path(path)
    if features is not None:
        require_count("features", features)
    try:
        inputs, targets = load_svmlight_file(str(path), n_features=features, zero_based=False)
    except FileNotFoundError:
        raise
    except (ValueError, OverflowError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path.name} = {error}; allowed: LIBSVM format") from error
    _refuse_underscores(path)
    if not len(targets):
        raise ValueError(f"{path.name} holds no sample; allowed: at least one")
    if not (np.isfinite(inputs.data).all() and np.isfinite(targets).all()):
        raise ValueError(f"{path.name} holds a number that is not finite; allowed: finite ones")
    return csr_array(inputs), targets


def _refuse_underscores(path: Path) -> None:
    """Raise a ValueError where a number is written like 1_000, which Python reads and LIBSVM does not."""
    opened: dict[str, Callable[[Path], BufferedIOBase]] = {".gz": gzip.GzipFile, ".bz2": bz2.BZ2File}
    with opened[path.suffix](path) if path.suffix in opened else path.open("rb") as file:
        if not any(b"_" in block for block in iter(lambda: file.read(2**20), b"")):
            return
        file.seek(0)
        for number, line in enumerate(file, 1):
            if b"_" in line.partition(b"#")[0]:
                text = line.decode("latin-1").strip()[:40]
                raise ValueError(f"{path.name}, line {number} = {text!r}; allowed: numbers without _")
