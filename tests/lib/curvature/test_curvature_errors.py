"""What the curvature operators refuse, each with one line that names the argument."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from learning_dynamics import curvature
from learning_dynamics.curvature import Categorical, EmpiricalFisher, Fisher, GaussNewton, Hessian, Jacobian

X, Y = torch.linspace(-1, 1, 12).reshape(4, 3), torch.tensor([0, 1, 1, 0])
LAW = Categorical()


def net(dtype: torch.dtype = torch.float32, *more: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 2), *more).to(dtype)


def poisoned(value: float) -> nn.Module:
    model = net()
    with torch.no_grad():
        model[0].weight[0, 0] = value
    return model


class Function(nn.Module):
    """A module that does something with the outputs of a linear layer."""

    def __init__(self, change):
        super().__init__()
        self.layer, self.change = nn.Linear(3, 2), change

    def forward(self, x):
        return self.change(self.layer(x))


def mixed_dtypes() -> nn.Module:
    model = net(torch.float32, nn.Linear(2, 2))
    model[1].double()
    return model


OTHER = net()


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)  # the layers' first weights


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GaussNewton(poisoned(math.nan), LAW, X, Y), "parameter '0.weight' has entries that are NaN"),
        (lambda: Jacobian(poisoned(math.inf), X), "parameter '0.weight'"),
        (lambda: GaussNewton(net(), LAW, X * math.nan, Y), "inputs has entries"),
        (lambda: Hessian(Function(lambda f: f * math.inf), LAW, X, Y), "outputs of the model has entries"),
        (lambda: GaussNewton(net(), LAW, X[:0], Y[:0]), "inputs has shape"),
        (lambda: Hessian(net(), LAW, torch.tensor(1.0), Y), "inputs has shape"),
        (lambda: Jacobian(net(), X.tolist()), "inputs is a list"),
        (lambda: Fisher(net(), LAW, X.to("meta")), "inputs is on meta"),
        (
            lambda: GaussNewton(net().requires_grad_(False), LAW, X, Y),
            "no parameter that requires a gradient",
        ),
        (lambda: Jacobian(nn.ReLU(), X), "no parameter that requires a gradient"),
        (lambda: Jacobian(net(), X, parameters=[]), "parameters is empty"),
        (lambda: Jacobian(net(), X, parameters=["0.wait"]), "parameters holds '0.wait'"),
        (lambda: Jacobian(net(), X, parameters=["0.bias", "0.bias"]), "each once"),
        (lambda: Jacobian(net(), X, parameters=OTHER.parameters()), "parameters holds a tensor"),
        (lambda: Jacobian(mixed_dtypes(), X), "one floating dtype"),
        (lambda: Jacobian("net", X), "model is a str"),
        (lambda: Jacobian((lambda t, x: t * x, 1.0), X), "theta = .*; allowed for a formula"),
        (lambda: Jacobian((lambda t, x: t * x, torch.ones(3) * math.nan), X), "theta has entries"),
        (lambda: Jacobian((lambda t, x: t * x, torch.ones(3)), X, parameters=["t"]), "given for a formula"),
        (lambda: Jacobian((lambda t, x: t * x, torch.ones(3)), X.double()), "outputs of the model are"),
        (lambda: Jacobian(Function(lambda f: (f, f)), X), "model returns a tuple"),
        (lambda: Jacobian(Function(lambda f: f[None]), X), "outputs of the model are"),
        (lambda: Jacobian(Function(lambda f: f[:2]), X), "outputs of the model are"),
        (lambda: Jacobian(net(), X, batch_size=0), "batch_size = 0"),
        (lambda: GaussNewton(net(), LAW, X, Y[:3]), "targets is torch.int64 of shape"),
        (lambda: GaussNewton(net(), LAW, X, Y.float()), "class indices"),
        (lambda: EmpiricalFisher(net(), nn.MSELoss(), X, Y), "targets is torch.int64 of shape"),
        (lambda: Hessian(net(), nn.CrossEntropyLoss(reduction="none"), X, Y), "reduction = 'none'"),
        (lambda: Fisher(net(), LAW, X, samples=0, generator=torch.Generator()), "samples = 0"),
        (lambda: Fisher(net(), LAW, X, samples=1), "generator is a NoneType"),
        (lambda: Fisher(net(), LAW, X).trace(0, torch.Generator()), "samples = 0"),
        (lambda: Fisher(net(), LAW, X).trace(1), "generator is a NoneType"),
        (lambda: Fisher(net(), LAW, X) @ torch.ones(7), "v has shape"),
        (lambda: Fisher(net(), LAW, X) @ torch.ones(8, 0), "v has shape"),
        (lambda: Fisher(net(), LAW, X) @ [1.0], "v is a list"),
        (lambda: Fisher(net(), LAW, X) @ torch.ones(8).double(), "v is torch.float64"),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(ValueError, match=message) as error:
        call()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "layer",
    [
        nn.BatchNorm1d(2),
        nn.Dropout(0.5),
        nn.TransformerEncoderLayer(2, 1, 2, batch_first=True),
        nn.InstanceNorm1d(2, track_running_stats=True),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_batch_normalization_and_dropout_are_refused_in_training_mode_only(layer):
    model = net(torch.float32, layer)
    with pytest.raises(ValueError, match="in training mode"):
        GaussNewton(model, LAW, X, Y)
    buffers = {name: tensor.clone() for name, tensor in model.named_buffers()}
    if isinstance(layer, nn.BatchNorm1d | nn.Dropout):  # the others want sequences
        GaussNewton(model.eval(), LAW, X, Y) @ torch.ones(sum(p.numel() for p in model.parameters()))
    assert all(torch.equal(tensor, buffers[name]) for name, tensor in model.named_buffers())


def test_a_dropout_rate_of_zero_is_no_dropout():
    GaussNewton(net(torch.float32, nn.Dropout(0.0)), LAW, X, Y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: nn.functional.dropout(f, 0.5), "when it is called again"),
        (lambda f: f + 1e-4 * torch.randn(f.shape, dtype=f.dtype), "when it is called again"),
        (lambda f: f - f.mean(0), "a part of the batch"),
        (lambda f: f.cumsum(0), "a part of the batch"),  # right for the first samples alone
        (lambda f: f.flip(0).cumsum(0).flip(0), "a part of the batch"),
    ],
    ids=[
        "hidden dropout",
        "little noise",
        "a mean over the batch",
        "sums",
        "sums from behind",
    ],
)
def test_other_models_without_one_output_for_each_sample_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        GaussNewton(Function(change), LAW, X, Y)


def test_a_model_with_outputs_without_axis_is_one_of_width_one():
    model, y = Function(lambda f: f.sum(-1)), torch.ones(4)
    G = GaussNewton(model, curvature.SquaredError(), X, y)
    assert G.outputs.shape == (4, 1)
    J = Jacobian(model, X).dense()
    torch.testing.assert_close(G.dense(), J.T @ J / 4)


def test_no_gradient_and_no_global_randomness_is_left_behind():
    model = net()
    state = torch.random.get_rng_state()
    with torch.no_grad():  # works in any mode of the caller, and does not change it
        G = GaussNewton(model, LAW, X, Y)
        product: Tensor = G @ torch.ones(8)
        G.top_eigenvalues()
    F = Fisher(model, LAW, X, samples=2, generator=torch.Generator())
    F.diagonal()
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not product.requires_grad and torch.is_grad_enabled()
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
