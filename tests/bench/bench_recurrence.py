"""A linear recurrence forward and backward on one CPU thread: the chosen path, the loops, and what the machine forbids.

The library's path stands beside the loop that one would write with autograd, the same loop with its inputs unbound, and
the library's own loop, whose backward pass is written out. Four limits say how much faster it could be:

- the roofline: the inputs, the states and the gradient that comes back are read, states and gradient of the inputs are
  written, each once; so many bytes at the speed of a copy or a triad between arrays that are in use;
- the arithmetic: the recurrence done by doubling multiplies and adds twice for each state and pass, and once more for
  the gradient of the eigenvalues, at the speed of torch's own `addcmul` in the cache;
- torch's own calls: a copy, two `addcmul` over all rows and pass, and one product summed, in as few and as large calls
  as there are, on the same memory: nothing that adds up states by torch's operations takes less than that;
- fresh memory: what it costs to copy into two new tensors, since both results must be new and the system hands out
  large ones page by page, cleared; in torch's pages and in those that the library asks for (huge ones from 32 MB on).
  The last rows measure in a process that keeps its memory, where this falls away.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from learning_dynamics.models.recurrence import linear, linear_recurrence, ring_eigenvalues
from timing import Row, in_turns, one_thread, shortest, show

BATCH, STATES = 4, 64
LENGTHS = (1024, 16384)
QUADRATIC = 2048
"""The longest sequence for the loop whose time grows with the square of the length: minutes at 16,384."""
KEEPS = {"MALLOC_TRIM_THRESHOLD_": str(2**31 - 1), "MALLOC_MMAP_THRESHOLD_": str(2**31 - 1)}
"""With these glibc gives no memory back to the system."""


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


def copies_in_room(length: int) -> Callable[[], object]:
    """Return the same call, into memory as the library asks for it."""
    _, inputs, back = instance(length)
    inputs = inputs.detach()
    return lambda: [linear._room(each).copy_(each) for each in (inputs, back)]


def fewest_calls(length: int) -> Callable[[], object]:
    """Return a call that does the arithmetic of both passes, on rows as they lie, and adds up no states."""
    lam, inputs, back = (each.detach() for each in instance(length))

    def work() -> Tensor:
        x, adjoint = (linear._room(each).copy_(each) for each in (inputs, back))
        for states in (x, adjoint):
            for slab in states.split(linear.SPAN, 1):
                slab.addcmul_(lam, slab).addcmul_(lam, slab)
        return linear._paired(adjoint[:, 1:], x[:, :-1])

    return work


def roofline(length: int) -> tuple[float, float, float]:
    """Return the bytes a second of a copy and of a triad, both between arrays in use, and the bytes that must move."""
    _, inputs, back = instance(length)
    inputs, out = inputs.detach(), torch.zeros_like(back)
    size = inputs.numel() * inputs.element_size()
    copy, triad = shortest(
        lambda: out.copy_(inputs),
        lambda: torch.add(inputs, back, alpha=2, out=out),
        repeats=9,
        clock=time.process_time,
    )
    return 2 * size / copy, 3 * size / triad, 5.0 * size


def arithmetic(length: int) -> float:
    """Return the seconds of five products and sums for each state, in the cache."""
    lam, inputs, back = (each.detach() for each in instance(128))
    inputs, back, out = inputs.flatten(0, 1), back.flatten(0, 1), torch.empty_like(back).flatten(0, 1)
    (taken,) = shortest(
        lambda: torch.addcmul(inputs, lam, back, out=out), repeats=200, clock=time.process_time
    )
    return 5 * taken * BATCH * length / len(inputs)


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
    """Yield times, ratios, limits and memory at each length."""
    with one_thread():
        for length in LENGTHS:
            where = f"recurrence, T = {length}, batch {BATCH}, {STATES} states"
            part = min(length, QUADRATIC)
            (user,) = shortest(passes(users_loop, part), repeats=3, clock=time.process_time)
            user *= (length / part) ** 2
            grown = "" if part == length else f" (at T = {part}, times {(length // part) ** 2})"
            works = [passes(run, length) for run in (library("auto"), library("loop"), unbound_loop)]
            works += [copies(length), copies_in_room(length), fewest_calls(length)]
            times = in_turns(*works, repeats=31 if length < QUADRATIC else 7, clock=time.process_time)
            auto, loop, unbound, fresh, huge, calls = (min(each) for each in times)
            ratio = median(b / a for a, b in zip(times[0], times[1], strict=True))
            yield f"{where}: auto, forward and backward", f"{1e3 * auto:.1f} ms"
            yield f"{where}: autograd's loop{grown} over auto", f"{user / auto:.0f}x ({user:.2f} s)"
            yield f"{where}: the same, inputs unbound, over auto", f"{unbound / auto:.0f}x ({unbound:.2f} s)"
            yield f"{where}: the library's loop over auto", f"{loop / auto:.1f}x ({1e3 * loop:.1f} ms)"
            yield f"{where}: the same, median of turns", f"{ratio:.1f}x"
            yield (
                f"{where}: the arithmetic in torch's fewest calls",
                f"{1e3 * calls:.1f} ms; auto {auto / calls:.1f}x, library's loop {loop / calls:.1f}x",
            )
            yield from limits(where, length, auto, loop)
            yield (
                f"{where}: fresh memory, in torch's pages and in the library's",
                f"{1e3 * fresh:.1f}, {1e3 * huge:.1f} ms",
            )
            if sys.platform == "linux":
                yield from in_kept_memory(where, length)
            if sys.platform == "linux" and length > 4096:  # below, the allocator's own stock hides it
                with get_context("spawn").Pool(1) as pool:
                    yield f"{where}: peak memory", f"{pool.apply(peak, (length,)):.1f} inputs"


def limits(where: str, length: int, auto: float, loop: float) -> Iterator[Row]:
    """Yield the roofline and the time of the arithmetic, with what stands over them."""
    copy, triad, moved = roofline(length)
    least, sums = moved / max(copy, triad), arithmetic(length)
    yield (
        f"{where}: roofline, {moved / 1e6:.0f} MB at {copy / 1e9:.0f} (copy), {triad / 1e9:.0f} GB/s (triad)",
        f"{1e3 * least:.2f} ms; auto {auto / least:.1f}x, library's loop {loop / least:.1f}x",
    )
    yield (
        f"{where}: arithmetic alone, in the cache",
        f"{1e3 * sums:.2f} ms; auto {auto / sums:.1f}x, library's loop {loop / sums:.1f}x",
    )


def in_kept_memory(where: str, length: int) -> Iterator[Row]:
    """Yield the chosen path, the library's loop and the limits in a process that gives no memory back."""
    code = f"import bench_recurrence as b; b.print_kept({where!r}, {length})"
    words = [sys.executable, "-c", code]
    done = subprocess.run(
        words, cwd=Path(__file__).parent, env=os.environ | KEEPS, capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines() if done.returncode == 0 else [f"{where}, kept memory\tFAILED"]
    yield from ((label, value) for label, value in (line.split("\t") for line in lines))


def print_kept(where: str, length: int) -> None:
    """Print the rows of `in_kept_memory`."""
    where += ", kept memory"
    with one_thread():
        works = [passes(library(method), length) for method in ("auto", "loop")]
        auto, loop = shortest(*works, repeats=9, clock=time.process_time)
        print(f"{where}: auto\t{1e3 * auto:.1f} ms")
        print(f"{where}: the library's loop over auto\t{loop / auto:.1f}x ({1e3 * loop:.1f} ms)")
        for label, value in limits(where, length, auto, loop):
            print(f"{label}\t{value}")


if __name__ == "__main__":
    show(rows())
