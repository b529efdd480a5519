"""Matrices of the form mean of J_n^T A_n J_n: generalized Gauss-Newton, Fisher, empirical Fisher."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from functools import reduce

import torch
from torch import Tensor
from torch.func import vmap

from learning_dynamics.curvature.gradients import mean_loss_and_gradient
from learning_dynamics.curvature.linearization import Data
from learning_dynamics.curvature.loss_matrix import LossMatrix
from learning_dynamics.curvature.network import Model, Parameters, plainly
from learning_dynamics.curvature.torch_losses import Loss, as_terms, require_last_axis

_NUMBERS_KEPT = 2**24
"""Largest number of entries of the small matrices that an operator keeps."""


class OutputCurvature(LossMatrix):
    r"""The matrix :math:`\frac1n \sum_n J_n^\top A_n J_n` with :math:`A_n` symmetric, d_y by d_y.

    A product goes forward through the kept linearization, through the small matrices, and back: about the cost
    of one gradient. The matrices are kept up to 2^24 entries, else
    made anew for some rows at a time.
    """

    def _make(self) -> None:
        rows, width = self.outputs.shape
        self._kept = self._matrices(slice(None)) if rows * width**2 <= _NUMBERS_KEPT else None

    @abstractmethod
    def _matrices(self, rows: slice) -> Tensor:
        """Return the A_n of these rows, `(rows, d_y, d_y)`."""

    def _apply(self, rows: slice, u: Tensor) -> Tensor:
        """Return A_n u_n for u `(rows, d_y)`; without the kept matrices, some of them at a time."""
        if self._kept is not None:
            return (self._kept[rows] @ u[..., None])[..., 0]
        start, stop, _ = rows.indices(len(self.outputs))
        at_once = max(1, _NUMBERS_KEPT // (4 * u.shape[1] ** 2))
        cuts = [slice(first, min(first + at_once, stop)) for first in range(start, stop, at_once)]
        parts = zip(cuts, u.split(at_once), strict=True)
        return torch.cat([(self._matrices(cut) @ part[..., None])[..., 0] for cut, part in parts])

    def _times(self, v: Tensor) -> Tensor:
        total = torch.zeros_like(v)
        for rows, part in self._data.batches():
            total = total + part.pull(self._apply(rows, part.push(v)) / self._terms.divisor)
        return total

    def _diagonal(self) -> Tensor:
        """Return the mean over the rows of sum_c lambda_c (J_n^T q_c)^2, in the eigenbasis of A_n."""
        n, width = self.outputs.shape

        def one(pull: Callable[[Tensor], Tensor], weights: Tensor, Q: Tensor) -> Tensor:
            return weights @ vmap(pull, in_dims=1)(Q).square()

        if self._kept is not None:
            values, vectors = torch.linalg.eigh(self._kept)
            parts = self._data.sample_by_sample(one, values, vectors, numbers=width * self.shape[0])
            return _total(parts) / self._terms.divisor

        # one output at a time: diag(J' A J) = sum_c J_c' (A J)_c
        total = torch.zeros_like(self._data.network.theta)
        for c in range(width):
            unit = torch.zeros_like(self.outputs)
            unit[:, c] = 1.0
            columns = self._apply(slice(0, n), unit)
            pairs = self._data.sample_by_sample(
                lambda pull, e, a: pull(e) * pull(a), unit, columns, numbers=2 * self.shape[0]
            )
            total = total + _total(pairs)
        return total / self._terms.divisor


class _OfTargets(OutputCurvature):
    """An output curvature that reads the targets of the data: `GaussNewton` and `EmpiricalFisher`."""

    def loss_and_gradient(self) -> tuple[Tensor, Tensor]:
        """Return the mean loss `()` and its gradient `(d)`, from the linearization that the products use."""
        return mean_loss_and_gradient(self._data, self._terms)

    def loss_at(self, theta: Tensor) -> Tensor:
        """Return the mean loss `()` on the same data at other parameters `(d)`; NaN or infinity pass through."""
        with plainly(self.device), torch.no_grad():
            losses = [
                self._terms.losses(self._data.evaluate(theta, part), rows)
                for rows, part in self._data.parts()
            ]
        return torch.cat(losses).sum() / self._terms.divisor


class GaussNewton(_OfTargets):
    r"""The generalized Gauss-Newton matrix :math:`\frac1n \sum_n J_n^\top H_{out,n} J_n` (Schraudolph 2002).

    :math:`H_{out}` is the Hessian of the loss with respect to the outputs. The matrix is the Hessian of the loss of
    the linearized model. It equals the Fisher matrix for the laws whose H_out does not depend on the target.
    """

    def _matrices(self, rows: slice) -> Tensor:
        assert self._terms.targets is not None
        matrices = self._terms.scale * self._terms.law.hessian(self.outputs[rows], self._terms.targets[rows])
        weights = self._terms.weights
        return matrices if weights is None else weights[rows, :, None] * matrices


class Fisher(OutputCurvature):
    r"""The Fisher matrix of the model's own predictions, :math:`\frac1n \sum_n J_n^\top F_{out,n} J_n`.

    It is the mean over the inputs of :math:`E_{y \sim p(\cdot \mid f)}[g g^\top]`, g the gradient of the loss at a
    target drawn from the model; no target of the data enters. With `samples` the expectation is replaced by a mean
    over that many targets for each input, drawn once when the operator is made: unbiased, of rank at most
    n * samples.
    """

    @torch.inference_mode(False)
    def __init__(
        self,
        model: Model,
        law: Loss,
        inputs: Data,
        *,
        samples: int | None = None,
        generator: torch.Generator | None = None,
        parameters: Parameters | None = None,
        batch_size: int | None = None,
    ) -> None:
        """Linearize a model and take the Fisher matrix of its output law.

        Args:
            model: a module, or a pair `(f, theta)`.
            law: an output law, or a torch loss (whose scale multiplies the matrix) without weights or smoothing.
            inputs: `(n, ...)`, n >= 1; a dict of such tensors; or a DataLoader or list of batches, whose targets are
                not read, so that they must not ask to be ignored.
            samples: None for the exact expectation, else the number of targets for each input, >= 1.
            generator: where the targets are drawn from; needed with `samples`.
            parameters: some parameters of a module; default: all that require a gradient.
            batch_size: None keeps the linearization; an integer makes it anew for each batch and product.

        Raises:
            ValueError: as `GaussNewton`; `samples` is below 1, or given without a generator.
        """
        self._take(model, inputs, parameters, batch_size)
        require_last_axis(law, self._data)
        self._require_all_count(law)
        self._terms = as_terms(law, self.outputs, expected=True)
        self._scores: Tensor | None = None
        if samples is not None:
            targets = self._terms.law.sample(self.outputs, samples, generator)
            self._scores = self._terms.law.gradient(self.outputs.expand(samples, -1, -1), targets)
        self._make()

    def _require_all_count(self, law: Loss) -> None:
        ignored = getattr(law, "ignore_index", None)
        for target in self._data.targets or []:
            labels = target is not None and not target.is_floating_point()
            if ignored is not None and labels and bool((target == ignored).any()):
                raise ValueError(
                    f"targets hold ignore_index = {ignored}, which a Fisher matrix does not read; allowed: GaussNewton"
                )

    def _matrices(self, rows: slice) -> Tensor:
        if self._scores is None:
            return self._terms.scale * self._terms.law.fisher(self.outputs[rows])
        scores = self._scores[:, rows]
        return self._terms.scale * torch.einsum("sni,snj->nij", scores, scores) / len(scores)


class EmpiricalFisher(_OfTargets):
    r"""The empirical Fisher matrix :math:`\frac1n \sum_n g_n g_n^\top`, g_n the gradient of the loss of sample n.

    The targets are those of the data, so that it is no Fisher matrix: it is the uncentred second moment of the
    gradients, zero where the data are fitted exactly. For a torch loss with scale c (see `torch_losses`) the g_n are
    the gradients of that loss, and the matrix is c^2 times that of the law.
    """

    def _make(self) -> None:
        self._scores = self._terms.scores(self.outputs)
        super()._make()

    def _matrices(self, rows: slice) -> Tensor:
        return self._scores[rows, :, None] * self._scores[rows, None, :]

    def _apply(self, rows: slice, u: Tensor) -> Tensor:
        return self._scores[rows] * (self._scores[rows] * u).sum(-1, keepdim=True)

    def _diagonal(self) -> Tensor:
        """Return the mean of the squared gradients."""
        squares = (gradients.square() for gradients in self._data.gradients(self._scores))
        return _total(squares) / self._terms.divisor


def _total(parts: Iterable[Tensor]) -> Tensor:
    """Return the sum over all rows of all parts, `(d)`, part after part."""
    return reduce(torch.add, (part.sum(0) for part in parts))
