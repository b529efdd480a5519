"""The plain loop against one written with torch.autograd."""

from __future__ import annotations

import itertools

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from learning_dynamics import optimizers
from learning_dynamics.experiments.descent import descend


def made(seed: int = 0) -> tuple[nn.Linear, list[tuple[torch.Tensor, torch.Tensor]]]:
    source = torch.Generator().manual_seed(seed)
    network = nn.Linear(3, 4)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(generator=source)
    batches = [
        (torch.randn(5, 3, generator=source), torch.randint(4, (5,), generator=source)) for _ in range(4)
    ]
    return network, batches


def test_every_step_is_that_of_autograd() -> None:
    (network, batches), (twin, _) = made(), made()
    momentum = [torch.zeros_like(parameter) for parameter in twin.parameters()]
    optimizer = torch.optim.SGD(network.parameters(), 0.3, momentum=0.8)
    for (x, y), loss in zip(batches, descend(network, optimizer, batches), strict=True):
        value = cross_entropy(twin(x), y)
        gradients = torch.autograd.grad(value, list(twin.parameters()))
        with torch.no_grad():
            for parameter, buffer, gradient in zip(twin.parameters(), momentum, gradients, strict=True):
                buffer.mul_(0.8).add_(gradient)
                parameter -= 0.3 * buffer
        torch.testing.assert_close(loss, value.detach())
        for parameter, other in zip(network.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(parameter, other)
        assert not loss.requires_grad


def test_an_optimizer_that_reads_the_loss_gets_it_and_no_batch_is_taken_ahead() -> None:
    network, batches = made()
    taken = []

    def source():
        for number, batch in enumerate(batches):
            taken.append(number)
            yield batch

    optimizer = optimizers.NGN(network.parameters(), 2.0)
    losses = list(itertools.islice(descend(network, optimizer, source()), 2))
    assert taken == [0, 1] and losses[0].isfinite() and optimizer.param_groups[0]["step_size"] < 2.0


def test_it_stops_before_a_loss_that_is_not_finite() -> None:
    network, batches = made()
    batches[2] = (batches[2][0] * torch.inf, batches[2][1])
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    assert len(list(descend(network, optimizer, batches))) == 2
    assert all(parameter.isfinite().all() for parameter in network.parameters())
