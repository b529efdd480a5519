"""Markov decision processes: exact values, planning, trajectories, and three small domains."""

from learning_dynamics.parameterization.mdp import mountain_car
from learning_dynamics.parameterization.mdp.chain import chain, chain_policy
from learning_dynamics.parameterization.mdp.four_rooms import four_rooms, four_rooms_policy
from learning_dynamics.parameterization.mdp.planning import (
    Plan,
    action_values,
    chosen,
    epsilon_greedy,
    policy_iteration,
    value_iteration,
)
from learning_dynamics.parameterization.mdp.process import MarkovDecisionProcess, chain_values
from learning_dynamics.parameterization.mdp.rollouts import Rollouts, discounted_returns, rollouts

__all__ = [
    "mountain_car",
    "MarkovDecisionProcess",
    "Plan",
    "Rollouts",
    "action_values",
    "chain",
    "chain_policy",
    "chain_values",
    "chosen",
    "discounted_returns",
    "epsilon_greedy",
    "four_rooms",
    "four_rooms_policy",
    "policy_iteration",
    "rollouts",
    "value_iteration",
]
