"""The generated pages, without a browser: a small book with one record of every verdict, rendered by plain Sphinx."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "book/_ext"))

from book_pages import evidence, numbers  # noqa: E402
from book_pages.anchors import shown_id  # noqa: E402
from learning_dynamics.ledger import read  # noqa: E402

COLUMNS = ("id", "source", "label", "kind", "location", "title", "chapter", "must", "note")
CHAPTER = "part/first"
CONF = f"""
import sys
sys.path.insert(0, {str(ROOT / "book/_ext")!r})
project = "Small book"
extensions = ["myst_nb", "sphinx_proof", "book_pages"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
nb_execution_mode = "off"
root_doc = "book/index"
exclude_patterns = ["_build"]
html_theme_options = {{}}
html_theme = "alabaster"
html_baseurl = "https://example.org/"
suppress_warnings = ["config.cache"]
"""
CARD = '<div class="ld-claim ld-card ld-holds"><p id="claim-{id}">{statement}</p><code class="ld-id">{id}</code></div>'
INDEX = """# Small book

:::{scoreboard-strip}
:::

See {chapter}`the first <part/first>`, {chapter}`the second <part/second>` and {part}`the part <part>`.

```{toctree}
find_a_result
errata
../chapters/part/first
```
"""


def row(id: str, **fields: str) -> dict[str, str]:
    """A line of the inventory."""
    default = {
        "source": "003",
        "label": "Theorem 1",
        "kind": "theorem",
        "location": "1",
        "title": f"Title of {id}",
    }
    return {"id": id, "chapter": CHAPTER, "must": "check", "note": ""} | default | fields


def record(id: str, verdict: str, **fields: Any) -> dict[str, Any]:
    """A record as the ledger stores it."""
    return {
        "schema": read.SCHEMA, "id": id, "chapter": CHAPTER, "statement": f"Statement of {id}", "expected": verdict,
        "verdict": verdict, "show": "row", "scale": "book", "device": "cpu", "measured": {"worst": 1e-15},
        "phrase": "1e-15", "rtol": 1e-6, "noise": 0.0, "dtype": "float64", "seeds": [0], "reason": None,
        "correction": None,
        "criterion": {"relation": "<=", "symbols": "|x|", "bound": 1e-9, "sentence": "|x| ≤ 1e-9", "rounding": False,
                      "floor": 0.0},
        "control": {"name": "the printed form", "measured": {"worst": 0.5}, "phrase": "0.5", "passes": False},
    } | fields  # fmt: skip


ROWS = [
    row("regularization:thm-1.1"),
    row("regularization:claim-b", label="unnumbered", kind="claim"),
    row("implicit:fig-1", source="000", kind="figure", label="Figure 1", must="reproduce"),
    row("implicit:fig-2", source="000", kind="figure", label="Figure 2", must="reproduce"),
    row("natgrad:thm-2", source="002", note="wrong as printed: see catalogue"),
    row("natgrad:def-1", source="002", kind="definition", must="state"),
    row("thesis:fig-9", source="004", kind="figure", must="reproduce"),
    row("thesis:eq-1", source="004", kind="equation", must="skip", note="a remark on typography"),
    row("thesis:eq-2", source="004", kind="equation", chapter="part/second"),
    row("thesis:eq-3", source="004", kind="equation"),
    row("representation:thm-3", source="001"),
    row("regularization:beyond-x", kind="beyond", label="", location="beyond"),
]
RECORDS = [
    record("regularization:thm-1.1", "holds", show="card"),
    record("regularization:claim-b", "stated", reason="No <computation> can", criterion=None, control=None),
    record("implicit:fig-1", "reproduced"),
    record("implicit:fig-2", "not reproduced", reason="Measured slope 0.4"),
    record(
        "natgrad:thm-2",
        "corrected",
        correction={"printed": "rate 1/k", "right": "rate 2/k", "evidence": "refereed"},
    ),
    record("thesis:fig-9", "out of reach", reason="Needs 40 hours", criterion=None, control=None),
    record("representation:thm-3", "partly", reason="Two of three"),
    record("regularization:beyond-x", "holds"),
]
FIGURE = {"name": "errors", "columns": {"step": [0, 1], "error": [0.5, "inf"]}}
STATES = {
    "regularization:thm-1.1": "holds",
    "regularization:claim-b": "stated",
    "implicit:fig-1": "reproduced",
    "implicit:fig-2": "not reproduced",
    "natgrad:thm-2": "corrected",
    "natgrad:def-1": "in the text",
    "thesis:fig-9": "out of reach",
    "thesis:eq-1": "skipped",
    "thesis:eq-2": "planned",
    "thesis:eq-3": "open",
    "representation:thm-3": "partly",
    "regularization:beyond-x": "holds",
}


def write_inventory(root: Path, rows: list[dict[str, str]]) -> None:
    path = root / evidence.INVENTORY
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as stream:
        table = csv.DictWriter(stream, COLUMNS)
        table.writeheader()
        table.writerows(rows)


def output(html: str, metadata: dict[str, Any]) -> dict[str, Any]:
    data = {"text/plain": "text", "text/html": html}
    return {"output_type": "display_data", "metadata": metadata, "data": data}


def write_chapter(root: Path, records: list[dict[str, Any]], chapter: str = CHAPTER) -> Path:
    """A notebook with the statements' directives, the records' outputs and one figure's numbers."""
    text = ["# The first chapter\n", "\n"]
    for kind, label in (("theorem", "regularization-thm-1-1"), ("definition", "natgrad-def-1")):
        text += [f":::{{prf:{kind}}} Named\n", f":label: {label}\n", "Words.\n", ":::\n", "\n"]
    outputs = [output(CARD.format(**item), {read.KEY: item}) for item in records]
    outputs.append(output("<p>numbers</p>", {read.NUMBERS_KEY: FIGURE}))
    notebook = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        "cells": [
            {"cell_type": "markdown", "id": "a", "metadata": {}, "source": text},
            {
                "cell_type": "code",
                "id": "b",
                "metadata": {},
                "source": "1",
                "execution_count": 1,
                "outputs": outputs,
            },
        ],
    }
    path = read.notebook_path(root, chapter)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook), encoding="utf-8")
    return path


def write_book(root: Path) -> None:
    write_inventory(root, ROWS)
    write_chapter(root, RECORDS)
    (root / "conf.py").write_text(CONF, encoding="utf-8")
    (root / "book/index.md").write_text(INDEX, encoding="utf-8")
    (root / "book/find_a_result.md").write_text("# Find\n\n:::{scoreboard}\n:::\n", encoding="utf-8")
    (root / "book/errata.md").write_text("# Errata\n\n:::{errata}\n:::\n", encoding="utf-8")


def render(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-n", ".", "_build/html"]
    settings = os.environ | {"NO_COLOR": "1"}
    return subprocess.run(command, cwd=root, env=settings, capture_output=True, text=True)


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rendered small book."""
    root = tmp_path_factory.mktemp("book")
    write_book(root)
    done = render(root)
    assert done.returncode == 0, done.stderr
    return root


def page(root: Path, name: str) -> str:
    return (root / "_build/html" / f"{name}.html").read_text(encoding="utf-8")


def board_rows(html: str) -> dict[str, str]:
    found = re.findall(r'<tr id="row-([^"]+)"(.*?)</tr>', html, flags=re.S)
    assert len({label for label, _ in found}) == len(found), "a result stands twice"
    return dict(found)


# ------------------------------------------------------------------------------------------------------- the real book


def test_reading_the_evidence_needs_no_torch() -> None:
    code = (
        "import sys; from pathlib import Path; from book_pages import evidence; "
        "evidence.rows(Path('.').resolve()); print([m for m in ('torch', 'numpy', 'scipy') if m in sys.modules])"
    )
    paths = os.pathsep.join([str(ROOT / "book/_ext"), str(ROOT / "lib")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_every_inventory_id_is_grouped_once() -> None:
    table = evidence.rows(ROOT)
    grouped = [row.id for _, rows in evidence.groups(table) for row in rows]
    assert sorted(grouped) == sorted(line["id"] for line in read.inventory(ROOT / evidence.INVENTORY))
    assert len({row.anchor for row in table}) == len(table), "two ids share an anchor"


def test_inventory_uses_known_words() -> None:
    for line in read.inventory(ROOT / evidence.INVENTORY):
        assert tuple(line) == COLUMNS
        assert line["must"] in ("check", "reproduce", "state", "skip"), line["id"]
        assert line["must"] != "skip" or line["note"], f"{line['id']}: a skipped result needs its reason"
        assert line["title"] and line["chapter"].count("/") == 1, line["id"]


def test_written_chapters_owe_nothing() -> None:
    """Every result of a written chapter is recorded; `stated` does not discharge a check."""
    owed = []
    for row in evidence.rows(ROOT):
        if not row.written or row.must not in ("check", "reproduce"):
            continue
        if row.record is None or row.record["verdict"] == "stated":
            owed.append(row.id)
    assert owed == []


def test_records_carry_a_reason_where_one_is_due() -> None:
    for item in read.records(ROOT):
        due = item["verdict"] in ("partly", "not reproduced", "out of reach", "stated")
        assert not due or item["reason"], item["id"]
        assert (item["verdict"] == "corrected") == (item["correction"] is not None), item["id"]


@pytest.mark.parametrize(
    "chapter", [name for name in read.chapters(ROOT) if read.notebook_path(ROOT, name).is_file()]
)
def test_records_are_recognized_on_the_page(chapter: str) -> None:
    """The extension finds the id of every record in the record's own HTML."""
    notebook = json.loads(read.notebook_path(ROOT, chapter).read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        for shown in cell.get("outputs", []):
            item = shown.get("metadata", {}).get(read.KEY)
            if item is not None:
                assert shown_id("".join(shown["data"]["text/html"])) == item["id"]


# ------------------------------------------------------------------------------------------------------ the small book


def test_states_of_all_kinds(book: Path) -> None:
    anchors = {"natgrad-def-1"}
    table = evidence.rows(book)
    assert {row.id: row.state(lambda row: row.anchor in anchors) for row in table} == STATES


def test_scoreboard_shows_each_id_once_with_its_verdict(book: Path) -> None:
    rows = board_rows(page(book, "book/find_a_result"))
    assert {label: re.search(r'data-verdict="([^"]+)"', text)[1] for label, text in rows.items()} == {
        evidence.anchor(id): state.replace(" ", "-") for id, state in STATES.items()
    }
    checked = {label for label, text in rows.items() if "data-checked" in text}
    assert checked == {
        evidence.anchor(item["id"]) for item in RECORDS if item["verdict"] not in ("stated", "out of reach")
    }


def test_scoreboard_links_land(book: Path) -> None:
    html = page(book, "book/find_a_result")
    links = re.findall(r'href="\.\./chapters/part/first\.html#([^"]+)"', html)
    assert sorted(links) == sorted(
        evidence.anchor(id) for id, state in STATES.items() if state not in ("skipped", "planned", "open")
    )
    chapter = page(book, "chapters/part/first")
    assert [chapter.count(f'id="{label}"') for label in links] == [1] * len(links)


def test_reasons_are_shown_and_escaped_and_working_notes_are_not(book: Path) -> None:
    html = page(book, "book/find_a_result")
    for words in (
        "No &lt;computation&gt; can",
        "Measured slope 0.4",
        "Needs 40 hours",
        "a remark on typography",
    ):
        assert words in html
    assert "wrong as printed" not in html


def test_totals_and_strip_count(book: Path) -> None:
    html = page(book, "book/find_a_result")
    totals = re.findall(r'data-verdict="([a-z-]+)">[^<]+</a> <b>(\d+)</b>', html)
    assert sum(int(count) for _, count in totals) == len(ROWS)
    assert ("holds", "2") in totals
    strip = page(book, "book/index")
    assert re.findall(r"<b>(\d+)</b> <span>([^<]+)", strip) == [
        ("6", "results checked"),
        ("2", "figures and tables redrawn"),
        ("1", "not reproduced"),
    ]
    assert (
        "5 of the 11 numbered statements, figures and tables of five sources, and 1 result beyond them"
        in strip
    )


def test_errata_lists_what_is_corrected_and_nothing_else(book: Path) -> None:
    html = page(book, "book/errata")
    assert re.findall(r'<article class="ld-erratum" id="erratum-([^"]+)"', html) == ["natgrad-thm-2"]
    for words in ("rate 1/k", "rate 2/k", "Printed form: 0.5", "confirmed by a referee"):
        assert words in html
    assert 'href="../chapters/part/first.html#natgrad-thm-2"' in html


def test_numbers_become_csv(book: Path) -> None:
    path = book / "_build/html/_static/numbers/part/first/errors.csv"
    assert path.read_text(encoding="utf-8") == "step,error\n0,0.5\n1,inf\n"


def test_only_written_chapters_are_linked(book: Path) -> None:
    html = page(book, "book/index")
    assert re.search(r'href="\.\./chapters/part/first\.html"><span[^>]*>the first</span>', html)
    assert re.search(r'(?<!">)<span class="ld-chapter-name">the second</span>', html)


def test_search_page_names_the_results(book: Path) -> None:
    places = (book / "_build/html/_static/search/places.js").read_text(encoding="utf-8")
    assert "Title of regularization:thm-1" in places and "natgrad-def-1" in places
    assert "search/places.js" in page(book, "search")


def test_changed_notebook_renews_the_generated_pages(tmp_path: Path) -> None:
    write_book(tmp_path)
    assert render(tmp_path).returncode == 0
    before = (tmp_path / "_build/html/book/index.html").stat().st_mtime_ns
    assert render(tmp_path).returncode == 0
    assert (tmp_path / "_build/html/book/index.html").stat().st_mtime_ns == before, "nothing had changed"
    changed = [record("regularization:thm-1.1", "partly", reason="A new reason"), *RECORDS[1:-1]]
    write_chapter(tmp_path, changed)
    done = render(tmp_path)
    assert done.returncode == 0, done.stderr
    rows = board_rows(page(tmp_path, "book/find_a_result"))
    assert 'data-verdict="partly"' in rows["regularization-thm-1-1"]
    assert 'data-verdict="open"' in rows["regularization-beyond-x"]
    assert "<b>5</b> <span>results checked" in page(tmp_path, "book/index")
    second = write_chapter(tmp_path, [record("thesis:eq-2", "holds", chapter="part/second")], "part/second")
    text = (
        second.read_text(encoding="utf-8")
        .replace("regularization-thm-1-1", "a-1")
        .replace("natgrad-def-1", "a-2")
    )
    second.write_text(text, encoding="utf-8")
    index = (tmp_path / "book/index.md").read_text(encoding="utf-8")
    index = index.replace("../chapters/part/first\n", "../chapters/part/first\n../chapters/part/second\n")
    (tmp_path / "book/index.md").write_text(index, encoding="utf-8")
    done = render(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "../chapters/part/second.html#thesis-eq-2" in page(tmp_path, "book/find_a_result")


def test_a_new_title_reaches_every_page_and_a_lost_page_goes(tmp_path: Path) -> None:
    """The column on the left of a page names pages that may be renamed or taken out; its words lead to the glossary."""
    write_book(tmp_path)
    index, words = tmp_path / "book/index.md", tmp_path / "book/glossary.md"
    text = index.read_text(encoding="utf-8").replace("find_a_result\n", "find_a_result\nglossary\n")
    index.write_text(text, encoding="utf-8")
    words.write_text("# Glossary\n\n:::{glossary}\nWords\n  Old meaning.\n:::\n", encoding="utf-8")
    assert render(tmp_path).returncode == 0
    assert 'title="Old meaning."' in page(tmp_path, f"chapters/{CHAPTER}")
    words.write_text(words.read_text(encoding="utf-8").replace("Old", "New"), encoding="utf-8")
    find = tmp_path / "book/find_a_result.md"
    find.write_text(find.read_text(encoding="utf-8").replace("# Find", "# Look up"), encoding="utf-8")
    assert render(tmp_path).returncode == 0
    for name in ("book/index", "book/errata", f"chapters/{CHAPTER}"):
        assert ">Look up</a>" in page(tmp_path, name) and ">Find</a>" not in page(tmp_path, name), name
    assert 'title="New meaning."' in page(tmp_path, f"chapters/{CHAPTER}")
    index.write_text(text.replace("glossary\nerrata\n", "glossary\n"), encoding="utf-8")
    (tmp_path / "book/errata.md").unlink()
    done = render(tmp_path)
    assert done.returncode == 0, done.stderr
    made = {
        path.relative_to(tmp_path / "_build/html").as_posix()
        for path in (tmp_path / "_build/html").rglob("*.html")
    }
    assert made == {
        f"{name}.html"
        for name in (
            "404",
            "genindex",
            "search",
            "prf-prf",
            "book/index",
            "book/find_a_result",
            "book/glossary",
        )
    } | {f"chapters/{CHAPTER}.html"}
    assert not [
        name
        for name in made
        if ">Errata</a>" in (tmp_path / "_build/html" / name).read_text(encoding="utf-8")
    ]


def test_the_landing_page_offers_the_pdf_that_is_there(tmp_path: Path) -> None:
    write_book(tmp_path)
    index, pdf = tmp_path / "book/index.md", tmp_path / "book/_build/learning-dynamics.pdf"
    index.write_text(index.read_text(encoding="utf-8") + "\n:::{pdf-link}\n:::\n", encoding="utf-8")
    pdf.parent.mkdir()
    pdf.write_bytes(b"%PDF-1.7" + bytes(3_000_000))
    assert render(tmp_path).returncode == 0
    found = re.search(
        r'<p class="ld-pdf"><a href="([^"]+)" download>[^<]*</a> \(3 MB\)', page(tmp_path, "book/index")
    )
    assert found and (tmp_path / "_build/html/book" / found[1]).read_bytes() == pdf.read_bytes()
    pdf.unlink()
    assert render(tmp_path).returncode == 0
    assert "ld-pdf" not in page(tmp_path, "book/index") and not list((tmp_path / "_build/html").glob("*.pdf"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda item: item | {"id": "thesis:unknown"}, "allowed: those of book/inventory.csv"),
        (lambda item: item | {"chapter": "part/other"}, "allowed by book/inventory.csv: "),
        (lambda item: item | {"schema": 99}, "schema"),
        (lambda item: item | {"verdict": "splendid"}, "; allowed: holds"),
    ],
)
def test_a_wrong_record_stops_the_build(change: Any, message: str, tmp_path: Path) -> None:
    write_book(tmp_path)
    write_chapter(tmp_path, [change(RECORDS[0])])
    done = render(tmp_path)
    assert done.returncode != 0
    assert message in done.stderr


def test_unknown_source_and_uneven_numbers_are_refused(tmp_path: Path) -> None:
    write_book(tmp_path)
    write_inventory(tmp_path, [*ROWS, row("thesis:x", source="777")])
    with pytest.raises(ValueError, match="777"):
        evidence.groups(evidence.rows(tmp_path))
    notebook = write_chapter(tmp_path, RECORDS)
    text = notebook.read_text(encoding="utf-8").replace('"step": [0, 1]', '"step": [0, 1, 2]')
    notebook.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="errors"):
        numbers.write(tmp_path, tmp_path / "out")
