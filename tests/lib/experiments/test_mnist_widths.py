"""MNIST at two widths of the chapter layerwise_noise: the loop against one written by hand, and what it records."""

from __future__ import annotations

import torch
from torch.nn.functional import cross_entropy

from learning_dynamics.experiments.layerwise_noise import mnist_widths as widths
from learning_dynamics.runs import Run


def test_without_noise_it_is_gradient_descent() -> None:
    got = widths.train(12, 2, 0.0, "all", 5, 30, 0.1)
    model = widths.network(12, 2, Run(widths.CHAPTER).generator("weights", seed=5))
    x, y, _, _ = widths.images()
    for k in range(31):
        loss = cross_entropy(model(x), y)
        if k in (0, 25, 30):
            torch.testing.assert_close(got["loss"][(0, 25, 30).index(k)], loss.detach(), rtol=1e-5, atol=0)
        slopes = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for p, g in zip(model.parameters(), slopes, strict=True):
                p.sub_(0.1 * g)


def test_methods_share_the_start_and_the_noise_stops() -> None:
    runs = [
        widths.train(12, 2, s, layers, 5, 4, 0.1) for s, layers in ((0.0, "all"), (0.3, "all"), (0.3, "one"))
    ]
    assert len({float(each["loss"][0]) for each in runs}) == 1
    assert len({float(each["loss"][-1]) for each in runs}) == 3


def test_a_diverged_run_is_told() -> None:
    found = widths.train(12, 2, 0.0, "all", 5, 4, 1e38)
    assert found["loss"][0].isfinite() and found["loss"][-1].isinf()
    assert found["accuracy"][-1] == 0


def test_the_shapes_of_a_result() -> None:
    (plan,) = widths.EXPERIMENT.plans(["--scale", "smoke", "--width", "200"])
    arrays = widths.compute(plan.call())
    assert arrays["plain_loss"].shape == (2, 2)
    assert arrays["one_accuracy"].shape == (3, 2, 2)
    assert plan.name == "mnist-2x200-smoke"


def test_other_noise_levels_have_a_name_of_their_own() -> None:
    (plan,) = widths.EXPERIMENT.plans(["--width", "800", "--sigmas", "0.1", "--seed", "1", "--seeds", "12"])
    assert plan.name == "mnist-2x800-at-0_1"
    assert plan.call().seeds[0] == 10_000 and len(plan.call().seeds) == 12
