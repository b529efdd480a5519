"""What a step of an adaptive step size costs against one of torch.optim.SGD, on the same network in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from learning_dynamics import data, optimizers
from learning_dynamics.models.cnn import SmallCNN
from learning_dynamics.models.resnet import PreActivationResNet18
from timing import Row, one_thread, show

BATCH, STEPS, ROUNDS = 128, 20, 15
MAKE: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=1e-3, foreach=True),
    "NGN": lambda p: optimizers.NGN(p, lr=1e-3),
    "NGN with momentum": lambda p: optimizers.NGN(p, lr=1e-3, momentum=0.9),
    "DecSPS": lambda p: optimizers.DecSPS(p, lr=1e-3),
    "SPS": lambda p: optimizers.SPS(p, lr=1e-3),
    "AdaGradNorm": lambda p: optimizers.AdaGradNorm(p, lr=1e-3),
}


def stepper(model: nn.Module, name: str, images: Tensor, labels: Tensor, steps: int) -> Callable[[], float]:
    """Return a function that takes whole steps (forward, backward, update) and returns their CPU time."""
    optimizer = MAKE[name](model.parameters())
    with_loss = getattr(optimizer, "needs_loss", False)
    batch = len(images) // steps

    def work() -> float:
        start = time.process_time()
        for k in range(steps):
            rows = slice(k * batch, (k + 1) * batch)
            loss = nn.functional.cross_entropy(model(images[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            if with_loss:
                optimizer.step(loss=loss)
            else:
                optimizer.step()
        return time.process_time() - start

    return work


def updater(name: str, tensors: int, size: int) -> Callable[[], float]:
    """Return a function that takes the update alone, of many small parameters, and returns its CPU time."""
    parameters = [nn.Parameter(torch.ones(size)) for _ in range(tensors)]
    for parameter in parameters:
        parameter.grad = torch.full((size,), 1e-3)
    optimizer = MAKE[name](parameters)
    arguments = {"loss": 1.0} if getattr(optimizer, "needs_loss", False) else {}

    def work() -> float:
        start = time.process_time()
        optimizer.step(**arguments)
        return time.process_time() - start

    return work


def rows() -> Iterator[Row]:
    """Yield the time of a step of each optimizer as a multiple of SGD's."""
    digits = data.load("mnist-10k", dtype=torch.float32)
    images, labels = digits.inputs[:, None], digits.targets
    with one_thread():
        for words, made, rounds in (
            (
                f"a training step of {{}} against torch.optim.SGD, small CNN, MNIST-10k, batch {BATCH}",
                {
                    name: stepper(SmallCNN(), name, images[: BATCH * STEPS], labels[: BATCH * STEPS], STEPS)
                    for name in MAKE
                },
                ROUNDS,
            ),
            (
                "a training step of {} against torch.optim.SGD, ResNet-18 (1.1e7 parameters in 56 tensors), batch 32",
                {
                    name: stepper(PreActivationResNet18(in_channels=1), name, images[:32], labels[:32], 1)
                    for name in MAKE
                },
                5,
            ),
            (
                "the update alone of {} against torch.optim.SGD's, 1e7 parameters in 1,000 tensors",
                {name: updater(name, 1000, 10_000) for name in MAKE},
                15,
            ),
        ):
            for name, ratio in _ratios(made, rounds).items():
                yield words.format(name), f"{ratio:.2f} times"


def _ratios(works: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Return the median over rounds of each work's CPU time over SGD's; on one core that is what a step costs."""
    for work in works.values():
        work()  # first calls load kernels
    taken = [{name: work() for name, work in works.items()} for _ in range(rounds)]
    return {
        name: statistics.median(times[name] / times["SGD"] for times in taken)
        for name in works
        if name != "SGD"
    }


if __name__ == "__main__":
    show(rows())
