"""The exact linear flow and the adaptive flow against scipy, closed forms, and each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from torch import Tensor

from learning_dynamics.flows import gradient_flow, linear_flow, modified_field, sampled_flow


def linear_problem(seed: int, d: int, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    X = torch.randn(rank, d, generator=random, dtype=torch.float64)
    b, theta0 = torch.randn(2, d, generator=random, dtype=torch.float64)
    return X.T @ X / d, b, theta0


def by_matrix_exponential(A: Tensor, b: Tensor, theta0: Tensor, t: float) -> Tensor:
    """One exponential of the system that carries b along as a constant coordinate."""
    d = len(b)
    augmented = np.zeros((d + 1, d + 1))
    augmented[:d, :d], augmented[:d, d] = -A.numpy(), b.numpy()
    return torch.from_numpy((expm(t * augmented) @ np.append(theta0.numpy(), 1.0))[:d])


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(0, 6))
def test_linear_flow_is_the_matrix_exponential(seed, d, rank):
    A, b, theta0 = linear_problem(seed, d, min(rank, d))
    times = [0.0, 0.1, 1.0, 20.0]
    for value, t in zip(linear_flow(A, b, theta0, times), times, strict=True):
        expected = by_matrix_exponential(A, b, theta0, t)
        torch.testing.assert_close(value, expected, rtol=1e-10, atol=1e-10)


@given(st.integers(0, 10_000), st.floats(0.01, 5), st.floats(0.01, 5))
def test_linear_flow_composes(seed, s, t):
    A, b, theta0 = linear_problem(seed, 5, 3)
    halfway, end = linear_flow(A, b, theta0, [s, s + t])
    torch.testing.assert_close(linear_flow(A, b, halfway, [t])[0], end, rtol=1e-11, atol=1e-11)


def test_linear_flow_is_scipys_integration():
    A, b, theta0 = linear_problem(0, 5, 3)
    times = np.linspace(0, 10, 6)
    solution = solve_ivp(
        lambda t, y: -(A.numpy() @ y - b.numpy()),
        (0, 10),
        theta0.numpy(),
        "DOP853",
        times,
        rtol=1e-12,
        atol=1e-12,
    )
    found = linear_flow(A, b, theta0, times.tolist())
    torch.testing.assert_close(found, torch.from_numpy(solution.y.T), rtol=1e-9, atol=1e-9)


def test_linear_flow_along_the_null_space_is_exact_and_ends_at_the_minimum_norm_solution():
    random = torch.Generator().manual_seed(1)
    X = torch.randn(3, 8, generator=random, dtype=torch.float64)
    y = torch.randn(3, generator=random, dtype=torch.float64)
    A, b = X.T @ X, X.T @ y
    end = linear_flow(A, b, torch.zeros(8, dtype=torch.float64), [1e6])[0]
    torch.testing.assert_close(end, torch.linalg.pinv(X) @ y, rtol=1e-8, atol=1e-8)
    at_rest = torch.tensor([0.0, 7.0], dtype=torch.float64)
    path = linear_flow(
        torch.diag(torch.tensor([1.0, 0.0]).double()), torch.zeros(2).double(), at_rest, [1.0, 1e300]
    )
    assert path.tolist() == [[0.0, 7.0], [0.0, 7.0]]
    drift = linear_flow(torch.zeros(2, 2).double(), torch.tensor([1.0, -2.0]).double(), at_rest, [0.0, 3.0])
    assert drift.tolist() == [[0.0, 7.0], [3.0, 1.0]]


def test_linear_flow_with_tiny_rates_keeps_its_digits():
    """(1 - exp(-lambda t)) / lambda would lose all digits here without expm1."""
    A = torch.diag(torch.tensor([1.0, 1e-12], dtype=torch.float64))
    one = torch.ones(2, dtype=torch.float64)
    value = linear_flow(A, one, 0 * one, [1.0])[0, 1]
    assert abs(float(value) - (1 - 5e-13)) < 1e-15


def test_linear_flow_of_a_batch_and_of_a_saddle():
    problems = [linear_problem(seed, 4, 2) for seed in range(3)]
    A, b, theta0 = (torch.stack(parts) for parts in zip(*problems, strict=True))
    A = A - 0.1 * torch.eye(4)  # negative eigenvalues: growth
    times = [0.5, 2.0, 10.0]
    together = linear_flow(A, b, theta0, times)
    assert together.shape == (3, 3, 4)
    for run in range(3):
        for row, t in enumerate(times):
            expected = by_matrix_exponential(A[run], b[run], theta0[run], t)
            torch.testing.assert_close(together[row, run], expected, rtol=1e-10, atol=1e-10)
    shared = linear_flow(A[0], b[0], theta0, times)
    torch.testing.assert_close(shared[:, 1], linear_flow(A[0], b[0], theta0[1], times))
    assert linear_flow(A.float(), b.float(), theta0.float(), times).dtype == torch.float32


@pytest.mark.parametrize("method", ["DOP853", "LSODA"])
@pytest.mark.parametrize("log_time", [False, True])
def test_gradient_flow_is_the_exact_linear_flow(method, log_time):
    A, b, theta0 = linear_problem(2, 5, 3)
    times = torch.tensor([0.0, 0.01, 1.0, 7.0, 30.0])
    path = gradient_flow(lambda theta, t: b - A @ theta, theta0, times, method=method, log_time=log_time)
    assert path.success and path.event_time is None
    assert path.times.tolist() == times.double().tolist()
    torch.testing.assert_close(path.values, linear_flow(A, b, theta0, times), rtol=1e-7, atol=1e-7)


@given(st.floats(0.1, 3), st.sampled_from([False, True]))
def test_gradient_flow_of_the_logistic_tail_in_closed_form(start, log_time):
    """theta' = exp(-theta) has theta = ln(t + exp(theta0)): the margin's logarithmic growth."""
    times = [0.0, 0.5, 3.0, 100.0]
    theta0 = torch.tensor([[start]], dtype=torch.float64)
    path = gradient_flow(lambda theta, t: torch.exp(-theta), theta0, times, log_time=log_time)
    expected = torch.log(torch.tensor(times, dtype=torch.float64) + math.exp(start))
    assert path.values.shape == (4, 1, 1)
    torch.testing.assert_close(path.values[:, 0, 0], expected, rtol=1e-8, atol=1e-8)


def test_log_time_reaches_what_plain_time_cannot_afford():
    calls = 0

    def field(theta: Tensor, t: float) -> Tensor:
        nonlocal calls
        calls += 1
        return torch.exp(-theta)

    path = gradient_flow(field, torch.zeros(1, dtype=torch.float64), [1e3, 1e12], log_time=True)
    torch.testing.assert_close(path.values[-1, 0].item(), math.log(1e12 + 1), rtol=1e-8, atol=0)
    assert calls < 2000


def test_the_field_may_depend_on_time():
    path = gradient_flow(lambda theta, t: torch.full_like(theta, 2 * t), torch.zeros(2).double(), [1.0, 3.0])
    torch.testing.assert_close(path.values[:, 0], torch.tensor([1.0, 9.0]).double())


@pytest.mark.parametrize("log_time", [False, True])
def test_an_event_is_located_and_the_flow_goes_on(log_time):
    theta0 = torch.tensor([2.0], dtype=torch.float64)
    path = gradient_flow(
        lambda theta, t: -theta,
        theta0,
        [1.0, 5.0],
        event=lambda theta, t: theta[0] - 0.5,
        log_time=log_time,
    )
    assert math.isclose(path.event_time, math.log(4), rel_tol=1e-8)
    torch.testing.assert_close(path.values[:, 0], 2 * torch.exp(-path.times))
    none = gradient_flow(lambda theta, t: -theta, theta0, [1.0], event=lambda theta, t: theta[0] + 1)
    assert none.event_time is None and none.success


@pytest.mark.parametrize("method", ["DOP853", "LSODA"])
def test_a_field_that_ends_is_reported(method):
    """Left alone, LSODA calls a path of NaN a success."""
    path = gradient_flow(
        lambda theta, t: theta if t < 1 else theta * math.nan,
        torch.ones(1).double(),
        [0.5, 2.0],
        method=method,
    )
    assert not path.success
    torch.testing.assert_close(path.values[0, 0].item(), math.exp(0.5), rtol=1e-8, atol=0)
    assert path.values[1].eq(math.inf).all()


@pytest.mark.parametrize("method", ["DOP853", "LSODA"])
def test_one_component_that_ends_ends_the_path(method):
    """The other one stays finite."""
    path = gradient_flow(
        lambda theta, t: torch.stack([theta[0] * (1.0 if t < 1 else math.nan), -theta[1]]),
        torch.ones(2).double(),
        [0.5, 2.0],
        method=method,
    )
    assert not path.success
    assert path.values[0].isfinite().all() and path.values[1].eq(math.inf).all()


@pytest.mark.parametrize("method", ["DOP853", "LSODA"])
def test_a_blow_up_is_reported(method):
    """theta' = theta^2 from 1 is 1 / (1 - t)."""
    theta0 = torch.ones(1, dtype=torch.float64)
    path = gradient_flow(lambda theta, t: theta**2, theta0, [0.5, 0.9, 1.5, 2.0], method=method)
    assert not path.success
    torch.testing.assert_close(path.values[:2, 0], torch.tensor([2.0, 10.0]).double(), rtol=1e-7, atol=0)
    assert path.values[2:].eq(math.inf).all()


@pytest.mark.parametrize("method", ["DOP853", "LSODA"])
def test_a_blow_up_before_the_first_time_is_reported(method):
    path = gradient_flow(lambda theta, t: theta**2, torch.ones(3).double(), [1.5, 2.0], method=method)
    assert not path.success and path.values.eq(math.inf).all() and path.values.shape == (2, 3)


@pytest.mark.parametrize("method", ["DOP853", "LSODA"])
def test_a_path_that_needs_too_many_evaluations_ends(method):
    calls = 0

    def field(theta, t):
        nonlocal calls
        calls += 1
        return torch.cos(1e3 * theta + t * 1e3)

    path = gradient_flow(field, torch.zeros(1).double(), [1e-3, 1e3], method=method, max_evaluations=500)
    assert not path.success and path.values[0].isfinite().all() and path.values[1].eq(math.inf).all()
    assert 500 < calls < 560


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_tolerance_left_out_is_one_that_the_dtype_can_meet(dtype):
    calls = 0

    def field(theta, t):
        nonlocal calls
        calls += 1
        return -theta

    path = gradient_flow(field, torch.ones(2, dtype=dtype), [1.0])
    assert path.success and path.values.dtype == dtype and calls < 300
    torch.testing.assert_close(
        path.values[0, 0].item(), math.exp(-1), rtol=20 * torch.finfo(dtype).eps, atol=0
    )


def test_float32_is_kept_and_theta0_is_not_changed():
    theta0 = torch.ones(2, 3, requires_grad=True)
    path = gradient_flow(lambda theta, t: -theta, theta0, [1.0], rtol=1e-5, atol=1e-6)
    assert path.values.dtype == path.times.dtype == torch.float32 and not path.values.requires_grad
    assert theta0.eq(1).all()
    torch.testing.assert_close(path.values[0], torch.full((2, 3), math.exp(-1)), rtol=1e-4, atol=0)


def changed(**changes):
    arguments = {"vector_field": lambda theta, t: -theta, "theta0": torch.ones(2).double(), "times": [1.0]}
    return lambda: gradient_flow(**arguments | changes)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (changed(times=[]), r"times = \[\]"),
        (changed(times=[0.0]), r"times = \[0\]"),
        (changed(times=[2.0, 1.0]), "times = .*strictly increasing"),
        (changed(times=[-1.0, 1.0]), "times = .*>= 0"),
        (changed(times=[1.0, math.inf]), "times = .*finite"),
        (changed(theta0=torch.ones(2, dtype=torch.int64)), "theta0 has dtype torch.int64"),
        (changed(method="Euler"), "method = 'Euler'"),
        (changed(rtol=1e-16), "rtol = 1e-16"),
        (changed(rtol=math.nan), "rtol = nan"),
        (changed(rtol=1e-10, theta0=torch.ones(2)), "rtol = 1e-10, .*; allowed: rtol >= 1.2e-06"),
        (changed(max_evaluations=0), "max_evaluations = 0"),
        (changed(theta0=torch.tensor([1.0, math.nan]).double()), "theta0 has entries that are NaN"),
        (
            changed(vector_field=lambda theta, t: theta * math.nan),
            "vector_field at theta0 has entries that are NaN",
        ),
        (
            changed(vector_field=lambda theta, t: theta / 0.0, method="LSODA"),
            "vector_field at theta0 has entries",
        ),
        (changed(atol=-1.0), "atol = -1.0"),
        (changed(vector_field=lambda theta, t: theta.sum()), r"vector_field has shape \(\)"),
        (lambda: linear_flow(torch.ones(2, 3), torch.ones(2), torch.ones(2), [1.0]), r"A has shape \(2, 3\)"),
        (
            lambda: linear_flow(torch.tensor([[1.0, 2.0], [0.0, 1.0]]), torch.ones(2), torch.ones(2), [1.0]),
            "A differs from its transpose by 2.0e\\+00",
        ),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def saddle_gradient(theta: Tensor) -> Tensor:
    return torch.stack([theta[0] ** 3 - theta[0] + theta[1], 3 * theta[1] + theta[0]])


def test_sampled_flow_of_a_quadratic_is_the_exponential():
    H = torch.tensor([[2.0, 0.5], [0.5, -1.0]], dtype=torch.float64)
    theta0 = torch.tensor([1.0, -0.3], dtype=torch.float64)
    samples = sampled_flow(lambda theta: -H @ theta, theta0, 0.2, 20)
    exact = linear_flow(H, torch.zeros(2, dtype=torch.float64), theta0, [0.2 * k for k in range(21)])
    torch.testing.assert_close(samples, exact, rtol=1e-10, atol=1e-11)


@given(st.floats(-1.5, 1.5), st.floats(-1, 1), st.floats(0.02, 0.3))
def test_sampled_flow_runs_backwards(x, y, h):
    theta0 = torch.tensor([x, y], dtype=torch.float64)
    there = sampled_flow(lambda theta: -saddle_gradient(theta), theta0, h, 5)
    back = sampled_flow(lambda theta: -saddle_gradient(theta), there[-1], -h, 5)
    torch.testing.assert_close(back.flip(0), there, rtol=0, atol=1e-7)


def test_sampled_flow_reports_a_blow_up():
    samples = sampled_flow(lambda theta: theta**2, torch.ones(1, dtype=torch.float64), 0.3, 6)
    assert torch.isfinite(samples[:4]).all() and torch.isinf(samples[4:]).all()


def test_modified_field_is_the_gradient_of_the_modified_loss():
    def modified_loss(theta: Tensor) -> Tensor:
        own = theta[0] ** 4 / 4 - theta[0] ** 2 / 2 + theta[0] * theta[1] + 1.5 * theta[1] ** 2
        return own + 0.1 / 4 * saddle_gradient(theta).square().sum()

    theta = torch.tensor([0.3, -0.7], dtype=torch.float64)
    expected = -torch.func.grad(modified_loss)(theta)
    torch.testing.assert_close(modified_field(saddle_gradient, 0.1)(theta), expected, rtol=1e-12, atol=1e-12)


def test_one_step_of_gradient_descent_misses_the_modified_flow_by_the_third_order():
    theta0 = torch.tensor([0.4, 1.0], dtype=torch.float64)
    errors = {"flow": [], "modified": []}
    for h in (0.1, 0.05, 0.025, 0.0125):
        step = theta0 - h * saddle_gradient(theta0)
        for name, field in (
            ("flow", lambda theta: -saddle_gradient(theta)),
            ("modified", modified_field(saddle_gradient, h)),
        ):
            errors[name].append(float((sampled_flow(field, theta0, h, 1)[1] - step).norm()))
    halved = {name: values[-2] / values[-1] for name, values in errors.items()}
    assert 3.7 < halved["flow"] < 4.3 and 7.3 < halved["modified"] < 8.7


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: sampled_flow(torch.neg, torch.ones(1), 0.0, 3), "time_step = 0"),
        (lambda: sampled_flow(torch.neg, torch.ones(1), 0.1, 0), "steps = 0"),
        (lambda: modified_field(torch.neg, -1.0), "step_size = -1"),
    ],
)
def test_sampled_and_modified_flows_name_bad_arguments(call, name):
    with pytest.raises(ValueError, match=name) as error:
        call()
    assert "allowed:" in str(error.value)


@pytest.mark.parametrize("field", [lambda theta, t: theta * 1j, lambda theta, t: theta.numpy()])
def test_a_field_that_is_not_real_is_refused(field):
    with pytest.raises(ValueError, match="vector_field is .*; allowed: a real tensor"):
        gradient_flow(field, torch.ones(2, dtype=torch.float64), [1.0])
