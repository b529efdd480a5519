"""The shift of the mean against finite differences, a long run, and what must hold for any covariance."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learning_dynamics import diffusions

like = {"dtype": torch.float64}


def loss(theta):
    """A strictly convex loss with a cubic term, minimal at zero."""
    X = torch.tensor([[1.0, 0.3, -0.2], [-0.4, 0.8, 0.5], [0.1, -0.6, 1.2], [0.7, 0.7, 0.7]], **like)
    z = theta @ X.T
    return (z.exp() - z - 1).sum()


def covariance(seed: int):
    A = torch.randn(3, 3, generator=torch.Generator().manual_seed(seed), **like)
    return A @ A.T


@given(seed=st.integers(0, 10_000))
def test_against_differences_of_the_averaged_gradient(seed: int) -> None:
    """Two points at plus and minus each axis of V have covariance V; their mean gradient is the pull."""
    zero, V, h = torch.zeros(3, **like), covariance(seed), 1e-3
    values, axes = torch.linalg.eigh(V)
    points = axes.T * (h * values.clamp(min=0).sqrt()[:, None])
    slope = torch.func.vmap(torch.func.grad(loss))
    pull = (slope(points) + slope(-points)).sum(0) / (2 * h**2)
    expected = -torch.linalg.solve(torch.func.hessian(loss)(zero), pull)
    found = diffusions.average_shift(loss, zero, V)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


@given(seed=st.integers(0, 10_000), factor=st.floats(0.1, 10.0))
def test_linear_in_the_covariance(seed: int, factor: float) -> None:
    zero, V = torch.zeros(3, **like), covariance(seed)
    one, other = (diffusions.average_shift(loss, zero, c * V) for c in (1.0, factor))
    torch.testing.assert_close(other, factor * one, rtol=1e-10, atol=1e-12)


def test_zero_where_the_loss_is_even() -> None:
    def even(theta):
        return theta.square().sum() + theta.pow(4).sum()

    found = diffusions.average_shift(even, torch.zeros(3, **like), covariance(1))
    assert float(found.abs().max()) < 1e-14


def test_a_long_run_stands_there() -> None:
    """Many chains on exp(x) - x: the stationary mean is -V/2 to leading order."""
    eta, source = 0.02, torch.Generator().manual_seed(3)
    x, total = torch.zeros(4000, **like), torch.zeros(4000, **like)
    for k in range(2000):
        x = x - eta * (x.exp() - 1 + torch.randn(4000, generator=source, **like))
        total += x if k >= 1000 else 0 * x
    measured, V = total.mean() / 1000, torch.tensor([[eta / (2 - eta)]], **like)
    shift = diffusions.average_shift(lambda t: (t.exp() - t).sum(), torch.zeros(1, **like), V)[0]
    error = float(total.std()) / 1000 / math.sqrt(4000)
    assert abs(float(measured - shift)) < 4 * error + eta * abs(float(shift))
    assert abs(float(measured)) > 4 * error  # the run does tell it from zero


def test_refusals() -> None:
    with pytest.raises(ValueError, match="covariance has shape"):
        diffusions.average_shift(loss, torch.zeros(3, **like), torch.eye(2, **like))
    with pytest.raises(ValueError, match="the Hessian has the eigenvalue .*; allowed: positive definite"):
        diffusions.average_shift(lambda t: -t.square().sum(), torch.zeros(2, **like), torch.eye(2, **like))
