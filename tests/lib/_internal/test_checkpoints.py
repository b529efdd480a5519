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
    with pytest.raises(ValueError, match="allowed: an undamaged file written by"):
        checkpoints.load(tmp_path / "run.pt", settings="a run")


def test_one_flipped_bit_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    checkpoints.save(path, {"weights": torch.linspace(0, 1, 50)}, settings="a run")
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ValueError, match="allowed: an undamaged file"):
            checkpoints.load(path, settings="a run")


def test_a_fingerprint_is_of_the_content(tmp_path: Path) -> None:
    x = torch.arange(6.0)
    assert checkpoints.fingerprint(x) == checkpoints.fingerprint(x.clone())
    others = [x + 1e-6, x.reshape(2, 3), x.double(), x.flip(0)]
    assert len({checkpoints.fingerprint(each) for each in [x, *others]}) == 5
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "data").write_text("1")
    first = checkpoints.fingerprint(tmp_path / "a")
    assert first == checkpoints.fingerprint(tmp_path / "a")
    (tmp_path / "a" / "data").write_text("2")
    assert first != checkpoints.fingerprint(tmp_path / "a")


def test_a_failed_save_leaves_the_older_one(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    checkpoints.save(path, {"steps": 1}, settings="a run")
    with pytest.raises(Exception, match="pickle"):
        checkpoints.save(path, {"steps": (k for k in "no state")}, settings="a run")
    assert checkpoints.load(path, settings="a run") == {"steps": 1}
    assert [each.name for each in tmp_path.iterdir()] == ["run.pt"]
