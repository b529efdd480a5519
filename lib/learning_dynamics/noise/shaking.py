r"""Gradients at shaken weights, all layers at a time or one: for any module and optimizer, and for ensembles.

    with shaking.shaken(model, 0.05, layers="one", generator=generator):
        loss = criterion(model(x), y)
        loss.backward()
    optimizer.step()

asks for the gradient at :math:`\theta+\sigma\epsilon` and steps from :math:`\theta`. Source: Orvieto (2023), table 6
(GRASP and L-GRASP); the size :math:`\sigma\sqrt D` of one layer's noise is that of its section 6.4.5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

from learning_dynamics._internal.arguments import (
    require_broadcast,
    require_choice,
    require_count,
    require_generator,
    require_number,
)

LAYERS = ("all", "one")


def layers_of(module: nn.Module) -> list[list[nn.Parameter]]:
    """Return the trained parameters of a module, one list for each submodule that holds some by itself.

    A linear or convolutional layer with its bias is one layer, and so is a normalization with its scale and shift. A
    parameter that stands in two places belongs to the first; one that requires no gradient belongs to none.

    Args:
        module: any module.

    Returns:
        D lists of parameters, in the order of `module.modules()`.

    Raises:
        ValueError: there is nothing to train.
    """
    seen: set[int] = set()
    layers = []
    for part in module.modules():
        own = [p for p in part.parameters(recurse=False) if p.requires_grad and id(p) not in seen]
        seen.update(map(id, own))
        if own:
            layers.append(own)
    if not layers:
        raise ValueError("module has nothing to train; allowed: a parameter that requires a gradient")
    return layers


@contextmanager
def shaken(
    module: nn.Module, sigma: float, *, generator: torch.Generator, layers: Literal["all", "one"] = "all"
) -> Iterator[None]:
    r"""Shake the weights of a module while the block runs, and put them back exactly, also after an exception.

    With `layers="all"` every trained parameter gets independent normal noise of standard deviation sigma. With
    `layers="one"` one of the D layers of `layers_of` is drawn, and gets noise of standard deviation
    :math:`\sigma\sqrt D`: to second order in sigma the mean loss is the same, and no product of the noises of two
    layers appears.

    Forward and backward pass belong inside the block; a backward pass after it raises torch's error about a tensor
    that was modified in place. The optimizer's step belongs after the block, for inside it would be undone. For an
    optimizer with a closure the block stands inside the closure.

    Args:
        module: its trained parameters are shaken in place; buffers are not.
        sigma: standard deviation, >= 0.
        generator: source of the noise, on the device of the parameters.
        layers: "all" or "one".

    Returns:
        a context manager.

    Raises:
        ValueError: an argument is not as described.
    """
    require_number("sigma", sigma, least=0)
    require_choice("layers", layers, LAYERS)
    require_generator(generator)
    chosen = layers_of(module)
    std = float(sigma)
    if layers == "one":
        std *= math.sqrt(len(chosen))
        chosen = [chosen[_drawn(len(chosen), generator)]]
    parameters = [parameter for layer in chosen for parameter in layer]
    resting = [parameter.detach().clone() for parameter in parameters]
    try:
        with torch.no_grad():
            for p in parameters:
                noise = torch.randn(p.shape, generator=generator, dtype=p.dtype, device=p.device)
                p.add_(noise, alpha=std)
        yield
    finally:
        with torch.no_grad():
            for parameter, value in zip(parameters, resting, strict=True):
                parameter.copy_(value)


def shaken_gradient(
    gradient: Callable[[Tensor, int], Tensor],
    sigma: float | Tensor,
    *,
    generator: torch.Generator,
    blocks: Sequence[int] | None = None,
) -> Callable[[Tensor, int], Tensor]:
    r"""Return a gradient that is asked at shaken parameters, for `ensembles.iterate`.

    Args:
        gradient: `gradient(theta, k) -> (*batch, d)`.
        sigma: standard deviation >= 0, a number or a tensor `(*batch, 1)`.
        generator: source of the noise, on the device of the parameters; it moves on with every call.
        blocks: sizes of the D layers, which add up to d: in every call every run shakes one of them, drawn by
            itself, by :math:`\sigma\sqrt D`. None: all parameters are shaken by sigma.

    Returns:
        a function of the same kind as `gradient`.

    Raises:
        ValueError: an argument is not as described; the shapes, when it is called.
    """
    if isinstance(sigma, Tensor):
        if sigma.is_complex() or not bool((sigma >= 0).all() and sigma.isfinite().all()):
            raise ValueError(
                "sigma has entries that are negative, complex or not finite; allowed: numbers >= 0"
            )
    else:
        require_number("sigma", sigma, least=0)
    require_generator(generator)
    sizes = None if blocks is None else list(blocks)
    for size in sizes or ():
        require_count("blocks", size)

    def at_shaken(theta: Tensor, k: int) -> Tensor:
        if isinstance(sigma, Tensor):
            require_broadcast("sigma", sigma, theta.shape)
        noise = torch.randn(theta.shape, generator=generator, dtype=theta.dtype, device=theta.device)
        if sizes is not None:
            if sum(sizes) != theta.shape[-1] or not sizes:
                raise ValueError(f"blocks = {sizes}; allowed: sizes that add up to {theta.shape[-1]}")
            layer = torch.arange(len(sizes), device=theta.device).repeat_interleave(
                torch.tensor(sizes, device=theta.device)
            )
            shape = (*theta.shape[:-1], 1)
            drawn = torch.randint(len(sizes), shape, generator=generator, device=theta.device)
            noise = noise * (drawn == layer) * math.sqrt(len(sizes))
        return gradient(theta + sigma * noise, k)

    return at_shaken


def _drawn(count: int, generator: torch.Generator) -> int:
    return int(torch.randint(count, (), generator=generator, device=generator.device))
