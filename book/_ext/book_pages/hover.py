"""A link to a statement, an equation or a figure says on hover what stands there."""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from book_pages import plain

LONGEST = 300  # characters that are shown
UNTOLD = "An equation that one line cannot hold"


def collect(app: Sphinx, doctree: nodes.document) -> None:
    """Note in short what each anchor of a page stands for: a statement, an equation, the caption of a figure."""
    found: dict[str, str] = {}
    for node in doctree.findall(nodes.Element):
        if not node["ids"]:
            continue
        if isinstance(node, nodes.math_block):
            text = plain.formula(node.astext())
            text = UNTOLD if text == plain.SKIPPED else text
        elif isinstance(node, nodes.figure):
            text = " ".join(plain.text(caption) for caption in node.findall(nodes.caption))
        elif isinstance(node, nodes.Admonition):
            text = statement(node)
        else:
            continue
        if len(text) > 1:
            found |= {each: cut(text) for each in node["ids"]}
    if not hasattr(app.env, "book_statements"):
        app.env.book_statements = {}  # type: ignore[attr-defined]  # ours, kept there
    app.env.book_statements[app.env.docname] = found  # type: ignore[attr-defined]  # ours, kept there


def statement(node: nodes.Element) -> str:
    """Return a statement's title and text; its number stands in the link."""
    text = " ".join(text for child in node.children if (text := plain.text(child)))
    return re.sub(r"^Exercise(?=\S)", "", text)


def cut(text: str) -> str:
    """Return a text cut at a word."""
    return text if len(text) <= LONGEST else text[:LONGEST].rsplit(" ", 1)[0] + " …"


def say(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Give each link to such an anchor the text as its title, unless it has one."""
    known = {
        each: text
        for texts in getattr(app.env, "book_statements", {}).values()
        for each, text in texts.items()
    }
    for link in doctree.findall(nodes.reference):
        goal = link.get("refid") or link.get("refuri", "").partition("#")[2]
        if link.get("internal") and goal in known and not link.get("reftitle"):
            link["reftitle"] = known[goal]


def purge(_: Sphinx, env: BuildEnvironment, docname: str) -> None:
    """Forget a page that will be read again."""
    getattr(env, "book_statements", {}).pop(docname, None)


def merge(_: Sphinx, env: BuildEnvironment, docnames: object, other: BuildEnvironment) -> None:
    """Take over what a parallel reader found."""
    mine = getattr(env, "book_statements", {})
    env.book_statements = mine | getattr(other, "book_statements", {})  # type: ignore[attr-defined]  # ours


def setup(app: Sphinx) -> None:
    """Collect when a page has been read; speak when all have."""
    app.connect("doctree-read", collect)
    app.connect("env-purge-doc", purge)
    app.connect("env-merge-info", merge)
    app.connect("doctree-resolved", say, priority=900)
