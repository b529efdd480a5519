"""Checkpoints: whole or absent, and of one computation only."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from learning_dynamics._internal import checkpoints


def test_a_state_comes_back(tmp_path: Path) -> None:
    state = {
        "steps": 3,
        "values": [torch.arange(4.0)],
        "nested": {"name": torch.ones(2, dtype=torch.complex64)},
    }
    path = tmp_path / "deep" / "run.pt"
    assert checkpoints.load(path, settings="a run") is None
    checkpoints.save(path, state, settings="a run")
    again = checkpoints.load(path, settings="a run")
    assert again is not None and again["steps"] == 3
    torch.testing.assert_close(again["values"][0], state["values"][0], rtol=0, atol=0)
    torch.testing.assert_close(again["nested"]["name"], state["nested"]["name"], rtol=0, atol=0)


def test_another_computation_is_refused(tmp_path: Path) -> None:
    checkpoints.save(tmp_path / "run.pt", {}, settings="width 4")
    with pytest.raises(ValueError, match="is of width 4; allowed: width 5"):
        checkpoints.load(tmp_path / "run.pt", settings="width 5")


@pytest.mark.parametrize("content", (b"", b"not a checkpoint"))
def test_a_broken_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run.pt").write_bytes(content)
    with pytest.raises(ValueError, match="allowed: a file written by"):
        checkpoints.load(tmp_path / "run.pt", settings="a run")


def test_a_failed_save_leaves_the_older_one(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    checkpoints.save(path, {"steps": 1}, settings="a run")
    with pytest.raises(Exception, match="pickle"):
        checkpoints.save(path, {"steps": (k for k in "no state")}, settings="a run")
    assert checkpoints.load(path, settings="a run") == {"steps": 1}
    assert [each.name for each in tmp_path.iterdir()] == ["run.pt"]
