"""What a step of an adaptive step size costs against one of torch.optim.SGD, on the same network in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from learning_dynamics import data, optimizers
from learning_dynamics.models.cnn import SmallCNN
from timing import Row, one_thread, show

BATCH, STEPS, ROUNDS = 128, 20, 15


def stepper(
    make: Callable[..., torch.optim.Optimizer], images: Tensor, labels: Tensor
) -> Callable[[], float]:
    """Return a function that takes STEPS whole steps (forward, backward, update) and returns their CPU time."""
    torch.manual_seed(0)
    model = SmallCNN()
    optimizer = make(model.parameters())
    with_loss = getattr(optimizer, "needs_loss", False)

    def work() -> float:
        start = time.process_time()
        for k in range(STEPS):
            rows = slice(k * BATCH, (k + 1) * BATCH)
            loss = nn.functional.cross_entropy(model(images[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            if with_loss:
                optimizer.step(loss=loss)
            else:
                optimizer.step()
        return time.process_time() - start

    return work


def rows() -> Iterator[Row]:
    """Yield the time of a step of each optimizer as a multiple of SGD's."""
    with one_thread():
        ratios = _measured()
    for name, ratio in ratios.items():
        yield (
            f"one step of {name} against torch.optim.SGD, small CNN, MNIST-10k, batch {BATCH}",
            f"{ratio:.2f} times",
        )


def _measured() -> dict[str, float]:
    digits = data.load("mnist-10k", dtype=torch.float32)
    images, labels = digits.inputs[:, None], digits.targets
    steppers = {
        "SGD": stepper(lambda p: torch.optim.SGD(p, lr=0.1), images, labels),
        "NGN": stepper(lambda p: optimizers.NGN(p, lr=1.0), images, labels),
        "DecSPS": stepper(lambda p: optimizers.DecSPS(p, lr=1.0), images, labels),
        "SPS": stepper(lambda p: optimizers.SPS(p, lr=1.0), images, labels),
        "AdaGradNorm": stepper(lambda p: optimizers.AdaGradNorm(p, lr=1.0), images, labels),
    }
    for work in steppers.values():
        work()  # first calls load kernels
    # on one core CPU time is what the steps cost; one round of each after the other meets the same machine
    rounds = [{name: work() for name, work in steppers.items()} for _ in range(ROUNDS)]
    others = [name for name in steppers if name != "SGD"]
    return {name: statistics.median(times[name] / times["SGD"] for times in rounds) for name in others}


if __name__ == "__main__":
    show(rows())
