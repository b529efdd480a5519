"""Sequences of different lengths in one batch: which positions count, and what becomes of the others."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from learning_dynamics.models.recurrence.shapes import numbers


@dataclass(frozen=True)
class Padding:
    """The positions of a batch of sequences that count, moved to the front.

    Attributes:
        counts: how many positions count, `(*batch)`, whole numbers.
        valid: True for the first `counts` positions, `(*batch, T)`.
        order: position of origin of each position, `(*batch, T)`; None where none moves.
    """

    counts: Tensor
    valid: Tensor
    order: Tensor | None

    def gathered(self, sequence: Tensor) -> Tensor:
        """Return `sequence (*batch, T, width)` with the positions that count in front and zeros behind them."""
        if self.order is not None:
            sequence = torch.take_along_dim(sequence, self.order[..., None], dim=-2)
        return self.cleared(sequence)

    def cleared(self, sequence: Tensor) -> Tensor:
        """Return a gathered `sequence (*batch, T, width)` with zeros behind the positions that count."""
        return torch.where(self.valid[..., None], sequence, sequence.new_zeros(()))

    def scattered(self, sequence: Tensor) -> Tensor:
        """Return a gathered `sequence (*batch, T, width)` in its first order, zeros where a position does not count."""
        sequence = self.cleared(sequence)
        if self.order is None:
            return sequence
        return torch.take_along_dim(sequence, self.order.argsort(-1)[..., None], dim=-2)

    def last(self, sequence: Tensor) -> Tensor:
        """Return the last position that counts, `(*batch, width)`, of a gathered `sequence (*batch, T, width)`."""
        return torch.take_along_dim(sequence, self.counts[..., None, None] - 1, dim=-2)[..., 0, :]


def padding(sequence: Tensor, lengths: Tensor | None, mask: Tensor | None) -> Padding | None:
    """Return which positions of a sequence `(*batch, T, width)` count; None if all do because nothing is said.

    Args:
        sequence: what is padded.
        lengths: `(*batch)` whole numbers from 1 to T: the first so many positions count.
        mask: `(*batch, T)` booleans: the positions with True count; the others are left out, wherever they stand.

    Raises:
        ValueError: both are given, a shape or dtype is another, or a sequence is left without a position.
    """
    if lengths is None and mask is None:
        return None
    if lengths is not None and mask is not None:
        raise ValueError("lengths and mask are both given; allowed: one of them")
    batch, total = sequence.shape[:-2], sequence.shape[-2]
    if lengths is not None:
        if not isinstance(lengths, Tensor) or lengths.shape != batch or not _whole(lengths):
            raise ValueError(f"lengths = {_words(lengths)}; allowed: whole numbers of shape {tuple(batch)}")
        lengths = lengths.to(sequence.device).long()
        seen = numbers(lengths)
        if bool(((seen < 1) | (seen > total)).any()):
            raise ValueError(
                f"lengths from {int(seen.min())} to {int(seen.max())}; allowed: from 1 to T = {total}"
            )
        return Padding(lengths, torch.arange(total, device=sequence.device) < lengths[..., None], None)
    if not isinstance(mask, Tensor) or mask.shape != (*batch, total) or mask.dtype != torch.bool:
        raise ValueError(f"mask = {_words(mask)}; allowed: booleans of shape {(*batch, total)}")
    mask = mask.to(sequence.device)
    counts = mask.sum(-1)
    if bool((numbers(counts) < 1).any()):
        raise ValueError("mask leaves a sequence without a position; allowed: at least one True in each row")
    order = (~mask).to(torch.uint8).argsort(dim=-1, stable=True)
    return Padding(counts, torch.arange(total, device=sequence.device) < counts[..., None], order)


def _whole(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def _words(value: object) -> str:
    return f"{value.dtype} of shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
