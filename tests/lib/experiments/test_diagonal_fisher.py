"""The one-dimensional laws of the diagonal empirical-Fisher step: its two-cycle, Cauchy scales, long runs."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from learning_dynamics import ensembles
from learning_dynamics.experiments.empirical_fisher.diagonal_fisher import (
    cauchy_scales,
    power_schedule,
    scalar_medians,
    two_cycle,
)
from learning_dynamics.rules import DiagonalFisher
from learning_dynamics.runs import Run

step_sizes = st.floats(1e-3, 1.0)


@given(step_sizes, st.floats(0.1, 1.2), st.floats(0.0, 0.9))
def test_two_cycle_is_one(eta, q, share):
    """One step maps c to -c and -c to c; at and above the threshold nothing is left of the cycle."""
    threshold = (eta / 2) ** (1 / q)
    c = two_cycle(eta, q, share * threshold).reshape(1)
    rule = DiagonalFisher(eta, q, share * threshold)
    for theta in (c, -c):
        after, _ = rule.step(theta, theta, rule.start(theta))
        torch.testing.assert_close(after, -theta, rtol=1e-9, atol=0.0)
    assert two_cycle(eta, q, 1.01 * threshold) == 0


def test_power_schedules_fall_from_their_scale():
    falling = power_schedule(0.1, torch.tensor([0.0, 0.5, 1.0]))
    torch.testing.assert_close(falling(0), torch.full((3,), 0.1))
    torch.testing.assert_close(falling(3), torch.tensor([0.1, 0.05, 0.025]))


def test_cauchy_scales_are_the_medians_of_a_simulation():
    random = torch.Generator().manual_seed(0)
    theta = torch.tan(math.pi * (torch.rand(20_000, 1, generator=random, dtype=torch.float64) - 0.5))
    etas = torch.tensor([0.5, 2.0, 0.1, 1.0], dtype=torch.float64)
    rule = DiagonalFisher(lambda k: etas[k].item(), 1.0)
    scales = cauchy_scales(1.0, etas)
    path = ensembles.iterate(rule, lambda theta, k: theta, theta, 4, range(5)).values.squeeze(-1)
    for k in range(5):
        law = stats.cauchy(scale=scales[k].item())
        assert stats.kstest(path[k].numpy(), law.cdf).statistic < 1.95 / math.sqrt(20_000)
    assert scales[1] == 1.5 and scales.shape == (5,)


def test_scalar_medians_have_their_shape_and_repeat():
    run = Run("curvature/empirical_fisher", scale="smoke")
    steps, medians = scalar_medians(run, [0.5, 1.0], [(0.1, 0.0), (0.3, 1.0), (0.1, 0.5)], 20)
    assert medians.shape == (3, 2, 10, len(steps)) and medians.isfinite().all()
    assert torch.equal(medians, scalar_medians(run, [0.5, 1.0], [(0.1, 0.0), (0.3, 1.0), (0.1, 0.5)], 20)[1])
    alone = scalar_medians(run, [1.0], [(0.3, 1.0)], 20)[1]  # the same starts, whatever else is asked for
    torch.testing.assert_close(medians[1:2, 1:], alone, rtol=1e-9, atol=0.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: two_cycle(0.0, 1.0),
        lambda: two_cycle(0.1, 0.0),
        lambda: two_cycle(0.1, 1.0, -1.0),
        lambda: cauchy_scales(0.0, torch.ones(2)),
        lambda: cauchy_scales(1.0, -torch.ones(2)),
        lambda: cauchy_scales(1.0, torch.ones(2, 2)),
    ],
)
def test_out_of_range_is_an_error(make):
    with pytest.raises(ValueError):
        make()
