from __future__ import annotations

import html.parser
import itertools
import json
import re
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
from scipy import stats

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402

from learning_dynamics import figures  # noqa: E402
from learning_dynamics._internal import display  # noqa: E402
from learning_dynamics.ledger import read  # noqa: E402
from learning_dynamics.runs import Run  # noqa: E402

RUN = Run("implicit_bias/minimum_norm")
KEY = "learning_dynamics/numbers"


@pytest.fixture(autouse=True)
def _fresh_figures():
    with matplotlib.rc_context():
        figures.use_style()
        yield
    plt.close("all")


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, dict]]:
    """Every output that is shown: text, HTML, metadata."""
    outputs: list[tuple[str, str, dict]] = []
    monkeypatch.setattr(figures, "emit", lambda *output: outputs.append(output))
    return outputs


# Colours -------------------------------------------------------------------------------------------------------------


def linear(color: str) -> np.ndarray:
    srgb = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def luminance(color: str) -> float:
    return float(linear(color) @ [0.2126, 0.7152, 0.0722])


def contrast(a: str, b: str) -> float:
    """WCAG 2's contrast ratio."""
    low, high = sorted([luminance(a), luminance(b)])
    return (high + 0.05) / (low + 0.05)


def in_dark_mode(color: str) -> str:
    """What the theme's filter brightness(.8) contrast(1.2) makes of a colour."""
    values = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return "#" + "".join(f"{round(255 * min(max((0.8 * v - 0.5) * 1.2 + 0.5, 0), 1)):02X}" for v in values)


def lab(rgb: np.ndarray) -> np.ndarray:
    to_xyz = [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.072175],
        [0.0193339, 0.119192, 0.9503041],
    ]
    xyz = np.array(to_xyz) @ np.clip(rgb, 0, 1) / [0.95047, 1, 1.08883]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


# Machado, Oliveira, Fernandes 2009, full severity, on linear RGB
VISION = {
    "all cones": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.3039],
    ],
}


def test_no_grey_is_legible_on_white_and_on_the_dark_page() -> None:
    greys = [f"#{v:02X}{v:02X}{v:02X}" for v in range(256)]
    assert max(min(contrast(g, "#FFFFFF"), contrast(g, "#121212")) for g in greys) < 4.5


@pytest.mark.parametrize("seen", [str, in_dark_mode], ids=["light", "dark"])
def test_ink_and_lines_stand_out_from_the_card(seen) -> None:
    card = seen(figures.BACKGROUND)
    assert contrast(seen(figures.INK), card) >= 4.5
    for color in [*figures.CYCLE, figures.CONTROL_COLOR]:
        assert contrast(seen(color), card) >= 3


def test_the_card_stands_out_from_the_dark_page() -> None:
    assert contrast(in_dark_mode(figures.BACKGROUND), "#121212") >= 4.5


@pytest.mark.parametrize("vision", VISION)
def test_colours_are_told_apart(vision: str) -> None:
    colors = [*figures.CYCLE, figures.CONTROL_COLOR]
    seen = {color: lab(np.array(VISION[vision]) @ linear(color)) for color in colors}
    for a, b in itertools.combinations(colors, 2):
        assert np.linalg.norm(seen[a] - seen[b]) > 14, (a, b)


# Style and drawing ---------------------------------------------------------------------------------------------------


def test_the_style_replaces_any_other() -> None:
    plt.rcParams["axes.linewidth"] = 9
    plt.rcParams["figure.facecolor"] = "black"
    figures.use_style()
    assert plt.rcParams["axes.linewidth"] < 2
    assert matplotlib.colors.to_hex(plt.rcParams["figure.facecolor"]).upper() == figures.BACKGROUND


def test_lines_of_one_picture_differ_in_colour_and_marker() -> None:
    _, ax = figures.subplots()
    lines = [ax.plot([0, 1], [i, i])[0] for i in range(len(figures.CYCLE))]
    assert len({line.get_color() for line in lines}) == len({line.get_marker() for line in lines}) == 6
    assert all(line.get_linestyle() == "-" for line in lines)  # dashed is kept for controls


def test_every_point_counts_in_a_scatter_and_in_a_short_line() -> None:
    _, ax = figures.subplots()
    many = range(200)
    assert ax.plot(many, many, "o")[0].get_markevery() is None
    assert ax.plot(many, many, linestyle="")[0].get_markevery() is None
    assert ax.errorbar(many, many, yerr=1.0, fmt="o")[0].get_markevery() is None
    assert ax.plot(range(figures.EACH_POINT), range(figures.EACH_POINT))[0].get_markevery() is None


def test_a_long_line_has_few_markers_and_no_two_lines_at_the_same_places() -> None:
    _, axes = figures.subplots(1, 2, sharey=True)
    many = range(200)
    thinned = [axes[0].plot(many, many)[0].get_markevery() for _ in figures.MARKERS]
    assert len(set(thinned)) == len(thinned) and all(step == 0.15 for _, step in thinned)
    assert axes[1].semilogy(many, many, markevery=1)[0].get_markevery() == 1
    band = figures.band(axes[1], many, torch.rand(3, 200), label="x")
    assert band.line.get_markevery() is not None


@pytest.mark.parametrize(("rows", "columns", "shape"), [(1, 1, ()), (1, 2, (2,)), (2, 3, (2, 3))])
def test_subplots_give_axes_in_their_grid(rows: int, columns: int, shape: tuple[int, ...]) -> None:
    figure, axes = figures.subplots(rows, columns)
    assert np.shape(axes) == shape and figure.get_size_inches()[0] <= 10.5


@pytest.mark.parametrize("count", [0, -1, 1.5, True])
def test_subplots_refuse_a_bad_count(count) -> None:
    with pytest.raises(ValueError, match=f"columns = {count!r}"):
        figures.subplots(1, count)


def test_band_is_the_t_interval_of_the_mean() -> None:
    _, ax = figures.subplots()
    samples = torch.randn(8, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    band = figures.band(ax, torch.arange(5), samples, label="x", level=0.9)
    reference = stats.ttest_1samp(samples.numpy(), 0).confidence_interval(0.9)
    np.testing.assert_allclose(band.low, reference.low)
    np.testing.assert_allclose(band.high, reference.high)
    np.testing.assert_allclose(band.line.get_ydata(), samples.mean(0))
    geometric = figures.band(ax, range(5), samples.exp(), label="y", level=0.9, geometric=True)
    np.testing.assert_allclose(geometric.high, np.exp(reference.high))


def test_a_diverged_seed_ends_the_curve_and_is_not_dropped() -> None:
    figure, ax = figures.subplots()
    samples = np.ones((3, 4))
    samples[1, 2:] = np.inf
    band = figures.band(ax, range(4), samples, label="x")
    assert np.isinf(band.mean[2:]).all() and np.isnan(band.line.get_ydata()[2:]).all()
    ax.set_yscale("log")
    figure.canvas.draw()


@pytest.mark.parametrize(
    ("x", "samples", "options", "message"),
    [
        ([[0.0]], [[1.0], [2.0]], {}, r"x has shape \(1, 1\)"),
        ([0.0], [[1.0]], {}, r"samples has shape \(1, 1\); allowed: \(seeds >= 2, 1\)"),
        ([0.0, 1.0], [[1.0], [2.0]], {}, "samples has shape"),
        ([0.0], [[1.0], [2.0]], {"level": 1.0}, "level = 1.0"),
        ([0.0], [[1.0], [np.nan]], {}, r"samples\[1, 0\] is NaN"),
        ([0.0], [[1.0], [0.0]], {"geometric": True}, r"samples\[1, 0\] = 0 with geometric=True"),
    ],
)
def test_band_names_a_bad_argument(x, samples, options: dict, message: str) -> None:
    _, ax = figures.subplots()
    with pytest.raises(ValueError, match=message):
        figures.band(ax, x, samples, label="x", **options)


def test_a_control_is_dashed_and_says_what_it_is() -> None:
    _, ax = figures.subplots()
    line = figures.line_control(ax, [0, 1], torch.ones(2), label="uneven start")
    assert line.get_linestyle() == "--" and line.get_label() == "what breaks it: uneven start"
    assert figures.line_control(ax, [0], [1], color="red").get_label() == "what breaks it"
    with pytest.raises(ValueError, match="x and y have shapes"):
        figures.line_control(ax, [0, 1], [1])


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_saved_figures_are_the_same_bytes_each_time(tmp_path: Path, ending: str) -> None:
    files = []
    for name in "ab":
        figure, ax = figures.subplots()
        ax.plot([0, 1], [0, 1], label="a line")
        ax.legend()
        figures.save(figure, tmp_path / f"{name}.{ending}")
        files.append((tmp_path / f"{name}.{ending}").read_bytes())
    assert files[0] == files[1] and b"Date" not in files[0] and b"dc:date" not in files[0]


def test_save_refuses_an_unknown_ending(tmp_path: Path) -> None:
    figure, _ = figures.subplots()
    with pytest.raises(ValueError, match="allowed: the ending"):
        figures.save(figure, tmp_path / "a.gif")


# Numbers and comparisons ---------------------------------------------------------------------------------------------


def test_numbers_go_into_the_metadata_with_six_digits(shown: list) -> None:
    columns = {"step": torch.arange(3), "error": [1 / 3, np.inf, 2e-17]}
    figures.numbers(RUN, "fig-errors", columns)
    ((text, html, metadata),) = shown
    assert text == "fig-errors: 3 rows, columns step, error"
    assert 'href="../../_static/numbers/implicit_bias/minimum_norm/fig-errors.csv" download' in html
    assert metadata == {
        KEY: {
            "name": "fig-errors",
            "columns": {"step": [0, 1, 2], "error": [0.333333, "inf", 2e-17]},
            "rtol": 2e-5,
            "noise": 0.0,
        }
    }
    json.loads(json.dumps(metadata, allow_nan=False))


def test_numbers_are_written_where_the_environment_says(
    tmp_path: Path, shown: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEARNING_DYNAMICS_RECORDS", str(tmp_path))
    figures.numbers(RUN, "a", {"x": [1.0]}, rtol=1e-3, noise=1e-9)
    figures.numbers(Run(RUN.chapter, dtype=torch.float32), "b", {"x": [2.5]})
    lines = (tmp_path / "implicit_bias--minimum_norm.numbers.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [output[2][KEY] for output in shown]
    assert [json.loads(line)["rtol"] for line in lines] == [1e-3, 1e-3]


def test_columns_hold_what_the_lines_show() -> None:
    _, (left, right) = figures.subplots(1, 2)
    (short,) = left.plot([0, 2], [5.0, 6.0])
    long = figures.band(right, [0, 1, 2], [[1.0, 2.0, np.inf], [3.0, 4.0, 5.0]], label="a").line
    table = figures.columns("step", {"short": short, "long": long})
    assert list(table) == ["step", "short", "long"] and table["step"].tolist() == [0, 1, 2]
    np.testing.assert_array_equal(table["short"], [5, np.nan, 6])
    np.testing.assert_array_equal(table["long"], [2, 3, np.nan])


@pytest.mark.parametrize(
    ("x", "names", "places", "message"),
    [
        ("step", [], [0, 1], r"lines = \[\]; allowed: at least one"),
        ("step", ["step"], [0, 1], "lines = .'step'.; allowed: at least one, none of them named 'step'"),
        ("step", ["a"], [1, 0], r"lines\['a'\] has positions \[1. 0.\]; allowed: increasing ones"),
        ("step", ["a"], [0, 0], r"lines\['a'\] has positions \[0. 0.\]"),
        ("step", ["a"], [0, np.nan], r"lines\['a'\] has positions \[ 0. nan\]"),
    ],
)
def test_columns_name_a_bad_argument(x: str, names: list[str], places: list[float], message: str) -> None:
    (line,) = figures.subplots()[1].plot(places, [0, 1])
    with pytest.raises(ValueError, match=message):
        figures.columns(x, dict.fromkeys(names, line))


def test_long_columns_are_thinned_and_keep_their_end(shown: list) -> None:
    with pytest.raises(ValueError, match="401 rows with every = 1; allowed: at most 400"):
        figures.numbers(RUN, "a", {"x": np.arange(401)})
    figures.numbers(RUN, "a", {"x": np.arange(1001)}, every=300)
    assert shown[0][2][KEY]["columns"]["x"] == [0, 300, 600, 900, 1000]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "Fig 1"}, "name = 'Fig 1'"),
        ({"columns": {}}, "columns is empty"),
        ({"columns": {"a": [1.0], "b": [1.0, 2.0]}}, "different lengths"),
        ({"columns": {"a": [[1.0]]}}, r"column 'a' has shape \(1, 1\)"),
        ({"columns": {"a,b": [1.0]}}, "column = 'a,b'"),
        ({"every": 0}, "every = 0"),
        ({"rtol": -1.0}, "rtol = -1.0"),
        ({"noise": float("nan")}, "noise = nan"),
    ],
)
def test_numbers_name_a_bad_argument(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        figures.numbers(RUN, **({"name": "a", "columns": {"a": [1.0]}} | change))


class Balanced(html.parser.HTMLParser):
    """Fails on a tag that is closed out of order, or on an inline style."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        assert "style" not in dict(attrs)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_comparison_hides_nothing_but_our_numbers(shown: list) -> None:
    rows = [
        ("rate <k>", "2", 1.23456, True),
        ("gap", "0.1", (0.2, 0.3), np.bool_(False)),
        ("cost", "3", 7.5, None),
    ]
    figures.comparison(rows, "within 5 %", run=RUN)
    ((text, html, metadata),) = shown
    assert text.splitlines() == [
        "criterion: within 5 %",
        "rate <k>: source 2, agrees: yes",
        "gap: source 0.1, agrees: no",
        "cost: source 3, agrees: not compared",
    ]
    assert re.findall(r'<span class="measured">([^<]*)</span>', html) == ["1.235", "[0.2, 0.3]", "7.5"]
    blanked = re.sub(r'<span class="measured">[^<]*</span>', "MEASURED", html)
    assert "1.23" not in blanked and "rate &lt;k&gt;" in blanked
    assert re.findall(r'<th scope="col">(\w+)', html) == ["quantity", "source", "here", "agrees"]
    parser = Balanced()
    parser.feed(html)
    assert not parser.open and list(metadata) == [KEY]


def test_a_comparison_with_nothing_shows_ours_alone(shown: list) -> None:
    figures.comparison([("loss", "not given", 0.5, None)], "the source has none", run=RUN)
    ((text, html, _),) = shown
    assert text == "the source has none\nloss" and "<caption>The source has none</caption>" in html
    assert re.findall(r'<th scope="col">(\w+)', html) == ["quantity", "here"] and "not compared" not in html
    shown.clear()
    figures.comparison([("loss", "not given", 0.5, None), ("rate", "2", 2.0, True)], "within 5 %", run=RUN)
    assert "not compared" in shown[0][1]


def test_a_comparison_can_be_recorded(shown: list) -> None:
    figures.comparison(
        [("rate", "2", 1.23456789, True), ("gap", "0.1", (0.2, 0.3), True)], "c", run=RUN, name="table-6"
    )
    record = shown[0][2][KEY]
    assert record["name"] == "table-6"
    assert record["columns"] == {"row": [1, 2, 2], "here": [1.23457, 0.2, 0.3]}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "rows is empty"),
        ([("a", "b", 1.0)], "allowed: .quantity, source, here, agrees."),
        ([("a", "b", 1.0, "yes")], "agrees True, False or None"),
        ([("a", "b", [1.0, 2.0, 3.0], True)], "allowed: a number, or two"),
    ],
)
def test_a_comparison_names_a_bad_row(rows: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        figures.comparison(rows, "c", run=RUN)


def test_a_script_prints_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    figures.numbers(RUN, "a", {"x": [1.5, 2.5]})
    assert capsys.readouterr().out == "a: 2 rows, columns x\n"


def test_a_picture_carries_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEARNING_DYNAMICS_RECORDS", str(tmp_path))
    display.begin("part/name")
    draw = figures._DrawAndKeep(lambda figure: ("picture", {"width": 3}))
    figure, axes = plt.subplots()
    axes.plot([1, 2], [3, 4])
    picture, metadata = draw(figure)
    assert picture == "picture" and metadata["width"] == 3
    figures.not_compared(figure, "seconds on a clock")
    assert draw(figure)[1][read.DRAWING_KEY] == {"not compared": "seconds on a clock"}
    written = read.written_records(tmp_path, "part/name", "drawings")
    assert written == [metadata[read.DRAWING_KEY], {"not compared": "seconds on a clock"}]
    with pytest.raises(ValueError, match="why = ' '; allowed"):
        figures.not_compared(figure, " ")
