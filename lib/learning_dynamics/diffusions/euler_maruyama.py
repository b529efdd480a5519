"""The Euler-Maruyama method."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import (
    require_count,
    require_generator,
    require_number,
    require_tensors,
    step_numbers,
)


def euler_maruyama(
    drift: Callable[[Tensor, float], Tensor],
    diffusion: Callable[[Tensor, float], Tensor],
    x0: Tensor,
    time_step: float,
    steps: int,
    generator: torch.Generator,
    record: Iterable[int] | None = None,
) -> Tensor:
    r"""Return approximate paths of :math:`dx=a(x,t)\,dt+b(x,t)\,dW`.

    .. math:: x_{k+1}=x_k+h\,a(x_k,kh)+\sqrt h\,b(x_k,kh)\,\epsilon_k,\qquad\epsilon_k\sim\mathcal N(0,I)

    Weak order 1; strong order 1/2, and 1 where b does not depend on x. Linear drift with constant noise needs no
    such approximation: see `OrnsteinUhlenbeck`.

    Source: Maruyama (1955); Kloeden and Platen (1992), Numerical Solution of SDEs, sec. 10.2.

    Args:
        drift: `drift(x, t) -> (*batch, d)`.
        diffusion: `diffusion(x, t)`: `(*batch, d)`, one independent noise per coordinate (or anything that
            broadcasts to it), or `(*batch, d, m)`, a matrix for m noises; one matrix for all runs is `(1, d, m)`.
        x0: `(*batch, d)`, the starts; dtype and device are kept.
        time_step: h > 0.
        steps: number of steps, >= 0.
        generator: a generator on the CPU.
        record: increasing step numbers to keep; all if left out.

    Returns:
        `(R, *batch, d)`, the states after the recorded numbers of steps.

    Raises:
        ValueError: a number is out of range, or `drift` or `diffusion` returns a shape that does not fit.
    """
    require_tensors(x0=(x0, "*batch d"))
    require_generator(generator)
    require_number("time_step", time_step, above=0)
    require_count("steps", steps, least=0)
    wanted = set(step_numbers(range(steps + 1) if record is None else record, steps))
    _require_own_noise(diffusion, x0)
    x, path = x0, []
    for k in range(steps + 1):
        if k in wanted:
            path.append(x)
        if k == steps:
            break
        t = k * time_step
        moved = x + time_step * drift(x, t) + math.sqrt(time_step) * _noise(diffusion(x, t), x, generator)
        if moved.shape != x.shape:
            raise ValueError(
                f"drift turns the shape {tuple(x.shape)} into {tuple(moved.shape)}; allowed: one that keeps it"
            )
        x = moved
    return torch.stack(path)


def _require_own_noise(diffusion: Callable[[Tensor, float], Tensor], x0: Tensor) -> None:
    """Raise where d runs of d coordinates get one d x d matrix: it would be read as one number a run and coordinate."""
    if x0.ndim == 2 and x0.shape[0] == x0.shape[1] > 1 and diffusion(x0, 0.0).shape == x0.shape:
        more = diffusion(torch.cat([x0, x0[:1]]), 0.0)
        if more.shape == x0.shape:
            raise ValueError(
                f"diffusion returned the shape {tuple(more.shape)} for {len(x0) + 1} runs; "
                "allowed: (*batch, d), or (1, d, m) for one matrix"
            )


def _noise(b: Tensor, x: Tensor, generator: torch.Generator) -> Tensor:
    """Return b times standard normal numbers, `b (*batch, d)` entrywise or `b (*batch, d, m)` as a matrix."""
    if b.ndim == x.ndim + 1 and b.shape[-2] == x.shape[-1]:
        fresh = _normal((*x.shape[:-1], b.shape[-1]), x, generator)
        return (b @ fresh[..., None]).squeeze(-1)
    if b.ndim > x.ndim:
        raise ValueError(
            f"diffusion returned the shape {tuple(b.shape)}; allowed: {tuple(x.shape)}, or that with a last axis m"
        )
    return b * _normal(x.shape, x, generator)


def _normal(shape: tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=like.dtype, device=generator.device).to(like.device)
