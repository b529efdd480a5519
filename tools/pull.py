"""Take what was edited in a chapter's notebook into its `.py`, which `make chapter` executes.

    python tools/pull.py part/name

This is `make pull`. A cell's id holds a digest of the source that it was executed with, so an edited cell is known by
its id. The `.py` keeps its header, the lines that begin its cells, and every cell that the notebook did not change.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from chapter import ROOT, edited, known_chapter, own_library, read_script, write_atomically
from learning_dynamics.ledger.read import notebook_path


def pull(chapter: str, root: Path = ROOT) -> int:
    """Write the notebook's edits into the `.py` and return how many cells they are.

    Raises:
        ValueError: there is no such chapter, or the `.py` no longer holds the cell that was edited.
    """
    script = known_chapter(chapter, root)
    header, blocks = split(script.read_text(encoding="utf-8"))
    ids = [cell.id for cell in read_script(script).cells]
    if len(ids) != len(blocks):
        raise ValueError(
            f"{script} = {len(ids)} cells in {len(blocks)} blocks; allowed: '# %%' before each cell only"
        )
    notebook = nbformat.read(notebook_path(root, chapter), as_version=4)
    place, changed = -1, 0
    for cell in notebook.cells:
        if cell.id in ids:
            place = ids.index(cell.id)
        if not edited(cell):
            continue
        if cell.id in ids:
            blocks[place] = block(cell, blocks[place].split("\n", 1)[0])
        elif re.fullmatch(r"[0-9a-f]{8}-\d+", cell.id):
            raise ValueError(
                f"cell {cell.id} of {chapter} = {cell.source[:60]!r}, edited in the notebook and in the .py; "
                "allowed: one of the two; make chapter OVERWRITE=1 takes that of the .py"
            )
        else:
            place += 1
            blocks.insert(place, block(cell, head(cell)))
            ids.insert(place, cell.id)
        changed += 1
    if changed:
        write_atomically(script, (header + "".join(blocks)).rstrip("\n") + "\n")
    return changed


def split(text: str) -> tuple[str, list[str]]:
    """Return what stands before the first cell, and each cell with the line that begins it."""
    starts = [match.start() for match in re.finditer(r"^# %%", text, re.MULTILINE)]
    return text[: starts[0]], [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]


def block(cell: NotebookNode, first: str) -> str:
    """Return a cell as it stands in a `.py`, after the line that begins it."""
    lines: Iterator[str] = iter(cell.source.split("\n"))
    if cell.cell_type == "markdown":
        lines = (f"# {line}".rstrip() for line in lines)
    return "\n".join([first, *lines]).rstrip("\n") + "\n\n"


def head(cell: NotebookNode) -> str:
    """Return the line that begins a cell which the `.py` does not have yet."""
    kind = " [markdown]" if cell.cell_type == "markdown" else ""
    tags = cell.metadata.get("tags", [])
    return f"# %%{kind}" + (" tags=[" + ", ".join(f'"{tag}"' for tag in tags) + "]" if tags else "")


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: python tools/pull.py part/name", file=sys.stderr)
        return 2
    try:
        own_library()
        count = pull(sys.argv[1])
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    script = f"chapters/{sys.argv[1]}.py"
    print(
        f"{script}: {count} cells taken from the notebook"
        if count
        else f"{script}: the notebook has no edits"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
