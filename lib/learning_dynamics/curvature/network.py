"""A model as a function of one flat parameter vector, which is how every operator here sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import disable_saved_tensors_hooks
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from learning_dynamics._internal.arguments import require_finite
from learning_dynamics.curvature.layers import faster

Formula = tuple[Callable[[Tensor, Tensor], Tensor], Tensor]
"""A pair `(f, theta)`: `f(theta (d), x) -> (d_y)` for one input x, and the parameters `(d)` to stand at."""

Model = nn.Module | Formula
"""A `torch.nn.Module` that maps inputs `(n, ...)` to outputs `(n, ..., d_y)`, or a formula."""

Inputs = Tensor | Mapping[str, Tensor]
"""Inputs `(n, ...)`, or the arguments of a module's `forward` by name, each `(n, ...)`."""

Parameters = Iterable[Tensor | str]
"""Some parameters of a module: the tensors themselves, or their names as in `named_parameters()`."""

_DTYPES = (torch.float32, torch.float64)
_RECOMPUTES = (
    "model recomputes its activations (torch.utils.checkpoint), with other weights than the product's"
)
_NORMS = (nn.modules.batchnorm._BatchNorm, nn.modules.instancenorm._InstanceNorm)


class Network(NamedTuple):
    """A model at one point of its parameter space.

    Attributes:
        theta: `(d)`, a copy of the parameters as they were when the network was made.
        outputs: `outputs(theta (d), inputs (n, ...)) -> (n, ..., d_y)`.
        blocks: where each parameter lies in theta, by its name.
        one_by_one: whether products with many vectors are faster one after the other, as for convolutions on a CPU.
        of_blocks: the same outputs from the list of the parameters, each flat.
    """

    theta: Tensor
    outputs: Callable[[Tensor, Inputs], Tensor]
    blocks: dict[str, slice]
    of_blocks: Callable[[list[Tensor], Inputs], Tensor]
    one_by_one: bool = False


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
    if not isinstance(theta, Tensor) or theta.ndim != 1 or theta.dtype not in _DTYPES or not theta.numel():
        raise ValueError(
            f"theta = {type(theta).__name__}; allowed for a formula: a float32 or float64 tensor (d) with d >= 1"
        )
    require_finite("theta", theta)
    outputs = _checked(vmap(function, in_dims=(None, 0)))
    blocks = {"theta": slice(0, len(theta))}
    return Network(theta.detach().clone(), outputs, blocks, lambda pieces, x: outputs(pieces[0], x))


@contextmanager
def plainly(device: torch.device) -> Iterator[None]:
    """Compute in the tensors' own dtypes and with derivatives, whatever autocast or inference mode is around."""
    with torch.inference_mode(False), torch.autocast(device.type, enabled=False):
        yield


def _checked(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Tensor]:
    """Return the function with outputs `(n)` turned into `(n, 1)` and others than `(n, ..., d_y)` refused."""

    def outputs(weights: Tensor | list[Tensor], inputs: Inputs) -> Tensor:
        theta = weights if isinstance(weights, Tensor) else weights[0]
        with torch.autocast(theta.device.type, enabled=False):
            found = function(weights, inputs)
        if isinstance(found, Mapping):
            found = _logits(found)
        if not isinstance(found, Tensor):
            raise ValueError(
                f"model returns a {type(found).__name__}; allowed: a tensor (n, ..., d_y) or a dict"
            )
        n = count(inputs)
        if found.ndim == 0 or len(found) != n or found.dtype != theta.dtype or not found.numel():
            raise ValueError(
                f"outputs of the model are {found.dtype} of shape {tuple(found.shape)}; "
                f"allowed: {theta.dtype} of shape (n = {n}, ..., d_y)"
            )
        return found[:, None] if found.ndim == 1 else found

    return outputs


def count(inputs: Inputs) -> int:
    """Return the number n of samples in one batch of inputs."""
    return len(inputs) if isinstance(inputs, Tensor) else len(next(iter(inputs.values())))


def _logits(found: Mapping[str, Any]) -> object:
    """Return the entry of a dict of outputs that is the output: `logits`, or the only one."""
    if "logits" in found:
        return found["logits"]
    if len(found) == 1:
        return next(iter(found.values()))
    raise ValueError(f"model returns a dict with the keys {sorted(found)}; allowed: 'logits', or one key")


def _from_module(model: nn.Module, parameters: Parameters | None) -> Network:
    _require_plain_module(model)
    _require_fixed_function(model)
    chosen = _choose(model, parameters)
    kinds = {(p.dtype, p.device) for p in chosen.values()}
    if len(kinds) > 1 or next(iter(kinds))[0] not in _DTYPES:
        raise ValueError(
            f"parameters have dtypes and devices {kinds}; allowed: one floating dtype (float32 or float64), one device"
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

    pinned = [(module, _own(module)) for module in model.modules()]

    def of_blocks(pieces: list[Tensor], inputs: Inputs) -> Any:
        values = {name: p.reshape(shape) for name, p, shape in zip(chosen, pieces, shapes, strict=True)}
        weights = constants | {place: values[name] for place, name in places.items()}
        arguments, named = ((inputs,), None) if isinstance(inputs, Tensor) else ((), dict(inputs))
        # the fused attention kernels and cuDNN's recurrent ones have no second derivative
        with (
            _as_it_was(pinned),
            _as_it_trains(),
            disable_saved_tensors_hooks(_RECOMPUTES),
            sdpa_kernel(SDPBackend.MATH),
            torch.backends.cudnn.flags(enabled=not recurrent),
        ):
            # tied here and not by torch, which leaves its own tensors behind in a module that occurs twice
            return functional_call(model, weights, arguments, named, tie_weights=False)

    recurrent = any(isinstance(module, nn.RNNBase) for module in model.modules())
    ends = torch.tensor([0, *sizes]).cumsum(0).tolist()
    blocks = {name: slice(ends[i], ends[i + 1]) for i, name in enumerate(chosen)}
    checked = _checked(lambda theta, inputs: of_blocks(list(theta.split(sizes)), inputs))
    convolves = any(isinstance(module, nn.modules.conv._ConvNd) for module in model.modules())
    return Network(theta, checked, blocks, _checked(of_blocks), convolves and theta.device.type == "cpu")


def _own(module: nn.Module) -> dict[str, Any]:
    """Return a copy of what a module holds: its flags, numbers and the tables of its tensors and children."""
    held = faster(module) | vars(module)
    return held | {key: dict(held[key]) for key in ("_parameters", "_buffers", "_modules")}


@contextmanager
def _as_it_trains() -> Iterator[None]:
    """Switch the fast path of transformers off, which is taken without derivatives and gives padding other outputs."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextmanager
def _as_it_was(pinned: list[tuple[nn.Module, dict[str, Any]]]) -> Iterator[None]:
    """Give the modules what they held when the network was made, so that `model.train()` changes nothing."""
    now = [vars(module) for module, _ in pinned]
    try:
        for module, held in pinned:
            object.__setattr__(module, "__dict__", held | {"_parameters": dict(held["_parameters"])})
        yield
    finally:
        for (module, _), held in zip(pinned, now, strict=True):
            object.__setattr__(module, "__dict__", held)


def _require_plain_module(model: nn.Module) -> None:
    """Refuse by name what cannot be called with other weights."""
    kind = type(model).__name__
    if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
        raise ValueError(f"model is a {kind}; allowed: the module inside, model.module")
    if kind == "OptimizedModule":
        raise ValueError(f"model is a {kind} of torch.compile; allowed: the module inside, model._orig_mod")
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise ValueError(
                f"model has the ScriptModule {name!r}; allowed: the torch.nn.Module it was made from"
            )
        for key, parameter in module._parameters.items():
            if isinstance(parameter, nn.parameter.UninitializedParameter):
                raise ValueError(
                    f"parameter {key!r} has no shape yet; allowed: a lazy module after its first call"
                )


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
