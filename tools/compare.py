"""Hold the numbers and figures that a run of the notebooks wrote against the committed ones.

python tools/compare.py FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chapter import ROOT
from learning_dynamics.ledger.read import (
    DRAWING_KEY,
    NUMBERS_KEY,
    chapters,
    close,
    differences,
    notebook_path,
    notebook_records,
    written_records,
)

DRAWN = 1e-6  # of the sum of an artist's absolute values: what rounding may change a digest by


def compare(chapter: str, folder: Path, root: Path = ROOT) -> list[str]:
    """Return, a line each, where a chapter's recomputed records, numbers and figures differ from the committed ones."""
    path = notebook_path(root, chapter)
    lines = differences(notebook_records(path), written_records(folder, chapter))
    lines += figure_differences(
        notebook_records(path, NUMBERS_KEY), written_records(folder, chapter, "numbers")
    )
    lines += drawing_differences(
        notebook_records(path, DRAWING_KEY), written_records(folder, chapter, "drawings")
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


def drawing_differences(committed: list[dict[str, Any]], recomputed: list[dict[str, Any]]) -> Iterator[str]:
    """Yield where a figure shows something else than the committed one.

    On another processor or with other libraries a chaotic run is drawn differently: there only what does not hang on
    the last bits is compared, which is the number of axes and the names and scales of their directions.
    """
    if len(committed) != len(recomputed):
        yield f"{len(committed)} figures in the notebook, {len(recomputed)} recomputed"
        return
    for number, (old, new) in enumerate(zip(committed, recomputed, strict=True), 1):
        if old.get("not compared") or new.get("not compared"):
            if old.get("not compared") != new.get("not compared"):
                yield f"figure {number}: is compared on one side only"
            continue
        if len(old["axes"]) != len(new["axes"]):
            yield f"figure {number}: {len(old['axes'])} axes in the notebook, {len(new['axes'])} recomputed"
            continue
        if old["processor"] != new["processor"]:
            continue
        for place, (a, b) in enumerate(zip(old["axes"], new["axes"], strict=True), 1):
            for line in _axes_differences(a, b):
                yield f"figure {number}, axes {place}: {line}"


def _axes_differences(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    if old["words"] != new["words"]:
        yield f"words {old['words']} in the notebook, {new['words']} recomputed"
    if len(old["artists"]) != len(new["artists"]):
        yield f"{len(old['artists'])} artists in the notebook, {len(new['artists'])} recomputed"
        return
    for a, b in zip(old["artists"], new["artists"], strict=True):
        if a != b and not _same_artist(a, b):
            yield f"{a} in the notebook, {b} recomputed"


def _same_artist(old: str, new: str) -> bool:
    (kind, a), (other, b) = (text.rsplit(" | ", 1) for text in (old, new))
    (count, holes, *x), (count_too, holes_too, *y) = a.split(), b.split()
    if (kind, count, holes) != (other, count_too, holes_too):
        return False
    size = max(float(x[0]), float(y[0]))
    return all(abs(float(p) - float(q)) <= DRAWN * size for p, q in zip(x, y, strict=True))


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
