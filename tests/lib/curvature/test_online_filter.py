"""The online filter against ridge regression, against the sum of Fisher matrices, and run by run."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from learning_dynamics import curvature as cv


def stream(seed: int, n: int, d: int, d_y: int) -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.Generator().manual_seed(seed)
    inputs = torch.randn(n, d, generator=source, dtype=torch.float64)
    return inputs, torch.randn(d_y * d, generator=source, dtype=torch.float64)


@given(st.integers(0, 1000), st.integers(1, 6), st.floats(0.01, 100))
def test_on_a_linear_model_it_is_ridge_regression(seed: int, d: int, variance: float) -> None:
    inputs, truth = stream(seed, 30, d, 1)
    targets = inputs @ truth + torch.randn(30, generator=torch.Generator().manual_seed(1)).double()
    rule = cv.OnlineFilter(cv.SquaredError(), variance)
    theta = torch.zeros(d, dtype=torch.float64)
    covariance = rule.start(theta)
    for x, y in zip(inputs, targets, strict=True):
        theta, covariance = rule.step(theta, covariance, (x @ theta)[None], x[None], y[None])
    ridge = Ridge(alpha=1 / variance, fit_intercept=False).fit(inputs.numpy(), targets.numpy())
    assert np.allclose(theta.numpy(), ridge.coef_, rtol=1e-7, atol=1e-9)


@given(st.integers(0, 1000), st.sampled_from(["categorical", "bernoulli"]))
def test_precisions_add_and_the_step_is_natural(seed: int, name: str) -> None:
    """The inverse covariance is the prior's plus all Fisher matrices, a singular softmax included."""
    law, d_y = (cv.Categorical(), 3) if name == "categorical" else (cv.Bernoulli(), 2)
    inputs, truth = stream(seed, 20, 2, d_y)
    rule = cv.OnlineFilter(law, 0.7)
    theta = 0.1 * truth
    covariance = rule.start(theta)
    precision = torch.eye(len(theta), dtype=theta.dtype) / 0.7
    source = torch.Generator().manual_seed(seed)
    for x in inputs:
        J = torch.block_diag(*[x[None]] * d_y)
        z = J @ theta
        y = law.sample(J @ truth, 1, source)[0]
        precision = precision + J.mT @ law.fisher(z) @ J
        natural = theta - torch.linalg.solve(precision, J.mT @ law.gradient(z, y))
        theta, covariance = rule.step(theta, covariance, z, J, y)
        assert torch.allclose(theta, natural, rtol=1e-8, atol=1e-10)
    assert torch.allclose(covariance, torch.linalg.inv(precision), rtol=1e-8, atol=1e-10)
    assert torch.linalg.eigvalsh(covariance)[0] > 0


def test_runs_and_priors_are_batch_axes() -> None:
    inputs, truth = stream(3, 15, 4, 1)
    y = (inputs @ truth > 0).double()
    priors = torch.tensor([0.1, 10.0], dtype=torch.float64)
    both = cv.OnlineFilter(cv.Bernoulli(), priors)
    theta = torch.zeros(2, 4, dtype=torch.float64)
    covariance = both.start(theta)
    for x, target in zip(inputs, y, strict=True):
        row = x.expand(2, 1, 4)
        theta, covariance = both.step(theta, covariance, (theta @ x)[:, None], row, target.expand(2, 1))
    for j, prior in enumerate([0.1, 10.0]):
        alone = cv.OnlineFilter(cv.Bernoulli(), prior)
        one = torch.zeros(4, dtype=torch.float64)
        P = alone.start(one)
        for x, target in zip(inputs, y, strict=True):
            one, P = alone.step(one, P, (x @ one)[None], x[None], target[None])
        assert torch.allclose(one, theta[j], rtol=1e-10)
        assert torch.allclose(P, covariance[j], rtol=1e-10)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="prior_variance = 0"):
        cv.OnlineFilter(cv.Bernoulli(), 0)
    rule = cv.OnlineFilter(cv.Bernoulli(), 1.0)
    theta = torch.zeros(3)
    with pytest.raises(ValueError, match="jacobian has shape"):
        rule.step(theta, rule.start(theta), torch.zeros(1), torch.zeros(3), torch.zeros(1))
