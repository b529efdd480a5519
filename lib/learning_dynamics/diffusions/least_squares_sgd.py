r"""SGD on least squares, one sample a step: the exact law of its first two moments, and that of its diffusion.

With rows x_i of X, residuals r_i at the minimizer and :math:`\delta=\theta-\theta^\star`, the gradient of sample i is
:math:`x_i(x_i^\top\delta-r_i)`. It is linear in delta, so that mean and second moment of delta obey closed linear
equations, for the chain and for the diffusion; nothing is sampled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg
import torch
from scipy.optimize import brentq
from torch import Tensor

from learning_dynamics._internal.arguments import require_count, require_number, require_tensors


class SgdMoments(NamedTuple):
    """Moments along a run that starts at theta = 0, after 0, 1, ..., K steps.

    Attributes:
        mean: `(K + 1, d)`, E[theta_k - theta*].
        second: `(K + 1, d, d)`, E[(theta_k - theta*)(theta_k - theta*)'].
        gap: `(K + 1,)`, E[L(theta_k)] - L*, which is tr(H second) / 2.
    """

    mean: Tensor
    second: Tensor
    gap: Tensor


class Thresholds(NamedTuple):
    """Step sizes from which something grows without bound.

    Attributes:
        sgd: the mean loss of SGD with batches of one.
        diffusion: the mean loss of its diffusion.
        descent: gradient descent with the whole set, 2 / largest eigenvalue of H.
    """

    sgd: float
    diffusion: float
    descent: float


class _Pieces(NamedTuple):
    H: Tensor
    minimizer: Tensor
    third: Tensor  # mean of r x x x
    fourth: Tensor  # mean of x x x x
    noise: Tensor  # mean of r^2 x x


def sgd_moments(X: Tensor, y: Tensor, step_size: float, steps: int) -> SgdMoments:
    r"""Return the exact moments of SGD on least squares with one sample, drawn uniformly, a step.

    .. math:: \theta_{k+1}=\theta_k-\eta\,x_i(x_i^\top\theta_k-y_i)

    .. math:: M_{k+1}=M_k-\eta(HM_k+M_kH)+\eta^2\,\mathbb E_i[g_ig_i^\top]

    Args:
        X: `(n, d)`, of full column rank.
        y: `(n)`.
        step_size: eta > 0.
        steps: K >= 0.

    Returns:
        The moments after 0, ..., K steps; they grow without bound beyond `mean_square_thresholds(X).sgd`.

    Raises:
        ValueError: shapes do not fit, X has not full column rank, or a number is out of range.
    """
    pieces = _pieces(X, y)
    require_number("step_size", step_size, above=0)
    require_count("steps", steps, least=0)
    H, mean = pieces.H, -pieces.minimizer
    M = torch.outer(mean, mean)
    means, seconds = [mean], [M]
    for _ in range(steps):
        M = M - step_size * (H @ M + M @ H) + step_size**2 * _second_of_gradient(pieces, mean, M)
        mean = mean - step_size * H @ mean
        means.append(mean)
        seconds.append(M)
    return _moments(H, means, seconds)


def sgd_diffusion_moments(
    X: Tensor, y: Tensor, step_size: float, steps: int, *, noise: bool = True, corrected: bool = False
) -> SgdMoments:
    r"""Return the exact moments, at the times eta k, of the diffusion that stands for SGD.

    .. math:: d\theta=-\nabla\mathcal L\,dt+\sqrt\eta\,\Sigma(\theta)^{1/2}dW,\qquad
              \Sigma=\mathbb E_i[g_ig_i^\top]-\nabla\mathcal L\,\nabla\mathcal L^\top

    Without noise it is the gradient flow. With `corrected` the drift is
    :math:`-\nabla(\mathcal L+\tfrac\eta4\lVert\nabla\mathcal L\rVert^2)`, which makes the weak error of order eta^2.

    Source: Li, Tai and E (2017), Stochastic modified equations, Theorem 1.

    Args:
        X: `(n, d)`, of full column rank.
        y: `(n)`.
        step_size: eta > 0.
        steps: K >= 0.
        noise: keep the noise.
        corrected: correct the drift.

    Returns:
        The moments at the times 0, eta, ..., K eta.

    Raises:
        ValueError: as in `sgd_moments`.
    """
    pieces = _pieces(X, y)
    require_number("step_size", step_size, above=0)
    require_count("steps", steps, least=0)
    H, d = pieces.H, len(pieces.H)
    A = H + step_size / 2 * H @ H if corrected else H

    def velocity(flat: Tensor) -> Tensor:  # of (mean, second moment, 1)
        mean, M = flat[:d], flat[d:-1].reshape(d, d)
        Sigma = _second_of_gradient(pieces, mean, M, flat[-1]) - H @ M @ H if noise else torch.zeros_like(H)
        return torch.cat([-A @ mean, (-(A @ M + M @ A) + step_size * Sigma).flatten(), flat.new_zeros(1)])

    size = d + d * d + 1
    generator = torch.func.vmap(velocity)(torch.eye(size, dtype=H.dtype, device=H.device)).mT
    one_step = torch.as_tensor(scipy.linalg.expm(step_size * generator.detach().cpu().double().numpy())).to(H)
    mean = -pieces.minimizer
    state = torch.cat([mean, torch.outer(mean, mean).flatten(), mean.new_ones(1)])
    means, seconds = [], []
    for _ in range(steps + 1):
        means.append(state[:d])
        seconds.append(state[d:-1].reshape(d, d))
        state = one_step @ state
    return _moments(H, means, seconds)


def mean_square_thresholds(X: Tensor) -> Thresholds:
    r"""Return the step sizes up to which the mean loss stays bounded, for SGD, its diffusion and gradient descent.

    A step of SGD multiplies the second moment by
    :math:`1-\eta(H\otimes I+I\otimes H)+\eta^2\,\mathbb E[xx^\top\otimes xx^\top]`; the threshold is where
    its spectral radius is 1. For the diffusion it is where the largest real part of
    :math:`-(H\otimes I+I\otimes H)+\eta(\mathbb E[xx^\top\otimes xx^\top]-H\otimes H)` is 0.

    Args:
        X: `(n, d)`, of full column rank, d <= 30.

    Returns:
        The three step sizes; the one of the diffusion is infinite if its noise never wins (a single direction x).

    Raises:
        ValueError: X is no matrix, has not full column rank, or too many columns.
    """
    require_tensors(X=(X, "n d"), finite=True)
    pieces = _pieces(X, X.new_zeros(len(X)))
    d = len(pieces.H)
    if d > 30:
        raise ValueError(f"d = {d}; allowed: <= 30, since the operator has d^4 entries")
    H = pieces.H.detach().cpu().double().numpy()
    eye = np.eye(d)
    pull = np.kron(H, eye) + np.kron(eye, H)
    kick = pieces.fourth.detach().cpu().double().numpy().reshape(d * d, d * d)

    def chain(eta: float) -> float:
        return float(np.abs(np.linalg.eigvals(np.eye(d * d) - eta * pull + eta**2 * kick)).max() - 1)

    def diffusion(eta: float) -> float:
        return float(np.linalg.eigvals(-pull + eta * (kick - np.kron(H, H))).real.max())

    top = float(np.linalg.eigvalsh(H)[-1])
    descent = 2 / top
    far = descent
    while diffusion(far) < 0 and far < 1e6 * descent:
        far *= 2
    noisy = brentq(diffusion, 1e-9 * descent, far, xtol=1e-14) if diffusion(far) > 0 else np.inf
    return Thresholds(
        float(brentq(chain, 1e-3 * descent, 1.0001 * descent, xtol=1e-14)), float(noisy), descent
    )


def _pieces(X: Tensor, y: Tensor) -> _Pieces:
    require_tensors(X=(X, "n d"), y=(y, "n"), finite=True)
    n = len(X)
    H = X.mT @ X / n
    if torch.linalg.matrix_rank(H) < len(H):
        raise ValueError(
            f"X has shape {tuple(X.shape)} and no full column rank; allowed: independent columns"
        )
    minimizer = torch.linalg.solve(H, X.mT @ y / n)
    r = y - X @ minimizer
    third = torch.einsum("n,ni,nj,nk->ijk", r, X, X, X) / n
    pairs = (X[:, :, None] * X[:, None]).flatten(1)
    fourth = (pairs.mT @ pairs / n).reshape(*(len(H),) * 4)
    return _Pieces(H, minimizer, third, fourth, X.mT @ (r[:, None] ** 2 * X) / n)


def _second_of_gradient(pieces: _Pieces, mean: Tensor, M: Tensor, one: Tensor | float = 1.0) -> Tensor:
    """Return E[g g'] for a delta with this mean and second moment; linear in (mean, M, one)."""
    return (
        torch.einsum("ijkl,kl->ij", pieces.fourth, M)
        - 2 * torch.einsum("ijk,k->ij", pieces.third, mean)
        + one * pieces.noise
    )


def _moments(H: Tensor, means: list[Tensor], seconds: list[Tensor]) -> SgdMoments:
    second = torch.stack(seconds)
    return SgdMoments(torch.stack(means), second, (H * second).sum((-1, -2)) / 2)
