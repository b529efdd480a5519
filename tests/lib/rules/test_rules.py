"""The update rules against torch.optim, and what must hold for any of them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from learning_dynamics import rules

seeds = st.integers(0, 10_000)
step_sizes = st.floats(1e-4, 0.2)
momenta = st.floats(0.0, 0.99)
decays = st.floats(0.0, 0.999)

RULES = {
    "gradient_descent": lambda eta: rules.GradientDescent(eta),
    "heavy_ball": lambda eta: rules.HeavyBall(eta, 0.8),
    "nesterov": lambda eta: rules.Nesterov(eta, 0.8),
    "sgd": lambda eta: rules.SGD(eta, 0.8, dampening=0.3, weight_decay=0.01),
    "rmsprop": lambda eta: rules.RMSprop(eta),
    "adam": lambda eta: rules.Adam(eta),
}
any_rule = pytest.mark.parametrize("make", RULES.values(), ids=RULES)


def problem(seed: int, d: int = 6):
    """A smooth loss that is not quadratic, its gradient, and a start."""
    random = torch.Generator().manual_seed(seed)
    X = torch.randn(9, d, generator=random, dtype=torch.float64) / d**0.5
    y = torch.randn(9, generator=random, dtype=torch.float64)

    def gradient(theta: Tensor) -> Tensor:
        residual = theta @ X.T - y
        return torch.tanh(residual) @ X + 0.1 * torch.sin(theta)

    return gradient, torch.randn(d, generator=random, dtype=torch.float64)


def ours(rule, gradient, theta: Tensor, steps: int) -> Tensor:
    state, path = rule.start(theta), [theta]
    for _ in range(steps):
        theta, state = rule.step(theta, gradient(theta), state)
        path.append(theta)
    return torch.stack(path)


def assert_same(rule, make, seed: int, steps: int = 60, schedule=None) -> None:
    """Hold a rule against a torch optimizer, both given the gradients along torch's path.

    (Each on its own gradients, sign-like rules such as Adam with small decays amplify rounding without bound.)
    """
    gradient, start = problem(seed)
    theta, state = start, rule.start(start)
    parameter = torch.nn.Parameter(start.clone())
    optimizer = make([parameter])
    for k in range(steps):
        if schedule is not None:
            optimizer.param_groups[0]["lr"] = schedule(k)
        parameter.grad = gradient(parameter.detach())
        theta, state = rule.step(theta, parameter.grad, state)
        optimizer.step()
        torch.testing.assert_close(theta, parameter.detach(), rtol=1e-12, atol=1e-12)


@given(seeds, step_sizes)
def test_gradient_descent_is_torchs(seed, eta):
    assert_same(rules.GradientDescent(eta), lambda p: torch.optim.SGD(p, lr=eta), seed)


@given(seeds, step_sizes, momenta)
def test_heavy_ball_is_torchs_momentum(seed, eta, beta1):
    assert_same(rules.HeavyBall(eta, beta1), lambda p: torch.optim.SGD(p, lr=eta, momentum=beta1), seed)


@given(seeds, step_sizes, st.floats(0.01, 0.99))
def test_nesterov_is_torchs(seed, eta, beta1):
    assert_same(
        rules.Nesterov(eta, beta1),
        lambda p: torch.optim.SGD(p, lr=eta, momentum=beta1, nesterov=True),
        seed,
    )


@given(seeds, step_sizes, st.floats(0.01, 0.99), st.floats(0, 1), st.floats(0, 0.3), st.booleans())
def test_sgd_is_torchs(seed, eta, beta1, tau, decay, nesterov):
    tau = 0.0 if nesterov else tau
    options = {"momentum": beta1, "dampening": tau, "weight_decay": decay, "nesterov": nesterov}
    assert_same(rules.SGD(eta, **options), lambda p: torch.optim.SGD(p, lr=eta, **options), seed)


def test_sgd_without_momentum_is_torchs():
    assert_same(rules.SGD(0.1, weight_decay=0.2), lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.2), 3)


@given(seeds, step_sizes, decays, st.floats(1e-10, 1e-2))
def test_rmsprop_is_torchs(seed, eta, beta2, epsilon):
    assert_same(
        rules.RMSprop(eta, beta2, epsilon),
        lambda p: torch.optim.RMSprop(p, lr=eta, alpha=beta2, eps=epsilon),
        seed,
    )


@given(seeds, step_sizes, decays, decays, st.floats(1e-10, 1e-2))
def test_adam_is_torchs(seed, eta, beta1, beta2, epsilon):
    assert_same(
        rules.Adam(eta, beta1, beta2, epsilon),
        lambda p: torch.optim.Adam(p, lr=eta, betas=(beta1, beta2), eps=epsilon),
        seed,
    )


def test_defaults_are_torchs():
    assert_same(rules.Adam(), torch.optim.Adam, 0)
    assert_same(rules.RMSprop(), torch.optim.RMSprop, 0)


@pytest.mark.parametrize(
    ("rule", "make"),
    [
        (rules.SGD, lambda p: torch.optim.SGD(p, lr=1.0, momentum=0.7)),
        (rules.Adam, lambda p: torch.optim.Adam(p, lr=1.0)),
        (rules.RMSprop, lambda p: torch.optim.RMSprop(p, lr=1.0)),
    ],
)
def test_schedule_is_torchs(rule, make):
    def schedule(k: int) -> float:
        return 0.1 / (1 + k) ** 0.5

    options = {"momentum": 0.7} if rule is rules.SGD else {}
    assert_same(rule(schedule, **options), make, 5, schedule=schedule)


def test_heavy_ball_keeps_the_step_size_of_a_past_gradient():
    """Its formula by hand, under a schedule, where torch's buffer would differ."""
    gradient, theta = problem(1)
    path = ours(rules.HeavyBall(lambda k: 0.1 / (k + 1), 0.5), gradient, theta, 3)
    for k in (1, 2):
        expected = path[k] - 0.1 / (k + 1) * gradient(path[k]) + 0.5 * (path[k] - path[k - 1])
        torch.testing.assert_close(path[k + 1], expected, rtol=1e-14, atol=1e-14)
    buffered = ours(rules.SGD(lambda k: 0.1 / (k + 1), 0.5), gradient, theta, 3)
    assert (path[2] - buffered[2]).abs().max() > 1e-3


def test_nesterov_state_holds_the_gradient_steps():
    gradient, theta = problem(2)
    rule = rules.Nesterov(0.1, 0.9)
    first, state = rule.step(theta, gradient(theta), rule.start(theta))
    torch.testing.assert_close(state.memory, theta - 0.1 * gradient(theta))
    second, later = rule.step(first, gradient(first), state)
    torch.testing.assert_close(second, later.memory + 0.9 * (later.memory - state.memory))


@any_rule
def test_a_grid_of_step_sizes_is_a_batch_axis(make):
    gradient, theta = problem(4)
    grid = torch.tensor([0.0, 0.01, 0.1], dtype=torch.float64)
    together = ours(make(grid[:, None]), gradient, theta.expand(3, -1), 30)
    alone = torch.stack([ours(make(float(eta)), gradient, theta, 30) for eta in grid], 1)
    torch.testing.assert_close(together, alone, rtol=1e-12, atol=1e-12)


def test_every_hyperparameter_may_be_a_grid():
    gradient, theta = problem(6)
    low, high = 0.3, 0.9

    def grid() -> Tensor:
        return torch.tensor([[low], [high]], dtype=torch.float64)

    for make in (
        lambda b: rules.HeavyBall(0.1, b),
        lambda b: rules.Nesterov(0.1, b),
        lambda b: rules.SGD(0.1, b, b, b),
        lambda b: rules.RMSprop(0.1, b, b),
        lambda b: rules.Adam(0.1, b, b, b),
    ):
        together = ours(make(grid()), gradient, theta.expand(2, -1), 20)
        alone = torch.stack([ours(make(b), gradient, theta, 20) for b in (low, high)], 1)
        torch.testing.assert_close(together, alone, rtol=1e-12, atol=1e-12)


@any_rule
def test_float32_stays_float32_and_nothing_is_changed_in_place(make):
    theta = torch.ones(2, 3)
    gradient = torch.full((2, 3), 0.5)
    rule = make(torch.tensor([[0.1], [0.2]], dtype=torch.float64))
    state = rule.start(theta)
    for _ in range(2):
        moved, state = rule.step(theta, gradient, state)
    assert moved.dtype == torch.float32 and moved.shape == theta.shape
    assert theta.eq(1).all() and gradient.eq(0.5).all()
    assert state.step == 2


@any_rule
@pytest.mark.parametrize(
    "bad", [-0.1, float("nan"), float("inf"), "0.1", torch.tensor([[0.1], [-1.0]]), torch.tensor([0.1, 0.2])]
)
def test_a_bad_step_size_is_refused(make, bad):
    with pytest.raises(ValueError, match=r"step_size (.|\n)*allowed: "):
        make(bad)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: rules.HeavyBall(0.1, -0.1), "momentum = -0.1"),
        (lambda: rules.Nesterov(0.1, float("inf")), "momentum = inf"),
        (lambda: rules.SGD(0.1, 0.9, dampening=1.5), "dampening = 1.5"),
        (lambda: rules.SGD(0.1, dampening=0.5), "dampening = 0.5"),
        (lambda: rules.SGD(0.1, 0.9, dampening=0.5, nesterov=True), "dampening = 0.5"),
        (lambda: rules.SGD(0.1, weight_decay=-1.0), "weight_decay = -1.0"),
        (lambda: rules.RMSprop(beta2=1.0), "beta2 = 1.0"),
        (lambda: rules.RMSprop(epsilon=-1.0), "epsilon = -1.0"),
        (lambda: rules.Adam(beta1=1.0), "beta1 = 1.0"),
        (lambda: rules.Adam(beta2=-0.5), "beta2 = -0.5"),
        (lambda: rules.Adam(epsilon=float("nan")), "epsilon = nan"),
    ],
)
def test_bad_hyperparameters_are_refused(make, name):
    with pytest.raises(ValueError, match=f"{name}.*allowed: "):
        make()


def test_a_schedule_with_a_coordinate_axis_is_refused():
    rule = rules.GradientDescent(lambda k: torch.tensor([0.1, 0.2]))
    theta = torch.ones(2, 2)
    with pytest.raises(ValueError, match="step_size has shape"):
        rule.step(theta, theta, rule.start(theta))
