"""Matrix sensing against automatic differentiation, one problem at a time, and against what is hidden in it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.func import grad, hessian

from learning_dynamics.noise.matrix_sensing import MatrixSensing, gaussian_sensing

seeds = st.integers(0, 1000)


def problems(seed: int, count: int = 2, n: int = 7, size: int = 4, rank: int = 2):
    generators = [torch.Generator().manual_seed(seed + i) for i in range(count)]
    return gaussian_sensing(n, size, rank, generators)


def written_out(X, y, U):
    """The loss of one problem, sample by sample."""
    return sum(((X[i] * (U @ U.T)).sum() - y[i]) ** 2 for i in range(len(y))) / (2 * len(y))


@given(seeds, st.integers(1, 4))
def test_loss_gradient_and_hessian_are_those_of_the_sum_written_out(seed, m):
    sensing, _ = problems(seed)
    random = torch.Generator().manual_seed(seed)
    theta = torch.randn(3, 2, 4 * m, generator=random, dtype=torch.float64)
    assert sensing.gradient(theta).shape == theta.shape
    for run in range(3):
        for problem in range(2):
            X, y = sensing.measurements[problem], sensing.targets[problem]
            one, here = theta[run, problem], (run, problem)

            def loss(flat, X=X, y=y):
                return written_out(X, y, flat.reshape(4, -1))

            close = {"rtol": 1e-10, "atol": 1e-10}
            torch.testing.assert_close(sensing.loss(theta)[here], loss(one), **close)
            torch.testing.assert_close(sensing.gradient(theta)[here], grad(loss)(one), **close)
            H = hessian(loss)(one)
            torch.testing.assert_close(sensing.hessian(theta)[here], H, **close)
            torch.testing.assert_close(sensing.trace(theta)[here], H.trace(), **close)
            largest = torch.linalg.eigvalsh(H)[-1]
            torch.testing.assert_close(sensing.largest_eigenvalue(theta)[here], largest, **close)


@given(seeds)
def test_the_truth_has_loss_zero_rank_and_norm(seed):
    sensing, truth = problems(seed, n=9, size=5, rank=2)
    values, vectors = torch.linalg.eigh(truth)
    root = (vectors * values.clamp(min=0).sqrt()[:, None, :]).flatten(-2)
    assert sensing.loss(root).max() < 1e-25
    assert (torch.linalg.matrix_rank(truth) == 2).all()
    torch.testing.assert_close(torch.linalg.matrix_norm(truth), torch.ones(2, dtype=torch.float64))


def test_a_problem_without_axes_and_a_rotation_of_the_factor():
    sensing, _ = problems(0)
    single = MatrixSensing(sensing.measurements[0], sensing.targets[0])
    theta = torch.randn(12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    turn = torch.linalg.qr(
        torch.randn(3, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    ).Q
    turned = (single.factor(theta) @ turn).flatten()
    for of in (single.loss, single.trace, single.largest_eigenvalue):
        assert of(theta).shape == ()
        torch.testing.assert_close(of(turned), of(theta))


def test_a_diverged_run_is_infinitely_sharp_and_alone():
    sensing, _ = problems(0)
    theta = torch.ones(2, 2, 8, dtype=torch.float64)
    theta[0, 1, 0] = torch.inf
    sharp = sensing.largest_eigenvalue(theta)
    assert sharp.isinf().tolist() == [[False, True], [False, False]]


def test_dtype_is_kept():
    generators = [torch.Generator().manual_seed(0)]
    sensing, truth = gaussian_sensing(3, 2, 1, generators, dtype=torch.float32)
    theta = torch.ones(1, 4)
    for of in (sensing.loss, sensing.gradient, sensing.trace, sensing.hessian, sensing.largest_eigenvalue):
        assert of(theta).dtype == torch.float32 == truth.dtype


def test_bad_arguments():
    sensing, _ = problems(0)
    X, y = sensing.measurements, sensing.targets
    with pytest.raises(ValueError, match=r"theta has shape \(2, 7\); allowed: \(\*runs, \*\(2,\), 4 m\)"):
        sensing.loss(torch.ones(2, 7, dtype=torch.float64))
    with pytest.raises(ValueError, match="theta has shape"):
        sensing.loss(torch.ones(3, 8, dtype=torch.float64))
    with pytest.raises(ValueError, match="measurements"):
        MatrixSensing(X.triu(), y)
    with pytest.raises(ValueError, match="targets has shape"):
        MatrixSensing(X, y[0])
    with pytest.raises(ValueError, match="rank = 5; allowed: an integer >= 1 and <= 4"):
        problems(0, rank=5)
    with pytest.raises(ValueError, match="generators"):
        gaussian_sensing(3, 2, 1, [])


def test_measurements_are_symmetric_parts_of_standard_gaussian_matrices():
    sensing, _ = gaussian_sensing(4000, 4, 1, [torch.Generator().manual_seed(0)])
    X = sensing.measurements[0]
    off = ~torch.eye(4, dtype=torch.bool)
    torch.testing.assert_close(
        X.diagonal(dim1=-2, dim2=-1).square().mean(), X.new_tensor(1.0), rtol=0.05, atol=0
    )
    torch.testing.assert_close(X[:, off].square().mean(), X.new_tensor(0.5), rtol=0.05, atol=0)
