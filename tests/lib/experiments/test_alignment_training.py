"""Batched training against torch's own loop; data, networks and the Semeion reader."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from learning_dynamics import models, results
from learning_dynamics.curvature import Jacobian
from learning_dynamics.data import semeion
from learning_dynamics.experiments.data_architecture_alignment import training as alignment


def test_batched_training_is_torch_sgd_for_each_seed() -> None:
    seen = alignment.make_data("two-moons", 20, [0, 1])
    networks = alignment.make_models("two-moons", 5, [0, 1])
    got = alignment.train(networks, seen, step_size=0.1, momentum=0.9, batch_size=10, epochs=3, record=[0, 3])
    order = torch.Generator().manual_seed(40_000)
    batches = [rows for _ in range(3) for rows in torch.randperm(20, generator=order).split(10)]
    for s, network in enumerate(networks):
        optimizer = torch.optim.SGD(network.parameters(), 0.1, momentum=0.9)
        x, y = seen.inputs[s], seen.labels[s]
        for rows in batches:
            optimizer.zero_grad()
            functional.binary_cross_entropy_with_logits(network(x[rows])[:, 0], y[rows]).backward()
            optimizer.step()
        loss = functional.binary_cross_entropy_with_logits(network(x)[:, 0], y).item()
        assert abs(got.loss[-1, s].item() - loss) < 1e-5


def test_the_kernel_is_compared_with_that_of_the_same_seed() -> None:
    """Equal labels, as data that a slice shares: each seed's change starts at zero and is its own."""
    seen = alignment.make_data("two-moons", 20, [0, 0])
    networks = alignment.make_models("two-moons", 5, [0, 1])
    options = {"step_size": 0.1, "momentum": 0.9, "batch_size": 10, "epochs": 2, "record": [0, 2]}
    together = alignment.train(networks, seen, watch=alignment.Alignment(), **options).watched
    assert (together[0, :, 2] == 0).all() and (together[1, :, 2] > 0).all()
    second = alignment.Data(seen.inputs[1:], seen.labels[1:])
    alone = alignment.train(networks[1:], second, watch=alignment.Alignment(), **options).watched
    torch.testing.assert_close(together[:, 1], alone[:, 0], rtol=1e-3, atol=1e-6)
    shared = alignment.Data(seen.inputs[:1].expand(2, -1, -1), seen.labels[:1].expand(2, -1))
    again = alignment.train(networks, shared, watch=alignment.Alignment(), **options).watched
    torch.testing.assert_close(again, together, rtol=1e-3, atol=1e-6)


def test_the_change_of_the_kernel_is_its_squared_frobenius_norm() -> None:
    seen, (network,) = alignment.make_data("two-moons", 12, [0]), alignment.make_models("two-moons", 5, [0])
    x, y, watch = seen.inputs[0], seen.labels[0], alignment.Alignment()

    def kernel() -> torch.Tensor:
        J = Jacobian(copy.deepcopy(network).double(), x.double()).dense()
        return J @ J.T

    first = kernel()
    watch(0, copy.deepcopy(network), x, y)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1)
    change = torch.linalg.matrix_norm(kernel() - first) ** 2
    _, _, found, relative, _ = watch(0, copy.deepcopy(network), x, y)
    assert found == pytest.approx(change.item(), rel=1e-9)
    assert relative == pytest.approx((change / torch.linalg.matrix_norm(first) ** 2).item(), rel=1e-9)


@pytest.mark.parametrize(("task", "spectra"), [("two-moons", True), ("sine", True), ("random", False)])
def test_spectra_are_kept_for_the_tasks_without_images(
    task: str, spectra: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEARNING_DYNAMICS_RESULTS", str(tmp_path))
    size = ["--seeds", "2", "--samples", "20", "--epochs", "1", "--widths", "2"]
    assert alignment.main([task, *size, "--dirty"]) == 0
    kept = results.load(alignment.CHAPTER, task)
    names = {
        f"{when}_{bits}_{what}"
        for when in ("start", "end")
        for bits in (32, 64)
        for what in ("values", "components")
    }
    assert names & set(kept.arrays) == (names if spectra else set())


def test_a_diverged_run_is_infinite_in_every_record() -> None:
    seen, networks = alignment.make_data("sine", 20, [0, 1]), alignment.make_models("sine", 4, [0, 1])
    with torch.no_grad():
        networks[1].last.weight.fill_(torch.nan)
    options = {"step_size": 0.1, "momentum": 0.9, "batch_size": 10, "epochs": 1, "record": [0, 1]}
    got = alignment.train(networks, seen, watch=alignment.Alignment(), **options)
    for values in (got.loss, got.error, got.watched):
        assert values[:, 1].isinf().all() and values[:, 0].isfinite().all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"record": [0, 2]}, "the last is epochs = 3"),
        ({"record": [0, 3, 4]}, "between 0 and steps = 3"),
        ({"batch_size": 21}, "batch_size = 21"),
    ],
)
def test_training_refuses_what_does_not_fit(change: dict, message: str) -> None:
    seen, networks = alignment.make_data("sine", 20, [0]), alignment.make_models("sine", 2, [0])
    options = {"step_size": 0.1, "momentum": 0.9, "batch_size": 10, "epochs": 3, "record": [0, 3]}
    with pytest.raises(ValueError, match=message):
        alignment.train(networks, seen, **(options | change))


def test_data_of_the_four_tasks() -> None:
    for task in alignment.TASKS:
        seen = alignment.make_data(task, 12, [3, 4])
        assert seen.inputs.shape[:2] == seen.labels.shape == (2, 12)
        assert set(seen.labels.unique().tolist()) == {0.0, 1.0}
    sine = alignment.make_data("sine", 50, [0])
    assert torch.equal(sine.labels, (torch.sin(20 * sine.inputs[..., 0]) < 0).float())


def test_main_keeps_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEARNING_DYNAMICS_RESULTS", str(tmp_path))
    small = [
        "random",
        "--seeds",
        "2",
        "--samples",
        "20",
        "--epochs",
        "2",
        "--widths",
        "1",
        "2",
        "--part",
        "2/3",
        "--dirty",
    ]
    assert alignment.main(small) == 0
    kept = results.load(alignment.CHAPTER, "random-part-2")
    assert kept["widths"].tolist() == [2] and kept["residual"].shape == (1, 3, 2)
    assert (kept["relative_change"][:, 0] == 0).all()


def write_semeion(path: Path, rows: int) -> tuple[np.ndarray, np.ndarray]:
    source = np.random.default_rng(0)
    pixels, labels = source.integers(0, 2, (rows, 256)), source.integers(0, 10, rows)
    with path.open("w") as stream:
        for row, label in zip(pixels, labels, strict=True):
            words = [f"{value:.4f}" for value in row] + [str(int(c == label)) for c in range(10)]
            stream.write(" ".join(words) + " \n")
    return pixels.reshape(-1, 16, 16), labels


def test_semeion_in_its_own_format(tmp_path: Path) -> None:
    pixels, labels = write_semeion(tmp_path / "semeion.data", 30)
    images, classes = semeion.read(tmp_path / "semeion.data")
    assert images.dtype == classes.dtype == np.uint8
    assert (images == pixels).all() and (classes == labels).all()
    seen = alignment.make_data("digits", 20, [0], str(tmp_path / "semeion.data"))
    assert seen.inputs.shape == (1, 20, 1, 16, 16)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no line"),
        ("1 0 1\n", "line 1: 3 numbers"),
        (" ".join(["0.5"] * 256 + ["1"] + ["0"] * 9), "zeros and ones"),
        (" ".join(["0"] * 266), "one class"),
        (" ".join(["x"] * 266), "allowed: numbers"),
    ],
)
def test_semeion_refuses_other_files(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "s.data").write_text(text)
    with pytest.raises(ValueError, match=message):
        semeion.read(tmp_path / "s.data")


def test_parameter_counts_of_lenet_and_mlp() -> None:
    def count(model: torch.nn.Module) -> int:
        return sum(parameter.numel() for parameter in model.parameters())

    assert [count(models.LeNet(m)) for m in (1, 2, 4)] == [4258, 13_754, 48_490]
    assert count(models.MLP([2, 300, 300, 300, 1])) == 181_801


def test_softplus_is_finite_in_float32_and_close_to_relu() -> None:
    q = torch.tensor([-1e4, -1.0, 0.0, 1e-3, 1.0, 1e4, 1e30], requires_grad=True)
    value = models.mlp.softplus(100.0)(q)
    value.sum().backward()
    assert value.isfinite().all() and q.grad.isfinite().all()
    assert (value - q.relu()).abs().max() <= 0.6931472 / 100 + 1e-9


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: models.MLP([3]), "sizes"),
        (lambda: models.MLP([3, 0]), "sizes"),
        (lambda: models.MLP([3, 1], weight_std=-1.0), "weight_std"),
        (lambda: models.MLP([3, 1], sharpness=0.0), "sharpness"),
        (lambda: models.LeNet(0), "width_multiplier"),
        (lambda: models.LeNet(size=15), "size = 15"),
        (lambda: alignment.make_data("noise", 10, [0]), "task = 'noise'"),
        (lambda: alignment.make_data("sine", 1, [0]), "samples = 1"),
        (lambda: alignment.make_data("digits", 5000, [0]), "samples = 5000"),
    ],
)
def test_wrong_arguments_are_named(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]
