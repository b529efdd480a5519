"""Sparse recovery against enumeration, scipy, autograd and the definitions."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from learning_dynamics import ensembles, flows
from learning_dynamics.implicit_bias import sparse
from learning_dynamics.rules import GradientDescent


def generators(seed: int, count: int = 1) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(1000 * seed + i) for i in range(count)]


def problem(seed: int, n: int, d: int, s: int, count: int = 1, **options: float) -> sparse.SparseProblem:
    return sparse.sparse_problem(generators(seed, count), n, d, s, **options)


def moment(seed: int, n: int, d: int) -> torch.Tensor:
    X = torch.randn(n, d, generator=generators(seed)[0], dtype=torch.float64)
    return X.T @ X / n


def test_a_problem_is_what_it_says() -> None:
    X, y, truth = problem(0, 7, 12, 3, 4)
    assert X.shape == (4, 7, 12) and y.shape == (4, 7) and (truth.sum(-1) == 3).all()
    assert torch.allclose(y, torch.einsum("bnd,bd->bn", X, truth))
    assert len({tuple(row.tolist()) for row in truth}) > 1
    noisy = problem(0, 7, 12, 3, 4, noise=0.1)
    assert torch.equal(noisy.X, X) and 0.02 < (noisy.y - y).std() < 0.3
    one = problem(0, 7, 12, 3, 1)
    assert torch.equal(one.X[0], X[0])  # a problem depends on its own generator alone


def test_bartlett_moments_have_the_wishart_mean_and_variance() -> None:
    n, d = 12, 3
    drawn = sparse.gaussian_second_moment(generators(1, 4000), n, d)
    assert torch.allclose(drawn, drawn.mT) and torch.linalg.eigvalsh(drawn).min() > 0
    error = 4 / math.sqrt(4000)
    assert ((drawn.mean(0) - torch.eye(d)).abs() < error * math.sqrt(2 / n)).all()
    variance = (1 + torch.eye(d)) / n  # var of Σ̂_ij is (1 + [i = j])/n
    assert ((drawn.var(0) / variance - 1).abs() < 0.15).all()


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_isometry_constant_is_the_loop_over_supports(order: int) -> None:
    S = torch.stack([moment(seed, 9, 7) for seed in range(3)])
    found = sparse.restricted_isometry_constant(S, order, chunk=5)
    for one, value in zip(S, found, strict=True):
        apart = (one - torch.eye(7)).numpy()
        loop = max(np.linalg.norm(apart[np.ix_(T, T)], 2) for T in combinations(range(7), order))
        assert math.isclose(loop, value.item(), rel_tol=1e-12)


@pytest.mark.parametrize(("order", "other"), [(1, 1), (2, 2), (2, 1), (1, 3), (3, 2)])
def test_cross_constant_is_the_loop_over_pairs(order: int, other: int) -> None:
    S = moment(4, 8, 6)
    apart = (S - torch.eye(6)).numpy()
    loop = max(
        np.linalg.norm(apart[np.ix_(T, U)], 2)
        for T in combinations(range(6), order)
        for U in combinations(range(6), other)
    )
    assert math.isclose(loop, sparse.cross_isometry_constant(S, order, other, chunk=40).item(), rel_tol=1e-12)


@given(st.integers(0, 10_000), st.integers(1, 6))
def test_isometry_bounds_every_sparse_vector_and_grows_with_the_order(seed: int, order: int) -> None:
    S = moment(seed, 10, 8)
    delta = sparse.restricted_isometry_constant(S, order)
    random = generators(seed + 1)[0]
    v = torch.randn(8, generator=random, dtype=torch.float64)
    v[torch.randperm(8, generator=random)[order:]] = 0
    assert ((v @ S @ v) / (v @ v) - 1).abs() <= delta + 1e-12
    assert delta <= sparse.restricted_isometry_constant(S, order + 1) + 1e-12


def test_gradients_are_autograds() -> None:
    X, y, truth = problem(5, 6, 9, 2, 3)
    theta = torch.rand(3, 9, generator=generators(6)[0], dtype=torch.float64)
    loss = lambda t, X, y: ((X @ (t * t) - y) ** 2).sum() / 24  # noqa: E731
    expected = ensembles.batched(loss, X, y)(theta, 0)
    assert torch.allclose(sparse.squared_weights_gradient(X, y)(theta, 0), expected, rtol=1e-12)
    population = lambda t, b: ((t * t - b) ** 2).sum() / 4  # noqa: E731
    assert torch.allclose(
        sparse.population_gradient(truth)(theta, 0),
        ensembles.batched(population, truth)(theta, 0),
        rtol=1e-12,
    )


def test_cells_with_row_weights_are_the_smaller_problems() -> None:
    X, y, _ = problem(7, 8, 11, 2, 2)
    theta = torch.rand(2, 3, 11, generator=generators(8)[0], dtype=torch.float64)
    counts = [3, 5, 8]
    rows = torch.stack([(torch.arange(8) < m).double() / m for m in counts])
    cells = sparse.squared_weights_gradient(X, y[:, None].expand(2, 3, 8), rows)(theta, 0)
    for i, m in enumerate(counts):
        alone = sparse.squared_weights_gradient(X[:, :m], y[:, :m])(theta[:, i], 0)
        assert torch.allclose(cells[:, i], alone, rtol=1e-12)


def test_log_descent_is_plain_descent_and_keeps_digits() -> None:
    X, y, truth = problem(9, 40, 60, 2, 2)
    start = sparse.log_start([1e-2, 1e-3], 60, X).expand(2, 2, 60)
    found = sparse.log_descent(X, truth, start, 0.1, 90, [0, 50, 90])
    field = sparse.squared_weights_gradient(X[:, None], y[:, None])
    plain = ensembles.iterate(GradientDescent(0.1), field, start.exp(), 90, record=[0, 50, 90]).values
    assert torch.allclose(found.exp(), plain, rtol=1e-10)
    assert torch.allclose(sparse.recovery_error(found, truth[:, None]), plain**2 - truth[:, None], atol=1e-13)
    noise = 0.1 * torch.randn(2, 1, 40, generator=generators(10)[0], dtype=torch.float64)
    noisy = sparse.squared_weights_gradient(X[:, None], (y[:, None] + noise))
    plain = ensembles.iterate(GradientDescent(0.1), noisy, start.exp(), 60, record=[60]).last
    assert torch.allclose(
        sparse.log_descent(X, truth, start, 0.1, 60, noise=noise)[0].exp(), plain, rtol=1e-10
    )
    deep = sparse.log_descent(X, truth, sparse.log_start(1e-100, 60, X).expand(2, 1, 60), 0.1, 6000)
    error = sparse.recovery_error(deep[0], truth[:, None])
    assert (error != 0).all() and error.abs().max() < 1e-30  # far below the spacing of numbers near 1
    pull = (error @ X.mT @ X)[truth[:, None] > 0]
    assert pull.abs().max() < 1e-6 * error.abs().max()  # settled on the support


def test_recovery_error_of_a_truth_that_is_not_one() -> None:
    truth = torch.tensor([4.0, 0.25, 0.0], dtype=torch.float64)
    log_theta = torch.tensor([math.log(2.1), math.log(0.4), -50.0], dtype=torch.float64)
    expected = torch.tensor([2.1**2 - 4, 0.4**2 - 0.25, math.exp(-100)], dtype=torch.float64)
    assert torch.allclose(sparse.recovery_error(log_theta, truth), expected, rtol=1e-13)


@pytest.mark.parametrize("signed", [False, True])
def test_basis_pursuit_fits_and_has_no_duality_gap(signed: bool) -> None:
    X, y, _ = problem(11, 8, 20, 4)
    if signed:
        y = y + torch.randn(1, 8, generator=generators(12)[0], dtype=torch.float64)
    beta = sparse.basis_pursuit(X, y, signed=signed)[0]
    assert torch.allclose(X[0] @ beta, y[0], atol=1e-9)
    constraint = torch.cat([X[0].T, -X[0].T]) if signed else X[0].T
    dual = linprog(-y[0].numpy(), A_ub=constraint.numpy(), b_ub=np.ones(len(constraint)), bounds=(None, None))
    assert math.isclose(-dual.fun, beta.abs().sum().item(), rel_tol=1e-8)  # strong duality


def test_certificates() -> None:
    X, y, truth = problem(13, 20, 60, 2)
    X, support = X[0], truth[0] > 0
    best = sparse.best_certificate(X, support)
    products = X.T @ best.vector
    assert torch.allclose(products[support], torch.ones(2, dtype=torch.float64), atol=1e-9)
    assert math.isclose(products[~support].max().item(), best.level, abs_tol=1e-9)
    short = sparse.least_norm_certificate(X, truth[0])
    w = torch.linalg.lstsq(X.T[support], torch.ones(2, dtype=torch.float64), driver="gelsd").solution
    assert torch.allclose(short, X.T @ w, atol=1e-10)
    assert best.level <= short[~support].max() + 1e-12
    assert best.level < 1 and torch.allclose(sparse.basis_pursuit(X[None], y)[0], truth[0], atol=1e-8)


@settings(max_examples=10)
@given(st.integers(0, 1000))
def test_level_below_one_means_recovery(seed: int) -> None:
    X, y, truth = problem(seed, 8, 24, 3)
    level = sparse.best_certificate(X[0], truth[0] > 0).level
    recovered = torch.allclose(sparse.basis_pursuit(X, y), truth, atol=1e-6)
    assert recovered == (level < 1)


def test_entropy_limit_is_the_constrained_minimum_and_the_end_of_the_flow() -> None:
    X, y, truth = problem(14, 4, 10, 2, 2)
    alphas = [0.5, 0.1]
    found = sparse.entropy_limit(X, y, alphas)
    assert torch.allclose((X @ found[..., None]).squeeze(-1), y.expand(2, 2, 4), atol=1e-9)
    for i, alpha in enumerate(alphas):
        cost = lambda b, a=alpha: float((b * np.log(b / a**2) - b).sum())  # noqa: E731
        done = minimize(
            cost,
            found[i, 0].numpy() * 0 + 0.3,
            method="SLSQP",
            bounds=[(1e-12, None)] * 10,
            constraints={"type": "eq", "fun": lambda b: X[0].numpy() @ b - y[0].numpy()},
            options={"ftol": 1e-14, "maxiter": 2000},
        )
        assert np.allclose(done.x, found[i, 0], atol=2e-4)
        assert cost(found[i, 0].numpy()) <= done.fun + 1e-7
    field = sparse.squared_weights_gradient(X, y)
    start = torch.full((2, 10), 0.5, dtype=torch.float64)
    end = flows.gradient_flow(lambda theta, t: -field(theta, 0), start, [2000.0], method="LSODA").values[-1]
    assert torch.allclose(end**2, found[0], atol=1e-7)


def test_bad_arguments_are_named() -> None:
    X, y, truth = problem(15, 5, 9, 2)
    cases = [
        (lambda: problem(0, 9, 9, 2), "n = 9, d = 9"),
        (lambda: problem(0, 5, 9, 0), "sparsity = 0"),
        (lambda: problem(0, 5, 9, 2, noise=-1.0), "noise"),
        (lambda: sparse.sparse_problem([], 5, 9, 2), "generators is empty"),
        (lambda: sparse.gaussian_second_moment(generators(0), 3, 5), "n = 3, d = 5"),
        (lambda: sparse.gaussian_second_moment([], 5, 3), "generators is empty"),
        (lambda: sparse.squared_weights_gradient(X, y[:, :3]), "y has shape"),
        (lambda: sparse.squared_weights_gradient(X, y, torch.ones(3, 4).double()), "rows has shape"),
        (lambda: sparse.log_start(0.0, 9, X), "alpha = 0.0"),
        (lambda: sparse.log_start([0.1, -1.0], 9, X), "alpha"),
        (lambda: sparse.log_descent(X, truth[:, :4], sparse.log_start(0.1, 9, X), 0.1, 5), "has shape"),
        (lambda: sparse.log_descent(X, truth, torch.full((1, 1, 9), -torch.inf), 0.1, 5), "not finite"),
        (lambda: sparse.log_descent(X, truth, sparse.log_start(0.1, 9, X)[None], 0.1, 5, [7]), "record"),
        (lambda: sparse.log_descent(X, truth, sparse.log_start(5.0, 9, X)[None], 1.0, 5), "step_size = 1.0"),
        (lambda: sparse.restricted_isometry_constant(X[0], 2), "moment has shape"),
        (lambda: sparse.restricted_isometry_constant(moment(0, 9, 4), 5), "order = 5"),
        (lambda: sparse.restricted_isometry_constant(torch.eye(200), 6), "supports"),
        (lambda: sparse.cross_isometry_constant(moment(0, 9, 4), 2, 0), "other = 0"),
        (lambda: sparse.basis_pursuit(X, y[:, :3]), "y has shape"),
        (lambda: sparse.basis_pursuit(X.abs(), -y.abs()), "no interpolant"),
        (lambda: sparse.best_certificate(X[0], truth[0]), "bool"),
        (lambda: sparse.best_certificate(X[0], torch.ones(9, dtype=torch.bool)), "support has 9"),
        (lambda: sparse.best_certificate(torch.eye(9), truth[0] > 0), "no best certificate"),
        (lambda: sparse.least_norm_certificate(X.expand(2, 5, 9), torch.eye(9)[:2].cumsum(0)), "sparsity"),
        (lambda: sparse.entropy_limit(X, y, [0.1, 0.2]), "alphas"),
        (lambda: sparse.entropy_limit(X, y, [0.0]), "alphas"),
        (lambda: sparse.entropy_limit(X.mT, truth, [0.1]), "n < d"),
        (lambda: sparse.entropy_limit(X.abs(), -y.abs(), [0.5]), "did not arrive"),
    ]
    for call, message in cases:
        with pytest.raises(ValueError, match=message):
            call()
