"""Execute chapters: from each `.py` its `.ipynb`, written only when every cell succeeded.

The first three code cells of the `.py` are filled in before (see `preamble`). A notebook that was edited by hand is not
overwritten: `tools/pull.py` takes the edits into the `.py`.

python tools/chapter.py implicit_bias/minimum_norm [...]
python tools/chapter.py --all
python tools/chapter.py --stale            which notebooks say something else than their `.py`
"""

from __future__ import annotations

import argparse
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
from filelock import FileLock, Timeout
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

import learning_dynamics
from learning_dynamics._internal.files import write_whole
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
        digest = digest_of(cell)
        cell.id = f"{digest}-{seen[digest]}"
        seen[digest] += 1
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def digest_of(cell: NotebookNode) -> str:
    """Return the first half of a cell's id: what it is made of, in eight digits."""
    return hashlib.sha256(f"{cell.cell_type}:{cell.source}".encode()).hexdigest()[:8]


def edited(cell: NotebookNode) -> bool:
    """Return whether a notebook's cell is another one than when the notebook was executed."""
    return cell.id.split("-")[0] != digest_of(cell)


def known_chapter(chapter: str, root: Path = ROOT) -> Path:
    """Return the path of a chapter's `.py`.

    Raises:
        ValueError: there is no such chapter.
    """
    script = root / "chapters" / f"{chapter}.py"
    if chapter not in chapters(root):
        raise ValueError(f"CHAPTER = {chapter!r}; allowed: {', '.join(chapters(root)) or 'none yet'}")
    return script


def own_library(root: Path = ROOT) -> None:
    """Make sure that the library is this folder's: the environment of a copied book still holds the first one's.

    Raises:
        ValueError: it is another folder's.
    """
    found = Path(str(learning_dynamics.__file__)).resolve()
    if root.resolve() not in found.parents:
        raise ValueError(
            f"learning_dynamics = {found.parent}; allowed: {root / 'lib'}; remove .venv, then `make setup`"
        )


def settings() -> dict[str, str]:
    """Return the environment in which the book's tools run chapters: one thread, strict checks, a home to write to."""
    fixed = {
        "OMP_NUM_THREADS": "1",
        "LEARNING_DYNAMICS_STRICT": "1",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "PYTHONWARNINGS": "",
    }
    home = Path.home()
    if not (home.is_dir() and os.access(home, os.W_OK)):
        fixed["HOME"] = tempfile.mkdtemp(prefix="learning-dynamics-home-")
    return fixed


def keep_edits(chapter: str, root: Path = ROOT) -> None:
    """Refuse to replace a notebook that holds what its `.py` lacks.

    Raises:
        ValueError: a cell was edited in the notebook; the message shows the first lines of each.
    """
    path = notebook_path(root, chapter)
    if not path.exists():
        return
    here = {(cell.cell_type, cell.source) for cell in read_script(known_chapter(chapter, root)).cells}
    lost = [
        cell
        for cell in nbformat.read(path, as_version=4).cells
        if edited(cell) and (cell.cell_type, cell.source) not in here and cell.source.strip()
    ]
    if lost:
        shown = "\n".join(f"  {cell.cell_type}: {cell.source.splitlines()[0][:90]}" for cell in lost)
        mend = f"make pull CHAPTER={chapter}"
        raise ValueError(
            f"chapters/{chapter}.ipynb = {len(lost)} cells edited by hand, which its .py lacks; allowed: "
            f"`{mend}` takes them into the .py, OVERWRITE=1 drops them:\n{shown}"
        )


def stale(root: Path = ROOT) -> list[str]:
    """Return, a line each, which notebooks say something else than their `.py`, and the command that mends it."""
    lines = []
    for chapter in chapters(root):
        path, cells = notebook_path(root, chapter), read_script(known_chapter(chapter, root)).cells
        if not path.exists():
            lines.append(f"chapters/{chapter}.py has no notebook: make chapter CHAPTER={chapter}")
            continue
        old = nbformat.read(path, as_version=4).cells
        if any(edited(cell) for cell in old):
            lines.append(f"chapters/{chapter}.ipynb was edited by hand: make pull CHAPTER={chapter}")
        elif [(cell.id, cell.metadata) for cell in old] != [(cell.id, cell.metadata) for cell in cells]:
            lines.append(
                f"chapters/{chapter}.py is newer than its notebook, which the page shows: "
                f"make chapter CHAPTER={chapter}"
            )
    return lines


@contextmanager
def slot(root: Path = ROOT) -> Iterator[None]:
    """Wait for one of two places, so that at most two chapters are executed at a time."""
    folder = root / "book" / "_build" / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    waiting = False
    while True:
        for index in range(SLOTS):
            lock = FileLock(folder / f"slot-{index}")
            try:
                lock.acquire(timeout=0)
            except Timeout:
                continue
            try:
                yield
            finally:
                lock.release()
            return
        if not waiting:
            print(f"waiting: {SLOTS} chapters are being executed already", flush=True)
            waiting = True
        time.sleep(0.5)


def execute(chapter: str, root: Path = ROOT, *, overwrite: bool = False) -> float:
    """Execute a chapter at `book` and write its notebook; return the seconds it took.

    Raises:
        ValueError: there is no such chapter, its notebook was edited by hand (unless it may be overwritten), or a cell
            wrote to stderr.
        CellExecutionError: a cell failed; the old notebook is left as it was.
    """
    script = known_chapter(chapter, root)
    if not overwrite:
        keep_edits(chapter, root)
    fill(script, root)
    notebook = read_script(script)
    os.environ |= settings()
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
    write_whole(path, text.encode("utf-8"))


def main() -> int:
    parser = argparse.ArgumentParser(description="Execute chapters and write their notebooks.")
    parser.add_argument("chapter", nargs="*", help="part/name")
    parser.add_argument("--all", action="store_true", help="every chapter, one after the other")
    parser.add_argument(
        "--stale", action="store_true", help="execute nothing; say which notebooks are out of date"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="drop what was edited in the notebook by hand"
    )
    options = parser.parse_args()
    if options.stale:
        try:
            own_library()
        except ValueError as error:
            print(error, file=sys.stderr)
            return 1
        print("".join(f"note: {line}\n" for line in stale()), end="")
        return 0
    chosen = chapters(ROOT) if options.all else options.chapter
    if not chosen:
        parser.error("name a chapter, such as implicit_bias/minimum_norm, or --all")
    for chapter in chosen:
        try:
            own_library()
            seconds = execute(chapter, overwrite=options.overwrite)
        except (ValueError, CellExecutionError) as error:
            print(f"{error}\n{chapter}: not written; the notebook is as it was", file=sys.stderr)
            return 1
        print(f"{chapter}: {seconds:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
