"""Which pages must be made again when a notebook, the inventory, a title, a word or the list of pages changes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError

from book_pages import evidence, terms


def register(env: BuildEnvironment) -> None:
    """Note that the page now being read depends on the notebooks or on which pages exist."""
    for path in evidence.files(Path(env.srcdir)):
        env.note_dependency(str(path))
    _pages(env).add(env.docname)


def _pages(env: BuildEnvironment) -> set[str]:
    if not hasattr(env, "book_fresh"):
        env.book_fresh = set()  # type: ignore[attr-defined]  # ours, kept there
    return env.book_fresh  # type: ignore[attr-defined]  # ours, kept there


def outdated(app: Sphinx, env: BuildEnvironment, *_: Any) -> list[str]:
    """Return the registered pages if a notebook, the inventory or a page has changed, appeared or gone.

    Raises:
        ExtensionError: The notebooks and the inventory do not fit together; nothing is rendered.
    """
    try:
        evidence.rows(Path(env.srcdir))
    except ValueError as error:
        raise ExtensionError(str(error)) from error
    pdf = Path(env.srcdir) / "book" / "_build" / "learning-dynamics.pdf"
    made = pdf.stat().st_mtime_ns if pdf.is_file() else 0
    new = (evidence.stamp(Path(env.srcdir)), frozenset(env.found_docs), made)
    old = getattr(env, "book_stamp", None)
    env.book_stamp = new  # type: ignore[attr-defined]  # ours, kept there
    return [] if old == new else sorted(_pages(env) & env.found_docs)


def renamed(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Return all pages if a title, a number, the order of the pages or the glossary has changed: each shows them."""
    titles = {page: title.astext() for page, title in env.titles.items()}
    order = {page: list(below) for page, below in env.toctree_includes.items()}
    numbers = {page: dict(found) for page, found in env.toc_secnumbers.items()}
    new = (titles, order, numbers, terms.meanings(app))
    old = getattr(env, "book_titles", None)
    env.book_titles = new  # type: ignore[attr-defined]  # ours, kept there
    return [] if old == new else sorted(env.found_docs)


def sweep(app: Sphinx, error: Exception | None) -> None:
    """Remove the pages of an earlier build whose source is gone; those in no folder are made by Sphinx itself."""
    if error is not None or app.builder.format != "html":
        return
    for path in Path(app.outdir).glob("[!_.]*/**/*.html"):
        if path.relative_to(app.outdir).with_suffix("").as_posix() not in app.env.found_docs:
            path.unlink()


def purge(_: Sphinx, env: BuildEnvironment, docname: str) -> None:
    """Forget a page that will be read again."""
    _pages(env).discard(docname)


def merge(_: Sphinx, env: BuildEnvironment, docnames: Iterable[str], other: BuildEnvironment) -> None:
    """Take over what a parallel reader found."""
    _pages(env).update(_pages(other) & set(docnames))


def setup(app: Sphinx) -> None:
    """Ask before and after pages are read; sweep in the end."""
    app.connect("env-get-outdated", outdated)
    app.connect("env-purge-doc", purge)
    app.connect("env-merge-info", merge)
    app.connect("env-updated", renamed)
    app.connect("build-finished", sweep, priority=100)
