"""What a figure shows, as a record that a later run can be held against: the words, and a digest of every artist.

A digest stands for the numbers behind one artist: how many there are, how many are missing, the sum of their absolute
values, and two weighted sums. The weights oscillate, so that a number that changes, moves or is left out changes a sum;
rounding changes it by less than `tools/compare.py` allows.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import Collection, QuadMesh
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Annotation, Text

MOST = 24  # artists of one kind in one axes that have a digest each; of more there is one digest for all
DIGITS = 9


def drawing(figure: Figure) -> dict[str, Any]:
    """Return what a figure shows: for each of its axes the words and the digests of the artists.

    Args:
        figure: a figure that was drawn.

    Returns:
        `processor`, a name for the processor and the libraries that made the numbers, and `axes`, a list with `words`
        (a list of strings) and `artists` (a list of `kind | look | digest`, see `digest`).
    """
    return {"processor": processor(), "axes": [_axes(axes) for axes in _all_axes(figure)]}


def processor() -> str:
    """Return a short name for what the last bits of a number depend on: processor, kernels, threads, libraries."""
    names = [platform.machine(), torch.backends.cpu.get_cpu_capability(), str(torch.get_num_threads())]
    names += [torch.__version__, np.__version__]
    if (info := Path("/proc/cpuinfo")).exists():
        names += [
            line for line in info.read_text(errors="replace").splitlines() if line.startswith("model name")
        ][:1]
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:8]


def digest(values: np.ndarray) -> str:
    """Return `count holes size sum sum`: numbers, how many of them are not finite, sum of absolute values, two sums.

    Args:
        values: numbers of any shape; they are taken in their order.
    """
    flat = np.asarray(values, dtype=np.float64).ravel()
    finite = np.isfinite(flat)
    kept, place = flat[finite], np.flatnonzero(finite) + 1.0
    sums = (np.abs(kept).sum(), (kept * np.cos(place)).sum(), (kept * np.cos(np.sqrt(2) * place)).sum())
    return " ".join([str(flat.size), str(flat.size - kept.size), *(f"{each:.{DIGITS}g}" for each in sums)])


def _all_axes(figure: Figure) -> Iterator[Axes]:
    for axes in figure.axes:
        yield axes
        yield from cast("list[Axes]", axes.child_axes)


def _axes(axes: Axes) -> dict[str, Any]:
    words = [axes.get_title(), axes.get_xlabel(), axes.get_ylabel(), axes.get_xscale(), axes.get_yscale()]
    found: dict[str, list[np.ndarray]] = {
        "view": [_on_scale(axes, np.stack([axes.get_xlim(), axes.get_ylim()], -1))]
    }
    own = {*axes.spines.values(), axes.patch, axes.xaxis, axes.yaxis, axes.title}
    for artist in axes.get_children():
        if artist in own or not artist.get_visible() or isinstance(artist, Axes):
            continue
        if isinstance(artist, Legend):
            words += [text.get_text() for text in artist.get_texts()]
        elif isinstance(artist, Text):
            if not artist.get_text():
                continue
            words.append(artist.get_text())
            places = [artist.get_position(), *([artist.xy] if isinstance(artist, Annotation) else [])]
            found.setdefault("text", []).append(np.array(places, dtype=object).astype(np.float64))
        else:
            name, values = _numbers(axes, artist)
            found.setdefault(name, []).append(values)
    artists = []
    for name, several in found.items():
        if len(several) > MOST:
            several = [np.concatenate([values.ravel() for values in several])]
        artists += [f"{name} | {digest(values)}" for values in several]
    return {"words": [word for word in words if word], "artists": artists}


def _numbers(axes: Axes, artist: Artist) -> tuple[str, np.ndarray]:
    """Return an artist's kind and look, and the numbers that it shows, on the scale of its axes."""
    if isinstance(artist, Line2D):
        points = np.asarray(artist.get_xydata(), dtype=np.float64)
        look = f"line {to_hex(artist.get_color())} {artist.get_linestyle()} {artist.get_marker()}"
        return look, _on_scale(axes, points) if artist.get_transform() == axes.transData else points
    if isinstance(artist, AxesImage):
        pixels = np.ma.filled(np.ma.asarray(artist.get_array(), dtype=np.float64), np.nan)
        return "image", np.concatenate(
            [pixels.ravel(), artist.get_extent(), artist.get_clim()], dtype=np.float64
        )
    if isinstance(artist, Collection):
        parts = [
            _on_scale(axes, np.asarray(path.vertices, dtype=np.float64))
            for path in artist.get_paths()[: 4 * MOST]
        ]
        if isinstance(artist, QuadMesh):
            parts = [_on_scale(axes, np.asarray(cast(Any, artist.get_coordinates())))]
        elif np.size(artist.get_offsets()) and artist.get_offset_transform() == axes.transData:
            parts.append(_on_scale(axes, np.ma.filled(np.ma.asarray(artist.get_offsets(), float), np.nan)))
        colours = artist.get_facecolor() if np.size(artist.get_facecolor()) else artist.get_edgecolor()
        look = ""
        if artist.get_array() is not None:
            parts += [
                np.ma.filled(np.ma.asarray(artist.get_array(), float), np.nan),
                np.array(artist.get_clim()),
            ]
        elif len(colours) == 1:
            look = f" {to_hex(colours[0])}"
        else:
            parts.append(np.asarray(colours))
        for name in ("U", "V"):  # arrows
            parts.append(np.ma.filled(np.ma.asarray(getattr(artist, name, []), float), np.nan))
        return f"{type(artist).__name__}{look}", np.concatenate([np.ravel(part) for part in parts])
    if isinstance(artist, Patch):
        points = artist.get_patch_transform().transform(
            np.asarray(artist.get_path().vertices, dtype=np.float64)
        )
        return f"{type(artist).__name__} {to_hex(artist.get_facecolor())}", _on_scale(axes, points)
    return type(artist).__name__, np.zeros(0)


def _on_scale(axes: Axes, points: np.ndarray) -> np.ndarray:
    """Return points `(n, 2)` as the axes scale them, so that a small value on a log axis counts as a large one does."""
    with np.errstate(all="ignore"):
        return axes.transScale.transform(np.asarray(points, dtype=np.float64).reshape(-1, 2))
