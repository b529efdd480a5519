"""Schedules of momentum against loops by hand and torch, and rules that are called like torch optimizers."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from learning_dynamics import optimizers, rules

STEPS = 12
momenta = st.lists(st.floats(0.05, 0.95), min_size=STEPS, max_size=STEPS)


def gradient(theta: Tensor) -> Tensor:
    """Of the loss sum of cosh and a quadratic, neither of which is symmetric in the coordinates."""
    scale = torch.arange(1, theta.shape[-1] + 1, dtype=theta.dtype)
    return torch.sinh(theta / 2) + scale * theta / 3


def loss(theta: Tensor) -> Tensor:
    scale = torch.arange(1, theta.shape[-1] + 1, dtype=theta.dtype)
    return (2 * torch.cosh(theta / 2) + scale * theta**2 / 6).sum(-1)


def start() -> Tensor:
    return torch.tensor([1.0, -0.7, 0.4], dtype=torch.float64)


def path(rule: Any, steps: int = STEPS) -> Tensor:
    theta = start()
    state, seen = rule.start(theta), [theta]
    for _ in range(steps):
        own = (loss(theta),) if getattr(rule, "needs_loss", False) else ()
        theta, state = rule.step(theta, gradient(theta), state, *own)
        seen.append(theta)
    return torch.stack(seen)


def eta(k: int) -> float:
    return 0.2 / (k + 1) ** 0.5


@given(momenta)
def test_heavy_ball_and_nesterov_by_hand(values: list[float]) -> None:
    ball, accelerated = (
        path(rules.HeavyBall(eta, values.__getitem__)),
        path(rules.Nesterov(eta, values.__getitem__)),
    )
    before, now = start(), start()
    arrived, point = start(), start()
    for k in range(STEPS):
        before, now = now, now - eta(k) * gradient(now) + values[k] * (now - before)
        torch.testing.assert_close(ball[k + 1], now, rtol=1e-12, atol=1e-14)
        here = point - eta(k) * gradient(point)
        point, arrived = here + values[k] * (here - arrived), here
        torch.testing.assert_close(accelerated[k + 1], point, rtol=1e-12, atol=1e-14)


@given(momenta, st.booleans())
def test_sgd_is_torchs_with_a_scheduler(values: list[float], nesterov: bool) -> None:
    found = path(rules.SGD(eta, values.__getitem__, nesterov=nesterov))
    parameter = nn.Parameter(start())
    optimizer = torch.optim.SGD([parameter], lr=1.0, momentum=0.5, nesterov=nesterov)
    for k in range(STEPS):
        optimizer.param_groups[0] |= {"lr": eta(k), "momentum": values[k]}
        parameter.grad = gradient(parameter.detach())
        optimizer.step()
        torch.testing.assert_close(found[k + 1], parameter.detach(), rtol=1e-12, atol=1e-14)


@given(momenta)
def test_ngn_with_momentum_by_hand(values: list[float]) -> None:
    found = path(rules.NGN(lambda k: 3.0 / (k + 1), values.__getitem__))
    before, now = start(), start()
    for k in range(STEPS):
        g, cap = gradient(now), 3.0 / (k + 1)
        step = cap / (1 + cap * g.square().sum() / (2 * loss(now)))
        before, now = now, now - (1 - values[k]) * step * g + values[k] * (now - before)
        torch.testing.assert_close(found[k + 1], now, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("rule", "largest"), [(rules.Adam, False), (rules.AMSGrad, True)])
@given(momenta)
def test_adam_weighs_the_gradients_so_that_they_sum_to_one(
    rule: Any, largest: bool, values: list[float]
) -> None:
    """The corrected mean written out: each gradient has 1 - beta_j times the later betas, over the sum of all these."""
    found = path(rule(eta, values.__getitem__, beta2=0.9))
    gradients, theta, v, top = (
        [],
        start(),
        torch.zeros(3, dtype=torch.float64),
        torch.zeros(3, dtype=torch.float64),
    )
    for k in range(STEPS):
        gradients.append(gradient(theta))
        later = [torch.tensor(values[j + 1 : k + 1], dtype=torch.float64).prod() for j in range(k + 1)]
        weights = torch.stack([(1 - values[j]) * later[j] for j in range(k + 1)])
        mean = (weights[:, None] * torch.stack(gradients)).sum(0) / weights.sum()
        v = 0.9 * v + 0.1 * gradients[-1] ** 2
        top = torch.maximum(top, v)
        root = ((top if largest else v) / (1 - 0.9 ** (k + 1))).sqrt()
        theta = theta - eta(k) * mean / (root + 1e-8)
        torch.testing.assert_close(found[k + 1], theta, rtol=1e-9, atol=1e-10)


WITH_MOMENTUM: dict[str, Callable[[Any], Any]] = {
    "HeavyBall": lambda m: rules.HeavyBall(0.1, m),
    "Nesterov": lambda m: rules.Nesterov(0.1, m),
    "SGD": lambda m: rules.SGD(0.1, m, dampening=0.2),
    "NGN": lambda m: rules.NGN(2.0, m),
    "Adam": lambda m: rules.Adam(0.1, m),
    "AMSGrad": lambda m: rules.AMSGrad(0.1, m),
}
with_momentum = pytest.mark.parametrize("make", WITH_MOMENTUM.values(), ids=WITH_MOMENTUM)


@with_momentum
def test_a_constant_schedule_is_the_constant_and_another_is_not(make: Callable[[Any], Any]) -> None:
    constant, scheduled = path(make(0.8)), path(make(lambda k: 0.8))
    torch.testing.assert_close(constant, scheduled, rtol=1e-12, atol=1e-14)
    assert (path(make(lambda k: 0.8 if k < 3 else 0.2)) - constant).abs().max() > 1e-3


@with_momentum
def test_a_schedule_may_return_a_grid(make: Callable[[Any], Any]) -> None:
    grid, theta = torch.tensor([[0.3], [0.8]], dtype=torch.float64), start().expand(2, -1)
    rule = make(lambda k: grid / (k + 1))
    state = rule.start(theta)
    for _ in range(4):
        own = (loss(theta),) if getattr(rule, "needs_loss", False) else ()
        theta, state = rule.step(theta, gradient(theta), state, *own)
    alone = [path(make(lambda k, beta=beta: beta / (k + 1)), 4)[-1] for beta in (0.3, 0.8)]
    torch.testing.assert_close(theta, torch.stack(alone), rtol=1e-12, atol=1e-14)


@with_momentum
def test_a_schedule_with_a_coordinate_axis_is_refused(make: Callable[[Any], Any]) -> None:
    with pytest.raises(ValueError, match=r"(momentum|beta1) has shape \(3,\)"):
        path(make(lambda k: torch.full((3,), 0.5)), 1)


TWINS = {
    "AMSGrad": "torch.optim.Adam, with amsgrad=True",
    "AdaGrad": "torch.optim.Adagrad",
    "AdaGradNorm": "learning_dynamics.optimizers.AdaGradNorm",
    "Adam": "torch.optim.Adam",
    "Averaged": "torch.optim.swa_utils.AveragedModel",
    "DecSPS": "learning_dynamics.optimizers.DecSPS",
    "DiagonalFisher": "torch.optim.RMSprop, for the exponent 1/2",
    "GradientDescent": "torch.optim.SGD",
    "HeavyBall": "torch.optim.SGD, with momentum",
    "NGN": "learning_dynamics.optimizers.NGN",
    "Nesterov": "torch.optim.SGD, with nesterov=True",
    "RMSprop": "torch.optim.RMSprop",
    "Restarted": "torch.optim.SGD, with nesterov=True",
    "RunningAverage": "torch.optim.swa_utils.AveragedModel",
    "SGD": "torch.optim.SGD",
    "SPS": "learning_dynamics.optimizers.SPS",
    "TailAverage": "torch.optim.swa_utils.AveragedModel",
}
NO_TWIN = {  # torch has no such optimizer
    "GradientMemory",
    "HeavyBallPhase",
    "Perturbed",
    "PerturbedGradientDescent",
    "PhaseState",
    "PolynomialMemory",
    "ScheduleFree",
}
MODEL = nn.Linear(2, 1)
HANDED = {
    "generator": lambda rule: rule(MODEL.parameters()),
    "named": lambda rule: rule(MODEL.named_parameters()),
    "list": lambda rule: rule([*MODEL.parameters()]),
    "parameter": lambda rule: rule(MODEL.weight),
    "groups": lambda rule: rule([{"params": MODEL.parameters()}]),
    "module": lambda rule: rule(MODEL),
    "with lr": lambda rule: rule(MODEL.parameters(), lr=0.1),
    "params": lambda rule: rule(params=MODEL.parameters(), lr=0.1),
}


def test_every_rule_is_told_apart() -> None:
    classes = {name for name in rules.__all__ if isinstance(getattr(rules, name), type)}
    assert classes - {"LossRule", "Rule"} - NO_TWIN == set(TWINS)


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("call", HANDED.values(), ids=HANDED)
def test_a_rule_that_is_handed_parameters_says_where_the_torch_class_is(name: str, call: Any) -> None:
    with pytest.raises(ValueError) as told:
        call(getattr(rules, name))
    message = str(told.value)
    assert message.endswith(f"the class that takes parameters is {TWINS[name]}") and "\n" not in message
    assert " = a " in message and "; allowed: " in message
    room, _, attribute = TWINS[name].split(",")[0].rpartition(".")
    module = __import__(room, fromlist=[attribute])
    assert isinstance(getattr(module, attribute), type)


def test_torchs_name_of_the_step_size_is_explained() -> None:
    with pytest.raises(ValueError, match=r"lr = 0\.1; allowed: the name step_size; .*torch\.optim\.Adam$"):
        rules.Adam(lr=0.1)
    with pytest.raises(ValueError, match=r"lr = 0\.1; allowed: the name cap"):
        rules.NGN(lr=0.1)
    with pytest.raises(TypeError, match="betas"):
        rules.Adam(0.1, betas=(0.9, 0.99))


def test_a_mean_of_what_is_no_rule_is_refused() -> None:
    for wrong, kind in (
        (0.1, "a float"),
        (rules.Adam, "the class Adam"),
        (torch.optim.SGD(MODEL.parameters()), "a SGD"),
    ):
        for mean in (rules.Averaged, rules.RunningAverage, rules.TailAverage):
            with pytest.raises(ValueError, match=f"rule = {kind}; allowed: a rule"):
                mean(wrong)


def test_rules_keep_their_signatures_and_can_be_pickled() -> None:
    assert [*inspect.signature(rules.HeavyBall).parameters] == ["step_size", "momentum"]
    assert [*inspect.signature(rules.NGN).parameters] == ["cap", "momentum", "lower_bound"]
    again = pickle.loads(pickle.dumps(rules.Adam(0.3, beta2=0.5)))
    assert (again.step_size, again.beta1, again.beta2) == (0.3, 0.9, 0.5)


@pytest.mark.parametrize("name", ["NGN", "SPS", "DecSPS", "AdaGradNorm"])
@pytest.mark.parametrize("value", [0.1, 3, None, lambda k: 0.1, torch.tensor([[0.1]]), MODEL])
def test_a_torch_optimizer_that_is_handed_no_parameters_says_where_the_rule_is(name: str, value: Any) -> None:
    with pytest.raises(ValueError) as told:
        getattr(optimizers, name)(value)
    message = str(told.value)
    assert message.startswith("params = ") and "; allowed: parameters" in message and "\n" not in message
    assert message.endswith(f"learning_dynamics.rules.{name}") and hasattr(rules, name)
