"""The chain: ten states in a row, a large reward at the end, a small one for giving up."""

from __future__ import annotations

import torch

from learning_dynamics.parameterization.mdp.planning import epsilon_greedy
from learning_dynamics.parameterization.mdp.process import MarkovDecisionProcess

LENGTH = 10
RIGHT, WRONG = 0, 1


def chain(
    *, pays_on_the_way: bool = False, discount: float = 0.9, dtype: torch.dtype = torch.float64
) -> MarkovDecisionProcess:
    """Return the chain of Gehring et al. 2021: states 0 to 9 in a row and the transient state 10.

    The right action leads one state on, from 9 back to 0 with reward 10, from 10 to 0. The wrong action leads from
    the row to state 10, and from there to 0 with reward 1. Features are one-hot.

    Args:
        pays_on_the_way: pay the reward 1 on leaving the row, as the paper's text has it, and not on leaving state 10,
            as the released code does.
        discount: gamma.
        dtype: of all tensors.
    """
    states = LENGTH + 1
    transitions = torch.zeros(2, states, states, dtype=dtype)
    for state in range(LENGTH):
        transitions[RIGHT, state, (state + 1) % LENGTH] = 1
        transitions[WRONG, state, LENGTH] = 1
    transitions[:, LENGTH, 0] = 1
    rewards = torch.zeros(2, states, dtype=dtype)
    rewards[RIGHT, LENGTH - 1] = 10
    if pays_on_the_way:
        rewards[WRONG, :LENGTH] = 1
    else:
        rewards[WRONG, LENGTH] = 1
    return MarkovDecisionProcess(transitions, rewards, torch.eye(states, dtype=dtype), discount)


def chain_policy(epsilon: float = 0.1, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Return the policy `(11, 2)` that prefers the right action everywhere.

    Args:
        epsilon: probability of an action at random, in [0, 1].
        dtype: of the result.
    """
    return epsilon_greedy(torch.full((LENGTH + 1,), RIGHT), 2, epsilon, dtype)
