"""Every declared experiment: its command at the smallest scale, and the results that the book keeps."""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path

import pytest

from learning_dynamics import results
from learning_dynamics.experiments import command
from learning_dynamics.experiments.command import Experiment

DECLARED = command.experiments()
ROOT = Path(results.PACKAGE).parents[1]


def committed() -> dict[tuple[str, str], str]:
    """Return the command of each result that lies in the book, by chapter and name."""
    folder = ROOT / "book" / "results"
    return {
        (str(path.parent.relative_to(folder)), path.stem): json.loads(path.read_text(encoding="utf-8"))[
            "command"
        ]
        for path in sorted(folder.glob("*/*/*.json"))
    }


def test_every_module_of_an_experiment_is_found() -> None:
    calls_main = {
        ".".join(path.relative_to(ROOT / "lib").with_suffix("").parts)
        for path in results.PACKAGE.glob("experiments/*/*.py")
        if '__name__ == "__main__"' in path.read_text(encoding="utf-8")
    }
    assert calls_main == set(DECLARED)


@pytest.mark.parametrize("module", DECLARED)
def test_main_is_the_one_command(module: str) -> None:
    source = (ROOT / "lib" / Path(*module.split("."))).with_suffix(".py").read_text(encoding="utf-8")
    body = source[source.index("def main(") :]
    assert len(body.strip().splitlines()) == 7 and "return EXPERIMENT.main(arguments)" in body
    assert "argparse.ArgumentParser" not in source and "results.keep" not in source
    part, name = DECLARED[module].chapter.split("/")
    assert module.split(".")[2] == name and (ROOT / "chapters" / part).is_dir()


def test_what_is_declared_as_kept_is_what_lies_in_the_book() -> None:
    """Each result's own command, to the letter; before a chapter is there, its results may still be to come."""
    declared = {(each.chapter, each.name): each.command for each in command.kept()}
    there = committed()
    assert {key: declared.get(key) for key in there} == there
    missing = declared.keys() - there.keys()
    assert not [key for key in missing if (ROOT / "chapters" / f"{key[0]}.ipynb").exists()]


@pytest.mark.parametrize("line", sorted({*committed().values()}))
def test_the_command_of_a_kept_result_writes_that_result(line: str, capsys: pytest.CaptureFixture) -> None:
    (planned,) = command.plan(line)
    assert planned.command == line
    assert committed()[planned.chapter, planned.name] == line
    made = json.loads(
        (ROOT / "book" / "results" / planned.chapter / f"{planned.name}.json").read_text(encoding="utf-8")
    )
    assert tuple(made["seeds"]) == tuple(planned.call().seeds) and made["device"].startswith(planned.device)
    with pytest.raises(SystemExit) as ended:
        planned.experiment.main([*shlex.split(line)[3:], "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert all(option.name in said for option in planned.experiment.options) and "--minutes" in said


def test_what_the_source_asks_for_is_declared_once() -> None:
    names = [(each.chapter, each.name) for each in (*command.kept(), *command.paper())]
    assert len(names) == len(set(names))
    for each in command.paper():
        assert command.plan(each.command)[0].command == each.command


def write_libsvm(folder: Path) -> None:
    """Write small files of the names that the comparison of step sizes reads."""
    for name in ("a1a", "breast-cancer"):
        lines = [f"{2 * (row % 2) - 1} 1:{row / 30} 2:{(row * 7 % 30) / 30}" for row in range(30)]
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")


@pytest.mark.slow
@pytest.mark.parametrize("module", DECLARED)
def test_an_experiment_runs_at_the_smallest_scale_at_once_and_in_pieces(module: str, tmp_path: Path) -> None:
    experiment: Experiment = DECLARED[module]
    write_libsvm(tmp_path)
    example = min(
        (line for line in experiment.kept if line not in ("two-moons", "sine")), key=len, default=""
    )
    words = [str(tmp_path) if word == "FOLDER" else word for word in shlex.split(example)]
    words += ["--scale", "smoke", "--dirty", "--out"]
    planned = experiment.plans(words[:-2])
    assert all(each.name.endswith("smoke") for each in planned)
    assert experiment.main([*words, str(tmp_path / "at once")]) == 0
    made = {each.name: results.load(each.chapter, each.name, folder=tmp_path / "at once") for each in planned}
    assert all(
        kept.provenance.command == each.command for kept, each in zip(made.values(), planned, strict=True)
    )
    if not experiment.resumable:
        return
    timed = [*words, str(tmp_path / "in pieces"), "--minutes", "1e-9"]
    statuses = []
    while not statuses or statuses[-1] == command.STOPPED:
        statuses.append(experiment.main(timed))
    assert statuses[-1] == 0 and len(statuses) > 1
    for each in planned:
        again = results.load(each.chapter, each.name, folder=tmp_path / "in pieces")
        assert set(again.arrays) == set(made[each.name].arrays)
        results.agree(again, made[each.name].arrays, rtol=1e-6)


def text_of(node: ast.expr, names: dict[str, str]) -> str | None:
    """Return the text that an expression stands for, with `{}` where `format` fills in; None if it is none."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            return names.get(name)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            texts = text_of(left, names), text_of(right, names)
            return None if None in texts else f"{texts[0]}{texts[1]}"
        case ast.Call(func=ast.Attribute(value=value, attr="format")):
            return text_of(value, names)
    return None


def printed_commands(path: Path) -> list[str]:
    """Return the experiments' commands in a page: those of its ledger calls, and those in its text."""
    source = path.read_text(encoding="utf-8")
    found = []
    if path.suffix == ".py":
        tree = ast.parse(source)
        names = {
            node.targets[0].id: text
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
            for text in [text_of(node.value, {})]
            if text is not None
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "command":
                text = text_of(node.value, names)
                assert text is not None, f"{path.name}:{node.value.lineno}: a command that no test can read"
                found.append(text)
        source = "\n".join(line.removeprefix("# ") for line in source.splitlines() if line.startswith("#"))
    joined = source.replace("\\\n", " ")
    found += re.findall(r"python -m learning_dynamics\.experiments\.[^`\n\"]+", joined)
    return [line for line in found if line.startswith(command.PREFIX)]


PRINTED = sorted(
    {
        (str(path.relative_to(ROOT)), line)
        for path in (*ROOT.glob("chapters/*/*.py"), *ROOT.glob("book/**/*.md"), ROOT / "README.md")
        if "_build" not in path.parts
        for line in printed_commands(path)
    }
)


def test_commands_are_found_in_ledger_calls_text_and_prose(tmp_path: Path) -> None:
    page = tmp_path / "page.py"
    module = f"{command.PREFIX}chapter.name"
    page.write_text(
        f'# text `{module} a` more\n# {module} b\nready = "{module} "\nf(command=ready + "c")\n'
        f'g(command="{module} --part {{}} "\n  "--seed 1")\ng(command=ready.format(1))\nf(command="make x")\n'
    )
    rest = [line.removeprefix(f"{module} ") for line in printed_commands(page)]
    assert rest == ["c", "--part {} --seed 1", "", "a", "b"]
    prose = tmp_path / "page.md"
    prose.write_text(f"```bash\n{module} --a 1 \\\n   --b 2\n```\n")
    assert [line.split()[3:] for line in printed_commands(prose)] == [["--a", "1", "--b", "2"]]
    assert {Path(path).stem for path, _ in PRINTED} >= {
        "linear_recurrent_units",
        "value_learning",
        "how_to_run",
    }


@pytest.mark.parametrize(("page", "line"), PRINTED)
def test_a_command_that_a_page_prints_makes_a_declared_result(page: str, line: str) -> None:
    module = shlex.split(line)[2]
    parts = DECLARED[module].parts
    filled = [line.format(part) for part in parts] if "{}" in line and not isinstance(parts, int) else [line]
    declared = {each.command for each in (*command.kept(), *command.paper())}
    planned = [each for one in filled for each in command.plan(one)]
    known = [each for each in planned if each.command in declared]
    assert known and (len(known) == len(planned) or "{}" in line)
