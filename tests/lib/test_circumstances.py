"""Nothing depends on the circumstances: every public name that takes tensors, called where a user may call it.

The specimens are those of `test_bad_arguments.py`. The result must be the same to rounding when tensors lie otherwise
in memory, want a gradient, or were made or used in inference mode; under another default dtype, under autocast; and
a call may neither write into its arguments nor draw from the global generator.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest
import specimens_experiments  # noqa: F401  # adds its specimens
import specimens_models  # noqa: F401  # likewise
import torch
from specimens import SPECIMENS, Specimen
from test_bad_arguments import WORK, leaves, same
from torch import Tensor

Tensors = dict[str, Tensor]


def scattered(tensor: Tensor) -> Tensor:
    """Return the same numbers, not next to each other in memory."""
    return torch.stack([tensor, tensor], -1)[..., 0]


def wanting(tensor: Tensor) -> Tensor:
    return tensor.requires_grad_() if tensor.is_floating_point() or tensor.is_complex() else tensor


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def autocast() -> contextlib.AbstractContextManager:
    return torch.autocast("cpu", dtype=torch.bfloat16)


CIRCUMSTANCES: dict[
    str, tuple[Callable[[Tensor], Tensor], Callable[[], contextlib.AbstractContextManager]]
] = {
    "scattered in memory": (scattered, contextlib.nullcontext),
    "wanting a gradient": (wanting, contextlib.nullcontext),
    "no_grad": (lambda tensor: tensor, torch.no_grad),
    "default dtype float64": (lambda tensor: tensor, lambda: default_dtype(torch.float64)),
    "default dtype bfloat16": (lambda tensor: tensor, lambda: default_dtype(torch.bfloat16)),
    "autocast": (lambda tensor: tensor, autocast),
}
EXEMPT = {
    "experiments.fisher_and_ggn.natural_training.score": {"default dtype"},  # its targets are the default's
}
MODELS = {"models", "curvature", "optimizers", "ensembles"}  # whose specimens make their layers in the call


@pytest.mark.parametrize("specimen", SPECIMENS, ids=str)
def test_the_circumstances_change_nothing(specimen: Specimen) -> None:
    expected = [*leaves(specimen.call(**specimen.make()))]
    for name, (change, around) in CIRCUMSTANCES.items():
        if any(name.startswith(exempt) for exempt in EXEMPT.get(specimen.name, ())):
            continue
        tensors = {key: change(tensor) for key, tensor in specimen.make().items()}
        with around():
            result = specimen.call(**tensors)
        found = [*leaves(result)]
        assert len(found) == len(expected), name
        for (place, one), (_, other) in zip(found, expected, strict=True):
            assert place in WORK or (one.dtype == other.dtype and same(one, other)), (name, place)


@pytest.mark.parametrize("specimen", SPECIMENS, ids=str)
def test_arguments_and_the_global_generator_stay_as_they_are(specimen: Specimen) -> None:
    tensors, before = specimen.make(), specimen.make()
    torch.manual_seed(0)
    state = torch.get_rng_state()
    specimen.call(**tensors)
    for name, tensor in tensors.items():
        assert same(tensor, before[name]), name
    if specimen.name.partition(".")[0] not in MODELS and "column_space" not in specimen.name:
        assert torch.equal(torch.get_rng_state(), state)
