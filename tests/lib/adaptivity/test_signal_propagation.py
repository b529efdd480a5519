"""The laws of deep random networks against real matrices."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learning_dynamics import statistics
from learning_dynamics.adaptivity import signal_propagation as signals


def source(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def real_networks(width: int, depth: int, count: int, activation: str) -> torch.Tensor:
    """ln of the squared norm of the last layer of networks with real matrices."""
    generator, relu = source(5), activation == "relu"
    h = torch.ones(count, width, 1, dtype=torch.float64) / math.sqrt(width)
    for _ in range(depth):
        weights = torch.randn(count, width, width, generator=generator, dtype=torch.float64)
        h = weights @ h * math.sqrt((1 + relu) / width)
        h = h.relu() if relu else h
    return h.square().sum((1, 2)).log()


@pytest.mark.parametrize("activation", ["linear", "relu"])
def test_the_law_is_that_of_real_matrices(activation: str) -> None:
    real = real_networks(6, 5, 3000, activation)
    drawn = signals.log_output_norms(6, 5, 20_000, source(), activation=activation)
    alive = [each[each.isfinite()] for each in (real, drawn)]
    assert statistics.ks_test(alive[0].numpy(), alive[1].numpy()).p_value > 0.01
    wrong = signals.log_output_norms(8, 5, 20_000, source(), activation=activation)
    wrong = wrong[wrong.isfinite()]
    assert statistics.ks_test(alive[0].numpy(), wrong.numpy()).p_value < 1e-4


@pytest.mark.parametrize(("activation", "width"), [("linear", 3), ("linear", 32), ("relu", 3), ("relu", 32)])
def test_mean_deviation_and_dead_share(activation: str, width: int) -> None:
    law = signals.log_norm_law(width, 7, activation)
    drawn = signals.log_output_norms(width, 7, 60_000, source(1), activation=activation)
    alive = drawn[drawn.isfinite()]
    interval = statistics.mean_interval(alive.numpy())
    assert interval.low <= law.mean <= interval.high
    assert math.isclose(alive.std().item(), law.std, rel_tol=0.03)
    share = (~drawn.isfinite()).double().mean().item()
    assert abs(share - law.dead) <= 4 * math.sqrt(max(law.dead * (1 - law.dead), 1e-9) / 60_000)


@pytest.mark.parametrize("activation", ["linear", "relu"])
def test_size_biased_draws_weigh_by_the_square(activation: str) -> None:
    plain = signals.log_output_norms(4, 3, 200_000, source(2), activation=activation)
    biased = signals.log_output_norms(4, 3, 50_000, source(3), activation=activation, size_biased=True)
    for power in (0.5, 0.25):  # E v^power v = E_biased v^power
        left = (plain.exp() ** (1 + power)).numpy()
        right = (biased.exp() ** power).numpy()
        gap = statistics.difference_interval(left, right)
        assert gap.low <= 0 <= gap.high
    share = signals.share_carrying_half(biased)
    ordered = np.sort(plain.exp().numpy())[::-1]
    direct = (np.searchsorted(ordered.cumsum(), ordered.sum() / 2) + 1) / len(ordered)
    assert math.isclose(share, direct, rel_tol=0.05)


@pytest.mark.parametrize("kurtosis", [3.0, 1.8])
@pytest.mark.parametrize("gate_mean", [1.0, 0.5])
def test_moments_against_sampling(kurtosis: float, gate_mean: float) -> None:
    width, generator = 4, source(4)
    h = torch.randn(100_000, width, 1, generator=generator, dtype=torch.float64)
    start = (4.0, 24.0, 12.0)  # E|z|^2, E|z|^4, E sum z^4 for a Gaussian input
    law = signals.forward_moments(
        width, 2, variance=1 / (width * gate_mean), kurtosis=kurtosis, gate_mean=gate_mean, start=start
    )
    for k in range(3):
        for values, expected in (
            (h.square().sum((1, 2)), law.square[k]),
            (h.square().sum((1, 2)) ** 2, law.fourth[k]),
            ((h**4).sum((1, 2)), law.entrywise[k]),
        ):
            interval = statistics.mean_interval(values.numpy())
            assert interval.low <= expected.item() <= interval.high
        if gate_mean < 1:
            h = h.relu()
        shape = (100_000, width, width)
        if kurtosis == 3:
            weights = torch.randn(shape, generator=generator, dtype=torch.float64)
        else:
            weights = (torch.rand(shape, generator=generator, dtype=torch.float64) * 2 - 1) * math.sqrt(3)
        h = weights @ h / math.sqrt(width * gate_mean)


@given(width=st.integers(1, 40), depth=st.integers(0, 12))
def test_gaussian_linear_moments_have_a_closed_form(width: int, depth: int) -> None:
    law = signals.forward_moments(
        width, depth, variance=1 / width, kurtosis=3.0, gate_mean=1.0, start=(1.0, 1.0, 1.0)
    )
    torch.testing.assert_close(law.fourth[-1].item(), (1 + 2 / width) ** depth)
    assert law.square[-1].item() == pytest.approx(1.0)


def test_refusals() -> None:
    for call in (
        lambda: signals.log_output_norms(0, 1, 1, source()),
        lambda: signals.log_output_norms(1, 1, 1, source(), activation="tanh"),
        lambda: signals.log_output_norms(1, 1, 1, 0),  # type: ignore[arg-type]
        lambda: signals.log_norm_law(3, 0),
        lambda: signals.forward_moments(
            3, 1, variance=1.0, kurtosis=3.0, gate_mean=0.0, start=(1.0, 1.0, 1.0)
        ),
    ):
        with pytest.raises(ValueError, match="allowed: "):
            call()
