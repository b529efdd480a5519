"""AntiPGD: against the rule, against the gradient at a shaken point, and what a user does with it."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

from learning_dynamics import optimizers, rules
from learning_dynamics.noise import widening_valley as valley

START = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)


def source(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def run(steps: int, sigma: float = 0.1, decay: float = 0.0) -> tuple[Tensor, optimizers.AntiPGD]:
    theta = START.clone().requires_grad_()
    optimizer = optimizers.AntiPGD([theta], lr=0.05, sigma=sigma, generator=source(), weight_decay=decay)
    for _ in range(steps):
        optimizer.zero_grad()
        valley.loss(theta).backward()
        optimizer.step()
    return theta, optimizer


def test_takes_the_steps_of_the_rule() -> None:
    theta, optimizer = run(30)
    rule = rules.PerturbedGradientDescent(0.05, 0.1, source(), "differenced")
    other, state = START, rule.start(START)
    for _ in range(30):
        other, state = rule.step(other, valley.gradient(other), state)
    assert torch.allclose(theta.detach(), other, atol=1e-13)
    with optimizer.unperturbed():
        assert torch.allclose(theta.detach(), rule.unperturbed(other, state), atol=1e-13)
    assert torch.allclose(theta.detach(), other, atol=1e-13)


def test_the_point_behind_the_kick_descends_with_gradients_at_shaken_points() -> None:
    theta, optimizer = run(20)
    behind, kick, kicks = START, torch.zeros(3, dtype=torch.float64), source()
    for _ in range(20):
        behind = behind - 0.05 * valley.gradient(behind + kick)
        kick = 0.2 * torch.empty(3, dtype=torch.float64).bernoulli_(0.5, generator=kicks) - 0.1
    with optimizer.unperturbed():
        assert torch.allclose(theta.detach(), behind, atol=1e-13)


def test_without_kicks_it_is_sgd() -> None:
    theta, _ = run(20, sigma=0.0, decay=0.3)
    other = START.clone().requires_grad_()
    sgd = torch.optim.SGD([other], lr=0.05, weight_decay=0.3)
    for _ in range(20):
        sgd.zero_grad()
        valley.loss(other).backward()
        sgd.step()
    assert torch.allclose(theta, other, atol=1e-13)


def test_a_run_that_ends_without_kicks_carries_none() -> None:
    theta, optimizer = run(5)
    with optimizer.unperturbed():
        behind = theta.detach().clone()
    optimizer.param_groups[0].update(sigma=0.0, lr=0.0)
    optimizer.step()
    assert torch.allclose(theta.detach(), behind, atol=1e-15)


def test_weights_come_back_after_an_exception() -> None:
    theta, optimizer = run(5)
    before = theta.detach().clone()
    with pytest.raises(RuntimeError), optimizer.unperturbed():
        assert not torch.equal(theta, before)
        raise RuntimeError
    assert torch.equal(theta, before)


def test_goes_on_from_its_state() -> None:
    model = nn.Linear(2, 1)
    optimizer = optimizers.AntiPGD(model.parameters(), lr=0.1, sigma=0.2, generator=source(1))

    def train(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = model(torch.ones(1, 2)).square().mean()
            loss.backward()
            return loss.detach()

        assert float(optimizer.step(closure)) >= 0

    train(model, optimizer)
    twin = copy.deepcopy(model)
    again = optimizers.AntiPGD(twin.parameters(), lr=0.5, sigma=0.0, generator=source(2))
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    again.generator.set_state(optimizer.generator.get_state())
    train(model, optimizer)
    train(twin, again)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), twin.parameters(), strict=True))


def test_parameters_without_a_gradient_stay() -> None:
    a, b = (torch.ones(2, requires_grad=True) for _ in range(2))
    optimizer = optimizers.AntiPGD([a, b], lr=0.1, sigma=0.1, generator=source())
    a.sum().backward()
    optimizer.step()
    assert torch.equal(b.detach(), torch.ones(2)) and not torch.equal(a.detach(), torch.ones(2))
    with optimizer.unperturbed():
        assert torch.allclose(a.detach(), torch.full((2,), 0.9), atol=1e-6)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"lr": -1.0}, "lr = -1.0; allowed"),
        ({"sigma": float("nan")}, "sigma = nan; allowed"),
        ({"weight_decay": -0.1}, "weight_decay = -0.1; allowed"),
        ({"generator": None}, "generator is a NoneType; allowed"),
        ({"params": START}, "params = a Tensor; allowed"),
        ({"params": [START, START]}, "params has a parameter twice; allowed"),
        (
            {"params": [torch.zeros(2, dtype=torch.complex64)]},
            "params has a parameter of dtype torch.complex64; allowed",
        ),
    ],
)
def test_bad_arguments_are_named(bad: dict[str, object], said: str) -> None:
    good: dict[str, object] = {
        "params": [START.clone().requires_grad_()],
        "lr": 0.1,
        "sigma": 0.1,
        "generator": source(),
    }
    with pytest.raises(ValueError, match=said):
        optimizers.AntiPGD(**(good | bad))  # type: ignore[arg-type]


def test_copies_draw_the_same_kicks() -> None:
    weights = START.clone().requires_grad_()
    optimizer = optimizers.AntiPGD([weights], lr=0.1, sigma=0.1, generator=source())
    for other, again in (
        copy.deepcopy(([weights], optimizer)),
        pickle.loads(pickle.dumps(([weights], optimizer))),
    ):
        mine = copy.deepcopy(([weights], optimizer))
        for (w,), each in ((other, again), mine):
            for _ in range(3):
                w.grad = torch.ones_like(w)
                each.step()
        assert torch.equal(other[0], mine[0][0])


def test_what_would_be_ignored_is_refused() -> None:
    weights = START.clone().requires_grad_()
    optimizer = optimizers.AntiPGD([weights], lr=0.1, sigma=0.1, generator=source())
    with pytest.raises(ValueError, match="parameter group has momentum; allowed: lr, params, sigma"):
        optimizer.add_param_group({"params": [torch.zeros(2, requires_grad=True)], "momentum": 0.9})
    with pytest.raises(ValueError, match="closure is a Tensor; allowed: a function"):
        optimizer.step(torch.tensor(1.0))  # type: ignore[arg-type]
    state = optimizer.state_dict()
    state["state"] = {0: {"momentum_buffer": torch.zeros_like(weights)}}
    with pytest.raises(ValueError, match="state has momentum_buffer; allowed for AntiPGD: kick"):
        optimizer.load_state_dict(state)
    with pytest.raises(ValueError, match="a group of the state lacks sigma"):
        optimizer.load_state_dict(torch.optim.SGD([weights], 0.1).state_dict())
