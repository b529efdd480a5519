"""The Jacobian of all outputs with respect to the parameters."""

from __future__ import annotations

import torch
from torch import Tensor

from learning_dynamics.curvature.linear_operator import LinearOperator
from learning_dynamics.curvature.linearization import Data, LinearizedData
from learning_dynamics.curvature.network import Model, Parameters


class Jacobian(LinearOperator):
    r"""The matrix :math:`J` of shape `(n d_y, d)`: row :math:`(i, c)` is the gradient of output c of sample i.

    Rows are ordered sample by sample, so that `(J @ v).reshape(n, d_y)` is the change of the outputs. The
    neural tangent kernel is `J @ J.T.dense()`.
    """

    def __init__(
        self,
        model: Model,
        inputs: Data,
        *,
        parameters: Parameters | None = None,
        batch_size: int | None = None,
    ) -> None:
        """Linearize a model.

        Args:
            model: a module, or a pair `(f, theta)`.
            inputs: `(n, ...)`, n >= 1; a dict of such tensors; or a DataLoader or list of batches.
            parameters: some parameters of a module; default: all that require a gradient.
            batch_size: None keeps the linearization; an integer makes it anew for each batch and product.

        Raises:
            ValueError: as `network.as_network`; empty inputs; values that are not finite.
        """
        self._data = LinearizedData(model, inputs, parameters, batch_size)
        theta, outputs = self._data.network.theta, self._data.outputs
        super().__init__(
            (outputs.numel(), len(theta)), theta, self._data.batch_size, self._data.network.one_by_one
        )

    @property
    def outputs(self) -> Tensor:
        """The outputs at the parameters, `(n, d_y)`."""
        return self._data.outputs

    @property
    def T(self) -> LinearOperator:  # noqa: N802
        """The transpose, `(d, n d_y)`."""
        return _Transpose(self)

    def _times(self, v: Tensor) -> Tensor:
        return torch.cat([part.push(v).reshape(-1) for _, part in self._data.batches()])

    def _transpose_times(self, u: Tensor) -> Tensor:
        u = u.reshape(self.outputs.shape)
        total = u.new_zeros(self.shape[1])
        for rows, part in self._data.batches():
            total = total + part.pull(u[rows])
        return total


class _Transpose(LinearOperator):
    def __init__(self, jacobian: Jacobian) -> None:
        self._jacobian = jacobian
        data = jacobian._data
        super().__init__(jacobian.shape[::-1], data.network.theta, data.batch_size, data.network.one_by_one)

    @property
    def T(self) -> LinearOperator:  # noqa: N802
        """The Jacobian."""
        return self._jacobian

    def _times(self, u: Tensor) -> Tensor:
        return self._jacobian._transpose_times(u)
