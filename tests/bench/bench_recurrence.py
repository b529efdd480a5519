"""A linear recurrence forward and backward on one CPU thread: the chosen path, the loops, and the memory's floor.

The library's path stands beside the loop that one would write with autograd, the same loop with its inputs unbound, and
the library's own loop, whose backward pass is written out. A forward and a backward pass read inputs, states and the
gradient that comes back, and write states and gradients: five times the size of the inputs. The floor is what two such
outputs cost when they are merely copied into fresh memory.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path

import torch
from torch import Tensor

from learning_dynamics.models.recurrence import linear_recurrence, ring_eigenvalues
from timing import Row, one_thread, shortest, show

BATCH, STATES = 4, 64
LENGTHS = (1024, 16384)
QUADRATIC = 2048
"""The longest sequence for the loop whose time grows with the square of the length: minutes at 16,384."""


def instance(length: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return eigenvalues, inputs and the gradient that comes back, all complex64."""
    g = torch.Generator().manual_seed(0)
    nu, phase = ring_eigenvalues(STATES, 0.9, 0.999, generator=g)
    lam = torch.polar(torch.exp(-nu), phase).to(torch.complex64).requires_grad_()
    inputs, back = torch.randn(2, BATCH, length, STATES, dtype=torch.complex64, generator=g)
    return lam, inputs.requires_grad_(), back


def users_loop(lam: Tensor, inputs: Tensor) -> Tensor:
    """Write the recurrence as it is read; the gradient of each `inputs[:, j]` is a tensor of the size of all inputs."""
    x, path = torch.zeros_like(inputs[:, 0]), []
    for j in range(inputs.shape[1]):
        x = lam * x + inputs[:, j]
        path.append(x)
    return torch.stack(path, dim=1)


def unbound_loop(lam: Tensor, inputs: Tensor) -> Tensor:
    """Take the inputs apart first, so that the tape grows with the length and not with its square."""
    x, path = torch.zeros_like(inputs[:, 0]), []
    for row in inputs.unbind(1):
        x = lam * x + row
        path.append(x)
    return torch.stack(path, dim=1)


def library(method: str) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the library's recurrence by one method."""
    return lambda lam, inputs: linear_recurrence(lam, inputs, method=method, stable=False)  # type: ignore[arg-type]


def passes(run: Callable[[Tensor, Tensor], Tensor], length: int) -> Callable[[], object]:
    """Return a call that goes forward and backward through a sequence and leaves nothing behind."""
    lam, inputs, back = instance(length)
    return lambda: torch.autograd.grad(run(lam, inputs), (lam, inputs), back)


def copies(length: int) -> Callable[[], object]:
    """Return a call that writes what a forward and a backward pass must write, by copying."""
    _, inputs, back = instance(length)
    return lambda: (inputs.detach().clone(), back.clone())


def bandwidth(length: int) -> float:
    """Return the bytes a second that a copy into memory in use moves, reads and writes together."""
    _, inputs, back = instance(length)
    inputs = inputs.detach()
    (taken,) = shortest(lambda: back.copy_(inputs), repeats=9, clock=time.process_time)
    return 2 * inputs.numel() * inputs.element_size() / taken


def peak(length: int) -> float:
    """Return the peak memory of a forward and backward pass beyond what stands before it, in inputs."""
    torch.set_num_threads(1)
    passes(library("auto"), 64)()  # what torch sets up once
    work = passes(library("auto"), length)
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark falls to what is in use
    before = high_water()
    work()
    return (high_water() - before) / (BATCH * length * STATES * 8)


def high_water() -> int:
    """Return the most memory in bytes that this process has had (Linux)."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
    return 1024 * int(line.split()[1])


def rows() -> Iterator[Row]:
    """Yield times, ratios, roofline and memory at each length."""
    with one_thread():
        for length in LENGTHS:
            where = f"recurrence, T = {length}, batch {BATCH}, {STATES} states"
            works = [passes(run, length) for run in (library("auto"), library("loop"), unbound_loop)]
            auto, loop, unbound, floor = shortest(*works, copies(length), repeats=5, clock=time.process_time)
            part = min(length, QUADRATIC)
            (user,) = shortest(passes(users_loop, part), repeats=1, clock=time.process_time)
            user *= (length / part) ** 2
            grown = "" if part == length else f" (at T = {part}, times {(length // part) ** 2})"
            moved = 5 * BATCH * length * STATES * 8
            speed = bandwidth(length)
            yield (
                f"{where}: auto, forward and backward",
                f"{1e3 * auto:.1f} ms",
            )
            yield f"{where}: autograd's loop{grown} over auto", f"{user / auto:.0f}x ({user:.2f} s)"
            yield f"{where}: the same, inputs unbound, over auto", f"{unbound / auto:.0f}x ({unbound:.2f} s)"
            yield (
                f"{where}: the library's loop over auto; over the floor",
                f"{loop / auto:.1f}x; {loop / floor:.1f}x ({1e3 * loop:.1f} ms)",
            )
            yield (
                f"{where}: floor (two fresh outputs copied); auto over it",
                f"{1e3 * floor:.1f} ms; {auto / floor:.1f}x",
            )
            yield (
                f"{where}: {moved / 1e6:.0f} MB at {speed / 1e9:.1f} GB/s; auto over it",
                f"{1e3 * moved / speed:.1f} ms; {auto * speed / moved:.1f}x",
            )
            if sys.platform == "linux" and length > 4096:  # below, the allocator's own stock hides it
                with get_context("spawn").Pool(1) as pool:
                    yield f"{where}: peak memory", f"{pool.apply(peak, (length,)):.1f} inputs"


if __name__ == "__main__":
    show(rows())
