r"""Train an image classifier with a grid of optimizers; losses and step sizes on the way become kept results.

    python -m learning_dynamics.experiments.gauss_newton_steps.image_training
    python -m learning_dynamics.experiments.gauss_newton_steps.image_training \
        --network resnet18 --data cifar-10 --device cuda --epochs 30 --seeds 3
    python -m learning_dynamics.experiments.gauss_newton_steps.image_training \
        --network resnet18 --data FILE.npz --device cuda --optimizers ngn adamw

The first line makes the chapter's results of the small network on a CPU. The second is the size of the source's
figure; it needs a GPU and the public data set. `--data FILE.npz` takes any images that fit in memory as float32:
`inputs (n, channels, height, width)` and integer `targets (n,)`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from learning_dynamics import data, models, optimizers
from learning_dynamics._internal.arguments import require_choice, require_count, require_tensors
from learning_dynamics.ensembles import shuffled
from learning_dynamics.experiments.command import Call, Experiment, Option, Scaled
from learning_dynamics.experiments.descent import descend
from learning_dynamics.runs import Run

CHAPTER = "adaptivity/gauss_newton_steps"
MOMENTUM = 0.9
GRIDS = {  # half-decades, as in the source's figure 41
    "ngn": (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
    "sgd": (0.01, 0.03, 0.1, 0.3, 1.0),
    "ngn-momentum": (3.0, 10.0, 30.0, 100.0),
    "sgd-momentum": (0.3, 1.0, 3.0),
    "adamw": (0.0001, 0.0003, 0.001, 0.003),
}
DEFAULT = ("ngn", "sgd", "ngn-momentum", "sgd-momentum")
OPTIMIZERS: dict[str, Callable[[Iterable[nn.Parameter], float], torch.optim.Optimizer]] = {
    "sgd": lambda parameters, lr: torch.optim.SGD(parameters, lr=lr),
    "ngn": lambda parameters, lr: optimizers.NGN(parameters, lr=lr),
    # the factor 1 - MOMENTUM is in front of the gradient, so that lr means the same with and without momentum
    "sgd-momentum": lambda parameters, lr: torch.optim.SGD(
        parameters, lr=(1 - MOMENTUM) * lr, momentum=MOMENTUM
    ),
    "ngn-momentum": lambda parameters, lr: optimizers.NGN(parameters, lr=lr, momentum=MOMENTUM),
    "adamw": lambda parameters, lr: torch.optim.AdamW(parameters, lr=lr, weight_decay=1e-4),
}
NETWORKS = {"cnn": models.SmallCNN, "resnet18": models.PreActivationResNet18}


@dataclass(frozen=True, eq=False)
class History:
    """One run.

    Attributes:
        loss: `(steps,)`, batch loss of every step; infinite from where the run diverged.
        step_size: `(steps,)`, what an optimizer reports, for torch's own optimizers their `lr`.
        accuracy: share of the test images that are classified right after the last step; 0 if diverged.
    """

    loss: Tensor
    step_size: Tensor
    accuracy: float


def train(
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    images: Tensor,
    labels: Tensor,
    *,
    epochs: int,
    batch_size: int,
    generator: torch.Generator,
    test: tuple[Tensor, Tensor] | None = None,
) -> History:
    """Train a network on cross-entropy, every epoch in a new order; images that fill no batch are left out of it.

    Args:
        network: maps images `(b, ...)` to logits `(b, classes)`; trained in place.
        optimizer: of the network's parameters: any of torch or of `learning_dynamics.optimizers`. One whose
            `needs_loss` is true is called as `step(loss=...)`.
        images: `(n, ...)`, on the network's device and of its dtype.
        labels: `(n,)`, int64.
        epochs: passes over the data, >= 1.
        batch_size: between 1 and n.
        generator: a CPU generator; it alone decides the order of the images.
        test: images and labels for the accuracy; the training data if left out.

    Returns:
        What was recorded.

    Raises:
        ValueError: `epochs` or `batch_size` is out of range.
    """
    require_count("epochs", epochs)
    rows = shuffled(len(images), batch_size, generator, drop_last=True)
    batches = ((images[own], labels[own]) for own in (each.to(images.device) for each in rows))
    losses = torch.full((epochs * (len(images) // batch_size),), torch.inf)
    step_sizes = losses.clone()
    network.train()
    for k, loss in zip(range(len(losses)), descend(network, optimizer, batches), strict=False):
        group = optimizer.param_groups[0]
        losses[k], step_sizes[k] = loss.item(), group.get("step_size", group["lr"])
    if losses.isinf().any():
        return History(losses, step_sizes, 0.0)
    network.eval()
    with torch.no_grad():
        test_images, test_labels = test or (images, labels)
        right = [
            (network(x).argmax(1) == y).sum()
            for x, y in zip(test_images.split(1000), test_labels.split(1000), strict=True)
        ]
    return History(losses, step_sizes, torch.stack(right).sum().item() / len(test_labels))


def images_of(name: str | Path, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Return images `(n, channels, height, width)` in float32 and labels `(n,)` of a data set or an .npz file.

    Args:
        name: of a data set, or the path of an .npz file.
        device: where to put them.

    Raises:
        ValueError: the name is unknown, or the file does not hold `inputs` and `targets` of these shapes.
    """
    if isinstance(name, str) and not name.endswith(".npz"):
        loaded = data.load(name, scale="paper", dtype=torch.float32, device=device)
        images, labels = loaded.inputs, loaded.targets
    else:
        with np.load(Path(name), allow_pickle=False) as arrays:
            if not {"inputs", "targets"} <= set(arrays.files):
                raise ValueError(f"{name} holds {sorted(arrays.files)}; allowed: inputs and targets")
            inputs, targets = arrays["inputs"], arrays["targets"]
        images = torch.as_tensor(inputs, device=device).to(torch.float32)
        images = images / 255 if inputs.dtype == np.uint8 else images
        labels = torch.as_tensor(targets, device=device).to(torch.int64)
    images = images[:, None] if images.ndim == 3 else images
    if images.ndim != 4 or labels.shape != images.shape[:1]:
        raise ValueError(
            f"{name} has inputs {tuple(images.shape)} and targets {tuple(labels.shape)}; allowed: (n, channels, "
            "height, width) and (n,)"
        )
    return images, labels


def one_run(
    images: Tensor,
    labels: Tensor,
    *,
    network: str,
    optimizer: str,
    lr: float,
    seed: int,
    epochs: int,
    batch_size: int,
) -> History:
    """Train one network from one seed on the first four fifths of the images, test on the rest.

    The seed decides the start and the order of the images; all optimizers share both.

    Args:
        images: `(n, channels, height, width)`.
        labels: `(n,)` int64.
        network: a name of `NETWORKS`.
        optimizer: a name of `GRIDS`.
        lr: its step size.
        seed: of the start and the order.
        epochs: passes over the data, >= 1.
        batch_size: images a step.

    Returns:
        What was recorded.

    Raises:
        ValueError: `network` or `optimizer` is unknown, or an argument of `train` is out of range.
    """
    require_choice("network", network, NETWORKS)
    require_choice("optimizer", optimizer, OPTIMIZERS)
    run = Run(CHAPTER, seed=seed, device="cpu")
    classes, channels = int(labels.max()) + 1, images.shape[1]
    shape = {"size": images.shape[-1]} if network == "cnn" else {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.generator("start").initial_seed())  # torch's layers draw from the global stream
        model = NETWORKS[network](classes, channels, **shape).to(images.device)
    count = len(images) * 4 // 5
    return train(
        model,
        OPTIMIZERS[optimizer](model.parameters(), lr),
        images[:count],
        labels[:count],
        epochs=epochs,
        batch_size=batch_size,
        generator=run.generator("order"),
        test=(images[count:], labels[count:]),
    )


def window_means(values: Tensor, window: int) -> Tensor:
    """Return the means over consecutive windows, `(n // window,)`; infinite where any entry is.

    Args:
        values: `(n,)`.
        window: entries a window, >= 1.

    Raises:
        ValueError: the values are not real floating point `(n,)`.
    """
    require_tensors(values=(values, "K"))
    return values[: len(values) // window * window].reshape(-1, window).mean(1)


def data_or_file(word: str) -> str | Path:
    """Return a file .npz as a path, and the name of a data set as it is.

    Args:
        word: a name, or a path that ends in .npz.
    """
    return Path(word) if word.endswith(".npz") else word


def compute(call: Call) -> dict[str, Any]:
    """Run the grid of one optimizer; return means over windows of steps, and the accuracies."""
    options, grid = call.options, GRIDS[call.options.optimizers]
    images, labels = images_of(options.data, call.run.device)

    def runs(lr: float) -> dict[str, Tensor]:
        found = [
            one_run(
                images,
                labels,
                network=options.network,
                optimizer=options.optimizers,
                lr=lr,
                seed=seed,
                epochs=options.epochs,
                batch_size=options.batch_size,
            )
            for seed in call.seeds
        ]
        print(f"{options.optimizers} {lr:g}: {[run.accuracy for run in found]}", file=sys.stderr, flush=True)
        curves = {
            name: torch.stack([window_means(getattr(run, name), options.window) for run in found])
            for name in ("loss", "step_size")
        }
        return curves | {"accuracy": torch.tensor([run.accuracy for run in found])}

    pieces = [call.piece(f"lr-{lr:g}", runs, lr) for lr in grid]
    return {name: torch.stack([piece[name] for piece in pieces]) for name in pieces[0]} | {
        "lr": np.array(grid)
    }


EXPERIMENT = Experiment(
    chapter=CHAPTER,
    name=lambda options: (
        f"{options.network}-{options.data.stem if isinstance(options.data, Path) else options.data}"
        f"-{options.optimizers}".lower()
    ),
    compute=compute,
    options=(
        Option("--network", "the network", Scaled("cnn", "cnn", "resnet18"), allowed=tuple(NETWORKS)),
        Option(
            "--data",
            "a data set's name, or a file .npz",
            Scaled("mnist-10k", "mnist-10k", "cifar-10"),
            kind=data_or_file,
        ),
        Option(
            "--optimizers",
            "optimizers, a result each",
            Scaled(("sgd-momentum",), DEFAULT, DEFAULT),
            allowed=tuple(GRIDS),
        ),
        Option("--epochs", "number of epochs", Scaled(1, 12, 30)),
        Option("--batch-size", "size of the batches", Scaled(1000, 128, 128)),
        Option("--window", "steps averaged for the kept curves", Scaled(2, 31, 31)),
    ),
    each="optimizers",
    seeds=Scaled(1, 6, 3),
    rtol=0.05,
    resumable=True,
    kept=("",),
    paper=(
        "--scale paper --device cuda --optimizers ngn sgd",
        "--scale paper --device cuda --data mnist-10k",
        "--scale paper --device cuda --data imagenet64.npz --optimizers ngn sgd-momentum adamw",
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute and keep; see `learning_dynamics.experiments.command`."""
    return EXPERIMENT.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
