"""The Hessian of the mean loss."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from learning_dynamics.curvature.linear_operator import SymmetricOperator
from learning_dynamics.curvature.linearization import LinearizedData
from learning_dynamics.curvature.network import Model, Parameters
from learning_dynamics.curvature.torch_losses import Loss, as_law


class Hessian(SymmetricOperator):
    r"""The matrix :math:`H = \nabla^2 \mathcal L(\theta)` of the mean loss over the samples.

    A product differentiates the gradient once more in reverse mode (Pearlmutter 1994). At the kinks of ReLU
    networks the second derivative of the activation counts as zero.
    """

    def __init__(
        self,
        model: Model,
        law: Loss,
        inputs: Tensor,
        targets: Tensor,
        *,
        parameters: Parameters | None = None,
        batch_size: int | None = None,
    ) -> None:
        """Differentiate the mean loss twice.

        Args:
            model: a module, or a pair `(f, theta)`.
            law: an output law, or a torch loss with reduction="mean".
            inputs: `(n, ...)`, n >= 1.
            targets: as the law wants them, n of them.
            parameters: some parameters of a module; default: all that require a gradient.
            batch_size: None keeps the gradient's graph; an integer makes it anew for each batch and product.

        Raises:
            ValueError: as `network.as_network`, `torch_losses.as_law`; empty inputs; values that are not
                finite; targets of the wrong shape or dtype.
        """
        self._data = LinearizedData(model, inputs, parameters, batch_size, linearize=False)
        self._law, self._scale = as_law(law, self._data.outputs)
        self._targets = self._law.checked(self._data.outputs, targets)
        theta = self._data.network.theta
        super().__init__((len(theta), len(theta)), theta, self._data.batch_size)
        self._kept = None if batch_size else self._second_derivative(slice(0, len(inputs)))

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
        products = []
        for rows in self._data.rows():
            product = self._second_derivative(rows)
            with torch.no_grad():
                products.append(product(v)[0])
        return sum(products)
