r"""What shaken weights do to a two-layer linear network.

The output is :math:`W_2W_1x` and the loss :math:`\frac1{2n}\lVert Y-XW_1^\top W_2^\top\rVert^2`. `second_moment` is
:math:`\hat\Sigma=X^\top X/n`; the noise is normal with standard deviation :math:`\sigma` on all weights, or
:math:`\sqrt2\sigma` on one of the two layers, drawn with equal probability. All formulas are exact.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from learning_dynamics._internal.arguments import (
    require_choice,
    require_number,
    require_real,
    require_tensors,
)

LAYERS = ("all", "one")


def penalty(W1: Tensor, W2: Tensor, second_moment: Tensor, sigma: float) -> Tensor:
    r"""Return what shaking adds to the mean loss, apart from a constant (Orvieto 2023, eq. 172).

    .. math:: \tfrac{\sigma^2}2\bigl(d_y\,\mathrm{tr}\,W_1\hat\Sigma W_1^\top
        +\lVert W_2\rVert_F^2\,\mathrm{tr}\,\hat\Sigma\bigr)

    It is the same for both ways of shaking.

    Args:
        W1: `(*batch, m, d_x)`.
        W2: `(*batch, d_y, m)`.
        second_moment: `(d_x, d_x)`, symmetric.
        sigma: >= 0.

    Returns:
        `(*batch)`.

    Raises:
        ValueError: an argument is not as described.
    """
    sizes = require_tensors(
        W1=(W1, "*batch m d_x"), W2=(W2, "*batch d_y m"), second_moment=(second_moment, "d_x d_x")
    )
    require_number("sigma", sigma, least=0)
    first = sizes["d_y"] * ((W1 @ second_moment) * W1).sum((-2, -1))
    return sigma**2 / 2 * (first + W2.square().sum((-2, -1)) * second_moment.trace())


def constant(width: int | Tensor, outputs: int, second_moment: Tensor, sigma: float) -> Tensor:
    r"""Return the constant that shaking both layers at a time adds to the mean loss.

    It is :math:`\frac{\sigma^4}2md_y\,\mathrm{tr}\,\hat\Sigma`. Shaking one layer at a time adds none (Orvieto 2023,
    eq. 175 and 178).

    Args:
        width: m, a number or a tensor of them.
        outputs: d_y.
        second_moment: `(d_x, d_x)`.
        sigma: >= 0.

    Returns:
        a scalar, or one number for each width.

    Raises:
        ValueError: an argument is not as described.
    """
    require_real("width", width)
    require_tensors(second_moment=(second_moment, "d_x d_x"))
    require_number("sigma", sigma, least=0)
    return sigma**4 / 2 * width * outputs * second_moment.trace()


def gradient_noise(
    W1: Tensor, a: Tensor, second_moment: Tensor, sigma: float, *, layers: Literal["all", "one"] = "all"
) -> Tensor:
    r"""Return the trace of the covariance of the shaken gradient, at weights that fit all data, for one output.

    With :math:`S=\hat\Sigma`, :math:`B=SW_1^\top`,
    :math:`c_1=\lVert B\rVert^2+\lVert a\rVert^2\,\mathrm{tr}\,S^2` and the Hessian H of the loss there, the
    leading terms in the width m are
    :math:`\sigma^2\lVert H\rVert_F^2+3\sigma^4mc_1+2\sigma^6m^2\,\mathrm{tr}\,S^2` for all weights at a time, and
    :math:`\sigma^2\lVert H\rVert_F^2+2\sigma^4mc_1` for one layer at a time.

    Args:
        W1: `(*batch, m, d_x)`.
        a: `(*batch, m)`, the second layer.
        second_moment: `(d_x, d_x)`, symmetric.
        sigma: >= 0.
        layers: "all" or "one".

    Returns:
        `(*batch)`.

    Raises:
        ValueError: an argument is not as described.
    """
    sizes = require_tensors(
        W1=(W1, "*batch m d_x"), a=(a, "*batch m"), second_moment=(second_moment, "d_x d_x")
    )
    m = sizes["m"]
    require_number("sigma", sigma, least=0)
    require_choice("layers", layers, LAYERS)
    S = second_moment
    one, two = S.trace(), (S @ S).trace()
    length = a.square().sum(-1)
    gram = W1 @ S @ W1.mT
    bent = (W1 @ S).square().sum((-2, -1))  # ||B||^2
    hessian = 2 * length * bent + length.square() * two + gram.square().sum((-2, -1))
    mean = bent + one**2 * length  # squared mean gradient over sigma^4
    if layers == "one":
        fourth = 2 * (length * (one**2 + (m + 1) * two) + (m + 2) * bent)
        return sigma**2 * hessian + sigma**4 * (fourth - mean)
    traced = gram.diagonal(dim1=-2, dim2=-1).sum(-1)
    fourth = (3 * m + 4) * bent + 2 * one * traced + length * ((2 * m + 4) * two + one**2 + (m + 1) * two)
    sixth = m * one**2 + (2 * m**2 + 3 * m) * two
    return sigma**2 * hessian + sigma**4 * (fourth - mean) + sigma**6 * sixth
