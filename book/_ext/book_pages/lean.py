"""What the pages do not need is not published: source maps of the theme's scripts and style sheets."""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx


def finish(app: Sphinx, exception: Exception | None) -> None:
    """Remove the source maps at the end of a build of pages; they are for those who debug the theme."""
    if exception is None and app.builder.format == "html":
        for path in Path(app.outdir, "_static").rglob("*.map"):
            path.unlink()


def setup(app: Sphinx) -> None:
    """Run when the pages are written."""
    app.connect("build-finished", finish)
