"""The hyperbolic entropy against quadrature, automatic differentiation and scipy's primal solvers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.linalg import null_space
from scipy.optimize import linprog, minimize
from torch import Tensor

from learning_dynamics import flows
from learning_dynamics.implicit_bias import hyperbolic_entropy as entropy
from learning_dynamics.implicit_bias import linear_models as linear

DOUBLE = torch.float64


def instance(seed: int, n: int = 4, d: int = 9, batch: tuple[int, ...] = ()) -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(seed)
    X = torch.randn(*batch, n, d, generator=source, dtype=DOUBLE)
    return X, torch.randn(*batch, n, generator=source, dtype=DOUBLE)


def primal_minimizer(
    X: np.ndarray, y: np.ndarray, alpha: np.ndarray | float, start: np.ndarray | float = 0.0
) -> np.ndarray:
    """Minimise over the null space of X by a trust-region method: nothing of the dual, nothing of the library."""
    base, directions = np.linalg.pinv(X) @ y, null_space(X)
    c = 2 * np.asarray(alpha) ** 2
    offset = np.arcsinh(start / c)

    def value(z: np.ndarray) -> float:
        beta = base + directions @ z
        return float(np.sum(beta * np.arcsinh(beta / c) - np.sqrt(beta**2 + c**2) - offset * beta))

    def slope(z: np.ndarray) -> np.ndarray:
        return directions.T @ (np.arcsinh((base + directions @ z) / c) - offset)

    def hessian(z: np.ndarray) -> np.ndarray:
        beta = base + directions @ z
        return (directions.T / np.sqrt(beta**2 + c**2)) @ directions

    found = minimize(
        value,
        np.zeros(directions.shape[1]),
        jac=slope,
        hess=hessian,
        method="trust-exact",
        options={"gtol": 1e-11},
    )
    return base + directions @ found.x


@pytest.mark.parametrize("z", [-30.0, -1e-3, 1e-9, 0.4, 7.0, 1e5])
@pytest.mark.parametrize("alpha", [0.05, 1.0, 3.0])
def test_the_potential_is_the_integral_of_its_gradient(z: float, alpha: float) -> None:
    beta = z * alpha**2
    expected = quad(lambda t: z * math.asinh(z * t / 2), 0, 1, epsabs=0, epsrel=1e-12)[0] * alpha**2
    found = entropy.potential(torch.tensor([beta], dtype=DOUBLE), alpha).item()
    assert found == pytest.approx(expected, rel=1e-10)


def test_the_printed_formula_where_it_does_not_cancel() -> None:
    z = np.linspace(1.0, 50.0, 40)
    expected = 2 - np.sqrt(4 + z**2) + z * np.arcsinh(z / 2)
    found = entropy.potential(torch.as_tensor(z)[:, None] * 0.3**2, 0.3).numpy() / 0.3**2
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("alpha", [1e-150, 1e-80, 1e-9])
def test_small_scales_become_the_entropy(alpha: float) -> None:
    beta = torch.tensor([1.0, -2.0, 0.5], dtype=DOUBLE)
    expected = sum(abs(b) * (math.log(abs(b)) - 2 * math.log(alpha) - 1) for b in beta.tolist())
    assert entropy.potential(beta, alpha).item() == pytest.approx(expected, rel=1e-14)
    assert entropy.potential(torch.zeros(3, dtype=DOUBLE), alpha).item() == 0


def test_large_scales_become_the_square() -> None:
    beta = torch.tensor([1.0, -2.0, 0.5], dtype=DOUBLE)
    assert 4 * 1e8 * entropy.potential(beta, 1e4).item() == pytest.approx(5.25, rel=1e-14)


@given(
    st.lists(st.floats(-50, 50), min_size=2, max_size=6),
    st.floats(1e-3, 30),
)
def test_gradient_inverse_and_curvature(entries: list[float], alpha: float) -> None:
    beta = torch.tensor(entries, dtype=DOUBLE, requires_grad=True)
    (slope,) = torch.autograd.grad(entropy.potential(beta, alpha), beta)
    beta = beta.detach()
    assert torch.allclose(slope, entropy.gradient(beta, alpha), rtol=1e-9, atol=1e-12)
    back = entropy.weights_of(entropy.gradient(beta, alpha), alpha)
    assert torch.allclose(back, beta, rtol=1e-12, atol=1e-13 * alpha**2)
    assert torch.allclose(
        entropy.kernel_weights(beta, alpha), (beta**2 + 4 * alpha**4).sqrt(), rtol=1e-14, atol=0
    )


@given(st.integers(0, 10**6), st.floats(0.05, 3))
def test_the_potential_is_convex_and_the_divergence_positive(seed: int, alpha: float) -> None:
    one, two = torch.randn(2, 7, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)
    middle = entropy.potential((one + two) / 2, alpha)
    assert middle <= (entropy.potential(one, alpha) + entropy.potential(two, alpha)) / 2 + 1e-12
    assert entropy.potential(one, alpha, start=two) > 0
    assert abs(entropy.potential(one, alpha, start=one).item()) < 1e-12


@pytest.mark.parametrize("alpha", [0.05, 0.3, 1.0, 4.0])
def test_the_minimizer_against_a_primal_solver(alpha: float) -> None:
    X, y = instance(3)
    found = entropy.least_potential(X, y, alpha)
    np.testing.assert_allclose(
        found.weights.numpy(), primal_minimizer(X.numpy(), y.numpy(), alpha), atol=1e-8
    )
    assert found.misfit < 1e-14
    certificate = entropy.gradient(found.weights, alpha) - found.dual @ X
    assert certificate.abs().max() < 1e-12


def test_uneven_scales_and_starts_against_a_primal_solver() -> None:
    X, y = instance(5)
    source = torch.Generator().manual_seed(9)
    positive, negative = 0.1 + torch.rand(2, 9, generator=source, dtype=DOUBLE)
    scale, start = entropy.from_parameters(positive, negative)
    found = entropy.least_potential(X, y, scale, start)
    expected = primal_minimizer(X.numpy(), y.numpy(), scale.numpy(), start.numpy())
    np.testing.assert_allclose(found.weights.numpy(), expected, atol=1e-8)


def test_batches_are_separate_instances() -> None:
    X, y = instance(7, batch=(3,))
    alphas = torch.tensor([1e-3, 0.1, 2.0], dtype=DOUBLE)
    grid = entropy.least_potential(X, y, alphas[:, None, None])
    assert grid.weights.shape == (3, 3, 9) and grid.dual.shape == (3, 3, 4) and grid.misfit.shape == (3, 3)
    for a, alpha in enumerate(alphas):
        for b in range(3):
            single = entropy.least_potential(X[b], y[b], alpha.item()).weights
            assert torch.allclose(grid.weights[a, b], single, rtol=1e-9, atol=1e-12)
    path = entropy.least_potential_path(X, y, alphas.flip(0))
    assert torch.allclose(path.weights.flip(0), grid.weights, rtol=1e-9, atol=1e-12)


@given(st.integers(0, 10**6), st.floats(-40, 1.5))
def test_certificate_at_any_scale(seed: int, exponent: float) -> None:
    X, y = instance(seed, 5, 12)
    found = entropy.least_potential(X, y, 10**exponent)
    assert found.misfit < 1e-12
    z = entropy.gradient(found.weights, 10**exponent)
    outside = z - linear.project_row_space(X, z)
    assert outside.norm() < 1e-10 * z.norm()


def test_limits_are_basis_pursuit_and_least_norm() -> None:
    X, y = instance(11)
    pursuit = linprog(np.ones(18), A_eq=np.hstack([X, -X]), b_eq=y.numpy(), bounds=(0, None)).fun
    tiny = entropy.least_potential(X, y, 1e-40).weights.abs().sum().item()
    assert tiny == pytest.approx(pursuit, rel=1e-6)
    assert torch.allclose(
        entropy.least_potential(X, y, 1e3).weights, linear.min_norm_solution(X, y), atol=1e-12
    )


def test_the_flow_ends_there() -> None:
    X, y = instance(13)
    positive, negative = 0.1 + torch.rand(2, 9, generator=torch.Generator().manual_seed(1), dtype=DOUBLE)

    def field(theta: Tensor, t: float) -> Tensor:
        pull = 2 * X.mT @ (X @ (theta[0] ** 2 - theta[1] ** 2) - y)
        return torch.stack([-pull * theta[0], pull * theta[1]])

    end = flows.gradient_flow(field, torch.stack([positive, negative]), [0.0, 60.0], rtol=1e-11, atol=1e-14)
    theta = end.values[-1]
    scale, start = entropy.from_parameters(positive, negative)
    expected = entropy.least_potential(X, y, scale, start).weights
    assert torch.allclose(theta[0] ** 2 - theta[1] ** 2, expected, atol=1e-7)
    assert torch.allclose(theta.square().sum(0), entropy.kernel_weights(expected, scale), atol=1e-7)


def test_single_precision_stays() -> None:
    X, y = instance(17)
    found = entropy.least_potential(X.float(), y.float(), 0.3, tolerance=1e-6)
    assert found.weights.dtype == torch.float32
    assert torch.allclose(found.weights.double(), entropy.least_potential(X, y, 0.3).weights, atol=1e-4)


@pytest.mark.parametrize("alpha", [0.0, -1.0, math.inf, math.nan])
def test_a_bad_scale_is_refused(alpha: float) -> None:
    X, y = instance(1)
    for call in (
        lambda: entropy.least_potential(X, y, alpha),
        lambda: entropy.potential(X[0], alpha),
        lambda: entropy.gradient(X[0], alpha),
    ):
        with pytest.raises(ValueError, match="alpha = "):
            call()


def test_bad_problems_are_refused() -> None:
    X, y = instance(1)
    with pytest.raises(ValueError, match="at most as many samples"):
        entropy.least_potential(X.mT, torch.ones(9, dtype=DOUBLE), 1.0)
    with pytest.raises(ValueError, match="rank deficient"):
        entropy.least_potential(X[[0, 0]], y[:2], 1.0)
    with pytest.raises(ValueError, match="y has shape"):
        entropy.least_potential(X, y[:2], 1.0)
    with pytest.raises(ValueError, match="allowed: broadcasting"):
        entropy.least_potential(X, y, torch.ones(5, dtype=DOUBLE))
    with pytest.raises(ValueError, match="strictly decreasing"):
        entropy.least_potential_path(X, y, [0.1, 1.0])
    with pytest.raises(ValueError, match="no zero entries"):
        entropy.from_parameters(torch.ones(3), torch.tensor([1.0, 0.0, 1.0]))
    with pytest.raises(ValueError, match="negative has shape"):
        entropy.from_parameters(torch.ones(3), torch.ones(2))


@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_the_continuation_follows_the_tangent(shift: float) -> None:
    X, y = instance(19)
    start = shift * torch.linspace(-1, 1, 9, dtype=DOUBLE)
    level = torch.full_like(start, math.log(0.2))
    one, two = (entropy.least_potential(X, y, a.exp(), start).dual for a in (level, level - 1e-3))
    missed = entropy._predict(X, one, level, level - 1e-3, start) - two
    assert missed.norm() < 1e-2 * (two - one).norm()


def test_the_fallback_for_a_singular_matrix_still_solves() -> None:
    """The second instance is regular: the lift of the first leaves it as it is."""
    X = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]], dtype=DOUBLE).expand(2, 2, 3)
    curvature = torch.tensor([[1.0, 0.0, 1.0], [1.0, 3.0, 1.0]], dtype=DOUBLE)
    right = torch.tensor([[2.0, 0.0], [4.0, 6.0]], dtype=DOUBLE)  # in the range of diag(2, 0) and diag(2, 3)
    solved = entropy._solve(X, curvature, right)
    torch.testing.assert_close(
        solved, torch.tensor([[1.0, 0.0], [2.0, 2.0]], dtype=DOUBLE), rtol=1e-12, atol=0
    )
