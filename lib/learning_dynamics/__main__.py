"""Run a chapter as a plain script, where no Jupyter is installed.

    python -m learning_dynamics chapters/PART/NAME.py --scale paper --device cuda --out DIR

The chapter's `.py` is a list of cells in jupytext's percent format. The set-up cell for Colab is left out, the
parameters are replaced by the command line's, and the rest is executed in order. DIR receives the figures, the
records and what was printed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import linecache
import os
import re
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock


@dataclass(frozen=True)
class Cell:
    """One cell of a percent script: its kind, its tags, its source and the line it starts at."""

    kind: str
    tags: tuple[str, ...]
    source: str
    line: int


def cells(text: str) -> list[Cell]:
    """Split a percent script into its cells."""
    found: list[Cell] = []
    lines = text.splitlines()
    marks = [index for index, line in enumerate(lines) if line.startswith("# %%")] + [len(lines)]
    for start, end in pairwise(marks):
        kind = "markdown" if "[markdown]" in lines[start] else "code"
        listed = re.search(r"tags=(\[[^\]]*\])", lines[start])
        tags = tuple(json.loads(listed[1])) if listed else ()
        found.append(Cell(kind, tags, "\n".join(lines[start + 1 : end]), start + 1))
    return found


def execute(path: Path, parameters: dict[str, Any], out: Path) -> dict[str, Any]:
    """Execute a chapter's code cells in one namespace and return that namespace.

    Args:
        path: the chapter's `.py`.
        parameters: values that replace those of the cell tagged `parameters`.
        out: folder for figures; created if absent.

    Raises:
        ValueError: the file is not a chapter, or a parameter is not one that its parameters cell sets.
    """
    code = [cell for cell in cells(path.read_text(encoding="utf-8")) if cell.kind == "code"]
    if not any("parameters" in cell.tags for cell in code):
        raise ValueError(f"chapter = {str(path)!r}; allowed: a script with a cell tagged 'parameters'")
    out.mkdir(parents=True, exist_ok=True)
    namespace: dict[str, Any] = {"__name__": "__chapter__"}
    code = [cell for cell in code if "colab" not in cell.tags]
    with _figures_into(out):
        for index, cell in enumerate(code, 1):
            started = time.perf_counter()
            name = f"{path.name}, cell at line {cell.line}"
            lines = [line + "\n" for line in cell.source.split("\n")]
            linecache.cache[name] = (len(cell.source), None, lines, name)  # for the lines in a traceback
            exec(compile(cell.source, name, "exec"), namespace)
            if "parameters" in cell.tags:
                unknown = [key for key in parameters if key not in namespace]
                if unknown:
                    raise ValueError(
                        f"{', '.join(unknown)} = given; allowed: what the parameters cell of {path} sets"
                    )
                namespace.update(parameters)
            seconds = time.perf_counter() - started
            print(f"[{index}/{len(code)}] {seconds:.1f} s", file=sys.stderr, flush=True)
    return namespace


@contextlib.contextmanager
def _figures_into(out: Path) -> Iterator[None]:
    """Save every figure that a cell shows as `figure-N.png`, without a screen."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    count = 0

    def show(*_: object, **__: object) -> None:
        nonlocal count
        for number in plt.get_fignums():
            count += 1
            plt.figure(number).savefig(out / f"figure-{count}.png")
            plt.close(number)

    kept, plt.show = plt.show, show
    try:
        yield
        show()
    finally:
        plt.show = kept


class _Both(io.TextIOBase):
    """A stream that writes to two others."""

    def __init__(self, first: Any, second: Any) -> None:
        self.streams = (first, second)

    def write(self, text: str) -> int:
        for stream in self.streams:
            stream.write(text)
        return len(text)

    def flush(self) -> None:
        for stream in self.streams:
            stream.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, run the chapter, write its records; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m learning_dynamics", description="Run a chapter as a script."
    )
    parser.add_argument("chapter", type=Path, help="chapters/PART/NAME.py")
    parser.add_argument("--scale", default="book", help="smoke, book or paper")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", default=None, help="k/m for a run that is split")
    parser.add_argument("--out", type=Path, required=True, help="a new folder for figures, records and log")
    options = parser.parse_args(arguments)
    if not options.chapter.is_file():
        parser.error(f"chapter = {str(options.chapter)!r}, no such file; allowed: chapters/PART/NAME.py")
    if options.out.exists() and any(options.out.iterdir() if options.out.is_dir() else [options.out]):
        parser.error(f"out = {str(options.out)!r}, which holds something already; allowed: a new folder")
    options.out.mkdir(parents=True, exist_ok=True)
    parameters = {"SCALE": options.scale, "DEVICE": options.device, "SEED": options.seed}
    if options.part is not None:
        parameters["PART"] = options.part
    records = mock.patch.dict(os.environ, LEARNING_DYNAMICS_RECORDS=str(options.out.resolve()))
    with records, (options.out / "log.txt").open("w", encoding="utf-8") as log:
        with contextlib.redirect_stdout(_Both(sys.stdout, log)):
            try:
                execute(options.chapter, parameters, options.out)
            except ValueError as error:
                traceback.print_exc(file=log)
                print(f"{type(error).__name__}: {error}", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
