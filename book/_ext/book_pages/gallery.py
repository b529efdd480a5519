"""Directives `gallery` and `moving-parts`: all figures of the chapters, small, and all moving parts, on one page."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from docutils import nodes
from PIL import Image
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.osutil import relative_uri

from book_pages import fresh, plain

SMALL = "small"
MOVING = re.compile(r'<div class="ld-widget" data-widget="[^>]*>')


class Place(nodes.General, nodes.Element):
    """Where the gallery is put when all pages have been read."""


class Gallery(SphinxDirective):
    """All figures, chapter by chapter in the order of the book: first words, and a link to the place."""

    has_content = False

    def run(self) -> list[nodes.Node]:
        fresh.register(self.env)
        return [Place(kind=self.name)]


class MovingParts(Gallery):
    """All moving parts, each under the title of its chapter."""


def chapters(app: Sphinx) -> list[str]:
    """Return the documents of the chapters in the order of the table of contents."""
    order: list[str] = []
    waiting = [app.config.root_doc]
    while waiting:
        docname = waiting.pop(0)
        order.append(docname)
        waiting = [*app.env.toctree_includes.get(docname, []), *waiting]
    return [docname for docname in order if docname.startswith("chapters/")]


def caption(figure: nodes.figure) -> str:
    """Return the words in bold that a caption begins with, or its first sentence."""
    for child in figure.findall(nodes.caption):
        strong = next(iter(child.findall(nodes.strong)), None)
        return (plain.text(strong) if strong is not None else plain.text(child).split(". ")[0]).rstrip(".")
    return ""


def section(app: Sphinx, docname: str, here: str) -> str:
    """Return a chapter's figures as HTML; empty if it has none."""
    images, page = app.builder.imagedir, app.builder.get_relative_uri(here, docname)
    cards = []
    for figure in app.env.get_doctree(docname).findall(nodes.figure):
        image = next(iter(figure.findall(nodes.image)), None)
        if image is None or not figure["ids"] or not (words := caption(figure)):
            continue
        uri = image["candidates"].get("image/png") or next(iter(image["candidates"].values()))
        file = f"{SMALL}/{Path(app.env.images[uri][1]).with_suffix('.webp')}"
        source = relative_uri(app.builder.get_target_uri(here), f"{images}/{file}")
        cards.append(
            f'<a class="ld-thumbnail" href="{escape(page)}#{escape(figure["ids"][0])}">'
            f'<img src="{escape(source)}" alt="{escape(image.get("alt", words))}" loading="lazy">'
            f"<span>{escape(words)}</span></a>"
        )
    if not cards:
        return ""
    title = escape(app.env.titles[docname].astext())
    return f'<h3 id="{docname.rsplit("/", 1)[1]}">{title}</h3><div class="ld-gallery">{"".join(cards)}</div>'


def moving_parts(app: Sphinx, docname: str, here: str) -> str:
    """Return a chapter's moving parts as HTML; empty if it has none."""
    title, page = (
        escape(app.env.titles[docname].astext()),
        escape(app.builder.get_relative_uri(here, docname)),
    )
    texts = "".join(raw.astext() for raw in app.env.get_doctree(docname).findall(nodes.raw))
    heading = f'<p class="ld-moving"><a href="{page}">{title}</a></p>'
    return "".join(f"{heading}{part}</div>" for part in MOVING.findall(texts))


def fill(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Put galleries in their places."""
    for place in list(doctree.findall(Place)):
        make = section if place["kind"] == "gallery" else moving_parts
        text = "".join(make(app, chapter, docname) for chapter in chapters(app))
        place.replace_self(nodes.raw("", text, format="html"))


def draw_small(app: Sphinx, error: Exception | None) -> None:
    """Write a small copy of every picture that the gallery shows, beside the large ones."""
    page = Path(app.outdir) / "book" / "gallery.html"
    if error is not None or app.builder.format != "html" or not page.exists():
        return
    folder = Path(app.outdir) / app.builder.imagedir
    (folder / SMALL).mkdir(exist_ok=True)
    wanted = set(re.findall(rf"{SMALL}/([\w.-]+)\.webp", page.read_text(encoding="utf-8")))
    for old in (folder / SMALL).iterdir():
        if old.stem not in wanted:
            old.unlink()
    for large in folder.iterdir():
        small = folder / SMALL / f"{large.stem}.webp"
        if large.stem not in wanted or (small.exists() and small.stat().st_mtime >= large.stat().st_mtime):
            continue
        with Image.open(large) as picture:
            copy = picture.convert("RGB")
        copy.thumbnail((420, 330))
        copy.save(small, quality=70)


def setup(app: Sphinx) -> None:
    """Register the directive and what fills it."""
    app.add_node(Place)
    app.add_directive("gallery", Gallery)
    app.add_directive("moving-parts", MovingParts)
    app.connect("doctree-resolved", fill)
    app.connect("build-finished", draw_small)
