"""A layer around a diagonal complex recurrence; its subclasses say where eigenvalues and input gains come from."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from learning_dynamics._internal.arguments import require_choice, require_counts
from learning_dynamics.models.recurrence.dense import DenseRecurrence
from learning_dynamics.models.recurrence.linear import Method, linear_recurrence
from learning_dynamics.models.recurrence.padding import Padding, padding
from learning_dynamics.models.recurrence.precision import admitted, as_it_stands, lifted
from learning_dynamics.models.recurrence.shapes import admitted_state, require_position, require_sequence


class DiagonalRecurrence(nn.Module, ABC):
    r"""A layer with N complex states that do not mix.

    .. math:: x_j=\lambda\odot x_{j-1}+g\odot(B u_j),\qquad y_j=\mathrm{Re}(C x_j)+D\odot u_j,\qquad x_{-1}=0

    with complex B `(N, width)`, C `(width, N)` and real D `(width)`; `eigenvalues()` returns lambda and `gain()`
    returns g. B and C start as complex Gaussian Glorot matrices, D as standard normal. Complex numbers are stored
    as pairs of reals, so that any optimizer and `.to(dtype)` work: float32 gives complex64 states, float64
    complex128. Half-precision layers, and all layers under autocast, compute in float32; the outputs have the dtype of
    the layer's parameters.

    A batch of sequences of different lengths is padded and comes with `lengths` or a `mask`; what stands in the padding
    is never read (it may be NaN), and the outputs there are zero. `advance` takes and returns the state, so that a long
    sequence goes through in chunks.

    Args:
        width: width of inputs and outputs, >= 1.
        states: number N of complex states, >= 1.
        bidirectional: add a second pass over the reversed sequence, with its own C; not for streaming.
        method: how `linear_recurrence` is evaluated.
        generator: source of the initial weights (on the CPU); PyTorch's global one if left out.

    Raises:
        ValueError: a size or a choice out of range; in `forward`, an empty or ill-shaped sequence.
    """

    def __init__(
        self,
        width: int,
        states: int,
        *,
        bidirectional: bool = False,
        method: Method = "auto",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        require_counts(width=width, states=states)
        require_choice("method", method, ("auto", "loop", "scan", "fft"))
        self.method, self.bidirectional = method, bidirectional
        directions = 2 if bidirectional else 1
        self.B = nn.Parameter(torch.randn(states, width, 2, generator=generator) / math.sqrt(2 * width))
        self.C = nn.Parameter(
            torch.randn(directions, width, states, 2, generator=generator) / math.sqrt(2 * states)
        )
        self.D = nn.Parameter(torch.randn(width, generator=generator))

    @abstractmethod
    def eigenvalues(self) -> Tensor:
        """Return lambda `(N,)`, complex."""

    @abstractmethod
    def gain(self) -> Tensor | None:
        """Return g `(N,)`, real or complex, or None for 1."""

    @abstractmethod
    def recurrent_parameters(self) -> list[nn.Parameter]:
        """Return the parameters that are trained at a smaller rate and without decay."""

    def driven(self, u: Tensor) -> Tensor:
        """Return g * (B u) `(*batch, N)`, complex, for `u (*batch, width)`.

        Raises:
            ValueError: u has another width or dtype.
        """
        require_position("u", u, self.D.shape[0])
        return self._driven(admitted("u", u, self.D))

    def _driven(self, u: Tensor) -> Tensor:
        with as_it_stands(u.device):
            B, gain = torch.view_as_complex(lifted(self.B).contiguous()), self.gain()
            if gain is not None:
                B = gain[:, None] * B
            return torch.complex(u @ B.real.T, u @ B.imag.T)

    def states(self, u: Tensor, state: Tensor | None = None) -> Tensor:
        """Return the states `(*batch, T, N)`, complex, of the forward direction.

        Args:
            u: `(*batch, T, width)`.
            state: the state before the first position, `(*batch, N)`, complex; zero if left out.

        Raises:
            ValueError: the sequence has another width or dtype or is empty, or the state has another shape.
        """
        require_sequence("u", u, self.D.shape[0])
        return self._states(admitted("u", u, self.D), state)

    def _states(self, u: Tensor, state: Tensor | None = None) -> Tensor:
        if state is not None:
            state = self._admitted_state(state, u.shape[:-2])
        with as_it_stands(u.device):
            return linear_recurrence(
                self.eigenvalues(), self._driven(u), method=self.method, start=state, stable=False
            )

    def forward(
        self,
        u: Tensor,
        *,
        lengths: Tensor | None = None,
        mask: Tensor | None = None,
        state: Tensor | None = None,
    ) -> Tensor:
        """Return the outputs `(*batch, T, width)` of a sequence.

        Args:
            u: `(*batch, T, width)`.
            lengths: `(*batch)` whole numbers from 1 to T: only the first so many positions count.
            mask: `(*batch, T)` booleans, instead of `lengths`: positions with False are left out.
            state: the state before the first position, `(*batch, N)`, complex; zero if left out.

        Raises:
            ValueError: a shape or dtype is another, or a state is given to a bidirectional layer.
        """
        return self._outputs(u, state, lengths, mask)[0]

    def advance(
        self,
        u: Tensor,
        state: Tensor | None = None,
        *,
        lengths: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the outputs of a chunk of a sequence and the state after its last position that counts.

        Args:
            u: `(*batch, T, width)`, the chunk.
            state: the state before it, `(*batch, N)`, complex; zero if left out.
            lengths: `(*batch)`, how many positions of the chunk count, see `forward`.
            mask: `(*batch, T)`, which positions of the chunk count, see `forward`.

        Returns:
            outputs `(*batch, T, width)` and state `(*batch, N)`, complex.

        Raises:
            ValueError: the layer is bidirectional, or a shape or dtype is another.
        """
        self._require_streaming()
        y, x, pad = self._outputs(u, state, lengths, mask)
        return y, x[..., -1, :] if pad is None else pad.last(x)

    def _outputs(
        self, u: Tensor, state: Tensor | None, lengths: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Padding | None]:
        """Return outputs in the order of `u`, and states with the positions that count in front."""
        require_sequence("u", u, self.D.shape[0])
        if state is not None:
            self._require_streaming()
        u, pad = admitted("u", u, self.D), padding(u, lengths, mask)
        u = u if pad is None else pad.gathered(u)
        with as_it_stands(u.device):
            x = self._states(u, state)
            y = self._read(x, 0) + lifted(self.D) * u
            if self.bidirectional:  # behind a shorter sequence stand zeros, and zeros leave the state zero
                y = y + self._read(self._states(u.flip(-2)).flip(-2), 1)
        y = y if pad is None else pad.scattered(y)
        return y.to(self.D.dtype), x, pad

    def _admitted_state(self, state: Tensor, batch: tuple[int, ...]) -> Tensor:
        dtype = torch.promote_types(lifted(self.D).dtype, torch.complex64)
        return admitted_state(state, (*batch, self.B.shape[0]), dtype)

    def _require_streaming(self) -> None:
        if self.bidirectional:
            raise ValueError("bidirectional = True; allowed for streaming: False")

    def start(self, *batch: int) -> Tensor:
        """Return the state before the first input, complex zeros `(*batch, N)`."""
        with as_it_stands(self.D.device):
            return torch.zeros_like(self.eigenvalues()).expand(*batch, -1)

    def step(self, u: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return output `(*batch, width)` and next state `(*batch, N)` for one input: streaming, equal to `forward`.

        Args:
            u: `(*batch, width)`, one input.
            x: `(*batch, N)`, complex, the state.

        Raises:
            ValueError: the layer is bidirectional, which needs the end of the sequence first; or a shape or dtype is
                another.
        """
        self._require_streaming()
        require_position("u", u, self.D.shape[0])
        x = self._admitted_state(x, u.shape[:-1])
        u = admitted("u", u, self.D)
        with as_it_stands(u.device):
            x = self.eigenvalues() * x + self._driven(u)
            return (self._read(x, 0) + lifted(self.D) * u).to(self.D.dtype), x

    def real_form(self) -> DenseRecurrence:
        """Return the same map as a linear `DenseRecurrence` with 2N real states: A has N blocks of size two by two.

        Raises:
            ValueError: the layer is bidirectional.
        """
        if self.bidirectional:
            raise ValueError("bidirectional = True; allowed for the real form: False")
        with as_it_stands(self.D.device):
            return self._real_form()

    def _real_form(self) -> DenseRecurrence:
        lam, width = self.eigenvalues().detach(), self.D.shape[0]
        twin = DenseRecurrence(width, 2 * len(lam), activation="linear").to(self.D)
        B, C = self.driven(torch.eye(width).to(self.D)).detach().T, self._output(0).detach()
        rotation = torch.stack(
            [torch.stack([lam.real, -lam.imag], -1), torch.stack([lam.imag, lam.real], -1)], -2
        )
        with torch.no_grad():
            twin.A.copy_(torch.block_diag(*rotation))
            twin.B.copy_(torch.stack([B.real, B.imag], 1).flatten(0, 1))
            twin.C.copy_(torch.stack([C.real, -C.imag], -1).flatten(-2))
            twin.D.copy_(torch.diag(self.D))
        return twin

    def _output(self, direction: int) -> Tensor:
        return torch.view_as_complex(lifted(self.C)[direction].contiguous())

    def _read(self, x: Tensor, direction: int) -> Tensor:
        C = self._output(direction)
        return x.real @ C.real.T - x.imag @ C.imag.T
