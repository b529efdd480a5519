"""Fractional Gaussian noise against its definition, Cholesky factors, SciPy's Lyapunov solver and known dimensions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import solve_discrete_lyapunov, toeplitz

from learning_dynamics.noise.fractional import (
    box_counts,
    cloud_variance,
    fractional_gaussian_noise,
    increment_covariance,
)

hursts = st.floats(0.01, 0.99)


def source(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def motion_covariance(hurst: float, n: int) -> np.ndarray:
    t = np.arange(n + 1.0)
    p = 2 * hurst
    return (t[:, None] ** p + t**p - np.abs(t[:, None] - t) ** p) / 2


@given(hursts)
def test_increment_covariance_is_the_second_difference_of_the_motion_s(hurst):
    C = np.diff(np.diff(motion_covariance(hurst, 150), axis=0), axis=1)
    chi = increment_covariance(hurst, torch.arange(150, dtype=torch.float64))
    np.testing.assert_allclose(toeplitz(chi), C, atol=3e-11)


@pytest.mark.parametrize("hurst", [0.02, 0.3, 0.5, 0.9])
def test_far_lags_agree_with_exact_arithmetic(hurst):
    from mpmath import mp, mpf  # ships with torch's own dependency sympy

    mp.dps = 60
    for j in (99, 100, 101, 5000, 10**6):
        p = 2 * mpf(hurst)
        exact = ((j + mpf(1)) ** p - 2 * mpf(j) ** p + (j - mpf(1)) ** p) / 2
        got = increment_covariance(hurst, torch.tensor(float(j), dtype=torch.float64))
        assert float(got) == pytest.approx(float(exact), rel=3e-10, abs=1e-14)


@given(hursts, st.integers(0, 50))
def test_covariance_is_even_and_starts_at_one(hurst, j):
    lags = torch.tensor([0.0, j, -j], dtype=torch.float64)
    chi = increment_covariance(hurst, lags)
    assert float(chi[0]) == 1
    assert float(chi[1]) == float(chi[2])


@pytest.mark.parametrize("hurst", [0.05, 0.5, 0.9])
def test_samples_have_the_covariance(hurst):
    steps, count = 12, 60_000
    z = fractional_gaussian_noise(steps, hurst, (count,), source())
    C = (z.T @ z / count).numpy()
    expected = toeplitz(increment_covariance(hurst, torch.arange(steps, dtype=torch.float64)).numpy())
    errors = np.sqrt((1 + expected**2) / count)
    assert np.abs((C - expected) / errors).max() < 5
    factor = np.linalg.cholesky(expected)
    white = np.linalg.solve(factor, z.T.numpy())  # a Cholesky factor of the right matrix whitens them
    assert np.abs(white @ white.T / count - np.eye(steps)).max() < 5 * math.sqrt(2 / count)


@pytest.mark.parametrize("hurst", [0.001, 0.01, 0.5, 0.99, 0.999])
@pytest.mark.parametrize("steps", [1, 2, 3, 64, 4097])
def test_every_length_and_extreme_exponents(hurst, steps):
    z = fractional_gaussian_noise(steps, hurst, (2, 3), source(), dtype=torch.float32)
    assert z.shape == (2, 3, steps)
    assert z.dtype == torch.float32
    assert z.isfinite().all()


def test_the_two_samples_of_a_transform_are_independent():
    z = fractional_gaussian_noise(8, 0.2, (40_000, 2), source())
    cross = torch.einsum("nij,nk->ijk", z[:, :1], z[:, 1]) / len(z)
    assert cross.abs().max() < 5 / math.sqrt(len(z))


@given(st.floats(-0.95, 0.95), st.floats(-0.5, 0.5))
def test_cloud_variance_is_lyapunov_s_for_moving_averages(rho, b):
    # kicks e_k + b e_{k-1}: a linear system in (theta, last e) with white input
    A = np.array([[rho, b], [0.0, 0.0]])
    B = np.array([[1.0], [1.0]])
    V = solve_discrete_lyapunov(A, B @ B.T)[0, 0]
    chi = torch.tensor([1 + b * b, b, 0.0], dtype=torch.float64)
    assert float(cloud_variance(rho, chi)) == pytest.approx(V, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("hurst", [0.1, 0.25, 0.5, 0.75])
def test_small_steps_give_the_variance_of_the_fractional_flow(hurst):
    eta = 1e-3
    chi = increment_covariance(hurst, torch.arange(40_000, dtype=torch.float64))
    V = eta ** (2 * hurst) * float(cloud_variance(1 - eta, chi))
    assert V == pytest.approx(hurst * math.gamma(2 * hurst), rel=0.01)


def test_box_counts_of_a_line_and_of_white_noise():
    n = 2**14
    line = torch.linspace(0, 1, n, dtype=torch.float64)
    counts = box_counts(line, range(2, 8))
    assert all(2**i <= c <= 2 ** (i + 1) + 1 for i, c in zip(range(2, 8), counts, strict=True))
    flat = box_counts(torch.zeros(3, n, dtype=torch.float64), [0, 3, 5])
    assert flat.tolist() == [[1, 8, 32]] * 3
    by_hand = box_counts(torch.tensor([0.1, 0.9, 0.4, 0.6], dtype=torch.float64), [1])
    assert by_hand.tolist() == [4]  # both columns reach over the half
    jump = box_counts(torch.tensor([0.1, 0.1, 0.9, 0.9], dtype=torch.float64), [1])
    assert jump.tolist() == [3]  # the first column reaches to the first point of the second


@pytest.mark.parametrize(
    "call",
    [
        lambda: increment_covariance(0.0, torch.zeros(1)),
        lambda: increment_covariance(1.0, torch.zeros(1)),
        lambda: fractional_gaussian_noise(0, 0.5, (1,), source()),
        lambda: fractional_gaussian_noise(4, 0.5, (0,), source()),
        lambda: fractional_gaussian_noise(4, 0.5, (1,), 0),
        lambda: fractional_gaussian_noise(4, 0.5, (1,), source(), dtype=torch.int64),
        lambda: cloud_variance(1.0, torch.zeros(3)),
        lambda: box_counts(torch.zeros(3), [1]),
        lambda: box_counts(torch.zeros(8), [4]),
    ],
)
def test_bad_arguments_are_refused(call):
    with pytest.raises(ValueError, match="allowed"):
        call()
