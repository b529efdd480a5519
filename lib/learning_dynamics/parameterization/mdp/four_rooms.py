"""Four rooms: a grid with two walls that cross, and doors in them."""

from __future__ import annotations

import torch

from learning_dynamics.parameterization.mdp.planning import epsilon_greedy, policy_iteration
from learning_dynamics.parameterization.mdp.process import MarkovDecisionProcess

SIDE = 11
GOAL = (7, 1)
WALLS = (
    *((row, 5) for row in (0, 2, 3, 4)),
    *((row, 4) for row in (6, 7, 9, 10)),
    *((5, column) for column in (0, 2, 3, 4, 5, 6, 7, 9, 10)),
)
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
ABSORBING = SIDE * SIDE


def four_rooms(
    *, slips: bool = True, discount: float = 0.9, dtype: torch.dtype = torch.float64
) -> MarkovDecisionProcess:
    """Return the four rooms of Gehring et al. 2021: 121 cells, row by row, and the absorbing state 121.

    A move into a wall or off the grid stays where it is; wall cells are states too, which one can leave but not enter.
    Any action in the goal cell pays 1 and leads to the absorbing state, whose feature vector is zero; the others are
    one-hot of length 121.

    Args:
        slips: with probability 1/3 one of the other three actions is taken, as the released code does; if False the
            agent then stays where it is, as the paper's text has it.
        discount: gamma.
        dtype: of all tensors.
    """
    states = ABSORBING + 1
    intended = torch.zeros(len(MOVES), states, states, dtype=dtype)
    for action, (down, right) in enumerate(MOVES):
        for row in range(SIDE):
            for column in range(SIDE):
                target = (row + down, column + right)
                free = 0 <= target[0] < SIDE and 0 <= target[1] < SIDE and target not in WALLS
                row_to, column_to = target if free else (row, column)
                intended[action, SIDE * row + column, SIDE * row_to + column_to] = 1
    other = intended.sum(0) - intended if slips else torch.eye(states, dtype=dtype) * (len(MOVES) - 1)
    transitions = intended * 2 / 3 + other / (3 * (len(MOVES) - 1))
    goal = SIDE * GOAL[0] + GOAL[1]
    transitions[:, [goal, ABSORBING]] = torch.eye(states, dtype=dtype)[ABSORBING]
    rewards = torch.zeros(len(MOVES), states, dtype=dtype)
    rewards[:, goal] = 1
    return MarkovDecisionProcess(
        transitions, rewards, torch.eye(states, dtype=dtype)[:, :ABSORBING], discount
    )


def four_rooms_policy(process: MarkovDecisionProcess, epsilon: float = 0.1) -> torch.Tensor:
    """Return the policy `(122, 4)` that prefers the optimal action.

    Args:
        process: what `four_rooms` returned.
        epsilon: probability of an action at random, in [0, 1].
    """
    plan = policy_iteration(process.transitions, process.rewards, process.discount)
    return epsilon_greedy(plan.actions, len(process.transitions), epsilon, process.rewards.dtype)
