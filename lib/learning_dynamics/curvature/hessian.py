"""The Hessian of the mean loss."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from learning_dynamics.curvature.linearization import Linearization, normal, require_equal_forms
from learning_dynamics.curvature.loss_matrix import LossMatrix
from learning_dynamics.curvature.network import plainly


class Hessian(LossMatrix):
    r"""The matrix :math:`H = \nabla^2 \mathcal L(\theta)` of the mean loss over the samples.

    A product differentiates the gradient once more in reverse mode (Pearlmutter 1994). At the kinks of ReLU
    networks the second derivative of the activation counts as zero.
    """

    def _make(self) -> None:
        self._require_symmetric()
        rows, part = next(self._data.batches())
        self._kept = None if self._data.in_batches else self._second_derivative(rows, part)

    def _require_symmetric(self) -> None:
        """Try the products of a few samples on random vectors: some of torch's second derivatives are wrong."""
        theta, few = self._data.network.theta, self._data.linearize(self._data.few())
        product = self._second_derivative(self._data.rows_of_few(), few)
        V = normal((3, len(theta)), theta, torch.Generator().manual_seed(0))
        with plainly(theta.device):
            H = torch.stack([product(v) for v in V])
        forms, sizes = V @ H.T, torch.linalg.vector_norm(H, dim=1)
        for i, j in ((0, 1), (0, 2), (1, 2)):
            require_equal_forms(forms[i, j], forms[j, i], sizes[i] + sizes[j])

    def _second_derivative(self, rows: slice, part: Linearization) -> Callable[[Tensor], Tensor]:
        """Return the function that multiplies by the Hessian of these rows' part of the loss."""
        return part.second_derivative(lambda f: self._terms.losses(f, rows).sum() / self._terms.divisor)

    def _times(self, v: Tensor) -> Tensor:
        if self._kept is not None:
            return self._kept(v)
        total = torch.zeros_like(v)
        for rows, part in self._data.batches():
            total = total + self._second_derivative(rows, part)(v)
        return total
