r"""The widening valley :math:`\frac12v^2\lVert u\rVert^2`, and where kicks drive descent along it."""

from __future__ import annotations

import math

import torch
from scipy.integrate import quad
from scipy.special import lambertw
from torch import Tensor

from learning_dynamics._internal.arguments import require_count, require_tensors


def loss(theta: Tensor) -> Tensor:
    r"""Return :math:`\frac12v^2\lVert u\rVert^2` (Orvieto 2023, eq. 156).

    Args:
        theta: `(*batch, p + 1)`, the pair (u, v) with v last, p >= 1.

    Returns:
        `(*batch)`.

    Raises:
        ValueError: theta has fewer than two coordinates, or is not real floating point.
    """
    u, v = _split(theta)
    return v[..., 0].square() * u.square().sum(-1) / 2


def gradient(theta: Tensor) -> Tensor:
    r"""Return the gradient :math:`(v^2u,\lVert u\rVert^2v)`.

    Args:
        theta: `(*batch, p + 1)`, the pair (u, v) with v last.

    Returns:
        `(*batch, p + 1)`.

    Raises:
        ValueError: theta has fewer than two coordinates, or is not real floating point.
    """
    u, v = _split(theta)
    return torch.cat([v.square() * u, u.square().sum(-1, keepdim=True) * v], -1)


def hessian(theta: Tensor) -> Tensor:
    r"""Return the Hessian, whose blocks are :math:`v^2I`, :math:`2vu` and :math:`\lVert u\rVert^2`.

    Args:
        theta: `(*batch, p + 1)`, the pair (u, v) with v last.

    Returns:
        `(*batch, p + 1, p + 1)`.

    Raises:
        ValueError: theta has fewer than two coordinates, or is not real floating point.
    """
    u, v = _split(theta)
    p = u.shape[-1]
    H = theta.new_zeros(*theta.shape, p + 1)
    H[..., :p, :p] = v[..., None].square() * torch.eye(p, dtype=theta.dtype, device=theta.device)
    H[..., :p, p] = H[..., p, :p] = 2 * v * u
    H[..., p, p] = u.square().sum(-1)
    return H


def exit_probability(p: int, start: float, low: float, high: float) -> float:
    r"""Return the probability that plain kicks leave through the upper side, in the limit of small kicks.

    The curvature is read as :math:`z=\eta\lVert u\rVert^2/2`, which is one where descent stops being stable. It
    drifts by :math:`\frac{\eta\sigma^2}2(p-\frac1{1-z})` a step and diffuses by :math:`2\eta\sigma^2z`; the scale
    density of that diffusion is :math:`z^{-(p-1)/2}(1-z)^{-1/2}`.

    Args:
        p: length of u, >= 1.
        start: z at the start.
        low: the lower side, 0 < low <= start.
        high: the upper side, start <= high <= 1, low < high.

    Returns:
        A number between 0 and 1.

    Raises:
        ValueError: an argument is not as described.
    """
    require_count("p", p)
    if not 0 < low <= start <= high <= 1 or not low < high:
        raise ValueError(f"(low, start, high) = {(low, start, high)}; allowed: 0 < low <= start <= high <= 1")

    def scale(a: float, b: float) -> float:  # in w = sqrt(1 - z), which takes the singularity at one away
        found = quad(lambda w: 2 * (1 - w * w) ** (-(p - 1) / 2), math.sqrt(1 - b), math.sqrt(1 - a))
        return float(found[0])

    return scale(low, start) / scale(low, high)


def differenced_flow(start: float, step_size: float, std: float, steps: Tensor) -> Tensor:
    r"""Return the squared length of u after so many steps with differenced kicks, in the limit of small kicks.

    :math:`y=\lVert u\rVert^2` follows :math:`\dot y=-4\eta\sigma^2y/(2-\eta y)` for every p, which says that
    :math:`ze^{-z}` with :math:`z=\eta y/2` decays by :math:`e^{-2\eta\sigma^2}` a step.

    Args:
        start: y at the start, > 0 and below 2 / step_size.
        step_size: eta > 0.
        std: sigma >= 0.
        steps: `(*)`, numbers of steps.

    Returns:
        `(*)`, the squared lengths.

    Raises:
        ValueError: an argument is not as described.
    """
    require_tensors(steps=(steps, "*batch"))
    if not step_size > 0 or not std >= 0:
        raise ValueError(f"(step_size, std) = {(step_size, std)}; allowed: > 0 and >= 0")
    z = step_size * start / 2
    if not 0 < z < 1:
        raise ValueError(f"start = {start}; allowed: between 0 and 2 / step_size = {2 / step_size}")
    decayed = z * math.exp(-z) * torch.exp(-2 * step_size * std**2 * steps)
    return 2 / step_size * torch.as_tensor(-lambertw(-decayed.detach().cpu().numpy()).real).to(steps)


def _split(theta: Tensor) -> tuple[Tensor, Tensor]:
    if not theta.is_floating_point():
        raise ValueError(f"theta has dtype {theta.dtype}; allowed: a real floating point dtype")
    if theta.ndim < 1 or theta.shape[-1] < 2:
        raise ValueError(f"theta has shape {tuple(theta.shape)}; allowed: (*batch, p + 1) with p >= 1")
    return theta[..., :-1], theta[..., -1:]
