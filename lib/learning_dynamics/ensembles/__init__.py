"""Many runs at once: seeds, step sizes and other grid axes are batch axes of one tensor, not a Python loop."""

from learning_dynamics.ensembles.iterate import (
    Gradient,
    Oracle,
    Trajectory,
    batched,
    iterate,
    log_spaced,
    stack_over_seeds,
)

__all__ = [
    "Gradient",
    "Oracle",
    "Trajectory",
    "batched",
    "iterate",
    "log_spaced",
    "stack_over_seeds",
]
