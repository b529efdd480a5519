"""Draw the static picture that stands in for the moving part `hypentropy-ball` where no script runs.

The picture is the start state of the widget (start scale 0.1): the ball of Q_alpha touching the line of
solutions where gradient flow ends, and the dial that shows how far the kernel moved. Running it twice gives
the same bytes on one machine.

    python tools/draw_hypentropy_ball.py [--alpha 0.1] [--output book/_static/widgets/hypentropy_ball.png]
"""

from __future__ import annotations

import argparse
import io
import math
from pathlib import Path

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from PIL import Image
from scipy.optimize import brentq

from learning_dynamics.implicit_bias.hyperbolic_entropy import least_potential, potential

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

X = torch.tensor([1.0, 2.0], dtype=torch.float64)
Y = 2.0
INK, MUTED, RULE, BLUE, ORANGE = "#222832", "#5a6270", "#d6dae0", "#0b63a5", "#c4500a"
DEFAULT_OUTPUT = Path(__file__).resolve().parent.parent / "book/_static/widgets/hypentropy_ball.png"


def where_flow_ends(y: float, alpha: float) -> np.ndarray:
    """Return the point of the line X beta = y where Q_alpha is least, shape (2,)."""
    targets = torch.tensor([y], dtype=torch.float64)
    return least_potential(X[None], targets, alpha).weights.numpy()


def level_set(level: float, alpha: float, size: int = 181) -> np.ndarray:
    """Return the curve Q_alpha = level, a closed polygon of shape (8 size - 4, 2)."""
    turn = np.linspace(0, 1, size) ** 2
    angles = np.concatenate([turn * np.pi / 4, (np.pi / 2 - turn * np.pi / 4)[::-1][1:]])
    points = []
    for angle in angles:
        unit = np.array([math.cos(angle), math.sin(angle)])
        r = brentq(lambda r, unit=unit: potential(torch.from_numpy(r * unit), alpha).item() - level, 0.0, 4.0)
        points.append(r * unit)
    quarter = np.array(points)
    back = quarter[::-1]
    return np.concatenate([quarter, back * [-1, 1], quarter * [-1, -1], back * [1, -1]])


def power_of_ten(exponent: int) -> str:
    """Return 10 to an exponent in unicode superscripts."""
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def draw_plane(plane: Axes, alpha: float, end: np.ndarray) -> None:
    """Draw the ball that touches the line of solutions, and the path of the end as the targets grow to y."""
    path = np.array([where_flow_ends(Y * share, alpha) for share in np.linspace(0, 1, 101)])
    plane.axhline(0, color=RULE, lw=0.8, zorder=0)
    plane.axvline(0, color=RULE, lw=0.8, zorder=0)
    ball = level_set(potential(torch.from_numpy(end), alpha).item(), alpha)
    plane.fill(*ball.T, facecolor=BLUE, alpha=0.11, lw=0)
    plane.plot(*ball.T, color=BLUE, lw=1.3)
    line = np.array([-2.0, 2.5])
    plane.plot(line, (Y - line) / 2, color=INK, lw=1.7)
    plane.plot(*path.T, color=ORANGE, lw=2.1, solid_capstyle="round")
    for point in ([0, 0], [0, 1], [0.4, 0.8]):
        plane.plot(*point, "o", ms=6, mfc="white", mec=INK, mew=1.3)
    plane.plot(*end, "o", ms=9, color=ORANGE)
    plane.text(-0.09, 0.98, "least ℓ₁ norm", ha="right", va="center")
    plane.text(0.47, 0.87, "least ℓ₂ norm")
    plane.text(-0.07, 0.06, "start", ha="right", color=MUTED)
    plane.text(-0.09, -0.5, "ball of $Q_α$", ha="right", color=BLUE)
    plane.text(
        1.27, 0.42, "solutions: Xβ = y", rotation=-26.57, ha="center", va="bottom", rotation_mode="anchor"
    )
    plane.text(1.77, -0.13, "β₁", ha="right", color=MUTED)
    plane.text(0.06, 1.24, "β₂", color=MUTED)
    plane.text(-1.07, -0.13, "−1", ha="center", color=MUTED, size=9)
    plane.text(1.07, -0.13, "1", ha="center", color=MUTED, size=9)
    plane.set(xlim=(-1.25, 1.8), ylim=(-1.22, 1.34), aspect="equal")
    plane.axis("off")


def draw_dial(dial: Axes, change: float) -> None:
    """Draw the dial whose needle stands at the change of the kernel, on a logarithmic scale."""
    low, high = -6.0, 8.0
    value = min(max(math.log10(change), low), high)

    def polar(v: float | np.ndarray, r: float) -> tuple[np.ndarray, np.ndarray]:
        angle = np.pi * (1 - (np.asarray(v) - low) / (high - low))
        return r * np.cos(angle), r * np.sin(angle)

    dial.plot(*polar(np.linspace(low, high, 200), 1.0), color=RULE, lw=6, solid_capstyle="butt")
    dial.plot(*polar(np.linspace(low, value, 200), 1.0), color=ORANGE, lw=6, solid_capstyle="butt")
    for tick in (-4, 0, 4):
        x, y = polar(tick, 1.24)
        side = "right" if tick < 0 else "left" if tick > 0 else "center"
        label = "1" if tick == 0 else power_of_ten(tick)
        dial.text(float(x), float(y), label, ha=side, va="center", color=MUTED, size=9)
    x, y = polar(value, 0.82)
    dial.plot([0, float(x)], [0, float(y)], color=INK, lw=1.8, solid_capstyle="round")
    dial.plot(0, 0, "o", ms=8, color=INK)
    dial.text(-1, -0.24, "kernel still", ha="center", size=9)
    dial.text(1, -0.24, "moved", ha="center", size=9)
    dial.set(xlim=(-1.65, 1.65), ylim=(-0.4, 1.45), aspect="equal")
    dial.axis("off")


def draw(alpha: float, output: Path) -> None:
    """Draw the picture for one start scale and save it."""
    end = where_flow_ends(Y, alpha)
    change = float(np.max(np.sqrt(end**2 + 4 * alpha**4)) / (2 * alpha**2) - 1)

    plt.rcParams.update({"font.family": "DejaVu Sans", "font.size": 10, "text.color": INK})
    figure = plt.figure(figsize=(7.2, 3.75), dpi=130)
    figure.text(
        0.012, 0.94, "The scale of the start decides which solution training finds.", weight="bold", size=11.5
    )
    draw_plane(figure.add_axes((0.0, 0.0, 0.61, 0.9)), alpha, end)
    draw_dial(figure.add_axes((0.64, 0.39, 0.34, 0.44)), change)
    figure.text(0.81, 0.865, f"start scale α = {alpha:g}", ha="center")
    figure.text(0.645, 0.29, "training ends at", color=ORANGE, weight="bold")
    figure.text(0.828, 0.29, f"({end[0]:.4f}, {end[1]:.4f})")
    figure.text(0.645, 0.215, "kernel change", color=MUTED)
    figure.text(0.828, 0.215, f"{change:.3g}, relative")

    output.parent.mkdir(parents=True, exist_ok=True)
    canvas = io.BytesIO()
    figure.savefig(canvas, format="png", dpi=130, facecolor="white", metadata={"Software": None})
    plt.close(figure)
    with Image.open(canvas) as picture:
        # a palette of 96 colours: a third of the bytes, no visible difference
        picture.convert("RGB").quantize(96, dither=Image.Dither.NONE).save(output, optimize=True)


def main() -> None:
    """Read the command line and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT)
    arguments = parser.parse_args()
    draw(arguments.alpha, arguments.output)


if __name__ == "__main__":
    main()
