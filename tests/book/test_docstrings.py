"""Every public name says what it takes, gives back and refuses: what the reference of the book shows.

What is asked of a function, a class or a method:

- Each parameter is named: by an entry under `Args` (a field by one under `Attributes`), or in code in the text, as in
  "`theta (*batch, d)`". An entry may be borrowed: "... as in `other`" takes those of `other`, of the same room.
- A tensor's entry, and the text of a function that returns one, say its shape.
- What is returned is said: by a summary that starts with "Return" or "Yield", or under a heading.
- What is raised is said if the body raises, or calls a `require_...` or a private function of its module that does.

A method that a protocol or a base class of its room explains need not say it again, nor need the functions that
every experiment has, which `experiments.command` explains.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "book/_ext"))

from book_pages import surface  # noqa: E402

HEADING = re.compile(r"^(Args|Attributes|Returns|Yields|Raises|Examples?|Notes?|Source):$")
CODE = re.compile(r"`([^`]+)`")
BORROWED = re.compile(r"\bas (?:in|for|of) `([\w.]+)`")
SHAPE = re.compile(r"`[^`]*\([^`]*\)[^`]*`|\bshapes?\b|\bscalars?\b|\bnumbers?\b")
TENSOR = re.compile(r"Tensor|Tensor \| None|tuple\[Tensor, Tensor\]")
ENTRY_POINTS = {"check": {"options"}, "compute": {"call"}, "main": {"arguments"}}


@dataclass(frozen=True)
class Documented:
    """A function, class or method, and what is written about it.

    Args:
        path: As a reader writes it, without the package.
        node: Its definition.
        module: The file that defines it.
        owner: The class of a method.
    """

    path: str
    node: ast.ClassDef | ast.FunctionDef
    module: ast.Module
    owner: ast.ClassDef | None = None

    @property
    def room(self) -> str:
        return self.path.partition(".")[0]

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def doc(self) -> str:
        """The docstring; a class's with that of its `__init__`, as the reference shows them."""
        found = ast.get_docstring(self.node) or ""
        made = [
            each for each in self.node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"
        ]
        if isinstance(self.node, ast.ClassDef) and found and made:
            found += f"\n\n{ast.get_docstring(made[0]) or ''}"
        return found

    @functools.cached_property
    def parameters(self) -> dict[str, str]:
        """The names of the parameters with their annotations."""
        return parameters_of(self.node) if isinstance(self.node, ast.FunctionDef) else constructor(self.node)

    @property
    def returns(self) -> str:
        """The annotation of what is returned; empty for a class, a property or nothing."""
        if isinstance(self.node, ast.ClassDef) or any(
            "property" in ast.unparse(x) for x in self.node.decorator_list
        ):
            return ""
        found = ast.unparse(self.node.returns) if self.node.returns else ""
        return "" if found in ("None", "NoReturn") else found

    @functools.cached_property
    def sections(self) -> dict[str, str]:
        """The text under each heading; what stands before the first under the empty one."""
        found: dict[str, list[str]] = {"": []}
        at = ""
        for line in self.doc.splitlines():
            if HEADING.match(line):
                at = line.removesuffix(":")
            elif line and not line.startswith(" ") and at:
                at = ""
            found.setdefault(at, []).append(line)
        return {name: "\n".join(lines) for name, lines in found.items()}

    def entry(self, name: str, *, borrow: bool = True) -> str | None:
        """What is said about a parameter, or None."""
        for section in ("Args", "Attributes"):
            pattern = rf"^    \**(?:\w+, )*{name}(?:, \w+)*:(.*(?:\n(?:      .*)?)*)"
            if found := re.search(pattern, self.sections.get(section, ""), re.MULTILINE):
                return found[1]
        text = "".join(text for section, text in self.sections.items() if section in ("", "Returns"))
        codes = [f"`{code}`" for code in CODE.findall(text) if re.match(rf"{name}\b(?!\()", code)]
        if codes:
            return " ".join(codes)
        for lender in BORROWED.findall(self.doc) if borrow else []:
            for other in documented():
                if other.path in (f"{self.room}.{lender}", self.path.rpartition(".")[0] + f".{lender}"):
                    return other.entry(name, borrow=False)
        return None

    def promised(self) -> bool:
        """Whether a protocol or a base class of the room, or the command of all experiments, explains it."""
        if self.room == "experiments" and set(self.parameters) == ENTRY_POINTS.get(self.name):
            return True
        return self.owner is not None and any(
            other.owner is not None
            and other.owner is not self.owner
            and (other.room, other.name) == (self.room, self.name)
            and set(self.parameters) <= set(other.parameters)
            and (is_protocol(other.owner) or other.owner.name in ancestors(self.owner, self.module))
            for other in documented()
        )

    def refuses(self) -> bool:
        """Whether it raises what a caller can bring about."""
        nodes: list[ast.AST] = [self.node]
        if isinstance(self.node, ast.ClassDef):
            nodes = [
                each
                for each in self.node.body
                if isinstance(each, ast.FunctionDef) and each.name in ("__init__", "__post_init__", "__new__")
            ]
        known = refusing(self.module)
        return any(raises(node, known) for node in nodes)


def bases(node: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}


def ancestors(node: ast.ClassDef, module: ast.Module) -> set[str]:
    """The names of the bases of a class, and of theirs as far as its file defines them."""
    here = {each.name: each for each in module.body if isinstance(each, ast.ClassDef)}
    found = bases(node)
    while more := {base for name in found if name in here for base in bases(here[name])} - found:
        found |= more
    return found


def is_protocol(node: ast.ClassDef) -> bool:
    return "Protocol" in bases(node)


def parameters_of(function: ast.FunctionDef) -> dict[str, str]:
    arguments = function.args
    every = [
        *arguments.posonlyargs,
        *arguments.args,
        arguments.vararg,
        *arguments.kwonlyargs,
        arguments.kwarg,
    ]
    known = {each.arg: ast.unparse(each.annotation) if each.annotation else "" for each in every if each}
    return {
        name: text for name, text in known.items() if name not in ("self", "cls") and not name.startswith("_")
    }


def constructor(node: ast.ClassDef) -> dict[str, str]:
    """The parameters that make an object of a class: of `__init__`, or the fields of a dataclass or named tuple."""
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            return parameters_of(each)
    if "NamedTuple" not in bases(node) and not any(
        "dataclass" in ast.unparse(each) for each in node.decorator_list
    ):
        return {}
    fields = {
        each.target.id: (ast.unparse(each.annotation), ast.unparse(each.value) if each.value else "")
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
    return {
        name: annotation
        for name, (annotation, value) in fields.items()
        if not name.startswith("_") and "ClassVar" not in annotation and "init=False" not in value
    }


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Everything in a body that runs when it is called, so nothing of the functions that it makes."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.Lambda):
            yield child
            yield from own_nodes(child)


def raises(node: ast.AST, known: set[str]) -> bool:
    """Whether a body raises an error other than those that say the program is wrong, or calls what does."""
    for each in own_nodes(node):
        if isinstance(each, ast.Raise) and each.exc is not None:
            if not ast.unparse(each.exc).startswith(("NotImplementedError", "AssertionError", "SystemExit")):
                return True
        if isinstance(each, ast.Call):
            name = ast.unparse(each.func).rpartition(".")[2]
            if re.match(r"_?require(_|$)", name) or name in known:
                return True
    return False


@functools.cache
def refusing(module: ast.Module) -> set[str]:
    """The private functions and methods of a module that refuse something."""
    private = [
        node
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("_") and not node.name.startswith("__")
    ]
    found: set[str] = set()
    while more := {node.name for node in private if node.name not in found and raises(node, found)}:
        found |= more
    return found


@functools.cache
def documented() -> tuple[Documented, ...]:
    return tuple(_documented())


def _documented() -> Iterator[Documented]:
    modules: dict[str, ast.Module] = {}
    for name in (name for room in surface.rooms(ROOT) for name in room.all_names()):
        if isinstance(name.node, ast.Assign | ast.AnnAssign):
            continue
        module = modules.setdefault(str(name.file), ast.parse(name.file.read_text(encoding="utf-8")))
        path = name.path.removeprefix(f"{surface.PACKAGE}.")
        yield Documented(path, name.node, module)
        if isinstance(name.node, ast.ClassDef):
            for method in surface.methods(name.node):
                yield Documented(f"{path}.{method.name}", method, module, name.node)


def faults(it: Documented) -> list[str]:
    """What a docstring leaves unsaid."""
    if not it.doc:
        return ["it has no docstring"]
    if it.promised():
        return []
    found = []
    for name, annotation in it.parameters.items():
        entry = it.entry(name)
        if entry is None:
            found.append(f"it does not say what {name} is")
        elif TENSOR.fullmatch(annotation) and not SHAPE.search(entry):
            found.append(f"it does not say the shape of {name}")
    said = {"Returns", "Yields"} & set(it.sections)
    if it.returns and not said and not re.match(r"(Return|Yield)\b", it.doc):
        found.append("it does not say what it returns")
    if TENSOR.fullmatch(it.returns) and not SHAPE.search(it.sections.get("Returns", it.sections[""])):
        found.append("it does not say the shape of what it returns")
    if "Raises" not in it.sections and it.refuses():
        found.append("it does not say what it raises")
    return found


@pytest.mark.parametrize("it", documented(), ids=lambda it: it.path)
def test_it_is_explained(it: Documented) -> None:
    assert faults(it) == []


# --------------------------------------------------------------------------------------------- the test can fail

WHOLE = '''
def scaled(x: Tensor, factor: float) -> Tensor:
    """Return x times a factor, `(*batch, d)`.

    Args:
        x: `(*batch, d)`.
        factor: not zero.

    Raises:
        ValueError: the factor is zero.
    """
    _check(factor)
    return factor * x


def _check(factor):
    if factor == 0:
        raise ValueError("factor = 0; allowed: other numbers")
'''


def judged(source: str) -> list[str]:
    module = ast.parse(source)
    node = module.body[0]
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    return faults(Documented("rules.scaled", node, module))


def test_a_whole_docstring_passes() -> None:
    assert judged(WHOLE) == []


@pytest.mark.parametrize(
    ("written", "instead", "fault"),
    [
        ("        factor: not zero.\n", "", "it does not say what factor is"),
        ("x: `(*batch, d)`.", "x: what is scaled.", "it does not say the shape of x"),
        (
            "Return x times a factor, `(*batch, d)`.",
            "Multiply, `(*batch, d)`.",
            "it does not say what it returns",
        ),
        ("a factor, `(*batch, d)`.", "a factor.", "it does not say the shape of what it returns"),
        ("    Raises:\n        ValueError: the factor is zero.\n", "", "it does not say what it raises"),
        ('"""', '"', "it has no docstring"),
    ],
)
def test_what_is_left_out_is_found(written: str, instead: str, fault: str) -> None:
    source = WHOLE.replace(written, instead)
    if written == '"""':
        source = re.sub(r'    """.*?"""\n', "", WHOLE, flags=re.DOTALL)
    assert judged(source) == [fault]


def test_fields_of_a_named_tuple_are_parameters() -> None:
    doc = '"""Two.\n\n    Attributes:\n        a: one.\n    """'
    source = f"class Pair(NamedTuple):\n    {doc}\n    a: int\n    b: int\n"
    assert judged(source) == ["it does not say what b is"]
