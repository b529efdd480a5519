"""The first three code cells of every chapter, made from one template: set-up on Colab, parameters, imports.

    python tools/preamble.py [part/name ...]      write them into these chapters, or into all

`tools/chapter.py` does the same before it executes a chapter.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

from learning_dynamics import ledger
from learning_dynamics.ledger.read import chapters

ROOT = Path(__file__).resolve().parents[1]
COLAB_CELL = """\
# On Colab only: fetch the library of this book. It replaces nothing that is installed there.
import subprocess
import sys

if "google.colab" in sys.modules:
    address = "git+{address}"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", address], check=True)
    from learning_dynamics import colab

    colab.prepare()"""
PARAMETERS_CELL = """\
SCALE = "book"
DEVICE = "auto"
SEED = 0"""
SET_UP = """\
figures.use_style()
run = runs.Run("{chapter}", scale=SCALE, device=DEVICE, seed=SEED{more})
ledger = Ledger(run)"""
SET_UP_LINE = re.compile(
    r"figures\.use_style\(\)"
    r"|run = runs\.Run\(\s*\"[^\"]*\",\s*scale=SCALE,\s*device=DEVICE,\s*seed=SEED(?P<more>(?:,\s*\w+=[\w.]+)*),?\s*\)"
    r"|ledger = Ledger\(run\)"
)
ROOMS = (
    *("curvature", "data", "diffusions", "ensembles", "figures", "flows", "models", "optimizers", "results"),
    *("rules", "runs", "statistics"),
)
KNOWN = {  # what a chapter may use without importing it: the template does
    "math": "import math",
    "plt": "import matplotlib.pyplot as plt",
    "np": "import numpy as np",
    "torch": "import torch",
    "COLORS": "from learning_dynamics.figures import COLORS",
    **{room: f"from learning_dynamics import {room}" for room in ROOMS},
    **{name: f"from learning_dynamics.ledger import {name}" for name in ledger.__all__},
}


class Cell:
    """One code cell in a chapter's text: where its source stands, and its tags."""

    def __init__(self, text: str, mark: re.Match[str], end: int) -> None:
        listed = re.search(r"tags=\[([^\]]*)\]", mark[0])
        self.tags = set(re.findall(r'"([^"]*)"', listed[1])) if listed else set()
        self.start, self.end = mark.end() + 1, end
        self.source = text[self.start : self.end].rstrip("\n")
        self.blank = text[self.start : self.end][len(self.source) :] or "\n\n"


def address(root: Path = ROOT) -> str:
    """Return the repository's address from its one place, `_config.yml`."""
    match = re.search(r"^\s*url:\s*(\S+)", (root / "_config.yml").read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise ValueError("url in _config.yml = None; allowed: the repository's address")
    return match[1].strip("\"'")


def colab_cell(root: Path = ROOT, release: str = "") -> str:
    """Return the set-up cell of every chapter; it fetches a release, or the newest commit if none is named."""
    return COLAB_CELL.format(address=address(root) + (f"@{release}" if release else ""))


def code_cells(text: str) -> list[Cell]:
    """Return the code cells of a percent script in order."""
    marks = list(re.finditer(r"^# %%.*$", text, re.MULTILINE))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    return [
        Cell(text, mark, end)
        for mark, end in zip(marks, ends, strict=True)
        if not mark[0].startswith("# %% [markdown]")
    ]


def filled(text: str, chapter: str, root: Path = ROOT) -> str:
    """Return a chapter's text with its first three code cells as the templates want them.

    The cell tagged `colab` fetches the library. The cell tagged `parameters` sets scale, device and seed, and `PART`
    where the chapter has parts. The cell after it imports what the chapter uses, once: imports that no cell uses go,
    those in `KNOWN` that a cell uses come, all are sorted; then it makes `run` and `ledger`, and its own lines follow.

    Raises:
        ValueError: the first code cells are of other kinds, or something is imported after them.
    """
    cells = code_cells(text)
    kinds = [
        "colab" if "colab" in cell.tags else "parameters" * ("parameters" in cell.tags) for cell in cells
    ]
    if kinds[:3] != ["colab", "parameters", ""] or any(kinds[3:]):
        found = ", ".join(kind or "other" for kind in kinds[:3]) or "none"
        raise ValueError(
            f"first code cells of {chapter} = {found}; allowed: colab, parameters, other, and no more"
        )
    colab, parameters, set_up = cells[:3]
    for cell in cells[3:]:
        late = [node for node in ast.parse(cell.source).body if isinstance(node, ast.Import | ast.ImportFrom)]
        if late:
            raise ValueError(
                f"import in {chapter} = {ast.unparse(late[0])!r}; allowed: in the third code cell"
            )
    parts = [line for line in parameters.source.splitlines() if line.startswith("PART = ")]
    sources = [
        colab_cell(root),
        "\n".join([PARAMETERS_CELL, *parts]),
        _set_up(set_up.source, [cell.source for cell in cells[3:]], chapter, root),
    ]
    for cell, source in reversed(list(zip(cells[:3], sources, strict=True))):
        text = text[: cell.start] + source + cell.blank + text[cell.end :]
    return text


def fill(path: Path, root: Path = ROOT) -> None:
    """Write the three cells into a chapter's `.py`; the file is left alone if they are there already.

    Raises:
        ValueError: as `filled`.
    """
    text = path.read_text(encoding="utf-8")
    new = filled(text, f"{path.parent.name}/{path.stem}", root)
    if new != text:
        path.write_text(new, encoding="utf-8")


def _set_up(source: str, others: list[str], chapter: str, root: Path) -> str:
    """Return the third cell: sorted imports, the three lines of the template, the chapter's own lines."""
    nodes = ast.parse(source).body
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    last = max((node.end_lineno or 0 for node in imports), default=0)
    if any(node.lineno < last for node in nodes if node not in imports):
        raise ValueError(f"third code cell of {chapter} = code between imports; allowed: imports, then code")
    own = "\n".join(source.splitlines()[last:]).strip("\n")
    own = re.sub(r"\A# set-up \(generated\)\n*", "", own)
    more = next((match["more"] for match in SET_UP_LINE.finditer(own) if match["more"]), "")
    own = re.sub(rf"^(?:{SET_UP_LINE.pattern})(?:\n|\Z)", "", own, flags=re.MULTILINE)
    made = SET_UP.format(chapter=chapter, more=more)
    used, bound = _names("\n\n".join([made, own, *others]))
    kept = [line for node in imports for line in _used_imports(node, used)]
    have = bound | {line.split()[-1].split(".")[0] for line in kept}
    lines = kept + [KNOWN[name] for name in sorted(used - have) if name in KNOWN]
    imports_text = _sorted("\n".join(lines) + "\n", root).strip()
    return f"{imports_text}\n\n{made}\n{own}".rstrip("\n")


def _names(source: str) -> tuple[set[str], set[str]]:
    """Return the names that code reads, and those that it binds, in any scope."""
    nodes = list(ast.walk(ast.parse(source)))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    bound |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return {node.id for node in names if isinstance(node.ctx, ast.Load)}, bound


def _used_imports(node: ast.Import | ast.ImportFrom, used: set[str]) -> list[str]:
    """Return a statement for each name of an import that is used."""
    lines = []
    for alias in node.names:
        if (alias.asname or alias.name).split(".")[0] in used:
            kept = (
                ast.Import([alias])
                if isinstance(node, ast.Import)
                else ast.ImportFrom(node.module, [alias], 0)
            )
            lines.append(ast.unparse(kept))
    return lines


def _sorted(imports: str, root: Path) -> str:
    """Return imports as ruff sorts and formats them."""
    ruff = [sys.executable, "-m", "ruff"]
    place = ["--stdin-filename", "chapters/part/name.py", "-"]
    for command in (
        ["check", "--quiet", "--select", "I", "--fix-only", *place],
        ["format", "--quiet", *place],
    ):
        done = subprocess.run(
            [*ruff, *command], cwd=root, input=imports, capture_output=True, text=True, check=True
        )
        imports = done.stdout
    return imports


def main() -> int:
    for chapter in sys.argv[1:] or chapters(ROOT):
        try:
            fill(ROOT / "chapters" / f"{chapter}.py")
        except (ValueError, FileNotFoundError) as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
