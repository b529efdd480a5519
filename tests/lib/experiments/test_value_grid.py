"""A grid of value learning against single runs, and the moments of its next update by drawing."""

import pytest
import torch

from learning_dynamics import runs
from learning_dynamics.experiments.value_learning import grid, models, problems, training

RUN = runs.Run("parameterization/value_learning")


def test_grid_agrees_with_runs_alone():
    seeds = [3, 4]
    data, start = problems.chain_problem(RUN, seeds), models.latent_start(RUN, seeds, 11)
    drawn = training.batches(RUN, seeds, 50, steps=40)
    cells = grid.combinations([2.0**-6, 2.0**-5], [0.8, 0.95], [0.0, 0.5])
    together = grid.run_grid("implicit", data, start, drawn, cells, chunk=3)
    for i in (0, 5, 7):
        single = grid.Grid(*(axis[i : i + 1] for axis in cells))
        alone = grid.run_grid("implicit", data, start, drawn, single)
        assert torch.allclose(together.record.norm[:, i], alone.record.norm[:, 0])
    only = problems.chain_problem(RUN, [4])
    alone = grid.run_grid("implicit", only, models.latent_start(RUN, [4], 11), drawn[:, 1:], cells)
    assert torch.allclose(together.record.norm[:, :, 1], alone.record.norm[:, :, 0])


def test_a_diverged_run_is_flagged_from_then_on_and_the_others_are_not_touched():
    seeds = [0, 1]
    data, start = problems.chain_problem(RUN, seeds), models.latent_start(RUN, seeds, 11)
    drawn = training.batches(RUN, seeds, 50, steps=60)
    measured = grid.run_grid("explicit", data, start, drawn, grid.combinations([0.5, 1e3], [0.9], [0.0]))
    assert torch.isfinite(measured.record.norm[:, 0]).all()
    assert torch.isinf(measured.record.norm[-1, 1]).all() and torch.isinf(measured.ratio[1]).all()
    assert not torch.isnan(measured.record.norm).any()
    gone = torch.isinf(measured.record.norm[:, 1]).long()
    assert (gone.diff(dim=0) >= 0).all()


def test_moment_ratio_by_drawing():
    data, start = problems.chain_problem(RUN, [0]), models.latent_start(RUN, [0], 11)
    cells = grid.combinations([2.0**-5], [0.8], [0.5])
    model = grid.make_model("implicit", start, cells)
    ratio, bound = grid.moments(model, data, cells.offset)
    P, beta = model.preconditioner()[0, 0], model.weights()[0, 0]
    error = beta[data.states[0]] - data.returns[0] - 0.5 * data.annuities[0]
    V = error[:, None] * P[:, data.states[0]].T
    drawn = torch.randint(50, (200_000, 25), generator=torch.Generator().manual_seed(0))
    updates = V[drawn].mean(1)
    empirical = updates.square().sum(1).mean() / V.mean(0).square().sum()
    assert ratio.item() == pytest.approx(empirical.item(), rel=0.01)
    assert bound.item() > 1


def test_mountain_car_trains():
    data = problems.mountain_car_problem(RUN, [0])
    start = models.latent_start(RUN, [0], 400)
    drawn = training.batches(RUN, [0], data.points, steps=3)
    for kind, eta in (("explicit", 4.0), ("implicit", 0.1)):
        record = grid.run_grid(kind, data, start, drawn, grid.combinations([eta], [0.8], [0.0])).record
        assert record.norm[-1] < record.norm[0]


def test_a_run_of_mountain_car_does_not_depend_on_its_companions():
    results = []
    for seeds in ([0], [0, 1]):
        data, start = problems.mountain_car_problem(RUN, seeds), models.latent_start(RUN, seeds, 400)
        drawn = training.batches(RUN, seeds, data.points, steps=20)
        cells = grid.combinations([32.0], [0.8], [0.5])
        results.append(grid.run_grid("explicit", data, start, drawn, cells))
    assert data.points[0] != data.points[1]
    for alone, together in zip(results[0].record[1:3], results[1].record[1:3], strict=True):
        assert torch.allclose(alone[..., 0], together[..., 0])
    assert torch.allclose(results[0].ratio[:, 0], results[1].ratio[:, 0])
    assert torch.allclose(results[0].bound[:, 0], results[1].bound[:, 0])


def test_seeds_one_at_a_time_are_the_seeds_at_once():
    seeds = [0, 1, 2]
    data, start = problems.chain_problem(RUN, seeds), models.latent_start(RUN, seeds, 11)
    drawn = training.batches(RUN, seeds, data.points, steps=20)
    cells = grid.combinations([2.0**-5], [0.8], [0.0, 0.5])
    once = grid.run_grid("implicit", data, start, drawn, cells)
    one = grid.run_grid("implicit", data, start, drawn, cells, seeds_at_a_time=1)
    assert torch.allclose(once.record.norm, one.record.norm) and torch.allclose(once.ratio, one.ratio)
    assert torch.allclose(once.record.last, one.record.last) and torch.equal(
        once.record.steps, one.record.steps
    )


def test_another_kind_is_refused():
    data, start = problems.chain_problem(RUN, [0]), models.latent_start(RUN, [0], 11)
    drawn = training.batches(RUN, [0], 50)
    with pytest.raises(ValueError, match="kind = 'other'; allowed: explicit, implicit"):
        grid.run_grid("other", data, start, drawn, grid.combinations([1.0], [0.5]))
