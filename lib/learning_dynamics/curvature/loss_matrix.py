"""What the curvature matrices of a loss share: a model on its data, an output law with its scale, and the targets."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from learning_dynamics.curvature.linear_operator import SymmetricOperator
from learning_dynamics.curvature.linearization import Data, LinearizedData
from learning_dynamics.curvature.network import Model, Parameters
from learning_dynamics.curvature.torch_losses import Loss, as_terms, require_last_axis


class LossMatrix(SymmetricOperator):
    """A matrix `(d, d)` of the mean loss over the samples; a subclass says which in `_make`."""

    @torch.inference_mode(False)
    def __init__(
        self,
        model: Model,
        law: Loss,
        inputs: Data,
        targets: Tensor | None = None,
        *,
        parameters: Parameters | None = None,
        batch_size: int | None = None,
    ) -> None:
        """Take a model with its data.

        Args:
            model: a module, or a pair `(f, theta)`.
            law: an output law, or a torch loss; see `torch_losses.as_terms`.
            inputs: `(n, ...)`, n >= 1; a dict of such tensors, the arguments of `forward`; or a DataLoader or list of
                batches `(inputs, targets)` or dicts with `labels`, which is read once.
            targets: `(n, ...)` or `(n, ..., d_y)`, as the law takes them, for outputs `(n, ..., d_y)`: every position
                counts as a row of its own. None where they come with the batches.
            parameters: some parameters of a module; default: all that require a gradient.
            batch_size: None keeps what products share (the linearization; for the Hessian the gradient's graph); an
                integer makes it anew for each batch and product.

        Raises:
            ValueError: as `network.as_network`, `torch_losses.as_terms`; empty inputs; values that are not finite;
                targets of the wrong shape or dtype.
        """
        self._take(model, inputs, parameters, batch_size)
        require_last_axis(law, self._data, targets)
        self._terms = as_terms(law, self._data.outputs, self._data.flat_targets(targets))
        self._make()

    @property
    def outputs(self) -> Tensor:
        """The outputs at the parameters, `(rows, d_y)`."""
        return self._data.outputs

    def _take(
        self, model: Model, inputs: Data, parameters: Parameters | None, batch_size: int | None
    ) -> None:
        """Set the data and what every operator has."""
        self._data = LinearizedData(model, inputs, parameters, batch_size)
        theta = self._data.network.theta
        super().__init__(
            (len(theta), len(theta)), theta, self._data.batch_size, self._data.network.one_by_one
        )

    @abstractmethod
    def _make(self) -> None:
        """Set what products need beside the data."""
