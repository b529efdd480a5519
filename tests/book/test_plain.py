"""The notebooks that GitHub and Colab show: no MyST is left, links lead somewhere, the code is the same."""

from __future__ import annotations

import os
import re
import shutil
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import nbformat
import pytest
import yaml

import plain
import preamble
from chapter import ROOT
from learning_dynamics.ledger.read import chapters, notebook_path
from plain import Directive, Page, parse
from site_index import Site

CHAPTERS = chapters(ROOT)
HTML = ROOT / "book/_build/html"
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
RELEASE = "v9.8.7"
ADDRESS = "https://owner.github.io/name/"

# ------------------------------------------------------------------------------------------------ a page made by hand

RENDERED = """\
<h1>On this page</h1><h1><span class="section-number">1.2. </span>A page<a class="headerlink" href="#a">#</a></h1>
<div class="proof theorem admonition" id="src-thm-1">
<p class="admonition-title"><span class="caption-number">Theorem 1.2.1 </span> (Name)</p></div>
<div class="math notranslate nohighlight" id="equation-eq-a">
<span class="eqno">(1.2.1)<a class="headerlink" href="#equation-eq-a">#</a></span></div>
<span class="bibtex-citation" id="id1">[<a class="reference" href="../../book/references.html#id9">Ma, 2022</a>]</span>
<div class="exercise admonition" id="ex-a">
<p class="admonition-title"><span class="caption-number">Exercise 1.2.1 </span> (By hand)</p></div>
<figure class="align-default" id="fig-a"><p><span class="caption-number">Figure 1.2.1 </span></p></figure>
"""


@pytest.fixture
def page(tmp_path: Path) -> Page:
    for name, text in (("chapters/part/name", RENDERED), ("book/references", '<p id="id9"></p>')):
        (tmp_path / f"{name}.html").parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{name}.html").write_text(text)
    return Page("part/name", Site(tmp_path, ADDRESS), "https://github.com/owner/name", ["fig-a"])


HERE = f"{ADDRESS}chapters/part/name.html"
SOURCE = """\
(sec-a)=
By {prf:ref}`src-thm-1` and {eq}`eq-a`, see {numref}`fig-a` and {cite}`ma2022lecture`. `{eq}` is a role; $a<b$.

::::{dropdown} *Proof* of $x<1$
:::{prf:theorem} Name
:label: src-thm-1
If

$$
x &= 1 \\\\
y &= 2
$$ (eq-a)

then.
:::
::::

:::{exercise} By hand
:label: ex-a
Why?
:::

:::{solution} ex-a
1. So:

   $$\\operatorname{rank} A>0$$
:::

```python
x = "$1 :::{"
```

<div class="ld-widget" data-widget="a-b"></div>
"""
PLAIN = f"""\
By [Theorem 1.2.1]({HERE}#src-thm-1) and [(1.2.1)]({HERE}#equation-eq-a), see [Figure 1.2.1]({HERE}#fig-a) and \
[[Ma, 2022]({ADDRESS}book/references.html#id9)]. `{{eq}}` is a role; $a\\lt b$.

<details>
<summary><b><i>Proof</i> of $x\\lt 1$</b></summary>

> **[Theorem 1.2.1]({HERE}#src-thm-1)** (Name).
>
> If
>
> $$ \\begin{{split}} x &= 1 \\\\ y &= 2 \\end{{split}} \\tag{{1.2.1}} $$
>
> then.

</details>

> **[Exercise 1.2.1]({HERE}#ex-a)** (By hand).
>
> Why?

<details>
<summary><b>Solution to Exercise 1.2.1</b></summary>

1. So:

   $$ \\mathop{{\\mathrm{{rank}}}}\\nolimits  A\\gt 0 $$

</details>

```python
x = "$1 :::{{"
```

*This picture moves [on the page]({HERE}). [Figure 1.2.1]({HERE}#fig-a) shows it at rest.*
"""


def test_every_kind_of_block_and_reference_has_a_plain_form(page: Page) -> None:
    assert page.markdown(SOURCE) == PLAIN
    assert not page.boxes and not page.cited


def test_a_solution_that_goes_on_after_its_code_stays_folded(page: Page) -> None:
    assert page.markdown(":::{solution-start} ex-a\n:class: dropdown\n:::\nText").count("<details>") == 1
    text = page.markdown("More.\n\n:::{solution-end}\n:::\n\nNext.")
    assert "<details>" in text and text.index("More.") < text.index("</details>") < text.index("Next.")
    shown = page.markdown(":::{solution-start} ex-a\n:::")
    assert shown == "*Solution to Exercise 1.2.1: computed in the folded cell below.*\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{math-in-blue}`x`", "role = 'math-in-blue'; allowed: those that tools/plain.py"),
        (":::{tableau} A\n:::", "directive = 'tableau'; allowed: those that tools/plain.py"),
        ("{eq}`eq-b`", "label = 'eq-b'; allowed: one of the rendered site"),
        ("{doc}`../other/page`", "page = 'chapters/other/page'; allowed: a page of the rendered site"),
        ("{cite}`ma2021lecture`", "citation 'ma2021lecture' of part/name = '[[Ma, 2022]"),
        (":::{prf:lemma} Name\n:::", "lemma 'Name' of part/name = Place("),
        (":::{dropdown} Open\n", "block ':::{dropdown} Open' = open"),
        ("[a](#nowhere)", "id = 'nowhere'; allowed: one of the rendered page chapters/part/name"),
    ],
)
def test_what_has_no_plain_form_or_no_target_is_refused(page: Page, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        page.markdown(text)


def test_a_fence_inside_a_longer_one_is_not_its_end() -> None:
    blocks = [block for block in parse("::::{dropdown} A\n:::{admonition} B\nb\n:::\n::::") if block]
    assert blocks == [Directive("dropdown", "A", {}, ":::{admonition} B\nb\n:::")]


def test_the_site_s_address_is_said_or_follows_from_the_repository_s(tmp_path: Path) -> None:
    config = tmp_path / "_config.yml"
    for text, address in (
        ("repository:\n  url: https://github.com/Owner/name\n", ADDRESS),
        ("repository:\n  url: file:///a/b\nhtml:\n  baseurl: https://x.org/b\n", "https://x.org/b/"),
    ):
        config.write_text(text)
        assert plain.published(tmp_path) == address
    config.write_text("repository:\n  url: file:///a/b\n")
    with pytest.raises(ValueError, match="html: baseurl in _config.yml = ''"):
        plain.published(tmp_path)


def test_every_picture_that_moves_has_a_still() -> None:
    for chapter in CHAPTERS:
        text = (ROOT / f"chapters/{chapter}.py").read_text(encoding="utf-8")
        for name in plain.WIDGET.findall(text):
            still = ROOT / f"book/_static/widgets/{name.replace('-', '_')}.png"
            assert '"static-twin"' in text or still.is_file(), (
                f"{name}: python tools/widget_stills.py {chapter}"
            )


# ----------------------------------------------------------------------------------------- the notebooks of the book


@pytest.fixture(scope="module")
def site() -> Site:
    if not (HTML / "index.html").is_file():
        pytest.skip("the book is not rendered: `make book`")
    return Site(HTML, plain.published())


@pytest.fixture(scope="module")
def made(site: Site, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The plain notebooks as read from their files, and the README under the name of the empty string."""
    out = tmp_path_factory.mktemp("plain")
    paths = plain.write(site, out, RELEASE)
    assert {path.relative_to(out).with_suffix("").as_posix() for path in paths} == set(CHAPTERS)
    found: dict[str, Any] = {name: nbformat.read(out / f"{name}.ipynb", as_version=4) for name in CHAPTERS}
    return found | {"": (out / "README.md").read_text(encoding="utf-8")}


def prose(notebook: Any) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]


def without_code(text: str) -> str:
    return re.sub(r"(`+).+?\1", "", re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE))


MYST = (
    *(r"\{[a-z][\w:-]*\}`", r"^[ >]*:{3,}", r"^[ >]*`{3,}\{", r"\{[a-z:]+\}\s", r"^\([\w-]+\)="),
    *(r"ld-widget", r"[\x00-\x03]"),
)


@pytest.mark.pages
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_nothing_of_myst_is_left(chapter: str, made: dict[str, Any]) -> None:
    for text in map(without_code, prose(made[chapter])):
        for pattern in MYST:
            assert not (left := re.search(pattern, re.sub(r"\$[^$]+\$", "", text), re.MULTILINE)), left
        for line in text.split("\n"):
            assert line.count("$$") in (0, 2), f"a displayed formula is broken over lines: {line}"


@pytest.mark.pages
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_folds_are_read_as_markdown_inside(chapter: str, made: dict[str, Any]) -> None:
    source = "\n".join(
        cell.source for cell in nbformat.read(notebook_path(ROOT, chapter), as_version=4).cells
    )
    text = "\n".join(prose(made[chapter]))
    assert text.count("<details>") == text.count("</details>") >= source.count("{dropdown}")
    for opening in re.finditer(
        r"^(?:> )?<details>\n(?:> )?<summary><b>.+</b></summary>\n(.*)\n", text, re.MULTILINE
    ):
        assert opening[1] in ("", ">"), opening[0]
    assert not re.search(r"[^\n>]\n(?:> )?</details>", text)


@pytest.mark.pages
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_code_and_outputs_are_the_committed_ones_and_the_first_cell_is_pinned(
    chapter: str, made: dict[str, Any]
) -> None:
    source = nbformat.read(notebook_path(ROOT, chapter), as_version=4)
    old, new = ([cell for cell in each.cells if cell.cell_type == "code"] for each in (source, made[chapter]))
    set_up = next(cell for cell in new if "colab" in cell.metadata.tags)
    assert set_up.source == preamble.colab_cell(ROOT, RELEASE)
    assert f'"git+{preamble.address()}@{RELEASE}"' in set_up.source
    assert [cell.source for cell in old if "colab" not in cell.metadata.get("tags", [])] == [
        cell.source for cell in new if cell is not set_up
    ]
    assert [(out.get("data"), out.get("text")) for cell in old for out in cell.outputs] == [
        (out.get("data"), out.get("text")) for cell in new for out in cell.outputs
    ]
    nbformat.validate(made[chapter])
    assert len({cell.id for cell in made[chapter].cells}) == len(made[chapter].cells)


@pytest.mark.pages
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_figure_is_followed_by_its_number_and_caption(
    chapter: str, made: dict[str, Any], site: Site
) -> None:
    source = nbformat.read(notebook_path(ROOT, chapter), as_version=4)
    names = {
        cell.id: cell.metadata["mystnb"]["figure"]["name"]
        for cell in source.cells
        if "mystnb" in cell.metadata
    }
    cells = made[chapter].cells
    followed = [(cell, after) for cell, after in zip(cells, cells[1:], strict=False) if cell.id in names]
    assert len(followed) == len(names) > 0
    for cell, after in followed:
        place = site.place(names[cell.id])
        assert after.source.startswith(f"**[{place.name}]({site.link(place.page, place.id)}).** ")


@pytest.mark.pages
@pytest.mark.parametrize("chapter", ["", *CHAPTERS])
def test_links_resolve(chapter: str, made: dict[str, Any], site: Site) -> None:
    """To an id or file of the rendered site, to a notebook of the same branch, or to another host."""
    text = made[""] if chapter == "" else "\n".join(map(without_code, prose(made[chapter])))
    links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'href="([^"]+)"', text)
    assert links
    if chapter:
        assert site.link(f"chapters/{chapter}") in links[:3], "no link back to the page"
    branch = f"{preamble.address().removeprefix('https://github.com/')}/blob/{plain.BRANCH}/"
    for link in map(unescape, links):
        if link.startswith(site.address):
            path, _, id = unquote(link.removeprefix(site.address)).partition("#")
            file = HTML / (path or "index.html")
            assert file.is_file(), link
            ids = re.findall(r'\sid="([^"]+)"', file.read_text(encoding="utf-8")) if id else []
            assert not id or id in map(unescape, ids), link
        elif branch in link:
            assert link.split(branch)[1].removesuffix(".ipynb") in CHAPTERS, link
        elif "://" not in link:
            assert chapter == "" and link.removesuffix(".ipynb") in CHAPTERS, link
        else:
            assert link.startswith("https://"), link


@pytest.mark.pages
def test_the_pages_lead_to_the_branch(site: Site) -> None:
    """As a role does on the landing page; that each chapter's rocket does is tested with the pages."""
    assert plain.colab(preamble.address(), "implicit_bias/minimum_norm") in site.html("book/index")
    flow = yaml.safe_load((ROOT / ".github/workflows/publish.yml").read_text(encoding="utf-8"))
    pushed = flow["jobs"]["deploy"]["steps"][-1]["run"]
    assert f"--initial-branch {plain.BRANCH}\n" in pushed and pushed.rstrip().endswith(f" {plain.BRANCH}")


TYPESET = """async formulas => {
  await MathJax.startup.promise;
  const wrong = [];
  for (const [tex, display] of formulas) {
    const made = MathJax.tex2chtml(tex, {display});
    const error = made.querySelector('mjx-merror');
    if (error) wrong.push(tex + '  ->  ' + (error.getAttribute('data-mjx-error') || ''));
  }
  return wrong;
}"""


@pytest.mark.pages
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: see tests/book/test_pages.py")
def test_no_formula_uses_a_macro_that_is_not_defined(made: dict[str, Any], chromium: Any) -> None:
    """By MathJax as it comes, as GitHub and Colab have it; an undefined macro is an error here, not red text."""
    formulas: set[tuple[str, bool]] = {(r"\nosuchmacro", False)}
    for chapter in CHAPTERS:
        for text in map(without_code, prose(made[chapter])):
            formulas |= {(tex.strip(), True) for tex in re.findall(r"\$\$(.+?)\$\$", text)}
            single = re.sub(r"\$\$.+?\$\$", "", text)
            formulas |= {
                (tex, False) for tex in re.findall(r"(?<!\\)\$((?:[^$\\]|\\.)+?)\$", single, re.DOTALL)
            }
    assert len(formulas) > 1000
    tab = chromium.new_page()
    tab.goto("about:blank")
    tab.evaluate("window.MathJax = {tex: {packages: {'[-]': ['noundefined', 'noerrors']}}}")
    tab.add_script_tag(path=ROOT / "book/_static/mathjax/tex-mml-chtml.js")
    wrong = tab.evaluate(TYPESET, sorted(formulas))
    tab.close()
    assert [line for line in wrong if "nosuchmacro" not in line] == []
    assert len(wrong) == 1, "the planted macro was not noticed"
