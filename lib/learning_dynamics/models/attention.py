r"""Self-attention with one head, a Transformer block with residual strengths, and an encoder of such blocks.

Source: Orvieto (2023), equations (66) to (70) and (86), after Noci et al. (2022) and Vaswani et al. (2017). Tokens are
the rows of `X (..., T, m)`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from learning_dynamics._internal.arguments import (
    require_choice,
    require_count,
    require_counts,
    require_input,
    require_number,
    require_symbols,
    require_tensors,
)

NORMS = ("none", "pre", "post")
ACTIVATIONS = ("relu", "linear")


def attention_weights(X: Tensor, W_Q: Tensor, W_K: Tensor, *, temperature: float = 1.0) -> Tensor:
    r"""Return :math:`\mathrm{softmax}\bigl(XW_Q(XW_K)^\top/(\tau\sqrt{m_k})\bigr)`, softmax in each row.

    Args:
        X: `(..., T, m)`, the tokens.
        W_Q: `(..., m, m_k)`, query weights.
        W_K: `(..., m, m_k)`, key weights.
        temperature: :math:`\tau > 0`, divides the logits.

    Returns:
        `(..., T, T)`; the rows sum to one.

    Raises:
        ValueError: the temperature is not a number above 0, or the tensors do not fit together.
    """
    require_number("temperature", temperature, above=0)
    require_tensors(X=(X, "*batch T m"), W_Q=(W_Q, "*batch m m_k"), W_K=(W_K, "*batch m m_k"))
    return _weights(X, W_Q, W_K, temperature)


def _weights(X: Tensor, W_Q: Tensor, W_K: Tensor, temperature: float) -> Tensor:
    """Return the weights of arguments that fit."""
    logits = (X @ W_Q) @ (X @ W_K).mT / (temperature * math.sqrt(W_Q.shape[-1]))
    return logits.softmax(-1)


def attention(
    X: Tensor,
    W_Q: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    *,
    temperature: float = 1.0,
    uniform: bool = False,
    centred: bool = False,
) -> Tensor:
    r"""Return the output :math:`S=\mathcal AXW_V` of one attention head (Orvieto 2023, (66), (67), (86)).

    Args:
        X: `(..., T, m)`, the tokens.
        W_Q: `(..., m, m_k)`, query weights.
        W_K: `(..., m, m_k)`, key weights.
        W_V: `(..., m, m)`, value weights.
        temperature: divides the logits, > 0.
        uniform: give every token the weight 1/T (Assumption 3.3.1); queries and keys then play no part.
        centred: subtract from every output the mean over the tokens.

    Returns:
        `(..., T, m)`.

    Raises:
        ValueError: the temperature is not a number above 0, or the tensors do not fit together.
    """
    require_number("temperature", temperature, above=0)
    require_tensors(
        X=(X, "*batch T m"),
        W_Q=(W_Q, "*batch m m_k"),
        W_K=(W_K, "*batch m m_k"),
        W_V=(W_V, "*batch m m"),
    )
    return _attention(X, W_Q, W_K, W_V, temperature, uniform, centred)


def _attention(
    X: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, temperature: float, uniform: bool, centred: bool
) -> Tensor:
    """Return the output of arguments that fit."""
    if uniform:
        mean = X.mean(-2, keepdim=True) @ W_V
        S = mean.expand(*mean.shape[:-2], *X.shape[-2:])
    else:
        S = _weights(X, W_Q, W_K, temperature) @ X @ W_V
    return S - S.mean(-2, keepdim=True) if centred else S


class EncoderBlock(nn.Module):
    r"""Attention and a feed-forward layer with two matrices, each on a residual branch (Orvieto 2023, (66) to (70)).

    .. math:: Z = X + \nu_1\,\mathcal AXW_V,\qquad X' = Z + \nu_2\,\phi(ZW_1)W_2 .

    With `norm="post"` each sum passes layer normalization, with `norm="pre"` the input of each branch does; the
    normalization has no parameters. The weights start normal with variance 1/m, in the feed-forward layer 2/m for ReLU.

    Args:
        width: m, entries of a token, >= 1.
        strengths: :math:`(\nu_1,\nu_2)`.
        norm: `"none"`, `"pre"` or `"post"`.
        activation: of the feed-forward layer, `"relu"` or `"linear"`.
        temperature: divides the logits of the attention, > 0.
        uniform: uniform attention.
        centred: subtract the mean token from the output of the attention.
        train_strengths: make the two strengths parameters.
        generator: source of the weights.
        dtype: floating point type of the weights.

    Attributes:
        W_Q, W_K, W_V, W_1, W_2: the weights, `(m, m)` each.
        strengths: `(2)`.

    Raises:
        ValueError: an argument is not as described.
    """

    W_Q: nn.Parameter
    W_K: nn.Parameter
    W_V: nn.Parameter
    W_1: nn.Parameter
    W_2: nn.Parameter

    def __init__(
        self,
        width: int,
        *,
        strengths: Sequence[float] = (1.0, 1.0),
        norm: Literal["none", "pre", "post"] = "none",
        activation: Literal["relu", "linear"] = "relu",
        temperature: float = 1.0,
        uniform: bool = False,
        centred: bool = False,
        train_strengths: bool = False,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        require_count("width", width)
        require_choice("norm", norm, NORMS)
        require_choice("activation", activation, ACTIVATIONS)
        if len(strengths) != 2:
            raise ValueError(f"strengths = {tuple(strengths)}; allowed: two numbers")
        require_number("temperature", temperature, above=0)
        self.norm, self.activation, self.temperature = norm, activation, float(temperature)
        self.uniform, self.centred = uniform, centred
        second = 2.0 if activation == "relu" else 1.0
        for name, variance in (("W_Q", 1.0), ("W_K", 1.0), ("W_V", 1.0), ("W_1", second), ("W_2", second)):
            weights = torch.randn(width, width, generator=generator, dtype=dtype)
            setattr(self, name, nn.Parameter(weights * math.sqrt(variance / width)))
        self.strengths = nn.Parameter(
            torch.tensor(list(strengths), dtype=dtype), requires_grad=train_strengths
        )

    def forward(self, X: Tensor) -> Tensor:
        """Return the tokens after the block, `(..., T, m)`.

        Args:
            X: `(..., T, m)`, the tokens before it.

        Raises:
            ValueError: they have another width or dtype than the weights.
        """
        require_input("X", X, self.W_Q, None, self.W_Q.shape[0])
        inner = self._normalized(X) if self.norm == "pre" else X
        S = _attention(inner, self.W_Q, self.W_K, self.W_V, self.temperature, self.uniform, self.centred)
        Z = X + self.strengths[0] * S
        Z = self._normalized(Z) if self.norm == "post" else Z
        hidden = (self._normalized(Z) if self.norm == "pre" else Z) @ self.W_1
        Y = (torch.relu(hidden) if self.activation == "relu" else hidden) @ self.W_2
        X = Z + self.strengths[1] * Y
        return self._normalized(X) if self.norm == "post" else X

    @staticmethod
    def _normalized(X: Tensor) -> Tensor:
        return layer_norm(X, X.shape[-1:])


def sinusoids(length: int, width: int, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the positional encoding of Vaswani et al. (2017), section 3.5, `(length, width)`.

    Args:
        length: number of positions, >= 1.
        width: m, even.
        dtype: floating point type.

    Raises:
        ValueError: a count is out of range, or the width is odd.
    """
    require_counts(length=length, width=width)
    if width % 2:
        raise ValueError(f"width = {width}; allowed: an even number")
    frequency = 10000 ** (-torch.arange(0, width, 2, dtype=dtype) / width)
    angle = torch.arange(length, dtype=dtype)[:, None] * frequency
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


class Encoder(nn.Module):
    """Embedding and positions, D blocks, and a linear read-out of each token.

    Args:
        symbols: number of different input symbols, and of outputs, >= 1.
        length: T, tokens of a sequence, >= 1.
        width: m, even.
        depth: D, number of blocks, >= 1.
        generator: source of the weights; the embedding starts normal with variance 1.
        dtype: floating point type of the weights.
        block: what `EncoderBlock` takes besides.

    Raises:
        ValueError: an argument is not as described.
    """

    positions: Tensor

    def __init__(
        self,
        symbols: int,
        length: int,
        width: int,
        depth: int,
        *,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float32,
        **block: Any,
    ) -> None:
        super().__init__()
        require_counts(symbols=symbols, length=length, depth=depth)
        self.register_buffer("positions", sinusoids(length, width, dtype=dtype))
        self.embedding = nn.Parameter(torch.randn(symbols, width, generator=generator, dtype=dtype))
        self.blocks = nn.ModuleList(
            EncoderBlock(width, generator=generator, dtype=dtype, **block) for _ in range(depth)
        )
        readout = torch.randn(width, symbols, generator=generator, dtype=dtype)
        self.readout = nn.Parameter(readout / math.sqrt(width))

    def layers(self, sequence: Tensor) -> list[Tensor]:
        """Return the tokens before the first block and after each, D + 1 tensors `(..., T, m)`.

        Args:
            sequence: `(..., T)` int64, symbols.

        Raises:
            ValueError: it is not of this shape, or no integers.
        """
        require_symbols("sequence", sequence, len(self.positions))
        X = [self.embedding[sequence] + self.positions]
        for block in self.blocks:
            X.append(block(X[-1]))
        return X

    def forward(self, sequence: Tensor, *, with_layers: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """Return the scores of the symbols at each place, `(..., T, symbols)`.

        Args:
            sequence: `(..., T)` int64, symbols.
            with_layers: return also what `layers` returns, stacked to `(D + 1, ..., T, m)`.

        Raises:
            ValueError: see `layers`.
        """
        layers = self.layers(sequence)
        scores = layers[-1] @ self.readout
        return (scores, torch.stack(layers)) if with_layers else scores
