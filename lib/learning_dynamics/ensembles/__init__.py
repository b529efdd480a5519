"""Many runs at once: seeds, step sizes and other grid axes are batch axes of one tensor, not a Python loop.

`iterate` is for parameters `(*batch, d)` with a gradient of your own, `ModuleEnsemble` for stacked `nn.Module`s.
"""

from learning_dynamics.ensembles.batches import (
    batches,
    drawn,
    shuffled,
)
from learning_dynamics.ensembles.iterate import (
    Gradient,
    Oracle,
    Trajectory,
    batched,
    iterate,
    log_spaced,
    stack_over_seeds,
)
from learning_dynamics.ensembles.modules import (
    ModuleEnsemble,
    ModuleTrajectory,
)

__all__ = [
    "Gradient",
    "ModuleEnsemble",
    "ModuleTrajectory",
    "Oracle",
    "Trajectory",
    "batched",
    "batches",
    "drawn",
    "iterate",
    "log_spaced",
    "shuffled",
    "stack_over_seeds",
]
