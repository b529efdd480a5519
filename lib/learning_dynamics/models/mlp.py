"""A fully connected network with a smooth stand-in for ReLU."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from learning_dynamics._internal.arguments import require_input, require_number


def softplus(sharpness: float) -> nn.Softplus:
    r"""Return :math:`\phi(q) = \ln(1 + e^{sq}) / s`, within :math:`\ln 2 / s` of ReLU, finite in float32 for any q.

    Beyond :math:`sq = 40` the identity takes over, where the two differ by less than one rounding error of float64.

    Raises:
        ValueError: the sharpness s is not a positive finite number.
    """
    require_number("sharpness", sharpness, above=0)
    return nn.Softplus(beta=float(sharpness), threshold=40.0)


class MLP(nn.Module):
    r"""Affine layers with softplus of a given sharpness between them; the last layer is affine.

    Weights are independent and normal with mean zero and standard deviation `weight_std`, biases start at zero.
    With three hidden layers of 300 units, `weight_std` = 300^(-1/2) and sharpness 100 this is the network of
    Kawaguchi, Zhang and Deng (2022), appendix B.1, which does not say whether it has biases.

    Args:
        sizes: width of the input, of each hidden layer and of the output, at least two integers >= 1.
        sharpness: of the softplus, > 0.
        weight_std: standard deviation of every weight, >= 0; None: one over the square root of a layer's inputs.
        bias: whether the layers have biases.
        generator: source of the weights.
        dtype: floating point type of the parameters; the input must have it too.

    Raises:
        ValueError: an argument is not as described.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        *,
        sharpness: float = 100.0,
        weight_std: float | None = None,
        bias: bool = True,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        sizes = tuple(sizes)
        if len(sizes) < 2 or any(isinstance(m, bool) or not isinstance(m, int) or m < 1 for m in sizes):
            raise ValueError(f"sizes = {sizes!r}; allowed: at least two integers >= 1")
        if weight_std is not None:
            require_number("weight_std", weight_std, least=0)
        self.activation, self.width = softplus(sharpness), sizes[0]
        layers = [nn.Linear(fan_in, fan_out, bias=bias, dtype=dtype) for fan_in, fan_out in pairwise(sizes)]
        self.layers = nn.ModuleList(layers)
        with torch.no_grad():
            for layer in layers:
                std = layer.in_features**-0.5 if weight_std is None else weight_std
                layer.weight.copy_(std * torch.randn(layer.weight.shape, generator=generator, dtype=dtype))
                if bias:
                    layer.bias.zero_()

    @property
    def last(self) -> nn.Linear:
        """The output layer, in whose parameters the network is linear."""
        last = self.layers[-1]
        assert isinstance(last, nn.Linear)
        return last

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs `(n, sizes[-1])`.

        Args:
            x: `(n, sizes[0])`.

        Raises:
            ValueError: the last axis has another size, or the dtype is not that of the parameters.
        """
        require_input("x", x, self.last.weight, self.width)
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)
