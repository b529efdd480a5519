"""Punctuation stays with its formula, and nothing else on the line moves."""

from __future__ import annotations

import sys

from conftest import ROOT
from docutils import nodes
from docutils.utils import new_document

sys.path.insert(0, str(ROOT / "book/_ext"))

from book_pages.binding import BindPunctuation  # noqa: E402


def test_equal_commas_on_a_line_stay_where_they_are() -> None:
    document = new_document("page")
    parts = [nodes.literal("", "A"), ", ", nodes.literal("", "B"), ", ", nodes.math("", "v"), ", "]
    parts += [nodes.math("", "Fv"), ", ", nodes.math("", "w"), " and so on"]
    document += nodes.paragraph(
        "", "", *[nodes.Text(part) if isinstance(part, str) else part for part in parts]
    )
    BindPunctuation(document).run()
    assert document.astext() == "A, B, v, Fv, w and so on"
    bound = [node.astext() for node in document.findall(nodes.inline) if "ld-bound" in node["classes"]]
    assert bound == ["v,", "Fv,"]


def test_a_bracket_stays_with_the_formula_that_it_opens_for_and_a_square_with_the_last_word() -> None:
    document = new_document("page")
    parts = ["A (", nodes.math("", "v"), " and [", nodes.math("", "w"), "], in the end. "]
    parts += [nodes.math("", r"\square")]
    document += nodes.paragraph(
        "", "", *[nodes.Text(part) if isinstance(part, str) else part for part in parts]
    )
    BindPunctuation(document).run()
    assert document.astext() == "A (v and [w], in the end.\u00a0\\square"
    bound = [node.astext() for node in document.findall(nodes.inline) if "ld-bound" in node["classes"]]
    assert bound == ["(v", "[w],"]
