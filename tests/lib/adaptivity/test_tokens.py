"""The geometry of tokens and the gradient norms of attention, against automatic differentiation and enumeration."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.func import jacrev

from learning_dynamics.adaptivity import attention_gradients as gradients
from learning_dynamics.adaptivity import token_geometry as tokens
from learning_dynamics.models import attention

DOUBLE = torch.float64


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 5))
def test_share_and_cosine_by_definition(seed: int, T: int, m: int) -> None:
    X = drawn(3, T, m, seed=seed)
    share = tokens.mean_share(X)
    assert ((share >= 0) & (share <= 1 + 1e-12)).all()
    whole = (X @ X.mT).sum((1, 2))  # C(X) = T² |mean|²
    torch.testing.assert_close(share, whole / T / X.square().sum((1, 2)))
    pairs = [
        torch.cosine_similarity(X[:, i], X[:, j], dim=-1) for i, j in itertools.permutations(range(T), 2)
    ]
    torch.testing.assert_close(tokens.token_correlation(X, kind="cosine"), torch.stack(pairs).mean(0))
    equal = torch.nn.functional.normalize(X, dim=-1)
    ratio = torch.stack([tokens.token_correlation(each) for each in equal])
    torch.testing.assert_close(ratio, tokens.correlation_of_share(tokens.mean_share(equal), T))


def test_ratio_of_means_by_definition() -> None:
    X = drawn(50, 3, 4)
    total = 0.0
    for i, j in itertools.permutations(range(3), 2):
        inner = (X[:, i] * X[:, j]).sum(1).mean()
        total += inner / (X[:, i].square().sum(1).mean() * X[:, j].square().sum(1).mean()).sqrt()
    torch.testing.assert_close(tokens.token_correlation(X), total / 6)


@given(st.floats(0.01, 0.99), st.floats(0.05, 2), st.integers(0, 30))
def test_odds_grow_geometrically(p: float, strength: float, depth: int) -> None:
    q = tokens.share_at_depth(p, strength, depth).item()
    growth = (1 + strength**2) ** depth
    if growth < 1e6:
        assert q / (1 - q) == pytest.approx(growth * p / (1 - p), rel=1e-6)
        back = tokens.depth_of_share(q, p, strength)
        assert back == pytest.approx(depth, abs=1e-4)
    one_by_one = torch.tensor(p, dtype=DOUBLE)
    for _ in range(depth):
        one_by_one = tokens.share_at_depth(one_by_one, strength, 1)
    assert one_by_one.item() == pytest.approx(q, rel=1e-9)


def test_share_against_real_blocks() -> None:
    T, m, N, depth, strength = 3, 8, 20_000, 3, 0.7
    X = drawn(T, m, seed=4).expand(N, T, m)
    start = tokens.mean_share(X[0])
    for block in range(depth):
        W_V, W_1, W_2 = (drawn(N, m, m, seed=10 * block + i) / math.sqrt(m) for i in range(3))
        Z = X + strength * attention(X, W_V, W_V, W_V, uniform=True)
        X = Z + Z @ W_1 @ W_2
    share = T * X.mean(1).square().sum(1).mean() / X.square().sum((1, 2)).mean()
    claim = tokens.share_at_depth(start, strength, depth)
    assert share.item() == pytest.approx(claim.item(), rel=0.03)
    assert abs(share.item() / tokens.share_at_depth(start, strength, depth - 1).item() - 1) > 0.06


@given(st.integers(0, 10_000), st.floats(0.3, 3))
def test_jacobian_norms_against_automatic_differentiation(seed: int, temperature: float) -> None:
    X, W_V = drawn(4, 3, seed=seed), drawn(3, 3, seed=seed + 1)
    W_Q, W_K = drawn(3, 5, seed=seed + 2), drawn(3, 5, seed=seed + 3)
    automatic = jacrev(lambda *W: attention(X, *W, temperature=temperature), (0, 1, 2))(W_Q, W_K, W_V)
    ours = gradients.jacobian_norms(X, W_Q, W_K, W_V, temperature=temperature)
    for J, norm in zip(automatic, ours, strict=True):
        torch.testing.assert_close(J.square().sum(), norm, rtol=1e-8, atol=1e-12)
    batched = gradients.jacobian_norms(X.expand(2, 4, 3), W_Q, W_K, W_V, temperature=temperature)
    torch.testing.assert_close(batched.query, ours.query.expand(2))


def linearized_norms(X: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
    """Squared norms of the four Jacobians (W_Q, W_K, W_V, X) where attention has the value 1/T and softmax's slope."""

    def layer(X: torch.Tensor, *W: torch.Tensor) -> torch.Tensor:
        T, M = len(X), (X @ W[0]) @ (X @ W[1]).T / math.sqrt(W[0].shape[1])
        moved = (M - M.mean(1, keepdim=True)) / T
        return (X.mean(0, keepdim=True).expand(T, -1) + moved @ fixed) @ W[2]

    fixed = X
    J_X, *others = jacrev(layer, (0, 1, 2, 3))(X, *weights)
    # the value of the first-order term is left out of S: it changes the derivative with respect to W_V only
    value = X.shape[1] * X.shape[0] * X.mean(0).square().sum()
    return torch.stack([others[0].square().sum(), others[1].square().sum(), value, J_X.square().sum()])


def test_uniform_norms_by_enumeration() -> None:
    """Signs have the moments that matter: every weight enters the Jacobian at most once, so only squares count."""
    X = torch.tensor([[5.0], [3.0]], dtype=DOUBLE)
    signs = [torch.tensor([[float(s)]], dtype=DOUBLE) for s in (-1, 1)]
    norms = torch.stack([linearized_norms(X, *W) for W in itertools.product(signs, repeat=3)]).mean(0)
    exact = gradients.uniform_norms(X)
    torch.testing.assert_close(norms, torch.stack([exact.query, exact.key, exact.value, exact.tokens]))
    assert exact.tokens.item() == pytest.approx(22)


def test_uniform_norms_by_sampling() -> None:
    X = drawn(3, 2, seed=5) + 0.7
    draws = torch.stack(
        [
            linearized_norms(
                X, drawn(2, 4, seed=9 * i), 0.5 * drawn(2, 4, seed=9 * i + 1), drawn(2, 2, seed=9 * i + 2)
            )
            for i in range(2000)
        ]
    )
    exact = torch.stack(gradients.uniform_norms(X, query=1.0, key=0.25, value=1.0)[:4])
    error = draws.std(0) / math.sqrt(len(draws))
    assert ((draws.mean(0) - exact).abs() <= 4.5 * error + 1e-12).all()
    assert error.max() / exact.max() < 0.1


def test_equicorrelated_norms_against_tokens() -> None:
    T, m, rho, N = 3, 4, 0.3, 200_000
    X = 0.7 * (math.sqrt(rho) * drawn(N, 1, m, seed=1) + math.sqrt(1 - rho) * drawn(N, T, m, seed=2))
    found = gradients.uniform_norms(X)
    exact = gradients.equicorrelated_norms(T, m, rho, 0.7)
    printed = gradients.equicorrelated_norms(T, m, rho, 0.7, exact=False)
    for sample, claim in ((found.query, exact.query), (found.value, exact.value)):
        assert abs(sample.mean() - claim) <= 4.5 * sample.std() / math.sqrt(N)
    assert abs(found.query.mean() - printed.query) > 10 * found.query.std() / math.sqrt(N)
    tau = gradients.balancing_temperature(T, m, rho, 0.7)
    assert printed.query / tau**2 == pytest.approx(printed.value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tokens.token_correlation(drawn(2, 1, 3)), "X has shape"),
        (lambda: tokens.token_correlation(drawn(2, 2, 3), kind="mean"), "kind = 'mean'"),
        (lambda: tokens.share_at_depth(1.5, 1.0, 1), "share = 1.5"),
        (lambda: tokens.share_at_depth(0.5, 1.0, -1), "depth = -1"),
        (lambda: tokens.depth_of_share(0.5, 0.0, 1.0), "start = 0.0"),
        (lambda: tokens.depth_of_share(0.5, 0.2, 0.0), "strength = 0"),
        (lambda: tokens.correlation_of_share(0.5, 1), "tokens = 1"),
        (lambda: gradients.equicorrelated_norms(3, 4, 1.5), "correlation = 1.5"),
        (lambda: gradients.equicorrelated_norms(3, 4, 0.5, 0.0), "std = 0.0"),
        (lambda: gradients.balancing_temperature(3, 4, 1), "correlation = 1"),
    ],
)
def test_errors(make: object, words: str) -> None:
    with pytest.raises(ValueError, match="allowed: ") as error:
        make()  # type: ignore[operator]
    assert str(error.value).startswith(words)
