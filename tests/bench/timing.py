"""How the benchmarks take their time: on one thread, the shortest of a few calls, works side by side in turns."""

from __future__ import annotations

import subprocess
import sys
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
    return [min(taken) for taken in in_turns(*works, repeats=repeats, clock=clock)]


def in_turns(
    *works: Callable[[], object], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> list[list[float]]:
    """Return the times of each work in seconds, one call of each after the other, over and over."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(repeats):
        for work, taken in zip(works, times, strict=True):
            started = clock()
            work()
            taken.append(clock() - started)
    return times


def peak_memory(setting: str, work: str) -> float:
    """Return by how many bytes the work raises the peak memory of a fresh process after its setting, on Linux."""
    peak = "int(next(line for line in open('/proc/self/status') if 'VmHWM' in line).split()[1])"
    code = f"{setting}\nbefore = {peak}\n{work}\nprint({peak} - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return 1024 * float(done.stdout)


def show(rows: Iterator[Row]) -> None:
    """Print each row when it is measured."""
    for label, value in rows:
        print(f"{label}: {value}", flush=True)
