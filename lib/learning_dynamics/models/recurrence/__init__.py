"""Recurrent layers and deep sequence models: dense, diagonal, state-space and linear recurrent units."""

from learning_dynamics.models.recurrence.deep import (
    RecurrentBlock,
    SequenceModel,
    parameter_groups,
    warmup_cosine,
)
from learning_dynamics.models.recurrence.dense import DenseRecurrence
from learning_dynamics.models.recurrence.diagonal import DiagonalRecurrence
from learning_dynamics.models.recurrence.linear import linear_recurrence, powers_of
from learning_dynamics.models.recurrence.lru import LinearRecurrentUnit, input_normalizer, ring_eigenvalues
from learning_dynamics.models.recurrence.memory import (
    half_roots,
    input_count,
    memory_matrix,
    reconstruct,
    slots,
)
from learning_dynamics.models.recurrence.state_space import DiagonalStateSpace, discretize, s4d_inv, s4d_lin

__all__ = [
    "DenseRecurrence",
    "DiagonalRecurrence",
    "DiagonalStateSpace",
    "LinearRecurrentUnit",
    "RecurrentBlock",
    "SequenceModel",
    "discretize",
    "half_roots",
    "input_count",
    "input_normalizer",
    "linear_recurrence",
    "memory_matrix",
    "parameter_groups",
    "powers_of",
    "reconstruct",
    "ring_eigenvalues",
    "s4d_inv",
    "s4d_lin",
    "slots",
    "warmup_cosine",
]
