"""The generated pages: scoreboard, its strip and PDF for the landing page, errata."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from book_pages import evidence, fresh, markup
from book_pages.anchors import Anchors

SCRIPT = "find_a_result.js"


class Generated(nodes.General, nodes.Element):
    """A place in a page whose content is made when all pages have been read."""


class _Directive(SphinxDirective):
    has_content = False

    def run(self) -> list[nodes.Node]:
        root = Path(self.env.srcdir)
        fresh.register(self.env)
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


class Pdf(_Directive):
    """A link to the book as one PDF, where `make pdf` has made one."""


PDF = "book/_build/learning-dynamics.pdf"


def offer_pdf(app: Sphinx, error: Exception | None) -> None:
    """Put the PDF beside the pages that link to it; take away one that is no longer made."""
    made, offered = Path(app.srcdir) / PDF, Path(app.outdir) / Path(PDF).name
    if error is None and app.builder.format == "html":
        offered.unlink(missing_ok=True)
        if made.is_file():
            shutil.copyfile(made, offered)


def fill(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Replace each placeholder by its HTML."""
    places = list(doctree.findall(Generated))
    if not places:
        return
    view = markup.View(app, docname, evidence.rows(Path(app.srcdir)), Anchors(app.env))
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
    """Register the directives and what fills them."""
    app.add_node(Generated)
    app.add_directive("scoreboard", Scoreboard)
    app.add_directive("scoreboard-strip", Strip)
    app.add_directive("errata", Errata)
    app.add_directive("pdf-link", Pdf)
    app.connect("doctree-resolved", fill)
    app.connect("html-page-context", load_script)
    app.connect("build-finished", offer_pdf)
