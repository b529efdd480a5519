"""The library behind *Learning Dynamics*, an executable textbook on the dynamics of learning.

    import learning_dynamics as ld

    optimizer = ld.optimizers.NGN(model.parameters(), lr=1.0)

`dir(ld)` lists the rooms; one is imported when it is first asked for, so that importing the library costs nothing, and
reading a chapter's records (`ledger.read`) needs neither torch nor numpy.
"""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from learning_dynamics import (
        adaptivity,
        colab,
        curvature,
        data,
        diffusions,
        ensembles,
        experiments,
        figures,
        flows,
        implicit_bias,
        ledger,
        models,
        momentum,
        noise,
        optimizers,
        parameterization,
        results,
        rules,
        runs,
        statistics,
    )

warnings.filterwarnings(
    "ignore", r".torch\.jit\.script. is deprecated", FutureWarning
)  # torch's own forward mode

__version__ = "0.1.0"

__all__ = [
    "adaptivity",
    "colab",
    "curvature",
    "data",
    "diffusions",
    "ensembles",
    "experiments",
    "figures",
    "flows",
    "implicit_bias",
    "ledger",
    "models",
    "momentum",
    "noise",
    "optimizers",
    "parameterization",
    "results",
    "rules",
    "runs",
    "statistics",
]


def __getattr__(name: str) -> ModuleType:
    """Import a room when it is first asked for."""
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"learning_dynamics has no room {name!r}; there are: {', '.join(__all__)}")


def __dir__() -> list[str]:
    """List the rooms."""
    return [*__all__, "__version__"]
