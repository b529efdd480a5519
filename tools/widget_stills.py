"""Photograph the pictures that move, at rest, for chapters without a figure of the same state.

    python tools/widget_stills.py [part/name ...]       those without a cell tagged static-twin, if left out

Needs the rendered book and Chromium; writes `book/_static/widgets/NAME.png`, which the plain notebooks show.
"""

from __future__ import annotations

import os
import re
import shutil
import sys

from playwright.sync_api import sync_playwright

from chapter import ROOT
from learning_dynamics.ledger.read import chapters

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]
WIDTH = 760


def waiting() -> list[str]:
    """Return the chapters with a moving picture that no figure of their own shows at rest."""
    texts = {name: (ROOT / f"chapters/{name}.py").read_text(encoding="utf-8") for name in chapters(ROOT)}
    return [name for name, text in texts.items() if "data-widget=" in text and '"static-twin"' not in text]


def main() -> int:
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    names = sys.argv[1:] or waiting()
    missing = [name for name in names if not (ROOT / f"book/_build/html/chapters/{name}.html").is_file()]
    if missing or chromium is None:
        print(
            f"CHAPTER = {', '.join(missing)}; allowed: rendered ones, and Chromium = {chromium}",
            file=sys.stderr,
        )
        return 1
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        for name in names:
            page.goto((ROOT / f"book/_build/html/chapters/{name}.html").as_uri())
            for place in page.locator(".ld-widget").all():
                widget = str(place.get_attribute("data-widget"))
                page.wait_for_selector(f'.ld-widget[data-widget="{widget}"] svg')
                place.scroll_into_view_if_needed()
                picture = ROOT / "book/_static/widgets" / f"{re.sub('-', '_', widget)}.png"
                place.screenshot(path=picture)
                print(f"written: {picture.relative_to(ROOT)}, {picture.stat().st_size / 1e3:.0f} kB")
        browser.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
