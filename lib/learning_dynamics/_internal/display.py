"""Showing one output with text, HTML and metadata, with or without IPython."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_chapter: str | None = None  # whose run this is


def emit(text: str, html: str, metadata: dict[str, Any], *, plain: str | None = None) -> None:
    """Display one output in a notebook, or print it in a plain script.

    Args:
        text: the machine-independent text that nbval compares; no computed number.
        html: the reader's view; computed numbers only inside `<span class="measured">`.
        metadata: stored with the output, invisible on the page.
        plain: what a script prints instead of `text`; may hold numbers.
    """
    if _shell() is None:
        print(plain or text, flush=True)
    else:
        from IPython.display import display

        display({"text/plain": text, "text/html": html}, raw=True, metadata=metadata)


def in_a_reader_s_notebook() -> bool:
    """Return whether this is a notebook that no tool of the book executes: they set LEARNING_DYNAMICS_STRICT."""
    return _shell() is not None and not os.environ.get("LEARNING_DYNAMICS_STRICT")


def write_line(chapter: str, kind: str, record: dict[str, Any]) -> None:
    """Append a record to `<part>--<name>.<kind>.jsonl` in the folder LEARNING_DYNAMICS_RECORDS, if there is one."""
    if (path := _records(chapter, kind)) is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(record, ensure_ascii=False) + "\n")


def begin(chapter: str) -> None:
    """Name the chapter whose run this is, and drop what an earlier run of it wrote: a run's records are its own."""
    global _chapter
    _chapter = chapter
    for kind in ("claims", "numbers", "drawings"):
        if (path := _records(chapter, kind)) is not None:
            path.unlink(missing_ok=True)


def write_drawing(record: dict[str, Any]) -> None:
    """Append what a figure shows to the records of the chapter that runs, if one does."""
    if _chapter is not None:
        write_line(_chapter, "drawings", record)


def _shell() -> Any:
    """Return IPython's shell, or None in a plain script."""
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    return get_ipython()


def _records(chapter: str, kind: str) -> Path | None:
    folder = os.environ.get("LEARNING_DYNAMICS_RECORDS")
    return Path(folder) / f"{chapter.replace('/', '--')}.{kind}.jsonl" if folder else None
