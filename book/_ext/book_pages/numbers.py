"""The figures' numbers: what the notebooks hold, written beside the pages as CSV."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from book_pages import evidence
from learning_dynamics.ledger import read


def write(root: Path, out: Path) -> list[Path]:
    """Write every figure's numbers to `out/PART/NAME/<name>.csv`, dropping what an earlier build left.

    Raises:
        ValueError: Two figures of a chapter have one name, or columns differ in length.
    """
    shutil.rmtree(out, ignore_errors=True)
    written = []
    for notebook in evidence.files(root)[1:]:
        for figure in read.notebook_records(notebook, read.NUMBERS_KEY):
            path = out / notebook.parent.name / notebook.stem / f"{figure['name']}.csv"
            if path in written:
                raise ValueError(f"{notebook.name}: name = {figure['name']!r}, given twice; allowed: once")
            columns = figure["columns"]
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w", newline="", encoding="utf-8") as stream:
                table = csv.writer(stream, lineterminator="\n")
                table.writerow(columns)
                try:
                    table.writerows(zip(*columns.values(), strict=True))
                except ValueError as error:
                    raise ValueError(
                        f"{notebook.name}: columns of {figure['name']!r} = {error}; allowed: one length"
                    ) from error
            written.append(path)
    return written


def finish(app: Sphinx, exception: Exception | None) -> None:
    """Write the numbers at the end of a build of pages."""
    if exception is not None or app.builder.format != "html":
        return
    try:
        write(Path(app.srcdir), Path(app.outdir) / "_static" / "numbers")
    except ValueError as error:
        raise ExtensionError(f"a figure's numbers: {error}") from error


def setup(app: Sphinx) -> None:
    """Run when the pages are written."""
    app.connect("build-finished", finish)
