"""Every error that a caller can cause reads `name = value; allowed: ...`: the raise statements of library and tools."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("lib/learning_dynamics", "tools", "book/_ext")
ERRORS = {"ValueError", "TypeError", "FileNotFoundError", "FileExistsError", "LedgerError"}
KINDS = {"an integer >= 0", "a number > 0"}  # what `experiments.command` puts after "allowed: "
OLD = re.compile(r"\w=\{|[:;,] expected\b(?! =)|^expected\b|\bmust be\b|\bshould be\b|; there are:")


def text_of(message: ast.expr) -> str | None:
    """Return an error's text with {} for every value, or None where it is not written out there."""
    if isinstance(message, ast.BinOp) and isinstance(message.op, ast.Add):
        sides = text_of(message.left), text_of(message.right)
        return "".join(side or "{}" for side in sides) if any(sides) else None
    parts = message.values if isinstance(message, ast.JoinedStr) else [message]
    words = [str(part.value) for part in parts if isinstance(part, ast.Constant)]
    if not words:
        return None
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)


def messages(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of every error of these kinds that is made in the source.

    Left out is what passes another error on with words before it: `raise LedgerError(f"{id}: {error}") from error`.
    """
    nodes = list(ast.walk(ast.parse(source)))
    passed_on = {id(node.exc) for node in nodes if isinstance(node, ast.Raise) and node.cause is not None}
    for node in nodes:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ERRORS
            and node.args
        ):
            text = text_of(node.args[0])
            if (
                text is not None
                and text not in KINDS
                and not (id(node) in passed_on and text.endswith(": {}"))
            ):
                yield node.lineno, text


def foreign(source: str) -> list[str]:
    """Return the texts that are not in the dialect."""
    return [f"{line}: {text}" for line, text in messages(source) if "allowed" not in text or OLD.search(text)]


MODULES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_errors_say_what_was_given_and_what_is_allowed(path: Path) -> None:
    assert foreign(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        'raise ValueError(f"size={size}: expected an integer")',
        'raise ValueError("size must be positive")',
        'raise TypeError(f"size = {size!r}")',
        'raise LedgerError(f"{id}: expected one line; allowed: one")',
        'error = FileNotFoundError("no file " + name)',
    ],
)
def test_the_old_dialect_is_seen(source: str) -> None:
    assert foreign(source)
    assert not foreign('raise ValueError(f"size = {size!r}; allowed: an integer >= 1")')


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_mypy_is_told_to_ignore_is_explained(path: Path) -> None:
    bare = [line for line in path.read_text(encoding="utf-8").splitlines() if "type: ignore" in line]
    assert [line for line in bare if not re.search(r"# type: ignore\[[a-z-]+\]  # \w", line)] == []
