"""The derivative of a network's outputs at one point, kept so that products cost no new forward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vjp, vmap
from torch.utils.data import DataLoader

from learning_dynamics._internal.arguments import require_count, require_finite
from learning_dynamics.curvature.network import (
    Inputs,
    Model,
    Network,
    Parameters,
    as_network,
    count,
    plainly,
)

Data = Inputs | DataLoader[Any] | list[Any]
"""Inputs, or batches of them: a DataLoader or a list, which is read once and kept."""


class Linearization:
    r"""The map :math:`v \mapsto J v` and its transpose for the outputs of one batch.

    The transpose is one backward pass through the kept graph. It is linear in its argument, so that its own
    transpose, :math:`J v`, is again one backward pass: reverse mode twice, which needs no forward mode and no
    forward pass (Townsend 2017, "A new trick for calculating Jacobian vector products"). One forward pass makes
    the graph; what the second reverse mode needs is made by the first product that asks for it.

    Attributes:
        outputs: `(n, d_y)`.
    """

    def __init__(self, function: Callable[[Tensor], Tensor], theta: Tensor) -> None:
        with plainly(theta.device), torch.enable_grad():
            self._theta = nn.Parameter(theta.detach())  # vmap forbids requires_grad_
            found = function(self._theta)
            # outputs that no parameter enters have a derivative too, zero
            self._graph = found if found.requires_grad else found + 0 * self._theta[:1]
        self.outputs = self._graph.detach()

    def push(self, v: Tensor) -> Tensor:
        """Return J v `(n, d_y)` for v `(d)`."""
        zeros, pulled = self._transpose
        return _backward(pulled, zeros, v)

    def pull(self, u: Tensor) -> Tensor:
        """Return J^T u `(d)` for u `(n, d_y)`."""
        return _backward(self._graph, self._theta, u)

    def second_derivative(self, loss: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """Return the function that multiplies a vector `(d)` by the Hessian of `loss(outputs) -> ()`."""
        with plainly(self._theta.device), torch.enable_grad():
            gradient = _backward(loss(self._graph), self._theta, create_graph=True)
        return lambda v: _backward(gradient, self._theta, v)

    @cached_property
    def _transpose(self) -> tuple[Tensor, Tensor]:
        """A zero u and J^T u with its graph."""
        with plainly(self._theta.device), torch.enable_grad():
            zeros = torch.zeros_like(self.outputs, requires_grad=True)
            return zeros, _backward(self._graph, self._theta, zeros, create_graph=True)


def _backward(value: Tensor, at: Tensor, along: Tensor | None = None, create_graph: bool = False) -> Tensor:
    """Return the derivative of `value` along a direction of its shape with respect to `at`, keeping the graph."""
    return torch.autograd.grad(
        value, at, along, retain_graph=True, create_graph=create_graph, materialize_grads=True
    )[0]


class LinearizedData:
    """A network on its data, as one linearization or as one for each minibatch.

    With `batch_size=None` the linearization of all data is made once and kept. Otherwise, and for data that come in
    batches, each product makes the linearizations of its batches anew: more work, the memory of one batch.

    Every position of outputs `(n, ..., d_y)` is a row, so that outputs are `(rows, d_y)`; for outputs `(n, d_y)` a
    row is a sample.

    Attributes:
        network: the model at its parameters.
        batch_size: how many rows a product holds in memory.
        outputs: `(rows, d_y)`.
        leading: the leading axes of the outputs of each batch, `(n, ...)`.
        targets: what came with the batches, a list with one entry for each, or None where inputs came alone.
        in_batches: whether products make their linearizations anew.
    """

    @torch.inference_mode(False)
    def __init__(
        self,
        model: Model,
        inputs: Data,
        parameters: Parameters | None,
        batch_size: int | None,
        linearize: bool = True,
    ) -> None:
        self.network: Network = as_network(model, parameters)
        if batch_size is not None:
            require_count("batch_size", batch_size)
        with plainly(self.network.theta.device):
            batches, self.targets = _batches(model, inputs, self.network.theta)
            self._sizes = [count(batch) for batch in batches]
            self._parts = [part for batch in batches for part in _split(batch, batch_size or count(batch))]
            self.in_batches = batch_size is not None or len(self._parts) > 1
            self._mutates = False
            alone = self._probe()
            self._kept = None
            if linearize and not self.in_batches:
                self._kept = self.linearize(self._parts[0])
                outputs = [self._kept.outputs.reshape(count(self._parts[0]), *alone.shape[1:])]
            else:
                with torch.no_grad():
                    outputs = [self._raw(self.network.theta, part) for part in self._parts]
        if len({found.shape[-1] for found in outputs}) > 1:
            raise ValueError(
                f"outputs have widths {sorted({o.shape[-1] for o in outputs})}; allowed: one width"
            )
        self.leading = [tuple(found.shape[:-1]) for found in outputs]
        flat = [found.reshape(-1, found.shape[-1]) for found in outputs]
        self.outputs = torch.cat(flat)
        require_finite("outputs of the model", self.outputs)
        if not _close(outputs[0][self._some()], alone, 1e-3):
            raise ValueError(
                "model gives other outputs for a part of the batch; allowed: one fixed output for each sample"
            )
        self._rows, start = [], 0
        for found in flat:
            self._rows.append(slice(start, start + len(found)))
            start += len(found)
        self.batch_size = max(len(found) for found in flat)

    def batches(self) -> Iterator[tuple[slice, Linearization]]:
        """Yield the rows of each batch and the linearization there."""
        if self._kept is not None:
            yield self._rows[0], self._kept
            return
        for rows, part in self.parts():
            yield rows, self.linearize(part)

    def parts(self) -> Iterator[tuple[slice, Inputs]]:
        """Yield the rows of each batch and its inputs."""
        yield from zip(self._rows, self._parts, strict=True)

    def evaluate(self, theta: Tensor, part: Inputs) -> Tensor:
        """Return the outputs `(rows, d_y)` of a batch."""
        found = self._raw(theta, part)
        return found.reshape(-1, found.shape[-1])

    def flat_targets(self, targets: Tensor | None) -> object:
        """Return the targets with one entry for each row, whether they were given or came with the batches."""
        if self.targets is not None:
            if targets is not None:
                raise ValueError(
                    "targets are given beside batches (inputs, targets); allowed: one of the two"
                )
            found = [target for target in self.targets if target is not None]
            if len(found) < len(self.targets):
                raise ValueError(
                    "batches have no targets; allowed: (inputs, targets), or a dict with 'labels'"
                )
            given = zip(found, self._leading_of_batches(), strict=True)
            return torch.cat([_by_row(t.to(self.outputs.device), shape) for t, shape in given])
        if targets is None:
            raise ValueError("targets are missing; allowed: a tensor, or batches (inputs, targets) as inputs")
        shape = (sum(leading[0] for leading in self.leading), *self.leading[0][1:])
        return _by_row(targets, shape) if isinstance(targets, Tensor) else targets

    def sample_by_sample(
        self, function: Callable[..., Tensor], *entries: Tensor, numbers: int
    ) -> Iterator[Tensor]:
        """Yield `function(pull, *entries of the row)`, stacked for some rows at a time.

        Args:
            function: its first argument is the map u `(d_y)` -> J_n^T u `(d)` of row n.
            entries: `(rows, ...)`.
            numbers: how many numbers one row takes, which bounds the rows at a time.
        """

        def one(x: Inputs, *entry: Tensor) -> Tensor:
            single = {key: value[None] for key, value in x.items()} if isinstance(x, Mapping) else x[None]
            with torch.enable_grad():
                pull = vjp(lambda theta: self.evaluate(theta, single), self.network.theta)[1]
            if len(entry[0]) == 1:
                return function(lambda u: pull(u[None])[0], *(values[0] for values in entry))[None]
            at = torch.eye(len(entry[0]), dtype=self.outputs.dtype, device=self.outputs.device)
            return vmap(lambda e, *own: function(lambda u: pull(e[:, None] * u)[0], *own))(at, *entry)

        @torch.no_grad()
        def stacked(x: Inputs, *some: Tensor) -> Tensor:
            try:
                return vmap(one)(x, *some)
            except RuntimeError:  # vmap has no rule for some modules, recurrent ones among them
                return torch.stack([one(_at(x, i), *(v[i] for v in some)) for i in range(count(x))])

        with plainly(self.network.theta.device):
            for rows, part in self.parts():
                n = count(part)
                own = [entry[rows].reshape(n, -1, *entry.shape[1:]) for entry in entries]
                at_once = max(1, 2**23 // (numbers * own[0].shape[1]))
                for start in range(0, n, at_once):
                    some = slice(start, start + at_once)
                    yield stacked(_at(part, some), *(entry[some] for entry in own)).flatten(0, 1)

    def gradients(self, scores: Tensor) -> Iterator[Tensor]:
        """Yield the J_n^T score_n for scores `(rows, d_y)`, `(some, d)` at a time."""
        return self.sample_by_sample(lambda pull, u: pull(u), scores, numbers=len(self.network.theta))

    def few(self) -> Inputs:
        """Return some samples of the first batch, at most four: enough to try an operation."""
        return _at(self._parts[0], self._some())

    def rows_of_few(self) -> slice:
        """Return the rows of these samples."""
        some = self._some()
        each = prod(self.leading[0][1:])
        return slice(some.start * each, some.stop * each)

    def _some(self) -> slice:
        """Return samples that do not begin the first batch, and where it has four or more do not end it.

        A model that sums along the batch, or takes it for time, has the right outputs for the first samples alone.
        """
        n = count(self._parts[0])
        if n == 1:
            return slice(0, 1)
        return slice(1, 1 + min(4, (n - 1) // 2) if n > 3 else n)

    def _raw(self, theta: Tensor, part: Inputs) -> Tensor:
        return self.network.outputs(theta, _clone(part) if self._mutates else part)

    def linearize(self, part: Inputs) -> Linearization:
        """Return the linearization on a batch, or on a part of one."""
        return Linearization(lambda theta: self.evaluate(theta, part), self.network.theta)

    def _leading_of_batches(self) -> list[tuple[int, ...]]:
        """Return the leading axes of the outputs of each batch as it came, before `batch_size` split it."""
        shapes, parts = [], iter(self.leading)
        for size in self._sizes:
            first = next(parts)
            n = first[0]
            while n < size:
                n += next(parts)[0]
            shapes.append((n, *first[1:]))
        return shapes

    def _probe(self) -> Tensor:
        """Try the model on a few samples: what it writes into, whether it can be differentiated, and rightly.

        Returns:
            Their outputs, `(few, ..., d_y)`.
        """
        theta, few = self.network.theta, _clone(self.few())
        random = torch.Generator().manual_seed(0)
        before = _versions(few)
        with torch.no_grad():
            outputs = self.network.outputs(theta, few)
        self._mutates = _versions(few) != before
        if not torch.isfinite(outputs).all():
            return outputs  # refused with its name later
        try:
            part = self.linearize(self.few())
            again = part.outputs.reshape(outputs.shape)
            if not _close(again, outputs, 1e-4):
                raise ValueError(
                    "model gives other outputs when it is called again; allowed: one fixed output for each sample"
                )
            for _ in range(2):
                u, v = normal(part.outputs.shape, theta, random), normal((len(theta),), theta, random)
                pulled, pushed = part.pull(u), part.push(v)
                require_equal_forms(u.flatten() @ pushed.flatten(), pulled @ v, pushed.norm() + pulled.norm())
            if any(not pulled[at].any() for at in self.network.blocks.values()):
                self._require_connected(outputs)
        except (RuntimeError, NotImplementedError) as error:
            reason = str(error).split("\n")[0].split(". ")[0]
            raise ValueError(
                f"model cannot be differentiated twice: {reason}; allowed: other layers"
            ) from error
        return outputs

    def _require_connected(self, outputs: Tensor) -> None:
        """Refuse parameters that change the outputs while their derivative is cut off, by no_grad or detach."""
        theta = self.network.theta
        with torch.enable_grad():
            pieces = [theta[at].clone().requires_grad_() for at in self.network.blocks.values()]
            found = self.network.of_blocks(pieces, _clone(self.few()))
            grads = (
                torch.autograd.grad(found.sum(), pieces, allow_unused=True)
                if found.requires_grad
                else (None,) * len(pieces)
            )
        for (name, at), grad in zip(self.network.blocks.items(), grads, strict=True):
            if grad is not None:
                continue
            moved = theta.clone()
            moved[at] = 1.1 * moved[at] + 0.1
            with torch.no_grad():
                changed = not torch.equal(self._raw(moved, self.few()), outputs)
            if changed:
                raise ValueError(
                    f"parameter {name!r} changes the outputs but has no derivative (no_grad or detach in forward); "
                    "allowed: a forward with derivatives, or that parameter left out"
                )


def normal(shape: tuple[int, ...], like: Tensor, random: torch.Generator) -> Tensor:
    """Return normal numbers of a shape, drawn where the generator is, in the dtype and on the device of `like`."""
    return torch.randn(shape, generator=random, dtype=like.dtype, device=random.device).to(like.device)


def _close(one: Tensor, other: Tensor, single: float) -> bool:
    """Whether outputs agree relative to their size, in float32 to `single`, in float64 to 1e-9."""
    allowed = 1e-9 if other.dtype == torch.float64 else single
    return torch.allclose(one, other, rtol=allowed, atol=allowed * float(other.abs().max()))


def require_equal_forms(one: Tensor, other: Tensor, size: Tensor) -> None:
    """Raise a ValueError when u^T A v and v^T A^T u, which rounding alone may part, differ by more."""
    allowed = (1e-6 if size.dtype == torch.float64 else 1e-2) * size
    if not (one - other).abs() <= allowed:
        raise ValueError(
            f"model has derivatives that are not symmetric, u^T A v = {float(one):.3g}, v^T A u = {float(other):.3g}; "
            "allowed: layers whose second derivative is right (that of weight_norm is not)"
        )


def _batches(model: object, data: object, theta: Tensor) -> tuple[list[Inputs], list[Tensor | None] | None]:
    """Return copies of the inputs, batch by batch, and the targets that came with them."""
    if not isinstance(data, DataLoader) and not (isinstance(data, list) and data and not _is_number(data[0])):
        return [_pinned(data, theta)], None
    inputs: list[Inputs] = []
    targets: list[Tensor | None] = []
    for batch in data:
        x, y = batch, None
        if isinstance(batch, tuple | list):
            if len(batch) not in (1, 2):
                raise ValueError(f"a batch has {len(batch)} entries; allowed: (inputs, targets) or (inputs,)")
            x, y = batch[0], batch[1] if len(batch) == 2 else None
        elif isinstance(batch, Mapping) and "labels" in batch:
            if "CausalLM" in type(model).__name__ or "LMHead" in type(model).__name__:
                raise ValueError(
                    f"labels of a {type(model).__name__} are shifted inside it; "
                    "allowed: batches (inputs, targets) with targets that are shifted already"
                )
            x, y = {key: value for key, value in batch.items() if key != "labels"}, batch["labels"]
        if y is not None and not isinstance(y, Tensor):
            raise ValueError(f"targets of a batch is a {type(y).__name__}; allowed: a tensor")
        x = {k: v.to(theta.device) for k, v in x.items()} if isinstance(x, Mapping) else x
        inputs.append(_pinned(x.to(theta.device) if isinstance(x, Tensor) else x, theta))
        targets.append(None if y is None else y.detach().clone())
    if not inputs:
        raise ValueError("inputs is a DataLoader without batches; allowed: at least one")
    return inputs, targets


def _is_number(entry: object) -> bool:
    return not isinstance(entry, tuple | Mapping | Tensor) and not (
        isinstance(entry, list) and any(isinstance(part, Tensor | Mapping) for part in entry)
    )


def _pinned(inputs: object, theta: Tensor) -> Inputs:
    """Return a copy of inputs after checking them."""
    if isinstance(inputs, Mapping) and inputs:
        found = {key: _pinned_tensor(f"inputs[{key!r}]", value, theta) for key, value in inputs.items()}
        sizes = {key: len(value) for key, value in found.items()}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"inputs have numbers of samples {sizes}; allowed: one number")
        return found
    return _pinned_tensor("inputs", inputs, theta)


def _pinned_tensor(name: str, inputs: object, theta: Tensor) -> Tensor:
    if not isinstance(inputs, Tensor):
        allowed = "a tensor (n, ...), a dict of tensors, a DataLoader or a list of batches"
        raise ValueError(f"{name} is a {type(inputs).__name__}; allowed: {allowed}")
    if inputs.ndim == 0 or len(inputs) == 0:
        raise ValueError(f"{name} has shape {tuple(inputs.shape)}; allowed: (n, ...) with n >= 1 samples")
    if inputs.device != theta.device:
        raise ValueError(f"{name} is on {inputs.device}; allowed: the parameters' {theta.device}")
    require_finite(name, inputs)
    return inputs.detach().clone()


def _at(inputs: Inputs, at: slice | int) -> Any:
    if isinstance(inputs, Tensor):
        return inputs[at]
    return {key: value[at] for key, value in inputs.items()}


def _clone(inputs: Inputs) -> Inputs:
    return inputs.clone() if isinstance(inputs, Tensor) else {k: v.clone() for k, v in inputs.items()}


def _versions(inputs: Inputs) -> list[int]:
    tensors = [inputs] if isinstance(inputs, Tensor) else list(inputs.values())
    return [tensor._version for tensor in tensors]


def _split(batch: Inputs, size: int) -> list[Inputs]:
    return [_at(batch, slice(start, start + size)) for start in range(0, count(batch), size)]


def _by_row(targets: Tensor, leading: tuple[int, ...]) -> Tensor:
    """Return targets `(n, ..., *rest)` as `(rows, *rest)` where their first axes are those of the outputs."""
    if targets.shape[: len(leading)] != leading:
        return targets
    if targets.numel() == 0:
        raise ValueError(f"targets has shape {tuple(targets.shape)}; allowed: no axis of size zero")
    return targets.reshape(-1, *targets.shape[len(leading) :])
