"""Roles that know the repository's address and which chapters are written, so that no page has to.

- `colab`, as in ``Run it on a GPU <implicit_bias/minimum_norm>``: the chapter's notebook in Colab. The rocket of each
  chapter leads to the same: the plain notebook that `tools/plain.py` makes, on a branch of its own.
- `repository`, as in ``the library <lib/learning_dynamics>``: a file or folder; without a target, the front page.
- `chapter`, as in ``Label noise <implicit_bias/label_noise>``: its page, or its name and "(planned)".
- `part`, as in ``Noise <noise>``: its opener, or its name and "(planned)".
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import ReferenceRole
from sphinx.util.nodes import make_refnode

from book_pages import evidence, fresh

BRANCH = "notebooks"  # where publish.yml puts what tools/plain.py makes


class Repository(ReferenceRole):
    """A link into the repository, on the branch that the book is published from."""

    def address(self) -> str:
        """Return the link's address; the target must exist in the working tree."""
        options = self.config.html_theme_options
        url, branch = options["repository_url"], options.get("repository_branch", "main")
        if not self.has_explicit_title or self.target in ("", "."):
            return url
        path = self.env.srcdir / self.target
        if not path.exists():
            raise ValueError(f"target = {self.target!r}; allowed: a path of the repository")
        return f"{url}/{'tree' if path.is_dir() else 'blob'}/{branch}/{self.target}"

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        try:
            address = self.address()
        except ValueError as error:
            message = self.inliner.reporter.error(f"{self.name}: {error}", line=self.lineno)
            return [self.inliner.problematic(self.rawtext, self.rawtext, message)], [message]
        return [nodes.reference("", self.title, refuri=address, internal=False)], []


class Colab(Repository):
    """A link that opens a chapter's notebook in Colab."""

    def address(self) -> str:
        """Return the notebook's address in Colab."""
        path = f"chapters/{self.target}.ipynb"
        if not (self.env.srcdir / path).is_file():
            raise ValueError(f"path = {path!r}; allowed: a file of the repository")
        return in_colab(self.config.html_theme_options, self.target)


def in_colab(options: dict[str, Any], chapter: str) -> str:
    """Return the address that opens a chapter's plain notebook in Colab, from the theme's options."""
    repository = options["repository_url"].removeprefix("https://github.com/")
    return f"{options['launch_buttons']['colab_url']}/github/{repository}/blob/{BRANCH}/{chapter}.ipynb"


def launch(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Let the rocket of a chapter open its plain notebook."""
    for group in context.get("header_buttons", []):
        for button in group.get("buttons", []):
            if button.get("text") == "Colab" and pagename.startswith("chapters/"):
                button["url"] = in_colab(app.config.html_theme_options, pagename.removeprefix("chapters/"))


class Chapter(ReferenceRole):
    """A link to a chapter; a chapter that is planned but not written is named without a link."""

    folder = "chapters"

    def known(self) -> bool:
        """Return whether the book has, or plans, what the role names."""
        rows = evidence.rows(Path(self.env.srcdir))
        return any(row.chapter == self.target for row in rows)

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        fresh.register(self.env)
        docname = f"{self.folder}/{self.target}"
        text = nodes.inline("", self.title, classes=[f"ld-{self.name}-name"])
        if docname in self.env.found_docs:
            return [make_refnode(self.env.app.builder, self.env.docname, docname, "", text)], []
        if self.known():
            return [text, nodes.inline("", " (planned)", classes=["ld-planned"])], []
        message = self.inliner.reporter.error(
            f"{self.name}: the book plans no {self.target}", line=self.lineno
        )
        return [self.inliner.problematic(self.rawtext, self.rawtext, message)], [message]


class Part(Chapter):
    """A link to a part's opener."""

    folder = "book/parts"

    def known(self) -> bool:
        rows = evidence.rows(Path(self.env.srcdir))
        return any(row.chapter.startswith(f"{self.target}/") for row in rows)


def setup(app: Sphinx) -> None:
    """Register the roles, and act on the buttons when the theme has made them."""
    app.connect("html-page-context", launch, priority=900)
    app.add_role("chapter", Chapter())
    app.add_role("part", Part())
    app.add_role("colab", Colab())
    app.add_role("repository", Repository())
