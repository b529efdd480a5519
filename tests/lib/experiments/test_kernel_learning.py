"""Learning a convolution: the data, and seeds and rates as one batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from learning_dynamics import results
from learning_dynamics.experiments.linear_recurrent_units import kernel_learning, timings
from learning_dynamics.experiments.linear_recurrent_units.kernel_learning import kernel, learn, make_data


def test_targets_are_the_convolution() -> None:
    made = make_data([3])
    for sequence in (0, 31):
        expected = np.convolve(made.inputs[0, sequence, :, 0].numpy(), kernel().numpy())[:100]
        np.testing.assert_allclose(made.targets[0, sequence, :, 0].numpy(), expected, atol=1e-5)


def test_the_kernel_has_its_second_bump() -> None:
    h = kernel()
    assert 70 <= int(h[50:].argmax()) + 50 <= 80


@pytest.mark.parametrize("activation", ("linear", "tanh"))
def test_a_batch_is_each_run(activation: str) -> None:
    together = learn(activation, [1, 2], 4, rates=(1e-3, 3e-3))
    alone = learn(activation, [2], 4, rates=(3e-3,))
    torch.testing.assert_close(together[1, 1], alone[0, 0], rtol=1e-3, atol=1e-6)
    assert together.shape == (2, 2, 4) and together[1, 1, -1] < together[1, 1, 0]


def test_the_radius_can_be_set() -> None:
    drawn, calm = (learn("linear", [0], 1, radius=r)[0, 0, 0] for r in (None, 0.5))
    assert calm < drawn


def test_no_seeds_are_refused() -> None:
    with pytest.raises(ValueError, match="seeds"):
        make_data([])


def test_both_commands_keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEARNING_DYNAMICS_RESULTS", str(tmp_path))
    assert kernel_learning.main(["--seeds", "2", "--steps", "20", "--dirty"]) == 0
    kept = results.load(kernel_learning.CHAPTER, "kernel-learning")
    assert kept["linear_errors"].shape == (3, 2, 2) and kept["tanh_first"].shape == (3, 2, 20)
    monkeypatch.setattr(timings, "_alone", lambda *_: (0.5, 1.0))
    assert timings.main(["--lengths", "4", "8", "--batch", "1", "--states", "2", "--dirty"]) == 0
    table = results.load(timings.CHAPTER, "timings-cpu")
    assert table["seconds"].shape == table["memory"].shape == (3, 2)
    assert table["step_seconds"].shape == table["step_megabytes"].shape == (len(timings.NETWORKS), 2)


@pytest.mark.parametrize("method", timings.METHODS)
def test_one_path_is_measured(method: str) -> None:
    seconds, memory = timings.measure(method, 64, 1, 4, "cpu", repeats=2)
    assert seconds > 0 and memory >= 0
    with pytest.raises(ValueError, match="repeats = 0"):
        timings.measure(method, 64, 1, 4, "cpu", repeats=0)


@pytest.mark.parametrize("network", timings.NETWORKS)
def test_a_whole_training_step_is_measured(network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stepped = []
    real = torch.optim.AdamW.step
    monkeypatch.setattr(torch.optim.AdamW, "step", lambda *a, **k: stepped.append(1) or real(*a, **k))
    seconds, memory = timings.measure_step(network, 64, 2, 3, 4, 1, "cpu", repeats=2)
    assert seconds > 0 and memory >= 0 and len(stepped) == 3  # one before, two measured
    with pytest.raises(ValueError, match="repeats = 0"):
        timings.measure_step(network, 64, 2, 3, 4, 1, "cpu", repeats=0)


def test_memory_is_not_that_of_the_process_which_started_the_measurement() -> None:
    held = np.ones(60_000_000)  # 480 MB, in use while the child is started
    _, memory = timings._alone(timings.measure, "scan", 4096, 4, 64, "cpu", 2)
    assert 0.5 < memory < 4 and held[-1] == 1  # inputs of 8 MB
