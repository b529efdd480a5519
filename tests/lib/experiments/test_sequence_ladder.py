"""The tasks and the training of the accuracy ladder: generated expressions, the series format, seeds as one batch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from learning_dynamics import results
from learning_dynamics._internal import checkpoints
from learning_dynamics._internal.checkpoints import OutOfTimeError
from learning_dynamics.data.listops import TOKENS, evaluate, listops
from learning_dynamics.data.ts import read_ts
from learning_dynamics.experiments.command import STOPPED
from learning_dynamics.experiments.linear_recurrent_units import ladder
from learning_dynamics.experiments.linear_recurrent_units.ladder import PARTS, RUNGS, Size, train
from learning_dynamics.experiments.linear_recurrent_units.tasks import Task, load_task

TINY = Size(width=4, states=3, depth=1, batch=4, steps=6, evaluations=2)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tokens(text: str) -> list[int]:
    return [TOKENS.index(word) for word in text.split()]


def tiny_task(tokens: int = 0) -> Task:
    g = generator()
    inputs = torch.randint(tokens, (20, 9), generator=g) if tokens else torch.randn(20, 9, 1, generator=g)
    part = (inputs, torch.randint(3, (20,), generator=g))
    return Task(part, part, part, classes=3, tokens=tokens)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("[MAX 2 9 [MIN 4 7 ] 0 ]", 9),
        ("[MED 1 2 8 9 ]", 2),
        ("[MED 5 1 9 ]", 5),
        ("[SM 9 9 [SM 1 1 ] ]", 0),
        ("PAD PAD [MIN 3 4 ]", 3),
    ],
)
def test_expressions_have_their_values(expression: str, value: int) -> None:
    assert evaluate(tokens(expression)) == value


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), depth=st.integers(1, 4), arguments=st.integers(3, 6))
def test_generated_targets_are_the_values(seed: int, depth: int, arguments: int) -> None:
    made = listops(20, shortest=4, longest=60, depth=depth, arguments=arguments, generator=generator(seed))
    assert [evaluate(row) for row in made.tokens.tolist()] == made.targets.tolist()
    assert ((made.tokens != 0).sum(1) == made.lengths).all() and (made.lengths >= 4).all()
    assert (made.tokens[:, -1] == len(TOKENS) - 1).all()  # padded on the left


def test_expressions_repeat_with_their_generator() -> None:
    first, second, third = (listops(30, generator=generator(s)).tokens for s in (1, 1, 2))
    assert torch.equal(first, second) and not torch.equal(first, third)


@pytest.mark.parametrize("text", ["[MAX 1 2", "1 2", "]", "[MAX ]", ""])
def test_broken_expressions_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="tokens"):
        evaluate(tokens(text))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": 0}, "n = 0"),
        ({"longest": 5}, "longest = 5"),
        ({"depth": 0}, "depth = 0"),
        ({"arguments": 1}, "arguments = 1"),
    ],
)
def test_listops_refuses(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        listops(**({"n": 2, "generator": generator()} | change))


def test_lengths_out_of_reach_are_refused() -> None:
    with pytest.raises(ValueError, match="allowed: lengths that depth = 1"):
        listops(1, depth=1, arguments=2, shortest=50, longest=60, generator=generator())


def test_series_are_read(tmp_path: Path) -> None:
    path = tmp_path / "made.ts"
    path.write_text("# made\n@problemName made\n@data\n1,2.5,3:a\n\n4,5,-6e1:b\n")
    series, labels = read_ts(path)
    np.testing.assert_array_equal(series, [[1, 2.5, 3], [4, 5, -60]])
    assert labels.tolist() == ["a", "b"]


def test_a_space_before_a_label_is_no_part_of_it(tmp_path: Path) -> None:
    path = tmp_path / "made.ts"
    path.write_text(
        "@univariate true\n@seriesLength 2\n@classLabel true a b\n@data\n1,2: a\n3,4:a\n5,6 :b \n"
    )
    assert read_ts(path)[1].tolist() == ["a", "a", "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@data\n1,2:3,4:a\n", "line 2 = .*; allowed: one channel"),
        ("@data\n1,?:a\n", "line 2 = .*; allowed: numbers, none missing"),
        ("@data\n1,2:a\n1:b\n", "line 3: 1 values; allowed: 2"),
        ("@data\n", "no series"),
        ("1,2:a\n", "line 1 = .*; allowed before @data"),
        ("@data\n1,nan:a\n", "line 2 = .*; allowed: finite numbers"),
        ("@data\n1,inf:a\n", "line 2 = .*; allowed: finite numbers"),
        ("@data\n1,2:\n", "line 2: label = ''; allowed: a name"),
        ("@classLabel true a b\n@data\n1,2:c\n", "line 3: label = 'c'; allowed: a, b"),
        ("@seriesLength 3\n@data\n1,2:a\n", "line 3: 2 values; allowed: 3"),
        ("@seriesLength 3.5\n@data\n1,2:a\n", "@seriesLength = '3.5'; allowed: an integer"),
        ("@univariate false\n@data\n1,2:a\n", "@univariate = 'false'; allowed: true"),
        ("@timeStamps true\n@data\n1,2:a\n", "@timestamps = 'true'; allowed: false"),
        ("@missing true\n@data\n1,2:a\n", "@missing = 'true'; allowed: false"),
        ("@equalLength false\n@data\n1,2:a\n", "@equallength = 'false'; allowed: true"),
        ("@classLabel false\n@data\n1,2:a\n", "@classLabel = 'false'; allowed: true"),
        ("@targetLabel true\n@data\n1,2:3\n", "@targetlabel = 'true'; allowed: false"),
        ("@seriesLength 2\n@seriesLength 3\n@data\n1,2:3\n", "line 2 = .*; allowed: each header once"),
        ("@data\n1,2:a\n@data\n3,4:a\n", "line 3 = .*; allowed: each header once, before @data"),
    ],
)
def test_broken_series_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "made.ts"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_ts(path)


@pytest.mark.parametrize("rung", RUNGS)
def test_a_batch_of_seeds_is_each_seed(rung: str) -> None:
    together = train(rung, tiny_task(), [3, 5], learning_rate=1e-2, size=TINY)
    alone = train(rung, tiny_task(), [5], learning_rate=1e-2, size=TINY)
    torch.testing.assert_close(together.loss[1], alone.loss[0], rtol=1e-3, atol=1e-5)
    assert together.steps == (3, 6) and together.accuracy.shape == (2, 2)
    assert not torch.equal(together.loss[0], together.loss[1])


def test_a_short_run_is_the_beginning_of_the_long_one() -> None:
    long = train("lru", tiny_task(tokens=6), [1], learning_rate=1e-2, size=TINY)
    short = train("lru", tiny_task(tokens=6), [1], learning_rate=1e-2, size=TINY, steps=4)
    assert torch.equal(short.loss, long.loss[:, :4]) and short.steps == (3,)


@pytest.mark.parametrize("dropout", (0.0, 0.3))
def test_a_run_that_is_stopped_goes_on_where_it_was(tmp_path: Path, dropout: float) -> None:
    size, path = replace(TINY, dropout=dropout), tmp_path / "checkpoints" / "lru.pt"
    at_once = tmp_path / "at_once.pt"
    whole = train("lru", tiny_task(), [3, 5], learning_rate=1e-2, size=size, checkpoint=at_once)
    calls = 0
    while True:
        calls += 1
        try:
            parts = train(
                "lru", tiny_task(), [3, 5], learning_rate=1e-2, size=size, checkpoint=path, until=0.0
            )
        except OutOfTimeError as stopped:
            assert f"{calls} of 6 steps" in str(stopped)
        else:
            break
    assert calls == 6
    assert torch.equal(parts.loss, whole.loss) and torch.equal(parts.accuracy, whole.accuracy)
    states = [checkpoints.read(each)[1] for each in (path, at_once)]
    for part in ("parameters", "buffers"):
        first, second = (state["ensemble"][part] for state in states)
        assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
    again = train("lru", tiny_task(), [3, 5], learning_rate=1e-2, size=size, checkpoint=path)
    assert torch.equal(again.loss, whole.loss) and again.seconds == parts.seconds
    assert [each.name for each in path.parent.iterdir()] == ["lru.pt"]


def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lru.pt"
    train("lru", tiny_task(), [3], learning_rate=1e-2, size=TINY, checkpoint=path)
    for change in ({"learning_rate": 2e-2}, {"size": replace(TINY, width=5)}, {"seeds": [4]}):
        settings = {"learning_rate": 1e-2, "size": TINY, "seeds": [3], "checkpoint": path} | change
        with pytest.raises(ValueError, match="is of lru.*allowed: lru"):
            train("lru", tiny_task(), **settings)


def test_dropout_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    dropped = train("lru", tiny_task(), [3, 5], learning_rate=1e-2, size=replace(TINY, dropout=0.5))
    plain = train("lru", tiny_task(), [3, 5], learning_rate=1e-2, size=TINY)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not torch.equal(dropped.loss, plain.loss)


def test_every_step_drops_other_features() -> None:
    """With rates that are almost zero the losses of one batch, met again and again, differ by what is dropped."""
    task = tiny_task()
    part = tuple(each[:1] for each in task.train)
    one = replace(task, train=part)  # the same sample in every batch
    size = replace(TINY, dropout=0.5)
    dropped = train("lru", one, [3], learning_rate=1e-12, size=size).loss[0]
    plain = train("lru", one, [3], learning_rate=1e-12, size=TINY).loss[0]
    assert len(dropped.unique()) == TINY.steps and plain.std() < 1e-5 < dropped.std()


def test_recurrent_parameters_have_a_rate_of_their_own() -> None:
    slow, fast = (
        train("lru", tiny_task(), [3], learning_rate=1e-2, size=replace(TINY, recurrent_factor=factor))
        for factor in (0.25, 1.0)
    )
    assert torch.equal(slow.loss[:, 0], fast.loss[:, 0]) and not torch.equal(slow.loss, fast.loss)


def test_both_directions_are_for_diagonal_rungs() -> None:
    size = replace(TINY, bidirectional=True)
    assert train("ring", tiny_task(), [0], learning_rate=1e-2, size=size).loss.isfinite().all()
    with pytest.raises(ValueError, match="bidirectional = True; allowed for the rung tanh: False"):
        train("tanh", tiny_task(), [0], learning_rate=1e-2, size=size)


def test_a_diverged_run_shows_as_infinite() -> None:
    task = tiny_task()
    task.train[0][:] = torch.inf
    assert train("cartesian", task, [0], learning_rate=1e-2, size=TINY).loss.isinf().all()


def test_tasks_are_cut_into_three() -> None:
    task = load_task("pixel-mnist")
    assert [len(part[0]) for part in (task.train, task.validation, task.test)] == [8000, 1000, 1000]
    assert task.train[0].shape[1:] == (196, 1) and task.train[1].max() == 9


def test_series_task_reads_its_folder(tmp_path: Path) -> None:
    rows = "\n".join(",".join(str((i * j) % 7) for j in range(8)) + f":{i % 2}" for i in range(100))
    for part in ("TRAIN", "TEST"):
        (tmp_path / f"ACSF1_{part}.ts").write_text(f"@data\n{rows}\n")
    task = load_task("acsf1", folder=tmp_path)
    assert task.train[0].shape == (70, 2, 1) and task.test[0].shape == (100, 2, 1) and task.classes == 2


@pytest.mark.parametrize(
    "targets",
    (np.arange(20) / 2, np.arange(19), np.arange(20)[:, None], np.arange(20) - 1, np.full(20, np.nan)),
)
def test_wrong_targets_of_a_file_are_refused(tmp_path: Path, targets: np.ndarray) -> None:
    np.savez(tmp_path / "made.npz", inputs=np.zeros((20, 5, 3)), targets=targets)
    with pytest.raises(ValueError, match="made.npz .*; allowed: "):
        load_task("file", folder=tmp_path / "made.npz")


def test_a_checkpoint_of_other_data_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lru.pt"
    train("lru", tiny_task(), [3], learning_rate=1e-2, size=TINY, checkpoint=path)
    task = tiny_task()
    task.train[0][0, 0] += 1
    with pytest.raises(ValueError, match="checkpoint = .* is of lru"):
        train("lru", task, [3], learning_rate=1e-2, size=TINY, checkpoint=path)


@pytest.mark.parametrize("whole_numbers", (False, True))
def test_any_sequences_come_from_a_file(tmp_path: Path, whole_numbers: bool) -> None:
    inputs = np.arange(20 * 5).reshape(20, 5) % 7 if whole_numbers else np.zeros((20, 5, 3))
    np.savez(tmp_path / "made.npz", inputs=inputs, targets=np.arange(20) % 4)
    task = load_task("file", folder=tmp_path / "made.npz")
    assert (task.classes, task.tokens, len(task.train[0]), len(task.test[0])) == (
        4,
        7 if whole_numbers else 0,
        16,
        2,
    )
    assert train("lru", task, [0], learning_rate=1e-2, size=TINY).loss.isfinite().all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: load_task("file", folder=Path("none.npz")), "data = none.npz"),
        (lambda: load_task("imdb"), "task = 'imdb'"),
        (lambda: load_task("acsf1"), "data = None"),
        (lambda: train("gru", tiny_task(), [0], learning_rate=0.1), "rung = 'gru'"),
        (lambda: train("lru", tiny_task(), [], learning_rate=0.1), "seeds"),
        (lambda: train("lru", tiny_task(), [0], learning_rate=0.1, until=1.0), "checkpoint = None"),
    ],
)
def test_ladder_refuses(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_a_part_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEARNING_DYNAMICS_RESULTS", str(tmp_path))
    monkeypatch.setattr(ladder, "load_task", lambda *_, **__: tiny_task())
    sizes = "--width 4 --states 3 --depth 1 --batch 4 --steps 4 --seeds 2"
    assert ladder.main(["--task", "listops", "--part", "final", *sizes.split(), "--dirty"]) == 0
    kept = results.load(ladder.CHAPTER, "listops-final")
    assert kept["lru_loss"].shape == (2, 4) and kept["s4d_lin_validation"].shape == (2,)
    assert kept.provenance.command.startswith(
        "python -m learning_dynamics.experiments.linear_recurrent_units.ladder --task listops"
    )
    assert {rung for part in PARTS.values() for rung in part} == set(RUNGS)


def test_a_part_is_made_in_several_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEARNING_DYNAMICS_RESULTS", str(tmp_path))
    monkeypatch.setattr(ladder, "load_task", lambda *_, **__: tiny_task())
    words = (
        "--task listops --part unscaled --width 4 --states 3 --depth 1 --batch 4 --steps 2 --seeds 2".split()
    )
    timed = [*words, "--minutes", "1e-9", "--dirty"]
    assert [ladder.main(timed) for _ in range(4)] == [STOPPED, STOPPED, STOPPED, 0]
    kept = results.load(ladder.CHAPTER, "listops-unscaled")
    whole = train(
        "s4d-unscaled",
        tiny_task(),
        [0, 1],
        learning_rate=ladder.LEARNING_RATES[int(kept["s4d_unscaled_chosen"])],
        size=replace(TINY, steps=2, evaluations=4),
    )
    np.testing.assert_array_equal(kept["s4d_unscaled_loss"], whole.loss.numpy())
    assert not list(tmp_path.rglob("*.pt"))


def test_digits_of_full_size_are_the_images(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    task = load_task("digits")
    assert task.train[0].shape == (8000, 784, 1) and task.classes == 10
    pooled = task.train[0].reshape(-1, 14, 2, 14, 2).mean((2, 4)).flatten(1)
    coarse = load_task("pixel-mnist").train[0][..., 0]
    torch.testing.assert_close(pooled - pooled.mean(), (coarse - coarse.mean()) * pooled.std() / coarse.std())
    assert torch.equal(task.train[1], load_task("pixel-mnist").train[1])


@pytest.mark.parametrize("part", ("dense", "diagonal", "final"))
def test_the_ladder_at_the_source_s_width_runs_at_smoke(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that waits for a GPU, on a CPU and small; a few of the images stand for all."""
    monkeypatch.setenv("LEARNING_DYNAMICS_RESULTS", str(tmp_path))
    task = load_task("digits")
    few = replace(
        task, validation=tuple(p[:20] for p in task.validation), test=tuple(p[:20] for p in task.test)
    )
    monkeypatch.setattr(ladder, "load_task", lambda *_, **__: few)
    line = next(
        each
        for each in ladder.EXPERIMENT.paper
        if each.startswith(f"--task digits --scale paper --steps 28800 --part {part} ")
    )
    words = (
        line.replace("--scale paper --steps 28800", "--scale smoke")
        .replace("--device cuda", "--device cpu")
        .split()
    )
    assert ladder.main([*words, "--dirty"]) == 0
    kept = results.load(ladder.CHAPTER, f"digits-{part}-smoke")
    assert all(kept[f"{rung.replace('-', '_')}_loss"].shape == (2, 4) for rung in PARTS[part])


def test_the_wider_parts_have_four_rates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEARNING_DYNAMICS_RESULTS", str(tmp_path))
    monkeypatch.setattr(ladder, "load_task", lambda *_, **__: tiny_task())
    for part in (*ladder.WIDER, "unscaled"):
        words = f"--task listops --part {part} --width 4 --states 3 --depth 1 --batch 4 --steps 2 --seeds 1"
        assert ladder.main([*words.split(), "--dirty"]) == 0
        rates = results.load(ladder.CHAPTER, f"listops-{part}")["learning_rates"]
        assert tuple(rates) == ladder.WIDER.get(part, ladder.LEARNING_RATES)
