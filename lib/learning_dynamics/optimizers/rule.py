"""What every update rule answers to."""

from __future__ import annotations

from typing import Protocol, TypeVar

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
        """Return `theta` and the state after one step with the gradient `(*batch, d)` taken at `theta`."""
        ...
