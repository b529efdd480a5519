"""Matrices of the form mean of J_n^T A_n J_n: generalized Gauss-Newton, Fisher, empirical Fisher."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce

import torch
from torch import Tensor
from torch.func import vmap

from learning_dynamics.curvature.loss_matrix import LossMatrix
from learning_dynamics.curvature.network import Model, Parameters
from learning_dynamics.curvature.torch_losses import Loss


class OutputCurvature(LossMatrix):
    r"""The matrix :math:`\frac1n \sum_n J_n^\top A_n J_n` with :math:`A_n` symmetric, d_y by d_y.

    A product goes forward through the kept linearization, through the small matrices, and back: about the cost
    of one gradient. The n matrices take n d_y^2 numbers.

    Attributes:
        output_curvature: the A_n, `(n, d_y, d_y)`, for the loss that is `scale` times that of the law.
    """

    output_curvature: Tensor

    def _times(self, v: Tensor) -> Tensor:
        n = len(self.outputs)
        total = torch.zeros_like(v)
        for rows, part in self._data.batches():
            weighed = (self.output_curvature[rows] @ part.push(v)[..., None])[..., 0]
            total = total + part.pull(weighed / n)
        return total

    def _diagonal(self) -> Tensor:
        """Return the mean over the samples of sum_c lambda_c (J_n^T q_c)^2, in the eigenbasis of A_n."""
        n, width = self.outputs.shape
        values, vectors = torch.linalg.eigh(self.output_curvature)

        def one(pull: Callable[[Tensor], Tensor], weights: Tensor, Q: Tensor) -> Tensor:
            return weights @ vmap(pull, in_dims=1)(Q).square()

        parts = self._data.sample_by_sample(one, values, vectors, numbers=width * self.shape[0])
        return _total(parts) / n


class _OfTargets(OutputCurvature):
    """An output curvature that reads the targets of the data: `GaussNewton` and `EmpiricalFisher`."""

    def loss_and_gradient(self) -> tuple[Tensor, Tensor]:
        """Return the mean loss `()` and its gradient `(d)`, from the linearization that the products use."""
        scores = self._law.gradient(self.outputs, self._targets) * (self._scale / len(self._targets))
        gradient = torch.zeros_like(self._data.network.theta)
        for rows, part in self._data.batches():
            gradient = gradient + part.pull(scores[rows])
        return self._scale * self._law.loss(self.outputs, self._targets).mean(), gradient

    @torch.no_grad()
    def loss_at(self, theta: Tensor) -> Tensor:
        """Return the mean loss `()` on the same data at other parameters `(d)`; NaN or infinity pass through."""
        rows = self._data.rows()
        losses = [
            self._law.loss(self._data.network.outputs(theta, self._data.inputs[some]), self._targets[some])
            for some in rows
        ]
        return self._scale * torch.cat(losses).mean()


class GaussNewton(_OfTargets):
    r"""The generalized Gauss-Newton matrix :math:`\frac1n \sum_n J_n^\top H_{out,n} J_n` (Schraudolph 2002).

    :math:`H_{out}` is the Hessian of the loss with respect to the outputs. The matrix is the Hessian of the loss of
    the linearized model. It equals the Fisher matrix for the laws whose H_out does not depend on the target.
    """

    def _make(self) -> None:
        self.output_curvature = self._scale * self._law.hessian(self.outputs, self._targets)


class Fisher(OutputCurvature):
    r"""The Fisher matrix of the model's own predictions, :math:`\frac1n \sum_n J_n^\top F_{out,n} J_n`.

    It is the mean over the inputs of :math:`E_{y \sim p(\cdot \mid f)}[g g^\top]`, g the gradient of the loss at a
    target drawn from the model; no target of the data enters. With `samples` the expectation is replaced by a mean
    over that many targets for each input, drawn once when the operator is made: unbiased, of rank at most
    n * samples.
    """

    def __init__(
        self,
        model: Model,
        law: Loss,
        inputs: Tensor,
        *,
        samples: int | None = None,
        generator: torch.Generator | None = None,
        parameters: Parameters | None = None,
        batch_size: int | None = None,
    ) -> None:
        """Linearize a model and take the Fisher matrix of its output law.

        Args:
            model: a module, or a pair `(f, theta)`.
            law: an output law, or a torch loss with reduction="mean" (whose scale multiplies the matrix).
            inputs: `(n, ...)`, n >= 1.
            samples: None for the exact expectation, else the number of targets for each input, >= 1.
            generator: where the targets are drawn from; needed with `samples`.
            parameters: some parameters of a module; default: all that require a gradient.
            batch_size: None keeps the linearization; an integer makes it anew for each batch and product.

        Raises:
            ValueError: as `GaussNewton`; `samples` is below 1, or given without a generator.
        """
        self._samples, self._generator = samples, generator
        self._take(model, law, inputs, parameters, batch_size)
        self._make()

    def _make(self) -> None:
        samples, law = self._samples, self._law
        if samples is None:
            self.output_curvature = self._scale * law.fisher(self.outputs)
            return
        targets = law.sample(self.outputs, samples, self._generator)
        scores = law.gradient(self.outputs.expand(samples, -1, -1), targets)
        self.output_curvature = self._scale * torch.einsum("sni,snj->nij", scores, scores) / samples


class EmpiricalFisher(_OfTargets):
    r"""The empirical Fisher matrix :math:`\frac1n \sum_n g_n g_n^\top`, g_n the gradient of the loss of sample n.

    The targets are those of the data, so that it is no Fisher matrix: it is the uncentred second moment of the
    gradients, zero where the data are fitted exactly. For a torch loss with scale c (see `torch_losses`) the g_n are
    the gradients of that loss, and the matrix is c^2 times that of the law.
    """

    def _make(self) -> None:
        self._scores = self._scale * self._law.gradient(self.outputs, self._targets)
        self.output_curvature = self._scores[:, :, None] * self._scores[:, None, :]

    def _diagonal(self) -> Tensor:
        """Return the mean of the squared gradients."""
        squares = (gradients.square() for gradients in self._data.gradients(self._scores))
        return _total(squares) / len(self._scores)


def _total(parts: Iterable[Tensor]) -> Tensor:
    """Return the sum over all rows of all parts, `(d)`, part after part."""
    return reduce(torch.add, (part.sum(0) for part in parts))
