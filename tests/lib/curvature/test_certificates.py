"""Certificates of smoothness and convexity against loops over pairs and known constants."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.func import grad

from learning_dynamics.curvature import Certificates

F64 = torch.float64


def loss(theta):
    return (theta[0] * theta[1]).sin() + 0.3 * theta[0] ** 2


def test_the_four_numbers_pair_by_pair():
    points = torch.randn(4, 2, generator=torch.Generator().manual_seed(0), dtype=F64)
    found = Certificates(loss, points)
    for i, x in enumerate(points):
        for j, y in enumerate(points):
            g_x, g_y = grad(loss)(x), grad(loss)(y)
            assert found.gap[i, j].item() == pytest.approx((loss(y) - loss(x) - g_x @ (y - x)).item())
            assert found.rise[i, j].item() == pytest.approx(((g_x - g_y) @ (x - y)).item())
            assert found.distance[i, j].item() == pytest.approx((x - y).square().sum().item())
            assert found.change[i, j].item() == pytest.approx((g_x - g_y).square().sum().item())


@given(st.lists(st.floats(-4, 4), min_size=2, max_size=2), st.integers(0, 100))
def test_constants_of_a_quadratic(eigenvalues, seed):
    source = torch.Generator().manual_seed(seed)
    points = torch.randn(6, 2, generator=source, dtype=F64)
    axes = torch.stack([torch.tensor([0.0, 0.0]), torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])]).to(F64)
    points = torch.cat([points, axes])
    h = torch.tensor(eigenvalues, dtype=F64)
    found = Certificates(lambda theta: 0.5 * (h * theta**2).sum(), points)
    assert found.smoothness() == pytest.approx(h.abs().max().item(), abs=1e-7)
    assert found.strong_convexity() == pytest.approx(h.min().item(), abs=1e-7)


@given(st.integers(0, 1000))
def test_points_bound_the_true_constants(seed):
    """theta^2 + 3 sin^2 theta has curvatures from -4 to 8 and is PL."""
    points = 3 * torch.randn(30, 1, generator=torch.Generator().manual_seed(seed), dtype=F64)
    found = Certificates(lambda theta: (theta**2 + 3 * theta.sin() ** 2).sum(), points)
    assert found.smoothness() <= 8
    assert found.strong_convexity() >= -4
    assert found.polyak_lojasiewicz(0.0) >= 0.17


def test_the_infimum():
    found = Certificates(lambda theta: theta.square().sum(), torch.tensor([[0.0], [0.0]], dtype=F64))
    assert found.polyak_lojasiewicz(0.0) == math.inf
    with pytest.raises(ValueError, match="allowed: "):
        found.polyak_lojasiewicz(1.0)
    with pytest.raises(ValueError, match="allowed: "):
        Certificates(loss, torch.zeros(2))
