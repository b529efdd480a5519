"""Shared argument checks: what they let through, what they say."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learning_dynamics._internal.arguments import require_symmetric, require_tensors, step_numbers

axes = st.integers(0, 4)


@given(st.lists(axes, max_size=3), axes, axes)
def test_fitting_shapes_pass_and_sizes_come_back(batch: list[int], n: int, d: int) -> None:
    X, y = torch.zeros(*batch, n, d), torch.zeros(n)
    assert require_tensors(X=(X, "*batch n d"), y=(y, "*batch n")) == {"n": n, "d": d}
    assert require_tensors(X=(X, "*batch n d"), y=(torch.zeros(7, n), "*runs n"))["n"] == n
    with pytest.raises(ValueError, match=rf"y has shape \({n + 1},\); allowed: \(\*batch, n\) with n = {n}"):
        require_tensors(X=(X, "*batch n d"), y=(torch.zeros(n + 1), "*batch n"))


@pytest.mark.parametrize(
    ("value", "spec", "message"),
    [
        (torch.ones(2), "n d", r"x has shape \(2,\); allowed: \(n, d\)$"),
        (torch.ones(2, 2, 2), "n d", r"x has shape \(2, 2, 2\)"),
        (torch.ones(2, 3), "*batch d d", r"x has shape \(2, 3\); allowed: \(\*batch, d, d\)"),
        (torch.ones(2, 3), "n 2", r"x has shape \(2, 3\); allowed: \(n, 2\)"),
        (torch.ones(()), "*batch d", r"x has shape \(\)"),
        (
            torch.ones(2, dtype=torch.int64),
            "n",
            "x has dtype torch.int64; allowed: a real floating point dtype",
        ),
        (torch.ones(2, dtype=torch.bool), "n", "x has dtype torch.bool"),
        (torch.ones(2, dtype=torch.complex64), "n", "x has dtype torch.complex64"),
        ([1.0, 2.0], "n", r"x is a list; allowed: a tensor \(n\)"),
        (None, "n", "x is a NoneType; allowed: a tensor"),
    ],
)
def test_what_does_not_fit_is_named(value: object, spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        require_tensors(x=(value, spec))


def test_one_dtype_one_device_and_finite_where_asked() -> None:
    x, y = torch.ones(2), torch.ones(2).double()
    with pytest.raises(ValueError, match="y has dtype torch.float64; allowed: torch.float32, as x"):
        require_tensors(x=(x, "n"), y=(y, "n"))
    with pytest.raises(ValueError, match="y has device meta; allowed: cpu, as x"):
        require_tensors(x=(x, "n"), y=(torch.ones(2, device="meta"), "n"))
    bad = torch.tensor([1.0, torch.nan])
    assert require_tensors(x=(bad, "n")) == {"n": 2}
    with pytest.raises(ValueError, match="x has entries that are NaN or infinite"):
        require_tensors(x=(bad, "n"), finite=True)
    with pytest.raises(ValueError, match=r"\*batch against \(3,\)"):
        require_tensors(x=(torch.ones(3, 2), "*batch n"), y=(torch.ones(4, 2), "*batch n"))


def test_symmetry_is_to_rounding() -> None:
    A = torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    require_symmetric("A", A @ A.mT)
    require_symmetric("A", torch.zeros(0, 0))
    for bad in (A, torch.full((2, 2), torch.nan)):
        with pytest.raises(
            ValueError, match="A differs from its transpose by .*; allowed: a symmetric matrix"
        ):
            require_symmetric("A", bad)


@pytest.mark.parametrize("record", [[0.5, 1.7], [1.0], ["1"], [None]])
def test_step_numbers_are_integers(record: list) -> None:
    with pytest.raises(ValueError, match="record = .*; allowed: integers"):
        step_numbers(record, 5)


def test_step_numbers_may_come_from_a_tensor() -> None:
    assert step_numbers(torch.tensor([0, 3]), 5) == (0, 3)
