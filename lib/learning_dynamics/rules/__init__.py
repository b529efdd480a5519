"""Update rules as pure functions of parameters, gradient and state.

    rule = rules.HeavyBall(step_size=0.1, momentum=0.9)
    state = rule.start(theta)
    theta, state = rule.step(theta, gradient, state)

Parameters have the shape `(*batch, d)`. A hyper-parameter is a number or a tensor `(*batch, 1)`, so that a grid of step
sizes or momenta is one more batch axis. The step size and the momentum may also be schedules, functions of the step
number. `SPS`, `DecSPS` and `NGN` read the loss too: `rule.step(theta, gradient, state, loss)`; what they take first is
the `cap` of their step, since the step itself they choose.

`SPS`, `DecSPS`, `NGN` and `AdaGradNorm` as torch optimizers are in `learning_dynamics.optimizers`.
"""

from learning_dynamics.rules.adagrad import AdaGrad
from learning_dynamics.rules.adagrad_norm import AdaGradNorm
from learning_dynamics.rules.adam import Adam
from learning_dynamics.rules.amsgrad import AMSGrad
from learning_dynamics.rules.averaged import Averaged, RunningAverage, TailAverage
from learning_dynamics.rules.decreasing_polyak import DecSPS, decsps_step_size
from learning_dynamics.rules.diagonal_fisher import DiagonalFisher
from learning_dynamics.rules.gradient_descent import GradientDescent
from learning_dynamics.rules.gradient_memory import GradientMemory, PolynomialMemory
from learning_dynamics.rules.heavy_ball import HeavyBall
from learning_dynamics.rules.heavy_ball_phase import HeavyBallPhase, PhaseState
from learning_dynamics.rules.nesterov import Nesterov
from learning_dynamics.rules.non_negative_gauss_newton import NGN, ngn_step_size
from learning_dynamics.rules.perturbed import Perturbed
from learning_dynamics.rules.perturbed_gradient_descent import PerturbedGradientDescent
from learning_dynamics.rules.restarted import Restarted, nesterov_momentum
from learning_dynamics.rules.rmsprop import RMSprop
from learning_dynamics.rules.rule import LossRule, Rule
from learning_dynamics.rules.schedule_free import ScheduleFree
from learning_dynamics.rules.sgd import SGD
from learning_dynamics.rules.stochastic_polyak import SPS, sps_step_size

__all__ = [
    "NGN",
    "SGD",
    "SPS",
    "AMSGrad",
    "AdaGrad",
    "AdaGradNorm",
    "Adam",
    "Averaged",
    "DecSPS",
    "DiagonalFisher",
    "GradientDescent",
    "GradientMemory",
    "HeavyBall",
    "HeavyBallPhase",
    "LossRule",
    "Nesterov",
    "Perturbed",
    "PerturbedGradientDescent",
    "PhaseState",
    "PolynomialMemory",
    "RMSprop",
    "Restarted",
    "Rule",
    "RunningAverage",
    "ScheduleFree",
    "TailAverage",
    "decsps_step_size",
    "nesterov_momentum",
    "ngn_step_size",
    "sps_step_size",
]
