"""Run a chapter's notebook with other parameters into a new file, with its records as JSON beside it.

    python tools/notebook.py part/name --scale paper --device cuda --out out/name.ipynb

This is `make run`. The committed notebook is not touched, and no existing file is overwritten.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
import papermill
from papermill.exceptions import PapermillExecutionError

from chapter import ROOT, known_chapter, own_library, settings, write_atomically
from learning_dynamics.ledger.read import notebook_path, written_records
from learning_dynamics.runs import SCALES, Run


def run(chapter: str, out: Path, parameters: dict[str, object], root: Path = ROOT) -> list[dict[str, Any]]:
    """Execute with papermill, write the notebook and, beside it, the records, and return these.

    A run that fails leaves nothing.

    Raises:
        ValueError: unknown chapter, a parameter that is not allowed, or a file that exists already.
    """
    known_chapter(chapter, root)
    given = {key.lower(): value for key, value in parameters.items()}
    Run(chapter, **given)  # type: ignore[arg-type]  # refuses a wrong one in one line, before a kernel starts
    if "PART" in parameters and not has_parts(notebook_path(root, chapter)):
        raise ValueError(f"PART = {parameters['PART']!r}; allowed: none, since {chapter} is one piece")
    if out.suffix != ".ipynb":
        raise ValueError(f"OUT = {str(out)!r}; allowed: a new file that ends in .ipynb")
    records = out.with_suffix(".json")
    for path in (out, records):
        if path.exists():
            raise ValueError(f"OUT = {str(path)!r}, which exists already; allowed: a new file")
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= settings() | {"LEARNING_DYNAMICS_RECORDS": folder, "LEARNING_DYNAMICS_STRICT": ""}
        made = Path(folder) / "made.ipynb"
        papermill.execute_notebook(
            notebook_path(root, chapter),
            made,
            parameters=parameters,
            cwd=notebook_path(root, chapter).parent,
            kernel_name="python3",
        )
        found = written_records(Path(folder), chapter)
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, made.read_text(encoding="utf-8"))
        if found:
            write_atomically(records, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    return found


def has_parts(path: Path) -> bool:
    """Return whether a notebook has the parameter PART."""
    cells = nbformat.read(path, as_version=4).cells
    return any("parameters" in cell.metadata.get("tags", []) and "PART" in cell.source for cell in cells)


def default_out(chapter: str, parameters: dict[str, object]) -> Path:
    """Return where a run is written if nobody says: its scale, seed and part are in the name."""
    name = f"{chapter}-{parameters['SCALE']}-seed{parameters['SEED']}"
    if "PART" in parameters:
        name += "-part" + str(parameters["PART"]).replace("/", "of")
    return Path("out") / f"{name}.ipynb"


def main() -> int:
    parser = argparse.ArgumentParser(description="Run a chapter's notebook into a new file.")
    parser.add_argument("chapter", help="part/name")
    parser.add_argument("--scale", default="book", help=", ".join(SCALES))
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", default=None, help="k/m for a run that is split")
    parser.add_argument(
        "--out", type=Path, default=None, help="a new .ipynb; out/PART/NAME-SCALE-seedSEED.ipynb if left out"
    )
    options = parser.parse_args()
    parameters: dict[str, object] = {"SCALE": options.scale, "DEVICE": options.device, "SEED": options.seed}
    if options.part:
        parameters["PART"] = options.part
    out = options.out or default_out(options.chapter, parameters)
    try:
        own_library()
        found = run(options.chapter, out.resolve(), parameters)
    except (ValueError, PapermillExecutionError) as error:
        print(f"{error}\nnothing was written", file=sys.stderr)
        return 1
    others = [record["id"] for record in found if record.get("unexpected")]
    print(
        f"written: {out} and {out.with_suffix('.json').name}; {len(found)} claims, {len(others)} not as in the book"
    )
    print("".join(f"  {id}\n" for id in others), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
