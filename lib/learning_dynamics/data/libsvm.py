"""LIBSVM's text format: a line is `target index:value index:value ...`, indices count from 1, zeros are left out."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Literal, overload

import numpy as np
from scipy.sparse import csr_array
from sklearn.datasets import load_svmlight_file

from learning_dynamics._internal.arguments import require_count

LARGEST_DENSE = 4 * 2**30
"""Bytes that a dense array may take; larger files are read sparse."""


@overload
def read(
    path: Path | str, features: int | None = ..., *, sparse: Literal[False] = ...
) -> tuple[np.ndarray, np.ndarray]: ...
@overload
def read(
    path: Path | str, features: int | None = ..., *, sparse: Literal[True]
) -> tuple[csr_array, np.ndarray]: ...
def read(
    path: Path | str, features: int | None = None, *, sparse: bool = False
) -> tuple[np.ndarray | csr_array, np.ndarray]:
    """Return inputs and targets of a LIBSVM file; a file whose name ends in .gz or .bz2 is unpacked.

    Args:
        path: The file.
        features: Number of columns; the largest index in the file if left out.
        sparse: Keep the inputs as the file has them, without the zeros: memory in proportion to what is written.

    Returns:
        Inputs (n, features), a dense array or a scipy.sparse.csr_array, and targets (n,), both float64, the targets
        as they stand in the file.

    Raises:
        ValueError: A line is not in the format, the compressed file is damaged, an index exceeds `features`, a number
            is not finite, the file holds no sample, or the inputs would take more than 4 GiB as a dense array.
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
    if not len(targets):
        raise ValueError(f"{path.name} holds no sample; allowed: at least one")
    if not (np.isfinite(inputs.data).all() and np.isfinite(targets).all()):
        raise ValueError(f"{path.name} holds a number that is not finite; allowed: finite ones")
    if sparse:
        return csr_array(inputs), targets
    rows, columns = inputs.shape
    if rows * columns * 8 > LARGEST_DENSE:
        size = rows * columns * 8 / 2**30
        raise ValueError(
            f"{path.name} = {rows} x {columns} numbers, {size:.1f} GiB dense; allowed: at most 4 GiB, or sparse=True"
        )
    return inputs.toarray(), targets
