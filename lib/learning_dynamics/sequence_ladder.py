"""From a tanh network to the linear recurrent unit, one change at a time, on three tasks; the results are kept.

    python -m learning_dynamics.sequence_ladder --task pixel-mnist --part diagonal
    python -m learning_dynamics.sequence_ladder --task acsf1 --part dense --data FOLDER

Every rung is trained with the learning rate, out of two, that did best on held-out training data with a seed of its
own; then with all seeds at once. ACSF1 (Gisler et al. 2013) is read from FOLDER: `ACSF1_TRAIN.ts`, `ACSF1_TEST.ts`.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap
from torch.nn.functional import avg_pool2d, cross_entropy

from learning_dynamics import data, results
from learning_dynamics.data.listops import TOKENS, listops
from learning_dynamics.data.ts import read_ts
from learning_dynamics.models.recurrence import (
    DenseRecurrence,
    DiagonalStateSpace,
    LinearRecurrentUnit,
    SequenceModel,
    parameter_groups,
    warmup_cosine,
)
from learning_dynamics.models.recurrence.lru import Eigenvalues
from learning_dynamics.runs import Run, resolve_device

CHAPTER = "recurrence/linear_recurrent_units"
LEARNING_RATES = (2e-3, 8e-3)
RING = {"r_min": 0.9, "r_max": 0.999}


def _disk(
    width: int, states: int, generator: torch.Generator, *, chart: Eigenvalues, r_max: float
) -> nn.Module:
    return LinearRecurrentUnit(
        width, states, r_max=r_max, eigenvalues=chart, normalizer="none", generator=generator
    )


RUNGS: dict[str, Callable[[int, int, torch.Generator], nn.Module]] = {
    "relu": lambda w, n, g: DenseRecurrence(w, n, activation="relu", generator=g),
    "tanh": lambda w, n, g: DenseRecurrence(w, n, activation="tanh", generator=g),
    "linear": lambda w, n, g: DenseRecurrence(w, n, activation="linear", generator=g),
    "cartesian": lambda w, n, g: LinearRecurrentUnit(
        w, n, eigenvalues="cartesian", normalizer="none", generator=g
    ),
    "exponential": lambda w, n, g: LinearRecurrentUnit(
        w, n, eigenvalues="exponential", normalizer="none", generator=g
    ),
    "stable": lambda w, n, g: LinearRecurrentUnit(w, n, normalizer="none", generator=g),
    "ring": lambda w, n, g: LinearRecurrentUnit(w, n, **RING, normalizer="none", generator=g),
    "lru": lambda w, n, g: LinearRecurrentUnit(w, n, **RING, generator=g),
    "s4d-lin": lambda w, n, g: DiagonalStateSpace(w, n, generator=g),
    "s4d-inv": lambda w, n, g: DiagonalStateSpace(w, n, rates="inv", generator=g),
    "s4d-euler": lambda w, n, g: DiagonalStateSpace(w, n, discretization="euler", generator=g),
    "s4d-untied": lambda w, n, g: DiagonalStateSpace(w, n, tied=False, generator=g),
    "lru-recomputed": lambda w, n, g: LinearRecurrentUnit(w, n, **RING, normalizer="recomputed", generator=g),
}
for _chart in ("exponential", "stable"):  # the sweep over the outer radius
    for _radius in (0.9, 0.99, 0.999):
        RUNGS[f"{_chart}-{_radius:g}".replace(".", "-")] = partial(_disk, chart=_chart, r_max=_radius)
PARTS = {
    "dense": ("relu", "tanh", "linear"),
    "diagonal": ("cartesian", "exponential", "stable"),
    "final": ("ring", "lru", "s4d-lin"),
    "variants": ("lru-recomputed", "s4d-inv", "s4d-euler", "s4d-untied"),
    "radius": tuple(f"{chart}-0-{r}" for chart in ("exponential", "stable") for r in ("9", "99", "999")),
}


@dataclass(frozen=True, eq=False)
class Task:
    """Sequences `(n, T, 1)` or tokens `(n, T)` with labels `(n,)`: to train, to choose the learning rate, to test."""

    train: tuple[Tensor, Tensor]
    validation: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    classes: int
    tokens: int = 0


@dataclass(frozen=True)
class Size:
    """Sizes of the model and of the training run."""

    width: int = 24
    states: int = 32
    depth: int = 2
    batch: int = 32
    steps: int = 600
    evaluations: int = 4


@dataclass(frozen=True, eq=False)
class Training:
    """What one rung did.

    `loss (seeds, steps)`, infinite where it is not finite; `accuracy (seeds, evaluations)` after `steps`, where an
    output that is not finite counts as wrong.
    """

    loss: Tensor
    accuracy: Tensor
    steps: tuple[int, ...]


def load_task(name: str, *, folder: Path | None = None, seed: int = 0) -> Task:
    """Return a task.

    `pixel-mnist`: the 10,000 shipped MNIST images, averaged over 2 by 2 pixels and read row by row (T = 196).
    `listops`: generated expressions of 20 to 100 tokens. `acsf1`: the power drawn by an appliance during an hour,
    averaged over 4 measurements (T = 365), ten kinds of appliance. `file`: an .npz with
    `inputs (n, T, channels)` or whole numbers `(n, T)`, and `targets (n,)`, cut into 8 : 1 : 1.

    Raises:
        ValueError: an unknown task, or `acsf1` or `file` without its data.
    """
    generator = torch.Generator().manual_seed(seed)
    if name == "pixel-mnist":
        images = data.load("mnist-10k", dtype=torch.float32)
        order = torch.randperm(len(images.inputs), generator=generator)
        inputs = avg_pool2d(images.inputs.reshape(-1, 1, 28, 28), 2).flatten(1)[order, :, None]
        inputs, labels = (inputs - inputs.mean()) / inputs.std(), images.targets[order]
        return Task(*_cut(inputs, labels, 8000, 1000), classes=10)
    if name == "listops":
        made = listops(10_000, generator=generator)
        return Task(*_cut(made.tokens, made.targets, 8000, 1000), classes=10, tokens=len(TOKENS))
    if name == "acsf1":
        if folder is None or not (folder / "ACSF1_TRAIN.ts").is_file():
            raise ValueError(
                f"data = {folder}; allowed for acsf1: a folder with ACSF1_TRAIN.ts and ACSF1_TEST.ts"
            )
        (train, names), (test, test_names) = (
            read_ts(folder / f"ACSF1_{part}.ts") for part in ("TRAIN", "TEST")
        )
        kinds, mean, deviation = np.unique(names), train.mean(), train.std()

        def prepared(series: np.ndarray, labels: np.ndarray) -> tuple[Tensor, Tensor]:
            pooled = ((series - mean) / deviation).reshape(len(series), -1, 4).mean(-1)
            return torch.tensor(pooled, dtype=torch.float32)[..., None], torch.tensor(
                np.searchsorted(kinds, labels)
            )

        inputs, labels = prepared(train, names)
        order = torch.randperm(len(inputs), generator=generator)
        first, held, _ = _cut(inputs[order], labels[order], 70, 30)
        return Task(first, held, prepared(test, test_names), classes=len(kinds))
    if name == "file":
        if folder is None or folder.suffix != ".npz" or not folder.is_file():
            raise ValueError(f"data = {folder}; allowed for file: an .npz with inputs and targets")
        with np.load(folder, allow_pickle=False) as arrays:
            inputs, labels = torch.tensor(arrays["inputs"]), torch.tensor(arrays["targets"]).long()
        tokens = 0 if inputs.is_floating_point() else int(inputs.max()) + 1
        inputs = inputs.long() if tokens else inputs.float()
        order = torch.randperm(len(inputs), generator=generator)
        tenth = len(inputs) // 10
        parts = _cut(inputs[order], labels[order], len(inputs) - 2 * tenth, tenth)
        return Task(*parts, classes=int(labels.max()) + 1, tokens=tokens)
    raise ValueError(f"task = {name!r}; allowed: pixel-mnist, listops, acsf1, file")


def _cut(inputs: Tensor, labels: Tensor, *counts: int) -> list[tuple[Tensor, Tensor]]:
    rest = len(inputs) - sum(counts)
    return list(zip(inputs.split([*counts, rest]), labels.split([*counts, rest]), strict=True))


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
) -> Training:
    """Train one rung with all seeds at once, by AdamW under warm-up and cosine decay, without dropout.

    Args:
        rung: a name in `RUNGS`.
        task: the data.
        seeds: each has its own weights and its own order of the samples.
        learning_rate: the peak; recurrent parameters get a quarter of it and no weight decay (0.05 for all others).
        size: sizes; the defaults if left out.
        device: where to train.
        steps: stop early after so many steps of the same schedule.
        evaluate_on: sequences and labels for the accuracy; the test set if left out.

    Raises:
        ValueError: an unknown rung or no seeds.
    """
    if rung not in RUNGS:
        raise ValueError(f"rung = {rung!r}; allowed: {', '.join(RUNGS)}")
    if not seeds:
        raise ValueError("seeds = (); allowed: at least one")
    size = size or Size()
    stop = size.steps if steps is None else steps
    sources = [torch.Generator().manual_seed(seed) for seed in seeds]
    models = [_model(rung, task, size, source).to(device) for source in sources]
    template = models[0]
    parameters, buffers = stack_module_state(models)
    optimizer = torch.optim.AdamW(_stacked_groups(template, parameters, learning_rate))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, warmup_cosine(size.steps))
    inputs, labels = (part.to(device) for part in task.train)

    def loss(p: dict[str, Tensor], b: dict[str, Tensor], u: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(functional_call(template, (p, b), (u,)), y)

    gradient = vmap(grad_and_value(loss))
    evaluated = {round(size.steps * (i + 1) / size.evaluations) for i in range(size.evaluations)}
    losses, accuracies = [], []
    for k in range(1, stop + 1):
        rows = torch.stack(
            [torch.randint(len(inputs), (size.batch,), generator=source) for source in sources]
        )
        template.train()
        gradients, values = gradient(
            {name: p.detach() for name, p in parameters.items()}, buffers, inputs[rows], labels[rows]
        )
        losses.append(values.detach())
        for name, parameter in parameters.items():
            parameter.grad = gradients[name]
        optimizer.step()
        schedule.step()
        if k in evaluated:
            accuracies.append(_accuracy(template, parameters, buffers, *(evaluate_on or task.test)))
    return Training(
        torch.stack(losses, 1).nan_to_num(nan=torch.inf).cpu(),
        torch.stack(accuracies, 1) if accuracies else torch.empty(len(seeds), 0),
        tuple(k for k in sorted(evaluated) if k <= stop),
    )


def _model(rung: str, task: Task, size: Size, source: torch.Generator) -> SequenceModel:
    seed = int(torch.randint(2**31, (), generator=source))
    with torch.random.fork_rng(devices=[]):  # encoder, gates and decoder take PyTorch's own start
        torch.manual_seed(seed)
        return SequenceModel(
            task.tokens or task.train[0].shape[-1],
            size.width,
            task.classes,
            size.depth,
            lambda: RUNGS[rung](size.width, size.states, source),
            tokens=bool(task.tokens),
        )


def _stacked_groups(template: nn.Module, parameters: dict[str, Tensor], learning_rate: float) -> list[dict]:
    names = {id(parameter): name for name, parameter in template.named_parameters()}
    groups = parameter_groups(template, learning_rate=learning_rate)
    return [group | {"params": [parameters[names[id(p)]] for p in group["params"]]} for group in groups]


@torch.no_grad()
def _accuracy(
    template: nn.Module,
    parameters: dict[str, Tensor],
    buffers: dict[str, Tensor],
    inputs: Tensor,
    labels: Tensor,
) -> Tensor:
    template.eval()
    device = next(iter(parameters.values())).device
    one = lambda p, b, u: functional_call(template, (p, b), (u,))  # noqa: E731
    right = []
    for u, y in zip(inputs.split(100), labels.split(100), strict=True):
        logits = vmap(one, (0, 0, None))(parameters, buffers, u.to(device))
        finite = logits.isfinite().all(-1)
        right.append((logits.argmax(-1) == y.to(device)) & finite)
    return torch.cat(right, 1).double().mean(1).cpu()


def climb(
    rungs: Sequence[str],
    task: Task,
    run: Run,
    *,
    count: int,
    size: Size | None = None,
    device: torch.device | str = "cpu",
) -> dict[str, np.ndarray]:
    """Choose each rung's learning rate, train it with `count` seeds and return everything by name, ready to be kept."""
    first = [run.seed * 1000 + i for i in range(count)]
    arrays: dict[str, np.ndarray] = {"learning_rates": np.array(LEARNING_RATES)}
    for rung in rungs:
        name = rung.replace("-", "_")
        tuned = [
            train(
                rung, task, [run.seed * 1000 + 999], learning_rate=rate, size=size, device=device,
                evaluate_on=task.validation,
            ).accuracy[0, -1].item()
            for rate in LEARNING_RATES
        ]  # fmt: skip
        chosen = int(np.argmax(tuned))
        done = train(rung, task, first, learning_rate=LEARNING_RATES[chosen], size=size, device=device)
        arrays |= {
            f"{name}_validation": np.array(tuned),
            f"{name}_chosen": np.array(chosen),
            f"{name}_loss": done.loss.float().numpy(),
            f"{name}_accuracy": done.accuracy.numpy(),
            f"{name}_steps": np.array(done.steps),
        }
        print(f"{rung}: {tuned}, then {done.accuracy[:, -1].tolist()}", file=sys.stderr, flush=True)
    return arrays


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one part of one task and keep what it gives."""
    parser = argparse.ArgumentParser(prog="python -m learning_dynamics.sequence_ladder", description=__doc__)
    parser.add_argument("--task", required=True, choices=("pixel-mnist", "listops", "acsf1", "file"))
    parser.add_argument("--part", required=True, choices=tuple(PARTS))
    parser.add_argument("--data", type=Path, help="folder of the files of acsf1, or the .npz of file")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--width", type=int, default=Size.width)
    parser.add_argument("--states", type=int, default=Size.states)
    parser.add_argument("--depth", type=int, default=Size.depth)
    parser.add_argument("--batch", type=int, default=Size.batch)
    parser.add_argument("--steps", type=int, default=Size.steps)
    chosen = parser.parse_args(arguments)
    run = Run(CHAPTER)
    size = Size(chosen.width, chosen.states, chosen.depth, chosen.batch, chosen.steps)
    device, started = resolve_device(chosen.device), time.perf_counter()
    torch.set_num_threads(1)
    task = load_task(chosen.task, folder=chosen.data)
    arrays = climb(PARTS[chosen.part], task, run, count=chosen.seeds, size=size, device=device)
    words = list(sys.argv[1:] if arguments is None else arguments)
    results.keep(
        CHAPTER,
        f"{chosen.task}-{chosen.part}",
        arrays,
        command=shlex.join(["python", "-m", "learning_dynamics.sequence_ladder", *words]),
        seeds=tuple(run.seed * 1000 + i for i in range(chosen.seeds)),
        device=device,
        wall_time=time.perf_counter() - started,
        rtol=0.05,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
