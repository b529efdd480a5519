"""The path that a recurrent layer chooses beside the step loop: forward and backward, on one CPU thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import torch

from learning_dynamics.models.recurrence import linear_recurrence, ring_eigenvalues
from timing import Row, one_thread, shortest, show

BATCH, STATES = 4, 64


def passes(length: int, method: str) -> Callable[[], object]:
    """Return a call that goes forward and backward through a sequence."""
    nu, phase = ring_eigenvalues(STATES, 0.9, 0.999, generator=torch.Generator().manual_seed(0))
    lam = torch.polar(torch.exp(-nu), phase).to(torch.complex64).requires_grad_()
    inputs = torch.ones(BATCH, length, STATES, dtype=torch.complex64, requires_grad=True)
    return lambda: linear_recurrence(lam, inputs, method=method, stable=False).abs().square().sum().backward()


def rows() -> Iterator[Row]:
    """Yield one line a length: loop time over the time of `auto`, and over that of the Fourier transform."""
    with one_thread():
        for length in (1024, 16384):
            works = [passes(length, method) for method in ("loop", "auto", "fft")]
            loop, auto, fft = shortest(*works, repeats=5, clock=time.process_time)
            yield (
                f"recurrence, T = {length}, batch {BATCH}, {STATES} states: step loop against auto; against fft",
                f"{loop / auto:.1f}x; {loop / fft:.2f}x",
            )


if __name__ == "__main__":
    show(rows())
