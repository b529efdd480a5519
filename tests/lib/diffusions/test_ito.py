"""Stochastic sums, the generator and changed clocks against closed forms, sympy and exact laws."""

from __future__ import annotations

import math

import pytest
import sympy
import torch
from hypothesis import given
from hypothesis import strategies as st

from learning_dynamics.diffusions import euler_maruyama, generator, stochastic_sum, time_changed

F64 = torch.float64


@given(st.lists(st.sampled_from([-1.0, 1.0]), min_size=1, max_size=30))
def test_sums_of_a_walk_against_itself(steps):
    increments = torch.tensor(steps, dtype=F64)
    walk = torch.cat([torch.zeros(1, dtype=F64), increments.cumsum(0)])
    end, count = walk[-1].item(), len(steps)
    assert stochastic_sum(walk, increments).item() == (end**2 - count) / 2
    assert stochastic_sum(walk, increments, "right").item() == (end**2 + count) / 2
    assert stochastic_sum(walk, increments, "middle").item() == end**2 / 2


def test_the_sum_keeps_batches():
    values = torch.arange(12.0, dtype=F64).reshape(3, 2, 2)
    increments = torch.ones(2, 2, 2, dtype=F64)
    torch.testing.assert_close(stochastic_sum(values, increments), values[0] + values[1])


@pytest.mark.parametrize(("values", "increments", "point"), [((3,), (3,), "left"), ((4,), (3,), "end")])
def test_the_sum_refuses(values, increments, point):
    with pytest.raises(ValueError, match="allowed: "):
        stochastic_sum(torch.zeros(values), torch.zeros(increments), point)


def test_the_generator_is_sympys():
    x, y, t = sympy.symbols("x y t")
    drift = [y - x**3, sympy.sin(x) - t * y]
    noise = [[1 + x**2, x * y], [t, sympy.cos(y)]]
    energy = x**2 * y + sympy.exp(-t) * x * y**3
    B = sympy.Matrix(noise)
    bend = sympy.hessian(energy, (x, y))
    expected = (
        sympy.diff(energy, t)
        + sum(sympy.diff(energy, z) * v for z, v in zip((x, y), drift, strict=True))
        + (bend * B * B.T).trace() / 2
    )
    points = torch.randn(7, 2, generator=torch.Generator().manual_seed(1), dtype=F64)

    def field(p: torch.Tensor, now: float) -> torch.Tensor:
        return torch.stack([p[:, 1] - p[:, 0] ** 3, p[:, 0].sin() - now * p[:, 1]], -1)

    def matrix(p: torch.Tensor, now: float) -> torch.Tensor:
        rows = [1 + p[:, 0] ** 2, p[:, 0] * p[:, 1], torch.full_like(p[:, 0], now), p[:, 1].cos()]
        return torch.stack(rows, -1).reshape(-1, 2, 2)

    found = generator(lambda p, now: p[0] ** 2 * p[1] + torch.exp(-now) * p[0] * p[1] ** 3, field, matrix)
    number = sympy.lambdify((x, y, t), expected)
    wanted = torch.tensor([number(*point, 0.7) for point in points.tolist()], dtype=F64)
    torch.testing.assert_close(found(points, 0.7), wanted, rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="allowed: "):
        found(points[0], 0.7)


@given(st.floats(-2, 2), st.floats(-2, 2))
def test_the_generator_is_linear_in_the_energy(a, b):
    points = torch.linspace(-1, 1, 5, dtype=F64)[:, None]

    def made(energy):
        return generator(energy, lambda x, t: -x, lambda x, t: x[:, :, None])(points, 0.0)

    both = made(lambda x, t: a * x[0].cos() + b * x[0] ** 3)
    parts = a * made(lambda x, t: x[0].cos()) + b * made(lambda x, t: x[0] ** 3)
    torch.testing.assert_close(both, parts)


def test_a_changed_clock_gives_the_same_steps():
    """With the same normal numbers a step of x over eta h is a step of y over h."""
    field, noise = (lambda x, t: x - x**3), (lambda x, t: 1 + 0.2 * x.cos())
    start = torch.linspace(-1, 1, 50, dtype=F64)[:, None]
    changed = time_changed(field, noise, lambda t: 4.0)
    slow = euler_maruyama(*changed, start, 0.01, 20, torch.Generator().manual_seed(0))
    fast = euler_maruyama(field, noise, start, 0.04, 20, torch.Generator().manual_seed(0))
    torch.testing.assert_close(slow, fast)


def test_a_changed_clock_moves_the_variance():
    """dx = -x ds + dW from 0 has the variance (1 - e^{-2 c}) / 2 at c = ln t."""
    field, noise = time_changed(lambda x, s: -x, lambda x, s: torch.ones_like(x), lambda t: 1 / t)
    t, variance, h = 1.0, 0.0, 1e-4
    one = torch.ones(1, dtype=F64)
    while t < math.e:
        variance += h * (2 * variance * field(one, t).item() + noise(one, t).item() ** 2)
        t += h
    assert variance == pytest.approx((1 - math.exp(-2)) / 2, rel=1e-3)
    with pytest.raises(ValueError, match="allowed: "):
        field(one, -1.0)
