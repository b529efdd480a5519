"""axe-core on a page: what it finds against WCAG 2 A and AA.

axe-core is pinned in `tests/book/axe/package-lock.json` and fetched with npm the first time it is needed.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
from typing import Any

from browsing import alone
from conftest import ROOT

FOLDER = ROOT / "tests/book/axe"
SCRIPT = FOLDER / "node_modules/axe-core/axe.min.js"
LEVELS = ["wcag2a", "wcag2aa"]

# Before axe looks, formulas become plain boxes of the same size, code and signatures but the first become plain text,
# and long tables lose their tail: else it would spend a quarter of an hour on thousands of like pieces. They stay so.
# The contrast of every piece is measured by `test_page_is_legible`; a test of its own sees that no formula is a stop of
# the tab key.
SIMPLIFY = """() => {
  if ("ldSimple" in document.documentElement.dataset) return;
  document.documentElement.dataset.ldSimple = "";
  const boxes = [...document.querySelectorAll("mjx-container")].map((node) => [node, node.getBoundingClientRect()]);
  for (const [node, { width, height }] of boxes) {
    node.style.cssText += `; display: inline-block; width: ${width}px; height: ${height}px; overflow: hidden`;
    node.replaceChildren("x");
  }
  const size = (node) => node.childNodes.length;
  const code = [...document.querySelectorAll(".highlight pre")].sort((a, b) => size(a) - size(b));
  for (const node of code.slice(1)) node.replaceChildren(node.textContent);
  for (const node of [...document.querySelectorAll(".sig")].slice(5)) node.replaceChildren(node.textContent);
  for (const body of document.querySelectorAll("tbody")) {
    if (body.rows.length > 20) body.replaceChildren(...[...body.rows].slice(0, 20));
  }
}"""
LOOK = """async (rules) => {
  const { violations } = await axe.run(document, { runOnly: rules, resultTypes: ["violations"], preload: false });
  return violations.flatMap(({ id, nodes }) => nodes.map(({ target, html }) => (
    { id, target: target.flat().join(" "), html: html.slice(0, 200) })));
}"""


@functools.cache
def missing() -> str:
    """Fetch axe-core if it is not there; return why it cannot be had, or nothing."""
    with alone("axe"):
        if SCRIPT.is_file():
            return ""
        npm = shutil.which("npm")
        if npm is None:
            return "no axe-core: npm is not installed"
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=120)
    return "" if SCRIPT.is_file() else f"no axe-core: `npm ci` in tests/book/axe says {done.stderr[-300:]}"


def faults(page: Any) -> list[dict[str, str]]:
    """Return what axe finds on an open page of Playwright's, and leave the page simplified."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(SCRIPT.read_text(encoding="utf-8"))
    page.evaluate(SIMPLIFY)
    found: list[dict[str, str]] = page.evaluate(LOOK, LEVELS)
    return found
