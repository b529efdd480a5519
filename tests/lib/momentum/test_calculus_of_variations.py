"""Actions, barriers, modes and conjugate times against closed forms, scipy's Bessel functions and a dense matrix."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.linalg import eigh
from scipy.optimize import brentq
from scipy.special import j1, jn_zeros, y1

from learning_dynamics.momentum import calculus_of_variations as cv

J11 = float(jn_zeros(1, 1)[0])


def nesterov(position: torch.Tensor, velocity: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return t**3 * (velocity**2 - position**2) / 2


def bessel_conjugate(start: float, curvature: float) -> float:
    """The first conjugate time for friction 3/t, from the cross product of Bessel functions."""
    root = math.sqrt(curvature)
    return brentq(
        lambda t: y1(root * t) * j1(root * start) - y1(root * start) * j1(root * t),
        start + 2.5 / root,
        start + 5 / root,
        xtol=1e-14,
    )


def test_the_action_is_the_integral() -> None:
    times = torch.linspace(1, 3, 4001, dtype=torch.float64)
    exact = quad(lambda t: t**3 * (math.cos(t) ** 2 - math.sin(t) ** 2) / 2, 1, 3)[0]
    coarse = cv.action(nesterov, times[::2].sin(), times[::2]) - exact
    fine = cv.action(nesterov, times.sin(), times) - exact
    assert abs(fine) < 1e-6 and abs(coarse / fine - 4) < 0.01


def test_the_action_of_a_batch_of_coordinates_is_the_sum() -> None:
    times = torch.linspace(1, 2, 11, dtype=torch.float64)
    curve = torch.stack([times.sin(), times**2], -1)
    both = cv.action(lambda x, v, t: nesterov(x, v, t[:, None]).sum(-1), curve, times)
    each = sum(cv.action(nesterov, curve[:, i], times) for i in range(2))
    torch.testing.assert_close(both, each)


def test_the_first_variation_is_the_euler_lagrange_residual() -> None:
    times = torch.linspace(1, 4, 3001, dtype=torch.float64)
    curve = (2 * times).sin()
    t, x = times[1:-1], curve[1:-1]
    v, acceleration = 2 * (2 * t).cos(), -4 * x
    residual = -(t**3) * x - t**3 * acceleration - 3 * t**2 * v
    torch.testing.assert_close(cv.first_variation(nesterov, curve, times), residual, atol=1e-3, rtol=0)
    path = torch.as_tensor(2 * j1(times.numpy()) / times.numpy())
    assert cv.first_variation(nesterov, path, times).abs().max() < 1e-5


@given(st.floats(-3, 6), st.floats(0.1, 50))
def test_the_barrier_of_a_power_of_time(nu: float, t: float) -> None:
    times = torch.tensor([t, 2 * t], dtype=torch.float64)
    torch.testing.assert_close(cv.damping_barrier(lambda s: nu / s, times), nu * (nu - 2) / 4 / times**2)
    torch.testing.assert_close(cv.damping_barrier(nu, times), torch.full_like(times, nu**2 / 4))


def test_modes_of_a_string() -> None:
    found = cv.lowest_modes(torch.zeros_like, 0.3, 2.0, nodes=4000)
    exact = torch.tensor([(k * math.pi / 2) ** 2 for k in (1, 2, 3)], dtype=torch.float64)
    torch.testing.assert_close(found.values, exact, rtol=1e-5, atol=0)
    width = 2.0 / 4000
    torch.testing.assert_close((found.modes**2).sum(-1) * width, torch.ones(3, dtype=torch.float64))
    torch.testing.assert_close(found.modes[0], ((found.times - 0.3) * math.pi / 2).sin(), atol=1e-6, rtol=0)


def test_modes_against_a_dense_matrix() -> None:
    """Linear elements with the weight t^3, made without the substitution: the signs agree, with any mass."""
    start, length, n = 1.0, 2.2 * (bessel_conjugate(1.0, 1.0) - 1), 600
    t = np.linspace(start, start + length, n + 1)
    width, middle = length / n, (t[1:] + t[:-1]) / 2
    K, M = np.zeros((n + 1, n + 1)), np.zeros((n + 1, n + 1))
    for i in range(n):
        local = np.ix_([i, i + 1], [i, i + 1])
        mass = width / 6 * np.array([[2, 1], [1, 2]])
        K[local] += middle[i] ** 3 * (np.array([[1, -1], [-1, 1]]) / width - mass)
        M[local] += middle[i] ** 3 * mass
    dense = eigh(K[1:-1, 1:-1], M[1:-1, 1:-1], eigvals_only=True, subset_by_index=[0, 3])
    found = cv.lowest_modes(
        lambda s: cv.damping_barrier(lambda u: 3 / u, s) - 1, start, length, nodes=4000, count=4
    )
    assert list(dense < 0) == list((found.values < 0).numpy()) == [True, True, False, False]
    np.testing.assert_allclose(
        found.values.numpy(), dense, rtol=1e-3
    )  # z = sqrt(w) zeta keeps the eigenvalues


@given(st.floats(0.05, 30), st.floats(0.05, 20))
def test_conjugate_times_of_nesterov_are_bessel_zeros_within_the_law(start: float, curvature: float) -> None:
    root = math.sqrt(curvature)
    (found, *_) = cv.conjugate_points(lambda t: 3 / t, curvature, start, start + 5 / root)
    assert abs(found - bessel_conjugate(start, curvature)) < 1e-7 / root
    assert math.pi < root * (found - start) < J11


def test_conjugate_times_of_constant_friction() -> None:
    found = cv.conjugate_points(1.0, 1.0, 0.5, 12.0)
    exact = 0.5 + 2 * math.pi / math.sqrt(3) * torch.arange(1, 4, dtype=torch.float64)
    torch.testing.assert_close(found, exact, atol=1e-8, rtol=0)
    assert (
        len(cv.conjugate_points(2.0, 1.0, 0.0, 200.0)) == len(cv.conjugate_points(3.0, 1.0, 0.0, 200.0)) == 0
    )


def test_both_clocks_find_the_same_times() -> None:
    plain = cv.conjugate_points(lambda t: 3 / t, 1.0, 1.0, 30.0)
    torch.testing.assert_close(
        cv.conjugate_points(lambda t: 3 / t, 1.0, 1.0, 30.0, log_time=True), plain, atol=1e-7, rtol=0
    )
    modes = cv.lowest_modes(
        lambda s: cv.damping_barrier(lambda u: 3 / u, s) - 1, 1.0, 29.0, nodes=4000, count=15
    )
    assert len(plain) == int((modes.values < 0).sum())  # Morse


def test_faults_are_named() -> None:
    times = torch.linspace(0, 1, 5)
    with pytest.raises(ValueError, match=r"^times has shape \(1,\); allowed"):
        cv.action(nesterov, times[:1], times[:1])
    with pytest.raises(ValueError, match="^curve has shape .4,.; allowed"):
        cv.action(nesterov, times[:4], times)
    with pytest.raises(ValueError, match="^length = -1.0; allowed"):
        cv.lowest_modes(torch.zeros_like, 0.0, -1.0)
    with pytest.raises(ValueError, match="^nodes = 3; allowed"):
        cv.lowest_modes(torch.zeros_like, 0.0, 1.0, nodes=3)
    with pytest.raises(ValueError, match="^end = 1.0; allowed"):
        cv.conjugate_points(1.0, 1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="^start = 0.0; allowed"):
        cv.conjugate_points(1.0, 1.0, 0.0, 1.0, log_time=True)
