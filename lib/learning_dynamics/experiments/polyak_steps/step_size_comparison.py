"""DecSPS, untuned, against tuned rivals on regularized logistic regression; with the true LIBSVM files a kept result.

    python -m learning_dynamics.experiments.polyak_steps.step_size_comparison --files FOLDER

reads `a1a.txt` and `breast-cancer.txt` (LIBSVM's text format) from FOLDER and keeps a result for each of them and each
start.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from learning_dynamics import data, ensembles, rules
from learning_dynamics._internal.arguments import require_choice, require_first, require_real, require_tensors
from learning_dynamics.adaptivity.finite_sums import LogisticSum
from learning_dynamics.data import libsvm
from learning_dynamics.experiments.command import Call, Experiment, Option, Scaled
from learning_dynamics.runs import Run

CHAPTER = "adaptivity/polyak_steps"
BATCH = 20
STEPS = 3000
RIDGES = {"a1a": 0.01, "breast-cancer": 0.1}
STARTS = {"zero": 0.0, "far": 1.0}  # standard deviation of a normal start
PROBLEMS = {f"{name}-{start}": (name, start) for name in RIDGES for start in STARTS}
# every tuned method chooses among nine step sizes
EXPONENTS = torch.arange(-2.0, 2.01, 0.5, dtype=torch.float64)


class Method(NamedTuple):
    """A method with the step sizes that it is tuned over.

    Attributes:
        rule: the rule made from a column of step sizes.
        grid: `(grid,)`, the step sizes.
        step_size: what of its state is a step size, if anything is.
    """

    rule: Callable[[Tensor], Any]
    grid: Tensor
    step_size: Callable[[Any], Tensor] | None = None


def decreasing(eta: Tensor) -> Callable[[int], Tensor]:
    """Return the schedule eta / sqrt(k + 1).

    Args:
        eta: `(grid, 1)`.

    Raises:
        ValueError: eta is complex.
    """
    require_real("eta", eta)
    return lambda k: eta / math.sqrt(k + 1)


def median_scale(state: Any) -> Tensor:
    """Return Adam's step size over eta, the median over the coordinates; inputs that never occur have 1/epsilon.

    Args:
        state: of `rules.Adam`, with axes `(seeds, grid, d)`.

    Returns:
        `(seeds, grid)`.
    """
    corrected = state.mean_square / (1 - 0.999 ** max(state.step, 1))
    return (1 / (corrected.sqrt() + 1e-8)).median(-1).values


METHODS = {
    "decsps": Method(
        lambda eta: rules.DecSPS(cap=eta),
        torch.tensor([10.0], dtype=torch.float64),
        lambda state: state.step_size,
    ),
    "sgd": Method(lambda eta: rules.GradientDescent(decreasing(eta)), 10**EXPONENTS),
    "adagrad_norm": Method(
        lambda eta: rules.AdaGradNorm(eta, b0=0.1), 10**EXPONENTS, lambda state: state.step_size
    ),
    "adam": Method(lambda eta: rules.Adam(eta, beta1=0.0), 10 ** (EXPONENTS - 2), median_scale),
    "amsgrad": Method(lambda eta: rules.AMSGrad(decreasing(eta), beta1=0.0), 10**EXPONENTS),
}


def add_intercept(inputs: Tensor) -> Tensor:
    """Return the inputs with a column of ones.

    Args:
        inputs: `(n, d)`.

    Returns:
        `(n, d + 1)`.

    Raises:
        ValueError: the inputs are not real floating point `(n, d)`.
    """
    require_tensors(empty=True, inputs=(inputs, "n d"))
    return torch.cat([inputs, torch.ones_like(inputs[:, :1])], -1)


def read(path: Path, ridge: float) -> LogisticSum:
    """Return the problem of a LIBSVM file with two classes, with an intercept; the larger target is +1.

    Args:
        path: the file.
        ridge: rho of `LogisticSum`, >= 0.

    Raises:
        ValueError: the file has not two classes.
    """
    inputs, targets = libsvm.read(path)
    if len(set(targets)) != 2:
        raise ValueError(f"{path.name}: has {len(set(targets))} classes; allowed: two")
    signs = torch.as_tensor((targets == targets.max()) * 2.0 - 1.0)
    return LogisticSum(add_intercept(torch.as_tensor(inputs)), signs, ridge)


def shipped(name: str) -> LogisticSum:
    """Return a problem on a set that ships with the library.

    Inputs are standardized for the first and divided by 16 for the second, where the digits above 4 are one class;
    the ridges are those of the true files that they stand in for.

    Args:
        name: "breast-cancer" (Wisconsin, 30 inputs) or "digits".

    Raises:
        ValueError: another name.
    """
    require_choice("name", name, ("breast-cancer", "digits"))
    found = data.load(name)
    inputs = torch.as_tensor(found.inputs, dtype=torch.float64).reshape(len(found.targets), -1)
    targets = torch.as_tensor(found.targets)
    if name == "digits":
        inputs = inputs / inputs.max()
        return LogisticSum(add_intercept(inputs), torch.where(targets > 4, 1.0, -1.0).to(inputs), 0.01)
    inputs = (inputs - inputs.mean(0)) / inputs.std(0)
    return LogisticSum(add_intercept(inputs), torch.where(targets > 0, 1.0, -1.0).to(inputs), 0.1)


def records(steps: int) -> list[int]:
    """Return the recorded step numbers: evenly spread on a logarithmic axis, and twenty in the last fifth.

    Args:
        steps: the last number, >= 100.
    """
    last = range(steps - 19 * (steps // 100), steps + 1, steps // 100)
    return sorted({*ensembles.log_spaced(steps, per_decade=10), *last})


def final(gap: Tensor) -> Tensor:
    """Return the mean over the last ten records, `(seeds, grid)`: the end, less the noise of a single iterate.

    Args:
        gap: `(records, seeds, grid)`.

    Raises:
        ValueError: there is no record, or they are not real floating point.
    """
    require_first("gap", gap)
    return gap[-10:].mean(0)


def run_method(
    problem: LogisticSum, name: str, seeds: Sequence[int], steps: int = STEPS, start: str = "zero"
) -> dict[str, Tensor]:
    """Run one method with its whole grid and all seeds; every method sees the same starts and minibatches.

    Args:
        problem: what is trained, by minibatches of 20.
        name: one of METHODS.
        seeds: of the starts and minibatches.
        steps: number of steps, >= 100.
        start: "zero", or "far" for a standard normal start.

    Returns:
        `final (seeds, grid)`: the training loss above its minimum at the end, infinite where diverged. For the step
        size of the grid whose mean over the seeds is least: `best ()`, its index; `gap (records, seeds)`; and where the
        method has one, `step (records - 1, seeds)`, the step size used last.
    """
    method = METHODS[name]
    n, d = problem.inputs.shape
    starts, rows = [], []
    for seed in seeds:
        source = Run(CHAPTER).generator("comparison", seed=seed)
        starts.append(STARTS[start] * torch.randn(1, d, generator=source, dtype=torch.float64))
        rows.append(torch.randint(n, (steps, BATCH), generator=source))
    theta0 = torch.stack(starts).to(problem.inputs).expand(-1, len(method.grid), -1)
    batches = torch.stack(rows, 1).to(problem.inputs.device)
    grid = method.grid.to(problem.inputs)
    found = ensembles.iterate(
        method.rule(grid[:, None]),
        lambda theta, k: problem.oracle(theta, batches[k]),
        theta0,
        steps,
        record=records(steps),
        observe=lambda theta: problem.oracle(theta)[0],
        watch=method.step_size,
    )
    gap = found.values - problem.minimum()
    best = final(gap).mean(0).argmin()
    kept = {"final": final(gap), "best": best, "gap": gap[..., best]}
    if found.watched is not None:
        factor = grid[best] if name == "adam" else 1.0
        kept["step"] = factor * found.watched[1:, :, best]
    return kept


def compare(
    problem: LogisticSum, seeds: Sequence[int], steps: int = STEPS, start: str = "zero"
) -> dict[str, Tensor]:
    """Return what `run_method` finds with each method; arguments as in `run_method`.

    Returns:
        Arrays `NAME_final`, `NAME_best`, ..., and the step numbers `record`.
    """
    arrays = {"record": torch.tensor(records(steps))}
    for name in METHODS:
        for kind, values in run_method(problem, name, seeds, steps, start).items():
            arrays[f"{name}_{kind}"] = values
    return arrays


def compute(call: Call) -> dict[str, Any]:
    """Run the comparison on one of the true files, from one start."""
    name, start = PROBLEMS[call.options.problems]
    problem = read(call.options.files / f"{name}.txt", RIDGES[name])
    return compare(problem, call.seeds, call.options.steps, start) | {
        "samples": len(problem.signs),
        "features": problem.inputs.shape[1] - 1,
        "smoothness": problem.smoothness.max(),
    }


EXPERIMENT = Experiment(
    chapter=CHAPTER,
    name=lambda options: options.problems,
    compute=compute,
    options=(
        Option("--files", "folder with a1a.txt and breast-cancer.txt", kind=Path, required=True),
        Option("--problems", "set and start", tuple(PROBLEMS), allowed=tuple(PROBLEMS)),
        Option("--steps", "number of steps", Scaled(100, STEPS, STEPS)),
    ),
    each="problems",
    seeds=Scaled(2, 20, 20),
    devices=("cpu",),
    kept=("--files FOLDER",),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute and keep; see `learning_dynamics.experiments.command`."""
    return EXPERIMENT.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
