"""Convolution and batch normalization with the second derivatives that products need, and no others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_PRIVATE = (
    "_C._functorch.peek_interpreter_stack",
    "_C._will_engine_execute_node",
    "ops.aten.convolution_backward",
)
"""What a convolution needs of torch that torch does not promise to keep."""


def faster(module: nn.Module) -> dict[str, Callable[..., Tensor]]:
    """Return what takes the place of a module's methods, by name; the values are the same up to rounding.

    Args:
        module: any module; only torch's own convolutions and batch normalizations in eval mode are changed, and
            convolutions only where this version of torch has what they need.
    """
    if (
        type(module) in _BATCH_NORMS
        and not module.training
        and module.running_mean is not None
        and (module.weight is None) == (module.bias is None)
    ):
        return {"forward": partial(_normalize, module)}
    if (
        type(module) in _CONVOLUTIONS
        and module.padding_mode == "zeros"
        and module.padding not in ("same", "valid")
        and all(map(_offered, _PRIVATE))
    ):
        return {"_conv_forward": partial(_convolve, module)}
    return {}


def _offered(name: str) -> bool:
    """Whether torch has something of this name."""
    try:
        attrgetter(name)(torch)
    except AttributeError:
        return False
    return True


def _normalize(module: Any, x: Tensor) -> Tensor:
    """Return batch normalization by the running moments, as an affine map of each channel.

    Torch's own second derivative of it goes over the data ten times, which takes longer than the convolutions.
    """
    module._check_input_dim(x)
    shape = (-1, *(1,) * (x.ndim - 2))
    centred = x - module.running_mean.reshape(shape)
    scale = (module.running_var + module.eps).rsqrt()
    if module.weight is None:
        return centred * scale.reshape(shape)
    return (centred * (module.weight * scale).reshape(shape)).add_(module.bias.reshape(shape))


class _Settings(NamedTuple):
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        zeros = [0] * len(self.stride)
        return torch.convolution(
            x, weight, bias, self.stride, self.padding, self.dilation, False, zeros, self.groups
        )

    def backward(self, g: Tensor, x: Tensor, weight: Tensor, mask: list[bool]) -> tuple[Any, ...]:
        """Return the derivatives of `sum(g * forward(x, weight, bias))` that the mask asks for, else None."""
        zeros = [0] * len(self.stride)
        return torch.ops.aten.convolution_backward(
            g,
            x,
            weight,
            [len(weight)],
            self.stride,
            self.padding,
            self.dilation,
            False,
            zeros,
            self.groups,
            mask,
        )


def _convolve(module: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return a module's convolution with the derivatives below, on a CPU, where they have been measured."""
    plain = not torch.is_grad_enabled() or _transformed()
    if plain or x.ndim != weight.ndim or x.device.type != "cpu":
        return type(module)._conv_forward(module, x, weight, bias)
    settings = _Settings(module.stride, module.padding, module.dilation, module.groups)
    return _Convolution.apply(x, weight, bias, settings)


def _transformed() -> bool:
    """Whether a transform of torch.func is at work, whose own rules for convolutions are then used."""
    return torch._C._functorch.peek_interpreter_stack() is not None


class _Convolution(torch.autograd.Function):
    """A convolution whose derivative is `_Pull`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, settings: _Settings) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.settings = settings
        return settings.forward(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        x, weight = ctx.saved_tensors
        mask = list(ctx.needs_input_grad[:3])
        if _transformed() or not torch.is_grad_enabled():
            return (*ctx.settings.backward(g, x, weight, mask), None)
        return (*_Pull.apply(g, x, weight, ctx.settings, mask), None)


class _Pull(torch.autograd.Function):
    """The derivatives of a convolution along g.

    Torch's own second derivative makes those with respect to x and the weight even where only the one with
    respect to g is asked for, as in a product with a Jacobian, and makes them slowly. Along g = 0, where a
    linearization makes its graph, there is nothing to compute.
    """

    @staticmethod
    def forward(
        ctx: Any, g: Tensor, x: Tensor, weight: Tensor, settings: _Settings, mask: list[bool]
    ) -> tuple[Any, ...]:
        ctx.save_for_backward(g, x, weight)
        ctx.settings = settings
        ctx.set_materialize_grads(False)
        if torch.count_nonzero(g):
            return settings.backward(g, x, weight, mask)
        zeros = (torch.zeros_like(x), torch.zeros_like(weight), weight.new_zeros(len(weight)))
        return tuple(zero if wanted else None for zero, wanted in zip(zeros, mask, strict=True))

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, to_x: Tensor | None, to_weight: Tensor | None, to_bias: Tensor | None
    ) -> tuple[Any, ...]:
        g, x, weight = ctx.saved_tensors
        of_g, of_x, of_weight = (
            node is not None and torch._C._will_engine_execute_node(node)
            for node, _ in ctx.next_functions[:3]
        )
        found: list[Tensor | None] = [None, None, None]
        if of_g:
            terms = []
            if to_weight is not None:
                terms.append(ctx.settings.forward(x, to_weight, to_bias))
            elif to_bias is not None:
                terms.append(to_bias.reshape(-1, *(1,) * (x.ndim - 2)).expand_as(g))
            if to_x is not None:
                terms.append(ctx.settings.forward(to_x, weight))
            found[0] = sum(terms[1:], terms[0])
        if of_x and to_weight is not None:
            found[1] = ctx.settings.backward(g, x, to_weight, [True, False, False])[0]
        if of_weight and to_x is not None:
            found[2] = ctx.settings.backward(g, to_x, weight, [False, True, False])[1]
        return (*found, None, None)
