"""Memory functions: their rates against autograd, their weights against quadrature."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from learning_dynamics.momentum.memory import (
    MEMORIES,
    MemoryFunction,
    exponential_memory,
    power_memory,
    stretched_memory,
)

all_memories = pytest.mark.parametrize("memory", MEMORIES.values(), ids=MEMORIES)


def at(t: float) -> torch.Tensor:
    return torch.tensor(t, dtype=torch.float64)


@all_memories
def test_the_rate_is_the_derivative(memory):
    for t in (0.1, 1.0, 3.0, 5.5):
        slope = torch.func.grad(memory.value)(at(t))
        torch.testing.assert_close(memory.rate(at(t)), slope, rtol=1e-12, atol=0)


@all_memories
def test_the_weights_integrate_to_one(memory):
    for t in (0.5, 2.0, 6.0):
        area, _ = quad(lambda s, t=t: float(memory.weights(at(s), at(t))), 0, t, epsabs=1e-13, epsrel=1e-12)
        assert abs(area - 1) < 1e-10


@given(st.floats(1.0, 12.0), st.floats(0.1, 50.0))
def test_a_power_has_the_friction_p_over_t(power, t):
    torch.testing.assert_close(power_memory(power).friction(at(t)), at(power / t), rtol=1e-12, atol=0)


@given(st.floats(0.05, 5.0), st.floats(0.1, 10.0), st.floats(0.0, 1.0))
def test_exponential_weights_are_the_heavy_balls_corrected_for_bias(decay, t, part):
    s = part * t
    heavy_ball = torch.exp(at(-decay * (t - s)))
    mass = -torch.expm1(at(-decay * t)) / decay
    torch.testing.assert_close(
        exponential_memory(decay).weights(at(s), at(t)), heavy_ball / mass, rtol=1e-11, atol=0
    )


def test_the_stretched_memory_of_power_one_is_exponential():
    t = torch.linspace(0.1, 5, 20, dtype=torch.float64)
    torch.testing.assert_close(stretched_memory(1.0).friction(t), exponential_memory(1.0).friction(t))


def test_what_is_no_memory_is_refused():
    with pytest.raises(ValueError, match=r"value\(0\) = 1; allowed: 0"):
        MemoryFunction(lambda t: 1 + t, torch.ones_like)
    with pytest.raises(ValueError, match="allowed: an increasing one"):
        MemoryFunction(torch.sin, torch.cos)
    for bad in (0.5, float("nan"), float("inf")):
        for make in (power_memory, stretched_memory):
            with pytest.raises(ValueError, match="power = "):
                make(bad)
    with pytest.raises(ValueError, match="decay = 0"):
        exponential_memory(0)
