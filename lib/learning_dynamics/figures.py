"""How the book draws: one style, error bands over seeds, and the numbers behind a picture.

Figures are opaque white cards with dark ink. A transparent figure in mid-grey would have to reach a contrast of 4.5
on white and on the dark page (#121212) at once, and no grey does: its luminance would have to be at most 0.183 and at
least 0.202. In dark mode the theme pads and rounds the card, so it stays legible there, on GitHub and on Colab.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import matplotlib.pyplot as plt
import numpy as np
import torch
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy import stats

from learning_dynamics._internal.display import emit, write_drawing, write_line
from learning_dynamics._internal.drawing import drawing
from learning_dynamics.ledger.read import DRAWING_KEY, NUMBERS_KEY
from learning_dynamics.runs import Run

Numbers: TypeAlias = torch.Tensor | np.ndarray | Sequence[float]

# All colours of the book's figures, by name. The first six make the cycle: Okabe and Ito's colours that reach a
# contrast of 3 on white, and two dark ones, told apart with every common form of colour blindness. Yellow, orange and
# sky blue are too pale for a line on white. The others are neutral: ink for what is given, greys for the background.
COLORS = {
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "green": "#009E73",
    "purple": "#CC79A7",
    "black": "#000000",
    "maroon": "#550000",
    "ink": "#1A1A1A",
    "dark grey": "#4D4D4D",
    "middle grey": "#666666",
    "grey": "#999999",
    "light grey": "#BFBFBF",
    "pale grey": "#EBEBEB",
    "white": "#FFFFFF",
}
CYCLE = tuple(COLORS.values())[:6]
CONTROL_COLOR = COLORS["dark grey"]
MARKERS = ("o", "s", "^", "D", "v", "X")
BACKGROUND, INK, GRID = COLORS["white"], COLORS["ink"], "#D9D9D9"
_NOT_COMPARED: WeakKeyDictionary[Figure, str] = WeakKeyDictionary()
NOT_GIVEN = "not given"
EACH_POINT = 20  # a joined line of at most so many points has a marker at each
MOST_ROWS = 400

STYLE: dict[str, Any] = {
    "figure.facecolor": BACKGROUND,
    "savefig.facecolor": BACKGROUND,
    "figure.figsize": (6.0, 3.6),
    "figure.dpi": 130,
    "savefig.dpi": 130,
    "figure.constrained_layout.use": True,
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same picture on every machine
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.labelsize": 11,
    "legend.fontsize": 9.5,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "axes.facecolor": BACKGROUND,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "image.cmap": "viridis",
    "svg.hashsalt": "learning-dynamics",
    "axes.prop_cycle": cycler(color=list(CYCLE), marker=list(MARKERS)),
}


class Band(NamedTuple):
    """What `band` drew.

    Attributes:
        line: The line of the mean.
        mean, low, high: Mean, lower and upper end of the interval, each of shape (points,).
    """

    line: Line2D
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Row(NamedTuple):
    """One line of a comparison.

    Attributes:
        quantity: What is compared.
        source: The source's value as printed.
        here: Ours: a number, or two numbers for an interval.
        agrees: Whether the two agree; None where they are not compared.
    """

    quantity: str
    source: str
    here: float | Sequence[float]
    agrees: bool | None


class BookAxes(Axes):
    """Axes that mark every point of a scatter or of a short line, and a long line at a few places only.

    The places are spread evenly over the picture, and those of two lines do not fall on top of each other. An explicit
    `markevery` is left as it is.
    """

    name = "learning_dynamics"

    def add_line(self, line: Line2D) -> Line2D:
        """Add a line to the axes and thin its markers out where they would run together.

        Args:
            line: What is added.

        Returns:
            The line.
        """
        joined = line.get_linestyle() not in ("None", "none", " ", "")
        if joined and line.get_markevery() is None and np.size(line.get_xdata()) > EACH_POINT:
            line.set_markevery((0.02 * (len(self.lines) % len(MARKERS)), 0.15))
        return super().add_line(line)


def use_style() -> None:
    """Give every later figure the book's look, and keep with its picture what it shows.

    Whatever style was set before is dropped. In a notebook the words of a figure and a digest of its artists go into
    the metadata of the picture, so that a run that draws something else is noticed.
    """
    _keep_drawings()
    plt.style.use(["default", STYLE])


def not_compared(figure: Figure, why: str) -> None:
    """Say that a figure shows what no second run repeats, such as times on a clock: its numbers are not compared.

    Args:
        figure: The figure.
        why: The reason, in a few words; it is stored with the picture.

    Raises:
        ValueError: There is no reason.
    """
    if not why.strip():
        raise ValueError(f"why = {why!r}; allowed: a reason in a few words")
    _NOT_COMPARED[figure] = why


def subplots(
    rows: int = 1, columns: int = 1, *, size: tuple[float, float] | None = None, **options: Any
) -> tuple[Figure, Any]:
    """Return a figure and its axes, sized so that the text stays readable in the book's column.

    Args:
        rows: Number of rows.
        columns: Number of columns.
        size: Width and height in inches, if the default does not fit.
        **options: Passed on to `matplotlib.pyplot.subplots`, such as `sharey=True`.

    Returns:
        The figure, and one Axes or an array of them as matplotlib gives it.

    Raises:
        ValueError: A count is not a positive integer.
    """
    for name, count in (("rows", rows), ("columns", columns)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"{name} = {count!r}; allowed: an integer >= 1")
    width, height = {1: (6.0, 3.6), 2: (8.6, 3.5)}.get(columns, (10.5, 3.3))
    look = {"axes_class": BookAxes} | options.pop("subplot_kw", {})
    return plt.subplots(rows, columns, figsize=size or (width, height * rows), subplot_kw=look, **options)


def band(
    ax: Axes,
    x: Numbers,
    samples: Numbers,
    *,
    label: str,
    level: float = 0.95,
    geometric: bool = False,
    **options: Any,
) -> Band:
    """Draw the mean over seeds and its Student t interval at every point.

    A seed that diverged (inf) makes the mean infinite from there on, and the curve ends: no seed is left out.

    Args:
        ax: Where to draw.
        x: Positions, shape (points,).
        samples: One row a seed, shape (seeds, points), at least two seeds.
        label: The curve's name in the legend.
        level: Coverage of the interval for the mean, between 0 and 1.
        geometric: Take mean and interval of the logarithm, for positive quantities on a log axis.
        **options: Passed on to `ax.plot`.

    Returns:
        The line with its numbers.

    Raises:
        ValueError: Shapes do not match, there are fewer than two seeds, a value is NaN, or `level` is out of range.
    """
    x, samples = _array(x), _array(samples)
    if x.ndim != 1:
        raise ValueError(f"x has shape {x.shape}; allowed: (points,)")
    if samples.ndim != 2 or samples.shape[1] != x.size or samples.shape[0] < 2:
        raise ValueError(f"samples has shape {samples.shape}; allowed: (seeds >= 2, {x.size})")
    if not 0 < level < 1:
        raise ValueError(f"level = {level!r}; allowed: a number between 0 and 1")
    if np.isnan(samples).any():
        seed, point = np.argwhere(np.isnan(samples))[0]
        raise ValueError(f"samples[{seed}, {point}] is NaN; allowed: numbers, inf for a run that diverged")
    if geometric and (samples <= 0).any():
        seed, point = np.argwhere(samples <= 0)[0]
        raise ValueError(
            f"samples[{seed}, {point}] = {samples[seed, point]:g} with geometric=True; allowed: > 0"
        )
    values = np.log(samples) if geometric else samples
    with np.errstate(invalid="ignore"):
        mean = values.mean(axis=0)
        error = values.std(axis=0, ddof=1) / math.sqrt(len(values))
    half = np.where(np.isfinite(mean), stats.t.ppf((1 + level) / 2, len(values) - 1) * error, 0.0)
    low, high = mean - half, mean + half
    if geometric:
        mean, low, high = np.exp(mean), np.exp(low), np.exp(high)
    finite = np.isfinite(mean)
    (line,) = ax.plot(x, np.where(finite, mean, np.nan), label=label, **options)
    ax.fill_between(x, low, high, where=finite, color=line.get_color(), alpha=0.2, linewidth=0)
    return Band(line, mean, low, high)


def line_control(
    ax: Axes,
    x: Numbers,
    y: Numbers,
    *,
    label: str | None = None,
    role: str = "what breaks it",
    **options: Any,
) -> Line2D:
    """Draw a control: dashed and grey, named by its role and, if given, by its own name.

    Args:
        ax: Where to draw.
        x: Positions, shape (points,).
        y: Values, shape (points,).
        label: What is broken, in a few words.
        role: What the line is for; "without the effect" where the control removes one.
        **options: Passed on to `ax.plot`; they win over the defaults.

    Returns:
        The line.

    Raises:
        ValueError: x and y are not of one shape (points,).
    """
    x, y = _array(x), _array(y)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"x and y have shapes {x.shape} and {y.shape}; allowed: (points,) for both")
    name = role if label is None else f"{role}: {label}"
    look = {"color": CONTROL_COLOR, "linestyle": "--", "marker": "", "label": name}
    (line,) = ax.plot(x, y, **(look | options))
    return line


def columns(x: str, lines: Mapping[str, Line2D]) -> dict[str, np.ndarray]:
    """Read the columns of a CSV off the lines of a picture, so that it holds what is drawn.

    Lines may stand at different positions and in different axes; where a line has no point its column has NaN.

    Args:
        x: Name of the column of positions.
        lines: What was drawn, by the names of the columns of heights.

    Returns:
        The columns for `numbers`: the positions of all lines, increasing, and the heights of each, of shape (rows,).

    Raises:
        ValueError: There is no line, a line has the name of the positions, or its positions do not increase.
    """
    if not lines or x in lines:
        raise ValueError(f"lines = {list(lines)}; allowed: at least one, none of them named {x!r}")
    points = {name: np.asarray(line.get_xydata(), dtype=np.float64) for name, line in lines.items()}
    for name, each in points.items():
        if not (np.isfinite(each[:, 0]).all() and (np.diff(each[:, 0]) > 0).all()):
            raise ValueError(f"lines[{name!r}] has positions {each[:, 0]}; allowed: increasing ones")
    rows = np.unique(np.concatenate([each[:, 0] for each in points.values()]))
    table = {x: rows} | {name: np.full(rows.size, np.nan) for name in points}
    for name, each in points.items():
        table[name][np.searchsorted(rows, each[:, 0])] = each[:, 1]
    return table


def numbers(
    run: Run,
    name: str,
    columns: Mapping[str, Numbers],
    *,
    every: int = 1,
    rtol: float | None = None,
    noise: float = 0.0,
) -> None:
    """Keep the numbers behind a figure with the page: linked there as a CSV, compared whenever they are recomputed.

    The numbers go, with six significant digits, into the output's metadata; the book's build writes the CSV.

    Args:
        run: The chapter's run.
        name: File name of the CSV without its ending: lower case letters, digits and hyphens.
        columns: The columns, each of shape (rows,), all of one length.
        every: Keep every so many rows; the last row is always kept. At most 400 rows may remain.
        rtol: Relative difference that a recomputation may show; 2e-5 (the sixth digit) in float64, 1e-3 in float32.
        noise: Absolute difference that is rounding alone.

    Raises:
        ValueError: A name, a shape or a count is not as described.
    """
    record = _record(run, name, columns, every, rtol, noise)
    part, chapter = run.chapter.split("/")
    rows = len(next(iter(record["columns"].values())))
    html = (
        '<p class="ld-numbers"><a class="ld-numbers-link" '
        f'href="../../_static/numbers/{part}/{chapter}/{name}.csv" download>'
        "Numbers behind this figure (CSV)</a></p>"
    )
    _keep(run, record, f"{name}: {rows} rows, columns {', '.join(record['columns'])}", html)


def comparison(
    rows: Sequence[Row | tuple[str, str, Any, bool | None]],
    criterion: str,
    *,
    run: Run,
    name: str = "comparison",
    rtol: float | None = None,
    noise: float = 0.0,
) -> None:
    """Show the source's values beside ours as a table, and record our numbers, so that a stale table is noticed.

    Where the source gives none of them (`"not given"` in every row, and no verdict) the table shows ours alone.

    Args:
        rows: Quantity, the source's value as printed, our number or interval, and whether they agree.
        criterion: When two values count as agreeing, in one line.
        run: The chapter's run.
        name: The record's name, as in `numbers`.
        rtol: As in `numbers`.
        noise: As in `numbers`.

    Raises:
        ValueError: There is no row, or one is not as described.
    """
    if not rows:
        raise ValueError("rows is empty; allowed: at least one (quantity, source, here, agrees)")
    for row in rows:
        if len(row) != 4 or not (row[3] is None or isinstance(row[3], bool | np.bool_)):
            raise ValueError(
                f"row = {row!r}; allowed: (quantity, source, here, agrees) with agrees True, False or None"
            )
    table = [Row(*row) for row in rows]
    here = [np.atleast_1d(_array(row.here)) for row in table]
    for row, values in zip(table, here, strict=True):
        if values.ndim != 1 or values.size not in (1, 2):
            raise ValueError(
                f"here = {row.here!r} of {row.quantity!r}; allowed: a number, or two for an interval"
            )
    alone = all(row.agrees is None and row.source == NOT_GIVEN for row in table)
    titles = ("quantity", "here") if alone else ("quantity", "source", "here", "agrees")
    text = [criterion if alone else f"criterion: {criterion}"]
    body = ""
    for row, values in zip(table, here, strict=True):
        verdict = {None: "not compared", True: "yes", False: "no"}[row.agrees]
        shown = ", ".join(f"{value:.4g}" for value in values)
        shown = f'<td><span class="measured">{f"[{shown}]" if values.size == 2 else shown}</span></td>'
        text.append(row.quantity if alone else f"{row.quantity}: source {row.source}, agrees: {verdict}")
        cells = shown if alone else f"<td>{escape(row.source)}</td>{shown}<td>{verdict}</td>"
        body += f'<tr><th scope="row">{escape(row.quantity)}</th>{cells}</tr>'
    head = "".join(f'<th scope="col">{title}</th>' for title in titles)
    caption = criterion[0].upper() + criterion[1:] if alone else f"Agreement: {criterion}"
    html = (
        f'<table class="ld-comparison"><caption>{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )
    columns: dict[str, Numbers] = {
        "row": [i for i, values in enumerate(here, 1) for _ in values],
        "here": np.concatenate(here),
    }
    _keep(run, _record(run, name, columns, 1, rtol, noise), "\n".join(text), html)


def save(figure: Figure, path: Path | str) -> None:
    """Write a figure to a file whose bytes do not depend on the time or on matplotlib's version string.

    Args:
        figure: What is written.
        path: A file that ends in .png, .svg or .pdf.

    Raises:
        ValueError: The ending is not .png, .svg or .pdf.
    """
    path = Path(path)
    undated = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    if path.suffix not in undated:
        raise ValueError(f"path = {str(path)!r}; allowed: the ending .png, .svg or .pdf")
    figure.savefig(path, metadata=undated[path.suffix])


class _DrawAndKeep:
    """Make a figure's picture, and with it the record of what it shows.

    Args:
        draw: Returns the picture of a figure, with or without metadata.
    """

    def __init__(self, draw: Callable[[Figure], Any]) -> None:
        self.draw = draw

    def __call__(self, figure: Figure) -> Any:
        picture = self.draw(figure)
        if picture is None:
            return None
        picture, metadata = picture if isinstance(picture, tuple) else (picture, {})
        record = drawing(figure)
        if figure in _NOT_COMPARED:
            record = {"not compared": _NOT_COMPARED[figure]}
        write_drawing(record)
        return picture, {**metadata, DRAWING_KEY: record}


def _keep_drawings() -> None:
    """Wrap what a notebook draws figures with; outside a notebook nothing is kept."""
    try:
        from IPython import get_ipython
    except ImportError:
        return
    shell = get_ipython()
    if shell is None or "inline" not in plt.get_backend():
        return
    shell.enable_matplotlib("inline")  # registers now what else the first figure would
    formatter = shell.display_formatter.formatters["image/png"]
    draw = formatter.lookup_by_type(Figure)
    if not isinstance(draw, _DrawAndKeep):
        formatter.for_type(Figure, _DrawAndKeep(draw))


def _array(values: Any) -> np.ndarray:
    """Return numbers of any kind as a float64 array on the CPU, of the same shape."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().numpy()
    return np.asarray(values, dtype=np.float64)


def _record(
    run: Run, name: str, columns: Mapping[str, Numbers], every: int, rtol: float | None, noise: float
) -> dict[str, Any]:
    """Return what is stored of a table of numbers."""
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise ValueError(f"name = {name!r}; allowed: lower case letters and digits, joined by hyphens")
    if not columns:
        raise ValueError("columns is empty; allowed: at least one")
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise ValueError(f"every = {every!r}; allowed: an integer >= 1")
    if rtol is None:
        rtol = 2e-5 if run.dtype == torch.float64 else 1e-3
    for key, value in (("rtol", rtol), ("noise", noise)):
        if not 0 <= value < math.inf:
            raise ValueError(f"{key} = {value!r}; allowed: a number >= 0")
    arrays = {}
    for column, values in columns.items():
        if not re.fullmatch(r"[A-Za-z]\w*", column):
            raise ValueError(f"column = {column!r}; allowed: a word of letters, digits and underscores")
        arrays[column] = _array(values)
        if arrays[column].ndim != 1 or not arrays[column].size:
            raise ValueError(f"column {column!r} has shape {arrays[column].shape}; allowed: (rows >= 1,)")
    lengths = {column: values.size for column, values in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns have different lengths {lengths}; allowed: one length")
    length = next(iter(lengths.values()))
    kept = list(range(0, length, every))
    kept += [length - 1] if kept[-1] != length - 1 else []
    if len(kept) > MOST_ROWS:
        raise ValueError(
            f"columns have {len(kept)} rows with every = {every}; allowed: at most {MOST_ROWS}; raise every"
        )
    return {
        "name": name,
        "columns": {column: [_short(values[i]) for i in kept] for column, values in arrays.items()},
        "rtol": rtol,
        "noise": noise,
    }


def _short(value: float) -> int | float | str:
    """Return six significant digits; whole numbers as integers, inf and NaN as words, which JSON lacks."""
    if not math.isfinite(value):
        return str(float(value))
    short = float(f"{value:.6g}")
    return int(short) if short.is_integer() and abs(short) < 1e6 else short


def _keep(run: Run, record: dict[str, Any], text: str, html: str) -> None:
    write_line(run.chapter, "numbers", record)
    emit(text, html, {NUMBERS_KEY: record})
