"""Loading a data set by name."""

from __future__ import annotations

import numpy as np
import torch

from learning_dynamics._internal.arguments import require_choice
from learning_dynamics.data.dataset import Dataset
from learning_dynamics.data.download import fetch
from learning_dynamics.data.public import PUBLIC, PublicSet
from learning_dynamics.data.shipped import SHIPPED, ShippedSet
from learning_dynamics.runs import SCALES


def load(
    name: str,
    scale: str = "book",
    *,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> Dataset:
    """Return a data set.

    At smoke and book only what ships with the library is to be had: mnist-10k, digits (pixels in [0, 1]),
    breast-cancer, diabetes and wine (features as scikit-learn gives them). At paper the public sets come in as well,
    downloaded once, verified and cached: mnist, fashion-mnist, kmnist and cifar-10, each with its `-test`; a1a and
    breast-cancer-original. There is no silent substitute.

    Args:
        name: one of the names above.
        scale: "smoke", "book" or "paper".
        dtype: floating point type of the inputs.
        device: where the tensors go.

    Raises:
        ValueError: the name is not known at this scale, or an argument is not allowed.
        DataError: a public set can be neither found in the cache nor downloaded.
    """
    require_choice("scale", scale, SCALES)
    if not dtype.is_floating_point:
        raise ValueError(f"dtype = {dtype}; allowed: a floating point type")
    if name in SHIPPED:
        known: ShippedSet | PublicSet = SHIPPED[name]
        features, answers = SHIPPED[name].read()
        classification = SHIPPED[name].classification
    elif name in PUBLIC and scale == "paper":
        known = PUBLIC[name]
        features, answers = PUBLIC[name].read([fetch(name, file) for file in PUBLIC[name].files])
        classification = True
    else:
        allowed = ", ".join([*SHIPPED, *PUBLIC] if scale == "paper" else SHIPPED)
        hint = " (this set needs scale='paper')" if name in PUBLIC else ""
        raise ValueError(f"name = {name!r}{hint}; allowed at scale {scale!r}: one of {allowed}")
    if len(features) != len(answers):
        raise ValueError(
            f"targets of {name} = {len(answers)} entries; allowed: {len(features)}, one an input"
        )
    classes = None
    if classification:
        labels, answers = np.unique(answers, return_inverse=True)
        classes = len(labels)
    inputs = torch.tensor(features).to(device=device, dtype=dtype)
    return Dataset(
        inputs=inputs / 255 if features.dtype == np.uint8 else inputs,
        targets=torch.tensor(answers).to(device=device, dtype=torch.int64 if classification else dtype),
        name=name,
        source=known.source,
        licence=known.licence,
        classes=classes,
    )
