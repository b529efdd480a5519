r"""Squared norms of the Jacobians of an attention layer: for given weights, and their means at a random start.

The layer is :math:`S=\mathrm{softmax}(XW_Q(XW_K)^\top/(\tau\sqrt{m_k}))\,XW_V` with T tokens of width m. The means
are those under *uniform attention* (Orvieto 2023, Assumption 3.3.1): the attention has the value 1/T, and the
derivative that softmax has there. Sources: lemma 3.3.1, equations (83) to (87), after Noci et al. (2022).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import require_count, require_number, require_tensors
from learning_dynamics.adaptivity.token_geometry import centred_gram
from learning_dynamics.models.attention import attention_weights


class JacobianNorms(NamedTuple):
    r"""Squared Frobenius norms of the derivatives of S.

    Attributes:
        query: `(...)`, with respect to :math:`W_Q`.
        key: `(...)`, with respect to :math:`W_K`.
        value: `(...)`, with respect to :math:`W_V`.
    """

    query: Tensor
    key: Tensor
    value: Tensor


def jacobian_norms(
    X: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, *, temperature: float = 1.0
) -> JacobianNorms:
    r"""Return the squared norms of the Jacobians for these weights, with the true softmax.

    With the rows :math:`x_i` of X, :math:`q_i` of the queries, and covariances under the weights of row i,

    .. math::
        \Bigl\lVert\frac{\partial S}{\partial W_Q}\Bigr\rVert^2 =\sum_i\frac{\lVert x_i\rVert^2}{\tau^2m_k}
            \lVert\mathrm{Cov}_i(k,v)\rVert^2,\quad
        \Bigl\lVert\frac{\partial S}{\partial W_K}\Bigr\rVert^2 =\sum_i\frac{\lVert q_i\rVert^2}{\tau^2m_k}
            \lVert\mathrm{Cov}_i(x,v)\rVert^2,\quad
        \Bigl\lVert\frac{\partial S}{\partial W_V}\Bigr\rVert^2 =m\lVert\mathcal AX\rVert^2 .

    Args:
        X: `(..., T, m)`, the tokens.
        W_Q: `(..., m, m_k)`, query weights.
        W_K: `(..., m, m_k)`, key weights.
        W_V: `(..., m, m)`, value weights.
        temperature: :math:`\tau`, divides the logits, > 0.

    Returns:
        query, key and value, `(...)` each.

    Raises:
        ValueError: a shape or dtype is wrong, or the temperature is not a number above 0.
    """
    require_tensors(
        X=(X, "*batch T m"),
        W_Q=(W_Q, "*batch m m_k"),
        W_K=(W_K, "*batch m m_k"),
        W_V=(W_V, "*batch m m"),
    )
    A = attention_weights(X, W_Q, W_K, temperature=temperature)
    scale = temperature**2 * W_Q.shape[-1]
    queries, keys, values = X @ W_Q, X @ W_K, X @ W_V

    def covariances(a: Tensor) -> Tensor:  # (..., T), squared norm of Cov_i(a, v)
        joint = torch.einsum("...ij,...ja,...jv->...iav", A, a, values)
        product = (A @ a)[..., :, None] * (A @ values)[..., None, :]
        return (joint - product).square().sum((-1, -2))

    query = (X.square().sum(-1) * covariances(keys)).sum(-1) / scale
    key = (queries.square().sum(-1) * covariances(X)).sum(-1) / scale
    value = values.shape[-1] * (A @ X).square().sum((-1, -2))
    return JacobianNorms(query, key, value)


class UniformNorms(NamedTuple):
    r"""Means over the weights of the squared Frobenius norms of the derivatives of S, under uniform attention.

    Attributes:
        query: `(...)`, with respect to :math:`W_Q`.
        key: `(...)`, with respect to :math:`W_K`.
        value: `(...)`, with respect to :math:`W_V`.
        tokens: `(...)`, with respect to X.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    tokens: Tensor


def uniform_norms(
    X: Tensor, *, query: float | None = None, key: float | None = None, value: float | None = None
) -> UniformNorms:
    r"""Return the means under uniform attention (Orvieto 2023, lemma 3.3.1), for independent weights of mean zero.

    With :math:`\Gamma=X^\top X-T\bar x\bar x^\top` and the variances :math:`\sigma_q^2,\sigma_k^2,\sigma_v^2` of
    the weights,

    .. math::
        \text{value: } mT\lVert\bar x\rVert^2,\qquad
        \text{query: } \frac{\sigma_k^2\sigma_v^2m}{T^2}\lVert X\rVert^2\lVert\Gamma\rVert^2,

    the same with :math:`\sigma_q` for keys. The exact form for the tokens, in the place of the bound (74), is
    :math:`m^2\sigma_v^2+\frac{\sigma_q^2\sigma_k^2\sigma_v^2m}{T^2}\bigl(Tm\lVert\Gamma\rVert^2+m\lVert X\rVert^2
    \mathrm{tr}\,\Gamma+2\lVert\Gamma\rVert^2\bigr)`.

    Args:
        X: `(..., T, m)`, the tokens.
        query: :math:`\sigma_q^2`; 1/m if left out.
        key: :math:`\sigma_k^2`; 1/m if left out.
        value: :math:`\sigma_v^2`; 1/m if left out.

    Returns:
        query, key, value and tokens, `(...)` each.

    Raises:
        ValueError: X is not real floating point of this shape.
    """
    T, m = require_tensors(X=(X, "*batch T m")).values()
    s_q, s_k, s_v = (1 / m if each is None else each for each in (query, key, value))
    gram = centred_gram(X)
    square, left, trace = (
        X.square().sum((-1, -2)),
        gram.square().sum((-1, -2)),
        gram.diagonal(dim1=-2, dim2=-1).sum(-1),
    )
    common = s_v * m / T**2 * square * left
    tokens = m**2 * s_v + s_q * s_k * s_v * m / T**2 * (T * m * left + m * square * trace + 2 * left)
    return UniformNorms(s_k * common, s_q * common, m * T * X.mean(-2).square().sum(-1), tokens)


class EquicorrelatedNorms(NamedTuple):
    """Means over weights and Gaussian tokens of the squared Frobenius norms.

    Attributes:
        query: with respect to the query weights, and equally to the key weights.
        value: with respect to the value weights.
    """

    query: float
    value: float


def equicorrelated_norms(
    tokens: int, width: int, correlation: float, std: float = 1.0, *, exact: bool = True
) -> EquicorrelatedNorms:
    r"""Return the means for Gaussian tokens of which every two have the same correlation (Orvieto 2023, (83) to (85)).

    .. math::
        \text{value: } \sigma_x^2m^2(1+\rho(T-1)),\qquad
        \text{query: } \sigma_x^6\frac{T-1}T(1-\rho)^2m(T+m)\Bigl(1+\frac{4(1-\rho)}{Tm}\Bigr).

    The last factor is the dependence between the norm of the tokens and their centred covariance, which the source
    neglects; `exact=False` leaves it out. Weights have the variance 1/m, and :math:`m_k=m`.

    Args:
        tokens: T >= 2.
        width: m >= 1.
        correlation: :math:`\rho` from 0 to 1.
        std: :math:`\sigma_x > 0`.
        exact: with the last factor.

    Returns:
        query and value.

    Raises:
        ValueError: an argument is out of range.
    """
    require_count("tokens", tokens, least=2)
    require_count("width", width)
    require_number("correlation", correlation, least=0, most=1)
    require_number("std", std, above=0)
    T, m, rest = tokens, width, 1 - correlation
    query = std**6 * (T - 1) / T * rest**2 * m * (T + m)
    factor = 1 + 4 * rest / (T * m) if exact else 1.0
    return EquicorrelatedNorms(query * factor, std**2 * m**2 * (1 + correlation * (T - 1)))


def balancing_temperature(tokens: int, width: int, correlation: float, std: float = 1.0) -> float:
    r"""Return the temperature at which queries and values have equal means (Orvieto 2023, (87)).

    It divides the logits; the source writes its inverse, the gain, with

    .. math:: \tau^{-2}=\frac{mT(1+\rho(T-1))}{\sigma_x^4(1-\rho)^2(T+m)(T-1)} .

    It holds while the attention is uniform: for logits of order one it means nothing.

    Args:
        tokens: T >= 2.
        width: m >= 1.
        correlation: :math:`\rho`, from 0 to below 1.
        std: :math:`\sigma_x > 0`.

    Raises:
        ValueError: an argument is out of range.
    """
    if correlation == 1:
        raise ValueError("correlation = 1; allowed: from 0 to below 1")
    norms = equicorrelated_norms(tokens, width, correlation, std, exact=False)
    return math.sqrt(norms.query / norms.value)
