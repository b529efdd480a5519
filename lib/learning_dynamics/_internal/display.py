"""Showing one output with text, HTML and metadata, with or without IPython."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def emit(text: str, html: str, metadata: dict[str, Any], *, plain: str | None = None) -> None:
    """Display one output in a notebook, or print it in a plain script.

    Args:
        text: The machine-independent text that nbval compares; no computed number.
        html: The reader's view; computed numbers only inside `<span class="measured">`.
        metadata: Stored with the output, invisible on the page.
        plain: What a script prints instead of `text`; may hold numbers.
    """
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        shell = None
    else:
        shell = get_ipython()
    if shell is None:
        print(plain or text, flush=True)
    else:
        display({"text/plain": text, "text/html": html}, raw=True, metadata=metadata)


def write_line(chapter: str, kind: str, record: dict[str, Any]) -> None:
    """Append a record to `<part>--<name>.<kind>.jsonl` in the folder LEARNING_DYNAMICS_RECORDS, if there is one."""
    if (path := _records(chapter, kind)) is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(record, ensure_ascii=False) + "\n")


def clear_lines(chapter: str) -> None:
    """Drop what an earlier run of the chapter wrote to that folder: a run's records are its own."""
    for kind in ("claims", "numbers"):
        if (path := _records(chapter, kind)) is not None:
            path.unlink(missing_ok=True)


def _records(chapter: str, kind: str) -> Path | None:
    folder = os.environ.get("LEARNING_DYNAMICS_RECORDS")
    return Path(folder) / f"{chapter.replace('/', '--')}.{kind}.jsonl" if folder else None
