"""What the search page finds: places by number, title, term or name, and the words of every page.

A place is what a reader can be sent to: a page, a section, a statement, figure, equation or exercise with its number,
a word of the glossary, a name of the library. `search.js` ranks places before pages that merely hold the words. Numbers
and titles are read from the pages as rendered, so that a search finds what is printed. Nothing of folded code and no
command of a formula is searched or shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import sphinx.search
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from book_pages import evidence, plain

PLACES = "_static/search/places.js"
TEXTS = "_static/search/text"
LISTS = ("book/find_a_result", "book/gallery")
"""Pages that repeat the titles of others: they are places, but no words are looked for in them."""
EXCERPT = 220

_TITLE = re.compile(
    r'<div class="(?:proof|exercise|solution)[^"]*" id="(?P<id>[^"]+)">\s*<p class="admonition-title">'
    r'<span class="caption-number">(?P<number>[^<]+)</span>(?P<title>.*?)</p>',
    re.DOTALL,
)
_FIGURE = re.compile(
    r'<figure[^>]* id="(?P<id>[^"]+)"(?:(?!</figure>).)*?<span class="caption-number">(?P<number>[^<]+)</span>'
    r'<span class="caption-text">(?P<title>.*?)</span><a class="headerlink"',
    re.DOTALL,
)
_EQUATION = re.compile(
    r'<span class="eqno">\((?P<number>[^<)]+)\)<a class="headerlink" href="#(?P<id>[^"]+)"'
)
_HEADING = re.compile(
    r'<section (?:class="[^"]*" )?id="(?P<id>[^"]+)">\s*(?:<span id="[^"]*"></span>\s*)*'
    r"<h(?P<level>[1-4])>(?P<title>.*?)</h\d>",
    re.DOTALL,
)
_STRONG = re.compile(r"<strong>(.*?)</strong>", re.DOTALL)
_MATH = re.compile(r'<span class="math[^"]*">\\\((.*?)\\\)</span>', re.DOTALL)


class Words(sphinx.search.WordCollector):
    """Sphinx's collector of words, without formulas and without code that the page does not show."""

    def dispatch_visit(self, node: nodes.Node) -> None:
        if isinstance(node, nodes.math | nodes.math_block) or plain.hidden(node):
            raise nodes.SkipNode
        super().dispatch_visit(node)


def readable(html: str) -> str:
    """Return a piece of a page as plain text in one line."""
    text = re.sub(r'<a class="headerlink".*?</a>', "", html, flags=re.DOTALL)
    text = _MATH.sub(lambda found: plain.formula(unescape(found[1])), text)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", "", text))).strip()


def places_on(body: str) -> Iterator[dict[str, str]]:
    """Yield what a rendered page offers, in its order within each kind: headings, statements, figures, equations."""
    for found in _HEADING.finditer(body):
        title = readable(found["title"])
        counted = re.match(r"([\d.]+)\. ", title)
        yield {
            "kind": "page" if found["level"] == "1" else "section",
            "id": "" if found["level"] == "1" else found["id"],
            "number": f"Section {counted[1]}" if counted else "",
            "title": title,
        }
    for found in _TITLE.finditer(body):
        number = readable(found["number"])
        title = readable(found["title"])
        yield {
            "kind": number.split()[0].lower(),
            "id": found["id"],
            "number": number,
            "title": title.strip("()"),
        }
    for found in _FIGURE.finditer(body):
        finding = _STRONG.search(found["title"])
        title = readable(finding[1] if finding else found["title"])
        yield {
            "kind": "figure",
            "id": found["id"],
            "number": readable(found["number"]),
            "title": title.rstrip("."),
        }
    for found in _EQUATION.finditer(body):
        yield {"kind": "equation", "id": found["id"], "number": f"Equation {found['number']}", "title": ""}


def texts_of(doctree: nodes.document) -> list[list[str]]:
    """Return the page's prose in blocks, each with the anchor it stands under: `[anchor, text]`."""
    blocks: list[list[str]] = []
    _blocks(doctree, "", blocks)
    return [block for block in blocks if block[1]]


def _blocks(node: nodes.Node, anchor: str, blocks: list[list[str]]) -> None:
    if not isinstance(node, nodes.Element) or plain.hidden(node):
        return
    if isinstance(node, nodes.raw | nodes.comment | nodes.title | nodes.literal_block):
        return
    if isinstance(node, nodes.math_block) and blocks and blocks[-1][0] == anchor:  # goes on with the sentence
        blocks[-1][1] += f" {plain.formula(node.astext())}"
        return
    own = [each for each in node.get("ids", []) if not each.endswith("-content")]
    anchor = own[0] if own else anchor
    if isinstance(node, nodes.TextElement) and not isinstance(node, nodes.math_block | nodes.term):
        blocks.append([anchor, plain.text(node)])
        return
    for child in node.children:
        _blocks(child, anchor, blocks)


def short(text: str) -> str:
    """Return the beginning of a text, cut at a word."""
    return text if len(text) <= EXCERPT else text[:EXCERPT].rsplit(" ", 1)[0] + " …"


def note(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Keep what a page offers and says; give the search page its script."""
    if app.builder.format != "html":
        return
    if pagename == "search":  # made when all pages are written
        gather(app)
        app.add_js_file("search/places.js")
        app.add_js_file("search.js")
    if doctree is None:
        return
    blocks = texts_of(doctree)
    start: dict[str, str] = {}
    for anchor, text in blocks:
        if len(said := start.get(anchor, "")) <= EXCERPT:
            start[anchor] = f"{said} {text}".strip()
    places = list(places_on(context.get("body", "")))
    for place in places:
        place["text"] = short(
            start.get(place["id"], blocks[0][1] if blocks and place["kind"] == "page" else "")
        )
    for item in doctree.findall(nodes.definition_list_item):
        for term in item.findall(nodes.term):
            if term["ids"] and term["ids"][0].startswith("term-"):
                meaning = " ".join(plain.text(each) for each in item.findall(nodes.definition))
                word = {"kind": "term", "id": term["ids"][0], "number": "", "title": plain.text(term)}
                places.append(word | {"text": short(meaning)})
    blocks = [] if pagename in LISTS else blocks
    for folder, stored in ((Path(app.outdir, TEXTS), {"blocks": blocks}), (_noted(app), {"places": places})):
        path = folder / f"{pagename}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(stored, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


def _noted(app: Sphinx) -> Path:
    """Return where places wait for the search page, also from one build to the next."""
    return Path(app.doctreedir, "places")


def gather(app: Sphinx) -> None:
    """Write the places of all pages into one file, and forget pages that are gone."""
    root = _noted(app)
    for folder in (root, Path(app.outdir, TEXTS)):
        for path in folder.rglob("*.json"):
            if path.relative_to(folder).with_suffix("").as_posix() not in app.env.found_docs:
                path.unlink()
    pages = _order(app.env)
    rows = {(f"chapters/{row.chapter}", row.anchor): row for row in evidence.rows(Path(app.srcdir))}
    authors = {source.code: source.authors for source in evidence.SOURCES}
    listed: list[list[str]] = []
    titles = []
    for number, page in enumerate(pages):
        path = root / f"{page}.json"
        stored = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"places": []}
        found = stored["places"]
        titles.append(next((each["title"] for each in found if each["kind"] == "page"), page))
        mine = {each["id"] for each in found}
        for place in found:
            row = rows.get((page, place["id"]))
            listed.append(_place(page, number, place, row, authors))
        for (home, anchor), row in rows.items():
            if home == page and anchor not in mine and _stands(app.env, home, anchor):
                place = {"kind": row.kind, "id": anchor, "number": "", "title": row.title, "text": ""}
                listed.append(_place(page, number, place, row, authors))
    for number, page in enumerate(pages):
        for place in _names(app.env, page):
            listed.append(_place(page, number, place, None, authors))
    data = {"pages": pages, "titles": titles, "places": listed}
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    target = Path(app.outdir, PLACES)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(f"window.ldPlaces={text};\n", encoding="utf-8")


def _place(
    page: str, number: int, place: dict[str, str], row: evidence.Row | None, authors: dict[str, str]
) -> list[Any]:
    """Return `[kind, page, anchor, number, title, the source's label, source and second title, excerpt]`."""
    label = second = ""
    if row is not None:
        label = "" if row.own or not row.label or row.label.startswith("unnumbered") else row.label
        second = row.title if row.title != place["title"] else ""
        label = f"{label} · {authors[row.source]}" if label and row.source in authors else label
    elif place["kind"] == "page" and page.startswith("chapters/"):
        second = evidence.chapter_name(page)
    return [place["kind"], number, place["id"], place["number"], place["title"], label, second, place["text"]]


def _names(env: BuildEnvironment, page: str) -> Iterator[dict[str, str]]:
    """Yield the library's names that a page explains, classes and functions before their methods."""
    objects = [each for each in env.domains["py"].get_objects() if each[3] == page]
    for name, _, kind, _, anchor, _ in sorted(objects, key=lambda each: (each[0].count("."), each[0])):
        if anchor not in (name, f"module-{name}"):  # another way to the same place
            continue
        yield {"kind": f"library {kind}", "id": anchor, "number": "", "title": name, "text": ""}


def _stands(env: BuildEnvironment, docname: str, anchor: str) -> bool:
    return anchor in getattr(env, "book_anchors", {}).get(docname, set())


def _order(env: BuildEnvironment) -> list[str]:
    """Return the pages in the order of the table of contents; those outside of it come last."""
    found: list[str] = []
    waiting: list[str] = [env.config.root_doc]
    while waiting:
        page = waiting.pop(0)
        if page not in found:
            found.append(page)
            waiting = [each for each in env.toctree_includes.get(page, []) if each not in found] + waiting
    return found + sorted(env.found_docs - set(found))


def setup(app: Sphinx) -> None:
    """Collect while pages are written; the search page is the last."""
    sphinx.search.WordCollector = Words  # type: ignore[misc]  # Sphinx offers no setting for what is indexed
    app.connect("html-page-context", note)
