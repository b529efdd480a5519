"""What the chapters on parameterization share: fixed points, the column space of the Jacobian, decision processes."""

from learning_dynamics.parameterization import column_space, fixed_points, function_space, mdp

__all__ = [
    "column_space",
    "fixed_points",
    "function_space",
    "mdp",
]
