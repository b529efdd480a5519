"""What the chapters on momentum share: memories of past gradients, and what continuous time says about them."""

from learning_dynamics.momentum import calculus_of_variations, memory, shadowing

__all__ = [
    "calculus_of_variations",
    "memory",
    "shadowing",
]
