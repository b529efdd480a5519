"""What the chapters on noise share: kicked descent in a valley, and the problems that kicks are tried on."""

from learning_dynamics.noise import (
    fractional,
    matrix_sensing,
    shaking,
    smoothing,
    tanh_classifier,
    two_layer_linear,
    widening_valley,
)

__all__ = [
    "fractional",
    "matrix_sensing",
    "shaking",
    "smoothing",
    "tanh_classifier",
    "two_layer_linear",
    "widening_valley",
]
