"""Time and peak memory of the three ways to evaluate a diagonal recurrence; the table is kept.

    python -m learning_dynamics.experiments.linear_recurrent_units.timings
    python -m learning_dynamics.experiments.linear_recurrent_units.timings --batch 16 --states 384 --device cuda

Each measurement runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import shlex
import sys
import time
from collections.abc import Sequence

import numpy as np
import torch

from learning_dynamics import results
from learning_dynamics.models.recurrence import linear_recurrence, ring_eigenvalues
from learning_dynamics.runs import resolve_device

CHAPTER = "recurrence/linear_recurrent_units"
LENGTHS = (64, 256, 1024, 4096, 16384)
METHODS = ("loop", "scan", "fft")


def measure(
    method: str, length: int, batch: int, states: int, device: str, repeats: int = 5
) -> tuple[float, float]:
    """Return the shortest of `repeats` forward times in seconds, and peak memory beyond the input, in inputs.

    Args:
        method: `loop`, `scan` or `fft`.
        length: T; the input is `(batch, length, states)` complex64.
        batch: number of sequences.
        states: number of states.
        device: `cpu` (memory from the process's high-water mark) or a CUDA device (from the allocator).
        repeats: number of timed runs, >= 1.

    Raises:
        ValueError: fewer than one repeat.
    """
    if repeats < 1:
        raise ValueError(f"repeats = {repeats}; allowed: at least 1")
    nu, phase = ring_eigenvalues(states, 0.9, 0.999, generator=torch.Generator().manual_seed(0))
    lam = torch.polar(torch.exp(-nu), phase).to(device, torch.complex64)
    linear_recurrence(lam, torch.zeros(1, 40, states, dtype=lam.dtype, device=device), method=method)  # warm
    inputs = torch.ones(batch, length, states, dtype=torch.complex64, device=device)
    cuda = torch.device(device).type == "cuda"
    before = torch.cuda.memory_allocated(device) if cuda else _high_water()
    if cuda:
        torch.cuda.reset_peak_memory_stats(device)
    times = []
    for _ in range(repeats):
        if cuda:
            torch.cuda.synchronize(device)
        started = time.perf_counter()
        linear_recurrence(lam, inputs, method=method, stable=False)
        if cuda:
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - started)
    after = torch.cuda.max_memory_allocated(device) if cuda else _high_water()
    return min(times), (after - before) / (inputs.numel() * inputs.element_size())


def _high_water() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _alone(method: str, length: int, batch: int, states: int, device: str) -> tuple[float, float]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (method, length, batch, states, device))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all methods at all lengths and keep the table."""
    parser = argparse.ArgumentParser(
        prog="python -m learning_dynamics.experiments.linear_recurrent_units.timings", description=__doc__
    )
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--states", type=int, default=64)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    chosen = parser.parse_args(arguments)
    device, started = str(resolve_device(chosen.device)), time.perf_counter()
    words = list(sys.argv[1:] if arguments is None else arguments)
    table = np.array(
        [[_alone(m, n, chosen.batch, chosen.states, device) for n in chosen.lengths] for m in METHODS]
    )
    results.keep(
        CHAPTER,
        f"timings-{torch.device(device).type}",
        {"lengths": np.array(chosen.lengths), "seconds": table[..., 0], "memory": table[..., 1]},
        command=shlex.join(
            ["python", "-m", "learning_dynamics.experiments.linear_recurrent_units.timings", *words]
        ),
        seeds=(0,),
        device=device,
        wall_time=time.perf_counter() - started,
        rtol=10.0,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
