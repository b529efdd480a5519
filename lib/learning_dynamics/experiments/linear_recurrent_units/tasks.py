"""The tasks of the accuracy ladder: sequences with labels, cut into training, validation and test data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from learning_dynamics import data
from learning_dynamics.data.listops import TOKENS, listops
from learning_dynamics.data.ts import read_ts

Part = tuple[Tensor, Tensor]
"""Sequences and their labels."""

TASKS = ("pixel-mnist", "digits", "listops", "acsf1", "file")


@dataclass(frozen=True, eq=False)
class Task:
    """Sequences `(n, T, channels)` or tokens `(n, T)` with labels `(n,)`.

    Attributes:
        train: to train on.
        validation: to choose the learning rate.
        test: to report.
        classes: number of labels.
        tokens: size of the alphabet, 0 for sequences of reals.
    """

    train: Part
    validation: Part
    test: Part
    classes: int
    tokens: int = 0


def load_task(name: str, *, folder: Path | None = None, seed: int = 0) -> Task:
    """Return a task.

    `pixel-mnist`: the 10,000 shipped MNIST images, averaged over 2 by 2 pixels and read row by row (T = 196).
    `digits`: the same images at their 28 by 28 pixels (T = 784).
    `listops`: 22,000 generated expressions of 10 to 50 tokens. `acsf1`: the power drawn by an appliance during an hour,
    averaged over 4 measurements (T = 365), ten kinds of appliance (Gisler et al. 2013). `file`: an .npz with
    `inputs (n, T, channels)` or whole numbers `(n, T)`, and `targets (n,)`, cut into 8 : 1 : 1.

    Args:
        name: the task.
        folder: the folder of the files of `acsf1`, or the .npz of `file`.
        seed: of the order in which the data are cut, and of the expressions.

    Raises:
        ValueError: an unknown task, or `acsf1` or `file` without its data.
    """
    generator = torch.Generator().manual_seed(seed)
    if name == "pixel-mnist":
        return _pixel_mnist(generator, 2)
    if name == "digits":
        return _pixel_mnist(generator, 1)
    if name == "listops":
        made = listops(22_000, shortest=10, longest=50, depth=4, generator=generator)
        parts = _cut(made.tokens, made.targets, 20_000, 1000)
        return Task(*parts, classes=10, tokens=len(TOKENS))
    if name == "acsf1":
        return _acsf1(folder, generator)
    if name == "file":
        return _file(folder, generator)
    raise ValueError(f"task = {name!r}; allowed: {', '.join(TASKS)}")


def _pixel_mnist(generator: torch.Generator, together: int) -> Task:
    images = data.load("mnist-10k", dtype=torch.float32)
    order = torch.randperm(len(images.inputs), generator=generator)
    inputs = avg_pool2d(images.inputs.reshape(-1, 1, 28, 28), together).flatten(1)[order, :, None]
    inputs = (inputs - inputs.mean()) / inputs.std()
    return Task(*_cut(inputs, images.targets[order], 8000, 1000), classes=10)


def _acsf1(folder: Path | None, generator: torch.Generator) -> Task:
    if folder is None or not (folder / "ACSF1_TRAIN.ts").is_file():
        raise ValueError(
            f"data = {folder}; allowed for acsf1: a folder with ACSF1_TRAIN.ts and ACSF1_TEST.ts"
        )
    (train, names), (test, test_names) = (read_ts(folder / f"ACSF1_{part}.ts") for part in ("TRAIN", "TEST"))
    kinds, mean, deviation = np.unique(names), train.mean(), train.std()

    def prepared(series: np.ndarray, labels: np.ndarray) -> Part:
        pooled = ((series - mean) / deviation).reshape(len(series), -1, 4).mean(-1)
        places = torch.tensor(np.searchsorted(kinds, labels))
        return torch.tensor(pooled, dtype=torch.float32)[..., None], places

    inputs, labels = prepared(train, names)
    order = torch.randperm(len(inputs), generator=generator)
    first, held, _ = _cut(inputs[order], labels[order], 70, 30)
    return Task(first, held, prepared(test, test_names), classes=len(kinds))


def _file(path: Path | None, generator: torch.Generator) -> Task:
    if path is None or path.suffix != ".npz" or not path.is_file():
        raise ValueError(f"data = {path}; allowed for file: an .npz with inputs and targets")
    with np.load(path, allow_pickle=False) as arrays:
        if not {"inputs", "targets"} <= set(arrays.files):
            raise ValueError(f"data = {path.name} with {arrays.files}; allowed: inputs and targets")
        given, targets = arrays["inputs"], arrays["targets"]
    axes = 3 if given.dtype.kind == "f" else 2  # numbers (n, T, channels), or tokens (n, T)
    if given.dtype.kind not in "fiu" or given.ndim != axes or len(given) < 10:
        raise ValueError(
            f"inputs of {path.name} = {given.dtype} of {given.shape}; "
            "allowed: numbers (n, T, channels) or tokens (n, T), n >= 10"
        )
    if given.dtype.kind == "f" and not np.isfinite(given).all():
        raise ValueError(
            f"inputs of {path.name} has entries that are NaN or infinite; allowed: finite numbers"
        )
    if targets.dtype.kind not in "iu" or targets.shape != given.shape[:1]:
        raise ValueError(
            f"targets of {path.name} = {targets.dtype} of {targets.shape}; allowed: integers ({len(given)},)"
        )
    if targets.min() < 0 or (axes == 2 and given.min() < 0):
        raise ValueError(f"{path.name} holds a class or token < 0; allowed: counted from 0")
    inputs, labels = torch.tensor(given), torch.tensor(targets.astype(np.int64))
    tokens = 0 if inputs.is_floating_point() else int(inputs.max()) + 1
    inputs = inputs.long() if tokens else inputs.float()
    order = torch.randperm(len(inputs), generator=generator)
    tenth = len(inputs) // 10
    parts = _cut(inputs[order], labels[order], len(inputs) - 2 * tenth, tenth)
    return Task(*parts, classes=int(labels.max()) + 1, tokens=tokens)


def _cut(inputs: Tensor, labels: Tensor, training: int, validation: int) -> tuple[Part, Part, Part]:
    """Return training, validation and test data, the last what remains."""
    counts = [training, validation, len(inputs) - training - validation]
    first, second, rest = zip(inputs.split(counts), labels.split(counts), strict=True)
    return first, second, rest
