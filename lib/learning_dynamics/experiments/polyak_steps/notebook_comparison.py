r"""DecSPS against tuned AdaGrad-Norm and AMSGrad in the set-up of the authors' public notebooks; a kept result.

    python -m learning_dynamics.experiments.polyak_steps.notebook_comparison

The repository aorvieto/DecSPS trains on scikit-learn's breast-cancer set: 30 standardized inputs, no intercept, and
the loss

.. math:: \frac1n \sum_i \tfrac12 \ln(1 + e^{-y_i \langle x_i, \theta\rangle}) + \tfrac{0.1}2 \|\theta\|^2,

batches without repetition, 59,319 steps, one standard normal start. The notebook with AdaGrad-Norm has batches of 5,
the one with AMSGrad of 20 and a decay rate of 0.99. The targets are 0 and 1, where the loss is made for -1 and 1; the
first is run with both. Two grids vary c_0 and the cap of DecSPS, which the source fixes at 1 and 10.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from learning_dynamics import data, ensembles, rules
from learning_dynamics._internal.arguments import require_choice, require_count
from learning_dynamics.experiments.command import Call, Experiment, Option, Scaled
from learning_dynamics.experiments.polyak_steps.step_size_comparison import (
    CHAPTER,
    Method,
    decreasing,
    final,
    records,
)
from learning_dynamics.runs import Run

STEPS = 39**3
RIDGE = 0.1


class Setup(NamedTuple):
    """What differs between the notebooks.

    Attributes:
        batch: samples a step.
        lowest: the target of the first class; that of the second is 1.
        methods: names of METHODS.
    """

    batch: int
    lowest: float
    methods: tuple[str, ...]


AGAINST_NORM = ("decsps", "decsps_c0", "decsps_cap", "adagrad_norm", "amsgrad")
SETUPS = {
    "adagrad-norm": Setup(5, 0.0, AGAINST_NORM),
    "adagrad-norm-signs": Setup(5, -1.0, AGAINST_NORM),
    "amsgrad": Setup(20, 0.0, ("decsps", "decsps_c0", "amsgrad")),
}
METHODS = {
    "decsps": Method(lambda eta: rules.DecSPS(cap=eta), torch.tensor([10.0], dtype=torch.float64)),
    "decsps_c0": Method(
        lambda eta: rules.DecSPS(cap=10.0, c0=eta),
        torch.tensor([0.25, 0.5, 1.0, 2.0, 4.0], dtype=torch.float64),
    ),
    "decsps_cap": Method(
        lambda eta: rules.DecSPS(cap=eta), torch.tensor([0.1, 1.0, 10.0, 100.0, 1000.0], dtype=torch.float64)
    ),
    "adagrad_norm": Method(
        lambda eta: rules.AdaGradNorm(
            eta, b0=0.1
        ),  # 0.25, 0.5, 1 and 5 are the notebook's; smaller ones end lower
        torch.tensor([0.01, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0], dtype=torch.float64),
    ),
    "amsgrad": Method(
        lambda eta: rules.AMSGrad(decreasing(eta), beta1=0.0, beta2=0.99),
        torch.tensor([0.003, 0.01, 0.015, 0.02, 0.025, 0.03, 0.05, 0.1, 1.0], dtype=torch.float64),
    ),
}


@dataclass(frozen=True, eq=False)
class NotebookLoss:
    """The loss of the notebooks; a sample with the target 0 adds a constant.

    Attributes:
        inputs: `(n, d)`.
        targets: `(n)`, numbers.
        ridge: at least 0.
    """

    inputs: Tensor
    targets: Tensor
    ridge: float = RIDGE

    def oracle(self, theta: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return loss and gradient of a minibatch.

        Args:
            theta: `(*runs, grid, d)`.
            rows: `(*runs, b)`, the samples of each run's minibatch; all samples if left out.

        Returns:
            The loss `(*runs, grid)` and the gradient `(*runs, grid, d)`.
        """
        signed = self.inputs * self.targets[:, None]
        signed = signed if rows is None else signed[rows]
        margins = theta @ signed.mT  # (*runs, grid, b)
        loss = softplus(-margins).mean(-1) / 2 + self.ridge / 2 * theta.square().sum(-1)
        pull = -torch.sigmoid(-margins) / (2 * margins.shape[-1])
        return loss, pull @ signed + self.ridge * theta

    def minimum(self) -> Tensor:
        """Return the least value of the mean loss, of shape `()`, by Newton's method from zero."""
        signed = self.inputs * self.targets[:, None]
        theta = torch.zeros_like(self.inputs[:1])
        for _ in range(30):
            share = torch.sigmoid(-theta @ signed.T)[0]
            H = signed.T @ (signed * (share * (1 - share) / (2 * len(signed)))[:, None])
            H = H + self.ridge * torch.eye(len(H), dtype=H.dtype)
            theta = theta - torch.linalg.solve(H, self.oracle(theta)[1][0])
        return self.oracle(theta)[0][0]


def problem(setup: str) -> NotebookLoss:
    """Return the problem of a set-up, in float64.

    Args:
        setup: a name of SETUPS; those that end in "-signs" have the targets -1 and 1, the others 0 and 1.

    Raises:
        ValueError: another word.
    """
    require_choice("setup", setup, SETUPS)
    found = data.load("breast-cancer")
    inputs = torch.as_tensor(found.inputs, dtype=torch.float64)
    inputs = (inputs - inputs.mean(0)) / inputs.std(0, correction=0)
    benign = torch.as_tensor(found.targets) > 0
    return NotebookLoss(inputs, torch.where(benign, 1.0, SETUPS[setup].lowest).to(inputs))


def start() -> Tensor:
    """Return the notebooks' start, `(30)`: numpy's standard normal vector of the seed 10."""
    return torch.as_tensor(np.random.RandomState(10).randn(30))


def minibatches(n: int, batch: int, steps: int, seeds: Sequence[int]) -> Tensor:
    """Return the rows of every step, drawn without repetition, `(steps, seeds, batch)`; fewer steps are a prefix.

    Args:
        n: number of samples.
        batch: between 1 and n.
        steps: number of steps, >= 1.
        seeds: of the draws.

    Raises:
        ValueError: a count is out of range.
    """
    require_count("batch", batch, most=n)
    require_count("steps", steps)
    columns = []
    for seed in seeds:
        source = Run(CHAPTER).generator("notebook", seed=seed)
        chunks = [torch.rand(1000, n, generator=source).topk(batch).indices for _ in range(-(-steps // 1000))]
        columns.append(torch.cat(chunks)[:steps])
    return torch.stack(columns, 1)


def run_method(
    setup: str,
    name: str,
    seeds: Sequence[int],
    steps: int = STEPS,
    record: Sequence[int] | None = None,
    place: int | None = None,
) -> dict[str, Tensor]:
    """Run one method with its whole grid and all seeds; every method sees the same minibatches.

    Args:
        setup: a name of SETUPS.
        name: one of METHODS.
        seeds: of the minibatches.
        steps: number of steps.
        record: step numbers; those of `step_size_comparison.records` if left out.
        place: which step size of the grid `gap` is of; the best if left out.

    Returns:
        `final (seeds, grid)`: the loss above its minimum, mean over the last ten records; `best ()`, the index of the
        step size whose mean over the seeds is least; `gap (records, seeds)` of that step size or of `place`.

    Raises:
        ValueError: `setup` is unknown.
    """
    method, loss = METHODS[name], problem(setup)
    rows = minibatches(len(loss.inputs), SETUPS[setup].batch, steps, seeds)
    found = ensembles.iterate(
        method.rule(method.grid[:, None]),
        lambda theta, k: loss.oracle(theta, rows[k]),
        start().expand(len(seeds), len(method.grid), -1),
        steps,
        record=records(steps) if record is None else record,
        observe=lambda theta: loss.oracle(theta)[0],
    )
    gap = found.values - loss.minimum()
    best = final(gap).mean(0).argmin()
    return {"final": final(gap), "best": best, "gap": gap[..., best if place is None else place]}


def compute(call: Call) -> dict[str, Any]:
    """Run all methods in one set-up."""
    arrays: dict[str, Any] = {"record": torch.tensor(records(call.options.steps))}
    for name in SETUPS[call.options.setups].methods:
        for kind, values in run_method(call.options.setups, name, call.seeds, call.options.steps).items():
            arrays[f"{name}_{kind}"] = values
        arrays[f"{name}_grid"] = METHODS[name].grid
    return arrays


EXPERIMENT = Experiment(
    chapter=CHAPTER,
    name=lambda options: f"notebook-{options.setups}",
    compute=compute,
    options=(
        Option("--setups", "which notebook, and its targets", tuple(SETUPS), allowed=tuple(SETUPS)),
        Option("--steps", "number of steps", Scaled(100, STEPS, STEPS)),
    ),
    each="setups",
    seeds=Scaled(2, 20, 20),
    devices=("cpu",),
    kept=("",),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute and keep; see `learning_dynamics.experiments.command`."""
    return EXPERIMENT.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
