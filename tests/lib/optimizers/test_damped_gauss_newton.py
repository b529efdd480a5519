"""The damped Gauss-Newton optimizer against dense solves, scipy's Levenberg-Marquardt, and its own promises."""

from __future__ import annotations

import copy
import io

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import least_squares
from torch import nn
from torch.func import functional_call, hessian, jacrev

from learning_dynamics import curvature
from learning_dynamics.optimizers import DampedGaussNewton

few = settings(max_examples=10)


def small(seed: int, outputs: int = 3) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    source = torch.Generator().manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, outputs)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.7, generator=source)
    x = torch.randn(30, 4, generator=source, dtype=torch.float64)
    return model, x, torch.randint(outputs, (30,), generator=source)


def flat(model: nn.Module) -> torch.Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach().clone()


def dense_step(model: nn.Module, x: torch.Tensor, y: torch.Tensor, damping: float):
    """Step and promise by automatic differentiation of the whole loss, with a dense matrix."""
    shapes = {name: p.shape for name, p in model.named_parameters()}

    def outputs(theta):
        pieces = theta.split([shape.numel() for shape in shapes.values()])
        weights = {name: piece.view(shapes[name]) for name, piece in zip(shapes, pieces, strict=True)}
        return functional_call(model, weights, (x,))

    theta = flat(model)
    z = outputs(theta).detach()
    J = jacrev(outputs)(theta)

    def loss_of(z):
        return nn.functional.cross_entropy(z, y)

    inner = hessian(loss_of)(z)
    G = torch.einsum("iap,iajb,jbq->pq", J, inner, J)
    g = torch.einsum("iap,ia->p", J, torch.func.grad(loss_of)(z))
    step = -torch.linalg.solve(G + damping * torch.eye(len(theta), dtype=theta.dtype), g)
    return step, g @ step + 0.5 * step @ G @ step, loss_of(z), loss_of(outputs(theta + step))


@few
@given(st.integers(0, 10_000), st.floats(1e-2, 10))
def test_each_step_is_the_dense_one_and_follows_the_rule(seed, damping):
    model, x, y = small(seed)
    optimizer = DampedGaussNewton(
        model, curvature.Categorical(), damping=damping, tolerance=1e-12, max_steps=500
    )
    for _ in range(4):
        before, used = flat(model), optimizer.param_groups[0]["damping"]
        step, promised, loss, after = dense_step(model, x, y, used)
        returned = optimizer.step(inputs=x, targets=y)
        group = optimizer.param_groups[0]
        rho = float((after - loss) / promised)
        torch.testing.assert_close(returned, loss, rtol=1e-12, atol=0)
        assert group["gain_ratio"] == pytest.approx(rho, rel=1e-6)
        assert group["accepted"] == (after < loss)
        torch.testing.assert_close(
            flat(model), before + step if group["accepted"] else before, rtol=1e-7, atol=1e-9
        )
        expected = used / 3 if rho > 0.75 else used * 3 if rho < 0.25 else used
        assert group["damping"] == pytest.approx(expected)


def test_it_ends_where_scipy_ends():
    source = torch.Generator().manual_seed(3)
    x = torch.linspace(-1, 1, 40, dtype=torch.float64)[:, None]
    y = torch.sin(3 * x) + 0.1 * torch.randn(40, 1, generator=source, dtype=torch.float64)
    model = nn.Sequential(nn.Linear(1, 3), nn.Tanh(), nn.Linear(3, 1)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 1, generator=source)

    def residual(theta: np.ndarray) -> np.ndarray:
        W, b, v, c = np.split(theta, [3, 6, 9])
        return (np.tanh(x.numpy() * W + b) @ v + c - y.numpy()[:, 0]) / np.sqrt(40)

    start = flat(model).numpy()
    optimizer = DampedGaussNewton(model, curvature.SquaredError(), tolerance=1e-10, max_steps=200)
    for _ in range(400):
        loss = optimizer.step(inputs=x, targets=y)
    assert float(loss) < 0.1 * 0.5 * (residual(start) ** 2).sum()
    end = least_squares(residual, flat(model).numpy(), method="lm", xtol=1e-14, ftol=1e-14)
    assert float(loss) == pytest.approx(end.cost, rel=1e-6)  # scipy finds nothing lower from there


@few
@given(st.integers(0, 10_000), st.sampled_from([1e-9, 1e-6, 1.0]))
def test_the_loss_never_rises(seed, damping):
    model, x, y = small(seed)
    optimizer = DampedGaussNewton(model, damping=damping)
    losses = [float(optimizer.step(inputs=x, targets=y)) for _ in range(40)]
    assert all(later <= earlier for earlier, later in zip(losses, losses[1:], strict=False))
    assert losses[-1] < losses[0]


def test_at_a_minimum_nothing_happens():
    model = nn.Linear(2, 1).double()
    x = torch.eye(2, dtype=torch.float64)
    y = model(x).detach()
    optimizer = DampedGaussNewton(model, curvature.SquaredError())
    before = flat(model)
    assert float(optimizer.step(inputs=x, targets=y)) == 0
    assert torch.equal(flat(model), before)
    assert optimizer.param_groups[0]["damping"] == 1.0
    assert optimizer.param_groups[0]["accepted"] is False


def test_a_saved_run_goes_on_as_if_it_had_not_been_stopped():
    model, x, y = small(1)
    optimizer = DampedGaussNewton(model, damping=0.3)
    for _ in range(3):
        optimizer.step(inputs=x, targets=y)
    buffer = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, buffer)
    buffer.seek(0)
    saved = torch.load(buffer)
    other = copy.deepcopy(model)
    other.load_state_dict(saved["model"])
    again = DampedGaussNewton(other)
    again.load_state_dict(saved["optimizer"])
    for _ in range(3):
        assert torch.equal(optimizer.step(inputs=x, targets=y), again.step(inputs=x, targets=y))
    assert torch.equal(flat(model), flat(other))


def test_single_precision_and_a_torch_loss():
    model, x, y = small(2)
    model, x = model.float(), x.float()
    optimizer = DampedGaussNewton(model, nn.CrossEntropyLoss())
    first = optimizer.step(inputs=x, targets=y)
    for _ in range(20):
        last = optimizer.step(inputs=x, targets=y)
    assert last.dtype == torch.float32 and last < 0.2 * first


def test_frozen_parameters_stay():
    model, x, y = small(5)
    model[0].weight.requires_grad_(False)
    before = model[0].weight.clone()
    optimizer = DampedGaussNewton(model)
    losses = [float(optimizer.step(inputs=x, targets=y)) for _ in range(5)]
    assert torch.equal(model[0].weight, before) and losses[-1] < losses[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"damping": 0.0}, "damping = 0.0; allowed"),
        ({"factor": 1.0}, "factor = 1.0; allowed"),
        ({"tolerance": 0.0}, "tolerance = 0.0; allowed"),
        ({"max_steps": 0}, "max_steps = 0; allowed"),
    ],
)
def test_bad_hyperparameters_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        DampedGaussNewton(small(0)[0], **options)


def test_bad_calls_are_named_and_move_nothing():
    model, x, y = small(0)
    optimizer, before = DampedGaussNewton(model), flat(model)
    with pytest.raises(ValueError, match="closure is given"):
        optimizer.step(lambda: 0.0, inputs=x, targets=y)
    with pytest.raises(ValueError, match="inputs has entries that are NaN"):
        optimizer.step(inputs=x * float("nan"), targets=y)
    with pytest.raises(ValueError, match="targets"):
        optimizer.step(inputs=x, targets=y[:3])
    assert torch.equal(flat(model), before)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    with pytest.raises(ValueError, match="model has no parameter"):
        DampedGaussNewton(model)


def test_parameters_frozen_or_thawed_later():
    """What is frozen stays, and what was frozen when the optimizer was made is not its own."""
    model, x, y = small(3)
    model[0].weight.requires_grad_(False)
    optimizer = DampedGaussNewton(model)
    model[0].weight.requires_grad_(True)
    model[0].bias.requires_grad_(False)
    twin = copy.deepcopy(model)
    twin[0].weight.requires_grad_(False)
    expected = DampedGaussNewton(twin)
    for _ in range(3):
        optimizer.step(inputs=x, targets=y)
        expected.step(inputs=x, targets=y)
    assert torch.equal(flat(model), flat(twin))


def test_weights_stay_where_they_are_and_as_they_lie():
    model = nn.Sequential(nn.Conv2d(2, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(12, 3)).double()
    x = torch.randn(5, 2, 3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = torch.tensor([0, 1, 2, 1, 0])
    last = copy.deepcopy(model).to(memory_format=torch.channels_last)
    places = [p.data_ptr() for p in last.parameters()]
    for each in (model, last):
        DampedGaussNewton(each).step(inputs=x, targets=y)
    assert [p.data_ptr() for p in last.parameters()] == places
    for one, other in zip(model.parameters(), last.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_a_copy_moves_its_own_model_and_other_states_are_refused():
    model, x, y = small(4)
    optimizer, before = DampedGaussNewton(model), flat(model)
    optimizer.step(inputs=x, targets=y)
    after = flat(model)
    other, again = copy.deepcopy((model, optimizer))
    again.step(inputs=x, targets=y)
    assert torch.equal(flat(model), after) and not torch.equal(flat(other), after)
    assert not torch.equal(before, after)
    with pytest.raises(ValueError, match="a group of the state lacks .*damping"):
        optimizer.load_state_dict(torch.optim.SGD(model.parameters(), 0.1).state_dict())
    with pytest.raises(ValueError, match="a second parameter group"):
        optimizer.add_param_group({"params": [torch.zeros(2, requires_grad=True)]})
