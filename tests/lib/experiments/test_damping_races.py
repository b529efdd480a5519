"""The two races of the damping chapter against the library's operators and torch's autograd."""

from __future__ import annotations

import math

import pytest
import torch
from torch.func import grad, hessian, vmap

from learning_dynamics import curvature
from learning_dynamics.experiments.damping import adam_race, levenberg_race
from learning_dynamics.experiments.damping.adam_race import Curve


@pytest.fixture(scope="module")
def small() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    x, y, start = levenberg_race.problems([0, 1])
    return x[:, :30], y[:, :30], start


def test_gradient_and_matrix_are_those_of_the_operators(small):
    x, y, start = small
    gradient, G = levenberg_race.gauss_newton(start, x, y)
    torch.testing.assert_close(gradient, vmap(grad(levenberg_race.loss))(start, x, y))
    law, labels = curvature.Categorical(), y.argmax(-1)
    for i in range(2):
        model = (levenberg_race.network, start[i])
        torch.testing.assert_close(G[i], curvature.GaussNewton(model, law, x[i], labels[i]).dense())
        torch.testing.assert_close(G[i], curvature.Fisher(model, law, x[i]).dense())


def test_hessian_matrices_are_positive_and_agree_where_the_hessian_is(small):
    x, y, start = small
    H = vmap(hessian(levenberg_race.loss))(start, x, y)
    lowest = torch.linalg.eigvalsh(H)[:, 0]
    assert (lowest < 0).all()
    found = {kind: levenberg_race.matrix(kind, start, x, y)[1] for kind in levenberg_race.MATRICES[1:]}
    for C in found.values():
        assert (torch.linalg.eigvalsh(C)[:, 0] > -1e-12).all()
    eye = torch.eye(105, dtype=torch.float64)
    torch.testing.assert_close(found["shifted"], H - 1.001 * lowest[:, None, None] * eye)
    torch.testing.assert_close(found["clipped"], (found["absolute"] + H) / 2)
    with pytest.raises(ValueError, match="kind = 'newton'; allowed: gauss-newton"):
        levenberg_race.matrix("newton", start, x, y)


@pytest.mark.parametrize("kind", levenberg_race.MATRICES)
def test_losses_never_rise(kind, small):
    losses = levenberg_race.race(kind, 3.0, *small, steps=4)
    assert losses.shape == (5, 2) and (losses.diff(dim=0) <= 0).all() and (losses[-1] < losses[0]).all()


def test_random_labels_replace_about_the_share_asked_for():
    clean, noisy = (levenberg_race.problems(range(4), share) for share in (0.0, 0.3))
    assert torch.equal(clean[0], noisy[0]) and torch.equal(clean[2], noisy[2])
    changed = (clean[1] != noisy[1]).any(-1).double().mean()
    assert 0.2 < changed < 0.34  # nine tenths of 0.3
    assert torch.allclose(clean[0].var((0, 1)), torch.ones((), dtype=torch.float64), atol=0.3)


def test_first_below_finds_the_first_crossing():
    steps = torch.tensor([0.0, 2.0, 4.0, 6.0])
    curve = Curve(steps, steps / 10, torch.tensor([2.0, 0.4, 0.6, 0.05]), steps)
    found = adam_race.first_below(curve, (0.5, 0.1, 0.01))
    assert found[0].tolist() == [2.0, 6.0, math.inf]
    assert found[1].tolist() == pytest.approx([0.2, 0.6, math.inf])


@pytest.mark.parametrize(("number", "most"), [(0, 3), (2, 20), (5, 10)])
def test_each_method_lowers_the_loss_and_counts_its_updates(number, most):
    curve = adam_race.train(adam_race.METHODS[number], 0, 300, most)
    assert curve.steps[0] == 0 and curve.steps[-1] >= most and (curve.steps.diff() > 0).all()
    assert (curve.seconds.diff() >= 0).all() and curve.losses[-1] < curve.losses[0]
    again = adam_race.train(adam_race.METHODS[number], 0, 300, most)
    assert torch.equal(curve.losses, again.losses) and torch.equal(curve.errors, again.errors)


def test_the_split_holds_no_image_twice():
    given = adam_race.problem(3, 8000)
    both = torch.cat([given.inputs, given.fresh_inputs])
    assert both.shape == (10_000, 49)
    assert torch.allclose(both.sum(0), torch.zeros(49, dtype=torch.float64), atol=1e-6)
