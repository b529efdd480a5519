"""How the benchmarks take their time: on one thread, the shortest of a few calls, works side by side in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

Row = tuple[str, str]


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one core."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def shortest(
    *works: Callable[[], object], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Return the shortest time of each work in seconds, taken in turns: a busy machine troubles all alike."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(repeats):
        for work, taken in zip(works, times, strict=True):
            started = clock()
            work()
            taken.append(clock() - started)
    return [min(taken) for taken in times]


def show(rows: Iterator[Row]) -> None:
    """Print each row when it is measured."""
    for label, value in rows:
        print(f"{label}: {value}", flush=True)
