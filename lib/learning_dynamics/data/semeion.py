"""Semeion's text file of handwritten digits: 256 binary pixels and ten indicators of the class in each line."""

from __future__ import annotations

from pathlib import Path

import numpy as np

PIXELS, CLASSES = 16 * 16, 10


def read(path: Path | str) -> tuple[np.ndarray, np.ndarray]:
    """Return images (n, 16, 16), uint8 with values 0 and 1, and labels (n,), uint8, in the order of the file.

    The file of the UCI repository, `semeion.data`, has n = 1593 lines. It is not among the sets that `data.load`
    downloads, since its checksum is not known here.

    Args:
        path: the text file.

    Raises:
        ValueError: the file is empty, or a line is not 256 zeros and ones followed by ten indicators, one of them 1.
    """
    path = Path(path)
    rows = []
    for number, line in enumerate(path.read_text(encoding="ascii").splitlines(), start=1):
        words = line.split()
        if not words:
            continue
        if len(words) != PIXELS + CLASSES:
            raise ValueError(f"{path.name}, line {number}: {len(words)} numbers; allowed: {PIXELS + CLASSES}")
        try:
            values = [float(word) for word in words]
        except ValueError as error:
            raise ValueError(f"{path.name}, line {number} = {line[:40]!r}; allowed: numbers") from error
        if any(value not in (0.0, 1.0) for value in values) or sum(values[PIXELS:]) != 1:
            raise ValueError(
                f"{path.name}, line {number} = {line[:40]!r}; allowed: zeros and ones, and one class"
            )
        rows.append(values)
    if not rows:
        raise ValueError(f"{path.name}: no line; allowed: at least one")
    table = np.array(rows, np.uint8)
    return table[:, :PIXELS].reshape(-1, 16, 16), table[:, PIXELS:].argmax(1).astype(np.uint8)
