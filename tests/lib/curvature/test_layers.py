"""Convolutions and batch normalization, whose derivatives the operators write themselves, against torch's own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from learning_dynamics import curvature
from learning_dynamics.curvature import layers

Y = torch.tensor([0, 1, 1, 0])


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Conv1d(2, 2, 3, padding=1)

    def forward(self, x):
        return self.inner(self.inner(x).tanh())


def network(*body: nn.Module, frozen: str = "") -> nn.Module:
    """Return a network whose outputs are the means of two channels, with moments and weights away from 0 and 1."""
    random = torch.Generator().manual_seed(0)
    model = nn.Sequential(*body).double().eval()
    with torch.no_grad():
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            if tensor.is_floating_point():
                tensor.normal_(generator=random)
            if "running_var" in name:
                tensor.abs_().add_(0.1)
            if frozen and name.startswith(frozen):
                tensor.requires_grad_(False)
    return model


class Mean(nn.Module):
    def forward(self, x):
        return x.flatten(2).mean(-1)


CASES = {
    "stride, no bias": (
        network(nn.Conv1d(2, 3, 3, 2, bias=False), nn.BatchNorm1d(3), nn.Tanh(), nn.Conv1d(3, 2, 2), Mean()),
        (2, 9),
    ),
    "groups, dilation, padding": (
        network(
            nn.Conv2d(2, 4, 2, padding=1, dilation=2, groups=2),
            nn.BatchNorm2d(4, affine=False),
            nn.Tanh(),
            nn.Conv2d(4, 2, 2),
            Mean(),
        ),
        (2, 5, 5),
    ),
    "three axes": (
        network(nn.Conv3d(1, 2, 2), nn.BatchNorm3d(2), nn.Tanh(), nn.Conv3d(2, 2, 1), Mean()),
        (1, 3, 3, 3),
    ),
    "padding by name": (
        network(nn.Conv1d(2, 2, 3, padding="same"), nn.Tanh(), nn.Conv1d(2, 2, 3, padding="valid"), Mean()),
        (2, 6),
    ),
    "circular padding": (
        network(
            nn.Conv1d(2, 2, 3, padding=1, padding_mode="circular"), nn.Tanh(), nn.Conv1d(2, 2, 1), Mean()
        ),
        (2, 4),
    ),
    "frozen first layer": (
        network(nn.Conv1d(2, 2, 3), nn.Tanh(), nn.Conv1d(2, 2, 2), Mean(), frozen="0."),
        (2, 6),
    ),
    "frozen weight": (
        network(nn.Conv1d(2, 2, 3), nn.Tanh(), nn.Conv1d(2, 2, 2), Mean(), frozen="2.weight"),
        (2, 6),
    ),
    "frozen bias": (
        network(nn.Conv1d(2, 2, 3), nn.Tanh(), nn.Conv1d(2, 2, 2), Mean(), frozen="2.bias"),
        (2, 6),
    ),
    "one layer twice": (network(Twice(), Mean()), (2, 5)),
    "two axes for one": (
        network(nn.BatchNorm1d(2), nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Tanh(), nn.Linear(3, 2)),
        (2,),
    ),
}


def of_theta(model: nn.Module, x: Tensor):
    """Return torch's own outputs as a function of the flat trained parameters, and these."""
    chosen = {name: p for name, p in model.named_parameters() if p.requires_grad}
    sizes = [p.numel() for p in chosen.values()]

    def outputs(theta: Tensor) -> Tensor:
        pieces = zip(chosen.items(), theta.split(sizes), strict=True)
        return torch.func.functional_call(model, {name: t.reshape(p.shape) for (name, p), t in pieces}, (x,))

    return outputs, torch.cat([p.detach().flatten() for p in chosen.values()])


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-11 * float(expected.abs().max()))


@pytest.mark.parametrize("batch_size", [None, 3])
@pytest.mark.parametrize("case", CASES)
def test_operators_of_convolutions_are_torchs_derivatives(case, batch_size):
    model, shape = CASES[case]
    x = torch.randn(4, *shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    outputs, theta = of_theta(model, x)
    loss = nn.CrossEntropyLoss()
    H = torch.autograd.functional.hessian(lambda t: loss(outputs(t), Y), theta)
    J = torch.autograd.functional.jacobian(outputs, theta)
    p = outputs(theta).softmax(-1)
    G = torch.einsum("nci,ncd,ndj->ij", J, torch.diag_embed(p) - p[:, :, None] * p[:, None], J) / 4
    for kind, expected in ((curvature.Hessian, H), (curvature.GaussNewton, G)):
        A = kind(model, loss, x, Y, batch_size=batch_size)
        close(A.dense(), expected)
        close(A.diagonal(), expected.diagonal())
        close(torch.func.vmap(lambda v, A=A: A @ v)(torch.eye(len(theta), dtype=torch.float64)), expected)
    close(curvature.Jacobian(model, x).dense(), J.flatten(0, 1))
    close(curvature.Jacobian(model, x).outputs, outputs(theta))


def test_a_product_with_a_jacobian_makes_no_second_derivative_of_the_weights(monkeypatch):
    """Torch's own rule makes all of them, which is most of its time."""
    model, shape = CASES["groups, dilation, padding"]
    x = torch.randn(4, *shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    J, H = curvature.Jacobian(model, x), curvature.Hessian(model, nn.CrossEntropyLoss(), x, Y)
    v = torch.ones(J.shape[1], dtype=torch.float64)
    J @ v
    masks: list[list[bool]] = []
    original = layers._Settings.backward
    monkeypatch.setattr(layers._Settings, "backward", lambda *a: masks.append(list(a[-1])) or original(*a))
    J @ v
    assert masks == []
    H @ v
    assert [True, False, False] in masks and [False, True, False] in masks


def test_without_a_private_function_of_torch_the_derivatives_are_torchs_own(monkeypatch):
    model, shape = CASES["groups, dilation, padding"]
    x = torch.randn(4, *shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    loss, kinds = nn.CrossEntropyLoss(), (curvature.Hessian, curvature.GaussNewton)
    assert set(layers.faster(model[0])) == {"_conv_forward"} and not layers._offered(
        "ops.aten.no_such_operator"
    )
    fast = [kind(model, loss, x, Y).dense() for kind in kinds]
    with monkeypatch.context() as without:
        without.delattr(torch._C._functorch, "peek_interpreter_stack")
        assert layers.faster(model[0]) == {}
    monkeypatch.delattr(torch._C, "_will_engine_execute_node")
    monkeypatch.delattr(layers._Convolution, "forward")  # so that nothing can call it
    assert layers.faster(model[0]) == {} and set(layers.faster(model[1])) == {"forward"}
    for kind, expected in zip(kinds, fast, strict=True):
        close(kind(model, loss, x, Y).dense(), expected)
