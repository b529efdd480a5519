"""Update rules as pure functions of parameters, gradient and state.

    rule = optimizers.HeavyBall(step_size=0.1, momentum=0.9)
    state = rule.start(theta)
    theta, state = rule.step(theta, gradient, state)

Parameters have the shape `(*batch, d)`. A hyper-parameter is a number or a tensor `(*batch, 1)`, so that a
grid of step sizes or momenta is one more batch axis. The step size may also be a schedule, a function of the
step number.
"""

from learning_dynamics.optimizers.adam import Adam
from learning_dynamics.optimizers.gradient_descent import GradientDescent
from learning_dynamics.optimizers.heavy_ball import HeavyBall
from learning_dynamics.optimizers.nesterov import Nesterov
from learning_dynamics.optimizers.rmsprop import RMSprop
from learning_dynamics.optimizers.rule import Rule
from learning_dynamics.optimizers.sgd import SGD

__all__ = [
    "SGD",
    "Adam",
    "GradientDescent",
    "HeavyBall",
    "Nesterov",
    "RMSprop",
    "Rule",
]
