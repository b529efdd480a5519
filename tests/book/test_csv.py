"""The numbers offered below a figure are the numbers that the figure shows.

A notebook keeps a digest of every artist of a figure, and the columns of the CSV. A digest is made of the columns, as
the axes scale them, and looked for among the digests of the figure's lines, points, maps and images: then the CSV holds
what was drawn.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from matplotlib.markers import MarkerStyle

from chapter import ROOT
from learning_dynamics._internal.drawing import digest
from learning_dynamics.figures import MARKERS
from learning_dynamics.ledger import read

CHAPTERS = read.chapters(ROOT)
SCALES = ("linear", "log", "symlog", "logit")
ROUNDED = 3e-6  # six significant digits are kept
PERCENT = 100.0
MOST_PARTS = 12
ASIDE = 0.2  # the points of one group of a strip stand so far to its left and right
LIMITS = ((0.0, 1.0), (0.0, 12.0), (0.0, 60.0))  # of the colours, in the book's maps


def tables(chapter: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield a chapter's CSVs, each with the record of the figure of its name, or else of the last one before it."""
    figures: dict[str, dict[str, Any]] = {}
    last: dict[str, Any] = {}
    for cell in json.loads(read.notebook_path(ROOT, chapter).read_text(encoding="utf-8"))["cells"]:
        name = cell["metadata"].get("mystnb", {}).get("figure", {}).get("name")
        for output in cell.get("outputs", []):
            drawn = output.get("metadata", {}).get("image/png", {}).get(read.DRAWING_KEY)
            if drawn:
                last = figures[name] = drawn
            table = output.get("metadata", {}).get(read.NUMBERS_KEY)
            if table and set(table["columns"]) != {"row", "here"}:
                yield table, figures.get(table["name"], last)


def same(one: str, other: str) -> bool:
    """Return whether two digests are of the same numbers, up to the digits that a CSV keeps."""
    (count, holes, *sums), (count_too, holes_too, *sums_too) = one.split(), other.split()
    size = max(float(sums[0]), float(sums_too[0]))
    pairs = zip(sums, sums_too, strict=True)
    return (count, holes) == (count_too, holes_too) and all(
        abs(float(a) - float(b)) <= ROUNDED * size for a, b in pairs
    )


def scaled(values: np.ndarray, scale: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.log10(values) if scale == "log" else values


def parts_of(columns: dict[str, np.ndarray], rows: int) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Yield ways to share the rows among artists, each with the column that tells the artists apart.

    All rows in one artist; those with equal numbers in a column; or one artist a row.
    """
    yield "", [np.arange(rows)]
    if rows <= MOST_PARTS:
        counted = (np.arange(rows), np.arange(1, rows + 1))
        number = [name for name, values in columns.items() if any(np.array_equal(values, c) for c in counted)]
        yield (number or [""])[0], [np.array([row]) for row in range(rows)]
    for name, values in columns.items():
        groups = [np.flatnonzero(values == value) for value in np.unique(values[np.isfinite(values)])]
        if 1 < len(groups) <= MOST_PARTS and sum(map(len, groups)) == rows and min(map(len, groups)) > 1:
            yield name, groups


def outline(marker: str) -> np.ndarray:
    style = MarkerStyle(marker)
    return np.asarray(style.get_path().transformed(style.get_transform()).vertices)


def seen(points: np.ndarray, lines: list[str], clouds: list[str], outlines: list[np.ndarray]) -> bool:
    """Return whether the points, or those of them that are finite, are a line or a cloud of points of the figure."""
    for shown in (points, points[np.isfinite(points).all(1)]):
        if not len(shown):
            continue
        if any(same(line, each) for line in [digest(shown)] for each in lines):
            return True
        marks = [digest(np.concatenate([outline, shown])) for outline in outlines if clouds]
        if any(same(mark, each) for mark in marks for each in clouds):
            return True
    return False


def edges(places: np.ndarray) -> np.ndarray:
    """Return the edges of the cells of a map whose centres are given."""
    half = np.diff(places) / 2
    return np.concatenate([places[:1] - half[:1], places[:-1] + half, places[-1:] + half[-1:]])


def mapped_columns(columns: dict[str, np.ndarray], artists: list[list[str]]) -> set[str]:
    """Return the columns that are the colours of a square image, or the places and colours of a map's cells."""
    images = [numbers for kind, numbers in artists if kind == "image"]
    meshes = [numbers for kind, numbers in artists if kind == "QuadMesh"]
    rows = len(next(iter(columns.values())))
    side = math.isqrt(rows)
    shapes: list[tuple[list[str], list[str], np.ndarray, np.ndarray, bool]] = []
    if images and side**2 == rows:
        counted = [name for name, values in columns.items() if np.array_equal(values, np.arange(rows))]
        extent = np.array([-0.5, side - 0.5, side - 0.5, -0.5])
        shapes.append((counted, images, np.arange(rows), extent, False))
    for x, y in itertools.permutations(columns, 2) if meshes else ():
        across, upwards = np.unique(columns[x]), np.unique(columns[y])
        if min(len(across), len(upwards)) > 1 and len(across) * len(upwards) == rows:
            corners = np.stack(np.meshgrid(edges(across), edges(upwards)), -1).ravel()
            shapes.append(([x, y], meshes, np.lexsort((columns[x], columns[y])), corners, True))
    found: set[str] = set()
    for places, shown, order, rest, first in shapes:
        for name in columns.keys() - set(places):
            for limits in LIMITS:
                values = columns[name][order]
                numbers = digest(np.concatenate([*((rest, values) if first else (values, rest)), limits]))
                if any(same(numbers, each) for each in shown):
                    found |= {name, *places}
    return found


def drawn_columns(table: dict[str, Any], figure: dict[str, Any]) -> set[str]:
    """Return the columns that the figure shows: places of lines or points, quotients of two, or a map's colours."""
    columns = {
        name: np.array([float(value) for value in values]) for name, values in table["columns"].items()
    }
    rows = len(next(iter(columns.values())))
    abscissas = columns | {"": np.arange(rows, dtype=float), " ": np.arange(1.0, rows + 1)}
    shares = list(parts_of(columns, rows))
    strips = {f"strip {i}": i + np.linspace(-ASIDE, ASIDE, rows) for i in range(len(columns))}
    found: set[str] = set()
    for axes in figure.get("axes", []):
        words = axes["words"]
        pair = next((each for each in zip(words, words[1:], strict=False) if set(each) <= set(SCALES)), None)
        if pair is None:
            continue
        artists = [text.rsplit(" | ", 1) for text in axes["artists"]]
        lines = [numbers for kind, numbers in artists if kind.startswith("line")]
        clouds = [numbers for kind, numbers in artists if kind.startswith("PathCollection")]
        outlines = [
            np.stack([scaled(path[:, 0], pair[0]), scaled(path[:, 1], pair[1])], -1)
            for path in map(outline, (*MARKERS, "x", "+", "*"))
        ]
        found |= mapped_columns(columns, artists)
        for place, y in itertools.product(strips.values(), columns):
            points = np.stack([scaled(place, pair[0]), scaled(columns[y], pair[1])], -1)
            if y not in found and rows > 1 and seen(points, lines, [], []):
                found.add(y)
        for x, y, over in itertools.permutations(columns, 3) if len(columns) <= MOST_PARTS else ():
            if {y, over} <= found:
                continue
            with np.errstate(all="ignore"):
                points = np.stack(
                    [scaled(columns[x], pair[0]), scaled(columns[y] / columns[over], pair[1])], -1
                )
            if seen(points, lines, [], []):
                found |= {x, y, over}
        for x, y in ((x, y) for x in abscissas for y in columns if x != y):
            if y in found and (x in found or x not in columns):
                continue
            for shape in (lambda v: v, lambda v: PERCENT * v, lambda v: 1 / v, lambda v: v / v[0]):
                with np.errstate(all="ignore"):
                    ordinate = shape(columns[y])
                points = np.stack([scaled(abscissas[x], pair[0]), scaled(ordinate, pair[1])], -1)
                for label, parts in shares:
                    if len(parts) > 1 and (label in (x, y) or x not in columns):
                        continue
                    there = [part for part in parts if np.isfinite(points[part]).all()] or parts
                    if len(there) > len(parts) / 2 and all(
                        seen(points[part], lines, clouds, outlines) for part in there
                    ):
                        found |= {x, y, label}
    return found & set(columns)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_csv_holds_what_the_figure_shows(chapter: str) -> None:
    not_drawn = {
        table["name"]: sorted(set(table["columns"]) - drawn_columns(table, figure))
        for table, figure in tables(chapter)
    }
    assert {name: columns for name, columns in not_drawn.items() if columns} == {}


def test_a_csv_of_other_numbers_is_noticed() -> None:
    """The control: columns that are drawn, made larger by a thousandth, put in another order, or without a row."""
    tried = 0
    for table, figure in tables("implicit_bias/label_noise"):
        drawn = drawn_columns(table, figure)
        first, *others = table["columns"]
        for name in set(others) & drawn:
            values = [float(value) for value in table["columns"][name]]
            for other in ([1.001 * value for value in values], values[::-1], [*values[:-1], float("nan")]):
                changed = table | {"columns": {first: table["columns"][first], name: other}}
                assert name not in drawn_columns(changed, figure), (table["name"], name)
                tried += 1
    assert tried >= 9


def test_a_csv_of_other_points_is_noticed() -> None:
    """The control for rows that are points of their own, and for numbers whose inverse is drawn."""
    tried = 0
    for table, figure in tables("implicit_bias/minimum_norm"):
        for name in {"end_u", "announced_w", "smallest_singular_value"} & set(table["columns"]):
            assert name in drawn_columns(table, figure)
            values = [float(value) for value in table["columns"][name]]
            for other in ([1.001 * value for value in values], [*values[1:], values[0]]):
                changed = table | {"columns": table["columns"] | {name: other}}
                assert name not in drawn_columns(changed, figure), (table["name"], name)
                tried += 1
    assert tried == 6


@pytest.mark.parametrize(
    ("chapter", "name", "column"),
    [
        ("implicit_bias/sparse_recovery", "fig-sparse-recovery-phase", "basis_pursuit"),
        ("implicit_bias/maximum_margin", "fig-maximum-margin-elsewhere", "cubic_tail"),
        ("parameterization/value_learning", "fig-value-learning-rooms", "drawn"),
        ("recurrence/linear_recurrent_units", "fig-linear-recurrent-units-steps", "megabytes_tanh"),
    ],
)
def test_a_csv_of_other_colours_strips_or_quotients_is_noticed(chapter: str, name: str, column: str) -> None:
    ((table, figure),) = [pair for pair in tables(chapter) if pair[0]["name"] == name]
    assert column in drawn_columns(table, figure)
    values = [float(value) for value in table["columns"][column]]
    for other in ([1.001 * value for value in values], [*values[1:], values[0]]):
        changed = table | {"columns": table["columns"] | {column: other}}
        assert column not in drawn_columns(changed, figure)
