"""A small convolutional network for grey images of 28 x 28 pixels and the like."""

from __future__ import annotations

from torch import Tensor, nn

from learning_dynamics._internal.arguments import require_count, require_counts, require_input


class SmallCNN(nn.Module):
    """Two 3 x 3 convolutions of stride 2 with ReLU, then one linear layer; no normalization.

    After LeCun et al. (1998), with strides in the place of pooling. The dtype of its input must be that of its
    parameters. With the defaults and `size=28` it has 9,098 parameters.

    Args:
        num_classes: number of outputs, >= 1.
        in_channels: channels of the images, >= 1.
        size: height and width of the images in pixels, >= 4.
        width: channels after the first convolution; twice as many after the second. >= 1.

    Raises:
        ValueError: an argument is not as described.
    """

    def __init__(self, num_classes: int = 10, in_channels: int = 1, size: int = 28, width: int = 8) -> None:
        super().__init__()
        require_counts(num_classes=num_classes, in_channels=in_channels, width=width)
        require_count("size", size, least=4)
        quarter = -(-size // 4)  # each convolution halves the size, rounded up
        self.size = size
        self.first = nn.Conv2d(in_channels, width, 3, stride=2, padding=1)
        self.second = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.last = nn.Linear(2 * width * quarter**2, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits `(n, num_classes)`.

        Args:
            images: `(n, in_channels, size, size)`.

        Raises:
            ValueError: they are not of this shape, or not of the dtype of the parameters.
        """
        weight = self.first.weight
        require_input("images", images, weight, None, weight.shape[1], self.size, self.size, batch=False)
        hidden = self.second(self.first(images).relu()).relu()
        return self.last(hidden.flatten(1))
