"""Conjugate gradients against torch.linalg.solve and Lanczos against torch.linalg.eigh."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from learning_dynamics import curvature

sizes = st.integers(1, 12)
seeds = st.integers(0, 10_000)


def matrix(seed: int, eigenvalues: Tensor) -> Tensor:
    """A symmetric matrix with these eigenvalues in a random basis."""
    random = torch.Generator().manual_seed(seed)
    d = len(eigenvalues)
    Q, _ = torch.linalg.qr(torch.randn(d, d, generator=random, dtype=torch.float64))
    return ((Q * eigenvalues.double()) @ Q.T).to(eigenvalues.dtype)


def vector(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + 1), dtype=dtype)


@given(seeds, sizes, st.integers(1, 3), st.floats(0, 1), st.booleans())
def test_solutions_are_those_of_a_direct_solver(seed, d, k, damping, preconditioned):
    A = matrix(seed, torch.logspace(0, -3, d, dtype=torch.float64))
    b = vector(seed, d, k)
    damped = A + damping * torch.eye(d, dtype=torch.float64)
    preconditioner = torch.diag(1 / damped.diagonal()) if preconditioned else None
    found = curvature.conjugate_gradient(A, b, damping=damping, preconditioner=preconditioner)
    assert found.converged.all() and not found.indefinite.any()
    expected = torch.linalg.solve(damped, b)
    # error <= condition (at most 1000) * residual (1e-10) * |x|
    assert (torch.linalg.vector_norm(found.x - expected, dim=0) <= 1e-7 * expected.norm(dim=0)).all()
    torch.testing.assert_close(
        found.residual, (b - damped @ found.x).norm(dim=0) / b.norm(dim=0), rtol=1e-3, atol=1e-14
    )
    for column in range(k):
        alone = curvature.conjugate_gradient(
            lambda v: A @ v, b[:, column], damping=damping, preconditioner=preconditioner
        )
        assert alone.x.shape == (d,) and alone.converged.shape == ()
        torch.testing.assert_close(alone.x, found.x[:, column], rtol=1e-6, atol=1e-7)


@given(seeds, st.integers(2, 12))
def test_after_m_steps_x_minimizes_the_quadratic_over_the_krylov_space(seed, d):
    A, b = matrix(seed, torch.linspace(1, 5, d, dtype=torch.float64)), vector(seed, d)
    m = d // 2
    found = curvature.conjugate_gradient(A, b, max_steps=m, tolerance=1e-14)
    Q = curvature.lanczos(A, b, m).basis
    torch.testing.assert_close(found.x, Q @ torch.linalg.solve(Q.T @ A @ Q, Q.T @ b), rtol=1e-8, atol=1e-10)
    assert found.steps == m and not found.converged


def test_as_many_steps_as_distinct_eigenvalues_and_one_with_the_exact_inverse():
    A, b = matrix(0, torch.tensor([1.0, 1.0, 1.0, 4.0, 4.0, 9.0]).double()), vector(0, 6)
    assert curvature.conjugate_gradient(A, b).steps == 3
    assert curvature.conjugate_gradient(A, b, preconditioner=torch.linalg.inv(A)).steps == 1
    solution = torch.linalg.solve(A, b)
    assert curvature.conjugate_gradient(A, b, start=solution).steps == 0
    near = curvature.conjugate_gradient(A, b, start=solution + 1e-3)
    torch.testing.assert_close(near.x, solution, rtol=1e-8, atol=1e-9)


def test_columns_that_are_done_or_zero_wait_for_the_others():
    A = matrix(0, torch.logspace(0, -2, 8, dtype=torch.float64))
    b = torch.stack([torch.zeros(8).double(), A @ torch.linalg.eigh(A)[1][:, 0], vector(0, 8)], 1)
    found = curvature.conjugate_gradient(A, b)
    assert found.converged.all() and not found.x[:, 0].any()
    torch.testing.assert_close(A @ found.x, b, rtol=0, atol=1e-9)


def test_an_indefinite_matrix_is_reported():
    A = torch.diag(torch.tensor([1.0, -1.0]))
    found = curvature.conjugate_gradient(A, torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    assert found.indefinite.tolist() == [True, False]
    assert found.converged.tolist() == [False, True]
    broken = curvature.conjugate_gradient(lambda v: v * math.nan, torch.ones(2))
    assert not broken.converged


@given(seeds, sizes, st.integers(1, 12), st.sampled_from([torch.float32, torch.float64]))
def test_largest_eigenvalues_are_those_of_eigh(seed, d, k, dtype):
    k = min(k, d)
    A = matrix(seed, torch.linspace(-1, 2, d, dtype=dtype))
    found = curvature.top_eigenpairs(A, k, vector(seed, d, dtype=dtype))
    eps = torch.finfo(dtype).eps
    tolerance = 1e-8 if dtype == torch.float64 else 1e-4
    assert found.converged
    assert found.values.dtype == found.vectors.dtype == dtype
    expected = torch.linalg.eigvalsh(A).flip(0)[:k]
    torch.testing.assert_close(found.values, expected, rtol=0, atol=2 * tolerance)
    identity = torch.eye(k, dtype=dtype)
    torch.testing.assert_close(found.vectors.T @ found.vectors, identity, rtol=0, atol=200 * eps)
    residuals = (A @ found.vectors - found.vectors * found.values).norm(dim=0)
    assert (residuals <= 2 * tolerance + 100 * eps).all()


def test_lanczos_is_a_tridiagonal_form_and_orthonormal_after_many_steps():
    A = matrix(0, torch.logspace(0, -12, 200, dtype=torch.float64))
    found = curvature.lanczos(A, vector(0, 200), 60)
    Q = found.basis
    torch.testing.assert_close(Q.T @ Q, torch.eye(60, dtype=torch.float64), rtol=0, atol=1e-13)
    T = torch.diag(found.diagonal)
    T += torch.diag(found.off_diagonal[:-1], 1) + torch.diag(found.off_diagonal[:-1], -1)
    torch.testing.assert_close(Q.T @ A @ Q, T, rtol=0, atol=1e-13)


def test_invariant_spaces():
    A = torch.diag(torch.tensor([3.0, 3.0, 1.0, 0.0, 0.0]).double())
    assert curvature.lanczos(A, vector(0, 5), 5).basis.shape == (5, 3)  # three distinct eigenvalues
    copies = curvature.top_eigenpairs(A, 3, vector(0, 5))
    torch.testing.assert_close(copies.values, torch.tensor([3.0, 3.0, 1.0]).double())
    zero = curvature.top_eigenpairs(torch.zeros(4, 4), 2, torch.ones(4))
    assert zero.converged and not zero.values.any()


@given(seeds, st.integers(2, 10))
def test_the_spectral_density_has_the_right_moments(seed, d):
    A = matrix(seed, torch.linspace(-1, 2, d, dtype=torch.float64))
    steps = min(d, 4)
    starts = torch.sign(vector(seed, d, 3))
    found = curvature.spectral_density(A, starts, steps)
    torch.testing.assert_close(found.weights.sum(1), torch.ones(3, dtype=torch.float64))
    for power in range(2 * steps):  # Gauss quadrature with m points is exact below degree 2 m
        moments = (found.weights * found.points**power).sum(1)
        exact = torch.einsum("is,ij,js->s", starts, torch.linalg.matrix_power(A, power), starts) / d
        torch.testing.assert_close(moments, exact, rtol=1e-9, atol=1e-9)


def test_a_smoothed_density_integrates_to_one():
    A = matrix(0, torch.linspace(-1, 2, 30, dtype=torch.float64))
    grid = torch.linspace(-3, 4, 2001, dtype=torch.float64)
    density = curvature.spectral_density(A, torch.sign(vector(0, 30, 2)), 10).smoothed(grid, 0.1)
    assert abs(float(torch.trapezoid(density, grid)) - 1) < 1e-6


def test_the_same_from_operators():
    random = torch.Generator().manual_seed(0)
    torch.manual_seed(0)  # the layers' first weights
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    x = torch.randn(20, 3, generator=random, dtype=torch.float64)
    y = torch.randint(2, (20,), generator=random)
    G = curvature.GaussNewton(model, curvature.Categorical(), x, y)
    dense, b = G.dense(), torch.ones(26, dtype=torch.float64)
    expected = torch.linalg.solve(dense + 0.1 * torch.eye(26, dtype=torch.float64), b)
    diagonal = G.diagonal() + 0.1
    for preconditioner in (None, lambda r: r / diagonal):
        found = G.solve(b, damping=0.1, preconditioner=preconditioner)
        assert found.converged
        torch.testing.assert_close(found.x, expected, rtol=1e-8, atol=1e-8)
    eigenvalues = torch.linalg.eigvalsh(dense)
    torch.testing.assert_close(G.top_eigenvalues(3), eigenvalues.flip(0)[:3], rtol=1e-7, atol=1e-8)
    smallest = curvature.top_eigenpairs(lambda v: -(G @ v), 1, b + 0.1 * vector(0, 26))
    torch.testing.assert_close(-smallest.values[0], eigenvalues[0], rtol=0, atol=1e-8)
    density = G.spectral_density(3, 5, generator=random)
    assert density.points.shape == (3, 5)
    with pytest.raises(RuntimeError, match="did not converge"):
        G.top_eigenvalues(3, max_steps=3)


I2, ONE = torch.eye(2), torch.ones(2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: curvature.conjugate_gradient(I2, torch.ones(2, 2, 2)),
            "b = torch.float32 .2, 2, 2.; allowed: a float",
        ),
        (
            lambda: curvature.conjugate_gradient(I2, torch.ones(2, dtype=torch.int64)),
            "b = torch.int64 .2,.; allowed: a float",
        ),
        (
            lambda: curvature.conjugate_gradient(I2.half(), ONE.half()),
            "b = torch.float16 .2,.; allowed: a float32",
        ),
        (
            lambda: curvature.conjugate_gradient(ONE, ONE),
            r"A @ v is torch.float32 \(\); allowed: torch.float32 \(2,\)",
        ),
        (
            lambda: curvature.conjugate_gradient(I2, I2, preconditioner=ONE),
            r"A @ v is .* \(2,\); allowed: .* \(2, 2\)",
        ),
        (lambda: curvature.conjugate_gradient(lambda v: v[:, None], ONE), r"A @ v is torch.float32 \(2, 1\)"),
        (lambda: curvature.conjugate_gradient(lambda v: v[:, 0], I2), r"A @ v is torch.float32 \(2,\)"),
        (
            lambda: curvature.conjugate_gradient(lambda v: v.float(), ONE.double()),
            "A @ v is torch.float32 .2,.; allowed",
        ),
        (lambda: curvature.top_eigenpairs(lambda v: v @ v, 1, ONE), r"A @ v is torch.float32 \(\)"),
        (lambda: curvature.top_eigenpairs(lambda v: v.double(), 1, ONE), "A @ v is torch.float64"),
        (lambda: curvature.conjugate_gradient(I2, ONE * math.nan), "b has entries"),
        (lambda: curvature.conjugate_gradient(I2, ONE, damping=-1.0), "damping = -1.0"),
        (lambda: curvature.conjugate_gradient(I2, ONE, tolerance=0.0), "tolerance = 0.0"),
        (lambda: curvature.conjugate_gradient(I2, ONE, max_steps=-1), "max_steps = -1"),
        (lambda: curvature.conjugate_gradient(I2, ONE, start=torch.ones(3)), "start is"),
        (lambda: curvature.conjugate_gradient(I2, ONE, preconditioner=-I2), "not positive definite"),
        (lambda: curvature.lanczos(I2, torch.zeros(2), 1), "start = "),
        (lambda: curvature.lanczos(I2, ONE, 3), "steps = 3"),
        (lambda: curvature.top_eigenpairs(I2, 0, ONE), "k = 0"),
        (lambda: curvature.top_eigenpairs(I2, 1, ONE.bfloat16()), "float32 or float64"),
        (lambda: curvature.top_eigenpairs(torch.eye(3), 1, ONE), "A has shape"),
        (lambda: curvature.top_eigenpairs(lambda v: v * math.nan, 1, ONE), "finite products"),
        (lambda: curvature.top_eigenpairs(I2, 3, ONE), "k = 3"),
        (lambda: curvature.top_eigenpairs(I2, 2, ONE, max_steps=1), "max_steps = 1"),
        (lambda: curvature.top_eigenpairs(I2, 1, ONE, tolerance=-1.0), "tolerance = -1.0"),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(ValueError, match=message) as error:
        call()
    assert "\n" not in str(error.value)


@given(seeds, st.lists(st.tuples(st.floats(-2, 2), st.integers(1, 5)), min_size=2, max_size=12))
def test_multiple_eigenvalues_are_found_as_often_as_they_occur(seed, groups):
    eigenvalues = torch.tensor([value for value, times in groups for _ in range(times)]).double()
    A, k = matrix(seed, eigenvalues), min(len(eigenvalues), 1 + seed % 12)
    found = curvature.top_eigenpairs((A + A.T) / 2, k, vector(seed, len(A)))
    expected = eigenvalues.sort(descending=True).values[:k]
    assert found.converged
    torch.testing.assert_close(found.values, expected, rtol=0, atol=1e-7)
    torch.testing.assert_close(found.vectors.T @ found.vectors, torch.eye(k).double(), rtol=0, atol=1e-10)


@pytest.mark.parametrize("k", range(1, 13))
def test_softmax_regression_from_zero_has_each_eigenvalue_three_times(k):
    """At equal probabilities the Fisher matrix is (I - 11'/C)/C times the second moment of the inputs."""
    x = vector(0, 200, 6)
    model = nn.Linear(6, 4).double()
    with torch.no_grad():
        model.weight.zero_()
        model.bias.zero_()
    F = curvature.Fisher(model, curvature.Categorical(), x)
    inputs = torch.cat([x, torch.ones(200, 1).double()], 1)
    once = torch.linalg.eigvalsh(inputs.T @ inputs / 200).flip(0) / 4
    torch.testing.assert_close(F.top_eigenvalues(k), once.repeat_interleave(3)[:k], rtol=0, atol=1e-8)


@pytest.mark.parametrize("as_function", [False, True])
def test_an_asymmetric_matrix_is_refused(as_function):
    A = torch.triu(torch.ones(30, 30)).double()
    given = (lambda v: A @ v) if as_function else A
    for call in (
        lambda: curvature.top_eigenpairs(given, 1, vector(0, 30)),
        lambda: curvature.lanczos(given, vector(0, 30), 5),
        lambda: curvature.spectral_density(given, torch.ones(30, 1).double(), 5),
    ):
        with pytest.raises(ValueError, match="allowed: a symmetric matrix"):
            call()


def test_a_function_may_write_into_what_it_is_given():
    b = torch.arange(1.0, 5.0, dtype=torch.float64)
    found = curvature.conjugate_gradient(lambda v: v.mul_(2.0), b)
    torch.testing.assert_close(found.x, b / 2)
    assert curvature.top_eigenpairs(lambda v: v.mul_(2.0), 2, b).values.tolist() == pytest.approx([2, 2])
