"""Closed forms of least squares against numpy, scipy and scikit-learn, and against what defines them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from learning_dynamics.implicit_bias import linear_models as lm


def problem(seed: int, n: int, d: int, *batch: int, outputs: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(*batch, n, d, generator=generator, dtype=torch.float64)
    shape = (*batch, n, outputs) if outputs else (*batch, n)
    return X, torch.randn(*shape, generator=generator, dtype=torch.float64)


def positive_definite(seed: int, d: int) -> torch.Tensor:
    A, _ = problem(seed, d, d)
    return A @ A.mT + torch.eye(d, dtype=torch.float64)


def close(a: torch.Tensor, b: torch.Tensor | np.ndarray, tolerance: float = 1e-10) -> bool:
    return bool(np.allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance))


@pytest.mark.parametrize(("n", "d"), [(5, 12), (12, 5), (7, 7)])
def test_min_norm_solution_is_the_pseudo_inverse_and_scipys_least_squares(n: int, d: int) -> None:
    X, y = problem(0, n, d)
    assert close(lm.min_norm_solution(X, y), np.linalg.pinv(X.numpy()) @ y.numpy(), 1e-8)
    assert close(lm.min_norm_solution(X, y), scipy.linalg.lstsq(X.numpy(), y.numpy())[0], 1e-8)


def test_min_norm_solution_with_batch_and_several_outputs() -> None:
    X, y = problem(1, 4, 9, 3, 2, outputs=5)
    theta = lm.min_norm_solution(X, y)
    assert theta.shape == (3, 2, 9, 5)
    assert close(theta[2, 1, :, 3], lm.min_norm_solution(X[2, 1], y[2, 1, :, 3]))


def test_min_norm_solution_keeps_dtype() -> None:
    X, y = problem(1, 4, 9)
    assert lm.min_norm_solution(X.float(), y.float()).dtype == torch.float32


def test_gradient_is_autograds_and_outputs_are_a_batch_axis() -> None:
    X, y = problem(2, 4, 6)
    theta = problem(3, 1, 6)[0][0].requires_grad_()
    (expected,) = torch.autograd.grad(0.5 * ((X @ theta - y) ** 2).sum(), theta)
    assert close(lm.least_squares_gradient(X, y)(theta.detach(), 0), expected)
    several = lm.least_squares_gradient(X, torch.stack([y, 2 * y]))(theta.detach().expand(2, 6), 0)
    assert close(several[0], expected)


@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(0, 4))
def test_nearest_solution_interpolates_and_no_other_solution_is_nearer(seed: int, n: int, extra: int) -> None:
    d = n + extra
    X, y = problem(seed, n, d)
    if torch.linalg.cond(X) > 1e4:
        return
    start, P = problem(seed + 1, 1, d)[0][0], positive_definite(seed + 2, d)
    theta = lm.nearest_solution(X, y, start, P)
    assert close(X @ theta, y, 1e-7)
    distance = lambda v: (v - start) @ torch.linalg.solve(P, v - start)  # noqa: E731
    other = problem(seed + 3, 1, d)[0][0]
    kernel = other - lm.project_row_space(X, other)
    assert distance(theta + kernel) >= distance(theta) - 1e-7 * (1 + distance(theta))


def test_nearest_solution_equals_its_printed_formula() -> None:
    X, y = problem(5, 3, 7)
    start, P = problem(6, 1, 7)[0][0], positive_definite(7, 7)
    formula = start + P @ X.mT @ torch.linalg.solve(X @ P @ X.mT, y - X @ start)
    assert close(lm.nearest_solution(X, y, start, P), formula)
    projector = torch.linalg.pinv(X) @ X
    general_start = torch.linalg.pinv(X) @ y + start - projector @ start
    assert close(lm.nearest_solution(X, y, start), general_start)


def test_several_starts_share_one_problem() -> None:
    X, y = problem(5, 3, 7)
    starts = problem(6, 4, 7)[0]
    together = lm.nearest_solution(X, y, starts)
    assert together.shape == (4, 7)
    assert close(together[2], lm.nearest_solution(X, y, starts[2]))


def test_projection_is_the_pseudo_inverses() -> None:
    X, _ = problem(8, 3, 7, 2)
    v = problem(9, 2, 7)[0]
    expected = (torch.linalg.pinv(X) @ X @ v[..., None]).squeeze(-1)
    assert close(lm.project_row_space(X, v), expected)


@pytest.mark.parametrize(("n", "d"), [(5, 12), (12, 5)])
@pytest.mark.parametrize("outputs", [0, 3])
def test_ridge_is_scikit_learns(n: int, d: int, outputs: int) -> None:
    X, y = problem(10, n, d, outputs=outputs)
    expected = Ridge(alpha=0.3, fit_intercept=False, solver="svd").fit(X.numpy(), y.numpy()).coef_
    assert close(lm.ridge_solution(X, y, 0.3), expected.T)


@pytest.mark.parametrize(("n", "d"), [(5, 12), (12, 5)])
@pytest.mark.parametrize("steps", [0, 1, 7, 300])
def test_stopped_gradient_descent_is_the_loop(n: int, d: int, steps: int) -> None:
    X, y = problem(11, n, d, 2)
    eta = 1.7 / torch.linalg.matrix_norm(X, 2) ** 2
    theta, gradient = torch.zeros(2, d, dtype=torch.float64), lm.least_squares_gradient(X, y)
    for k in range(steps):
        theta = theta - eta[:, None] * gradient(theta, k)
    assert close(lm.stopped_gradient_descent(X, y, eta, steps), theta)


def test_random_features_are_nested_and_relu() -> None:
    x, W = problem(12, 4, 6)[0], problem(13, 9, 6)[0]
    features = lm.random_features(x, W)
    assert close(features[:, :5], lm.random_features(x, W[:5]))
    assert close(features, np.maximum(x.numpy() @ W.numpy().T, 0))


def test_bad_arguments_are_named() -> None:
    X, y = problem(14, 3, 7)
    with pytest.raises(ValueError, match="rank deficient"):
        lm.min_norm_solution(torch.cat([X, X[:1]]), torch.cat([y, y[:1]]))
    with pytest.raises(ValueError, match="y has shape"):
        lm.min_norm_solution(X, y[:2])
    with pytest.raises(ValueError, match="X has shape"):
        lm.min_norm_solution(y, y)
    with pytest.raises(ValueError, match="y has shape"):
        lm.least_squares_gradient(X, y[:2])
    with pytest.raises(ValueError, match="at most as many samples"):
        lm.nearest_solution(X.mT, torch.ones(7, dtype=torch.float64), y)
    with pytest.raises(ValueError, match="start has shape"):
        lm.nearest_solution(X, y, y)
    with pytest.raises(ValueError, match="preconditioner has shape"):
        lm.nearest_solution(X, y, torch.zeros(7, dtype=torch.float64), torch.eye(3, dtype=torch.float64))
    with pytest.raises(ValueError, match="positive definite"):
        lm.nearest_solution(X, y, torch.zeros(7, dtype=torch.float64), -torch.eye(7, dtype=torch.float64))
    with pytest.raises(ValueError, match="X has shape"):
        lm.project_row_space(X.mT, y)
    with pytest.raises(ValueError, match="penalty"):
        lm.ridge_solution(X, y, 0.0)
    with pytest.raises(ValueError, match="steps"):
        lm.stopped_gradient_descent(X, y, 0.1, -1)
    with pytest.raises(ValueError, match="step_size"):
        lm.stopped_gradient_descent(X, y, 10.0, 5)
    with pytest.raises(ValueError, match="weights has shape"):
        lm.random_features(X, y[None])
