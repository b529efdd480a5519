"""The race of natural gradient, SGD and Adam against the library's operators and torch's autograd."""

from __future__ import annotations

import math

import pytest
import torch
from torch.func import grad, jacrev, vmap

from learning_dynamics import curvature
from learning_dynamics.experiments.fisher_and_ggn import natural_training
from learning_dynamics.experiments.fisher_and_ggn.natural_training import Problem

LAW = curvature.Categorical()


@pytest.fixture(scope="module")
def small() -> Problem:
    return natural_training.problems([0, 1])


def one(theta: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return natural_training.network(theta, x[None])[0]


def test_jacobians_are_those_of_autograd(small):
    x = small.x[:, :7]
    expected = vmap(vmap(jacrev(one), (None, 0)))(small.start, x)
    torch.testing.assert_close(natural_training.jacobians(small.start, x), expected)


def test_matrices_are_those_of_the_operators(small):
    theta, x, y = small.start[0], small.x[0, :9], small.y[0, :9]
    F = curvature.Fisher((one, theta), LAW, x).dense()
    torch.testing.assert_close(natural_training.fisher(theta, x), F)
    F_hat = curvature.EmpiricalFisher((one, theta), LAW, x, y.argmax(-1)).dense()
    torch.testing.assert_close(natural_training.empirical_fisher(theta, x, y), F_hat)


def test_directions_solve_the_damped_system(small):
    x, y = small.x[:, :20], small.y[:, :20]
    gradient = vmap(grad(natural_training.loss))(small.start, x, y)
    torch.testing.assert_close(natural_training.direction("adam", 0.0, small.start, x, y), gradient)
    step = natural_training.direction("natural", 0.1, small.start, x, y)
    F = vmap(natural_training.fisher)(small.start, x)
    torch.testing.assert_close((F @ step[..., None])[..., 0] + 0.1 * step, gradient)
    with pytest.raises(ValueError, match="method = 'newton'; allowed: natural"):
        natural_training.direction("newton", 0.1, small.start, x, y)


def test_splits_use_every_image_once_and_differ(small):
    assert small.x.shape == (2, 1797, 16) and small.start.shape == (2, sum(natural_training.PIECES))
    assert torch.equal(small.y.sum(1)[0], small.y.sum(1)[1]) and not torch.equal(small.y[0], small.y[1])


@pytest.mark.parametrize("method", natural_training.METHODS)
def test_every_method_lowers_the_loss(method, small):
    rate, damping = natural_training.RATES[method][1], 6.4e-3
    found = natural_training.train(method, rate, damping, small, 10)
    looks = 10 // natural_training.EVERY[method] + 1
    assert found["loss"].shape == (looks, 2) and (found["loss"][-1] < found["loss"][0]).all()
    assert natural_training.seconds_a_step(method, rate, damping, small, 2) > 0
    tried = natural_training.grid(method)
    assert len(tried) == {"natural": 18, "empirical": 9}.get(method, 5) and len(set(tried)) == len(tried)


def test_a_diverged_run_is_never_at_the_target(small):
    found = natural_training.train("sgd", 1e308, 0.0, small, 10)
    assert found["loss"][-1].tolist() == [math.inf, math.inf]
    assert natural_training.score(found["loss"], 5) == (math.inf, math.inf)


def test_first_step_below_the_target():
    losses = torch.tensor([[2.0, 2.0], [0.5, 1.0], [0.1, 0.9]])
    assert natural_training.steps_to(losses, 5, 0.5).tolist() == [5.0, math.inf]
    assert natural_training.score(losses, 5) == (math.inf, pytest.approx(0.5))
    assert natural_training.score(losses / 10, 5)[0] == 5.0
