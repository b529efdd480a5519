"""The reversal experiment of the chapter rank_collapse against single runs with torch's own optimizers."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from learning_dynamics.experiments.rank_collapse import attention_training as training
from learning_dynamics.runs import Run

SMALL = {"width": 4, "depth": 2, "length": 4}


@pytest.mark.parametrize(
    ("setting", "name"),
    [("normalized", "sgd qk x 10"), ("normalized", "adam, qk frozen"), ("scaled", "adam")],
)
def test_an_ensemble_is_its_single_runs(setting: str, name: str) -> None:
    arm, steps = training.ARMS[setting][name], 5
    seen = training.train(setting, name, [0, 1], steps=steps, **SMALL)
    model = training.make_encoder(setting, arm, 1, **SMALL)
    attending = [p for n, p in model.named_parameters() if n.endswith(("W_Q", "W_K"))]
    others = [p for n, p in model.named_parameters() if not n.endswith(("W_Q", "W_K")) and p.requires_grad]
    groups = [{"params": others, "lr": arm.rate}, {"params": attending, "lr": arm.factor * arm.rate}]
    optimizer = (
        torch.optim.Adam(groups) if arm.rule == "adam" else torch.optim.SGD(groups, lr=1.0, momentum=0.9)
    )
    source = Run(training.CHAPTER).generator("sequences", seed=1)
    shown = torch.randint(
        10, (training.SHOWN, 4), generator=Run(training.CHAPTER).generator("shown sequences", seed=0)
    )
    losses = []
    for k in range(steps + 1):
        with torch.no_grad():
            losses.append(cross_entropy(model(shown).flatten(0, 1), shown.flip(1).flatten()))
        decay = 1.0 if k < 0.4 * steps else 0.3 if k < 0.8 * steps else 0.1
        for group, rate in zip(optimizer.param_groups, (arm.rate, arm.rate * arm.factor), strict=True):
            group["lr"] = rate * decay
        digits = torch.randint(10, (training.BATCH, 4), generator=source)
        loss = cross_entropy(model(digits).flatten(0, 1), digits.flip(1).flatten())
        optimizer.zero_grad()
        loss.backward()
        if k == 0:
            slopes = [
                [getattr(block, kind).grad.norm() for block in model.blocks] for kind in training.GROUPS
            ]
            torch.testing.assert_close(seen["gradients"][:, 1, 0], torch.tensor(slopes), rtol=1e-4, atol=1e-6)
        optimizer.step()
    records = seen["records"].tolist()
    expected = torch.stack([losses[k] for k in records])
    torch.testing.assert_close(seen["losses"][1], expected, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(seen["losses"][0], expected, rtol=1e-2)


def test_frozen_queries_stand_still_and_strengths_start_right() -> None:
    seen = training.train("scaled", "sgd, qk frozen", [0], steps=4, **SMALL)
    start = seen["strengths"][0, 0]
    torch.testing.assert_close(start, torch.full((2, 2), 2**-0.5))
    assert (seen["strengths"][0, -1] != start).all()
    fixed = training.train("normalized", "sgd", [0], steps=4, **SMALL)
    assert (fixed["strengths"] == 1).all()
    assert fixed["effective"].isinf().all()
    assert fixed["cosines"].abs().max() <= 1


def test_a_stopped_run_is_the_beginning_of_the_whole() -> None:
    whole = training.train("normalized", "adam", [3], steps=12, **SMALL)
    part = training.train("normalized", "adam", [3], steps=12, stop=6, **SMALL)
    count = len(part["records"])
    assert part["records"][-1] <= 6
    for name in ("losses", "cosines", "squares"):
        torch.testing.assert_close(part[name], whole[name][:, :count])
    assert part["effective"].isfinite().all()
