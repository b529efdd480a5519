"""Deep networks of the chapter vanishing_curvature: gradients, starts and the ensemble against single runs."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from learning_dynamics.experiments.vanishing_curvature import deep_training as deep


def by_modules(model: deep.DeepNetworks, theta: torch.Tensor) -> list[nn.Linear]:
    """The layers of one network as torch modules."""
    first, hidden, last = (part[0] for part in model.weights(theta[None]))
    layers = []
    for weight in (first, *hidden, last):
        layer = nn.Linear(*weight.shape, bias=False)
        layer.weight.data = weight.T.contiguous()
        layers.append(layer)
    return layers


@pytest.mark.parametrize("residual", [False, True])
def test_losses_and_gradients_against_modules(residual: bool) -> None:
    model = deep.DeepNetworks(8, 4, residual=residual)
    x, y = deep.digits()
    thetas = torch.stack([model.start(seed) for seed in (0, 1)])
    rows = torch.arange(20).reshape(2, 10)
    losses, slopes = model.gradient(thetas, x[rows], y[rows])
    for run, theta in enumerate(thetas):
        layers = by_modules(model, theta)
        h = layers[0](x[rows[run]]).relu()
        for layer in layers[1:-1]:
            h = h + layer(h).relu() / math.sqrt(4) if residual else layer(h).relu()
        loss = cross_entropy(layers[-1](h), y[rows[run]])
        loss.backward()
        slope = torch.cat([layer.weight.grad.T.flatten() for layer in layers])
        torch.testing.assert_close(losses[run], loss.detach())
        torch.testing.assert_close(slopes[run], slope, rtol=1e-4, atol=1e-6)


def test_convolutional_losses_and_gradients_against_modules() -> None:
    model = deep.ConvolutionalNetworks(3, 4)
    x, y = deep.digits()
    thetas = torch.stack([model.start(seed) for seed in (0, 1)])
    rows = torch.arange(20).reshape(2, 10)
    losses, slopes = model.gradient(thetas, x[rows], y[rows])
    for run, theta in enumerate(thetas):
        first, hidden, last = (part[0] for part in model.weights(theta[None]))
        layers = [nn.AvgPool2d(2)]
        for weight in (first, *hidden):
            layer = nn.Conv2d(weight.shape[1], weight.shape[0], 3, padding=1, bias=False)
            layer.weight.data = weight.clone()
            layers += [layer, nn.ReLU()]
        end = nn.Linear(*last.shape, bias=False)
        end.weight.data = last.T.clone()
        network = nn.Sequential(*layers, nn.Flatten(), end)
        loss = cross_entropy(network(x[rows[run]].view(-1, 1, 8, 8)), y[rows[run]])
        loss.backward()
        kernels = [layer.weight.grad.flatten() for layer in layers if isinstance(layer, nn.Conv2d)]
        slope = torch.cat([*kernels, end.weight.grad.T.flatten()])
        torch.testing.assert_close(losses[run], loss.detach())
        torch.testing.assert_close(slopes[run], slope, rtol=1e-4, atol=1e-6)
    spread = deep.ConvolutionalNetworks(4, 32)
    first, hidden, last = spread.weights(spread.start(0)[None])
    for part, variance in ((first, 2 / 9), (hidden, 2 / 36), (last, 1 / 64)):
        assert part.var().item() == pytest.approx(variance, rel=0.4)


def test_start_has_he_variances_and_rescaling_keeps_the_signal() -> None:
    model = deep.DeepNetworks(16, 32)
    theta, (x, _) = model.start(0), deep.digits()
    first, hidden, last = model.weights(theta[None])
    for part, variance in ((first, 2 / 64), (hidden, 2 / 16), (last, 1 / 16)):
        assert part.var().item() == pytest.approx(variance, rel=0.3)
    kept = model.rescaled(theta, x[:256])
    size = model.features(kept[None], x[None, :256]).square().sum()
    assert size.item() == pytest.approx(torch.relu(x[:256] @ first[0]).square().sum().item(), rel=1e-3)
    assert model.features(theta[None], x[None, :256]).square().sum() < size / 2


def test_a_run_does_not_see_the_others_and_stops_where_asked() -> None:
    both = deep.train("plain", 8, 4, [3, 4], steps=40, stop=4)
    alone = deep.train("plain", 8, 4, [4], steps=40, stop=4)
    assert both["records"].tolist() == [0, 2, 4]
    assert both["losses"].shape == (len(deep.SETTINGS["plain"]), 2, 3)
    torch.testing.assert_close(both["losses"][:, 1:], alone["losses"], rtol=1e-3, atol=1e-4)
    assert (both["losses"][:, 0, 0] == both["losses"][0, 0, 0]).all()


def test_the_step_size_falls_to_zero_and_the_wide_network_has_its_own_settings() -> None:
    rule = deep.rule_of(deep.Setting("sgd", 0.5), 10)
    theta, slope = torch.zeros(1, 2), torch.ones(1, 2)
    state = rule.start(theta)
    for k in range(10):
        moved, state = rule.step(theta, slope, state)
        torch.testing.assert_close(moved, -0.5 * (1 - k / 10) * slope)
    assert deep.settings_of("plain", 64) == deep.WIDE
    assert deep.settings_of("plain", 16) == deep.SETTINGS["plain"]
