"""Descent on outputs against torch's SGD and Newton steps on weights; the formula of a run against the run."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learning_dynamics.parameterization import column_space, function_space

like = {"dtype": torch.float64}


def problem(seed: int = 0, n: int = 6, d: int = 9) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    source = torch.Generator().manual_seed(seed)
    return (
        torch.randn(n, d, generator=source, **like),
        torch.randn(d, generator=source, **like),
        torch.randint(2, (n,), generator=source).to(**like),
    )


def gradient_for(y: torch.Tensor):  # noqa: ANN201
    return lambda f: (f.sigmoid() - y) / len(y)


@given(st.integers(0, 50), st.floats(0.0, 0.9))
def test_descend_is_sgd_on_the_weights(seed: int, momentum: float) -> None:
    J, start, y = problem(seed)
    w = start.clone().requires_grad_()
    optimizer = torch.optim.SGD([w], lr=0.3, momentum=momentum)
    for _ in range(20):
        optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(J @ w, y).backward()
        optimizer.step()
    found = function_space.descend(
        J @ J.T, J @ start, gradient_for(y), step_size=0.3, momentum=momentum, steps=20
    )
    torch.testing.assert_close(found.outputs, (J @ w).detach())
    torch.testing.assert_close(start - J.T @ found.dual, w.detach())


def test_damped_steps_are_newtons_and_batches_agree() -> None:
    J, start, y = problem()
    w = start.clone()
    for _ in range(5):
        slope = J.T @ gradient_for(y)(J @ w)
        w = w - 4.0 * torch.linalg.solve(J.T @ J + 0.1 * torch.eye(9, **like), slope)
    seen: list[int] = []
    found = function_space.descend(
        torch.stack([J @ J.T, J @ J.T]),
        torch.stack([J @ start] * 2),
        gradient_for(y),
        step_size=4.0,
        steps=5,
        damping=0.1,
        watch=lambda k, f: seen.append(k),
    )
    torch.testing.assert_close(found.outputs[1], J @ w)
    torch.testing.assert_close(start - J.T @ found.dual[0], w)
    assert seen == [0, 1, 2, 3, 4, 5]


@given(st.integers(0, 50), st.integers(2, 12), st.sampled_from([None, 0.5]))
def test_the_formula_is_the_run(seed: int, d: int, damping: float | None) -> None:
    J, w, y = problem(seed, d=d)
    n, formula = len(y), function_space.SpectralDescent.of(J, J @ w - y)
    step_size = 0.4 * n / float(torch.linalg.matrix_norm(J, 2)) ** 2 if damping is None else 2.0
    curve = []
    for _ in range(8):
        curve.append((J @ w - y).square().mean())
        slope = 2 / n * J.T @ (J @ w - y)
        w = w - step_size * (
            slope if damping is None else torch.linalg.solve(J.T @ J + damping * torch.eye(d, **like), slope)
        )
    torch.testing.assert_close(formula.loss(torch.arange(8), step_size, damping), torch.stack(curve))


def test_steps_to() -> None:
    formula = function_space.SpectralDescent(
        torch.tensor([2.0, 1e-6], **like), torch.ones(2, **like), torch.zeros((), **like), 2
    )
    steps = formula.steps_to(0.25, 0.25)
    assert abs(float(formula.loss(steps, 0.25)) - 0.25) < 1e-6
    assert abs(steps / (math.log(2) / 2 / 0.25e-12) - 1) < 1e-3
    stuck = function_space.SpectralDescent(
        torch.tensor([1.0], **like), torch.ones(1, **like), torch.ones((), **like), 2
    )
    assert stuck.steps_to(0.4, 0.5) == math.inf
    assert float(stuck.loss(3.0, 1.0)) == 0.5


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 6), st.integers(0, 30))
def test_khatri_rao_gram_and_rank(m: int, p: int, n: int, seed: int) -> None:
    source = torch.Generator().manual_seed(seed)
    gates, features = torch.randn(n, m, generator=source, **like), torch.randn(n, p, generator=source, **like)
    phi = column_space.row_khatri_rao(gates, features)
    assert torch.equal(phi, torch.stack([torch.kron(g, e) for g, e in zip(gates, features, strict=True)]))
    torch.testing.assert_close(column_space.gated_gram(gates, features), phi @ phi.T)
    assert torch.linalg.matrix_rank(phi) == min(n, m * p)


def test_rank_tolerance_is_numpys() -> None:
    found = column_space.rank_tolerances((40, 70), torch.float64)
    matrix = np.random.default_rng(0).normal(size=(40, 5)) @ np.random.default_rng(1).normal(size=(5, 70))
    s = np.linalg.svd(matrix, compute_uv=False)
    assert (s > found["golub"] * s[0]).sum() == np.linalg.matrix_rank(matrix) == 5
    assert found["golub"] == 70 * 2.0**-52 and math.isclose(found["press"], 2.0**-53 * math.sqrt(111))


def test_refusals() -> None:
    J, w, y = problem()
    good = {"step_size": 0.1, "steps": 2}
    for bad in ({"step_size": 0.0}, {"steps": 0}, {"momentum": 1.0}, {"damping": 0.0}):
        with pytest.raises(ValueError, match=f"{next(iter(bad))} = .*allowed"):
            function_space.descend(J @ J.T, J @ w, gradient_for(y), **(good | bad))
    with pytest.raises(ValueError, match="kernel has shape"):
        function_space.descend(J, J @ w, gradient_for(y), **good)
    with pytest.raises(ValueError, match="allowed"):
        function_space.SpectralDescent.of(J, w)
    with pytest.raises(ValueError, match="loss = 0"):
        function_space.SpectralDescent.of(J, J @ w).steps_to(0.0, 0.1)
    with pytest.raises(ValueError, match="features has shape"):
        column_space.gated_gram(J, J[:2])
    with pytest.raises(ValueError, match="shape"):
        column_space.rank_tolerances((0, 2), torch.float64)
