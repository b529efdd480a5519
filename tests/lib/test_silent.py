"""Input that once gave a wrong number without a word: the right value, or a refusal that names it."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from learning_dynamics import data, diffusions, ensembles, results, rules
from learning_dynamics.adaptivity.finite_sums import LogisticSum
from learning_dynamics.implicit_bias import margins, sparse
from learning_dynamics.parameterization import mdp

whole = torch.tensor([[2, 0, 1]])


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_basis_pursuit_with_fractions_in_the_answer() -> None:
    """Integers were cast back: 0 in place of a half."""
    found = sparse.basis_pursuit(whole.double(), torch.tensor([1.0]).double())
    torch.testing.assert_close(found, torch.tensor([0.5, 0.0, 0.0]).double())


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize(
    "call",
    [
        lambda X: sparse.basis_pursuit(X, X[:, 0]),
        lambda X: sparse.second_moment(X),
        lambda X: sparse.best_certificate(X, torch.tensor([True, False, False])),
        lambda X: sparse.least_norm_certificate(X, X[0]),
        lambda X: sparse.entropy_limit(X, X[:, 0], [0.1]),
        lambda X: sparse.squared_weights_gradient(X, X[:, 0]),
        lambda X: sparse.restricted_isometry_constant(X.mT @ X if X.dtype == torch.int64 else X[:1, :1], 1),
        lambda X: margins.hard_margin_svm(X),
        lambda X: margins.largest_margin(X, 1),
        lambda X: margins.functional_margins(X[0], X),
        lambda X: margins.signed_samples(X, torch.ones(1)),
        lambda X: diffusions.label_noise_gradient(lambda theta: theta, X[0], 0.1, generator()),
        lambda X: diffusions.euler_maruyama(lambda x, t: x, lambda x, t: x, X, 0.1, 2, generator()),
        lambda X: ensembles.iterate(rules.GradientDescent(0.1), lambda theta, k: theta, X, 2),
        lambda X: LogisticSum(X, torch.ones(1), 0.1),
    ],
)
def test_what_is_not_real_floating_point_is_refused(
    call: Callable[[Tensor], object], dtype: torch.dtype
) -> None:
    with pytest.raises(ValueError, match=f"has dtype {dtype}; allowed: a real floating point dtype"):
        call(whole.to(dtype))


@pytest.mark.parametrize("shape", [(3, 1), (5,), ()])
def test_a_gradient_does_not_broadcast_over_the_parameters(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"gradient has shape .*; allowed: that of theta, \(3, 5\)"):
        ensembles.iterate(
            rules.GradientDescent(0.1), lambda theta, k: torch.ones(shape), torch.zeros(3, 5), 2
        )


def test_labels_of_another_shape_are_refused() -> None:
    """y (n, 1) against outputs (n) made an n x n table of residuals."""
    gradient = diffusions.label_noise_gradient(lambda theta: theta, torch.zeros(4, 1), 0.1, generator())
    with pytest.raises(ValueError, match=r"y has shape \(4, 1\); allowed: \(n,\) or"):
        gradient(torch.zeros(4), 0)
    with pytest.raises(ValueError, match="generator is a NoneType"):
        diffusions.label_noise_gradient(lambda theta: theta, torch.zeros(4), 0.1, None)


def test_one_matrix_of_noise_is_told_from_one_number_a_run() -> None:
    """With d runs in dimension d the matrix has the shape of the state."""
    B = torch.tensor([[1.0, 2.0], [0.0, 3.0]]).double()
    x0 = torch.zeros(2, 2).double()
    with pytest.raises(
        ValueError, match=r"diffusion returned the shape \(2, 2\) for 3 runs; allowed: .*\(1, d, m\)"
    ):
        diffusions.euler_maruyama(lambda x, t: 0 * x, lambda x, t: B, x0, 1.0, 1, generator())
    path = diffusions.euler_maruyama(lambda x, t: 0 * x, lambda x, t: B[None], x0, 1.0, 1, generator())
    noise = torch.randn(2, 2, generator=generator(), dtype=torch.float64)
    torch.testing.assert_close(path[1], noise @ B.mT)
    path = diffusions.euler_maruyama(lambda x, t: 0 * x, lambda x, t: 1 + x, x0, 1.0, 1, generator())
    torch.testing.assert_close(path[1], noise)


def test_planning_with_nan_has_not_converged() -> None:
    transitions, rewards = torch.full((2, 3, 3), 1 / 3, dtype=torch.float64), torch.ones(2, 3).double()
    for bad in (math.nan, math.inf):
        broken = rewards.clone()
        broken[0, 1] = bad
        for plan in (mdp.policy_iteration, mdp.value_iteration):
            with pytest.raises(ValueError, match="rewards has entries that are NaN or infinite"):
                plan(transitions, broken, 0.9)
    with pytest.raises(ValueError, match="actions = torch.int64 of shape .*; allowed: int64 .3,., 0 to 1"):
        mdp.policy_iteration(transitions, rewards, 0.9, actions=torch.tensor([0, 1, 2]))
    with pytest.raises(ValueError, match="actions = torch.float64"):
        mdp.policy_iteration(transitions, rewards, 0.9, actions=torch.zeros(3).double())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"starts": torch.zeros(2)}, "starts is torch.float32"),
        ({"starts": torch.zeros(2, 1, dtype=torch.int64)}, "starts is .* of shape"),
        ({"starts": torch.zeros(0, dtype=torch.int64)}, "starts is .* of shape"),
        ({"policy": torch.full((1, 2), 0.5).double()}, "policy has shape"),
        ({"steps": 2.0}, "steps = 2.0"),
        ({"generator": None}, "generator is a NoneType"),
    ],
)
def test_rollouts_refuse(change: dict, message: str) -> None:
    process = mdp.chain()
    policy = mdp.chain_policy(0.1)
    arguments = {
        "process": process,
        "policy": policy,
        "starts": torch.zeros(2, dtype=torch.int64),
        "steps": 3,
        "generator": generator(),
    }
    assert mdp.rollouts(**arguments).rewards.shape == (2, 3)
    with pytest.raises(ValueError, match=message):
        mdp.rollouts(**arguments | change)


def test_a_logistic_sum_of_nan_is_refused_where_it_is_made() -> None:
    with pytest.raises(ValueError, match="inputs has entries that are NaN"):
        LogisticSum(torch.tensor([[math.nan]]), torch.ones(1), 0.1)


def keep(folder: Path, arrays: dict) -> None:
    results.keep(
        "part/name", "a", arrays, command="python -m x", seeds=[0], device="cpu", wall_time=1.0, folder=folder
    )


@pytest.mark.parametrize("name", ["allow_pickle", "file"])
def test_a_name_that_savez_takes_for_itself_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=f"arrays has the name '{name}'; allowed: another word"):
        keep(tmp_path, {name: torch.ones(1), "x": torch.ones(1)})


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", json.dumps({"seeds": [0], "other": 1})])
def test_a_damaged_description_names_its_file(tmp_path: Path, text: str) -> None:
    keep(tmp_path, {"x": torch.ones(1)})
    results.path("part/name", "a", tmp_path).with_suffix(".json").write_text(text)
    with pytest.raises(ValueError, match=r"part/name/a.json = .*; allowed: as results.keep writes it"):
        results.load("part/name", "a", folder=tmp_path)


def test_a_cache_that_may_only_be_read_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"whole"
    file = data.RemoteFile(
        "set/f", ("https://127.0.0.1:9/f",), hashlib.sha256(content).hexdigest(), len(content)
    )
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "f").write_bytes(content)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    assert data.fetch("set", file, tmp_path).read_bytes() == content
    assert [each.name for each in (tmp_path / "set").iterdir()] == ["f"]
