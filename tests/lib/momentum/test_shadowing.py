"""Shadows against closed forms, dense least squares, sweeps of Banach's operator, and each other."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from learning_dynamics.momentum.shadowing import (
    adapted_norm,
    hyperbolic_splitting,
    least_squares_shadow,
    linear_shadow,
    pseudo_orbit_error,
)


def hyperbolic(seed: int, inside: int, outside: int) -> Tensor:
    """A random matrix, far from normal, with known numbers of eigenvalues on the two sides of the circle."""
    random = torch.Generator().manual_seed(seed)
    d = inside + outside
    basis = torch.randn(d, d, generator=random, dtype=torch.float64) + 3 * torch.eye(d, dtype=torch.float64)
    sizes = torch.rand(d, generator=random, dtype=torch.float64)
    signs = torch.where(torch.rand(d, generator=random) < 0.5, -1.0, 1.0).double()
    values = torch.where(torch.arange(d) < inside, 0.1 + 0.8 * sizes, 1.1 + sizes) * signs
    return basis @ torch.diag(values) @ torch.linalg.inv(basis)


def near_orbit(A: Tensor, length: int, delta: float, seed: int) -> Tensor:
    """A pseudo-orbit of A that stays of order one: an exact shadow of size one with errors added to it."""
    random = torch.Generator().manual_seed(seed)
    return delta * torch.randn(length + 1, len(A), generator=random, dtype=torch.float64)


def bent(theta: Tensor) -> Tensor:
    """A saddle map with a nonlinear term."""
    return torch.stack([1.2 * theta[0] + 0.05 * theta[1] ** 2, 0.7 * theta[1] + 0.05 * torch.sin(theta[0])])


@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(0, 3))
def test_one_step_errors_are_what_was_added(seed, inside, outside):
    A = hyperbolic(seed, inside, outside)
    random = torch.Generator().manual_seed(seed)
    added = torch.randn(6, len(A), generator=random, dtype=torch.float64)
    orbit = [torch.ones(len(A), dtype=torch.float64)]
    for error in added:
        orbit.append(A @ orbit[-1] + error)
    found = pseudo_orbit_error(lambda theta: A @ theta, torch.stack(orbit))
    torch.testing.assert_close(found, added.norm(dim=-1), rtol=1e-8, atol=1e-9)


@given(st.integers(0, 10_000), st.integers(0, 3), st.integers(0, 3))
def test_splitting_is_invariant_and_sorts_the_spectrum(seed, inside, outside):
    if inside + outside == 0:
        inside = 1
    A = hyperbolic(seed, inside, outside)
    split = hyperbolic_splitting(A)
    assert split.stable.shape == (len(A), inside) and split.unstable.shape == (len(A), outside)
    for basis, part, below in (
        (split.stable, split.on_stable, True),
        (split.unstable, split.on_unstable, False),
    ):
        scale = float(A.norm()) * float(torch.linalg.cond(A))
        torch.testing.assert_close(A @ basis, basis @ part, rtol=0, atol=1e-11 * scale)
        torch.testing.assert_close(
            basis.T @ basis, torch.eye(basis.shape[1], dtype=torch.float64), rtol=0, atol=1e-12
        )
        if part.numel():
            sizes = torch.linalg.eigvals(part).abs()
            assert bool((sizes < 1).all() if below else (sizes > 1).all())
    P = split.projector
    torch.testing.assert_close(P @ P, P, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(
        P @ A, A @ P, rtol=0, atol=1e-10 * float(torch.linalg.cond(A)) * float(A.norm())
    )


def test_splitting_of_a_symmetric_matrix_is_that_of_its_eigenvectors():
    values, vectors = torch.tensor([0.2, -0.9, 1.5, -3.0]), torch.linalg.qr(torch.randn(4, 4).double())[0]
    A = vectors @ torch.diag(values.double()) @ vectors.T
    expected = vectors[:, :2] @ vectors[:, :2].T
    torch.testing.assert_close(hyperbolic_splitting(A).projector, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("angle", [0.3, 2.0])
def test_complex_pairs_stay_together(angle):
    turn = torch.tensor([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    A = torch.block_diag(1.4 * turn, 0.6 * turn)
    split = hyperbolic_splitting(A)
    expected = torch.diag(torch.tensor([0.0, 0.0, 1.0, 1.0], dtype=torch.float64))
    torch.testing.assert_close(split.projector, expected, rtol=0, atol=1e-12)


def test_an_eigenvalue_on_the_circle_is_refused():
    with pytest.raises(ValueError, match="unit circle"):
        hyperbolic_splitting(torch.diag(torch.tensor([1.0, 0.5], dtype=torch.float64)))
    with pytest.raises(ValueError, match="unit circle"):
        linear_shadow(torch.tensor([[0.0, -1.0], [1.0, 0.0]]), torch.zeros(4, 2))


@given(st.integers(0, 10_000), st.integers(0, 2), st.integers(0, 2))
def test_linear_shadow_is_an_orbit_near_the_sequence(seed, inside, outside):
    if inside + outside == 0:
        outside = 1
    A = hyperbolic(seed, inside, outside)
    sequence = near_orbit(A, 30, 1e-3, seed)
    shadow = linear_shadow(A, sequence)
    errors = pseudo_orbit_error(lambda theta: A @ theta, shadow)
    assert float(errors.max()) < 1e-10 * max(1.0, float(shadow.abs().max()) / 1e-3)
    split = hyperbolic_splitting(A)
    coordinates = torch.linalg.inv(torch.cat([split.stable, split.unstable], 1))
    gaps = (shadow - sequence) @ coordinates.T
    assert float(gaps[0, :inside].abs().sum()) + float(gaps[-1, inside:].abs().sum()) < 1e-10


def test_linear_shadow_in_one_dimension_is_the_geometric_series():
    for factor in (0.6, 3.0, -2.0):
        A = torch.tensor([[factor]], dtype=torch.float64)
        orbit = [torch.zeros(1, dtype=torch.float64)]
        for _ in range(12):
            orbit.append(A @ orbit[-1] + 1.0)
        shadow = linear_shadow(A, torch.stack(orbit))
        gap = (shadow - torch.stack(orbit))[:, 0]
        k = torch.arange(13, dtype=torch.float64)
        if abs(factor) < 1:
            expected = -(1 - factor**k) / (1 - factor)
        else:
            expected = (1 - factor ** (k - 12)) / (factor - 1)
        torch.testing.assert_close(gap, expected, rtol=1e-9, atol=1e-9)


@given(st.integers(0, 10_000), st.integers(0, 2), st.integers(0, 2), st.integers(1, 8))
def test_newton_on_a_linear_map_is_dense_least_squares(seed, inside, outside, K):
    if inside + outside == 0:
        inside = 1
    A, d = hyperbolic(seed, inside, outside), inside + outside
    sequence = near_orbit(A, K, 1.0, seed)
    shadow = least_squares_shadow(lambda theta: A @ theta, sequence)
    # all orbits are A^k start: least squares in the start alone
    powers = torch.cat([torch.linalg.matrix_power(A, k) for k in range(K + 1)])
    start = torch.linalg.lstsq(powers, sequence.reshape(-1, 1)).solution
    assert shadow.converged
    torch.testing.assert_close(
        shadow.orbit.reshape(-1), (powers @ start)[:, 0], rtol=1e-6, atol=1e-6 * float(A.norm())
    )
    assert shadow.orbit.shape == (K + 1, d)


@given(st.integers(0, 10_000))
def test_newton_on_a_bent_map_beats_its_neighbours(seed):
    random = torch.Generator().manual_seed(seed)
    sequence = 0.1 * torch.randn(13, 2, generator=random, dtype=torch.float64)
    shadow = least_squares_shadow(bent, sequence)
    assert shadow.converged and float(pseudo_orbit_error(bent, shadow.orbit).max()) < 1e-12
    assert float(shadow.residuals[-1]) < 1e-12 < float(shadow.residuals[0])
    best = (shadow.orbit - sequence).square().sum()
    for move in 1e-3 * torch.randn(20, 2, generator=random, dtype=torch.float64):
        orbit = [shadow.orbit[0] + move]
        for _ in range(12):
            orbit.append(bent(orbit[-1]))
        assert (torch.stack(orbit) - sequence).square().sum() > best


def test_a_given_jacobian_changes_nothing():
    sequence = 0.1 * torch.randn(9, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)

    def slope(theta: Tensor) -> Tensor:
        return torch.stack([
            torch.stack([theta.new_tensor(1.2), 0.1 * theta[1]]),
            torch.stack([0.05 * torch.cos(theta[0]), theta.new_tensor(0.7)]),
        ])  # fmt: skip

    theirs = least_squares_shadow(bent, sequence, jacobian=slope).orbit
    torch.testing.assert_close(theirs, least_squares_shadow(bent, sequence).orbit, rtol=0, atol=1e-13)


def test_expanding_map_agrees_with_sweeps_of_the_contraction():
    """The shadow of an expanding map is the fixed point of z_k <- inverse(z_{k+1}), from any sequence."""

    def step(theta: Tensor) -> Tensor:
        return 3 * theta + torch.sin(theta)

    def inverse(value: Tensor) -> Tensor:
        theta = value / 3
        for _ in range(60):
            theta = theta - (step(theta) - value) / (3 + torch.cos(theta))
        return theta

    random = torch.Generator().manual_seed(1)
    true = [torch.tensor([1e-4], dtype=torch.float64)]
    for _ in range(8):
        true.append(step(true[-1]))
    sequence = torch.stack(true) + 0.01 * torch.randn(9, 1, generator=random, dtype=torch.float64)
    swept = sequence.clone()
    for _ in range(40):
        swept[:-1] = inverse(swept[1:])
    shadow = least_squares_shadow(step, sequence).orbit
    assert float((shadow - sequence).norm()) <= float((swept - sequence).norm()) + 1e-12
    assert float(pseudo_orbit_error(step, swept).max()) < 1e-9
    assert float((swept - sequence).abs().max()) < 0.02


def test_no_convergence_is_reported():
    sequence = torch.tensor([[0.0], [5.0], [-5.0]], dtype=torch.float64)
    shadow = least_squares_shadow(lambda theta: theta**2 + 1, sequence, iterations=1)
    assert not shadow.converged and len(shadow.residuals) == 2
    wild = least_squares_shadow(lambda theta: torch.exp(theta**2), 20 * sequence, iterations=3)
    assert not wild.converged and bool(torch.isfinite(wild.orbit).all())


@given(st.integers(0, 10_000), st.integers(1, 4))
def test_the_adapted_norm_contracts(seed, d):
    A = hyperbolic(seed, d, 0)
    P, factor = adapted_norm(A)
    assert factor < 1
    assert float(torch.linalg.eigvalsh(P)[0]) >= 1 - 1e-9
    torch.testing.assert_close(
        P - A.T @ P @ A, torch.eye(d, dtype=torch.float64), rtol=0, atol=1e-8 * float(P.norm())
    )
    root = torch.linalg.cholesky(P).T
    gain = torch.linalg.matrix_norm(root @ A @ torch.linalg.inv(root), 2)
    assert float(gain) == pytest.approx(factor, rel=1e-7)


def test_adapted_norm_is_the_sum_of_powers():
    A = hyperbolic(5, 3, 0)
    total, power = torch.zeros(3, 3, dtype=torch.float64), torch.eye(3, dtype=torch.float64)
    for _ in range(2000):
        total, power = total + power.T @ power, A @ power
    torch.testing.assert_close(adapted_norm(A).matrix, total, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: adapted_norm(1.1 * torch.eye(2)), "A has spectral radius"),
        (lambda: adapted_norm(torch.zeros(2, 3)), "A has shape"),
        (lambda: pseudo_orbit_error(lambda theta: theta, torch.zeros(1, 2)), "orbit has shape"),
        (lambda: pseudo_orbit_error(lambda theta: theta[:1], torch.zeros(3, 2)), "step returns shape"),
        (lambda: least_squares_shadow(lambda theta: theta, torch.zeros(3, 2)), "orbit has dtype"),
        (
            lambda: least_squares_shadow(lambda theta: theta, torch.zeros(3, 2).double(), tolerance=0.0),
            "tolerance = ",
        ),
        (
            lambda: least_squares_shadow(
                lambda theta: 2 * theta + 1, torch.zeros(3, 2).double(), jacobian=lambda theta: theta
            ),
            "jacobian has shape",
        ),
        (lambda: linear_shadow(2 * torch.eye(2), torch.zeros(3, 1)), "orbit has shape"),
        (lambda: hyperbolic_splitting(torch.full((2, 2), torch.inf)), "A has entries"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(ValueError, match=name) as error:
        call()
    assert "allowed:" in str(error.value) and "\n" not in str(error.value)


def test_dtype_is_kept():
    A = torch.diag(torch.tensor([0.5, 2.0]))
    assert hyperbolic_splitting(A).projector.dtype == torch.float32
    assert linear_shadow(A, torch.zeros(4, 2)).dtype == torch.float32
    assert adapted_norm(A / 4).matrix.dtype == torch.float32
