"""Attention against torch's own layer, the block against its parts, the encoder's shapes and errors."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from learning_dynamics.models import Encoder, EncoderBlock, attention, attention_weights, sinusoids


def source(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=source(seed), dtype=torch.float64)


def test_one_head_is_torchs() -> None:
    m = 6
    X, W_Q, W_K, W_V = (drawn(*shape, seed=i) for i, shape in enumerate([(2, 5, m), (m, m), (m, m), (m, m)]))
    theirs = nn.MultiheadAttention(m, 1, bias=False, batch_first=True, dtype=torch.float64)
    theirs.in_proj_weight.data = torch.cat([W_Q.T, W_K.T, W_V.T])
    theirs.out_proj.weight.data = torch.eye(m, dtype=torch.float64)
    out, weights = theirs(X, X, X)
    torch.testing.assert_close(attention(X, W_Q, W_K, W_V), out)
    torch.testing.assert_close(attention_weights(X, W_Q, W_K), weights)
    hot = attention(X, W_Q, W_K, W_V, temperature=1e9)
    torch.testing.assert_close(hot, attention(X, W_Q, W_K, W_V, uniform=True), atol=1e-7, rtol=1e-7)


@given(st.integers(0, 10_000), st.floats(0.1, 10))
def test_properties(seed: int, temperature: float) -> None:
    X, W_Q, W_K, W_V = (
        drawn(4, 3, seed=seed + i) if i == 0 else drawn(3, 3, seed=seed + i) for i in range(4)
    )
    A = attention_weights(X, W_Q, W_K, temperature=temperature)
    assert (A >= 0).all()
    torch.testing.assert_close(A.sum(-1), torch.ones(4, dtype=torch.float64))
    order = torch.randperm(4, generator=source(seed))
    out = attention(X, W_Q, W_K, W_V, temperature=temperature)
    torch.testing.assert_close(attention(X[order], W_Q, W_K, W_V, temperature=temperature), out[order])
    centred = attention(X, W_Q, W_K, W_V, temperature=temperature, centred=True)
    assert centred.mean(0).abs().max() < 1e-12
    torch.testing.assert_close(
        attention(X, W_Q / temperature, W_K, W_V), out
    )  # the temperature is the scale of W_Q


@pytest.mark.parametrize("norm", ["none", "pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "linear"])
def test_block_against_its_parts(norm: str, activation: str) -> None:
    m = 8
    block = EncoderBlock(
        m, strengths=(0.5, 0.25), norm=norm, activation=activation, generator=source(), dtype=torch.float64
    )
    X = drawn(3, 5, m, seed=9)
    ln = nn.LayerNorm(m, elementwise_affine=False, dtype=torch.float64)
    inner = ln(X) if norm == "pre" else X
    Z = X + 0.5 * attention(inner, block.W_Q, block.W_K, block.W_V)
    Z = ln(Z) if norm == "post" else Z
    hidden = (ln(Z) if norm == "pre" else Z) @ block.W_1
    out = Z + 0.25 * (hidden.relu() if activation == "relu" else hidden) @ block.W_2
    torch.testing.assert_close(block(X), ln(out) if norm == "post" else out)
    assert len(list(p for p in block.parameters() if p.requires_grad)) == 5


def test_start_has_the_variances_of_the_source() -> None:
    block = EncoderBlock(200, generator=source(1))
    for name, variance in (("W_Q", 1), ("W_K", 1), ("W_V", 1), ("W_1", 2), ("W_2", 2)):
        assert getattr(block, name).var().item() * 200 == pytest.approx(variance, rel=0.05)
    linear = EncoderBlock(200, activation="linear", generator=source(1))
    assert linear.W_1.var().item() * 200 == pytest.approx(1, rel=0.05)


def test_sinusoids() -> None:
    table = sinusoids(4, 6, dtype=torch.float64)
    assert table.shape == (4, 6)
    for j in range(4):
        for i in range(3):
            angle = j / 10000 ** (2 * i / 6)
            assert table[j, 2 * i].item() == pytest.approx(math.sin(angle))
            assert table[j, 2 * i + 1].item() == pytest.approx(math.cos(angle))


def test_encoder() -> None:
    encoder = Encoder(10, 7, 4, 3, norm="post", train_strengths=True, generator=source(2))
    digits = torch.randint(10, (5, 7), generator=source(3))
    scores, layers = encoder(digits, with_layers=True)
    assert scores.shape == (5, 7, 10)
    assert layers.shape == (4, 5, 7, 4)
    torch.testing.assert_close(encoder(digits), scores)
    torch.testing.assert_close(layers[1:].mean(-1), torch.zeros(3, 5, 7), atol=1e-6, rtol=0)
    X = encoder.embedding[digits] + encoder.positions
    for block in encoder.blocks:
        X = block(X)
    torch.testing.assert_close(X @ encoder.readout, scores)
    assert encoder.blocks[0].strengths.requires_grad
    again = Encoder(10, 7, 4, 3, norm="post", generator=source(2))
    torch.testing.assert_close(again(digits), scores)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: EncoderBlock(0), "width = 0"),
        (lambda: EncoderBlock(4, norm="batch"), "norm = 'batch'"),
        (lambda: EncoderBlock(4, activation="tanh"), "activation = 'tanh'"),
        (lambda: EncoderBlock(4, strengths=(1.0,)), "strengths = "),
        (lambda: EncoderBlock(4, temperature=0.0), "temperature = 0.0"),
        (lambda: sinusoids(3, 5), "width = 5"),
        (lambda: Encoder(10, 0, 4, 1), "length = 0"),
        (
            lambda: attention_weights(drawn(2, 2), drawn(2, 2), drawn(2, 2), temperature=-1),
            "temperature = -1",
        ),
    ],
)
def test_errors(make: object, words: str) -> None:
    with pytest.raises(ValueError, match="allowed: ") as error:
        make()  # type: ignore[operator]
    assert str(error.value).startswith(words)
