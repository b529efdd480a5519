"""Shared argument checks: what they let through, what they say."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learning_dynamics._internal.arguments import (
    require_broadcast,
    require_choice,
    require_counts,
    require_indices,
    require_last,
    require_number,
    require_numbers,
    require_symmetric,
    require_tensors,
    step_numbers,
)

axes, sizes = st.integers(0, 4), st.integers(1, 4)


@given(st.lists(axes, max_size=3), sizes, sizes)
def test_fitting_shapes_pass_and_sizes_come_back(batch: list[int], n: int, d: int) -> None:
    X, y = torch.zeros(*batch, n, d), torch.zeros(n)
    assert require_tensors(X=(X, "*batch n d"), y=(y, "*batch n")) == {"n": n, "d": d}
    assert require_tensors(X=(X, "*batch n d"), y=(torch.zeros(7, n), "*runs n"))["n"] == n
    with pytest.raises(ValueError, match=rf"y has shape \({n + 1},\); allowed: \(\*batch, n\) with n = {n}"):
        require_tensors(X=(X, "*batch n d"), y=(torch.zeros(n + 1), "*batch n"))


def test_an_axis_without_entries_is_refused_unless_asked_for() -> None:
    with pytest.raises(ValueError, match=r"x has shape \(0, 2\); allowed: \(n, d\), none of these zero"):
        require_tensors(x=(torch.ones(0, 2), "n d"))
    assert require_tensors(x=(torch.ones(0, 2), "n d"), empty=True) == {"n": 0, "d": 2}
    assert require_tensors(x=(torch.ones(0, 2), "*batch d")) == {"d": 2}


def test_numbers_take_dtype_and_device_of_another_tensor() -> None:
    like = torch.ones(1, dtype=torch.float64)
    assert require_numbers("x", 0.1, like) == torch.tensor(0.1, dtype=torch.float64)
    assert require_numbers("x", [1, 2], like).dtype == require_numbers("x", torch.ones(2), like).dtype
    assert require_numbers("x", 3).dtype == torch.float64
    for bad in (torch.ones(1, dtype=torch.complex64), torch.ones(1, dtype=torch.bool), "a", 1j, None):
        with pytest.raises(ValueError, match="x .*; allowed: real numbers"):
            require_numbers("x", bad, like)


def test_what_broadcasts() -> None:
    shape = torch.Size((3, 4))
    for fits in ((), (1,), (4,), (3, 1), (3, 4)):
        require_broadcast("x", torch.ones(fits), shape)
    require_broadcast("x", torch.ones(2, 3, 1), shape, enlarge=True)
    for bad in ((3,), (2, 1), (2, 3, 4)):
        with pytest.raises(ValueError, match=r"x has shape .*; allowed: what broadcasts to \(3, 4\)"):
            require_broadcast("x", torch.ones(bad), shape)
    with pytest.raises(ValueError, match="what broadcasts"):
        require_broadcast("x", torch.ones(2), torch.Size((3, 1)), enlarge=True)


def test_the_last_axis_and_the_dtype() -> None:
    like = torch.ones(1)
    require_last("x", torch.ones(5, 2), like, 2)
    for bad in (torch.ones(()), torch.ones(3), torch.ones(2).double()):
        with pytest.raises(ValueError, match="^x (has shape|is torch.float64).*; allowed: "):
            require_last("x", bad, like, 2)


def test_indices() -> None:
    require_indices("rows", torch.tensor([0, 1]))
    for bad in ([0], torch.ones(2), torch.ones(2, dtype=torch.bool), torch.tensor(1), torch.ones(0).long()):
        with pytest.raises(ValueError, match="^rows .*; allowed: "):
            require_indices("rows", bad)


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


@pytest.mark.parametrize(
    ("value", "range_", "allowed"),
    [
        (0.0, {"above": 0}, "a finite number > 0"),
        (-1e-9, {"least": 0}, "a finite number >= 0"),
        (1.0, {"least": 0, "below": 1}, "a finite number >= 0 and < 1"),
        (1.5, {"above": 0, "most": 1}, "a finite number > 0 and <= 1"),
        (math.inf, {"least": 0}, "a finite number >= 0"),
        (math.nan, {}, "a finite number"),
        (True, {"least": 0}, "a finite number >= 0"),
        ("1", {}, "a finite number"),
        (1j, {}, "a finite number"),
        (torch.ones(1), {}, "a finite number"),
        (torch.tensor(True), {}, "a finite number"),
    ],
)
def test_what_is_no_number_of_the_range_is_named(value: object, range_: dict, allowed: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"x = {value!r}; allowed: {allowed}") + "$"):
        require_number("x", value, **range_)


def test_numbers_of_every_library_pass() -> None:
    for value in (0, 0.5, np.float32(0.5), np.int64(0), torch.tensor(0.5), torch.tensor(0)):
        require_number("x", value, least=0, below=1)
    require_number("x", 1, above=0, most=1)


def test_counts_and_choices_name_the_first_that_is_wrong() -> None:
    require_counts(width=1, depth=2)
    with pytest.raises(ValueError, match="depth = 0; allowed: an integer >= 1"):
        require_counts(width=1, depth=0, states=-1)
    require_choice("kind", "a", ("a", "b"))
    with pytest.raises(ValueError, match="kind = 'c'; allowed: a, b$"):
        require_choice("kind", "c", ("a", "b"))
