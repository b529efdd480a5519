"""Figures on pages get a palette, and look as before."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from conftest import ROOT
from PIL import Image

sys.path.insert(0, str(ROOT / "book/_ext"))

from book_pages.lean import LARGEST_CHANGE, shrink  # noqa: E402


def pixels(path: Path) -> np.ndarray:
    with Image.open(path) as found:
        return np.asarray(found.convert("RGBA"), np.int16)


def test_a_figure_gets_smaller_and_hardly_changes(tmp_path: Path) -> None:
    figure, axes = plt.subplots()
    for k in range(6):
        axes.plot(np.sin(np.linspace(0, 9, 200) + k), lw=2)
    path = tmp_path / "a.png"
    figure.savefig(path, dpi=120, facecolor="white")
    plt.close(figure)
    before, size = pixels(path), path.stat().st_size
    assert shrink(path) and shrink(path)
    assert np.abs(pixels(path) - before).max() <= LARGEST_CHANGE and path.stat().st_size < size


def test_a_figure_that_would_suffer_stays(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
    through = np.concatenate([noise, noise[..., :1]], -1)
    for name, picture in (("a.png", noise), ("b.png", through)):
        Image.fromarray(picture).save(tmp_path / name)
        before = (tmp_path / name).read_bytes()
        assert not shrink(tmp_path / name) and (tmp_path / name).read_bytes() == before
