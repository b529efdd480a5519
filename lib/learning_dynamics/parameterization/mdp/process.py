"""Markov decision processes as arrays, the chains that policies make of them, and their exact values."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import require_numbers, require_tensors


@dataclass(frozen=True, eq=False)
class MarkovDecisionProcess:
    """A finite process with discounted rewards; all tensors have one floating point dtype and one device.

    Args:
        transitions: `(a, s, s)`; entry `[i, j, l]` is the probability that action i leads from state j to l.
        rewards: `(a, s)`, the expected reward of action i in state j.
        features: `(s, d)`, one row a state.
        discount: gamma, in [0, 1).

    Raises:
        ValueError: a shape does not match, a row is not a probability distribution, a number is not finite, or the
            discount is outside [0, 1).
    """

    transitions: Tensor
    rewards: Tensor
    features: Tensor
    discount: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        require_discount("discount", self.discount)
        require_tensors(
            transitions=(self.transitions, "actions states states"),
            rewards=(self.rewards, "actions states"),
            features=(self.features, "states d"),
            finite=True,
        )
        require_stochastic("transitions", self.transitions)

    @property
    def states(self) -> int:
        """The number of states."""
        return self.transitions.shape[1]

    def under(self, policy: Tensor) -> tuple[Tensor, Tensor]:
        """Return the chain that a policy makes: transition matrix `(s, s)` and expected rewards `(s,)`.

        Args:
            policy: `(s, a)`, probabilities of the actions.

        Raises:
            ValueError: a row of the policy is not a probability distribution, or its shape does not match.
        """
        require_tensors(rewards=(self.rewards, "a s"), policy=(policy, "s a"))
        require_stochastic("policy", policy)
        return (
            torch.einsum("sa,ast->st", policy, self.transitions),
            torch.einsum("sa,as->s", policy, self.rewards),
        )

    def values(self, policy: Tensor, offset: float | Tensor = 0.0) -> Tensor:
        """Return the exact values `(*offsets, s)` of a policy, the offset added to every reward.

        The offset is paid in absorbing states too, so that it adds `offset / (1 - gamma)` everywhere.

        Args:
            policy: `(s, a)`, rows that sum to one.
            offset: a number, or a tensor `(*offsets)`.

        Raises:
            ValueError: as `under`, or an offset is not a finite real number.
        """
        chain, rewards = self.under(policy)
        offset = require_numbers("offset", offset, rewards)
        return chain_values(chain, rewards + offset[..., None], self.discount)


def chain_values(chain: Tensor, rewards: Tensor, discount: float) -> Tensor:
    r"""Return the values :math:`(I-\gamma P)^{-1}r` of Markov reward chains.

    Args:
        chain: `(*batch, s, s)`, row-stochastic.
        rewards: `(*batch, s)`; the batch axes of the two broadcast.
        discount: gamma, in [0, 1).

    Raises:
        ValueError: a row is not a probability distribution, the discount is outside [0, 1), or the system is singular.
    """
    require_discount("discount", discount)
    require_tensors(chain=(chain, "*batch s s"), rewards=(rewards, "*batch s"), finite=True)
    require_stochastic("chain", chain)
    identity = torch.eye(chain.shape[-1], dtype=chain.dtype, device=chain.device)
    solution, info = torch.linalg.solve_ex(identity - discount * chain, rewards[..., None])
    if (info != 0).any() or not torch.isfinite(solution).all():
        raise ValueError(
            f"discount = {discount}: I - discount P is singular in {chain.dtype}; allowed: less than 1"
        )
    return solution[..., 0]


def require_discount(name: str, discount: float) -> None:
    """Raise ValueError unless 0 <= discount < 1."""
    if not 0 <= float(discount) < 1:
        raise ValueError(f"{name} = {discount!r}; allowed: a number in [0, 1)")


def require_stochastic(name: str, rows: Tensor) -> None:
    """Raise ValueError unless the last axis holds probability distributions, up to rounding."""
    if not rows.is_floating_point() or rows.ndim < 2:
        raise ValueError(
            f"{name} is {rows.dtype} of shape {tuple(rows.shape)}; allowed: rows of probabilities"
        )
    tolerance = 10 * rows.shape[-1] * torch.finfo(rows.dtype).eps
    wrong = ~((rows >= 0).all(-1) & ((rows.sum(-1) - 1).abs() <= tolerance))
    if wrong.any():
        index = tuple(torch.nonzero(wrong)[0].tolist())
        total, least = rows[index].sum().item(), rows[index].min().item()
        raise ValueError(
            f"{name}: row {index} sums to {total:g} with least entry {least:g}; allowed: probabilities that sum to 1"
        )
