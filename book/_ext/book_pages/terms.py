"""Words of the glossary: their first use on a chapter's page leads to the glossary and shows the meaning on hover."""

from __future__ import annotations

import re
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx

from book_pages import hover, plain

GLOSSARY = "book/glossary"
PLACES = ("chapters/", "book/parts/")
OUTSIDE = (nodes.reference, nodes.literal, nodes.title, nodes.caption, nodes.math, nodes.raw)


def meanings(app: Sphinx) -> dict[str, tuple[str, str]]:
    """Return each term, with the id of its entry and its meaning in plain text, which is the entry's first paragraph.

    Longer terms come first.
    """
    if GLOSSARY not in app.env.found_docs:
        return {}
    found = {}
    for item in app.env.get_doctree(GLOSSARY).findall(nodes.definition_list_item):
        term = next(iter(item.findall(nodes.term)))
        meaning = plain.text(next(iter(item.findall(nodes.definition))).children[0])
        found[term.astext()] = (term["ids"][0], hover.cut(meaning))
    return dict(sorted(found.items(), key=lambda each: -len(each[0])))


def texts(doctree: nodes.document) -> Iterator[nodes.Text]:
    """Yield the running text of a page: what stands in paragraphs and is no link, code, heading or caption."""
    for text in list(doctree.findall(nodes.Text)):
        above, inside = text.parent, False
        while above is not None and not isinstance(above, OUTSIDE):
            inside |= isinstance(above, nodes.paragraph)
            above = above.parent
        if above is None and inside:
            yield text


def link(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Link the first use of each term."""
    if not docname.startswith(PLACES):
        return
    waiting = meanings(app)
    if not waiting:
        return
    page = app.builder.get_relative_uri(docname, GLOSSARY)
    for text in texts(doctree):
        pieces = list(split(str(text), waiting, page))
        if len(pieces) > 1:
            text.parent.replace(text, pieces)


def split(text: str, waiting: dict[str, tuple[str, str]], page: str) -> Iterator[nodes.Node]:
    """Yield a text as text and links, and take the terms found out of those that wait for their first use."""
    while waiting and text:
        words = "|".join(re.escape(term) for term in waiting)
        match = re.search(rf"(?<![\w-])({words})(?:s|es)?(?![\w-])", text, re.IGNORECASE)
        if match is None:
            break
        term = next(each for each in waiting if each.lower() == match[1].lower())
        place, meaning = waiting.pop(term)
        if match.start():
            yield nodes.Text(text[: match.start()])
        reference = nodes.reference(
            "", match[0], internal=True, refuri=f"{page}#{place}", classes=["ld-term"]
        )
        reference["reftitle"] = meaning
        yield reference
        text = text[match.end() :]
    if text:
        yield nodes.Text(text)


def setup(app: Sphinx) -> None:
    """Link when all pages have been read."""
    app.connect("doctree-resolved", link)
