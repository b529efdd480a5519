"""The HTML of the generated pages. Semantic markup with classes; the look is in `book/_static/book.css`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from book_pages import evidence
from book_pages.anchors import Anchors
from book_pages.evidence import CHECKED, STATES, Row
from learning_dynamics.ledger.cards import formula

BOARD = "book/find_a_result"
EVIDENCE = {
    "refereed": "confirmed by a referee who re-derived it from the source",
    "rederived": "re-derived independently, and shown by the exact counterexample in the chapter",
}


class View:
    """Renders placeholders for one page.

    Args:
        app: The running build.
        docname: The page that the placeholders stand on; links are relative to it.
        table: The inventory's rows.
        anchors: Where the rows stand on their pages.
    """

    def __init__(self, app: Sphinx, docname: str, table: Sequence[Row], anchors: Anchors) -> None:
        self.app = app
        self.docname = docname
        self.table = table
        self.anchors = anchors
        self.groups = {source.code: rows for source, rows in evidence.groups(table)}
        self.sources = [source for source, _ in evidence.groups(table)]
        self.states = {row.id: row.state(anchors.has) for row in table}

    def render(self, place: nodes.Element) -> str:
        """Return the HTML of one placeholder."""
        if place["kind"] == "group":
            return self.group(place["code"])
        return {
            "totals": self.totals,
            "filters": self.filters,
            "scoreboard-strip": self.strip,
            "errata": self.errata,
            "pdf-link": self.pdf_link,
        }[place["kind"]]()

    def strip(self) -> str:
        """One line: results checked, figures redrawn, not reproduced."""
        checked = [row for row in self.table if self.states[row.id] in CHECKED]
        redrawn = [row for row in checked if row.kind in ("figure", "table")]
        failed = [row for row in checked if self.states[row.id] == "not reproduced"]
        cells = [
            (len(checked), "result checked", "results checked", "checked"),
            (len(redrawn), "figure or table redrawn", "figures and tables redrawn", "redrawn"),
            (len(failed), "not reproduced", "not reproduced", "not-reproduced"),
        ]
        board = self._page(BOARD)
        links = "".join(
            f'<li><a href="{board}?verdict={key}"><b>{count}</b> <span>{one if count == 1 else many}</span></a></li>'
            for count, one, many, key in cells
        )
        numbered = sum(row.kind != "beyond" for row in self.table)
        own = sum(row.kind == "beyond" for row in checked)
        return (
            f'<ul class="ld-strip" aria-label="State of the book">{links}</ul>'
            f'<p class="ld-strip-note">{len(checked) - own} of the {numbered} numbered statements, figures and '
            f"tables of five sources, and {own} result{'s' * (own != 1)} beyond them</p>"
        )

    def pdf_link(self) -> str:
        """A link to the book as one PDF, if it has been made."""
        made = Path(self.app.srcdir) / "book" / "_build" / "learning-dynamics.pdf"
        if not made.is_file():
            return ""
        up = "../" * self.docname.count("/")
        size = made.stat().st_size / 1e6
        return f'<p class="ld-pdf"><a href="{up}{made.name}" download>The whole book as one PDF</a> ({size:.0f} MB)</p>'

    def totals(self) -> str:
        """How many rows carry each verdict, as a bar and as a list."""
        count = Counter(self.states.values())
        shown = [state for state in STATES if count[state]]
        width, left, bars = 1000.0, 0.0, []
        for state in shown:
            share = width * count[state] / len(self.table)
            bars.append(
                f'<rect class="{_class(state)}" x="{left:.2f}" y="0" width="{share:.2f}" height="14">'
                f"<title>{count[state]} {state}</title></rect>"
            )
            left += share
        items = "".join(
            f'<li><a class="ld-verdict {_class(state)}" href="?verdict={_slug(state)}" data-verdict="{_slug(state)}">'
            f"{escape(state.capitalize())}</a> <b>{count[state]}</b> <span>{escape(STATES[state])}</span></li>"
            for state in shown
        )
        return (
            f'<div class="ld-totals"><svg viewBox="0 0 {width:.0f} 14" preserveAspectRatio="none" role="img" '
            f'aria-label="Share of each verdict among {len(self.table)} results">{"".join(bars)}</svg>'
            f"<ul>{items}</ul></div>"
        )

    def filters(self) -> str:
        """The search box and three menus; hidden until the script shows them."""
        present = [state for state in STATES if state in self.states.values()]
        verdicts = [("checked", "Checked, any verdict"), ("redrawn", "Figures and tables redrawn")]
        verdicts += [(_slug(state), state.capitalize()) for state in present]
        chapters = {row.chapter: self._chapter_title(row.chapter) for row in self.table}
        menus = [
            ("source", "Source", [(source.prefix, source.name) for source in self.sources]),
            ("chapter", "Chapter", list(chapters.items())),
            ("verdict", "Verdict", verdicts),
        ]
        selects = "".join(
            f'<label>{name} <select name="{key}"><option value="">All</option>'
            + "".join(f'<option value="{escape(value)}">{escape(text)}</option>' for value, text in options)
            + "</select></label>"
            for key, name, options in menus
        )
        return (
            '<form class="ld-filters" role="search" aria-label="Filter the results" hidden>'
            '<label class="ld-find">Find <input type="search" name="find" autocomplete="off" '
            'placeholder="Theorem 9.3, double descent, thesis:fig-4.2 ..."></label>'
            f'{selects}<p><output aria-live="polite"></output> <button type="reset">Show all</button></p></form>'
        )

    def group(self, code: str) -> str:
        """The table of one source."""
        source = next(source for source in self.sources if source.code == code)
        body = "".join(self._row(row, source) for row in self.groups[code])
        return (
            f'<table class="ld-table ld-board" data-source="{source.prefix}"><thead><tr><th scope="col">Number</th>'
            '<th scope="col">Result</th><th scope="col">Chapter</th><th scope="col">Verdict</th></tr></thead>'
            f"<tbody>{body}</tbody></table>"
        )

    def _row(self, row: Row, source: evidence.Source) -> str:
        state = self.states[row.id]
        checked = " data-checked" if state in CHECKED else ""
        redrawn = " data-redrawn" if checked and row.kind in ("figure", "table") else ""
        label = row.kind.capitalize() if row.label in ("", "unnumbered") else row.label
        place = f" <small>§ {escape(row.location)}</small>" if row.location and not row.own else ""
        title = escape(row.title)
        if self.anchors.has(row):
            title = f'<a href="{self._page(f"chapters/{row.chapter}")}#{row.anchor}">{title}</a>'
        why = (row.record or {}).get("reason") or (row.note if state == "skipped" else "")
        why = f'<p class="ld-why">{escape(why)}</p>' if why else ""
        return (
            f'<tr id="row-{row.anchor}" data-chapter="{escape(row.chapter)}" data-verdict="{_slug(state)}"'
            f"{checked}{redrawn}>"
            f'<td>{escape(label)}{place}</td><td>{title} <code class="ld-id">{escape(row.id)}</code>{why}</td>'
            f'<td>{self._chapter_link(row.chapter)}</td><td><span class="ld-verdict {_class(state)}">'
            f"{escape(state.capitalize())}</span></td></tr>"
        )

    def errata(self) -> str:
        """Every corrected record, by source."""
        parts = []
        for source in self.sources:
            cases = [row for row in self.groups[source.code] if self.states[row.id] == "corrected"]
            if cases:
                parts.append(f'<p class="ld-source">{escape(source.name)} ({escape(source.authors)})</p>')
                parts.extend(self._erratum(row) for row in cases)
        if not parts:
            return '<p class="ld-none">The chapters written so far correct nothing.</p>'
        return f'<div class="ld-errata">{"".join(parts)}</div>'

    def _erratum(self, row: Row) -> str:
        record: dict[str, Any] = row.record or {}
        correction, control = record["correction"], record["control"]
        label = row.kind.capitalize() if row.label in ("", "unnumbered") else row.label
        head = f"{escape(label)}, § {escape(row.location)}: {escape(row.title)}"
        link = f"{self._page(f'chapters/{row.chapter}')}#{row.anchor}"
        facts = [
            ("Printed", formula(correction["printed"])),
            ("Right", formula(correction["right"])),
            (
                "Measured",
                f"{escape(record['phrase'])}; asked: {formula(record['criterion']['sentence'])}. "
                f"Printed form: {escape(control['phrase'])}.",
            ),
            ("Evidence", escape(EVIDENCE[correction["evidence"]])),
            ("Where", f'{self._chapter_link(row.chapter)}, <code class="ld-id">{escape(row.id)}</code>'),
        ]
        items = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in facts)
        return (
            f'<article class="ld-erratum" id="erratum-{row.anchor}">'
            f'<p class="ld-sentence"><a href="{link}">{head}</a></p>'
            f'<dl class="ld-facts">{items}</dl></article>'
        )

    def _page(self, docname: str) -> str:
        return self.app.builder.get_relative_uri(self.docname, docname) or "#"

    def _chapter_title(self, chapter: str) -> str:
        title = self.app.env.titles.get(f"chapters/{chapter}")
        return title.astext() if title is not None else evidence.chapter_name(chapter)

    def _chapter_link(self, chapter: str) -> str:
        title = escape(self._chapter_title(chapter))
        docname = f"chapters/{chapter}"
        if docname not in self.app.env.found_docs:
            return title
        return f'<a href="{self._page(docname)}">{title}</a>'


def _slug(state: str) -> str:
    return state.replace(" ", "-")


def _class(state: str) -> str:
    return f"ld-{_slug(state)}"
