"""What the chapters on implicit bias share: linear models, the hyperbolic entropy, sparse recovery, margins."""

from learning_dynamics.implicit_bias import hyperbolic_entropy, linear_models, margins, sparse

__all__ = [
    "hyperbolic_entropy",
    "linear_models",
    "margins",
    "sparse",
]
