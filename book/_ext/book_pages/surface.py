"""The library's public surface, read from its files without importing them: rooms, modules, names, who uses them.

Public is what a room's `__init__` lists in `__all__`, and every sub-package of it. A room without `__all__` opens all
its modules, and in each of them the classes and functions that do not start with an underscore. What a public signature
names and no room lists, such as the state that a rule hands back, is a companion: explained on the same page, where it
is defined.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal

PACKAGE = "learning_dynamics"
LIBRARY = f"lib/{PACKAGE}"
Kind = Literal["class", "function", "data"]
Definition = ast.ClassDef | ast.FunctionDef | ast.Assign | ast.AnnAssign


@dataclass(frozen=True)
class Name:
    """A public class, function or constant.

    Args:
        path: Where a reader imports it from, as in `learning_dynamics.rules.Adam`.
        home: Where it is defined, as in `learning_dynamics.rules.adam.Adam`.
        kind: What it is.
        file: The file that defines it.
        node: Its definition.
    """

    path: str
    home: str
    kind: Kind
    file: Path
    node: Definition


@dataclass(frozen=True)
class Module:
    """A public module: its names, and the modules in it that are public too."""

    path: str
    file: Path
    doc: str
    names: tuple[Name, ...] = ()
    companions: tuple[Name, ...] = ()
    modules: tuple[Module, ...] = field(default=())

    def walk(self) -> Iterator[Module]:
        """Yield the module and all public modules below it."""
        yield self
        for module in self.modules:
            yield from module.walk()

    def all_names(self) -> Iterator[Name]:
        """Yield the names of the module and of all public modules below it, with their companions."""
        for module in self.walk():
            yield from module.names
            yield from module.companions


def files(root: Path) -> list[Path]:
    """Return the library's files."""
    return sorted((root / LIBRARY).rglob("*.py"))


def rooms(root: Path) -> tuple[Module, ...]:
    """Return the rooms in the order of their names.

    Raises:
        ValueError: a room lists a name in `__all__` that it does not define and does not import from the library.
    """
    return _rooms(root, tuple((path, path.stat().st_mtime_ns) for path in files(root)))


@lru_cache(maxsize=2)
def _rooms(root: Path, _: object) -> tuple[Module, ...]:
    library = root / LIBRARY
    listed = _all(_tree(library / "__init__.py")) or []
    return tuple(_module(root, f"{PACKAGE}.{name}") for name in sorted(listed))


def index(root: Path) -> dict[str, Name]:
    """Return the public names by dotted path: as a reader writes it, and where it is defined."""
    return _index(rooms(root))


@lru_cache(maxsize=2)
def _index(surface: tuple[Module, ...]) -> dict[str, Name]:
    names = [name for room in surface for name in room.all_names()]
    return {name.home: name for name in names} | {name.path: name for name in names}


def chapters_of(root: Path) -> dict[str, list[str]]:
    """Return for each public name that chapters use, by its path, the chapters' ids, sorted."""
    known = index(root)
    found: dict[str, list[str]] = {}
    for chapter in sorted((root / "chapters").glob("*/*.py")):
        for path in sorted({known[path].path for path in mentioned(_tree(chapter)) if path in known}):
            found.setdefault(path, []).append(f"{chapter.parent.name}/{chapter.stem}")
    return found


def mentioned(tree: ast.Module) -> set[str]:
    """Return the dotted paths into the library that a file's code names, under whatever name it imports them."""
    alias: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
            alias |= {item.asname or item.name: f"{node.module}.{item.name}" for item in node.names}
        elif isinstance(node, ast.Import):
            for item in node.names:
                if item.name.split(".")[0] == PACKAGE:
                    alias[item.asname or PACKAGE] = item.name if item.asname else PACKAGE
    found = set()
    for node in ast.walk(tree):
        rest: list[str] = []
        while isinstance(node, ast.Attribute):
            rest.insert(0, node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in alias:
            found.add(".".join([alias[node.id], *rest]))
    return found


def methods(node: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    """Yield the public methods and properties of a class."""
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
            yield member


@lru_cache(maxsize=1024)
def _parsed(path: Path, _: int) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _tree(path: Path) -> ast.Module:
    return _parsed(path, path.stat().st_mtime_ns)


def _all(tree: ast.Module) -> list[str] | None:
    """Return what `__all__` lists, if the file has one."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return None


def _file(root: Path, path: str) -> Path | None:
    """Return the file of a module of the library, if there is one."""
    place = root / "lib" / Path(*path.split("."))
    for file in (place / "__init__.py", place.with_suffix(".py")):
        if file.is_file():
            return file
    return None


def _module(root: Path, path: str) -> Module:
    file = _file(root, path)
    if file is None:
        raise ValueError(f"{path} is listed in __all__; allowed: modules of the library")
    tree = _tree(file)
    listed = _all(tree)
    inside = _inside(file) if file.name == "__init__.py" else []
    if listed is None:
        names = [_defined(root, path, name) for name in _definitions(tree)]
        modules = inside
    else:
        modules = [
            name
            for name in inside
            if (file.parent / name).is_dir() or name in listed and _whole(tree, path, name)
        ]
        names = [_defined(root, path, name) for name in listed if name not in modules]
    shown = sorted(names, key=lambda name: (name.kind == "data", name.path.lower()))
    return Module(
        path,
        file,
        ast.get_docstring(tree) or "",
        names=tuple(shown),
        companions=tuple(_companions(root, names)) if listed is not None else (),
        modules=tuple(_module(root, f"{path}.{name}") for name in modules),
    )


def _companions(root: Path, names: list[Name]) -> Iterator[Name]:
    """Yield what the signatures of names mention and what is defined in the same room, but listed nowhere."""
    known = {name.home for name in names}
    waiting = list(names)
    while waiting:
        name = waiting.pop(0)
        room = name.home.split(".")[1]
        for word in sorted(_annotated(name.node)):
            found = _search(root, name.home.rpartition(".")[0], word)
            if (
                found is None
                or found.home in known
                or found.home.split(".")[1] != room
                or word.startswith("_")
            ):
                continue
            known.add(found.home)
            if found.kind == "data" and not _explained(found):
                continue
            companion = Name(found.home, found.home, found.kind, found.file, found.node)
            waiting.append(companion)
            yield companion


def _annotated(node: Definition) -> set[str]:
    """Return the plain names in a function's annotations, a class's bases, fields and methods, an alias's value."""
    functions = [node] if isinstance(node, ast.FunctionDef) else []
    found: list[ast.expr | None] = [node.value] if isinstance(node, ast.Assign | ast.AnnAssign) else []
    if isinstance(node, ast.ClassDef):
        functions = [each for each in node.body if isinstance(each, ast.FunctionDef)]
        functions = [each for each in functions if each.name == "__init__" or not each.name.startswith("_")]
        found += [each.annotation for each in node.body if isinstance(each, ast.AnnAssign)] + list(node.bases)
    for function in functions:
        arguments = function.args
        every = [
            *arguments.posonlyargs,
            *arguments.args,
            *arguments.kwonlyargs,
            arguments.vararg,
            arguments.kwarg,
        ]
        found += [each.annotation for each in every if each] + [function.returns]
    names = [each for annotation in found if annotation for each in ast.walk(annotation)]
    return {each.id for each in names if isinstance(each, ast.Name)}


def _explained(name: Name) -> bool:
    """Return whether a docstring follows the definition of a constant."""
    body = _tree(name.file).body
    after = body[body.index(name.node) + 1 :]
    return bool(after) and _is_text(after[0])


def _inside(init: Path) -> list[str]:
    """Return the public modules and packages beside an `__init__`."""
    found = {path.stem for path in init.parent.glob("*.py")}
    found |= {path.parent.name for path in init.parent.glob("*/__init__.py")}
    return sorted(name for name in found if not name.startswith("_"))


def _whole(tree: ast.Module, package: str, name: str) -> bool:
    """Return whether an `__init__` offers a module itself, not something of the same name in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and name in [item.asname or item.name for item in node.names]:
            return node.module == package
    return True


def _definitions(tree: ast.Module) -> list[str]:
    """Return the public classes and functions of a file, and the constants that a docstring explains."""
    found = []
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            name = node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign) and _is_text(after):
            name = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
        else:
            continue
        if not name.startswith("_"):
            found.append(name)
    return found


def _is_text(node: ast.stmt | None) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _defined(root: Path, module: str, name: str) -> Name:
    """Return a name that a module lists, wherever in the library it is defined."""
    found = _search(root, module, name)
    if found is None:
        raise ValueError(f"{module} lists {name}; allowed: names that the library defines")
    return found


def _search(root: Path, module: str, name: str) -> Name | None:
    """Return what a name means in a module, or None if the library does not define it."""
    home, own = module, name
    while (file := _file(root, home)) is not None:
        definitions, imports = _table(_tree(file))
        if (node := definitions.get(own)) is not None:
            kind: Kind = "data"
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                kind = "class" if isinstance(node, ast.ClassDef) else "function"
            return Name(f"{module}.{name}", f"{home}.{own}", kind, file, node)
        if own not in imports:
            return None
        home, own = imports[own]
    return None


@lru_cache(maxsize=1024)
def _table(tree: ast.Module) -> tuple[dict[str, Definition], dict[str, tuple[str, str]]]:
    """Return what a file defines, and whence it imports what it does not: module and name there."""
    definitions: dict[str, Definition] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            definitions.setdefault(node.name, node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    definitions.setdefault(target.id, node)
    imports: dict[str, tuple[str, str]] = {}
    for each in ast.walk(tree):
        if isinstance(each, ast.ImportFrom) and each.module:
            for item in each.names:
                imports.setdefault(item.asname or item.name, (each.module, item.name))
    return definitions, imports
