from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

if TYPE_CHECKING:
    from browsing import Bench


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several workers each page is visited by one of them, and what else looks at pages stays together by file."""
    for item in items:
        if item.get_closest_marker("pages"):
            asked = (
                item.callspec.params
                if isinstance(item, pytest.Function) and hasattr(item, "callspec")
                else {}
            )
            item.add_marker(pytest.mark.xdist_group(str(asked.get("visit", item.path.stem))))


@pytest.fixture(scope="session")
def render() -> list[str]:
    """What the render complained of; the last clean render is kept if nothing has changed."""
    from browsing import render_book

    return render_book()


@pytest.fixture(scope="session")
def html(render: list[str]) -> Path:
    """The folder of the rendered pages."""
    from browsing import HTML

    return HTML


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The one browser of all tests."""
    from browsing import CHROMIUM, FLAGS

    playwright = pytest.importorskip(
        "playwright.sync_api", reason="Python's playwright is in requirements.txt"
    )
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def site(html: Path, chromium: Any) -> Iterator[Bench]:
    """The browser on the rendered book."""
    from browsing import Bench, serve

    server = serve(html)
    yield Bench(chromium, f"http://127.0.0.1:{server.server_port}")
    server.shutdown()
    server.server_close()


@pytest.fixture
def bench(site: Bench) -> Iterator[Bench]:
    """A bench for one test; afterwards no page may have complained."""
    site.complaints.clear()
    kept = [*site.browser.contexts, site.visitors]
    yield site
    for page in site.visitors.pages:
        page.close()
    for context in site.browser.contexts:
        if context not in kept:
            context.close()
    assert site.complaints == []
