"""A residual network of 18 layers for small images."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from learning_dynamics._internal.arguments import require_counts, require_input


class PreActivationBlock(nn.Module):
    r"""Normalization and ReLU before each of two 3 x 3 convolutions, and a way around them.

    .. math:: y = s(a) + W_2 * \phi(N_2(W_1 * a)), \qquad a = \phi(N_1(x))

    with :math:`s(a) = x` where the shapes agree, else a 1 x 1 convolution of :math:`a`.
    Source: He et al. (2016), Identity Mappings in Deep Residual Networks, fig. 4(e).

    Args:
        in_channels: channels of the input.
        channels: channels of the output.
        stride: of the first convolution and of the way around.
        activation: :math:`\phi`; ReLU in the source.
    """

    def __init__(
        self,
        in_channels: int,
        channels: int,
        stride: int,
        activation: Callable[[Tensor], Tensor] = torch.relu,
    ) -> None:
        super().__init__()
        self.activation = activation
        self.first_norm = nn.BatchNorm2d(in_channels)
        self.first = nn.Conv2d(in_channels, channels, 3, stride=stride, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.around = None
        if stride != 1 or in_channels != channels:
            self.around = nn.Conv2d(in_channels, channels, 1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return `(n, channels, height / stride, width / stride)` of `x (n, in_channels, height, width)`."""
        active = self.activation(self.first_norm(x))
        shortcut = x if self.around is None else self.around(active)
        return shortcut + self.second(self.activation(self.second_norm(self.first(active))))


class PreActivationResNet18(nn.Module):
    """The 18-layer residual network with pre-activation blocks, for images of 32 x 32 pixels and the like.

    Its first convolution has 3 x 3 pixels and no pooling follows, as is usual for CIFAR-10. About 11.2 million
    parameters with the defaults. The dtype of its input must be that of its parameters; in training mode a batch
    needs at least two images, because of batch normalization.

    Source: He et al. (2016), Identity Mappings in Deep Residual Networks.

    Args:
        num_classes: number of outputs, >= 1.
        in_channels: channels of the images, >= 1.
        width: channels of the first of the four stages, doubled from stage to stage; 64 in the source. >= 1.
        activation: between the layers; ReLU in the source.

    Raises:
        ValueError: an argument is not a positive integer.
    """

    def __init__(
        self,
        num_classes: int = 10,
        in_channels: int = 3,
        width: int = 64,
        activation: Callable[[Tensor], Tensor] = torch.relu,
    ) -> None:
        super().__init__()
        self.activation = activation
        require_counts(num_classes=num_classes, in_channels=in_channels, width=width)
        self.stem = nn.Conv2d(in_channels, width, 3, padding=1, bias=False)
        blocks, channels = [], width
        for stage in range(4):
            for block in range(2):
                stride = 2 if stage > 0 and block == 0 else 1
                blocks.append(PreActivationBlock(channels, width * 2**stage, stride, activation))
                channels = width * 2**stage
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.BatchNorm2d(channels)
        self.last = nn.Linear(channels, num_classes)

    def features(self, images: Tensor) -> Tensor:
        """Return what the last layer reads, `(n, 8 width)`.

        Args:
            images: `(n, in_channels, height, width)`.

        Raises:
            ValueError: they are not of this shape, or not of the dtype of the parameters.
        """
        weight = self.stem.weight
        require_input("images", images, weight, None, weight.shape[1], None, None, batch=False)
        return self.activation(self.norm(self.blocks(self.stem(images)))).mean((-2, -1))

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits `(n, num_classes)`.

        Args:
            images: `(n, in_channels, height, width)`.

        Raises:
            ValueError: see `features`.
        """
        return self.last(self.features(images))
