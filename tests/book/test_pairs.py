"""Each chapter's `.py` and `.ipynb` say the same, and the notebook is executed and complete."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import pytest
import yaml
from matplotlib.colors import is_color_like

from chapter import ROOT, read_script
from learning_dynamics import figures
from learning_dynamics.ledger import cards, read
from learning_dynamics.ledger.cards import anchor
from preamble import address, colab_cell, filled

sys.path.insert(0, str(ROOT / "book/_ext"))

from book_pages.address import published_at  # noqa: E402

CHAPTERS = read.chapters(ROOT)
EXTRA_PARTS = {"toolbox/tools_in_ten_minutes"}  # a prose page with cells: no inventory rows of its own


def script(chapter: str) -> Path:
    return ROOT / "chapters" / f"{chapter}.py"


def notebook(chapter: str) -> dict[str, Any]:
    return json.loads(read.notebook_path(ROOT, chapter).read_text(encoding="utf-8"))


def code_cells(chapter: str) -> list[dict[str, Any]]:
    return [cell for cell in notebook(chapter)["cells"] if cell["cell_type"] == "code" and cell["source"]]


def test_every_script_has_its_notebook_and_the_reverse() -> None:
    folder = ROOT / "chapters"
    assert CHAPTERS
    assert {p.with_suffix("") for p in folder.glob("*/*.py")} == {
        p.with_suffix("") for p in folder.glob("*/*.ipynb")
    }


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_pair_is_in_sync(chapter: str) -> None:
    def comparable(cells: list[Any]) -> list[tuple]:
        return [
            (
                cell["cell_type"],
                "".join(cell["source"]),
                cell["metadata"].get("tags", []),
                cell["metadata"].get("mystnb"),
                cell["id"],
            )
            for cell in cells
        ]

    old, new = comparable(notebook(chapter)["cells"]), comparable(read_script(script(chapter)).cells)
    differ = [cell[1].split("\n")[0][:90] for cell in [*new, *old] if (cell in new) != (cell in old)]
    assert old == new, f"the pair differs: make chapter CHAPTER={chapter} (or make pull). Cells: {differ}"


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_script_reads_back_unchanged(chapter: str) -> None:
    cells = read_script(script(chapter)).cells
    notebook = nbformat.v4.new_notebook(cells=cells)
    again = jupytext.reads(jupytext.writes(notebook, fmt="py:percent"), fmt="py:percent").cells
    assert [(c.cell_type, c.source, c.metadata) for c in again] == [
        (c.cell_type, c.source, c.metadata) for c in cells
    ]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_code_cell_was_executed_in_order_without_error(chapter: str) -> None:
    cells = code_cells(chapter)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        for output in cell["outputs"]:
            assert output["output_type"] not in ("error", "execute_result"), f"a bare value: {output}"
            assert output.get("name") != "stderr", output


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_first_two_cells_are_the_set_up_and_the_parameters(chapter: str) -> None:
    first, second = code_cells(chapter)[:2]
    assert "".join(first["source"]) == colab_cell()
    assert {"colab", "remove-cell"} <= set(first["metadata"]["tags"])
    assert "parameters" in second["metadata"]["tags"]
    namespace: dict[str, Any] = {}
    exec("".join(second["source"]), namespace)
    assert (namespace["SCALE"], namespace["DEVICE"], namespace["SEED"]) == ("book", "auto", 0)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_first_three_code_cells_are_the_template_s(chapter: str) -> None:
    """What the chapter imports is what it uses, once; `python tools/preamble.py` writes it."""
    text = script(chapter).read_text(encoding="utf-8")
    assert filled(text, chapter) == text


MADE = """\
# %% tags=["colab", "remove-cell"]
# colab set-up (generated)

# %% tags=["parameters", "remove-input"]
PART = "all"

# %% tags=["hide-input"]
import os
import math
from scipy.optimize import brentq, root

run = runs.Run("old/name", scale=SCALE, device=DEVICE, seed=SEED, part=PART)
like = {"dtype": run.dtype}


def double(x):
    return 2 * x


# %% [markdown]
# Text with np and figures.band in it.

# %%
ax.plot(brentq(double, -1, 1), color=COLORS["blue"])
ledger.check(criterion=at_most("x", 1.0), measured=torch.zeros(math.floor(2.5)))
data = 3
assert data
"""


def test_the_template_imports_what_is_used_and_nothing_else() -> None:
    text = filled(MADE, "part/name")
    cells = read_script_text(text)
    assert cells[0] == colab_cell()
    assert cells[1] == 'SCALE = "book"\nDEVICE = "auto"\nSEED = 0\nPART = "all"'
    assert (
        cells[2]
        == """\
import math

import torch
from scipy.optimize import brentq

from learning_dynamics import figures, runs
from learning_dynamics.figures import COLORS
from learning_dynamics.ledger import Ledger, at_most

figures.use_style()
run = runs.Run("part/name", scale=SCALE, device=DEVICE, seed=SEED, part=PART)
ledger = Ledger(run)
like = {"dtype": run.dtype}


def double(x):
    return 2 * x"""
    )
    assert filled(text, "part/name") == text
    assert text.split("# %% [markdown]")[1] == MADE.split("# %% [markdown]")[1]


def read_script_text(text: str) -> list[str]:
    cells = jupytext.reads(text, fmt="py:percent").cells
    return [cell.source for cell in cells if cell.cell_type == "code"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"colab", ', "", "first code cells of part/name = other, parameters, other; allowed: colab"),
        ("data = 3", "from math import pi as data", "import in part/name = 'from math import pi as data'"),
        ("import math", "x = 1\nimport math", "third code cell of part/name = code between imports"),
    ],
)
def test_the_template_refuses_what_it_cannot_place(old: str, new: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        filled(MADE.replace(old, new), "part/name")


PAINT = re.compile(r"color|colors|c|(face|edge)colors?|m?[fe]c|markerfacecolor|markeredgecolor|ecolor")
HEX = re.compile(r"#[0-9A-Fa-f]{3,8}")
COLOURED_FORMAT = re.compile(r"(C\d|[bgrcmykw])[.,ov^<>1-4spP*hH+xXDd|_:-]+")


def foreign_colours(source: str) -> list[str]:
    """Return the colours of a cell that are written out instead of taken from `figures.COLORS`."""
    tree = ast.parse(source)
    painted: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg and PAINT.fullmatch(node.arg):
            painted += [node.value]
        if isinstance(node, ast.Dict):
            keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
            painted += [v for k, v in zip(keys, node.values, strict=True) if k and PAINT.fullmatch(str(k))]
    names = {leaf.value for node in painted for leaf in ast.walk(node) if isinstance(leaf, ast.Constant)}
    formats = {
        argument.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        for argument in node.args
        if isinstance(argument, ast.Constant) and COLOURED_FORMAT.fullmatch(str(argument.value))
    }
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    hexes = {text for text in texts if isinstance(text, str) and HEX.fullmatch(text)}
    allowed = {*figures.COLORS, "none", "face"}
    named = {name for name in names if isinstance(name, str) and is_color_like(name) and name not in allowed}
    return sorted(hexes | named | formats)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_colours_are_the_book_s(chapter: str) -> None:
    """Hex codes, matplotlib's names and letters, greys as numbers: all have a name in `figures.COLORS`."""
    for source in read_script_text(script(chapter).read_text(encoding="utf-8")):
        assert not foreign_colours(source), source


@pytest.mark.parametrize(
    "source",
    [
        'ax.plot(x, color="#0072B2")',
        'shades = ["#07B"]',
        'ax.plot(x, "ko")',
        'ax.plot(x, "C1--")',
        'ax.scatter(x, c="red")',
        'look = {"edgecolor": "0.6"}',
        'ax.hist(x, color=["C0", COLORS["blue"]])',
    ],
)
def test_a_foreign_colour_is_seen(source: str) -> None:
    assert foreign_colours(source)
    own = 'ax.plot(x, "o--", color=COLORS["dark grey"], mfc="none", label="red")'
    assert not foreign_colours(own)


SMALL_WORDS = re.compile(
    r"labelsize|rcParams|rc_context|(?:set_[xy](?:label|ticklabels)|sup[xy]label|tick_params)\([^()]*(?:\([^()]*\)[^()]*)*size="
)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_words_on_axes_have_the_size_of_the_book_s_style(chapter: str) -> None:
    """The page test computes from it how large they are on a phone."""
    assert SMALL_WORDS.findall(script(chapter).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source", ['ax.set_xlabel(f"${name(k)}$", fontsize=7)', "ax.tick_params(axis='x', labelsize=6)"]
)
def test_smaller_words_on_axes_are_seen(source: str) -> None:
    assert SMALL_WORDS.search(source)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_cells_that_call_the_ledger_are_folded(chapter: str) -> None:
    for cell in code_cells(chapter):
        source, tags = "".join(cell["source"]), cell["metadata"].get("tags", [])
        if "ledger.check" in source or "figures.numbers(" in source:
            assert "hide-input" in tags or "remove-input" in tags, source[:200]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_comparison_computes_whether_it_agrees(chapter: str) -> None:
    """A literal True beside the source's value and ours would say so whatever was measured."""
    for source in read_script_text(script(chapter).read_text(encoding="utf-8")):
        assert "figures.comparison(" not in source or not written_out(source), source


def written_out(source: str) -> list[str]:
    """Return the rows of four whose last entry is True or False as written."""
    rows = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Tuple | ast.List | ast.Call)]
    ends = [node.args if isinstance(node, ast.Call) else node.elts for node in rows]
    return [
        ast.unparse(node)
        for node, entries in zip(rows, ends, strict=True)
        if len(entries) == 4 and isinstance(entries[3], ast.Constant) and isinstance(entries[3].value, bool)
    ]


def test_a_row_with_its_verdict_written_out_is_seen() -> None:
    assert written_out('figures.comparison([("loss", "0.3", loss, True)], run=run)')
    assert written_out('figures.Row("loss", "0.3", loss, False)')
    assert not written_out(
        'figures.comparison([("loss", "0.3", loss, loss < 0.4), ("x", "y", z, None)], run=run)'
    )


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_chapter_is_in_the_table_of_contents(chapter: str) -> None:
    assert f"file: chapters/{chapter}\n" in (ROOT / "_toc.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_code_cells_are_short(chapter: str) -> None:
    """Code that stands open is read like the formula beside it; what is folded may be longer."""
    for cell in code_cells(chapter)[1:]:
        lines = "".join(cell["source"]).splitlines()
        folded = {"hide-input", "remove-input"} & set(cell["metadata"].get("tags", []))
        assert len(lines) <= (60 if folded else 30), "\n".join(lines[:3])


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_records_are_those_of_the_published_run(chapter: str) -> None:
    records = read.notebook_records(read.notebook_path(ROOT, chapter))
    for record in records:
        assert record["chapter"] == chapter
        assert (record["scale"], record["device"]) == ("book", "cpu")
        assert record["verdict"] == record["expected"] != "not evaluated"
        if record["criterion"]:
            assert record["control"] or record["exempt"], f"{record['id']} has no control"
    assert sum(record["show"] == "card" for record in records) <= 8


def numbers_in(phrase: str) -> set[str]:
    return set(re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?", phrase))


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_what_readers_see_is_what_the_records_hold(chapter: str) -> None:
    """nbval does not look at measured numbers in HTML, and records are compared as numbers: here the two meet."""
    for cell in code_cells(chapter):
        for output in cell["outputs"]:
            record = output.get("metadata", {}).get(read.KEY)
            if not record:
                continue
            assert "".join(output["data"]["text/html"]) == cards.html(record)
            assert "".join(output["data"]["text/plain"]) == cards.text(record)
            for part in filter(None, (record if record["criterion"] else None, record["control"])):
                known = {cards.number(float(value)) for value in part["measured"].values()}
                known |= {str(int(value)) for key, value in part["measured"].items() if key == "count"}
                names = "".join(part["measured"])
                assert numbers_in(part["phrase"]) <= known | numbers_in(names), record["id"]


def test_records_and_inventory_agree() -> None:
    rows = {row["id"]: row for row in read.inventory(ROOT / "book" / "inventory.csv")}
    for record in read.records(ROOT):
        assert record["id"] in rows, f"{record['id']} is not in book/inventory.csv"
        assert rows[record["id"]]["chapter"] == record["chapter"], record["id"]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_owed_id_is_recorded(chapter: str) -> None:
    rows = [row for row in read.inventory(ROOT / "book" / "inventory.csv") if row["chapter"] == chapter]
    assert rows or chapter in EXTRA_PARTS
    records = read.notebook_records(read.notebook_path(ROOT, chapter))
    done = {record["id"] for record in records if record["verdict"] != "stated"}
    assert {row["id"] for row in rows if row["must"] in ("check", "reproduce")} <= done
    text = script(chapter).read_text(encoding="utf-8")
    for row in rows:
        if row["must"] == "state":
            assert f":label: {anchor(row['id'])}" in text, row["id"]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_proof_labels_are_inventory_ids(chapter: str) -> None:
    """A box is labelled with an id, so that the scoreboard can land on it."""
    ids = {anchor(row["id"]) for row in read.inventory(ROOT / "book" / "inventory.csv")}
    text = script(chapter).read_text(encoding="utf-8")
    boxes = r"(theorem|lemma|proposition|corollary|definition|remark)"
    labels = re.findall(r"\{prf:" + boxes + r"\}[^\n]*\n# :label: (\S+)", text)
    for _, label in labels:
        assert label in ids, label


def committed() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("no repository: a ZIP does not say what is committed")
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in names.stdout.split("\0") if name]


def test_no_committed_file_names_a_path_of_a_machine() -> None:
    pattern = re.compile(r"(?<![\w.:/])/(work|farm|tmp|root|home/\w+)/")
    for path in committed():
        if path.is_file() and path.suffix in {
            ".py",
            ".md",
            ".yml",
            ".toml",
            ".ipynb",
            ".txt",
            ".cff",
            ".cfg",
        }:
            if path.name != Path(__file__).name:
                found = pattern.search(path.read_text(encoding="utf-8"))
                assert not found, f"{path.relative_to(ROOT)}: {found}"


def test_every_file_names_the_same_repository() -> None:
    here = address()
    owner = here.rsplit("/", 1)[0]
    hits = 0
    for path in committed():
        if path.suffix in {".py", ".ipynb", ".md", ".yml", ".toml", ".cff"} and path.is_file():
            for url in re.findall(re.escape(owner) + r"/[\w.-]+", path.read_text(encoding="utf-8")):
                hits += 1
                assert url.removesuffix(".git").rstrip(".") == here, f"{path}: {url}"
    assert hits
    assert here in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_a_citation_names_this_release_and_where_the_book_is_read() -> None:
    release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    site = published_at(address())
    cff = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (cff["version"], cff["url"], cff["repository-code"]) == (release, site, address())
    for name in ("README.md", "book/index.md"):
        bibtex = (ROOT / name).read_text(encoding="utf-8").partition("```bibtex\n")[2].partition("```")[0]
        assert f"Release {release}" in bibtex and f"\\url{{{site}}}" in bibtex, name


def test_links_of_the_front_page_of_the_repository_land() -> None:
    """A visitor finds there how to read, run and cite the book, what is reproduced, and the licences."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    site, links = published_at(address()), re.findall(r"\]\(([^)\s]+)\)", text)
    local = [link for link in links if not link.startswith(("http", "#"))]
    assert [link for link in local if not (ROOT / link).exists()] == []
    headings = {
        re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in re.findall(r"(?m)^#+ (.*)$", text)
    }
    assert [link for link in links if link.startswith("#") and link[1:] not in headings] == []
    pages = [link.removeprefix(site) for link in links if link.startswith(site)]
    sources = [page.partition("#")[0].removesuffix(".html") + ".md" for page in pages if page]
    assert [source for source in sources if not (ROOT / source).is_file()] == []
    assert {"book/find_a_result.md", "book/errata.md"} <= set(sources) and "" in pages
    assert {"CITATION.cff", "LICENSE", "LICENSE-TEXT.md", "book/contributing.md"} <= set(local)
