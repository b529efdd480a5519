"""What every data set of the book looks like."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs and targets, with their origin.

    Attributes:
        inputs: Shape (n, ...), floating point. Images are (n, height, width) or (n, channels, height, width), with
            pixels in [0, 1].
        targets: Shape (n,). Class indices from 0 (int64) if `classes` is set, else real numbers of the inputs' dtype.
        name: The name it was loaded by.
        source: Where it comes from.
        licence: Under what it may be used.
        classes: Number of classes, or None for a regression.
    """

    inputs: torch.Tensor
    targets: torch.Tensor
    name: str
    source: str
    licence: str
    classes: int | None = None

    def __len__(self) -> int:
        return len(self.inputs)
