"""Rules that follow an average of past gradients, against exact fractions, sums written out and each other."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from learning_dynamics import ensembles, rules

STEPS = 30
seeds = st.integers(0, 1000)
powers = st.floats(1.0, 9.0)


def noisy(seed: int, steps: int = STEPS):
    """A gradient with noise that depends on the step, and a start `(2, 3)`."""
    random = torch.Generator().manual_seed(seed)
    noise = torch.randn(steps, 2, 3, generator=random, dtype=torch.float64)
    start = torch.randn(2, 3, generator=random, dtype=torch.float64)
    return (lambda theta, k: torch.tanh(theta) + noise[k]), start


def path(rule, gradient, start: Tensor, steps: int = STEPS, watch=None) -> ensembles.Trajectory:
    return ensembles.iterate(rule, gradient, start, steps, record=range(steps + 1), watch=watch)


@given(seeds, st.floats(1.1, 9.0))
def test_polynomial_memory_is_gradient_memory_with_a_straight_lookahead(seed, power):
    gradient, start = noisy(seed)
    straight = path(rules.PolynomialMemory(0.1, power), gradient, start).values
    if power < 2:  # the look-ahead would grow by more than one
        with pytest.raises(ValueError, match=r"lookahead\(0\), lookahead\(1\)"):
            rules.GradientMemory(0.1, lambda k: k / (power - 1))
        return
    general = rules.GradientMemory(0.1 * power / (power - 1), lambda k: k / (power - 1))
    torch.testing.assert_close(path(general, gradient, start).values, straight, rtol=1e-11, atol=1e-12)


@given(seeds, powers)
def test_the_movement_is_an_average_of_all_gradients(seed, power):
    gradient, start = noisy(seed)
    iterates = path(rules.PolynomialMemory(0.1, power), gradient, start).values
    weights = torch.zeros(STEPS, dtype=torch.float64)
    for k in range(STEPS):
        weights *= k / (k + power)
        weights[k] = power / (k + power)
        gradients = torch.stack([gradient(iterates[j], j) for j in range(k + 1)])
        average = (weights[: k + 1, None, None] * gradients).sum(0)
        torch.testing.assert_close(iterates[k + 1] - iterates[k], -0.1 * average, rtol=1e-10, atol=1e-12)
        assert abs(float(weights.sum()) - 1) < 1e-12


@given(seeds, st.lists(st.floats(-5.0, 1.0), min_size=STEPS + 1, max_size=STEPS + 1))
def test_looked_ahead_the_iterates_make_plain_steps(seed, increments):
    lookahead = [0.5]
    for increment in increments:
        lookahead.append(max(lookahead[-1] + increment, 0.0))
    gradient, start = noisy(seed)
    iterates = path(rules.GradientMemory(0.2, lookahead.__getitem__), gradient, start).values
    before = torch.cat([start[None], iterates[:-1]])
    ahead = iterates + torch.tensor(lookahead[: STEPS + 1], dtype=torch.float64)[:, None, None] * (
        iterates - before
    )
    for k in range(STEPS):
        expected = ahead[k] - 0.2 * gradient(iterates[k], k)
        torch.testing.assert_close(ahead[k + 1], expected, rtol=1e-9, atol=1e-10)


def test_gradient_memory_against_fractions():
    lookahead = [0, 1, 2, 1, 2, 3, 0, 1]
    theta = before = Fraction(1)
    for k in range(7):
        now, after = Fraction(lookahead[k]), Fraction(lookahead[k + 1])
        theta, before = theta + now / (after + 1) * (theta - before) - theta / (after + 1) / 3, theta
    start = torch.ones(1, dtype=torch.float64)
    rule = rules.GradientMemory(1 / 3, lookahead.__getitem__)
    assert abs(float(path(rule, lambda t, k: t, start, 7).last) - float(theta)) < 1e-14


@given(seeds, st.floats(0.0, 1.0))
def test_schedule_free_by_its_definition(seed, zeta):
    gradient, start = noisy(seed)
    run = path(rules.ScheduleFree(0.3, zeta), gradient, start, watch=lambda state: state.mean)
    points, where = [start], start
    for k in range(STEPS):
        points.append(points[-1] - 0.3 * gradient(where, k))
        mean = torch.stack(points).mean(0)
        where = (1 - zeta) * points[-1] + zeta * mean
        torch.testing.assert_close(run.watched[k + 1], mean, rtol=1e-11, atol=1e-12)
        torch.testing.assert_close(run.values[k + 1], where, rtol=1e-11, atol=1e-12)


@given(seeds)
def test_the_two_ends_of_the_dial(seed):
    gradient, start = noisy(seed)
    means = path(rules.ScheduleFree(0.2, 1.0), gradient, start, watch=lambda state: state.mean).watched
    memory = path(rules.PolynomialMemory(0.1, 2.0), gradient, start).values
    torch.testing.assert_close(means, memory, rtol=1e-11, atol=1e-12)
    plain = path(rules.ScheduleFree(0.2, 0.0), gradient, start, watch=lambda state: state.mean)
    tail = path(
        rules.TailAverage(rules.GradientDescent(0.2)), gradient, start, watch=lambda state: state.mean
    )
    torch.testing.assert_close(plain.values, tail.values, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(plain.watched, tail.watched, rtol=1e-11, atol=1e-12)


def test_a_grid_of_hyper_parameters_is_a_batch_axis():
    gradient, start = noisy(3)
    powers = torch.tensor([[2.0], [5.0]], dtype=torch.float64)
    both = path(rules.PolynomialMemory(0.1, powers), gradient, start).values
    zetas = torch.tensor([[0.2], [0.9]], dtype=torch.float64)
    free = path(rules.ScheduleFree(0.1, zetas), gradient, start).values
    for row in range(2):

        def of_row(theta: Tensor, k: int, row: int = row) -> Tensor:
            return gradient(theta, k)[row]

        alone = path(rules.PolynomialMemory(0.1, float(powers[row])), of_row, start[row])
        torch.testing.assert_close(both[:, row], alone.values, rtol=1e-12, atol=1e-12)
        alone = path(rules.ScheduleFree(0.1, float(zetas[row])), of_row, start[row])
        torch.testing.assert_close(free[:, row], alone.values, rtol=1e-12, atol=1e-12)


def test_momentum_may_be_a_schedule():
    """Nesterov's schedule under a constant gradient: the step number k is (k + 4)/4 gradient steps."""
    for rule in (rules.HeavyBall, rules.Nesterov):
        run = path(
            rule(1.0, lambda k: k / (k + 3)),
            lambda theta, k: torch.ones_like(theta),
            torch.zeros(1, dtype=torch.float64),
            20,
        )
        steps = -run.values.diff(dim=0)[:, 0]
        expected = (torch.arange(20, dtype=torch.float64) + 4) / 4
        torch.testing.assert_close(steps, expected, rtol=1e-13, atol=0)


def test_bad_arguments_are_refused_in_one_line():
    for make, word in (
        (lambda: rules.PolynomialMemory(0.1, 0.5), "power = 0.5"),
        (lambda: rules.PolynomialMemory(-0.1), "step_size = -0.1"),
        (lambda: rules.ScheduleFree(0.1, 1.1), "interpolation = 1.1"),
        (lambda: rules.ScheduleFree(0.1, -0.1), "interpolation = -0.1"),
        (lambda: rules.GradientMemory(0.1, lambda k: 2 * k), r"lookahead\(0\), lookahead\(1\) = 0, 2"),
        (lambda: rules.GradientMemory(0.1, lambda k: -1.0), "allowed: >= 0"),
    ):
        with pytest.raises(ValueError, match=word) as error:
            make()
        assert "\n" not in str(error.value)
