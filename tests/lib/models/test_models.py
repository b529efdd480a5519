"""The networks: shapes, sizes, gradients, and a hand-written twin."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from learning_dynamics import models


@pytest.mark.parametrize(
    ("network", "shape"),
    [
        (models.SmallCNN(), (3, 1, 28, 28)),
        (models.SmallCNN(num_classes=4, in_channels=3, size=15, width=5), (3, 3, 15, 15)),
        (models.PreActivationResNet18(width=4), (3, 3, 32, 32)),
        (models.PreActivationResNet18(num_classes=7, in_channels=1, width=3), (3, 1, 28, 28)),
    ],
)
def test_logits_have_one_column_a_class_and_every_parameter_gets_a_gradient(network, shape) -> None:
    logits = network(torch.randn(shape, generator=torch.Generator().manual_seed(0)))
    assert logits.shape == (shape[0], network.last.out_features)
    logits.square().sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


def test_parameter_counts() -> None:
    def count(network: torch.nn.Module) -> int:
        return sum(parameter.numel() for parameter in network.parameters())

    assert count(models.SmallCNN()) == (9 * 8 + 8) + (9 * 8 * 16 + 16) + (16 * 49 * 10 + 10) == 9098
    assert 11_100_000 < count(models.PreActivationResNet18()) < 11_300_000  # 11 million in the source


def test_resnet_has_eighteen_layers_with_weights_besides_the_ways_around() -> None:
    network = models.PreActivationResNet18(width=2)
    layers = [
        name
        for name, module in network.named_modules()
        if isinstance(module, torch.nn.Conv2d | torch.nn.Linear) and "around" not in name
    ]
    assert len(layers) == 18


def test_small_cnn_against_its_formula() -> None:
    network = models.SmallCNN().double()
    images = torch.rand(5, 1, 28, 28, dtype=torch.float64)
    hidden = functional.conv2d(images, network.first.weight, network.first.bias, 2, 1).clamp(min=0)
    hidden = functional.conv2d(hidden, network.second.weight, network.second.bias, 2, 1).clamp(min=0)
    expected = hidden.reshape(5, -1) @ network.last.weight.T + network.last.bias
    assert network(images).dtype == torch.float64
    torch.testing.assert_close(network(images), expected)


def test_block_without_branch_is_the_identity() -> None:
    block = models.resnet.PreActivationBlock(4, 4, 1).eval()
    torch.nn.init.zeros_(block.second.weight)
    x = torch.randn(2, 4, 8, 8)
    torch.testing.assert_close(block(x), x)
    strided = models.resnet.PreActivationBlock(4, 8, 2).eval()
    assert strided(x).shape == (2, 8, 4, 4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: models.SmallCNN(size=3), "size = 3"),
        (lambda: models.SmallCNN(num_classes=0), "num_classes = 0"),
        (lambda: models.SmallCNN(width=True), "width = True"),
        (lambda: models.PreActivationResNet18(in_channels=2.0), "in_channels = 2.0"),
    ],
)
def test_wrong_arguments_are_named(make, message) -> None:
    with pytest.raises(ValueError, match=message):
        make()
