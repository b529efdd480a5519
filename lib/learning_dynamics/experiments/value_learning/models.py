"""Weights of features, stored (explicit) or the values of a latent chain (implicit), under SGD.

All models hold a grid of runs: their tensors start with the axes (configurations, seeds).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from learning_dynamics import runs
from learning_dynamics.parameterization import mdp
from learning_dynamics.parameterization.mdp.process import require_discount
from learning_dynamics.rules import Rule


class Model(Protocol):
    """What is trained: weights of the features, and how a gradient with respect to them moves the parameters."""

    def weights(self) -> Tensor:
        """Return the effective weights `(configurations, seeds, d)`."""
        ...

    def step(self, gradient: Tensor) -> None:
        """Take one step.

        Args:
            gradient: `(configurations, seeds, d)`, with respect to the weights.
        """
        ...


class Explicit:
    """Weights that are stored and moved by an update rule.

    Args:
        start: `(configurations, seeds, d)`.
        rule: an update rule with step sizes `(configurations, 1, 1)`.
        precondition: maps the gradient before the rule sees it; the identity if left out.
    """

    def __init__(
        self, start: Tensor, rule: Rule[Any], precondition: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        self.theta, self.rule, self.precondition = start, rule, precondition
        self.state = rule.start(start)

    def weights(self) -> Tensor:
        """Return the weights."""
        return self.theta

    def step(self, gradient: Tensor) -> None:
        """Move the weights."""
        if self.precondition is not None:
            gradient = self.precondition(gradient)
        self.theta, self.state = self.rule.step(self.theta, gradient, self.state)


class Implicit:
    r"""Weights that are the values of a latent chain, :math:`\beta=A^{-1}u` with :math:`A=I-\hat\gamma S_Z`.

    One LU factorization of A serves both directions. With :math:`a=A^{-\top}\nabla_\beta` the gradient is a with
    respect to u, and :math:`[a]_k[S_Z]_{kj}(\hat\gamma\beta_j-[\hat\gamma S_Z\beta]_k)` with respect to Z, where
    :math:`\hat\gamma S_Z\beta=\beta-u`.

    Args:
        rewards: latent rewards u, `(configurations, seeds, d)`; changed in place.
        logits: latent logits Z, `(configurations, seeds, d, d)`; changed in place.
        discount: internal discounts, `(configurations,)` or a number, in [0, 1).
        step_size: `(configurations,)` or a number.

    Raises:
        ValueError: a discount is outside [0, 1).
    """

    def __init__(
        self, rewards: Tensor, logits: Tensor, discount: Tensor | float, step_size: Tensor | float
    ) -> None:
        self.u, self.Z = rewards, logits
        self.discount, self.step_size = _column(discount, rewards), _column(step_size, rewards)
        for value in self.discount.flatten().tolist():
            require_discount("discount", value)
        self.eye = torch.eye(rewards.shape[-1], dtype=rewards.dtype, device=rewards.device)
        self._prepare()

    def _prepare(self) -> None:
        """For a subclass: make what it keeps beside the parameters."""

    def weights(self) -> Tensor:
        """Solve for the values; the factorization is kept for the backward solve."""
        self.S = torch.softmax(self.Z, -1)
        A = self.S * -self.discount[..., None]
        A.diagonal(dim1=-2, dim2=-1).add_(1.0)
        self.lu = torch.linalg.lu_factor_ex(A)[:2]
        self.beta = torch.linalg.lu_solve(*self.lu, self.u[..., None])[..., 0]
        return self.beta

    def step(self, gradient: Tensor) -> None:
        """Move rewards and logits; `weights` must have been called since the last step."""
        a = torch.linalg.lu_solve(*self.lu, gradient[..., None], adjoint=True)[..., 0] * self.step_size
        change = (self.discount * self.beta)[..., None, :] - (self.beta - self.u)[..., None]
        self.Z -= change.mul_(self.S).mul_(a[..., None])
        self.u -= a

    def preconditioner(self) -> Tensor:
        """Return P, `(configurations, seeds, d, d)`: to first order a step moves the weights by -step P gradient."""
        self.weights()
        inverse = torch.linalg.lu_solve(*self.lu, self.eye.expand_as(self.S).contiguous())
        moved = (self.discount * self.beta)[..., None, :] - (self.beta - self.u)[..., None]
        squared = (self.S * moved).square().sum(-1)
        return (inverse * (1 + squared)[..., None, :]) @ inverse.mT


class ImplicitActions:
    r"""Weights that solve :math:`\beta=\max_a(u_a+\hat\gamma S_{Z_a}\beta)`, with the gradient of the greedy chain.

    The fixed point is found by policy iteration, started at the last greedy policy. Only the rows that the greedy
    policy uses are moved.

    Args:
        rewards: `(configurations, seeds, a, d)`; changed in place.
        logits: `(configurations, seeds, a, d, d)`; changed in place.
        discount: as in `Implicit`.
        step_size: as in `Implicit`.
        solves: most linear solves a step; a run that is still changing then keeps its last policy.

    Raises:
        ValueError: there are no configurations, or `solves` is below 1.
    """

    def __init__(
        self,
        rewards: Tensor,
        logits: Tensor,
        discount: Tensor | float,
        step_size: Tensor | float,
        solves: int = 30,
    ) -> None:
        self.u, self.Z, self.solves = rewards, logits, solves
        self.discount, self.step_size = _column(discount, rewards), _column(step_size, rewards)
        for value in self.discount.flatten().tolist():
            require_discount("discount", value)
        self.S = torch.softmax(logits, -1)
        self.greedy = rewards.argmax(-2)
        self._prepare()

    def _prepare(self) -> None:
        """For a subclass: make what it keeps beside the parameters."""

    def weights(self) -> Tensor:
        """Solve for the values of the greedy policy."""
        for _ in range(self.solves):
            self.rows, self.used = mdp.chosen(self.S, self.u, self.greedy)
            A = self.rows * -self.discount[..., None]
            A.diagonal(dim1=-2, dim2=-1).add_(1.0)
            self.lu = torch.linalg.lu_factor_ex(A)[:2]
            self.beta = torch.linalg.lu_solve(*self.lu, self.used[..., None])[..., 0]
            better = self.u + self.discount[..., None] * (self.S @ self.beta[..., None, :, None])[..., 0]
            slack = 1e3 * torch.finfo(self.u.dtype).eps * self.beta.abs().amax(-1, keepdim=True)
            gains = better.amax(-2) > self.beta + slack
            if not gains.any():
                break
            self.greedy = torch.where(gains, better.argmax(-2), self.greedy)
        return self.beta

    def step(self, gradient: Tensor) -> None:
        """Move the rows of the greedy policy; `weights` must have been called since the last step."""
        a = torch.linalg.lu_solve(*self.lu, gradient[..., None], adjoint=True)[..., 0] * self.step_size
        change = (self.discount * self.beta)[..., None, :] - (self.beta - self.used)[..., None]
        change.mul_(self.rows).mul_(a[..., None])
        index = self.greedy[..., None, :]
        wide = index[..., None].expand(*index.shape, self.Z.shape[-1])
        self.Z.scatter_add_(-3, wide, -change[..., None, :, :])
        self.u.scatter_add_(-2, index, -a[..., None, :])
        moved = torch.softmax(self.Z.gather(-3, wide), -1)
        self.S.scatter_(-3, wide, moved)


class LatentStart(NamedTuple):
    """The latent model before the first step.

    Attributes:
        rewards: `(seeds, a, d)`.
        logits: `(seeds, a, d, d)`.
    """

    rewards: Tensor
    logits: Tensor


def latent_start(run: runs.Run, seeds: Sequence[int], weights: int, actions: int = 1) -> LatentStart:
    """Return the released start: log(Dirichlet(1, ..., 1) + 2 on the diagonal), rewards 0.1 N(0, 1).

    Each row of logits is shifted so that its maximum is zero. The seeds' streams do not depend on the number of
    seeds; the first action is the same whatever the number of actions.

    Args:
        run: whose streams are drawn from.
        seeds: one start for each.
        weights: d.
        actions: a, >= 1.
    """
    rewards, logits = [], []
    for seed in seeds:
        source = run.generator("start", seed=seed)
        for _ in range(actions):
            rewards.append(0.1 * torch.randn(weights, generator=source, dtype=torch.float64))
            gaps = (
                -torch.rand(weights, weights, generator=source, dtype=torch.float64).clamp_min(1e-300).log()
            )
            simplex = gaps / gaps.sum(-1, keepdim=True)
            Z = (simplex + 2 * torch.eye(weights, dtype=torch.float64)).log()
            logits.append(Z - Z.amax(-1, keepdim=True))
    shape = (len(seeds), actions, weights)
    return LatentStart(torch.stack(rewards).reshape(shape), torch.stack(logits).reshape(*shape, weights))


def _column(value: Tensor | float, like: Tensor) -> Tensor:
    """Return one number a configuration as `(configurations or 1, 1, 1)`."""
    return torch.as_tensor(value, dtype=like.dtype, device=like.device).reshape(-1, 1, 1)
