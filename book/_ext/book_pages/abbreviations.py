"""Words of the check cards that a newcomer cannot know say on hover what they mean."""

from __future__ import annotations

import re
from html import escape

from docutils import nodes
from sphinx.application import Sphinx

MEANINGS = {
    r"100 ε": "ε is the machine epsilon of the numbers used: 2.2e-16 in double, 1.2e-7 in single precision",
    r"(?<=· )condition": "the condition number: by how much the problem itself magnifies rounding",
    r"(?<=· )size": "the size of what is compared, in the units of the difference",
    r"(?<=\()refereed(?=\)\.)": "an independent referee derived it again and confirmed the correction",
    r"(?<=\()rederived(?=\)\.)": "a counterexample runs on this page, and a second derivation agreed",
}
"""Regular expressions of what stands in a card, and its meaning."""

_PLACES = re.compile(r"(?<=<dt>Asked</dt><dd>).*?(?=</dd>)|(?<=</span> )\((?:refereed|rederived)\)\.")


def explain(html: str) -> str:
    """Return a card's HTML, in which the words of `MEANINGS` are abbreviations with a title."""

    def place(found: re.Match[str]) -> str:
        text = found[0]
        for word, meaning in MEANINGS.items():
            text = re.sub(f"({word})", rf'<abbr title="{escape(meaning)}">\1</abbr>', text)
        return text

    return _PLACES.sub(place, html)


def add(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Explain the words in all cards of a page."""
    for raw in list(doctree.findall(nodes.raw)):
        if raw.get("format") == "html" and "ld-claim" in raw.astext():
            raw.replace_self(nodes.raw("", explain(raw.astext()), **raw.attributes))


def setup(app: Sphinx) -> None:
    """Run when all links of a page are known."""
    app.connect("doctree-resolved", add)
