r"""Values that are defined by an equation, and their derivatives without unrolling the solver.

A reward chain has latent rewards u, logits Z and an internal discount in [0, 1). Its values are the solution of

.. math:: \beta = u + \hat\gamma S_Z \beta, \qquad S_Z = \text{softmax of the rows of } Z,

so that :math:`\beta = A^{-1}u` with :math:`A = I - \hat\gamma S_Z`. The implicit function theorem gives the derivatives
from the solution alone. Shapes: u `(*batch, d)`, Z `(*batch, d, d)`; seeds and grids are batch axes.

Source: Gehring, Kawaguchi, Huang and Kaelbling (2021), sections 2.2, 2.3 and 3, appendix A.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import (
    require_broadcast,
    require_count,
    require_numbers,
    require_tensors,
)
from learning_dynamics.parameterization.mdp.process import require_stochastic


class Preconditioner(NamedTuple):
    """The matrix that the reward chain puts before the gradient, and its pieces.

    Attributes:
        matrix: P, `(*batch, d, d)`.
        inverse: the inverse of A, `(*batch, d, d)`: row i holds the discounted visits from i.
        spread: `(*batch, d)`, the diagonal of D: what the logits add.
        transitions: the row softmax of the logits, `(*batch, d, d)`.
    """

    matrix: Tensor
    inverse: Tensor
    spread: Tensor
    transitions: Tensor


def reward_chain_value(u: Tensor, Z: Tensor, discount: float | Tensor) -> Tensor:
    r"""Return the values :math:`\beta = (I - \hat\gamma S_Z)^{-1} u` of a reward chain, differentiable in u and Z.

    The backward pass solves once with the transposed matrix: for the incoming gradient g,

    .. math:: A^\top w = g, \qquad \nabla_u = w, \qquad
        [\nabla_Z]_{kj} = \hat\gamma\, w_k\, [S_Z]_{kj} \bigl(\beta_j - [S_Z\beta]_k\bigr).

    It is itself differentiable. Rounding is amplified by at most (1 + discount) / (1 - discount), the condition number
    of A in the largest-entry norm.

    Source: Gehring et al. (2021), eq. (2), section 2.3, eqs. (33) and (55).

    Args:
        u: `(*batch, d)`, latent rewards.
        Z: `(*batch, d, d)`, logits; -inf forbids a transition, as long as each row keeps one. Batch axes broadcast.
        discount: internal discount, a number in [0, 1) or a tensor `(*batch)` of such; no gradient flows to it.

    Returns:
        `(*batch, d)` in the dtype and on the device of u.

    Raises:
        ValueError: shapes do not match, a row of the softmax is not a distribution (NaN, +inf or only -inf in the
            logits), the discount is outside [0, 1), or so near 1 that A is singular to working precision.
    """
    _require_chain(u, Z)
    gamma = _discount(discount, u)
    transitions(Z.detach())
    return _RewardChain.apply(*_broadcast(u, Z), gamma)


def transitions(Z: Tensor) -> Tensor:
    """Return the row softmax of the logits, `(*batch, d, d)`.

    Args:
        Z: `(*batch, d, d)`, logits.

    Raises:
        ValueError: Z is not square, or a row is not turned into a distribution (NaN, +inf, only -inf).
    """
    require_tensors(Z=(Z, "*batch d d"))
    S = Z.softmax(-1)
    if torch.isnan(S.detach()).any():
        row = tuple(torch.isnan(S.detach()).any(-1).nonzero()[0].tolist())
        raise ValueError(
            f"Z has row {row} without a distribution; allowed: finite, or -inf but not in a whole row"
        )
    return S


def unrolled_value(
    u: Tensor, Z: Tensor, discount: float | Tensor, sweeps: int, start: Tensor | None = None
) -> Tensor:
    r"""Return :math:`\beta_K` of :math:`\beta_{k+1} = u + \hat\gamma S_Z\beta_k`, to be differentiated sweep by sweep.

    In the largest-entry norm the value is wrong by at most :math:`\hat\gamma^K\lVert\beta_0-\beta\rVert`.

    Source: Gehring et al. (2021), section 2.3; the solver of value iteration networks.

    Args:
        u: `(*batch, d)`, latent rewards.
        Z: `(*batch, d, d)`, logits.
        discount: in [0, 1), a number or a tensor `(*batch)`.
        sweeps: K, >= 0.
        start: `(*batch, d)`, the value before the first sweep; zero if left out.

    Returns:
        `(*batch, d)`.

    Raises:
        ValueError: as in `reward_chain_value`, or `sweeps` is negative.
    """
    _require_chain(u, Z)
    require_count("sweeps", sweeps, least=0)
    if start is not None:
        require_tensors(u=(u, "*batch d"), start=(start, "*batch d"))
    gamma = _discount(discount, u)[..., None]
    S = transitions(Z)
    value = torch.zeros_like(u) if start is None else start
    for _ in range(sweeps):
        value = u + gamma * (S @ value[..., None])[..., 0]
    return value


def weight_space_preconditioner(Z: Tensor, value: Tensor, discount: float | Tensor) -> Preconditioner:
    r"""Return the matrix P by which gradient flow in (u, Z) multiplies the gradient in the weights.

    .. math:: P = A^{-1}\bigl(I + \hat\gamma^2 D\bigr)A^{-\top}, \qquad
        D_{kk} = \sum_j [S_Z]_{kj}^2 \bigl(\beta_j - [S_Z\beta]_k\bigr)^2 .

    It is :math:`JJ^\top` for the Jacobian J of the weights with respect to (u, Z), and its least eigenvalue is at least
    :math:`(1+\hat\gamma\sqrt d)^{-2}`.

    Source: Gehring et al. (2021), theorem 1; the constant follows from the spectral norm of a row-stochastic matrix.

    Args:
        Z: `(*batch, d, d)`, logits.
        value: `(*batch, d)`, the weights, `reward_chain_value(u, Z, discount)`.
        discount: in [0, 1), a number or a tensor `(*batch)`.

    Raises:
        ValueError: as in `reward_chain_value`.
    """
    _require_chain(value, Z)
    gamma = _discount(discount, value)
    S = transitions(Z)
    inverse = torch.linalg.inv(_system(S, gamma))
    mean = S @ value[..., None]
    spread = ((S * (value[..., None, :] - mean)) ** 2).sum(-1)
    weights = 1 + gamma[..., None] ** 2 * spread
    return Preconditioner((inverse * weights[..., None, :]) @ inverse.mT, inverse, spread, S)


def least_eigenvalue_bound(discount: float | Tensor, d: int) -> float | Tensor:
    r"""Return :math:`c = (1+\hat\gamma\sqrt d)^{-2}`, below every eigenvalue of the preconditioner in d dimensions.

    A row-stochastic S has spectral norm at most :math:`\sqrt d`, hence :math:`\lVert A\rVert\le1+\hat\gamma\sqrt d`.

    Args:
        discount: in [0, 1), a number or a tensor.
        d: number of states, >= 1.

    Raises:
        ValueError: a discount is not a real number in [0, 1).
    """
    gamma = require_numbers("discount", discount)
    if not bool(((gamma >= 0) & (gamma < 1)).all()):
        raise ValueError(f"discount = {gamma.tolist()}; allowed: in [0, 1)")
    return (1 + discount * d**0.5) ** -2


def stationary_distribution(S: Tensor) -> Tensor:
    r"""Return the law v with :math:`v^\top S = v^\top`, :math:`v^\top\mathbf 1 = 1`.

    Solves :math:`(I - S + \mathbf 1\mathbf 1^\top)^\top v = \mathbf 1`, which is regular exactly if the law is unique.

    Args:
        S: `(*batch, d, d)`, rows are distributions; a softmax always has one stationary law.

    Returns:
        `(*batch, d)`.

    Raises:
        ValueError: S is not square, a row is no distribution, or the stationary law is not unique to working
            precision.
    """
    require_tensors(S=(S, "*batch d d"))
    require_stochastic("S", S.detach())
    d = S.shape[-1]
    eye = torch.eye(d, dtype=S.dtype, device=S.device)
    law, info = torch.linalg.solve_ex((eye - S + 1).mT, torch.ones_like(S[..., :1]))
    law = law[..., 0]
    off = (law[..., None, :] @ S)[..., 0, :] - law
    unique = (info == 0) & (off.detach().abs().amax(-1) <= 1e3 * d * torch.finfo(S.dtype).eps)
    if not unique.all() or not (law.detach() >= -1e3 * d * torch.finfo(S.dtype).eps).all():
        raise ValueError("S has no unique stationary law; allowed: one closed class of states")
    return law


class _RewardChain(torch.autograd.Function):
    """Values of a reward chain with the implicit backward pass."""

    generate_vmap_rule = True

    @staticmethod
    def forward(u: Tensor, Z: Tensor, gamma: Tensor) -> Tensor:
        return torch.linalg.solve(_system(Z.softmax(-1), gamma), u[..., None])[..., 0]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1], inputs[2], output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, None]:
        Z, gamma, value = ctx.saved_tensors
        S = Z.softmax(-1)
        w = torch.linalg.solve(_system(S, gamma).mT, g[..., None])
        centred = value[..., None, :] - S @ value[..., None]
        return w[..., 0], gamma[..., None, None] * w * S * centred, None


def _system(S: Tensor, gamma: Tensor) -> Tensor:
    """Return A = I - gamma S."""
    return torch.eye(S.shape[-1], dtype=S.dtype, device=S.device) - gamma[..., None, None] * S


def _broadcast(u: Tensor, Z: Tensor) -> tuple[Tensor, Tensor]:
    """Return u and Z with common batch axes, so that the gradients have the shapes of the inputs."""
    batch = torch.broadcast_shapes(u.shape[:-1], Z.shape[:-2])
    return u.expand(*batch, u.shape[-1]), Z.expand(*batch, *Z.shape[-2:])


def _require_chain(u: Tensor, Z: Tensor) -> None:
    require_tensors(u=(u, "*batch d"), Z=(Z, "*batch d d"))


def _discount(discount: float | Tensor, like: Tensor) -> Tensor:
    gamma = require_numbers("discount", discount, like).detach()
    if gamma.ndim:
        require_broadcast("discount", gamma[..., None], like.shape, enlarge=True)
    if not bool(((gamma >= 0) & (gamma < 1)).all()):
        wrong = gamma[~((gamma >= 0) & (gamma < 1))].reshape(-1)[0]
        raise ValueError(f"discount = {float(wrong)}; allowed: in [0, 1)")
    # the condition number is at most 2 / (1 - discount)
    least = like.shape[-1] * torch.finfo(gamma.dtype).eps
    if bool((1 - gamma < least).any()):
        raise ValueError(
            f"discount=1-{float(1 - gamma.max()):.1e}: I - discount S is singular to working precision; "
            f"allowed: at most 1 - d eps = 1-{least:.1e}"
        )
    return gamma
