"""Ideal output moves against numpy's pseudo-inverse and a general minimizer, and the bound on any step's promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from learning_dynamics.curvature import (
    Bernoulli,
    Categorical,
    HeteroscedasticGaussian,
    OutputLaw,
    Poisson,
    SquaredError,
    ideal_moves,
    improvement_bound,
)

few = settings(max_examples=20)
LAWS = [SquaredError(), Categorical(), Bernoulli(), Poisson(), HeteroscedasticGaussian()]


def draw(law: OutputLaw, n: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    outputs = torch.randn(n, 4, generator=generator, dtype=torch.float64)
    return outputs, law.sample(outputs, 1, generator)[0]


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_moves_are_those_of_numpy(law: OutputLaw) -> None:
    outputs, targets = draw(law)
    score = -law.gradient(outputs, law.checked(outputs, targets)).numpy()
    inverse = np.stack([np.linalg.pinv(F, rcond=1e-10) for F in law.fisher(outputs).numpy()])
    expected = np.einsum("iab,ib->ia", inverse, score)
    np.testing.assert_allclose(ideal_moves(law, outputs, targets).numpy(), expected, atol=1e-11)
    bound = -0.5 * (score * expected).sum(-1).mean()
    assert improvement_bound(law, outputs, targets).item() == pytest.approx(bound, abs=1e-11)


@few
@given(p=st.floats(1e-12, 1, exclude_max=True))
def test_softmax_bound_is_half_of_one_over_p_minus_one(p: float) -> None:
    outputs = torch.tensor([math.log(p), math.log1p(-p)], dtype=torch.float64)
    assert improvement_bound(Categorical(), outputs, torch.tensor(0)).item() == pytest.approx(
        -0.5 * (1 / p - 1), rel=1e-9, abs=1e-15
    )


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_no_output_move_is_promised_more(law: OutputLaw) -> None:
    outputs, targets = draw(law)
    gradient, F = law.gradient(outputs, law.checked(outputs, targets)), law.fisher(outputs)

    def model(moves: torch.Tensor) -> torch.Tensor:  # mean over the samples
        return (
            (gradient * moves).sum(-1) + 0.5 * torch.einsum("...a,...ab,...b->...", moves, F, moves)
        ).mean(-1)

    bound = improvement_bound(law, outputs, targets)
    moves = ideal_moves(law, outputs, targets)
    assert torch.allclose(model(moves), bound, atol=1e-12)
    others = moves + torch.randn(
        50, *moves.shape, generator=torch.Generator().manual_seed(1), dtype=moves.dtype
    )
    assert (model(others) > bound).all()


def test_outputs_must_be_finite() -> None:
    with pytest.raises(ValueError, match="outputs has entries that are NaN or infinite"):
        ideal_moves(SquaredError(), torch.tensor([[math.inf]]), torch.tensor([[0.0]]))
