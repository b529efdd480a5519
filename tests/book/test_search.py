"""The search page finds what a reader types, and shows neither folded code nor raw formulas."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import access
import pytest
from browsing import CHAPTERS, PAGES, Bench, everything_unfolded, needs_chromium
from conftest import ROOT

sys.path.insert(0, str(ROOT / "book/_ext"))

from book_pages import plain  # noqa: E402
from learning_dynamics.ledger import read  # noqa: E402

pytestmark = pytest.mark.pages

MINIMUM_NORM = "chapters/implicit_bias/minimum_norm.html"
POLYAK = "chapters/adaptivity/polyak_steps.html"
OPTIMIZERS = "book/api/optimizers.html#learning_dynamics.optimizers"
FIRST = {
    "Theorem 1.1.1": f"{MINIMUM_NORM}#regularization-thm-9-3",
    "theorem 9.3": f"{MINIMUM_NORM}#regularization-thm-9-3",
    "thm 9.3": f"{MINIMUM_NORM}#regularization-thm-9-3",
    "Thm. 9.3": f"{MINIMUM_NORM}#regularization-thm-9-3",
    "Gradient descent from zero": f"{MINIMUM_NORM}#regularization-thm-9-3",
    "lemma 9.1": f"{MINIMUM_NORM}#regularization-lemma-9-1",
    "Lemma 1.1.1": f"{MINIMUM_NORM}#regularization-lemma-9-1",
    "corollary 9.2": f"{MINIMUM_NORM}#regularization-cor-9-2",
    "cor 9.2": f"{MINIMUM_NORM}#regularization-cor-9-2",
    "theorem 4.1.2": f"{POLYAK}#thesis-thm-4-2-1",
    "DecSPS converges to the minimizer": f"{POLYAK}#thesis-thm-4-2-1",
    "thm A.1.2": "chapters/toolbox/flows_and_diffusions.html#thesis-thm-a-1-2",
    "Figure 1.1.1": f"{MINIMUM_NORM}#fig-minimum-norm-line",
    "eq (1.1.1)": f"{MINIMUM_NORM}#equation-eq-minimum-norm-nearest",
    "chapter 1.1": MINIMUM_NORM,
    "minimum norm": MINIMUM_NORM,
    "implicit bias": "book/parts/implicit_bias.html",
    "momentum": "book/parts/momentum.html",
    "heavy ball": "book/glossary.html#term-heavy-ball",
    "learning_dynamics.momentum": "book/api/momentum.html#module-learning_dynamics.momentum",
    "empirical Fisher": "chapters/curvature/empirical_fisher.html",
    "damping": "chapters/curvature/damping.html",
    "mirror descent": "book/glossary.html#term-mirror-descent",
    "edge of stability": "book/glossary.html#term-edge-of-stability",
    "learning rates": "book/glossary.html#term-learning-rate",
    "Adam": "book/glossary.html#term-Adam",
    "K-FAC": "book/glossary.html#term-K-FAC",
    "kfac": "book/glossary.html#term-KFAC",
    "Hessian-vector products": "book/glossary.html#term-Hessian-vector-product",
    "notation": "book/notation.html",
    "DecSPS": f"{OPTIMIZERS}.DecSPS",
    "AdaGradNorm": f"{OPTIMIZERS}.AdaGradNorm",
    "learning_dynamics.optimizers.NGN": f"{OPTIMIZERS}.NGN",
    "line_control": "book/api/figures.html#learning_dynamics.figures.line_control",
    "double descent": f"{MINIMUM_NORM}#as-many-features-as-images",
}  # fmt: skip


def results(bench: Bench, query: str) -> Any:
    page = bench.look("search", query=f"?q={quote_plus(query)}")
    page.wait_for_selector("#search-results ul.search[data-ready]", state="attached")
    return page


def listed(html: Path) -> dict[str, Any]:
    """What the search page knows."""
    script = (html / "_static/search/places.js").read_text(encoding="utf-8")
    return json.loads(script.removeprefix("window.ldPlaces=").rstrip(";\n"))


def folded_lines(chapter: str) -> set[str]:
    """The lines of code that a chapter's page folds away or leaves out, and shows nowhere else."""
    cells = json.loads(read.notebook_path(ROOT, chapter).read_text(encoding="utf-8"))["cells"]
    lines: dict[bool, set[str]] = {True: set(), False: set()}
    for cell in cells:
        tags = cell["metadata"].get("tags", [])
        away = cell["cell_type"] == "code" and any(
            re.match("(hide|remove)-(cell|input)", tag) for tag in tags
        )
        lines[away] |= {" ".join(line.split()) for line in "".join(cell["source"]).splitlines()}
    return {line for line in lines[True] - lines[False] if len(line) > 20}


@needs_chromium
@pytest.mark.parametrize("query", FIRST)
def test_the_first_hit_is_what_was_meant(query: str, bench: Bench) -> None:
    page = results(bench, query)
    assert page.locator("#search-results li > a").first.get_attribute("href") == FIRST[query]
    shown = page.locator("#search-results").inner_text()
    assert not re.search(r"[\\$]", shown), shown


@needs_chromium
@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_axe_finds_nothing_among_the_results(width: int, theme: str, bench: Bench) -> None:
    if reason := access.missing():
        pytest.skip(reason)
    page = results(bench, "preconditioner")
    everything_unfolded(page, theme, width=width)
    assert page.locator("#search-results li").count() > 10
    assert page.evaluate("() => document.documentElement.scrollWidth") == width
    assert access.faults(page) == []


@needs_chromium
def test_a_number_that_the_book_and_a_source_use_finds_both_the_books_first(bench: Bench) -> None:
    page = results(bench, "Theorem 4.2.1")
    lines = page.locator("#search-results li").all_inner_texts()
    assert lines[0].startswith("Theorem 4.2.1") and "Theorem 4.2.1 · Orvieto" in lines[1]


@needs_chromium
def test_a_name_with_dots_is_shown_where_it_is_used(bench: Bench) -> None:
    page = results(bench, "torch.func")
    assert "torch.func" in page.locator("#search-results li p.context").first.inner_text()


@needs_chromium
@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("preconditoner", "preconditioner"),
        ("natural gradeint", "natural gradient"),
        ("momentun", "momentum"),
        ("poliak step", "polyak step"),
    ],
)
def test_a_misspelt_word_is_understood(typed: str, meant: str, bench: Bench) -> None:
    page = results(bench, typed)
    said = page.locator("#search-results .search-summary").inner_text()
    assert said.startswith(f"Nothing found for “{typed}”. For “{meant}”: ")
    first = page.locator("#search-results li > a").first.get_attribute("href")
    assert first == results(bench, meant).locator("#search-results li > a").first.get_attribute("href")


@needs_chromium
def test_a_word_that_nobody_wrote_is_not_found(bench: Bench) -> None:
    page = results(bench, "zyzzyva")
    assert page.locator("#search-results li").count() == 0
    assert "Nothing found" in page.locator("#search-results").inner_text()


def test_every_statement_is_found_by_its_number_and_its_source(html: Path) -> None:
    places = listed(html)
    known = {(places["pages"][page], anchor) for _, page, anchor, *_ in places["places"]}
    missing = []
    for page in PAGES:
        text = (html / f"{page}.html").read_text(encoding="utf-8")
        for anchor in re.findall(r'<div class="proof [a-z]+ admonition" id="([^"]+)"', text):
            missing += [] if (page, anchor) in known else [f"{page}#{anchor}"]
    assert missing == []
    for record in read.records(ROOT):
        anchor = record["id"].replace(":", "-").replace(".", "-")
        assert (f"chapters/{record['chapter']}", anchor) in known


def test_no_place_is_named_by_a_formula_in_tex(html: Path) -> None:
    words = [word for place in listed(html)["places"] for word in place[3:]]
    assert len(words) > 5000
    assert [word for word in words if re.search(r"\\[A-Za-z(]|\$", word)] == []


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_what_is_searched_is_prose(chapter: str, html: Path) -> None:
    stored = (html / f"_static/search/text/chapters/{chapter}.json").read_text(encoding="utf-8")
    kept = json.loads(stored)
    texts = [text for _, text in kept["blocks"]]
    assert len(texts) > 50
    assert [text for text in texts if re.search(r"\\[A-Za-z(]|\$", text)] == []
    whole = "\n".join(texts)
    assert [line for line in folded_lines(chapter) if line in whole] == []


@pytest.mark.parametrize(
    ("tex", "signs"),
    [
        (r"\theta_{k+1}=\theta_k-\eta_k\,\nabla\mathcal L(\theta_k)", "θₖ₊₁=θₖ-ηₖ ∇L(θₖ)"),
        (r"\lVert X^\top y\rVert^2\le\frac{a+1}{2}", "‖ Xᵀ y‖²≤(a+1)/2"),
        (r"\hat\theta\in\mathbb R^d", "θ̂∈ℝ^d"),
        (r"x = 1\,,\quad y = 2\ .", "x = 1, y = 2."),
        (r"\begin{pmatrix}1&2\end{pmatrix}", plain.SKIPPED),
        (r"\unknown{x}", plain.SKIPPED),
    ],
)  # fmt: skip
def test_a_formula_in_plain_signs(tex: str, signs: str) -> None:
    assert plain.formula(tex) == signs
