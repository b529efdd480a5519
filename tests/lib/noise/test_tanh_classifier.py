"""The small tanh classifier against automatic differentiation of the network written as a module."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call, grad, hessian

from learning_dynamics.noise.tanh_classifier import TanhClassifier

F64 = torch.float64


def problem(
    seed: int, *sets: int, n: int = 6, d_x: int = 3, width: int = 4, outputs: int = 5
) -> TanhClassifier:
    random = torch.Generator().manual_seed(seed)
    inputs = torch.randn(*sets, n, d_x, generator=random, dtype=F64)
    return TanhClassifier(inputs, torch.randint(outputs, (*sets, n), generator=random), width, outputs)


def module_loss(net: TanhClassifier, inputs: Tensor, classes: Tensor):
    """The same loss by a torch module, as a function of the flat parameters of one network."""
    d_x, width, outputs = inputs.shape[-1], net.width, net.outputs
    module = nn.Sequential(nn.Linear(d_x, width), nn.Tanh(), nn.Linear(width, outputs)).to(F64)

    def loss(flat: Tensor) -> Tensor:
        W, b, V, c = flat.split([d_x * width, width, width * outputs, outputs])
        named = {"0.weight": W.reshape(d_x, width).T, "0.bias": b}
        named |= {"2.weight": V.reshape(width, outputs).T, "2.bias": c}
        return nn.functional.cross_entropy(functional_call(module, named, (inputs,)), classes)

    return loss


@given(st.integers(0, 1000), st.integers(1, 5), st.integers(1, 6))
def test_loss_gradient_and_trace_are_those_of_the_module(seed: int, width: int, outputs: int) -> None:
    net = problem(seed, width=width, outputs=outputs)
    theta = torch.randn(2, sum(net.sizes), generator=torch.Generator().manual_seed(seed + 1), dtype=F64)
    for run in range(2):
        loss = module_loss(net, net.inputs, net.classes)
        torch.testing.assert_close(net.loss(theta)[run], loss(theta[run]))
        torch.testing.assert_close(net.gradient(theta)[run], grad(loss)(theta[run]))
        torch.testing.assert_close(net.trace(theta)[run], hessian(loss)(theta[run]).trace())


def test_every_run_may_have_samples_of_its_own() -> None:
    net = problem(0, 3)
    theta = torch.randn(2, 3, sum(net.sizes), generator=torch.Generator().manual_seed(1), dtype=F64)
    assert net.logits(theta).shape == (2, 3, 6, 5)
    for run in range(2):
        for each in range(3):
            loss = module_loss(net, net.inputs[each], net.classes[each])
            torch.testing.assert_close(net.gradient(theta)[run, each], grad(loss)(theta[run, each]))
            torch.testing.assert_close(net.loss(theta)[run, each], loss(theta[run, each]))


def test_the_mean_gradient_of_all_batches_of_one_is_the_gradient() -> None:
    net = problem(2)
    theta = torch.randn(sum(net.sizes), generator=torch.Generator().manual_seed(3), dtype=F64)
    ones = TanhClassifier(net.inputs[:, None], net.classes[:, None], net.width, net.outputs)
    torch.testing.assert_close(ones.gradient(theta.expand(6, -1)).mean(0), net.gradient(theta))


def test_starts_belong_to_their_generators_and_have_the_asked_spread() -> None:
    net = TanhClassifier(torch.zeros(1, 400), torch.zeros(1, dtype=torch.int64), 100, 50)
    sources = [torch.Generator().manual_seed(seed) for seed in (0, 1)]
    theta = net.start(sources, gain=1.5)
    assert theta.dtype == torch.float32
    torch.testing.assert_close(theta[1], net.start([torch.Generator().manual_seed(1)], gain=1.5)[0])
    W, b, V, c = net.parts(theta)
    assert float(W.std()) == pytest.approx(1.5 / 20, rel=0.02)
    assert float(V.std()) == pytest.approx(1.5 / 10, rel=0.03)
    assert not b.any() and not c.any()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"classes": torch.tensor([0, 5])}, "classes has entries outside 0 to 2"),
        ({"classes": torch.tensor([0, 1, 2])}, "classes has shape"),
        ({"classes": torch.tensor([0.0, 1.0])}, "classes has dtype"),
        ({"inputs": torch.tensor([[1, 2], [3, 4]])}, "inputs has dtype"),
        ({"inputs": torch.tensor([[1.0, 2.0], [3.0, torch.nan]])}, "inputs has entries that are NaN"),
        ({"width": 0}, "width = 0"),
        ({"outputs": True}, "outputs = True"),
    ],
)
def test_a_bad_argument_says_what_is_allowed(wrong: dict, message: str) -> None:
    good = {"inputs": torch.ones(2, 2), "classes": torch.tensor([0, 2]), "width": 3, "outputs": 3}
    with pytest.raises(ValueError, match=message):
        TanhClassifier(**good | wrong)


def test_bad_parameters_and_generators_are_refused() -> None:
    net = problem(4)
    with pytest.raises(ValueError, match="theta"):
        net.gradient(torch.zeros(7, dtype=F64))
    with pytest.raises(ValueError, match=r"allowed: \(\*runs, \*\(3,\), 41\)"):
        problem(4, 3).loss(torch.zeros(2, sum(net.sizes), dtype=F64))
    with pytest.raises(ValueError, match="at least one"):
        net.start([])
    with pytest.raises(ValueError, match="gain = 0"):
        net.start([torch.Generator()], gain=0)
    with pytest.raises(ValueError, match="inputs"):
        net.logits(torch.zeros(sum(net.sizes), dtype=F64), torch.zeros(2, 9, dtype=F64))
