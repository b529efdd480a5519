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
from PIL import Image
from scipy.optimize import brentq

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

X = np.array([1.0, 2.0])
Y = 2.0
INK, MUTED, RULE, BLUE, ORANGE = "#222832", "#5a6270", "#d6dae0", "#0b63a5", "#c4500a"
DEFAULT_OUTPUT = Path(__file__).resolve().parent.parent / "book/_static/widgets/hypentropy_ball.png"


def potential(beta: np.ndarray, alpha: float) -> np.ndarray:
    """Q_alpha(beta), summed over the last axis."""
    z = beta / alpha**2
    return alpha**2 * np.sum(z * np.arcsinh(z / 2) - z**2 / (2 + np.sqrt(4 + z**2)), axis=-1)


def minimiser(y: float, alpha: float) -> np.ndarray:
    """The point of the line X beta = y where Q_alpha is least, by bisection on the line's own coordinate."""

    def slope(t: float) -> float:
        beta = np.array([y - 2 * t, t])
        return float(np.arcsinh(beta / (2 * alpha**2)) @ np.array([-2.0, 1.0]))

    t = brentq(slope, 0.0, y / 2, xtol=1e-15, rtol=1e-14) if y > 0 else 0.0
    return np.array([y - 2 * t, t])


def level_set(level: float, alpha: float, size: int = 181) -> np.ndarray:
    """The curve Q_alpha = level, as a closed polygon of shape (4 size, 2)."""
    turn = np.linspace(0, 1, size) ** 2
    angles = np.concatenate([turn * np.pi / 4, (np.pi / 2 - turn * np.pi / 4)[::-1][1:]])
    points = []
    for angle in angles:
        unit = np.array([math.cos(angle), math.sin(angle)])
        r = brentq(lambda r, unit=unit: potential(r * unit, alpha) - level, 0.0, 4.0)
        points.append(r * unit)
    quarter = np.array(points)
    back = quarter[::-1]
    return np.concatenate([quarter, back * [-1, 1], quarter * [-1, -1], back * [1, -1]])


def power_of_ten(exponent: int) -> str:
    """10 to an exponent in unicode superscripts."""
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def draw(alpha: float, output: Path) -> None:
    """Draw the picture for one start scale and save it."""
    end = minimiser(Y, alpha)
    path = np.array([minimiser(Y * share, alpha) for share in np.linspace(0, 1, 101)])
    change = float(np.max(np.sqrt(end**2 + 4 * alpha**4)) / (2 * alpha**2) - 1)

    plt.rcParams.update({"font.family": "DejaVu Sans", "font.size": 10, "text.color": INK})
    figure = plt.figure(figsize=(7.2, 3.75), dpi=130)
    plane = figure.add_axes((0.0, 0.0, 0.61, 0.9))
    dial = figure.add_axes((0.64, 0.39, 0.34, 0.44))
    figure.text(
        0.012, 0.94, "The scale of the start decides which solution training finds.", weight="bold", size=11.5
    )

    plane.axhline(0, color=RULE, lw=0.8, zorder=0)
    plane.axvline(0, color=RULE, lw=0.8, zorder=0)
    ball = level_set(float(potential(end, alpha)), alpha)
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
