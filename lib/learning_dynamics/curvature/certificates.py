"""What a set of points says about the smoothness and the convexity of a loss."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.func import grad, vmap

from learning_dynamics._internal.arguments import require_tensors


class Certificates:
    r"""Four numbers for every ordered pair of points, from which all conditions of smooth optimization are read.

    For a pair (x, y) with the gradients :math:`g_x,g_y`: the **gap**
    :math:`\mathcal L(y)-\mathcal L(x)-\langle g_x,y-x\rangle` of the tangent plane at x, the **rise**
    :math:`\langle g_x-g_y,x-y\rangle`, the squared **distance** :math:`\lVert x-y\rVert^2` and the squared **change**
    :math:`\lVert g_x-g_y\rVert^2` of the gradient. L-smoothness says change <= L^2 distance, convexity
    gap >= 0, strong convexity gap >= mu distance / 2, co-coercivity rise >= change / L, and so on.

    Points can refute a condition and never prove it: `smoothness` is a lower bound of L, `strong_convexity` an upper
    bound of mu.

    Source: Nesterov (2018), Lectures on Convex Optimization, sec. 2.1; Orvieto (2023), Eqs. (181) to (191).

    Args:
        loss: `loss(theta) -> ()` of one point `theta (d)`, differentiable.
        points: `(N, d)`, floating point, N >= 2.

    Attributes:
        values: `(N,)`, the losses.
        gradients: `(N, d)`.
        gap: `(N, N)`; row x, column y.
        rise: `(N, N)`.
        distance: `(N, N)`.
        change: `(N, N)`.

    Raises:
        ValueError: `points` is not `(N, d)` with N >= 2.
    """

    def __init__(self, loss: Callable[[Tensor], Tensor], points: Tensor) -> None:
        require_tensors(points=(points, "N d"), finite=True)
        if len(points) < 2:
            raise ValueError(f"points has shape {tuple(points.shape)}; allowed: (N, d) with N >= 2")
        self.values: Tensor = vmap(loss)(points)
        self.gradients: Tensor = vmap(grad(loss))(points)
        step = points - points[:, None]  # y - x at [x, y]
        turn = self.gradients - self.gradients[:, None]
        self.gap: Tensor = self.values - self.values[:, None] - (self.gradients[:, None] * step).sum(-1)
        self.rise: Tensor = (turn * step).sum(-1)
        self.distance: Tensor = step.square().sum(-1)
        self.change: Tensor = turn.square().sum(-1)

    def smoothness(self) -> float:
        """Return the least L for which the gradient is L-Lipschitz on these points: a lower bound of the true L."""
        apart = self.distance > 0
        return float((self.change[apart] / self.distance[apart]).max().sqrt())

    def strong_convexity(self) -> float:
        """Return the largest mu for which the loss lies above its parabolas on these points: an upper bound of mu.

        It is negative where the points show that the loss is not convex.
        """
        apart = self.distance > 0
        return float((2 * self.gap[apart] / self.distance[apart]).min())

    def polyak_lojasiewicz(self, infimum: float) -> float:
        r"""Return the largest PL constant that these points allow.

        It is the least :math:`\lVert\nabla\mathcal L\rVert^2/2(\mathcal L-\mathcal L^\star)` among them.

        Args:
            infimum: the infimum of the loss, at most the least value on the points.

        Returns:
            An upper bound of the PL constant; infinite if every point attains the infimum.

        Raises:
            ValueError: the infimum lies above a value on the points.
        """
        height = self.values - infimum
        if (height < 0).any():
            raise ValueError(f"infimum = {infimum}; allowed: at most the least loss on the points")
        above = height > 0
        if not above.any():
            return float("inf")
        return float((self.gradients[above].square().sum(-1) / (2 * height[above])).min())
