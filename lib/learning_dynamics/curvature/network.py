"""A model as a function of one flat parameter vector, which is how every operator here sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from learning_dynamics._internal.arguments import require_finite

Formula = tuple[Callable[[Tensor, Tensor], Tensor], Tensor]
"""A pair `(f, theta)`: `f(theta (d), x) -> (d_y)` for one input x, and the parameters `(d)` to stand at."""

Model = nn.Module | Formula
"""A `torch.nn.Module` that maps inputs `(n, ...)` to outputs `(n, d_y)`, or a formula."""

Parameters = Iterable[Tensor | str]
"""Some parameters of a module: the tensors themselves, or their names as in `named_parameters()`."""

_NORMS = (nn.modules.batchnorm._BatchNorm, nn.modules.instancenorm._InstanceNorm)


class Network(NamedTuple):
    """A model at one point of its parameter space.

    Attributes:
        theta: `(d)`, a copy of the parameters as they were when the network was made.
        outputs: `outputs(theta (d), inputs (n, ...)) -> (n, d_y)`.
    """

    theta: Tensor
    outputs: Callable[[Tensor, Tensor], Tensor]


def as_network(model: Model, parameters: Parameters | None = None) -> Network:
    """Return a model as a function of the flat vector of its parameters.

    Args:
        model: a module, or a pair `(f, theta)`.
        parameters: for a module, the parameters to differentiate, in this order; default: all that require
            a gradient, in the order of `model.parameters()`. The others are constants.

    Raises:
        ValueError: the model is neither; it has no such parameter; the parameters are not finite or not of one
            floating dtype on one device; a module draws random numbers or mixes the samples of a batch
            (batch normalization or dropout in training mode).
    """
    if isinstance(model, nn.Module):
        return _from_module(model, parameters)
    if not (isinstance(model, tuple) and len(model) == 2 and callable(model[0])):
        raise ValueError(
            f"model is a {type(model).__name__}; allowed: a torch.nn.Module or a pair (f, theta)"
        )
    function, theta = model
    if parameters is not None:
        raise ValueError("parameters is given for a formula; allowed: None (f's theta holds all of them)")
    if not isinstance(theta, Tensor) or theta.ndim != 1 or not theta.is_floating_point() or not theta.numel():
        raise ValueError(
            f"theta = {type(theta).__name__}; allowed for a formula: a floating point tensor (d) with d >= 1"
        )
    require_finite("theta", theta)
    return Network(theta.detach().clone(), _checked(vmap(function, in_dims=(None, 0))))


def _checked(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the function with outputs `(n)` turned into `(n, 1)` and others than `(n, d_y)` refused."""

    def outputs(theta: Tensor, inputs: Tensor) -> Tensor:
        found = function(theta, inputs)
        if not isinstance(found, Tensor):
            raise ValueError(f"model returns a {type(found).__name__}; allowed: a tensor (n, d_y)")
        if found.ndim not in (1, 2) or len(found) != len(inputs) or found.dtype != theta.dtype:
            raise ValueError(
                f"outputs of the model are {found.dtype} of shape {tuple(found.shape)}; "
                f"allowed: {theta.dtype} of shape (n = {len(inputs)}, d_y)"
            )
        return found[:, None] if found.ndim == 1 else found

    return outputs


def _from_module(model: nn.Module, parameters: Parameters | None) -> Network:
    _require_fixed_function(model)
    chosen = _choose(model, parameters)
    kinds = {(p.dtype, p.device) for p in chosen.values()}
    if len(kinds) > 1 or not next(iter(kinds))[0].is_floating_point:
        raise ValueError(
            f"parameters have dtypes and devices {kinds}; allowed: one floating dtype, one device"
        )
    for name, parameter in chosen.items():
        require_finite(f"parameter {name!r}", parameter)
    names = {id(p): name for name, p in model.named_parameters()}
    places, constants = {}, {}  # where the model keeps its tensors; a shared one has several places
    for prefix, module in model.named_modules():
        for key, tensor in (*module._parameters.items(), *module._buffers.items()):
            if tensor is not None:
                place, own = f"{prefix}.{key}".lstrip("."), names.get(id(tensor))
                if own in chosen:
                    places[place] = own
                else:
                    constants[place] = tensor.detach().clone()
    shapes = [p.shape for p in chosen.values()]
    sizes = [p.numel() for p in chosen.values()]
    theta = torch.cat([p.detach().reshape(-1) for p in chosen.values()])

    def outputs(theta: Tensor, inputs: Tensor) -> Tensor:
        pieces = zip(chosen, theta.split(sizes), shapes, strict=True)
        values = {name: piece.reshape(shape) for name, piece, shape in pieces}
        weights = constants | {place: values[name] for place, name in places.items()}
        with sdpa_kernel(SDPBackend.MATH):  # the fused attention kernels have no second derivative
            # tied here and not by torch, which leaves its own tensors behind in a module that occurs twice
            return functional_call(model, weights, (inputs,), tie_weights=False)

    return Network(theta, _checked(outputs))


def _choose(model: nn.Module, parameters: Parameters | None) -> dict[str, Tensor]:
    """Return the parameters to differentiate by name, in the order asked for."""
    named: dict[str, Tensor] = dict(model.named_parameters())
    chosen: dict[str, Tensor]
    if parameters is None:
        chosen = {name: p for name, p in named.items() if p.requires_grad}
        if not chosen:
            raise ValueError("model has no parameter that requires a gradient; allowed: at least one")
        return chosen
    names = {id(p): name for name, p in named.items()}
    chosen = {}
    for entry in [parameters] if isinstance(parameters, str) else parameters:
        name = entry if isinstance(entry, str) else names.get(id(entry))
        if name not in named or name in chosen or not named[name].requires_grad:
            what = repr(entry) if isinstance(entry, str) else f"a tensor of shape {tuple(entry.shape)}"
            raise ValueError(
                f"parameters holds {what}; allowed: parameters of the model that require a gradient, each once"
            )
        chosen[name] = named[name]
    if not chosen:
        raise ValueError("parameters is empty; allowed: at least one parameter")
    return chosen


def _require_fixed_function(model: nn.Module) -> None:
    """Refuse modules whose output for one sample changes from call to call or depends on the other samples."""
    for name, module in model.named_modules():
        if not module.training:
            continue
        mixes = isinstance(module, _NORMS) and (
            isinstance(module, nn.modules.batchnorm._BatchNorm) or module.track_running_stats
        )
        rate = getattr(module, "p", 0.0) if isinstance(module, nn.modules.dropout._DropoutNd) else 0.0
        rate = rate or (module.dropout if isinstance(module, nn.RNNBase | nn.MultiheadAttention) else 0.0)
        if mixes or rate:
            raise ValueError(
                f"model has {type(module).__name__} {name!r} in training mode; allowed: model.eval(), where each "
                "sample has one fixed output"
            )
