"""What the page generators write and a screen reader stumbles over, put right before a page is written.

A fold of code is announced by the words that stand on it. The parameters of a signature, each on a line of its own, are
no list of definitions. An entry of the bibliography is one of a list: the role that docutils gives it is deprecated.
The space before the link of a solution is not part of the link.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

_LABEL = ' aria-label="Toggle hidden content"'  # myst-nb gives every fold this name, whatever it holds
_SIGNATURE = re.compile(r'<dt class="sig .*?</dt>', re.DOTALL)


def mend(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Take the label of folds away, so that the words of the summary are the name; write parameters as lines."""
    if "body" in context:
        body = context["body"].replace(_LABEL, "").replace(' role="doc-biblioentry"', ' role="listitem"')
        body = re.sub(r"(Solution to)(<a [^>]*>) ", r"\1 \2", body)
        context["body"] = _SIGNATURE.sub(_lines, body)


def _lines(found: re.Match[str]) -> str:
    text = found[0].replace("<dl>", '<span class="ld-parameters">').replace("</dl>", "</span>")
    return text.replace("<dd>", "<span>").replace("</dd>", "</span>")


def setup(app: Sphinx) -> None:
    """Act on each page before it is written."""
    app.connect("html-page-context", mend)
