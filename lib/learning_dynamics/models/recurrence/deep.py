"""A deep sequence model: encoder, blocks of norm, recurrence, gated mixing and skip, pooling, decoder."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, Protocol, runtime_checkable

from torch import Tensor, nn

from learning_dynamics.models.recurrence.shapes import require_choice, require_sequence, require_widths

Norm = Literal["batch", "layer"]
Pooling = Literal["mean", "last", "none"]


class Streaming(Protocol):
    """A layer `(*batch, T, width) -> (*batch, T, width)` that also takes one position at a time."""

    def __call__(self, h: Tensor, /) -> Tensor:
        """Map a sequence."""

    def start(self, *batch: int) -> Tensor:
        """Return the state before the first position, `(*batch, N)`.

        Args:
            *batch: the batch axes.
        """

    def step(self, u: Tensor, state: Tensor, /) -> tuple[Tensor, Tensor]:
        """Return the output `(*batch, outputs)` for one position and the next state `(*batch, N)`.

        Args:
            u: `(*batch, inputs)`, one position.
            state: `(*batch, N)`, the state before it.
        """


@runtime_checkable
class WithRecurrentParameters(Protocol):
    """A layer that says which of its parameters are recurrent."""

    def recurrent_parameters(self) -> list[nn.Parameter]:
        """Return them."""


class SequenceNorm(nn.Module):
    """Batch or layer norm over the last axis of `(*batch, T, width)`.

    Args:
        width: number of features.
        norm: `batch` (statistics over batch and time, as in Orvieto 2023) or `layer` (each position by itself).

    Raises:
        ValueError: an unknown norm.
    """

    def __init__(self, width: int, norm: Norm = "batch") -> None:
        super().__init__()
        require_choice("norm", norm, ("batch", "layer"))
        self.inner = nn.BatchNorm1d(width) if norm == "batch" else nn.LayerNorm(width)

    def forward(self, h: Tensor) -> Tensor:
        """Normalize `h (*batch, width)`; the shape stays."""
        return self.inner(h.reshape(-1, h.shape[-1])).reshape(h.shape)


class RecurrentBlock(nn.Module):
    r"""One residual block: norm, recurrence, gated mixing, skip (Orvieto 2023, Fig. 43).

    .. math:: h\leftarrow h+\mathrm{GLU}(W\,\mathrm{gelu}(\mathrm{recurrence}(\mathrm{norm}(h))))

    Args:
        recurrence: a layer `(*batch, T, width) -> (*batch, T, width)` with `start` and `step` for streaming.
        width: its width.
        norm: see `SequenceNorm`.
        dropout: share of features dropped after each of the two maps, in [0, 1).

    Raises:
        ValueError: a dropout outside [0, 1).
    """

    recurrence: Streaming

    def __init__(
        self, recurrence: Streaming, width: int, *, norm: Norm = "batch", dropout: float = 0.0
    ) -> None:
        super().__init__()
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout = {dropout}; allowed: at least 0 and below 1")
        self.norm, self.recurrence = SequenceNorm(width, norm), recurrence
        self.gate, self.dropout = nn.Linear(width, 2 * width), nn.Dropout(dropout)

    def _mix(self, h: Tensor, y: Tensor) -> Tensor:
        mixed = nn.functional.glu(self.gate(self.dropout(nn.functional.gelu(y))), dim=-1)
        return h + self.dropout(mixed)

    def forward(self, h: Tensor) -> Tensor:
        """Return the block's outputs `(*batch, T, width)` of `h (*batch, T, width)`."""
        return self._mix(h, self.recurrence(self.norm(h)))

    def step(self, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the block's output `(*batch, width)` and the next state for one position.

        Args:
            h: `(*batch, width)`, one position.
            x: the layer's state, `(*batch, N)`.
        """
        y, x = self.recurrence.step(self.norm(h), x)
        return self._mix(h, y), x


class SequenceModel(nn.Module):
    """A deep recurrent model of sequences.

    Args:
        inputs: width of the input, or the number of tokens if `tokens`.
        width: width of every block.
        outputs: width of the output.
        depth: number of blocks, >= 1.
        recurrence: builds the recurrence of one block, called `depth` times: `lambda: LinearRecurrentUnit(width, 64)`.
        tokens: the input is whole numbers `(*batch, T)`, embedded; else reals `(*batch, T, inputs)`.
        pooling: `mean` over time, the `last` position, or `none` (an output at each position).
        norm, dropout: see `RecurrentBlock`.

    Raises:
        ValueError: a size or choice out of range; in `forward`, an empty or ill-shaped sequence.
    """

    def __init__(
        self,
        inputs: int,
        width: int,
        outputs: int,
        depth: int,
        recurrence: Callable[[], Streaming],
        *,
        tokens: bool = False,
        pooling: Pooling = "mean",
        norm: Norm = "batch",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        require_widths(inputs=inputs, width=width, outputs=outputs, depth=depth)
        require_choice("pooling", pooling, ("mean", "last", "none"))
        self.pooling, self.inputs = pooling, inputs
        self.encoder = nn.Embedding(inputs, width) if tokens else nn.Linear(inputs, width)
        self.blocks = nn.ModuleList(
            RecurrentBlock(recurrence(), width, norm=norm, dropout=dropout) for _ in range(depth)
        )
        self.decoder = nn.Linear(width, outputs)

    def forward(self, u: Tensor) -> Tensor:
        """Return the outputs `(*batch, outputs)`, or `(*batch, T, outputs)` without pooling.

        Args:
            u: `(*batch, T, inputs)`, or integer tokens `(*batch, T)` where the model embeds them.

        Raises:
            ValueError: the sequence is not of one of these shapes.
        """
        require_sequence("u", self._as_sequence(u), self._last_axis(u))
        h = self.encoder(u)
        for block in self.blocks:
            h = block(h)
        if self.pooling == "mean":
            h = h.mean(-2)
        elif self.pooling == "last":
            h = h[..., -1, :]
        return self.decoder(h)

    def start(self, *batch: int) -> tuple[Any, ...]:
        """Return the state before the first input: a count, the running sum, and each block's recurrent state."""
        first = self.decoder.weight.new_zeros(*batch, self.decoder.in_features)
        return 0, first, tuple(block.recurrence.start(*batch) for block in self._blocks())

    def step(self, u: Tensor, state: tuple[Any, ...]) -> tuple[Tensor, tuple[Any, ...]]:
        """Return the output after one more input and the next state: streaming, equal to `forward` in evaluation mode.

        With pooling `mean` the output is that of the sequence so far.
        """
        count, total, inner = state
        h, after = self.encoder(u), []
        for block, x in zip(self._blocks(), inner, strict=True):
            h, x = block.step(h, x)
            after.append(x)
        total = total + h
        pooled = total / (count + 1) if self.pooling == "mean" else h
        return self.decoder(pooled), (count + 1, total, tuple(after))

    def _blocks(self) -> list[RecurrentBlock]:
        return [block for block in self.blocks if isinstance(block, RecurrentBlock)]

    def _as_sequence(self, u: Tensor) -> Tensor:
        return u[..., None] if isinstance(self.encoder, nn.Embedding) else u

    def _last_axis(self, u: Tensor) -> int:
        return 1 if isinstance(self.encoder, nn.Embedding) else self.inputs


def parameter_groups(
    model: nn.Module, *, learning_rate: float, recurrent_factor: float = 0.25, weight_decay: float = 0.05
) -> list[dict[str, Any]]:
    """Return optimizer groups as in Orvieto 2023, Table 9: recurrent parameters at a smaller rate and without decay.

    A layer's recurrent parameters are what its `recurrent_parameters()` returns: eigenvalues, B and normalizer; a dense
    layer has none.

    Args:
        model: a model with recurrent layers, such as `SequenceModel`.
        learning_rate: of all other parameters, > 0.
        recurrent_factor: rate of the recurrent parameters over it, > 0.
        weight_decay: of all other parameters, >= 0.

    Raises:
        ValueError: a rate or factor that is not positive, or a negative decay.
    """
    for name, value in {"learning_rate": learning_rate, "recurrent_factor": recurrent_factor}.items():
        if not value > 0:
            raise ValueError(f"{name} = {value}; allowed: positive")
    if not weight_decay >= 0:
        raise ValueError(f"weight_decay = {weight_decay}; allowed: at least 0")
    layers = [module for module in model.modules() if isinstance(module, WithRecurrentParameters)]
    recurrent = [parameter for layer in layers for parameter in layer.recurrent_parameters()]
    taken = {id(parameter) for parameter in recurrent}
    rest = [parameter for parameter in model.parameters() if id(parameter) not in taken]
    groups = [{"params": rest, "lr": learning_rate, "weight_decay": weight_decay}]
    if recurrent:
        groups.append({"params": recurrent, "lr": recurrent_factor * learning_rate, "weight_decay": 0.0})
    return groups


def warmup_cosine(steps: int, warmup: float = 0.1, floor: float = 1e-7) -> Callable[[int], float]:
    """Return the factor of the learning rate at step k, for `torch.optim.lr_scheduler.LambdaLR`.

    It rises linearly from `floor` to 1 over the share `warmup` of all steps, then falls back along a cosine.

    Args:
        steps: number of all steps, >= 1.
        warmup: share of them in which the factor rises, in [0, 1).
        floor: the factor at the first step, and the least at the end.

    Raises:
        ValueError: fewer than one step, or a share outside [0, 1).
    """
    if steps < 1:
        raise ValueError(f"steps = {steps}; allowed: at least 1")
    if not 0 <= warmup < 1:
        raise ValueError(f"warmup = {warmup}; allowed: at least 0 and below 1")
    rising = warmup * steps

    def factor(k: int) -> float:
        if k < rising:
            return floor + (1 - floor) * k / rising
        share = min(1.0, (k - rising) / (steps - rising))
        return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * share))

    return factor
