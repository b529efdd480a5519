"""Scripts: a moving part's is loaded where it stands and nowhere else; thebe's, which asks another host, never is."""

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
    """Load `widgets/NAME.js` where the page has `data-widget="NAME"`, after what the scripts share."""
    names = sorted(set(_WIDGET.findall(context.get("body", ""))))
    if names:
        app.add_js_file("widgets/drawing.js", loading_method="defer")
    for name in names:
        script = f"widgets/{name.replace('-', '_')}.js"
        if not (Path(app.srcdir) / "book" / "_static" / script).is_file():
            _log.warning("no script %s for the moving part %s", script, name, location=pagename)
            continue
        app.add_js_file(script, loading_method="defer")


def without_thebe(app: Sphinx, _: object) -> None:
    """Disconnect sphinx_thebe, which Jupyter Book always loads, from everything but its style sheet's folder."""
    for event, listeners in app.events.listeners.items():
        if event != "builder-inited":
            listeners[:] = [
                listener
                for listener in listeners
                if not listener.handler.__module__.startswith("sphinx_thebe")
            ]


def setup(app: Sphinx) -> None:
    """Run when the configuration, and later a page's HTML, is known."""
    app.connect("config-inited", without_thebe)
    app.connect("html-page-context", load)
