"""Perturbed rules: noise before and after the preconditioner."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learning_dynamics import rules


def noise(seed: int, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def perturbed(rule: object, std: float, seed: int, where: str) -> rules.Perturbed:
    return rules.Perturbed(rule, std, torch.Generator().manual_seed(seed), where)  # type: ignore[arg-type]


@given(seed=st.integers(0, 99), std=st.floats(0.0, 2.0))
def test_for_gradient_descent_both_places_are_the_same_formula(seed: int, std: float) -> None:
    theta, slope = noise(seed, (3, 4)), noise(seed + 1, (3, 4))
    expected = theta - 0.3 * (slope + std * noise(seed + 2, (3, 4)))
    for where in ("gradient", "update"):
        rule = perturbed(rules.GradientDescent(0.3), std, seed + 2, where)
        moved, _ = rule.step(theta, slope, rule.start(theta))
        torch.testing.assert_close(moved, expected)


def test_rmsprop_with_noise_in_the_gradient_is_rmsprop_on_the_noisy_gradient() -> None:
    theta = noise(0, (2, 3))
    rule, plain = perturbed(rules.RMSprop(0.1), 0.5, 7, "gradient"), rules.RMSprop(0.1)
    state, twin, at = rule.start(theta), plain.start(theta), theta
    source = torch.Generator().manual_seed(7)
    for _ in range(4):
        xi = 0.5 * torch.randn((2, 3), generator=source, dtype=torch.float64)
        at, twin = plain.step(at, at.sin() + xi, twin)
        theta, state = rule.step(theta, theta.sin(), state)
    torch.testing.assert_close(theta, at)


def test_noise_in_the_update_leaves_the_mean_square_alone_and_follows_the_schedule() -> None:
    theta, slope = noise(0, (5,)), noise(1, (5,))
    inner = rules.RMSprop(lambda k: 0.1 / (k + 1))
    rule = perturbed(inner, 0.5, 3, "update")
    state, source = rule.start(theta), torch.Generator().manual_seed(3)
    twin_state, at = inner.start(theta), theta
    for k in range(3):
        theta, state = rule.step(theta, slope, state)
        at, twin_state = inner.step(at, slope, twin_state)
        at = at - 0.1 / (k + 1) * 0.5 * torch.randn(5, generator=source, dtype=torch.float64)
    torch.testing.assert_close(theta, at)
    torch.testing.assert_close(state.inner.mean_square, twin_state.mean_square)
    assert state.step == 3


def test_zero_noise_is_the_rule_itself() -> None:
    theta, slope = noise(0, (5,)), noise(1, (5,))
    for where in ("gradient", "update"):
        rule = perturbed(rules.Adam(0.1), 0.0, 3, where)
        moved, _ = rule.step(theta, slope, rule.start(theta))
        expected, _ = rules.Adam(0.1).step(theta, slope, rules.Adam(0.1).start(theta))
        assert torch.equal(moved, expected)


@pytest.mark.parametrize(
    "arguments",
    [
        (rules.NGN(1.0), 0.1, torch.Generator(), "update"),
        (rules.GradientDescent(0.1), -0.1, torch.Generator(), "update"),
        (rules.GradientDescent(0.1), 0.1, 0, "update"),
        (rules.GradientDescent(0.1), 0.1, torch.Generator(), "loss"),
        (rules.GradientDescent, 0.1, torch.Generator(), "update"),
    ],
)
def test_refusals(arguments: tuple) -> None:
    with pytest.raises(ValueError, match="allowed: "):
        rules.Perturbed(*arguments)
