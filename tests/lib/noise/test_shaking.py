"""Shaken weights: exact restoration, the law of the noise, any optimizer, and the functional twin."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from learning_dynamics import ensembles, rules
from learning_dynamics.noise import shaking

F64 = torch.float64


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def net() -> nn.Sequential:
    torch_state = torch.random.get_rng_state()
    torch.manual_seed(3)
    made = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.LayerNorm(5), nn.Linear(5, 2)).to(F64)
    torch.random.set_rng_state(torch_state)
    return made


def weights(model: nn.Module) -> list[Tensor]:
    return [p.detach().clone() for p in model.parameters()]


@pytest.mark.parametrize("layers", shaking.LAYERS)
def test_weights_come_back_exactly(layers: str) -> None:
    model, source = net(), generator()
    before = weights(model)
    for _ in range(5):
        with shaking.shaken(model, 0.3, layers=layers, generator=source):
            assert any((p != q).any() for p, q in zip(model.parameters(), before, strict=True))
        assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))


def test_weights_come_back_after_an_exception() -> None:
    model = net()
    before = weights(model)
    with pytest.raises(KeyError), shaking.shaken(model, 0.3, generator=generator()):
        raise KeyError("in the block")
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))
    with pytest.raises(KeyboardInterrupt), shaking.shaken(model, 0.3, layers="one", generator=generator()):
        raise KeyboardInterrupt
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))


def test_an_infinite_weight_in_the_block_is_put_back_too() -> None:
    model = net()
    before = weights(model)
    with shaking.shaken(model, 0.3, generator=generator()), torch.no_grad():
        next(model.parameters()).fill_(math.inf)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))


def test_one_layer_moves_by_the_root_of_their_number() -> None:
    model, source = net(), generator(1)
    before = weights(model)
    sums, counts = torch.zeros(3, dtype=F64), torch.zeros(3)
    for _ in range(600):
        with shaking.shaken(model, 0.1, layers="one", generator=source):
            moved = [p.detach() - q for p, q in zip(model.parameters(), before, strict=True)]
        sizes = [torch.cat([moved[i].flatten(), moved[i + 1].flatten()]) for i in (0, 2, 4)]
        hit = [bool(each.any()) for each in sizes]
        assert sum(hit) == 1
        counts[hit.index(True)] += 1
        sums[hit.index(True)] += sizes[hit.index(True)].square().mean()
    assert ((counts / 600 - 1 / 3).abs() < 0.07).all()
    torch.testing.assert_close(sums / counts, torch.full((3,), 0.03, dtype=F64), rtol=0.15, atol=0)


def test_layers_of_shares_and_freezes() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3), nn.ReLU())
    model[2].weight = model[0].weight  # tied
    model[1].requires_grad_(False)
    layers = shaking.layers_of(model)
    assert [[tuple(p.shape) for p in layer] for layer in layers] == [[(3, 3), (3,)], [(3,)]]
    with pytest.raises(ValueError, match="nothing to train"):
        shaking.layers_of(nn.ReLU())


def test_frozen_weights_are_not_shaken() -> None:
    model = net()
    model[0].requires_grad_(False)
    before = weights(model)
    with shaking.shaken(model, 1.0, generator=generator()):
        assert torch.equal(model[0].weight, before[0])
        assert not torch.equal(model[3].weight, before[4])


@pytest.mark.parametrize("make", [
    lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    lambda p: torch.optim.Adam(p, 0.01),
    lambda p: torch.optim.AdamW(p, 0.01),
])  # fmt: skip
def test_any_optimizer_steps_from_the_resting_weights(make: object) -> None:
    x, y = (
        torch.randn(8, 4, dtype=F64, generator=generator(5)),
        torch.randn(8, 2, dtype=F64, generator=generator(6)),
    )
    model, twin = net(), net()
    ours, theirs = make(model.parameters()), make(twin.parameters())  # type: ignore[operator]
    source, same = generator(2), generator(2)
    for _ in range(4):
        ours.zero_grad()
        with shaking.shaken(model, 0.2, generator=source):
            (model(x) - y).square().mean().backward()
        ours.step()
        shifted = net()
        shifted.load_state_dict(twin.state_dict())
        with torch.no_grad():
            for p in shifted.parameters():
                p.add_(0.2 * torch.randn(p.shape, dtype=F64, generator=same))
        (shifted(x) - y).square().mean().backward()
        for p, q in zip(twin.parameters(), shifted.parameters(), strict=True):
            p.grad = q.grad
        theirs.step()
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-12, atol=1e-14)


def test_lbfgs_with_the_block_in_its_closure() -> None:
    model, x = net(), torch.randn(8, 4, dtype=F64, generator=generator(5))
    optimizer = torch.optim.LBFGS(model.parameters(), 0.1, max_iter=3)

    def closure() -> Tensor:
        optimizer.zero_grad()
        with shaking.shaken(model, 0.01, layers="one", generator=generator(4)):
            loss = model(x).square().mean()
            loss.backward()
        return loss

    first = optimizer.step(closure).detach()
    assert closure().detach() < first


def test_a_backward_pass_after_the_block_is_refused_by_torch() -> None:
    model, x = net(), torch.randn(8, 4, dtype=F64, generator=generator(5))
    with shaking.shaken(model, 0.2, generator=generator()):
        loss = model(x).square().mean()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_no_noise_is_no_change() -> None:
    model = net()
    before = weights(model)
    with shaking.shaken(model, 0.0, generator=generator()):
        assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))


@pytest.mark.parametrize("sigma, layers, word", [
    (-1.0, "all", "sigma = -1.0"), (math.nan, "all", "sigma = nan"), (True, "all", "sigma = True"),
    (0.1, "two", "layers = 'two'"),
])  # fmt: skip
def test_bad_arguments(sigma: float, layers: str, word: str) -> None:
    with (
        pytest.raises(ValueError, match=word),
        shaking.shaken(net(), sigma, layers=layers, generator=generator()),
    ):
        pass
    with pytest.raises(ValueError, match="generator"), shaking.shaken(net(), 0.1, generator=None):  # type: ignore[arg-type]
        pass


def test_the_functional_twin_draws_the_same_law() -> None:
    seen: list[Tensor] = []

    def gradient(theta: Tensor, k: int) -> Tensor:
        seen.append(theta)
        return torch.zeros_like(theta)

    start = torch.zeros(4000, 5, dtype=F64)
    rule = rules.GradientDescent(0.1)
    ensembles.iterate(rule, shaking.shaken_gradient(gradient, 0.3, generator=generator()), start, 1)
    torch.testing.assert_close(seen[0].square().mean(0), torch.full((5,), 0.09, dtype=F64), rtol=0.1, atol=0)
    one = shaking.shaken_gradient(gradient, 0.3, generator=generator(), blocks=(2, 3))
    ensembles.iterate(rule, one, start, 1)
    first, second = (seen[1][:, :2] != 0).all(-1), (seen[1][:, 2:] != 0).all(-1)
    assert (first ^ second).all() and abs(float(first.double().mean()) - 0.5) < 0.05
    torch.testing.assert_close(seen[1].square().mean(0), torch.full((5,), 0.09, dtype=F64), rtol=0.15, atol=0)


def test_every_run_has_its_own_sigma() -> None:
    sigma = torch.tensor([[0.0], [1.0]], dtype=F64)
    asked = shaking.shaken_gradient(lambda theta, k: theta, sigma, generator=generator())
    found = asked(torch.zeros(2, 3, dtype=F64), 0)
    assert (found[0] == 0).all() and (found[1] != 0).all()


def test_bad_arguments_of_the_twin() -> None:
    def gradient(theta: Tensor, k: int) -> Tensor:
        return theta

    with pytest.raises(ValueError, match="blocks = 0"):
        shaking.shaken_gradient(gradient, 0.1, generator=generator(), blocks=(0, 5))
    with pytest.raises(ValueError, match="sigma has entries"):
        shaking.shaken_gradient(gradient, torch.tensor([[-1.0]]), generator=generator())
    with pytest.raises(ValueError, match="sigma = -1"):
        shaking.shaken_gradient(gradient, -1.0, generator=generator())
    asked = shaking.shaken_gradient(gradient, 0.1, generator=generator(), blocks=(2, 2))
    with pytest.raises(ValueError, match="add up to 5"):
        asked(torch.zeros(1, 5), 0)
