"""The widening valley against automatic differentiation, an integrator, and simulated walks."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad, solve_ivp
from torch.func import grad, vmap
from torch.func import hessian as hessian_of

from learning_dynamics import ensembles, rules
from learning_dynamics.noise import widening_valley as valley

LIKE = {"dtype": torch.float64}


@given(st.integers(0, 1000), st.integers(1, 5))
def test_gradient_and_hessian_are_those_of_the_loss(seed, p):
    theta = torch.randn(6, p + 1, generator=torch.Generator().manual_seed(seed), **LIKE)

    def loss(one):
        return one[-1] ** 2 * (one[:-1] ** 2).sum() / 2

    torch.testing.assert_close(valley.loss(theta), vmap(loss)(theta))
    torch.testing.assert_close(valley.gradient(theta), vmap(grad(loss))(theta))
    torch.testing.assert_close(valley.hessian(theta), vmap(hessian_of(loss))(theta))
    trace = p * theta[:, -1] ** 2 + theta[:, :-1].square().sum(-1)
    torch.testing.assert_close(valley.hessian(theta).diagonal(dim1=-2, dim2=-1).sum(-1), trace)


@given(st.integers(1, 12), st.floats(0.001, 0.3), st.floats(0.05, 0.95))
def test_exit_probability_is_the_quotient_of_the_integrals_over_z(p, low, share):
    start, high = low + share * (0.95 - low), 0.95

    def density(z):
        return z ** (-(p - 1) / 2) * (1 - z) ** -0.5

    expected = quad(density, low, start)[0] / quad(density, low, high)[0]
    assert math.isclose(valley.exit_probability(p, start, low, high), expected, rel_tol=1e-6)
    assert (
        valley.exit_probability(p, low, low, high) == 0 and valley.exit_probability(p, high, low, high) == 1
    )


def test_exit_probability_near_zero_is_that_of_a_bessel_process_of_dimension_p_minus_one():
    scale, high = 1e-6, 4.0
    for p, expected in ((1, 1 / 5), (2, 1 / 3), (3, 1 / 2), (5, 4 / 5), (8, 32 / 33)):
        found = valley.exit_probability(p, scale, scale / high, scale * high)
        assert math.isclose(found, expected, rel_tol=1e-5)


def test_exit_probability_reaches_to_the_edge():
    assert 0 < valley.exit_probability(3, 0.5, 0.1, 1.0) < 1


@given(st.floats(0.05, 1.9), st.floats(0.01, 0.3))
def test_the_flow_solves_its_equation(y_eta, std):
    eta, steps = 0.05, torch.tensor([0.0, 10.0, 200.0, 3000.0], **LIKE)
    start = y_eta / eta
    found = valley.differenced_flow(start, eta, std, steps)
    solved = solve_ivp(
        lambda k, y: -4 * eta * std**2 * y / (2 - eta * y), (0, 3000.0), [start], "DOP853", steps.numpy(),
        rtol=1e-10, atol=1e-12,
    )  # fmt: skip
    torch.testing.assert_close(found, torch.as_tensor(solved.y[0]), rtol=1e-6, atol=1e-9)
    assert valley.differenced_flow(start, eta, std, steps.float()).dtype == torch.float32


def test_differenced_kicks_follow_the_flow():
    eta, std, steps = 0.05, 0.05, 2000
    start = torch.zeros(200, 4, **LIKE)
    start[:, 0] = math.sqrt(20.0)
    rule = rules.PerturbedGradientDescent(eta, std, torch.Generator().manual_seed(0), "differenced")
    last = ensembles.iterate(rule, lambda theta, k: valley.gradient(theta), start, steps).last
    mean = (last[:, :-1].square().sum(-1) - 3 * std**2).mean()
    expected = valley.differenced_flow(20.0, eta, std, torch.tensor(float(steps), **LIKE))
    assert abs(float(mean / expected) - 1) < 0.02


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"theta has shape \(3, 1\); allowed: \(\*batch, p \+ 1\)"):
        valley.loss(torch.ones(3, 1))
    with pytest.raises(ValueError, match=r"\(low, start, high\) = \(0.5, 0.2, 0.9\); allowed"):
        valley.exit_probability(2, 0.2, 0.5, 0.9)
    with pytest.raises(ValueError, match="p = 0"):
        valley.exit_probability(0, 0.2, 0.1, 0.9)
    with pytest.raises(ValueError, match="start = 50.0; allowed: between 0 and 2 / step_size = 40.0"):
        valley.differenced_flow(50.0, 0.05, 0.1, torch.ones(1))
    with pytest.raises(ValueError, match="step_size, std"):
        valley.differenced_flow(5.0, 0.0, 0.1, torch.ones(1))
