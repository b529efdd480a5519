"""The generated pages: scoreboard, its strip for the landing page, errata."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from book_pages import evidence, markup
from book_pages.anchors import Anchors

SCRIPT = "find_a_result.js"


class Generated(nodes.General, nodes.Element):
    """A place in a page whose content is made when all pages have been read."""


class _Directive(SphinxDirective):
    has_content = False

    def run(self) -> list[nodes.Node]:
        root = Path(self.env.srcdir)
        for path in evidence.files(root):
            self.env.note_dependency(str(path))
        _pages(self.env).add(self.env.docname)
        return self.content_nodes(root)

    def content_nodes(self, root: Path) -> list[nodes.Node]:
        return [Generated(kind=self.name)]


class Scoreboard(_Directive):
    """Every row of the inventory, grouped by source, with totals before and filters above."""

    def content_nodes(self, root: Path) -> list[nodes.Node]:
        result: list[nodes.Node] = [Generated(kind="totals"), Generated(kind="filters")]
        for source, _ in evidence.groups(evidence.rows(root)):
            title = f"{source.name} ({source.authors})"
            section = nodes.section("", nodes.title(title, title), ids=[f"source-{source.prefix}"])
            section["names"] = [f"source {source.prefix}"]
            section += Generated(kind="group", code=source.code)
            result.append(section)
        return result


class Strip(_Directive):
    """One counted line for the landing page."""


class Errata(_Directive):
    """Every record whose printed form fails, with the corrected one and the evidence."""


def _pages(env: BuildEnvironment) -> set[str]:
    if not hasattr(env, "book_generated"):
        env.book_generated = set()  # type: ignore[attr-defined]
    return env.book_generated  # type: ignore[attr-defined]


def purge(_: Sphinx, env: BuildEnvironment, docname: str) -> None:
    """Forget a page that will be read again."""
    _pages(env).discard(docname)


def merge(_: Sphinx, env: BuildEnvironment, docnames: Iterable[str], other: BuildEnvironment) -> None:
    """Take over what a parallel reader found."""
    _pages(env).update(_pages(other) & set(docnames))


def outdated(app: Sphinx, env: BuildEnvironment, *_: Any) -> list[str]:
    """Return the generated pages if a notebook or the inventory has changed, appeared or gone."""
    new = evidence.stamp(Path(env.srcdir))
    old = getattr(env, "book_stamp", None)
    env.book_stamp = new  # type: ignore[attr-defined]
    return [] if old == new else sorted(_pages(env) & env.found_docs)


def fill(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Replace each placeholder by its HTML."""
    places = list(doctree.findall(Generated))
    if not places:
        return
    try:
        table = evidence.rows(Path(app.srcdir))
    except ValueError as error:
        raise ExtensionError(str(error)) from error
    view = markup.View(app, docname, table, Anchors(app.env))
    for place in places:
        place.replace_self(nodes.raw("", view.render(place), format="html"))
        if place["kind"] == "filters":
            doctree["book_script"] = SCRIPT


def load_script(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Load the filters' script on the page that has filters."""
    if doctree is not None and "book_script" in doctree:
        app.add_js_file(doctree["book_script"], loading_method="defer")


def setup(app: Sphinx) -> None:
    """Register the directives and what keeps their pages fresh."""
    app.add_node(Generated)
    app.add_directive("scoreboard", Scoreboard)
    app.add_directive("scoreboard-strip", Strip)
    app.add_directive("errata", Errata)
    app.connect("env-purge-doc", purge)
    app.connect("env-merge-info", merge)
    app.connect("env-get-outdated", outdated)
    app.connect("doctree-resolved", fill)
    app.connect("html-page-context", load_script)
