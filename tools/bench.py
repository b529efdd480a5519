"""Speed in one table: ratios measured in one run, the time of each chapter, the render; this is `make bench`.

    python tools/bench.py               every part
    python tools/bench.py recurrence    one part, or several

Every `tests/bench/bench_PART.py` offers `rows()`, an iterator of pairs: what was measured, and the ratio. A row is
printed as soon as it is measured.
"""

from __future__ import annotations

import importlib
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from chapter import ROOT
from learning_dynamics.ledger.read import chapters
from suite import PYTHON, render

Row = tuple[str, str]
WIDTH = 100
BENCHES = ROOT / "tests" / "bench"
sys.path.insert(0, str(BENCHES))


def ratio_rows(module: str) -> Iterator[Row]:
    """Yield the rows of one benchmark module."""
    yield from importlib.import_module(module).rows()


def import_rows() -> Iterator[Row]:
    """Yield the time of importing the library and of its heaviest rooms, each in a fresh interpreter."""
    for module in ("learning_dynamics", "learning_dynamics.optimizers", "learning_dynamics.ledger.book"):
        code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
        times = []
        for _ in range(3):
            done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=False)
            times.append(float(done.stdout) if done.returncode == 0 else math.inf)
        yield f"import {module}, best of three", f"{min(times):.3f} s" if min(times) < math.inf else "FAILED"


def chapter_rows() -> Iterator[Row]:
    """Yield the wall time of each chapter as a plain script at `book`, start-up included."""
    for name in chapters(ROOT):
        with tempfile.TemporaryDirectory() as folder:
            script = ROOT / "chapters" / f"{name}.py"
            command = [PYTHON, "-m", "learning_dynamics", str(script), "--out", str(Path(folder) / "out")]
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


def parts() -> dict[str, Callable[[], Iterator[Row]]]:
    """Return what can be measured by itself, by name."""
    found: dict[str, Callable[[], Iterator[Row]]] = {
        path.stem.removeprefix("bench_"): partial(ratio_rows, path.stem)
        for path in sorted(BENCHES.glob("bench_*.py"))
    }
    return found | {"import": import_rows, "chapters": chapter_rows, "render": render_rows}


def main() -> int:
    known = parts()
    chosen = sys.argv[1:] or list(known)
    for name in chosen:
        if name not in known:
            print(f"PART = {name!r}; allowed: {', '.join(known)}", file=sys.stderr)
            return 2
    failed = False
    for name in chosen:
        for label, value in known[name]():
            print(f"{label:{WIDTH}}  {value}", flush=True)
            failed |= value == "FAILED"
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
