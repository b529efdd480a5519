"""The neural chain against automatic differentiation, quadrature and integration in time."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from learning_dynamics.adaptivity import neural_chain as chain


def loss(theta: torch.Tensor, x: float, y: float) -> torch.Tensor:
    return (x * theta.prod() - y) ** 2 / 2


@given(
    theta=st.lists(st.sampled_from([-1.5, -0.5, 0.0, 0.3, 1.0, 2.0]), min_size=2, max_size=6),
    x=st.floats(-2, 2),
    y=st.floats(-2, 2),
)
def test_derivatives_against_torch(theta: list[float], x: float, y: float) -> None:
    at = torch.tensor(theta, dtype=torch.float64)
    torch.testing.assert_close(chain.gradient(at, x, y), torch.func.grad(loss)(at, x, y))
    torch.testing.assert_close(chain.hessian(at, x, y), torch.func.hessian(loss)(at, x, y))


def test_derivatives_keep_batches() -> None:
    theta = torch.rand(2, 3, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert torch.equal(chain.gradient(theta)[1, 2], chain.gradient(theta[1, 2]))
    assert torch.equal(chain.hessian(theta)[1, 2], chain.hessian(theta[1, 2]))
    assert chain.hessian(theta.float()).dtype == torch.float32


@pytest.mark.parametrize(("start", "depth"), [(0.5, 3), (0.5, 8), (0.8, 12), (0.9, 5)])
def test_escape_time_against_the_flow(start: float, depth: int) -> None:
    def reached(t: float, w: list[float]) -> float:
        return w[0] - 0.95

    reached.terminal = True  # type: ignore[attr-defined]
    seen = solve_ivp(
        lambda t, w: w ** (depth - 1) * (1 - w**depth),
        (0, 1e4),
        [start],
        events=reached,
        rtol=1e-10,
        atol=1e-13,
    )
    time = chain.escape_time(start, 0.95, depth)
    assert math.isclose(time, seen.t_events[0][0], rel_tol=1e-6)


@given(start=st.floats(0.1, 0.9), depth=st.integers(3, 60))
def test_the_bound_is_below_the_time_to_the_goal(start: float, depth: int) -> None:
    near = 1 - 1e-6
    rounding = 1 + 1e-9
    assert chain.escape_time(start, near, depth) * rounding >= chain.escape_time_bound(start, depth)


def test_the_bound_by_hand() -> None:
    assert chain.escape_time_bound(0.5, 3) == 1.0
    assert chain.escape_time_bound(0.5, 4) == 1.5
    assert chain.escape_time_bound(0.5, 12) == 102.3


def test_refusals() -> None:
    for call in (
        lambda: chain.escape_time_bound(1.0, 5),
        lambda: chain.escape_time_bound(0.5, 2),
        lambda: chain.escape_time(0.5, 1.0, 5),
        lambda: chain.escape_time(0.5, 0.4, 5),
        lambda: chain.hessian(torch.ones(1)),
    ):
        with pytest.raises(ValueError, match="allowed: "):
            call()
