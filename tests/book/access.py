"""axe-core on a page: what it finds against WCAG 2 A and AA, and what is left to the theme.

axe-core is pinned in `tests/book/axe/package-lock.json` and fetched with npm the first time it is needed.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
from typing import Any

from conftest import ROOT

FOLDER = ROOT / "tests/book/axe"
SCRIPT = FOLDER / "node_modules/axe-core/axe.min.js"
LEVELS = ["wcag2a", "wcag2aa"]

# What stems from the theme and cannot be mended here: (rule, part of the selector, reason).
LEFT: tuple[tuple[str, str, str], ...] = ()

# Formulas and all code blocks but the first become plain boxes of the same size while axe looks, and long tables lose
# their tail: else it would spend a quarter of an hour on thousands of like pieces. `test_page_is_legible` measures the
# contrast of every piece, and a test of its own sees that no formula is a stop of the tab key.
LOOK = """async ({ rules, contrast }) => {
  const kept = [];
  const swap = (node, ...inside) => { kept.push([node, [...node.childNodes]]); node.replaceChildren(...inside); };
  const boxes = [...document.querySelectorAll("mjx-container")].map((node) => [node, node.getBoundingClientRect()]);
  for (const [node, { width, height }] of boxes) {
    const box = document.createElement("span");
    box.style.cssText = `display: inline-block; width: ${width}px; height: ${height}px; overflow: hidden`;
    box.textContent = "x";
    swap(node, box);
  }
  for (const node of [...document.querySelectorAll(".highlight pre")].slice(1)) swap(node, node.textContent);
  for (const body of document.querySelectorAll("tbody")) {
    if (body.rows.length > 20) swap(body, ...[...body.rows].slice(0, 20));
  }
  const runOnly = contrast ? { type: "rule", values: ["color-contrast"] } : rules;
  const { violations } = await axe.run(document, { runOnly, resultTypes: ["violations"], preload: false });
  for (const [node, inside] of kept.reverse()) node.replaceChildren(...inside);
  return violations.flatMap(({ id, nodes }) => nodes.map(({ target, html }) => (
    { id, target: target.flat().join(" "), html: html.slice(0, 200) })));
}"""


@functools.cache
def missing() -> str:
    """Fetch axe-core if it is not there; return why it cannot be had, or nothing."""
    if SCRIPT.is_file():
        return ""
    npm = shutil.which("npm")
    if npm is None:
        return "no axe-core: npm is not installed"
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=120)
    return "" if SCRIPT.is_file() else f"no axe-core: `npm ci` in tests/book/axe says {done.stderr[-300:]}"


def faults(page: Any, *, contrast: bool = False) -> list[dict[str, str]]:
    """Return what axe finds on an open page beyond what is left to the theme.

    Args:
        page: A page of Playwright's.
        contrast: Look at the contrast of colours only.
    """
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(SCRIPT.read_text(encoding="utf-8"))
    found = page.evaluate(LOOK, {"rules": LEVELS, "contrast": contrast})
    return [
        each
        for each in found
        if not any(each["id"] == rule and part in each["target"] for rule, part, _ in LEFT)
    ]
