"""The reference of the library: a page for each room, written before a build reads the pages, filled by autodoc.

The pages are `book/api/ROOM.rst`, made from the library's public surface and not committed; `_toc.yml` lists them. A
docstring's single backquotes become a link where they name something public, and code otherwise.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxRole

from book_pages import surface
from book_pages.surface import Module, Name

FOLDER = "book/api"
INDEX = "index"
EVERY = "every chapter"
# What annotations and `Raises` name that is documented elsewhere; a name of the library is never excused.
ELSEWHERE = (
    r"(torch|nn|numpy|np|matplotlib|scipy|sklearn|collections|pathlib|typing|abc|types|contextlib|argparse)\..+",
    r"Tensor|ndarray|Path|Callable|Iterable|Iterator|Sequence|Mapping|Any|Self|Literal|Line2D",
    r"([A-Za-z_.]*\.)?([A-Z]|State)",  # a type variable
    "|".join(dir(builtins)),
)


# ------------------------------------------------------------------------------------------------------------ the files


def page(room: Module) -> str:
    """Return the page of a room in reStructuredText."""
    short = room.path.removeprefix(f"{surface.PACKAGE}.")
    parts = [f".. _api-{short}:", "", *_title(short, "="), *_module(room)]
    for module in list(room.walk())[1:]:
        if module.names or module.doc:
            parts += ["", *_title(module.path.removeprefix(f"{room.path}."), "-"), *_module(module)]
    return "\n".join(parts) + "\n"


def contents(rooms: tuple[Module, ...]) -> str:
    """Return the page that leads to all rooms."""
    lines = [
        *_title("The library, room by room", "="),
        "What ``import learning_dynamics`` offers, generated from the library's own docstrings. Each name shows how it",
        "is called, the shapes of what it takes and returns, the errors it raises, where its formula comes from, its",
        "source, and the chapters whose code uses it. The search finds every name.",
        "",
        ".. list-table::",
        "   :widths: 30 70",
        "   :header-rows: 1",
        "",
        "   * - room",
        "     - what is in it",
    ]
    for room in rooms:
        short = room.path.removeprefix(f"{surface.PACKAGE}.")
        lines += [f"   * - :ref:`{short} <api-{short}>`", f"     - {room.doc.splitlines()[0]}"]
    return "\n".join(lines) + "\n"


def _title(text: str, mark: str) -> list[str]:
    return [text, mark * len(text), ""]


def _module(module: Module) -> list[str]:
    lines = [f".. automodule:: {module.path}", ""]
    if module.names:
        lines += [".. autosummary::", "   :nosignatures:", ""]
        lines += [f"   {name.path.rpartition('.')[2]}" for name in module.names] + [""]
    for name in module.names:
        lines += _entry(name)
    if module.companions:
        lines += [".. rubric:: What these signatures name", ""]
    for name in module.companions:
        lines += _entry(name)
    return lines


def _entry(name: Name) -> list[str]:
    directive = "exception" if name.kind == "class" and name.path.endswith("Error") else name.kind
    options = (
        [] if name.kind == "function" else ["   :no-value:"] if name.kind == "data" else ["   :members:"]
    )
    return [f".. auto{directive}:: {name.path}", *options, ""]


def write(root: Path) -> list[Path]:
    """Write the pages that have changed, remove those of rooms that are gone; return all pages."""
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    rooms = surface.rooms(root)
    texts = {room.path.rpartition(".")[2]: page(room) for room in rooms} | {INDEX: contents(rooms)}
    for path in folder.glob("*.rst"):
        if path.stem not in texts:
            path.unlink()
    for name, text in texts.items():
        path = folder / f"{name}.rst"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return [folder / f"{name}.rst" for name in texts]


# --------------------------------------------------------------------------------------------------------- what is read


class Backquotes(SphinxRole):
    """A docstring's single backquotes: a link to what they name in the room, or code."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        code = nodes.literal(self.rawtext, self.text)
        name = self._named()
        if name is None:
            return [code], []
        link = addnodes.pending_xref(
            self.rawtext,
            code,
            refdomain="py",
            reftype="obj",
            reftarget=name.path,
            refexplicit=True,
            refwarn=True,
            refdoc=self.env.docname,
        )
        return [link], []

    def _named(self) -> Name | None:
        known = _index(Path(self.env.srcdir))
        room = f"{surface.PACKAGE}.{self.env.docname.removeprefix(f'{FOLDER}/')}"
        here = self.env.ref_context.get("py:module") or room
        for place in (here, room, surface.PACKAGE):
            if found := known.get(f"{place}.{self.text}"):
                return found
        return known.get(self.text)


def with_constructor(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Add to a class what its `__init__`, or that of a base of the library, says of arguments and errors."""
    if what not in ("class", "exception"):
        return
    owner = next((each for each in obj.__mro__ if "__init__" in vars(each)), object)
    doc = inspect.cleandoc(vars(owner)["__init__"].__doc__ or "")
    if owner.__module__.split(".")[0] == surface.PACKAGE and (
        found := re.search("^(Args|Raises):$", doc, re.MULTILINE)
    ):
        lines += ["", *doc[found.start() :].splitlines()]


def code_blocks(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Make indented paragraphs of a docstring code; quotations they never are."""
    found: list[str] = []
    i = 0
    while i < len(lines):
        if i > 1 and lines[i].startswith("    ") and not lines[i - 1].strip() and _plain(lines, i):
            end = next(
                (k for k in range(i, len(lines)) if lines[k].strip() and lines[k][0] != " "), len(lines)
            )
            language = "python" if _is_python(lines[i:end]) else "text"
            found += [f".. code-block:: {language}", "", *lines[i:end]]
            i = end
        else:
            found.append(lines[i])
            i += 1
    lines[:] = found


def _plain(lines: list[str], i: int) -> bool:
    """Return whether the paragraph above starts at the margin and is neither a directive, a list nor a section."""
    end = max(k for k in range(i) if lines[k].strip())
    start = next((k for k in range(end, -1, -1) if not lines[k].strip()), -1) + 1
    return (
        not lines[start].startswith((" ", "..", "- "))
        and not lines[end].startswith(" ")
        and lines[end][-2:] != "::"
    )


def _is_python(lines: list[str]) -> bool:
    try:
        ast.parse(textwrap.dedent("\n".join(lines)))
    except SyntaxError:
        return False
    return True


_TOKEN = re.compile(r"``.*?``|(?::[a-z:]+:)?`[^`]*`", re.DOTALL)


def plain_marks(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Let a docstring write |x|, theta_ and `name`s: outside code and formulas they are no markup."""
    found: list[str] = []
    i = 0
    while i < len(lines):
        end = _end_of_block(lines, i)
        if end > i:
            found += lines[i:end]
            i = end
            continue
        end = next((k for k in range(i, len(lines)) if _end_of_block(lines, k) > k), len(lines))
        found += _escaped("\n".join(lines[i:end])).split("\n")
        i = end
    lines[:] = found


def _end_of_block(lines: list[str], i: int) -> int:
    """Return where a directive or literal block that starts in a line ends; the line itself where none starts."""
    line = lines[i]
    if line.lstrip().startswith((">>>", "...")):
        return i + 1
    if not line.lstrip().startswith(".. ") and not line.rstrip().endswith("::"):
        return i
    margin = len(line) - len(line.lstrip())
    end = i + 1
    while end < len(lines) and (
        not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > margin
    ):
        end += 1
    return end


def _escaped(text: str) -> str:
    found, at = [], 0
    for token in [*_TOKEN.finditer(text), None]:
        between = text[at : token.start() if token else None]
        between = re.sub(r"(?<=\w)_(?!\w)", r"\\_", between.replace("|", r"\|"))
        found.append(r"\ " + between if at and re.match(r"\w", between) else between)
        if token:
            found.append(token[0])
            at = token.end()
    return "".join(found)


_COLON = "\N{RATIO}"


def without_colons(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Hide the colons of a constant's docstring from napoleon, which takes what stands before one for a type."""
    if what in ("attribute", "data", "property"):
        lines[:] = [line.replace(":", _COLON) for line in lines]


def with_colons(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Show them again."""
    lines[:] = [line.replace(_COLON, ":") for line in lines]


@cache
def _index(root: Path) -> dict[str, Name]:
    """Return the public names; once a build, since every docstring asks for them."""
    return surface.index(root)


@cache
def _users(root: Path) -> dict[str, list[str]]:
    """Return who uses what; once a build, since autodoc asks for every object."""
    return surface.chapters_of(root)


def say_who_uses(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Add the chapters whose code names an object to the end of its docstring."""
    root = Path(app.srcdir)
    chapters = [f"chapters/{chapter}" for chapter in _users(root).get(name, [])]
    chapters = [chapter for chapter in chapters if chapter in app.env.found_docs]
    written = [document for document in app.env.found_docs if document.startswith("chapters/")]
    if not chapters or what == "module":
        return
    links = ", ".join(f":doc:`/{chapter}`" for chapter in chapters)
    said = EVERY if len(chapters) == len(written) else links
    lines += ["", ".. rst-class:: ld-used-in", "", f"Used in {said}.", ""]


def skip(app: Sphinx, what: str, name: str, obj: Any, skipped: bool, options: Any) -> bool | None:
    """Leave out the fields of a named tuple, which its docstring explains, and what another library defines."""
    home = getattr(getattr(obj, "fget", obj), "__module__", None) or surface.PACKAGE
    field = (getattr(obj, "__doc__", "") or "").startswith("Alias for field number")
    return True if field or home.split(".")[0] != surface.PACKAGE else None


def missing(
    app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, text: nodes.Node
) -> nodes.Node | None:
    """Find what an annotation that could not be evaluated names: a name of the same room."""
    if node.get("refdomain") != "py" or "." in node["reftarget"]:
        return None
    room = node.get("py:module", "")
    names = {name.path for home, name in _index(Path(app.srcdir)).items() if home.startswith(f"{room}.")}
    found = [name for name in names if name.rpartition(".")[2] == node["reftarget"]]
    if not room or len(found) != 1:
        return None
    return env.domains["py"].resolve_xref(env, node["refdoc"], app.builder, "obj", found[0], node, text)


def note(app: Sphinx, docname: str, source: list[str]) -> None:
    """Note that a page of the reference depends on the chapters' code, for the lines on who uses what."""
    if docname.startswith(f"{FOLDER}/"):
        for chapter in sorted((Path(app.srcdir) / "chapters").glob("*/*.py")):
            app.env.note_dependency(str(chapter))


def source_of(root: Path, address: str, module: str, fullname: str) -> str | None:
    """Return where the repository shows the lines that define an object, or None for what the library does not define.

    Args:
        root: The book's folder.
        address: The repository's address up to the branch, `https://host/owner/name/blob/branch`.
        module: The module that the object is documented in.
        fullname: Its name there, a method's with its class.
    """
    first, *rest = fullname.split(".")
    name = _index(root).get(f"{module}.{first}")
    if name is None:
        return None
    node: Any = name.node
    for part in rest:
        node = next(
            (member for member in getattr(node, "body", []) if getattr(member, "name", None) == part), None
        )
        if node is None:
            return None
    start = min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", []))])
    return f"{address}/{name.file.relative_to(root).as_posix()}#L{start}-L{node.end_lineno}"


def configure(app: Sphinx, config: Config) -> None:
    """Write the pages and say how autodoc reads the library; before the table of contents is looked at."""
    root = Path(app.srcdir)
    if (root / surface.LIBRARY).is_dir():  # the small books of the tests have no library of their own
        write(root)
    options = config.html_theme_options
    address = f"{options.get('repository_url', '')}/blob/{options.get('repository_branch', 'main')}"
    config.linkcode_resolve = lambda domain, info: source_of(root, address, info["module"], info["fullname"])
    config.autosummary_generate = False
    config.autodoc_member_order = "bysource"
    config.autodoc_typehints_format = "short"
    config.python_use_unqualified_type_names = True
    config.python_maximum_signature_line_length = 60
    config.toc_object_entries_show_parents = "hide"
    config.add_module_names = False
    config.napoleon_numpy_docstring = False
    config.napoleon_custom_sections = [("Attributes", "params_style")]
    config.default_role = "backquotes"
    config.nitpick_ignore_regex = [("py:.*", f"({pattern})") for pattern in ELSEWHERE]


def setup(app: Sphinx) -> None:
    """Load what autodoc needs and connect the parts."""
    for extension in ("autodoc", "autosummary", "napoleon", "linkcode"):
        app.setup_extension(f"sphinx.ext.{extension}")
    app.add_role("backquotes", Backquotes())
    app.connect("config-inited", configure, priority=100)
    app.connect("autodoc-process-docstring", with_constructor, priority=380)
    app.connect("autodoc-process-docstring", code_blocks, priority=400)
    app.connect("autodoc-process-docstring", plain_marks, priority=420)
    app.connect("autodoc-process-docstring", without_colons, priority=440)
    app.connect("autodoc-process-docstring", with_colons, priority=600)
    app.connect("autodoc-process-docstring", say_who_uses, priority=900)
    app.connect("autodoc-skip-member", skip)
    app.connect("source-read", note)
    app.connect("missing-reference", missing)
