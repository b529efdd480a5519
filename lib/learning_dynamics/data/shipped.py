"""The data sets that come with the library or with scikit-learn, the same everywhere."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from sklearn import datasets

Arrays = tuple[np.ndarray, np.ndarray]

MNIST_10K = Path(__file__).with_name("mnist_10k.npz")
MNIST_10K_SHA256 = "f47db3aeba030ce5470a04fa9ff60e4e54e4400cb26145608c3213af074a649c"


@dataclass(frozen=True)
class ShippedSet:
    """A set that needs no network: how to read it, where it comes from, and whether its targets are classes."""

    read: Callable[[], Arrays]
    source: str
    licence: str
    classification: bool = True


@cache
def read_mnist_10k() -> Arrays:
    """Return images (10000, 28, 28) and labels (10000,), uint8, read-only; the file is verified once per process.

    Raises:
        ValueError: the file is not the one that belongs to this version of the library.
    """
    content = MNIST_10K.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != MNIST_10K_SHA256:
        raise ValueError(f"SHA-256 of {MNIST_10K.name} = {digest}; allowed: {MNIST_10K_SHA256}")
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        images, labels = arrays["images"], arrays["labels"]
    for kept in (images, labels):
        kept.setflags(write=False)  # the next call returns them again
    return images, labels


def _read_digits() -> Arrays:
    digits = datasets.load_digits()
    return digits.images / 16, digits.target


SHIPPED: dict[str, ShippedSet] = {
    "mnist-10k": ShippedSet(
        read_mnist_10k,
        "MNIST (Y. LeCun, C. Cortes, C. Burges), first 10,000 training images, classes interleaved",
        "CC BY-SA 3.0",
    ),
    "digits": ShippedSet(
        _read_digits, "scikit-learn, from UCI Optical Recognition of Handwritten Digits", "CC BY 4.0"
    ),
    "breast-cancer": ShippedSet(
        partial(datasets.load_breast_cancer, return_X_y=True),
        "scikit-learn, from UCI Breast Cancer Wisconsin (Diagnostic)",
        "CC BY 4.0",
    ),
    "diabetes": ShippedSet(
        partial(datasets.load_diabetes, return_X_y=True),
        "scikit-learn, from B. Efron and others, Least angle regression, 2004",
        "none stated; BSD 3-Clause as part of scikit-learn",
        classification=False,
    ),
    "wine": ShippedSet(
        partial(datasets.load_wine, return_X_y=True), "scikit-learn, from UCI Wine", "CC BY 4.0"
    ),
}
