"""The Ornstein-Uhlenbeck process, sampled without discretization."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from learning_dynamics._internal.arguments import (
    require_generator,
    require_number,
    require_numbers,
    require_tensors,
)


class OrnsteinUhlenbeck:
    r"""The linear diffusion :math:`dx=-A\,x\,dt+B\,dW`.

    Over a time t its law is known: :math:`x_t\sim\mathcal N(e^{-At}x_0,\ V_t)`,
    :math:`V_t=\int_0^te^{-As}BB^\top e^{-A^\top s}\,ds`, so that a path is exact at the times asked for, however
    far apart they are. Use `euler_maruyama` only for what is not linear.

    Source: Uhlenbeck and Ornstein (1930); the integral by Van Loan (1978), IEEE Trans. Automatic Control 23.

    Args:
        A: `(d, d)`, any square matrix.
        B: `(d, m)`, the noise enters through m channels.

    Raises:
        ValueError: the shapes do not fit together.
    """

    def __init__(self, A: Tensor, B: Tensor) -> None:
        require_tensors(A=(A, "d d"), B=(B, "d m"), finite=True)
        self.A, self.B = A, B

    def transition(self, time: float) -> tuple[Tensor, Tensor]:
        """Return :math:`e^{-At}` and :math:`V_t`, each `(d, d)`.

        Args:
            time: t >= 0, finite.

        Raises:
            ValueError: the time is negative or not finite.
        """
        require_number("time", time, least=0)
        A, B = (matrix.detach().cpu().double().numpy() for matrix in (self.A, self.B))
        d = len(A)
        # halve t until the block exponential is harmless: it holds e^{+At} beside e^{-At}
        halvings = max(0, int(np.ceil(np.log2(max(np.abs(A).sum(1).max() * time, 1e-300)))))
        short = time / 2**halvings
        block = np.block([[-A, B @ B.T], [np.zeros((d, d)), A.T]]) * short
        exponential = scipy.linalg.expm(block)
        decay = exponential[:d, :d]
        V = exponential[:d, d:] @ decay.T
        for _ in range(halvings):  # V_{2t} = V_t + e^{-At} V_t e^{-A't}
            V = V + decay @ V @ decay.T
            decay = decay @ decay
        return torch.as_tensor(decay).to(self.A), torch.as_tensor((V + V.T) / 2).to(self.A)

    def stationary_covariance(self) -> Tensor:
        r"""Return the solution of :math:`AV+VA^\top=BB^\top`, `(d, d)`.

        Raises:
            ValueError: an eigenvalue of A has no positive real part: there is no stationary law.
        """
        A, B = (matrix.detach().cpu().double().numpy() for matrix in (self.A, self.B))
        slowest = np.linalg.eigvals(A).real.min()
        if not slowest > 0:
            raise ValueError(f"A has an eigenvalue with real part {slowest:.3g}; allowed: all positive")
        V = scipy.linalg.solve_continuous_lyapunov(A, B @ B.T)
        return torch.as_tensor((V + V.T) / 2).to(self.A)

    def sample(self, x0: Tensor, times: Sequence[float] | Tensor, generator: torch.Generator) -> Tensor:
        """Return exact paths at the given times.

        Args:
            x0: `(*batch, d)`, the starts at time 0.
            times: `(R,)`, increasing, >= 0.
            generator: a generator on the CPU.

        Returns:
            `(R, *batch, d)`.

        Raises:
            ValueError: the times do not increase, `x0` has another d, or there is no generator.
        """
        require_generator(generator)
        clock = require_numbers("times", times)
        if clock.ndim != 1:
            raise ValueError(f"times has shape {tuple(clock.shape)}; allowed: (R,)")
        grid = clock.tolist()
        require_tensors(A=(self.A, "d d"), x0=(x0, "*batch d"))
        if not grid or grid[0] < 0 or any(b <= a for a, b in pairwise(grid)):
            raise ValueError(f"times = {grid}; allowed: strictly increasing, >= 0, at least one")
        x, now, path = x0, 0.0, []
        known: dict[float, tuple[Tensor, Tensor]] = {}
        for time in grid:
            gap = round(time - now, 12)
            if gap not in known:
                decay, V = self.transition(gap)
                known[gap] = decay, _root(V)
            decay, root = known[gap]
            fresh = torch.randn(x.shape, generator=generator, dtype=x.dtype, device=generator.device)
            fresh = fresh.to(x.device)
            x, now = x @ decay.mT + fresh @ root.mT, time
            path.append(x)
        return torch.stack(path)


def _root(V: Tensor) -> Tensor:
    """Return R with R R' = V; V may be singular."""
    eigenvalues, Q = torch.linalg.eigh(V)
    return Q * eigenvalues.clamp(min=0).sqrt()
