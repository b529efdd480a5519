"""Punctuation stays with the formula that it touches, and the end of a proof with its last word, on one line."""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

_CLOSING = re.compile(r"[.,;:!?)\]\u201d\u2019]+")
_OPENING = re.compile(r"[(\[\u201c\u2018]+$")


class BindPunctuation(SphinxPostTransform):
    """Wrap each inline formula and the punctuation that touches it in one unbreakable piece."""

    default_priority = 700

    def run(self, **_: object) -> None:
        """Go through the inline formulas of a page."""
        for formula in list(self.document.findall(nodes.math)):
            parent = formula.parent
            # by place: `remove` would take the first text that is equal, such as another comma before it
            place = next(k for k, child in enumerate(parent.children) if child is formula)
            before, after = "", ""
            if place > 0 and isinstance(parent[place - 1], nodes.Text):
                text = parent[place - 1].astext()
                if formula.astext() == r"\square":
                    parent[place - 1] = nodes.Text(re.sub(r"\s+$", "\u00a0", text))
                elif found := _OPENING.search(text):
                    before = found[0]
                    parent[place - 1] = nodes.Text(text[: found.start()])
            if place + 1 < len(parent) and isinstance(parent[place + 1], nodes.Text):
                text = parent[place + 1].astext()
                if found := _CLOSING.match(text):
                    after = found[0]
                    parent[place + 1] = nodes.Text(text[found.end() :])
            if before or after:
                pieces = [nodes.Text(before), formula, nodes.Text(after)]
                parent[place] = nodes.inline(
                    "", "", *[piece for piece in pieces if piece.astext()], classes=["ld-bound"]
                )


def setup(app: Sphinx) -> None:
    """Run after all references are resolved."""
    app.add_post_transform(BindPunctuation)
