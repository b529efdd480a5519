"""What the chapters on adaptive steps share: finite sums, chains, signals in deep networks, tokens in attention."""

from learning_dynamics.adaptivity import (
    attention_gradients,
    finite_sums,
    neural_chain,
    signal_propagation,
    token_geometry,
)

__all__ = [
    "attention_gradients",
    "finite_sums",
    "neural_chain",
    "signal_propagation",
    "token_geometry",
]
