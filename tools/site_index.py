"""What the rendered site calls its theorems, figures, equations and works, and where each of them stands.

Read from the HTML that `make book` wrote, so that a number in a plain notebook is the one that readers of the page see,
and so that every link leads to something that is there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from html import unescape
from pathlib import Path

BOX = re.compile(
    r'<div class="(?:proof (?P<kind>\w+)|(?P<exercise>exercise))[^"]*" id="(?P<id>[^"]*)">\s*'
    r'<p class="admonition-title"><span class="caption-number">(?P<number>[^<]*)</span>'
)
FIGURE = re.compile(r'<figure[^>]* id="(?P<id>[^"]+)">(?P<inside>.*?)</figure>', re.DOTALL)
NUMBER = re.compile(r'<span class="caption-number">([^<]*)</span>')
EQUATION = re.compile(r'id="equation-(?P<id>[^"]+)">\s*<span class="eqno">(?P<number>\([^)]*\))')
CITATION = re.compile(r'<span class="bibtex-citation" id="[^"]*">(.*?)</span>', re.DOTALL)
LINK = re.compile(r'<a [^>]*?href="([^"]*)"[^>]*>(.*?)</a>', re.DOTALL)
TITLE = re.compile(r'<h1>((?:(?!</h1>).)*?)<a class="headerlink"', re.DOTALL)


@dataclass(frozen=True)
class Place:
    """Something with a number or a name: the page it stands on, its id there, and what it is called."""

    page: str
    id: str
    name: str
    kind: str = ""


class Site:
    """The rendered site.

    Args:
        folder: Where `make book` wrote it.
        address: Where it is published, with a slash at the end.
    """

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.address = address
        self.labels: dict[str, Place] = {}
        for path in sorted(folder.glob("chapters/*/*.html")):
            page = path.relative_to(folder).with_suffix("").as_posix()
            for place in (*self.boxes(page), *self.figures(page), *self.equations(page)):
                self.labels[place.id.removeprefix("equation-")] = place

    @cache  # noqa: B019  # one site lives as long as the command
    def html(self, page: str) -> str:
        """Return a page's HTML.

        Raises:
            ValueError: The site has no such page.
        """
        path = self.folder / f"{page}.html"
        if not path.is_file():
            raise ValueError(f"page = {page!r}; allowed: a page of the rendered site (`make book`)")
        return path.read_text(encoding="utf-8")

    @cache  # noqa: B019  # as above
    def ids(self, page: str) -> frozenset[str]:
        """Return the ids of a page."""
        return frozenset(unescape(id) for id in re.findall(r'\sid="([^"]+)"', self.html(page)))

    def boxes(self, page: str) -> list[Place]:
        """Return a page's theorems and exercises in order."""
        return [
            Place(page, match["id"], _text(match["number"]), match["kind"] or "exercise")
            for match in BOX.finditer(self.html(page))
        ]

    def figures(self, page: str) -> list[Place]:
        """Return a page's numbered figures in order."""
        found = [(match["id"], NUMBER.search(match["inside"])) for match in FIGURE.finditer(self.html(page))]
        return [Place(page, id, _text(number[1]), "figure") for id, number in found if number]

    def equations(self, page: str) -> list[Place]:
        """Return a page's labelled equations in order."""
        return [
            Place(page, f"equation-{match['id']}", match["number"], "equation")
            for match in EQUATION.finditer(self.html(page))
        ]

    def citations(self, page: str) -> list[str]:
        """Return a page's citations in order, as Markdown: author and year, with a link to the bibliography."""

        def link(match: re.Match[str]) -> str:
            target, _, id = match[1].partition("#")
            there = (Path("/") / page).parent.joinpath(target).as_posix() if target else f"/{page}.html"
            while "/../" in there:
                there = re.sub(r"/[^/]+/\.\./", "/", there, count=1)
            return f"\0{_text(match[2])}\1{self.link(there[1:].removesuffix('.html'), id)}\2"

        found = []
        for match in CITATION.finditer(self.html(page)):
            text = _text(LINK.sub(link, match[1]))
            found.append(text.replace("\0", "[").replace("\1", "](").replace("\2", ")"))
        return found

    def title(self, page: str) -> str:
        """Return a page's title."""
        match = TITLE.search(self.html(page))
        return re.sub(r"^[\d.]+\s*", "", _text(match[1])) if match else page

    def link(self, page: str, id: str = "") -> str:
        """Return the published address of a page, or of an id on it.

        Raises:
            ValueError: There is no such page, or no such id on it.
        """
        if id and id not in self.ids(page):
            raise ValueError(f"id = {id!r}; allowed: one of the rendered page {page} (`make book`)")
        self.html(page)
        return f"{self.address}{page}.html" + (f"#{id}" if id else "")

    def place(self, label: str) -> Place:
        """Return where a theorem, figure, equation or section with a label stands.

        Raises:
            ValueError: The label stands nowhere.
        """
        if label in self.labels:
            return self.labels[label]
        for path in sorted(self.folder.glob("chapters/*/*.html")) + sorted(
            self.folder.glob("book/**/*.html")
        ):
            page = path.relative_to(self.folder).with_suffix("").as_posix()
            for id in (label, label.replace("_", "-")):
                if id in self.ids(page):
                    return Place(page, id, "")
        raise ValueError(f"label = {label!r}; allowed: one of the rendered site (`make book`)")


def _text(html: str) -> str:
    """Return the words of a piece of HTML."""
    return " ".join(unescape(re.sub(r"<[^>]+>", "", html)).split())
