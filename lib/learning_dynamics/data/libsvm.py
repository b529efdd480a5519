"""LIBSVM's text format: a line is `target index:value index:value ...`, indices count from 1, zeros are left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file


def read(path: Path | str, features: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and targets of a LIBSVM file as dense arrays.

    Args:
        path: The file.
        features: Number of columns; the largest index in the file if left out.

    Returns:
        Inputs (n, features) and targets (n,), float64, the targets as they stand in the file.

    Raises:
        ValueError: A line is not in the format, an index exceeds `features`, a number is not finite, or the file
            holds no sample.
    """
    path = Path(path)
    if features is not None and (isinstance(features, bool) or features < 1):
        raise ValueError(f"features = {features!r}; allowed: an integer >= 1")
    try:
        inputs, targets = load_svmlight_file(str(path), n_features=features, zero_based=False)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{path.name} = {error}; allowed: LIBSVM format") from error
    if not len(targets):
        raise ValueError(f"{path.name} holds no sample; allowed: at least one")
    if not (np.isfinite(inputs.data).all() and np.isfinite(targets).all()):
        raise ValueError(f"{path.name} holds a number that is not finite; allowed: finite ones")
    return inputs.toarray(), targets
