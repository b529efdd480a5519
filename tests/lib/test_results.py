from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from learning_dynamics import results

CHAPTER = "implicit_bias/minimum_norm"
MADE = {"command": "python -m learning_dynamics ...", "seeds": [0, 1], "device": "cpu", "wall_time": 1.25}


@pytest.fixture
def arrays() -> dict[str, torch.Tensor]:
    return {"steps": torch.arange(4), "error": torch.rand(3, 4, generator=torch.Generator().manual_seed(0))}


def test_what_is_kept_comes_back_with_its_provenance(tmp_path: Path, arrays: dict) -> None:
    path = results.keep(CHAPTER, "grid", arrays | {"lost": np.array([np.inf])}, **MADE, folder=tmp_path)
    assert path == tmp_path / CHAPTER / "grid.npz"
    kept = results.load(CHAPTER, "grid", folder=tmp_path)
    assert kept["error"].dtype == np.float32 and kept["steps"].dtype == np.int64
    assert np.array_equal(kept["error"], arrays["error"].numpy()) and np.isinf(kept["lost"]).all()
    made = kept.provenance
    assert (made.command, made.seeds, made.wall_time) == (MADE["command"], (0, 1), 1.25)
    assert made.torch == torch.__version__ and made.device.startswith("cpu") and made.commit
    with pytest.raises(KeyError, match="has no array 'loss'"):
        kept["loss"]
    assert sorted(p.name for p in path.parent.iterdir()) == ["grid.json", "grid.npz"]


def test_the_same_arrays_give_the_same_bytes(tmp_path: Path, arrays: dict) -> None:
    paths = [results.keep(CHAPTER, name, arrays, **MADE, folder=tmp_path) for name in ("a", "b")]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_nothing_is_overwritten_unasked(tmp_path: Path, arrays: dict) -> None:
    path = results.keep(CHAPTER, "grid", arrays, **MADE, folder=tmp_path)
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="overwrite=True"):
        results.keep(CHAPTER, "grid", {"steps": arrays["steps"]}, **MADE, folder=tmp_path)
    assert path.read_bytes() == before
    results.keep(CHAPTER, "grid", {"steps": arrays["steps"]}, **MADE, folder=tmp_path, overwrite=True)
    assert list(results.load(CHAPTER, "grid", folder=tmp_path).arrays) == ["steps"]


def test_a_result_above_300_kb_is_refused(tmp_path: Path) -> None:
    noise = torch.rand(100_000, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match="grid.npz would take .* at most 300000"):
        results.keep(CHAPTER, "grid", {"noise": noise}, **MADE, folder=tmp_path)
    assert not list(tmp_path.rglob("*.*"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"chapter": "minimum_norm"}, "chapter = 'minimum_norm'; allowed: 'part/name'"),
        ({"run_name": "../x"}, "run_name = '../x'"),
        ({"command": " "}, "command = "),
        ({"wall_time": -1.0}, "wall_time = -1.0"),
        ({"arrays": {}}, "arrays is empty"),
        ({"arrays": {"a b": [1.0]}}, "the name 'a b'"),
        ({"arrays": {"a": ["x"]}}, "a has dtype"),
        ({"arrays": {"a": [[1.0, np.nan]]}}, r"arrays\['a'\] is NaN at \(0, 1\)"),
    ],
)
def test_a_bad_argument_is_named(tmp_path: Path, change: dict, message: str) -> None:
    call = (
        {"chapter": CHAPTER, "run_name": "grid", "arrays": {"a": [1.0]}, "folder": tmp_path} | MADE | change
    )
    with pytest.raises(ValueError, match=message):
        results.keep(**call)
    assert not list(tmp_path.rglob("*.*"))


def test_a_write_that_fails_leaves_the_old_result(
    tmp_path: Path, arrays: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    results.keep(CHAPTER, "grid", arrays, **MADE, folder=tmp_path)

    def fail(*_: object) -> None:
        raise OSError("no")

    with monkeypatch.context() as patch:
        patch.setattr(results.os, "replace", fail)
        with pytest.raises(OSError, match="no"):
            results.keep(CHAPTER, "grid", {"b": [1.0]}, **MADE, folder=tmp_path, overwrite=True)
    assert "error" in results.load(CHAPTER, "grid", folder=tmp_path).arrays
    assert len(list((tmp_path / CHAPTER).iterdir())) == 2


def test_a_pair_that_does_not_belong_together_is_refused(tmp_path: Path, arrays: dict) -> None:
    path = results.keep(CHAPTER, "grid", arrays, **MADE, folder=tmp_path)
    described = json.loads(path.with_suffix(".json").read_text())
    path.with_suffix(".json").write_text(json.dumps(described | {"sha256": "0" * 64}))
    with pytest.raises(ValueError, match="SHA-256 of .*; allowed: the one in its .json"):
        results.load(CHAPTER, "grid", folder=tmp_path)
    path.with_suffix(".json").unlink()
    with pytest.raises(FileNotFoundError, match="no kept result 'grid'"):
        results.load(CHAPTER, "grid", folder=tmp_path)


def test_an_absent_result_names_the_choice(tmp_path: Path, arrays: dict) -> None:
    results.keep(CHAPTER, "grid", arrays, **MADE, folder=tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no kept result 'grit'; allowed: one of \['grid'\]"):
        results.load(CHAPTER, "grit", folder=tmp_path)


def test_the_folder_is_found_in_the_repository_and_in_an_installed_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "lib" / "learning_dynamics"
    package.mkdir(parents=True)
    monkeypatch.setattr(results, "PACKAGE", package)
    with pytest.raises(FileNotFoundError, match="kept results = None; allowed: a folder"):
        results.folder()
    (package / "kept").mkdir()
    assert results.folder() == package / "kept"
    assert results.library_commit() == "unknown"
    (tmp_path / "book").mkdir()
    (tmp_path / "pyproject.toml").touch()
    assert results.folder() == tmp_path / "book" / "results"
    results.keep(CHAPTER, "grid", {"a": [1]}, **MADE)
    assert results.load(CHAPTER, "grid")["a"].tolist() == [1]


def test_agreement_names_the_worst_entry(tmp_path: Path) -> None:
    kept = {"a": np.array([1.0, 2.0, np.inf]), "b": np.array([[0.0]])}
    results.keep(CHAPTER, "grid", kept, **MADE, folder=tmp_path)
    again = {"a": torch.tensor([1.0, 2.0 + 1e-6, torch.inf], dtype=torch.float64)}
    agreement = results.agree(results.load(CHAPTER, "grid", folder=tmp_path), again, rtol=1e-6)
    assert agreement.entries == 3 and agreement.worst["a"].index == (1,)
    assert agreement.worst["a"].share == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize(
    ("recomputed", "message"),
    [
        ({"a": [1.0, 2.1]}, r"a differs, worst at \(1,\): kept 2.0, recomputed 2.1, 5e\+04 times"),
        ({"a": [1.0, np.inf]}, r"a differs, worst at \(1,\): kept 2.0, recomputed inf"),
        ({"a": [1.0, np.nan]}, r"a is NaN at \(1,\) in the recomputed array"),
        ({"c": [np.nan]}, "c was recomputed but is not kept: kept are a, n"),
        ({"n": [0.0]}, r"n is NaN at \(0,\) in the kept array"),
        ({"a": [1.0]}, r"a has shape \(1,\) recomputed and \(2,\) kept"),
    ],
)
def test_a_disagreement_is_one_line(recomputed: dict, message: str) -> None:
    with pytest.raises(results.DisagreementError, match=message) as caught:
        results.agree({"a": [1.0, 2.0], "n": [np.nan]}, recomputed, rtol=1e-6)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("recomputed", "rtol", "atol", "message"),
    [
        ({}, 0.1, 0.0, "is empty"),
        ({"a": [1.0]}, -0.1, 0.0, "rtol = -0.1"),
        ({"a": []}, 0.1, 0.0, "at least one entry"),
    ],
)
def test_an_empty_comparison_is_an_error(recomputed: dict, rtol: float, atol: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        results.agree({"a": recomputed.get("a", [])}, recomputed, rtol=rtol, atol=atol)


def test_without_tolerance_only_equal_numbers_agree() -> None:
    assert results.agree({"a": [0.0, -np.inf]}, {"a": [0.0, -np.inf]}, rtol=0.0).worst["a"].share == 0
    with pytest.raises(results.DisagreementError, match="inf times"):
        results.agree({"a": [0.0]}, {"a": [1e-300]}, rtol=0.0)


@pytest.mark.parametrize("seeds", [[0.5, 1.7], "12", [None]])
def test_seeds_are_whole_numbers(tmp_path: Path, seeds: object) -> None:
    with pytest.raises(ValueError, match="seeds = .*; allowed: integers"):
        results.keep(
            "a/b", "c", {"x": [1.0]}, command="c", seeds=seeds, device="cpu", wall_time=1, folder=tmp_path
        )


@pytest.mark.parametrize(
    "values", [np.ma.array([1.0, 2.0], mask=[0, 1]), torch.eye(2).to_sparse(), [[1, 2], [3]]]
)
def test_what_is_no_whole_array_is_refused(tmp_path: Path, values: object) -> None:
    with pytest.raises(ValueError, match="x .*; allowed: "):
        results.keep(
            "a/b", "c", {"x": values}, command="c", seeds=[0], device="cpu", wall_time=1, folder=tmp_path
        )


def test_large_integers_are_compared_before_they_are_rounded() -> None:
    kept, other = {"x": np.array([2**53])}, {"x": np.array([2**53 + 1])}
    with pytest.raises(results.DisagreementError):
        results.agree(kept, other, rtol=0)
    assert results.agree(kept, other, rtol=1e-12).entries == 1
