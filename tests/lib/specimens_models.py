"""The specimens of `models`: layers and networks, whose widths are those of their weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from specimens import UNWALKED, generator, number, of, some
from torch import Tensor, nn

from learning_dynamics import models
from learning_dynamics.models import recurrence

Module = TypeVar("Module", bound=nn.Module)
DRAWN = torch.Generator().manual_seed(3)


def ready(module: Module) -> Module:
    """Return a module in float64 and evaluation mode, its parameters drawn from a seed."""
    module = module.double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator(), dtype=torch.float64) / 2)
    return module


# ------------------------------------------------------------------------------------------ attention and networks

of("models.attention_weights", models.attention_weights, X="T m", W_Q="m d", W_K="m d")
of("models.attention", models.attention, X="T m", W_Q="m d", W_K="m d", W_V="m m")
of(
    "models.attention",
    lambda **given: models.attention(**given, uniform=True, centred=True),
    X="T m",
    W_Q="m d",
    W_K="m d",
    W_V="m m",
)
for norm in ("none", "pre", "post"):
    of(
        "models.EncoderBlock.forward",
        models.EncoderBlock(4, norm=norm, generator=generator(), dtype=torch.float64),
        X="n T d!",
    )
ENCODER = models.Encoder(3, 5, 4, 2, generator=generator(), dtype=torch.float64)
for name in ("layers", "forward"):
    of(f"models.Encoder.{name}", getattr(ENCODER, name), sequence=some([0, 2, 1, 1, 0], "T!"))

for frozen in (False, True):
    head = models.GatedHead(4, 3, 2, generator=generator(), dtype=torch.float64)
    if frozen:
        head.freeze_gates()
    for name in ("gates", "forward", "jacobian", "kernel"):
        of(f"models.GatedHead.{name}", getattr(head, name), features="n d!")
    of(
        "models.GatedHead.smoothness_bound",
        lambda features, head=head: head.smoothness_bound(features, 1.0),
        features="n d!",
    )
of("models.MLP.forward", models.MLP([4, 3, 2], generator=generator(), dtype=torch.float64), x="n d!")


def images(channels: int, size: int) -> tuple[Callable[[], Tensor], str]:
    return (
        lambda: torch.randn(2, channels, size, size, generator=generator(), dtype=torch.float64),
        "n channels! height! width!",
    )


of("models.LeNet.forward", ready(models.LeNet()), images=images(1, 16))
of("models.SmallCNN.forward", ready(models.SmallCNN(size=8)), images=images(1, 8))
RESNET = ready(models.PreActivationResNet18(3, 2, 1))
for name in ("features", "forward"):
    of(
        f"models.PreActivationResNet18.{name}",
        getattr(RESNET, name),
        images=(images(2, 8)[0], "n channels! height width"),
    )


# ----------------------------------------------------------------------------------------------------- recurrence

DENSE = ready(recurrence.DenseRecurrence(4, 2, 3, generator=generator()))
UNIT = ready(recurrence.LinearRecurrentUnit(4, 2, generator=generator()))
SPACE = ready(recurrence.DiagonalStateSpace(4, 2, generator=generator()))
STATE = (
    lambda: torch.randn(3, 2, generator=generator(), dtype=torch.complex128),
    "n N!",
)
REAL_STATE = (lambda: torch.randn(3, 2, generator=generator(), dtype=torch.float64), "n N!")
LENGTHS = some([2, 5, 1], "n")
MASK = some([[True, True, False, False, False], [True] * 5, [False, False, True, True, False]], "n T")
LENGTHS_READ = {"u: NaN": "what stands in the padding is never read"}

layers: list[tuple[str, Any, Any]] = [
    ("models.recurrence.DenseRecurrence", DENSE, REAL_STATE),
    ("models.recurrence.DiagonalRecurrence", UNIT, STATE),
    ("models.recurrence.DiagonalRecurrence", SPACE, STATE),
]
for owner, layer, state in layers:
    of(f"{owner}.states", layer.states, u="n T d!", state=state)
    of(f"{owner}.step", layer.step, u="n d!", x=state)
    for name in ("forward", "advance"):
        of(f"{owner}.{name}", getattr(layer, name), u="n T d!", state=state)
        of(f"{owner}.{name}", getattr(layer, name), u="n T d!", lengths=LENGTHS)
        of(f"{owner}.{name}", getattr(layer, name), u="n T d!", mask=MASK)
    if owner.endswith("DiagonalRecurrence"):
        of(f"{owner}.driven", layer.driven, u="n d!")

ALSO_COMPLEX = {"complex": "complex numbers are as good here, and give other values than their real parts"}
of(
    "models.recurrence.linear_recurrence",
    recurrence.linear_recurrence,
    eigenvalues=(torch.tensor([[0.5 + 0.25j, -0.25j]], dtype=torch.complex128).expand(2, 2), "*runs N"),
    inputs=(lambda: torch.randn(2, 5, 2, generator=generator(), dtype=torch.complex128), "*runs T N"),
    start=(lambda: torch.randn(2, 2, generator=generator(), dtype=torch.complex128), "*runs N"),
)
of(
    "models.recurrence.linear_recurrence",
    recurrence.linear_recurrence,
    ALSO_COMPLEX,
    eigenvalues=some([0.5, -0.25], "N"),
    inputs=some([[1.0, 2.0], [0.0, 1.0], [2.0, 1.0]], "T N"),
)
of(
    "models.recurrence.powers_of",
    lambda eigenvalues: recurrence.powers_of(eigenvalues, 3),
    ALSO_COMPLEX,
    eigenvalues=some([0.5, -0.25], "N"),
)
of(
    "models.recurrence.input_normalizer",
    recurrence.input_normalizer,
    ALSO_COMPLEX,
    eigenvalues=some([0.5, 0.25], "N"),
)
for method in ("zoh", "bilinear", "euler"):
    of(
        "models.recurrence.discretize",
        lambda method=method, **given: recurrence.discretize(**given, method=method),
        {"rates: complex": ALSO_COMPLEX["complex"]},
        rates=some([-0.5, -1.0], "N"),
        step=number(0.5),
    )
of(
    "models.recurrence.discretize",
    recurrence.discretize,
    rates=(torch.tensor([-0.5 + 1j, -1 + 2j], dtype=torch.complex128), "*N"),
    step=some([0.5, 1.0], "*N"),
)

BLOCK = ready(recurrence.RecurrentBlock(UNIT, 4))
of("models.recurrence.RecurrentBlock.forward", BLOCK, h="n T d!")
of("models.recurrence.RecurrentBlock.padded", lambda h: BLOCK.padded(h, None), h="n T d!")
of("models.recurrence.RecurrentBlock.advance", BLOCK.advance, h="n T d!", state=STATE)
of("models.recurrence.RecurrentBlock.step", BLOCK.step, h="n d!", x=STATE)


def sequence_model(pooling: str = "mean", *, tokens: bool = False) -> recurrence.SequenceModel:
    make = lambda: recurrence.LinearRecurrentUnit(4, 2, generator=generator())  # noqa: E731
    return ready(recurrence.SequenceModel(4, 4, 3, 2, make, tokens=tokens, pooling=pooling))


TOKENS = some([[0, 3, 1, 1, 2], [1, 1, 0, 2, 3], [3, 0, 0, 1, 2]], "n T")
for pooling in ("mean", "last", "none"):
    reals, embedded = sequence_model(pooling), sequence_model(pooling, tokens=True)
    for name in ("forward", "advance"):
        owner = f"models.recurrence.SequenceModel.{name}"
        of(owner, getattr(reals, name), u="n T d!", lengths=LENGTHS)
        of(owner, getattr(reals, name), u="n T d!", mask=MASK)
        of(owner, getattr(reals, name), u="n T d!")
        of(owner, getattr(embedded, name), u=TOKENS, lengths=LENGTHS)
        of(owner, getattr(embedded, name), u=TOKENS)
    of(
        "models.recurrence.SequenceModel.step",
        lambda u, reals=reals: reals.step(u, reals.start(*u.shape[:-1])),
        u="n d!",
    )
    of(
        "models.recurrence.SequenceModel.step",
        lambda u, embedded=embedded: embedded.step(u, embedded.start(*u.shape)),
        u=some([0, 3, 1], "n"),
    )

MADE_INSIDE = (
    "the layers make it by `padding`, which checks lengths and mask, and hand it their own sequences"
)
UNWALKED["models.recurrence.padding.Padding"] = MADE_INSIDE
for name in ("gathered", "cleared", "scattered", "last"):
    UNWALKED[f"models.recurrence.padding.Padding.{name}"] = MADE_INSIDE

# ---------------------------------------------------------------------------------------------- what a state holds

MODES = some([0.5, -0.25], "N")
for real in (False, True):
    of(
        "models.recurrence.memory_matrix",
        lambda eigenvalues, real=real: recurrence.memory_matrix(eigenvalues, 3, real=real),
        ALSO_COMPLEX,
        eigenvalues=MODES,
    )
of(
    "models.recurrence.reconstruct",
    lambda states, eigenvalues: recurrence.reconstruct(states, eigenvalues, 2),
    ALSO_COMPLEX,
    states=some([[1.0, 2.0], [0.0, 1.0]], "runs N"),
    eigenvalues=MODES,
)
of(
    "models.recurrence.slots",
    lambda eigenvalues: recurrence.slots(eigenvalues, 3, 0.01),
    ALSO_COMPLEX,
    eigenvalues=MODES,
)
of(
    "models.recurrence.input_count",
    lambda clock_state: recurrence.input_count(clock_state, 0.5),
    clock_state=some([1.0, 1.5, 1.75], "n"),
)
