"""How far a quadratic model is trusted: damped steps, trust regions, and the rule of Levenberg and Marquardt.

The model of the loss around the present parameters is M(step) = g^T step + step^T C step / 2, with the gradient g and a
symmetric matrix C, without the loss itself. Every function takes one problem or a batch of them.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import (
    require_broadcast,
    require_finite,
    require_numbers,
    require_symmetric,
    require_tensors,
)


class TrustRegionStep(NamedTuple):
    """The minimizer of a quadratic model in a ball.

    Attributes:
        step: `(*batch, d)`.
        damping: the lambda >= 0 with (C + lambda I) step = -g, `(*batch)`; 0 where the ball does not matter.
        hard_case: whether g has no part along the lowest, negative eigenvalue of C, so that no damped step reaches
            the sphere and a piece of the eigenvector is added, `(*batch)`.
    """

    step: Tensor
    damping: Tensor
    hard_case: Tensor


def model_change(C: Tensor, gradient: Tensor, step: Tensor) -> Tensor:
    r"""Return what the undamped model promises, :math:`M(\delta) = g^\top \delta + \frac12 \delta^\top C \delta`.

    Args:
        C: `(*batch, d, d)`, symmetric.
        gradient: `(*batch, d)`.
        step: `(*batch, d)`.

    Returns:
        `(*batch)`, negative where the model promises a lower loss.

    Raises:
        ValueError: shapes do not fit.
    """
    _require_problem(C, gradient)
    require_tensors(gradient=(gradient, "*batch d"), step=(step, "*batch d"))
    return (gradient * step).sum(-1) + 0.5 * (step * (C @ step[..., None])[..., 0]).sum(-1)


def damped_step(C: Tensor, gradient: Tensor, damping: Tensor | float) -> Tensor:
    r"""Return the Tikhonov-damped step :math:`\delta(\lambda) = -(C + \lambda I)^{-1} g`.

    It minimizes :math:`M(\delta) + \frac\lambda2 \|\delta\|^2` (Levenberg 1944; Martens 2020, section 10).

    Args:
        C: `(*batch, d, d)`, symmetric.
        gradient: `(*batch, d)`.
        damping: lambda, a number or `(*batch)`.

    Returns:
        `(*batch, d)`.

    Raises:
        ValueError: shapes do not fit, a number is not finite, or C + damping I is not positive definite.
    """
    _require_problem(C, gradient)
    weight = require_numbers("damping", damping, C)
    require_finite("damping", weight)
    if weight.ndim:
        require_broadcast("damping", weight[..., None], gradient.shape, enlarge=True)
    eye = torch.eye(C.shape[-1], dtype=C.dtype, device=C.device)
    factor, failed = torch.linalg.cholesky_ex(C + weight[..., None, None] * eye)
    if failed.any():
        raise ValueError(
            f"damping = {float(weight.min()):.3g} at least; allowed: C + damping I positive definite"
        )
    return -torch.cholesky_solve(gradient[..., None], factor)[..., 0]


def trust_region_step(C: Tensor, gradient: Tensor, radius: Tensor | float) -> TrustRegionStep:
    r"""Return the minimizer of the model M in the ball :math:`\|\delta\| \le \Delta`.

    A step is the minimizer if and only if there is :math:`\lambda \ge 0` with :math:`(C + \lambda I)\delta = -g`,
    :math:`C + \lambda I \succeq 0` and :math:`\lambda (\Delta - \|\delta\|) = 0` (Gay 1981; Moré and Sorensen 1983).
    lambda solves :math:`1/\Delta = 1/\|\delta(\lambda)\|` by Newton's method inside a bracket, in the eigenbasis of C.

    Args:
        C: `(*batch, d, d)`, symmetric, of any sign.
        gradient: `(*batch, d)`.
        radius: delta > 0, a number or `(*batch)`.

    Returns:
        The step with its damping. Where C is singular and positive semidefinite and the step lies inside the ball, it
        is the shortest minimizer.

    Raises:
        ValueError: shapes do not fit, a number is not finite, or a radius is not positive.
    """
    _require_problem(C, gradient)
    values, vectors = torch.linalg.eigh(C)
    parts = (vectors.mT @ gradient[..., None])[..., 0]
    values, parts = torch.broadcast_tensors(values, parts)
    delta = require_numbers("radius", radius, C)
    require_broadcast("radius", delta, parts.shape[:-1])
    delta = delta.expand(parts.shape[:-1])
    if not (torch.isfinite(delta) & (delta > 0)).all():
        raise ValueError(f"radius = {float(delta.min()):.3g} at least; allowed: finite, > 0")

    tiny = 10 * parts.shape[-1] * torch.finfo(C.dtype).eps
    scale = values.abs().amax(-1, keepdim=True)
    lowest = values[..., :1]
    bottom = values - lowest <= tiny * scale  # the eigenspace of the lowest eigenvalue
    size = parts.norm(dim=-1, keepdim=True)
    flat = ((parts * bottom).norm(dim=-1, keepdim=True) <= tiny * size)[..., 0]  # g does not see it

    floor = (-lowest[..., 0]).clamp(min=0)  # the least damping that can be allowed
    gap = values + floor[..., None]
    open_parts = torch.where(bottom & flat[..., None], 0.0, parts)
    singular = gap <= tiny * scale
    at_floor = torch.where(singular, torch.where(open_parts == 0, 0.0, torch.inf), open_parts.abs() / gap)
    reached = at_floor.norm(dim=-1)  # length at the least damping
    inside = reached <= delta
    hard = inside & flat & (lowest[..., 0] < -tiny * scale[..., 0])

    low, high = floor.clone(), floor + size[..., 0] / delta
    damping = (low + high) / 2
    for _ in range(200):
        shifted = values + damping[..., None]
        step = open_parts / shifted
        length = step.norm(dim=-1)
        low = torch.where(length > delta, damping, low)
        high = torch.where(length > delta, high, damping)
        slope = (step.square() / shifted).sum(-1) / length.square()
        newton = damping + (length / delta - 1) / slope
        within = (newton > low) & (newton < high)
        moved = torch.where(within, newton, (low + high) / 2)
        if bool(((moved - damping).abs() <= 1e-15 * damping)[~inside].all()):
            break
        damping = moved
    damping = torch.where(inside, floor, damping)
    shifted = values + damping[..., None]
    step = torch.where(
        inside[..., None] & singular, 0.0, -open_parts / torch.where(shifted == 0, 1.0, shifted)
    )
    missing = torch.where(hard, (delta.square() - step.square().sum(-1)).clamp(min=0).sqrt(), 0.0)
    step = torch.cat([step[..., :1] + missing[..., None], step[..., 1:]], -1)
    return TrustRegionStep((vectors @ step[..., None])[..., 0], damping, hard)


def gain_ratio(before: Tensor, after: Tensor, promised: Tensor) -> Tensor:
    r"""Return delivered over promised, :math:`\rho = (\mathcal L(\theta + \delta) - \mathcal L(\theta)) / M(\delta)`.

    M is the undamped model: promised by `model_change`. A loss that is not finite after the step counts as infinite and
    gives minus infinity.

    Args:
        before: the loss, `(*batch)`.
        after: the loss after the step, `(*batch)`.
        promised: what the model says of their difference, negative, `(*batch)`.

    Returns:
        `(*batch)`; 1 where the model is exact.

    Raises:
        ValueError: a promise is not negative, or the shapes do not broadcast.
    """
    require_tensors(before=(before, "*batch"), after=(after, "*batch"), promised=(promised, "*batch"))
    if not (promised < 0).all():
        raise ValueError(f"promised = {float(promised.max()):.3g} at most; allowed: < 0")
    after = torch.where(torch.isfinite(after), after, torch.inf)
    return (after - before) / promised


def next_damping(
    damping: Tensor, rho: Tensor, factor: float = 3.0, low: float = 0.25, high: float = 0.75
) -> Tensor:
    r"""Return the damping of the next step: divided by the factor where the model was good, multiplied where not.

    Source: the rule of Levenberg and Marquardt with the thresholds 1/4 and 3/4 of Martens (2010), whose factor is 3/2.

    Args:
        damping: lambda >= 0, `(*batch)`.
        rho: the gain ratio of this step, `(*batch)`.
        factor: > 1.
        low: below this ratio lambda is raised.
        high: above this ratio lambda is lowered.

    Returns:
        `(*batch)`; as it was where the ratio is NaN.

    Raises:
        ValueError: the factor is not above 1, low exceeds high, or the shapes do not broadcast.
    """
    if not 1 < factor < float("inf"):
        raise ValueError(f"factor = {factor!r}; allowed: finite, > 1")
    if not low <= high:
        raise ValueError(f"low = {low!r}, high = {high!r}; allowed: low <= high")
    require_tensors(damping=(damping, "*batch"), rho=(rho, "*batch"))
    return torch.where(rho > high, damping / factor, torch.where(rho < low, damping * factor, damping))


def _require_problem(C: Tensor, gradient: Tensor) -> None:
    require_tensors(C=(C, "*batch d d"), gradient=(gradient, "*batch d"), finite=True)
    require_symmetric("C", C, 1e4)  # products of matrices as they are computed
