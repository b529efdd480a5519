from __future__ import annotations

import json
from pathlib import Path

import pytest

from learning_dynamics import __main__ as run

CHAPTER = """\
# ---
# jupyter:
#   kernelspec:
#     name: python3
# ---

# %% [markdown]
# # Title
# $x$

# %% tags=["colab", "remove-cell"]
raise RuntimeError("never run outside Colab")

# %% tags=["parameters"]
SCALE = "book"
DEVICE = "auto"
SEED = 0

# %%
from learning_dynamics.ledger import Ledger, at_most, control
from learning_dynamics.runs import Run

here = Run("part/name", scale=SCALE, device=DEVICE, seed=SEED)
ledger = Ledger(here)
ledger.check(
    "a:b", "s", measured=[0.25], criterion=at_most("e", 1), control=control("c", [2.0]), expected="holds"
)

# %% mystnb={"figure": {"name": "fig-a"}}
import matplotlib.pyplot as plt

plt.plot([1, 2])
plt.show()
"""


@pytest.fixture
def chapter(tmp_path: Path) -> Path:
    path = tmp_path / "name.py"
    path.write_text(CHAPTER)
    return path


def test_cells_are_split_with_their_tags() -> None:
    found = run.cells(CHAPTER)
    assert [cell.kind for cell in found] == ["markdown", "code", "code", "code", "code"]
    assert [cell.tags for cell in found[1:3]] == [("colab", "remove-cell"), ("parameters",)]
    assert found[2].source.startswith('SCALE = "book"')


def test_a_chapter_runs_without_jupyter(chapter: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "out"
    status = run.main([str(chapter), "--scale", "smoke", "--device", "cpu", "--seed", "7", "--out", str(out)])
    assert status == 0
    lines = (out / "part--name.claims.jsonl").read_text().splitlines()
    record = json.loads(lines[0])
    assert (record["scale"], record["seeds"]) == ("smoke", [7])
    assert (out / "figure-1.png").stat().st_size > 1000
    assert "[holds] a:b" in (out / "log.txt").read_text()
    assert "0.25" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scale", "huge"], "scale = 'huge'; allowed: smoke, book, paper"),
        (["--device", "gpu"], "device = 'gpu'"),
        (["--part", "1/2"], "PART = given; allowed: what the parameters cell"),
    ],
)
def test_a_bad_argument_ends_with_one_line(
    arguments: list[str], message: str, chapter: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert run.main([str(chapter), *arguments, "--out", str(tmp_path / "out")]) == 1
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("ValueError") and message in last


def test_nothing_is_overwritten(chapter: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("kept")
    with pytest.raises(SystemExit):
        run.main([str(chapter), "--out", str(tmp_path / "out")])
    assert "allowed: a new folder" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run.main([str(tmp_path / "absent.py"), "--out", str(tmp_path / "other")])
    assert "no such file" in capsys.readouterr().err


def test_a_file_without_parameters_is_not_a_chapter(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("# %%\nx = 1\n")
    with pytest.raises(ValueError, match="allowed: a script with a cell"):
        run.execute(path, {}, tmp_path / "out")


def test_a_failing_check_stops_the_run(chapter: Path, tmp_path: Path) -> None:
    chapter.write_text(CHAPTER.replace("[0.25]", "[1.25]"))
    assert run.main([str(chapter), "--out", str(tmp_path / "out")]) == 1
    assert "computed verdict = 'not reproduced'" in (tmp_path / "out" / "log.txt").read_text()
