"""Minibatches: endless streams of row numbers, one order for all runs or one for each, and the rows of the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import require_count, require_generator

Source = torch.Generator | Sequence[torch.Generator]
"""A generator that all runs share, or a generator for each of B runs."""


def shuffled(n: int, batch_size: int, generator: Source, *, drop_last: bool = False) -> Iterator[Tensor]:
    """Yield the rows of one batch after the other, every epoch in a new order, without end.

    An epoch's order is drawn when its first batch is asked for.

    Args:
        n: number of samples.
        batch_size: between 1 and n.
        generator: one, for an order that all runs share, or a sequence of B, each the order of one run.
        drop_last: leave out the samples of an epoch that fill no batch; else the last batch is smaller.

    Returns:
        int64 tensors `(b,)` or, from B generators, `(B, b)`, on the device of the generators.

    Raises:
        ValueError: `batch_size` is out of range, or `generator` is no generator and no sequence of some.
    """
    _require(n, batch_size, generator)
    return _epochs(n, batch_size, generator, drop_last)


def drawn(n: int, batch_size: int, generator: Source) -> Iterator[Tensor]:
    """Yield the rows of one batch after the other, drawn independently with replacement, without end.

    Args:
        n: number of samples, >= 1.
        batch_size: >= 1.
        generator: one, for rows that all runs share, or a sequence of B. Nothing is drawn ahead, so that the states
            of the generators are all that a run needs to go on.

    Returns:
        int64 tensors `(b,)` or, from B generators, `(B, b)`, on the device of the generators.

    Raises:
        ValueError: a count is out of range, or `generator` is no generator and no sequence of some.
    """
    _require(max(n, batch_size), batch_size, generator)
    require_count("n", n)

    def rows(source: torch.Generator) -> Tensor:
        return torch.randint(n, (batch_size,), generator=source, device=source.device)

    def endless() -> Iterator[Tensor]:
        while True:
            yield _for_each(rows, generator)

    return endless()


def batches(rows: Iterable[Tensor], *data: Tensor, shared: bool = False) -> Iterator[tuple[Tensor, ...]]:
    """Yield the data of each batch, as `ModuleEnsemble.step` takes them.

    Args:
        rows: row numbers `(b,)` or `(B, b)`, as from `shuffled` and `drawn`.
        data: tensors `(B, n, ...)`, or with `shared` `(n, ...)`.
        shared: all runs have the same data; then the rows must be `(B, b)`. (For one order and the same data expand
            the data over the runs, `x.expand(B, *x.shape)`, which copies nothing.)

    Returns:
        tuples of tensors `(B, b, ...)`.

    Raises:
        ValueError: rows are no integers or have another shape, as shared data with rows `(b,)`, or the data have not
            one entry for each run.
    """
    for chosen in rows:
        if chosen.dtype not in (torch.int64, torch.int32) or chosen.ndim not in ((2,) if shared else (1, 2)):
            wanted = "(B, b), as the data are shared" if shared else "(b,) or (B, b)"
            raise ValueError(
                f"rows have shape {tuple(chosen.shape)} and dtype {chosen.dtype}; allowed: integers {wanted}"
            )
        for part in data:
            runs = None if shared or chosen.ndim == 1 else len(chosen)
            if part.ndim < 2 - shared or 0 in part.shape[: 2 - shared] or runs not in (None, len(part)):
                wanted = "(n, ...)" if shared else f"({'B' if runs is None else runs}, n, ...)"
                raise ValueError(f"data has shape {tuple(part.shape)}; allowed: {wanted}, none of these zero")
        yield tuple(_rows_of(part, chosen.to(part.device), shared) for part in data)


def _rows_of(part: Tensor, rows: Tensor, shared: bool) -> Tensor:
    if shared:
        return part[rows]
    if rows.ndim == 1:
        return part[:, rows]
    return part[torch.arange(len(part), device=part.device)[:, None], rows]


def _epochs(n: int, batch_size: int, generator: Source, drop_last: bool) -> Iterator[Tensor]:
    whole = n // batch_size * batch_size if drop_last else n
    while True:
        order = _for_each(lambda one: torch.randperm(n, generator=one, device=one.device), generator)
        yield from order[..., :whole].split(batch_size, dim=-1)


def _for_each(draw: Callable[[torch.Generator], Tensor], generator: Source) -> Tensor:
    if isinstance(generator, torch.Generator):
        return draw(generator)
    return torch.stack([draw(one) for one in generator])


def _require(n: int, batch_size: int, generator: Source) -> None:
    require_count("batch_size", batch_size, most=n)
    for one in generator if isinstance(generator, Sequence) and generator else [generator]:
        require_generator(one)
