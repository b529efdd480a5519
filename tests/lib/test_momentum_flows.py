"""Flows with momentum against closed forms, each other, and Nesterov's method with small steps."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import j1

from learning_dynamics import flows, rules

LIKE = {"dtype": torch.float64}
TIMES = torch.linspace(0.1, 20, 40, **LIKE)
H = torch.tensor([[2.0, 0.6], [0.6, 0.5]], **LIKE)
THETA = torch.tensor([1.0, -0.7], **LIKE)


@given(st.floats(1, 9))
def test_the_exact_flow_solves_the_equation(nu: float) -> None:
    exact = flows.nesterov_flow_quadratic(H, THETA, TIMES, nu)
    found = flows.momentum_flow(lambda theta: H @ theta, THETA, TIMES, lambda t: nu / t)
    torch.testing.assert_close(found.values, exact.values, atol=1e-8, rtol=0)
    torch.testing.assert_close(found.velocities, exact.velocities, atol=1e-8, rtol=0)


def test_the_exact_flow_is_su_boyd_and_candes_formula() -> None:
    found = flows.nesterov_flow_quadratic(torch.eye(1, **LIKE), torch.ones(1, **LIKE), TIMES)
    torch.testing.assert_close(found.values[:, 0], torch.as_tensor(2 * j1(TIMES.numpy())) / TIMES)


def test_batches_zero_curvature_and_time_zero() -> None:
    both = torch.stack([H, torch.zeros_like(H)])
    found = flows.nesterov_flow_quadratic(both, THETA.expand(2, 2), [0.0, 1.0, 2.0])
    assert found.values.shape == found.velocities.shape == (3, 2, 2)
    torch.testing.assert_close(found.values[0], THETA.expand(2, 2))
    torch.testing.assert_close(found.values[:, 1], THETA.expand(3, 2))
    alone = flows.nesterov_flow_quadratic(H, THETA, [0.0, 1.0, 2.0])
    torch.testing.assert_close(found.values[:, 0], alone.values)


def test_constant_friction() -> None:
    found = flows.momentum_flow(lambda theta: theta, torch.ones(1, **LIKE), TIMES, 1.0)
    w = math.sqrt(3) / 2
    exact = (-TIMES / 2).exp() * ((w * TIMES).cos() + (w * TIMES).sin() / (2 * w))
    torch.testing.assert_close(found.values[:, 0], exact, atol=1e-9, rtol=0)


def test_force_velocity_event_and_both_clocks() -> None:
    options = {"force": lambda t: 1 / t**2, "velocity0": torch.tensor([0.5], **LIKE), "start": 1.0}
    times = torch.tensor([1.0, 5.0, 100.0], **LIKE)  # Euler's equation: powers of t
    found = flows.momentum_flow(
        lambda x: x, torch.ones(1, **LIKE), times, 0.0, event=lambda x, v, t: x[0], **options
    )
    s = math.sqrt(3) / 2 * times.log()
    torch.testing.assert_close(found.values[:, 0], times.sqrt() * s.cos(), atol=1e-7, rtol=0)
    assert abs(found.event_time - math.exp(math.pi / math.sqrt(3))) < 1e-6
    slow = flows.momentum_flow(lambda x: x, torch.ones(1, **LIKE), times, 0.0, log_time=True, **options)
    torch.testing.assert_close(slow.values, found.values, atol=1e-7, rtol=0)


def test_nesterovs_method_tends_to_the_flow() -> None:
    gaps = []
    for eta in (1e-2, 2.5e-3):
        rule = rules.Nesterov(eta, rules.nesterov_momentum)
        theta, state, gap = THETA, rule.start(THETA), 0.0
        steps = int(8 / math.sqrt(eta))
        times = math.sqrt(eta) * torch.arange(1, steps + 1, **LIKE)
        exact = flows.nesterov_flow_quadratic(H, THETA, times).values
        for k in range(steps):
            theta, state = rule.step(theta, H @ theta, state)
            gap = max(gap, (state.memory - exact[k]).abs().max().item())
        gaps.append(gap)
    assert 1.7 < gaps[0] / gaps[1] < 2.3


def test_faults_are_named() -> None:
    with pytest.raises(ValueError, match="^times = 0.0 at first; allowed"):
        flows.momentum_flow(lambda x: x, THETA, [0.0, 1.0], lambda t: 3 / t)
    with pytest.raises(ValueError, match="^start = -1.0; allowed"):
        flows.momentum_flow(lambda x: x, THETA, [1.0], 1.0, start=-1.0)
    with pytest.raises(ValueError, match="^velocity0 has shape"):
        flows.momentum_flow(lambda x: x, THETA, [1.0], 1.0, velocity0=torch.ones(3))
    with pytest.raises(ValueError, match="^H has the eigenvalue -1; allowed"):
        flows.nesterov_flow_quadratic(-torch.eye(2, **LIKE), THETA, [1.0])
    with pytest.raises(ValueError, match="^nu = -2; allowed"):
        flows.nesterov_flow_quadratic(H, THETA, [1.0], -2)
    with pytest.raises(ValueError, match="^H differs from its transpose"):
        flows.nesterov_flow_quadratic(torch.tensor([[1.0, 1.0], [0.0, 1.0]], **LIKE), THETA, [1.0])
    with pytest.raises(ValueError, match="^H has shape"):
        flows.nesterov_flow_quadratic(torch.ones(2, 3), THETA, [1.0])
