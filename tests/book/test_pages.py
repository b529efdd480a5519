"""The rendered book: built without a warning, and every page of it looked at in real Chromium."""

from __future__ import annotations

import functools
import io
import re
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import access
import nbformat
import pytest
from browsing import CHAPTERS, CONFIG, PAGES, Bench, needs_chromium
from conftest import ROOT
from PIL import Image
from visits import TYPESET_SECONDS, Visit

sys.path.insert(0, str(ROOT / "book/_ext"))

from book_pages import surface  # noqa: E402
from book_pages.surface import LIBRARY, Module  # noqa: E402
from learning_dynamics import figures  # noqa: E402
from learning_dynamics.ledger import read  # noqa: E402
from learning_dynamics.ledger.cards import anchor  # noqa: E402

pytestmark = pytest.mark.pages

MOST_CARDS = 8
MOST_PAGE_BYTES = 1_500_000
MOST_SITE_BYTES = 40_000_000
SMALLEST_WORDS = 7.0  # pixels of the page, on the axes of a figure

ROOMS = surface.rooms(ROOT)


# ----------------------------------------------------------------------------------------------------------- the render


@pytest.mark.timeout(1200)  # it renders the whole book
def test_render_has_no_warning(render: list[str]) -> None:
    assert render == []


def test_every_page_is_rendered(html: Path) -> None:
    assert [name for name in PAGES if not (html / f"{name}.html").is_file()] == []
    assert (html / "index.html").is_file()
    assert (html / ".nojekyll").is_file()


def test_site_is_small(html: Path) -> None:
    """Without the book as one PDF, which is there after `make pdf` and is fetched by those who want it."""
    files = [path for path in html.rglob("*") if path.is_file() and path.suffix != ".pdf"]
    assert sum(path.stat().st_size for path in files) < MOST_SITE_BYTES


class Page(HTMLParser):
    """What a page's file holds: ids, links, images, open cards."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.loads: list[str] = []
        self.cards = 0
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if values.get("id"):
            self.ids.append(values["id"] or "")
        if tag == "a" and values.get("href"):
            self.links.append(values["href"] or "")
        if tag == "img":
            self.images.append(values)
        if tag in ("img", "script", "iframe", "source", "video", "link") and values.get("rel") not in (
            "next",
            "prev",
            "canonical",
        ):
            self.loads.append(values.get("src") or values.get("href") or "")
        classes = (values.get("class") or "").split()
        self.cards += "ld-card" in classes and "ld-claim" in classes


@functools.cache
def parsed(path: Path) -> Page:
    return Page(path)


@pytest.fixture(scope="module")
def page_of(html: Path) -> Any:
    parsed.cache_clear()
    return lambda name: parsed(html / f"{name}.html")


@pytest.mark.parametrize("name", PAGES)
def test_every_link_within_the_site_lands(name: str, html: Path, page_of: Any) -> None:
    broken = []
    for link in page_of(name).links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target, fragment = urldefrag(urljoin(f"/{name}.html", link))
        path = html / unquote(urlsplit(target).path).lstrip("/")
        if not path.is_file() or (fragment and path.suffix == ".html" and fragment not in parsed(path).ids):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("name", PAGES)
def test_page_loads_from_its_own_host_only(name: str, html: Path, page_of: Any) -> None:
    assert [address for address in page_of(name).loads if urlsplit(address).netloc] == []
    text = (html / f"{name}.html").read_text(encoding="utf-8")
    assert [host for host in ("unpkg", "jsdelivr", "cdnjs", "googleapis") if host in text] == []


@pytest.mark.parametrize("name", PAGES)
def test_every_image_says_what_it_shows(name: str, page_of: Any) -> None:
    silent = [image.get("src") for image in page_of(name).images if not (image.get("alt") or "").strip()]
    assert silent == []


@pytest.mark.parametrize("name", PAGES)
def test_page_is_light_and_not_crowded(name: str, html: Path, page_of: Any) -> None:
    page = page_of(name)
    path = html / f"{name}.html"
    images = {
        (path.parent / unquote(image["src"] or "")).resolve()
        for image in page.images
        if image["src"] and image.get("loading") != "lazy"
    }
    own = [image for image in images if image.is_file()]
    assert path.stat().st_size + sum(image.stat().st_size for image in own) < MOST_PAGE_BYTES
    assert page.cards <= MOST_CARDS


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_record_has_its_anchor_once(chapter: str, page_of: Any) -> None:
    ids = page_of(f"chapters/{chapter}").ids
    labels = [anchor(record["id"]) for record in read.notebook_records(read.notebook_path(ROOT, chapter))]
    assert {label: ids.count(label) for label in labels if ids.count(label) != 1} == {}


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_colab_opens_the_chapters_own_notebook(chapter: str, page_of: Any) -> None:
    """The plain one, which `tools/plain.py` makes for the branch `notebooks`."""
    repository = CONFIG["repository"]["url"].removeprefix("https://github.com/")
    own = f"{CONFIG['launch_buttons']['colab_url']}/github/{repository}/blob/notebooks/{chapter}.ipynb"
    assert own in [link for link in page_of(f"chapters/{chapter}").links if "colab" in link]
    assert read.notebook_path(ROOT, chapter).is_file()


def test_scoreboard_lists_every_result_once_and_leads_to_it(page_of: Any) -> None:
    board = page_of("book/find_a_result")
    rows = [id for id in board.ids if id.startswith("row-")]
    inventory = [anchor(line["id"]) for line in read.inventory(ROOT / "book/inventory.csv")]
    assert sorted(rows) == sorted(f"row-{label}" for label in inventory)
    recorded = {anchor(record["id"]): record["chapter"] for record in read.records(ROOT)}
    shown = {chapter for chapter in CHAPTERS}
    missing = [
        label
        for label, chapter in recorded.items()
        if chapter in shown and f"../chapters/{chapter}.html#{label}" not in board.links
    ]
    assert missing == []


def test_figures_numbers_are_written_and_linked(html: Path, page_of: Any) -> None:
    for chapter in CHAPTERS:
        names = [
            figure["name"]
            for figure in read.notebook_records(read.notebook_path(ROOT, chapter), read.NUMBERS_KEY)
        ]
        for name in names:
            lines = (html / f"_static/numbers/{chapter}/{name}.csv").read_text(encoding="utf-8").splitlines()
            assert len(lines) > 1 and len(lines[0].split(",")) == len(lines[1].split(","))


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_gallery_leads_to_every_named_figure_and_moving_part(chapter: str, html: Path, page_of: Any) -> None:
    gallery = page_of("book/gallery")
    text = (ROOT / "chapters" / f"{chapter}.py").read_text(encoding="utf-8")
    names = re.findall(r'mystnb=\{"figure": \{.*?"name": "([\w-]+)"', text)
    assert [name for name in names if f"../chapters/{chapter}.html#{name}" not in gallery.links] == []
    shown = (html / "book" / "gallery.html").read_text(encoding="utf-8")
    assert all(part in shown for part in re.findall(r'data-widget="[\w-]+"', text))
    small = [image["src"] or "" for image in gallery.images if "/small/" in (image["src"] or "")]
    assert [name for name in small if not (html / "book" / name).is_file()] == []


def test_first_use_of_a_word_leads_to_the_glossary_and_says_what_it_means(html: Path, page_of: Any) -> None:
    entries = {id for id in page_of("book/glossary").ids if id.startswith("term-")}
    assert len(entries) > 50
    used: set[str] = set()
    for chapter in CHAPTERS:
        text = (html / f"chapters/{chapter}.html").read_text(encoding="utf-8")
        links = re.findall(
            r'<a class="ld-term[^"]*" href="[^"]*glossary.html#(term-[\w-]+)" title="([^"]+)"', text
        )
        places = [place for place, _ in links]
        assert len(places) == len(set(places)) and set(places) <= entries, chapter
        assert all(len(meaning) > 20 and "\\" not in meaning for _, meaning in links), chapter
        used |= set(places)
    assert len(used) > 30


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_link_to_a_statement_says_what_it_states(chapter: str, html: Path, page_of: Any) -> None:
    """Also to an equation and to a figure; on hover, in plain signs."""
    text = (html / f"chapters/{chapter}.html").read_text(encoding="utf-8")
    body = text[text.index("<article") : text.index("</article>")]
    goals = re.findall(r'<(?:div|figure) class="(?:proof |exercise |math |align)[^"]*" id="([^"]+)"', body)
    links = [
        (found[1], re.search(r'title="([^"]+)"', found[0]))
        for found in re.findall(r'(<a class="reference internal" href="#([^"]+)"[^>]*>)', body)
    ]
    assert [goal for goal, title in links if goal in goals and title is None] == []
    assert [
        title[1] for _, title in links if title is not None and re.search(r"\\[A-Za-z]|\$", title[1])
    ] == []


def test_search_engines_find_a_description_of_every_page(html: Path) -> None:
    listed = (html / "sitemap.xml").read_text(encoding="utf-8")
    owner, name = CONFIG["repository"]["url"].removeprefix("https://github.com/").split("/")
    for page in PAGES:
        text = (html / f"{page}.html").read_text(encoding="utf-8")
        assert f"https://{owner}.github.io/{name}/{page}.html" in listed
        for key in (
            'name="description"',
            'property="og:title"',
            'property="og:description"',
            'property="og:url"',
        ):
            assert re.search(rf'<meta {key} content="[^"]+"', text), (page, key)
        assert 'property="og:site_name" content="Learning Dynamics"' in text


def test_a_link_that_leads_nowhere_is_told_where_to_go(html: Path) -> None:
    page = Page(html / "404.html")
    start = "/" + CONFIG["repository"]["url"].rsplit("/", 1)[1] + "/"
    inner = [link for link in page.links if not link.startswith(("http", "#", "mailto"))]
    assert inner and all(link.startswith(start) for link in inner)
    text = (html / "404.html").read_text(encoding="utf-8")
    told = re.findall(r'href="([^"#]+)"', text[text.index("<article") : text.index("</article>")])
    assert {f"{start}{name}.html" for name in ("search", "book/find_a_result", "book/index")} <= set(told)


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.path.rpartition(".")[2])
def test_reference_has_every_public_name_with_its_source(room: Module, page_of: Any) -> None:
    page = page_of(f"book/api/{room.path.rpartition('.')[2]}")
    names = list(room.all_names())
    assert [name.path for name in names if page.ids.count(name.path) != 1] == []
    sources = [link for link in page.links if f"/{LIBRARY}/" in link]
    missing = [
        name.path
        for name in names
        if name.kind != "data"
        and not any(f"/{name.file.relative_to(ROOT).as_posix()}#L" in link for link in sources)
    ]
    assert missing == []


def test_reference_leads_to_the_chapters_that_use_a_name(html: Path) -> None:
    text = (html / "book/api/optimizers.html").read_text(encoding="utf-8")
    own = text[text.index('id="learning_dynamics.optimizers.NGN"') :]
    used = own[own.index("ld-used-in") :].partition("</p>")[0]
    assert "chapters/adaptivity/gauss_newton_steps.html" in used and "minimum_norm" not in used


# ---------------------------------------------------------------------------------------------------------- the browser


@pytest.fixture(scope="module", params=[*PAGES, "search", "genindex"])
def visit(request: pytest.FixtureRequest, site: Bench) -> Visit:
    """What one visit to a page found: it is opened once for all that is asked of it."""
    return Visit(site, request.param)


@needs_chromium
def test_page_opens_without_complaint_and_is_typeset(visit: Visit) -> None:
    assert visit.title
    assert visit.formulas == {"untouched": [], "failed": [], "raw": []}
    assert visit.complaints == []


@needs_chromium
def test_page_is_typeset_in_time(visit: Visit) -> None:
    """All formulas once more, with everything unfolded; the best of five, since the machine is shared."""
    assert min(each["seconds"] for each in visit.typeset) < TYPESET_SECONDS
    for each in visit.typeset:
        assert each["seconds"] >= 1e-5 * each["formulas"]  # else nothing was measured


@needs_chromium
@pytest.mark.parametrize("width", [360, 390, 768, 1280])
def test_page_fits_its_window_and_no_formula_is_cut(width: int, visit: Visit) -> None:
    assert visit.fits[width] == {"width": width, "faults": []}
    assert visit.complaints == []


@needs_chromium
@pytest.mark.parametrize("width", [360, 390, 768, 1280])
def test_code_is_read_without_scrolling(width: int, visit: Visit) -> None:
    """Longer lines go on below; lines of 88 characters stay whole in a window of 1280 pixels, of 78 in one of 768."""
    assert visit.code[width] == {"scrolls": [], "broken": []}


@needs_chromium
@pytest.mark.parametrize("width", [360, 390])
def test_words_on_axes_are_legible_on_a_phone(width: int, visit: Visit) -> None:
    """Figures that would shrink too far scroll sideways."""
    size = figures.STYLE["xtick.labelsize"] / 72 * figures.STYLE["savefig.dpi"]
    sizes = [round(share * size, 2) for share in visit.shares[width]]
    assert [size for size in sizes if size < SMALLEST_WORDS] == []


@needs_chromium
def test_words_of_a_comparison_have_the_width_of_a_phone(visit: Visit) -> None:
    """Beside three columns of values a row would hold a word a line."""
    assert [round(share, 2) for share in visit.heads if share < 0.6] == []


@needs_chromium
@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (1280, "dark"), (390, "dark")])
def test_page_is_legible(width: int, theme: str, visit: Visit) -> None:
    assert visit.pale[width, theme] == []


@needs_chromium
@pytest.mark.parametrize(("width", "theme"), [(390, "dark"), (1280, "light")])
def test_axe_finds_nothing(width: int, theme: str, visit: Visit) -> None:
    """Every rule of WCAG 2 A and AA, everything unfolded; `test_page_is_legible` has both themes for every text."""
    if reason := access.missing():
        pytest.skip(reason)
    assert visit.axe[width, theme] == []
    assert visit.complaints == []


@needs_chromium
def test_moving_parts_live_on_a_phone(visit: Visit, html: Path) -> None:
    text = (html / f"{visit.name}.html").read_text(encoding="utf-8")
    names = re.findall(r'<div[^>]*data-widget="([a-z-]+)"', text)
    assert [part["name"] for part in visit.parts] == names
    for part in visit.parts:
        assert part["ready"] and part["left"] >= 0 and part["right"] <= 390, part
        assert part["readouts"] and all(words.strip() for words in part["readouts"]), part


@needs_chromium
def test_paper_shows_every_proof(bench: Bench) -> None:
    page = bench.open(f"chapters/{CHAPTERS[0]}", theme="dark")
    shut = "() => document.querySelectorAll('details:not([open])').length"
    before = page.evaluate(shut)
    page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    assert before > 5 and page.evaluate(shut) == 0 and page.get_attribute("html", "data-theme") == "light"
    page.evaluate("() => dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(shut) == before and page.get_attribute("html", "data-theme") == "dark"


# What reaches over the edge of a sheet of A4 with usual margins, or is cut off by what holds it, and pale words.
ON_PAPER = """() => {
  const article = document.querySelector("article");
  const edge = article.getBoundingClientRect().right + 1;
  const shown = (selector) => [...article.querySelectorAll(selector)].filter((node) => node.getClientRects().length);
  const name = (node) => `${node.tagName} ${node.textContent.trim().slice(0, 40)}`;
  const wide = (node) => node.getBoundingClientRect().right > edge;
  const over = shown("pre, table, img, mjx-container, .ld-widget").filter(wide);
  const hides = (node) => ["auto", "hidden", "scroll"].includes(getComputedStyle(node).overflowX);
  const cut = shown("pre, div, p, li, td").filter((node) => node.scrollWidth > node.clientWidth + 2
    && hides(node) && !node.closest("mjx-container, .ld-widget"));
  const text = article.querySelector("p");
  return { over: over.map(name), cut: cut.map(name), ink: getComputedStyle(text).color };
}"""


@needs_chromium
@pytest.mark.parametrize(
    "name",
    [
        "book/how_to_run",
        "book/find_a_result",
        "book/api/curvature",
        "chapters/recurrence/linear_recurrent_units",
    ]
    + [f"chapters/{CHAPTERS[0]}", "chapters/implicit_bias/sparse_recovery"],
)
def test_nothing_is_cut_on_paper(name: str, bench: Bench) -> None:
    page = bench.open(name, width=680, theme="dark")
    page.emulate_media(media="print")
    page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    found = page.evaluate(ON_PAPER)
    ink = [int(value) for value in re.findall(r"\d+", found.pop("ink"))[:3]]
    assert found == {"over": [], "cut": []} and max(ink) < 90


@needs_chromium
def test_keyboard_stops_at_links_and_folds_not_at_formulas(bench: Bench) -> None:
    page = bench.open(f"chapters/{CHAPTERS[0]}")
    assert (
        page.locator("mjx-container").count() > 50
        and page.locator("mjx-container[tabindex='0']").count() == 0
    )
    assert page.locator("summary[aria-label='Toggle hidden content']").count() == 0
    nameless = page.evaluate(
        "() => [...document.querySelectorAll('summary')].filter("
        "(node) => !node.textContent.trim() && !node.getAttribute('aria-label')).length"
    )
    assert nameless == 0


@needs_chromium
def test_code_is_copied_as_it_was_written(bench: Bench) -> None:
    """As the button takes it, and as a hand selects it, on a phone, where most lines are broken."""
    chapter = CHAPTERS[0]
    page = bench.open(f"chapters/{chapter}", width=390)
    cells = nbformat.read(read.notebook_path(ROOT, chapter), as_version=4).cells
    written = [cell.source for cell in cells if cell.cell_type == "code"]
    shown = page.locator("article .cell_input pre")
    texts = [text.rstrip("\n") for text in shown.all_text_contents()]
    assert len(texts) > 10 and [text for text in texts if text not in written] == []
    selected = """(code) => {
      getSelection().selectAllChildren(code);
      return getSelection().toString();
    }"""
    opened = [k for k in range(shown.count()) if shown.nth(k).is_visible()]
    assert len(opened) > 3 and max(texts[k].count("\n") for k in opened) > 10
    for k in opened:
        assert shown.nth(k).evaluate(selected).rstrip("\n") == texts[k]


@needs_chromium
def test_a_theorem_has_a_link_to_itself_and_a_citation_to_copy(bench: Bench) -> None:
    page = bench.open(
        f"chapters/{CHAPTERS[0]}",
        before="navigator.clipboard.writeText = async (text) => { window.copied = text; };",
    )
    boxes = page.locator("article div.proof[id]")
    assert boxes.count() == page.locator("article div.proof[id] > .admonition-title > .ld-cite").count() > 2
    box = boxes.first
    assert (
        box.locator(".admonition-title > a.headerlink").get_attribute("href") == f"#{box.get_attribute('id')}"
    )
    box.locator(".ld-cite").click()
    copied = page.evaluate("() => window.copied")
    release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"Learning Dynamics, release {release}" in copied
    assert copied.endswith(f"chapters/{CHAPTERS[0]}.html#{box.get_attribute('id')}")
    assert f"release {release}" in page.locator(".extra_footer").text_content()


@needs_chromium
def test_without_script_code_is_legible_on_a_dark_system(bench: Bench) -> None:
    page = bench.open("chapters/toolbox/tools_in_ten_minutes", theme="dark", script=False)
    shot = page.locator("article div.highlight").filter(visible=True).first.screenshot()
    with Image.open(io.BytesIO(shot)) as picture:
        grey = sorted(picture.convert("L").tobytes())
    assert grey[len(grey) // 2] > 200 and grey[len(grey) // 200] < 90  # dark words on light ground


@needs_chromium
def test_axe_notices_planted_faults(bench: Bench) -> None:
    """The control: a picture without words, a field without a name, a colour too pale, each of its own level."""
    if reason := access.missing():
        pytest.skip(reason)
    page = bench.open(PAGES[0])
    page.evaluate(
        "() => document.querySelector('article').insertAdjacentHTML('afterbegin', '<img src=\"data:,\"><input>"
        '<p style="color: #bbb; background: #fff">pale words</p>\')'
    )
    assert {"image-alt", "label", "color-contrast"} <= {each["id"] for each in access.faults(page)}


@needs_chromium
def test_theme_can_be_chosen_and_is_kept(bench: Bench) -> None:
    page = bench.open(PAGES[0])
    ground = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    for _ in range(3):
        page.locator("button.theme-switch-button").first.click()
        if page.get_attribute("html", "data-mode") == "dark":
            break
    assert page.get_attribute("html", "data-theme") == "dark"
    assert page.evaluate(ground) != light
    page.goto(f"{bench.address}/{PAGES[1]}.html")
    assert page.get_attribute("html", "data-theme") == "dark"


@needs_chromium
def test_filters_narrow_the_scoreboard(bench: Bench) -> None:
    total = len(read.inventory(ROOT / "book/inventory.csv"))
    page = bench.open("book/find_a_result")
    shown = page.locator("table.ld-board tbody tr:visible")
    said = page.locator(".ld-filters output")
    assert said.inner_text() == f"{total} results" and shown.count() == total
    page.fill(".ld-filters input[name=find]", "theorem 9.3")
    assert 1 <= shown.count() < 10
    assert page.locator("#row-regularization-thm-9-3").is_visible()
    assert "find=theorem+9.3" in page.url
    page.click(".ld-filters button[type=reset]")
    page.wait_for_function("() => !location.search")
    assert shown.count() == total
    page.select_option(".ld-filters select[name=source]", "regularization")
    page.select_option(".ld-filters select[name=chapter]", "implicit_bias/minimum_norm")
    chapter = [
        line for line in read.inventory(ROOT / "book/inventory.csv")
        if line["chapter"] == "implicit_bias/minimum_norm" and line["kind"] != "beyond"
    ]  # fmt: skip
    assert shown.count() == len(chapter)
    page.goto(f"{bench.address}/book/find_a_result.html?verdict=holds")
    holds = sum(record["verdict"] == "holds" for record in read.records(ROOT))
    assert page.locator("table.ld-board tbody tr:visible").count() == holds


@needs_chromium
def test_scoreboard_is_whole_without_script(bench: Bench) -> None:
    page = bench.open("book/find_a_result", script=False)
    assert page.locator("table.ld-board tbody tr:visible").count() == len(
        read.inventory(ROOT / "book/inventory.csv")
    )
    assert not page.locator(".ld-filters").is_visible()


@needs_chromium
def test_landing_page_counts_and_leads_on(bench: Bench) -> None:
    page = bench.open("book/index")
    counts = [int(text) for text in page.locator("ul.ld-strip b").all_inner_texts()]
    verdicts = [record["verdict"] for record in read.records(ROOT)]
    checked = ("holds", "reproduced", "partly", "not reproduced", "corrected")
    assert counts[0] == sum(verdict in checked for verdict in verdicts)
    assert counts[2] == verdicts.count("not reproduced")
    page.locator("ul.ld-strip a").first.click()
    page.wait_for_url("**/find_a_result.html?verdict=checked")
    assert page.locator("table.ld-board tbody tr:visible").count() == counts[0]
