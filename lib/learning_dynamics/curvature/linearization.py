"""The derivative of a network's outputs at one point, kept so that products cost no new forward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.func import vjp, vmap

from learning_dynamics._internal.arguments import require_count, require_finite
from learning_dynamics.curvature.network import Model, Network, Parameters, as_network


class Linearization:
    r"""The map :math:`v \mapsto J v` and its transpose for the outputs of one batch.

    The transpose is one backward pass through the kept graph. It is linear in its argument, so that its own
    transpose, :math:`J v`, is again one backward pass: reverse mode twice, which needs no forward mode and no
    forward pass (Townsend 2017, "A new trick for calculating Jacobian vector products").

    Attributes:
        outputs: `(n, d_y)`.
    """

    def __init__(self, function: Callable[[Tensor], Tensor], theta: Tensor) -> None:
        with torch.enable_grad():
            self.outputs, self._pull = vjp(function, theta)[:2]
            zeros = torch.zeros_like(self.outputs)
            self._push = vjp(lambda u: self._pull(u)[0], zeros)[1]

    def push(self, v: Tensor) -> Tensor:
        """Return J v `(n, d_y)` for v `(d)`."""
        with torch.no_grad():
            return self._push(v)[0]

    def pull(self, u: Tensor) -> Tensor:
        """Return J^T u `(d)` for u `(n, d_y)`."""
        with torch.no_grad():
            return self._pull(u)[0]


class LinearizedData:
    """A network on its data, as one linearization or as one for each minibatch.

    With `batch_size=None` the linearization of all data is made once and kept. Otherwise each product makes the
    linearizations of its batches anew: more work, the memory of one batch.

    Attributes:
        network: the model at its parameters.
        inputs: `(n, ...)`.
        batch_size: how many samples a product holds in memory.
        outputs: `(n, d_y)`.
    """

    def __init__(
        self,
        model: Model,
        inputs: Tensor,
        parameters: Parameters | None,
        batch_size: int | None,
        linearize: bool = True,
    ) -> None:
        self.network: Network = as_network(model, parameters)
        _require_inputs(inputs, self.network.theta)
        if batch_size is not None:
            require_count("batch_size", batch_size)
        self.inputs = inputs.detach()
        self.batch_size = min(batch_size or len(inputs), len(inputs))
        with torch.no_grad():
            outputs = [self._outputs(self.network.theta, rows) for rows in self.rows()]
            half = self._outputs(self.network.theta, slice(0, (len(outputs[0]) + 1) // 2))
        self.outputs = torch.cat(outputs)
        require_finite("outputs of the model", self.outputs)
        if not torch.allclose(outputs[0][: len(half)], half, rtol=1e-3, atol=1e-3 * float(half.abs().max())):
            raise ValueError(
                "model gives other outputs for half of the batch; allowed: one fixed output for each sample"
            )
        self._kept = self._linearize(slice(None)) if linearize and batch_size is None else None

    def batches(self) -> Iterator[tuple[slice, Linearization]]:
        """Yield the rows of each batch and the linearization there."""
        if self._kept is not None:
            yield slice(0, len(self.inputs)), self._kept
            return
        for rows in self.rows():
            yield rows, self._linearize(rows)

    def sample_by_sample(
        self, function: Callable[..., Tensor], *entries: Tensor, numbers: int
    ) -> Iterator[Tensor]:
        """Yield `function(pull, *entries of the sample)`, stacked for some samples at a time.

        Args:
            function: its first argument is the map u `(d_y)` -> J_n^T u `(d)` of sample n.
            entries: `(n, ...)`.
            numbers: how many numbers one sample takes, which bounds the samples at a time.
        """

        def one(x: Tensor, *entry: Tensor) -> Tensor:
            with torch.enable_grad():
                pull = vjp(lambda theta: self.network.outputs(theta, x[None])[0], self.network.theta)[1]
            return function(lambda u: pull(u)[0], *entry)

        @torch.no_grad()
        def stacked(*some: Tensor) -> Tensor:
            try:
                return vmap(one)(*some)
            except RuntimeError:  # vmap has no rule for some modules, recurrent ones among them
                return torch.stack([one(*entry) for entry in zip(*some, strict=True)])

        at_once = max(1, 2**23 // numbers)
        yield from map(stacked, *(tensor.split(at_once) for tensor in (self.inputs, *entries)))

    def gradients(self, scores: Tensor) -> Iterator[Tensor]:
        """Yield the J_n^T score_n for scores `(n, d_y)`, `(some, d)` at a time."""
        return self.sample_by_sample(lambda pull, u: pull(u), scores, numbers=len(self.network.theta))

    def rows(self) -> Iterator[slice]:
        """Yield the rows of each batch."""
        for start in range(0, len(self.inputs), self.batch_size):
            yield slice(start, min(start + self.batch_size, len(self.inputs)))

    def _outputs(self, theta: Tensor, rows: slice) -> Tensor:
        return self.network.outputs(theta, self.inputs[rows])

    def _linearize(self, rows: slice) -> Linearization:
        return Linearization(lambda theta: self._outputs(theta, rows), self.network.theta)


def _require_inputs(inputs: object, theta: Tensor) -> None:
    if not isinstance(inputs, Tensor):
        raise ValueError(f"inputs is a {type(inputs).__name__}; allowed: a tensor (n, ...)")
    if inputs.ndim == 0 or len(inputs) == 0:
        raise ValueError(f"inputs has shape {tuple(inputs.shape)}; allowed: (n, ...) with n >= 1 samples")
    if inputs.device != theta.device:
        raise ValueError(f"inputs is on {inputs.device}; allowed: the parameters' {theta.device}")
    require_finite("inputs", inputs)
