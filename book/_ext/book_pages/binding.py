"""A full stop stays with the formula before it: the two are kept on one line."""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

_CLOSING = re.compile(r"[.,;:!?)\]\u201d\u2019]+")


class BindPunctuation(SphinxPostTransform):
    """Wrap each inline formula and the punctuation right behind it in one unbreakable piece."""

    default_priority = 700

    def run(self, **_: object) -> None:
        """Go through the inline formulas of a page."""
        for formula in list(self.document.findall(nodes.math)):
            parent = formula.parent
            place = next(k for k, child in enumerate(parent.children) if child is formula)
            after = parent[place + 1] if place + 1 < len(parent) else None
            if not isinstance(after, nodes.Text):
                continue
            found = _CLOSING.match(after.astext())
            if found is None:
                continue
            # by place: `remove` would take the first text that is equal, such as another comma before it
            bound = nodes.inline("", "", formula, nodes.Text(found[0]), classes=["ld-bound"])
            parent[place : place + 2] = [bound, nodes.Text(after.astext()[found.end() :])]


def setup(app: Sphinx) -> None:
    """Run after all references are resolved."""
    app.add_post_transform(BindPunctuation)
