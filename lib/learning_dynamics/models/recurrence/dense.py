"""The recurrent layer with a full state matrix."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn

from learning_dynamics._internal.arguments import require_choice, require_counts
from learning_dynamics.models.recurrence.padding import padding
from learning_dynamics.models.recurrence.precision import admitted, as_it_stands, lifted
from learning_dynamics.models.recurrence.shapes import admitted_state, require_position, require_sequence

Activation = Literal["linear", "tanh", "relu"]
ACTIVATIONS = {"linear": lambda x: x, "tanh": torch.tanh, "relu": torch.relu}
SLOPES = {"linear": torch.ones_like, "tanh": lambda x: 1 - x * x, "relu": lambda x: (x > 0).to(x)}
"""The derivative of each activation, as a function of its value."""


class DenseRecurrence(nn.Module):
    r"""A recurrent layer with a dense real state matrix (Orvieto 2023, eq. 120).

    .. math:: x_j=\phi(A x_{j-1}+B u_j),\qquad y_j=C x_j+D u_j,\qquad x_{-1}=0

    Glorot start: the entries of A, B, C are normal with variance 2/(rows + columns) (Glorot and Bengio 2010); those of
    D are zero off the diagonal and standard normal on it. Half-precision layers, and all layers under autocast, compute
    in float32; the outputs have the dtype of the layer's parameters.

    Args:
        inputs: width of u_j, >= 1.
        states: number N of states, >= 1.
        outputs: width of y_j; `inputs` if left out.
        activation: `linear`, `tanh` or `relu`.
        generator: source of the initial weights (on the CPU); PyTorch's global one if left out.

    Raises:
        ValueError: a width below 1 or an unknown activation; in `forward`, an empty or ill-shaped sequence.
    """

    def __init__(
        self,
        inputs: int,
        states: int,
        outputs: int | None = None,
        *,
        activation: Activation = "tanh",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        outputs = inputs if outputs is None else outputs
        require_counts(inputs=inputs, states=states, outputs=outputs)
        require_choice("activation", activation, tuple(ACTIVATIONS))
        self.activation = activation

        def normal(rows: int, columns: int) -> nn.Parameter:
            return nn.Parameter(
                torch.randn(rows, columns, generator=generator) * math.sqrt(2 / (rows + columns))
            )

        self.A, self.B, self.C = normal(states, states), normal(states, inputs), normal(outputs, states)
        self.D = nn.Parameter(
            torch.zeros(outputs, inputs).fill_diagonal_(1.0) * torch.randn(outputs, 1, generator=generator)
        )

    def start(self, *batch: int) -> Tensor:
        """Return the state before the first input, zeros `(*batch, N)`."""
        return lifted(self.A).new_zeros(*batch, self.A.shape[0])

    def step(self, u: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output `(*batch, outputs)` and the next state `(*batch, N)`.

        Args:
            u: `(*batch, inputs)`, one input.
            x: `(*batch, N)`, the state.

        Raises:
            ValueError: a shape or dtype is another.
        """
        require_position("u", u, self.B.shape[1])
        x = admitted_state(x, (*u.shape[:-1], self.A.shape[0]), lifted(self.A).dtype)
        u, (A, B, C, D) = admitted("u", u, self.A), self._matrices()
        with as_it_stands(u.device):
            x = ACTIVATIONS[self.activation](x @ A.T + u @ B.T)
            return (x @ C.T + u @ D.T).to(self.A.dtype), x

    def states(self, u: Tensor, state: Tensor | None = None) -> Tensor:
        """Return the states `(*batch, T, N)` that a sequence leaves behind.

        Args:
            u: `(*batch, T, inputs)`.
            state: the state before the first position, `(*batch, N)`; zero if left out.

        Raises:
            ValueError: the sequence has another number of inputs or dtype or is empty, or the state has another shape.
        """
        require_sequence("u", u, self.B.shape[1])
        if state is not None:
            state = admitted_state(state, (*u.shape[:-2], self.A.shape[0]), lifted(self.A).dtype)
        u, (A, B, _, _) = admitted("u", u, self.A), self._matrices()
        with as_it_stands(u.device):
            driven = u @ B.T
            if state is not None:
                driven = torch.cat([driven[..., :1, :] + (state @ A.T)[..., None, :], driven[..., 1:, :]], -2)
            return _states(A, driven.flatten(0, -3) if u.ndim > 2 else driven[None], self.activation).reshape(
                driven.shape
            )

    def forward(
        self,
        u: Tensor,
        *,
        lengths: Tensor | None = None,
        mask: Tensor | None = None,
        state: Tensor | None = None,
    ) -> Tensor:
        """Return the outputs `(*batch, T, outputs)` of a sequence; zeros at positions that do not count.

        Args:
            u: `(*batch, T, inputs)`.
            lengths: `(*batch)` whole numbers from 1 to T: only the first so many positions count.
            mask: `(*batch, T)` booleans, instead of `lengths`: positions with False are left out.
            state: the state before the first position, `(*batch, N)`; zero if left out.

        Raises:
            ValueError: a shape or dtype is another.
        """
        return self.advance(u, state, lengths=lengths, mask=mask)[0]

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
            u: `(*batch, T, inputs)`, the chunk.
            state: the state before it, `(*batch, N)`; zero if left out.
            lengths: `(*batch)`, how many positions of the chunk count, see `forward`.
            mask: `(*batch, T)`, which positions of the chunk count, see `forward`.

        Returns:
            outputs `(*batch, T, outputs)` and state `(*batch, N)`.

        Raises:
            ValueError: a shape or dtype is another.
        """
        require_sequence("u", u, self.B.shape[1])
        u, pad = admitted("u", u, self.A), padding(u, lengths, mask)
        u = u if pad is None else pad.gathered(u)
        with as_it_stands(u.device):
            _, _, C, D = self._matrices()
            x = self.states(u.to(self.A.dtype), state)
            y = x @ C.T + u @ D.T
        y = y if pad is None else pad.scattered(y)
        return y.to(self.A.dtype), x[..., -1, :] if pad is None else pad.last(x)

    def _matrices(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return lifted(self.A), lifted(self.B), lifted(self.C), lifted(self.D)


class _States(torch.autograd.Function):
    """x_j = phi(A x_{j-1} + b_j) for `A (*runs, N, N)`, `b (*runs, batch, T, N)`, with back-propagation through time.

    Written out, since a tape of T small operations costs several times as much as the operations.
    """

    @staticmethod
    def forward(A: Tensor, b: Tensor, activation: str) -> Tensor:
        phi, transposed = ACTIVATIONS[activation], A.mT
        path = [phi(b[..., 0, :])]
        for j in range(1, b.shape[-2]):
            path.append(phi(b[..., j, :] + path[-1] @ transposed))
        return torch.stack(path, dim=-2)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        A, _, ctx.activation = inputs
        ctx.save_for_backward(A, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        A, x = ctx.saved_tensors
        slope = SLOPES[ctx.activation](x)
        with as_it_stands(grad.device):
            path = [grad[..., -1, :] * slope[..., -1, :]]
            for j in range(x.shape[-2] - 2, -1, -1):
                path.append((grad[..., j, :] + path[-1] @ A) * slope[..., j, :])
            of_b = torch.stack(path[::-1], dim=-2)
            later, earlier = of_b[..., 1:, :].flatten(-3, -2), x[..., :-1, :].flatten(-3, -2)
            return later.mT @ earlier, of_b, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], A: Tensor, b: Tensor, activation: str
    ) -> tuple[Tensor, int]:
        def first(tensor: Tensor, axis: int | None) -> Tensor:
            return tensor.expand(info.batch_size, *tensor.shape) if axis is None else tensor.movedim(axis, 0)

        return _states(first(A, in_dims[0]), first(b, in_dims[1]), activation), 0


class _WithTangent(_States):
    """The states with their derivative in forward mode, too, which torch.compile does not take."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _States.setup_context(ctx, inputs, output)
        ctx.save_for_forward(inputs[0], output)

    @staticmethod
    def jvp(ctx: Any, of_A: Tensor | None, of_b: Tensor | None, _: None) -> Tensor:
        A, x = ctx.saved_tensors
        slope = SLOPES[ctx.activation](x)
        with as_it_stands(x.device):
            entering = torch.zeros_like(x) if of_b is None else of_b
            path = [slope[..., 0, :] * entering[..., 0, :]]
            for j in range(1, x.shape[-2]):
                moved = entering[..., j, :] + path[-1] @ A.mT
                if of_A is not None:
                    moved = moved + x[..., j - 1, :] @ of_A.mT
                path.append(slope[..., j, :] * moved)
            return torch.stack(path, dim=-2)


def _states(A: Tensor, b: Tensor, activation: str) -> Tensor:
    kind = _States if torch.compiler.is_compiling() else _WithTangent
    return kind.apply(A, b, activation)
