"""Indices and powers in cards and tables that their own rule leaves on the line: `tr_C`, `2L_i`, `k^(−2ρ)`.

A card's HTML is made when a chapter is executed, by a rule that takes care not to touch the names of code. This one
sees more, also the rows of source / here, and needs no chapter to be executed again.
"""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx

_BELOW = r"(?<=[\w‖|)\]′])(?<![A-Za-z]{4})_(?:\{(?P<many>[^{}]+)\}|(?P<one>[A-Za-z0-9]|max|min|out)(?!\w))"
_ABOVE = r"(?<=[\w‖|)}\]′])\^(?:\{(?P<a>[^{}]+)\}|\((?P<b>(?:[^()]|\([^()]*\))+)\)|(?P<c>[−-]?\w+))"
_SCRIPT = re.compile(f"{_BELOW}|{_ABOVE}")
_PLACES = re.compile(r"\bld-(?:claim|comparison|erratum|board|ledger|table)\b")


def shift(html: str) -> str:
    """Return HTML whose words outside of tags and code have their indices below and their powers above the line."""
    pieces = re.split(r"(<code\b.*?</code>|<[^>]*>)", html, flags=re.DOTALL)
    return "".join(piece if piece.startswith("<") else _SCRIPT.sub(_marked, piece) for piece in pieces)


def _marked(found: re.Match[str]) -> str:
    below = found["many"] or found["one"]
    above = found["a"] or found["b"] or found["c"]
    if found["b"] and len(above) == 1:  # the number of a layer, W^(j)
        above = f"({above})"
    return f"<sub>{below}</sub>" if below else f"<sup>{above}</sup>"


def add(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Shift them in all cards and tables of a page."""
    for raw in list(doctree.findall(nodes.raw)):
        if raw.get("format") == "html" and _PLACES.search(raw.astext()):
            raw.replace_self(nodes.raw("", shift(raw.astext()), **raw.attributes))


def setup(app: Sphinx) -> None:
    """Run when all cards and tables of a page are there."""
    app.connect("doctree-resolved", add, priority=950)
