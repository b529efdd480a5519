"""The Hessian of the mean loss."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from learning_dynamics.curvature.loss_matrix import LossMatrix


class Hessian(LossMatrix):
    r"""The matrix :math:`H = \nabla^2 \mathcal L(\theta)` of the mean loss over the samples.

    A product differentiates the gradient once more in reverse mode (Pearlmutter 1994). At the kinks of ReLU
    networks the second derivative of the activation counts as zero.
    """

    _keeps_linearization = False

    def _make(self) -> None:
        everything = slice(0, len(self._targets))
        self._kept = None if self._in_batches else self._second_derivative(everything)

    def _second_derivative(self, rows: slice) -> Callable[[Tensor], tuple[Tensor]]:
        """Return the function that multiplies by the Hessian of these rows' part of the loss."""

        def loss(theta: Tensor) -> Tensor:
            outputs = self._data.network.outputs(theta, self._data.inputs[rows])
            return self._law.loss(outputs, self._targets[rows]).sum() * (self._scale / len(self._targets))

        with torch.enable_grad():
            return torch.func.vjp(torch.func.grad(loss), self._data.network.theta)[1]

    def _times(self, v: Tensor) -> Tensor:
        if self._kept is not None:
            with torch.no_grad():
                return self._kept(v)[0]
        total = torch.zeros_like(v)
        for rows in self._data.rows():
            product = self._second_derivative(rows)
            with torch.no_grad():
                total = total + product(v)[0]
        return total
