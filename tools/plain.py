"""Write the notebooks that readers open on GitHub and in Colab: the chapters' own, with everything in plain Markdown.

    python tools/plain.py [--site book/_build/html] [--out book/_build/notebooks] [--release v0.1.0]

Needs the rendered site (`make book`), executes nothing. Theorems become quotations with the page's numbers, references
and citations become links to the page, proofs and answers are folded, captions stand below their figures, a picture
that moves is a link beside its still, and the first cell installs the library of this very release. The code cells and
their outputs are those of the committed notebook. `publish.yml` puts the result on the branch `notebooks`, where the
rocket of each page and the README lead: copies on `main` would double the weight of every change to a chapter.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path, PurePosixPath
from typing import Any

import nbformat
import yaml
from nbformat import NotebookNode

from chapter import ROOT, write_atomically
from learning_dynamics import __version__
from learning_dynamics.ledger.read import chapters, notebook_path
from preamble import address, colab_cell
from site_index import Place, Site

BRANCH = "notebooks"
BADGE = "https://colab.research.google.com/assets/colab-badge.svg"
FENCE = re.compile(r"^(?P<indent> *)(?P<marks>:{3,}|`{3,})(?:\{(?P<name>[\w:-]+)\})?(?P<rest>.*)$")
OPTION = re.compile(r"^:([\w-]+):\s*(.*)$")
DISPLAY = re.compile(
    r"^(?P<indent> *)\$\$(?P<tex>.+?)\$\$[ ]*(?:\((?P<label>[\w:-]+)\))?[ ]*$", re.MULTILINE | re.DOTALL
)
INLINE = re.compile(
    r"\{(?P<role>[a-z][\w:.-]*)\}`(?P<target>[^`]*)`"
    r"|(?P<code>`+)(?P<inside>.+?)(?P=code)"
    r"|\$\$(?P<wide>.+?)\$\$"
    r"|(?<![\\$])\$(?P<tex>(?:[^$\\]|\\.)+?)\$"
    r"|(?P<bang>!?)\[(?P<text>[^\]\n]*(?:\n[^\]\n]*)?)\]\((?P<href>[^)\s]+)\)",
    re.DOTALL,
)
WIDGET = re.compile(r'<div class="ld-widget" data-widget="([a-z-]+)"[^>]*></div>')
TARGET = re.compile(r"^\([\w:.-]+\)=[ ]*\n?", re.MULTILINE)
MATH = re.compile(r"\x02(\d+)\x03")


@dataclass
class Directive:
    """A fenced block: its name, what follows it on its line, its options and its body."""

    name: str
    title: str
    options: dict[str, str]
    body: str
    indent: str = ""

    @property
    def folded(self) -> bool:
        """Whether the page shows it closed."""
        return self.name in ("dropdown", "solution") or "dropdown" in self.options.get("class", "").split()


@dataclass
class Page:
    """A chapter on its way into plain Markdown.

    Args:
        chapter: The chapter's id, `part/name`.
        site: The rendered site.
        repository: The address of the repository.
        stills: The chapter's figures at rest that stand in for pictures that move.
    """

    chapter: str
    site: Site
    repository: str
    stills: list[str] = field(default_factory=list)
    in_solution: bool = False

    def __post_init__(self) -> None:
        self.page = f"chapters/{self.chapter}"
        self.boxes = self.site.boxes(self.page)
        self.cited = self.site.citations(self.page)
        self.math: list[str] = []

    # ------------------------------------------------------------------------------------------------------ blocks

    def markdown(self, source: str) -> str:
        """Return a cell's text in plain Markdown; cells come in the order of the page."""
        text = self._blocks(list(parse(source)))
        return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"

    def _blocks(self, blocks: list[str | Directive]) -> str:
        parts: list[str] = []
        if self.in_solution:
            end = next((k for k, block in enumerate(blocks) if _is(block, "solution-end")), len(blocks))
            parts.append(self._fold("Solution, continued", self._blocks_of(blocks[:end])))
            self.in_solution = end == len(blocks)
            blocks = blocks[end + 1 :]
        while blocks:
            block, *blocks = blocks
            if _is(block, "solution-start"):
                assert isinstance(block, Directive)
                end = next((k for k, other in enumerate(blocks) if _is(other, "solution-end")), len(blocks))
                self.in_solution = end == len(blocks)
                parts.append(self._solution(block, self._blocks_of(blocks[:end]), self.in_solution))
                blocks = blocks[end + 1 :]
            else:
                parts.append(self._block(block))
        return "\n\n".join(part for part in parts if part.strip())

    def _blocks_of(self, blocks: list[str | Directive]) -> str:
        return "\n\n".join(part for part in map(self._block, blocks) if part.strip())

    def _block(self, block: str | Directive) -> str:
        if isinstance(block, str):
            return self.text(block)
        shown = self._directive(block)
        return "\n".join((block.indent + line).rstrip() for line in shown.split("\n"))

    def _directive(self, block: Directive) -> str:
        if block.name == "code":
            return block.body
        if block.name == "dropdown":
            return self._fold(block.title, lambda: self._inside(block))
        if block.name == "admonition":
            if block.folded:
                return self._fold(block.title, lambda: self._inside(block))
            return _quoted(f"**{self.text(block.title)}**", self._inside(block))
        if block.name == "solution":
            return self._solution(block, self._inside(block), code_follows=False)
        if block.name == "exercise" or block.name.startswith("prf:"):
            place = self._next_box(block)
            number = f"[{place.name}]({self.site.link(self.page, place.id)})"
            title = f" ({self.text(block.title)})" if block.title else ""
            if block.folded:
                return self._fold(
                    f"{place.name}{f' ({block.title})' * bool(block.title)}", lambda: self._inside(block)
                )
            return _quoted(f"**{number}**{title}.", self._inside(block))
        raise ValueError(
            f"directive = {block.name!r}; allowed: those that tools/plain.py turns into Markdown"
        )

    def _inside(self, block: Directive) -> str:
        return self._blocks_of(list(parse(block.body)))

    def _next_box(self, block: Directive) -> Place:
        kind = block.name.removeprefix("prf:")
        place = self.boxes.pop(0) if self.boxes else None
        if place is None or place.kind != kind or block.options.get("label", place.id) != place.id:
            raise ValueError(
                f"{kind} {block.options.get('label', block.title)!r} of {self.chapter} = {place}; allowed: the same "
                "on the rendered page (`make book`)"
            )
        return place

    def _solution(self, block: Directive, body: str, code_follows: bool) -> str:
        name = f"Solution to {self.site.place(block.title).name}"
        if not body.strip():
            return f"*{name}: computed in the folded cell below.*" if code_follows else ""
        more = "\n\nThe folded cell below computes it." if code_follows else ""
        return self._fold(name, body + more)

    def _fold(self, title: str, body: str | Callable[[], str]) -> str:
        """Return a fold; empty lines around the body let a renderer read it as Markdown."""
        head = self.text(title, as_html=True)  # before the body: citations come in the order of the page
        inside = body if isinstance(body, str) else body()
        return (
            f"<details>\n<summary><b>{head}</b></summary>\n\n{inside.strip()}\n\n</details>"
            if inside.strip()
            else ""
        )

    # -------------------------------------------------------------------------------------------------------- text

    def text(self, source: str, as_html: bool = False) -> str:
        """Return running text in plain Markdown, or as HTML where Markdown is not read."""
        kept: list[str] = []

        def keep(text: str) -> str:
            kept.append(text)
            return f"\x02{len(kept) - 1}\x03"

        def held(made: str) -> str:  # HTML is finished; Markdown may still hold a formula
            return keep(made) if as_html else made

        def display(match: re.Match[str]) -> str:
            tag = self.site.place(match["label"]).name if match["label"] else ""
            return f"\n{match['indent']}{keep(_display(match['tex'], tag))}\n"

        def inline(match: re.Match[str]) -> str:
            if match["role"]:
                return held(self._role(match["role"], match["target"], as_html))
            if match["code"]:
                return keep(f"<code>{escape(match['inside'])}</code>" if as_html else match[0])
            if match["wide"] is not None:
                return keep(_display(match["wide"], ""))
            if match["tex"] is not None:
                return keep(f"${_tex(match['tex'])}$")
            return held(self._link(match["bang"], self.text(match["text"], as_html), match["href"], as_html))

        text = TARGET.sub("", source)
        text = WIDGET.sub(lambda match: self._still(match[1]), text)
        text = DISPLAY.sub(display, text)
        text = INLINE.sub(inline, text)
        if as_html:
            text = escape(text, quote=False)
            text = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)
            text = re.sub(r"\*(.+?)\*", r"<i>\1</i>", text)
        return MATH.sub(lambda match: kept[int(match[1])], text)

    def _role(self, role: str, content: str, as_html: bool) -> str:
        titled = re.fullmatch(r"(.*?)\s*<([^<>]+)>", content, re.DOTALL)
        title, target = (titled[1], titled[2]) if titled else ("", " ".join(content.split()))
        if role in ("cite", "cite:t", "cite:p"):
            if not self.cited:
                raise ValueError(
                    f"citation {content!r} of {self.chapter}; allowed: one of the rendered page (`make book`)"
                )
            cited = self.cited.pop(0)
            missing = [
                key
                for key in target.split(",")
                if (year := re.search(r"\d{4}", key)) and year[0] not in cited
            ]
            if missing:
                raise ValueError(
                    f"citation {content!r} of {self.chapter} = {cited!r}; allowed: the same on the page"
                )
            return cited if not as_html else re.sub(r"\[([^\]]*)\]\(([^)]*)\)", r'<a href="\2">\1</a>', cited)
        name, href = self._target(role, target)
        if role == "numref" and title:
            title = re.sub(r"%s|\{number\}", name.split()[-1], title)
        shown = self.text(title, as_html) if title else name
        return f'<a href="{href}">{shown}</a>' if as_html else f"[{shown}]({href})"

    def _target(self, role: str, target: str) -> tuple[str, str]:
        """Return what a reference is called and where it leads."""
        if role in ("prf:ref", "numref", "eq", "ref"):
            place = self.site.place(target)
            return place.name, self.site.link(place.page, place.id)
        if role == "doc":
            page = self._page_of(target)
            return self.site.title(page), self.site.link(page)
        if role in ("chapter", "part"):
            page = f"{'chapters' if role == 'chapter' else 'book/parts'}/{target}"
            return self.site.title(page), self.site.link(page)
        if role == "term":
            id = "term-" + re.sub(r"[^A-Za-z0-9]+", "-", target).strip("-")
            return target, self.site.link("book/glossary", id)
        if role.startswith("py:"):
            path = target.removeprefix("~")
            page = f"book/api/{path.split('.')[1]}"
            return f"`{path.split('.')[-1] if target.startswith('~') else path}`", self.site.link(page, path)
        if role == "repository":
            kind = "tree" if (ROOT / target).is_dir() else "blob"
            return target, f"{self.repository}/{kind}/main/{target}"
        if role == "colab":
            return target, colab(self.repository, target)
        raise ValueError(f"role = {role!r}; allowed: those that tools/plain.py turns into Markdown")

    def _page_of(self, target: str) -> str:
        parts: list[str] = [] if target.startswith("/") else list(PurePosixPath(self.page).parent.parts)
        for part in PurePosixPath(target.lstrip("/")).parts:
            parts = parts[:-1] if part == ".." else [*parts, part]
        return re.sub(r"\.(ipynb|md|html)$", "", "/".join(parts))

    def _link(self, bang: str, text: str, href: str, as_html: bool) -> str:
        if not re.match(r"[a-z]+:", href):
            target, _, id = href.partition("#")
            href = self.site.link(self._page_of(target) if target else self.page, id)
        return f'<a href="{href}">{text}</a>' if as_html and not bang else f"{bang}[{text}]({href})"

    def _still(self, name: str) -> str:
        """Return what stands in a notebook where the page has a picture that moves."""
        there = f"[on the page]({self.site.link(self.page)})"
        if self.stills:
            figure = self.site.place(self.stills[0])
            link = self.site.link(self.page, figure.id)
            return f"*This picture moves {there}. [{figure.name}]({link}) shows it at rest.*"
        picture = f"_static/widgets/{name.replace('-', '_')}.png"
        if not (self.site.folder / picture).is_file():
            raise ValueError(
                f"still of {name} in {self.chapter} = None; allowed: a cell tagged static-twin, or {picture} "
                "(tools/widget_stills.py)"
            )
        return f"![The picture at rest]({self.site.address}{picture})\n\n*This picture moves {there}.*"


def parse(source: str) -> Iterator[str | Directive]:
    """Yield a text's pieces: running text, directives, and code blocks as directives of the name `code`."""
    lines, text = source.split("\n"), list[str]()
    index = 0
    while index < len(lines):
        match = FENCE.match(lines[index])
        if match is None:
            text.append(lines[index])
            index += 1
            continue
        closing = re.compile(rf"^ *{match['marks'][0]}{{{len(match['marks'])},}}\s*$")
        end = next((k for k in range(index + 1, len(lines)) if closing.match(lines[k])), None)
        if end is None:
            raise ValueError(f"block {lines[index]!r} = open; allowed: one that is closed")
        yield "\n".join(text)
        text = []
        inside = [line.removeprefix(match["indent"]) for line in lines[index + 1 : end]]
        if match["name"] is None:
            whole = [line.removeprefix(match["indent"]) for line in lines[index : end + 1]]
            yield Directive("code", "", {}, "\n".join(whole), match["indent"])
        else:
            options = {}
            while inside and (option := OPTION.match(inside[0])):
                options[option[1]] = option[2].strip()
                inside = inside[1:]
            yield Directive(match["name"], match["rest"].strip(), options, "\n".join(inside), match["indent"])
        index = end + 1
    yield "\n".join(text)


def _is(block: str | Directive, name: str) -> bool:
    return isinstance(block, Directive) and block.name == name


def _quoted(head: str, body: str) -> str:
    whole = re.sub(r"\n{3,}", "\n\n", f"{head}\n\n{body.strip()}")
    return "\n".join(f"> {line}".rstrip() for line in whole.split("\n"))


def _tex(tex: str) -> str:
    """Return a formula for any renderer: on one line, no sign that HTML reads, no macro that GitHub refuses."""
    tex = " ".join(tex.split())
    tex = tex.replace("<", r"\lt ").replace(">", r"\gt ")
    tex = re.sub(r"\\operatorname\*\{", r"\\mathop{\\mathrm ", tex)
    return re.sub(r"\\operatorname\{([^{}]*)\}", r"\\mathop{\\mathrm{\1}}\\nolimits ", tex)


def _display(tex: str, tag: str) -> str:
    """Return a displayed formula on one line, with its number; lines outside of an environment get one."""
    tex = _tex(tex)
    outside = re.sub(r"\\begin\{(\w+)\}.*\\end\{\1\}", "", tex)
    if r"\\" in outside:
        tex = rf"\begin{{split}} {tex} \end{{split}}"
    number = rf" \tag{{{tag[1:-1]}}}" if tag else ""
    return f"$$ {tex}{number} $$"


def colab(repository: str, chapter: str) -> str:
    """Return the address that opens a chapter's plain notebook in Colab."""
    name = repository.removeprefix("https://github.com/")
    return f"https://colab.research.google.com/github/{name}/blob/{BRANCH}/{chapter}.ipynb"


def plain(chapter: str, site: Site, release: str, root: Path = ROOT) -> NotebookNode:
    """Return a chapter's notebook in plain Markdown.

    Args:
        chapter: The chapter's id, `part/name`.
        site: The rendered site.
        release: The tag or commit whose library the first cell installs.
        root: The book's folder.

    Raises:
        ValueError: The text holds what has no plain form, or the site is not that of this text.
    """
    source = nbformat.read(notebook_path(root, chapter), as_version=4)
    stills = [
        cell.metadata["mystnb"]["figure"]["name"]
        for cell in source.cells
        if "static-twin" in cell.metadata.get("tags", [])
    ]
    page = Page(chapter, site, address(root), stills)
    cells: list[NotebookNode] = []
    for index, cell in enumerate(source.cells):
        if cell.cell_type == "markdown":
            text = page.markdown(cell.source)
            if index == 0:
                heading, _, rest = text.partition("\n")
                text = f"{heading}\n\n{_note(page, release)}\n{rest}"
            if text.strip():
                cells.append(_cell(nbformat.v4.new_markdown_cell(text.rstrip("\n")), cell.id))
            continue
        cells.append(_code(cell, colab_cell(root, release)))
        figure = cell.metadata.get("mystnb", {}).get("figure")
        if figure:
            place = site.place(figure["name"])
            text = f"**[{place.name}]({site.link(page.page, place.id)}).** {page.text(figure['caption'])}"
            digest = hashlib.sha256(figure["name"].encode()).hexdigest()[:8]
            cells.append(_cell(nbformat.v4.new_markdown_cell(text), f"caption-{digest}"))
    if page.boxes or page.cited:
        raise ValueError(
            f"{chapter}: {len(page.boxes)} boxes and {len(page.cited)} citations of the rendered page are not in the "
            "notebook; allowed: none (`make book`)"
        )
    metadata = {
        "kernelspec": source.metadata["kernelspec"],
        "language_info": source.metadata["language_info"],
    }
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=metadata)
    notebook.nbformat_minor = 5
    nbformat.validate(notebook)
    return notebook


def _note(page: Page, release: str) -> str:
    link, title = page.site.link(page.page), page.site.title(page.page)
    what = release if release.startswith("v") else f"commit {release[:10]}"
    return (
        f"[![Open in Colab]({BADGE})]({colab(page.repository, page.chapter)})\n\n"
        f"*This notebook runs the page [{title}]({link}) of the book [Learning Dynamics]({page.site.address}), version "
        f"{__version__} ({what}). The numbers of theorems, figures and equations are the page's, and lead there. "
        "Code that the page folds is folded here where the viewer allows it.*"
    )


def _cell(cell: NotebookNode, id: str) -> NotebookNode:
    cell.id = id
    return cell


def _code(cell: NotebookNode, set_up: str) -> NotebookNode:
    """Return a code cell with its outputs; folded where the page folds it, without what only the tests read."""
    tags = set(cell.metadata.get("tags", []))
    metadata: dict[str, Any] = {"tags": sorted(tags)} if tags else {}
    if tags & {"hide-input", "hide-cell", "remove-input"} and "parameters" not in tags:
        metadata |= {"cellView": "form", "jupyter": {"source_hidden": True}}
    if "hide-cell" in tags and cell.outputs:
        metadata |= {"collapsed": True}
        metadata["jupyter"] = {"source_hidden": True, "outputs_hidden": True}
    new = nbformat.v4.new_code_cell(set_up if "colab" in tags else cell.source, metadata=metadata)
    new.execution_count = cell.execution_count
    for output in cell.outputs:
        if "metadata" in output:
            output.metadata = {}
        new.outputs.append(output)
    return _cell(new, cell.id)


def front(names: list[str], site: Site, repository: str, release: str) -> str:
    """Return the README of the branch: every chapter's notebook, page and Colab."""
    lines = [
        "# Learning Dynamics: the chapters as notebooks",
        "",
        f"Made by `tools/plain.py` from [the book's repository]({repository}) at {release}; do not edit them "
        f"here. The book itself is at <{site.address}>.",
        "",
        "| notebook | page | run |",
        "|---|---|---|",
    ]
    for name in names:
        page = f"chapters/{name}"
        lines.append(
            f"| [{name}]({name}.ipynb) | [{site.title(page)}]({site.link(page)}) | [Colab]({colab(repository, name)}) |"
        )
    return "\n".join(lines) + "\n"


def pinned(root: Path = ROOT) -> str:
    """Return what names this state of the book for good: a release's tag, else the commit, else the next release."""
    for command in (["describe", "--exact-match", "--tags", "--match", "v[0-9]*"], ["rev-parse", "HEAD"]):
        done = subprocess.run(["git", *command], cwd=root, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.strip()
    return f"v{__version__}"


def published(root: Path = ROOT) -> str:
    """Return where the site is published, with a slash at the end.

    Raises:
        ValueError: The repository's address does not say, and `_config.yml` neither.
    """
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    given = config.get("html", {}).get("baseurl", "")
    found = re.fullmatch(r"https://github\.com/([\w.-]+)/([\w.-]+)", address(root))
    if given:
        return given.rstrip("/") + "/"
    if found is None:
        raise ValueError(
            f"html: baseurl in _config.yml = {given!r}; allowed: the address of the published site"
        )
    return f"https://{found[1].lower()}.github.io/{found[2]}/"


def in_order(root: Path = ROOT) -> list[str]:
    """Return the chapters in the order of the table of contents."""
    toc = (root / "_toc.yml").read_text(encoding="utf-8")
    return [name for name in re.findall(r"file: chapters/(\S+)", toc) if name in chapters(root)]


def write(site: Site, out: Path, release: str, root: Path = ROOT) -> list[Path]:
    """Write the notebooks of all chapters and the README beside them; return their paths."""
    made, names = [], in_order(root)
    for chapter in names:
        path = out / f"{chapter}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, nbformat.writes(plain(chapter, site, release, root)) + "\n")
        made.append(path)
    write_atomically(out / "README.md", front(names, site, address(root), release))
    return made


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Write the notebooks that readers open on GitHub and in Colab."
    )
    parser.add_argument("--site", type=Path, default=ROOT / "book/_build/html", help="the rendered site")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "book/_build/notebooks", help="where to write them"
    )
    parser.add_argument(
        "--release", default=None, help="tag or commit to install; by default the one checked out"
    )
    options = parser.parse_args()
    try:
        made = write(Site(options.site, published()), options.out, options.release or pinned())
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    print(
        f"written: {len(made)} notebooks to {options.out}, {sum(path.stat().st_size for path in made) / 1e6:.0f} MB"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
