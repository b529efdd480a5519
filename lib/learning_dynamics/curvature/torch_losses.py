"""Torch's loss modules as output laws times scales and weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from learning_dynamics.curvature.linearization import LinearizedData
from learning_dynamics.curvature.output_laws import (
    Bernoulli,
    Categorical,
    HeteroscedasticGaussian,
    OutputLaw,
    Poisson,
    SquaredError,
)

Loss = OutputLaw | nn.Module
"""An output law, or one of torch's loss modules."""


class Terms(NamedTuple):
    r"""A loss of many rows, :math:`\frac{c}{m}\sum_i w_i\ell(f_i, y_i)`.

    Attributes:
        law: the law whose loss is :math:`\ell`.
        scale: c.
        divisor: m, how many rows the mean goes over; 1 for a sum.
        targets: as the law takes them, in the outputs' dtype, `(rows, ...)`; None where none are read.
        weights: w, `(rows, 1)`, or `(rows, d_y)` for laws whose coordinates are independent; None for ones.
    """

    law: OutputLaw
    scale: float
    divisor: int
    targets: Tensor | None = None
    weights: Tensor | None = None

    def losses(self, outputs: Tensor, rows: slice) -> Tensor:
        """Return the terms c w_i l_i, `(rows)`, so that their sum over m is the loss."""
        assert self.targets is not None
        targets = self.targets[rows]
        if self.weights is None:
            return self.scale * self.law.loss(outputs, targets)
        if self.weights.shape[1] == 1:
            return self.scale * self.weights[rows, 0] * self.law.loss(outputs, targets)
        each = self.law.loss(outputs[..., None], targets[..., None])
        return self.scale * (self.weights[rows] * each).sum(-1)

    def scores(self, outputs: Tensor) -> Tensor:
        """Return the gradients of the terms with respect to the outputs, `(rows, d_y)`."""
        assert self.targets is not None
        return self.weighed(self.scale * self.law.gradient(outputs, self.targets), slice(None))

    def weighed(self, u: Tensor, rows: slice) -> Tensor:
        """Return w u for u `(rows, d_y)`."""
        return u if self.weights is None else self.weights[rows] * u


def as_terms(loss: Loss, outputs: Tensor, targets: Any = None, *, expected: bool = False) -> Terms:
    r"""Return a loss as weighted terms of a law, up to a constant that does not depend on the outputs.

    Torch's mean goes over the rows and, except for the cross-entropy, over the output coordinates as well:

    | loss | law | scale with "mean" | with "sum" |
    |---|---|---|---|
    | MSELoss | SquaredError | 2 / d_y | 2 |
    | CrossEntropyLoss | Categorical | 1 | 1 |
    | BCEWithLogitsLoss | Bernoulli | 1 / d_y | 1 |
    | PoissonNLLLoss (log_input) | Poisson | 1 / d_y | 1 |
    | GaussianNLLLoss | HeteroscedasticGaussian, outputs are means and log variances | 2 / d_y | 1 |

    Class weights, `ignore_index` and label smoothing of the cross-entropy, `weight` and `pos_weight` of the binary one
    become weights and targets: with :math:`t_c` in place of the target, :math:`-\sum_c t_c\ln p_c` is
    :math:`\sum_c t_c` times the cross-entropy of :math:`t/\sum_c t_c`. A mean with class weights is over the weights
    of the targets, as torch has it. `GaussianNLLLoss` takes the variance as an argument of its own; here it stands for
    the loss at `(mean, targets, exp(log_variance))`, without its floor `eps` on the variance.

    Args:
        loss: a law (a mean over rows) or a torch loss.
        outputs: `(rows, d_y)`.
        targets: `(rows)` or `(rows, d_y)`, as the law takes them.
        expected: that no targets are read, as for the Fisher matrix.

    Raises:
        ValueError: another loss or reduction, an option that has no law, wrong targets, or none that counts; with
            `expected`, weights or label smoothing, which belong to targets.
    """
    n = len(outputs)
    if isinstance(loss, OutputLaw):
        return Terms(loss, 1.0, n, None if expected else loss.checked(outputs, targets).clone())
    if isinstance(loss, type):
        raise ValueError(f"law = the class {loss.__name__}; allowed: {loss.__name__}()")
    name, width = type(loss).__name__, outputs.shape[-1]
    laws: dict[type[nn.Module], tuple[OutputLaw, float, float]] = {
        nn.MSELoss: (SquaredError(), 2 / width, 2.0),
        nn.CrossEntropyLoss: (Categorical(), 1.0, 1.0),
        nn.BCEWithLogitsLoss: (Bernoulli(), 1 / width, 1.0),
        nn.PoissonNLLLoss: (Poisson(), 1 / width, 1.0),
        nn.GaussianNLLLoss: (HeteroscedasticGaussian(), 2 / width, 1.0),
    }
    if type(loss) not in laws:
        names = ", ".join(sorted(kind.__name__ for kind in laws))
        raise ValueError(f"law is a {name}; allowed: an output law or one of {names}")
    if loss.reduction not in ("mean", "sum"):
        raise ValueError(f"{name} has reduction = {loss.reduction!r}; allowed: 'mean', 'sum'")
    if not getattr(loss, "log_input", True):
        raise ValueError(f"{name} has log_input = False; allowed: True")
    law, of_mean, of_sum = laws[type(loss)]
    mean = loss.reduction == "mean"
    scale = of_mean if mean else of_sum
    if expected:
        for option in ("weight", "pos_weight", "label_smoothing"):
            if isinstance(getattr(loss, option, None), Tensor) or getattr(loss, option, None):
                raise ValueError(
                    f"{name} has {option}, which belongs to targets; allowed: none for a Fisher matrix"
                )
        return Terms(law, scale, n if mean else 1)
    if isinstance(loss, nn.CrossEntropyLoss):
        return _cross_entropy(loss, law, outputs, targets, mean)
    if isinstance(loss, nn.BCEWithLogitsLoss) and not (loss.weight is None and loss.pos_weight is None):
        y = law.checked(outputs, targets)
        positive = y if loss.pos_weight is None else y * _weights("pos_weight", loss.pos_weight, y)
        total = positive + (1 - y)
        weights = total if loss.weight is None else total * _weights("weight", loss.weight, y)
        safe = torch.where(total > 0, total, 1.0)
        return Terms(law, scale, n if mean else 1, positive / safe, weights)
    return Terms(law, scale, n if mean else 1, law.checked(outputs, targets).clone())


def require_last_axis(loss: Loss, data: LinearizedData, targets: object = None) -> None:
    """Refuse torch's cross-entropy where its class axis may be the second one: here the classes are the last axis.

    Args:
        loss: any loss.
        data: the outputs with their leading axes.
        targets: what was given.

    Raises:
        ValueError: outputs `(n, T, d_y)` of a CrossEntropyLoss fit the targets `(n, ...)` in either reading, as
            probability vectors always do, or there are no targets that could tell.
    """
    given = [targets] if data.targets is None else data.targets
    soft = any(isinstance(target, Tensor) and target.is_floating_point() for target in given)
    for leading in data.leading:
        if isinstance(loss, nn.CrossEntropyLoss) and len(leading) > 1:
            shape = (*leading, data.outputs.shape[-1])
            either = shape[2:] == leading[1:]
            if either or soft or (targets is None and data.targets is None):
                raise ValueError(
                    f"outputs have shape {shape}, of which a CrossEntropyLoss may read the second or the last axis as "
                    "classes; allowed: Categorical(), for which they are the last"
                )


def _cross_entropy(
    loss: nn.CrossEntropyLoss, law: OutputLaw, outputs: Tensor, targets: Any, mean: bool
) -> Terms:
    n, classes = outputs.shape
    plain = loss.weight is None and not loss.label_smoothing
    labels = isinstance(targets, Tensor) and not targets.is_floating_point() and targets.shape == (n,)
    if not labels and loss.ignore_index >= 0:
        raise ValueError(
            f"ignore_index = {loss.ignore_index} with probability vectors as targets; allowed: class indices"
        )
    kept: Tensor = targets != loss.ignore_index if labels else outputs.new_ones(n, dtype=torch.bool)
    if not kept.any():
        raise ValueError(
            f"targets are all ignore_index = {loss.ignore_index}; allowed: at least one that counts"
        )
    if labels and not kept.all():
        targets = torch.where(kept, targets, 0)
    y = law.checked(outputs, targets)
    if plain and bool(kept.all()):
        return Terms(law, 1.0, n if mean else 1, y.clone())
    per_class = torch.ones_like(y[0])
    if loss.weight is not None:
        per_class = _weights("weight", loss.weight, per_class).expand(classes)
    eps = loss.label_smoothing
    t = ((1 - eps) * y + eps / classes) * per_class * kept[:, None]
    total = t.sum(-1, keepdim=True)
    divisor = (y @ per_class * kept).sum() if labels else kept.sum()
    count = int(kept.sum()) if mean else 1
    if not (total > 0).any() or not divisor > 0:
        raise ValueError("weights of all targets are zero; allowed: at least one that counts")
    weights = total * (count / divisor) if mean else total
    return Terms(law, 1.0, count, torch.where(total > 0, t / torch.where(total > 0, total, 1.0), y), weights)


def _weights(name: str, weights: Tensor, like: Tensor) -> Tensor:
    """Return weights that broadcast to `like`, after checking that they are finite and not negative."""
    try:
        fits = torch.broadcast_shapes(weights.shape, like.shape) == like.shape
    except RuntimeError:
        fits = False
    if not fits or not (torch.isfinite(weights) & (weights >= 0)).all():
        raise ValueError(
            f"{name} of the loss has shape {tuple(weights.shape)}; allowed: finite, >= 0, fitting {tuple(like.shape)}"
        )
    return weights.detach().to(like)
