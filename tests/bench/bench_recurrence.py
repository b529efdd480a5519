"""The path that a recurrent layer chooses beside the step loop: forward and backward, on one CPU thread."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from learning_dynamics.models.recurrence import linear_recurrence, ring_eigenvalues

BATCH, STATES = 4, 64


def fastest(work: Callable[[], object], repeats: int = 5) -> float:
    """Return the shortest of several CPU times in seconds."""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def passes(length: int, method: str) -> Callable[[], object]:
    """Return a call that goes forward and backward through a sequence."""
    nu, phase = ring_eigenvalues(STATES, 0.9, 0.999, generator=torch.Generator().manual_seed(0))
    lam = torch.polar(torch.exp(-nu), phase).to(torch.complex64).requires_grad_()
    inputs = torch.ones(BATCH, length, STATES, dtype=torch.complex64, requires_grad=True)
    return lambda: linear_recurrence(lam, inputs, method=method, stable=False).abs().square().sum().backward()


def rows() -> list[tuple[str, str]]:
    """Return one line a length: loop time over the time of `auto`, and over that of the Fourier transform."""
    torch.set_num_threads(1)
    found = []
    for length in (1024, 16384):
        loop, auto, fft = (fastest(passes(length, method)) for method in ("loop", "auto", "fft"))
        found.append(
            (
                f"recurrence, T = {length}, batch {BATCH}, {STATES} states: step loop against auto; against fft",
                f"{loop / auto:.1f}x; {loop / fft:.2f}x",
            )
        )
    return found


if __name__ == "__main__":
    for name, value in rows():
        print(f"{name}: {value}")
