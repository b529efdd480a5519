"""The recurrent layer with a full state matrix."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn

from learning_dynamics.models.recurrence.shapes import require_choice, require_sequence, require_widths

Activation = Literal["linear", "tanh", "relu"]
ACTIVATIONS = {"linear": lambda x: x, "tanh": torch.tanh, "relu": torch.relu}
SLOPES = {"linear": torch.ones_like, "tanh": lambda x: 1 - x * x, "relu": lambda x: (x > 0).to(x)}
"""The derivative of each activation, as a function of its value."""


class DenseRecurrence(nn.Module):
    r"""A recurrent layer with a dense real state matrix (Orvieto 2023, eq. 120).

    .. math:: x_j=\phi(A x_{j-1}+B u_j),\qquad y_j=C x_j+D u_j,\qquad x_{-1}=0

    Glorot start: the entries of A, B, C are normal with variance 2/(rows + columns) (Glorot and Bengio 2010); those of
    D are zero off the diagonal and standard normal on it.

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
        require_widths(inputs=inputs, states=states, outputs=outputs)
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
        return self.A.new_zeros(*batch, self.A.shape[0])

    def step(self, u: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output `(*batch, outputs)` and the next state `(*batch, N)`.

        Args:
            u: `(*batch, inputs)`, one input.
            x: `(*batch, N)`, the state.
        """
        x = ACTIVATIONS[self.activation](x @ self.A.T + u @ self.B.T)
        return x @ self.C.T + u @ self.D.T, x

    def states(self, u: Tensor) -> Tensor:
        """Return the states `(*batch, T, N)` that the sequence `u (*batch, T, inputs)` leaves behind.

        Raises:
            ValueError: the sequence has another number of inputs, or is empty.
        """
        require_sequence("u", u, self.B.shape[1])
        driven = u @ self.B.T
        return _States.apply(
            self.A, driven.flatten(0, -3) if u.ndim > 2 else driven[None], self.activation
        ).reshape(driven.shape)

    def forward(self, u: Tensor) -> Tensor:
        """Return the outputs `(*batch, T, outputs)` of a sequence `u (*batch, T, inputs)`."""
        return self.states(u) @ self.C.T + u @ self.D.T


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

        return _States.apply(first(A, in_dims[0]), first(b, in_dims[1]), activation), 0
