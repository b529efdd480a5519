"""Time and peak memory of three ways to evaluate a diagonal recurrence, and of a training step of three networks.

    python -m learning_dynamics.experiments.linear_recurrent_units.timings
    python -m learning_dynamics.experiments.linear_recurrent_units.timings --scale paper --device cuda

A training step is all of it: forward, loss, backward, and the step of AdamW. The networks are those of the ladder with
the same width, states and depth; they differ in the recurrence only. Each measurement runs in a process of its own. On
a CPU, time is the process's own, so that a busy machine adds little to it; memory is the high-water mark of the
process, set back before the first run.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from learning_dynamics._internal.randomness import global_seed
from learning_dynamics.experiments.command import Call, Experiment, Option, Scaled
from learning_dynamics.experiments.linear_recurrent_units import ladder
from learning_dynamics.models.recurrence import (
    SequenceModel,
    linear_recurrence,
    parameter_groups,
    ring_eigenvalues,
)
from learning_dynamics.models.recurrence.linear import Method

CHAPTER = "recurrence/linear_recurrent_units"
LENGTHS = (64, 256, 1024, 4096, 16384)
METHODS: tuple[Method, ...] = ("loop", "scan", "fft")
NETWORKS = ("lru", "linear-radius-1", "tanh")
"""Rungs of the ladder; the dense linear one starts with spectral radius one, so that no length overflows."""
SHORT = 40
"""Length of the run that comes before the measured ones."""


def measure(
    method: Method, length: int, batch: int, states: int, device: str, repeats: int = 5
) -> tuple[float, float]:
    """Return the shortest of `repeats` forward times in seconds, and peak memory beyond the input, in inputs.

    Args:
        method: `loop`, `scan` or `fft`.
        length: T; the input is `(batch, length, states)` complex64.
        batch: number of sequences.
        states: number of states.
        device: `cpu` (time of the process, memory from its high-water mark; NaN but on Linux) or a CUDA device.
        repeats: number of timed runs, >= 1.

    Raises:
        ValueError: fewer than one repeat.
    """
    nu, phase = ring_eigenvalues(states, 0.9, 0.999, generator=torch.Generator().manual_seed(0))
    lam = torch.polar(torch.exp(-nu), phase).to(device, torch.complex64)
    linear_recurrence(lam, torch.zeros(1, SHORT, states, dtype=lam.dtype, device=device), method=method)
    inputs = torch.ones(batch, length, states, dtype=torch.complex64, device=device)
    work = lambda: linear_recurrence(lam, inputs, method=method, stable=False)  # noqa: E731
    seconds, memory = _watched(work, device, repeats)
    return seconds, memory / (inputs.numel() * inputs.element_size())


def measure_step(
    network: str,
    length: int,
    batch: int,
    states: int,
    width: int,
    depth: int,
    device: str,
    repeats: int = 5,
) -> tuple[float, float]:
    """Return the shortest of `repeats` whole training steps in seconds, and their peak memory in megabytes.

    Args:
        network: a rung of the ladder.
        length: T; the input is `(batch, length, 1)`, the label one of ten.
        batch: number of sequences.
        states: number of states of each recurrence, complex ones if it is diagonal.
        width: width of the layers.
        depth: number of blocks.
        device: as in `measure`; memory is what the steps need beyond the network itself.
        repeats: number of timed steps, >= 1.

    Raises:
        ValueError: fewer than one repeat.
    """
    source = torch.Generator().manual_seed(0)
    kind, settings = ladder.RUNGS[network]
    with global_seed(0):
        model = SequenceModel(
            1, width, 10, depth, lambda: kind(width, states, generator=source, **settings)
        ).to(device)
    optimizer = torch.optim.AdamW(parameter_groups(model, learning_rate=1e-3))
    u = torch.randn(batch, length, 1, generator=source).to(device)
    y = torch.randint(10, (batch,), generator=source).to(device)

    def step(u: torch.Tensor = u) -> None:
        optimizer.zero_grad()
        cross_entropy(model(u), y).backward()
        optimizer.step()

    step(u[:, :SHORT])
    seconds, memory = _watched(step, device, repeats)
    return seconds, memory / 2**20


def _watched(work: Callable[[], object], device: str, repeats: int) -> tuple[float, float]:
    """Return the shortest time of `work` in seconds, and how far memory rose above what was in use, in bytes."""
    if repeats < 1:
        raise ValueError(f"repeats = {repeats}; allowed: at least 1")
    cuda = torch.device(device).type == "cuda"
    if cuda:
        torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device) if cuda else _high_water(reset=True)
    times = []
    for _ in range(repeats):
        if cuda:
            torch.cuda.synchronize(device)
        started = time.perf_counter() if cuda else time.process_time()
        work()
        if cuda:
            torch.cuda.synchronize(device)
        times.append((time.perf_counter() if cuda else time.process_time()) - started)
    after = torch.cuda.max_memory_allocated(device) if cuda else _high_water()
    return min(times), after - before


def _high_water(reset: bool = False) -> float:
    """Return the most memory in bytes that this process itself has had; NaN where the system does not say.

    `ru_maxrss` would be at least what the process had that started this one.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return math.nan
    if reset:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    line = next(line for line in status.read_text(encoding="ascii").splitlines() if "VmHWM" in line)
    return 1024.0 * int(line.split()[1])


def _alone(work: Callable[..., tuple[float, float]], *arguments: object) -> tuple[float, float]:
    """Call `work` in a process of its own, which starts from one that has nothing but the modules in memory."""
    context = multiprocessing.get_context("forkserver" if os.name == "posix" else "spawn")
    context.set_forkserver_preload([ladder.__name__])
    with context.Pool(1, torch.set_num_threads, (1,)) as pool:
        return pool.apply(work, arguments)


def compute(call: Call) -> dict[str, np.ndarray]:
    """Measure all methods and all networks at all lengths, each alone."""
    options, device = call.options, str(call.run.device)
    batch, states, lengths = options.batch, options.states, options.lengths
    paths = [[_alone(measure, each, n, batch, states, device) for n in lengths] for each in METHODS]
    sizes = (batch, states, options.width, options.depth)
    steps = [[_alone(measure_step, each, n, *sizes, device) for n in lengths] for each in NETWORKS]
    (seconds, memory), (step_seconds, step_megabytes) = (
        np.moveaxis(np.array(table), -1, 0) for table in (paths, steps)
    )
    return {
        "lengths": np.array(lengths),
        "seconds": seconds,
        "memory": memory,
        "step_seconds": step_seconds,
        "step_megabytes": step_megabytes,
    }


EXPERIMENT = Experiment(
    chapter=CHAPTER,
    name=lambda options: f"timings-{torch.device(options.device).type}",
    compute=compute,
    options=(
        Option("--batch", "number of sequences", Scaled(1, 4, 16)),
        Option("--states", "number of states", Scaled(2, 64, 384)),
        Option("--width", "width of the networks", Scaled(4, 64, 512)),
        Option("--depth", "blocks of the networks", Scaled(1, 2, 6)),
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
