"""The diagonal empirical-Fisher family against torch.optim, written-out sums, and its one-dimensional laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from learning_dynamics import ensembles
from learning_dynamics.experiments.empirical_fisher.diagonal_fisher import (
    MEMORIES,
    DiagonalFisher,
    cauchy_scales,
    power_schedule,
    scalar_medians,
    two_cycle,
)
from learning_dynamics.runs import Run

seeds = st.integers(0, 10_000)
exponents = st.floats(0.1, 1.5)
step_sizes = st.floats(1e-3, 1.0)
decays = st.floats(0.0, 0.99)
any_memory = pytest.mark.parametrize("memory", MEMORIES)


def stream(seed: int, steps: int = 30, d: int = 4) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(steps, d, generator=random, dtype=torch.float64)


def follow(rule, gradients: torch.Tensor, theta: torch.Tensor) -> torch.Tensor:
    state, path = rule.start(theta), [theta]
    for gradient in gradients:
        theta, state = rule.step(theta, gradient, state)
        path.append(theta)
    return torch.stack(path)


def estimate(memory: str, squares: np.ndarray, beta2: float) -> np.ndarray:
    """The estimate u after the squares `(k, d)`, as a plain weighted sum of all of them."""
    k = len(squares)
    weights = (1 - beta2) * beta2 ** np.arange(k - 1, -1, -1.0)
    if memory == "largest":
        return np.max([estimate("decayed", squares[: j + 1], beta2) for j in range(k)], axis=0)
    return {
        "none": squares[-1],
        "sum": squares.sum(0),
        "mean": squares.mean(0),
        "decayed": weights @ squares,
        "corrected": weights @ squares / weights.sum(),
    }[memory]


@any_memory
@given(seeds, exponents, step_sizes, decays, st.floats(0.0, 2.0))
def test_every_step_is_the_written_out_formula(memory, seed, q, eta, beta2, damping):
    gradients = stream(seed)
    rule = DiagonalFisher(power_schedule(eta, 0.5), q, damping, memory, beta2)
    theta, found = np.zeros(4), follow(rule, gradients, torch.zeros(4, dtype=torch.float64))
    g = gradients.numpy()
    for k in range(len(g)):
        u = estimate(memory, g[: k + 1] ** 2, beta2)
        theta = theta - eta / math.sqrt(k + 1) * g[k] / (u + damping) ** q
        np.testing.assert_allclose(found[k + 1], theta, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("rule", "make"),
    [
        (DiagonalFisher(0.1, memory="sum"), lambda p: torch.optim.Adagrad(p, lr=0.1, eps=0.0)),
        (
            DiagonalFisher(0.1, memory="decayed", beta2=0.8),
            lambda p: torch.optim.RMSprop(p, lr=0.1, alpha=0.8, eps=0.0),
        ),
        (
            DiagonalFisher(0.1, memory="corrected", beta2=0.8),
            lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.0, 0.8), eps=0.0),
        ),
    ],
    ids=["adagrad", "rmsprop", "adam"],
)
@given(seed=seeds)
def test_exponent_one_half_is_torchs(rule, make, seed):
    gradients = stream(seed)
    parameter = torch.nn.Parameter(torch.zeros(4, dtype=torch.float64))
    optimizer = make([parameter])
    found = follow(rule, gradients, torch.zeros(4, dtype=torch.float64))
    for k, gradient in enumerate(gradients):
        parameter.grad = gradient.clone()
        optimizer.step()
        torch.testing.assert_close(found[k + 1], parameter.detach(), rtol=1e-12, atol=1e-12)


@any_memory
@given(seeds, st.floats(0.1, 10.0), exponents)
def test_scaling_the_gradient_scales_the_step(memory, seed, c, q):
    """Without damping a loss multiplied by c moves the iterates by c^(1 - 2q) times as much."""
    gradients, start = stream(seed), torch.zeros(4, dtype=torch.float64)
    rule = DiagonalFisher(0.1, q, memory=memory)
    scaled, plain = follow(rule, c * gradients, start), follow(rule, gradients, start)
    torch.testing.assert_close(scaled, c ** (1 - 2 * q) * plain, rtol=1e-8, atol=1e-10)


@any_memory
def test_batches_are_independent_runs_and_a_zero_gradient_does_not_move(memory):
    gradients = torch.stack([stream(1), stream(2)], 1)
    gradients[:, 0, 0] = 0.0
    eta, q = torch.tensor([[0.1], [0.2]]).double(), torch.tensor([[0.5], [1.0]]).double()
    start = stream(3, steps=2)
    together = follow(DiagonalFisher(eta, q, memory=memory), gradients, start)
    for i in range(2):
        alone = follow(DiagonalFisher(eta[i].item(), q[i].item(), memory=memory), gradients[:, i], start[i])
        torch.testing.assert_close(together[:, i], alone, rtol=1e-12, atol=1e-14)
    assert (together[:, 0, 0] == start[0, 0]).all()


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
        lambda: DiagonalFisher(0.1, memory="forever"),
        lambda: DiagonalFisher(-0.1),
        lambda: DiagonalFisher(0.1, exponent=-1.0),
        lambda: DiagonalFisher(0.1, damping=-1e-9),
        lambda: DiagonalFisher(0.1, damping=math.nan),
        lambda: DiagonalFisher(0.1, beta2=1.0),
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
