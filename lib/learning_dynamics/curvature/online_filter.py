r"""The extended Kalman filter for a parameter that stands still: online natural gradient without a step size.

Each observation is used once. The covariance P of what is believed about theta is what multiplies the gradient,

.. math:: \begin{aligned}
          P_{k+1}&=P_k-P_kJ^\top\bigl(I+F_{out}\,JP_kJ^\top\bigr)^{-1}F_{out}\,JP_k,\\
          \theta_{k+1}&=\theta_k-P_{k+1}\,J^\top\nabla_z\ell(z,y),\end{aligned}

with output z and Jacobian J at theta_k. In exact arithmetic :math:`P_k^{-1}=P_0^{-1}+\sum_{j<k}J_j^\top F_{out}J_j`:
the sum of the Fisher matrices seen so far, and the inverse of the prior variance as damping.

Source: Y. Ollivier (2018), Online natural gradient as a Kalman filter, Electronic Journal of Statistics 12, theorem 2;
for a linear model with squared error it is recursive least squares, that is Kalman (1960).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import require_numbers, require_tensors
from learning_dynamics.curvature.output_laws import OutputLaw


@dataclass(frozen=True, eq=False)
class OnlineFilter:
    """The filter for outputs with a given law; many runs and priors at once as batch axes.

    Args:
        law: the law of the targets given the output.
        prior_variance: variance of each weight before the first observation, > 0; a number or `(*runs)`.

    Raises:
        ValueError: a prior variance is not positive and finite.
    """

    law: OutputLaw
    prior_variance: float | Tensor

    def __post_init__(self) -> None:
        """Check the prior."""
        variance = require_numbers("prior_variance", self.prior_variance)
        if not ((variance > 0) & torch.isfinite(variance)).all():
            raise ValueError(f"prior_variance = {self.prior_variance}; allowed: > 0")

    def start(self, theta: Tensor) -> Tensor:
        """Return the covariance before the first observation, `(*runs, d, d)`; `theta (*runs, d)`.

        Raises:
            ValueError: theta is not real floating point of this shape.
        """
        require_tensors(theta=(theta, "*runs d"))
        eye = torch.eye(theta.shape[-1], dtype=theta.dtype, device=theta.device)
        variance = require_numbers("prior_variance", self.prior_variance, theta)
        return variance[..., None, None] * eye.expand(*theta.shape, -1)

    def step(
        self, theta: Tensor, covariance: Tensor, outputs: Tensor, jacobian: Tensor, targets: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Take in one observation for each run.

        Args:
            theta: `(*runs, d)`.
            covariance: `(*runs, d, d)`.
            outputs: `(*runs, d_y)`, the model's output at theta.
            jacobian: `(*runs, d_y, d)`, its derivative there.
            targets: `(*runs, ...)`, as the law takes them.

        Returns:
            `theta (*runs, d)` and `covariance (*runs, d, d)` after it.

        Raises:
            ValueError: the Jacobian does not fit the outputs and theta.
        """
        require_tensors(
            theta=(theta, "*runs d"),
            covariance=(covariance, "*runs d d"),
            outputs=(outputs, "*runs d_y"),
            jacobian=(jacobian, "*runs d_y d"),
        )
        if jacobian.shape != (*outputs.shape, theta.shape[-1]):
            raise ValueError(
                f"jacobian has shape {tuple(jacobian.shape)}; allowed: {(*outputs.shape, theta.shape[-1])}"
            )
        fisher = self.law.fisher(outputs)
        moved = covariance @ jacobian.mT  # P J'
        inner = fisher @ jacobian @ moved
        eye = torch.eye(outputs.shape[-1], dtype=theta.dtype, device=theta.device)
        covariance = covariance - moved @ torch.linalg.solve(eye + inner, fisher @ moved.mT)
        covariance = (covariance + covariance.mT) / 2
        slope = (jacobian.mT @ self.law.gradient(outputs, targets)[..., None])[..., 0]
        return theta - (covariance @ slope[..., None])[..., 0], covariance
