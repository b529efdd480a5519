"""Data sets by name, each with its origin: `data.load("mnist-10k")`.

`libsvm`, `semeion` and `ts` read files in the formats of these names; `listops` makes nested operations on lists.
"""

from learning_dynamics.data import libsvm, listops, semeion, ts
from learning_dynamics.data.dataset import Dataset
from learning_dynamics.data.download import DataError, RemoteFile, fetch
from learning_dynamics.data.loading import load

__all__ = [
    "DataError",
    "Dataset",
    "RemoteFile",
    "fetch",
    "libsvm",
    "listops",
    "load",
    "semeion",
    "ts",
]
