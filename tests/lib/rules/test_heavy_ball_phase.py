"""The heavy ball in phase space against the classical recursion and an exact matrix exponential."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learning_dynamics import rules
from learning_dynamics.ensembles import iterate

F64 = torch.float64


def gradient(theta: torch.Tensor, k: int = 0) -> torch.Tensor:
    return torch.tanh(2 * theta) + 0.3 * theta.flip(-1)


@given(st.floats(0.01, 0.5), st.floats(0.0, 2.0), st.integers(0, 1000))
def test_positions_are_those_of_the_classical_heavy_ball(h: float, a: float, seed: int) -> None:
    phase = rules.HeavyBallPhase(h, a)
    classical = rules.HeavyBall(phase.step_size, phase.momentum)
    start = torch.randn(3, 4, generator=torch.Generator().manual_seed(seed), dtype=F64)
    paths = [iterate(rule, gradient, start, 60, record=range(61)).values for rule in (phase, classical)]
    torch.testing.assert_close(*paths, rtol=1e-9, atol=1e-11)


@given(st.floats(0.1, 3.0), st.floats(0.1, 2.0), st.floats(-1.0, 1.0))
def test_a_step_is_the_flow_up_to_the_square_of_its_length(curvature: float, a: float, speed: float) -> None:
    A = torch.tensor([[0.0, 1.0], [-curvature, -a]], dtype=F64)
    z = torch.tensor([0.7, speed], dtype=F64)
    gaps = []
    for h in (1e-2, 5e-3):
        theta, state = rules.HeavyBallPhase(h, a).step(z[:1], curvature * z[:1], rules.PhaseState(0, z[1:]))
        gaps.append((torch.cat([theta, state.velocity]) - torch.linalg.matrix_exp(h * A) @ z).norm())
    assert gaps[0] < 20e-4
    assert gaps[0] < 1e-7 or 3 < gaps[0] / gaps[1] < 5


def test_a_grid_of_time_steps_and_frictions_is_a_batch() -> None:
    h = torch.tensor([0.1, 0.2], dtype=F64)[:, None]
    a = torch.tensor([1.0, 0.5], dtype=F64)[:, None]
    start = torch.tensor([1.0, -2.0, 0.5], dtype=F64)
    both = iterate(rules.HeavyBallPhase(h, a), gradient, start.expand(2, 3), 20).last
    for row, (step, friction) in enumerate(((0.1, 1.0), (0.2, 0.5))):
        alone = iterate(rules.HeavyBallPhase(step, friction), gradient, start, 20).last
        torch.testing.assert_close(both[row], alone)


def test_dtype_is_kept_and_arguments_are_not_changed() -> None:
    theta, slope = torch.ones(3), torch.ones(3)
    rule = rules.HeavyBallPhase(torch.tensor(0.5, dtype=F64), 1.0)
    moved, state = rule.step(theta, slope, rule.start(theta))
    assert moved.dtype == state.velocity.dtype == torch.float32
    assert state.step == 1 and (theta == 1).all() and (slope == 1).all()
    torch.testing.assert_close(moved, torch.full((3,), 0.75))


@pytest.mark.parametrize(
    ("h", "a"), [(0.0, 1.0), (-0.1, 1.0), (0.1, -1.0), (float("inf"), 1.0), (0.1, float("nan"))]
)
def test_bad_arguments_are_refused(h: float, a: float) -> None:
    with pytest.raises(ValueError, match="allowed: "):
        rules.HeavyBallPhase(h, a)
