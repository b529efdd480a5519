"""LeNet with softplus, for grey images of 16 x 16 pixels and the like."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from learning_dynamics._internal.arguments import require_count, require_counts, require_input
from learning_dynamics.models.mlp import softplus


class LeNet(nn.Module):
    r"""Two 5 x 5 convolutions, each followed by softplus and 2 x 2 pooling, then two affine layers.

    With m for `width_multiplier`, the convolutions have 8 m channels and the hidden affine layer 128 m units. On
    16 x 16 images with ten outputs it has 4,258, 13,754 and 48,490 parameters for m = 1, 2, 4. The source does not
    mention pooling; these counts are the only ones that fit what it says about vanishing eigenvalues. The pooling is
    an average, so that the network is smooth. Weights and biases start as torch's layers start.

    Source: Kawaguchi, Zhang and Deng (2022), appendix B.1, after LeCun et al. (1998).

    Args:
        width_multiplier: m, >= 1.
        num_classes: number of outputs, >= 1.
        size: height and width of the images in pixels, >= 16.
        sharpness: of the softplus, > 0.
        generator: source of the start; torch's global one if left out.
        dtype: floating point type of the parameters; the input must have it too.

    Raises:
        ValueError: an argument is not as described.
    """

    def __init__(
        self,
        width_multiplier: int = 1,
        *,
        num_classes: int = 10,
        size: int = 16,
        sharpness: float = 100.0,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        require_counts(width_multiplier=width_multiplier, num_classes=num_classes)
        require_count("size", size, least=16)
        channels, hidden = 8 * width_multiplier, 128 * width_multiplier
        left = ((size - 4) // 2 - 4) // 2  # pixels a side after both poolings
        self.size, self.activation = size, softplus(sharpness)
        self.first = nn.Conv2d(1, channels, 5, dtype=dtype)
        self.second = nn.Conv2d(channels, channels, 5, dtype=dtype)
        self.hidden = nn.Linear(channels * left**2, hidden, dtype=dtype)
        self.last = nn.Linear(hidden, num_classes, dtype=dtype)
        if generator is not None:
            self._draw(generator)

    @torch.no_grad()
    def _draw(self, generator: torch.Generator) -> None:
        """Redraw weights and biases as torch's layers do: uniform, within one over the root of the inputs."""
        for layer in (self.first, self.second, self.hidden, self.last):
            bound = layer.weight[0].numel() ** -0.5
            for parameter in layer.parameters():  # weight, then bias
                drawn = torch.rand(parameter.shape, generator=generator, dtype=parameter.dtype)
                parameter.copy_(bound * (2 * drawn - 1))

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits `(n, num_classes)`.

        Args:
            images: `(n, 1, size, size)`.

        Raises:
            ValueError: they are not of this shape, or not of the dtype of the parameters.
        """
        require_input("images", images, self.first.weight, None, 1, self.size, self.size, batch=False)
        x = functional.avg_pool2d(self.activation(self.first(images)), 2)
        x = functional.avg_pool2d(self.activation(self.second(x)), 2)
        return self.last(self.activation(self.hidden(x.flatten(1))))
