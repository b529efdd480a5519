"""Where a result stands on its chapter's page, and an anchor for every record that has no other."""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from book_pages import evidence

_CLAIM = re.compile(r'<(?:div|details) class="ld-claim ')
_ID = re.compile(r'class="ld-id">(?P<id>[^<]+)<')


class Anchors:
    """The anchors of the results on all pages that have been read."""

    def __init__(self, env: BuildEnvironment) -> None:
        self._found: dict[str, set[str]] = getattr(env, "book_anchors", {})

    def has(self, row: evidence.Row) -> bool:
        """Return whether the row's chapter has the row's anchor."""
        return row.anchor in self._found.get(f"chapters/{row.chapter}", set())


def shown_id(html: str) -> str | None:
    """Return the id of the record that an output shows, if it shows one."""
    if not _CLAIM.search(html):
        return None
    name = _ID.search(html)
    return name["id"] if name else None


def give(app: Sphinx, doctree: nodes.document) -> None:
    """Anchor each card and row whose result no directive of the page has labelled; note the page's anchors."""
    docname = app.env.docname
    if not docname.startswith("chapters/"):
        return
    present = {id for node in doctree.findall(nodes.Element) for id in node["ids"]}
    for raw in doctree.findall(nodes.raw):
        text = raw.astext()
        id = shown_id(text) if raw.get("format") == "html" else None
        if id is not None and evidence.anchor(id) not in present:
            present.add(evidence.anchor(id))
            raw.children = [nodes.Text(f'<span id="{evidence.anchor(id)}"></span>{text}')]
            raw.rawsource = raw.children[0].astext()
    if not hasattr(app.env, "book_anchors"):
        app.env.book_anchors = {}  # type: ignore[attr-defined]  # ours, kept there
    app.env.book_anchors[docname] = present  # type: ignore[attr-defined]  # ours, kept there


def purge(_: Sphinx, env: BuildEnvironment, docname: str) -> None:
    """Forget a page that will be read again."""
    getattr(env, "book_anchors", {}).pop(docname, None)


def merge(_: Sphinx, env: BuildEnvironment, docnames: object, other: BuildEnvironment) -> None:
    """Take over what a parallel reader found."""
    mine = getattr(env, "book_anchors", {})
    env.book_anchors = mine | getattr(other, "book_anchors", {})  # type: ignore[attr-defined]  # ours, kept there


def setup(app: Sphinx) -> None:
    """Run after the notebook has become a tree."""
    app.connect("doctree-read", give)
    app.connect("env-purge-doc", purge)
    app.connect("env-merge-info", merge)
