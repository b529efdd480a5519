"""Roles that know the repository's address, so that no page has to.

    {colab}`Run it on a GPU <implicit_bias/minimum_norm>`     the chapter's notebook in Colab
    {repository}`the library <lib/learning_dynamics>`         a file or folder of the repository; no target: its front page
"""

from __future__ import annotations

from docutils import nodes
from docutils.parsers.rst.states import Inliner
from sphinx.application import Sphinx
from sphinx.util.docutils import ReferenceRole


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
            raise ValueError(f"{self.target} is not in the repository")
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

    inliner: Inliner

    def address(self) -> str:
        """Return the notebook's address in Colab."""
        options = self.config.html_theme_options
        path = f"chapters/{self.target}.ipynb"
        if not (self.env.srcdir / path).is_file():
            raise ValueError(f"{path} is not in the repository")
        repository = options["repository_url"].removeprefix("https://github.com/")
        host = options["launch_buttons"]["colab_url"]
        return f"{host}/github/{repository}/blob/{options.get('repository_branch', 'main')}/{path}"


def setup(app: Sphinx) -> None:
    """Register the roles."""
    app.add_role("colab", Colab())
    app.add_role("repository", Repository())
