r"""Exact mean and covariance of linear processes whose coefficients change with time.

A chain :math:`u_{k+1}=A_ku_k+B_k\xi_k` and a diffusion :math:`du=A(t)\,u\,dt+B(t)\,dW` with standard noise have moments
that obey closed equations. Whoever asks for a mean loss on a quadratic needs no random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from torch import Tensor

from learning_dynamics._internal.arguments import (
    require_count,
    require_numbers,
    require_tensors,
    step_numbers,
)


class Moments(NamedTuple):
    """Mean and covariance at the times asked for.

    Attributes:
        mean: `(R, *batch, d)`.
        covariance: `(R, *batch, d, d)`.
    """

    mean: Tensor
    covariance: Tensor

    @property
    def second(self) -> Tensor:
        """The second moments E[u u'], `(R, *batch, d, d)`."""
        return self.covariance + self.mean[..., :, None] * self.mean[..., None, :]


def chain_moments(
    matrix: Callable[[int], Tensor],
    noise: Callable[[int], Tensor],
    mean0: Tensor,
    covariance0: Tensor,
    steps: int,
    record: Iterable[int] | None = None,
) -> Moments:
    r"""Return the exact moments of :math:`u_{k+1}=A_ku_k+B_k\xi_k` with white noise of covariance I.

    .. math:: m_{k+1}=A_km_k, \qquad V_{k+1}=A_kV_kA_k^\top+B_kB_k^\top

    Source: the definitions; `scipy.linalg.solve_discrete_lyapunov` gives the limit where A and B are constant.

    Args:
        matrix: k -> A_k, `(*batch, d, d)`.
        noise: k -> B_k, `(*batch, d, r)`.
        mean0: `(*batch, d)`, the mean at the start.
        covariance0: `(*batch, d, d)`, the covariance at the start.
        steps: number of steps, >= 0.
        record: increasing step numbers between 0 and `steps`; the last one alone if left out.

    Returns:
        The moments after the recorded numbers of steps.

    Raises:
        ValueError: `steps` or `record` is out of range, or the shapes of `mean0` and `covariance0` do not match.
    """
    require_count("steps", steps, least=0)
    wanted = (steps,) if record is None else step_numbers(record, steps)
    mean, covariance = _checked(mean0, covariance0)
    marked, means, covariances = set(wanted), [], []
    for k in range(wanted[-1] + 1):
        if k in marked:
            means.append(mean)
            covariances.append(covariance)
        if k < wanted[-1]:
            A, B = matrix(k), noise(k)
            mean = (A @ mean[..., None])[..., 0]
            covariance = A @ covariance @ A.mT + B @ B.mT
    return Moments(torch.stack(means), torch.stack(covariances))


def diffusion_moments(
    drift: Callable[[float], Tensor],
    noise: Callable[[float], Tensor],
    mean0: Tensor,
    covariance0: Tensor,
    times: Sequence[float] | Tensor,
    *,
    rtol: float = 1e-10,
    atol: float = 1e-14,
) -> Moments:
    r"""Return the moments of :math:`du=A(t)\,u\,dt+B(t)\,dW`, by integrating their equations.

    .. math:: \dot m=Am, \qquad \dot V=AV+VA^\top+BB^\top

    Source: Gardiner (2009), Stochastic Methods, sec. 4.5.6; integrated by `scipy.integrate.solve_ivp` with LSODA, since
    coefficients such as p/t are stiff near zero.

    Args:
        drift: t -> A(t), `(d, d)`.
        noise: t -> B(t), `(d, r)`.
        mean0: `(d)`, the mean at the first time.
        covariance0: `(d, d)`, the covariance at the first time.
        times: `(R)`, increasing; the process starts at the first one.
        rtol: relative tolerance of the solver.
        atol: absolute tolerance of the solver.

    Returns:
        The moments at `times`, in the dtype of `mean0`.

    Raises:
        ValueError: the times do not increase, the shapes do not match, or the solver gave up.
    """
    clock = require_numbers("times", times).detach().cpu().numpy()
    if clock.ndim != 1 or len(clock) < 1 or not (np.diff(clock) > 0).all() or not np.isfinite(clock).all():
        raise ValueError(f"times = {clock.tolist()}; allowed: finite, increasing, at least one")
    require_tensors(mean0=(mean0, "d"), covariance0=(covariance0, "d d"), finite=True)
    mean, covariance = mean0, covariance0
    d = len(mean)
    if len(clock) == 1:
        return Moments(mean[None], covariance[None])

    def velocity(t: float, flat: NDArray[np.float64]) -> NDArray[np.float64]:
        A, B = (np.asarray(found(t).detach().cpu().double()) for found in (drift, noise))
        m, V = flat[:d], flat[d:].reshape(d, d)
        return np.concatenate([A @ m, (A @ V + V @ A.T + B @ B.T).ravel()])

    start = torch.cat([mean, covariance.reshape(-1)]).detach().cpu().double().numpy()
    found = solve_ivp(
        velocity, (clock[0], clock[-1]), start, t_eval=clock, rtol=rtol, atol=atol, method="LSODA"
    )
    if not found.success:
        raise ValueError(f"times = up to {clock[-1]:g}; allowed: where the solver arrives ({found.message})")
    path = torch.as_tensor(found.y.T.copy()).to(mean)
    return Moments(path[:, :d], path[:, d:].reshape(-1, d, d))


def _checked(mean0: Tensor, covariance0: Tensor) -> tuple[Tensor, Tensor]:
    require_tensors(mean0=(mean0, "*batch d"), covariance0=(covariance0, "*batch d d"))
    return mean0, covariance0
