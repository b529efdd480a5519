"""Kept results of value learning: what the command writes, and in which part of the sweep."""

from pathlib import Path

import pytest
import torch

from learning_dynamics import results
from learning_dynamics.experiments.value_learning import grid, sweep, training

CHAPTER = "parameterization/value_learning"


def test_a_part_of_the_best_steps(tmp_path: Path) -> None:
    words = ["chain", "explicit", "--part", "2/4", "--best", "--offsets", "0", "1", "--out", str(tmp_path)]
    assert sweep.main([*words, "--dirty"]) == 0
    kept = results.load(CHAPTER, "chain_explicit_best_2_offsets_part_2", folder=tmp_path)
    assert kept["norm"].shape == (7, 1, 1, 2, 20) and kept["discounts"].tolist() == pytest.approx([0.9])
    assert kept["steps"].tolist() == list(training.KEPT_STEPS)
    assert kept["step_sizes"].tolist() == [[grid.BEST_EXPLICIT["chain"]]]
    assert kept.provenance.command.endswith(" --best --offsets 0.0 1.0 --part 2/4")
    assert sweep.main([*words, "--dirty"]) == 2


def test_single_precision_is_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(sweep, "_at", lambda *given: seen.append(given[3].returns.dtype) or {})
    for words in ("chain explicit --part 1/4", "chain explicit --part 1/4 --float32"):
        (each,) = sweep.EXPERIMENT.plans(words.split())
        sweep.compute(each.call())
    assert set(seen[:6]) == {torch.float64} and set(seen[6:]) == {torch.float32} and len(seen) == 12


def test_step_sizes_and_what_does_not_fit(capsys: pytest.CaptureFixture) -> None:
    for k, discount in enumerate(grid.INTERNAL_DISCOUNTS):
        for domain, best in grid.BEST_IMPLICIT.items():
            assert sweep.step_sizes(domain, "implicit", discount, best=True) == (best[k],)
            assert sweep.step_sizes(domain, "explicit", discount) == grid.EXPLICIT_STEPS[domain]
    assert sweep.main(["pond", "explicit"]) == 2
    assert "domain = 'pond'; allowed: chain, four_rooms, mountain_car" in capsys.readouterr().err
    assert sweep.main(["mountain_car", "explicit", "--described"]) == 2
    assert "described" in capsys.readouterr().err
