from __future__ import annotations

import pytest
import torch

from learning_dynamics.runs import SCALES, Run, resolve_device

CHAPTER = "implicit_bias/minimum_norm"


@pytest.mark.parametrize("scale", SCALES)
def test_pick_and_seeds_follow_the_scale(scale: str) -> None:
    run = Run(CHAPTER, scale=scale)
    counts = {"smoke": 2, "book": 3, "paper": 4}
    assert run.pick(**counts) == counts[scale]
    assert len(run.seeds(**counts)) == counts[scale]


def test_runs_with_different_seeds_share_no_seed() -> None:
    first = Run(CHAPTER, seed=0).seeds(smoke=1, book=9999, paper=1)
    second = Run(CHAPTER, seed=1).seeds(smoke=1, book=9999, paper=1)
    assert not set(first) & set(second)


def test_streams_are_separate_and_repeatable() -> None:
    run = Run(CHAPTER, seed=3)
    draws = [
        torch.randn(4, generator=run.generator(*stream)) for stream in [("a",), ("a",), ("b",), ("a", 5)]
    ]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert not torch.equal(draws[0], draws[3])
    before = torch.get_rng_state()
    run.generator("c")
    assert torch.equal(before, torch.get_rng_state())


def test_a_numbered_stream_follows_the_seed_of_the_run_and_a_seed_does_not() -> None:
    first, second = Run(CHAPTER, seed=0), Run(CHAPTER, seed=2)

    def draw(run: Run, **which: int) -> float:
        return float(torch.rand((), generator=run.generator("a", **which)))

    assert draw(first, seed=7) == draw(second, seed=7)
    assert draw(first, index=7) == draw(first, seed=7)
    assert draw(second, index=7) == draw(second, seed=second.seeds(smoke=8, book=8, paper=8)[7])
    assert draw(second, index=7) != draw(first, index=7)
    for wrong in (-1, 10_000, True, 1.5):
        with pytest.raises(ValueError, match="allowed: an integer >= 0 and <= 9999"):
            first.generator("a", index=wrong)
    with pytest.raises(ValueError, match="one of the two"):
        first.generator("a", 1, index=1)


def test_parts_cover_every_piece_once() -> None:
    pieces = list(range(11))
    shares = [Run(CHAPTER, part=f"{k}/3").share(pieces) for k in (1, 2, 3)]
    assert sorted(sum(shares, [])) == pieces
    assert Run(CHAPTER).share(pieces) == pieces


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"chapter": "minimum_norm"}, "chapter = 'minimum_norm'"),
        ({"scale": "large"}, "scale = 'large'; allowed: smoke, book, paper"),
        ({"device": "gpu"}, "device = 'gpu'; allowed: 'auto', 'cpu' or 'cuda'"),
        ({"device": "tpu:0"}, "device = 'tpu:0'"),
        ({"seed": -1}, "seed = -1; allowed: an integer >= 0"),
        ({"seed": True}, "seed = True"),
        ({"seed": 0.5}, "seed = 0.5"),
        ({"part": "4/3"}, "part = '4/3'; allowed: 'all' or 'k/m'"),
        ({"part": "first"}, "part = 'first'"),
        ({"dtype": torch.int64}, "dtype = torch.int64"),
    ],
)
def test_a_bad_argument_is_named_in_one_line(arguments: dict, named: str) -> None:
    with pytest.raises(ValueError) as caught:
        Run(**({"chapter": CHAPTER} | arguments))
    assert named in str(caught.value) and "\n" not in str(caught.value)


def test_cuda_where_there_is_none_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_device("auto") == torch.device("cpu")
    with pytest.raises(ValueError, match="allowed here, without CUDA"):
        resolve_device("cuda:0")


def test_too_many_seeds_is_an_error() -> None:
    with pytest.raises(ValueError, match="between 1 and 9999"):
        Run(CHAPTER).seeds(smoke=1, book=10_000, paper=1)
