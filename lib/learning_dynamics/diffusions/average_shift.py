"""Where the mean of noisy iterates comes to rest on a loss that is not quadratic: beside the minimizer."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import grad, hessian

from learning_dynamics._internal.arguments import require_tensors


def average_shift(loss: Callable[[Tensor], Tensor], minimizer: Tensor, covariance: Tensor) -> Tensor:
    r"""Return how far the mean of the iterates stands from the minimizer, to leading order in the step size.

    Iterates that fluctuate with covariance V see the gradient :math:`H\delta+\tfrac12\nabla^3\mathcal L[V]` on average;
    their mean stands where it vanishes,

    .. math:: \delta=-\tfrac12\,H^{-1}\nabla^3\mathcal L(\theta^\star)[V],\qquad
              \bigl[\nabla^3\mathcal L[V]\bigr]_i=\sum_{jl}\partial_i\partial_j\partial_l\mathcal L\,V_{jl} .

    With steps of size eta, V is of the order of eta and the next term of the order of its square. The mean of many
    iterates has the excess loss :math:`\tfrac12\delta^\top H\delta`, which no further step lowers.

    Source: Dieuleveut, Durmus and Bach (2020), Bridging the gap between constant step size stochastic gradient
    descent and Markov chains, section 3 (expansion of the stationary mean).

    Args:
        loss: `loss(theta) -> ()`, three times differentiable, `theta (d)`.
        minimizer: `(d)`, theta*, where the Hessian is positive definite.
        covariance: `(d, d)`, symmetric: V, for instance from `chain_covariance`.

    Returns:
        delta, `(d)`.

    Raises:
        ValueError: a shape is wrong, or the Hessian is not positive definite.
    """
    require_tensors(minimizer=(minimizer, "d"), covariance=(covariance, "d d"), finite=True)
    H = hessian(loss)(minimizer)
    least = float(torch.linalg.eigvalsh(H)[0])
    if not least > 0:
        raise ValueError(f"the Hessian has the eigenvalue {least:.3g}; allowed: positive definite")
    pull = grad(lambda theta: (hessian(loss)(theta) * covariance).sum() / 2)(minimizer)
    return -torch.linalg.solve(H, pull)
