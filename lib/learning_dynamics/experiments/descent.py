"""The plain loop: one network, one torch optimizer, one batch after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy


def descend(
    network: nn.Module, optimizer: torch.optim.Optimizer, batches: Iterable[tuple[Tensor, Tensor]]
) -> Iterator[Tensor]:
    """Train a network in place on the mean cross-entropy, and yield the loss of each batch after its step.

    It ends with the batches, or before a step whose loss is not finite. No batch is taken ahead.

    Args:
        network: maps inputs `(b, ...)` to logits `(b, classes)`.
        optimizer: of the network's parameters: any of torch or of `learning_dynamics.optimizers` that takes the loss.
            One whose `needs_loss` is true is called as `step(loss=...)`.
        batches: inputs `(b, ...)` and classes `(b,)`, int64.

    Returns:
        the losses before the steps, `()` each.
    """
    takes_loss = getattr(optimizer, "needs_loss", False)
    for inputs, targets in batches:
        loss = cross_entropy(network(inputs), targets)
        if not torch.isfinite(loss):
            return
        optimizer.zero_grad()
        loss.backward()
        if takes_loss:
            optimizer.step(loss=loss)  # type: ignore[call-overload]  # ours take it, torch's do not
        else:
            optimizer.step()
        yield loss.detach()
