"""Print the rendered book into one PDF with cover, outline, page numbers and links that work; this is `make pdf`.

Chromium prints the pages of `_toc.yml` in their order, proofs and answers open and without the code that they fold, and
the sheets are joined into `book/_build/learning-dynamics.pdf`. The next `make book` offers it on the landing page.
"""

from __future__ import annotations

import functools
import http.server
import io
import os
import shutil
import sys
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import yaml
from bs4 import BeautifulSoup, Tag
from pypdf import PdfReader, PdfWriter
from pypdf.generic import ArrayObject, FloatObject, IndirectObject, NameObject, NullObject

ROOT = Path(__file__).resolve().parents[1]
HTML = ROOT / "book" / "_build" / "html"
TARGET = ROOT / "book" / "_build" / "learning-dynamics.pdf"
ONE_PAGE = "page-for-print"
JOIN = "https://join.invalid/"
NOT_PRINTED = (
    "script, details.hide:has(div.cell_input), .headerlink, .ld-filters, .copybtn, .ld-widget button, "
    ".ld-widget input, p.ld-numbers, .ld-pdf"
)


def pages() -> Iterator[tuple[str, int]]:
    """Yield the pages that `_toc.yml` lists, in order, each with its depth: 0 for a page, 1 for one within a part."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))

    def below(entries: list[dict[str, Any]], depth: int) -> Iterator[tuple[str, int]]:
        for entry in entries:
            yield entry["file"], depth
            yield from below(entry.get("sections", []), depth + 1)

    yield toc["root"], 0
    for part in toc["parts"]:
        yield from below(part["chapters"], 0)


def place(page: str, fragment: str = "") -> str:
    """Return the id that a place of a page has in the one document."""
    return page.replace("/", "-") + (f"--{fragment}" if fragment else "")


def printed(page: str, known: set[str], wanted: set[str], cover: str = "") -> str:
    """Return a rendered page as it is printed: ids of the whole book, everything open, links ready to be joined.

    Args:
        page: its name, without ending.
        known: the names of all printed pages; a link to another page of them becomes one to `JOIN`.
        wanted: receives the places that the page's links lead to.
        cover: HTML in front of the article.
    """
    soup = BeautifulSoup((HTML / f"{page}.html").read_text(encoding="utf-8"), "html.parser")
    article = soup.select_one("article")
    if article is None or soup.head is None:
        raise ValueError(f"page = {page!r}; allowed: a rendered page, with an article")
    for node in article.select(NOT_PRINTED):
        node.decompose()
    for node in article.find_all(id=True):
        node["id"] = place(page, str(node["id"]))
    article["id"] = place(page)
    for link in article.find_all("a", href=True):
        parts = urlsplit(str(link["href"]))
        if parts.scheme or parts.netloc:
            continue
        target, fragment = urldefrag(urljoin(f"/{page}.html", str(link["href"])))
        name = unquote(urlsplit(target).path).strip("/").removesuffix(".html")
        if name in known:
            wanted.add(place(name, fragment))
            link["href"] = ("" if name == page else JOIN) + f"#{place(name, fragment)}"
        else:
            del link["href"]
    for image in article.find_all("img", src=True):
        image["src"] = urljoin(f"/{page}.html", str(image["src"]))
        del image["loading"]
    for fold in article.find_all("details"):
        fold["open"] = ""
    for node in soup.head.find_all(["link", "script"]):
        for name in ("href", "src"):
            if node.has_attr(name):
                node[name] = urljoin(f"/{page}.html", str(node[name]))
    scripts = "".join(str(node) for node in soup.head.find_all("script") if _sets_formulas(node))
    styles = "".join(str(node) for node in soup.head.find_all(["link", "style", "meta"]))
    return (
        f'<!DOCTYPE html><html lang="en" data-theme="light"><head>{styles}{scripts}</head><body class="ld-print">'
        f'<main class="bd-content">{cover}{article}</main></body></html>'
    )


def _sets_formulas(script: Tag) -> bool:
    return "mathjax" in str(script.get("src", "")).lower() or "MathJax" in script.text


def cover() -> str:
    """Return the cover: title, authors, release, licences, address."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    return (
        f'<section class="ld-cover"><p class="ld-cover-title">{config["title"]}</p>'
        f"<p>An executable textbook on the dynamics of learning</p><p>{config['author']}</p>"
        f"<p>Release {version}. Text and figures CC BY 4.0, code MIT.</p><p>{config['repository']['url']}</p></section>"
    )


def joined(parts: list[tuple[str, int, bytes]]) -> PdfWriter:
    """Return one document of the printed pages: outline of their titles, page numbers, links between them.

    Args:
        parts: name, depth and PDF of each page, in order.
    """
    writer = PdfWriter()
    places: dict[str, tuple[int, float]] = {}
    above: IndirectObject | None = None
    for name, depth, content in parts:
        reader = PdfReader(io.BytesIO(content))
        first = len(writer.pages)
        for target, spot in reader.named_destinations.items():
            number = reader.get_destination_page_number(spot)
            if number is not None:
                places[target.lstrip("/")] = (first + number, float(spot.top or 0))
        for sheet in reader.pages:
            writer.add_page(sheet)
        title = _title(name)
        item = writer.add_outline_item(title=title, page_number=first, parent=above if depth else None)
        if not depth:
            above = item
        places.setdefault(place(name), (first, 1e4))
    for sheet in writer.pages:
        for annotation in sheet.get("/Annots", []):
            _join(writer, annotation.get_object(), places)
    return writer


def _sheet_style(before: int, title: str) -> str:
    """Return the style of the sheets: margins, the page's title above, the number of the sheet in the book below."""
    words = title.replace("\\", "").replace('"', "'")
    return (
        "@page { margin: 18mm; @bottom-center { content: counter(page); font: 9pt sans-serif; color: #555 } "
        f'@top-right {{ content: "{words}"; font: 8pt sans-serif; color: #555 }} }} '
        f"html {{ counter-reset: page {before} }}"
    )


def _title(page: str) -> str:
    soup = BeautifulSoup((HTML / f"{page}.html").read_text(encoding="utf-8"), "html.parser")
    heading = soup.select_one("article h1")
    return heading.get_text().rstrip("#").strip() if heading else page


def _join(writer: PdfWriter, annotation: Any, places: dict[str, tuple[int, float]]) -> None:
    """Let a link lead to its page and height, if it is one within the book."""
    action = annotation.get("/A", {})
    address = str(action.get("/URI", ""))
    name = (
        address.partition("#")[2]
        if address.startswith(JOIN)
        else str(annotation.get("/Dest", "")).lstrip("/")
    )
    if not name:
        return
    if name not in places and "--" in name:
        name = name.partition("--")[0]
    if name not in places:
        return
    number, top = places[name]
    annotation.pop("/A", None)
    annotation[NameObject("/Dest")] = ArrayObject(
        [
            writer.pages[number].indirect_reference,
            NameObject("/XYZ"),
            NullObject(),
            FloatObject(top),
            NullObject(),
        ]
    )


def chromium() -> str | None:
    """Return the browser that prints: the one that CHROMIUM names, or one on the PATH."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def write(target: Path = TARGET) -> None:
    """Print the book.

    Raises:
        FileNotFoundError: the book is not rendered, or there is no Chromium.
    """
    from playwright.sync_api import sync_playwright

    program = chromium()
    if program is None:
        raise FileNotFoundError("Chromium = none; allowed: one on the PATH, or named by CHROMIUM")
    if not (HTML / "index.html").is_file():
        raise FileNotFoundError("book/_build/html = none; allowed: a rendered book (make book)")
    listed = list(pages())
    known, wanted = {page for page, _ in listed}, set[str]()
    texts = [
        printed(page, known, wanted, "" if number else cover()) for number, (page, _) in enumerate(listed)
    ]
    every = "".join(
        f'<a href="#{name}"></a>' for name in sorted(wanted)
    )  # a place is named only if a link leads to it
    served = {f"/{ONE_PAGE}-{number}.html": text for number, text in enumerate(texts)}

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path not in served:
                super().do_GET()
                return
            content = served[self.path].replace("</main>", f"{every}</main>").encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=str(HTML))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    parts: list[tuple[str, int, bytes]] = []
    try:
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
            sheets = 0
            for (name, depth), path in zip(listed, served, strict=True):
                page = browser.new_page()
                page.set_default_timeout(120_000)
                page.goto(f"http://127.0.0.1:{server.server_port}{path}")
                page.evaluate("() => window.MathJax?.startup?.promise")
                page.evaluate("() => document.fonts.ready")
                page.add_style_tag(content=_sheet_style(sheets, _title(name)))
                content = page.pdf(format="A4", print_background=True, tagged=True)
                page.close()
                sheets += len(PdfReader(io.BytesIO(content)).pages)
                parts.append((name, depth, content))
            browser.close()
    finally:
        server.shutdown()
        server.server_close()
    writer = joined(parts)
    writer.add_metadata({"/Title": "Learning Dynamics: an executable textbook"})
    writer.compress_identical_objects(remove_duplicates=True, remove_unreferenced=True)
    for sheet in writer.pages:
        sheet.compress_content_streams()
    part = target.with_suffix(".part")
    writer.write(part)
    part.replace(target)


def main() -> int:
    try:
        write()
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{TARGET.relative_to(ROOT)}: {TARGET.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
