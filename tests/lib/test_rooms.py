"""The rooms of the library: what lies at the top, which arrows point where, what an import costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import learning_dynamics as ld
from learning_dynamics.ledger import read

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "lib/learning_dynamics"
TESTS = ROOT / "tests/lib"
MOST_NAMES = 22
THEORY = {"adaptivity", "implicit_bias", "momentum", "noise", "parameterization"}

# Lowest first. A room imports from lower layers only, never from a neighbour.
LAYERS = (
    {"_internal"},
    {"curvature", "flows", "models", "rules", "runs", "statistics"},
    {"data", "ensembles", "optimizers"},
    {"diffusions"},
    THEORY,
    {"colab", "ledger", "results"},
    {"figures"},
    {"experiments"},
    {"__main__"},
)
HEIGHT = {room: height for height, layer in enumerate(LAYERS) for room in layer}


def rooms() -> set[str]:
    """The names at the top of the library that a reader sees."""
    found = {path.stem for path in LIBRARY.glob("*.py")}
    found |= {path.parent.name for path in LIBRARY.glob("*/__init__.py")}
    return {name for name in found if not name.startswith("_")}


def modules() -> list[Path]:
    return sorted(path.relative_to(LIBRARY) for path in LIBRARY.rglob("*.py"))


def room_of(module: Path) -> str:
    return module.parts[0].removesuffix(".py")


def imported(source: str) -> Iterator[tuple[str, ...]]:
    """What a file imports of the library, wherever the import stands, as paths below `learning_dynamics`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in (
            "import_module",
            "importlib.import_module",
        ):
            names = [node.args[0].value] if isinstance(node.args[0], ast.Constant) else []
        else:
            continue
        for name in names:
            top, *below = name.split(".")
            if top == "learning_dynamics" and below:
                yield tuple(below)


def forbidden(room: str, target: str) -> bool:
    """Whether an arrow from one room to another points sideways or upwards."""
    return target != room and HEIGHT[target] >= HEIGHT[room]


def test_imports_are_found_wherever_they_stand() -> None:
    source = """
import learning_dynamics
import learning_dynamics.flows as flows
from learning_dynamics import figures
from learning_dynamics.ledger import Ledger
import torch

def late():
    from learning_dynamics.experiments.polyak_steps import step_size_comparison
    return importlib.import_module("learning_dynamics.results")
"""
    found = {path[0] for path in imported(source)}
    assert found == {"flows", "figures", "ledger", "experiments", "results"}


@pytest.mark.parametrize(
    ("room", "target"),
    [(room, target) for room in sorted(THEORY | {"curvature", "data", "diffusions", "ensembles", "flows", "models"}
     | {"_internal", "optimizers", "rules", "statistics"})
     for target in ("colab", "experiments", "figures", "ledger", "results")],
)  # fmt: skip
def test_the_layers_forbid_what_the_plan_forbids(room: str, target: str) -> None:
    assert forbidden(room, target)


def test_every_room_has_its_layer() -> None:
    assert {room_of(module) for module in modules()} - {"__init__"} <= set(HEIGHT)


@pytest.mark.parametrize(
    "module", [path for path in modules() if len(path.parts) > 1 or path.stem != "__init__"], ids=str
)
def test_arrows_point_downwards(module: Path) -> None:
    room = room_of(module)
    targets = {path[0] for path in imported((LIBRARY / module).read_text(encoding="utf-8"))}
    assert {target for target in targets if forbidden(room, target)} == set()


@pytest.mark.parametrize("module", [path for path in modules() if path.parts[0] == "experiments"], ids=str)
def test_an_experiment_uses_no_other_chapters(module: Path) -> None:
    own = module.parts[1]
    folders = {path.parent.name for path in (LIBRARY / "experiments").glob("*/__init__.py")}
    used = {
        path[1]
        for path in imported((LIBRARY / module).read_text(encoding="utf-8"))
        if path[0] == "experiments" and len(path) > 1
    }
    assert (used & folders) - {own} == set()


def test_an_experiment_serves_the_chapter_that_it_is_named_after() -> None:
    folders = {path.parent.name for path in (LIBRARY / "experiments").glob("*/__init__.py")}
    chapters = {path.stem: path for path in (ROOT / "chapters").glob("*/*.py")}
    planned = {line["chapter"].rpartition("/")[2] for line in read.inventory(ROOT / "book/inventory.csv")}
    assert folders <= planned
    for name, path in chapters.items():
        used = {parts[1] for parts in imported(path.read_text(encoding="utf-8")) if parts[0] == "experiments"}
        assert used - {name} == set(), name


def test_few_names_at_the_top() -> None:
    assert len(rooms()) <= MOST_NAMES


def test_the_library_names_its_rooms() -> None:
    assert set(ld.__all__) == rooms()
    assert set(dir(ld)) >= rooms()


def test_a_room_is_there_when_it_is_asked_for() -> None:
    assert issubclass(ld.optimizers.NGN, __import__("torch").optim.Optimizer)
    assert ld.rules.Adam.__module__.startswith("learning_dynamics.rules")


def test_an_unknown_room_is_refused_in_one_line() -> None:
    with pytest.raises(AttributeError, match="'optimisers'") as error:
        ld.optimisers  # noqa: B018
    message = str(error.value)
    assert "\n" not in message and "optimizers" in message


@pytest.mark.parametrize(
    "statement",
    [
        "import learning_dynamics",
        "import learning_dynamics as ld; dir(ld)",
        "import learning_dynamics.ledger.read",
    ],
)
def test_import_brings_nothing_heavy(statement: str) -> None:
    """Asked of a fresh process, in what it has loaded beyond a bare one: time would depend on the neighbours."""
    code = f"import sys; bare = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - bare))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    own = [name for name in loaded if name.split(".")[0] == "learning_dynamics"]
    heavy = {"IPython", "matplotlib", "numpy", "scipy", "sklearn", "torch"} & {
        name.split(".")[0] for name in loaded
    }
    assert own and heavy == set()
    if statement != "import learning_dynamics.ledger.read":
        assert own == ["learning_dynamics"]


def test_tests_mirror_the_rooms() -> None:
    """A room that is a package has a folder of tests, a room that is a module has a file; there is no other."""
    packages = {path.parent.name for path in LIBRARY.glob("*/__init__.py")}
    without = {name for name in packages if not list((TESTS / name).glob("**/test_*.py"))}
    assert without == set()
    folders = {path.name for path in TESTS.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders - packages == set()
    single = {path.stem for path in LIBRARY.glob("*.py")} - {"__init__"}
    assert {name for name in single if not (TESTS / f"test_{name.strip('_')}.py").is_file()} == set()
    assert [path.relative_to(TESTS) for path in TESTS.rglob("conftest.py")] == [Path("conftest.py")]


def test_every_experiment_is_tested() -> None:
    folders = {path.parent.name for path in (LIBRARY / "experiments").glob("*/__init__.py")}
    tested = {
        path[1]
        for test in (TESTS / "experiments").rglob("test_*.py")
        for path in imported(test.read_text(encoding="utf-8"))
        if path[0] == "experiments" and len(path) > 1
    }
    assert folders - tested == set()


def test_how_hypothesis_searches_is_said_once() -> None:
    """A test may ask for another number of examples; whether it repeats and when it gives up is the conftest's."""
    told = [
        path.relative_to(TESTS)
        for path in TESTS.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and {"deadline", "derandomize"} & {word.arg for word in call.keywords}
    ]
    assert set(told) == {Path("conftest.py")}
