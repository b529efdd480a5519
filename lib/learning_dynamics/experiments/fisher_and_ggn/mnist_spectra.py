"""Train small networks on MNIST and keep the ends of the spectra of Hessian, Fisher and empirical Fisher.

    python -m learning_dynamics.experiments.fisher_and_ggn.mnist_spectra

makes the kept result of the chapter on Fisher and Gauss-Newton: 784-20-10 networks with ReLU, minibatches of 100,
step size 0.1. The second half of the runs trains on labels in random order.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from learning_dynamics import curvature, data, ensembles
from learning_dynamics._internal.arguments import require_choice
from learning_dynamics.experiments.command import Call, Experiment, Option, Scaled, whole
from learning_dynamics.experiments.descent import descend
from learning_dynamics.runs import Run

CHAPTER = "curvature/fisher_and_ggn"
RUN_NAME = "mnist-spectra"
STEPS = (0, 10, 30, 100, 300, 1000, 3000)
LABELS = ("true", "permuted")
SAMPLES = 2000
TOP = 12
LAW = curvature.Categorical()


def training_data(seed: int, labels: str) -> tuple[Tensor, Tensor]:
    """Return the 10,000 images `(n, 784)` and labels `(n)`.

    Args:
        seed: of the order of permuted labels.
        labels: "true", or "permuted" for labels in random order.

    Raises:
        ValueError: `labels` is neither "true" nor "permuted".
    """
    require_choice("labels", labels, LABELS)
    mnist = data.load("mnist-10k")
    images = mnist.inputs.reshape(len(mnist.inputs), -1).to(torch.float64)
    targets = mnist.targets
    if labels == "permuted":
        targets = targets[torch.randperm(len(targets), generator=Run(CHAPTER).generator("labels", seed=seed))]
    return images, targets


def checkpoints(seed: int, labels: str, steps: Sequence[int] = STEPS) -> Iterator[tuple[int, nn.Module]]:
    """Yield one network trained by minibatch gradient descent after each of the numbers of steps, with that number.

    Args:
        seed: of the start and of the order of the images.
        labels: "true" or "permuted".
        steps: increasing numbers of steps.

    Raises:
        ValueError: as `training_data`.
    """
    images, targets = training_data(seed, labels)
    source = Run(CHAPTER).generator("network", seed=seed)
    network = nn.Sequential(nn.Linear(784, 20), nn.ReLU(), nn.Linear(20, 10)).to(torch.float64)
    with torch.no_grad():
        for layer in network:  # weights of variance 2 / inputs (He et al. 2015), no bias
            if not isinstance(layer, nn.Linear):
                continue
            layer.weight.normal_(0, (2 / layer.in_features) ** 0.5, generator=source)
            layer.bias.zero_()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    batches = ((images[rows], targets[rows]) for rows in ensembles.drawn(len(images), 100, source))
    descent = descend(network, optimizer, batches)
    for step in range(steps[-1] + 1):
        if step in steps:
            yield step, network
        if step < steps[-1]:
            next(descent)


def matrices(
    network: nn.Module, seed: int, labels: str, samples: int = SAMPLES
) -> dict[str, curvature.SymmetricOperator]:
    """Return Hessian, Gauss-Newton, Fisher and empirical Fisher on the first images, each `(d, d)`.

    Args:
        network: the network.
        seed: of the labels' order.
        labels: "true" or "permuted".
        samples: how many images.
    """
    images, targets = (values[:samples] for values in training_data(seed, labels))
    return {
        "hessian": curvature.Hessian(network, LAW, images, targets),
        "gauss_newton": curvature.GaussNewton(network, LAW, images, targets),
        "fisher": curvature.Fisher(network, LAW, images),
        "empirical": curvature.EmpiricalFisher(network, LAW, images, targets),
    }


def spectra(network: nn.Module, seed: int, labels: str, samples: int = SAMPLES) -> dict[str, Tensor]:
    """Return what is kept of one network, on the first images.

    Args:
        network: the network.
        seed: of the labels' order.
        labels: "true" or "permuted".
        samples: how many images.

    Returns:
        `hessian`, `gauss_newton`, `fisher`, `empirical`: the largest eigenvalues, `(TOP)`; `lowest`: the smallest
        eigenvalue of the Hessian, `()`; `distance`: the spectral norm of Hessian minus Gauss-Newton, `()`; `loss`:
        the mean loss on these images, `()`.
    """
    images, targets = (values[:samples] for values in training_data(seed, labels))
    operators = matrices(network, seed, labels, samples)
    source = Run(CHAPTER).generator("lanczos", seed=seed)
    tops = {name: A.top_eigenvalues(TOP, tolerance=1e-6, generator=source) for name, A in operators.items()}
    H, G = operators["hessian"], operators["gauss_newton"]
    start = torch.randn(H.shape[0], dtype=torch.float64, generator=source)

    def largest(product: Callable[[Tensor], Tensor]) -> Tensor:
        return curvature.top_eigenpairs(product, 1, start, tolerance=1e-6).values[0]

    ends = [largest(lambda v: H @ v - G @ v), largest(lambda v: G @ v - H @ v)]
    loss, _ = curvature.loss_and_gradient(network, LAW, images, targets)
    return tops | {"lowest": -largest(lambda v: -(H @ v)), "distance": torch.stack(ends).max(), "loss": loss}


def compute(call: Call) -> dict[str, Tensor]:
    """Return the spectra of all seeds, with true and with permuted labels."""
    arrays: dict[str, Tensor] = {"steps": torch.tensor(call.options.steps)}
    for labels in LABELS:
        runs = [call.piece(f"{labels}-{seed}", _along, call, seed, labels) for seed in call.seeds]
        arrays |= {f"{labels}_{name}": torch.stack([run[name] for run in runs]) for name in runs[0]}
    return arrays


def _along(call: Call, seed: int, labels: str) -> dict[str, Tensor]:
    """Return the spectra along one run, one row a checkpoint."""
    found = [
        spectra(network, seed, labels, call.options.samples)
        for _, network in checkpoints(seed, labels, call.options.steps)
    ]
    return {name: torch.stack([each[name] for each in found]) for name in found[0]}


EXPERIMENT = Experiment(
    chapter=CHAPTER,
    name=lambda options: RUN_NAME,
    compute=compute,
    options=(
        Option("--steps", "measure after so many steps", Scaled((0, 3), STEPS, STEPS), kind=whole),
        Option("--samples", "measure on so many images", Scaled(50, SAMPLES, SAMPLES)),
    ),
    seeds=Scaled(1, 6, 6),
    rtol=1e-3,
    resumable=True,
    devices=("cpu",),
    kept=("",),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute and keep; see `learning_dynamics.experiments.command`."""
    return EXPERIMENT.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
