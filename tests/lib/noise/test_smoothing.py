"""Product rules against known moments and sampling, and the effective loss against two networks."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from learning_dynamics.noise import smoothing

F64 = torch.float64
LIKE = torch.zeros((), dtype=F64)


def test_nodes_have_the_moments_of_a_normal_law() -> None:
    points, weights = smoothing.normal_nodes(2, 4, LIKE)
    assert points.shape == (16, 2)
    for power, moment in ((0, 1.0), (1, 0.0), (2, 1.0), (4, 3.0), (6, 15.0), (7, 0.0)):
        torch.testing.assert_close(
            weights @ points**power, torch.full((2,), moment, dtype=F64), rtol=1e-12, atol=1e-11
        )
    assert float(weights @ points[:, 0].pow(8)) != pytest.approx(105.0)
    coins, even = smoothing.normal_nodes(3, 2, LIKE)
    assert torch.equal(coins.abs(), torch.ones_like(coins)) and torch.allclose(
        even, torch.full((8,), 0.125, dtype=F64)
    )


def test_smoothing_a_sine_is_a_decay() -> None:
    theta = torch.tensor([0.4], dtype=F64)
    found = smoothing.smoothed(lambda t: torch.sin(t[:, 0]), theta, 0.5, nodes=16)
    assert float(found) == pytest.approx(math.sin(0.4) * math.exp(-0.125), rel=1e-12)


def test_smoothing_agrees_with_sampling_and_keeps_the_shape() -> None:
    theta = torch.tensor([0.4, -0.2, 1.0], dtype=F64)

    def function(t: Tensor) -> Tensor:
        return torch.stack([torch.tanh(t.prod(-1)), t.square().sum(-1)], -1)

    found = smoothing.smoothed(function, theta, 0.3, nodes=12)
    noise = torch.randn(200_000, 3, dtype=F64, generator=torch.Generator().manual_seed(0))
    sampled = function(theta + 0.3 * noise)
    assert found.shape == (2,)
    assert ((found - sampled.mean(0)).abs() < 5 * sampled.std(0) / math.sqrt(200_000)).all()


def test_effective_loss_of_a_product() -> None:
    theta = torch.tensor([0.5, -2.0], dtype=F64)
    found = smoothing.effective_loss(
        lambda t: t.prod()[None], lambda f: (f - 1).square().sum() / 2, theta, 0.1
    )
    assert float(found) == pytest.approx(2.0 + 0.005 * (0.25 + 4.0), rel=1e-12)
    smooth = smoothing.smoothed(lambda t: (t.prod(-1) - 1).square() / 2, theta, 0.1)
    assert float(smooth - found) == pytest.approx(1e-4 / 2, rel=1e-9)
    gradient = torch.func.grad(
        lambda t: smoothing.effective_loss(
            lambda u: u.prod()[None], lambda f: (f - 1).square().sum() / 2, t, 0.1
        )
    )(theta)
    torch.testing.assert_close(gradient, torch.tensor([4.0 + 0.005, -1.0 - 0.02], dtype=F64))


def test_bad_arguments() -> None:
    theta = torch.zeros(3, dtype=F64)
    with pytest.raises(ValueError, match="at most"):
        smoothing.normal_nodes(30, 3, LIKE)
    with pytest.raises(ValueError, match="nodes = 0"):
        smoothing.normal_nodes(3, 0, LIKE)
    for sigma in (-0.1, math.nan, True):
        with pytest.raises(ValueError, match="sigma = "):
            smoothing.smoothed(lambda t: t, theta, sigma)
        with pytest.raises(ValueError, match="sigma = "):
            smoothing.effective_loss(lambda t: t, lambda f: f.sum(), theta, sigma)
    with pytest.raises(ValueError, match="theta has shape"):
        smoothing.smoothed(lambda t: t, theta[None], 0.1)
