"""Two digits of the chapter momentum_shadowing: loss, methods and flows against autograd, torch.optim and scipy."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.integrate import solve_ivp

from learning_dynamics.experiments.momentum_shadowing import two_digits as digits

F64 = torch.float64


@pytest.fixture(scope="module")
def rows() -> torch.Tensor:
    return digits.signed_images()


def test_the_images_are_the_threes_and_fives(rows: torch.Tensor) -> None:
    assert rows.shape == (1895, 785)
    assert set(rows[:, -1].tolist()) == {1.0, -1.0}
    assert rows.abs().max() == 1 and (rows[rows[:, -1] < 0] <= 0).all()


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_gradient_against_autograd(rows: torch.Tensor, decay: float) -> None:
    theta = digits.starts([3, 4]).requires_grad_()
    few = rows[:50]
    value = digits.loss(theta, few, decay)
    (slope,) = torch.autograd.grad(value.sum(), theta)
    torch.testing.assert_close(digits.gradient(theta.detach(), few, decay), slope)
    margins = few @ theta[1].detach()
    by_hand = (1 / (1 + margins.exp())).mean() + decay / 2 * theta[1].square().sum()
    torch.testing.assert_close(value[1].detach(), by_hand.detach())


def test_roll_is_torchs_momentum_and_descend_its_plain_step(rows: torch.Tensor) -> None:
    few, start = rows[:40], digits.starts([0])[0]
    for method, momentum in ((digits.roll, 1 - digits.FRICTION * 0.5), (digits.descend, 0.0)):
        parameter = torch.nn.Parameter(start.clone())
        optimizer = torch.optim.SGD([parameter], lr=0.25 if momentum else 0.5, momentum=momentum)
        for _ in range(12):
            optimizer.zero_grad()
            digits.loss(parameter, few, 0.1).backward()
            optimizer.step()
        orbit = method(lambda theta: digits.gradient(theta, few, 0.1), start, 12, 0.5)
        assert orbit.shape == (13, 785)
        torch.testing.assert_close(orbit[-1], parameter.detach())


def test_flow_against_scipy() -> None:
    curvature = torch.tensor([0.5, 2.0], dtype=F64)
    start = torch.tensor([1.0, -0.5], dtype=F64)

    def slope(theta: torch.Tensor) -> torch.Tensor:
        return curvature * torch.sin(theta)

    for corrected, mass, speed in ((False, 1.0, 0.0), (True, 1 - 0.3 * 0.5 / 2, 0.25)):
        ours = digits.heavy_ball_flow(slope, start, 20, 40, 0.5, corrected)
        first = torch.cat([start, -speed * slope(start)]).numpy()

        def field(_t: float, z: object, mass: float = mass) -> object:
            q, p = torch.as_tensor(z)[:2], torch.as_tensor(z)[2:]
            return torch.cat([p, -(0.3 * p + slope(q)) / mass]).numpy()

        path = solve_ivp(field, (0, 10), first, rtol=1e-11, atol=1e-12, t_eval=[0, 5, 10]).y[:2].T
        torch.testing.assert_close(ours[[0, 10, 20]], torch.as_tensor(path), rtol=1e-6, atol=1e-7)


def test_corrected_flow_is_of_second_order_and_the_other_of_first() -> None:
    def slope(theta: torch.Tensor) -> torch.Tensor:
        return theta + 0.3 * theta**3

    start = torch.tensor([1.0, -0.5], dtype=F64)
    for corrected, order in ((False, 1), (True, 2)):
        gaps = []
        for h in (0.1, 0.05):
            count = round(10 / h)
            flow = digits.heavy_ball_flow(slope, start, count, 8, h, corrected)
            gaps.append((digits.roll(slope, start, count, h) - flow).norm(dim=-1).max())
        assert math.log2(gaps[0] / gaps[1]) == pytest.approx(order, abs=0.2)


def test_studies_agree_where_they_overlap() -> None:
    path = digits.paths([0, 1], 4)
    steps = digits.time_steps([0, 1], 4)
    scales = digits.start_scales([0, 1], 4)
    for name in ("gap_gd", "gap_hb"):
        assert path[name].shape == (2, 2, 5) and steps[name].shape == (4, 2, 5)
        assert (path[name][..., 0] == 0).all()
        torch.testing.assert_close(path[name][0].double().amax(-1), steps[name][-1, :, -1], rtol=1e-5, atol=0)
        torch.testing.assert_close(steps[name][-1, :, -1], scales[name][2], rtol=1e-5, atol=0)
    name = "gap_hb_corrected"
    torch.testing.assert_close(steps[name][-1, :, -1], scales[name][2], rtol=1e-5, atol=0)
    assert (steps["gap_hb"][1:, :, -1] > steps["gap_hb"][:-1, :, -1]).all()


def test_a_run_does_not_see_the_others() -> None:
    both, alone = digits.paths([3, 4], 3), digits.paths([4], 3)
    torch.testing.assert_close(both["loss_hb"][:, 1:], alone["loss_hb"])
    torch.testing.assert_close(both["accuracies"][:, :, 1:], alone["accuracies"])
