"""Mean loss and gradient noise of a shaken two-layer linear network, against exact product rules."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.func import grad, vmap

from learning_dynamics.noise import smoothing
from learning_dynamics.noise import two_layer_linear as net

F64 = torch.float64


def problem(n: int, d_x: int, m: int, d_y: int, seed: int) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=F64, generator=generator)

    return normal(n, d_x), normal(n, d_y), normal(m, d_x), normal(d_y, m)


@pytest.mark.parametrize("d_y", [1, 2])
def test_mean_loss_is_loss_and_penalty_and_constant(d_y: int) -> None:
    X, Y, W1, W2 = problem(5, 2, 2, d_y, 0)
    theta, cut = torch.cat([W1.flatten(), W2.flatten()]), W1.numel()

    def loss(t: Tensor) -> Tensor:
        outputs = X @ t[:, :cut].reshape(-1, 2, 2).mT @ t[:, cut:].reshape(-1, d_y, 2).mT
        return (Y - outputs).square().sum((-2, -1)) / 10

    S = X.T @ X / 5
    mean = smoothing.smoothed(loss, theta, 0.7, nodes=2)
    parts = loss(theta[None])[0] + net.penalty(W1, W2, S, 0.7)
    torch.testing.assert_close(mean, parts + net.constant(2, d_y, S, 0.7))
    first = smoothing.smoothed(
        lambda t: loss(torch.cat([t, W2.flatten().expand(len(t), -1)], -1)),
        W1.flatten(),
        math.sqrt(2) * 0.7,
        nodes=2,
    )
    second = smoothing.smoothed(
        lambda t: loss(torch.cat([W1.flatten().expand(len(t), -1), t], -1)),
        W2.flatten(),
        math.sqrt(2) * 0.7,
        nodes=2,
    )
    torch.testing.assert_close((first + second) / 2, parts)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("m", "d_x"), [(2, 2), (1, 2), (3, 1)])
def test_gradient_noise_is_exact(m: int, d_x: int, seed: int) -> None:
    X, _, W1, W2 = problem(5, d_x, m, 1, seed)
    a, sigma, cut = W2[0], 0.6, W1.numel()
    y, S, theta = X @ W1.T @ a, X.T @ X / 5, torch.cat([W1.flatten(), a])

    def loss(t: Tensor) -> Tensor:
        return (y - X @ t[:cut].reshape(m, d_x).T @ t[cut:]).square().sum() / 10

    def second_moment(t: Tensor) -> Tensor:  # gradient and its squared length
        g = vmap(grad(loss))(t)
        return torch.cat([g, g.square().sum(-1, keepdim=True)], -1)

    found = smoothing.smoothed(second_moment, theta, sigma, nodes=3)
    exact = found[-1] - found[:-1].square().sum()
    torch.testing.assert_close(net.gradient_noise(W1, a, S, sigma), exact, rtol=1e-10, atol=0)
    std = math.sqrt(2) * sigma
    one = (
        smoothing.smoothed(
            lambda t: second_moment(torch.cat([t, a.expand(len(t), -1)], -1)), W1.flatten(), std
        )
        + smoothing.smoothed(
            lambda t: second_moment(torch.cat([W1.flatten().expand(len(t), -1), t], -1)), a, std
        )
    ) / 2
    exact = one[-1] - one[:-1].square().sum()
    torch.testing.assert_close(net.gradient_noise(W1, a, S, sigma, layers="one"), exact, rtol=1e-10, atol=0)


def test_leading_terms_in_the_width() -> None:
    S = torch.diag(torch.tensor([2.0, 0.5], dtype=F64))
    m, sigma = 10_000_000, 0.1
    W1, a = torch.zeros(1, 2, dtype=F64), torch.zeros(1, dtype=F64)
    assert float(net.gradient_noise(W1, a, S, sigma, layers="one")) == 0
    wide = torch.zeros(4000, 2, dtype=F64), torch.zeros(4000, dtype=F64)
    found = float(net.gradient_noise(*wide, S, sigma))
    assert found == pytest.approx(2 * sigma**6 * 4000**2 * 4.25, rel=1e-3)
    assert float(net.constant(m, 3, S, sigma)) == pytest.approx(sigma**4 / 2 * m * 3 * 2.5)


def test_batches_and_bad_arguments() -> None:
    X, _, W1, W2 = problem(5, 2, 3, 1, 3)
    S = X.T @ X / 5
    both = net.gradient_noise(torch.stack([W1, 2 * W1]), torch.stack([W2[0], W2[0]]), S, 0.3)
    torch.testing.assert_close(both[1], net.gradient_noise(2 * W1, W2[0], S, 0.3))
    assert net.penalty(W1.expand(4, 3, 2), W2.expand(4, 1, 3), S, 0.3).shape == (4,)
    with pytest.raises(ValueError, match="layers = 'two'"):
        net.gradient_noise(W1, W2[0], S, 0.3, layers="two")
    with pytest.raises(ValueError, match="sigma = -1"):
        net.penalty(W1, W2, S, -1)
    with pytest.raises(ValueError, match="a has shape"):
        net.gradient_noise(W1, W2[0, :2], S, 0.3)
