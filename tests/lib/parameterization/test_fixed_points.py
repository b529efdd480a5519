"""Reward-chain values: against `torch.linalg.solve`, unrolling, `torch.func.jacrev` and finite differences."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learning_dynamics.parameterization import fixed_points

EPS = torch.finfo(torch.float64).eps


def chain(seed: int, *batch: int, d: int = 5, scale: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.Generator().manual_seed(seed)
    u = torch.randn(*batch, d, generator=source, dtype=torch.float64)
    return u, scale * torch.randn(*batch, d, d, generator=source, dtype=torch.float64)


def plain_value(u, Z, discount):  # the slow twin: autograd through the solver
    A = torch.eye(u.shape[-1], dtype=u.dtype) - torch.as_tensor(discount, dtype=u.dtype)[
        ..., None, None
    ] * Z.softmax(-1)
    return torch.linalg.solve(A, u[..., None])[..., 0]


def test_value_and_gradients_match_autograd_through_the_solver() -> None:
    u, Z = chain(0, 3, 4)
    discount = torch.tensor([0.0, 0.5, 0.9, 0.99], dtype=torch.float64)
    weights = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    pairs = []
    for value in (fixed_points.reward_chain_value, plain_value):
        inputs = (u.clone().requires_grad_(), Z.clone().requires_grad_())
        out = value(*inputs, discount)
        pairs.append((out, *torch.autograd.grad((out * weights).sum(), inputs)))
    for ours, reference in zip(*pairs, strict=True):
        torch.testing.assert_close(ours, reference, rtol=1e-11, atol=1e-11)


def test_first_and_second_derivatives_match_finite_differences() -> None:
    u, Z = (x.requires_grad_() for x in chain(2, 2, d=3))
    assert torch.autograd.gradcheck(lambda u, Z: fixed_points.reward_chain_value(u, Z, 0.9), (u, Z))
    assert torch.autograd.gradgradcheck(lambda u, Z: fixed_points.reward_chain_value(u, Z, 0.9), (u, Z))


def test_batch_axes_broadcast_and_reduce_their_gradients() -> None:
    u, _ = chain(3, 4)
    _, Z = chain(4)
    Z.requires_grad_()
    value = fixed_points.reward_chain_value(u, Z, 0.8)
    assert value.shape == (4, 5)
    (gradient,) = torch.autograd.grad(value.sum(), Z)
    (reference,) = torch.autograd.grad(plain_value(u, Z.expand(4, 5, 5), 0.8).sum(), Z)
    torch.testing.assert_close(gradient, reference, rtol=1e-12, atol=1e-12)


def test_dtype_is_kept() -> None:
    u, Z = (x.float() for x in chain(5, 2))
    assert fixed_points.reward_chain_value(u, Z, 0.9).dtype == torch.float32
    assert fixed_points.weight_space_preconditioner(Z, u, 0.9).matrix.dtype == torch.float32
    assert fixed_points.stationary_distribution(Z.softmax(-1)).dtype == torch.float32


@given(seed=st.integers(0, 2**31), d=st.integers(1, 8), discount=st.floats(0, 0.99), scale=st.floats(0, 20))
def test_any_weights_can_be_reached_and_solve_the_equation(seed, d, discount, scale) -> None:
    beta, Z = chain(seed, d=d, scale=scale)
    u = beta - discount * Z.softmax(-1) @ beta
    condition = (1 + discount) / (1 - discount)
    error = (fixed_points.reward_chain_value(u, Z, discount) - beta).abs().max()
    assert error <= 100 * EPS * d * condition * beta.abs().max()


@given(seed=st.integers(0, 2**31), d=st.integers(1, 7), discount=st.floats(0, 0.99), scale=st.floats(0, 20))
def test_preconditioner_is_the_tangent_kernel_and_bounded_below(seed, d, discount, scale) -> None:
    u, Z = chain(seed, d=d, scale=scale)
    value = fixed_points.reward_chain_value(u, Z, discount)
    J = torch.func.jacrev(fixed_points.reward_chain_value, argnums=(0, 1))(u, Z, discount)
    flat = torch.cat([J[0], J[1].flatten(1)], 1)
    P = fixed_points.weight_space_preconditioner(Z, value, discount).matrix
    size = P.abs().max()
    assert (P - flat @ flat.T).abs().max() <= 1e-11 * size / (1 - discount)
    bound = fixed_points.least_eigenvalue_bound(discount, d)
    assert torch.linalg.eigvalsh(P)[0] >= bound - 100 * EPS * float(torch.linalg.matrix_norm(P, 2))


@pytest.mark.parametrize("discount", [0.5, 0.8, 0.9])
def test_unrolling_approaches_the_implicit_gradient_at_the_discount(discount) -> None:
    u, Z = chain(6)
    Z.requires_grad_()
    (exact,) = torch.autograd.grad(fixed_points.reward_chain_value(u, Z, discount).sum(), Z)

    def error(sweeps: int) -> float:
        value = fixed_points.unrolled_value(u, Z, discount, sweeps)
        return float((torch.autograd.grad(value.sum(), Z)[0] - exact).norm())

    assert 1.05 * discount >= (error(40) / error(20)) ** (1 / 20) >= 0.95 * discount
    long = math.ceil(40 / -math.log(discount))
    assert error(long) <= 1e-12 * float(exact.norm()) / (1 - discount)


def test_value_after_some_sweeps_is_the_truncated_series() -> None:
    u, Z = chain(7)
    S = Z.softmax(-1)
    series = sum(0.7**k * torch.linalg.matrix_power(S, k) @ u for k in range(6))
    torch.testing.assert_close(fixed_points.unrolled_value(u, Z, 0.7, 6), series)
    torch.testing.assert_close(fixed_points.unrolled_value(u, Z, 0.7, 0, start=u), u)


def test_stationary_law_against_powers_and_a_periodic_chain() -> None:
    _, Z = chain(11, 4)
    S = Z.softmax(-1)
    law = fixed_points.stationary_distribution(S)
    torch.testing.assert_close(law, torch.linalg.matrix_power(S, 400)[:, 0], rtol=0, atol=1e-13)
    cycle = torch.eye(4, dtype=torch.float64).roll(1, 1)
    torch.testing.assert_close(fixed_points.stationary_distribution(cycle), torch.full((4,), 0.25).double())


@pytest.mark.parametrize("discount", [1.0, -0.1, math.nan, torch.tensor([0.5, 1.5])])
def test_a_discount_outside_the_interval_is_refused(discount) -> None:
    u, Z = chain(12, 2)
    calls = (
        lambda: fixed_points.reward_chain_value(u, Z, discount),
        lambda: fixed_points.unrolled_value(u, Z, discount, 3),
        lambda: fixed_points.weight_space_preconditioner(Z, u, discount),
    )
    for call in calls:
        with pytest.raises(ValueError, match=r"discount = .*allowed: in \[0, 1\)"):
            call()


def test_other_wrong_arguments_are_named() -> None:
    u, Z = chain(13)
    with pytest.raises(ValueError, match="S: row .1,. sums to"):
        S = Z.softmax(-1).clone()
        S[1, 0] += 0.1
        fixed_points.stationary_distribution(S)
    with pytest.raises(ValueError, match=r"S has shape \(4, 3\)"):
        fixed_points.stationary_distribution(torch.full((4, 3), 1 / 3, dtype=torch.float64))
    with pytest.raises(ValueError, match="no unique stationary law"):
        fixed_points.stationary_distribution(torch.eye(3, dtype=torch.float64))
    with pytest.raises(ValueError, match="Z has row .2,. without a distribution"):
        fixed_points.reward_chain_value(u, Z.index_fill(0, torch.tensor(2), -math.inf), 0.9)
    with pytest.raises(ValueError, match="Z has shape"):
        fixed_points.reward_chain_value(u[:3], Z, 0.9)
    with pytest.raises(ValueError, match="is singular"):
        fixed_points.reward_chain_value(u, Z, 1 - 2 * EPS)
    with pytest.raises(ValueError, match="sweeps = -1"):
        fixed_points.unrolled_value(u, Z, 0.9, -1)


def test_a_forbidden_transition_stays_forbidden() -> None:
    u, Z = chain(14)
    Z[0, 1] = -math.inf
    Z.requires_grad_()
    (gradient,) = torch.autograd.grad(fixed_points.reward_chain_value(u, Z, 0.9).sum(), Z)
    assert gradient[0, 1] == 0 and torch.isfinite(gradient).all()
