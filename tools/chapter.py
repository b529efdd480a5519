"""Execute chapters: from each `.py` its `.ipynb`, written only when every cell succeeded.

The first three code cells of the `.py` are filled in before (see `preamble`).

python tools/chapter.py implicit_bias/minimum_norm [...]
python tools/chapter.py --all
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

from learning_dynamics.ledger.read import chapters, notebook_path
from preamble import ROOT, fill

SLOTS = 2


def read_script(path: Path) -> NotebookNode:
    """Return a chapter's cells without outputs, with cell ids that depend on their source alone."""
    notebook = jupytext.read(path)
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    seen: Counter[str] = Counter()
    for cell in notebook.cells:
        digest = hashlib.sha256(f"{cell.cell_type}:{cell.source}".encode()).hexdigest()[:8]
        cell.id = f"{digest}-{seen[digest]}"
        seen[digest] += 1
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


@contextmanager
def slot(root: Path = ROOT) -> Iterator[None]:
    """Wait for one of two places, so that at most two chapters are executed at a time."""
    folder = root / "book" / "_build" / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    waiting = False
    while True:
        for index in range(SLOTS):
            with (folder / f"slot-{index}").open("w") as handle:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                yield
                return
        if not waiting:
            print(f"waiting: {SLOTS} chapters are being executed already", flush=True)
            waiting = True
        time.sleep(0.5)


def execute(chapter: str, root: Path = ROOT) -> float:
    """Execute a chapter at `book` and write its notebook; return the seconds it took.

    Raises:
        ValueError: There is no such chapter, or a cell wrote to stderr.
        CellExecutionError: A cell failed; the old notebook is left as it was.
    """
    script = root / "chapters" / f"{chapter}.py"
    if not script.is_file():
        known = ", ".join(chapters(root)) or "none yet"
        raise ValueError(f"CHAPTER = {chapter!r}; allowed: {known}")
    fill(script, root)
    notebook = read_script(script)
    os.environ |= {"OMP_NUM_THREADS": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    os.environ.pop("LEARNING_DYNAMICS_RECORDS", None)
    with slot(root):
        started = time.perf_counter()
        client = NotebookClient(
            notebook,
            timeout=None,
            kernel_name="python3",
            record_timing=False,
            extra_arguments=["--IPKernelApp.log_level=40"],
            resources={"metadata": {"path": str(script.parent)}},
        )
        client.execute()
        seconds = time.perf_counter() - started
    for number, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            if output.output_type == "stream" and output.name == "stderr":
                raise ValueError(
                    f"stderr of {chapter}, cell {number} = {output.text.strip()[:300]}; allowed: nothing"
                )
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = {"name": "python"}
    write_atomically(notebook_path(root, chapter), nbformat.writes(notebook) + "\n")
    return seconds


def write_atomically(path: Path, text: str) -> None:
    """Replace a file in one step, or leave it untouched."""
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, suffix=".part", delete=False, encoding="utf-8"
    ) as stream:
        stream.write(text)
    os.chmod(stream.name, 0o644)
    os.replace(stream.name, path)


def main() -> int:
    parser = argparse.ArgumentParser(description="Execute chapters and write their notebooks.")
    parser.add_argument("chapter", nargs="*", help="part/name")
    parser.add_argument("--all", action="store_true", help="every chapter, one after the other")
    options = parser.parse_args()
    chosen = chapters(ROOT) if options.all else options.chapter
    if not chosen:
        parser.error("name a chapter, such as implicit_bias/minimum_norm, or --all")
    for chapter in chosen:
        try:
            seconds = execute(chapter)
        except (ValueError, CellExecutionError) as error:
            print(f"{error}\n{chapter}: not written; the notebook is as it was", file=sys.stderr)
            return 1
        print(f"{chapter}: {seconds:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
