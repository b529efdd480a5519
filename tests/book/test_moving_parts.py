"""The moving parts, in real Chromium: what they display is compared with the library and with scipy.

Each widget is loaded from a bare page on a local server, so that the rendered book is not needed.
Settings are reached by keyboard, by slider and by drag.
"""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from browsing import needs_chromium, serve
from scipy.optimize import minimize_scalar
from scipy.special import ndtr, ndtri
from scipy.stats import beta as scipy_beta

from learning_dynamics import curvature, data, diffusions, ensembles, flows, rules
from learning_dynamics.adaptivity import neural_chain, token_geometry
from learning_dynamics.experiments.empirical_fisher.diagonal_fisher import (
    cauchy_scales,
    power_schedule,
    two_cycle,
)
from learning_dynamics.models import recurrence
from learning_dynamics.momentum import calculus_of_variations, shadowing
from learning_dynamics.noise import fractional, two_layer_linear, widening_valley
from learning_dynamics.parameterization import fixed_points
from learning_dynamics.rules import Adam, DiagonalFisher, GradientDescent

playwright = pytest.importorskip("playwright.sync_api", reason="Python's playwright is in requirements.txt")

ROOT = Path(__file__).resolve().parents[2]
WIDGETS = ROOT / "book/_static/widgets"

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>moving part</title>
<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">
<link rel="stylesheet" href="widgets/widgets.css">
<script defer src="widgets/drawing.js"></script><script defer src="widgets/{script}"></script></head>
<body><div class="ld-widget" data-widget="{name}" {options}><img src="widgets/hypentropy_ball.png" alt="static"></div>
</body></html>"""

NAMES = sorted(path.stem.replace("_", "-") for path in WIDGETS.glob("*.js") if path.stem != "drawing")

X = np.array([[1.0, 2.0]])
Y = np.array([2.0])


def sub_page(name: str, options: str = "") -> str:
    return PAGE.format(name=name, script=name.replace("-", "_") + ".js", options=options)


# ------------------------------------------------------------------------------------------------ reading the display


def decimals(text: str) -> list[float]:
    """The decimal numbers of a displayed text, with its typographic minus."""
    return [float(word) for word in re.findall(r"-?\d+(?:\.\d+)?", text.replace("−", "-"))]


def scientific(text: str) -> float:
    """A displayed number such as 46.6 or 8.0×10⁻⁴."""
    plain = text.translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻−", "0123456789--")).split(",")[0].split()[0]
    mantissa, _, exponent = plain.partition("×10")
    return float(mantissa) * 10.0 ** int(exponent or 0)


# ------------------------------------------------------------------------------------------------------ the test bench


class Bench:
    """A browser, a local server and the complaints that the pages made."""

    def __init__(self, browser: playwright.Browser, folder: Path, address: str) -> None:
        self.browser, self.folder, self.address = browser, folder, address
        self.complaints: list[str] = []
        self.requests: list[str] = []

    def page(self, path: str, *, width: int = 760, still: bool = True, **options: object) -> playwright.Page:
        motion = "reduce" if still else "no-preference"
        page = self.browser.new_page(
            viewport={"width": width, "height": 1000}, reduced_motion=motion, **options
        )
        page.set_default_timeout(10_000)
        page.on("console", self.hear)
        page.on("pageerror", lambda error: self.complaints.append(f"{error} {error.stack}"))
        page.on("requestfailed", lambda request: self.complaints.append(request.url))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(f"{self.address}/{path}")
        return page

    def hear(self, message: playwright.ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.text} ({message.location['url']})")

    def widget(self, name: str, attributes: str = "", **options: object) -> playwright.Page:
        (self.folder / f"{name}.html").write_text(sub_page(name, attributes), encoding="utf-8")
        page = self.page(f"{name}.html", **options)
        page.wait_for_selector(f'[data-widget="{name}"][data-ready="true"]')
        return page


@pytest.fixture
def browser(chromium: playwright.Browser) -> playwright.Browser:
    """The one browser of all tests."""
    return chromium


@pytest.fixture
def bench(browser: playwright.Browser, tmp_path: Path) -> Iterator[Bench]:
    """A bench on the widgets' own folder; afterwards: no complaint, and no request to another host."""
    shutil.copytree(WIDGETS, tmp_path / "widgets")
    server = serve(tmp_path)
    bench = Bench(browser, tmp_path, f"http://127.0.0.1:{server.server_port}")
    yield bench
    for context in browser.contexts:
        context.close()
    server.shutdown()
    server.server_close()
    assert bench.complaints == []
    assert [url for url in bench.requests if not url.startswith((bench.address, "data:"))] == []


def shown(page: playwright.Page, quantity: str) -> str:
    return page.inner_text(f'[data-quantity="{quantity}"]')


def slide(page: playwright.Page, name: str, value: float) -> None:
    """Move a range input with the mouse, to the place of a value; the last steps by arrow keys."""
    slider = page.locator(f'input[name="{name}"]')
    low, high, step = (float(slider.get_attribute(key)) for key in ("min", "max", "step"))
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    page.mouse.click(
        box["x"] + 8 + (box["width"] - 16) * (value - low) / (high - low), box["y"] + box["height"] / 2
    )
    missing = round((value - float(slider.input_value())) / step)
    assert abs(missing) <= 3, "the slider does not follow the mouse"
    for _ in range(abs(missing)):
        slider.press("ArrowRight" if missing > 0 else "ArrowLeft")


# --------------------------------------------------------------------------------------------------------- the scripts


@pytest.mark.parametrize("script", sorted(path.name for path in WIDGETS.glob("*.js")))
def test_script_is_small_and_loads_nothing(script: str) -> None:
    text = (WIDGETS / script).read_text(encoding="utf-8")
    assert len(text.encode()) < 30_000
    assert re.findall(r"\b(?:fetch|import|XMLHttpRequest|WebSocket|eval)\b\s*\(", text) == []
    assert set(re.findall(r"https?://[^\s\"']+", text)) <= {"http://www.w3.org/2000/svg"}


def test_static_picture_is_small() -> None:
    assert (WIDGETS / "hypentropy_ball.png").stat().st_size < 60_000


# -------------------------------------------------------------------------------------------------------- minimum norm


def predicted_end(start: np.ndarray, angle: float, ratio: float) -> np.ndarray:
    """theta_0 + P X^T (X P X^T)^+ (y - X theta_0), with P from its eigenvectors."""
    c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    turn = np.array([[c, -s], [s, c]])
    P = turn @ np.diag([ratio, 1.0]) @ turn.T
    return start + P @ X.T @ np.linalg.pinv(X @ P @ X.T) @ (Y - X @ start)


def library_run(start: np.ndarray, angle: float, ratio: float) -> np.ndarray:
    """Gradient descent of the library in the chart theta = P^(1/2) phi, where it is preconditioned by P."""
    c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    root = torch.tensor([[c, -s], [s, c]]) @ torch.diag(torch.tensor([math.sqrt(ratio), 1.0]))
    A = torch.tensor(X) @ root.double()
    rule = GradientDescent(step_size=0.35 / float(A @ A.T))
    phi = torch.linalg.solve(root.double(), torch.tensor(start))
    state = rule.start(phi)
    for _ in range(60):
        phi, state = rule.step(phi, A.T @ (A @ phi - torch.tensor(Y)), state)
    return (root.double() @ phi).numpy()


def library_adam(start: np.ndarray, steps: int = 1500) -> np.ndarray:
    rule = Adam(step_size=lambda k: 0.1 * 0.99**k)
    theta, data, target = torch.tensor(start), torch.tensor(X), torch.tensor(Y)
    state = rule.start(theta)
    for _ in range(steps):
        theta, state = rule.step(theta, data.T @ (data @ theta - target), state)
    return theta.numpy()


def compare_minimum_norm(page: playwright.Page, *, ran: bool) -> None:
    """Every number on display against the references, from the settings on display."""
    start = np.array(decimals(shown(page, "start")))
    angle = float(page.input_value('input[name="angle"]'))
    ratio = float(page.input_value('input[name="ratio"]'))
    end = predicted_end(start, angle, ratio)
    assert decimals(shown(page, "angle")) == [angle]
    assert decimals(shown(page, "ratio"))[0] == ratio
    assert decimals(shown(page, "end")) == pytest.approx(end, abs=5.1e-5)
    least = np.linalg.pinv(X) @ Y
    assert decimals(shown(page, "distance")) == pytest.approx([np.linalg.norm(end - least)], abs=5.1e-5)
    assert decimals(shown(page, "norm")) == pytest.approx([np.linalg.norm(end)], abs=5.1e-5)
    if not ran:
        assert shown(page, "run") == "not run yet"
        return
    assert decimals(shown(page, "run"))[:3] == pytest.approx(
        [*library_run(start, angle, ratio), 60], abs=5.1e-5
    )
    gap = shown(page, "run").split("steps, ")[1].split()[0]
    assert scientific(gap) < 1e-10


@needs_chromium
def test_minimum_norm_starts_as_the_figure(bench: Bench) -> None:
    page = bench.widget("minimum-norm")
    assert page.locator("img").count() == 0, "the static picture is replaced"
    assert page.locator(".handle").count() == 5
    assert shown(page, "start") == "(0.00, 0.00)"
    assert shown(page, "end") == "(0.4000, 0.8000)"
    compare_minimum_norm(page, ran=True)
    assert page.get_attribute('[data-part="readout"]', "aria-live") == "polite"


@needs_chromium
def test_minimum_norm_by_keyboard(bench: Bench) -> None:
    page = bench.widget("minimum-norm")
    page.keyboard.press("Tab")
    for _ in range(7):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("Shift+ArrowUp")
    assert shown(page, "start") == "(−0.70, 0.01)"
    assert page.get_attribute(".handle.active", "aria-valuetext") == "(−0.70, 0.01)"
    compare_minimum_norm(page, ran=False)
    for _ in range(5):
        page.keyboard.press("Tab")
    for _ in range(30):
        page.keyboard.press("ArrowRight")  # stretch
    page.keyboard.press("Tab")
    for _ in range(25):
        page.keyboard.press("ArrowLeft")  # angle
    assert (page.input_value('input[name="ratio"]'), page.input_value('input[name="angle"]')) == ("4", "-25")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # run
    compare_minimum_norm(page, ran=True)


@needs_chromium
def test_minimum_norm_by_slider(bench: Bench) -> None:
    page = bench.widget("minimum-norm")
    slide(page, "ratio", 7.3)
    slide(page, "angle", 31)
    compare_minimum_norm(page, ran=False)
    page.click('button[name="run"]')
    compare_minimum_norm(page, ran=True)
    page.click('button[name="reset"]')
    assert shown(page, "end") == "(0.4000, 0.8000)"


@needs_chromium
@pytest.mark.parametrize("width", [760, 390])
def test_minimum_norm_by_drag(bench: Bench, width: int) -> None:
    page = bench.widget("minimum-norm", width=width, still=False)
    slide(page, "ratio", 2.5)
    page.locator('.handle[data-start="1"]').scroll_into_view_if_needed()
    box = page.locator('.handle[data-start="1"] .dot').bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 20, y + 10)
    page.mouse.move(x + 60, y + 31)
    page.mouse.up()
    scale = page.evaluate("document.querySelector('svg').viewBox.baseVal.width") / 5
    expected = [-1.4 + 60 / scale, 0.2 - 31 / scale]
    assert decimals(shown(page, "start")) == pytest.approx(expected, abs=0.02)
    compare_minimum_norm(page, ran=False)
    page.click('button[name="run"]')
    page.wait_for_function(
        "document.querySelector('[data-quantity=run]').textContent.includes('after 60 steps')"
    )
    compare_minimum_norm(page, ran=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@needs_chromium
def test_minimum_norm_adam_misses(bench: Bench) -> None:
    page = bench.widget("minimum-norm")
    slide(page, "ratio", 3)
    page.check('input[name="adam"]')
    expected = library_adam(np.zeros(2))
    assert decimals(shown(page, "adam"))[:2] == pytest.approx(expected, abs=5.1e-5)
    assert X @ expected == pytest.approx(Y, abs=1e-6), "Adam fits the data"
    miss = np.linalg.norm(expected - predicted_end(np.zeros(2), 0, 3))
    assert decimals(shown(page, "adam"))[3] == pytest.approx(miss, abs=5.1e-5)
    assert miss > 0.1
    for steps in (1, 7, 40):
        path = page.evaluate(f"window.learningDynamics.minimumNorm.adam([-1.4, 0.2], {steps})")
        assert path[-1] == pytest.approx(library_adam(np.array([-1.4, 0.2]), steps), abs=1e-12)


@needs_chromium
def test_minimum_norm_takes_starts_from_the_page(bench: Bench) -> None:
    page = bench.widget("minimum-norm", 'data-starts="1,1; -0.5,0.25" data-angle="10" data-ratio="2"')
    assert page.locator(".handle").count() == 2
    compare_minimum_norm(page, ran=True)


# ----------------------------------------------------------------------------------------------------- hypentropy ball


def q(z: np.ndarray) -> np.ndarray:
    return 2 - np.sqrt(4 + z**2) + z * np.arcsinh(z / 2)


def least_potential(alpha: float) -> np.ndarray:
    """argmin of Q_alpha on the solution line, by scipy on the line's own coordinate."""

    def on_line(t: float) -> np.ndarray:
        return np.array([2 - 2 * t, t])

    def value(t: float) -> float:
        return float(alpha**2 * np.sum(q(on_line(t) / alpha**2)))

    return on_line(minimize_scalar(value, bounds=(0, 1), method="bounded", options={"xatol": 1e-12}).x)


def flow_end(alpha: float) -> tuple[np.ndarray, float]:
    """Where gradient flow on w+ and w- ends, and the largest relative change of the kernel's weights."""
    data = torch.tensor(X[0])

    def field(w: torch.Tensor, t: float) -> torch.Tensor:
        plus, minus = w[:2], w[2:]
        residual = data @ (plus**2 - minus**2) - 2.0
        return -2 * residual * torch.cat([data * plus, -data * minus])

    start = torch.full((4,), alpha, dtype=torch.float64)
    w = flows.gradient_flow(field, start, [0.0, 12.0], method="LSODA").values[-1]
    kernel = w[:2] ** 2 + w[2:] ** 2
    return (w[:2] ** 2 - w[2:] ** 2).numpy(), float(torch.max(kernel / (2 * alpha**2) - 1))


def compare_hypentropy(page: playwright.Page) -> float:
    """Every number on display against scipy's minimiser and the library's flow; returns alpha."""
    alpha = 10 ** float(page.input_value('input[name="alpha"]'))
    end, change = flow_end(alpha)
    assert scientific(shown(page, "alpha")) == pytest.approx(alpha, rel=0.05)
    assert decimals(shown(page, "end")) == pytest.approx(end, abs=6e-5)
    assert decimals(shown(page, "end")) == pytest.approx(least_potential(alpha), abs=1e-4)
    assert decimals(shown(page, "to-l1")) == pytest.approx([np.linalg.norm(end - [0, 1])], abs=6e-5)
    assert decimals(shown(page, "to-l2")) == pytest.approx([np.linalg.norm(end - [0.4, 0.8])], abs=6e-5)
    assert scientific(shown(page, "kernel")) == pytest.approx(change, rel=0.06)
    needle = page.evaluate(
        "(() => { const n = document.querySelector('.needle'); return ['x1','y1','x2','y2'].map("
        "k => Number(n.getAttribute(k))); })()"
    )
    turn = math.atan2(needle[1] - needle[3], needle[2] - needle[0])
    assert -6 + 14 * (1 - turn / math.pi) == pytest.approx(math.log10(change), abs=0.01)
    touches(page)
    return alpha


def touches(page: playwright.Page) -> None:
    """In pixels: the drawn ball lies on one side of the drawn line and meets it at the drawn end point."""
    drawn = page.evaluate("""(() => {
        const get = (part, ...keys) => keys.map(
            k => Number(document.querySelector(`[data-part="${part}"]`).getAttribute(k)));
        const ball = document.querySelector('[data-part="ball"]').getAttribute("d");
        return { line: get("line", "x1", "y1", "x2", "y2"), end: get("end", "cx", "cy"),
                 ball: ball.slice(1, -1).split("L").map(p => p.split(" ").map(Number)) };
    })()""")
    x1, y1, x2, y2 = drawn["line"]
    normal = np.array([y1 - y2, x2 - x1]) / math.hypot(x2 - x1, y2 - y1)
    ball = np.array(drawn["ball"])
    above = (ball - [x1, y1]) @ normal  # pixels below the line are positive: the y axis points down
    assert above.min() > -0.05
    assert abs((np.array(drawn["end"]) - [x1, y1]) @ normal) < 0.02
    corners = np.concatenate([ball, ball[:1]])
    assert distance_to_polygon(np.array(drawn["end"]), corners) < 0.2


def distance_to_polygon(point: np.ndarray, corners: np.ndarray) -> float:
    a, b = corners[:-1], corners[1:]
    length = np.maximum(np.sum((b - a) ** 2, axis=1), 1e-30)
    share = np.clip(np.sum((point - a) * (b - a), axis=1) / length, 0, 1)[:, None]
    return float(np.min(np.linalg.norm(a + share * (b - a) - point, axis=1)))


@needs_chromium
def test_hypentropy_starts_as_the_picture(bench: Bench) -> None:
    page = bench.widget("hypentropy-ball")
    assert page.locator("img").count() == 0
    assert compare_hypentropy(page) == pytest.approx(0.1)
    assert shown(page, "end") == "(0.0965, 0.9517)"


def by_keyboard(page: playwright.Page) -> None:
    page.keyboard.press("Tab")
    for _ in range(13):
        page.keyboard.press("ArrowRight")


def by_slider(page: playwright.Page) -> None:
    slide(page, "alpha", 0.4)


def by_drag(page: playwright.Page) -> None:
    box = page.locator('input[name="alpha"]').bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 8 + (box["width"] - 16) * 0.6, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, middle)
    page.mouse.move(box["x"] + box["width"] * 0.37, middle)
    page.mouse.up()


@needs_chromium
@pytest.mark.parametrize(
    ("setting", "low", "high"), [(by_keyboard, 0.4, 0.5), (by_slider, 2.4, 2.6), (by_drag, 3e-3, 2e-2)]
)
def test_hypentropy_displays_the_minimiser(
    bench: Bench, setting: Callable[[playwright.Page], None], low: float, high: float
) -> None:
    page = bench.widget("hypentropy-ball", width=390 if setting is by_drag else 760)
    setting(page)
    assert low < compare_hypentropy(page) < high
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]


@needs_chromium
def test_hypentropy_formulas_at_the_extremes(bench: Bench) -> None:
    """Far outside the slider: tiny scales do not overflow, large ones do not cancel."""
    page = bench.widget("hypentropy-ball")
    call = "window.learningDynamics.hypentropyBall"
    for alpha in (1e-60, 1e-16, 1e-8):
        first, second = page.evaluate(f"{call}.minimiser([1, 2], 2, {alpha})")
        # beta_2 = 2 beta_1 cosh(nu) with exp(nu) = 1/alpha at leading order: beta_1 = alpha, up to its own square
        assert first == pytest.approx(alpha, rel=2 * alpha + 1e-12)
        assert first + 2 * second == pytest.approx(2, rel=1e-12)
    assert page.evaluate(f"{call}.minimiser([1, 2], 2, 1e4)") == pytest.approx([0.4, 0.8], rel=1e-14)
    assert page.evaluate(f"{call}.kernelChange([0.4, 0.8], 1e4)") == pytest.approx(0.64 / 8e16, rel=1e-12)
    for z in (1e-9, -1e-3, 0.03, 0.3):
        series = z**2 / 4 - z**4 / 192 + z**6 / 2560 - 5 * z**8 / 114688 + 35 * z**10 / 10 / 589824
        assert page.evaluate(f"{call}.q({z})") == pytest.approx(series, rel=1e-9)
    for z in (1.0, -7.5, 1e3, 1e6):
        assert page.evaluate(f"{call}.q({z})") == pytest.approx(float(q(np.array(z))), rel=1e-13)
    polygon = np.array(page.evaluate(f"{call}.boundary({call}.minimiser([1, 2], 2, 1e-100), 1e-100)"))
    assert np.max(np.abs(np.abs(polygon).sum(axis=1) - 1)) < 0.01, "a diamond, up to 1/log"


@needs_chromium
def test_hypentropy_moves_by_itself_and_pauses(bench: Bench) -> None:
    page = bench.widget("hypentropy-ball", 'data-autoplay="true"', still=False)
    before = shown(page, "end")
    page.wait_for_function("t => document.querySelector('[data-quantity=end]').textContent !== t", arg=before)
    assert page.get_attribute('[data-part="readout"]', "aria-live") == "off"
    page.click('button[name="play"]')
    assert page.inner_text('button[name="play"]') == "Play"
    at_rest = shown(page, "end")
    page.wait_for_timeout(200)
    assert shown(page, "end") == at_rest
    assert page.get_attribute('[data-part="readout"]', "aria-live") == "polite"


@needs_chromium
def test_hypentropy_keeps_still_when_asked(bench: Bench) -> None:
    page = bench.widget("hypentropy-ball", 'data-autoplay="true"')
    page.wait_for_timeout(200)
    assert shown(page, "end") == "(0.0965, 0.9517)"
    assert page.inner_text('button[name="play"]') == "Play"


# ------------------------------------------------------------------------------------------------------ preconditioner


def library_preconditioner(discount: float, mixing: float) -> np.ndarray:
    same = torch.full((6, 6), 1 / 6, dtype=torch.float64)
    S = torch.kron(torch.tensor([[1 - mixing, mixing], [mixing, 1 - mixing]], dtype=torch.float64), same)
    return fixed_points.weight_space_preconditioner(
        S.log(), torch.zeros(12, dtype=torch.float64), discount
    ).matrix.numpy()


def compare_preconditioner(page: playwright.Page, discount: float, mixing: float) -> None:
    """The formula, the numbers on display, the colours and the marks of the eigenvalues against the library."""
    P = library_preconditioner(discount, mixing)
    found = page.evaluate(f"window.learningDynamics.preconditioner.matrix({discount}, {mixing})")
    assert np.array(found) == pytest.approx(P, rel=1e-11, abs=1e-11)
    for quantity, value in (("diagonal", P[0, 0]), ("inside", P[0, 1]), ("across", P[0, 6])):
        assert decimals(shown(page, quantity)) == pytest.approx([value], abs=5.1e-5)
    values = np.linalg.eigvalsh(P)  # ascending: ten ones, the groups, the ones
    assert decimals(shown(page, "end"))[:2] == pytest.approx([values[11], values[10]], abs=5.1e-3)
    assert values[:10] == pytest.approx(np.ones(10))
    assert decimals(shown(page, "share")) == pytest.approx([100 * values[11] / P.trace()], abs=0.051)
    x, bright = page.evaluate("""[Number(document.querySelector("[data-part=groups]").getAttribute("cx")),
        [...document.querySelectorAll(".heat rect")].map(e => getComputedStyle(e).fill)]""")
    assert 10 ** ((x - 14) / 53) == pytest.approx(values[10], rel=1e-6)
    green = np.array([int(re.findall(r"\d+", colour)[1]) for colour in bright])  # rises along viridis
    order = np.argsort(np.round(P.ravel(), 9), kind="stable")
    assert (np.diff(green[order]) >= 0).all()
    assert green.max() == 231


@needs_chromium
@pytest.mark.parametrize(("discount", "mixing"), [(0.9, 0.5), (0.9, 0.01), (0.5, 0.1)])
def test_preconditioner_displays_the_matrix(bench: Bench, discount: float, mixing: float) -> None:
    page = bench.widget("preconditioner", f'data-discount="{discount}" data-mixing="{mixing}"')
    compare_preconditioner(page, discount, mixing)


@needs_chromium
def test_preconditioner_starts_as_the_figure_and_obeys_the_keyboard(bench: Bench) -> None:
    page = bench.widget("preconditioner", width=390)
    assert page.locator("img").count() == 0
    assert (shown(page, "discount"), shown(page, "mixing")) == ("0.90", "0.5")
    compare_preconditioner(page, 0.9, 0.5)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Tab")
    for _ in range(40):
        page.keyboard.press("ArrowLeft")
    assert shown(page, "discount") == "0.91"
    compare_preconditioner(page, 0.91, 0.001 * 500**0.8)
    page.keyboard.press("Home")
    compare_preconditioner(page, 0.91, 0.001)


# -------------------------------------------------------------------------------------------------------- chaotic step

SCHEDULES = {"constant": (0.1, 0.0), "root": (0.1, 0.5), "inverse": (0.3, 1.0)}


def library_chaos(q: float, schedule: str, starts: torch.Tensor, steps: int) -> np.ndarray:
    """Iterates `(steps + 1, starts)`."""
    rule = DiagonalFisher(power_schedule(*SCHEDULES[schedule]), exponent=q)
    run = ensembles.iterate(rule, lambda theta, k: theta, starts[:, None], steps, range(steps + 1))
    return run.values[..., 0].numpy()


@needs_chromium
@pytest.mark.parametrize(
    ("q", "schedule", "phrase"),
    [(1.0, "constant", "does not come down"), (0.25, "constant", "two-cycle"), (0.75, "root", "follows")],
)
def test_chaotic_step_displays_the_run(bench: Bench, q: float, schedule: str, phrase: str) -> None:
    """Few steps, as chaos amplifies rounding; where the law or the cycle is known, the end as well."""
    page = bench.widget("chaotic-step", f'data-exponent="{q}" data-schedule="{schedule}"')
    call = "window.learningDynamics.chaoticStep"
    quantiles = 0.3 * torch.tan(math.pi * ((torch.arange(201, dtype=torch.float64) + 0.5) / 201 - 0.5))
    assert page.evaluate(f"{call}.starts()") == pytest.approx(quantiles.numpy(), rel=1e-12, abs=1e-14)
    one = library_chaos(q, schedule, torch.tensor([0.7], dtype=torch.float64), 10)[:, 0]
    given = f"{q}, {call}.SCHEDULES.{schedule}"
    assert page.evaluate(f"{call}.run({given}, 10)") == pytest.approx(one, rel=1e-10)
    medians = np.median(np.abs(library_chaos(q, schedule, quantiles, 10)), axis=1)
    assert page.evaluate(f"{call}.medians({given}, 10)") == pytest.approx(medians, rel=1e-9)
    assert phrase in shown(page, "end")
    c, a = SCHEDULES[schedule]
    sizes = c * (torch.arange(1000, dtype=torch.float64) + 1) ** -a
    assert scientific(shown(page, "fisher")) == pytest.approx(0.3 * float(torch.prod(1 - sizes)), rel=0.06)
    assert page.locator('[data-quantity="law"]').is_visible() == (q == 1)
    assert page.locator('[data-quantity="cycle"]').is_visible() == (q == 0.25)
    if q == 1:
        law = cauchy_scales(0.3, sizes).numpy()
        assert page.evaluate(f"{call}.cauchyScales({call}.SCHEDULES.{schedule})") == pytest.approx(law)
        assert scientific(shown(page, "law")) == pytest.approx(law[-1], rel=5e-3)
        assert law[-1] / 2 < scientific(shown(page, "median")) < 2 * law[-1]
    if q == 0.25:
        cycle = float(two_cycle(c, q))
        assert scientific(shown(page, "cycle")) == pytest.approx(cycle, rel=0.02)
        assert scientific(shown(page, "median")) == pytest.approx(cycle, rel=0.02)
        assert abs(page.evaluate(f"{call}.run({given}).at(-1)")) == pytest.approx(cycle, rel=1e-9)


@needs_chromium
def test_chaotic_step_starts_as_the_figure_and_obeys_the_keyboard(bench: Bench) -> None:
    page = bench.widget("chaotic-step", width=390)
    assert page.locator("img").count() == 0
    assert shown(page, "exponent") == "1.00"
    assert page.locator('input[value="constant"]').is_checked()
    assert page.locator('[data-part="cobweb"]').get_attribute("d") != ""
    page.keyboard.press("Tab")
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    assert shown(page, "exponent") == "0.75"
    assert page.locator('input[value="root"]').is_checked()
    assert shown(page, "end") == "q = 0.75: wanders, and follows the step size down."
    assert page.locator('[data-part="cobweb"]').get_attribute("d") == ""


# --------------------------------------------------------------------------------------------------------- five charts


def compare_coins(page: playwright.Page, start: float, eta: float, weight: float) -> None:
    call, p = "window.learningDynamics.fiveCharts", torch.tensor(start, dtype=torch.float64)
    ends = {}
    for name, chart in curvature.coin_charts().items():
        ends[name] = float(curvature.step_in_chart(lambda q: 0.5 - q, chart, p, eta, weight))
        displayed = page.evaluate(f"{call}.step('{name}', {start}, {eta}, {weight})")
        assert displayed == pytest.approx(ends[name], rel=1e-9, abs=1e-12)
        assert decimals(shown(page, name.replace(" ", "-"))) == [pytest.approx(ends[name], abs=5.1e-5)]
    apart = max(ends.values()) - min(ends.values())
    for quantity, value in (
        ("spread", apart),
        ("ratio", apart / eta**2),
    ):  # two digits below 0.01, else three
        assert scientific(shown(page, quantity)) == pytest.approx(value, rel=0.006 if value >= 0.01 else 0.06)
    assert page.evaluate(f"{call}.flow({start}, 1)") == pytest.approx(0.5 + (start - 0.5) / math.e)


@needs_chromium
@pytest.mark.parametrize(("start", "eta", "weight"), [(0.95, 1.0, 0.0), (0.8, 0.25, 0.0), (0.95, 1.0, 0.5)])
def test_five_charts_display_the_step_of_the_library(
    bench: Bench, start: float, eta: float, weight: float
) -> None:
    page = bench.widget("five-charts", f'data-start="{start}" data-eta="{eta}" data-weight="{weight}"')
    compare_coins(page, start, eta, weight)
    call, x = "window.learningDynamics.fiveCharts", [-7.0, -3.1, -2.9, -0.4, 0.0, 1.7]
    assert page.evaluate(f"{x}.map({call}.normal)") == pytest.approx(ndtr(x), rel=1e-12)
    assert page.evaluate(f"[0.003, 0.3, 0.98].map({call}.quantile)") == pytest.approx(
        ndtri([0.003, 0.3, 0.98])
    )


@needs_chromium
def test_five_charts_start_as_the_figure_and_obey_the_keyboard(bench: Bench) -> None:
    page = bench.widget("five-charts", width=390)
    assert page.locator("img").count() == 0
    compare_coins(page, 0.95, 1.0, 0.0)
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    page.keyboard.press("Tab")
    for _ in range(10):
        page.keyboard.press("ArrowLeft")
    compare_coins(page, 0.55, 0.5, 0.0)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    assert page.locator('input[value="0.5"]').is_checked()
    compare_coins(page, 0.55, 0.5, 0.5)


# ---------------------------------------------------------------------------------------------------------- tug of war


def library_tug(ratio: float) -> tuple[np.ndarray, np.ndarray]:
    """Paths of SPS with a decreasing factor and of DecSPS, with the fixed draws."""
    draws = ((torch.arange(400, dtype=torch.float64) * 0.6180339887498949 + 0.5) % 1 >= 0.5).long()
    center = torch.tensor([1.0, -1.0], dtype=torch.float64)[draws]
    curvature = torch.tensor([ratio, 1.0], dtype=torch.float64)[draws]

    def oracle(theta: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        pull = curvature[k] * (theta - center[k])
        return (pull**2 / (2 * curvature[k])).sum(-1), pull

    start = torch.full((1,), 2.5, dtype=torch.float64)
    chosen = (rules.SPS(cap=math.inf, c=lambda k: math.sqrt(k + 1)), rules.DecSPS())
    sps, decsps = (ensembles.iterate(rule, oracle, start, 400, range(401)).values[:, 0] for rule in chosen)
    return sps.numpy(), decsps.numpy()


def compare_tug(page: playwright.Page, ratio: float) -> None:
    call = "window.learningDynamics.tugOfWar"
    sps, decsps = library_tug(ratio)
    assert page.evaluate(f"{call}.sps({call}.fixedDraws())") == pytest.approx(sps, abs=1e-11)
    assert page.evaluate(f"{call}.decsps({call}.fixedDraws(), {ratio})") == pytest.approx(decsps, abs=1e-11)
    best = (ratio - 1) / (ratio + 1)
    for quantity, value in (("sps", sps[-1]), ("decsps", decsps[-1]), ("minimizer", best)):
        assert decimals(shown(page, quantity)) == pytest.approx([value], abs=5.1e-5)
    drawn = page.evaluate("""(() => {
        const get = part => document.querySelector(`[data-part=${part}]`);
        const end = get("decsps").getAttribute("d").split(" ").at(-1);
        return [Number(get("minimizer").getAttribute("y1")), Number(end)];
    })()""")
    assert (drawn[0] - drawn[1]) * 2.5 / 196 == pytest.approx(decsps[-1] - best, abs=1e-3), (
        "pixels of the two"
    )


@needs_chromium
@pytest.mark.parametrize("ratio", [1.0, 2.0, 5.0])
def test_tug_of_war_displays_the_runs(bench: Bench, ratio: float) -> None:
    page = bench.widget("tug-of-war", f'data-ratio="{ratio}"')
    compare_tug(page, ratio)
    assert ("no bias" in shown(page, "end")) == (ratio == 1)


@needs_chromium
def test_tug_of_war_starts_as_the_figure_and_obeys_the_keyboard(bench: Bench) -> None:
    page = bench.widget("tug-of-war", width=390)
    assert page.locator("img").count() == 0
    assert shown(page, "ratio") == "2"
    compare_tug(page, 2.0)
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    compare_tug(page, 10.0)
    page.keyboard.press("Home")
    compare_tug(page, 0.2)
    before = shown(page, "decsps")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # draw again
    assert shown(page, "decsps") != before
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # reset
    compare_tug(page, 2.0)


# ------------------------------------------------------------------------------------------------------ added constant


def library_gaps(sigma: float, curvature: float, constant: float) -> np.ndarray:
    """Height of NGN over the minimum, thirty steps."""

    def oracle(theta: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        return curvature * theta[..., 0] ** 2 / 2 + constant, curvature * theta

    start = torch.full((1,), 2.0, dtype=torch.float64)
    theta = ensembles.iterate(rules.NGN(sigma), oracle, start, 30, range(31)).values[:, 0].numpy()
    return curvature * theta**2 / 2


def compare_added_constant(page: playwright.Page, constant: float, sigma: float, curvature: float) -> None:
    call = "window.learningDynamics.addedConstant"
    for c, quantity in ((constant, "with"), (0.0, "without")):
        expected = library_gaps(sigma, curvature, c)
        path = np.array(page.evaluate(f"{call}.ngn({sigma}, {curvature}, {c})"))
        assert curvature * path**2 / 2 == pytest.approx(expected, rel=1e-9, abs=1e-300)
        text = shown(page, quantity)
        if expected[-1] < 1e-15:
            assert text == "below 10⁻¹⁵"
        else:
            assert scientific(text) == pytest.approx(expected[-1], rel=0.06)
    rho = sigma * curvature
    height = constant * max(rho - 2, 0) / (rho + 2)
    assert page.evaluate(f"{call}.height({sigma}, {curvature}, {constant})") == pytest.approx(
        height, rel=1e-12
    )
    assert decimals(shown(page, "height")) == pytest.approx([height], abs=5.1e-5)
    assert (shown(page, "descent") == "diverges") == (rho > 2)
    rings = page.locator('[data-part="ring"]')
    assert rings.first.get_attribute("visibility") == ("visible" if height > 0 else "hidden")
    if height > 0:  # the predicted pair is a cycle of the library's own step
        theta = torch.tensor([math.sqrt(2 * height / curvature)], dtype=torch.float64)
        rule = rules.NGN(sigma)
        loss = curvature * theta[0] ** 2 / 2 + constant
        moved, state = rule.step(theta, curvature * theta, rule.start(theta), loss)
        assert moved.item() == pytest.approx(-theta.item(), rel=1e-12)
        step = shown(page, "end").split("2/λ = ")[1].rstrip(".").split(". ")[0]
        assert scientific(step) == pytest.approx(2 / curvature, rel=5e-3)
        assert page.evaluate(
            f"{call}.stepSize({theta.item()}, {sigma}, {curvature}, {constant})"
        ) == pytest.approx(2 / curvature)


@needs_chromium
@pytest.mark.parametrize(
    ("constant", "sigma", "curvature"), [(0.5, 4.0, 1.0), (1.0, 1.5, 1.0), (2.0, 2.0, 3.0)]
)
def test_added_constant_displays_the_runs(
    bench: Bench, constant: float, sigma: float, curvature: float
) -> None:
    given = f'data-constant="{constant}" data-sigma="{sigma}" data-curvature="{curvature}"'
    compare_added_constant(bench.widget("added-constant", given), constant, sigma, curvature)


@needs_chromium
def test_added_constant_starts_as_the_figure_and_obeys_the_keyboard(bench: Bench) -> None:
    page = bench.widget("added-constant", width=390)
    assert page.locator("img").count() == 0
    assert [shown(page, name) for name in ("constant", "sigma", "curvature")] == ["0.50", "4", "1"]
    compare_added_constant(page, 0.5, 4.0, 1.0)
    page.keyboard.press("Tab")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    compare_added_constant(page, 0.65, 4.0, 1.0)
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    compare_added_constant(page, 0.65, 1000.0, 1.0)
    assert "settles slowly" in shown(page, "end")
    page.keyboard.press("Home")
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    compare_added_constant(page, 0.65, 0.1, 5.0)


# --------------------------------------------------------------------------------------------------- the damped coin


def coin_path(damping: float, step: float, start: float) -> list[float]:
    """The library's damped step on the coin's gradient and Fisher matrix."""
    z, path = torch.tensor([start], dtype=torch.float64), [start]
    for _ in range(60):
        if abs(path[-1]) >= 700:
            break
        fisher = (1 / (4 * torch.cosh(z / 2) ** 2))[:, None]
        z = z + step * curvature.damped_step(fisher, torch.tanh(z / 2) / 2, damping)
        path.append(z.item())
    return path


def coin_threshold(step: float) -> float:
    def phi(z: float) -> float:
        return step * math.tanh(z / 2) / (4 * z) - 1 / (4 * math.cosh(z / 2) ** 2)

    return -minimize_scalar(
        lambda z: -phi(z), bounds=(0.5, 30), method="bounded", options={"xatol": 1e-10}
    ).fun


def compare_damped_coin(page: playwright.Page, damping: float, step: float, start: float) -> None:
    call = "window.learningDynamics.dampedCoin"
    path = coin_path(damping, step, start)
    shown_path = page.evaluate(
        f"{call}.run({damping}, {step}, {start}).map(z => Math.min(Math.max(z, -1e300), 1e300))"
    )
    expected = np.clip(path, -1e300, 1e300)
    assert shown_path == pytest.approx(expected, rel=1e-8, abs=1e-12)
    assert decimals(shown(page, "threshold")) == pytest.approx([coin_threshold(step)], abs=5.1e-5)
    factor = abs(1 - step / (1 + 4 * damping))
    assert decimals(shown(page, "factor")) == pytest.approx([factor], abs=5.1e-4)
    if damping > coin_threshold(step):
        assert shown(page, "edge") == "everywhere"
    else:
        (edge,) = decimals(shown(page, "edge"))
        first = coin_path(damping, step, 0.999 * edge)
        beyond = coin_path(damping, step, 1.001 * edge)
        assert abs(first[1]) < first[0] and abs(beyond[1]) > beyond[0]
    end = shown(page, "end")
    if abs(path[-1]) >= 700:
        assert f"lost: beyond 700 after {len(path) - 1} steps" in end
    elif abs(path[-1]) < 1e-12:
        home = next(k for k, z in enumerate(path) if abs(z) < 1e-12)
        assert f"within 10⁻¹² after {home} steps" in end
    else:
        assert "home" in end


@needs_chromium
@pytest.mark.parametrize(("damping", "step", "start"), [(0.0, 1.0, 2.3), (0.05, 1.0, 10.0), (0.02, 0.5, 6.0)])
def test_damped_coin_displays_the_runs(bench: Bench, damping: float, step: float, start: float) -> None:
    given = f'data-damping="{damping}" data-step="{step}" data-start="{start}"'
    compare_damped_coin(bench.widget("damped-coin", given), damping, step, start)


@needs_chromium
def test_damped_coin_obeys_the_keyboard(bench: Bench) -> None:
    page = bench.widget("damped-coin", width=390)
    assert page.locator("img").count() == 0
    compare_damped_coin(page, 0.0, 1.0, 2.3)
    page.keyboard.press("Tab")
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    compare_damped_coin(page, 0.05, 1.0, 2.3)
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    compare_damped_coin(page, 0.05, 0.05, 2.3)
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    compare_damped_coin(page, 0.05, 0.05, 12.0)


# --------------------------------------------------------------------------------------------------- the power's cycle


def compare_power_cycle(page: playwright.Page, p: float, step: float) -> None:
    """Gradient descent of the library on |x|^(1 + p) / (1 + p), and the flow of the library from 1."""

    def slope(x: torch.Tensor, t: float = 0.0) -> torch.Tensor:
        return x.sign() * x.abs() ** p

    start = torch.tensor([1.3], dtype=torch.float64)
    path = ensembles.iterate(rules.GradientDescent(step), slope, start, 200, range(201)).values[:, 0]
    call = "window.learningDynamics.powerCycle"
    assert page.evaluate(f"{call}.run({p}, {step})") == pytest.approx(path.tolist(), rel=1e-9, abs=1e-12)
    if p == 1:
        assert (shown(page, "height"), shown(page, "arrival")) == ("no cycle", "never")
        assert "parabola" in shown(page, "end")
        return
    height = path[-2:].abs()
    assert height[0].item() == pytest.approx(height[1].item(), rel=1e-6)
    assert scientific(shown(page, "height")) == pytest.approx(height[0].item(), rel=0.06)
    pushed = height[0] + 1e-6 * height[0]  # two steps multiply a small distance by the square of the factor
    back = pushed - step * slope(pushed)
    back = back - step * slope(back)
    factor = ((back - height[0]).abs() / (1e-6 * height[0])).sqrt().item()
    assert decimals(shown(page, "multiplier")) == pytest.approx([factor], abs=1.5e-3)
    one = torch.ones(1, dtype=torch.float64)
    arrived = flows.gradient_flow(
        lambda x, t: -slope(x.clamp(min=0)), one, [20.0], event=lambda x, t: x[0] - 1e-9
    ).event_time
    assert arrived is not None
    assert decimals(shown(page, "arrival")) == pytest.approx([arrived], abs=2e-3)
    assert "never arrives" in shown(page, "end")


@needs_chromium
@pytest.mark.parametrize(("p", "step"), [(0.3, 0.5), (0.6, 1.0), (1.0, 0.5)])
def test_power_cycle_displays_the_runs(bench: Bench, p: float, step: float) -> None:
    compare_power_cycle(bench.widget("power-cycle", f'data-power="{p}" data-step="{step}"'), p, step)


@needs_chromium
def test_power_cycle_obeys_the_keyboard(bench: Bench) -> None:
    page = bench.widget("power-cycle", width=390)
    assert page.locator("img").count() == 0
    assert shown(page, "power") == "1/3"
    compare_power_cycle(page, 1 / 3, 0.5)
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    compare_power_cycle(page, 1.0, 0.5)
    page.keyboard.press("Home")
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    compare_power_cycle(page, 0.1, 1.5)


# ------------------------------------------------------------------------------------------------- the noise's clock


def compare_noise_clock(page: playwright.Page, clock: float, h: float, step: float) -> None:
    """The clouds of the library, on this clock and in this well."""
    rho, lags = 1 - step, torch.arange(2000.0, dtype=torch.float64)

    def cloud(h: float) -> float:
        chi = fractional.increment_covariance(h, lags)
        return clock ** (h - 0.5) * math.sqrt(float(fractional.cloud_variance(rho, chi)))

    call = "window.learningDynamics.noiseClock"
    assert page.evaluate(f"{call}.cloud({clock}, {h}, {step})") == pytest.approx(cloud(h), rel=1e-6)
    assert scientific(shown(page, "clock")) == pytest.approx(clock, rel=0.06)
    assert decimals(shown(page, "rho")) == pytest.approx([rho], abs=5.1e-3)
    assert scientific(shown(page, "kick")) == pytest.approx(clock ** (h - 0.5), rel=0.06)
    assert scientific(shown(page, "cloud")) == pytest.approx(cloud(h), rel=0.06)
    sizes = {h: cloud(h) for h in (0.1, 0.25, 0.5, 0.75, 0.9)}
    low, high = min(sizes, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
    assert f"smallest cloud has h = {low}, the largest h = {high};" in shown(page, "order")


@needs_chromium
@pytest.mark.parametrize(("clock", "h", "step"), [(0.01, 0.1, 0.3), (100.0, 0.75, 0.3), (1.0, 0.25, 1.5)])
def test_noise_clock_displays_the_clouds(bench: Bench, clock: float, h: float, step: float) -> None:
    page = bench.widget("noise-clock", f'data-clock="{clock}" data-hurst="{h}" data-step="{step}"')
    compare_noise_clock(page, clock, h, step)


@needs_chromium
def test_noise_clock_obeys_the_keyboard(bench: Bench) -> None:
    page = bench.widget("noise-clock", width=390)
    assert page.locator("img").count() == 0
    compare_noise_clock(page, 0.01, 0.1, 0.3)
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    compare_noise_clock(page, 100.0, 0.1, 0.3)
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    compare_noise_clock(page, 100.0, 0.95, 1.95)


# ------------------------------------------------------------------------------------------------- the two-way shadow


def compare_two_way_shadow(page: playwright.Page, step: float, count: int, start: float) -> None:
    """The library's shadow of the sampled flow of a saddle, and its gradient descent."""
    call, rates = "window.learningDynamics.twoWayShadow", torch.tensor([1.0, -1.0], dtype=torch.float64)
    begin = torch.tensor([start, 1.0], dtype=torch.float64)
    flow = flows.sampled_flow(lambda theta: rates * theta, begin, step, count)
    truth = shadowing.linear_shadow(torch.diag(1 + step * rates), flow)
    rule = GradientDescent(step)
    same = ensembles.iterate(rule, lambda theta, k: -rates * theta, begin[None], count, range(count + 1))
    for name, path in (("truth", flow), ("shadow", truth), ("same", same.values[:, 0])):
        displayed = page.evaluate(f"{call}.runs({step}, {count}, {start}).{name}")
        assert np.array(displayed) == pytest.approx(path.numpy(), rel=1e-8, abs=1e-12)
    gaps = {"shadow": truth - flow, "same": same.values[:, 0] - flow}
    for name, difference in gaps.items():
        largest = float(difference.norm(dim=-1).max())
        assert scientific(shown(page, name)) == pytest.approx(largest, rel=0.06)
    assert scientific(shown(page, "shift")) == pytest.approx(float((truth - flow)[0, 0]), rel=0.06)
    gradient = float(flow.norm(dim=-1).max())  # both curvatures have size one
    assert scientific(shown(page, "bound")) == pytest.approx(2 * step * gradient, rel=0.06)
    assert float(gaps["shadow"].norm(dim=-1).max()) <= 2 * step * gradient


@needs_chromium
@pytest.mark.parametrize(("step", "count", "start"), [(0.2, 7, 0.1), (0.2, 40, 0.1), (0.06, 60, 0.004)])
def test_two_way_shadow_displays_the_runs(bench: Bench, step: float, count: int, start: float) -> None:
    given = f'data-step="{step}" data-count="{count}" data-start="{start}"'
    compare_two_way_shadow(bench.widget("two-way-shadow", given), step, count, start)


@needs_chromium
def test_two_way_shadow_starts_as_the_figure_and_obeys_the_keyboard(bench: Bench) -> None:
    page = bench.widget("two-way-shadow", width=390)
    assert page.locator("img").count() == 0
    compare_two_way_shadow(page, 0.2, 7, 0.1)
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    compare_two_way_shadow(page, 0.5, 7, 0.1)
    page.keyboard.press("Tab")
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    compare_two_way_shadow(page, 0.5, 12, 0.1)
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    compare_two_way_shadow(page, 0.5, 12, 0.001)


# ------------------------------------------------------------------------------------------------- the buckling window


def compare_buckling_window(
    page: playwright.Page, start: float, length: float, size: float, constant: bool
) -> None:
    friction = (lambda t: torch.full_like(t, size)) if constant else (lambda t: size / t)
    modes = calculus_of_variations.lowest_modes(
        lambda t: calculus_of_variations.damping_barrier(friction, t) - 1, start, length, nodes=200, count=6
    )
    times = calculus_of_variations.conjugate_points(
        size if constant else (lambda t: size / t), 1.0, start, start + 40
    )
    assert decimals(shown(page, "lowest")) == pytest.approx([modes.values[0].item()], abs=5.1e-5)
    assert decimals(shown(page, "action")) == pytest.approx([modes.values[0].item() / 2], abs=5.1e-5)
    assert shown(page, "negative") == str(int((modes.values < 0).sum()))
    assert ("saddle" in shown(page, "verdict")) == bool(modes.values[0] < 0)
    if len(times):
        assert decimals(shown(page, "limit")) == pytest.approx([times[0].item() - start], abs=6e-5)
    else:
        assert shown(page, "limit") == "every window"
    call = f"window.learningDynamics.bucklingWindow.state({start}, {length}, {size}, {str(constant).lower()})"
    for drawn, mode in zip(page.evaluate(f"{call}.modes"), modes.modes, strict=False):
        scaled = mode / mode.abs().max() * (1 if mode[0] > 0 else -1)
        assert drawn == pytest.approx(scaled.tolist(), abs=1e-5)


@needs_chromium
@pytest.mark.parametrize(
    ("start", "length", "size", "constant"),
    [(1.0, 3.6, 3.0, False), (0.1, 9.0, 1.0, False), (0.5, 7.0, 1.0, True), (0.5, 7.0, 2.5, True)],
)
def test_buckling_window_displays_the_modes(
    bench: Bench, start: float, length: float, size: float, constant: bool
) -> None:
    given = (
        f'data-start="{start}" data-length="{length}" data-friction="{size}" data-constant="{int(constant)}"'
    )
    compare_buckling_window(bench.widget("buckling-window", given), start, length, size, constant)


@needs_chromium
def test_buckling_window_obeys_the_keyboard(bench: Bench) -> None:
    page = bench.widget("buckling-window", width=390)
    assert page.locator("img").count() == 0
    compare_buckling_window(page, 1.0, 3.6, 3.0, False)
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    compare_buckling_window(page, 0.01, 3.6, 3.0, False)
    page.keyboard.press("Tab")
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    compare_buckling_window(page, 0.01, 4.1, 3.0, False)
    page.keyboard.press("Tab")
    for _ in range(10):
        page.keyboard.press("ArrowLeft")
    compare_buckling_window(page, 0.01, 4.1, 2.0, False)
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    compare_buckling_window(page, 0.01, 4.1, 2.0, True)


# -------------------------------------------------------------------------------------------------------- epsilon wall


def rmsprop_count(depth: int, start: float, epsilon: float, step: float) -> float:
    """Steps of the library's RMSprop on a chain of equal weights to a loss below 0.01, at most 20,000."""
    rule = rules.RMSprop(step, beta2=0.9, epsilon=epsilon)
    theta = torch.full((depth,), start, dtype=torch.float64)
    state = rule.start(theta)
    for k in range(20_000):
        if (1 - theta.prod().item()) ** 2 / 2 < 0.01:
            return k
        theta, state = rule.step(theta, neural_chain.gradient(theta), state)
    return math.inf


def compare_epsilon_wall(page: playwright.Page, depth: int, start: float, exponent: int, step: float) -> None:
    call, epsilon = "window.learningDynamics.epsilonWall", 10.0**exponent
    theta = torch.full((depth,), start, dtype=torch.float64)
    slope = neural_chain.gradient(theta)[0].abs().item()
    lowest = torch.linalg.eigvalsh(neural_chain.hessian(theta))[0].item()
    waiting = neural_chain.escape_time_bound(start, depth)
    assert page.evaluate(f"{call}.slope({depth}, {start})") == pytest.approx(slope, rel=1e-9)
    assert page.evaluate(f"{call}.lowest({depth}, {start})") == pytest.approx(lowest, rel=1e-6)
    assert page.evaluate(f"{call}.waiting({depth}, {start})") == pytest.approx(waiting, rel=1e-9)
    assert scientific(shown(page, "slope")) == pytest.approx(slope, rel=0.06)
    assert scientific(shown(page, "lowest")) == pytest.approx(lowest, rel=0.06)
    assert scientific(shown(page, "waiting")) == pytest.approx(waiting / 0.1, rel=0.06)
    wall = 1 + math.log(epsilon) / math.log(start)
    assert decimals(shown(page, "wall")) == pytest.approx([wall], abs=0.051)
    walled, free = (rmsprop_count(depth, start, each, step) for each in (epsilon, 0.0))
    assert decimals(shown(page, "count")) == [min(walled, 20_000), min(free, 20_000)]


@needs_chromium
@pytest.mark.parametrize(
    ("depth", "start", "exponent", "step"), [(32, 0.5, -8, 0.01), (12, 0.3, -6, 0.02), (44, 0.7, -5, 0.005)]
)
def test_epsilon_wall_displays_the_runs(
    bench: Bench, depth: int, start: float, exponent: int, step: float
) -> None:
    given = f'data-depth="{depth}" data-start="{start}" data-epsilon="{exponent}" data-step="{step}"'
    compare_epsilon_wall(bench.widget("epsilon-wall", given), depth, start, exponent, step)


@needs_chromium
def test_epsilon_wall_obeys_the_keyboard(bench: Bench) -> None:
    page = bench.widget("epsilon-wall", width=390)
    compare_epsilon_wall(page, 32, 0.5, -8, 0.01)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    compare_epsilon_wall(page, 33, 0.5, -8, 0.01)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    compare_epsilon_wall(page, 33, 0.5, -20, 0.01)


# --------------------------------------------------------------------------------------------------------- valley ends


def compare_valley_ends(page: playwright.Page, p: int, start: float, chi: float, power: int) -> None:
    """Exit probability of the library, Beta law of scipy, drift of the exact mean step in the relaxed cloud."""
    call, low, high = "window.learningDynamics.valleyEnds", chi * start, min(start / chi, 1.0)
    up = widening_valley.exit_probability(p, start, low, high)
    assert page.evaluate(f"{call}.upward({p}, {start}, {chi})") == pytest.approx(up, rel=1e-6)
    assert decimals(shown(page, "up")) == pytest.approx([100 * up], abs=0.051)
    rho = 1 - 2 * start  # eta |u|^2 v^2 / sigma^2 is 2 z times the cloud of v
    plain, back = p - 2 * 2 * start / (1 - rho**2), -2 * 2 * start * 2 / (1 + rho)
    assert decimals(shown(page, "plain")) == pytest.approx([plain], abs=0.0051)
    assert decimals(shown(page, "back")) == pytest.approx([back], abs=0.0051)
    assert ("sharp" in shown(page, "says")) == (plain > 0)
    if p > 1:
        law = scipy_beta((p - 1) / 2, 1.5)
        assert decimals(shown(page, "mean")) == pytest.approx([law.mean()], abs=0.00051)
        for z in (0.1, 0.5, 0.9):
            assert page.evaluate(f"{call}.density({p}, {z})") == pytest.approx(law.pdf(z), rel=1e-9)
    else:
        assert "flat" in shown(page, "mean")
    decayed = widening_valley.differenced_flow(  # eta = 1: after one half-life z e^(-z) has halved
        2 * start, 1.0, 10 ** (power / 2), torch.tensor([page.evaluate(f"{call}.halfLife({10.0**power})")])
    )
    z = float(decayed) / 2
    assert z * math.exp(-z) == pytest.approx(start * math.exp(-start) / 2, rel=1e-5)
    assert scientific(shown(page, "half")) == pytest.approx(math.log(2) / 2 / 10.0**power, rel=0.06)


@needs_chromium
@pytest.mark.parametrize(
    ("p", "start", "chi", "power"), [(2, 0.0625, 0.25, -3), (1, 0.3, 0.5, -5), (9, 0.8, 0.1, -2)]
)
def test_valley_ends_displays_the_laws(bench: Bench, p: int, start: float, chi: float, power: int) -> None:
    given = f'data-p="{p}" data-start="{start}" data-chi="{chi}" data-clock="{power}"'
    compare_valley_ends(bench.widget("valley-ends", given), p, start, chi, power)


@needs_chromium
def test_valley_ends_starts_as_the_theorem_and_obeys_the_keyboard(bench: Bench) -> None:
    page = bench.widget("valley-ends", width=390)
    compare_valley_ends(page, 2, 0.0625, 0.25, -3)
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    compare_valley_ends(page, 1, 0.0625, 0.25, -3)
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    compare_valley_ends(page, 1, 0.9, 0.25, -3)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")
    compare_valley_ends(page, 1, 0.9, 0.3, -4)


# --------------------------------------------------------------------------------------------------------- token share


def compare_token_share(
    page: playwright.Page, strength: float, tokens: int, correlation: float, depth: int
) -> None:
    call = "window.learningDynamics.tokenShare"
    start = (1 + (tokens - 1) * correlation) / tokens
    assert token_geometry.correlation_of_share(start, tokens).item() == pytest.approx(correlation, abs=1e-12)
    share = token_geometry.share_at_depth(start, strength, depth).item()
    gentle = token_geometry.share_at_depth(start, strength / math.sqrt(depth), depth).item()
    rho = token_geometry.correlation_of_share(share, tokens).item()
    assert page.evaluate(f"{call}.share({start}, {strength}, {depth})") == pytest.approx(share, rel=1e-12)
    assert page.evaluate(f"{call}.correlation({share}, {tokens})") == pytest.approx(rho, abs=1e-12)
    assert decimals(shown(page, "share")) == pytest.approx([share], abs=5.1e-5)
    assert decimals(shown(page, "rho")) == pytest.approx([rho], abs=5.1e-5)
    assert scientific(shown(page, "value")) == pytest.approx(share, rel=0.06)
    assert scientific(shown(page, "query")) == pytest.approx((1 - share) ** 2, rel=0.06)
    assert scientific(shown(page, "scaled")) == pytest.approx((1 - gentle) ** 2, rel=0.06)
    half_share = (1 + (tokens - 1) / 2) / tokens
    if strength > 0 and correlation < 0.5:
        half = token_geometry.depth_of_share(half_share, start, strength)
        assert decimals(shown(page, "half")) == pytest.approx([half], abs=0.0051)
        assert page.evaluate(f"{call}.half({tokens}, {correlation}, {strength})") == pytest.approx(half)
    growth = shown(page, "summary").split(" by ")[1].rstrip(".")
    assert scientific(growth) == pytest.approx((1 + strength**2) ** depth, rel=0.06)


@needs_chromium
@pytest.mark.parametrize(
    ("strength", "tokens", "correlation", "depth"),
    [(1.0, 16, 0.0, 12), (0.4, 127, 0.2, 30), (1.5, 3, 0.7, 4)],
)
def test_token_share_displays_the_law(
    bench: Bench, strength: float, tokens: int, correlation: float, depth: int
) -> None:
    given = (
        f'data-strength="{strength}" data-tokens="{tokens}" data-correlation="{correlation}" '
        f'data-depth="{depth}"'
    )
    compare_token_share(bench.widget("token-share", given), strength, tokens, correlation, depth)


@needs_chromium
def test_token_share_obeys_the_keyboard(bench: Bench) -> None:
    page = bench.widget("token-share", width=390)
    compare_token_share(page, 1.0, 16, 0.0, 12)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")
    compare_token_share(page, 0.95, 16, 0.0, 12)
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    compare_token_share(page, 0.95, 2, 0.0, 12)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    compare_token_share(page, 0.95, 2, 0.0, 13)


# --------------------------------------------------------------------------------------------------------- step offset


def library_excess(offset: float, noise: float, rho: float) -> np.ndarray:
    """Excess over its value at the start, a thousand steps: E_0 = 1 and w = noise."""
    mode = [torch.tensor([x], dtype=torch.float64) for x in (rho, 2 * noise * rho**2, math.sqrt(2))]
    return curvature.excess_decaying(curvature.Modes(*mode), offset, torch.arange(1001)).numpy()


def compare_step_offset(page: playwright.Page, offset: float, noise: float, rho: float) -> None:
    call = "window.learningDynamics.stepOffset"
    expected = library_excess(offset, noise, rho)
    assert page.evaluate(f"{call}.excess({offset}, {noise}, {rho})") == pytest.approx(expected, rel=1e-9)
    for k in (1, 10, 100, 1000):
        kalman = 1 / (1 + k / noise)
        assert page.evaluate(f"{call}.filter({noise}, {k})") == pytest.approx(kalman, rel=1e-12)
        text = shown(page, f"at{k}")
        assert scientific(text.split(" (")[0]) == pytest.approx(expected[k], rel=0.06)
        ratio = decimals(text.split("(×")[1])[0]
        assert ratio == pytest.approx(expected[k] / kalman, abs=0.0051)
    for k in (10, 1000):
        found = minimize_scalar(
            lambda x, k=k: library_excess(10**x, noise, rho)[k], bounds=(-4, 4), method="bounded"
        )
        lowest = library_excess(10**found.x, noise, rho)[k]
        best = page.evaluate(f"{call}.bestOffset({noise}, {rho}, {k})")
        assert library_excess(best, noise, rho)[k] <= lowest * (1 + 1e-6)
        assert scientific(shown(page, f"best{k}")) == pytest.approx(best, rel=0.06, abs=1e-3)
        if rho == 1:
            assert best == pytest.approx(noise, rel=1e-3)


@needs_chromium
@pytest.mark.parametrize(("offset", "noise", "rho"), [(10.0, 0.25, 1.0), (0.5, 2.0, 0.4), (3.0, 0.05, 1.7)])
def test_step_offset_displays_the_runs(bench: Bench, offset: float, noise: float, rho: float) -> None:
    given = f'data-offset="{offset}" data-noise="{noise}" data-curvature="{rho}"'
    compare_step_offset(bench.widget("step-offset", given), offset, noise, rho)


@needs_chromium
def test_step_offset_starts_as_the_figure_and_obeys_the_keyboard(bench: Bench) -> None:
    page = bench.widget("step-offset", width=390)
    assert page.locator("img").count() == 0
    assert [shown(page, name) for name in ("offset", "noise", "curvature")] == ["10", "0.25", "1.00"]
    assert "best offset is w/E₀ = 0.25" in shown(page, "end")
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    compare_step_offset(page, 0.01, 0.25, 1.0)
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    compare_step_offset(page, 0.01, 0.001, 0.1)
    assert "1/k^0.20" in shown(page, "end")
    page.keyboard.press("End")
    compare_step_offset(page, 0.01, 0.001, 2.0)
    assert "best offset changes with k" in shown(page, "end")


@needs_chromium
def test_step_offset_says_when_it_is_on_the_filter(bench: Bench) -> None:
    page = bench.widget("step-offset", 'data-offset="0.25"')
    assert shown(page, "end") == "On the filter, at every step."
    assert all("(×1.00)" in shown(page, f"at{k}") for k in (1, 10, 100, 1000))


# --------------------------------------------------------------------------------------------------------- memory dial


def library_dial(zeta: float, rate: float, steps: int = 10_000) -> np.ndarray:
    """Mean losses of a running mean on half a square, as moments of the chain in (mean, point)."""

    def matrix(k: int) -> torch.Tensor:
        s, a, b = 1 / (k + 2), -rate * zeta, 1 - rate * (1 - zeta)
        return torch.tensor([[1 - s + s * a, s * b], [a, b]], dtype=torch.float64)

    def noise(k: int) -> torch.Tensor:
        return torch.tensor([[-rate / (k + 2)], [-rate]], dtype=torch.float64)

    zero = torch.zeros(2, 2, dtype=torch.float64)
    record = sorted({0, 1, 2, 10, 100, 1000, steps})
    return (
        diffusions.chain_moments(matrix, noise, zero[0], zero, steps, record).covariance[:, 0, 0].numpy() / 2
    )


def compare_dial(page: playwright.Page, zeta: float, rate: float) -> None:
    call = "window.learningDynamics.memoryDial"
    expected = library_dial(zeta, rate)
    run = f"(path => [0, 1, 2, 10, 100, 1000, 10000].map(k => path[k]))({call}.losses({zeta}, {rate}))"
    assert page.evaluate(run) == pytest.approx(expected, rel=1e-8, abs=1e-14)
    assert scientific(shown(page, "last")) == pytest.approx(expected[-1], rel=0.06)
    predicted = 1 / (2e4 * (1 - zeta**2)) if zeta < 1 else rate / 6
    assert scientific(shown(page, "predicted")) == pytest.approx(predicted, rel=0.06)
    if rate >= 0.1 and zeta <= 0.9:
        assert expected[-1] == pytest.approx(predicted, rel=0.05)
    assert scientific(shown(page, "sgd")) == pytest.approx(rate / (2 * (2 - rate)), rel=0.06)
    if zeta < 1:
        assert decimals(shown(page, "power")) == [pytest.approx(1 / (1 - zeta), abs=5.1e-3)]


@needs_chromium
@pytest.mark.parametrize(("zeta", "rate"), [(0.9, 0.2), (0.0, 1.5), (1.0, 0.5)])
def test_memory_dial_displays_the_moments(bench: Bench, zeta: float, rate: float) -> None:
    page = bench.widget("memory-dial", f'data-zeta="{zeta}" data-rate="{rate}"')
    compare_dial(page, zeta, rate)
    assert ("stands still" in shown(page, "end")) == (zeta == 1)


@needs_chromium
def test_memory_dial_starts_as_the_figure_and_obeys_the_keyboard(bench: Bench) -> None:
    page = bench.widget("memory-dial", width=390)
    assert page.locator("img").count() == 0
    assert [shown(page, name) for name in ("zeta", "rate")] == ["0.90", "0.2"]
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    compare_dial(page, 0.0, 0.2)
    page.keyboard.press("End")
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    compare_dial(page, 1.0, 0.01)


# --------------------------------------------------------------------------------------------------------- digit modes


def library_digit(modes: int, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """The first 3 of the shipped set, and what the library reads back from its rounded states."""
    mnist = data.load("mnist-10k")
    digit = mnist.inputs.reshape(-1, 784)[mnist.targets == 3][0]
    eigenvalues = recurrence.half_roots(784)[:modes]
    state = recurrence.memory_matrix(eigenvalues, 784) @ digit.to(torch.complex128)
    parts = torch.view_as_real(state)
    unit = 2.0 ** (parts.abs().log2().floor() - bits + 1)
    kept = torch.view_as_complex((parts / unit).round() * unit)
    return digit.numpy(), recurrence.reconstruct(kept, eigenvalues, 784).numpy()


@needs_chromium
@pytest.mark.parametrize(("modes", "bits"), [(32, 53), (130, 4), (392, 8)])
def test_digit_modes_reads_what_the_library_reads(bench: Bench, modes: int, bits: int) -> None:
    page = bench.widget("digit-modes", f'data-modes="{modes}" data-bits="{bits}"')
    digit, read = library_digit(modes, bits)
    call = "window.learningDynamics.digitModes"
    assert page.evaluate(f"{call}.digit") == pytest.approx(digit, abs=1e-15)
    assert page.evaluate(f"{call}.read({modes}, {bits})") == pytest.approx(
        read, abs=1e-3 if bits < 53 else 1e-9
    )
    error = np.linalg.norm(read - digit) / np.linalg.norm(digit)
    assert scientific(shown(page, "error")) == pytest.approx(error, rel=0.06)
    assert [shown(page, name) for name in ("kept", "total")] == [str(2 * modes), str(2 * modes * bits)]
    assert ("only the rounding" in shown(page, "verdict")) == (modes == 392)


@needs_chromium
def test_digit_modes_starts_as_the_figure_and_obeys_the_keyboard(bench: Bench) -> None:
    page = bench.widget("digit-modes", width=390)
    assert page.locator("img").count() == 0
    assert [shown(page, name) for name in ("modes", "bits")] == ["32", "53"]
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    assert shown(page, "modes") == "392"
    assert shown(page, "error") == "below 10⁻¹²"
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    assert shown(page, "bits") == "2"
    assert scientific(shown(page, "error")) > 1e-2


def compare_shaken_width(page: playwright.Page, width: int, sigma: float, step: float) -> None:
    like = {"dtype": torch.float64}
    S, truth, u = torch.eye(10, **like), torch.zeros(10, **like), torch.zeros(width, **like)
    truth[0], truth[1], u[0] = 1.0, -1.0, 1.0
    W, a = torch.outer(u, truth) / truth.norm().sqrt(), u * truth.norm().sqrt()
    call = "window.learningDynamics.shakenWidth"
    laws = {way: float(two_layer_linear.gradient_noise(W, a, S, sigma, layers=way)) for way in ("all", "one")}
    laws["constant"] = float(two_layer_linear.constant(width, 1, S, sigma))
    for way, value in laws.items():
        assert page.evaluate(f"{call}.{way}({width}, {sigma})") == pytest.approx(value, rel=1e-10)
        assert scientific(shown(page, way)) == pytest.approx(value, rel=0.06)
    added = float(two_layer_linear.penalty(W, a[None], S, sigma))
    assert scientific(shown(page, "penalty")) == pytest.approx(added, rel=0.06)
    assert scientific(shown(page, "limit")) == pytest.approx(step * sigma**2 * (width + 2), rel=0.06)


@needs_chromium
@pytest.mark.parametrize(("width", "sigma", "step"), [(100, 0.1, 0.1), (1, 0.5, 1.0), (10_000, 0.05, 0.1)])
def test_shaken_width_displays_the_exact_laws(bench: Bench, width: int, sigma: float, step: float) -> None:
    page = bench.widget("shaken-width", f'data-width="{width}" data-sigma="{sigma}" data-step="{step}"')
    compare_shaken_width(page, width, sigma, step)
    assert ("Beyond" in shown(page, "end")) == (step * sigma**2 * (width + 2) > 1)


@needs_chromium
def test_shaken_width_starts_as_said_and_obeys_the_keyboard(bench: Bench) -> None:
    page = bench.widget("shaken-width", width=390)
    assert page.locator("img").count() == 0
    assert [shown(page, name) for name in ("width", "sigma", "step")] == ["100", "0.1", "0.1"]
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    compare_shaken_width(page, 10_000, 0.1, 0.1)
    page.keyboard.press("Home")
    compare_shaken_width(page, 1, 0.1, 0.1)


# ------------------------------------------------------------------------------------------------------------ any page


@needs_chromium
@pytest.mark.parametrize("name", NAMES)
def test_controls_have_names_and_a_visible_focus(bench: Bench, name: str) -> None:
    page = bench.widget(name, width=390)
    controls = page.locator("input, button, .handle")
    assert controls.count() > 0
    for k in range(controls.count()):
        control = controls.nth(k)
        named = control.evaluate(
            "e => e.labels?.[0]?.textContent || e.getAttribute('aria-label') || e.textContent"
        )
        assert named.strip() != ""
    page.keyboard.press("Tab")
    outline = page.evaluate("""(() => {
        const ring = document.activeElement.querySelector(".focus");
        return ring ? getComputedStyle(ring).stroke : getComputedStyle(document.activeElement).outlineStyle;
    })()""")
    assert outline != "none"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@needs_chromium
@pytest.mark.parametrize("name", NAMES)
def test_without_scripts_the_picture_stays(bench: Bench, name: str) -> None:
    (bench.folder / "plain.html").write_text(sub_page(name), encoding="utf-8")
    page = bench.page("plain.html", java_script_enabled=False)
    assert page.locator("img").is_visible()


@needs_chromium
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_labels_can_be_read(bench: Bench, name: str, theme: str) -> None:
    """Contrast of every visible text against the page, at least 4.5 : 1."""
    page = bench.widget(name, width=390)
    page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
    words = "svg text, dt, dd, p, label, legend, button, .ld-key"
    colours = page.evaluate(f"""[...document.querySelectorAll("{words}")].map(
        e => [getComputedStyle(e)[e.closest("svg") ? "fill" : "color"], e.textContent.trim().slice(0, 30)])""")
    ground = luminance("rgb(255, 255, 255)" if theme == "light" else "rgb(20, 24, 30)")
    for colour, text in colours:
        light, dark = sorted([luminance(colour), ground], reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (text, colour)


def luminance(colour: str) -> float:
    parts = [float(word) / 255 for word in re.findall(r"[\d.]+", colour)[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.pages
def test_every_moving_part_has_its_page(html: Path) -> None:
    """That it lives there is asked at each page's visit, in `test_pages.py`."""
    pages = [path.read_text(encoding="utf-8") for path in html.rglob("*.html")]
    assert {name for text in pages for name in re.findall(r'<div[^>]*data-widget="([a-z-]+)"', text)} == set(
        NAMES
    )
