"""Moving parts: the script `widgets/NAME.js` is loaded where `data-widget="NAME"` stands, and nowhere else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

_WIDGET = re.compile(r'data-widget="([a-z-]+)"')
_log = logging.getLogger(__name__)


def load(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Add the scripts of the page's moving parts."""
    for name in sorted(set(_WIDGET.findall(context.get("body", "")))):
        script = f"widgets/{name.replace('-', '_')}.js"
        if not (Path(app.srcdir) / "book" / "_static" / script).is_file():
            _log.warning("no script %s for the moving part %s", script, name, location=pagename)
            continue
        app.add_js_file(script, loading_method="defer")


def setup(app: Sphinx) -> None:
    """Run when a page's HTML is known."""
    app.connect("html-page-context", load)
