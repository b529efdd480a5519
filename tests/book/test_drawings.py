"""What a figure shows is kept with it, and a figure that shows something else is noticed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from chapter import ROOT
from compare import drawing_differences
from learning_dynamics._internal.drawing import MOST, drawing
from learning_dynamics.ledger import read

CHAPTERS = read.chapters(ROOT)
X = np.linspace(0.1, 3, 50)
SHADE = np.outer(np.sin(X), X)


def picture(change: Callable[[list[Axes]], Any] = lambda axes: None) -> Figure:
    """Return a figure with an artist of every kind that the book draws, changed as asked."""
    figure, (left, middle, right) = plt.subplots(1, 3)
    left.plot(X, np.exp(-X), label="loss")
    left.plot(X, 1e-8 * X, "--", label="control")
    left.fill_between(X, X**2, X**3)
    left.axhline(0.3)
    left.set(yscale="log", xlabel="time", title="A title")
    left.annotate("slope 2", (1, 0.1), (2, 0.2), arrowprops={"arrowstyle": "->"})
    left.legend()
    middle.bar([0, 1, 2], [3, 1, 2])
    middle.errorbar([0, 1, 2], [3, 1, 2], yerr=[0.1, 0.2, 0.3])
    middle.scatter(X, np.cos(X), c=X**2)
    middle.hist(SHADE.ravel(), bins=5)
    right.imshow(SHADE)
    right.contour(SHADE, levels=[0.5, 1.0])
    right.quiver(X[:5], X[:5], X[:5], -X[:5])
    right.pcolormesh(X[:10], X[:10], SHADE[:10, :10])
    change([left, middle, right])
    return figure


def record(change: Callable[[list[Axes]], Any] = lambda axes: None) -> dict[str, Any]:
    figure = picture(change)
    figure.canvas.draw()
    made = drawing(figure)
    plt.close(figure)
    return json.loads(json.dumps(made))


def without_exp(axes: list[Axes]) -> None:
    axes[0].lines[0].set_ydata(X)


def one_point(axes: list[Axes]) -> None:
    y = np.exp(-X)
    y[17] *= 1.001
    axes[0].lines[0].set_ydata(y)


def missing(axes: list[Axes]) -> None:
    y = np.exp(-X)
    y[17] = np.nan
    axes[0].lines[0].set_ydata(y)


def swapped(axes: list[Axes]) -> None:
    y = np.exp(-X)
    y[[3, 4]] = y[[4, 3]]
    axes[0].lines[0].set_ydata(y)


def small_on_a_log_axis(axes: list[Axes]) -> None:
    axes[0].lines[1].set_ydata(1.01e-8 * X)


CHANGES = [
    without_exp,
    one_point,
    missing,
    swapped,
    small_on_a_log_axis,
    lambda axes: axes[0].lines[0].remove(),
    lambda axes: axes[0].lines[0].set_color("red"),
    lambda axes: axes[0].lines[1].set_linestyle("-"),
    lambda axes: axes[0].lines[2].set_ydata([0.31, 0.31]),
    lambda axes: axes[0].fill_between(X, X),
    lambda axes: axes[0].set_yscale("linear"),
    lambda axes: axes[0].set_ylim(1e-9, 1),
    lambda axes: axes[0].set_title("Another"),
    lambda axes: axes[0].texts[0].set_text("slope 3"),
    lambda axes: axes[0].get_legend().get_texts()[0].set_text("accuracy"),
    lambda axes: setattr(axes[0].texts[0], "xy", (1.1, 0.1)),
    lambda axes: axes[1].patches[1].set_height(1.01),
    lambda axes: axes[1].collections[-1].set_offsets(np.stack([X, 1.01 * np.cos(X)], -1)),
    lambda axes: axes[1].collections[-1].set_array(X**2 + 0.01),
    lambda axes: axes[2].images[0].set_data(SHADE + 0.01),
    lambda axes: axes[2].images[0].set_data(SHADE[::-1]),
    lambda axes: axes[2].images[0].set_extent((0, 1, 0, 1)),
    lambda axes: axes[2].contour(SHADE, levels=[0.7]),
    lambda axes: axes[2].collections[1].set_UVC(X[:5], X[:5]),
    lambda axes: axes[2].collections[2].set_array(SHADE[:10, :10] * 1.01),
]


@pytest.mark.parametrize("change", CHANGES, ids=range(len(CHANGES)))
def test_a_changed_picture_is_noticed(change: Callable[[list[Axes]], Any]) -> None:
    assert list(drawing_differences([record()], [record(change)]))


def test_the_same_picture_is_the_same_up_to_rounding() -> None:
    assert not list(drawing_differences([record()], [record()]))
    rounded = record(lambda axes: axes[0].lines[0].set_ydata(np.exp(-X) * (1 + 1e-9 * np.sin(1e5 * X))))
    assert rounded != record()
    assert not list(drawing_differences([record()], [rounded]))


def many(last: float) -> dict[str, Any]:
    figure, axes = plt.subplots()
    for run in range(2 * MOST):
        axes.plot(X, X * run * (last if run == 2 * MOST - 1 else 1), color="red")
    made = drawing(figure)
    plt.close(figure)
    return made


def test_a_bundle_of_lines_has_one_digest_that_sees_each() -> None:
    assert len(many(1.0)["axes"][0]["artists"]) == 2
    assert list(drawing_differences([many(1.0)], [many(1.01)]))


def test_another_processor_is_asked_for_the_frame_only() -> None:
    elsewhere = record(without_exp) | {"processor": "another"}
    assert not list(drawing_differences([record()], [elsewhere]))
    elsewhere["axes"].pop()
    assert list(drawing_differences([record()], [elsewhere]))


def test_a_figure_of_times_is_not_compared_and_says_why() -> None:
    times = {"not compared": "seconds on a clock"}
    assert not list(drawing_differences([times], [dict(times)]))
    assert list(drawing_differences([times], [record()]))
    assert list(drawing_differences([record()], []))


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_picture_carries_what_it_shows(chapter: str) -> None:
    """A cell that makes a figure shows a picture of it, and the record that a later run is held against."""
    notebook = json.loads(read.notebook_path(ROOT, chapter).read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        pictures = [output for output in cell["outputs"] if "image/png" in output.get("data", {})]
        if "figures.subplots(" in "".join(cell["source"]) and "plt.close(" not in "".join(cell["source"]):
            assert pictures, "".join(cell["source"])[:200]
        for output in pictures:
            assert read.DRAWING_KEY in output["metadata"].get("image/png", {}), "".join(cell["source"])[:200]
