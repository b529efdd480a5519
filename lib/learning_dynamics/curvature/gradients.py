"""The gradient of the mean loss and of each sample's loss, flat like the vectors that the operators take."""

from __future__ import annotations

import torch
from torch import Tensor

from learning_dynamics.curvature.linearization import LinearizedData
from learning_dynamics.curvature.network import Model, Parameters
from learning_dynamics.curvature.torch_losses import Loss, as_law


def loss_and_gradient(
    model: Model, law: Loss, inputs: Tensor, targets: Tensor, *, parameters: Parameters | None = None
) -> tuple[Tensor, Tensor]:
    """Return the mean loss `()` and its gradient `(d)`; arguments and errors as for `GaussNewton`.

    For a torch loss the value may differ from torch's by a constant that does not depend on the outputs.

    Args:
        model: a module, or a pair `(f, theta)`.
        law: an output law, or a torch loss with reduction="mean".
        inputs: `(n, ...)`, n >= 1.
        targets: `(n)` or `(n, d_y)`, as the law takes them.
        parameters: some parameters of a module; default: all that require a gradient.

    Raises:
        ValueError: as `GaussNewton`.
    """
    data = LinearizedData(model, inputs, parameters, None)
    law, scale = as_law(law, data.outputs)
    targets = law.checked(data.outputs, targets)
    loss = scale * law.loss(data.outputs, targets).mean()
    ((_, part),) = data.batches()
    return loss, part.pull(law.gradient(data.outputs, targets) * (scale / len(targets)))


def per_sample_gradients(
    model: Model, law: Loss, inputs: Tensor, targets: Tensor, *, parameters: Parameters | None = None
) -> Tensor:
    """Return the gradient of each sample's loss, `(n, d)`; arguments and errors as for `GaussNewton`.

    Their mean is the gradient, and the mean of their outer products is the empirical Fisher matrix.

    Args:
        model: a module, or a pair `(f, theta)`.
        law: an output law, or a torch loss with reduction="mean".
        inputs: `(n, ...)`, n >= 1.
        targets: `(n)` or `(n, d_y)`, as the law takes them.
        parameters: some parameters of a module; default: all that require a gradient.

    Raises:
        ValueError: as `GaussNewton`.
    """
    data = LinearizedData(model, inputs, parameters, None, linearize=False)
    law, scale = as_law(law, data.outputs)
    scores = scale * law.gradient(data.outputs, law.checked(data.outputs, targets))
    return torch.cat(list(data.gradients(scores)))
