"""Kicked gradient descent against the loop written out, its shaken-point form, and the moments of its kicks."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learning_dynamics import ensembles, rules

LIKE = {"dtype": torch.float64}


def make(seed=0, std=0.3, correlation="differenced", kicks="signs", eta=0.1):
    return rules.PerturbedGradientDescent(eta, std, torch.Generator().manual_seed(seed), correlation, kicks)


@given(st.integers(0, 1000), st.sampled_from(["none", "differenced"]), st.sampled_from(["signs", "normal"]))
def test_the_loop_written_out(seed, correlation, kicks):
    start = torch.ones(2, 3, **LIKE)
    watched = ensembles.iterate(
        make(seed, 0.3, correlation, kicks), lambda t, k: torch.tanh(t), start, 20, range(21),
        watch=lambda state: state.kick,
    )  # fmt: skip
    theta, before = start, torch.zeros(2, 3, **LIKE)
    for k in range(20):
        kick = watched.watched[k + 1]
        theta = theta - 0.1 * torch.tanh(theta) + kick - (before if correlation == "differenced" else 0)
        before = kick
        torch.testing.assert_close(watched.values[k + 1], theta)


@given(st.integers(0, 1000))
def test_behind_the_kick_the_gradient_is_asked_at_a_shaken_point(seed):
    rule, theta = make(seed), torch.ones(4, **LIKE)
    state = rule.start(theta)
    behind = theta
    for _ in range(30):
        shaken = behind + state.kick
        theta, state = rule.step(theta, torch.tanh(theta), state)
        behind = behind - 0.1 * torch.tanh(shaken)
        torch.testing.assert_close(rule.unperturbed(theta, state), behind, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kicks", ["signs", "normal"])
def test_kicks_have_the_moments_that_they_promise_and_one_scale_a_run(kicks):
    std = torch.tensor([[0.1], [2.0]], **LIKE)
    rule, theta = make(1, std, "none", kicks), torch.zeros(2, 40_000, **LIKE)
    moved, state = rule.step(theta, theta, rule.start(theta))
    torch.testing.assert_close(moved, state.kick)
    assert ((moved.std(-1) / std[:, 0] - 1).abs() < 0.03).all() and (moved.mean(-1).abs() < 0.03).all()
    assert (bool((moved.abs() == std).all())) == (kicks == "signs")
    assert rule.step(theta.float(), theta.float(), rule.start(theta.float()))[0].dtype == torch.float32


def test_without_noise_it_is_gradient_descent():
    start = torch.ones(1, 3, **LIKE)
    quiet = ensembles.iterate(make(std=0.0), lambda t, k: t, start, 5).last
    torch.testing.assert_close(quiet, start * 0.9**5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"std": -1.0}, "std = -1.0"),
        ({"correlation": "anti"}, "correlation = 'anti'; allowed: none, differenced"),
        ({"kicks": "coins"}, "kicks = 'coins'; allowed: signs, normal"),
        ({"eta": -0.1}, "step_size"),
    ],
)
def test_bad_arguments(wrong, message):
    with pytest.raises(ValueError, match=message):
        make(**wrong)


def test_the_generator_is_required():
    with pytest.raises(ValueError, match="generator"):
        rules.PerturbedGradientDescent(0.1, 0.1, None)
