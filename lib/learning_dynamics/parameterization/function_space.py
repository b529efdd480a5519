r"""Training a model that is linear in its trained weights, in the space of its outputs on the data.

With a constant kernel :math:`\Theta = JJ^\top` a step of full-batch gradient descent with or without momentum moves
the n outputs by :math:`-\eta\,\Theta\,\nabla_f\mathcal L`, exactly, whatever the number of weights. For the squared
loss the whole run is a formula in the singular values of J. Lemma 6 of Kawaguchi, Zhang and Deng (2022) makes the
second phase of their method such a model; the use made of it here is ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import (
    require_count,
    require_number,
    require_numbers,
    require_symmetric,
    require_tensors,
)


class Descent(NamedTuple):
    r"""What `descend` found.

    Attributes:
        outputs: `(*batch, n)` after the last step.
        dual: `(*batch, n)`; the weights are :math:`W_0 - J^\top\mathrm{dual}`.
    """

    outputs: Tensor
    dual: Tensor


def descend(
    kernel: Tensor,
    outputs: Tensor,
    loss_gradient: Callable[[Tensor], Tensor],
    *,
    step_size: float,
    steps: int,
    momentum: float = 0.0,
    damping: float | None = None,
    watch: Callable[[int, Tensor], None] | None = None,
) -> Descent:
    r"""Run gradient descent with momentum, or damped Newton steps, on outputs that are linear in the weights.

    Without damping the step is :math:`v\leftarrow\beta_1v+\nabla_f\mathcal L`, :math:`f\leftarrow f-\eta\Theta v`: that
    of `torch.optim.SGD` on the weights. With damping :math:`\lambda` the gradient of the weights is multiplied by
    :math:`(J^\top J+\lambda I)^{-1}`, which on outputs reads :math:`f\leftarrow f-\eta\Theta(\Theta+\lambda I)^{-1}v`.

    Args:
        kernel: :math:`\Theta`, `(*batch, n, n)`, constant.
        outputs: `(*batch, n)` at the start.
        loss_gradient: maps outputs to the gradient of the loss in them, of the same shape.
        step_size: > 0.
        steps: >= 1.
        momentum: in [0, 1).
        damping: > 0, or None for plain steps.
        watch: called with k and the outputs before step k, and once more after the last.

    Returns:
        The outputs, and the combination of rows of J by which the weights have moved.

    Raises:
        ValueError: an argument is not as described.
    """
    require_count("steps", steps)
    require_tensors(kernel=(kernel, "*batch n n"), outputs=(outputs, "*batch n"))
    if kernel.shape != (*outputs.shape, outputs.shape[-1]):
        raise ValueError(
            f"kernel has shape {tuple(kernel.shape)}; allowed: {(*outputs.shape, outputs.shape[-1])}"
        )
    require_number("step_size", step_size, above=0)
    require_number("momentum", momentum, least=0, below=1)
    if damping is not None:
        require_number("damping", damping, above=0)
    move, scale = kernel, None
    if damping is not None:
        require_symmetric("kernel", kernel)
        values, vectors = torch.linalg.eigh(kernel)
        scale = (vectors / (values.clamp(min=0) + damping)[..., None, :]) @ vectors.mT
        move = (vectors * (values / (values.clamp(min=0) + damping))[..., None, :]) @ vectors.mT
    velocity, total, f = torch.zeros_like(outputs), torch.zeros_like(outputs), outputs
    for k in range(steps):
        if watch is not None:
            watch(k, f)
        velocity = momentum * velocity + loss_gradient(f)
        total = total + step_size * velocity
        f = f - step_size * (move @ velocity[..., None]).squeeze(-1)
    if watch is not None:
        watch(steps, f)
    return Descent(f, total if scale is None else (scale @ total[..., None]).squeeze(-1))


@dataclass(frozen=True, eq=False)
class SpectralDescent:
    r"""Gradient descent on a linear least-squares problem, as a formula in the number of steps.

    The loss is :math:`\frac1n\sum_ir_i^2`, without the half. With the residual's components :math:`c_i=u_i^\top r_0`
    along the left singular vectors of J, and step size :math:`\eta`,

    .. math:: \mathcal L_k = \frac1n\Bigl(\sum_i (1-\tfrac{2\eta}n\sigma_i^2)^{2k}c_i^2 + r_\perp^2\Bigr).

    With damping :math:`\lambda` the factor is :math:`1-\frac{2\eta}n\,\sigma_i^2/(\sigma_i^2+\lambda)`.

    Attributes:
        singular_values: `(r,)`.
        components: `(r,)`, :math:`c_i` at the start.
        outside: `()`, norm of the residual's part that no step can reach.
        samples: n.

    Raises:
        ValueError: the shapes do not fit, or `samples` is no integer >= 1.
    """

    singular_values: Tensor
    components: Tensor
    outside: Tensor
    samples: int

    def __post_init__(self) -> None:
        """Check the fields."""
        require_tensors(
            singular_values=(self.singular_values, "r"),
            components=(self.components, "r"),
            outside=(self.outside, ""),
        )
        require_count("samples", self.samples)

    @staticmethod
    def of(jacobian: Tensor, residual: Tensor) -> SpectralDescent:
        """Return the formula for a Jacobian `(n, d)` and the residual `(n,)` at the start.

        Args:
            jacobian: `(n, d)`, constant.
            residual: `(n,)`, outputs minus targets.

        Returns:
            The formula.

        Raises:
            ValueError: the shapes do not fit.
        """
        require_tensors(jacobian=(jacobian, "n d"), residual=(residual, "n"), finite=True)
        u, s, _ = torch.linalg.svd(jacobian, full_matrices=False)
        components = u.T @ residual
        return SpectralDescent(s, components, (residual - u @ components).norm(), len(residual))

    def log_factors(self, step_size: float, damping: float | None = None) -> Tensor:
        """Return the logarithm of the modulus of each direction's factor, `(r,)`.

        Args:
            step_size: > 0.
            damping: > 0, or None.
        """
        squared = self.singular_values**2
        rate = 2 * step_size / self.samples * (squared if damping is None else squared / (squared + damping))
        return torch.where(rate < 1, torch.log1p(-rate.clamp(max=1)), (rate - 1).log())

    def loss(self, steps: Tensor | float, step_size: float, damping: float | None = None) -> Tensor:
        """Return the loss after so many steps.

        Args:
            steps: numbers >= 0 of any shape, not necessarily whole.
            step_size: > 0.
            damping: > 0, or None for plain steps.

        Returns:
            Of the shape of `steps`.

        Raises:
            ValueError: the numbers of steps are not real.
        """
        steps = require_numbers("steps", steps, self.singular_values)
        powers = steps[..., None] * self.log_factors(step_size, damping)
        left = torch.where(steps[..., None] == 0, 1.0, torch.exp(2 * powers)) * self.components**2
        return (left.sum(-1) + self.outside**2) / self.samples

    def steps_to(self, loss: float, step_size: float, damping: float | None = None) -> float:
        """Return the number of steps after which the loss is at most `loss`, by bisection; infinite if never.

        Args:
            loss: > 0.
            step_size: > 0, small enough that the loss does not increase.
            damping: > 0, or None for plain steps.

        Raises:
            ValueError: the loss is not positive.
        """
        if not loss > 0:
            raise ValueError(f"loss = {loss!r}; allowed: a number > 0")
        low, high = 0.0, 1e60
        if self.loss(high, step_size, damping) > loss:
            return math.inf
        for _ in range(400):
            middle = math.sqrt(low * high) if low > 1 else min((low + high) / 2, math.sqrt(high))
            if self.loss(middle, step_size, damping) > loss:
                low = middle
            else:
                high = middle
        return high
