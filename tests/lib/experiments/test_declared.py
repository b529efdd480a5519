"""Every declared experiment: its command at the smallest scale, and the results that the book keeps."""

from __future__ import annotations

import json
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
    """Both ways, and each result's own command, to the letter."""
    assert {(each.chapter, each.name): each.command for each in command.kept()} == committed()


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


@pytest.mark.parametrize("module", DECLARED)
def test_an_experiment_runs_at_the_smallest_scale_at_once_and_in_pieces(module: str, tmp_path: Path) -> None:
    experiment: Experiment = DECLARED[module]
    write_libsvm(tmp_path)
    example = min((line for line in experiment.kept if line not in ("two-moons", "sine")), key=len)
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
