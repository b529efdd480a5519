"""The reference of the library, up to where Sphinx takes over: its pages, who uses what, where a source stands."""

from __future__ import annotations

import ast
import importlib
import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml
from conftest import ROOT

sys.path.insert(0, str(ROOT / "book/_ext"))

from book_pages import api, surface  # noqa: E402

ROOMS = surface.rooms(ROOT)


def short(path: str) -> str:
    return path.removeprefix(f"{surface.PACKAGE}.")


def test_every_room_has_its_page_in_the_table_of_contents() -> None:
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    look_it_up = next(part for part in toc["parts"] if part["caption"] == "Look it up")
    reference = next(
        entry for entry in look_it_up["chapters"] if entry["file"] == f"{api.FOLDER}/{api.INDEX}"
    )
    listed = [entry["file"] for entry in reference["sections"]]
    assert listed == [f"{api.FOLDER}/{short(room.path)}" for room in ROOMS]


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: short(room.path))
def test_what_is_read_is_what_an_import_gives(room: surface.Module) -> None:
    """The surface is read from the files; every name of it must be there after an import, as what it says it is."""
    for module in room.walk():
        loaded = importlib.import_module(module.path)
        assert (loaded.__doc__ or "").split() == module.doc.split()
        for name in module.names:
            found = getattr(loaded, name.path.rpartition(".")[2])
            assert isinstance(found, type) == (name.kind == "class") or name.kind == "data", name.path
            if name.kind != "data":
                assert f"{found.__module__}.{found.__qualname__}" == name.home
        listed = getattr(loaded, "__all__", None)
        if listed is not None:
            shown = {name.path.rpartition(".")[2] for name in module.names}
            shown |= {below.path.rpartition(".")[2] for below in module.modules}
            assert set(listed) <= shown


def test_a_page_lists_each_name_once() -> None:
    room = next(room for room in ROOMS if short(room.path) == "optimizers")
    page = api.page(room)
    assert (
        page.count("\n   NGN\n") == 1 and page.count(".. autoclass:: learning_dynamics.optimizers.NGN\n") == 1
    )


def test_a_state_that_no_room_lists_is_on_the_page_of_its_rule() -> None:
    rules = next(room for room in ROOMS if short(room.path) == "rules")
    assert "learning_dynamics.rules.adam.AdamState" in {name.path for name in rules.companions}


def test_pages_are_written_once_and_those_of_lost_rooms_go(tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / surface.LIBRARY, tmp_path / surface.LIBRARY, ignore=shutil.ignore_patterns("__pycache__")
    )
    (tmp_path / api.FOLDER).mkdir(parents=True)
    (tmp_path / api.FOLDER / "helpers.rst").touch()
    written = api.write(tmp_path)
    assert {path.stem for path in written} == {short(room.path) for room in ROOMS} | {api.INDEX}
    assert sorted(written) == sorted((tmp_path / api.FOLDER).iterdir())
    before = {path: path.stat().st_mtime_ns for path in written}
    assert {path: path.stat().st_mtime_ns for path in api.write(tmp_path)} == before


USES = """
import learning_dynamics as ld
from learning_dynamics import ensembles, figures
from learning_dynamics.implicit_bias import linear_models as linear
from learning_dynamics.rules import Adam, HeavyBall

rule = Adam(0.1)
run = ensembles.iterate(rule, linear.least_squares_gradient(X, y), theta, 10)
optimizer = ld.optimizers.NGN(model.parameters())
"""


def test_names_are_found_under_whatever_name_they_are_imported() -> None:
    found = {short(path) for path in surface.mentioned(ast.parse(USES))}
    assert {"rules.Adam", "ensembles.iterate", "implicit_bias.linear_models.least_squares_gradient"} <= found
    assert "optimizers.NGN" in found
    assert not {"rules.HeavyBall", "figures", "ensembles.batched"} & found


def test_chapters_are_named_where_they_use_a_name() -> None:
    found = surface.chapters_of(ROOT)
    assert "implicit_bias/maximum_margin" in found["learning_dynamics.implicit_bias.margins.hard_margin_svm"]
    assert (
        "learning_dynamics.rules.SGD" not in found
        or "implicit_bias/maximum_margin" not in found["learning_dynamics.rules.SGD"]
    )


@pytest.mark.parametrize("name", ["optimizers.NGN", "rules.Adam.step", "curvature.lanczos", "runs.Run.pick"])
def test_a_source_link_shows_the_definition(name: str) -> None:
    room, _, own = name.partition(".")
    address = api.source_of(ROOT, "https://host/owner/name/blob/main", f"learning_dynamics.{room}", own)
    assert address is not None
    path, _, lines = address.removeprefix("https://host/owner/name/blob/main/").partition("#")
    first, last = (int(each.removeprefix("L")) for each in lines.split("-"))
    text = (ROOT / path).read_text(encoding="utf-8").splitlines()[first - 1 : last]
    word = own.rpartition(".")[2]
    assert any(line.strip().startswith((f"class {word}", f"def {word}(")) for line in text[:3])
    assert first < last


def test_what_another_library_defines_has_no_source_link() -> None:
    assert api.source_of(ROOT, "https://host", "learning_dynamics.optimizers", "NGN.zero_grad") is None
    assert api.source_of(ROOT, "https://host", "learning_dynamics.optimizers", "Adam") is None


def test_indented_paragraphs_become_code_and_sections_do_not() -> None:
    lines = [
        "What it does.",
        "",
        "    x = f(1)",
        "",
        "    y = x",
        "",
        "Then more.",
        "",
        "Args:",
        "    x: a number.",
    ]
    api.code_blocks(None, "function", "f", None, None, lines)  # type: ignore[arg-type]
    assert lines[2] == ".. code-block:: python" and lines[4:7] == ["    x = f(1)", "", "    y = x"]
    assert lines.count("    x: a number.") == 1 and sum(line.startswith("..") for line in lines) == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the norm |x| of theta_, `a|b` and `name`s", r"the norm \|x\| of theta\_, `a|b` and `name`\ s"),
        (r"as :math:`|x_i|` says", r"as :math:`|x_i|` says"),
        (".. math:: |x|_", ".. math:: |x|_"),
    ],
)
def test_bars_and_underscores_are_no_markup(text: str, shown: str) -> None:
    lines = [text]
    api.plain_marks(None, "function", "f", None, None, lines)  # type: ignore[arg-type]
    assert lines == [shown]


@pytest.mark.parametrize("name", ["optimizers.NOPE", "rules.Adam.stop", "implicit_bias.margin.HardMargin"])
def test_a_reference_to_a_name_that_is_not_there_is_not_excused(name: str) -> None:
    """What the render lets pass is another library's; the warning for a wrong name of ours fails `make book`."""
    path = f"{surface.PACKAGE}.{name}"
    assert [pattern for pattern in api.ELSEWHERE if re.fullmatch(f"({pattern})", path)] == []
    assert any(re.fullmatch(f"({pattern})", "torch.optim.Optimizer") for pattern in api.ELSEWHERE)
