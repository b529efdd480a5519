"""Time and peak memory of the three ways to evaluate a diagonal recurrence; the table is kept.

    python -m learning_dynamics.experiments.linear_recurrent_units.timings
    python -m learning_dynamics.experiments.linear_recurrent_units.timings --scale paper --device cuda

Each measurement runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from collections.abc import Sequence

import numpy as np
import torch

from learning_dynamics.experiments.command import Call, Experiment, Option, Scaled
from learning_dynamics.models.recurrence import linear_recurrence, ring_eigenvalues
from learning_dynamics.models.recurrence.linear import Method

CHAPTER = "recurrence/linear_recurrent_units"
LENGTHS = (64, 256, 1024, 4096, 16384)
METHODS: tuple[Method, ...] = ("loop", "scan", "fft")


def measure(
    method: Method, length: int, batch: int, states: int, device: str, repeats: int = 5
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


def _alone(method: Method, length: int, batch: int, states: int, device: str) -> tuple[float, float]:
    with multiprocessing.get_context("spawn").Pool(1, torch.set_num_threads, (1,)) as pool:
        return pool.apply(measure, (method, length, batch, states, device))


def compute(call: Call) -> dict[str, np.ndarray]:
    """Measure all methods at all lengths, each alone."""
    sizes = call.options.batch, call.options.states, str(call.run.device)
    table = np.array([[_alone(m, n, *sizes) for n in call.options.lengths] for m in METHODS])
    return {"lengths": np.array(call.options.lengths), "seconds": table[..., 0], "memory": table[..., 1]}


EXPERIMENT = Experiment(
    chapter=CHAPTER,
    name=lambda options: f"timings-{torch.device(options.device).type}",
    compute=compute,
    options=(
        Option("--batch", "number of sequences", Scaled(1, 4, 16)),
        Option("--states", "number of states", Scaled(2, 64, 384)),
        Option("--lengths", "lengths of the sequences", Scaled(LENGTHS[:2], LENGTHS, LENGTHS)),
    ),
    rtol=10.0,
    kept=("",),
    paper=("--scale paper --device cuda",),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute and keep; see `learning_dynamics.experiments.command`."""
    return EXPERIMENT.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
