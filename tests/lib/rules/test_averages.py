"""The means of iterates against sums written out, torch's AveragedModel, and what must hold for any memory."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_avg_fn

from learning_dynamics import ensembles, rules

STEPS = 40


def walk(make, steps: int = STEPS, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return the iterates and the means after 0, ..., `steps` noisy steps, `(steps + 1, 3, 4)` both."""
    random = torch.Generator().manual_seed(seed)
    noise = torch.randn(steps, 3, 4, generator=random, dtype=torch.float64)
    start = torch.randn(3, 4, generator=random, dtype=torch.float64)
    run = ensembles.iterate(
        make(rules.GradientDescent(0.3)),
        lambda theta, k: theta + noise[k],
        start,
        steps,
        record=range(steps + 1),
        watch=lambda state: state.mean,
    )
    assert run.watched is not None
    return run.values, run.watched


@given(first=st.integers(0, STEPS + 5), seed=st.integers(0, 1000))
def test_tail_is_the_mean_of_the_last_iterates(first: int, seed: int) -> None:
    iterates, means = walk(lambda rule: rules.TailAverage(rule, first), seed=seed)
    for k in range(STEPS + 1):
        expected = iterates[min(first, k) : k + 1].mean(0)
        torch.testing.assert_close(means[k], expected, rtol=1e-12, atol=1e-14)


def test_tail_from_zero_is_the_mean_of_all_one_step_ahead_of_averaged() -> None:
    _, tail = walk(rules.TailAverage)
    _, full = walk(rules.Averaged)
    torch.testing.assert_close(tail[:-1], full[1:], rtol=1e-12, atol=1e-14)


@given(most=st.floats(0.01, 1.0), seed=st.integers(0, 1000))
def test_running_average_is_the_recursion_of_its_source(most: float, seed: int) -> None:
    iterates, means = walk(lambda rule: rules.RunningAverage(rule, most), seed=seed)
    expected = iterates[0]
    for k in range(1, STEPS + 1):
        memory = min(1 - 1 / k, most)
        expected = (1 - memory) * iterates[k] + memory * expected
        torch.testing.assert_close(means[k], expected, rtol=1e-11, atol=1e-13)


def test_running_average_with_memory_one_averages_all_but_the_start() -> None:
    iterates, means = walk(lambda rule: rules.RunningAverage(rule, 1.0))
    torch.testing.assert_close(means[-1], iterates[1:].mean(0), rtol=1e-12, atol=1e-14)


def test_against_averaged_model() -> None:
    """Torch's mean begins with the first iterate it is shown: theta_1 in a training loop, as a tail from 1."""
    iterates, tail = walk(lambda rule: rules.TailAverage(rule, 1))
    _, running = walk(lambda rule: rules.RunningAverage(rule, 0.5))
    model = torch.nn.Linear(4, 3, bias=False, dtype=torch.float64)
    uniform, decaying = AveragedModel(model), AveragedModel(model, avg_fn=get_ema_avg_fn(0.5))
    for theta in iterates[1:]:
        with torch.no_grad():
            model.weight.copy_(theta)
        uniform.update_parameters(model)
        decaying.update_parameters(model)
    torch.testing.assert_close(uniform.module.weight.data, tail[-1], rtol=1e-12, atol=1e-14)
    # m_k = min(1 - 1/k, 1/2) is 1/2 from k = 2 on, and 0 at k = 1: torch's decay of 1/2, started at theta_1
    torch.testing.assert_close(decaying.module.weight.data, running[-1], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("make", [rules.RunningAverage, rules.TailAverage])
def test_iterates_are_the_rules_own_and_the_loss_is_passed_on(make) -> None:
    theta = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
    plain, wrapped = rules.NGN(0.5), make(rules.NGN(0.5))
    assert wrapped.needs_loss
    loss, gradient = (
        torch.tensor([3.0], dtype=torch.float64),
        torch.tensor([[0.2, -0.4]], dtype=torch.float64),
    )
    moved, state = wrapped.step(theta, gradient, wrapped.start(theta), loss)
    expected, _ = plain.step(theta, gradient, plain.start(theta), loss)
    assert torch.equal(moved, expected)
    assert state.step == 1
    assert not make(rules.GradientDescent(0.1)).needs_loss


@pytest.mark.parametrize("most", [0.0, -0.1, 1.01, float("nan")])
def test_memory_out_of_range(most: float) -> None:
    with pytest.raises(ValueError, match="most = .*; allowed: above 0 and at most 1"):
        rules.RunningAverage(rules.GradientDescent(0.1), most)


@pytest.mark.parametrize("first", [-1, 1.5, True])
def test_first_is_a_count(first: object) -> None:
    with pytest.raises(ValueError, match="first = .*; allowed: an integer >= 0"):
        rules.TailAverage(rules.GradientDescent(0.1), first)  # type: ignore[arg-type]
