"""Finite sums against automatic differentiation, SciPy and scikit-learn; the comparison built on them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from learning_dynamics import rules
from learning_dynamics.adaptivity.finite_sums import LogisticSum, QuadraticSum
from learning_dynamics.experiments.polyak_steps import step_size_comparison as comparison


def quadratics(seed: int, n: int = 5, d: int = 3) -> QuadraticSum:
    source = torch.Generator().manual_seed(seed)
    root = torch.randn(n, d, d, generator=source, dtype=torch.float64)
    return QuadraticSum(
        root @ root.mT + 0.1 * torch.eye(d, dtype=torch.float64),
        torch.randn(n, d, generator=source, dtype=torch.float64),
        torch.rand(n, generator=source, dtype=torch.float64),
    )


def logistic(seed: int, ridge: float = 0.1) -> LogisticSum:
    source = torch.Generator().manual_seed(seed)
    inputs = torch.randn(30, 4, generator=source, dtype=torch.float64)
    signs = torch.where(torch.rand(30, generator=source) > 0.5, 1.0, -1.0).double()
    return LogisticSum(inputs, signs, ridge)


@pytest.mark.parametrize("make", [quadratics, logistic])
def test_oracle_is_loss_and_gradient_of_the_batch(make) -> None:
    problem = make(0)
    d = problem.minimizer().shape[0]
    theta = torch.randn(
        6, 2, d, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    ).requires_grad_()
    rows = torch.randint(5, (6, 3), generator=torch.Generator().manual_seed(2))
    loss, gradient = problem.oracle(theta, rows)
    singles = torch.stack([problem.oracle(theta, rows[:, i : i + 1])[0] for i in range(3)]).mean(0)
    torch.testing.assert_close(loss, singles)
    torch.testing.assert_close(gradient, torch.autograd.grad(loss.sum(), theta)[0])


def test_a_quadratic_is_its_definition() -> None:
    problem = quadratics(3)
    theta = torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64)
    off = theta - problem.centers
    slow = (torch.einsum("ni,nij,nj->n", off, problem.curvatures, off) / 2 + problem.floors).mean()
    torch.testing.assert_close(problem.oracle(theta[None])[0][0], slow)


@settings(max_examples=10)
@given(seed=st.integers(0, 1000), size=st.integers(1, 4))
def test_minimum_is_below_all_points_and_stationary(seed: int, size: int) -> None:
    for problem in (quadratics(seed), logistic(seed)):
        rows = torch.tensor(list(itertools.combinations(range(5), size)))
        point = problem.minimizer(rows)[:, None]
        loss, gradient = problem.oracle(point, rows)
        assert gradient.abs().max() < 1e-10 * max(1.0, float(problem.smoothness.max()))
        torch.testing.assert_close(loss[:, 0], problem.minimum(rows))
        moved = problem.oracle(point + 0.1 * torch.ones_like(point), rows)[0]
        assert (moved > loss).all()


def test_minimum_agrees_with_scipy_and_scikit_learn() -> None:
    problem = logistic(4)

    def value(theta):
        loss, gradient = problem.oracle(torch.as_tensor(theta)[None])
        return loss.item(), gradient[0].numpy()

    found = minimize(value, np.zeros(4), jac=True, method="BFGS", options={"gtol": 1e-10})
    assert abs(found.fun - problem.minimum().item()) < 1e-12
    model = LogisticRegression(C=1 / (0.1 * 30), fit_intercept=False, tol=1e-12, max_iter=1000)
    model.fit(problem.inputs.numpy(), problem.signs.numpy())
    np.testing.assert_allclose(model.coef_[0], problem.minimizer().numpy(), atol=1e-6)


def test_constants_bound_the_hessian() -> None:
    problem = logistic(5)
    for i in range(5):
        hessian = torch.func.hessian(lambda theta, i=i: problem.oracle(theta[None], torch.tensor([i]))[0][0])(
            torch.full((4,), 0.2, dtype=torch.float64)
        )
        values = torch.linalg.eigvalsh(hessian)
        assert values[-1] <= problem.smoothness[i] + 1e-12
        assert values[0] >= problem.strong_convexity[i] - 1e-12


def test_separable_data_without_ridge_have_no_minimizer() -> None:
    with pytest.raises(ValueError, match="ridge"):
        LogisticSum(torch.eye(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64), 0.0).minimizer()


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: QuadraticSum(torch.zeros(2, 3, 3), torch.zeros(2, 2)), "curvatures"),
        (lambda: QuadraticSum(torch.zeros(2, 2, 2), torch.zeros(2, 2), torch.zeros(3)), "floors"),
        (lambda: LogisticSum(torch.zeros(2, 2), torch.ones(3), 0.1), "signs has shape"),
        (lambda: LogisticSum(torch.zeros(2, 2), torch.tensor([0.0, 1.0]), 0.1), "signs"),
        (lambda: LogisticSum(torch.zeros(2, 2), torch.ones(2), -1.0), "ridge"),
        (lambda: comparison.shipped("wine"), "name"),
    ],
)
def test_bad_arguments_are_named(make, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        make()


def test_comparison_runs_every_rule_as_it_would_run_alone() -> None:
    problem = logistic(6)
    found = comparison.run_method(problem, "decsps", [3, 4], steps=100, start="far")
    source = comparison.Run(comparison.CHAPTER).generator("comparison", seed=4)
    theta = torch.randn(1, 4, generator=source, dtype=torch.float64)
    rows = torch.randint(30, (100, comparison.BATCH), generator=source)
    rule = rules.DecSPS()
    state = rule.start(theta)
    for k in range(100):
        loss, gradient = problem.oracle(theta, rows[k])
        theta, state = rule.step(theta, gradient, state, loss)
    torch.testing.assert_close(found["gap"][-1, 1], problem.oracle(theta)[0][0] - problem.minimum())
    torch.testing.assert_close(found["step"][-1, 1], state.step_size[0])


@pytest.mark.parametrize("name", ["decsps", "sgd", "adagrad_norm", "adam", "amsgrad"])
def test_methods_of_the_comparison_are_their_formulas(name: str) -> None:
    problem = logistic(7)
    found = comparison.run_method(problem, name, [5], steps=100)
    source = comparison.Run(comparison.CHAPTER).generator("comparison", seed=5)
    torch.randn(1, 4, generator=source, dtype=torch.float64)  # the start, times zero
    rows = torch.randint(30, (100, comparison.BATCH), generator=source)
    theta, eta = torch.zeros(1, 4, dtype=torch.float64), comparison.METHODS[name].grid[found["best"]].item()
    smallest, total = 10.0, 0.1**2
    square = largest = torch.zeros_like(theta)
    for k in range(100):
        loss, gradient = problem.oracle(theta, rows[k])
        norm = gradient.square().sum()
        smallest, total = min(smallest, (loss / norm).item()), total + norm
        square = 0.999 * square + 0.001 * gradient**2
        largest = torch.maximum(largest, square)
        corrected = 1 - 0.999 ** (k + 1)
        step = {
            "decsps": smallest / (k + 1) ** 0.5,
            "sgd": eta / (k + 1) ** 0.5,
            "adagrad_norm": eta / total**0.5,
            "adam": eta / ((square / corrected).sqrt() + 1e-8),
            "amsgrad": eta / (k + 1) ** 0.5 / ((largest / corrected).sqrt() + 1e-8),
        }[name]
        theta = theta - step * gradient
    torch.testing.assert_close(found["gap"][-1, 0], problem.oracle(theta)[0][0] - problem.minimum())
    torch.testing.assert_close(found["final"][0, found["best"]], found["gap"][-10:, 0].mean())


def test_a_file_in_libsvm_format_becomes_a_problem(tmp_path) -> None:
    for name in comparison.RIDGES:
        lines = [f"{1 + i % 2} 1:{(-1) ** i * 0.5 + i / 50} 3:{(i * i) % 7 / 7}" for i in range(40)]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
    problem = comparison.read(tmp_path / "a1a.txt", 0.01)
    assert problem.inputs.shape == (40, 4) and set(problem.signs.tolist()) == {-1.0, 1.0}
    (tmp_path / "a1a.txt").write_text("1 1:1\n2 1:2\n3 1:3\n")
    with pytest.raises(ValueError, match="3 classes"):
        comparison.read(tmp_path / "a1a.txt", 0.01)
