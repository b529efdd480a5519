"""What a product with a curvature matrix costs in gradients: an MLP 784-100-10 on MNIST-10k, one core."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from learning_dynamics import curvature, data
from timing import Row, one_thread, shortest, show

REPEATS = 15


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


def _against_curvlinops() -> Iterator[Row]:
    if importlib.util.find_spec("curvlinops") is None:
        yield "GGN product against curvlinops", "curvlinops is not installed"
        return
    from curvlinops import GGNLinearOperator

    model, inputs, targets = problem()
    loss = nn.CrossEntropyLoss()
    ours = curvature.GaussNewton(model, loss, inputs, targets)
    theirs = GGNLinearOperator(
        model, loss, list(model.parameters()), [(inputs, targets)], check_deterministic=False
    )
    for columns in (1, 8):
        V = torch.randn(ours.shape[0], columns, generator=torch.Generator().manual_seed(1))
        V = V[:, 0] if columns == 1 else V
        torch.testing.assert_close(ours @ V, theirs @ V, rtol=1e-3, atol=1e-5)
        mine, other = shortest(lambda V=V: ours @ V, lambda V=V: theirs @ V, repeats=REPEATS)
        yield f"GGN product with {columns} vectors against curvlinops", f"{mine / other:.2f} times its time"


if __name__ == "__main__":
    show(rows())
