"""Sweeps against factorizations."""

from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learning_dynamics import runs
from learning_dynamics.experiments.value_learning import models, problems, swept, training

RUN = runs.Run("parameterization/value_learning")


@pytest.mark.parametrize("most", [1, swept.MOST_SWEEPS])  # one sweep never settles: that is by factorization
@given(st.integers(0, 10**6), st.sampled_from([0.3, 0.9, 0.99]), st.sampled_from([0.1, 1.0, 5.0]))
def test_solves_of_any_chain(most, seed, discount, spread):
    random = torch.Generator().manual_seed(seed)
    S = torch.softmax(spread * torch.randn(7, 7, generator=random, dtype=torch.float64), -1)
    A = torch.eye(7, dtype=torch.float64) - discount * S
    right, start = torch.randn(2, 7, generator=random, dtype=torch.float64)
    solver = swept.Sweeps.of(S.numpy().copy(), np.ones(7), discount, np.full(7, 1 / 7))
    A, right, start = A.numpy(), right.numpy(), start.numpy()
    with mock.patch.object(swept, "MOST_SWEEPS", most):
        assert np.allclose(A @ solver.solve(right, start, 1e-13), right, atol=1e-9)
        assert np.allclose(A.T @ (solver.solve_transposed(right, 1e-13) / solver.D), right, atol=1e-9)


@pytest.mark.parametrize("actions", [1, 3])
def test_training_is_that_with_factorizations(actions):
    seeds = [0, 1]
    data = problems.chain_problem(RUN, seeds)
    drawn = training.batches(RUN, seeds, data.points, steps=40)
    offsets = torch.tensor([0.0, 1.0], dtype=torch.float64)
    step_size = torch.tensor([2.0**-5, 2.0**-6], dtype=torch.float64)
    start = models.latent_start(RUN, seeds, 11, actions)
    pair = (models.Implicit, swept.ImplicitSwept)
    if actions > 1:
        pair = (models.ImplicitActions, swept.ImplicitActionsSwept)
    norms, ends = [], []
    for kind in pair:
        u, Z = (part.expand(2, *part.shape).clone() for part in start)
        if actions == 1:
            u, Z = u[:, :, 0].clone(), Z[:, :, 0].clone()
        model = kind(u, Z, 0.9, step_size)
        norms.append(training.train(model, data, offsets, drawn).norm)
        ends.append(model)
    assert torch.allclose(*norms, rtol=1e-8)
    assert torch.allclose(ends[0].u, ends[1].u) and torch.allclose(ends[0].Z, ends[1].Z)
    if actions == 1:
        assert torch.allclose(ends[0].preconditioner(), ends[1].preconditioner(), rtol=1e-6)


def test_what_does_not_fit():
    u, Z = torch.zeros(1, 1, 3), torch.zeros(1, 1, 3, 3)
    with pytest.raises(ValueError, match=r"discount = 0.0; allowed: a number in \(0, 1\)"):
        swept.ImplicitSwept(u, Z, 0.0, 0.1)
    with pytest.raises(ValueError, match="discount"):
        swept.ImplicitActionsSwept(u[:, :, None], Z[:, :, None], 1.0, 0.1)
