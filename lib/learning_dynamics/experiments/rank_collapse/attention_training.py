"""Encoders that learn to reverse digits, under SGD and Adam with a step of their own for queries and keys.

    python -m learning_dynamics.experiments.rank_collapse.attention_training --setting normalized scaled
    python -m learning_dynamics.experiments.rank_collapse.attention_training --setting deep long --steps 1000
    python -m learning_dynamics.experiments.rank_collapse.attention_training --setting large --steps 2000

make the kept results of the chapter: one head, width 16, fresh minibatches of 32 sequences, float32, SGD with momentum
0.9, the step size times 0.3 after 40 % and times 0.1 after 80 % of the steps. The settings:

    normalized  layer normalization after each sum, strengths 1 (POST-LN), 8 digits, 5 blocks
    scaled      no normalization, strengths start at one over the root of the depth and are trained
    deep        as normalized, with 15 blocks
    long        as normalized, with 20 digits and Adam's step 0.01, the source's toy (Orvieto 2023, figure 30)
    large       as normalized, with 16 digits, width 32 and 6 blocks

The seeds of an arm are trained as one batch; runs of one seed share the start, the sequences and nothing else.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from learning_dynamics.adaptivity.token_geometry import token_correlation
from learning_dynamics.ensembles.modules import MakeOptimizer, ModuleEnsemble
from learning_dynamics.experiments.command import Call, Experiment, Option, Scaled
from learning_dynamics.models.attention import Encoder
from learning_dynamics.runs import Run

CHAPTER = "adaptivity/rank_collapse"
DIGITS, BATCH, SHOWN, RECORDS = 10, 32, 128, 21
GROUPS = ("W_Q", "W_K", "W_V")


class Arm(NamedTuple):
    """How the runs of one arm are trained.

    Attributes:
        rule: `"sgd"` or `"adam"`.
        rate: the first step size.
        factor: what queries and keys multiply it by; 0 freezes them at their start.
        temperature: divides the logits of the attention.
    """

    rule: str
    rate: float
    factor: float = 1.0
    temperature: float = 1.0


ARMS: dict[str, dict[str, Arm]] = {
    "normalized": {
        "sgd": Arm("sgd", 0.05),
        "sgd all / 3": Arm("sgd", 0.05 / 3),
        "sgd all x 3": Arm("sgd", 0.15),
        "sgd all x 10": Arm("sgd", 0.5),
        "sgd qk x 3": Arm("sgd", 0.05, 3.0),
        "sgd qk x 10": Arm("sgd", 0.05, 10.0),
        "sgd qk x 30": Arm("sgd", 0.05, 30.0),
        "adam": Arm("adam", 3e-3),
        "adam, qk frozen": Arm("adam", 3e-3, 0.0),
    },
    "scaled": {
        "sgd": Arm("sgd", 0.05),
        "sgd, qk frozen": Arm("sgd", 0.05, 0.0),
        "sgd, gain 2": Arm("sgd", 0.05, temperature=0.5),
        "adam": Arm("adam", 3e-3),
    },
    "deep": {"adam": Arm("adam", 3e-3)},
    "long": {"adam": Arm("adam", 0.01)},
    "large": {
        "sgd": Arm("sgd", 0.05),
        "sgd all x 3": Arm("sgd", 0.15),
        "sgd qk x 10": Arm("sgd", 0.05, 10.0),
        "adam": Arm("adam", 1e-3),
        "adam, qk frozen": Arm("adam", 1e-3, 0.0),
    },
}
"""The arms of each setting, by name."""


def make_encoder(setting: str, arm: Arm, seed: int, *, width: int, depth: int, length: int) -> Encoder:
    """Return the encoder of one seed at its start.

    Args:
        setting: a key of `ARMS`.
        arm: for its temperature.
        seed: of the weights.
        width: m.
        depth: D, number of blocks.
        length: T.
    """
    scaled = setting == "scaled"
    strength = 1 / math.sqrt(depth) if scaled else 1.0
    return Encoder(
        DIGITS,
        length,
        width,
        depth,
        strengths=(strength, strength),
        train_strengths=scaled,
        norm="none" if scaled else "post",
        temperature=arm.temperature,
        generator=Run(CHAPTER).generator("encoder", seed=seed),
    )


def optimizer_of(arm: Arm) -> MakeOptimizer:
    """Return what makes the arm's torch optimizer: one group for queries and keys, one for all else.

    Args:
        arm: how to train.
    """

    def make(named: dict[str, Tensor]) -> torch.optim.Optimizer:
        attending = [value for name, value in named.items() if name.endswith(("W_Q", "W_K"))]
        others = [value for name, value in named.items() if not name.endswith(("W_Q", "W_K"))]
        groups = [
            {"params": others, "lr": arm.rate},
            {"params": attending, "lr": arm.rate * arm.factor},
        ]
        if arm.rule == "adam":
            return torch.optim.Adam(groups, foreach=True)
        return torch.optim.SGD(groups, momentum=0.9, foreach=True)

    return make


def reversal_loss(model: torch.nn.Module, sequence: Tensor) -> Tensor:
    """Return the mean cross-entropy of the reversed sequence, `()`.

    Args:
        model: an encoder.
        sequence: `(b, T)` int64.
    """
    return cross_entropy(model(sequence).flatten(0, 1), sequence.flip(1).flatten())


def layer_norms(ensemble: ModuleEnsemble, kind: str, depth: int) -> Tensor:
    """Return the norm of the last gradient of one kind of weight in each block, `(B, D)`.

    Args:
        ensemble: after a step.
        kind: `"W_Q"`, `"W_K"` or `"W_V"`.
        depth: D.
    """
    slopes = [ensemble.parameters[f"blocks.{j}.{kind}"].grad for j in range(depth)]
    return torch.stack([slope.flatten(1).norm(dim=1) for slope in slopes if slope is not None], 1)


def adam_steps(ensemble: ModuleEnsemble, kind: str, depth: int) -> Tensor:
    """Return one over the root of Adam's mean square, the median over the entries, `(B, D)`; infinite under SGD.

    Args:
        ensemble: after a step.
        kind: `"W_Q"`, `"W_K"` or `"W_V"`.
        depth: D.
    """
    optimizer, found = ensemble.optimizer, []
    for j in range(depth):
        value = ensemble.parameters[f"blocks.{j}.{kind}"]
        state = optimizer.state.get(value, {}) if optimizer is not None else {}
        if "exp_avg_sq" not in state:
            return torch.full((ensemble.count, depth), torch.inf)
        second = state["exp_avg_sq"] / (1 - 0.999 ** float(state["step"]))
        found.append((1 / (second.sqrt() + 1e-8)).flatten(1).median(1).values)
    return torch.stack(found, 1)


def train(
    setting: str,
    name: str,
    seeds: Sequence[int],
    *,
    steps: int,
    width: int = 16,
    depth: int = 5,
    length: int = 8,
    stop: int | None = None,
) -> dict[str, Tensor]:
    """Train one arm on all seeds.

    Args:
        setting: a key of `ARMS`.
        name: of the arm.
        seeds: of the start and of the sequences.
        steps: number of steps the schedule is made for.
        width: m.
        depth: D.
        length: T.
        stop: steps that are made, all of them if left out.

    Returns:
        `records (R)`, step numbers; on 128 sequences that all runs share `losses` and `accuracies (seeds, R)`,
        `cosines (seeds, R, D + 1)` of two tokens before the first block and after each, `squares (seeds, R, D + 1)`,
        mean square of an entry, and `strengths (seeds, R, D, 2)`; on the minibatch of the step
        `gradients (3, seeds, R, D)`, norms of the gradients of queries, keys and values, and
        `effective (3, seeds, R, D)`, one over the root of Adam's mean square, the median over the entries, infinite
        under SGD. Infinite where a run has diverged.
    """
    arm = ARMS[setting][name]
    shape = {"width": width, "depth": depth, "length": length}
    ensemble = ModuleEnsemble(
        [make_encoder(setting, arm, seed, **shape) for seed in seeds], optimizer_of(arm), reversal_loss
    )
    sources = [Run(CHAPTER).generator("sequences", seed=seed) for seed in seeds]
    shown = torch.randint(
        DIGITS, (SHOWN, length), generator=Run(CHAPTER).generator("shown sequences", seed=0)
    )
    assert ensemble.optimizer is not None
    first = [group["lr"] for group in ensemble.optimizer.param_groups]
    records = (torch.linspace(0, 1, RECORDS) ** 2 * steps).round().long().unique().tolist()
    last = steps if stop is None else stop
    records = [k for k in records if k <= last]
    seen: dict[str, list[Tensor]] = {
        each: []
        for each in ("losses", "accuracies", "cosines", "squares", "strengths", "gradients", "effective")
    }

    def look(model: torch.nn.Module, sequence: Tensor) -> tuple[Tensor, ...]:
        scores, layers = model(sequence, with_layers=True)
        loss = cross_entropy(scores.flatten(0, 1), sequence.flip(1).flatten())
        right = (scores.argmax(-1) == sequence.flip(1)).to(loss).mean()
        cosines = torch.stack([token_correlation(X, kind="cosine").mean() for X in layers])
        return loss, right, cosines, layers.square().mean((1, 2, 3))

    for k in range(last + 1):
        if k in records:
            for each, value in zip(
                ("losses", "accuracies", "cosines", "squares"),
                ensemble.evaluate(look, shown, shared=True),
                strict=True,
            ):
                seen[each].append(value)
            held = ensemble.parameters | ensemble.buffers
            seen["strengths"].append(
                torch.stack([held[f"blocks.{j}.strengths"].detach().clone() for j in range(depth)], 1)
            )
        share = k / steps
        decay = 1.0 if share < 0.4 else 0.3 if share < 0.8 else 0.1
        for group, rate in zip(ensemble.optimizer.param_groups, first, strict=True):
            group["lr"] = rate * decay
        batch = torch.stack([torch.randint(DIGITS, (BATCH, length), generator=g) for g in sources])
        ensemble.step(batch)
        if k in records:
            seen["gradients"].append(torch.stack([layer_norms(ensemble, kind, depth) for kind in GROUPS]))
            seen["effective"].append(torch.stack([adam_steps(ensemble, kind, depth) for kind in GROUPS]))
    finite = {
        each: torch.stack(values, 2 if each in ("gradients", "effective") else 1)
        for each, values in seen.items()
    }
    finite = {each: value.nan_to_num(torch.inf, torch.inf) for each, value in finite.items()}
    return {"records": torch.tensor(records), **finite}


def compute(call: Call) -> dict[str, Tensor]:
    """Return what `train` does for all arms of a setting; the arms are the first axis but for `records`."""
    o = call.options
    sizes = {"width": o.width, "depth": o.depth, "length": o.length}
    if o.setting == "deep":
        sizes["depth"] = 3 * o.depth
    if o.setting == "long":
        sizes["length"] = 5 * o.length // 2
    if o.setting == "large":
        sizes = {"width": 2 * o.width, "depth": o.depth + 1, "length": 2 * o.length}
    runs = [
        call.piece(
            f"arm-{number}", lambda arm=name: train(o.setting, arm, call.seeds, steps=o.steps, **sizes)
        )
        for number, name in enumerate(ARMS[o.setting])
    ]
    stacked = {key: torch.stack([run[key] for run in runs]) for key in runs[0] if key != "records"}
    return {"records": runs[0]["records"], **stacked}


EXPERIMENT = Experiment(
    chapter=CHAPTER,
    name=lambda options: (
        f"attention-training-{options.setting}" + (f"-{options.width}-wide" if options.width > 16 else "")
    ),
    compute=compute,
    options=(
        Option("--setting", "which encoders", tuple(ARMS), allowed=tuple(ARMS)),
        Option("--width", "entries of a token", Scaled(4, 16, 16)),
        Option("--depth", "blocks", Scaled(2, 5, 5)),
        Option("--length", "digits of a sequence", Scaled(4, 8, 8)),
        Option("--steps", "steps", Scaled(10, 2600, 10_000)),
    ),
    seeds=Scaled(2, 10, 30),
    each="setting",
    rtol=0.5,  # trained in float32: late losses are chaotic
    resumable=True,
    devices=("cpu",),
    kept=("--setting normalized scaled", "--setting deep long --steps 1000", "--setting large --steps 2000"),
    paper=("--setting deep --width 64 --depth 12",),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute and keep; see `learning_dynamics.experiments.command`."""
    return EXPERIMENT.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
