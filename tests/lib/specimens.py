"""A working call for each public name that takes tensors: what `test_bad_arguments.py` spoils.

A tensor is given by the names of its axes, "n d", and is then drawn at random with the sizes below; or by a function
that makes it, with the names of its axes. An axis of one name has one size everywhere; one that
starts with a star is promised to broadcast, and one that ends with an exclamation mark has the size that the callable
prescribes, as a layer's inputs have. `specimens_models.py` and `specimens_experiments.py` add theirs to these.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

SIZES = {"A": 3, "s": 2, "n": 3, "d": 4, "c": 2, "m": 2, "T": 5, "T1": 6, "runs": 2}
Axes = str | tuple[Callable[[], Tensor] | Tensor, str]


@dataclass(frozen=True)
class Specimen:
    """A call, its tensors, and which mutations it is exempt from, each with the reason.

    A key of `exempt` is a mutation as the test names it, "X: NaN", or one of all arguments, "NaN".
    """

    name: str
    call: Callable[..., object]
    tensors: dict[str, Axes]
    exempt: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    def make(self) -> dict[str, Tensor]:
        """Return the tensors, the same each time."""
        made = {}
        for name, given in self.tensors.items():
            if isinstance(given, str):
                sizes = [SIZES[word.removeprefix("*").removesuffix("!")] for word in given.split()]
                random = torch.Generator().manual_seed(zlib.crc32(name.encode()))
                made[name] = 2 * torch.randn(*sizes, generator=random, dtype=torch.float64)
            else:
                made[name] = given[0].clone() if isinstance(given[0], Tensor) else given[0]()
        return made

    def axes(self) -> dict[str, list[str]]:
        """Return the names of the axes of each tensor."""
        return {
            name: (given if isinstance(given, str) else given[1]).split()
            for name, given in self.tensors.items()
        }


ROOMS: set[str] = set()
SPECIMENS: list[Specimen] = []
UNWALKED: dict[str, str] = {}


def of(name: str, call: Callable[..., object], exempt: dict[str, str] | None = None, **tensors: Axes) -> None:
    """Add a specimen."""
    SPECIMENS.append(Specimen(name, call, tensors, exempt or {}))
    ROOMS.add(name.partition(".")[0])


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def number(value: float) -> Axes:
    return torch.tensor(value, dtype=torch.float64), ""


def some(values: object, axes: str) -> Axes:
    """A tensor of these values; numbers with a point are float64."""
    made = torch.tensor(values)
    return made.double() if made.is_floating_point() else made, axes


# ------------------------------------------------------------------------------------------------ implicit_bias

from learning_dynamics.implicit_bias import hyperbolic_entropy, linear_models, margins, sparse  # noqa: E402

POSITIVE = some([0.5, 1.0, 2.0, 3.0], "d")
SIGNED = some([[2.0, 1.0, 0.0, 1.0], [1.0, 3.0, 1.0, 0.0], [0.0, 1.0, 2.0, -1.0]], "n d")
TRUTH = some([1.0, 0.0, 0.0, 1.0], "d")
MOMENT = some([[2.0, 1.0, 0.0, 0.0], [1.0, 3.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 2.0]], "d d")
THETA = "d"
SCALE = number(1.0)

of(
    "implicit_bias.hyperbolic_entropy.from_parameters",
    hyperbolic_entropy.from_parameters,
    positive=POSITIVE,
    negative=POSITIVE,
)
for name in ("gradient", "kernel_weights"):
    of(f"implicit_bias.hyperbolic_entropy.{name}", getattr(hyperbolic_entropy, name), beta="d", alpha=SCALE)
of("implicit_bias.hyperbolic_entropy.weights_of", hyperbolic_entropy.weights_of, slope="d", alpha=SCALE)
of(
    "implicit_bias.hyperbolic_entropy.potential",
    hyperbolic_entropy.potential,
    beta="d",
    alpha=SCALE,
    start="d",
)
of(
    "implicit_bias.hyperbolic_entropy.least_potential",
    hyperbolic_entropy.least_potential,
    X=SIGNED,
    y="n",
    alpha=SCALE,
    start="d",
)
of(
    "implicit_bias.hyperbolic_entropy.least_potential_path",
    hyperbolic_entropy.least_potential_path,
    X=SIGNED,
    y="n",
    alphas=some([3.0, 2.0, 1.0], "A"),
)
of(
    "implicit_bias.linear_models.least_squares_gradient",
    lambda X, y, theta: linear_models.least_squares_gradient(X, y)(theta, 0),
    X="n d",
    y="n",
    theta="d",
)
of("implicit_bias.linear_models.min_norm_solution", linear_models.min_norm_solution, X=SIGNED, y="n")
of(
    "implicit_bias.linear_models.nearest_solution",
    linear_models.nearest_solution,
    X=SIGNED,
    y="n",
    start="d",
    preconditioner=MOMENT,
)
of("implicit_bias.linear_models.nearest_solution", linear_models.nearest_solution, X=SIGNED, y="n", start="d")
of("implicit_bias.linear_models.project_row_space", linear_models.project_row_space, X=SIGNED, v="d")
of("implicit_bias.linear_models.random_features", linear_models.random_features, inputs="n d", weights="m d")
of("implicit_bias.linear_models.ridge_solution", linear_models.ridge_solution, X=SIGNED, y="n", penalty=SCALE)
of(
    "implicit_bias.linear_models.stopped_gradient_descent",
    lambda **given: linear_models.stopped_gradient_descent(**given, steps=7),
    X=some([[0.6, 0.0, 0.1, 0.0], [0.0, 0.7, 0.0, 0.1], [0.1, 0.0, 0.0, 0.8]], "n d"),
    y="n",
    step_size=SCALE,
)
of(
    "implicit_bias.margins.exponential_flow",
    margins.exponential_flow,
    signed=SIGNED,
    theta0="d",
    log_times=some([0.0, 1.0], "A"),
)
for name in (
    "functional_margins",
    "log_exponential_loss",
    "normalized_margin",
    "sample_weights",
    "smooth_margin",
):
    of(f"implicit_bias.margins.{name}", getattr(margins, name), theta="d", signed=SIGNED)
of("implicit_bias.margins.hard_margin_svm", margins.hard_margin_svm, signed=SIGNED)
of("implicit_bias.margins.largest_margin", lambda signed: margins.largest_margin(signed, 1), signed=SIGNED)
for name in ("logistic_gradient", "normalized_gradient"):
    of(
        f"implicit_bias.margins.{name}",
        lambda signed, theta, name=name: getattr(margins, name)(signed)(theta, 0),
        signed=SIGNED,
        theta="d",
    )
of("implicit_bias.margins.signed_samples", margins.signed_samples, X="n d", y=some([1.0, -1.0, 1.0], "n"))
of("implicit_bias.margins.signed_samples", margins.signed_samples, X="n d", y=some([1, -1, 1], "n"))
of("implicit_bias.sparse.basis_pursuit", sparse.basis_pursuit, X=SIGNED, y=some([3.0, 4.0, 2.0], "n"))
of(
    "implicit_bias.sparse.best_certificate",
    sparse.best_certificate,
    X=some([[1.0, 0.2, 0.1, 0.3], [0.1, 0.3, 1.0, 0.2]], "n d"),
    support=some([True, False, True, False], "d"),
)
of(
    "implicit_bias.sparse.cross_isometry_constant",
    lambda moment: sparse.cross_isometry_constant(moment, 2),
    moment=MOMENT,
)
for order in (1, 2, 3):
    of(
        "implicit_bias.sparse.restricted_isometry_constant",
        lambda moment, order=order: sparse.restricted_isometry_constant(moment, order),
        moment=MOMENT,
    )
of(
    "implicit_bias.sparse.entropy_limit",
    lambda X, y: sparse.entropy_limit(X, y, [1.0, 0.5]),
    X=SIGNED,
    y=some([4.0, 5.0, 2.0], "n"),
)
of("implicit_bias.sparse.least_norm_certificate", sparse.least_norm_certificate, X=SIGNED, truth=TRUTH)
of(
    "implicit_bias.sparse.log_descent",
    lambda **given: sparse.log_descent(**given, steps=3),
    X=SIGNED,
    truth=TRUTH,
    log_start=some([[-2.0, -1.0, -1.0, -2.0], [-1.0, -1.0, -1.0, -2.0]], "*starts d"),
    step_size=number(0.01),
    noise=some([[0.1, 0.2, 0.0], [0.0, 0.1, 0.0]], "*starts n"),
)
of(
    "implicit_bias.sparse.log_start",
    lambda alpha, like: sparse.log_start(alpha, 3, like),
    alpha=some([1.0, 2.0], "starts"),
    like="n",
)
of(
    "implicit_bias.sparse.population_gradient",
    lambda truth, theta: sparse.population_gradient(truth)(theta, 0),
    truth=TRUTH,
    theta="d",
)
of("implicit_bias.sparse.recovery_error", sparse.recovery_error, log_theta="d", truth=TRUTH)
of("implicit_bias.sparse.second_moment", sparse.second_moment, X="n d")
of(
    "implicit_bias.sparse.squared_weights_gradient",
    lambda X, y, theta, rows: sparse.squared_weights_gradient(X, y, rows)(theta, 0),
    X="n d",
    y="n",
    theta=some([[0.1, 0.2, 0.3, 0.4]] * 2, "cells d"),
    rows=some([[1.0, 0, 0], [0.5, 0.5, 0]], "cells n"),
)
of(
    "implicit_bias.sparse.squared_weights_gradient",
    lambda X, y, theta: sparse.squared_weights_gradient(X, y)(theta, 0),
    X="n d",
    y="n",
    theta="d",
)


# --------------------------------------------------------------------------------------------------- adaptivity

from learning_dynamics.adaptivity import (  # noqa: E402
    attention_gradients,
    finite_sums,
    neural_chain,
    signal_propagation,
    token_geometry,
)

CURVATURES = some([[[2.0, 1.0], [1.0, 3.0]], [[1.0, 0.0], [0.0, 1.0]], [[4.0, 1.0], [1.0, 2.0]]], "n d d")
CENTERS = some([[1.0, 2.0], [0.0, 1.0], [2.0, 1.0]], "n d")
FLOORS = some([1.0, 2.0, 3.0], "n")
ROWS = some([[0, 1], [1, 2]], "*runs b")
PLANE = some([[[1.0, 2.0]], [[0.0, 1.0]]], "*runs grid d")
INPUTS = some([[1.0, 2.0], [2.0, 1.0], [-1.0, 1.0]], "n d")
SIGNS = some([1.0, -1.0, 1.0], "n")


def quadratic() -> finite_sums.QuadraticSum:
    return finite_sums.QuadraticSum(CURVATURES[0], CENTERS[0], FLOORS[0])


def logistic() -> finite_sums.LogisticSum:
    return finite_sums.LogisticSum(INPUTS[0], SIGNS[0], 1.0)


of(
    "adaptivity.attention_gradients.jacobian_norms",
    attention_gradients.jacobian_norms,
    X="T d",
    W_Q="d m",
    W_K="d m",
    W_V="d d",
)
of("adaptivity.attention_gradients.uniform_norms", attention_gradients.uniform_norms, X="T d")
of(
    "adaptivity.finite_sums.QuadraticSum",
    lambda **given: finite_sums.QuadraticSum(**given).minimum(),
    curvatures=CURVATURES,
    centers=CENTERS,
    floors=FLOORS,
)
of(
    "adaptivity.finite_sums.LogisticSum",
    lambda inputs, signs: finite_sums.LogisticSum(inputs, signs, 1.0).minimum(),
    inputs=INPUTS,
    signs=SIGNS,
)
for name, make in (("QuadraticSum", quadratic), ("LogisticSum", logistic)):
    of(
        f"adaptivity.finite_sums.{name}.oracle",
        lambda make=make, **given: make().oracle(**given),
        theta=PLANE,
        rows=ROWS,
    )
    of(f"adaptivity.finite_sums.{name}.minimizer", lambda rows, make=make: make().minimizer(rows), rows=ROWS)
    of(f"adaptivity.finite_sums.{name}.minimum", lambda rows, make=make: make().minimum(rows), rows=ROWS)
for name in ("gradient", "hessian", "products_without"):
    of(f"adaptivity.neural_chain.{name}", getattr(neural_chain, name), theta="d")
of(
    "adaptivity.signal_propagation.share_carrying_half",
    signal_propagation.share_carrying_half,
    size_biased="T",
)
of("adaptivity.token_geometry.centred_gram", token_geometry.centred_gram, X="T d")
of(
    "adaptivity.token_geometry.correlation_of_share",
    lambda share: token_geometry.correlation_of_share(share, 3),
    share=number(1.0),
)
of("adaptivity.token_geometry.mean_share", token_geometry.mean_share, X="T d")
of(
    "adaptivity.token_geometry.share_at_depth",
    token_geometry.share_at_depth,
    share=number(1.0),
    strength=number(2.0),
    depth=number(3.0),
)
of(
    "adaptivity.token_geometry.token_correlation",
    token_geometry.token_correlation,
    {"X: one axis less": "one draw"},
    X="runs T d",
)
of(
    "adaptivity.token_geometry.token_correlation",
    lambda X: token_geometry.token_correlation(X, kind="cosine"),
    X="runs T d",
)


# --------------------------------------------------------------------------------------------------- diffusions

from learning_dynamics import diffusions  # noqa: E402

CLOCK = some([0.0, 1.0, 2.0], "A")
IDENTITY = torch.eye(4, dtype=torch.float64)


def loss(theta: Tensor) -> Tensor:
    return (theta**2 + theta**3 / 10).sum()


of(
    "diffusions.average_shift",
    lambda **given: diffusions.average_shift(loss, **given),
    minimizer="d",
    covariance=MOMENT,
)
of(
    "diffusions.chain_covariance",
    lambda **given: diffusions.chain_covariance(**given, step_size=0.1),
    H=MOMENT,
    Sigma=MOMENT,
    C=MOMENT,
)
of(
    "diffusions.chain_covariance",
    lambda **given: diffusions.chain_covariance(**given, step_size=0.1),
    H=MOMENT,
    Sigma=MOMENT,
)
of(
    "diffusions.chain_covariance_path",
    lambda **given: diffusions.chain_covariance_path(**given, step_size=0.1, steps=2),
    H=MOMENT,
    Sigma=MOMENT,
)
of(
    "diffusions.diffusion_covariance",
    lambda **given: diffusions.diffusion_covariance(**given, step_size=0.1),
    H=MOMENT,
    Sigma=MOMENT,
)
of(
    "diffusions.chain_moments",
    lambda **given: diffusions.chain_moments(lambda k: IDENTITY / 2, lambda k: IDENTITY, **given, steps=2),
    mean0="d",
    covariance0=MOMENT,
)
of(
    "diffusions.diffusion_moments",
    lambda **given: diffusions.diffusion_moments(lambda t: -IDENTITY, lambda t: IDENTITY, **given),
    mean0="d",
    covariance0=MOMENT,
    times=CLOCK,
)
of(
    "diffusions.euler_maruyama",
    lambda x0: diffusions.euler_maruyama(lambda x, t: -x, lambda x, t: 0 * x, x0, 0.1, 2, generator()),
    x0="runs d",
)
of(
    "diffusions.label_noise_gradient",
    lambda y, sigma, theta: diffusions.label_noise_gradient(lambda theta: theta, y, sigma, generator())(
        theta, 0
    ),
    y="d",
    sigma=number(0.0),
    theta="d",
)
of(
    "diffusions.mean_square_thresholds",
    diffusions.mean_square_thresholds,
    X=some([[1.0, 2.0], [2.0, 1.0], [1.0, 1.0]], "n d"),
)
for name in ("sgd_moments", "sgd_diffusion_moments"):
    of(
        f"diffusions.{name}",
        lambda name=name, **given: getattr(diffusions, name)(**given, step_size=0.1, steps=3),
        X=some([[1.0, 2.0], [2.0, 1.0], [1.0, 1.0]], "n d"),
        y="n",
    )
of(
    "diffusions.OrnsteinUhlenbeck",
    lambda **given: diffusions.OrnsteinUhlenbeck(**given).transition(1.0),
    A=MOMENT,
    B="d m",
)
of(
    "diffusions.OrnsteinUhlenbeck.sample",
    lambda **given: diffusions.OrnsteinUhlenbeck(MOMENT[0], 0 * MOMENT[0]).sample(
        **given, generator=generator()
    ),
    x0="d",
    times=CLOCK,
)
of(
    "diffusions.stochastic_sum",
    diffusions.stochastic_sum,
    values=some([[1.0, 2.0], [0.0, 1.0], [2.0, 1.0]], "K1 batch"),
    increments=some([[1.0, 2.0], [0.0, 1.0]], "K batch"),
)


# -------------------------------------------------------------------------------------------------------- flows

from learning_dynamics import flows  # noqa: E402


def decay(theta: Tensor, *time: float) -> Tensor:
    return -theta


of("flows.flow_map", lambda theta: flows.flow_map(decay, theta, 1.0), theta="d")
of("flows.gradient_flow", lambda **given: flows.gradient_flow(decay, **given), theta0="d", times=CLOCK)
of("flows.linear_flow", flows.linear_flow, A=MOMENT, b="d", theta0="d", times=CLOCK)
of(
    "flows.momentum_flow",
    lambda **given: flows.momentum_flow(lambda theta: theta, **given, friction=1.0),
    theta0="d",
    velocity0="d",
    times=CLOCK,
)
of("flows.nesterov_flow_quadratic", flows.nesterov_flow_quadratic, H=MOMENT, theta0="d", times=CLOCK)
of("flows.picard", lambda theta0: flows.picard(decay, theta0, 1.0, 2), theta0="d")
of("flows.sampled_flow", lambda theta0: flows.sampled_flow(decay, theta0, 1.0, 2), theta0="d")
of("flows.sensitivity", lambda theta0: flows.sensitivity(decay, theta0, 1.0), theta0="d")


# ----------------------------------------------------------------------------------------------------- momentum

from learning_dynamics.momentum import calculus_of_variations, memory, shadowing  # noqa: E402

SADDLE = some([[0.5, 0.1], [0.0, 2.0]], "d d")
CONTRACTION = some([[0.5, 0.1], [0.0, 0.3]], "d d")
ORBIT = some([[1.0, 0.0], [0.5, 0.1], [0.2, 0.2]], "K1 d")


def free(theta: Tensor, velocity: Tensor, t: Tensor) -> Tensor:
    return velocity.square().sum(-1) / 2


of(
    "momentum.calculus_of_variations.action",
    lambda **given: calculus_of_variations.action(free, **given),
    curve="A d",
    times=CLOCK,
)
of(
    "momentum.calculus_of_variations.first_variation",
    lambda **given: calculus_of_variations.first_variation(free, **given),
    curve="A d",
    times=CLOCK,
)
of(
    "momentum.calculus_of_variations.damping_barrier",
    lambda times: calculus_of_variations.damping_barrier(torch.sin, times),
    times=CLOCK,
)
of("momentum.memory.MemoryFunction.friction", lambda t: memory.power_memory(2.0).friction(t), t=POSITIVE)
of(
    "momentum.memory.MemoryFunction.weights",
    lambda s, t: memory.power_memory(2.0).weights(s, t),
    s=POSITIVE,
    t=number(3.0),
)
of("momentum.shadowing.adapted_norm", shadowing.adapted_norm, A=CONTRACTION)
of("momentum.shadowing.hyperbolic_splitting", shadowing.hyperbolic_splitting, A=SADDLE)
of(
    "momentum.shadowing.least_squares_shadow",
    lambda orbit: shadowing.least_squares_shadow(lambda theta: theta / 2, orbit),
    orbit=ORBIT,
)
of("momentum.shadowing.linear_shadow", shadowing.linear_shadow, A=SADDLE, orbit=ORBIT)
of(
    "momentum.shadowing.pseudo_orbit_error",
    lambda orbit: shadowing.pseudo_orbit_error(lambda theta: theta / 2, orbit),
    orbit=ORBIT,
)


# --------------------------------------------------------------------------------------------- parameterization

from torch import nn  # noqa: E402

from learning_dynamics import models  # noqa: E402
from learning_dynamics.parameterization import (  # noqa: E402
    column_space,
    fixed_points,
    function_space,
    mdp,
)
from learning_dynamics.parameterization.mdp import mountain_car  # noqa: E402

GRAM = some([[2.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 4.0]], "n n")
TRANSITIONS = some([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.5, 0.5]], [[1.0, 0.0], [0.0, 1.0]]], "a s s")
REWARDS = some([[1.0, 0.0], [0.0, 2.0], [0.5, 0.5]], "a s")
CHAIN = some([[0.5, 0.5], [1.0, 0.0]], "s s")
POLICY = some([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]], "s a")
SPECTRUM = some([3.0, 2.0, 1.0], "r")
CALLERS_MODEL = "the model is the caller's, and its own error says what it takes"


def process() -> mdp.MarkovDecisionProcess:
    return mdp.MarkovDecisionProcess(TRANSITIONS[0], REWARDS[0], torch.eye(2).double(), 0.5)


def network() -> nn.Sequential:
    layers = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).double()
    for parameter in layers.parameters():
        nn.init.normal_(parameter, generator=generator())
    return layers


of(
    "parameterization.column_space.ColumnSpace",
    lambda **given: column_space.ColumnSpace(**given).residual(0.4),
    singular_values=SPECTRUM,
    components=SPECTRUM,
    outside=number(1.0),
    norm=number(4.0),
)
of(
    "parameterization.column_space.from_jacobian",
    lambda **given: column_space.from_jacobian(**given).residual(0.1),
    jacobian="n d",
    target="n",
)
of(
    "parameterization.column_space.from_gram",
    lambda **given: column_space.from_gram(**given).residual(0.1),
    gram=GRAM,
    target="n",
)
of(
    "parameterization.column_space.damped_residual",
    lambda **given: column_space.damped_residual(**given, damping=1.0).residual,
    jacobian="n d",
    target="n",
)
of(
    "parameterization.column_space.dead_share",
    lambda inputs: column_space.dead_share(models.MLP([4, 3, 2], generator=generator()).double(), inputs),
    inputs="n d",
)
for name in ("layer_grams", "layerwise_gram"):
    of(
        f"parameterization.column_space.{name}",
        lambda inputs, name=name: getattr(column_space, name)(network(), inputs),
        inputs="n d",
    )
for name in ("gated_gram", "row_khatri_rao"):
    of(f"parameterization.column_space.{name}", getattr(column_space, name), gates="n m", features="n d")
of(
    "parameterization.fixed_points.least_eigenvalue_bound",
    lambda discount: fixed_points.least_eigenvalue_bound(discount, 3),
    discount=number(0.25),
)
of(
    "parameterization.fixed_points.reward_chain_value",
    fixed_points.reward_chain_value,
    u="d",
    Z="d d",
    discount=number(0.25),
)
of("parameterization.fixed_points.stationary_distribution", fixed_points.stationary_distribution, S=CHAIN)
of("parameterization.fixed_points.transitions", fixed_points.transitions, Z="d d")
of(
    "parameterization.fixed_points.unrolled_value",
    lambda **given: fixed_points.unrolled_value(**given, sweeps=3),
    u="d",
    Z="d d",
    discount=number(0.25),
    start="d",
)
of(
    "parameterization.fixed_points.weight_space_preconditioner",
    fixed_points.weight_space_preconditioner,
    Z="d d",
    value="d",
    discount=number(0.25),
)
for damping in (None, 1.0):
    of(
        "parameterization.function_space.descend",
        lambda kernel, outputs, damping=damping: function_space.descend(
            kernel, outputs, lambda f: f, step_size=0.1, steps=2, damping=damping
        ),
        kernel=GRAM,
        outputs="n",
    )
of(
    "parameterization.function_space.SpectralDescent",
    lambda **given: function_space.SpectralDescent(**given, samples=3).loss(2.0, 0.1),
    singular_values=SPECTRUM,
    components=SPECTRUM,
    outside=number(1.0),
)
of(
    "parameterization.function_space.SpectralDescent.of",
    lambda **given: function_space.SpectralDescent.of(**given).loss(2.0, 0.1),
    jacobian="n d",
    residual="n",
)
of(
    "parameterization.function_space.SpectralDescent.loss",
    lambda steps: function_space.SpectralDescent(SPECTRUM[0], SPECTRUM[0], number(1.0)[0], 3).loss(
        steps, 0.1
    ),
    steps=number(2.0),
)
of(
    "parameterization.mdp.action_values",
    lambda **given: mdp.action_values(**given, discount=0.5),
    transitions=TRANSITIONS,
    rewards=REWARDS,
    values="s",
)
of(
    "parameterization.mdp.chain_values",
    lambda **given: mdp.chain_values(**given, discount=0.5),
    chain=CHAIN,
    rewards="s",
)
of(
    "parameterization.mdp.chosen",
    mdp.chosen,
    transitions=TRANSITIONS,
    rewards=REWARDS,
    actions=some([0, 2], "s"),
)
of(
    "parameterization.mdp.discounted_returns",
    lambda rewards: mdp.discounted_returns(rewards, 0.5),
    rewards="T",
)
of(
    "parameterization.mdp.epsilon_greedy",
    lambda preferred: mdp.epsilon_greedy(preferred, 3, 0.5, torch.float64),
    preferred=some([0, 2], "s"),
)
of(
    "parameterization.mdp.MarkovDecisionProcess",
    lambda **given: mdp.MarkovDecisionProcess(**given, discount=0.5).values(POLICY[0]),
    transitions=TRANSITIONS,
    rewards=REWARDS,
    features=some([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]], "s features"),
)
of("parameterization.mdp.MarkovDecisionProcess.under", lambda policy: process().under(policy), policy=POLICY)
of(
    "parameterization.mdp.MarkovDecisionProcess.values",
    lambda policy, offset: process().values(policy, offset),
    policy=POLICY,
    offset=number(1.0),
)
of(
    "parameterization.mdp.policy_iteration",
    lambda **given: mdp.policy_iteration(**given, discount=0.5),
    transitions=TRANSITIONS,
    rewards=REWARDS,
    actions=some([0, 2], "s"),
)
of(
    "parameterization.mdp.value_iteration",
    lambda **given: mdp.value_iteration(**given, discount=0.5),
    transitions=TRANSITIONS,
    rewards=REWARDS,
    start="s",
)
of(
    "parameterization.mdp.rollouts",
    lambda policy, starts: mdp.rollouts(process(), policy, starts, 3, generator()),
    policy=POLICY,
    starts=some([0, 1], "N"),
)
of(
    "parameterization.mdp.mountain_car.move",
    mountain_car.move,
    observation=some([[-0.5, 0.0], [0.1, 0.01]], "N two"),
    action=some([0, 2], "N"),
)
of(
    "parameterization.mdp.mountain_car.radial_features",
    lambda observations: mountain_car.radial_features(observations, grid=3),
    observations=some([[-0.5, 0.0], [0.1, 0.01]], "N two"),
)


# -------------------------------------------------------------------------------------------------------- rules

from typing import Any  # noqa: E402

from learning_dynamics import rules  # noqa: E402

RULES: dict[str, tuple[str, dict[str, float]]] = {
    "AdaGrad": ("rules.AdaGrad", {"step_size": 1.0, "epsilon": 1.0}),
    "AdaGradNorm": ("rules.AdaGradNorm", {"step_size": 1.0, "b0": 1.0}),
    "Adam": ("rules.adam.AdamRule", {"step_size": 1.0, "beta1": 0.25, "beta2": 0.25, "epsilon": 1.0}),
    "AMSGrad": ("", {}),
    "DecSPS": ("rules.DecSPS", {"cap": 1.0, "c0": 1.0, "lower_bound": -1.0}),
    "DiagonalFisher": (
        "rules.DiagonalFisher",
        {"step_size": 1.0, "exponent": 1.0, "damping": 1.0, "beta2": 0.25},
    ),
    "GradientDescent": ("rules.GradientDescent", {"step_size": 1.0}),
    "HeavyBall": ("rules.momentum.MomentumRule", {"step_size": 1.0, "momentum": 1.0}),
    "HeavyBallPhase": ("rules.HeavyBallPhase", {"time_step": 1.0, "friction": 1.0}),
    "Nesterov": ("", {"step_size": 1.0, "momentum": 0.5}),
    "NGN": ("rules.NGN", {"cap": 1.0, "momentum": 0.25, "lower_bound": -1.0}),
    "PolynomialMemory": ("rules.PolynomialMemory", {"step_size": 1.0, "power": 2.0}),
    "RMSprop": ("rules.RMSprop", {"step_size": 1.0, "beta2": 0.25, "epsilon": 1.0}),
    "ScheduleFree": ("rules.ScheduleFree", {"step_size": 1.0, "interpolation": 1.0}),
    "SGD": (
        "rules.SGD",
        {"step_size": 1.0, "momentum": 0.25, "dampening": 0.25, "weight_decay": 1.0},
    ),
    "SPS": ("rules.SPS", {"cap": 1.0, "c": 1.0, "lower_bound": -1.0}),
}
LOSS = number(3.0)
START = some([1.0, 2.0, -1.0, 0.5], "d")


def one_step(rule: Any, theta: Tensor, gradient: Tensor, *loss: Tensor) -> object:
    return rule.step(theta, gradient, rule.start(theta), *loss)


def memory_rule(step_size: float | Tensor = 1.0) -> rules.GradientMemory:
    return rules.GradientMemory(step_size, lambda k: float(k) / 2)


def perturbed(std: float | Tensor = 1.0) -> rules.Perturbed:
    return rules.Perturbed(rules.GradientDescent(1.0), std, generator())


for name, (owner, hyperparameters) in RULES.items():
    make = getattr(rules, name)
    loss_too = (LOSS[0],) if getattr(make, "needs_loss", False) else ()
    if owner:
        of(
            owner,
            lambda make=make, loss=loss_too, **given: one_step(make(**given), START[0], START[0] / 2, *loss),
            **{key: number(value) for key, value in hyperparameters.items()},
        )
    rule = make(**hyperparameters)
    home = {"HeavyBall": "rules.momentum.MomentumRule", "Nesterov": ""}.get(name, f"rules.{name}")
    if home:
        of(f"{home}.start", rule.start, theta=START)
    of(
        f"rules.{name}.step",
        lambda rule=rule, **given: one_step(rule, *given.values()),
        theta=START,
        gradient="d",
        **({"loss": LOSS} if loss_too else {}),
    )

of("rules.nesterov_momentum", rules.nesterov_momentum, k=number(2.0))
of(
    "rules.GradientMemory",
    lambda step_size: one_step(memory_rule(step_size), START[0], START[0]),
    step_size=number(1.0),
)
of("rules.Perturbed", lambda std: one_step(perturbed(std), START[0], START[0]), std=number(1.0))
for name, make in {
    "Averaged": lambda: rules.Averaged(rules.SPS(1.0)),
    "GradientMemory": memory_rule,
    "Perturbed": perturbed,
    "Restarted": lambda: rules.Restarted(rules.HeavyBall(1.0, 0.5), when="loss"),
}.items():
    of(f"rules.{name}.start", lambda theta, make=make: make().start(theta), theta=START)
    of(
        f"rules.{name}.step",
        lambda make=make, **given: one_step(make(), *given.values()),
        theta=START,
        gradient="d",
        **({"loss": LOSS} if name in ("Averaged", "Restarted") else {}),
    )
of(
    "rules.Restarted.step",
    lambda theta, gradient: one_step(rules.Restarted(rules.Nesterov(1.0, 0.5)), theta, gradient),
    theta=START,
    gradient="d",
)
of(
    "rules.sps_step_size",
    rules.sps_step_size,
    loss=LOSS,
    squared_norm=number(2.0),
    cap=number(1.0),
    c=number(1.0),
    lower_bound=number(-1.0),
)
of(
    "rules.ngn_step_size",
    rules.ngn_step_size,
    loss=LOSS,
    squared_norm=number(2.0),
    cap=number(1.0),
    lower_bound=number(-1.0),
)
of(
    "rules.decsps_step_size",
    rules.decsps_step_size,
    loss=LOSS,
    squared_norm=number(2.0),
    smallest=number(3.0),
    cap=number(1.0),
    c_k=number(2.0),
    c_0=number(1.0),
    lower_bound=number(-1.0),
)


def kicked(step_size: float | Tensor = 1.0, std: float | Tensor = 1.0) -> rules.PerturbedGradientDescent:
    return rules.PerturbedGradientDescent(step_size, std, generator(), correlation="differenced")


of(
    "rules.PerturbedGradientDescent",
    lambda **given: one_step(kicked(**given), START[0], START[0]),
    step_size=number(1.0),
    std=number(1.0),
)
of("rules.PerturbedGradientDescent.start", lambda theta: kicked().start(theta), theta=START)
of(
    "rules.PerturbedGradientDescent.step",
    lambda theta, gradient: one_step(kicked(), theta, gradient),
    theta=START,
    gradient="d",
)
of(
    "rules.PerturbedGradientDescent.unperturbed",
    lambda theta: kicked().unperturbed(theta, kicked().start(START[0])),
    theta=START,
)


# ---------------------------------------------------------------------------------------------------- curvature

from learning_dynamics import curvature  # noqa: E402

COUNTS = some([1, 2, 5], "marks")
RATES = some([2.0, 1.0], "d")
HESSIAN = some([[2.0, 0.5], [0.5, 1.0]], "d d")
OUTPUTS = some([[0.5, -1.0], [1.0, 0.25], [-0.5, 0.75]], "*n c")
GROW = curvature.Chart(torch.exp, torch.log)
ONE_OUTPUT = "documented: where d_y = 1 the targets may leave that axis out"
CALLERS = {
    key: CALLERS_MODEL for key in ("inputs: one axis less", "inputs: integers", "inputs: complex", "no d")
}
ABSTRACT = "abstract; the laws and operators that have a body are walked"


def problem() -> curvature.Modes:
    return curvature.Modes(RATES[0], RATES[0] / 2, RATES[0] + 1)


of(
    "curvature.Modes",
    lambda **given: curvature.excess_constant(curvature.Modes(**given), 0.5, COUNTS[0]),
    curvature=RATES,
    noise=RATES,
    error=RATES,
)
of(
    "curvature.modes",
    lambda **given: curvature.excess_constant(curvature.modes(**given), 0.1, COUNTS[0]),
    H=HESSIAN,
    C=HESSIAN,
    Sigma=HESSIAN,
    start_error="m",
)
of(
    "curvature.moments",
    curvature.moments,
    H=HESSIAN,
    C=HESSIAN,
    Sigma=HESSIAN,
    start_error=RATES,
    step_sizes=some([0.5, 0.25], "K"),
    exempt={"no K": "without a step the moments are those of the start"},
)
for name in ("bound_average", "bounds_constant", "excess_constant"):
    of(f"curvature.{name}", lambda k, name=name: getattr(curvature, name)(problem(), 0.5, k), k=COUNTS)
of("curvature.bounds_decaying", lambda k: curvature.bounds_decaying(problem(), 2.0, k), k=COUNTS)
of(
    "curvature.excess_average",
    lambda k, first: curvature.excess_average(problem(), 0.5, k, first),
    k=COUNTS,
    first=some([0, 1, 2], "*marks"),
)
of(
    "curvature.excess_decaying",
    lambda offset, k: curvature.excess_decaying(problem(), offset, k),
    offset=number(2.0),
    k=COUNTS,
)
of(
    "curvature.excess_scheduled",
    lambda step_sizes: curvature.excess_scheduled(problem(), step_sizes),
    step_sizes=some([0.5, 0.25], "K"),
)
of("curvature.model_change", curvature.model_change, C=HESSIAN, gradient=RATES, step=RATES)
of("curvature.damped_step", curvature.damped_step, C=HESSIAN, gradient=RATES, damping=number(1.0))
of("curvature.trust_region_step", curvature.trust_region_step, C=HESSIAN, gradient=RATES, radius=number(1.0))
of(
    "curvature.gain_ratio",
    curvature.gain_ratio,
    {
        "after: NaN": "documented: a loss that is not finite counts as infinite, and the ratio is minus infinity"
    },
    before=number(3.0),
    after=number(2.0),
    promised=number(-2.0),
)
of(
    "curvature.next_damping",
    curvature.next_damping,
    {"rho: NaN": "documented: the damping stays as it was; a race that has diverged calls it so"},
    damping=number(1.0),
    rho=number(1.0),
)
of(
    "curvature.Certificates",
    lambda points: curvature.Certificates(
        lambda theta: theta.square().sum() + theta[0] ** 4, points
    ).smoothness(),
    points="n d",
)
of(
    "curvature.Chart.jacobian",
    GROW.jacobian,
    {"chi: one axis less": "a scalar is a point of one parameter"},
    chi=RATES,
)
of(
    "curvature.step_in_chart",
    lambda theta: curvature.step_in_chart(lambda x: -x, GROW, theta, 0.5),
    theta=RATES,
)
of("curvature.pullback", curvature.pullback, C=(HESSIAN[0], "m m"), J="m d")
for name in ("ideal_moves", "improvement_bound"):
    of(
        f"curvature.{name}",
        lambda outputs, targets, name=name: getattr(curvature, name)(
            curvature.SquaredError(), outputs, targets
        ),
        {"outputs: one axis behind": ONE_OUTPUT} if name == "improvement_bound" else None,
        outputs=OUTPUTS,
        targets=(OUTPUTS[0] / 2, "*n c"),
    )
LAWS: dict[str, tuple[Axes, tuple[str, ...]]] = {
    "SquaredError": ((OUTPUTS[0] / 2, "n c"), ("loss",)),
    "Categorical": (some([0, 1, 1], "n"), ("loss", "checked")),
    "Bernoulli": (some([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]], "n c"), ("loss", "checked")),
    "Poisson": (some([[0.0, 1.0], [3.0, 1.0], [1.0, 0.0]], "n c"), ("loss", "checked")),
    "HeteroscedasticGaussian": (some([[0.5], [1.0], [-1.0]], "n half"), ("loss", "gradient", "hessian")),
}
for name, (targets, methods) in LAWS.items():
    law = getattr(curvature, name)()
    for method in methods:
        same_width = method == "loss" and name in ("SquaredError", "Bernoulli", "Poisson")
        of(
            f"curvature.{name}.{method}",
            getattr(law, method),
            {"outputs: one axis behind": ONE_OUTPUT} if same_width else None,
            outputs=(OUTPUTS[0], "n c"),
            targets=targets,
        )
    of(f"curvature.{name}.fisher", law.fisher, outputs=(OUTPUTS[0], "n c"))
of(
    "curvature.OutputLaw.sample",
    lambda outputs: curvature.SquaredError().sample(outputs, 2, generator()),
    {"one axis less": "other draws", "one axis more": "other draws"},
    outputs="n c",
)
of(
    "curvature.OutputLaw.checked",
    curvature.SquaredError().checked,
    outputs=(OUTPUTS[0], "n c"),
    targets=(OUTPUTS[0] / 2, "n c"),
)
for name in ("loss", "gradient", "hessian", "fisher"):
    UNWALKED[f"curvature.OutputLaw.{name}"] = ABSTRACT
UNWALKED["curvature.LinearOperator"] = ABSTRACT
of(
    "curvature.OnlineFilter",
    lambda prior_variance: curvature.OnlineFilter(curvature.SquaredError(), prior_variance).start(RATES[0]),
    prior_variance=number(2.0),
)
of("curvature.OnlineFilter.start", curvature.OnlineFilter(curvature.SquaredError(), 2.0).start, theta=RATES)
of(
    "curvature.OnlineFilter.step",
    curvature.OnlineFilter(curvature.SquaredError(), 2.0).step,
    theta=RATES,
    covariance=HESSIAN,
    outputs=some([1.0], "d_y"),
    jacobian=some([[1.0, 2.0]], "d_y d"),
    targets=some([0.5], "d_y"),
)
of(
    "curvature.conjugate_gradient",
    lambda b, start: curvature.conjugate_gradient(HESSIAN[0], b, start=start).x,
    b=RATES,
    start=RATES,
)
of("curvature.lanczos", lambda start: curvature.lanczos(HESSIAN[0], start, 2), start=RATES)
of(
    "curvature.top_eigenpairs",
    lambda start: curvature.top_eigenpairs(HESSIAN[0], 1, start).values,
    start=RATES,
)
of(
    "curvature.spectral_density",
    lambda starts: curvature.spectral_density(HESSIAN[0], starts, 2),
    starts=some([[1.0, 2.0], [1.0, -1.0]], "d k"),
)
of(
    "curvature.SpectralDensity.smoothed",
    lambda grid: curvature.spectral_density(HESSIAN[0], torch.eye(2).double(), 2).smoothed(grid, 0.5),
    grid="T",
)
MODEL_INPUTS = some([[0.5, -1.0, 0.0, 1.0], [1.0, 0.25, 1.0, 2.0], [-0.5, 0.75, 1.0, 0.0]], "n d")
of(
    "curvature.Jacobian",
    lambda inputs: curvature.Jacobian(network(), inputs).dense(),
    CALLERS | {"inputs: one axis more": "rows are positions then, as documented"},
    inputs=MODEL_INPUTS,
)
of(
    "curvature.Fisher",
    lambda inputs: curvature.Fisher(network(), curvature.SquaredError(), inputs).dense(),
    CALLERS,
    inputs=MODEL_INPUTS,
)
of(
    "curvature.loss_matrix.LossMatrix",
    lambda inputs, targets: curvature.Hessian(network(), curvature.SquaredError(), inputs, targets).dense(),
    CALLERS | {"inputs: one axis behind": CALLERS_MODEL},
    inputs=MODEL_INPUTS,
    targets=(OUTPUTS[0], "n c"),
)
for name in ("loss_and_gradient", "per_sample_gradients"):
    of(
        f"curvature.{name}",
        lambda inputs, targets, name=name: getattr(curvature, name)(
            network(), curvature.SquaredError(), inputs, targets
        ),
        CALLERS | {"inputs: one axis behind": CALLERS_MODEL},
        inputs=MODEL_INPUTS,
        targets=(OUTPUTS[0], "n c"),
    )
of(
    "curvature.SymmetricOperator.solve",
    lambda b, start: (
        curvature.Fisher(network(), curvature.SquaredError(), MODEL_INPUTS[0])
        .solve(b, damping=1.0, start=start)
        .x
    ),
    b=(torch.linspace(-1, 1, 23).double(), "p"),
    start=(torch.linspace(-1, 2, 23).double(), "p"),
)


# -------------------------------------------------------------------------------------------------------- noise

from learning_dynamics.noise import (  # noqa: E402
    fractional,
    matrix_sensing,
    shaking,
    tanh_classifier,
    widening_valley,
)

SYMMETRIC = some([[[1.0, 2.0], [2.0, 1.0]], [[0.0, 1.0], [1.0, 2.0]], [[1.0, 0.0], [0.0, 3.0]]], "n s s")


def sensing() -> matrix_sensing.MatrixSensing:
    return matrix_sensing.MatrixSensing(SYMMETRIC[0], FLOORS[0])


of(
    "noise.fractional.box_counts",
    lambda paths: fractional.box_counts(paths, [0, 1]),
    paths=some([[0.0, 1.0, 0.5, 2.0], [1.0, 1.5, 0.0, 0.0]], "runs n"),
)
of(
    "noise.fractional.cloud_variance",
    lambda autocovariance: fractional.cloud_variance(0.5, autocovariance),
    autocovariance=some([[1.0, 0.5, 0.25], [1.0, 0.0, 0.0]], "runs lags"),
)
of(
    "noise.fractional.increment_covariance",
    lambda lags: fractional.increment_covariance(0.7, lags),
    lags=some([0.0, 1.0, 200.0], "lags"),
)
of(
    "noise.matrix_sensing.MatrixSensing",
    lambda **given: matrix_sensing.MatrixSensing(**given).loss(some([1.0, 2.0, 0.0, 1.0], "")[0]),
    measurements=SYMMETRIC,
    targets=FLOORS,
)
for name in ("factor", "residual", "loss", "gradient", "trace", "hessian", "largest_eigenvalue"):
    of(
        f"noise.matrix_sensing.MatrixSensing.{name}",
        lambda theta, name=name: getattr(sensing(), name)(theta),
        {"theta: NaN": "documented: infinite for a run that is not finite"}
        if name == "largest_eigenvalue"
        else None,
        theta=some([[1.0, 2.0, 0.0, 1.0], [0.0, 1.0, 1.0, 2.0]], "runs p"),
    )
for blocks in (None, [1, 3]):
    of(
        "noise.shaking.shaken_gradient",
        lambda sigma, blocks=blocks: shaking.shaken_gradient(
            lambda theta, k: theta, sigma, generator=generator(), blocks=blocks
        )(torch.ones(2, 4).double(), 0),
        sigma=some([[1.0], [2.0]], "*runs one!"),
    )
CLASSES = some([0, 2], "n")
SAMPLES_XY = some([[1.0, 0.5, -1.0], [0.0, 2.0, 1.0]], "n d")
FLAT = some([[0.5, -1.0, 0.25, 0.0, 1.0, -0.5, 0.25, 0.75, 0.0, 0.1], [1.0] * 10], "runs p!")


def classifier(
    inputs: Tensor = SAMPLES_XY[0], classes: Tensor = CLASSES[0]
) -> tanh_classifier.TanhClassifier:
    return tanh_classifier.TanhClassifier(inputs, classes, 1, 3)


of(
    "noise.tanh_classifier.TanhClassifier",
    lambda **given: classifier(**given).loss(FLAT[0][0]),
    inputs=some([[1.0, 0.5, -1.0], [0.0, 2.0, 1.0]], "n d!"),
    classes=CLASSES,
)
for name in ("parts", "loss", "gradient", "trace"):
    of(
        f"noise.tanh_classifier.TanhClassifier.{name}",
        lambda theta, name=name: getattr(classifier(), name)(theta),
        theta=FLAT,
    )
of(
    "noise.tanh_classifier.TanhClassifier.logits",
    lambda theta, inputs: classifier().logits(theta, inputs),
    theta=FLAT,
    inputs=some([[1.0, 0.5, -1.0], [0.0, 2.0, 1.0], [1.0, 1.0, 1.0]], "samples d!"),
)
for name in ("loss", "gradient", "hessian"):
    of(f"noise.widening_valley.{name}", getattr(widening_valley, name), theta="runs d")
of(
    "noise.widening_valley.differenced_flow",
    lambda steps: widening_valley.differenced_flow(1.0, 0.5, 0.25, steps),
    steps=some([0.0, 1.0, 2.0], "A"),
)


# --------------------------------------------------------------------------------------------------- statistics

from learning_dynamics import statistics  # noqa: E402

SAMPLES = some([1.0, 2.0, 4.0, 3.0], "n")
OTHERS = some([2.0, 3.0, 7.0, 3.5, 1.0], "m")
of("statistics.mean_interval", statistics.mean_interval, samples=SAMPLES)
of("statistics.difference_interval", statistics.difference_interval, a=SAMPLES, b=OTHERS)
of(
    "statistics.ks_test",
    lambda samples: statistics.ks_test(samples, lambda x: (x / 10).clip(0, 1)),
    samples=SAMPLES,
)
of("statistics.ks_test", statistics.ks_test, samples=SAMPLES, reference=OTHERS)
CURVES = "documented: one curve has the interval of its fit, several have that over the seeds"
of(
    "statistics.log_log_slope",
    statistics.log_log_slope,
    {"y: one axis more": CURVES},
    x=SAMPLES,
    y=some([2.0, 3.0, 7.0, 3.5], "n"),
)
of(
    "statistics.log_log_slope",
    statistics.log_log_slope,
    {"y: one axis less": CURVES},
    x=SAMPLES,
    y=some([[2.0, 3.0, 7.0, 3.5], [2.0, 3.0, 5.0, 4.0]], "seeds n"),
)


# ---------------------------------------------------------------------------------- ensembles, optimizers, data

from learning_dynamics import curvature as _curvature  # noqa: E402
from learning_dynamics import data, ensembles, optimizers  # noqa: E402

RUN_INPUTS = (lambda: torch.randn(2, 3, 4, generator=generator(), dtype=torch.float64), "runs! n d!")
RUN_TARGETS = (lambda: torch.randn(2, 3, 2, generator=generator(), dtype=torch.float64), "runs! n c")


CALLERS_LOSS = "the loss is the caller's, and says what it takes from a run"
CALLERS_RUNS = {
    key: "the module and the loss are the caller's, and say what they take from a run"
    for key in (
        "one axis more",
        "one axis behind",
        "d! larger, axis 2",
        "d! = 1, axis 2",
        "integers",
        "complex",
    )
} | {"no d!": CALLERS_LOSS}
INFINITE = {"NaN": "documented: infinite where they are not finite", "no n": "the mean of nothing is NaN"}
ANY_DTYPE = {"data: complex": "rows of any dtype are rows"}


def ensemble() -> ensembles.ModuleEnsemble:
    return ensembles.ModuleEnsemble(
        [network(), network()], rules.GradientDescent(0.1), lambda model, x: model(x).square().mean()
    )


of(
    "ensembles.iterate",
    lambda theta0: ensembles.iterate(rules.GradientDescent(0.1), lambda theta, k: theta, theta0, 2),
    {"theta0: NaN": "documented: the records of a diverged run are infinite"},
    theta0="runs d",
)
of(
    "ensembles.batched",
    lambda per_run: ensembles.batched(lambda theta, x: (theta * x).sum(), per_run)(
        torch.ones(2, 4).double(), 0
    ),
    dict.fromkeys(("one axis more", "one axis behind", "complex", "no d"), CALLERS_LOSS),
    per_run="runs! d",
)
of(
    "ensembles.batches",
    lambda rows, data: next(ensembles.batches([rows], data)),
    ANY_DTYPE
    | {"rows: one axis less": "documented: an order that all runs share"}
    | {"data: one axis more": "row numbers beyond the axis are torch's own IndexError"},
    rows=some([[0, 1], [2, 0]], "runs b"),
    data="runs n d",
)
of(
    "ensembles.batches",
    lambda rows, data: next(ensembles.batches([rows], data, shared=True)),
    ANY_DTYPE
    | {"data: one axis less": "a number a row"}
    | {"data: one axis more": "row numbers beyond the axis are torch's own IndexError"},
    rows=some([[0, 1], [2, 0]], "runs b"),
    data="n d",
)
of(
    "ensembles.ModuleEnsemble.step",
    lambda batch: ensemble().step(batch),
    CALLERS_RUNS | INFINITE,
    batch=RUN_INPUTS,
)
of(
    "ensembles.ModuleEnsemble.train",
    lambda batches: ensemble().train([(batches,)], 1, observe=lambda e: e.theta),
    CALLERS_RUNS | INFINITE,
    batches=RUN_INPUTS,
)
of(
    "ensembles.ModuleEnsemble.evaluate",
    lambda data: ensemble().evaluate(lambda model, x: model(x), data),
    {key: reason for key, reason in CALLERS_RUNS.items() if key != "one axis more"},
    data=RUN_INPUTS,
)


def damped_step(inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    model = network()
    before = optimizers.DampedGaussNewton(model, _curvature.SquaredError()).step(
        inputs=inputs, targets=targets
    )
    return before, nn.utils.parameters_to_vector(model.parameters())


of(
    "optimizers.DampedGaussNewton.step",
    damped_step,
    dict.fromkeys(("inputs", "no d!"), CALLERS_MODEL),
    inputs="n d!",
    targets="n c",
)
of(
    "data.Dataset",
    lambda inputs, targets: (lambda made: (made.inputs, made.targets))(
        data.Dataset(inputs, targets, "name", "source", "licence")
    ),
    inputs="n d",
    targets="n",
)


# ------------------------------------------------------------------------------------------- noise, layer by layer

from learning_dynamics.noise import smoothing, two_layer_linear  # noqa: E402


def cubes(theta: Tensor) -> Tensor:
    return (theta**3).sum(-1)


of("noise.smoothing.smoothed", lambda theta: smoothing.smoothed(cubes, theta, 0.5), theta="d")
of(
    "noise.smoothing.effective_loss",
    lambda theta: smoothing.effective_loss(lambda t: t**2, lambda f: f.square().sum(), theta, 0.5),
    theta="d",
)
of("noise.smoothing.normal_nodes", lambda like: smoothing.normal_nodes(2, 2, like), like="d")
SECOND = some([[2.0, 1.0], [1.0, 3.0]], "d_x d_x")
W_1 = some([[1.0, 2.0], [0.0, 1.0], [2.0, 1.0]], "m d_x")
of(
    "noise.two_layer_linear.penalty",
    lambda **given: two_layer_linear.penalty(**given, sigma=0.5),
    W1=W_1,
    W2=some([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]], "d_y m"),
    second_moment=SECOND,
)
of(
    "noise.two_layer_linear.constant",
    lambda width, second_moment: two_layer_linear.constant(width, 2, second_moment, 0.5),
    width=number(3.0),
    second_moment=SECOND,
)
for layers in ("all", "one"):
    of(
        "noise.two_layer_linear.gradient_noise",
        lambda layers=layers, **given: two_layer_linear.gradient_noise(**given, sigma=0.5, layers=layers),
        W1=W_1,
        a=some([1.0, 0.0, 2.0], "m"),
        second_moment=SECOND,
    )
