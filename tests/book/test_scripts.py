"""Indices and powers in cards and tables leave the line; names of code stay whole."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from browsing import CHAPTERS
from conftest import ROOT

sys.path.insert(0, str(ROOT / "book/_ext"))

from book_pages.scripts import shift  # noqa: E402


@pytest.mark.parametrize(
    ("plain", "shifted"),
    [
        ("1/(2L_i) and tr_C(U)", "1/(2L<sub>i</sub>) and tr<sub>C</sub>(U)"),
        ("‖u_0‖² ≤ η_max", "‖u<sub>0</sub>‖² ≤ η<sub>max</sub>"),
        ("k^(−2ρ), e^(−a(t−s)), z^2/4", "k<sup>−2ρ</sup>, e<sup>−a(t−s)</sup>, z<sup>2</sup>/4"),
        ("vec W^(j)", "vec W<sup>(j)</sup>"),
        ("max{a, b}^(2ρ − 3)", "max{a, b}<sup>2ρ − 3</sup>"),
        ("x_{k+1}, ρ^{k−1}", "x<sub>k+1</sub>, ρ<sup>k−1</sup>"),
        ("lower_bound, layer_1, label_noise", "lower_bound, layer_1, label_noise"),
        ('<a href="x_1">v_1</a> <code>v_1</code>', '<a href="x_1">v<sub>1</sub></a> <code>v_1</code>'),
    ],
)
def test_what_is_lowered_and_raised(plain: str, shifted: str) -> None:
    assert shift(plain) == shifted
    assert shift(shifted) == shifted


@pytest.mark.pages
@pytest.mark.parametrize(
    "page", [*(f"chapters/{chapter}" for chapter in CHAPTERS), "book/find_a_result", "book/errata"]
)
def test_no_index_or_power_stands_on_the_line(page: str, html: Path) -> None:
    """In what cards, rows and tables of source / here say; commands of code are left out."""
    text = (html / f"{page}.html").read_text(encoding="utf-8")
    places = re.findall(
        r'<(?:p class="ld-(?:sentence|evidence|why)"|th|td|dd|summary)[^>]*>.*?</(?:p|th|td|dd|summary)>',
        text,
        re.DOTALL,
    )
    said = [re.sub(r"<code.*?</code>|<span class=.math.*?</span>|<[^>]+>", "", place) for place in places]
    assert len(said) > 5
    raw = [
        re.search(r"\S*(?:(?<![A-Za-z]{3})[^\W_]_[A-Za-z0-9{](?!\w)|[\w‖|)}]\^)\S*", each) for each in said
    ]
    assert [found[0] for found in raw if found] == []
