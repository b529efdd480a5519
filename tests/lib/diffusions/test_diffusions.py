"""Chains and diffusions against scipy, against closed forms in the eigenbasis, and against enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from learning_dynamics import diffusions as df
from learning_dynamics import ensembles
from learning_dynamics.rules import GradientDescent


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def matrices(seed: int, d: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A Hessian with eigenvalues between 0.2 and 2, and a noise covariance of another basis."""
    source = generator(seed)
    Q = torch.linalg.qr(torch.randn(d, d, generator=source, dtype=torch.float64)).Q
    eigenvalues = 0.2 + 1.8 * torch.rand(d, generator=source, dtype=torch.float64)
    B = torch.randn(d, d, generator=source, dtype=torch.float64)
    return (Q * eigenvalues) @ Q.mT, B @ B.mT


def in_eigenbasis(H: torch.Tensor, Sigma: torch.Tensor, eta: float, quadratic: float) -> torch.Tensor:
    """The twin: V_ij = eta Sigma_ij / (h_i + h_j - eta h_i h_j) in the basis of H."""
    h, Q = torch.linalg.eigh(H)
    shape = h[:, None] + h - quadratic * eta * h[:, None] * h
    return Q @ (eta * (Q.mT @ Sigma @ Q) / shape) @ Q.mT


@given(st.integers(0, 1000), st.integers(1, 6), st.floats(0.01, 0.99))
def test_covariances_are_the_closed_forms_and_solve_their_equations(seed: int, d: int, eta: float) -> None:
    H, Sigma = matrices(seed, d)
    chain, continuous = df.chain_covariance(H, Sigma, eta), df.diffusion_covariance(H, Sigma, eta)
    assert torch.allclose(chain, in_eigenbasis(H, Sigma, eta, 1), rtol=1e-9, atol=1e-9)
    assert torch.allclose(continuous, in_eigenbasis(H, Sigma, eta, 0), rtol=1e-9, atol=1e-9)
    M = torch.eye(d, dtype=torch.float64) - eta * H
    assert torch.allclose(M @ chain @ M + eta**2 * Sigma, chain, rtol=1e-9, atol=1e-9)
    assert torch.linalg.eigvalsh(chain - continuous)[0] > -1e-9  # the diffusion is never wider


@given(st.integers(0, 1000), st.integers(1, 6), st.floats(0.01, 0.99))
def test_preconditioned_covariance_solves_its_equation(seed: int, d: int, share: float) -> None:
    (H, Sigma), (C, _) = matrices(seed, d), matrices(seed + 1, d)
    relative = torch.linalg.solve(C, H)
    eta = 2 * share / float(torch.linalg.eigvals(relative).real.max())
    V, inverse = df.chain_covariance(H, Sigma, eta, C), torch.linalg.inv(C)
    M = torch.eye(d, dtype=torch.float64) - eta * relative
    U = eta**2 * inverse @ Sigma @ inverse
    reference = torch.from_numpy(scipy.linalg.solve_discrete_lyapunov(M.numpy(), U.numpy()))
    assert torch.allclose(V, reference, rtol=1e-7, atol=1e-9 * float(V.abs().max()))
    assert torch.allclose(V, V.mT, rtol=1e-10, atol=1e-12 * float(V.abs().max()))
    same = df.chain_covariance(H, Sigma, 0.3, torch.eye(d, dtype=H.dtype))
    assert torch.allclose(same, df.chain_covariance(H, Sigma, 0.3), rtol=1e-10)


def test_covariance_path_approaches_the_stationary_one_and_grows_where_h_is_zero() -> None:
    H, Sigma = matrices(3, 3)
    path = df.chain_covariance_path(H, Sigma, 0.5, 300)
    assert path.shape == (301, 3, 3) and not path[0].any()
    assert torch.allclose(path[-1], df.chain_covariance(H, Sigma, 0.5), rtol=1e-9)
    flat = df.chain_covariance_path(torch.zeros(1, 1), torch.ones(1, 1), 0.1, 10)
    assert flat[-1].item() == pytest.approx(10 * 0.01)


def test_covariances_keep_dtype() -> None:
    H, Sigma = matrices(0, 2)
    assert df.chain_covariance(H.float(), Sigma.float(), 0.1).dtype == torch.float32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"H": torch.ones(2, 3)}, "H has shape"),
        ({"Sigma": torch.eye(3)}, "Sigma has shape"),
        ({"H": torch.tensor([[1.0, 0.3], [0.0, 1.0]])}, "H differs from its transpose"),
        ({"H": -torch.eye(2)}, "allowed: positive definite"),
        ({"step_size": 0.0}, "step_size = 0.0; allowed: a finite number > 0"),
        ({"step_size": 2.5}, "allowed: below 2 / largest eigenvalue of H = 2"),
    ],
)
def test_chain_covariance_names_a_bad_argument(change: dict[str, object], message: str) -> None:
    arguments = {"H": torch.eye(2), "Sigma": torch.eye(2), "step_size": 0.1} | change
    with pytest.raises(ValueError, match=message):
        df.chain_covariance(**arguments)  # type: ignore[arg-type]


def test_covariance_path_names_a_bad_argument() -> None:
    with pytest.raises(ValueError, match="steps = -1"):
        df.chain_covariance_path(torch.eye(1), torch.eye(1), 0.1, -1)
    with pytest.raises(ValueError, match="step_size = -1"):
        df.chain_covariance_path(torch.eye(1), torch.eye(1), -1, 3)


@settings(max_examples=10)
@given(st.integers(0, 1000), st.floats(0.01, 200.0))
def test_transition_is_the_integral(seed: int, time: float) -> None:
    source = generator(seed)
    A = torch.randn(3, 3, generator=source, dtype=torch.float64) + 3 * torch.eye(3, dtype=torch.float64)
    B = torch.randn(3, 2, generator=source, dtype=torch.float64)
    decay, V = df.OrnsteinUhlenbeck(A, B).transition(time)
    a, bb = A.numpy(), (B @ B.mT).numpy()
    assert np.allclose(decay, scipy.linalg.expm(-a * time), atol=1e-10)

    def integrand(s: float) -> np.ndarray:
        e = scipy.linalg.expm(-a * s)
        return e @ bb @ e.T

    grid = min(time, 30.0)
    reference, _ = scipy.integrate.quad_vec(integrand, 0, grid)
    if np.linalg.eigvals(a).real.min() > 0.7 or time <= 30:
        assert np.allclose(V, reference, rtol=1e-6, atol=1e-7)


def test_ornstein_uhlenbeck_in_one_dimension() -> None:
    process = df.OrnsteinUhlenbeck(torch.tensor([[2.0]]).double(), torch.tensor([[3.0]]).double())
    assert process.stationary_covariance().item() == pytest.approx(9 / 4)
    decay, V = process.transition(0.7)
    assert decay.item() == pytest.approx(math.exp(-1.4))
    assert V.item() == pytest.approx(9 / 4 * (1 - math.exp(-2.8)))


def test_ornstein_uhlenbeck_paths_have_the_right_law() -> None:
    H, Sigma = matrices(5, 2)
    process = df.OrnsteinUhlenbeck(H, torch.linalg.cholesky(Sigma))
    start = torch.tensor([2.0, -1.0], dtype=torch.float64).expand(40_000, 2)
    path = process.sample(start, [0.3, 0.8, 60.0], generator())
    assert path.shape == (3, 40_000, 2)
    mean, V = process.transition(0.8)
    error = (V.diagonal() / 40_000).sqrt()
    assert ((path[1].mean(0) - mean @ start[0]).abs() < 5 * error).all()
    assert torch.allclose(path[1].T.cov(), V, rtol=0.05, atol=0.02)
    assert torch.allclose(path[2].T.cov(), process.stationary_covariance(), rtol=0.05, atol=0.02)


def test_ornstein_uhlenbeck_names_a_bad_argument() -> None:
    eye = torch.eye(2)
    with pytest.raises(ValueError, match="A has shape"):
        df.OrnsteinUhlenbeck(torch.ones(2, 3), eye)
    with pytest.raises(ValueError, match="B has shape"):
        df.OrnsteinUhlenbeck(eye, torch.ones(3, 1))
    with pytest.raises(ValueError, match="allowed: all positive"):
        df.OrnsteinUhlenbeck(-eye, eye).stationary_covariance()
    with pytest.raises(ValueError, match="real part -1; allowed: all positive"):  # one of them is enough
        df.OrnsteinUhlenbeck(torch.diag(torch.tensor([-1.0, 2.0])), eye).stationary_covariance()
    with pytest.raises(ValueError, match="time = -1"):
        df.OrnsteinUhlenbeck(eye, eye).transition(-1)
    with pytest.raises(ValueError, match="strictly increasing"):
        df.OrnsteinUhlenbeck(eye, eye).sample(torch.zeros(2), [1.0, 1.0], generator())
    with pytest.raises(ValueError, match="x0 has shape"):
        df.OrnsteinUhlenbeck(eye, eye).sample(torch.zeros(3), [1.0], generator())


def test_noise_of_rank_one_stays_on_its_line() -> None:
    """The covariance of a step has five eigenvalues that are zero but for rounding, some of them below."""
    line = torch.tensor([[1.0], [-2.0], [3.0], [0.1], [0.7], [-1.3]], dtype=torch.float64)
    process = df.OrnsteinUhlenbeck(torch.eye(6, dtype=torch.float64), line)
    path = process.sample(torch.zeros(50, 6, dtype=torch.float64), [0.3, 1.0], generator())
    along = path @ line / line.square().sum()
    assert path.isfinite().all() and along.abs().max() > 0.1
    assert torch.allclose(path, along * line.T, atol=1e-6)


def test_euler_maruyama_without_noise_is_eulers_method_and_with_noise_the_chain() -> None:
    x0 = torch.ones(5, 1, dtype=torch.float64)
    still = df.euler_maruyama(lambda x, t: -2 * x, lambda x, t: 0 * x, x0, 0.1, 7, generator())
    assert torch.allclose(still[:, 0, 0], 0.8 ** torch.arange(8, dtype=torch.float64))
    # time step = step size: x <- x - eta (h x + sigma xi) is Euler's step of dx = -h x dt + sqrt(eta) sigma dW
    eta, sigma, source = 0.1, 0.7, generator(4)
    path = df.euler_maruyama(
        lambda x, t: -2 * x,
        lambda x, t: torch.full_like(x, math.sqrt(eta) * sigma),
        x0,
        eta,
        20,
        generator(4),
    )
    x = x0
    for _ in range(20):
        x = x - eta * 2 * x + eta * sigma * torch.randn(x.shape, generator=source, dtype=x.dtype)
    assert torch.allclose(path[-1], x)


def test_euler_maruyama_has_weak_order_one() -> None:
    """The mean of Euler's chain is (1 - h)^(1/h), off the exact e^-1 by h/2e; chains of +x and -x noise cancel."""
    errors = []
    for steps in (8, 16, 32):
        x0 = torch.ones(200_000, 1, dtype=torch.float64)
        path = df.euler_maruyama(
            lambda x, t: -x, lambda x, t: 0.1 * x, x0, 1 / steps, steps, generator(2), record=[steps]
        )
        errors.append(math.exp(-1) - path.mean().item())
    slope = np.polyfit(np.log([8, 16, 32]), np.log(errors), 1)[0]
    assert -1.2 < slope < -0.85


def test_euler_maruyama_with_a_matrix_of_noises_and_a_record() -> None:
    B = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]], dtype=torch.float64)
    path = df.euler_maruyama(
        lambda x, t: 0 * x, lambda x, t: B.expand(*x.shape, 3), torch.zeros(20_000, 2).double(), 0.25, 4,
        generator(), record=[0, 4],
    )  # fmt: skip
    assert path.shape == (2, 20_000, 2)
    assert torch.allclose(path[-1].T.cov(), B @ B.mT, rtol=0.05, atol=0.05)


def test_euler_maruyama_names_a_bad_argument() -> None:
    def call(**change: object) -> None:
        arguments = {
            "drift": lambda x, t: -x,
            "diffusion": lambda x, t: x,
            "x0": torch.ones(3, 1),
            "time_step": 0.1,
            "steps": 2,
            "generator": generator(),
        }
        df.euler_maruyama(**(arguments | change))  # type: ignore[arg-type]

    with pytest.raises(ValueError, match="time_step = 0"):
        call(time_step=0)
    with pytest.raises(ValueError, match="steps = 1.5"):
        call(steps=1.5)
    with pytest.raises(ValueError, match="record = "):
        call(record=[3])
    with pytest.raises(ValueError, match="diffusion returned"):
        call(diffusion=lambda x, t: torch.ones(2, 3, 1, 1))
    with pytest.raises(ValueError, match="drift turns"):
        call(drift=lambda x, t: torch.ones(3, 2))


X = torch.tensor([[1.0, 2.0, 0.5], [-0.3, 1.0, 1.5], [0.7, -1.0, 1.0], [2.0, 0.1, -0.4]]).double()
Y = torch.tensor([1.0, -1.0, 0.5, 2.0]).double()


def squares(theta: torch.Tensor) -> torch.Tensor:
    return (theta * theta) @ X.mT


def test_gradient_without_noise_is_autograds_and_pullback_agrees() -> None:
    theta = torch.randn(6, 3, generator=generator(), dtype=torch.float64)
    by_hand = df.label_noise_gradient(
        squares, Y, 0.0, generator(), pullback=lambda theta, e: 2 * theta * (e @ X)
    )(theta, 0)
    assert torch.allclose(df.label_noise_gradient(squares, Y, 0.0, generator())(theta, 0), by_hand)
    loss = ensembles.batched(lambda theta: 0.5 * ((theta * theta) @ X.mT - Y).square().mean())
    assert torch.allclose(by_hand, loss(theta, 0))


@pytest.mark.parametrize("noise", ["signs", "normal"])
@pytest.mark.parametrize("batch_size", [None, 1, 3])
def test_mean_and_covariance_are_those_of_enumeration(noise: str, batch_size: int | None) -> None:
    theta, sigma, chains = torch.tensor([0.5, -1.0, 1.2]).double(), 0.8, 100_000
    gradient = df.label_noise_gradient(squares, Y, sigma, generator(1), batch_size=batch_size, noise=noise)
    drawn = gradient(theta.expand(chains, 3), 0)
    J = 2 * theta * X
    each = (squares(theta) - Y)[:, None] * J  # gradients of the samples
    per_slot = each.T @ each / 4 - torch.outer(each.mean(0), each.mean(0)) + sigma**2 * J.T @ J / 4
    expected = sigma**2 * J.T @ J / 16 if batch_size is None else per_slot / batch_size
    error = (expected.diagonal() / chains).sqrt()
    assert ((drawn.mean(0) - each.mean(0)).abs() < 5 * error).all()
    assert torch.allclose(drawn.T.cov(), expected, rtol=0.05, atol=0.02 * expected.diagonal().max().item())


def test_signs_take_exactly_the_enumerated_values() -> None:
    theta = torch.tensor([0.5, -1.0, 1.2]).double()
    gradient = df.label_noise_gradient(squares, Y, 0.8, generator(), batch_size=1, noise="signs")
    drawn = gradient(theta.expand(500, 3), 0)
    residual = squares(theta) - Y
    possible = torch.stack(
        [(residual[i] - 0.8 * sign) * 2 * theta * X[i] for i, sign in itertools.product(range(4), (-1, 1))]
    )
    gap = (drawn[:, None] - possible).abs().amax(-1).min(-1)
    assert gap.values.max() < 1e-12 and len(gap.indices.unique()) == 8


def test_full_batch_signs_take_exactly_the_enumerated_values() -> None:
    theta = torch.tensor([0.5, -1.0, 1.2]).double()
    drawn = df.label_noise_gradient(squares, Y, 0.8, generator(), noise="signs")(theta.expand(500, 3), 0)
    signs = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=4))).double()
    possible = (squares(theta) - Y - 0.8 * signs) @ (2 * theta * X) / 4
    gap = (drawn[:, None] - possible).abs().amax(-1).min(-1)
    assert gap.values.max() < 1e-12 and len(gap.indices.unique()) == 16


@settings(max_examples=10)
@given(st.integers(0, 1000))
def test_product_law_holds_on_every_path(seed: int) -> None:
    """u^2 - v^2 is multiplied by 1 - eta^2 e^2 at every step of f = uv, whatever the noise."""
    eta, shrink = 0.1, []
    inner = df.label_noise_gradient(
        lambda theta: theta.prod(-1, keepdim=True), torch.ones(1).double(), 0.7, generator(seed)
    )

    def gradient(theta: torch.Tensor, k: int) -> torch.Tensor:
        g = inner(theta, k)
        shrink.append(1 - eta**2 * (g[:, 0] / theta[:, 1]) ** 2)
        return g

    theta0 = torch.tensor([2.0, 0.5]).double().expand(7, 2)
    last = ensembles.iterate(GradientDescent(eta), gradient, theta0, 50, record=[50]).last
    gap = last[:, 0] ** 2 - last[:, 1] ** 2
    assert torch.allclose(gap, 3.75 * torch.stack(shrink).prod(0), rtol=1e-9, atol=1e-9)


def test_label_noise_names_a_bad_argument() -> None:
    for change, message in (
        ({"sigma": -1.0}, "sigma = -1.0"),
        ({"batch_size": 0}, "batch_size = 0"),
        ({"noise": "uniform"}, "noise = 'uniform'"),
    ):
        arguments = {"predict": squares, "y": Y, "sigma": 1.0, "generator": generator()} | change
        with pytest.raises(ValueError, match=message):
            df.label_noise_gradient(**arguments)  # type: ignore[arg-type]
