"""`make bench`: a row is seen as soon as it is measured, one part runs by itself, a wrong name is one line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

import bench
from chapter import ROOT


def test_a_row_is_printed_before_the_next_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def rows() -> Iterator[tuple[str, str]]:
        yield "first", "1.0 s"
        assert "first" in capsys.readouterr().out
        yield "second", "FAILED"

    monkeypatch.setattr(bench, "parts", lambda: {"some": rows, "other": lambda: iter([("x", "y")])})
    monkeypatch.setattr(sys, "argv", ["bench.py", "some"])
    assert bench.main() == 1
    assert capsys.readouterr().out.split() == ["second", "FAILED"]


def test_every_module_is_a_part_and_a_wrong_part_names_them() -> None:
    modules = {path.stem.removeprefix("bench_") for path in (ROOT / "tests" / "bench").glob("bench_*.py")}
    assert modules and set(bench.parts()) == {*modules, "import", "chapters", "render"}
    done = subprocess.run(
        [sys.executable, "tools/bench.py", "recurence"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and not done.stdout
    assert done.stderr == f"PART = 'recurence'; allowed: {', '.join(bench.parts())}\n"


def test_the_library_s_import_is_measured() -> None:
    (first, seconds), *_ = bench.import_rows()
    assert first.startswith("import learning_dynamics,") and float(seconds.removesuffix(" s")) < 5
