"""Reading records back: from committed notebooks, and from the folder that a run wrote them to.

Needs neither torch nor numpy.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SCHEMA = 1
KEY = "learning_dynamics/claim"
NUMBERS_KEY = "learning_dynamics/numbers"
DRAWING_KEY = "learning_dynamics/drawing"
ROUNDED = 1e-2  # what kernels may move a tolerance by: it is 100 eps times a condition number that is computed itself
VERDICTS = (
    "holds", "reproduced", "partly", "not reproduced", "corrected", "out of reach", "stated", "not evaluated",
)  # fmt: skip


def chapters(root: Path) -> list[str]:
    """Return the ids `part/name` of all chapters under `root/chapters`, sorted."""
    return sorted(f"{path.parent.name}/{path.stem}" for path in (root / "chapters").glob("*/*.py"))


def notebook_path(root: Path, chapter: str) -> Path:
    """Return the path of a chapter's notebook.

    Args:
        root: the book's folder.
        chapter: the chapter's id, `part/name`.
    """
    return root / "chapters" / f"{chapter}.ipynb"


def metadata_of_outputs(notebook: dict[str, Any], key: str) -> Iterator[dict[str, Any]]:
    """Yield what a notebook's outputs hold under one metadata key, in order.

    Args:
        notebook: the notebook as read from JSON.
        key: the key of an output's metadata, or of that of its picture.
    """
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            metadata = output.get("metadata", {})
            value = metadata.get(key, metadata.get("image/png", {}).get(key))
            if isinstance(value, dict):
                yield value


def notebook_records(path: Path, key: str = KEY) -> list[dict[str, Any]]:
    """Return the records of one notebook.

    Args:
        path: the notebook.
        key: which metadata to read: claims, or the numbers of figures.

    Raises:
        ValueError: the file is not a notebook, or a record has a schema or verdict unknown here, or an id twice.
    """
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        found = list(metadata_of_outputs(notebook, key))
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{path} = no notebook ({error}); allowed: one that nbformat reads") from error
    if key != KEY:
        return found
    seen: set[str] = set()
    for record in found:
        if record.get("schema") != SCHEMA:
            raise ValueError(
                f"{path}: schema of {record.get('id')!r} = {record.get('schema')!r}; allowed: {SCHEMA}"
            )
        if record["verdict"] not in VERDICTS:
            raise ValueError(
                f"{path}: verdict of {record['id']!r} = {record['verdict']!r}; allowed: {', '.join(VERDICTS)}"
            )
        if record["id"] in seen:
            raise ValueError(f"{path}: id = {record['id']!r}, recorded twice; allowed: once")
        seen.add(record["id"])
    return found


def records(root: Path) -> list[dict[str, Any]]:
    """Return the records of all committed notebooks under `root/chapters`."""
    paths = sorted((root / "chapters").glob("*/*.ipynb"))
    return [record for path in paths for record in notebook_records(path)]


def inventory(path: Path) -> list[dict[str, str]]:
    """Return the rows of the inventory.

    Args:
        path: the file `inventory.csv`.

    Raises:
        ValueError: an id stands twice.
    """
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    seen: set[str] = set()
    for row in rows:
        if row["id"] in seen:
            raise ValueError(f"{path}: id = {row['id']!r} stands twice; allowed: once")
        seen.add(row["id"])
    return rows


def written_records(folder: Path, chapter: str, kind: str = "claims") -> list[dict[str, Any]]:
    """Return what a run wrote to a folder (see the environment variable LEARNING_DYNAMICS_RECORDS).

    Args:
        folder: what the variable named.
        chapter: the chapter's id, `part/name`.
        kind: which records: `claims` or another.
    """
    path = folder / f"{chapter.replace('/', '--')}.{kind}.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def differences(committed: list[dict[str, Any]], recomputed: list[dict[str, Any]]) -> list[str]:
    """Return, a line each, where recomputed records disagree with the committed ones; empty if they agree.

    Verdicts, controls and criteria must be equal; numbers agree within the record's `rtol` or below its `noise`. A
    number that is all rounding must stay under its bound and within a factor of 1000.

    Args:
        committed: the records of the committed notebook.
        recomputed: those of a run.
    """
    lines = []
    old = {record["id"]: record for record in committed}
    new = {record["id"]: record for record in recomputed}
    lines += [f"{id}: committed, but not recomputed" for id in old.keys() - new.keys()]
    lines += [f"{id}: recomputed, but not committed" for id in new.keys() - old.keys()]
    for id in old.keys() & new.keys():
        lines += [f"{id}: {line}" for line in _record_differences(old[id], new[id])]
    return sorted(lines)


def _record_differences(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    # compared below, by their numbers (noise may be a computed tolerance); a device may be another
    numeric = {"measured", "phrase", "criterion", "control", "noise", "device"}
    for field in sorted((old.keys() | new.keys()) - numeric):
        if old.get(field) != new.get(field):
            yield f"{field} is {old.get(field)!r} in the notebook and {new.get(field)!r} recomputed"
    rounded = bool((new.get("criterion") or {}).get("rounding"))
    same = ROUNDED if rounded else 1e-6  # of a tolerance, or of a bound that the page states
    if not close(old.get("noise", 0.0), new.get("noise", 0.0), same, 0.0):
        yield f"noise is {old['noise']!r} in the notebook and {new['noise']!r} recomputed"
    for part in ("criterion", "control"):
        if (old.get(part) is None) != (new.get(part) is None):
            yield f"{part} stands on one side only"
    if old.get("criterion") is None or new.get("criterion") is None:
        return
    for field in ("relation", "symbols", "sentence", "rounding"):
        if old["criterion"][field] != new["criterion"][field]:
            yield f"criterion {field} is {old['criterion'][field]!r}, recomputed {new['criterion'][field]!r}"
    pairs = {
        "bound": (_numbers(old["criterion"]["bound"]), _numbers(new["criterion"]["bound"]), same, 0.0),
        "floor": (_numbers(old["criterion"]["floor"]), _numbers(new["criterion"]["floor"]), same, 0.0),
    }
    for name, line in _phrases(old, new):
        yield f"{name}: {line}"
    noise = 0.0 if rounded else new["noise"]
    pairs["measured"] = (old["measured"], new["measured"], new["rtol"], noise)
    if old.get("control") and new.get("control"):
        for field in ("name", "passes"):
            if old["control"][field] != new["control"][field]:
                yield f"control {field} is {old['control'][field]!r}, recomputed {new['control'][field]!r}"
        pairs["control"] = (old["control"]["measured"], new["control"]["measured"], new["rtol"], noise)
    for name, (a, b, rtol, atol) in pairs.items():
        if a.keys() != b.keys():
            yield f"{name} has other fields: {sorted(a)} and {sorted(b)}"
            continue
        for key in a:
            x, y = float(a[key]), float(b[key])
            if close(x, y, rtol, atol):
                continue
            if name == "measured" and rounded and key != "count" and _same_rounding(x, y, new["criterion"]):
                continue
            yield f"{name} {key} is {x!r} in the notebook and {y!r} recomputed (rtol {rtol:g}, noise {atol:g})"


def _phrases(old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The phrase that readers see must be the one that the stored numbers give."""
    for name, a, b in (("phrase", old, new), ("control phrase", old.get("control"), new.get("control"))):
        if a and b and a["measured"] == b["measured"] and a["phrase"] != b["phrase"]:
            yield name, f"{a['phrase']!r} in the notebook and {b['phrase']!r} recomputed"


def close(x: float, y: float, rtol: float, atol: float) -> bool:
    """Return whether two numbers agree: equal, or within rtol of the larger plus atol; NaN agrees with nothing.

    Args:
        x: a number.
        y: another.
        rtol: tolerance relative to the larger, >= 0.
        atol: tolerance added to it, >= 0.
    """
    if x == y:
        return True
    if not (math.isfinite(x) and math.isfinite(y)):
        return False
    return abs(x - y) <= rtol * max(abs(x), abs(y)) + atol


def _same_rounding(x: float, y: float, criterion: dict[str, Any]) -> bool:
    if max(abs(x), abs(y)) > criterion["bound"]:
        return False
    floor = criterion["floor"]
    a, b = max(abs(x), floor), max(abs(y), floor)
    return max(a, b) <= 1000 * min(a, b)


def _numbers(bound: float | list[float]) -> dict[str, float]:
    values = bound if isinstance(bound, list) else [bound]
    return {str(index): value for index, value in enumerate(values)}
