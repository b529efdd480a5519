"""The one command for experiments: what it refuses before computing, how it goes on, what it records."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from learning_dynamics import results
from learning_dynamics._internal import checkpoints
from learning_dynamics.experiments import command
from learning_dynamics.experiments.command import STOPPED, Call, Experiment, Option, Scaled

CHAPTER = "part/chapter"


class Probe:
    """An experiment of two pieces that counts how often each was computed."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.threads = 0
        self.options: argparse.Namespace | None = None

    def compute(self, call: Call) -> dict[str, Any]:
        self.options, self.threads = call.options, torch.get_num_threads()
        return {name: call.piece(name, self.piece, name, call)["values"] for name in ("a", "b")}

    def piece(self, name: str, call: Call) -> dict[str, Any]:
        self.made.append(name)
        if call.options.steps == 13:
            raise FileNotFoundError("thirteen steps lead nowhere")
        source = call.run.generator(name)
        return {"values": torch.rand(len(call.seeds), call.options.steps, generator=source)}


def experiment(probe: Probe, **changes: Any) -> Experiment:
    declared: dict[str, Any] = {
        "chapter": CHAPTER,
        "name": lambda options: f"runs-{options.task}",
        "compute": probe.compute,
        "options": (
            Option("task", "the task", allowed=("easy", "hard")),
            Option("--steps", "number of steps", Scaled(2, 5, 50)),
            Option("--rates", "learning rates", (0.1, 0.3)),
            Option("--fast", "cut corners", False),
            Option("--data", "a folder", kind=Path),
        ),
        "seeds": Scaled(2, 3, 4),
        "parts": 2,
        "resumable": True,
    }
    return Experiment(**(declared | changes))


@pytest.fixture
def probe() -> Probe:
    return Probe()


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "library_commit", lambda: "abc")


@pytest.fixture
def dirty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "library_commit", lambda: "abc-dirty")


def test_a_result_is_kept_with_the_command_that_makes_it(probe: Probe, tmp_path: Path, clean: None) -> None:
    out = ["--out", str(tmp_path)]
    words = ["easy", "--rates", "0.5", "1", "--seed", "2", "--fast", *out]
    before = torch.get_num_threads()
    assert experiment(probe).main(words) == 0
    assert probe.threads == 1 and torch.get_num_threads() == before
    kept = results.load(CHAPTER, "runs-easy", folder=tmp_path)
    assert kept["a"].shape == (3, 5) and probe.options is not None and probe.options.rates == (0.5, 1.0)
    made = kept.provenance
    assert made.commit == "abc" and made.seeds == (20000, 20001, 20002) and made.rtol == 1e-6
    module, _, rest = made.command.removeprefix("python -m ").partition(" ")
    assert module == __name__ and rest == "easy --rates 0.5 1.0 --fast --seed 2"
    (again,) = experiment(probe).plans(rest.split())
    assert (again.name, again.command) == ("runs-easy", made.command)


def test_an_existing_result_is_refused_before_computing(
    probe: Probe, tmp_path: Path, clean: None, capsys: pytest.CaptureFixture
) -> None:
    words = ["easy", "--out", str(tmp_path)]
    assert experiment(probe).main(words) == 0
    probe.made.clear()
    assert experiment(probe).main(words) == 2
    assert "part/chapter/runs-easy is kept already; allowed: --overwrite" in capsys.readouterr().err
    assert experiment(probe).main([*words, "--resume"]) == 0 and probe.made == []
    assert experiment(probe).main([*words, "--resume", "--steps", "3"]) == 2
    assert "made by" in capsys.readouterr().err and probe.made == []
    assert experiment(probe).main([*words, "--overwrite"]) == 0 and probe.made == ["a", "b"]


def test_a_dirty_checkout_is_refused_unless_asked_for_and_recorded(
    probe: Probe, tmp_path: Path, dirty: None, capsys: pytest.CaptureFixture
) -> None:
    words = ["easy", "--out", str(tmp_path)]
    assert experiment(probe).main(words) == 2
    assert "allowed: a commit, or --dirty" in capsys.readouterr().err and probe.made == []
    assert experiment(probe).main([*words, "--dirty"]) == 0
    assert results.load(CHAPTER, "runs-easy", folder=tmp_path).provenance.commit == "abc-dirty"


def test_when_its_time_is_up_the_same_command_goes_on(probe: Probe, tmp_path: Path, clean: None) -> None:
    words = ["easy", "--out", str(tmp_path), "--minutes", "1e-9"]
    assert experiment(probe).main(words) == STOPPED == 75
    assert probe.made == ["a"] and not list(tmp_path.rglob("*.npz"))
    assert experiment(probe).main(words) == 0
    assert probe.made == ["a", "b"] and not list(tmp_path.rglob("*.pt"))
    assert experiment(probe).main(["easy", "--out", str(tmp_path / "at once")]) == 0
    at_once = results.load(CHAPTER, "runs-easy", folder=tmp_path / "at once")
    results.agree(results.load(CHAPTER, "runs-easy", folder=tmp_path), at_once.arrays, rtol=0.0)


def test_checkpoints_of_other_settings_are_refused(probe: Probe, tmp_path: Path, clean: None) -> None:
    words = ["easy", "--out", str(tmp_path), "--minutes", "1e-9"]
    assert experiment(probe).main(words) == STOPPED
    assert experiment(probe).main([*words, "--steps", "6"]) == 1
    assert not list(tmp_path.rglob("*.npz"))


def test_a_failure_keeps_nothing(
    probe: Probe, tmp_path: Path, clean: None, capsys: pytest.CaptureFixture
) -> None:
    assert experiment(probe).main(["easy", "--steps", "13", "--out", str(tmp_path)]) == 1
    assert "FileNotFoundError: thirteen steps lead nowhere" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "task is missing; allowed: one of easy, hard"),
        ("odd", "task = 'odd'; allowed: easy, hard"),
        ("easy --steps 0", "steps = '0'; allowed: an integer >= 1"),
        ("easy --steps", "--steps has no value; allowed:"),
        ("easy --rates nan", "rates = 'nan'; allowed: a finite number"),
        ("easy --stepz 3", "--stepz is no argument; allowed: "),
        ("easy --ste 3", "--ste is no argument; allowed: "),
        ("easy --seeds 0", "seeds = '0'; allowed: an integer >= 1"),
        ("easy --seed -1", "seed"),
        ("easy --part 3/2", "part = '3/2'; allowed: all, 1/2, 2/2"),
        ("easy --scale huge", "scale = 'huge'; allowed: smoke, book, paper"),
        ("easy --device tpu", "device = 'tpu'; allowed: cpu, cuda"),
        ("easy --minutes 0", "minutes = '0'; allowed: a number > 0"),
        ("easy --data nowhere", "data = 'nowhere'; allowed: a file or folder that exists"),
    ],
)
def test_bad_arguments(
    words: str, message: str, probe: Probe, tmp_path: Path, clean: None, capsys: pytest.CaptureFixture
) -> None:
    assert experiment(probe).main([*words.split(), "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1 and "allowed: " in said
    assert probe.made == []


def test_parts_scales_and_folders_in_names_and_commands(probe: Probe) -> None:
    (smoke,) = experiment(probe).plans("hard --scale smoke --part 2/2 --steps 2 --seeds 3".split())
    assert smoke.name == "runs-hard-part-2-smoke" and smoke.count == 3 and smoke.options.steps == 2
    assert smoke.command.endswith(" hard --seeds 3 --scale smoke --part 2/2")
    assert smoke.call().run.part == "2/2" and smoke.call().seeds == [0, 1, 2]
    (named,) = experiment(probe, parts=("long", "short")).plans("hard --part long".split())
    assert named.name == "runs-hard-long" and named.call().part == "long"
    with pytest.raises(ValueError, match="part is missing; allowed: one of long, short"):
        experiment(probe, parts=("long", "short")).plans(["hard"])
    (filed,) = experiment(probe).plans(["hard", "--data", "/some/where"])
    assert filed.command.endswith(" hard --data FOLDER") and filed.needs == ("FOLDER",)
    (filed,) = experiment(probe).plans(["hard", "--data", "/some/where.npz"])
    assert filed.command.endswith(" hard --data where.npz") and filed.needs == ("where.npz",)


def test_a_call_may_make_several_results(probe: Probe, tmp_path: Path, clean: None) -> None:
    several = experiment(
        probe,
        name=lambda options: options.kinds,
        options=(
            Option("--kinds", "kinds", ("one", "two", "three"), allowed=("one", "two", "three")),
            Option("--steps", "number of steps", 5),
        ),
        each="kinds",
    )
    assert [each.name for each in several.plans([])] == ["one", "two", "three"]
    words = ["--kinds", "one", "three", "--out", str(tmp_path)]
    assert several.main([*words, "--minutes", "1e-9"]) == STOPPED
    assert several.main([*words, "--minutes", "100"]) == 0
    for name in ("one", "three"):
        made = results.load(CHAPTER, name, folder=tmp_path).provenance
        assert made.command.endswith(f" --kinds {name}")
    probe.made.clear()
    assert several.main(["--out", str(tmp_path)]) == 2 and probe.made == []  # two of three are there


def test_what_an_experiment_cannot_do_is_refused(
    probe: Probe, clean: None, capsys: pytest.CaptureFixture
) -> None:
    plain = experiment(probe, resumable=False, seeds=None, devices=("cpu",), parts=1)
    for words in ("--resume", "--minutes 3", "--device cuda", "--seeds 3", "--part 1/2"):
        assert plain.main(["easy", *words.split()]) == 2
        assert "allowed" in capsys.readouterr().err
    (each,) = plain.plans(["easy", "--seed", "4"])
    assert each.call().seeds == [4]

    def check(options: argparse.Namespace) -> None:
        raise ValueError("steps = 5; allowed: none")

    assert experiment(probe, check=check).main(["easy"]) == 2
    with pytest.raises(ValueError, match=r"command = 'python make.py'; allowed: python -m"):
        command.plan("python make.py")


def test_help_names_every_option(probe: Probe, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as ended:
        experiment(probe).main(["--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    for name in "task --steps --rates --fast --data --seeds --scale --device --seed --part --out".split():
        assert name in said
    for name in ("--resume", "--minutes", "--overwrite", "--dirty"):
        assert name in said


def test_a_result_made_in_pieces_counts_the_time_of_all_calls(
    probe: Probe, tmp_path: Path, clean: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["easy", "--out", str(tmp_path), "--minutes", "1e-9"]
    assert experiment(probe).main(words) == STOPPED
    (path,) = tmp_path.rglob("a.pt")
    settings, state = checkpoints.read(path)
    checkpoints.save(path, state | {"seconds": 1000.0}, settings=settings)
    assert experiment(probe).main(words) == 0
    described = json.loads((tmp_path / CHAPTER / "runs-easy.json").read_text())
    assert 1000 <= described["wall_time"] < 1060
