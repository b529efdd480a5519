"""The specimens of `experiments`: what a chapter's reader calls with tensors of his own; the rest with its reason."""

from __future__ import annotations

import torch
from specimens import UNWALKED, number, of, some
from torch import Tensor

from learning_dynamics.experiments.data_architecture_alignment import training as alignment
from learning_dynamics.experiments.empirical_fisher import diagonal_fisher
from learning_dynamics.experiments.exploration_exploitation import sine_switch
from learning_dynamics.experiments.fisher_and_ggn import natural_training
from learning_dynamics.experiments.gauss_newton_steps import image_training
from learning_dynamics.experiments.linear_recurrent_units import kernel_learning
from learning_dynamics.experiments.momentum_shadowing import two_digits
from learning_dynamics.experiments.polyak_steps import step_size_comparison
from learning_dynamics.experiments.value_learning import training as value_training
from learning_dynamics.experiments.value_learning.problems import ValueProblem

RECORDS = {
    key: "the first axis is that of the records, whatever the others are"
    for key in ("one axis less", "one axis more")
}
NOTHING = "the mean of nothing is NaN"
LABELS = some([0.0, 1.0, 1.0], "n")
OWN = "experiments."


def one_output(x: Tensor) -> Tensor:
    return x[..., :1]


of(
    f"{OWN}empirical_fisher.diagonal_fisher.cauchy_scales",
    lambda step_sizes: diagonal_fisher.cauchy_scales(1.0, step_sizes),
    {"no K": "no steps: the start alone"},
    step_sizes=some([1.0, 0.5, 0.0], "K"),
)
of(
    f"{OWN}empirical_fisher.diagonal_fisher.power_schedule",
    lambda scale, power: diagonal_fisher.power_schedule(scale, power)(3),
    scale=number(1.0),
    power=number(2.0),
)
of(
    f"{OWN}empirical_fisher.diagonal_fisher.two_cycle",
    diagonal_fisher.two_cycle,
    step_size=number(2.0),
    exponent=number(1.0),
    damping=number(0.0),
)
of(
    f"{OWN}fisher_and_ggn.natural_training.score",
    lambda losses: torch.tensor(natural_training.score(losses, 5)),
    {"losses: NaN": "a loss that is no number is not below the target"},
    losses=some([[3.0, 2.0], [2.0, 0.1], [0.1, 0.05]], "T runs"),
)
of(
    f"{OWN}fisher_and_ggn.natural_training.steps_to",
    lambda losses: natural_training.steps_to(losses, 5, 1.5),
    RECORDS | {"losses: NaN": "a loss that is no number is not below the target"},
    losses=some([[3.0, 2.0], [2.0, 1.0], [1.0, 0.5]], "T runs"),
)
of(
    f"{OWN}gauss_newton_steps.image_training.window_means",
    lambda values: image_training.window_means(values, 2),
    values="T",
)
of(
    f"{OWN}linear_recurrent_units.kernel_learning.squared_error",
    lambda u, y: kernel_learning.squared_error(lambda x: x, u, y),
    {"no n": NOTHING, "no T": NOTHING},
    u="n T",
    y="n T",
)
of(
    f"{OWN}momentum_shadowing.two_digits.gap",
    two_digits.gap,
    orbit=some([[1.0, 2.0], [0.0, 1.0]], "*A d"),
    flow=some([[1.0, 1.0], [1.0, 1.0]], "*A d"),
)
for name in ("loss", "gradient"):
    of(
        f"{OWN}momentum_shadowing.two_digits.{name}",
        getattr(two_digits, name),
        theta="d",
        rows="n d",
        decay=number(0.5),
    )
of(f"{OWN}polyak_steps.step_size_comparison.add_intercept", step_size_comparison.add_intercept, inputs="n d")
of(
    f"{OWN}polyak_steps.step_size_comparison.decreasing",
    lambda eta: step_size_comparison.decreasing(eta)(3),
    eta=number(2.0),
)
of(f"{OWN}polyak_steps.step_size_comparison.final", step_size_comparison.final, RECORDS, gap="T runs")
of(
    f"{OWN}exploration_exploitation.sine_switch.error",
    sine_switch.error,
    outputs=some([1.0, -2.0, 3.0], "n"),
    labels=LABELS,
)
for name in ("cross_entropy", "cross_entropy_and_error"):
    of(
        f"{OWN}data_architecture_alignment.training.{name}",
        lambda x, y, name=name: getattr(alignment, name)(one_output, x, y),
        {"no n": NOTHING}
        | (
            {"y: NaN": "a label that is no number makes the loss one, not the error"} if "and" in name else {}
        ),
        x="n d",
        y=LABELS,
    )
of(
    f"{OWN}value_learning.training.predictions",
    value_training.predictions,
    table="n d",
    beta="c runs d",
)
STATES = some([[0, 1, 1], [2, 0, 1]], "seeds n")


def affine(offset: float = 0.0, **given: Tensor) -> Tensor:
    made = ValueProblem(0.5, **given)
    return (made.returns + offset * made.annuities) * made.is_point


of(
    f"{OWN}value_learning.problems.ValueProblem",
    affine,
    table=(torch.eye(3).double(), "s d"),
    states=STATES,
    returns=(torch.ones(2, 3).double(), "seeds n"),
    annuities=(torch.ones(2, 3).double(), "seeds n"),
    evaluation=(torch.eye(3).double(), "m d"),
    values=(torch.ones(2, 3).double(), "*seeds m"),
    value_annuities=(torch.ones(2, 3).double(), "*seeds m"),
    counts=some([3, 2], "seeds"),
)

RUNS = "a run of a kept result, on tensors that its command makes; the functions that make them are walked or refuse"
LAYER = (
    "a layer of the network of one experiment, fed by its own run; a wrong width is torch's own error there"
)
RECORD = "a record that a run makes, not the reader"
for reason, names in {
    RUNS: (
        "damping.levenberg_race: gauss_newton loss matrix race",
        "data_architecture_alignment.training: spectrum train",
        "descent: descend",
        "exploration_exploitation.image_training: augment certificate",
        "exploration_exploitation.sine_switch: moved",
        "fisher_and_ggn.natural_training: direction empirical_fisher fisher jacobians loss",
        "gauss_newton_steps.image_training: one_run train",
        "linear_recurrent_units.ladder: train",
        "momentum_shadowing.two_digits: descend heavy_ball_flow roll sampled",
        "rank_collapse.attention_training: reversal_loss",
        "value_learning.grid: moments run_grid",
        "value_learning.training: train",
    ),
    LAYER: (
        "damping.levenberg_race: network",
        "fisher_and_ggn.natural_training: network",
        "exploration_exploitation.image_training: Classifier.features Classifier.forward",
        "exploration_exploitation.sine_switch: SineNetwork.features SineNetwork.forward",
        "value_learning.models: Explicit Explicit.step Implicit Implicit.step ImplicitActions ImplicitActions.step",
        "value_learning.swept: ImplicitSwept.step ImplicitActionsSwept.step",
        "vanishing_curvature.deep_training: ConvolutionalNetworks.features DeepNetworks.weights DeepNetworks.features",
        "vanishing_curvature.deep_training: DeepNetworks.losses DeepNetworks.gradient DeepNetworks.rescaled",
    ),
    RECORD: (
        "gauss_newton_steps.image_training: History",
        "linear_recurrent_units.ladder: Training",
    ),
}.items():
    for line in names:
        home, _, own = line.partition(": ")
        UNWALKED.update({f"{OWN}{home}.{name}": reason for name in own.split()})
UNWALKED[f"{OWN}polyak_steps.notebook_comparison.NotebookLoss"] = RUNS
UNWALKED[f"{OWN}polyak_steps.notebook_comparison.NotebookLoss.oracle"] = RUNS
