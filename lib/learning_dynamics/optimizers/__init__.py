"""Torch optimizers that torch does not have: steps that adapt themselves, and kicks that are taken back.

    optimizer = optimizers.NGN(model.parameters(), lr=1.0)
    loss.backward()
    optimizer.step(loss=loss)

The same steps as pure functions of parameters, gradient and state, for ensembles of runs, are in
`learning_dynamics.rules`.
"""

from learning_dynamics.optimizers.adagrad_norm import AdaGradNorm
from learning_dynamics.optimizers.anti_pgd import AntiPGD
from learning_dynamics.optimizers.damped_gauss_newton import DampedGaussNewton
from learning_dynamics.optimizers.decreasing_polyak import DecSPS
from learning_dynamics.optimizers.non_negative_gauss_newton import NGN
from learning_dynamics.optimizers.stochastic_polyak import SPS

__all__ = [
    "NGN",
    "SPS",
    "AdaGradNorm",
    "AntiPGD",
    "DampedGaussNewton",
    "DecSPS",
]
