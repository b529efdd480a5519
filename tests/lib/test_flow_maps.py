"""Flow maps, their derivatives and Picard's iterates against matrix exponentials, differences and power series."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learning_dynamics.flows import flow_map, gradient_flow, picard, sensitivity

F64 = torch.float64


def pendulum(theta):
    return torch.stack([theta[..., 1], -theta[..., 0].sin() - 0.2 * theta[..., 1]], -1)


@given(st.floats(-2, 2), st.integers(0, 100))
def test_a_linear_flow_is_the_matrix_exponential(t, seed):
    source = torch.Generator().manual_seed(seed)
    A = torch.randn(3, 3, generator=source, dtype=F64)
    start = torch.randn(4, 3, generator=source, dtype=F64)
    expected = torch.linalg.matrix_exp(t * A)
    torch.testing.assert_close(flow_map(lambda x: x @ A.mT, start, t), start @ expected.mT)
    found = sensitivity(lambda x: A @ x, start[0], t)
    torch.testing.assert_close(found.U, expected)
    torch.testing.assert_close(found.value, expected @ start[0])


@given(st.floats(-3, 3), st.floats(-3, 3))
def test_times_add(s, t):
    start = torch.tensor([[0.3, -0.4], [2.0, 1.0]], dtype=F64)
    twice = flow_map(pendulum, flow_map(pendulum, start, s), t)
    torch.testing.assert_close(twice, flow_map(pendulum, start, s + t), rtol=1e-8, atol=1e-9)


def test_the_derivative_is_a_difference():
    start = torch.tensor([0.3, -0.4], dtype=F64)
    U, h = sensitivity(pendulum, start, 2.5).U, 1e-4
    for j, e in enumerate(torch.eye(2, dtype=F64)):
        difference = flow_map(pendulum, start + h * e, 2.5) - flow_map(pendulum, start - h * e, 2.5)
        torch.testing.assert_close(U[:, j], difference / (2 * h), rtol=1e-6, atol=1e-7)


def test_picard_on_a_linear_field_is_the_power_series():
    found = picard(lambda x, t: x, torch.ones(1, dtype=F64), 1.5, 8)
    for m, curve in enumerate(found.values):
        series = sum(found.times**j / math.factorial(j) for j in range(m + 1))
        torch.testing.assert_close(curve[:, 0], series, rtol=1e-12, atol=1e-12)


def test_picard_tends_to_the_solution():
    def field(x, t):
        return x.sin() + t

    start = torch.tensor([0.5], dtype=F64)
    found = picard(field, start, 1.0, 25, first=lambda t: torch.tensor([math.cos(5 * t)], dtype=F64))
    solution = gradient_flow(field, start, found.times)
    torch.testing.assert_close(found.values[-1], solution.values, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: flow_map(pendulum, x, math.inf),
        lambda x: sensitivity(pendulum, x[None], 1.0),
        lambda x: picard(lambda y, t: y, x[None], 1.0, 2),
        lambda x: picard(lambda y, t: y, x, 0.0, 2),
        lambda x: picard(lambda y, t: y, x, 1.0, -1),
        lambda x: picard(lambda y, t: y, x, 1.0, 2, nodes=2),
    ],
)
def test_bad_arguments(call):
    with pytest.raises(ValueError, match="allowed: "):
        call(torch.zeros(2, dtype=F64))


def test_no_time_no_move():
    start = torch.tensor([0.3, -0.4], dtype=F64)
    assert torch.equal(flow_map(pendulum, start, 0.0), start)
    assert torch.equal(sensitivity(pendulum, start, 0.0).U, torch.eye(2, dtype=F64))
