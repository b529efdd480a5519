r"""The covariance that noise keeps around the minimum of a quadratic, for the chain and for its diffusion.

With the Hessian H and gradient noise of covariance Sigma, one step is
:math:`\theta_{k+1}=\theta_k-\eta\,(H\theta_k+\xi_k)`, :math:`\mathbb E\,\xi_k\xi_k^\top=\Sigma`.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from learning_dynamics._internal.arguments import (
    require_count,
    require_number,
    require_symmetric,
    require_tensors,
)


def chain_covariance(H: Tensor, Sigma: Tensor, step_size: float, C: Tensor | None = None) -> Tensor:
    r"""Return the stationary covariance of the noisy iteration, exact for every step size.

    It solves the discrete Lyapunov equation

    .. math:: V = (I-\eta C^{-1}H)\,V\,(I-\eta C^{-1}H)^\top + \eta^2\,C^{-1}\Sigma C^{-1} .

    With a curvature matrix C the step is :math:`\theta_{k+1}=\theta_k-\eta\,C^{-1}(H\theta_k+\xi_k)`; it is plain
    gradient descent in the coordinates :math:`C^{1/2}\theta`.

    Source: `scipy.linalg.solve_discrete_lyapunov`; Kushner and Yin (2003), Stochastic Approximation, sec. 10.

    Args:
        H: `(d, d)`, symmetric, positive definite.
        Sigma: `(d, d)`, symmetric: the covariance of the gradient noise.
        step_size: eta > 0 with eta times the largest eigenvalue of C^{-1} H below 2.
        C: `(d, d)`, symmetric, positive definite; the identity if left out.

    Returns:
        V `(d, d)`, in the dtype and on the device of H.

    Raises:
        ValueError: a matrix has the wrong shape or is not symmetric, H or C is not positive definite, or the step
            is so long that the iteration has no stationary law.
    """
    if C is not None:
        require_tensors(H=(H, "d d"), Sigma=(Sigma, "d d"), C=(C, "d d"), finite=True)
        for name, matrix in (("H", H), ("Sigma", Sigma), ("C", C)):
            require_symmetric(name, matrix)
        values, vectors = torch.linalg.eigh(C)
        if not values[0] > 0:
            raise ValueError(f"C has the eigenvalue {float(values[0]):.3g}; allowed: positive definite")
        whiten = (vectors / values.sqrt()) @ vectors.mT
        H_white, Sigma_white = (whiten @ (M + M.mT) @ whiten / 2 for M in (H, Sigma))
        V = chain_covariance((H_white + H_white.mT) / 2, (Sigma_white + Sigma_white.mT) / 2, step_size)
        return whiten @ V @ whiten
    curvature, noise = _checked(H, Sigma)
    largest = _require_stable(curvature, step_size)
    if step_size * largest >= 2:
        raise ValueError(
            f"step_size = {step_size}; allowed: below 2 / largest eigenvalue of H = {2 / largest:.4g}"
        )
    contraction = np.eye(len(curvature)) - step_size * curvature
    return _symmetric(scipy.linalg.solve_discrete_lyapunov(contraction, step_size**2 * noise), H)


def diffusion_covariance(H: Tensor, Sigma: Tensor, step_size: float) -> Tensor:
    r"""Return the stationary covariance of the diffusion that stands for the iteration.

    The process is :math:`d\theta=-H\theta\,dt+\sqrt\eta\,\Sigma^{1/2}dW`, where one step takes the time eta. Its
    covariance solves :math:`HV+VH=\eta\Sigma`; it agrees with `chain_covariance` to first order in eta.

    Source: `scipy.linalg.solve_continuous_lyapunov`; Gardiner (2009), Stochastic Methods, sec. 4.5.

    Args:
        H: `(d, d)`, symmetric, positive definite.
        Sigma: `(d, d)`, symmetric: the covariance of the gradient noise of one step.
        step_size: eta > 0.

    Returns:
        V `(d, d)`, in the dtype and on the device of H.

    Raises:
        ValueError: a matrix has the wrong shape or is not symmetric, or H is not positive definite.
    """
    curvature, noise = _checked(H, Sigma)
    _require_stable(curvature, step_size)
    return _symmetric(scipy.linalg.solve_continuous_lyapunov(curvature, step_size * noise), H)


def chain_covariance_path(H: Tensor, Sigma: Tensor, step_size: float, steps: int) -> Tensor:
    r"""Return the covariances after 0, 1, ..., `steps` steps of a chain that starts at the minimum.

    .. math:: V_0=0,\qquad V_{k+1}=(I-\eta H)\,V_k\,(I-\eta H)+\eta^2\,\Sigma

    Directions in which H is zero are allowed: there the covariance grows without end.

    Args:
        H: `(d, d)`, symmetric.
        Sigma: `(d, d)`, symmetric.
        step_size: eta > 0.
        steps: number of steps, >= 0.

    Returns:
        `(steps + 1, d, d)`.

    Raises:
        ValueError: a matrix has the wrong shape or is not symmetric, or a number is out of range.
    """
    _checked(H, Sigma)
    require_number("step_size", step_size, above=0)
    require_count("steps", steps, least=0)
    contraction = torch.eye(H.shape[-1], dtype=H.dtype, device=H.device) - step_size * H
    path = [torch.zeros_like(H)]
    for _ in range(steps):
        path.append(contraction @ path[-1] @ contraction + step_size**2 * Sigma)
    return torch.stack(path)


def _checked(H: Tensor, Sigma: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return both matrices as float64 arrays after checking shape and symmetry."""
    require_tensors(H=(H, "d d"), Sigma=(Sigma, "d d"), finite=True)
    for name, matrix in (("H", H), ("Sigma", Sigma)):
        require_symmetric(name, matrix)
    return H.detach().cpu().double().numpy(), Sigma.detach().cpu().double().numpy()


def _require_stable(curvature: np.ndarray, step_size: float) -> float:
    """Raise unless the step is positive and H positive definite; return its largest eigenvalue."""
    require_number("step_size", step_size, above=0)
    eigenvalues = np.linalg.eigvalsh(curvature)
    if not eigenvalues[0] > 0:
        raise ValueError(f"H has the eigenvalue {eigenvalues[0]:.3g}; allowed: positive definite")
    return float(eigenvalues[-1])


def _symmetric(V: np.ndarray, like: Tensor) -> Tensor:
    return torch.as_tensor((V + V.T) / 2).to(like)
