"""Means of simple losses, whose minibatches have minima that can be computed: quadratics and logistic regression.

Both answer the same questions. A minibatch is given by its indices `rows (*runs, b)`; parameters have the shape
`(*runs, grid, d)`, so that all members of a grid (step sizes, starts) see the same minibatch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

from learning_dynamics._internal.arguments import require_indices, require_last, require_tensors


@dataclass(frozen=True, eq=False)
class QuadraticSum:
    r"""The mean of :math:`\ell_i(\theta) = \frac12 (\theta - z_i)^\top H_i (\theta - z_i) + a_i`.

    Args:
        curvatures: `(n, d, d)`, the symmetric matrices H_i; the mean of any minibatch is positive definite.
        centers: `(n, d)`, the points z_i.
        floors: `(n)`, the numbers a_i; zeros if left out.

    Raises:
        ValueError: the shapes do not match.
    """

    curvatures: Tensor
    centers: Tensor
    floors: Tensor | None = None

    def __post_init__(self) -> None:
        """Check the shapes and fill in the floors."""
        n = require_tensors(
            centers=(self.centers, "n d"), curvatures=(self.curvatures, "n d d"), finite=True
        )["n"]
        if self.floors is None:
            object.__setattr__(self, "floors", self.centers.new_zeros(n))
        else:
            require_tensors(centers=(self.centers, "n d"), floors=(self.floors, "n"), finite=True)

    @property
    def smoothness(self) -> Tensor:
        """The constants L_i, `(n)`: largest eigenvalues."""
        return torch.linalg.eigvalsh(self.curvatures)[:, -1]

    @property
    def strong_convexity(self) -> Tensor:
        """The constants mu_i, `(n)`: smallest eigenvalues."""
        return torch.linalg.eigvalsh(self.curvatures)[:, 0]

    def _of_batch(self, rows: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return H, H z and the constant of the mean over a minibatch."""
        if rows is not None:
            require_indices("rows", rows)
        linear = torch.einsum("nij,nj->ni", self.curvatures, self.centers)
        constant = (self.centers * linear).sum(-1) / 2
        if self.floors is not None:
            constant = constant + self.floors
        if rows is None:
            return self.curvatures.mean(0), linear.mean(0), constant.mean()
        return self.curvatures[rows].mean(-3), linear[rows].mean(-2), constant[rows].mean(-1)

    def oracle(self, theta: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return loss and gradient of a minibatch.

        Args:
            theta: `(*runs, grid, d)`.
            rows: `(*runs, b)`, the samples of each run's minibatch; all samples if left out.

        Returns:
            The loss `(*runs, grid)` and the gradient `(*runs, grid, d)`.

        Raises:
            ValueError: the shapes do not fit, or `theta` has another dtype than the data.
        """
        _require_oracle(theta, rows, self.centers)
        H, linear, constant = self._of_batch(rows)
        curved = theta @ H
        gradient = curved - linear[..., None, :]
        loss = ((curved / 2 - linear[..., None, :]) * theta).sum(-1) + constant[..., None]
        return loss, gradient

    def minimizer(self, rows: Tensor | None = None) -> Tensor:
        """Return the minimizer of a minibatch, `(*runs, d)`; of all samples, `(d)`.

        Args:
            rows: `(*runs, b)`, the samples of each run's minibatch; all samples if left out.

        Raises:
            ValueError: `rows` are no indices.
        """
        H, linear, _ = self._of_batch(rows)
        return torch.linalg.solve(H, linear)

    def minimum(self, rows: Tensor | None = None) -> Tensor:
        """Return the least loss of a minibatch, `(*runs)`.

        Args:
            rows: `(*runs, b)`, the samples of each run's minibatch; all samples if left out.
        """
        return self.oracle(self.minimizer(rows)[..., None, :], rows)[0][..., 0]


@dataclass(frozen=True, eq=False)
class LogisticSum:
    r"""The mean of :math:`\ell_i(\theta) = \ln(1 + e^{-y_i \langle x_i, \theta\rangle}) + \frac\rho2\|\theta\|^2`.

    Args:
        inputs: `(n, d)`, rows are samples.
        signs: `(n)`, the targets y_i, each -1 or 1.
        ridge: rho >= 0.

    Raises:
        ValueError: the shapes do not match, a target is not -1 or 1, or `ridge` is negative.
    """

    inputs: Tensor
    signs: Tensor
    ridge: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        require_tensors(inputs=(self.inputs, "n d"), signs=(self.signs, "n"), finite=True)
        if not (self.signs.abs() == 1).all():
            raise ValueError(f"signs has the values {self.signs.unique().tolist()[:5]}; allowed: -1 and 1")
        if not self.ridge >= 0:
            raise ValueError(f"ridge = {self.ridge!r}; allowed: numbers >= 0")

    @property
    def smoothness(self) -> Tensor:
        """The constants L_i, `(n)`: a quarter of the squared input norms, plus the ridge."""
        return self.inputs.square().sum(-1) / 4 + self.ridge

    @property
    def strong_convexity(self) -> Tensor:
        """The constants mu_i, `(n)`: the ridge."""
        return torch.full_like(self.signs, self.ridge)

    def _signed(self, rows: Tensor | None) -> Tensor:
        """Return the inputs of a minibatch times their targets, `(*runs, b, d)`."""
        if rows is not None:
            require_indices("rows", rows)
        signed = self.inputs * self.signs[:, None]
        return signed if rows is None else signed[rows]

    def oracle(self, theta: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return loss and gradient of a minibatch.

        Args:
            theta: `(*runs, grid, d)`.
            rows: `(*runs, b)`, the samples of each run's minibatch; all samples if left out.

        Returns:
            The loss `(*runs, grid)` and the gradient `(*runs, grid, d)`.

        Raises:
            ValueError: the shapes do not fit, or `theta` has another dtype than the data.
        """
        _require_oracle(theta, rows, self.inputs)
        signed = self._signed(rows)
        margins = theta @ signed.mT
        loss = softplus(-margins).mean(-1) + self.ridge / 2 * theta.square().sum(-1)
        gradient = -torch.sigmoid(-margins) @ signed / signed.shape[-2] + self.ridge * theta
        return loss, gradient

    def minimizer(self, rows: Tensor | None = None, tolerance: float = 1e-13) -> Tensor:
        """Return the minimizer of a minibatch, `(*runs, d)`, by Newton's method with step halving.

        Args:
            rows: the minibatches, `(*runs, b)`; all samples if left out.
            tolerance: largest allowed norm of the gradient, relative to 1 plus its norm at zero.

        Raises:
            ValueError: the ridge is zero and a minibatch is separable, or 60 steps do not reach the tolerance.
        """
        signed = self._signed(rows)
        theta = signed.new_zeros(*signed.shape[:-2], 1, signed.shape[-1])
        eye = torch.eye(signed.shape[-1], dtype=signed.dtype, device=signed.device)
        loss, gradient = self.oracle(theta, rows)
        goal = tolerance * (1 + gradient.norm(dim=-1))
        for _ in range(60):
            if (gradient.norm(dim=-1) <= goal).all():
                break
            weight = torch.sigmoid(theta @ signed.mT)
            weight = (weight * (1 - weight)).mT / signed.shape[-2]
            hessian = signed.mT @ (weight * signed) + self.ridge * eye
            newton = torch.linalg.lstsq(hessian, gradient.mT).solution.mT
            scale = torch.ones_like(loss)[..., None]
            for _ in range(30):
                worse = self.oracle(theta - scale * newton, rows)[0] > loss * (1 + 1e-15)
                if not worse.any():
                    break
                scale = torch.where(worse[..., None], scale / 2, scale)
            theta = theta - scale * newton
            loss, gradient = self.oracle(theta, rows)
        if self.ridge == 0 and (theta @ signed.mT > 0).all(-1).any():
            raise ValueError("ridge=0 and a minibatch is separable: it has no minimizer; allowed: ridge > 0")
        worst = float((gradient.norm(dim=-1) / goal).max()) if goal.numel() else 0.0
        if worst > 100:
            raise ValueError(
                f"ridge = {self.ridge!r}, where the gradient stays {worst:.1g} times above the tolerance; "
                "allowed: larger"
            )
        return theta[..., 0, :]

    def minimum(self, rows: Tensor | None = None) -> Tensor:
        """Return the least loss of a minibatch, `(*runs)`.

        Args:
            rows: `(*runs, b)`, the samples of each run's minibatch; all samples if left out.
        """
        return self.oracle(self.minimizer(rows)[..., None, :], rows)[0][..., 0]


def _require_oracle(theta: Tensor, rows: Tensor | None, data: Tensor) -> None:
    """Raise unless parameters `(*runs, grid, d)` and rows `(*runs, b)` fit together and to the data `(n, d)`."""
    require_last("theta", theta, data, data.shape[-1])
    if theta.ndim < 2 or rows is not None and rows.ndim > theta.ndim - 1:
        shapes = tuple(theta.shape), None if rows is None else tuple(rows.shape)
        raise ValueError(f"theta, rows = shapes {shapes}; allowed: (*runs, grid, d) and (*runs, b)")
    if rows is not None:
        try:
            torch.broadcast_shapes(theta.shape[:-2], rows.shape[:-1])
        except RuntimeError:
            raise ValueError(
                f"rows has shape {tuple(rows.shape)}; allowed: (*runs, b) with theta {tuple(theta.shape)}"
            ) from None
