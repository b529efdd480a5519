"""The search box finds results by number and title and opens them at their place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.domains import Domain, ObjType

from book_pages import evidence
from book_pages.anchors import Anchors


class Results(Domain):
    """The inventory's rows that have a place on a page."""

    name = "result"
    label = "Result"
    object_types = {"result": ObjType("result")}

    def get_objects(self) -> Iterator[tuple[str, str, str, str, str, int]]:
        anchors = Anchors(self.env)
        for row in evidence.rows(Path(self.env.srcdir)):
            if anchors.has(row):
                title = row.title if row.label in ("", "unnumbered") else f"{row.label}: {row.title}"
                yield row.id, title, "result", f"chapters/{row.chapter}", row.anchor, 1

    def merge_domaindata(self, docnames: list[str], otherdata: dict[str, Any]) -> None:
        """Nothing is stored here."""


def setup(app: Sphinx) -> None:
    """Register the domain whose objects the search index lists."""
    app.add_domain(Results)
