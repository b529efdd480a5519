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

import papermill
from papermill.exceptions import PapermillExecutionError

from chapter import ROOT, write_atomically
from learning_dynamics.ledger.read import chapters, notebook_path, written_records
from learning_dynamics.runs import SCALES


def run(chapter: str, out: Path, parameters: dict[str, object], root: Path = ROOT) -> None:
    """Execute with papermill and write the notebook and, beside it, the records.

    Raises:
        ValueError: Unknown chapter or scale, or a file that exists already.
    """
    if chapter not in chapters(root):
        raise ValueError(f"CHAPTER = {chapter!r}; allowed: {', '.join(chapters(root))}")
    if parameters["SCALE"] not in SCALES:
        raise ValueError(f"SCALE = {parameters['SCALE']!r}; allowed: one of {', '.join(SCALES)}")
    if out.suffix != ".ipynb":
        raise ValueError(f"OUT = {str(out)!r}; allowed: a new file that ends in .ipynb")
    records = out.with_suffix(".json")
    for path in (out, records):
        if path.exists():
            raise ValueError(f"OUT = {str(path)!r}, which exists already; allowed: a new file")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LEARNING_DYNAMICS_RECORDS"] = folder
        try:
            papermill.execute_notebook(
                notebook_path(root, chapter),
                out,
                parameters=parameters,
                cwd=notebook_path(root, chapter).parent,
                kernel_name="python3",
            )
        finally:
            found = written_records(Path(folder), chapter)
            if found:
                write_atomically(records, json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description="Run a chapter's notebook into a new file.")
    parser.add_argument("chapter", help="part/name")
    parser.add_argument("--scale", default="book", help=", ".join(SCALES))
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", default=None, help="k/m for a run that is split")
    parser.add_argument(
        "--out", type=Path, default=None, help="a new .ipynb; out/PART/NAME-SCALE.ipynb if left out"
    )
    options = parser.parse_args()
    parameters: dict[str, object] = {"SCALE": options.scale, "DEVICE": options.device, "SEED": options.seed}
    if options.part:
        parameters["PART"] = options.part
    out = options.out or Path("out") / f"{options.chapter}-{options.scale}.ipynb"
    try:
        run(options.chapter, out.resolve(), parameters)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    except PapermillExecutionError as error:
        print(f"{error}\nwritten as far as it came: {out}", file=sys.stderr)
        return 1
    print(f"written: {out} and {out.with_suffix('.json').name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
