"""Expected excess losses: the forms by modes against dense moments, simulation, Kronecker matrices and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given
from hypothesis import strategies as st

from learning_dynamics import curvature as cv
from learning_dynamics import diffusions


def problem(seed: int, d: int, scale: float = 1.0) -> tuple[torch.Tensor, ...]:
    """H, C, Sigma and a start error of four unrelated bases."""
    source = torch.Generator().manual_seed(seed)

    def positive(low: float) -> torch.Tensor:
        Q = torch.linalg.qr(torch.randn(d, d, generator=source, dtype=torch.float64)).Q
        values = low + (1 - low) * torch.rand(d, generator=source, dtype=torch.float64)
        matrix = (Q * values) @ Q.mT
        return (matrix + matrix.mT) / 2

    root = torch.randn(d, d, generator=source, dtype=torch.float64)
    error = torch.randn(d, generator=source, dtype=torch.float64)
    return positive(0.05), scale * positive(0.3), root @ root.mT, error


def as_written(H: torch.Tensor, C: torch.Tensor, Sigma: torch.Tensor, error: torch.Tensor, etas: list[float]):
    """The twin: the two recursions in plain numpy, one step after the other, and the joint one for the sum."""
    H, C, Sigma, error = (x.numpy() for x in (H, C, Sigma, error))
    d = len(H)
    P = np.linalg.solve(C, H)
    U = np.linalg.solve(C, np.linalg.solve(C, Sigma).T)
    joint, mean = np.zeros((2 * d, 2 * d)), np.concatenate([error, error])  # (iterate, sum)
    last, average = [0.5 * error @ H @ error], [0.5 * error @ H @ error]
    for k, eta in enumerate(etas):
        D = np.eye(d) - eta * P
        step = np.block([[D, np.zeros((d, d))], [D, np.eye(d)]])
        noise = eta**2 * np.block([[U, U], [U, U]])
        joint, mean = step @ joint @ step.T + noise, step @ mean
        V, W, m, s = joint[:d, :d], joint[d:, d:], mean[:d], mean[d:]
        last.append(0.5 * np.trace(H @ V) + 0.5 * m @ H @ m)
        average.append((0.5 * np.trace(H @ W) + 0.5 * s @ H @ s) / (k + 2) ** 2)
    return torch.tensor(last), torch.tensor(average)


@given(st.integers(0, 1000), st.integers(1, 6), st.floats(0.05, 1.95))
def test_constant_steps_agree_in_all_forms(seed: int, d: int, share: float) -> None:
    H, C, Sigma, error = problem(seed, d)
    modes = cv.modes(H, C, Sigma, error)
    eta = share / float(modes.curvature[0])
    k = torch.arange(41)
    last, average = as_written(H, C, Sigma, error, [eta] * 40)
    dense = cv.moments(H, C, Sigma, error, torch.full((40,), eta, dtype=H.dtype))
    assert torch.allclose(dense.excess, last, rtol=1e-9)
    assert torch.allclose(dense.average_excess, average, rtol=1e-9)
    assert torch.allclose(cv.excess_constant(modes, eta, k), last, rtol=1e-9)
    assert torch.allclose(cv.excess_average(modes, eta, k), average, rtol=1e-8)
    assert torch.allclose(cv.excess_scheduled(modes, torch.full((40,), eta, dtype=H.dtype)), last, rtol=1e-9)


@given(st.integers(0, 1000), st.integers(1, 5), st.floats(0, 20))
def test_decaying_steps_agree_and_are_a_precision_for_the_exact_curvature(
    seed: int, d: int, offset: float
) -> None:
    H, C, Sigma, error = problem(seed, d)
    k = torch.arange(61)
    etas = [1 / (j + offset + 1) for j in range(60)]
    modes = cv.modes(H, C, Sigma, error)
    assert torch.allclose(
        cv.excess_decaying(modes, offset, k), as_written(H, C, Sigma, error, etas)[0], rtol=1e-9
    )
    exact = cv.modes(H, H, Sigma, error)
    w, start = exact.noise_constant, exact.start_excess
    assert torch.allclose(exact.curvature, torch.ones(d, dtype=H.dtype), rtol=1e-10)
    assert float(w) == pytest.approx(0.5 * float(torch.trace(torch.linalg.solve(H, Sigma))), rel=1e-10)
    late = k[1:].double()
    formula = (late * w + offset**2 * start) / (late + offset) ** 2
    assert torch.allclose(cv.excess_decaying(exact, offset, k)[1:], formula, rtol=1e-9)
    best = cv.excess_decaying(exact, w / start, k)
    assert torch.allclose(best, 1 / (1 / start + k / w), rtol=1e-9)


@given(st.integers(0, 1000), st.integers(1, 4), st.floats(0.05, 1.9), st.integers(0, 20))
def test_a_tail_is_the_average_of_the_later_run(seed: int, d: int, share: float, first: int) -> None:
    """The mean of theta_m..theta_k is the mean of a run that starts at theta_m, a random point of known moments."""
    H, C, Sigma, error = problem(seed, d)
    modes = cv.modes(H, C, Sigma, error)
    eta = share / float(modes.curvature[0])
    k = first + torch.arange(15)
    run = cv.moments(H, C, Sigma, error, torch.full((first + 1,), eta, dtype=H.dtype))
    ahead = cv.moments(H, C, Sigma, run.mean[first], torch.full((14,), eta, dtype=H.dtype))
    D = torch.eye(d, dtype=H.dtype) - eta * torch.linalg.solve(C, H)
    powers, total = torch.eye(d, dtype=H.dtype), torch.zeros(d, d, dtype=H.dtype)
    expected = []
    for j in range(15):
        total = total + powers
        powers = D @ powers
        spread = total @ run.covariance[first] @ total.mT / (j + 1) ** 2
        expected.append(ahead.average_excess[j] + 0.5 * torch.trace(H @ spread))
    assert torch.allclose(cv.excess_average(modes, eta, k, first), torch.stack(expected), rtol=1e-8)
    assert torch.allclose(cv.excess_average(modes, eta, k, k), cv.excess_constant(modes, eta, k), rtol=1e-8)


def test_tail_of_a_tensor_of_starts_keeps_its_shape() -> None:
    modes = cv.modes(*problem(1, 3))
    k = torch.tensor([[10, 100], [20, 200]])
    tails = cv.excess_average(modes, 0.3, k, k // 2)
    assert tails.shape == k.shape
    assert float(tails[1, 0]) == pytest.approx(float(cv.excess_average(modes, 0.3, torch.tensor(20), 10)))


def test_long_schedules_are_composed_without_loss() -> None:
    modes = cv.Modes(
        *(torch.tensor([x, y], dtype=torch.float64) for x, y in ((2.0, 0.6), (1.0, 0.3), (1, -1)))
    )
    for steps in (1, 2, 7, 997, 1024):
        etas = 1 / (torch.arange(1, steps + 1, dtype=torch.float64) + 1.5)
        v, e, path = torch.zeros(2, dtype=torch.float64), modes.error, [modes.start_excess]
        for eta in etas:
            shrink = 1 - eta * modes.curvature
            v, e = shrink**2 * v + eta**2 * modes.noise, shrink * e
            path.append((v + e**2).sum() / 2)
        assert torch.allclose(cv.excess_scheduled(modes, etas), torch.stack(path), rtol=1e-12)
        two = cv.excess_scheduled(modes, torch.stack([etas, etas / 2]))
        assert two.shape == (2, steps + 1)
        assert torch.allclose(two[0], torch.stack(path), rtol=1e-12)


def test_small_and_many_steps_do_not_cancel() -> None:
    one = torch.ones(1, dtype=torch.float64)
    modes = cv.Modes(1e-9 * one, one, one)
    excess = cv.excess_constant(modes, 1.0, torch.tensor([1, 10**12]))
    assert float(excess[0]) == pytest.approx(0.5 * (1 + (1 - 1e-9) ** 2), rel=1e-14)
    limit = 0.5 / (1e-9 * (2 - 1e-9))
    assert float(excess[1]) == pytest.approx(limit, rel=1e-12)
    late = cv.excess_average(modes, 1.0, torch.tensor(10**13))
    assert float(late) == pytest.approx(0.5 * 1e18 / 1e13, rel=1e-3)  # u / rho^2 / (k + 1) / 2
    whole = cv.Modes(one, one, one)  # one step of size one forgets the start
    assert cv.excess_constant(whole, 1.0, torch.tensor([0, 1, 5])).tolist() == [0.5, 0.5, 0.5]


@given(st.integers(0, 1000), st.integers(1, 6), st.floats(0.05, 0.999))
def test_bounds_hold_and_are_the_traces_of_the_theorem(seed: int, d: int, share: float) -> None:
    H, C, Sigma, error = problem(seed, d)
    modes = cv.modes(H, C, Sigma, error)
    rho, start = modes.curvature, float(modes.start_excess)
    eta = share / float(rho[0])
    k = torch.arange(200)
    bounds = cv.bounds_constant(modes, eta, k)
    excess = cv.excess_constant(modes, eta, k)
    limit = eta / 4 * float(torch.trace(torch.linalg.solve(C - eta / 2 * H, Sigma)))
    e1, e2 = eta * rho[0], eta * rho[-1]
    assert torch.allclose(bounds.upper, (1 - (1 - e1) ** (2 * k)) * limit + (1 - e2) ** (2 * k) * start)
    assert torch.allclose(bounds.lower, (1 - (1 - e2) ** (2 * k)) * limit + (1 - e1) ** (2 * k) * start)
    assert (excess <= bounds.upper * (1 + 1e-9)).all() and (excess >= bounds.lower * (1 - 1e-9)).all()
    average = cv.excess_average(modes, eta, k)
    assert (average <= cv.bound_average(modes, eta, k) * (1 + 1e-9)).all()
    V = diffusions.chain_covariance(H, Sigma, eta, C)
    assert float(torch.trace(H @ V)) / 2 == pytest.approx(limit, rel=1e-7)


@given(st.integers(0, 1000), st.integers(1, 5), st.floats(0.52, 2.5), st.floats(0, 9))
def test_decaying_bounds_hold_and_are_the_traces_of_the_theorem(
    seed: int, d: int, smallest: float, more: float
) -> None:
    H, C, Sigma, error = problem(seed, d)
    C = C * float(cv.modes(H, C, Sigma, error).curvature[-1]) / smallest
    modes = cv.modes(H, C, Sigma, error)
    offset = max(1.0, float(modes.curvature[0]) - 1) + more
    k = torch.arange(300)
    bounds, excess = cv.bounds_decaying(modes, offset, k), cv.excess_decaying(modes, offset, k)
    assert (excess <= bounds.upper * (1 + 1e-9)).all()
    assert (excess[1:] >= bounds.lower[1:] - 1e-9 * bounds.upper[1:]).all()
    inverse, eye = torch.linalg.inv(C), torch.eye(d, dtype=H.dtype)
    U = inverse @ Sigma @ inverse
    kernel = inverse - torch.linalg.inv(H) / 2
    D = eye - inverse @ H
    T, second = (float(torch.trace(torch.linalg.solve(kernel, X))) for X in (U, D @ U @ D.mT))
    later, nu = k.double() + offset, (offset + 2) ** 3 / (offset * (offset + 1) ** 2)
    forgets = ((1 + offset) / later) ** (2 * smallest)
    printed = T / (4 * later) + nu * k * second / (4 * later**3) + float(modes.start_excess) * forgets
    assert torch.allclose(cv.bounds_decaying(modes, offset, k, repaired=False).upper, printed, rtol=1e-6)
    assert torch.allclose(
        bounds.lower, T / (4 * later) - T / (4 * offset) * forgets, rtol=1e-6, atol=1e-9 * T
    )


def test_the_printed_decaying_bound_is_exceeded_by_a_little() -> None:
    one = torch.ones(1, dtype=torch.float64)
    modes = cv.Modes(1.3 * one, 1.69 * one, 0 * one)
    k = torch.tensor([10**6])
    excess = cv.excess_decaying(modes, 10.0, k)
    assert 1e-8 < float(excess / cv.bounds_decaying(modes, 10.0, k, repaired=False).upper) - 1 < 2e-8
    assert float(excess) < float(cv.bounds_decaying(modes, 10.0, k).upper)


def test_moments_against_simulation_and_lyapunov() -> None:
    H, C, Sigma, error = problem(4, 2)
    steps, runs = 12, 40000
    etas = torch.full((steps,), 0.3, dtype=H.dtype)
    exact = cv.moments(H, C, Sigma, error, etas)
    source = torch.Generator().manual_seed(0)
    root, inverse = torch.linalg.cholesky(Sigma), torch.linalg.inv(C)
    theta, total = error.expand(runs, -1), error.expand(runs, -1)
    for eta in etas:
        noise = torch.randn(runs, 2, generator=source, dtype=H.dtype) @ root.mT
        theta = theta - eta * (theta @ H + noise) @ inverse
        total = total + theta
    average = total / (steps + 1)
    for sample, mean, V in (
        (theta, exact.mean[-1], exact.covariance[-1]),
        (average, exact.average_mean[-1], exact.average_covariance[-1]),
    ):
        assert torch.allclose(sample.mean(0), mean, atol=5 * math.sqrt(float(V.diagonal().max()) / runs))
        assert torch.allclose(sample.T.cov(), V, rtol=0.1, atol=0.02 * float(V.abs().max()))
    D = (torch.eye(2, dtype=H.dtype) - 0.3 * inverse @ H).numpy()
    U = (0.09 * inverse @ Sigma @ inverse).numpy()
    late = cv.moments(H, C, Sigma, error, torch.full((2000,), 0.3, dtype=H.dtype)).covariance[-1]
    assert torch.allclose(late, torch.from_numpy(scipy.linalg.solve_discrete_lyapunov(D, U)), rtol=1e-8)


def test_bad_arguments_are_named() -> None:
    H, C, Sigma, error = problem(0, 2)
    modes = cv.modes(H, C, Sigma, error)
    k = torch.arange(3)
    with pytest.raises(ValueError, match="Sigma has shape"):
        cv.modes(H, C, Sigma[:1], error)
    with pytest.raises(ValueError, match="C differs from its transpose"):
        cv.modes(H, C + torch.tensor([[0.0, 1.0], [0.0, 0.0]]), Sigma, error)
    with pytest.raises(ValueError, match="C has the eigenvalue"):
        cv.moments(H, -C, Sigma, error, torch.ones(1))
    with pytest.raises(ValueError, match="H has the eigenvalue"):
        cv.modes(-H, C, Sigma, error)
    with pytest.raises(ValueError, match="start_error has shape"):
        cv.modes(H, C, Sigma, error[:1])
    with pytest.raises(ValueError, match="step_sizes has shape"):
        cv.moments(H, C, Sigma, error, torch.ones(1, 1))
    with pytest.raises(ValueError, match="step_sizes has shape"):
        cv.excess_scheduled(modes, torch.ones(0))
    with pytest.raises(ValueError, match="step_size = 9.0; allowed: above 0 and below 2 / rho_1"):
        cv.excess_constant(modes, 9.0, k)
    with pytest.raises(ValueError, match="k reaches -1"):
        cv.excess_constant(modes, 0.1, k - 1)
    with pytest.raises(ValueError, match="first exceeds k by 2"):
        cv.excess_average(modes, 0.1, k, 2)
    with pytest.raises(ValueError, match="k is torch"):
        cv.excess_decaying(modes, 1.0, k - 1)
    with pytest.raises(ValueError, match="offset reaches -1"):
        cv.excess_decaying(modes, -1.0, k)
    with pytest.raises(ValueError, match="smallest relative curvature"):
        cv.bounds_decaying(cv.modes(H, 100 * C, Sigma, error), 1.0, k)
    with pytest.raises(ValueError, match="largest relative curvature"):
        cv.bounds_decaying(cv.modes(H, C / 100, Sigma, error), 1.0, k)
    with pytest.raises(ValueError, match="offset = 0.5"):
        cv.bounds_decaying(modes, 0.5, k)
    with pytest.raises(ValueError, match="noise reaches"):
        cv.Modes(modes.curvature, -modes.noise, modes.error)
    with pytest.raises(ValueError, match="curvature reaches"):
        cv.Modes(-modes.curvature, modes.noise, modes.error)
    with pytest.raises(ValueError, match="error has shape"):
        cv.Modes(modes.curvature, modes.noise, modes.error[:1])
    assert cv.excess_decaying(modes, torch.tensor([1.0, 2.0]), torch.tensor([0])).shape == (2, 1)
