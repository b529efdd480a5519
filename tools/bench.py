"""Speed in one table: ratios measured in one run, the time of each chapter, the render; this is `make bench`.

Every `tests/bench/bench_*.py` offers `rows() -> list[tuple[str, str]]`: what was measured, and the ratio.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from chapter import ROOT
from learning_dynamics.ledger.read import chapters
from suite import PYTHON, render

Row = tuple[str, str]


def ratio_rows() -> Iterator[Row]:
    """Yield the rows of every benchmark module."""
    for path in sorted((ROOT / "tests" / "bench").glob("bench_*.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        yield from module.rows()


def chapter_rows() -> Iterator[Row]:
    """Yield the wall time of each chapter as a plain script at `book`, start-up included."""
    for name in chapters(ROOT):
        with tempfile.TemporaryDirectory() as folder:
            script = ROOT / "chapters" / f"{name}.py"
            command = [PYTHON, "-m", "learning_dynamics", script, "--out", Path(folder) / "out"]
            started = time.perf_counter()
            done = subprocess.run(command, capture_output=True, check=False)
            seconds = time.perf_counter() - started
        yield f"chapter {name} at book", f"{seconds:.1f} s" if done.returncode == 0 else "FAILED"


def render_rows() -> Iterator[Row]:
    """Yield the time of a render from nothing and of one with nothing changed."""
    shutil.rmtree(ROOT / "book" / "_build" / ".doctrees", ignore_errors=True)
    shutil.rmtree(ROOT / "book" / "_build" / "html", ignore_errors=True)
    for label in ("render, from nothing", "render, nothing changed"):
        started = time.perf_counter()
        passed = render()
        yield label, f"{time.perf_counter() - started:.1f} s" if passed else "FAILED"


def main() -> int:
    rows = [*ratio_rows(), *chapter_rows(), *render_rows()]
    width = max(len(label) for label, _ in rows)
    print()
    for label, value in rows:
        print(f"{label:{width}}  {value}")
    return 1 if any(value == "FAILED" for _, value in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
