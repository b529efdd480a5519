"""A deep sequence model: encoder, blocks of norm, recurrence, gated mixing and skip, pooling, decoder."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from learning_dynamics._internal.arguments import (
    require_choice,
    require_counts,
    require_input,
    require_symbols,
)
from learning_dynamics.models.recurrence.padding import Padding, padding
from learning_dynamics.models.recurrence.precision import lifted

Norm = Literal["batch", "layer"]
Pooling = Literal["mean", "last", "none"]
Gelu = Literal["exact", "tanh"]


class Streaming(Protocol):
    """A layer `(*batch, T, width) -> (*batch, T, width)` that also takes one position at a time.

    Where sequences have lengths, or come in chunks, it needs `advance` too, as `DiagonalRecurrence` has it.
    """

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
class Advancing(Protocol):
    """A layer that knows lengths, and takes a chunk of a sequence and the state before it."""

    def __call__(self, u: Tensor, /, *, lengths: Tensor | None = None) -> Tensor:
        """Map a sequence of which only the first `lengths` positions count."""

    def advance(
        self, u: Tensor, state: Tensor | None = None, *, lengths: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return outputs and the state after the chunk."""


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
        epsilon: what is added to the variance, >= 0.

    Raises:
        ValueError: an unknown norm or a negative epsilon.
    """

    def __init__(self, width: int, norm: Norm = "batch", epsilon: float = 1e-5) -> None:
        super().__init__()
        require_choice("norm", norm, ("batch", "layer"))
        if not 0 <= epsilon < math.inf:
            raise ValueError(f"epsilon = {epsilon}; allowed: at least 0 and finite")
        self.inner = (
            nn.BatchNorm1d(width, eps=epsilon) if norm == "batch" else nn.LayerNorm(width, eps=epsilon)
        )

    def forward(self, h: Tensor, valid: Tensor | None = None) -> Tensor:
        """Normalize `h (*batch, width)`; the shape stays.

        Args:
            h: the features.
            valid: `(*batch)` booleans: the statistics of a batch are taken where True only; elsewhere are zeros.
        """
        if valid is not None and self.training and isinstance(self.inner, nn.BatchNorm1d):
            normalized = self.inner(h[valid])
            return torch.zeros_like(h, dtype=normalized.dtype).index_put((valid,), normalized)
        return self.inner(h.reshape(-1, h.shape[-1])).reshape(h.shape)


class RecurrentBlock(nn.Module):
    r"""One residual block: norm, recurrence, gated mixing, skip (Orvieto 2023, Fig. 43).

    .. math:: h\leftarrow h+\mathrm{GLU}(W\,\mathrm{gelu}(\mathrm{recurrence}(\mathrm{norm}(h))))

    Args:
        recurrence: a layer `(*batch, T, width) -> (*batch, T, width)` with `start` and `step` for streaming.
        width: its width.
        norm, epsilon: see `SequenceNorm`.
        dropout: share of features dropped after each of the two maps, in [0, 1).
        gelu: `exact`, with the normal distribution function, or `tanh`, the approximation that JAX and the published
            code of linear recurrent units take (Hendrycks and Gimpel 2016).

    Raises:
        ValueError: a dropout outside [0, 1), or an unknown form of gelu.
    """

    recurrence: Streaming

    def __init__(
        self,
        recurrence: Streaming,
        width: int,
        *,
        norm: Norm = "batch",
        dropout: float = 0.0,
        epsilon: float = 1e-5,
        gelu: Gelu = "exact",
    ) -> None:
        super().__init__()
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout = {dropout}; allowed: at least 0 and below 1")
        require_choice("gelu", gelu, ("exact", "tanh"))
        self.norm, self.recurrence = SequenceNorm(width, norm, epsilon), recurrence
        self.approximate = "tanh" if gelu == "tanh" else "none"
        self.gate, self.dropout = nn.Linear(width, 2 * width), nn.Dropout(dropout)

    def _mix(self, h: Tensor, y: Tensor) -> Tensor:
        y = nn.functional.gelu(y, approximate=self.approximate)
        mixed = nn.functional.glu(self.gate(self.dropout(y)), dim=-1)
        return h + self.dropout(mixed)

    def forward(self, h: Tensor) -> Tensor:
        """Return the block's outputs `(*batch, T, width)` of `h (*batch, T, width)`.

        Raises:
            ValueError: h has another shape or dtype.
        """
        self._require(h, None)
        return self._mix(h, self.recurrence(self.norm(h)))

    def advance(
        self, h: Tensor, state: Tensor | None = None, pad: Padding | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the block's outputs `(*batch, T, width)` of a chunk, and the state after it.

        Args:
            h: `(*batch, T, width)`, the positions that count in front.
            state: the layer's state before it, `(*batch, N)`; its start if left out.
            pad: which positions count; all if left out.

        Raises:
            ValueError: the layer cannot advance, or h has another shape or dtype.
        """
        self._require(h, None)
        y, state = self._advancing().advance(
            self.norm(h, None if pad is None else pad.valid),
            state,
            lengths=None if pad is None else pad.counts,
        )
        return self._mix(h, y), state

    def padded(self, h: Tensor, pad: Padding | None) -> Tensor:
        """Return the block's outputs `(*batch, T, width)` where only some positions count; also for two directions.

        Args:
            h: `(*batch, T, width)`, the positions that count in front.
            pad: which positions count; all if left out.

        Raises:
            ValueError: the layer knows no lengths, or h has another shape or dtype.
        """
        if pad is None:
            return self.forward(h)
        self._require(h, None)
        return self._mix(h, self._advancing()(self.norm(h, pad.valid), lengths=pad.counts))

    def _require(self, h: Tensor, *sizes: int | None) -> None:
        require_input("h", h, self.gate.weight, *sizes, self.gate.in_features)

    def _advancing(self) -> Advancing:
        if not isinstance(self.recurrence, Advancing):
            raise ValueError(
                f"recurrence is a {type(self.recurrence).__name__}; allowed with lengths, a mask or a state: a layer "
                "with `advance`"
            )
        return self.recurrence

    def step(self, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the block's output `(*batch, width)` and the next state for one position.

        Args:
            h: `(*batch, width)`, one position.
            x: the layer's state, `(*batch, N)`.

        Raises:
            ValueError: h has another shape or dtype.
        """
        self._require(h)
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
        norm, dropout, epsilon, gelu: see `RecurrentBlock`.

    Sequences of different lengths are padded and come with `lengths` or a `mask`: statistics of batch norm and the
    pooling then see only the positions that count, and what stands in the padding is never read.

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
        epsilon: float = 1e-5,
        gelu: Gelu = "exact",
    ) -> None:
        super().__init__()
        require_counts(inputs=inputs, width=width, outputs=outputs, depth=depth)
        require_choice("pooling", pooling, ("mean", "last", "none"))
        if isinstance(recurrence, nn.Module) or not callable(recurrence):
            kind = type(recurrence).__name__
            raise ValueError(
                f"recurrence is a {kind}; allowed: a function that makes a layer, for each block one"
            )
        self.pooling, self.inputs = pooling, inputs
        self.encoder = nn.Embedding(inputs, width) if tokens else nn.Linear(inputs, width)
        self.blocks = nn.ModuleList(
            RecurrentBlock(recurrence(), width, norm=norm, dropout=dropout, epsilon=epsilon, gelu=gelu)
            for _ in range(depth)
        )
        self.decoder = nn.Linear(width, outputs)

    def forward(self, u: Tensor, *, lengths: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """Return the outputs `(*batch, outputs)`, or `(*batch, T, outputs)` without pooling.

        Args:
            u: `(*batch, T, inputs)`, or integer tokens `(*batch, T)` where the model embeds them.
            lengths: `(*batch)` whole numbers from 1 to T: only the first so many positions count.
            mask: `(*batch, T)` booleans, instead of `lengths`: positions with False are left out.

        Raises:
            ValueError: the sequence, lengths or mask are not of one of these shapes.
        """
        if lengths is not None or mask is not None:
            return self._advance(u, None, lengths, mask)[0]
        self._require(u, None)
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
        first = lifted(self.decoder.weight).new_zeros(*batch, self.decoder.in_features)
        return 0, first, tuple(block.recurrence.start(*batch) for block in self._blocks())

    def advance(
        self,
        u: Tensor,
        state: tuple[Any, ...] | None = None,
        *,
        lengths: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Any, ...]]:
        """Return the outputs after a chunk of a sequence, and the state after it, for the next chunk or `step`.

        In evaluation mode chunk after chunk gives what `forward` gives for the whole. With pooling `mean` the output is
        that of the sequence so far, with `last` that of the chunk's last position, with `none` those of the chunk.

        Args:
            u: the chunk, `(*batch, T, inputs)` numbers or `(*batch, T)` tokens, as in `forward`.
            state: the state before it; `start` if left out.
            lengths: `(*batch)`, how many positions of the chunk count, see `forward`.
            mask: `(*batch, T)`, which positions of the chunk count, see `forward`.

        Raises:
            ValueError: a shape is another, or a block's recurrence has no `advance` or is bidirectional.
        """
        return self._advance(
            u, self.start(*self._as_sequence(u).shape[:-2]) if state is None else state, lengths, mask
        )

    def _advance(
        self, u: Tensor, state: tuple[Any, ...] | None, lengths: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, tuple[Any, ...]]:
        self._require(u, None)
        sequence = self._as_sequence(u)
        pad = padding(sequence, lengths, mask)
        if pad is not None:
            u = pad.gathered(sequence).reshape(u.shape)
        h, after = self.encoder(u), []
        count, total, inner = (0, 0.0, [None] * len(self.blocks)) if state is None else state
        for block, x in zip(self._blocks(), inner, strict=True):
            if state is None:
                h, x = block.padded(h, pad), None
            else:
                h, x = block.advance(h, x, pad)
            after.append(x)
        h = h if pad is None else pad.cleared(h)
        total, count = total + lifted(h).sum(-2), count + (h.shape[-2] if pad is None else pad.counts)
        if self.pooling == "none":
            y = self.decoder(h)
            return y if pad is None else pad.scattered(y), (count, total, tuple(after))
        last = h[..., -1, :] if pad is None else pad.last(h)
        pooled = (total / _beside(count)).to(h.dtype) if self.pooling == "mean" else last
        return self.decoder(pooled), (count, total, tuple(after))

    def step(self, u: Tensor, state: tuple[Any, ...]) -> tuple[Tensor, tuple[Any, ...]]:
        """Return the output after one more input and the next state: streaming, equal to `forward` in evaluation mode.

        With pooling `mean` the output is that of the sequence so far.

        Args:
            u: `(*batch, inputs)` numbers, or `(*batch)` tokens.
            state: the state before it.

        Raises:
            ValueError: u has another shape or dtype.
        """
        self._require(u)
        count, total, inner = state
        h, after = self.encoder(u), []
        for block, x in zip(self._blocks(), inner, strict=True):
            h, x = block.step(h, x)
            after.append(x)
        total = total + h
        pooled = (total / _beside(count + 1)).to(h.dtype) if self.pooling == "mean" else h
        return self.decoder(pooled), (count + 1, total, tuple(after))

    def _blocks(self) -> list[RecurrentBlock]:
        return [block for block in self.blocks if isinstance(block, RecurrentBlock)]

    def _as_sequence(self, u: Tensor) -> Tensor:
        return u[..., None] if isinstance(self.encoder, nn.Embedding) else u

    def _require(self, u: Tensor, *sizes: int | None) -> None:
        if isinstance(self.encoder, nn.Embedding):
            require_symbols("u", u, *sizes)
        else:
            require_input("u", u, self.encoder.weight, *sizes, self.inputs)


def _beside(count: int | Tensor) -> int | Tensor:
    """Return a count for each sequence `(*batch)` as `(*batch, 1)`; one count for all as it is."""
    return count[..., None] if isinstance(count, Tensor) else count


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
