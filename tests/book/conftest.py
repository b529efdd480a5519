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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With several workers and `--dist loadscope` one of them visits a page; what else a file asks stays together."""
    from browsing import PAGES
    from xdist.scheduler import LoadScopeScheduling

    if config.getoption("dist") != "loadscope":
        return None
    visited = sorted([*PAGES, "search", "genindex"], key=len, reverse=True)

    class ByPage(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file, _, test = nodeid.partition("::")
            asked = test.partition("[")[2].removesuffix("]")
            pages = (page for page in visited if asked == page or asked.startswith(f"{page}-"))
            return str(next(pages, file))

    return ByPage(config, log)


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
