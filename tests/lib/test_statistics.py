"""Intervals and tests against scipy's and numpy's own, and their coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from learning_dynamics import statistics
from learning_dynamics.statistics import (
    Interval,
    difference_interval,
    ks_test,
    log_log_slope,
    mean_interval,
)

numbers = st.floats(-1e3, 1e3).map(lambda x: round(x, 3))
samples_of = st.lists(numbers, min_size=3, max_size=12)
levels = st.sampled_from([0.5, 0.95, 0.999])


def close(found: Interval, low: float, high: float, tolerance: float = 1e-9) -> bool:
    return math.isclose(found.low, low, rel_tol=tolerance, abs_tol=tolerance) and math.isclose(
        found.high, high, rel_tol=tolerance, abs_tol=tolerance
    )


def test_an_interval_contains_its_ends():
    interval = Interval(1.0, 1.5, 2.0, 0.9)
    assert 1.0 in interval and 2.0 in interval and 0.99 not in interval and 2.01 not in interval


@given(samples_of, levels)
def test_mean_interval_is_scipys(samples, level):
    assume(np.ptp(samples) > 0)
    expected = stats.ttest_1samp(samples, 0.0).confidence_interval(level)
    assert close(mean_interval(samples, level), expected.low, expected.high)


@given(samples_of, samples_of, levels)
def test_difference_interval_is_welchs(a, b, level):
    assume(np.ptp(a) > 0 and np.ptp(b) > 0)
    expected = stats.ttest_ind(a, b, equal_var=False).confidence_interval(level)
    assert close(difference_interval(a, b, level), expected.low, expected.high)


@given(samples_of, st.floats(-10, 10), st.floats(0.1, 10))
def test_mean_interval_moves_with_the_samples(samples, shift, scale):
    before = mean_interval(samples)
    after = mean_interval(shift + scale * np.array(samples))
    assert close(after, shift + scale * before.low, shift + scale * before.high, 1e-8)
    assert before.low <= before.estimate <= before.high


def test_samples_without_spread_have_an_interval_of_no_width():
    assert mean_interval([2.0, 2.0, 2.0]) == Interval(2.0, 2.0, 2.0, 0.999)
    assert difference_interval([2.0, 2.0], [1.0, 1.0]) == Interval(1.0, 1.0, 1.0, 0.999)


def test_coverage_is_the_level():
    random = np.random.default_rng(0)
    level, repeats = 0.9, 2000
    covered = sum(0.0 in mean_interval(random.normal(size=5), level) for _ in range(repeats))
    assert abs(covered / repeats - level) < 4 * math.sqrt(level * (1 - level) / repeats)


@given(st.lists(st.floats(0.1, 10), min_size=4, max_size=12, unique=True), st.integers(0, 99), levels)
def test_log_log_slope_is_scipys_regression(x, seed, level):
    assume(np.ptp(np.log(x)) > 0.1)
    y = np.array(x) ** 1.5 * np.exp(0.1 * np.random.default_rng(seed).normal(size=len(x)))
    line = stats.linregress(np.log(x), np.log(y))
    half = line.stderr * stats.t.ppf((1 + level) / 2, len(x) - 2)
    found = log_log_slope(x, y, level)
    assert math.isclose(found.estimate, line.slope, rel_tol=1e-8)
    assert close(found, line.slope - half, line.slope + half, 1e-7)


@given(st.floats(-3, 3), st.floats(1e-6, 1e6), st.integers(3, 30))
def test_an_exact_power_law_is_found(exponent, constant, n):
    x = np.geomspace(1, 1e4, n)
    found = log_log_slope(x, constant * x**exponent)
    assert exponent in found
    assert found.high - found.low < 1e-10


def test_powers_of_two_keep_their_rounding():
    x = 2.0 ** np.arange(1, 9)
    assert 2.0 in log_log_slope(x, x**2) and -1.0 in log_log_slope(x, 1 / x)


def test_log_log_slope_over_seeds_is_the_interval_of_the_slopes():
    random = np.random.default_rng(1)
    x = np.geomspace(1, 100, 8)
    y = x**-0.5 * np.exp(0.05 * random.normal(size=(6, 8)))
    slopes = [np.polyfit(np.log(x), np.log(curve), 1)[0] for curve in y]
    expected = stats.ttest_1samp(slopes, 0).confidence_interval(0.99)
    assert close(log_log_slope(x, y, 0.99), expected.low, expected.high)
    assert -0.5 in log_log_slope(torch.tensor(x), torch.tensor(y))


def test_ks_test_by_its_definition():
    samples = np.random.default_rng(4).normal(size=50)
    ordered = np.sort(samples)
    cdf = stats.norm.cdf(ordered)
    steps = np.arange(51) / 50
    expected = max((steps[1:] - cdf).max(), (cdf - steps[:-1]).max())
    found = ks_test(samples, stats.norm.cdf)
    assert math.isclose(found.statistic, expected) and found.p_value > 0.01
    assert ks_test(torch.tensor(samples), stats.norm(1).cdf).p_value < 1e-6
    other = np.random.default_rng(5).normal(size=40)
    both = np.concatenate([samples, other])
    gap = np.abs((samples[:, None] <= both).mean(0) - (other[:, None] <= both).mean(0)).max()
    assert math.isclose(ks_test(samples, other).statistic, gap)
    assert ks_test(samples, other + 2).p_value < 1e-6


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([], "samples is empty"),
        ([1.0], "samples has a single value"),
        ([1.0, float("nan")], "samples has 1 NaN"),
        ([1.0, float("inf"), -float("inf")], r"samples has 2 infinite values \(diverged runs\)"),
        ([[1.0, 2.0], [3.0, 4.0]], r"samples has shape \(2, 2\)"),
        (torch.tensor([]), "samples is empty"),
    ],
)
@pytest.mark.parametrize("function", [mean_interval, lambda x: ks_test(x, stats.norm.cdf)])
def test_bad_samples_are_refused(function, bad, message):
    with pytest.raises(ValueError, match=message):
        function(bad)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_interval([1, 2], level=1.0), "level = 1.0"),
        (lambda: difference_interval([1, 2], [1]), "b has a single value"),
        (lambda: ks_test([1, 2], [float("nan"), 1]), "reference has 1 NaN"),
        (lambda: log_log_slope([1, 2], [1, 2]), "x has 2 values; allowed: at least 3"),
        (lambda: log_log_slope([1, 2, 3], [1, 2]), r"y has shape \(2,\)"),
        (lambda: log_log_slope([0, 2, 3], [1, 2, 3]), "x has 1 values <= 0"),
        (lambda: log_log_slope([1, 2, 3], [1, -2, 0]), "y has 2 values <= 0"),
        (lambda: log_log_slope([2, 2, 2], [1, 2, 3]), "x has the one value 2.0"),
        (lambda: log_log_slope([1, 2, 3], [1, 2, float("inf")]), "y has 1 infinite"),
        (lambda: log_log_slope([1, 2, 3], [[1, 2, 3]]), "y has a single seed"),
        (lambda: log_log_slope([1, 2, 3], [1, 2, 3], level=0.0), "level = 0.0"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_default_levels_are_the_books():
    for name in (
        "mean_interval",
        "difference_interval",
        "log_log_slope",
    ):
        assert 0.999 in getattr(statistics, name).__defaults__


@pytest.mark.parametrize(
    "samples", [np.ma.array([1.0, 2.0, 1000.0], mask=[0, 0, 1]), ["1", "2"], np.array(["1", "2"])]
)
def test_masked_numbers_and_text_are_no_samples(samples):
    with pytest.raises(ValueError, match="allowed: .*numbers"):
        statistics.mean_interval(samples)
