"""Column-space tests against projections by least squares; the layerwise Gram against dense Jacobians."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from learning_dynamics import curvature, models
from learning_dynamics.parameterization import column_space

like = {"dtype": torch.float64}


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), **like)


@given(st.integers(1, 6), st.integers(1, 8), st.integers(0, 100))
def test_residual_is_that_of_least_squares(rank: int, n: int, seed: int) -> None:
    jacobian = draw(n, rank, seed=seed) @ draw(rank, 9, seed=seed + 1)
    y = draw(n, seed=seed + 2)
    where = column_space.from_jacobian(jacobian, y)
    solution, *_ = np.linalg.lstsq(jacobian.numpy(), y.numpy(), rcond=1e-10)
    missed = np.linalg.norm(y.numpy() - jacobian.numpy() @ solution) / np.linalg.norm(y.numpy())
    assert abs(where.residual(1e-10).item() - missed) < 1e-9
    assert where.rank(1e-10).item() == min(rank, n)
    assert abs(where.coefficient_norm(1e-10).item() / np.linalg.norm(solution) - 1) < 1e-6
    curve = [where.residual(r).item() for r in (1e-10, 1e-3, 0.1, 0.9)]
    assert all(a <= b + 1e-12 for a, b in zip(curve[:-1], curve[1:], strict=True)) and curve[-1] <= 1 + 1e-12


def test_gram_and_batches_agree_with_the_jacobian() -> None:
    jacobian, y = draw(3, 5, 7), draw(3, 5, seed=1)
    by_jacobian = column_space.from_jacobian(jacobian, y)
    by_gram = column_space.from_gram(jacobian @ jacobian.mT, y)
    torch.testing.assert_close(by_gram.singular_values, by_jacobian.singular_values)
    torch.testing.assert_close(by_gram.residual(0.5), by_jacobian.residual(0.5))
    single = column_space.from_jacobian(jacobian[1], y[1])
    torch.testing.assert_close(single.residual(0.5), by_jacobian.residual(0.5)[1])


@pytest.mark.parametrize(
    ("network", "shape"),
    [
        (models.MLP([3, 4, 5, 2], dtype=torch.float64, generator=torch.Generator().manual_seed(1)), (6, 3)),
        (models.MLP([3, 4, 1], bias=False, dtype=torch.float64), (6, 3)),
        (
            models.LeNet(1, num_classes=3, dtype=torch.float64, generator=torch.Generator().manual_seed(2)),
            (4, 1, 16, 16),
        ),
    ],
)
def test_layerwise_gram_and_matrix_free(network: nn.Module, shape: tuple[int, ...]) -> None:
    x = draw(*shape, seed=3)
    operator = curvature.Jacobian(network, x)
    dense = operator.dense()
    torch.testing.assert_close(
        column_space.layerwise_gram(network, x), dense @ dense.T, rtol=1e-10, atol=1e-10
    )
    y = draw(len(dense), seed=4)
    where = column_space.from_jacobian(dense, y)
    damping = 1e-2 * where.singular_values[0].item()
    found = column_space.damped_residual(operator, y, damping)
    assert found.converged and abs(found.residual - where.damped_residual(damping).item()) < 1e-8
    assert not column_space.damped_residual(operator, y, 1e-9, max_steps=1).converged


def test_dead_share() -> None:
    network = models.MLP([2, 4, 4, 1], dtype=torch.float64)
    x = draw(10, 2)
    with torch.no_grad():
        network.layers[1].bias[:3] = -100.0
        network.layers[1].bias[3] = 100.0
        network.layers[0].bias.fill_(100.0)
        network.layers[1].weight.zero_()
    assert column_space.dead_share(network, x) == 0.75


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: column_space.from_jacobian(draw(3, 4), draw(4)), "target has shape"),
        (lambda: column_space.from_jacobian(draw(3, 4), torch.zeros(3, **like)), "target is zero"),
        (lambda: column_space.from_gram(draw(3, 4), draw(3)), "gram has shape"),
        (lambda: column_space.from_jacobian(draw(3, 4), draw(3)).residual(1.0), "rtol = 1.0"),
        (lambda: column_space.from_jacobian(draw(3, 4), draw(3)).damped_residual(0.0), "damping = 0.0"),
        (lambda: column_space.layer_grams(nn.BatchNorm1d(2), draw(3, 2)), "allowed: Linear and plain Conv2d"),
        (lambda: column_space.dead_share(models.MLP([1, 1]), draw(3, 1), 2.0), "level = 2.0"),
    ],
)
def test_wrong_arguments_are_named(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]


def test_a_layer_used_twice_is_refused() -> None:
    layer = nn.Linear(2, 2, dtype=torch.float64)
    with pytest.raises(ValueError, match="used 2 times"):
        column_space.layer_grams(nn.Sequential(layer, nn.ReLU(), layer), draw(3, 2))
