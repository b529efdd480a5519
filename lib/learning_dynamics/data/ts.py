"""The text format of the time-series classification archives: one series a line, `1.0,2.5,...:label`."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def read_ts(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return univariate series of one length and their labels from a `.ts` file (Bagnall et al. 2018).

    Lines that start with `#` are comments and those with `@` are headers; the data begin after `@data`.

    Args:
        path: the file.

    Returns:
        Series `(n, T)` float64 and labels `(n,)`, strings.

    Raises:
        ValueError: the file has no data, or a line with several channels, missing values, or another length.
    """
    series: list[np.ndarray] = []
    labels: list[str] = []
    data = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("@"):
            data = line.lower() == "@data"
            continue
        if not data:
            raise ValueError(
                f"{path.name}, line {number} = {line!r}; allowed before @data: comments and settings"
            )
        values, _, label = line.rpartition(":")
        if ":" in values or not values:
            raise ValueError(
                f"{path.name}, line {number} = {line[:40]!r}; allowed: one channel and a label, `1.0,2.5,...:label`"
            )
        try:
            row = np.array([float(value) for value in values.split(",")])
        except ValueError:
            raise ValueError(
                f"{path.name}, line {number} = {line[:40]!r}; allowed: numbers, none missing"
            ) from None
        if series and len(row) != len(series[0]):
            raise ValueError(
                f"{path.name}, line {number}: {len(row)} values; allowed: {len(series[0])}, as before"
            )
        series.append(row)
        labels.append(label)
    if not series:
        raise ValueError(f"{path.name} has no series after @data; allowed: at least one")
    return np.stack(series), np.array(labels)
