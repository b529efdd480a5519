"""The public data sets that `paper` may download: one table of files, checksums and licences.

The checksums of MNIST, Fashion-MNIST, KMNIST and CIFAR-10 are those that TensorFlow Datasets publishes; those of the
LIBSVM files were taken from copies of them. A server that gives anything else is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from learning_dynamics.data import cifar, idx, libsvm
from learning_dynamics.data.download import RemoteFile

Arrays = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class PublicSet:
    """A downloadable set.

    Attributes:
        files: what it consists of.
        read: from the files' local paths to inputs (n, ...), uint8 for pixels, and labels (n,).
        source: where it comes from.
        licence: under what it may be used.
    """

    files: tuple[RemoteFile, ...]
    read: Callable[[Sequence[Path]], Arrays]
    source: str
    licence: str


def _read_idx(paths: Sequence[Path]) -> Arrays:
    return idx.read(paths[0]), idx.read(paths[1])


def _read_cifar(paths: Sequence[Path], *, batches: Sequence[str]) -> Arrays:
    return cifar.read(paths[0], [f"cifar-10-batches-bin/{batch}.bin" for batch in batches])


def _read_libsvm(paths: Sequence[Path], *, features: int) -> Arrays:
    return libsvm.read(paths[0], features)


def _file(folder: str, name: str, servers: Sequence[str], size: int, sha256: str) -> RemoteFile:
    return RemoteFile(f"{folder}/{name}", tuple(server + name for server in servers), sha256, size)


def _idx_sets(
    name: str, servers: Sequence[str], source: str, licence: str, known: dict[str, tuple[int, str]]
) -> dict[str, PublicSet]:
    """Return training and test set of a relative of MNIST from the (size, SHA-256) of its four files."""
    files = {key: _file(name, f"{key}-ubyte.gz", servers, *value) for key, value in known.items()}
    return {
        set_name: PublicSet(
            (files[f"{key}-images-idx3"], files[f"{key}-labels-idx1"]), _read_idx, source, licence
        )
        for set_name, key in ((name, "train"), (f"{name}-test", "t10k"))
    }


_CIFAR = (
    _file(
        "cifar-10",
        "cifar-10-binary.tar.gz",
        ["https://www.cs.toronto.edu/~kriz/"],
        170052171,
        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    ),
)
_CIFAR_ORIGIN = (
    "A. Krizhevsky, Learning multiple layers of features from tiny images, 2009",
    "none stated; cite it",
)
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"

PUBLIC: dict[str, PublicSet] = {
    **_idx_sets(
        "mnist",
        [
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ],
        "Y. LeCun, C. Cortes, C. Burges, The MNIST database of handwritten digits",
        "CC BY-SA 3.0",
        {
            "train-images-idx3": (
                9912422,
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            "train-labels-idx1": (28881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
            "t10k-images-idx3": (1648877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
            "t10k-labels-idx1": (4542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
        },
    ),
    **_idx_sets(
        "fashion-mnist",
        [
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
        ],
        "H. Xiao, K. Rasul, R. Vollgraf, Fashion-MNIST, 2017",
        "MIT",
        {
            "train-images-idx3": (
                26421880,
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            ),
            "train-labels-idx1": (29515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
            "t10k-images-idx3": (4422102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
            "t10k-labels-idx1": (5148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
        },
    ),
    **_idx_sets(
        "kmnist",
        ["https://codh.rois.ac.jp/kmnist/dataset/kmnist/"],
        "T. Clanuwat and others, Deep learning for classical Japanese literature, 2018",
        "CC BY-SA 4.0",
        {
            "train-images-idx3": (
                18165135,
                "51467d22d8cc72929e2a028a0428f2086b092bb31cfb79c69cc0a90ce135fde4",
            ),
            "train-labels-idx1": (29497, "e38f9ebcd0f3ebcdec7fc8eabdcdaef93bb0df8ea12bee65224341c8183d8e17"),
            "t10k-images-idx3": (3041136, "edd7a857845ad6bb1d0ba43fe7e794d164fe2dce499a1694695a792adfac43c5"),
            "t10k-labels-idx1": (5120, "20bb9a0ef54c7db3efc55a92eef5582c109615df22683c380526788f98e42a1c"),
        },
    ),
    "cifar-10": PublicSet(
        _CIFAR, partial(_read_cifar, batches=[f"data_batch_{i}" for i in range(1, 6)]), *_CIFAR_ORIGIN
    ),
    "cifar-10-test": PublicSet(_CIFAR, partial(_read_cifar, batches=["test_batch"]), *_CIFAR_ORIGIN),
    "a1a": PublicSet(
        (
            _file(
                "libsvm",
                "a1a",
                [_LIBSVM],
                114818,
                "eb54c45f1bdb51286f803dd092eb8202b44637a858fc6c4e533a2d64a0d94b4e",
            ),
        ),
        partial(_read_libsvm, features=123),
        "LIBSVM's a1a, from UCI Adult (B. Becker, R. Kohavi)",
        "CC BY 4.0",
    ),
    "breast-cancer-original": PublicSet(
        (
            _file(
                "libsvm",
                "breast-cancer_scale",
                [_LIBSVM],
                59986,
                "3c90cd8f884810a0ff2eaf2cc7aabf09073f33c2dfcf113d826a13ca60b257ad",
            ),
        ),
        partial(_read_libsvm, features=10),
        "LIBSVM's breast-cancer, scaled, from UCI Breast Cancer Wisconsin (Original) (W. Wolberg)",
        "CC BY 4.0",
    ),
}
