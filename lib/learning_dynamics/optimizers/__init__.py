"""Update rules as pure functions of parameters, gradient and state, and adaptive steps as torch optimizers.

    rule = optimizers.HeavyBall(step_size=0.1, momentum=0.9)
    state = rule.start(theta)
    theta, state = rule.step(theta, gradient, state)

Parameters have the shape `(*batch, d)`. A hyper-parameter is a number or a tensor `(*batch, 1)`, so that a
grid of step sizes or momenta is one more batch axis. The step size may also be a schedule, a function of the
step number. `SPSRule`, `DecSPSRule` and `NGNRule` read the loss too: `rule.step(theta, gradient, state, loss)`.

`SPS`, `DecSPS`, `NGN` and `AdaGradNorm` are the same steps as torch optimizers:

    optimizer = optimizers.NGN(model.parameters(), lr=1.0)
    loss.backward()
    optimizer.step(loss=loss)
"""

from learning_dynamics.optimizers.adagrad import AdaGrad
from learning_dynamics.optimizers.adagrad_norm import AdaGradNorm, AdaGradNormRule
from learning_dynamics.optimizers.adam import Adam
from learning_dynamics.optimizers.amsgrad import AMSGrad
from learning_dynamics.optimizers.averaged import Averaged
from learning_dynamics.optimizers.decreasing_polyak import DecSPS, DecSPSRule, decsps_step_size
from learning_dynamics.optimizers.gradient_descent import GradientDescent
from learning_dynamics.optimizers.heavy_ball import HeavyBall
from learning_dynamics.optimizers.nesterov import Nesterov
from learning_dynamics.optimizers.non_negative_gauss_newton import NGN, NGNRule, ngn_step_size
from learning_dynamics.optimizers.rmsprop import RMSprop
from learning_dynamics.optimizers.rule import LossRule, Rule
from learning_dynamics.optimizers.sgd import SGD
from learning_dynamics.optimizers.stochastic_polyak import SPS, SPSRule, sps_step_size

__all__ = [
    "NGN",
    "SGD",
    "SPS",
    "AMSGrad",
    "AdaGrad",
    "AdaGradNorm",
    "AdaGradNormRule",
    "Adam",
    "Averaged",
    "DecSPS",
    "DecSPSRule",
    "GradientDescent",
    "HeavyBall",
    "LossRule",
    "NGNRule",
    "Nesterov",
    "RMSprop",
    "Rule",
    "SPSRule",
    "decsps_step_size",
    "ngn_step_size",
    "sps_step_size",
]
