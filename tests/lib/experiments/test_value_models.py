"""The implicit step against automatic differentiation; several actions against value iteration."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learning_dynamics import runs
from learning_dynamics.experiments.value_learning import grid, models, problems, training
from learning_dynamics.parameterization import mdp

RUN = runs.Run("parameterization/value_learning")


def small_latent(seed, actions=1, d=5):
    random = torch.Generator().manual_seed(seed)
    u = torch.randn(1, 1, actions, d, generator=random, dtype=torch.float64)
    Z = torch.randn(1, 1, actions, d, d, generator=random, dtype=torch.float64)
    return u, Z, torch.randn(d, generator=random, dtype=torch.float64)


def automatic_step(u, Z, gradient, discount, eta):
    """Return u and Z after a step by autograd through a dense solve; u (d,), Z (d, d)."""
    u, Z = u.clone().requires_grad_(), Z.clone().requires_grad_()
    A = torch.eye(len(u), dtype=u.dtype) - discount * torch.softmax(Z, -1)
    torch.linalg.solve(A, u).backward(gradient)
    return (u - eta * u.grad).detach(), (Z - eta * Z.grad).detach()


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.5, 0.9, 0.99]))
def test_implicit_step_is_gradient_descent(seed, discount):
    u, Z, gradient = small_latent(seed)
    expected = automatic_step(u[0, 0, 0], Z[0, 0, 0], gradient, discount, 0.1)
    model = models.Implicit(u[:, :, 0].clone(), Z[:, :, 0].clone(), discount, 0.1)
    model.weights()
    model.step(gradient.reshape(1, 1, -1))
    assert torch.allclose(model.u[0, 0], expected[0], rtol=1e-9, atol=1e-9)
    assert torch.allclose(model.Z[0, 0], expected[1], rtol=1e-9, atol=1e-9)


def test_preconditioner_is_the_first_order_change():
    u, Z, gradient = small_latent(1)
    model = models.Implicit(u[:, :, 0].clone(), Z[:, :, 0].clone(), 0.8, 1e-7)
    P, before = model.preconditioner()[0, 0], model.weights()[0, 0].clone()
    model.step(gradient.reshape(1, 1, -1))
    change = (model.weights()[0, 0] - before) / -1e-7
    assert torch.allclose(change, P @ gradient, rtol=1e-4)


def test_several_actions_solve_the_optimality_equation_and_move_only_the_greedy_rows():
    u, Z, gradient = small_latent(2, actions=3)
    model = models.ImplicitActions(u.clone(), Z.clone(), 0.9, 0.1)
    beta = model.weights()[0, 0]
    plan = mdp.value_iteration(torch.softmax(Z[0, 0], -1), u[0, 0], 0.9, tolerance=1e-12)
    assert torch.allclose(beta, plan.values, atol=1e-9)
    model.step(gradient.reshape(1, 1, -1))
    greedy = torch.nn.functional.one_hot(plan.actions, 3).bool().T
    assert ((model.u[0, 0] != u[0, 0]) == greedy).all()
    rows, used = mdp.chosen(Z[0, 0][..., :], u[0, 0], plan.actions)
    expected = automatic_step(used, rows, gradient, 0.9, 0.1)
    moved, moved_used = mdp.chosen(model.Z[0, 0], model.u[0, 0], plan.actions)
    assert torch.allclose(moved, expected[1], atol=1e-9) and torch.allclose(
        moved_used, expected[0], atol=1e-9
    )
    assert torch.allclose(model.S, torch.softmax(model.Z, -1))


def test_one_action_of_the_several_is_the_single_one():
    seeds = [0, 1]
    data, start = problems.chain_problem(RUN, seeds), models.latent_start(RUN, seeds, 11)
    drawn = training.batches(RUN, seeds, 50, steps=30)
    cells = grid.combinations([2.0**-5], [0.9], [0.0, 1.0])
    one = grid.run_grid("implicit", data, start, drawn, cells)
    u, Z = (part.expand(2, *part.shape).clone() for part in start)
    several = training.train(
        models.ImplicitActions(u, Z, cells.discount, cells.step_size), data, cells.offset, drawn
    )
    assert torch.allclose(one.record.norm, several.norm)


def test_start():
    start = models.latent_start(RUN, [0, 1], 7, actions=2)
    assert start.rewards.shape == (2, 2, 7) and start.logits.shape == (2, 2, 7, 7)
    assert (start.logits.amax(-1) == 0).all()
    S = torch.softmax(start.logits, -1)
    assert (S.diagonal(dim1=-2, dim2=-1) >= 2 / 3 - 1e-12).all()
    assert torch.equal(models.latent_start(RUN, [1], 7).logits[0, 0], start.logits[1, 0])


def test_discounts_outside_the_unit_interval_are_refused():
    start = models.latent_start(RUN, [0, 1], 11)
    with pytest.raises(ValueError, match="discount"):
        models.Implicit(start.rewards[None, :, 0], start.logits[None, :, 0], 1.0, 0.1)
    with pytest.raises(ValueError, match="discount"):
        models.ImplicitActions(start.rewards[None], start.logits[None], -0.5, 0.1)
