"""Trains small networks of many seeds at once and follows where the targets lie relative to the Jacobian.

`python -m learning_dynamics.experiments.data_architecture_alignment.training TASK` makes the kept results
behind the redrawn main figure of the chapter data_architecture_alignment. With `--scale paper --part 1/3` it runs
the source's sizes in parts.
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from sklearn.datasets import make_moons
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from learning_dynamics import data, ensembles
from learning_dynamics._internal.arguments import require_choice, require_same, step_numbers
from learning_dynamics.curvature import Jacobian
from learning_dynamics.data import semeion
from learning_dynamics.experiments.command import Call, Experiment, Option, Scaled
from learning_dynamics.models import MLP, LeNet
from learning_dynamics.parameterization import column_space
from learning_dynamics.rules import SGD

CHAPTER = "parameterization/data_architecture_alignment"
TASKS = ("two-moons", "sine", "digits", "random")
"""The four data sets: two for the fully connected network, two for LeNet."""
IMAGES = ("digits", "random")


def float32_tolerance(samples: int, parameters: int) -> float:
    """Return the rank tolerance, relative to the largest singular value, that suits a float32 matrix (n, d).

    It is (eps/2) sqrt(n + d + 1), after Press et al., Numerical Recipes (the estimate quoted by
    `numpy.linalg.matrix_rank`).

    Args:
        samples: n.
        parameters: d.
    """
    return 2.0**-24 * math.sqrt(samples + parameters + 1)


Watch = Callable[[int, nn.Module, Tensor, Tensor], Sequence[float]]
"""`watch(seed, model, inputs, labels)`: K numbers of one seed's network, which it may change, at a recorded epoch."""


class Data(NamedTuple):
    """A data set for each seed.

    Attributes:
        inputs: `(seeds, n, ...)`, float32.
        labels: `(seeds, n)`, 0 and 1, float32.
    """

    inputs: Tensor
    labels: Tensor


class Training(NamedTuple):
    """What `train` saw, at the recorded epochs; R epochs, S seeds, K numbers of `watch`.

    Attributes:
        epochs: `(R,)`.
        loss: `(R, S)`, mean cross-entropy on all samples; inf where a run diverged.
        error: `(R, S)`, share of samples on the wrong side; inf where a run diverged.
        watched: `(R, S, K)`, what `watch` returned; inf where a run diverged.
        models: the trained networks.
    """

    epochs: Tensor
    loss: Tensor
    error: Tensor
    watched: Tensor
    models: list[nn.Module]


def make_data(task: str, samples: int, seeds: Sequence[int], semeion_file: Path | str | None = None) -> Data:
    """Return a data set for each seed.

    `two-moons` is scikit-learn's `make_moons` without noise. `sine` has x uniform on [-1, 1] and the label 1 where
    sin 20x < 0. `random` has 16 x 16 normal pixels and fair coins. `digits` asks whether a digit is odd, on
    scikit-learn's 8 x 8 digits enlarged to 16 x 16, or on Semeion's if its file is given.

    Args:
        task: one of `TASKS`.
        samples: n, of each seed.
        seeds: of the draws.
        semeion_file: Semeion's text file, for `digits`.

    Raises:
        ValueError: the task is unknown, there are no seeds, or more samples than the set has.
    """
    require_choice("task", task, TASKS)
    if not seeds or samples < 2:
        raise ValueError(
            f"samples = {samples}, seeds = {list(seeds)}; allowed: at least two samples and one seed"
        )
    pairs = [_one(task, samples, int(seed), semeion_file) for seed in seeds]
    return Data(*(torch.stack(part) for part in zip(*pairs, strict=True)))


def _one(task: str, samples: int, seed: int, semeion_file: Path | str | None) -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(20_000 + seed)
    if task == "two-moons":
        points, labels = make_moons(samples, random_state=seed)
        return torch.tensor(points, dtype=torch.float32), torch.tensor(labels, dtype=torch.float32)
    if task == "sine":
        x = 2 * torch.rand(samples, 1, generator=source) - 1
        return x, (torch.sin(20 * x[:, 0]) < 0).float()
    if task == "random":
        images = torch.randn(samples, 1, 16, 16, generator=source)
        return images, torch.randint(2, (samples,), generator=source).float()
    if semeion_file is not None:
        pixels, digits = semeion.read(semeion_file)
        images, classes = torch.from_numpy(pixels).float(), torch.from_numpy(digits).long()
    else:
        small = data.load("digits", dtype=torch.float32)
        images = torch.from_numpy(np.repeat(np.repeat(small.inputs.numpy(), 2, 1), 2, 2))
        classes = small.targets
    if samples > len(images):
        raise ValueError(f"samples = {samples}; allowed: at most {len(images)}")
    chosen = torch.randperm(len(images), generator=source)[:samples]
    return images[chosen, None], (classes[chosen] % 2).float()


def make_models(task: str, width: int, seeds: Sequence[int]) -> list[nn.Module]:
    """Return a network for each seed: `MLP` with three hidden layers, or `LeNet`.

    Args:
        task: one of `TASKS`.
        width: of `MLP`'s layers, or m of `LeNet`.
        seeds: of the weights.
    """
    models: list[nn.Module] = []
    for seed in seeds:
        source = torch.Generator().manual_seed(30_000 + int(seed))
        if task in ("digits", "random"):
            models.append(LeNet(width, num_classes=1, generator=source))
        else:
            sizes = [2 if task == "two-moons" else 1, width, width, width, 1]
            models.append(MLP(sizes, weight_std=width**-0.5, generator=source))
    return models


def train(
    models: Sequence[nn.Module],
    seen: Data,
    *,
    step_size: float,
    momentum: float,
    batch_size: int,
    epochs: int,
    record: Sequence[int],
    watch: Watch | None = None,
) -> Training:
    """Train one network a seed, all at once, by stochastic gradients with momentum on the cross-entropy.

    Args:
        models: S networks of one shape with one output; they are not changed.
        seen: S data sets.
        step_size: of SGD.
        momentum: of SGD, as torch has it.
        batch_size: at most n; every epoch passes over a new order of the samples, the same for all seeds.
        epochs: how many.
        record: increasing epochs between 0 and `epochs`, which must be the last of them.
        watch: called at the recorded epochs, seed by seed.

    Returns:
        What was recorded, and the trained networks.

    Raises:
        ValueError: counts do not fit.
    """
    seeds, n = seen.labels.shape
    if len(models) != seeds:
        raise ValueError(f"models are {len(models)}; allowed: {seeds}, one a data set")
    record = step_numbers(record, epochs)
    if record[-1] != epochs:
        raise ValueError(f"record = {record}; allowed: the last is epochs = {epochs}")
    order = ensembles.shuffled(n, batch_size, torch.Generator().manual_seed(40_000))
    per_epoch = math.ceil(n / batch_size)
    ensemble = ensembles.ModuleEnsemble(models, SGD(step_size, momentum=momentum), cross_entropy)

    def observe(ensemble: ensembles.ModuleEnsemble) -> Tensor:
        rows = torch.stack(ensemble.evaluate(cross_entropy_and_error, *seen), 1).double()
        if watch is None:
            return rows
        own = [list(watch(s, ensemble.module(s), seen.inputs[s], seen.labels[s])) for s in range(seeds)]
        return torch.cat([rows, torch.tensor(own, dtype=torch.float64)], 1)

    found = ensemble.train(
        ensembles.batches(order, *seen),
        epochs * per_epoch,
        record=[epoch * per_epoch for epoch in record],
        observe=observe,
    ).values
    assert found is not None
    trained = [ensemble.module(s) for s in range(seeds)]
    return Training(torch.tensor(record), found[..., 0], found[..., 1], found[..., 2:], trained)


def cross_entropy(model: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> Tensor:
    """Return the mean cross-entropy `()` of labels 0 and 1.

    Args:
        model: from inputs to logits `(n, 1)`.
        x: `(n, ...)`.
        y: `(n)`, labels.

    Raises:
        ValueError: the labels have another shape or dtype than the logits.
    """
    return binary_cross_entropy_with_logits(_logits(model, x, y), y)


def cross_entropy_and_error(model: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean cross-entropy and the share of samples on the wrong side.

    Args:
        model: from inputs to logits `(n, 1)`.
        x: `(n, ...)`.
        y: `(n)`, labels 0 and 1.

    Returns:
        Both, each `()`.

    Raises:
        ValueError: the labels have another shape or dtype than the logits.
    """
    logits = _logits(model, x, y)
    error = ((logits > 0) != (y > 0.5)).float().mean()
    return binary_cross_entropy_with_logits(logits, y), error


def _logits(model: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> Tensor:
    """Return the logits `(n)` of a model, of the shape and dtype of the labels."""
    logits = model(x).squeeze(-1)
    require_same("y", y, logits, "the logits")
    return logits


class Alignment:
    """A `watch` that measures, in float64, how the labels lie relative to the Jacobian at the float32 tolerance.

    It returns five numbers: relative residual of the labels +1 and -1, numerical rank, change of the tangent kernel
    since the first call for the seed (squared Frobenius norm), the same divided by the squared norm at the start, and
    the largest share of dead units in a layer. All are infinite for a network that has left the finite numbers.
    """

    def __init__(self) -> None:
        """Start without a kernel to compare with."""
        self._first: dict[int, Tensor] = {}

    def __call__(self, seed: int, model: nn.Module, inputs: Tensor, labels: Tensor) -> tuple[float, ...]:
        """Return the five numbers; the first call for a seed sets the kernel that its later ones compare with."""
        model, inputs = model.double(), inputs.double()
        size = sum(parameter.numel() for parameter in model.parameters())
        if not all(bool(parameter.isfinite().all()) for parameter in model.parameters()):
            return (math.inf,) * 5
        gram = column_space.layerwise_gram(model, inputs)
        first = self._first.setdefault(seed, gram)
        where = column_space.from_gram(gram, 2 * labels.double() - 1)
        rtol = float32_tolerance(len(labels), size)
        change = (gram - first).square().sum()
        return (
            where.residual(rtol).item(),
            float(where.rank(rtol)),
            change.item(),
            (change / first.square().sum()).item(),
            column_space.dead_share(model, inputs),
        )


def settings(task: str) -> dict[str, float | int]:
    """Return the source's step size, momentum and number of epochs for a task.

    Args:
        task: one of `TASKS`.
    """
    small = task in ("two-moons", "sine")
    return {"step_size": 0.1, "momentum": 0.98 if small else 0.9, "epochs": 1000 if small else 400}


def epochs_to_record(epochs: int, points: int = 11) -> list[int]:
    """Return 0 and some epochs evenly spread on a logarithmic axis up to the last.

    Args:
        epochs: the last.
        points: about how many.
    """
    spread = np.unique(np.geomspace(1, max(epochs, 1), points).round().astype(int))
    return [0, *spread.tolist()]


def spectrum(
    model: nn.Module, inputs: Tensor, labels: Tensor, dtype: torch.dtype
) -> column_space.ColumnSpace:
    """Return where the labels +1 and -1 lie relative to the dense Jacobian.

    Args:
        model: the network.
        inputs: `(n, ...)`.
        labels: `(n)`, 0 and 1.
        dtype: in which all is computed.
    """
    jacobian = Jacobian(copy.deepcopy(model).to(dtype), inputs.to(dtype)).T.dense().T
    return column_space.from_jacobian(jacobian, 2 * labels.to(dtype) - 1)


def compute(call: Call) -> dict[str, Tensor]:
    """Train one task with all its widths and seeds, and return what was seen."""
    options, run = call.options, call.run
    images = options.task in IMAGES
    samples = options.samples or run.pick(
        smoke=20, book=300 if images else 100, paper=1000 if images else 100
    )
    full = int(settings(options.task)["epochs"])
    epochs = options.epochs or run.pick(smoke=2, book=full, paper=full)
    widths = run.share(list(options.widths or ((1, 2, 4) if images else (300,))))
    if not widths:
        raise ValueError(f"part = {call.part!r}; allowed: no more parts than widths")
    seen = make_data(options.task, samples, call.seeds, options.semeion)
    record = epochs_to_record(epochs)
    kept: dict[str, Tensor] = {
        "epochs": torch.tensor(record),
        "widths": torch.tensor(widths),
        "samples": torch.tensor(samples),
    }
    curves = [call.piece(f"width-{width}", _at_width, call, width, seen, epochs, record) for width in widths]
    for name in curves[0]:
        along_widths = name in ("loss", "error", "watched")
        kept[name] = torch.stack([curve[name] for curve in curves]) if along_widths else curves[-1][name]
    watched = kept.pop("watched").double()
    for position, name in enumerate(("residual", "rank", "change", "relative_change", "dead")):
        kept[name] = watched[..., position]
    return kept


def _at_width(call: Call, width: int, seen: Data, epochs: int, record: Sequence[int]) -> dict[str, Tensor]:
    """Train the networks of one width; for the two tasks without images also the first seed's spectra."""
    task, used = call.options.task, settings(call.options.task)
    models, samples = make_models(task, width, call.seeds), seen.labels.shape[1]
    trained = train(
        models,
        seen,
        step_size=call.options.step_size or float(used["step_size"]),
        momentum=float(used["momentum"]),
        batch_size=min(100, samples) if samples >= 1000 or task not in IMAGES else samples // 10,
        epochs=epochs,
        record=record,
        watch=Alignment(),
    )
    kept = {"loss": trained.loss, "error": trained.error, "watched": trained.watched}
    print(width, trained.error[-1].tolist(), trained.watched[-1][:, 0].tolist(), file=sys.stderr, flush=True)
    if task not in IMAGES:
        for when, networks in (("start", models), ("end", trained.models)):
            for dtype in (torch.float64, torch.float32):
                where = spectrum(networks[0], seen.inputs[0], seen.labels[0], dtype)
                name = f"{when}_{str(dtype)[-2:]}"
                kept |= {f"{name}_values": where.singular_values, f"{name}_components": where.components}
    return kept


EXPERIMENT = Experiment(
    chapter=CHAPTER,
    name=lambda options: options.name or options.task,
    compute=compute,
    options=(
        Option("task", "the data set", allowed=TASKS),
        Option("--samples", "default: 100, or 300 images; at paper 1000 images", kind=int),
        Option("--epochs", "default: the source's", kind=int),
        Option("--widths", "default: 300, or 1 2 4", (), kind=int),
        Option("--step-size", "default: the source's", kind=float),
        Option("--semeion", "semeion.data, for the task digits", kind=Path, metavar="FILE"),
        Option("--name", "name of the result; the task's if left out"),
    ),
    seeds=Scaled(2, 10, 10),
    parts=3,
    rtol=0.5,
    resumable=True,
    devices=("cpu",),
    kept=(
        "two-moons",
        "sine",
        "digits --samples 200 --epochs 50",
        "random",
        "random --step-size 0.02 --widths 2 --epochs 200 --name random-small-step",
    ),
    paper=(
        *(f"random --scale paper --part {k}/3" for k in (1, 2, 3)),
        *(f"digits --semeion FILE --scale paper --part {k}/3" for k in (1, 2, 3)),
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute and keep; see `learning_dynamics.experiments.command`."""
    return EXPERIMENT.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
