"""Noise that never stops: stochastic differential equations, noisy gradient steps, and the clouds they keep.

Two kinds of object, side by side so that they can be compared: a **chain**, the iteration with its finite step, and
the **diffusion** that it approaches as the step goes to zero. Paths have the shape `(R, *batch, d)`, recorded times
first, as everywhere in this library; parallel chains are batch axes.
"""

from learning_dynamics.diffusions.average_shift import average_shift
from learning_dynamics.diffusions.euler_maruyama import euler_maruyama
from learning_dynamics.diffusions.ito import generator, stochastic_sum, time_changed
from learning_dynamics.diffusions.label_noise import label_noise_gradient
from learning_dynamics.diffusions.least_squares_sgd import (
    SgdMoments,
    Thresholds,
    mean_square_thresholds,
    sgd_diffusion_moments,
    sgd_moments,
)
from learning_dynamics.diffusions.linear_moments import Moments, chain_moments, diffusion_moments
from learning_dynamics.diffusions.ornstein_uhlenbeck import OrnsteinUhlenbeck
from learning_dynamics.diffusions.stationary import (
    chain_covariance,
    chain_covariance_path,
    diffusion_covariance,
)

__all__ = [
    "Moments",
    "OrnsteinUhlenbeck",
    "SgdMoments",
    "Thresholds",
    "average_shift",
    "chain_covariance",
    "chain_covariance_path",
    "chain_moments",
    "diffusion_covariance",
    "diffusion_moments",
    "euler_maruyama",
    "generator",
    "label_noise_gradient",
    "mean_square_thresholds",
    "sgd_diffusion_moments",
    "sgd_moments",
    "stochastic_sum",
    "time_changed",
]
