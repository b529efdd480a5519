"""What the tests of pages share: the render, the list of pages, one browser and a server of the rendered book."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest
import yaml
from conftest import ROOT

BUILD = ROOT / "book/_build"
HTML = BUILD / "html"
MADE = ROOT / "book/api"
STAMP = BUILD / "rendered-without-a-warning.json"
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None,
    reason="no Chromium: `apt-get install -y --no-install-recommends chromium fonts-dejavu-core`, or set CHROMIUM",
)


def documents() -> list[str]:
    """The pages that `_toc.yml` lists, without ending."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))

    def below(entries: list[dict[str, Any]]) -> Iterator[str]:
        for entry in entries:
            yield entry["file"]
            yield from below(entry.get("sections", []))

    return [toc["root"], *(name for part in toc["parts"] for name in below(part["chapters"]))]


PAGES = documents()
CHAPTERS = [name.removeprefix("chapters/") for name in PAGES if name.startswith("chapters/")]


def sources() -> str:
    """A fingerprint of everything that the rendered pages are made from."""
    files = [ROOT / "_config.yml", ROOT / "_toc.yml"]
    for folder in ("book", "chapters", "lib/learning_dynamics"):
        files += [path for path in sorted((ROOT / folder).rglob("*")) if path.is_file()]
    digest = hashlib.sha256()
    for path in files:
        if (
            {BUILD, MADE} & set(path.parents)
            or "__pycache__" in path.parts
            or ".ipynb_checkpoints" in path.parts
        ):
            continue
        digest.update(f"{path.relative_to(ROOT)} ".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


@contextlib.contextmanager
def alone(name: str) -> Iterator[None]:
    """Wait until no other worker of pytest is in here under this name."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with open(BUILD / f"{name}.lock", "w", encoding="utf-8") as stream:
        _lock(stream)
        yield


def _lock(stream: IO[str]) -> None:
    try:
        import fcntl
    except ImportError:  # on Windows the tests run in one process
        return
    fcntl.flock(stream, fcntl.LOCK_EX)


def render_book() -> list[str]:
    """Render the book, warnings as errors, and return them; the last clean render is kept if nothing has changed."""
    with alone("render"):
        return _render_book()


def _render_book() -> list[str]:
    now = sources()
    if STAMP.is_file() and json.loads(STAMP.read_text(encoding="utf-8"))["sources"] == now:
        return []
    STAMP.unlink(missing_ok=True)
    done = subprocess.run(
        [Path(sys.executable).parent / "jupyter-book", "build", ".", "--all", "-W", "--keep-going", "-n"]
        + ["--path-output", "book"],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
    )
    if done.returncode == 0:
        STAMP.write_text(json.dumps({"sources": now}), encoding="utf-8")
        return []
    said = (done.stdout + done.stderr).splitlines()
    return [line for line in said if re.search("WARNING|ERROR", line)] or said[-30:]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


@dataclass
class Bench:
    """A browser on the rendered site, and what its pages complained of."""

    browser: Any
    address: str
    complaints: list[str] = field(default_factory=list)
    _visitors: Any = None

    @property
    def visitors(self) -> Any:
        """One context for pages that are only looked at: scripts and fonts come once and stay."""
        if self._visitors is None:
            self._visitors = self.browser.new_context(
                viewport={"width": 1280, "height": 900}, color_scheme="light", reduced_motion="reduce"
            )
        return self._visitors

    def look(self, name: str, *, query: str = "", before: str = "") -> Any:
        """Open a page beside others that are only looked at; it keeps nothing. Close it in the end."""
        return self._go(self.visitors.new_page(), name, query=query, before=before)

    def open(
        self,
        name: str,
        *,
        width: int = 1280,
        theme: str = "light",
        script: bool = True,
        query: str = "",
        before: str = "",
    ) -> Any:
        """Open a page in a context of its own, as a reader's first visit, and wait until its formulas are set."""
        context = self.browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=theme,
            java_script_enabled=script,
            reduced_motion="reduce",
        )
        return self._go(context.new_page(), name, script=script, query=query, before=before)

    def _go(self, page: Any, name: str, *, script: bool = True, query: str = "", before: str = "") -> Any:
        page.set_default_timeout(20_000)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        if script:  # without, the preloaded scripts are given up
            page.on("requestfailed", self._failed)
        page.on("response", self._response)
        page.on("request", self._request)
        if before:
            page.add_init_script(before)
        page.goto(f"{self.address}/{name}.html{query}", timeout=60_000)
        if script:
            page.evaluate("() => window.MathJax?.startup?.promise")
            page.evaluate("() => document.fonts.ready")
        return page

    def _failed(self, request: Any) -> None:
        """Note what did not come; Chromium asks for the icon last, and gives up when the test closes the page."""
        if not (request.url.endswith("/_static/favicon.svg") and request.failure == "net::ERR_ABORTED"):
            self.complaints.append(f"failed: {request.url} ({request.failure})")

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _response(self, response: Any) -> None:
        if response.status >= 400:
            self.complaints.append(f"{response.status}: {response.url}")

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.complaints.append(f"another host: {request.url}")


# The page answers a change of its size 50 ms later. Colours that fade in would be measured half way.
SETTLE = """async () => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  await frame();
  await frame();
  await new Promise((done) => setTimeout(done, 80));
  await frame();
}"""
STILL = "*, *::before, *::after { transition: none !important; animation: none !important; }"


def everything_unfolded(page: Any, theme: str, width: int = 1280) -> None:
    """Bring a page to a width and a theme, with every fold open, and wait until it has come to rest."""
    if not page.evaluate("() => 'ldStill' in document.documentElement.dataset"):
        page.add_style_tag(content=STILL)
        page.evaluate("() => { document.documentElement.dataset.ldStill = ''; }")
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("() => document.querySelectorAll('main details').forEach((node) => { node.open = true; })")
    page.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)
    page.evaluate(SETTLE)


def serve(folder: Path) -> http.server.ThreadingHTTPServer:
    """Serve a folder on this machine until the caller shuts the server down."""
    handler = functools.partial(Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
