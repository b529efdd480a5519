"""Training image classifiers: on made images, against a loop written out, and from the command line."""

from __future__ import annotations

import io
import tarfile

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from learning_dynamics import optimizers, results
from learning_dynamics.data import cifar
from learning_dynamics.experiments.gauss_newton_steps import image_training


def made_images(n: int = 40, size: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Bright left halves against bright right halves, with noise."""
    random = torch.Generator().manual_seed(0)
    labels = torch.arange(n) % 2
    images = 0.1 * torch.rand(n, 1, size, size, generator=random)
    images[labels == 0, :, :, : size // 2] += 0.8
    images[labels == 1, :, :, size // 2 :] += 0.8
    return images, labels


def linear_network(size: int = 8) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(size * size, 2))


@pytest.mark.parametrize("name", list(image_training.OPTIMIZERS))
def test_every_optimizer_learns_the_made_images(name: str) -> None:
    images, labels = made_images()
    network = linear_network()
    optimizer = image_training.OPTIMIZERS[name](network.parameters(), 0.3)
    history = image_training.train(
        network,
        optimizer,
        images,
        labels,
        epochs=12,
        batch_size=10,
        generator=torch.Generator().manual_seed(1),
    )
    assert history.loss.shape == history.step_size.shape == (48,)
    assert history.loss[-4:].mean() < 0.5 * history.loss[:4].mean()
    assert history.accuracy == 1.0


def test_history_is_that_of_a_loop_written_out() -> None:
    images, labels = made_images()
    network, twin = linear_network(), linear_network()
    history = image_training.train(
        network,
        optimizers.NGN(network.parameters(), lr=2.0),
        images,
        labels,
        epochs=2,
        batch_size=16,
        generator=torch.Generator().manual_seed(3),
    )
    random, losses, steps = torch.Generator().manual_seed(3), [], []
    for _ in range(2):
        order = torch.randperm(40, generator=random)
        for rows in (order[:16], order[16:32]):  # eight images fill no batch
            loss = cross_entropy(twin(images[rows]), labels[rows])
            gradients = torch.autograd.grad(loss, list(twin.parameters()))
            square = sum(g.square().sum() for g in gradients)
            step = 2.0 / (1 + 2.0 * square / (2 * loss.detach()))
            with torch.no_grad():
                for parameter, gradient in zip(twin.parameters(), gradients, strict=True):
                    parameter -= step * gradient
            losses.append(loss.item())
            steps.append(step.item())
    torch.testing.assert_close(history.loss, torch.tensor(losses))
    torch.testing.assert_close(history.step_size, torch.tensor(steps))


@pytest.mark.parametrize("name", ["SPS", "DecSPS", "AdaGradNorm"])
def test_other_adaptive_optimizers_report_their_step(name: str) -> None:
    images, labels = made_images()
    network = linear_network()
    optimizer = getattr(optimizers, name)(network.parameters())
    train = {"epochs": 1, "batch_size": 10, "generator": torch.Generator().manual_seed(1)}
    history = image_training.train(network, optimizer, images, labels, **train)
    assert history.loss.isfinite().all()
    assert history.step_size[-1].item() == pytest.approx(optimizer.param_groups[0]["step_size"])


def test_a_diverged_run_says_so() -> None:
    images, labels = made_images()
    network = linear_network()
    history = image_training.train(
        network,
        torch.optim.SGD(network.parameters(), lr=float("inf")),
        images,
        labels,
        epochs=1,
        batch_size=10,
        generator=torch.Generator().manual_seed(1),
    )
    assert history.loss[0].isfinite() and history.loss[1:].isinf().all() and history.accuracy == 0.0


def test_all_optimizers_share_start_and_order() -> None:
    images, labels = made_images()
    common = {"network": "cnn", "epochs": 1, "batch_size": 8}
    first = [
        image_training.one_run(images, labels, optimizer=name, lr=0.1, seed=5, **common).loss[0]
        for name in image_training.OPTIMIZERS
    ]
    assert len({value.item() for value in first}) == 1
    other = image_training.one_run(images, labels, optimizer="sgd", lr=0.1, seed=6, **common).loss[0]
    assert other != first[0]


def test_command_line_keeps_a_result_for_each_optimizer(tmp_path) -> None:
    images, labels = made_images(20)
    np.savez(tmp_path / "halves.npz", inputs=(255 * images.clamp(max=1)).to(torch.uint8), targets=labels)
    words = f"--network cnn --data {tmp_path / 'halves.npz'} --epochs 2 --batch-size 8 --seeds 2 --window 2"
    call = [
        *words.split(),
        "--device",
        "cpu",
        "--optimizers",
        "ngn",
        "sgd",
        "--out",
        str(tmp_path),
        "--dirty",
    ]
    assert image_training.main(call) == 0
    for name in ("ngn", "sgd"):
        kept = results.load(image_training.CHAPTER, f"cnn-halves-{name}", folder=tmp_path)
        settings = len(image_training.GRIDS[name])
        assert kept["loss"].shape == kept["step_size"].shape == (settings, 2, 2)
        assert kept["accuracy"].shape == (settings, 2) and kept["lr"].shape == (settings,)
        command = kept.provenance.command
        assert (
            f" --data halves.npz --optimizers {name} --epochs 2 " in command and str(tmp_path) not in command
        )
    assert (kept["step_size"][0] == np.float32(0.01)).all()  # SGD's own step


def test_resnet_on_a_made_cifar_archive(tmp_path) -> None:
    random = np.random.default_rng(0)
    records = random.integers(0, 256, (10, cifar.RECORD), dtype=np.uint8)
    records[:, 0] = np.arange(10) % 10
    with tarfile.open(tmp_path / "made.tar.gz", "w:gz") as archive:
        content = records.tobytes()
        entry = tarfile.TarInfo("batch.bin")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    inputs, targets = cifar.read(tmp_path / "made.tar.gz", ["batch.bin"])
    np.savez(tmp_path / "made.npz", inputs=inputs, targets=targets)
    images, labels = image_training.images_of(str(tmp_path / "made.npz"))
    assert images.shape == (10, 3, 32, 32) and 0 <= images.min() and images.max() <= 1
    history = image_training.one_run(
        images, labels, network="resnet18", optimizer="ngn", lr=1.0, seed=0, epochs=1, batch_size=4
    )
    assert history.loss.shape == (2,) and history.loss.isfinite().all()
    assert (history.step_size > 0).all() and (history.step_size <= 1).all()


def test_window_means_drop_what_fills_no_window() -> None:
    values = torch.tensor([1.0, 3.0, 5.0, 7.0, 100.0])
    assert image_training.window_means(values, 2).tolist() == [2.0, 6.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"network": "mlp"}, "network = 'mlp'"),
        ({"optimizer": "lion"}, "optimizer = 'lion'"),
        ({"epochs": 0}, "epochs = 0"),
    ],
)
def test_wrong_arguments_are_named(change, message) -> None:
    images, labels = made_images(20)
    right = {"network": "cnn", "optimizer": "sgd", "lr": 0.1, "seed": 0, "epochs": 1, "batch_size": 4}
    with pytest.raises(ValueError, match=message):
        image_training.one_run(images, labels, **(right | change))


def test_a_batch_larger_than_the_data_is_refused() -> None:
    images, labels = made_images(20)
    with pytest.raises(ValueError, match="batch_size = 17; allowed: an integer >= 1 and <= 16"):
        image_training.one_run(
            images, labels, network="cnn", optimizer="sgd", lr=0.1, seed=0, epochs=1, batch_size=17
        )


@pytest.mark.parametrize(
    "arrays", [{"inputs": np.zeros((3, 8, 8))}, {"inputs": np.zeros((3, 8)), "targets": np.zeros(3)}]
)
def test_a_file_of_other_content_is_refused(tmp_path, arrays) -> None:
    np.savez(tmp_path / "other.npz", **arrays)
    with pytest.raises(ValueError, match=r"other\.npz (holds|has inputs)"):
        image_training.images_of(str(tmp_path / "other.npz"))


@pytest.mark.parametrize("name", image_training.DEFAULT)
def test_the_grids_are_those_of_the_kept_results(name: str) -> None:
    kept = results.load(image_training.CHAPTER, f"cnn-mnist-10k-{name}")
    assert kept["lr"].tolist() == pytest.approx(image_training.GRIDS[name], rel=1e-6)
