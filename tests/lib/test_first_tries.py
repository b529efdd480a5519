"""What a user tries first: the examples of the README and of the docstrings, rooms by their names, likely mistakes."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import learning_dynamics as ld
from learning_dynamics import (
    curvature,
    diffusions,
    ensembles,
    models,
    optimizers,
    rules,
)

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "book/how_to_run.md")
PARAMETERS = "SCALE ="
"""What the cell of a chapter's parameters begins with, which how_to_run.md shows."""


def make_model(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def given() -> dict[str, Any]:
    """What the text around an example takes for granted: a model, data and a generator."""
    generator = torch.Generator().manual_seed(0)
    inputs, targets = torch.randn(12, 4, generator=generator), torch.randint(3, (12,), generator=generator)
    batches = [(inputs[:6], targets[:6]), (inputs[6:], targets[6:])]
    X, y = inputs.expand(2, -1, -1), targets.expand(2, -1)
    return {
        **{name: getattr(ld, name) for name in ld.__all__ if name not in ("colab", "experiments")},
        **{name: getattr(optimizers, name) for name in optimizers.__all__},
        **{name: getattr(ensembles, name) for name in ensembles.__all__},
        **{
            "torch": torch,
            "cross_entropy": cross_entropy,
            "itertools": __import__("itertools"),
            "model": make_model(),
        },
        **{
            "make": make_model,
            "models": [make_model(seed) for seed in range(2)],
            "criterion": nn.CrossEntropyLoss(),
        },
        **{"rates": torch.tensor([0.1, 0.2]), "loss": lambda model, x, y: cross_entropy(model(x), y)},
        **{"evaluate": lambda model: None, "generator": generator, "inputs": inputs, "targets": targets},
        **{"batches": batches, "loader": batches, "X": X, "y": y},
    }


def written() -> Iterator[tuple[str, str]]:
    """The examples of the pages and of the docstrings, with the place where each stands."""
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)):
            if not block.startswith(PARAMETERS):
                yield f"{page}-{number}", block
    for path in sorted((ROOT / "lib/learning_dynamics").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                lines = re.findall(r"^ *(?:>>>|\.\.\.) ?(.*)$", ast.get_docstring(node) or "", re.MULTILINE)
                if lines:
                    yield f"{path.stem}-{node.name}", "\n".join(lines)


EXAMPLES = dict(written())


def test_the_examples_are_found() -> None:
    assert {"README.md-0", "README.md-1", "README.md-2", "modules-ModuleEnsemble", "anti_pgd-AntiPGD"} <= set(
        EXAMPLES
    )


@pytest.mark.parametrize("place", EXAMPLES)
def test_an_example_runs_as_it_is_printed(place: str) -> None:
    names = given()
    if place.startswith(PAGES):
        names = {
            name: value for name, value in names.items() if not hasattr(ld, name)
        }  # a page imports its rooms
    exec(compile(textwrap.dedent(EXAMPLES[place]), place, "exec"), names)


@pytest.mark.parametrize("room", ld.__all__)
def test_what_a_room_lists_is_there(room: str) -> None:
    found = getattr(ld, room)
    assert [name for name in getattr(found, "__all__", []) if not hasattr(found, name)] == []


def test_modules_of_a_room_are_reached_by_dots() -> None:
    assert (
        ld.noise.shaking.shaken and ld.models.recurrence.linear_recurrence and ld.parameterization.mdp.chain
    )


x, y = torch.ones(6, 4), torch.zeros(6, dtype=torch.int64)


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (
            lambda: curvature.Hessian(make_model(), nn.CrossEntropyLoss, x, y),
            "law = the class CrossEntropyLoss; allowed: CrossEntropyLoss()",
        ),
        (
            lambda: curvature.Hessian(make_model(), curvature.Categorical, x, y),
            "law = the class Categorical; allowed: Categorical()",
        ),
        (
            lambda: curvature.Hessian(make_model(), nn.CrossEntropyLoss(), x, y) @ [1.0],
            "v is a list; allowed: a tensor (43,) or (43, k)",
        ),
        (
            lambda: ensembles.ModuleEnsemble(make_model(), rules.Adam(), lambda m, x: m(x).sum()),
            "models is a Sequential; allowed: a sequence of modules",
        ),
        (
            lambda: ensembles.ModuleEnsemble([make_model()], torch.optim.Adam, lambda m, x: m(x).sum()),
            "update is the torch optimizer Adam; allowed: a rule, or a function that makes an optimizer",
        ),
        (
            lambda: ensembles.ModuleEnsemble(
                [make_model()], torch.optim.SGD(make_model().parameters()), lambda m, x: m(x).sum()
            ),
            "update is the torch optimizer SGD; allowed: a rule, or a function that makes an optimizer",
        ),
        (
            lambda: optimizers.DampedGaussNewton(make_model().parameters()),
            "model is a generator; allowed: a torch.nn.Module",
        ),
        (
            lambda: models.recurrence.SequenceModel(1, 4, 2, 2, models.recurrence.LinearRecurrentUnit(4, 3)),
            "recurrence is a LinearRecurrentUnit; allowed: a function that makes a layer",
        ),
        (
            lambda: diffusions.OrnsteinUhlenbeck(torch.eye(2), torch.eye(2)).sample(torch.zeros(2), [1.0], 0),
            "generator is a int; allowed: a torch.Generator",
        ),
    ],
)
def test_a_likely_mistake_is_named(attempt: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        attempt()
