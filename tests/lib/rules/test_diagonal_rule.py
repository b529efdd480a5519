"""The diagonal empirical-Fisher family against torch.optim and written-out sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learning_dynamics.rules import DiagonalFisher
from learning_dynamics.rules.diagonal_fisher import MEMORIES

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
    rule = DiagonalFisher(lambda k: eta * (k + 1) ** -0.5, q, damping, memory, beta2)
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


@pytest.mark.parametrize(
    "make",
    [
        lambda: DiagonalFisher(0.1, memory="forever"),
        lambda: DiagonalFisher(-0.1),
        lambda: DiagonalFisher(0.1, exponent=-1.0),
        lambda: DiagonalFisher(0.1, damping=-1e-9),
        lambda: DiagonalFisher(0.1, damping=math.nan),
        lambda: DiagonalFisher(0.1, beta2=1.0),
    ],
)
def test_out_of_range_is_an_error(make):
    with pytest.raises(ValueError, match="allowed: "):
        make()
