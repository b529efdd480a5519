"""Training of value models against a loop written out, and its batches."""

import math

import numpy as np
import pytest
import torch

from learning_dynamics import runs
from learning_dynamics.experiments.value_learning import grid, models, problems, training
from learning_dynamics.rules import GradientDescent

RUN = runs.Run("parameterization/value_learning")


def test_explicit_run_by_hand():
    data, start = problems.chain_problem(RUN, [0]), models.latent_start(RUN, [0], 11)
    drawn = training.batches(RUN, [0], 50, steps=20)
    cells = grid.combinations([0.5], [0.8], [0.3])
    model = grid.make_model("explicit", start, cells)
    theta = model.weights()[0, 0].numpy().copy()
    record = training.train(model, data, cells.offset, drawn)
    for index in drawn[:, 0].numpy():
        gradient = np.zeros(11)
        for i in index:
            state = data.states[0, i]
            gradient[state] += theta[state] - data.returns[0, i] - 0.3 * data.annuities[0, i]
        theta -= 0.5 * gradient / 25
    residual = theta - data.values.numpy() - 0.3 * 10
    assert record.norm[-1, 0, 0].item() == pytest.approx(np.linalg.norm(residual))
    assert record.ones[-1, 0, 0].item() == pytest.approx(abs(residual.mean()) * math.sqrt(11))


def test_batches_without_replacement():
    drawn = training.batches(RUN, [0, 1], 30, steps=5, replacement=False)
    assert drawn.shape == (5, 2, 25)
    assert all(len(set(row.tolist())) == 25 for row in drawn.reshape(-1, 25))


def test_wrong_arguments():
    data, start = problems.chain_problem(RUN, [0, 1]), models.latent_start(RUN, [0, 1], 11)
    model = models.Explicit(start.rewards[None, :, 0], GradientDescent(0.1))
    with pytest.raises(ValueError, match="indices"):
        training.train(model, data, torch.zeros(1), training.batches(RUN, [0], 50))
    with pytest.raises(ValueError, match="evaluate_every"):
        training.train(model, data, torch.zeros(1), training.batches(RUN, [0, 1], 50), evaluate_every=0)
    with pytest.raises(ValueError, match="size"):
        training.batches(RUN, [0], 10, replacement=False)
