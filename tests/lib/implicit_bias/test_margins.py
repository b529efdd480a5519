"""Margins against scikit-learn, SciPy's integrators, autograd and closed forms."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.optimize import minimize
from sklearn.svm import SVC

from learning_dynamics.implicit_bias import margins


def separable(seed: int, n: int = 15, d: int = 3, sets: tuple[int, ...] = ()) -> torch.Tensor:
    """Return signed samples that one hidden vector separates by at least 0.2."""
    source = torch.Generator().manual_seed(seed)
    z = torch.randn(*sets, n, d, generator=source, dtype=torch.float64)
    hidden = torch.randn(*sets, d, 1, generator=source, dtype=torch.float64)
    hidden = hidden / hidden.norm(dim=-2, keepdim=True)
    side = z @ hidden
    return side.sign() * (z + 0.2 * side.sign() * hidden.mT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_signed_samples_fold_the_label_in(dtype: torch.dtype) -> None:
    X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert torch.equal(
        margins.signed_samples(X, torch.tensor([1, -1], dtype=dtype)), X * torch.tensor([[1.0], [-1.0]])
    )


@pytest.mark.parametrize("labels", [[0.0, 1.0], [1.0, 2.0], [1.0, float("nan")]])
def test_other_labels_are_refused(labels: list[float]) -> None:
    with pytest.raises(ValueError, match="allowed: -1 and [+]1"):
        margins.signed_samples(torch.ones(2, 3), torch.tensor(labels))


def test_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="allowed: [(][*]batch, n, d[)] and [(][*]batch, n[)]"):
        margins.signed_samples(torch.ones(2, 3), torch.ones(3))
    with pytest.raises(ValueError, match="signed has shape"):
        margins.normalized_margin(torch.ones(2), torch.ones(4, 3))
    with pytest.raises(ValueError, match="signed has shape"):
        margins.hard_margin_svm(torch.ones(0, 3))


def test_zero_has_no_margin_and_norms_start_at_one() -> None:
    with pytest.raises(ValueError, match="theta = 0"):
        margins.normalized_margin(torch.zeros(3), torch.ones(4, 3))
    with pytest.raises(ValueError, match="order = 0.5"):
        margins.smooth_margin(torch.ones(3), torch.ones(4, 3), order=0.5)


@given(st.integers(0, 10_000), st.floats(-3, 3))
def test_sandwich_and_scaling_hold_for_any_theta(seed: int, log_scale: float) -> None:
    signed = separable(seed)
    theta = (
        torch.randn(3, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64) * 10**log_scale
    )
    hard, smooth = margins.normalized_margin(theta, signed), margins.smooth_margin(theta, signed)
    rounding = 1e-12 * (1 + 1 / theta.norm())
    assert hard - math.log(15) / theta.norm() - rounding <= smooth <= hard + rounding
    assert hard <= margins.hard_margin_svm(signed).margin + 1e-12
    assert torch.isclose(margins.normalized_margin(3.7 * theta, signed), hard, rtol=1e-12)


def test_gradients_match_autograd() -> None:
    signed = separable(3, sets=(4,))
    theta = torch.randn(
        4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True
    )
    losses = {
        margins.normalized_gradient: margins.log_exponential_loss(theta, signed),
        margins.logistic_gradient: torch.nn.functional.softplus(-(signed @ theta[..., None]).squeeze(-1)).sum(
            -1
        ),
    }
    for make, loss in losses.items():
        (expected,) = torch.autograd.grad(loss.sum(), theta, retain_graph=True)
        assert torch.allclose(make(signed)(theta.detach(), 0), expected, rtol=1e-12, atol=1e-14)


def test_svm_agrees_with_a_general_solver() -> None:
    for seed in range(5):
        signed = separable(seed)
        found = margins.hard_margin_svm(signed)
        Z = signed.numpy()
        general = minimize(
            lambda w: w @ w / 2,
            found.weights.numpy() + 0.1,
            jac=lambda w: w,
            constraints={"type": "ineq", "fun": lambda w, Z=Z: Z @ w - 1, "jac": lambda w, Z=Z: Z},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert general.success
        assert np.allclose(found.weights, general.x, rtol=1e-6, atol=1e-7)


def test_svm_agrees_with_scikit_learn() -> None:
    # without an offset: every sample once with its label and once mirrored makes SVC's offset zero
    signed = separable(7, n=30, d=6)
    X, y = torch.cat([signed, -signed]).numpy(), np.r_[np.ones(30), -np.ones(30)]
    reference = SVC(C=1e8, kernel="linear", tol=1e-9).fit(X, y)
    assert np.allclose(margins.hard_margin_svm(signed).weights, reference.coef_[0], rtol=1e-4, atol=1e-5)


@given(st.integers(0, 10_000), st.sampled_from([(4, 2), (20, 2), (15, 6), (6, 12)]), st.floats(-3, 3))
def test_svm_satisfies_its_optimality_conditions(seed: int, shape: tuple[int, int], log_scale: float) -> None:
    signed = separable(seed, *shape) * 10**log_scale
    weights, margin, dual, support = margins.hard_margin_svm(signed)
    slack = signed @ weights - 1
    assert slack.min() > -1e-10
    assert (dual >= 0).all()
    assert (dual[~support] == 0).all()
    assert torch.allclose(dual @ signed, weights, rtol=1e-10, atol=1e-10 * weights.norm())
    assert torch.isclose(dual.sum(), weights.square().sum(), rtol=1e-9)
    assert torch.isclose(margin, margins.normalized_margin(weights, signed), rtol=1e-10)


def test_batches_are_solved_one_by_one() -> None:
    signed = separable(1, sets=(2, 3))
    together = margins.hard_margin_svm(signed)
    assert together.weights.shape == (2, 3, 3) and together.support.shape == (2, 3, 15)
    assert torch.equal(together.weights[1, 2], margins.hard_margin_svm(signed[1, 2]).weights)
    assert margins.largest_margin(signed, math.inf).shape == (2, 3)


@pytest.mark.parametrize(
    "signed", [[[1.0, 0.0], [-1.0, 0.0]], [[1.0, 1.0], [-2.0, 1.0], [0.0, -3.0]], [[0.0, 0.0]]]
)
def test_data_that_are_not_separable_are_refused(signed: list[list[float]]) -> None:
    data = torch.tensor(signed, dtype=torch.float64)
    with pytest.raises(ValueError, match="data set 0 is not linearly separable"):
        margins.hard_margin_svm(data)
    for order in (1, math.inf):
        with pytest.raises(ValueError, match="data set 0 is not linearly separable"):
            margins.largest_margin(data, order)


def test_data_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match="NaN or infinite; allowed: finite numbers"):
        margins.hard_margin_svm(torch.tensor([[1.0, float("inf")]]))


def test_largest_margins_of_one_sample_are_dual_norms() -> None:
    sample = torch.tensor([[3.0, -4.0]], dtype=torch.float64)
    assert torch.isclose(margins.hard_margin_svm(sample).margin, torch.tensor(5.0, dtype=torch.float64))
    assert torch.isclose(margins.largest_margin(sample, math.inf), torch.tensor(7.0, dtype=torch.float64))
    assert torch.isclose(margins.largest_margin(sample, 1), torch.tensor(4.0, dtype=torch.float64))
    with pytest.raises(ValueError, match="order = 2"):
        margins.largest_margin(sample, 2)


@given(st.integers(0, 10_000))
@settings(max_examples=10)
def test_no_theta_beats_the_largest_margin(seed: int) -> None:
    signed = separable(seed)
    theta = torch.randn(500, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    for order in (1, math.inf):
        assert (
            margins.normalized_margin(theta, signed, order).max()
            <= margins.largest_margin(signed, order) + 1e-9
        )


def test_flow_agrees_with_scipy_at_moderate_times() -> None:
    signed = separable(2)
    start = torch.tensor([0.5, -1.0, 0.2], dtype=torch.float64)
    times = [0.1, 1.0, 30.0, 1000.0]
    found = margins.exponential_flow(signed, start, [math.log(t) for t in times], tolerance=1e-10)
    Z = signed.numpy()
    reference = solve_ivp(
        lambda t, w: np.exp(-Z @ w) @ Z,
        (0, 1000),
        start,
        t_eval=times,
        method="LSODA",
        rtol=1e-11,
        atol=1e-12,
    )
    assert np.allclose(found.values, reference.y.T, rtol=1e-7, atol=1e-7)


def test_flow_follows_its_closed_form_to_huge_times() -> None:
    pair = torch.tensor([[1.0, 2.0], [1.0, -0.5]], dtype=torch.float64)
    rest = math.log(4) / 2.5
    log_strength = math.log(math.exp(-2 * rest) + math.exp(0.5 * rest))
    clock = torch.tensor([-5.0, 0.0, 10.0, 4000.0, 1e6], dtype=torch.float64)
    path = margins.exponential_flow(
        pair, torch.tensor([0.0, rest], dtype=torch.float64), clock, tolerance=1e-9
    ).values
    expected = torch.logaddexp(torch.zeros(5, dtype=torch.float64), clock + log_strength)
    assert torch.allclose(path[:, 0], expected, rtol=1e-13, atol=1e-8)
    assert torch.allclose(path[:, 1], torch.full((5,), rest, dtype=torch.float64), atol=1e-8)


def test_flow_converges_with_its_tolerance_and_batches_agree() -> None:
    signed = separable(5, sets=(3,))
    start = torch.zeros(2, 3, 3, dtype=torch.float64)
    start[1] = 2.0
    clock = [0.0, 5.0, 50.0]
    fine = margins.exponential_flow(signed, start, clock, tolerance=1e-9)
    coarse = margins.exponential_flow(signed, start, clock, tolerance=1e-6)
    assert fine.values.shape == (3, 2, 3, 3) and fine.evaluations > coarse.evaluations
    assert (fine.values - coarse.values).abs().max() < 1e-4
    alone = margins.exponential_flow(signed[1], start[1, 1], clock, tolerance=1e-9)
    assert (fine.values[:, 1, 1] - alone.values).abs().max() < 1e-7


def test_flow_on_data_that_are_not_separable_stops_at_the_minimizer() -> None:
    signed = torch.tensor([[1.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.3, -1.0]], dtype=torch.float64)
    path = margins.exponential_flow(signed, torch.zeros(2, dtype=torch.float64), [3.0, 20.0, 30.0])
    slope = margins.normalized_gradient(signed)(path.values[-1], 0)
    assert slope.norm() < 1e-8
    assert torch.allclose(path.values[-1], path.values[-2], atol=1e-8)


def test_bad_flows_are_refused() -> None:
    signed, zero = separable(0), torch.zeros(3, dtype=torch.float64)
    with pytest.raises(ValueError, match="allowed: torch.float64"):
        margins.exponential_flow(signed.float(), zero, [1.0])
    with pytest.raises(ValueError, match="strictly increasing"):
        margins.exponential_flow(signed, zero, [1.0, 1.0])
    with pytest.raises(ValueError, match="tolerance = 0"):
        margins.exponential_flow(signed, zero, [1.0], tolerance=0)
    with pytest.raises(RuntimeError, match="max_steps = 3"):
        margins.exponential_flow(signed, zero, [100.0], max_steps=3)


@pytest.mark.parametrize("small", [1e-3, 1e-4, 1e-5, 1e-6, 1e-7])
def test_small_margins_are_found_to_rounding(small: float) -> None:
    signed = torch.tensor([[1.0, small], [-1.0, small], [0.3, 1.0]], dtype=torch.float64)
    best = margins.hard_margin_svm(signed)
    assert best.margin.item() == pytest.approx(small, rel=1e-12)
    assert best.support.tolist() == [True, True, False]
    assert (best.dual * small**2).tolist() == pytest.approx([0.5, 0.5, 0.0], abs=1e-12)


def test_logistic_flow_against_an_integrator_of_scipy() -> None:
    signed = separable(3, sets=(2,))
    start = torch.tensor([0.3, -0.2, 0.5], dtype=torch.float64)
    flow = margins.exponential_flow(signed, start, [0.0, 2.0, 5.0], loss="logistic")
    for index, Z in enumerate(signed.numpy()):
        found = solve_ivp(
            lambda t, w, Z=Z: Z.T @ (1 / (1 + np.exp(Z @ w))),
            (0, math.exp(5.0)),
            start.numpy(),
            t_eval=[1.0, math.exp(2.0), math.exp(5.0)],
            rtol=1e-10,
            atol=1e-12,
        )
        assert flow.values[:, index].numpy() == pytest.approx(found.y.T, abs=1e-6)


def test_logistic_flow_ends_on_the_lines_of_the_exponential_one() -> None:
    signed = separable(5)
    late = [
        margins.exponential_flow(signed, torch.zeros(3, dtype=torch.float64), [1e4], loss=loss)
        for loss in margins.LOSSES
    ]
    best = margins.hard_margin_svm(signed)
    apart = margins.functional_margins(late[0].values[0] - late[1].values[0], signed)
    assert apart[best.support].abs().max() < 1e-6


def test_unknown_losses_are_refused() -> None:
    with pytest.raises(ValueError, match="loss = 'squared'; allowed: exponential, logistic"):
        margins.exponential_flow(separable(0), torch.zeros(3, dtype=torch.float64), [1.0], loss="squared")
