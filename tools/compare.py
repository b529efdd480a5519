"""Hold the numbers that a run of the notebooks wrote against the committed ones: python tools/compare.py FOLDER."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chapter import ROOT
from learning_dynamics.ledger.read import (
    NUMBERS_KEY,
    chapters,
    close,
    differences,
    notebook_path,
    notebook_records,
    written_records,
)


def compare(chapter: str, folder: Path, root: Path = ROOT) -> list[str]:
    """Return, a line each, where a chapter's recomputed records and figure numbers differ from the committed ones."""
    path = notebook_path(root, chapter)
    lines = differences(notebook_records(path), written_records(folder, chapter))
    lines += figure_differences(
        notebook_records(path, NUMBERS_KEY), written_records(folder, chapter, "numbers")
    )
    return [f"{chapter}: {line}" for line in lines]


def figure_differences(committed: list[dict[str, Any]], recomputed: list[dict[str, Any]]) -> Iterator[str]:
    """Yield where the numbers behind a figure differ."""
    old = {table["name"]: table for table in committed}
    new = {table["name"]: table for table in recomputed}
    if len(old) != len(committed):
        yield "numbers of one figure stand twice in the notebook"
    for name in sorted(old.keys() ^ new.keys()):
        yield f"numbers of {name} stand on one side only"
    for name in sorted(old.keys() & new.keys()):
        yield from _table_differences(name, old[name], new[name])


def _table_differences(name: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    if old["columns"].keys() != new["columns"].keys():
        yield f"numbers of {name}: other columns"
        return
    if (old["rtol"], old["noise"]) != (new["rtol"], new["noise"]):
        yield f"numbers of {name}: other tolerances"
    for column, values in old["columns"].items():
        others = new["columns"][column]
        if len(values) != len(others):
            yield f"numbers of {name}, {column}: {len(values)} rows in the notebook, {len(others)} recomputed"
            continue
        for row, (x, y) in enumerate(zip(values, others, strict=True)):
            if x != y and not close(float(x), float(y), new["rtol"], new["noise"]):
                yield f"numbers of {name}, {column}, row {row}: {x} in the notebook, {y} recomputed"
                break


def main() -> int:
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        print(
            "usage: python tools/compare.py FOLDER (the folder that LEARNING_DYNAMICS_RECORDS named)",
            file=sys.stderr,
        )
        return 2
    names = chapters(ROOT)
    lines = [line for chapter in names for line in compare(chapter, Path(sys.argv[1]))]
    print(
        "\n".join(lines)
        if lines
        else f"recomputed numbers agree with the committed ones in {len(names)} chapters"
    )
    return 1 if lines else 0


if __name__ == "__main__":
    raise SystemExit(main())
