"""Where the site lies, from the repository's address: descriptions, a site map, a page for links that lead nowhere.

GitHub publishes `https://github.com/OWNER/NAME` at `https://OWNER.github.io/NAME/`. Another place is named by `baseurl`
under `html` in `_config.yml`.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sphinx.application import Sphinx
from sphinx.config import Config

EXTENSIONS = ("sphinxext.opengraph", "sphinx_sitemap", "notfound.extension")

LOST = (
    "<h1>Page not found</h1><p>No page of the book lies at this address.</p><ul>"
    '<li><a href="{start}search.html">Search</a> knows every theorem and figure by its number and name.</li>'
    '<li><a href="{start}book/find_a_result.html">Find a result</a> lists all results by their source.</li>'
    '<li>The book <a href="{start}book/index.html">begins here</a>.</li></ul>'
)


def published_at(repository: str) -> str:
    """Return where GitHub publishes a repository's pages, with a slash at the end; empty if it does not."""
    found = re.fullmatch(r"https://github\.com/([\w.-]+)/([\w.-]+)", repository)
    return f"https://{found[1].lower()}.github.io/{found[2]}/" if found else ""


def place(app: Sphinx, config: Config) -> None:
    """Tell each extension the address, if there is one."""
    address = config.html_baseurl or published_at(config.html_theme_options.get("repository_url", ""))
    start = urlsplit(address).path or "/"
    values: dict[str, Any] = {
        "html_baseurl": address,
        "ogp_site_url": address,
        "ogp_site_name": config.html_title or "Learning Dynamics",
        "ogp_social_cards": {"enable": False},
        "ogp_description_length": 200,
        "sitemap_url_scheme": "{link}",
        "sitemap_show_lastmod": False,
        "notfound_urls_prefix": start,
        "notfound_context": {"title": "Page not found", "body": LOST.format(start=start)},
    }
    for name, value in values.items():
        setattr(config, name, value)
    if config.html_theme == "sphinx_book_theme":
        config.html_theme_options["extra_footer"] = f"Learning Dynamics, release {release()}"


def release() -> str:
    """Return the version that this copy of the book is, or will become."""
    project = Path(__file__).resolve().parents[3] / "pyproject.toml"
    return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])


def name_release(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    """Tell the page's script the release, which a copied citation names."""
    context["metatags"] = context.get("metatags", "") + f'<meta name="release" content="{release()}" />'


def setup(app: Sphinx) -> None:
    """Load the extensions, and tell them before they read their settings."""
    for extension in EXTENSIONS:
        app.setup_extension(extension)
    app.connect("config-inited", place, priority=100)
    app.connect("html-page-context", name_release)
