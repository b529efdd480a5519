"""Data of the three value learning problems."""

import pytest
import torch

from learning_dynamics import runs
from learning_dynamics.experiments.value_learning import grid, problems

RUN = runs.Run("parameterization/value_learning")


def test_problems():
    chain = problems.chain_problem(RUN, [0, 1])
    assert chain.states.shape == (2, 50) and chain.visited.shape == (2, 11)
    assert problems.chain_problem(RUN, [0], described=True).states.shape == (1, 5000)
    rooms = problems.four_rooms_problem(RUN, [0])
    assert rooms.states.shape == (1, 6400) and rooms.weights == 121
    # the last state of a trajectory sees one reward, the first all of them
    assert rooms.annuities[0, 79] == 1
    assert rooms.annuities[0, 0].item() == pytest.approx((1 - 0.9**80) / 0.1)
    described = problems.four_rooms_problem(RUN, [0, 1], described=True)
    assert described.states.max() < 121 and described.evaluation.shape == (121, 121)
    goal = 7 * 11 + 1
    assert described.value_annuities[goal] == 1 and (described.value_annuities >= 1).all()
    car = problems.mountain_car_problem(RUN, [0, 1])
    assert car.evaluation.shape == (2, 1000, 400) and car.table.shape[-1] == 400
    assert torch.allclose(car.table.sum(-1), car.is_point.double())  # what fills up a seed is zero
    assert car.of(slice(1, 2)).points == car.points[1:] == problems.mountain_car_problem(RUN, [1]).points
    assert set(problems.DOMAINS) == set(grid.BEST_EXPLICIT)


def test_an_unknown_problem_is_refused():
    with pytest.raises(ValueError, match="domain = 'pond'; allowed: chain"):
        problems.problem("pond", RUN, [0])
