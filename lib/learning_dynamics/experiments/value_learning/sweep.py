"""Sweeps over step sizes, internal discounts and reward offsets: the kept results of the chapter value_learning.

    python -m learning_dynamics.experiments.value_learning.sweep chain explicit
    python -m learning_dynamics.experiments.value_learning.sweep four_rooms implicit --part 3/4
    python -m learning_dynamics.experiments.value_learning.sweep mountain_car implicit --float32 --part 1/4 --minutes 7

A part is one of the four internal discounts. The last line ends after seven minutes; called again, it goes on.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from learning_dynamics.experiments.command import Call, Experiment, Option, Scaled
from learning_dynamics.experiments.value_learning.grid import (
    BEST_EXPLICIT,
    BEST_IMPLICIT,
    EXPLICIT_STEPS,
    IMPLICIT_STEPS,
    INTERNAL_DISCOUNTS,
    OFFSETS,
    combinations,
    run_grid,
)
from learning_dynamics.experiments.value_learning.models import LatentStart, latent_start
from learning_dynamics.experiments.value_learning.problems import DOMAINS, ValueProblem, problem
from learning_dynamics.experiments.value_learning.training import EVERY, KEPT_STEPS, batches

SEEDS = 20
THREE = "--offsets 0.0 0.5 1.0"


def kept_name(options: argparse.Namespace) -> str:
    """Return the name of a kept result without its part, such as `four_rooms_implicit_best`.

    Args:
        options: of the command.
    """
    name = f"{options.domain}_{options.kind}" + (f"_{options.actions}_actions" if options.actions > 1 else "")
    name += "_described" if options.described else ""
    name += "_best" if options.best else ""
    return name + (f"_{len(options.offsets)}_offsets" if options.offsets != OFFSETS else "")


def compute(call: Call) -> dict[str, Tensor]:
    """Return the arrays of a kept result.

    Returns:
        `step_sizes (discounts, steps)`, `discounts`, `offsets`, `steps`, the curves `norm` and `ones`
        (evaluations, discounts, steps, offsets, seeds) and `visited`, `unvisited`, `ratio`, `bound` (discounts, steps,
        offsets, seeds) after the last step; inf where a run diverged.
    """
    options, seeds = call.options, call.seeds
    run = replace(call.run, dtype=torch.float32 if options.float32 else torch.float64)
    data = problem(options.domain, run, seeds, **({"described": True} if options.described else {}))
    drawn = batches(run, seeds, data.points, replacement=not options.described).to(run.device)
    start = latent_start(run, seeds, data.weights, options.actions)
    data = data.to(run.device, run.dtype)
    start = LatentStart(*(part.to(run.device, run.dtype) for part in start))
    discounts = run.share(list(INTERNAL_DISCOUNTS))
    columns = []
    for discount in discounts:
        tried = step_sizes(options.domain, options.kind, discount, best=options.best)
        pieces = [
            call.piece(
                f"discount-{discount:g}-step-{each:g}", _at, options, discount, each, data, start, drawn
            )
            for each in tried
        ]
        columns.append({"step_sizes": torch.tensor(tried)})
        for name in pieces[0]:
            axis = 1 if name in ("norm", "ones") else 0
            columns[-1][name] = torch.stack([piece[name] for piece in pieces], axis)
    return {
        "discounts": torch.tensor(discounts),
        "offsets": torch.tensor(options.offsets),
        "steps": torch.tensor(KEPT_STEPS),
    } | {
        name: torch.stack([column[name] for column in columns], 1 if name in ("norm", "ones") else 0)
        for name in columns[0]
    }


def _at(
    options: argparse.Namespace,
    discount: float,
    step_size: float,
    data: ValueProblem,
    start: LatentStart,
    drawn: Tensor,
) -> dict[str, Tensor]:
    """Return what `compute` does, of one internal discount and one step size, without their axes."""
    swept = options.domain == "mountain_car" and options.kind == "implicit"
    chunk = options.chunk or (1 if swept or options.domain == "four_rooms" else 11)
    cells = combinations([step_size], [discount], options.offsets)
    width = 1 if swept else None
    found = run_grid(options.kind, data, start, drawn, cells, chunk=chunk, seeds_at_a_time=width)
    kept = [k // EVERY for k in KEPT_STEPS]
    curves = {name: getattr(found.record, name)[kept] for name in ("norm", "ones")}
    ends = {name: getattr(found, name) for name in ("visited", "unvisited", "ratio", "bound")}
    return {name: values.cpu().float() for name, values in (curves | ends).items()}


def step_sizes(domain: str, kind: str, discount: float, *, best: bool = False) -> tuple[float, ...]:
    """Return the source's step sizes, or only the one that it marks as best at an internal discount.

    Args:
        domain: one of `DOMAINS`.
        kind: `explicit` or `implicit`.
        discount: one of `INTERNAL_DISCOUNTS`.
        best: whether only the best is asked for.
    """
    if not best:
        return (EXPLICIT_STEPS if kind == "explicit" else IMPLICIT_STEPS)[domain]
    if kind == "explicit":
        return (BEST_EXPLICIT[domain],)
    return (BEST_IMPLICIT[domain][INTERNAL_DISCOUNTS.index(discount)],)


def tolerance(options: argparse.Namespace) -> float:
    """Return how well a result made again agrees.

    With large steps a run amplifies its rounding. In single precision, with several actions whose values cross, single
    runs then part by tens of per cent after 300 steps, while their means over seeds agree.

    Args:
        options: of the command.
    """
    if not options.float32:
        return 1e-4
    return 1e-2 if options.actions == 1 else 0.5


def check(options: argparse.Namespace) -> None:
    """Raise a ValueError if the paper's text is asked for where it has no other set-up than the released one."""
    if options.described and options.domain == "mountain_car":
        raise ValueError("described = True; allowed for the domains chain, four_rooms")


EXPERIMENT = Experiment(
    chapter="parameterization/value_learning",
    name=kept_name,
    compute=compute,
    options=(
        Option("domain", "the problem", allowed=DOMAINS),
        Option("kind", "how weights are stored", allowed=("explicit", "implicit")),
        Option("--actions", "latent actions", 1),
        Option("--described", "the set-up of the paper's text in the place of the released one", False),
        Option("--best", "only the best step size of each internal discount", False),
        Option("--offsets", "reward offsets", OFFSETS),
        Option("--float32", "compute in single precision", False),
        Option("--chunk", "configurations trained at a time; by default what fits the cache", kind=int),
    ),
    seeds=Scaled(2, SEEDS, SEEDS),
    parts=len(INTERNAL_DISCOUNTS),
    rtol=tolerance,
    resumable=True,
    check=check,
    separator="_",
    kept=(
        *(f"chain {kind}{actions}" for kind in ("explicit", "implicit") for actions in ("", " --actions 4")),
        "four_rooms explicit",
        "four_rooms explicit --actions 4",
        *(f"four_rooms implicit --part {k}/4" for k in (1, 2, 3, 4)),
        f"four_rooms implicit --actions 4 --best {THREE}",
        *(
            f"{domain} {kind} --described {THREE} --part 3/4"
            for domain in ("chain", "four_rooms")
            for kind in ("explicit", "implicit")
        ),
        "mountain_car explicit",
        "mountain_car explicit --actions 4",
        *(f"mountain_car implicit --float32 --part {k}/4" for k in (1, 2, 3, 4)),
        *(f"mountain_car implicit --actions 4 --float32 --part {k}/4" for k in (1, 2, 3, 4)),
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute and keep; see `learning_dynamics.experiments.command`."""
    return EXPERIMENT.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
