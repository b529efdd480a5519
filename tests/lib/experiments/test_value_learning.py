"""Value learning: the implicit step against automatic differentiation, the grid against single runs."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learning_dynamics import results, runs
from learning_dynamics.experiments.value_learning import learning as vl
from learning_dynamics.parameterization import mdp
from learning_dynamics.rules import GradientDescent

RUN = runs.Run(vl.CHAPTER)


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
    model = vl.Implicit(u[:, :, 0].clone(), Z[:, :, 0].clone(), discount, 0.1)
    model.weights()
    model.step(gradient.reshape(1, 1, -1))
    assert torch.allclose(model.u[0, 0], expected[0], rtol=1e-9, atol=1e-9)
    assert torch.allclose(model.Z[0, 0], expected[1], rtol=1e-9, atol=1e-9)


def test_preconditioner_is_the_first_order_change():
    u, Z, gradient = small_latent(1)
    model = vl.Implicit(u[:, :, 0].clone(), Z[:, :, 0].clone(), 0.8, 1e-7)
    P, before = model.preconditioner()[0, 0], model.weights()[0, 0].clone()
    model.step(gradient.reshape(1, 1, -1))
    change = (model.weights()[0, 0] - before) / -1e-7
    assert torch.allclose(change, P @ gradient, rtol=1e-4)


def test_several_actions_solve_the_optimality_equation_and_move_only_the_greedy_rows():
    u, Z, gradient = small_latent(2, actions=3)
    model = vl.ImplicitActions(u.clone(), Z.clone(), 0.9, 0.1)
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
    data, start = vl.chain_problem(RUN, seeds), vl.latent_start(RUN, seeds, 11)
    drawn = vl.batches(RUN, seeds, 50, steps=30)
    cells = vl.grid([2.0**-5], [0.9], [0.0, 1.0])
    one = vl.run_grid("implicit", data, start, drawn, cells)
    u, Z = (part.expand(2, *part.shape).clone() for part in start)
    several = vl.train(vl.ImplicitActions(u, Z, cells.discount, cells.step_size), data, cells.offset, drawn)
    assert torch.allclose(one.record.norm, several.norm)


def test_grid_agrees_with_runs_alone():
    seeds = [3, 4]
    data, start = vl.chain_problem(RUN, seeds), vl.latent_start(RUN, seeds, 11)
    drawn = vl.batches(RUN, seeds, 50, steps=40)
    cells = vl.grid([2.0**-6, 2.0**-5], [0.8, 0.95], [0.0, 0.5])
    together = vl.run_grid("implicit", data, start, drawn, cells, chunk=3)
    for i in (0, 5, 7):
        single = vl.Grid(*(axis[i : i + 1] for axis in cells))
        alone = vl.run_grid("implicit", data, start, drawn, single)
        assert torch.allclose(together.record.norm[:, i], alone.record.norm[:, 0])
    only = vl.chain_problem(RUN, [4])
    alone = vl.run_grid("implicit", only, vl.latent_start(RUN, [4], 11), drawn[:, 1:], cells)
    assert torch.allclose(together.record.norm[:, :, 1], alone.record.norm[:, :, 0])


def test_explicit_run_by_hand():
    data, start = vl.chain_problem(RUN, [0]), vl.latent_start(RUN, [0], 11)
    drawn = vl.batches(RUN, [0], 50, steps=20)
    cells = vl.grid([0.5], [0.8], [0.3])
    model = vl.make_model("explicit", start, cells)
    theta = model.weights()[0, 0].numpy().copy()
    record = vl.train(model, data, cells.offset, drawn)
    for index in drawn[:, 0].numpy():
        gradient = np.zeros(11)
        for i in index:
            state = data.states[0, i]
            gradient[state] += theta[state] - data.returns[0, i] - 0.3 * data.annuities[0, i]
        theta -= 0.5 * gradient / 25
    residual = theta - data.values.numpy() - 0.3 * 10
    assert record.norm[-1, 0, 0].item() == pytest.approx(np.linalg.norm(residual))
    assert record.ones[-1, 0, 0].item() == pytest.approx(abs(residual.mean()) * math.sqrt(11))


def test_a_diverged_run_is_flagged_from_then_on_and_the_others_are_not_touched():
    seeds = [0, 1]
    data, start = vl.chain_problem(RUN, seeds), vl.latent_start(RUN, seeds, 11)
    drawn = vl.batches(RUN, seeds, 50, steps=60)
    measured = vl.run_grid("explicit", data, start, drawn, vl.grid([0.5, 1e3], [0.9], [0.0]))
    assert torch.isfinite(measured.record.norm[:, 0]).all()
    assert torch.isinf(measured.record.norm[-1, 1]).all() and torch.isinf(measured.ratio[1]).all()
    assert not torch.isnan(measured.record.norm).any()
    gone = torch.isinf(measured.record.norm[:, 1]).long()
    assert (gone.diff(dim=0) >= 0).all()


def test_moment_ratio_by_drawing():
    data, start = vl.chain_problem(RUN, [0]), vl.latent_start(RUN, [0], 11)
    cells = vl.grid([2.0**-5], [0.8], [0.5])
    model = vl.make_model("implicit", start, cells)
    ratio, bound = vl.moments(model, data, cells.offset)
    P, beta = model.preconditioner()[0, 0], model.weights()[0, 0]
    error = beta[data.states[0]] - data.returns[0] - 0.5 * data.annuities[0]
    V = error[:, None] * P[:, data.states[0]].T
    drawn = torch.randint(50, (200_000, 25), generator=torch.Generator().manual_seed(0))
    updates = V[drawn].mean(1)
    empirical = updates.square().sum(1).mean() / V.mean(0).square().sum()
    assert ratio.item() == pytest.approx(empirical.item(), rel=0.01)
    assert bound.item() > 1


def test_problems():
    chain = vl.chain_problem(RUN, [0, 1])
    assert chain.states.shape == (2, 50) and chain.visited.shape == (2, 11)
    assert vl.chain_problem(RUN, [0], described=True).states.shape == (1, 5000)
    rooms = vl.four_rooms_problem(RUN, [0])
    assert rooms.states.shape == (1, 6400) and rooms.weights == 121
    # the last state of a trajectory sees one reward, the first all of them
    assert rooms.annuities[0, 79] == 1
    assert rooms.annuities[0, 0].item() == pytest.approx((1 - 0.9**80) / 0.1)
    described = vl.four_rooms_problem(RUN, [0, 1], described=True)
    assert described.states.max() < 121 and described.evaluation.shape == (121, 121)
    goal = 7 * 11 + 1
    assert described.value_annuities[goal] == 1 and (described.value_annuities >= 1).all()
    car = vl.mountain_car_problem(RUN, [0, 1])
    assert car.evaluation.shape == (2, 1000, 400) and car.table.shape[-1] == 400
    assert torch.allclose(car.table.sum(-1), torch.ones(car.table.shape[:2], dtype=torch.float64))
    assert set(vl.DOMAINS) == set(vl.BEST_EXPLICIT)


def test_mountain_car_trains():
    data = vl.mountain_car_problem(RUN, [0])
    start = vl.latent_start(RUN, [0], 400)
    drawn = vl.batches(RUN, [0], data.states.shape[1], steps=3)
    for kind, eta in (("explicit", 4.0), ("implicit", 0.1)):
        record = vl.run_grid(kind, data, start, drawn, vl.grid([eta], [0.8], [0.0])).record
        assert record.norm[-1] < record.norm[0]


def test_batches_without_replacement():
    drawn = vl.batches(RUN, [0, 1], 30, steps=5, replacement=False)
    assert drawn.shape == (5, 2, 25)
    assert all(len(set(row.tolist())) == 25 for row in drawn.reshape(-1, 25))


def test_start():
    start = vl.latent_start(RUN, [0, 1], 7, actions=2)
    assert start.rewards.shape == (2, 2, 7) and start.logits.shape == (2, 2, 7, 7)
    assert (start.logits.amax(-1) == 0).all()
    S = torch.softmax(start.logits, -1)
    assert (S.diagonal(dim1=-2, dim2=-1) >= 2 / 3 - 1e-12).all()
    assert torch.equal(vl.latent_start(RUN, [1], 7).logits[0, 0], start.logits[1, 0])


def test_command(tmp_path, monkeypatch):
    monkeypatch.setenv("LEARNING_DYNAMICS_RESULTS", str(tmp_path))
    vl.main(["chain", "explicit", "--part", "2/4", "--best", "--offsets", "0", "1"])
    kept = results.load(vl.CHAPTER, "chain_explicit_best_2_offsets_part_2")
    assert kept["norm"].shape == (7, 1, 1, 2, 20) and kept["discounts"].tolist() == pytest.approx([0.9])
    assert kept["steps"].tolist() == list(vl.KEPT_STEPS)
    again = kept.provenance.command.split()[3:]
    vl.main([*again, "--overwrite"])
    with pytest.raises(SystemExit):
        vl.main(["pond", "explicit"])


def test_wrong_arguments():
    data, start = vl.chain_problem(RUN, [0, 1]), vl.latent_start(RUN, [0, 1], 11)
    u, Z = start.rewards[None, :, 0], start.logits[None, :, 0]
    with pytest.raises(ValueError, match="discount"):
        vl.Implicit(u, Z, 1.0, 0.1)
    with pytest.raises(ValueError, match="discount"):
        vl.ImplicitActions(start.rewards[None], start.logits[None], -0.5, 0.1)
    with pytest.raises(ValueError, match="kind"):
        vl.run_grid("other", data, start, vl.batches(RUN, [0, 1], 50), vl.grid([1.0], [0.5]))
    with pytest.raises(ValueError, match="domain"):
        vl.problem("pond", RUN, [0])
    with pytest.raises(ValueError, match="indices"):
        vl.train(
            vl.Explicit(u[..., 0, :], GradientDescent(0.1)), data, torch.zeros(1), vl.batches(RUN, [0], 50)
        )
    with pytest.raises(ValueError, match="evaluate_every"):
        vl.train(
            vl.Explicit(u, GradientDescent(0.1)),
            data,
            torch.zeros(1),
            vl.batches(RUN, [0, 1], 50),
            evaluate_every=0,
        )
    with pytest.raises(ValueError, match="size"):
        vl.batches(RUN, [0], 10, replacement=False)
