"""Torch's loss modules as output laws times a scale."""

from __future__ import annotations

from torch import Tensor, nn

from learning_dynamics.curvature.output_laws import (
    Bernoulli,
    Categorical,
    HeteroscedasticGaussian,
    OutputLaw,
    Poisson,
    SquaredError,
)

Loss = OutputLaw | nn.Module
"""An output law, or one of torch's loss modules with reduction="mean"."""

_OPTIONS = {
    "weight": None,
    "pos_weight": None,
    "label_smoothing": 0.0,
    "ignore_index": -100,
    "log_input": True,
}


def as_law(loss: Loss, outputs: Tensor) -> tuple[OutputLaw, float]:
    r"""Return a law and a scale: the loss of one sample is scale times the law's loss, plus a constant.

    Torch's mean goes over the samples and, except for the cross-entropy, over the output coordinates as well:

    | loss | law | scale |
    |---|---|---|
    | MSELoss | SquaredError | 2 / d_y |
    | CrossEntropyLoss | Categorical | 1 |
    | BCEWithLogitsLoss | Bernoulli | 1 / d_y |
    | PoissonNLLLoss (log_input) | Poisson | 1 / d_y |
    | GaussianNLLLoss | HeteroscedasticGaussian, outputs are means and log variances | 2 / d_y |

    `GaussianNLLLoss` takes the variance as an argument of its own; here it stands for the loss at
    `(mean, targets, exp(log_variance))`, without its floor `eps` on the variance.

    Args:
        loss: a law (scale 1) or a torch loss.
        outputs: `(n, d_y)`.

    Raises:
        ValueError: another loss, a reduction other than "mean", weights, label smoothing, or an option that has
            no law.
    """
    if isinstance(loss, OutputLaw):
        return loss, 1.0
    name, width = type(loss).__name__, outputs.shape[-1]
    laws = {
        nn.MSELoss: (SquaredError(), 2 / width),
        nn.CrossEntropyLoss: (Categorical(), 1.0),
        nn.BCEWithLogitsLoss: (Bernoulli(), 1 / width),
        nn.PoissonNLLLoss: (Poisson(), 1 / width),
        nn.GaussianNLLLoss: (HeteroscedasticGaussian(), 2 / width),
    }
    if type(loss) not in laws:
        names = ", ".join(sorted(kind.__name__ for kind in laws))
        raise ValueError(f"law is a {name}; allowed: an output law or one of {names}")
    if loss.reduction != "mean":
        raise ValueError(f"{name} has reduction = {loss.reduction!r}; allowed: 'mean'")
    for option, allowed in _OPTIONS.items():
        value = getattr(loss, option, allowed)
        if isinstance(value, Tensor) or value != allowed:
            found = "a tensor" if isinstance(value, Tensor) else repr(value)
            raise ValueError(f"{name} has {option} = {found}; allowed: {allowed}")
    return laws[type(loss)]
