"""Charts against finite differences, scipy's functions and integrator, and what an affine chart must leave alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special
from scipy.integrate import solve_ivp
from torch.func import hessian

from learning_dynamics.curvature import (
    Bernoulli,
    Chart,
    Fisher,
    coin_charts,
    in_chart,
    pullback,
    step_in_chart,
)
from learning_dynamics.statistics import log_log_slope

few = settings(max_examples=20)
probabilities = st.floats(0.02, 0.98)
REFERENCES = {
    "probability": lambda p: p,
    "log p": np.log,
    "arcsine": lambda p: 2 * np.arcsin(np.sqrt(p)),
    "probit": special.ndtri,
    "logit": special.logit,
}
bent = Chart(  # theta_1 = chi_1, theta_2 = chi_2 + sin chi_1
    lambda chi: torch.stack([chi[0], chi[1] + torch.sin(chi[0])]),
    lambda theta: torch.stack([theta[0], theta[1] - torch.sin(theta[0])]),
)


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values if len(values) > 1 else values[0], dtype=torch.float64)


def swirl(theta: torch.Tensor) -> torch.Tensor:
    return torch.stack([-theta[0] + 0.5 * theta[1] ** 2, -theta[1] * (1 + theta[0] ** 2)])


@few
@given(p=probabilities)
@pytest.mark.parametrize("name", REFERENCES)
def test_coin_charts_are_those_of_scipy_and_their_own_inverse(name: str, p: float) -> None:
    chart, chi = coin_charts()[name], REFERENCES[name](p)
    assert chart.from_theta(tensor(p)).item() == pytest.approx(chi, abs=1e-12)
    assert chart.to_theta(tensor(chi)).item() == pytest.approx(p, abs=1e-12)
    h = 1e-6
    around = [chart.to_theta(tensor(chi + side * h)).item() for side in (-1, 1)]
    assert chart.jacobian(tensor(chi)).item() == pytest.approx((around[1] - around[0]) / (2 * h), rel=1e-6)


def test_a_coordinate_of_no_coin_is_nan() -> None:
    outside = {"probability": 1.2, "log p": 0.1, "arcsine": -0.1}
    assert all(math.isnan(coin_charts()[name].to_theta(tensor(chi))) for name, chi in outside.items())


def test_the_arcsine_coordinate_has_unit_fisher_information() -> None:
    chart = coin_charts()["arcsine"]
    for chi in (0.4, 1.5, 2.9):
        p, slope = chart.to_theta(tensor(chi)), chart.jacobian(tensor(chi))
        assert (slope**2 / (p * (1 - p))).item() == pytest.approx(1.0, abs=1e-12)


@few
@given(chi=st.tuples(st.floats(-2, 2), st.floats(-2, 2)))
def test_fisher_matrix_of_the_composed_model_is_the_pullback(chi: tuple[float, float]) -> None:
    X = torch.randn(9, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def model(theta: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return (theta @ x)[None]

    at = tensor(*chi)
    theta = Fisher((model, bent.to_theta(at)), Bernoulli(), X).dense()
    direct = Fisher((in_chart(model, bent), at), Bernoulli(), X).dense()
    assert torch.allclose(pullback(theta, bent.jacobian(at)), direct, atol=1e-13)


def test_in_chart_differentiates_through_the_chart() -> None:
    def bowl(theta: torch.Tensor) -> torch.Tensor:
        return theta[0] ** 2 + 3 * theta[1] ** 2

    chi, h = tensor(0.3, -0.8), 1e-4
    composed, eye = in_chart(bowl, bent), torch.eye(2, dtype=torch.float64)
    numeric = torch.stack(
        [
            torch.stack(
                [
                    sum(
                        a * b * composed(chi + h * (a * eye[i] + b * eye[j]))
                        for a in (1, -1)
                        for b in (1, -1)
                    )
                    for i in range(2)
                ]
            )
            for j in range(2)
        ]
    ) / (4 * h**2)
    assert torch.allclose(hessian(composed)(chi), numeric, atol=1e-5)


@pytest.mark.parametrize(("weight", "order"), [(0.0, 2), (1.0, 2), (0.5, 3)])
def test_one_step_has_the_order_of_its_weight(weight: float, order: int) -> None:
    start, sizes = tensor(0.7, -0.4), [0.04, 0.02, 0.01]
    errors = []
    for eta in sizes:
        exact = solve_ivp(
            lambda t, y: swirl(tensor(*y)).numpy(),
            (0, eta),
            start.numpy(),
            method="DOP853",
            rtol=1e-13,
            atol=1e-14,
        )
        errors.append(
            (step_in_chart(swirl, bent, start, eta, weight) - torch.as_tensor(exact.y[:, -1])).norm()
        )
    assert log_log_slope(sizes, errors).estimate == pytest.approx(order, abs=0.15)


@few
@given(weight=st.floats(0, 1), eta=st.floats(0.01, 1.5), turn=st.floats(-1, 1))
def test_an_affine_chart_changes_nothing(weight: float, eta: float, turn: float) -> None:
    A, b = tensor(1.0, turn, -turn, 2.0).view(2, 2), tensor(0.3, -1.0)
    affine = Chart(lambda chi: A @ chi + b, lambda theta: torch.linalg.solve(A, theta - b))
    same = Chart(lambda chi: chi, lambda theta: theta)
    start = tensor(0.7, -0.4)
    steps = [step_in_chart(swirl, chart, start, eta, weight) for chart in (affine, same)]
    assert torch.allclose(*steps, atol=1e-12)


def test_coin_step_is_the_formula_by_hand() -> None:
    z, eta = 1.3, 0.8
    slope, curve = -math.sinh(z), -math.cosh(z)  # natural gradient flow of a fair coin in the logit
    for weight in (0.0, 0.5, 1.0):
        moved = z + eta * slope / (1 - weight * eta * curve)
        p = step_in_chart(lambda p: 0.5 - p, coin_charts()["logit"], tensor(special.expit(z)), eta, weight)
        assert p.item() == pytest.approx(special.expit(moved), abs=1e-12)


def test_bad_arguments_are_named() -> None:
    chart, p = coin_charts()["logit"], tensor(0.3)
    with pytest.raises(ValueError, match=r"step_size = 0; allowed: a finite number > 0"):
        step_in_chart(lambda p: 0.5 - p, chart, p, 0)
    with pytest.raises(ValueError, match=r"weight = 2; allowed: a finite number >= 0 and <= 1"):
        step_in_chart(lambda p: 0.5 - p, chart, p, 0.1, 2)
    with pytest.raises(ValueError, match=r"J has shape \(3, 3\); allowed"):
        pullback(torch.eye(2), torch.eye(3))
