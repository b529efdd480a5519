"""One visit to a page: it is opened once, brought to each width and theme once, and asked everything there."""

from __future__ import annotations

from typing import Any

import access
from browsing import Bench, everything_unfolded

CONTRAST = 4.5
CONTRAST_LARGE = 3.0
TYPESET_SECONDS = 2.0

FORMULAS = """() => {
  const main = document.querySelector("main");
  const untouched = [...main.querySelectorAll(".math")].filter(
    (node) => node.textContent.trim() && !node.querySelector("mjx-container"));
  const failed = [...main.querySelectorAll("mjx-merror, [data-mjx-error], .MathJax_Error")];
  const copy = main.cloneNode(true);
  copy.querySelectorAll("pre, code, script, style, mjx-container").forEach((node) => node.remove());
  const raw = copy.textContent.match(/\\\\\\(|\\\\\\[|\\\\begin\\{|\\$[^$\\n]{1,80}\\$/g) || [];
  return { untouched: untouched.map((n) => n.textContent), failed: failed.map((n) => n.textContent), raw };
}"""

WIDE = """() => {
  const beyond = (node, edge) => node.getBoundingClientRect().right > edge + 1;
  const faults = [];
  for (const node of document.querySelectorAll("article *")) {
    if (node.closest("svg, .sr-only, mjx-assistive-mml")) continue;
    if (node.closest("mjx-container") && node.tagName !== "MJX-CONTAINER") continue;
    if (!node.getClientRects().length) continue;
    for (let up = node.parentElement; ; up = up.parentElement) {
      const overflow = getComputedStyle(up).overflowX;
      const cuts = ["hidden", "clip"].includes(overflow) && node.tagName === "MJX-CONTAINER";
      if (cuts && beyond(node, up.getBoundingClientRect().right)) faults.push(`cut: ${node.parentElement.textContent}`);
      if (overflow !== "visible") break;
      if (up.tagName === "ARTICLE") {
        if (beyond(node, innerWidth)) faults.push(`wide: ${node.outerHTML.slice(0, 120)}`);
        break;
      }
    }
  }
  for (const node of document.querySelectorAll("article div.math > mjx-container")) {
    const start = node.parentElement.getBoundingClientRect().left - 1;
    const hidden = node.getClientRects().length && node.getBoundingClientRect().left < start;
    if (hidden) faults.push(`begins out of sight: ${node.parentElement.textContent}`);
  }
  return { width: document.documentElement.scrollWidth, faults };
}"""

LEGIBLE = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  canvas.canvas.width = canvas.canvas.height = 1;
  const cache = new Map();
  const rgba = (colour) => {
    if (!cache.has(colour)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      cache.set(colour, [r, g, b, a / 255]);
    }
    return cache.get(colour);
  };
  const over = (top, ground) => [0, 1, 2].map((i) => top[i] * top[3] + ground[i] * (1 - top[3]));
  const light = (colour) => {
    const [r, g, b] = colour.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (node) => {
    const layers = [];
    for (let up = node; up; up = up.parentElement) {
      const colour = rgba(getComputedStyle(up).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const walker = document.createTreeWalker(document.querySelector(".bd-container, body"), NodeFilter.SHOW_TEXT);
  const faults = new Map();
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const node = text.parentElement;
    if (!text.data.trim() || node.closest("script, style, svg, option, mjx-assistive-mml, noscript")) continue;
    if (!node.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const style = getComputedStyle(node);
    const below = ground(node);
    const [a, b] = [light(over(rgba(style.color), below)), light(below)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && parseInt(style.fontWeight) >= 700);
    if (ratio < (large ? LARGE : SMALL)) {
      const key = `${style.color} on ${below.map(Math.round)}`;
      const words = text.data.trim().slice(0, 40);
      if (!faults.has(key)) faults.set(key, `${key}: ${ratio.toFixed(2)} "${words}" ${node.className}`);
    }
  }
  return [...faults.values()];
}""".replace("LARGE", str(CONTRAST_LARGE)).replace("SMALL", str(CONTRAST))

# Code that scrolls sideways, and lines of at most 88 characters that are broken (boxes and lists leave less room).
CODE = """(characters) => {
  const code = [...document.querySelectorAll("article .highlight pre")].filter((node) => !node.closest(".cell_output"));
  const lines = [...document.querySelectorAll("article section > .cell > .cell_input .ld-line")];
  const tall = (line) => line.getBoundingClientRect().height > 1.5 * parseFloat(getComputedStyle(line).lineHeight);
  return {
    scrolls: code.filter((node) => node.scrollWidth > node.clientWidth + 1).map((node) => node.textContent.slice(0, 9)),
    broken: lines.map((line) => [line, line.textContent.trimEnd()])
      .filter(([line, text]) => text.length <= characters && tall(line)).map(([, text]) => text),
  };
}"""
CHARACTERS = {360: 0, 390: 0, 768: 78, 1280: 88}  # of code, that fit into a line

IMAGES = "() => [...document.querySelectorAll('article .cell_output img')].every((image) => image.complete)"
SHARES = """() => [...document.querySelectorAll("article .cell_output img")]
  .filter((image) => image.naturalWidth).map((image) => image.clientWidth / image.naturalWidth)"""

# How much of a table of source / here the words of a row take.
HEADS = """() => [...document.querySelectorAll("article table.ld-comparison tbody th")]
  .map((head) => head.clientWidth / head.closest("table").clientWidth)"""

PARTS = """() => [...document.querySelectorAll("[data-widget]")].map((part) => {
  const { left, right } = part.getBoundingClientRect();
  const readouts = [...part.querySelectorAll("[data-quantity]")].map((node) => node.innerText);
  return { name: part.dataset.widget, ready: part.dataset.ready === "true", left, right, readouts };
})"""

TYPESET = """() => {
  const old = [...document.querySelectorAll("mjx-container")];
  if (!old.length) return { seconds: 0, formulas: 0 };
  const start = performance.now();
  MathJax.startup.document.rerender();
  const seconds = (performance.now() - start) / 1000;
  return { seconds, formulas: old.filter((node) => !node.isConnected).length };
}"""


class Visit:
    """What a page shows at every width and theme, with every fold open.

    The order is that of the least work: a width is set once, and what axe needs, which changes the page, comes last.
    """

    def __init__(self, site: Bench, name: str) -> None:
        site.complaints.clear()
        self.name = name
        page = site.look(name)
        self.title = page.title()
        self.formulas = page.evaluate(FORMULAS)
        self.fits: dict[int, dict[str, Any]] = {}
        self.code: dict[int, dict[str, list[str]]] = {}
        self.shares: dict[int, list[float]] = {}
        self.pale: dict[tuple[int, str], list[str]] = {}
        self.axe: dict[tuple[int, str], list[dict[str, str]]] = {}
        for width in (360, 390, 768, 1280):
            everything_unfolded(page, "light", width=width)
            self.fits[width] = page.evaluate(WIDE)
            self.code[width] = page.evaluate(CODE, CHARACTERS[width])
            if width < 768:
                page.wait_for_function(IMAGES)
                self.shares[width] = page.evaluate(SHARES)
            if width == 390:
                self.parts = page.evaluate(PARTS)
                self.heads = page.evaluate(HEADS)
        self.pale[1280, "light"] = page.evaluate(LEGIBLE)
        for width in (1280, 390):
            everything_unfolded(page, "dark", width=width)
            self.pale[width, "dark"] = page.evaluate(LEGIBLE)
        self.typeset = [page.evaluate(TYPESET)]
        while self.typeset[-1]["seconds"] >= TYPESET_SECONDS and len(self.typeset) < 5:
            self.typeset.append(page.evaluate(TYPESET))
        if not access.missing():
            self.axe[390, "dark"] = access.faults(page)
            everything_unfolded(page, "light", width=1280)
            self.axe[1280, "light"] = access.faults(page)
        page.close()
        self.complaints = list(site.complaints)
