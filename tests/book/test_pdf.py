"""The book as one PDF: what `tools/pdf.py` makes of two small pages."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import pdf

pypdf = pytest.importorskip("pypdf", reason="pypdf is in requirements.txt")
pytest.importorskip("playwright.sync_api", reason="Python's playwright is in requirements.txt")

pytestmark = pytest.mark.pages

PAGE = """<html><head></head><body><article id="old"><h1>{title}</h1>
<p>See <a href="{other}.html#place">there</a> and <a href="https://elsewhere.invalid/x">elsewhere</a>.</p>
<details><summary>Proof</summary><p>The proof of {title}.</p></details>
<details class="hide"><summary>Code</summary><div class="cell_input">hidden_code()</div></details>
<div style="height: 1500px"></div><h2 id="place">Place of {title}</h2></article></body></html>"""


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A rendered book of two pages, the second within the first."""
    if pdf.chromium() is None:
        pytest.skip("no Chromium")
    root = Path(pdf.ROOT)
    for name in ("pyproject.toml", "_config.yml"):
        (tmp_path / name).write_text((root / name).read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "_toc.yml").write_text(
        "root: first\nparts:\n  - chapters:\n    - file: second\n      sections:\n      - file: third\n",
        encoding="utf-8",
    )
    html = tmp_path / "html"
    html.mkdir()
    for name, other in (("first", "third"), ("second", "first"), ("third", "second")):
        text = PAGE.format(title=name.title(), other=other)
        (html / f"{name}.html").write_text(text, encoding="utf-8")
    (html / "index.html").write_text("", encoding="utf-8")
    monkeypatch.setattr(pdf, "ROOT", tmp_path)
    monkeypatch.setattr(pdf, "HTML", html)
    with ThreadPoolExecutor(1) as apart:  # a second browser, which a thread with an open one refuses
        apart.submit(pdf.write, tmp_path / "book.pdf").result()
    return tmp_path / "book.pdf"


def test_pages_are_joined_with_outline_numbers_and_links(small: Path) -> None:
    reader = pypdf.PdfReader(small)
    text = [sheet.extract_text() for sheet in reader.pages]
    assert "The proof of First" in "".join(text) and "hidden_code" not in "".join(text)

    first, second, inner = reader.outline
    assert [first.title, second.title, inner[0].title] == ["First", "Second", "Third"]
    start = {entry.title: reader.get_destination_page_number(entry) for entry in (first, second, inner[0])}
    assert f"{start['Third'] + 1}" in text[start["Third"]]
    goals = []
    for number, sheet in enumerate(reader.pages):
        for link in sheet.get("/Annots", []):
            link = link.get_object()
            if "/Dest" in link:
                goal = reader.get_page_number(link["/Dest"][0].get_object())
                goals.append((number, "Place of" in text[goal], goal))
            else:
                assert link["/A"]["/URI"] == "https://elsewhere.invalid/x"
    assert len(goals) == 3 and all(found for _, found, _ in goals)
    assert next(goal for number, _, goal in goals if number >= start["Third"]) in range(
        start["Second"], start["Third"]
    )


def test_without_a_rendered_book_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "HTML", tmp_path)
    monkeypatch.setattr(pdf, "chromium", lambda: "chromium")
    with pytest.raises(FileNotFoundError, match="allowed: a rendered book"):
        pdf.write(tmp_path / "book.pdf")
    assert not (tmp_path / "book.pdf").exists()
