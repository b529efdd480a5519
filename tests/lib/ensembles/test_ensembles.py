"""Ensembles against loops of single runs, and what happens when some of the runs diverge."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from learning_dynamics import ensembles, rules
from learning_dynamics.ensembles import batched, iterate, log_spaced, stack_over_seeds

same = {"rtol": 1e-12, "atol": 1e-12}


def make_regression(seed: int, n: int = 7, d: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    X = torch.randn(n, d, generator=random, dtype=torch.float64)
    y = torch.randn(n, generator=random, dtype=torch.float64)
    return X, y, torch.randn(d, generator=random, dtype=torch.float64)


def loss(theta: Tensor, X: Tensor, y: Tensor) -> Tensor:
    """Squared error of a network with one tanh unit per input, in the square of its weights."""
    return ((torch.tanh(X) @ theta**2 - y) ** 2).mean() / 2


def explicit_gradient(theta: Tensor, X: Tensor, y: Tensor) -> Tensor:
    features = torch.tanh(X)
    residual = (features @ (theta**2)[..., None])[..., 0] - y
    return 2 * theta * (features.mT @ residual[..., None])[..., 0] / y.shape[-1]


@given(st.integers(0, 10**6), st.integers(1, 60))
def test_log_spaced_is_increasing_and_even(steps, per_decade):
    numbers = log_spaced(steps, per_decade)
    assert numbers[0] == 0 and numbers[-1] == steps
    assert list(numbers) == sorted(set(numbers))
    assert len(numbers) <= 3 + per_decade * math.log10(max(steps, 1))
    ratio = 10 ** (1 / per_decade)
    assert all(b <= a * ratio + 1 for a, b in zip(numbers[1:], numbers[2:], strict=False))


def test_log_spaced_small_cases():
    assert log_spaced(0) == (0,)
    assert log_spaced(1) == (0, 1)
    assert log_spaced(1000, per_decade=1) == (0, 1, 10, 100, 1000)
    assert log_spaced(20, per_decade=3) == (0, 1, 2, 5, 10, 20)


@given(st.integers(0, 10_000), st.sampled_from([(1,), (3,), (2, 3)]))
def test_batched_agrees_with_autograd_and_with_explicit_batch_axes(seed, batch):
    members = [make_regression(seed + i) for i in range(math.prod(batch))]
    X, y, theta = (
        torch.stack(parts).reshape(*batch, *parts[0].shape) for parts in zip(*members, strict=True)
    )
    found = batched(loss, X, y)(theta, 0)
    loop = []
    for inputs, targets, start in members:
        leaf = start.clone().requires_grad_()
        loop.append(torch.autograd.grad(loss(leaf, inputs, targets), leaf)[0])
    torch.testing.assert_close(found, torch.stack(loop).reshape(theta.shape), **same)
    torch.testing.assert_close(found, explicit_gradient(theta, X, y), **same)


def test_batched_takes_a_single_run_and_shared_data():
    X, y, theta = make_regression(0)
    torch.testing.assert_close(batched(loss, X, y)(theta, 0), explicit_gradient(theta, X, y), **same)
    several = torch.stack([theta, 2 * theta])
    shared = batched(lambda theta: loss(theta, X, y))(several, 0)
    expanded = batched(loss, X.expand(2, *X.shape), y.expand(2, *y.shape))(several, 0)
    torch.testing.assert_close(shared, explicit_gradient(several, X, y), **same)
    torch.testing.assert_close(expanded, shared, **same)


@pytest.mark.parametrize("rule", [rules.HeavyBall(0.05, 0.8), rules.Adam(0.01)])
def test_an_ensemble_is_a_loop_of_single_runs(rule):
    X, y, theta0 = stack_over_seeds(make_regression, range(5))
    together = iterate(rule, batched(loss, X, y), theta0, 80)
    by_hand = iterate(rule, lambda theta, k: explicit_gradient(theta, X, y), theta0, 80)
    for seed in range(5):
        inputs, targets, start = make_regression(seed)
        theta, state = start, rule.start(start)
        for k in range(81):
            if k in log_spaced(80):
                row = together.steps.tolist().index(k)
                torch.testing.assert_close(together.values[row, seed], theta, **same)
            leaf = theta.clone().requires_grad_()
            slope = torch.autograd.grad(loss(leaf, inputs, targets), leaf)[0]
            theta, state = rule.step(theta, slope, state)
    torch.testing.assert_close(by_hand.values, together.values, **same)
    assert not together.diverged.any()
    assert together.values.shape == (len(log_spaced(80)), 5, 4)


def test_gradient_descent_on_a_quadratic_in_closed_form():
    theta0 = torch.tensor([1.0, -2.0], dtype=torch.float64)
    path = iterate(rules.GradientDescent(0.1), lambda theta, k: theta, theta0, 50)
    torch.testing.assert_close(path.values, 0.9 ** path.steps.double()[:, None] * theta0)
    torch.testing.assert_close(path.last, path.values[-1])


def test_the_gradient_may_depend_on_the_step():
    path = iterate(
        rules.GradientDescent(1.0), lambda theta, k: torch.full_like(theta, k), torch.zeros(3, 1), 4
    )
    assert path.last[:, 0].tolist() == [-6.0] * 3


def test_record_and_observe():
    theta0 = torch.ones(3, 2, dtype=torch.float32)
    path = iterate(
        rules.GradientDescent(0.5),
        lambda theta, k: theta,
        theta0,
        4,
        record=[1, 3],
        observe=lambda theta: theta.sum(-1),
    )
    assert path.steps.tolist() == [1, 3]
    assert path.values.tolist() == [[1.0] * 3, [0.25] * 3]
    assert path.values.dtype == path.last.dtype == torch.float32
    assert path.last.tolist() == [[1 / 16] * 2] * 3


@given(st.lists(st.booleans(), min_size=1, max_size=6))
def test_a_diverging_run_is_flagged_and_disturbs_no_other(diverges):
    eta = torch.tensor([[3.0] if bad else [0.5] for bad in diverges], dtype=torch.float64)
    theta0 = torch.ones(len(diverges), 2, dtype=torch.float64)
    path = iterate(rules.GradientDescent(eta), lambda theta, k: theta**3, theta0, 40, record=range(41))
    assert path.diverged.tolist() == diverges
    alone = iterate(rules.GradientDescent(0.5), lambda theta, k: theta**3, theta0[0], 40, range(41))
    for run, bad in enumerate(diverges):
        if bad:
            assert path.values[0, run].eq(1).all()
            assert path.values[-1, run].eq(math.inf).all() and path.last[run].eq(math.inf).all()
            assert not path.values[:, run].isnan().any()
        else:
            torch.testing.assert_close(path.values[:, run], alone.values, rtol=0, atol=0)


def test_a_divergence_between_records_is_not_lost_and_observe_never_sees_it():
    def spectrum(theta: Tensor) -> Tensor:  # eigvalsh raises for the whole batch if one entry is not finite
        return torch.linalg.eigvalsh(torch.diag_embed(theta))

    eta = torch.tensor([[1e200], [0.1]], dtype=torch.float64)
    theta0 = torch.tensor([[2.0, 3.0], [2.0, 3.0]], dtype=torch.float64)
    path = iterate(rules.GradientDescent(eta), lambda theta, k: theta, theta0, 9, [0, 5], spectrum)
    assert path.diverged.tolist() == [True, False]
    assert path.values[1, 0].eq(math.inf).all()
    torch.testing.assert_close(path.values[1, 1], 0.9**5 * theta0[1])


def test_divergence_after_the_last_record_is_flagged():
    path = iterate(rules.GradientDescent(1e200), lambda theta, k: theta, torch.ones(1, 1).double(), 9, [0, 1])
    assert path.diverged.tolist() == [True] and path.values.isfinite().all() and path.last.isinf().all()


def test_counts_are_observed_as_they_are():
    path = iterate(
        rules.GradientDescent(0.1),
        lambda theta, k: theta,
        torch.ones(2, 3),
        1,
        observe=lambda t: (t > 0).sum(-1),
    )
    assert path.values.tolist() == [[3, 3], [3, 3]]


def test_a_seed_does_not_depend_on_its_neighbours():
    few_seeds = stack_over_seeds(make_regression, [3, 5])
    more = stack_over_seeds(make_regression, [1, 3, 4, 5])
    for a, b in zip(few_seeds, more, strict=True):
        assert a.eq(b[[1, 3]]).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: log_spaced(-1), "steps = -1"),
        (lambda: log_spaced(2.5), "steps = 2.5"),
        (lambda: log_spaced(5, 0), "per_decade = 0"),
        (lambda: stack_over_seeds(make_regression, []), "seeds is empty"),
        (lambda: stack_over_seeds(lambda seed: torch.ones(2), [0]), "make returned a bare tensor"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": -1}, "steps = -1"),
        ({"rule": rules.Adam}, "rule = the class Adam; allowed: a rule of learning_dynamics.rules"),
        ({"record": []}, r"record = \(\)"),
        ({"record": [2, 1]}, r"record = \(2, 1\)"),
        ({"record": [1, 1]}, r"record = \(1, 1\)"),
        ({"record": [0, 9]}, r"record = \(0, 9\).*steps = 3"),
        ({"record": [-1, 2]}, r"record = \(-1, 2\)"),
        ({"rule": rules.GradientDescent(torch.ones(3, 1))}, r"theta0 has shape \(2,\).*\(3, 2\)"),
        (
            {"theta0": torch.ones(3, 2), "observe": lambda theta: theta.sum()},
            r"observe returned the shape \(\)",
        ),
        ({"gradient": lambda theta, k: theta.mul_(2.0)}, "gradient changes theta in place"),
    ],
)
def test_iterate_refuses_bad_arguments(changes, message):
    arguments = {
        "rule": rules.GradientDescent(0.1),
        "gradient": lambda theta, k: theta,
        "theta0": torch.ones(2),
        "steps": 3,
    }
    with pytest.raises(ValueError, match=message):
        iterate(**arguments | changes)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_cuda_is_kept():
    path = ensembles.iterate(
        rules.HeavyBall(torch.tensor([[0.1]]), 0.5), lambda theta, k: theta, torch.ones(2, 3).cuda(), 5
    )
    assert path.values.is_cuda and path.steps.is_cuda and path.diverged.is_cuda
