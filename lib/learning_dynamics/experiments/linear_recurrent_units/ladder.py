r"""From a tanh network to the linear recurrent unit, one change at a time; the results are kept.

    python -m learning_dynamics.experiments.linear_recurrent_units.ladder --task pixel-mnist --part diagonal
    python -m learning_dynamics.experiments.linear_recurrent_units.ladder --task acsf1 --part dense --data FOLDER
    python -m learning_dynamics.experiments.linear_recurrent_units.ladder --task digits --scale paper --steps 28800 \
        --part final --device cuda

Every rung is trained with the learning rate, out of two or four, that did best on held-out training data with a seed
of its own; then with all seeds at once. With `--minutes 6` a run stops in time with exit status 75, and the same
command goes on where it was.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from learning_dynamics import ensembles
from learning_dynamics._internal import checkpoints
from learning_dynamics._internal.arguments import require_choice
from learning_dynamics._internal.randomness import global_seed
from learning_dynamics.experiments.command import Call, Experiment, Option, Scaled
from learning_dynamics.experiments.linear_recurrent_units.tasks import TASKS, Task, load_task
from learning_dynamics.models.recurrence import (
    DenseRecurrence,
    DiagonalStateSpace,
    LinearRecurrentUnit,
    SequenceModel,
    parameter_groups,
    warmup_cosine,
)
from learning_dynamics.models.recurrence.deep import Streaming
from learning_dynamics.runs import Run

CHAPTER = "recurrence/linear_recurrent_units"
LEARNING_RATES = (2e-3, 8e-3)
WIDER = {"dense-radius": (5e-4, 2e-3, 8e-3, 3.2e-2), "dense-wide": (2e-3, 8e-3, 3.2e-2, 1.28e-1)}
"""Parts with rates of their own, whose best lies inside."""
RING = {"r_min": 0.9, "r_max": 0.999}
SAVE_EVERY = 60.0
"""Seconds between checkpoints."""


class UnscaledStateSpace(DiagonalStateSpace):
    """S4D-Lin without its input gain: what the time step in front of the input does, seen by leaving it out."""

    def gain(self) -> None:
        """Return None: the input enters as B u."""
        return None


class UnitRadius(DenseRecurrence):
    """A dense linear layer whose state matrix starts with the spectral radius one.

    Args:
        args: as `DenseRecurrence` takes them.
        settings: likewise, by name.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        with torch.no_grad():
            self.A.div_(torch.linalg.eigvals(self.A).abs().max())


RUNGS: dict[str, tuple[Callable[..., Streaming], dict[str, Any]]] = {
    "relu": (DenseRecurrence, {"activation": "relu"}),
    "tanh": (DenseRecurrence, {"activation": "tanh"}),
    "linear": (DenseRecurrence, {"activation": "linear"}),
    "linear-radius-1": (UnitRadius, {"activation": "linear"}),
    "cartesian": (LinearRecurrentUnit, {"eigenvalues": "cartesian", "normalizer": "none"}),
    "exponential": (LinearRecurrentUnit, {"eigenvalues": "exponential", "normalizer": "none"}),
    "stable": (LinearRecurrentUnit, {"normalizer": "none"}),
    "ring": (LinearRecurrentUnit, RING | {"normalizer": "none"}),
    "lru": (LinearRecurrentUnit, RING),
    "lru-recomputed": (LinearRecurrentUnit, RING | {"normalizer": "recomputed"}),
    "ring-slow": (LinearRecurrentUnit, RING | {"normalizer": "none", "max_phase": math.pi / 10}),
    "lru-slow": (LinearRecurrentUnit, RING | {"max_phase": math.pi / 10}),
    "s4d-lin": (DiagonalStateSpace, {}),
    "s4d-inv": (DiagonalStateSpace, {"rates": "inv"}),
    "s4d-euler": (DiagonalStateSpace, {"discretization": "euler"}),
    "s4d-untied": (DiagonalStateSpace, {"tied": False}),
    "s4d-unscaled": (UnscaledStateSpace, {}),
}
for _chart in ("exponential", "stable"):  # the sweep over the outer radius
    for _radius in (0.9, 0.99, 0.999):
        RUNGS[f"{_chart}-{_radius:g}".replace(".", "-")] = (
            LinearRecurrentUnit,
            {"r_max": _radius, "eigenvalues": _chart, "normalizer": "none"},
        )
PARTS = {
    "dense": ("relu", "tanh", "linear"),
    "dense-radius": ("linear-radius-1",),
    "dense-wide": ("linear",),
    "diagonal": ("cartesian", "exponential", "stable"),
    "final": ("ring", "lru", "s4d-lin"),
    "variants": ("lru-recomputed", "s4d-inv", "s4d-euler", "s4d-untied"),
    "unscaled": ("s4d-unscaled",),
    "normalizer": ("lru", "lru-recomputed"),
    "phases": ("ring-slow", "lru-slow"),
    "radius": tuple(f"{chart}-0-{r}" for chart in ("exponential", "stable") for r in ("9", "99", "999")),
}


@dataclass(frozen=True)
class Size:
    """Sizes of the model and of the training run.

    Attributes:
        width, states, depth: of the model; states of one direction.
        batch, steps: of the training.
        evaluations: how often the accuracy is measured, at equal distances.
        dropout: share of features dropped.
        recurrent_factor: learning rate of the recurrent parameters over that of the others.
        bidirectional: read the sequence in both directions (diagonal rungs only).
    """

    width: int = 24
    states: int = 32
    depth: int = 2
    batch: int = 32
    steps: int = 600
    evaluations: int = 4
    dropout: float = 0.0
    recurrent_factor: float = 0.25
    bidirectional: bool = False


@dataclass(frozen=True, eq=False)
class Training:
    """What one rung did.

    Attributes:
        loss: `(seeds, steps)`, infinite where it is not finite.
        accuracy: `(seeds, evaluations)` after `steps`; an output that is not finite counts as wrong.
        steps: the steps after which the accuracy was measured.
        seconds: how long it took, over all calls.
    """

    loss: Tensor
    accuracy: Tensor
    steps: tuple[int, ...]
    seconds: float


def train(
    rung: str,
    task: Task,
    seeds: Sequence[int],
    *,
    learning_rate: float,
    size: Size | None = None,
    device: torch.device | str = "cpu",
    steps: int | None = None,
    evaluate_on: tuple[Tensor, Tensor] | None = None,
    checkpoint: Path | None = None,
    until: float | None = None,
) -> Training:
    """Train one rung with all seeds at once, by AdamW under warm-up and cosine decay.

    Args:
        rung: a name in `RUNGS`.
        task: the data.
        seeds: each has its own weights and its own order of the samples.
        learning_rate: the peak; recurrent parameters get `size.recurrent_factor` of it and no weight decay (0.05 for
            all others).
        size: sizes; the defaults if left out.
        device: where to train.
        steps: stop early after so many steps of the same schedule.
        evaluate_on: sequences and labels for the accuracy; the test set if left out.
        checkpoint: a file to go on from, written once a minute, when the time is up, and at the end.
        until: the value of `time.monotonic()` at which to stop; at least one step is done.

    Returns:
        What was recorded.

    Raises:
        ValueError: an unknown rung, no seeds, a dense rung in both directions, a time without a checkpoint, or a
            checkpoint of other settings.
        OutOfTimeError: the time is up before the last step.
    """
    require_choice("rung", rung, RUNGS)
    if not seeds:
        raise ValueError("seeds = (); allowed: at least one")
    size = size or Size()
    if size.bidirectional and RUNGS[rung][0] in (DenseRecurrence, UnitRadius):
        raise ValueError(f"bidirectional = True; allowed for the rung {rung}: False")
    if until is not None and checkpoint is None:
        raise ValueError("checkpoint = None; allowed with a time to stop: a file")
    stop = size.steps if steps is None else steps
    fit = _started(rung, task, seeds, learning_rate, size, device)
    data = f"{task.classes} classes of {checkpoints.fingerprint(*task.train, *(evaluate_on or task.test))}"
    settings = f"{rung}, {data}, seeds {tuple(seeds)}, {stop} steps at rate {learning_rate:g}, {size}"
    if checkpoint is not None and (state := checkpoints.load(checkpoint, settings=settings)):
        fit.restore(state)
    rows = ensembles.drawn(len(task.train[0]), size.batch, fit.sources)
    batches = ensembles.batches(rows, *(part.to(device) for part in task.train), shared=True)
    held_out = [part.to(device) for part in evaluate_on or task.test]
    evaluated = {round(size.steps * (i + 1) / size.evaluations) for i in range(size.evaluations)}
    started, saved = time.monotonic() - fit.seconds, time.monotonic()
    while fit.ensemble.steps < stop:
        fit.losses.append(fit.ensemble.step(*next(batches)))
        fit.schedule.step()
        if fit.ensemble.steps in evaluated:
            fit.accuracies.append(_accuracy(fit.ensemble, *held_out))
        now = time.monotonic()
        fit.seconds = now - started
        done, out_of_time = fit.ensemble.steps == stop, until is not None and now >= until
        if checkpoint is not None and (out_of_time or done or now - saved > SAVE_EVERY):
            checkpoints.save(checkpoint, fit.state(), settings=settings)
            saved = now
        if out_of_time and not done:
            raise checkpoints.OutOfTimeError(
                f"{rung} at rate {learning_rate:g}: {fit.ensemble.steps} of {stop} steps; "
                "the same call goes on from there"
            )
    return Training(
        torch.stack(fit.losses, 1).cpu(),
        torch.stack(fit.accuracies, 1) if fit.accuracies else torch.empty(len(seeds), 0),
        tuple(k for k in sorted(evaluated) if k <= stop),
        fit.seconds,
    )


@dataclass
class _Fit:
    """What a run that is put down needs to go on: the ensemble, its schedule and generators, what it saw."""

    ensemble: ensembles.ModuleEnsemble
    schedule: torch.optim.lr_scheduler.LambdaLR
    sources: list[torch.Generator]
    losses: list[Tensor]
    accuracies: list[Tensor]
    seconds: float = 0.0

    def state(self) -> dict[str, Any]:
        """Return all that `restore` needs."""
        return {
            "ensemble": self.ensemble.state_dict(),
            "schedule": self.schedule.state_dict(),
            "sources": [source.get_state() for source in self.sources],
            "losses": torch.stack(self.losses, 1),
            "accuracies": self.accuracies,
            "seconds": self.seconds,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state, whose tensors are on the CPU."""
        self.ensemble.load_state_dict(state["ensemble"])
        self.schedule.load_state_dict(state["schedule"])
        for source, at in zip(self.sources, state["sources"], strict=True):
            source.set_state(at)
        self.losses = list(state["losses"].to(self.ensemble.theta.device).unbind(1))
        self.accuracies, self.seconds = list(state["accuracies"]), state["seconds"]


def _started(
    rung: str, task: Task, seeds: Sequence[int], learning_rate: float, size: Size, device: torch.device | str
) -> _Fit:
    """Return all seeds before the first step, under AdamW with a group of their own for recurrent parameters."""
    sources = [torch.Generator().manual_seed(seed) for seed in seeds]
    models = [_model(rung, task, size, source).to(device) for source in sources]
    names = {id(parameter): name for name, parameter in models[0].named_parameters()}

    def optimizer(stacked: dict[str, Tensor]) -> torch.optim.Optimizer:
        groups = parameter_groups(
            models[0], learning_rate=learning_rate, recurrent_factor=size.recurrent_factor
        )
        return torch.optim.AdamW(
            [group | {"params": [stacked[names[id(p)]] for p in group["params"]]} for group in groups]
        )

    dropout_seed = seeds[0] * 10**7 if size.dropout else None
    ensemble = ensembles.ModuleEnsemble(models, optimizer, _loss, dropout_seed=dropout_seed)
    assert ensemble.optimizer is not None
    schedule = torch.optim.lr_scheduler.LambdaLR(ensemble.optimizer, warmup_cosine(size.steps))
    return _Fit(ensemble, schedule, sources, losses=[], accuracies=[])


def _loss(model: Callable[[Tensor], Tensor], u: Tensor, y: Tensor) -> Tensor:
    return cross_entropy(model(u), y)


def _accuracy(ensemble: ensembles.ModuleEnsemble, inputs: Tensor, labels: Tensor) -> Tensor:
    """Return each seed's accuracy `(seeds,)`; an output that is not finite counts as wrong."""
    right = []
    for u, y in zip(inputs.split(100), labels.split(100), strict=True):
        logits = ensemble.evaluate(lambda model, u: model(u), u, shared=True)
        right.append((logits.argmax(-1) == y) & logits.isfinite().all(-1))
    return torch.cat(right, 1).double().mean(1).cpu()


def _model(rung: str, task: Task, size: Size, source: torch.Generator) -> SequenceModel:
    kind, settings = RUNGS[rung]
    if size.bidirectional:
        settings = settings | {"bidirectional": True}
    seed = int(torch.randint(2**31, (), generator=source))
    with global_seed(seed):  # encoder, gates and decoder take PyTorch's own start
        return SequenceModel(
            task.tokens or task.train[0].shape[-1],
            size.width,
            task.classes,
            size.depth,
            lambda: kind(size.width, size.states, generator=source, **settings),
            tokens=bool(task.tokens),
            dropout=size.dropout,
        )


def climb(
    rungs: Sequence[str],
    task: Task,
    run: Run,
    *,
    count: int,
    rates: Sequence[float] = LEARNING_RATES,
    size: Size | None = None,
    device: torch.device | str = "cpu",
    folder: Path | None = None,
    until: float | None = None,
) -> tuple[dict[str, np.ndarray], float]:
    """Choose each rung's learning rate and train it with several seeds.

    Args:
        rungs: names in `RUNGS`.
        task: the data.
        run: says which seeds.
        count: number of seeds.
        rates: the learning rates to choose from.
        size: sizes; the defaults if left out.
        device: where to train.
        folder: of the checkpoints, one for each training.
        until: as in `train`.

    Returns:
        Everything by name, ready to be kept, and how many seconds it took over all calls.

    Raises:
        ValueError, OutOfTimeError: as `train`.
    """
    seeds = [10_000 * run.seed + i for i in range(count)]
    arrays: dict[str, np.ndarray] = {"learning_rates": np.array(rates)}
    seconds = 0.0
    for rung in rungs:

        def trained(
            purpose: str, rate: float, seeds: list[int], on: tuple[Tensor, Tensor], rung: str = rung
        ) -> Training:
            return train(
                rung,
                task,
                seeds,
                learning_rate=rate,
                size=size,
                device=device,
                evaluate_on=on,
                checkpoint=folder / f"{rung}-{purpose}.pt" if folder else None,
                until=until,
            )

        tuned = [
            trained(f"tune-{i}", rate, [10_000 * run.seed + 999], task.validation)
            for i, rate in enumerate(rates)
        ]
        scores = [each.accuracy[0, -1].item() for each in tuned]
        chosen = int(np.argmax(scores))
        done = trained("final", rates[chosen], seeds, task.test)
        seconds += sum(each.seconds for each in (*tuned, done))
        name = rung.replace("-", "_")
        arrays |= {
            f"{name}_validation": np.array(scores),
            f"{name}_chosen": np.array(chosen),
            f"{name}_loss": done.loss.float().numpy(),
            f"{name}_accuracy": done.accuracy.numpy(),
            f"{name}_steps": np.array(done.steps),
        }
        print(f"{rung}: {scores}, then {done.accuracy[:, -1].tolist()}", file=sys.stderr, flush=True)
    return arrays, seconds


def compute(call: Call) -> dict[str, np.ndarray]:
    """Run one part of one task."""
    options = call.options
    task = load_task(options.task, folder=options.data)
    arrays, call.wall_time = climb(
        PARTS[call.part],
        task,
        call.run,
        count=len(call.seeds),
        rates=WIDER.get(call.part, LEARNING_RATES),
        size=Size(**{field.name: getattr(options, field.name) for field in fields(Size)}),
        device=call.run.device,
        folder=call.folder,
        until=call.until,
    )
    return arrays


def check(options: argparse.Namespace) -> None:
    """Raise a ValueError if a task is without its data."""
    if options.task in ("acsf1", "file") and options.data is None:
        needs = {"acsf1": "a folder with its files", "file": "a file .npz"}[options.task]
        raise ValueError(f"data is missing; allowed for the task {options.task}: {needs}")


SMOKE = {"width": 4, "states": 3, "depth": 1, "batch": 4, "steps": 4, "evaluations": 2}
PAPER = {"width": 512, "states": 384, "depth": 6, "batch": 50, "steps": 180_000, "dropout": 0.1}
EXPERIMENT = Experiment(
    chapter=CHAPTER,
    name=lambda options: options.data.stem.lower() if options.task == "file" else options.task,
    compute=compute,
    options=(
        Option("--task", "the data", allowed=TASKS, required=True),
        Option("--data", "folder of the files of acsf1, or the .npz of file", kind=Path),
        *(
            Option(
                f"--{field.name.replace('_', '-')}",
                "as in `Size`",
                Scaled(
                    SMOKE.get(field.name, field.default), field.default, PAPER.get(field.name, field.default)
                ),
            )
            for field in fields(Size)
        ),
    ),
    seeds=Scaled(2, 5, 3),
    parts=tuple(PARTS),
    rtol=0.05,
    resumable=True,
    check=check,
    kept=(
        *(f"--task pixel-mnist --part {part}" for part in ("dense", "diagonal", "final", "variants")),
        *(f"--task pixel-mnist --part {part}" for part in ("unscaled", "radius", *WIDER)),
        "--task pixel-mnist --seeds 25 --part normalizer",
        *(f"--task listops --steps 2000 --part {part}" for part in ("dense", "diagonal", "final")),
        *(
            f"--task acsf1 --data FOLDER --steps 200 --seeds 3 --part {part}"
            for part in ("dense", "diagonal", "final")
        ),
    ),
    paper=(
        *(  # 28,800 steps of 50 digits are 180 epochs, as many as 180,000 steps are on the source's colour images
            f"--task digits --scale paper --steps 28800 --part {part} --device cuda"
            for part in ("final", "diagonal", "dense")
        ),
        *(
            f"--task file --data TASK.npz --scale paper --part {part} --device cuda"
            for part in ("dense", "diagonal", "final")
        ),
        "--task file --data PATHX.npz --width 128 --states 256 --depth 6 --steps 250000 --bidirectional --seeds 1 "
        "--part phases --device cuda",
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute and keep; see `learning_dynamics.experiments.command`."""
    return EXPERIMENT.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
