"""What a linear state holds: against the recurrence itself, numpy, scipy, and fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal.windows import dpss

from learning_dynamics.models.recurrence import (
    half_roots,
    input_count,
    linear_recurrence,
    memory_matrix,
    reconstruct,
    ring_eigenvalues,
    slots,
)


def ring(states: int, r_min: float, seed: int = 0) -> torch.Tensor:
    nu, phase = ring_eigenvalues(states, r_min, generator=torch.Generator().manual_seed(seed))
    return torch.polar(torch.exp(-nu), phase)


@given(states=st.integers(1, 6), length=st.integers(1, 40), seed=st.integers(0, 10**6))
def test_the_matrix_is_the_recurrence(states: int, length: int, seed: int) -> None:
    eigenvalues, g = ring(states, 0.2, seed), torch.Generator().manual_seed(seed)
    u = torch.randn(length, dtype=torch.float64, generator=g)
    last = linear_recurrence(eigenvalues, u[:, None].expand(length, states).to(torch.complex128))[-1]
    M = memory_matrix(eigenvalues, length)
    assert torch.allclose(M @ u.to(M.dtype), last, atol=1e-12)
    stacked = memory_matrix(eigenvalues, length, real=True) @ u
    assert torch.allclose(stacked, torch.cat([last.real, last.imag]), atol=1e-12)


def test_the_matrix_is_a_vandermonde_matrix_of_numpy() -> None:
    eigenvalues = ring(5, 0.5)
    assert np.allclose(memory_matrix(eigenvalues, 7).numpy(), np.vander(eigenvalues.numpy(), 7), atol=1e-14)
    batch = torch.stack([ring(5, 0.5, seed) for seed in range(3)])
    assert torch.equal(memory_matrix(batch, 7)[1], memory_matrix(batch[1], 7))
    assert memory_matrix(torch.tensor([0.5, -0.5]), 3, real=True).shape == (2, 3)


def test_two_real_states_by_hand() -> None:
    half, u = Fraction(1, 2), (Fraction(3), Fraction(5))
    states = [eigenvalue * u[0] + u[1] for eigenvalue in (half, -half)]
    assert states == [Fraction(13, 2), Fraction(7, 2)]
    read = reconstruct(torch.tensor([6.5, 3.5]).double(), torch.tensor([0.5, -0.5]).double(), 2)
    assert torch.allclose(read, torch.tensor([3.0, 5.0]).double(), atol=1e-13)
    one = reconstruct(
        torch.tensor([5 + 3j], dtype=torch.complex128), torch.tensor([1j]).to(torch.complex128), 2
    )
    assert torch.allclose(one, torch.tensor([3.0, 5.0]).double(), atol=1e-13)


@given(half=st.integers(1, 40))
def test_half_roots_are_orthogonal(half: int) -> None:
    M = memory_matrix(half_roots(2 * half), 2 * half, real=True)
    assert torch.allclose(M @ M.T, half * torch.eye(2 * half, dtype=M.dtype), atol=1e-10)
    assert int(slots(half_roots(2 * half), 2 * half, 0.99)) == 2 * half


def test_reconstruction_is_least_squares_of_least_norm() -> None:
    eigenvalues, g = ring(6, 0.9), torch.Generator().manual_seed(1)
    states = torch.randn(4, 6, dtype=torch.complex128, generator=g)
    for length in (5, 12, 20):
        matrix = memory_matrix(eigenvalues, length, real=True).numpy()
        known = torch.cat([states.real, states.imag], -1).numpy()
        wanted = np.linalg.lstsq(matrix, known.T, rcond=None)[0].T
        assert np.allclose(reconstruct(states, eigenvalues, length).numpy(), wanted, rtol=1e-8, atol=1e-9)
    u = torch.randn(3, 12, dtype=torch.float64, generator=g)
    seen = u.to(torch.complex128) @ memory_matrix(eigenvalues, 12).T
    assert torch.allclose(reconstruct(seen, eigenvalues, 12), u, atol=1e-8)
    cut = reconstruct(seen, eigenvalues, 12, rcond=0.5)
    assert not torch.allclose(cut, u, atol=1e-2)


def test_slots_count_the_large_eigenvalues_of_the_prolate_matrix() -> None:
    length, width, states = 128, math.pi / 4, 256
    phases = width * (torch.arange(states, dtype=torch.float64) + 0.5) / states
    count = int(slots(torch.polar(torch.ones_like(phases), phases), length, math.sqrt(0.5)))
    _, ratios = dpss(length, length * width / (2 * math.pi), Kmax=64, return_ratios=True)
    assert count == int((ratios > 0.5).sum()) == 32


def test_the_clock_counts() -> None:
    k = torch.arange(1, 785, dtype=torch.float64)
    clock = linear_recurrence(torch.tensor([0.99]).double(), torch.ones(784, 1).double())[:, 0]
    assert torch.equal(input_count(clock, 0.99).round(), k)
    fast = linear_recurrence(torch.tensor([0.9]).double(), torch.ones(784, 1).double())[:, 0]
    assert float(input_count(fast[-1], 0.9)) != 784
    assert float(input_count(torch.tensor(1.75), 0.5)) == pytest.approx(3.0)


def test_dtypes_stay() -> None:
    assert half_roots(8, dtype=torch.complex64).dtype == torch.complex64
    assert memory_matrix(half_roots(8, dtype=torch.complex64), 8, real=True).dtype == torch.float32
    single = half_roots(8, dtype=torch.complex64)
    assert reconstruct(torch.ones(4, dtype=torch.complex64), single, 8).dtype == torch.float32
    assert slots(single, 8, 0.5).dtype == torch.int64


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: memory_matrix(torch.tensor(0.5), 3), "eigenvalues have shape"),
        (lambda: memory_matrix(torch.tensor([1, 2]), 3), "eigenvalues have dtype"),
        (lambda: memory_matrix(torch.tensor([0.5]), 0), "length = 0"),
        (lambda: half_roots(7), "length = 7"),
        (lambda: half_roots(0), "length = 0"),
        (lambda: slots(torch.tensor([0.5]), 3, 1.0), "share = 1.0"),
        (lambda: input_count(torch.tensor(1.0), 1.0), "clock_eigenvalue = 1.0"),
        (lambda: input_count(torch.tensor(1), 0.5), "clock_state has dtype"),
        (lambda: reconstruct(torch.ones(3), torch.ones(2), 3), "states, eigenvalues have shapes"),
        (lambda: reconstruct(torch.ones(2, dtype=torch.int64), torch.ones(2), 3), "states have dtype"),
        (lambda: reconstruct(torch.ones(2), torch.ones(2), 3, rcond=1.0), "rcond = 1.0"),
    ],
)
def test_bad_arguments_are_named(call, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()
