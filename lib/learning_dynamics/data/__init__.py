"""Data sets by name, each with its origin: `data.load("mnist-10k")`."""

from learning_dynamics.data.dataset import Dataset
from learning_dynamics.data.download import DataError, RemoteFile, fetch
from learning_dynamics.data.loading import load

__all__ = [
    "DataError",
    "Dataset",
    "RemoteFile",
    "fetch",
    "load",
]
