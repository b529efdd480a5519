"""Every test of the book, part by part, with the time of each: this is `make test`.

All parts are run even if one fails; the last lines say what failed. The exit status is 0 only if all passed.

    python tools/suite.py            all parts
    python tools/suite.py unit pairs these parts only
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from chapter import ROOT, own_library, settings
from learning_dynamics.ledger.read import chapters, notebook_path

PYTHON = sys.executable
SMOKE_SEEDS = (0, 7)
WORKERS = 2  # processes at a time, each with one thread for linear algebra
SAID = 6  # lines of one failed command that are printed again at the end

complaints: list[str] = []


def call(*command: str | Path, cwd: Path = ROOT, **environment: str) -> bool:
    """Run a command with one thread for linear algebra; return whether it succeeded.

    What it prints is passed on. If it fails, its complaints are kept for the end: pytest's lines of failed tests, or
    the last lines of a command that has none.
    """
    variables = os.environ | settings() | environment
    print("$ " + " ".join(Path(word).name if word == PYTHON else str(word) for word in command), flush=True)
    last: deque[str] = deque(maxlen=SAID)
    failed: list[str] = []
    with subprocess.Popen(
        [str(word) for word in command],
        cwd=cwd,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            last.append(line.rstrip())
            if line.startswith(("FAILED ", "ERROR ")):
                failed.append(line.rstrip())
    if process.returncode:
        complaints.extend(failed[:SAID] or last)
        if len(failed) > SAID:
            complaints.append(f"and {len(failed) - SAID} more")
    return process.returncode == 0


def pytest(*arguments: str) -> bool:
    return call(PYTHON, "-m", "pytest", *arguments)


def style() -> bool:
    """Code as ruff would write it, and types as mypy reads them; a pre-commit hook runs the same."""
    ruff = [PYTHON, "-m", "ruff"]
    return call(*ruff, "check", ".") & call(*ruff, "format", "--check", ".") & call(PYTHON, "-m", "mypy")


def unit() -> bool:
    return pytest(
        "tests/lib", "-n", str(WORKERS), "--dist", "loadfile", "--cov", "--cov-report", "term:skip-covered"
    )


def pairs() -> bool:
    return pytest("tests/book", "-m", "not pages and not slow")


def notebooks() -> bool:
    """Recompute every committed output at `book` and compare texts, then numbers."""
    names = chapters(ROOT)
    paths = [str(notebook_path(ROOT, name).relative_to(ROOT)) for name in names]
    with tempfile.TemporaryDirectory() as records:
        passed = call(
            *(PYTHON, "-m", "pytest", "--nbval", "--nbval-current-env"),
            *("--nbval-sanitize-with", "tests/nbval/sanitize.cfg"),
            *("-n", str(WORKERS), "--dist", "loadfile", "-p", "no:cacheprovider", "--timeout", "1200"),
            *paths,
            LEARNING_DYNAMICS_RECORDS=records,
        )
        return call(PYTHON, "tools/compare.py", records) & passed


def smoke() -> bool:
    """Run every chapter as a plain script at `smoke`, from another folder, with the default seed and with another."""
    with tempfile.TemporaryDirectory() as folder:

        def run(job: tuple[str, int]) -> bool:
            name, seed = job
            script, out = ROOT / "chapters" / f"{name}.py", Path(folder) / f"{name.replace('/', '-')}-{seed}"
            command = (PYTHON, "-m", "learning_dynamics", script, "--scale", "smoke", "--out", out)
            return call(*command, "--seed", str(seed), cwd=Path(folder))

        with ThreadPoolExecutor(WORKERS) as workers:
            return all(list(workers.map(run, itertools.product(chapters(ROOT), SMOKE_SEEDS))))


def render() -> bool:
    """Render the book with every warning an error; the tests of pages then look at this render."""
    return pytest("tests/book/test_pages.py", "-k", "test_render_has_no_warning")


def pages() -> bool:
    return pytest("tests/book", "-m", "pages", "-rs", "-n", str(WORKERS), "--dist", "loadscope")


def faults() -> bool:
    """Interrupted runs, bad arguments, the set-up cell in an environment like Colab's."""
    return pytest("tests/book", "-m", "slow", "-rs")


PARTS: dict[str, Callable[[], bool]] = {
    part.__name__: part for part in (style, unit, pairs, notebooks, smoke, render, pages, faults)
}


def main() -> int:
    chosen = sys.argv[1:] or list(PARTS)
    unknown = [name for name in chosen if name not in PARTS]
    if unknown:
        print(f"part = {', '.join(unknown)}; allowed: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    try:
        own_library()
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    complaints.clear()
    results = []
    for name in chosen:
        print(f"\n=== {name}", flush=True)
        started = time.perf_counter()
        passed = PARTS[name]()
        results.append((name, passed, time.perf_counter() - started))
    print("\n=== time per part")
    for name, passed, seconds in results:
        print(f"{name:10} {seconds:7.1f} s  {'passed' if passed else 'FAILED'}")
    failed = sum(not passed for _, passed, _ in results)
    print(f"{'total':10} {sum(seconds for *_, seconds in results):7.1f} s")
    print(*complaints, sep="\n", end="\n" * bool(complaints))
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
