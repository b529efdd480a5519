"""The Hessian of the mean loss."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from learning_dynamics.curvature.linearization import require_equal_forms
from learning_dynamics.curvature.loss_matrix import LossMatrix
from learning_dynamics.curvature.network import Inputs, plainly


class Hessian(LossMatrix):
    r"""The matrix :math:`H = \nabla^2 \mathcal L(\theta)` of the mean loss over the samples.

    A product differentiates the gradient once more in reverse mode (Pearlmutter 1994). At the kinks of ReLU
    networks the second derivative of the activation counts as zero.
    """

    _keeps_linearization = False

    def _make(self) -> None:
        self._require_symmetric()
        everything = slice(0, len(self.outputs))
        first = next(self._data.parts())[1]
        self._kept = None if self._data.in_batches else self._second_derivative(everything, first)

    def _require_symmetric(self) -> None:
        """Try the products of a few samples on random vectors: some of torch's second derivatives are wrong."""
        few, theta = self._data.few(), self._data.network.theta
        rows = slice(0, len(self._data.evaluate(theta, few)))
        with plainly(theta.device):
            product = self._second_derivative(rows, few)
            random = torch.Generator().manual_seed(0)
            V = torch.randn(3, len(theta), generator=random, dtype=torch.float64).to(theta)
            with torch.no_grad():
                H = torch.stack([product(v)[0] for v in V])
        forms, sizes = V @ H.T, torch.linalg.vector_norm(H, dim=1)
        for i, j in ((0, 1), (0, 2), (1, 2)):
            require_equal_forms(forms[i, j], forms[j, i], sizes[i] + sizes[j])

    def _second_derivative(self, rows: slice, part: Inputs) -> Callable[[Tensor], tuple[Tensor]]:
        """Return the function that multiplies by the Hessian of these rows' part of the loss."""

        def loss(theta: Tensor) -> Tensor:
            return self._terms.losses(self._data.evaluate(theta, part), rows).sum() / self._terms.divisor

        with plainly(self.device), torch.enable_grad():
            return torch.func.vjp(torch.func.grad(loss), self._data.network.theta)[1]

    def _times(self, v: Tensor) -> Tensor:
        if self._kept is not None:
            with torch.no_grad():
                return self._kept(v)[0]
        total = torch.zeros_like(v)
        for rows, part in self._data.parts():
            product = self._second_derivative(rows, part)
            with torch.no_grad():
                total = total + product(v)[0]
        return total
