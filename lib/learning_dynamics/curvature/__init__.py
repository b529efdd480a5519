"""Curvature of a model's loss as linear operators: products without the matrix.

    law = curvature.Categorical()
    G = curvature.GaussNewton(model, law, inputs, targets)
    G @ v, G.trace(), G.top_eigenvalues(3), G.solve(gradient, damping=1e-3).x

A model is a `torch.nn.Module` or a pair `(f, theta)` with `f(theta, x)` a formula for one input. Every matrix is the
mean over the samples, acts on the flat vector of the parameters (in the order of `model.parameters()`), and stands
at the parameters as they were when it was made.
"""

from learning_dynamics.curvature.certificates import Certificates
from learning_dynamics.curvature.charts import Chart, coin_charts, in_chart, pullback, step_in_chart
from learning_dynamics.curvature.conjugate_gradient import Solution, conjugate_gradient
from learning_dynamics.curvature.gauss_newton import EmpiricalFisher, Fisher, GaussNewton
from learning_dynamics.curvature.gradients import loss_and_gradient, per_sample_gradients
from learning_dynamics.curvature.hessian import Hessian
from learning_dynamics.curvature.ideal_moves import ideal_moves, improvement_bound
from learning_dynamics.curvature.jacobian import Jacobian
from learning_dynamics.curvature.lanczos import (
    Eigenpairs,
    SpectralDensity,
    Tridiagonal,
    lanczos,
    spectral_density,
    top_eigenpairs,
)
from learning_dynamics.curvature.linear_operator import LinearOperator, SymmetricOperator
from learning_dynamics.curvature.online_filter import OnlineFilter
from learning_dynamics.curvature.output_laws import (
    Bernoulli,
    Categorical,
    HeteroscedasticGaussian,
    OutputLaw,
    Poisson,
    SquaredError,
)
from learning_dynamics.curvature.stochastic_quadratics import (
    Bounds,
    Modes,
    Moments,
    bound_average,
    bounds_constant,
    bounds_decaying,
    excess_average,
    excess_constant,
    excess_decaying,
    excess_scheduled,
    modes,
    moments,
)
from learning_dynamics.curvature.trust_region import (
    TrustRegionStep,
    damped_step,
    gain_ratio,
    model_change,
    next_damping,
    trust_region_step,
)

__all__ = [
    "Bernoulli",
    "Bounds",
    "Categorical",
    "Certificates",
    "Chart",
    "Eigenpairs",
    "EmpiricalFisher",
    "Fisher",
    "GaussNewton",
    "Hessian",
    "HeteroscedasticGaussian",
    "Jacobian",
    "LinearOperator",
    "Modes",
    "Moments",
    "OnlineFilter",
    "OutputLaw",
    "Poisson",
    "Solution",
    "SpectralDensity",
    "SquaredError",
    "SymmetricOperator",
    "Tridiagonal",
    "TrustRegionStep",
    "bound_average",
    "bounds_constant",
    "bounds_decaying",
    "coin_charts",
    "conjugate_gradient",
    "damped_step",
    "excess_average",
    "excess_constant",
    "excess_decaying",
    "excess_scheduled",
    "gain_ratio",
    "ideal_moves",
    "improvement_bound",
    "in_chart",
    "lanczos",
    "loss_and_gradient",
    "model_change",
    "modes",
    "moments",
    "next_damping",
    "per_sample_gradients",
    "pullback",
    "spectral_density",
    "step_in_chart",
    "top_eigenpairs",
    "trust_region_step",
]
