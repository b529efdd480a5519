"""What every update rule answers to."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

State = TypeVar("State")


class Rule(Protocol[State]):
    """An update rule as a pure function: parameters, gradient and state in, new parameters and state out.

    Parameters have the shape `(*batch, d)`; the runs of a batch never see each other. A rule adds an update
    to `theta`, keeps its dtype and device, and changes no argument in place.
    """

    def start(self, theta: Tensor) -> State:
        """Return the state before the first step from `theta (*batch, d)`."""
        ...

    def step(self, theta: Tensor, gradient: Tensor, state: State) -> tuple[Tensor, State]:
        """Return the parameters `(*batch, d)` and the state after one step.

        Args:
            theta: `(*batch, d)`, the parameters.
            gradient: `(*batch, d)`, taken at `theta`.
            state: what `start` or the last step returned.
        """
        ...


class LossRule(Protocol[State]):
    """An update rule that reads the loss too: a `Rule` whose step takes the loss at `theta` as well.

    `needs_loss` is how `ensembles.iterate` tells the two apart.
    """

    needs_loss: bool

    def start(self, theta: Tensor) -> State:
        """Return the state before the first step from `theta (*batch, d)`."""
        ...

    def step(self, theta: Tensor, gradient: Tensor, state: State, loss: Tensor) -> tuple[Tensor, State]:
        """Return the parameters `(*batch, d)` and the state after one step.

        Args:
            theta: `(*batch, d)`, the parameters.
            gradient: `(*batch, d)`, taken at `theta`.
            state: what `start` or the last step returned.
            loss: `(*batch)`, taken at `theta`.
        """
        ...


def reads_loss(rule: Rule[Any] | LossRule[Any]) -> bool:
    """Return whether the rule's step takes the loss.

    Raises:
        ValueError: it is no rule.
    """
    if isinstance(rule, type) or not (hasattr(rule, "start") and hasattr(rule, "step")):
        kind = f"the class {rule.__name__}" if isinstance(rule, type) else f"a {type(rule).__name__}"
        raise ValueError(f"rule = {kind}; allowed: a rule of learning_dynamics.rules, such as rules.Adam()")
    return bool(getattr(rule, "needs_loss", False))


def require_parameters(theta: Tensor) -> None:
    """Raise unless parameters are real floating point `(*batch, d)`."""
    if not theta.is_floating_point() or theta.ndim == 0 or theta.shape[-1] == 0:
        raise ValueError(
            f"theta has dtype {theta.dtype} and shape {tuple(theta.shape)}; allowed: real floating point, (*batch, d)"
        )


def require_step(theta: Tensor, gradient: Tensor) -> None:
    """Raise unless parameters and gradient have one shape `(*batch, d)`, one floating point dtype and one device.

    It reads no number, so that a step waits for no device: a NaN passes on, and the run shows as diverged.
    """
    require_parameters(theta)
    if gradient.shape != theta.shape or gradient.dtype != theta.dtype or gradient.device != theta.device:
        raise ValueError(
            f"gradient is {gradient.dtype} {tuple(gradient.shape)} on {gradient.device}; "
            f"allowed: as theta, {theta.dtype} {tuple(theta.shape)} on {theta.device}"
        )


def overflow_as_nan(square: Tensor) -> Tensor:
    """Return squares of gradients with NaN where they are infinite: the run then shows as diverged.

    Left infinite, the square of a finite gradient (above 1.8e19 in float32) would make a step of size 0, for good.

    Args:
        square: `(*batch, d)` or `(*batch, 1)`.
    """
    return torch.where(square.isinf(), torch.nan, square)


def squared_norm(gradient: Tensor) -> Tensor:
    """Return the squared norm `(*batch, 1)` of `gradient (*batch, d)`, NaN where it overflows."""
    return overflow_as_nan(gradient.square().sum(-1, keepdim=True))


def as_column(loss: Tensor, theta: Tensor) -> Tensor:
    """Return the loss `(*batch)` as `(*batch, 1)`, in the dtype of `theta (*batch, d)`.

    Raises:
        ValueError: there is not one real loss for each run.
    """
    if loss.shape != theta.shape[:-1]:
        raise ValueError(
            f"loss has shape {tuple(loss.shape)}; allowed: one per run, {tuple(theta.shape[:-1])}"
        )
    if loss.is_complex():
        raise ValueError(f"loss has dtype {loss.dtype}; allowed: real numbers")
    return loss[..., None].to(theta)
