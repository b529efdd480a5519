from __future__ import annotations

from pathlib import Path

import pytest
import torch

from learning_dynamics import rules
from learning_dynamics.adaptivity.finite_sums import LogisticSum
from learning_dynamics.experiments.polyak_steps import step_size_comparison as comparison


@pytest.fixture(scope="module")
def problem() -> LogisticSum:
    source = torch.Generator().manual_seed(1)
    inputs = torch.randn(40, 3, generator=source, dtype=torch.float64)
    signs = torch.where(inputs @ torch.ones(3, dtype=torch.float64) > 0.3, 1.0, -1.0).to(inputs)
    return LogisticSum(comparison.add_intercept(inputs), signs, 0.1)


def test_records_rise_and_end_at_the_last_step() -> None:
    found = comparison.records(300)
    assert found == sorted(set(found)) and found[0] == 0 and found[-1] == 300
    assert sum(k > 240 for k in found) >= 20


def test_a_grid_and_seeds_at_once_are_each_run_alone(problem: LogisticSum) -> None:
    """The last ten records of one seed and one step size, by a plain loop over the steps."""
    steps, seed, index = 100, 5, 3
    found = comparison.run_method(problem, "sgd", [4, seed], steps)
    source = comparison.Run(comparison.CHAPTER).generator("comparison", seed=seed)
    torch.randn(1, 4, generator=source, dtype=torch.float64)
    rows = torch.randint(40, (steps, comparison.BATCH), generator=source)
    rule = rules.GradientDescent(comparison.decreasing(10 ** comparison.EXPONENTS[index]))
    theta, kept = torch.zeros(1, 4, dtype=torch.float64), []
    state = rule.start(theta)
    for k in range(steps + 1):
        if k in comparison.records(steps)[-10:]:
            kept.append(problem.oracle(theta)[0] - problem.minimum())
        if k < steps:
            _, gradient = problem.oracle(theta, rows[k])
            theta, state = rule.step(theta, gradient, state)
    torch.testing.assert_close(found["final"][1, index], torch.stack(kept).mean(), rtol=1e-9, atol=1e-12)
    assert found["best"] == found["final"].mean(0).argmin()


@pytest.mark.parametrize("name", comparison.METHODS)
def test_every_method_comes_nearer_to_the_minimum(name: str, problem: LogisticSum) -> None:
    found = comparison.run_method(problem, name, [0, 1, 2], 200, start="far")
    assert (found["gap"][-1] < 0.5 * found["gap"][0]).all()
    assert ("step" in found) == (comparison.METHODS[name].step_size is not None)


def test_a_file_becomes_a_problem_with_signs_and_an_intercept(tmp_path: Path) -> None:
    path = tmp_path / "two.txt"
    path.write_text("2 1:0.5\n4 2:1.5\n2 1:1 2:2\n")
    found = comparison.read(path, 0.25)
    assert found.signs.tolist() == [-1, 1, -1] and found.ridge == 0.25
    assert found.inputs.tolist() == [[0.5, 0, 1], [0, 1.5, 1], [1, 2, 1]]
    path.write_text("2 1:0.5\n")
    with pytest.raises(ValueError, match="classes"):
        comparison.read(path, 0.25)


def test_another_name_is_refused() -> None:
    with pytest.raises(ValueError, match="a1a"):
        comparison.shipped("a1a")
