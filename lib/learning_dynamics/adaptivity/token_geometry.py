r"""How much the tokens of a sequence have in common: the share of the mean token, and how it grows with depth.

For tokens `X (..., T, m)` with the mean :math:`\bar x` the share is
:math:`p=T\lVert\bar x\rVert^2/\lVert X\rVert^2`: 0 for tokens that sum to zero, 1 for equal ones. Uniform attention
on a residual branch of strength :math:`\nu` multiplies the square of the mean token by :math:`1+\nu^2` in expectation
and leaves the rest alone (Orvieto 2023, lemmas 3.3.2 and 3.3.3; Noci et al. 2022), so that the odds :math:`p/(1-p)`
of the expected share grow geometrically.
"""

from __future__ import annotations

import math
from typing import Literal

from torch import Tensor
from torch.nn.functional import normalize

from learning_dynamics._internal.arguments import require_count, require_numbers, require_tensors


def mean_share(X: Tensor) -> Tensor:
    r"""Return :math:`T\lVert\bar x\rVert^2/\lVert X\rVert^2` of each sequence, between 0 and 1; `(...)`.

    Args:
        X: `(..., T, m)`, tokens.

    Raises:
        ValueError: X is not real floating point of this shape.
    """
    require_tensors(X=(X, "*batch T m"))
    return X.shape[-2] * X.mean(-2).square().sum(-1) / X.square().sum((-1, -2))


def token_correlation(X: Tensor, *, kind: Literal["ratio", "cosine"] = "ratio") -> Tensor:
    r"""Return how alike the tokens are, averaged over the T(T - 1) ordered pairs of different tokens.

    Args:
        X: `(B, T, m)`, B draws of a sequence of T >= 2 tokens, or `(T, m)`, one draw.
        kind: `"ratio"`: the mean inner product over the root of the two mean squares (Orvieto 2023, (71) and (80)), the
            means being over the draws; `"cosine"`: the mean cosine of each draw.

    Returns:
        one number `()` for `"ratio"`, `(B)` for `"cosine"`.

    Raises:
        ValueError: the kind is unknown, or there are fewer than two tokens.
    """
    if require_tensors(X=(X, "*batch T m"))["T"] < 2:
        raise ValueError(f"X has shape {tuple(X.shape)}; allowed: (B, T, m) with T >= 2")
    pairs = X.shape[-2] * (X.shape[-2] - 1)
    if kind == "cosine":
        unit = normalize(X, dim=-1)
        return (unit.sum(-2).square().sum(-1) - unit.square().sum((-1, -2))) / pairs
    if kind != "ratio":
        raise ValueError(f"kind = {kind!r}; allowed: ratio, cosine")
    if X.numel() == 0:
        raise ValueError(f"X has shape {tuple(X.shape)}; allowed: (B, T, m), at least one draw")
    gram = (X @ X.mT).reshape(-1, X.shape[-2], X.shape[-2]).mean(0)
    size = gram.diagonal().sqrt()
    rho = gram / (size[:, None] * size)
    return (rho.sum() - rho.diagonal().sum()) / pairs


def share_at_depth(share: Tensor | float, strength: Tensor | float, depth: Tensor | int) -> Tensor:
    r"""Return the expected share after D blocks: odds :math:`(1+\nu^2)^D` times those at the start.

    The share is :math:`T\,\mathbb E\lVert\bar x\rVert^2/\mathbb E\lVert X\rVert^2`, for uniform attention and a linear
    feed-forward layer; the strength of the latter plays no part.

    Args:
        share: p at the start, from 0 to 1.
        strength: :math:`\nu`, of the attention's residual branch.
        depth: D >= 0.

    Returns:
        the share, of the common shape of the arguments, float64.

    Raises:
        ValueError: a share is outside [0, 1] or a depth below 0.
    """
    given = {"share": share, "strength": strength, "depth": depth}
    p, nu, D = (require_numbers(name, value) for name, value in given.items())
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError(f"share = {p.tolist()}; allowed: from 0 to 1")
    if not (D >= 0).all():
        raise ValueError(f"depth = {D.tolist()}; allowed: at least 0")
    growth = (1 + nu.square()).pow(D)
    return growth * p / (growth * p + 1 - p)


def depth_of_share(share: float, start: float, strength: float) -> float:
    r"""Return the depth at which the expected share is reached, a real number; the inverse of `share_at_depth`.

    Args:
        share: the share that is to be reached, above 0 and below 1.
        start: p at the start, above 0 and below 1.
        strength: :math:`\nu`, not 0.

    Raises:
        ValueError: an argument is out of range.
    """
    for name, value in (("share", share), ("start", start)):
        if not 0 < value < 1:
            raise ValueError(f"{name} = {value}; allowed: above 0 and below 1")
    if strength == 0:
        raise ValueError("strength = 0; allowed: a number that is not 0")
    odds = math.log(share / (1 - share)) - math.log(start / (1 - start))
    return odds / math.log1p(strength**2)


def correlation_of_share(share: Tensor | float, tokens: int) -> Tensor:
    r"""Return :math:`\rho=(Tp-1)/(T-1)`, the correlation of tokens of equal length with the share p.

    Args:
        share: p, from 0 to 1.
        tokens: T >= 2.

    Returns:
        numbers from -1/(T - 1) to 1, in float64, of the shape of the share.

    Raises:
        ValueError: there are fewer than two tokens, or the share is not real.
    """
    require_count("tokens", tokens, least=2)
    return (tokens * require_numbers("share", share) - 1) / (tokens - 1)


def centred_gram(X: Tensor) -> Tensor:
    r"""Return :math:`\Gamma=X^\top X-T\bar x\bar x^\top`, `(..., m, m)`: what is left of X without its mean token.

    Args:
        X: `(..., T, m)`, tokens.

    Raises:
        ValueError: X is not real floating point of this shape.
    """
    require_tensors(X=(X, "*batch T m"))
    centred = X - X.mean(-2, keepdim=True)
    return centred.mT @ centred
