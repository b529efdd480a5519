"""The book's own Sphinx extension: what the committed notebooks and the library say, made into pages.

Directives `scoreboard`, `scoreboard-strip`, `errata`, `gallery`, `moving-parts`; roles `chapter`, `part`, `colab`,
`repository`; an anchor for every record of a chapter; what the site's search finds; the figures' numbers as CSV; the
script of a moving part where one stands; punctuation bound to the formula before it; the site's address; what a link
leads to, on hover; first uses of the glossary's words; the library's reference, whose pages alone import the library
beyond `ledger.read`. Words of the check cards are explained on hover, their indices and powers leave the line.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sphinx.application import Sphinx

PARTS = (
    "abbreviations address anchors api binding folds fresh gallery hover lean links numbers pages scripts search terms "
    "widgets"
).split()


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the parts."""
    for part in PARTS:
        import_module(f"book_pages.{part}").setup(app)
    return {"version": "1", "env_version": 2, "parallel_read_safe": True, "parallel_write_safe": True}
