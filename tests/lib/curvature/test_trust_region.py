"""Damped and trust-region steps against scipy, a scan of angles and the conditions of optimality."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from learning_dynamics.curvature import (
    damped_step,
    gain_ratio,
    model_change,
    next_damping,
    trust_region_step,
)

few = settings(max_examples=25)
seeds = st.integers(0, 10_000)


def problem(seed: int, d: int = 5, batch: int = 7, shift: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.Generator().manual_seed(seed)
    root = torch.randn(batch, d, d, generator=source, dtype=torch.float64)
    C = root @ root.mT + shift * torch.eye(d, dtype=torch.float64)
    return C, torch.randn(batch, d, generator=source, dtype=torch.float64)


@few
@given(seeds, st.floats(1e-3, 1e3))
def test_damped_step_is_the_dense_solution(seed, damping):
    C, g = problem(seed, shift=0.1)
    expected = -np.linalg.solve(C.numpy() + damping * np.eye(5), g.numpy()[..., None])[..., 0]
    np.testing.assert_allclose(damped_step(C, g, damping).numpy(), expected, rtol=1e-9, atol=1e-12)


@few
@given(seeds, st.floats(-3, 1), st.floats(0.05, 5))
def test_trust_region_step_meets_the_conditions_of_optimality(seed, shift, radius):
    C, g = problem(seed, shift=shift)
    step, damping, hard = trust_region_step(C, g, radius)
    eye = torch.eye(5, dtype=torch.float64)
    shifted = C + damping[:, None, None] * eye
    residual = (shifted @ step[..., None])[..., 0] + g
    assert (residual.norm(dim=-1) <= 1e-8 * (g.norm(dim=-1) + shifted.norm(dim=(-2, -1)) * radius)).all()
    assert (torch.linalg.eigvalsh(shifted)[:, 0] >= -1e-9).all()
    assert (step.norm(dim=-1) <= radius * (1 + 1e-9)).all()
    assert (damping * (radius - step.norm(dim=-1)) <= 1e-8 * (1 + damping)).all()
    assert not hard.any()


def test_trust_region_step_agrees_with_scipy():
    for seed, shift, radius in ((0, 0.0, 0.5), (1, -2.0, 1.0), (2, -6.0, 3.0), (3, 1.0, 50.0)):
        C, g = problem(seed, batch=1, shift=shift)
        matrix, slope = C[0].numpy(), g[0].numpy()

        def model(p, matrix=matrix, slope=slope):
            return slope @ p + 0.5 * p @ matrix @ p

        options = {"initial_trust_radius": radius, "max_trust_radius": radius * (1 + 1e-9), "maxiter": 1}
        found = minimize(
            model,
            np.zeros(5),
            jac=lambda p, m=matrix, s=slope: s + m @ p,
            hess=lambda p, m=matrix: m,
            method="trust-exact",
            options=options,
        ).x
        # scipy lets length and value differ by some per cent: compare on the ball of its step
        step = trust_region_step(C[0], g[0], float(np.linalg.norm(found)) * (1 + 1e-12)).step.numpy()
        assert model(step) <= model(found) + 1e-12
        assert model(step) == pytest.approx(model(found), rel=0.02)


def test_trust_region_step_agrees_with_a_scan_of_the_disc():
    C = torch.tensor([[401.0, 200.0], [200.0, 100.0]], dtype=torch.float64)
    g = torch.tensor([-2.0, 0.0], dtype=torch.float64)
    for radius in (0.01, 0.5, 3.0):
        angle = torch.linspace(0, 2 * math.pi, 200_001, dtype=torch.float64)
        circle = radius * torch.stack([angle.cos(), angle.sin()], -1)
        best = circle[model_change(C.expand(len(angle), 2, 2), g, circle).argmin()]
        step, damping, _ = trust_region_step(C, g, radius)
        assert (step - best).norm() <= 1e-4 * radius
        torch.testing.assert_close(damped_step(C, g, damping), step, rtol=1e-8, atol=1e-12)


def test_hard_case_adds_a_piece_of_the_lowest_eigenvector():
    C = torch.diag(torch.tensor([-1.0, 2.0], dtype=torch.float64))
    g = torch.tensor([0.0, 1.0], dtype=torch.float64)
    step, damping, hard = trust_region_step(C, g, 2.0)
    assert bool(hard) and float(damping) == pytest.approx(1.0)
    assert step.abs().tolist() == pytest.approx([math.sqrt(4 - 1 / 9), 1 / 3])


def test_inside_the_ball_it_is_the_newton_step_or_the_shortest_minimizer():
    C, g = problem(4, batch=3, shift=0.5)
    step, damping, _ = trust_region_step(C, g, 1e6)
    torch.testing.assert_close(step, damped_step(C, g, 0.0))
    assert damping.tolist() == [0.0] * 3
    flat = torch.diag(torch.tensor([2.0, 0.0], dtype=torch.float64))
    step = trust_region_step(flat, torch.tensor([1.0, 0.0], dtype=torch.float64), 3.0).step
    assert step.tolist() == pytest.approx([-0.5, 0.0])


@few
@given(seeds, st.floats(1e-4, 1e4))
def test_damping_and_radius_are_one_to_one(seed, damping):
    C, g = problem(seed, shift=0.01)
    step = damped_step(C, g, damping)
    back = trust_region_step(C, g, step.norm(dim=-1))
    torch.testing.assert_close(
        back.damping, torch.full((7,), damping, dtype=torch.float64), rtol=1e-6, atol=0
    )
    assert (damped_step(C, g, 1.01 * damping).norm(dim=-1) < step.norm(dim=-1)).all()


@few
@given(seeds, st.floats(0.1, 10))
def test_the_gain_ratio_of_a_quadratic_is_one(seed, damping):
    C, g = problem(seed)
    step = damped_step(C, g, damping)
    promised = model_change(C, g, step)
    before = torch.ones(7, dtype=torch.float64)
    torch.testing.assert_close(gain_ratio(before, before + promised, promised), before)
    assert gain_ratio(before, torch.full_like(before, math.nan), promised).tolist() == [-math.inf] * 7


def test_next_damping_moves_at_the_thresholds():
    rho = torch.tensor([-math.inf, 0.2, 0.25, 0.75, 0.8])
    assert next_damping(torch.ones(5), rho, 2.0).tolist() == [2.0, 2.0, 1.0, 1.0, 0.5]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda C, g: damped_step(C, g, -100.0), "damping = -100 at least; allowed"),
        (lambda C, g: damped_step(C, g[:, :3], 1.0), "gradient has shape"),
        (lambda C, g: damped_step(C, g, math.nan), "damping has entries"),
        (lambda C, g: trust_region_step(C, g, 0.0), "radius = 0 at least; allowed: finite, > 0"),
        (lambda C, g: trust_region_step(C * math.nan, g, 1.0), "C has entries"),
        (lambda C, g: model_change(C, g, g[:, :2]), "step has shape"),
        (lambda C, g: gain_ratio(g[:, 0], g[:, 0], g[:, 0].abs()), "promised = "),
        (lambda C, g: next_damping(g[:, 0], g[:, 0], 1.0), "factor = 1.0; allowed: finite, > 1"),
        (lambda C, g: next_damping(g[:, 0], g[:, 0], 2.0, low=0.9), "low = 0.9, high = 0.75"),
    ],
)
def test_bad_arguments_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call(*problem(0))
