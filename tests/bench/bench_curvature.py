"""What a product with a curvature matrix costs in gradients and against curvlinops, on one core, and its memory.

The nets are an MLP 784-100-10 on 10,000 digits and a CNN with batch normalization on 256. Both libraries compute the
same numbers; times are of the process, one call of each library after the other, and a ratio is that of the shortest
ones. What makes the difference: curvlinops runs the network anew for each product (forward mode, twice a forward pass)
and all columns of a block under vmap; here the graph of one forward pass is kept.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from learning_dynamics import curvature, data
from timing import Row, in_turns, one_thread, peak_memory, shortest, show

REPEATS = 15
TURNS = 7
CURVLINOPS = "curvlinops-for-pytorch==3.0.1 einconv einops jaxtyping linear_operator mpmath wadler_lindig"
"""What the comparison needs; its declared dependencies would bring another torch."""


def problem() -> tuple[nn.Module, Tensor, Tensor]:
    """Return the network and all 10,000 digits, in float32."""
    digits = data.load("mnist-10k")
    inputs = torch.as_tensor(digits.inputs, dtype=torch.float32).reshape(len(digits.inputs), -1)
    random = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10))
    with torch.no_grad():
        for layer in (model[0], model[2]):
            layer.weight.normal_(0, layer.in_features**-0.5, generator=random)
    return model, inputs, torch.as_tensor(digits.targets).long()


def rows() -> Iterator[Row]:
    """Yield products in gradient evaluations and, where curvlinops is installed, against its products."""
    with one_thread():
        yield from _in_gradients()
        yield from _memory()
        yield from _against_curvlinops()


def _in_gradients() -> Iterator[Row]:
    model, inputs, targets = problem()
    loss, weights = nn.CrossEntropyLoss(), list(model.parameters())
    law = curvature.Categorical()
    batch = len(inputs) // 4
    operators = {
        "GGN": curvature.GaussNewton(model, law, inputs, targets),
        "GGN in 4 batches, nothing kept": curvature.GaussNewton(
            model, law, inputs, targets, batch_size=batch
        ),
        "Fisher": curvature.Fisher(model, law, inputs),
        "empirical Fisher": curvature.EmpiricalFisher(model, law, inputs, targets),
        "Hessian": curvature.Hessian(model, law, inputs, targets),
    }
    v = torch.ones(operators["GGN"].shape[0])
    gradient, *products = shortest(
        lambda: torch.autograd.grad(loss(model(inputs), targets), weights),
        *(lambda A=A: A @ v for A in operators.values()),
        repeats=REPEATS,
    )
    label = "MLP 784-100-10 on MNIST-10k, against a gradient"
    for name, product in zip(operators, products, strict=True):
        yield f"product with the {name}, {label}", f"{product / gradient:.2f} gradients"


def small_cnn() -> tuple[nn.Module, Tensor, Tensor]:
    """Return a convolutional network with batch normalization in eval mode and 256 digits."""
    _, inputs, targets = problem()
    torch.manual_seed(0)
    first = [nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)]
    model = nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(32 * 49, 10)).eval()
    return model, inputs[:256].reshape(-1, 1, 28, 28), targets[:256]


def _against_curvlinops() -> Iterator[Row]:
    if importlib.util.find_spec("curvlinops") is None:
        yield (
            "products against curvlinops",
            f"curvlinops is not installed: pip install --no-deps {CURVLINOPS}",
        )
        return
    yield "curvlinops", importlib.metadata.version("curvlinops-for-pytorch")
    ratios: list[float] = []
    for name, (model, inputs, targets) in (("MLP", problem()), ("CNN", small_cnn())):
        yield from _table(name, model, inputs, targets, ratios)
    above = sum(ratio > 1 for ratio in ratios)
    yield "ratios above 1.0, against curvlinops", f"{above} of {len(ratios)}, largest {max(ratios):.2f}"


def _memory() -> Iterator[Row]:
    """Yield the memory of what would otherwise ask for d x d or n x d_y x d_y numbers, each in a fresh process."""
    if not sys.platform.startswith("linux"):
        yield "memory of operators", "is measured on Linux"
        return
    start = """
import torch
from torch import nn
from learning_dynamics import curvature
torch.set_num_threads(1)
"""
    net = """
x, y = torch.randn(256, 784), torch.zeros(256, dtype=torch.long)
model = nn.Sequential(nn.Linear(784, 64), nn.Tanh(), nn.Linear(64, 10))
H = curvature.Hessian(model, nn.CrossEntropyLoss(), x, y)
V = torch.ones(H.shape[0], H._columns_at_once)
"""
    label = "memory of an exact Hessian trace, 50,890 parameters: a block of 64 columns (the matrix: 10.4 GB)"
    yield label, f"{peak_memory(start + net, 'H @ V') / 1e9:.2f} GB"
    net = """
x, y = torch.randn(64, 32), torch.zeros(64, dtype=torch.long)
model = nn.Linear(32, 4096)
"""
    work = """
G = curvature.GaussNewton(model, nn.CrossEntropyLoss(), x, y)
G @ torch.ones(G.shape[0])
"""
    label = "memory of a GGN with 4,096 classes, 64 samples, and a product (all small matrices: 4.3 GB)"
    yield label, f"{peak_memory(start + net, work) / 1e9:.2f} GB"


def _table(
    name: str, model: nn.Module, inputs: Tensor, targets: Tensor, ratios: list[float]
) -> Iterator[Row]:
    import curvlinops

    def compare(mine: Callable[[], object], other: Callable[[], object]) -> str:
        ours, theirs = in_turns(mine, other, repeats=TURNS, clock=time.process_time)
        ratios.append(min(ours) / min(theirs))
        each = sorted(a / b for a, b in zip(ours, theirs, strict=True))
        milliseconds = f"{1e3 * min(ours):.0f} ms / {1e3 * min(theirs):.0f} ms"
        return f"{ratios[-1]:.2f} ({milliseconds}; turn by turn {each[0]:.2f} to {each[-1]:.2f})"

    loss, generator = nn.CrossEntropyLoss(), torch.Generator()
    arguments, data = (model, loss), [(inputs, targets)]
    theirs = (model, loss, list(model.parameters()), data)
    makers: dict[str, tuple[Callable[[], Any], Callable[[], Any], bool]] = {
        "Hessian": (
            lambda: curvature.Hessian(*arguments, inputs, targets),
            lambda: curvlinops.HessianLinearOperator(*theirs, check_deterministic=False),
            True,
        ),
        "GGN": (
            lambda: curvature.GaussNewton(*arguments, inputs, targets),
            lambda: curvlinops.GGNLinearOperator(*theirs, check_deterministic=False),
            True,
        ),
        "Monte Carlo GGN, 1 sample": (
            lambda: curvature.Fisher(*arguments, inputs, samples=1, generator=generator),
            lambda: curvlinops.FisherMCLinearOperator(*theirs, check_deterministic=False),
            False,
        ),
        "empirical Fisher": (
            lambda: curvature.EmpiricalFisher(*arguments, inputs, targets),
            lambda: curvlinops.EFLinearOperator(*theirs, check_deterministic=False),
            True,
        ),
    }
    for kind, (make, make_other, same) in makers.items():
        ours, other = make(), make_other()
        for columns in (1, 8):
            V = torch.randn(ours.shape[0], columns, generator=torch.Generator().manual_seed(1))
            V = V[:, 0] if columns == 1 else V
            if same:
                torch.testing.assert_close(ours @ V, other @ V, rtol=1e-2, atol=1e-4)
            label = f"{kind}, {name}, {columns} vector{'s' * (columns > 1)}, against curvlinops"
            yield label, compare(lambda A=ours, V=V: A @ V, lambda A=other, V=V: A @ V)
        v = V[:, 0].contiguous()
        label = f"{kind}, {name}, build and 1 vector, against curvlinops"
        yield label, compare(lambda: make() @ v, lambda: make_other() @ v)  # noqa: B023


if __name__ == "__main__":
    show(rows())
