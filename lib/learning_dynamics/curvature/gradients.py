"""The gradient of the mean loss and of each sample's loss, flat like the vectors that the operators take."""

from __future__ import annotations

import torch
from torch import Tensor

from learning_dynamics.curvature.linearization import Data, LinearizedData
from learning_dynamics.curvature.network import Model, Parameters, plainly
from learning_dynamics.curvature.torch_losses import Loss, Terms, as_terms, require_last_axis


def loss_and_gradient(
    model: Model,
    law: Loss,
    inputs: Data,
    targets: Tensor | None = None,
    *,
    parameters: Parameters | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the mean loss `()` and its gradient `(d)`; arguments and errors as for `GaussNewton`.

    For a torch loss the value may differ from torch's by a constant that does not depend on the outputs.

    Args:
        model: a module, or a pair `(f, theta)`.
        law: an output law, or a torch loss.
        inputs: `(n, ...)`, n >= 1; or as `GaussNewton`.
        targets: `(n, ...)` or `(n, ..., d_y)`, as the law takes them; or as `GaussNewton`.
        parameters: some parameters of a module; default: all that require a gradient.

    Raises:
        ValueError: as `GaussNewton`.
    """
    data = LinearizedData(model, inputs, parameters, None)
    require_last_axis(law, data, targets)
    return mean_loss_and_gradient(data, as_terms(law, data.outputs, data.flat_targets(targets)))


def mean_loss_and_gradient(data: LinearizedData, terms: Terms) -> tuple[Tensor, Tensor]:
    """Return the mean of the terms of a loss `()` and its gradient `(d)`, batch after batch."""
    scores = terms.scores(data.outputs) / terms.divisor
    gradient = torch.zeros_like(data.network.theta)
    with plainly(gradient.device):
        for rows, part in data.batches():
            gradient = gradient + part.pull(scores[rows])
    return terms.losses(data.outputs, slice(None)).sum() / terms.divisor, gradient


def per_sample_gradients(
    model: Model,
    law: Loss,
    inputs: Data,
    targets: Tensor | None = None,
    *,
    parameters: Parameters | None = None,
) -> Tensor:
    """Return the gradient of each row's loss, `(rows, d)`; arguments and errors as for `GaussNewton`.

    A row is a sample, or a position of outputs `(n, ..., d_y)`. Their mean (over the rows that count, where the loss
    ignores some; their sum for reduction="sum") is the gradient,
    and the mean of their outer products is the empirical Fisher matrix.

    Args:
        model: a module, or a pair `(f, theta)`.
        law: an output law, or a torch loss.
        inputs: `(n, ...)`, n >= 1; or as `GaussNewton`.
        targets: `(n, ...)` or `(n, ..., d_y)`, as the law takes them; or as `GaussNewton`.
        parameters: some parameters of a module; default: all that require a gradient.

    Raises:
        ValueError: as `GaussNewton`.
    """
    data = LinearizedData(model, inputs, parameters, None, linearize=False)
    require_last_axis(law, data, targets)
    scores = as_terms(law, data.outputs, data.flat_targets(targets)).scores(data.outputs)
    return torch.cat(list(data.gradients(scores)))
