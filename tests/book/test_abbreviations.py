"""Cards explain on hover what a newcomer cannot know, and nothing else in them changes."""

from __future__ import annotations

import re
import sys

from conftest import ROOT

sys.path.insert(0, str(ROOT / "book/_ext"))

from book_pages.abbreviations import MEANINGS, explain  # noqa: E402

CARD = (
    '<div class="ld-claim"><p class="ld-evidence"><span class="ld-right">Right: size 2.</span> (refereed).</p>'
    "<dl><dt>Asked</dt><dd>‖size‖ ≤ 100 ε · condition · size</dd><dt>Run</dt><dd>100 ε · size</dd></dl></div>"
)


def test_words_of_the_criterion_and_the_evidence_are_explained() -> None:
    explained = explain(CARD)
    assert re.findall(r"<abbr[^>]*>([^<]*)</abbr>", explained) == ["refereed", "100 ε", "condition", "size"]
    assert "derived it again" in explained and "2.2e-16" in explained


def test_the_text_stays() -> None:
    assert re.sub(r"</?abbr[^>]*>", "", explain(CARD)) == CARD
    assert explain("<p>no card: 100 ε</p>") == "<p>no card: 100 ε</p>"
    assert all("<" not in meaning for meaning in MEANINGS.values())
