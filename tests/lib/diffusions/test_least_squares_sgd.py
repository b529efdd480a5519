"""Exact moments of SGD on least squares against enumeration of all draws, simulation, and an integrator."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from learning_dynamics.diffusions import mean_square_thresholds, sgd_diffusion_moments, sgd_moments

F64 = torch.float64


def problem(seed: int, n: int = 5, d: int = 2) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    source = torch.Generator().manual_seed(seed)
    X = torch.randn(n, d, generator=source, dtype=F64)
    y = torch.randn(n, generator=source, dtype=F64)
    return X, y, torch.linalg.lstsq(X, y[:, None]).solution[:, 0]


@given(st.integers(0, 1000), st.floats(0.01, 0.5))
def test_moments_are_those_of_all_draws(seed, eta):
    X, y, star = problem(seed)
    ends = []
    for draws in itertools.product(range(5), repeat=4):
        theta = torch.zeros(2, dtype=F64)
        for i in draws:
            theta = theta - eta * X[i] * (X[i] @ theta - y[i])
        ends.append(theta - star)
    delta = torch.stack(ends)
    found = sgd_moments(X, y, eta, 4)
    torch.testing.assert_close(found.mean[-1], delta.mean(0))
    torch.testing.assert_close(found.second[-1], delta.mT @ delta / len(delta))
    losses = 0.5 * ((delta + star) @ X.T - y).square().mean(1)
    least = 0.5 * (X @ star - y).square().mean()
    torch.testing.assert_close(found.gap[-1], losses.mean() - least)


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize("noise", [False, True])
def test_the_diffusions_moments_are_the_integrators(noise, corrected):
    X, y, star = problem(3)
    eta, steps, n = 0.1, 6, len(X)
    x, r, w = X.numpy(), (y - X @ star).numpy(), star.numpy()
    H = x.T @ x / n

    def field(t, state):
        mean, M = state[:2], state[2:].reshape(2, 2)
        # E[g g'] sample by sample: g = x (x'delta - r)
        second = sum(
            np.outer(x[i], x[i]) * (x[i] @ M @ x[i] - 2 * r[i] * x[i] @ mean + r[i] ** 2) for i in range(n)
        )
        Sigma = second / n - H @ M @ H
        A = H + (eta / 2 * H @ H if corrected else 0)
        return np.concatenate([-A @ mean, (-(A @ M + M @ A) + noise * eta * Sigma).ravel()])

    start = np.concatenate([-w, np.outer(w, w).ravel()])
    end = solve_ivp(field, (0, eta * steps), start, rtol=1e-11, atol=1e-13).y[:, -1]
    found = sgd_diffusion_moments(X, y, eta, steps, noise=noise, corrected=corrected)
    torch.testing.assert_close(found.mean[-1], torch.from_numpy(end[:2]))
    torch.testing.assert_close(found.second[-1], torch.from_numpy(end[2:].reshape(2, 2)))


@settings(max_examples=5)
@given(st.integers(0, 100))
def test_thresholds_divide_growth_from_decay(seed):
    X, _, _ = problem(seed, n=7, d=3)
    y = torch.ones(7, dtype=F64)
    found = mean_square_thresholds(X)
    assert 0 < found.sgd <= found.descent * 1.001
    assert found.sgd <= found.diffusion
    for edge, moments in ((found.sgd, sgd_moments), (found.diffusion, sgd_diffusion_moments)):
        below = moments(X, y, 0.98 * edge, 3000).gap
        above = moments(X, y, 1.02 * edge, 3000).gap
        assert below[-1] / below[-101] < 1.5
        assert above[-1] / above[-101] > 1.5 or above[-1].isinf()


def test_thresholds_of_one_direction():
    """One sample: SGD is gradient descent, and its diffusion has no noise."""
    found = mean_square_thresholds(torch.tensor([[2.0]], dtype=F64))
    assert found.sgd == pytest.approx(0.5)
    assert found.descent == pytest.approx(0.5)
    assert found.diffusion == float("inf")


@pytest.mark.parametrize(
    "call",
    [
        lambda X, y: sgd_moments(X, y[:-1], 0.1, 3),
        lambda X, y: sgd_moments(X, y, 0.0, 3),
        lambda X, y: sgd_moments(X, y, 0.1, -1),
        lambda X, y: sgd_diffusion_moments(X, y, float("inf"), 3),
        lambda X, y: sgd_diffusion_moments(torch.cat([X, X], 1), y, 0.1, 3),
        lambda X, y: mean_square_thresholds(X.T @ X @ X.T),
        lambda X, y: mean_square_thresholds(torch.eye(31, dtype=F64)),
    ],
)
def test_bad_arguments(call):
    X, y, _ = problem(0)
    with pytest.raises(ValueError, match="allowed: "):
        call(X, y)
