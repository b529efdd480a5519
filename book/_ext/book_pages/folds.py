"""A fold of code is announced by the words that stand on it."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

_LABEL = ' aria-label="Toggle hidden content"'  # myst-nb gives every fold this name, whatever it holds


def name(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Take the label away, so that the words of the summary are the name."""
    if "body" in context:
        context["body"] = context["body"].replace(_LABEL, "")


def setup(app: Sphinx) -> None:
    """Act on each page before it is written."""
    app.connect("html-page-context", name)
