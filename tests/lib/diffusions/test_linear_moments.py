"""Moments of linear chains and diffusions against Lyapunov equations, closed forms and each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given
from hypothesis import strategies as st

from learning_dynamics.diffusions import chain_moments, diffusion_moments


def matrix(rows) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def stable(seed: int, d: int = 3) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A contraction `(d, d)`, a noise matrix `(d, 2)` and a start."""
    random = torch.Generator().manual_seed(seed)
    A = torch.randn(d, d, generator=random, dtype=torch.float64)
    A = 0.8 * A / torch.linalg.norm(A, 2)
    B, start = (torch.randn(shape, generator=random, dtype=torch.float64) for shape in ((d, 2), (d,)))
    return A, B, start


@given(st.integers(0, 500))
def test_a_constant_chain_ends_at_its_lyapunov_covariance(seed):
    A, B, start = stable(seed)
    found = chain_moments(lambda k: A, lambda k: B, start, torch.zeros_like(A), 200)
    expected = scipy.linalg.solve_discrete_lyapunov(A.numpy(), (B @ B.T).numpy())
    np.testing.assert_allclose(found.covariance[-1], expected, rtol=1e-9, atol=1e-12)
    assert found.mean[-1].norm() < 1e-15


@given(st.integers(0, 500))
def test_a_chain_is_the_sum_over_its_noises(seed):
    """The covariance as a sum over all past noises, and the mean as a product, with matrices that change."""
    A, B, start = stable(seed)

    def at(k):
        return A * math.cos(k)

    found = chain_moments(at, lambda k: B / (k + 1), start, torch.eye(3, dtype=torch.float64), 6, range(7))
    product, terms = torch.eye(3, dtype=torch.float64), []
    for k in range(6):
        product = at(k) @ product
        terms = [at(k) @ term for term in terms] + [B / (k + 1)]
        expected = product @ product.T + sum(term @ term.T for term in terms)
        torch.testing.assert_close(found.covariance[k + 1], expected, rtol=1e-11, atol=1e-13)
        torch.testing.assert_close(found.mean[k + 1], product @ start, rtol=1e-11, atol=1e-13)
    second = found.mean[3][:, None] * found.mean[3][None] + found.covariance[3]
    torch.testing.assert_close(found.second[3], second)


def test_chains_are_batched():
    factors = matrix([[[0.5]], [[0.9]]])
    found = chain_moments(
        lambda k: factors, lambda k: torch.ones_like(factors), torch.ones(2, 1).double(),
        torch.zeros(2, 1, 1).double(), 10,
    )  # fmt: skip
    squares = factors[:, 0, 0] ** 2
    torch.testing.assert_close(found.covariance[-1, :, 0, 0], (1 - squares**10) / (1 - squares))
    torch.testing.assert_close(found.mean[-1, :, 0], factors[:, 0, 0] ** 10)


@given(st.floats(0.1, 3.0), st.floats(0.1, 2.0), st.floats(-2.0, 2.0))
def test_a_diffusion_with_constant_drift_is_ornstein_and_uhlenbecks(rate, noise, start):
    times = [0.0, 0.3, 2.0]
    found = diffusion_moments(
        lambda t: matrix([[-rate]]), lambda t: matrix([[noise]]), matrix([start]), matrix([[0.2]]), times
    )
    for index, t in enumerate(times):
        variance = 0.2 * math.exp(-2 * rate * t) + noise**2 * (1 - math.exp(-2 * rate * t)) / (2 * rate)
        assert float(found.covariance[index]) == pytest.approx(variance, rel=1e-7)
        assert float(found.mean[index]) == pytest.approx(start * math.exp(-rate * t), rel=1e-7, abs=1e-10)


def test_a_velocity_with_friction_three_over_t_has_the_variance_t_over_seven():
    """dV = -(3/t) V dt + dW from rest at 0 (thesis, Eq. 32), started at the law of a small time."""
    early = 1e-3
    found = diffusion_moments(
        lambda t: matrix([[-3 / t]]), lambda t: matrix([[1.0]]), matrix([0.0]), matrix([[early / 7]]),
        [early, 1.0, 10.0],
    )  # fmt: skip
    assert float(found.covariance[1]) == pytest.approx(1 / 7, rel=1e-7)
    assert float(found.covariance[2]) == pytest.approx(10 / 7, rel=1e-7)


def test_dtype_and_one_time():
    single = diffusion_moments(
        lambda t: torch.zeros(1, 1), lambda t: torch.ones(1, 1), torch.zeros(1), torch.zeros(1, 1), [0.0, 2.0]
    )
    assert single.mean.dtype == torch.float32 and float(single.covariance[-1]) == pytest.approx(2.0)
    one = diffusion_moments(
        lambda t: matrix([[0.0]]), lambda t: matrix([[1.0]]), matrix([1.0]), matrix([[3.0]]), [5.0]
    )
    assert one.covariance.shape == (1, 1, 1) and float(one.covariance) == 3.0


def test_bad_arguments_are_refused_in_one_line():
    zero, one = matrix([0.0]), matrix([[1.0]])

    def flow(times, mean=zero, covariance=one, drift=lambda t: -one):
        return diffusion_moments(drift, lambda t: one, mean, covariance, times)

    for call, word in (
        (lambda: flow([1.0, 0.5]), "times = "),
        (lambda: flow([[1.0]]), "times = "),
        (lambda: flow([1.0, math.inf]), "times = "),
        (lambda: flow([0.0, 1.0], covariance=torch.eye(2).double()), "covariance0 has shape"),
        (lambda: flow([0.0, 1.0], mean=torch.zeros(2, 1).double(), covariance=torch.zeros(2, 1, 1).double()),
         "mean0 has shape"),
        (lambda: chain_moments(lambda k: one, lambda k: one, zero, one, -1), "steps = -1"),
        (lambda: chain_moments(lambda k: one, lambda k: one, zero, one, 3, [4]), "record = "),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=word) as error:
            call()
        assert "\n" not in str(error.value)
