"""What every data set of the book looks like."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs and targets, with their origin.

    Attributes:
        inputs: shape (n, ...), floating point. Images are (n, height, width) or (n, channels, height, width), with
            pixels in [0, 1].
        targets: shape (n,). Class indices from 0 (int64) if `classes` is set, else real numbers of the inputs' dtype.
        name: the name it was loaded by.
        source: where it comes from.
        licence: under what it may be used.
        classes: number of classes, or None for a regression.

    Raises:
        ValueError: inputs and targets are not one a sample, or complex.
    """

    inputs: torch.Tensor
    targets: torch.Tensor
    name: str
    source: str
    licence: str
    classes: int | None = None

    def __post_init__(self) -> None:
        """Check that there is one target for each input."""
        if self.inputs.shape[:1] != self.targets.shape[:1] or not self.inputs.ndim:
            raise ValueError(
                f"targets has shape {tuple(self.targets.shape)}; allowed: ({len(self.inputs)}, ...), as inputs"
            )
        for name in ("inputs", "targets"):
            if getattr(self, name).is_complex():
                raise ValueError(f"{name} has dtype {getattr(self, name).dtype}; allowed: real numbers")

    def __len__(self) -> int:
        return len(self.inputs)
