"""Many runs at once: seeds, step sizes and other grid axes are batch axes of one tensor, not a Python loop.

Parameters have the shape `(*batch, d)`; every operation of an update acts on each run by itself, so that the
batch costs a few large kernels where a loop would cost many small ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.func import grad, grad_and_value, vmap

from learning_dynamics._internal.arguments import require_count, require_tensors, step_numbers
from learning_dynamics.rules import LossRule, Rule
from learning_dynamics.rules.rule import reads_loss

Gradient = Callable[[Tensor, int], Tensor]
"""`gradient(theta, k)`: the gradient `(*batch, d)` at `theta (*batch, d)` that step number k uses."""

Oracle = Callable[[Tensor, int], Tensor | tuple[Tensor, Tensor]]
"""A gradient, or a pair: `oracle(theta, k)` returns the loss `(*batch)` and the gradient `(*batch, d)`."""


class Trajectory(NamedTuple):
    """What `iterate` recorded.

    Attributes:
        steps: `(R,)` int64, the recorded step numbers.
        values: `(R, *batch, d)`, the iterates there, or `(R, *batch, ...)` what `observe` returned;
            infinite wherever the run had diverged.
        diverged: `(*batch)` bool, whether the run left the finite numbers at or before the last step.
        last: `(*batch, d)`, the iterates after the last step; infinite where the run diverged.
        watched: `(R, *batch, ...)`, what `watch` returned there; infinite wherever the run had diverged.
            None without `watch`.
    """

    steps: Tensor
    values: Tensor
    diverged: Tensor
    last: Tensor
    watched: Tensor | None = None


def log_spaced(steps: int, per_decade: int = 20) -> tuple[int, ...]:
    """Return step numbers evenly spread on a logarithmic axis: 0, 1, ..., `steps`, each once, increasing.

    Args:
        steps: the last step number, >= 0.
        per_decade: points in each factor of ten (fewer near 1, where the integers are too few), >= 1.

    Raises:
        ValueError: `steps` is negative or `per_decade` is less than 1.
    """
    require_count("steps", steps, least=0)
    require_count("per_decade", per_decade)
    numbers = {0, steps}
    exponent = 0
    while (number := round(10 ** (exponent / per_decade))) < steps:
        numbers.add(number)
        exponent += 1
    return tuple(sorted(numbers))


def iterate(
    rule: Rule[Any] | LossRule[Any],
    gradient: Oracle,
    theta0: Tensor,
    steps: int,
    record: Iterable[int] | None = None,
    observe: Callable[[Tensor], Tensor] | None = None,
    watch: Callable[[Any], Tensor] | None = None,
) -> Trajectory:
    """Take `steps` steps of an update rule in every run of a batch and record some of the iterates.

    A run that leaves the finite numbers is kept: it is flagged in `diverged` and its later records are
    infinite, so that no mean over runs can miss it. It is told at the recorded steps and at the last one;
    nothing is lost between them, since a rule adds its update to `theta` and no sum brings an infinite number
    back. The other runs are not touched, as long as `gradient` treats the runs separately.

    Args:
        rule: the update rule, see `learning_dynamics.rules`.
        gradient: `gradient(theta, k) -> (*batch, d)`; k = 0, 1, ... lets it be stochastic. `batched` makes
            one from the loss of a single run. It may return `(loss (*batch), gradient)`; rules that read the
            loss need it, the others ignore it.
        theta0: `(*batch, d)`, the starts; its dtype and device are kept.
        steps: number of steps, >= 0.
        record: increasing step numbers between 0 and `steps`; `log_spaced(steps)` if left out. Number k is
            the iterate after k steps.
        observe: maps `theta (*batch, d)` to what is recorded, `(*batch, ...)`; the iterate itself if left
            out. A diverged run is shown to it at its start, so that it never meets a number that is not
            finite.
        watch: maps the rule's state to what else is recorded, `(*batch, ...)`, such as the step size:
            `lambda state: state.step_size`. Record number k is the state after k steps.

    Returns:
        What was recorded, which runs diverged, and the last iterates.

    Raises:
        ValueError: `rule` is no rule, `steps` or `record` is out of range, `theta0` is not real floating point with at
            least one axis, `gradient` has another shape than `theta0` or writes into it, `rule` changes that shape,
            `observe` or `watch` drops the batch axes, or the rule reads the loss and `gradient` does not return it.
    """
    require_count("steps", steps, least=0)
    require_tensors(theta0=(theta0, "*batch d"))
    reads_loss(rule)  # refuses what is no rule
    recorded = log_spaced(steps) if record is None else step_numbers(record, steps)
    theta, state = theta0, rule.start(theta0)
    wanted, values, watched = set(recorded), [], []
    for k in range(steps + 1):
        if k in wanted:
            finite = torch.isfinite(theta).all(-1)
            seen = theta
            if observe is not None:
                seen = observe(torch.where(finite[..., None], theta, theta0))
            values.append(infinite_unless(finite, seen))
            if watch is not None:
                watched.append(infinite_unless(finite, watch(state), "watch"))
        if k < steps:
            version = 0 if theta.is_inference() else theta._version
            found = gradient(theta, k)
            if version != (0 if theta.is_inference() else theta._version):
                raise ValueError(
                    "gradient changes theta in place; allowed: a function that leaves it as it is"
                )
            theta, state = take_step(rule, theta, found, state)
            if theta.shape != theta0.shape:
                raise ValueError(
                    f"theta0 has shape {tuple(theta0.shape)}; allowed: the shape {tuple(theta.shape)} that the rule's "
                    "hyper-parameters and the gradient give it (expand theta0 over the grid first)"
                )
    finite = torch.isfinite(theta).all(-1)
    return Trajectory(
        torch.tensor(recorded, device=theta.device),
        torch.stack(values),
        ~finite,
        infinite_unless(finite, theta),
        None if watch is None else torch.stack(watched),
    )


def batched(loss: Callable[..., Tensor], *per_run: Tensor, with_loss: bool = False) -> Oracle:
    """Make the gradient of an ensemble from the loss of one run, by `torch.func.vmap` over `torch.func.grad`.

    The slow, obviously right twin is a loop over the runs with `torch.autograd.grad`; a gradient written by
    hand with explicit batch axes is faster still, and `batched` is what to test it against.

    Args:
        loss: `loss(theta, *data) -> ()` of one run, `theta (d)`.
        per_run: tensors `(*batch, ...)`, handed to `loss` one run at a time. What all runs share need not be
            given: `loss` may close over it, or expand it (`X.expand(seeds, *X.shape)` copies nothing).
        with_loss: return the loss too, for rules that read it.

    Returns:
        `gradient(theta, k)`, `(*batch, d)` from `theta (*batch, d)`, or with `with_loss` the pair of the loss
        `(*batch)` and the gradient; it does not depend on k. For
        minibatches, call `batched` on the batch of step k: `lambda theta, k: batched(loss, X[:, rows[k]],
        y[:, rows[k]])(theta, k)`.

    Raises:
        ValueError: when it is called, a tensor in `per_run` does not start with the batch axes of theta.
    """

    def oracle(theta: Tensor, k: int) -> Tensor | tuple[Tensor, Tensor]:
        for part in per_run:
            if part.shape[: theta.ndim - 1] != theta.shape[:-1]:
                batch = ", ".join(map(str, theta.shape[:-1]))
                raise ValueError(f"per_run has shape {tuple(part.shape)}; allowed: ({batch}, ...), as theta")
        of_batch = grad_and_value(loss) if with_loss else grad(loss)
        for _ in theta.shape[:-1]:
            of_batch = vmap(of_batch)
        found = of_batch(theta, *per_run)
        return found[::-1] if with_loss else found

    return oracle


def stack_over_seeds(make: Callable[[int], Sequence[Tensor]], seeds: Iterable[int]) -> tuple[Tensor, ...]:
    """Make the data of every seed by itself and stack them, so that seeds become the first batch axis.

    A seed's data depend on that seed alone, not on how many others are made with it.

    Args:
        make: `make(seed)` returns the tensors of one seed, always of the same shapes.
        seeds: the seeds, at least one.

    Returns:
        one tensor `(seeds, ...)` for each tensor that `make` returns.

    Raises:
        ValueError: there are no seeds, or `make` returned a bare tensor.
    """
    made = [make(seed) for seed in seeds]
    if not made:
        raise ValueError("seeds is empty; allowed: at least one seed")
    if isinstance(made[0], Tensor):
        raise ValueError(
            "make returned a bare tensor; allowed: a tuple of tensors, (tensor,) for a single one"
        )
    return tuple(torch.stack(of_all_seeds) for of_all_seeds in zip(*made, strict=True))


def take_step(
    rule: Rule[Any] | LossRule[Any], theta: Tensor, found: Tensor | tuple[Tensor, Tensor], state: Any
) -> tuple[Tensor, Any]:
    """Return `theta` and the state after one step with what an oracle returned: a gradient, or loss and gradient.

    Raises:
        ValueError: the rule reads the loss and there is none, or the gradient has another shape than `theta`.
    """
    loss, gradient = found if isinstance(found, tuple) else (None, found)
    if gradient.shape != theta.shape:
        raise ValueError(
            f"gradient has shape {tuple(gradient.shape)}; allowed: that of theta, {tuple(theta.shape)}"
        )
    if not getattr(rule, "needs_loss", False):
        return cast(Rule[Any], rule).step(theta, gradient, state)
    if loss is None:
        raise ValueError(
            f"gradient returned no loss; allowed for {type(rule).__name__}: the pair (loss, gradient), as from "
            "batched(loss, with_loss=True)"
        )
    return cast(LossRule[Any], rule).step(theta, gradient, state, loss)


def infinite_unless(finite: Tensor, values: Tensor, name: str = "observe") -> Tensor:
    """Return `values (*batch, ...)` with infinity in the runs that are not `finite (*batch)`.

    Raises:
        ValueError: the batch axes are missing; `name` says what returned them.
    """
    batch = finite.shape
    if values.shape[: len(batch)] != batch:
        raise ValueError(
            f"{name} returned the shape {tuple(values.shape)}; allowed: {tuple(batch)} and what follows"
        )
    return torch.where(finite.reshape(*batch, *[1] * (values.ndim - len(batch))), values, torch.inf)
