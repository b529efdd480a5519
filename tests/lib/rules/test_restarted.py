"""Restarted momentum against a loop by hand, one run at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learning_dynamics import rules

CURVATURE = torch.tensor([1.0, 0.03, 0.001], dtype=torch.float64)
STEPS = 120


def gradient(theta: torch.Tensor) -> torch.Tensor:
    return CURVATURE * theta


def loss(theta: torch.Tensor) -> torch.Tensor:
    return (CURVATURE * theta**2).sum(-1) / 2


def run(rule: Any, theta: torch.Tensor) -> tuple[torch.Tensor, Any]:
    state, seen = rule.start(theta), [theta]
    for _ in range(STEPS):
        own = (loss(theta),) if getattr(rule, "needs_loss", False) else ()
        theta, state = rule.step(theta, gradient(theta), state, *own)
        seen.append(theta)
    return torch.stack(seen), state


def by_hand(theta: torch.Tensor, eta: float, when: str, nesterov: bool) -> tuple[torch.Tensor, int]:
    """One run, with the variables of the paper: x, y and a counter."""
    y = x = before = theta
    j, restarts, last, seen = 0, 0, float("inf"), [theta]
    for _ in range(STEPS):
        if when == "loss":
            now = float(loss(y))
            if now > last:
                j, restarts, x, before = 0, restarts + 1, y, y
            last = now
        g = gradient(y)
        beta = j / (j + 3)
        if nesterov:
            new = y - eta * g
            following, uphill = new + beta * (new - x), float(g @ (new - x)) > 0
        else:
            new = following = y - eta * g + beta * (y - before)
            uphill = float(g @ (new - y)) > 0
        before, x, y, j = y, new, following, j + 1
        if when == "gradient" and uphill:
            j, restarts, y, before = 0, restarts + 1, new, new
        seen.append(y)
    return torch.stack(seen), restarts


@pytest.mark.parametrize("when", ["gradient", "loss"])
@pytest.mark.parametrize("of", [rules.Nesterov, rules.HeavyBall])
@given(st.floats(0.3, 0.9), st.integers(0, 5))
def test_every_run_restarts_by_itself(when: str, of: Any, eta: float, seed: int) -> None:
    starts = torch.randn(4, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    path, state = run(rules.Restarted(of(eta, rules.nesterov_momentum), when), starts)
    for i, start in enumerate(starts):
        alone, restarts = by_hand(start, eta, when, of is rules.Nesterov)
        torch.testing.assert_close(path[:, i], alone)
        assert restarts == state.restarts[i].item()
    assert state.restarts.sum() > 0


def test_without_a_rise_nothing_changes() -> None:
    plain = rules.Nesterov(0.5, 0.1)
    theta = torch.ones(2, 3, dtype=torch.float64)
    path, state = run(rules.Restarted(plain), theta)
    assert state.restarts.sum() == 0
    torch.testing.assert_close(path, run(plain, theta)[0])


def test_restarts_help_on_an_ill_conditioned_quadratic() -> None:
    plain = rules.Nesterov(1.0, rules.nesterov_momentum)
    theta = torch.ones(1, 3, dtype=torch.float64)
    steps = 10 * STEPS
    ends = []
    for rule in (plain, rules.Restarted(plain)):
        at, state = theta, rule.start(theta)
        for _ in range(steps):
            at, state = rule.step(at, gradient(at), state)
        ends.append(loss(at).item())
    assert ends[1] < 1e-3 * ends[0]


def test_the_schedule_counts_from_zero() -> None:
    assert [rules.nesterov_momentum(k) for k in (0, 1, 3)] == [0, 0.25, 0.5]


def test_faults_are_named() -> None:
    with pytest.raises(ValueError, match="^rule = Adam; allowed: Nesterov, HeavyBall"):
        rules.Restarted(rules.Adam())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="^when = 'never'; allowed"):
        rules.Restarted(rules.Nesterov(0.1, 0.9), "never")  # type: ignore[arg-type]
    rule = rules.Restarted(rules.Nesterov(0.1, 0.9), "loss")
    theta = torch.ones(2, 3)
    with pytest.raises(ValueError, match="^loss has shape"):
        rule.step(theta, theta, rule.start(theta), torch.ones(3))
