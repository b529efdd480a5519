from __future__ import annotations

import pytest
import torch

from learning_dynamics import rules
from learning_dynamics.experiments.polyak_steps import notebook_comparison as notebook


@pytest.fixture(scope="module")
def signs() -> notebook.NotebookLoss:
    return notebook.problem("adagrad-norm-signs")


def test_loss_and_gradient_are_those_of_the_printed_formula(signs: notebook.NotebookLoss) -> None:
    source = torch.Generator().manual_seed(3)
    theta = torch.randn(2, 3, 30, generator=source, dtype=torch.float64).requires_grad_()
    rows = torch.randint(569, (2, 5), generator=source)
    for loss in (signs, notebook.problem("adagrad-norm")):
        margins = torch.einsum("rbd,rgd->rgb", loss.inputs[rows] * loss.targets[rows][..., None], theta)
        by_hand = torch.log(1 + torch.exp(-margins)).mean(-1) / 2 + 0.05 * (theta**2).sum(-1)
        (slope,) = torch.autograd.grad(by_hand.sum(), theta)
        value, gradient = loss.oracle(theta.detach(), rows)
        torch.testing.assert_close(value, by_hand.detach(), rtol=1e-12, atol=0)
        torch.testing.assert_close(gradient, slope, rtol=1e-12, atol=1e-14)


def test_the_minimum_is_where_gradient_descent_ends(signs: notebook.NotebookLoss) -> None:
    theta = notebook.start()[None]
    for _ in range(3000):
        theta = theta - 0.5 * signs.oracle(theta)[1]
    torch.testing.assert_close(signs.oracle(theta)[0][0], signs.minimum(), rtol=1e-12, atol=0)


def test_targets_and_start_are_the_notebooks() -> None:
    assert set(notebook.problem("adagrad-norm").targets.tolist()) == {0.0, 1.0}
    assert set(notebook.problem("adagrad-norm-signs").targets.tolist()) == {-1.0, 1.0}
    torch.testing.assert_close(
        notebook.start()[:2], torch.tensor([1.3315865, 0.71527897], dtype=torch.float64)
    )
    with pytest.raises(ValueError, match="setup = 'other'; allowed: adagrad-norm, "):
        notebook.problem("other")


def test_minibatches_have_no_repetition_and_a_shorter_run_sees_a_prefix() -> None:
    rows = notebook.minibatches(20, 5, 1100, [0, 4])
    assert rows.shape == (1100, 2, 5) and 0 <= rows.min() and rows.max() < 20
    assert all(len(set(batch.tolist())) == 5 for batch in rows[:50, 0])
    assert torch.equal(notebook.minibatches(20, 5, 30, [4])[:, 0], rows[:30, 1])


def test_a_grid_and_seeds_at_once_are_each_run_alone(signs: notebook.NotebookLoss) -> None:
    steps, index = 100, 6
    found = notebook.run_method("adagrad-norm-signs", "adagrad_norm", [2, 7], steps)
    rows = notebook.minibatches(569, 5, steps, [7])[:, 0]
    rule = rules.AdaGradNorm(0.5, b0=0.1)
    theta, kept = notebook.start()[None], []
    state = rule.start(theta)
    for k in range(steps + 1):
        if k in notebook.records(steps)[-10:]:
            kept.append(signs.oracle(theta)[0][0] - signs.minimum())
        if k < steps:
            theta, state = rule.step(theta, signs.oracle(theta, rows[k])[1], state)
    torch.testing.assert_close(found["final"][1, index], torch.stack(kept).mean(), rtol=1e-9, atol=1e-12)
    assert found["best"] == found["final"].mean(0).argmin()
