"""Figures on pages get a palette, code loses marks that do not show, and all look as before."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from conftest import ROOT
from PIL import Image

sys.path.insert(0, str(ROOT / "book/_ext"))

from book_pages.lean import LARGEST_CHANGE, finish, shrink, unmarked, without_a_look  # noqa: E402


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


CSS = """
html[data-theme="light"] .highlight pre { line-height: 125%; }
html[data-theme="light"] .highlight { background: #fefefe; color: #080808 }
html[data-theme="light"] .highlight .n { color: #080808 } /* Name */
html[data-theme="light"] .highlight .p { color: #080808 } /* Punctuation */
html[data-theme="light"] .highlight .gs { color: #080808; font-weight: bold }
html[data-theme="light"] .highlight .k { color: #6730C5 } /* Keyword */
html[data-theme="dark"] .highlight { background: #2b2b2b; color: #F8F8F2 }
html[data-theme="dark"] .highlight .n { color: #F8F8F2 } /* Name */
html[data-theme="dark"] .highlight .p { color: #FFD900 } /* another colour in the dark only */
html[data-theme="dark"] .highlight .gs { color: #F8F8F2; font-weight: bold }
html[data-theme="dark"] .highlight .k { color: #F8F8F2 } /* Keyword */
"""


def test_only_marks_without_a_look_of_their_own_go() -> None:
    assert without_a_look(CSS) == {"n"}
    code = '<span class="k">if</span> <span class="n">a</span><span class="p">:</span>'
    page = f'<p><span class="n">b</span></p><div class="highlight"><pre>{code}\n</pre></div>{code}'
    lean = page.replace('<span class="n">a</span>', "a", 1)
    assert unmarked(page, {"n"}) == unmarked(lean, {"n"}) == lean
    assert unmarked(page, set()) == page


def test_pictures_that_no_page_shows_any_more_go(tmp_path: Path) -> None:
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static/pygments.css").write_text(CSS, encoding="utf-8")
    for name in ("shown.png", "with space.png", "small/shown.webp", "left_over.png"):
        path = tmp_path / "_images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (2, 2)).save(path, "PNG")
    page = '<img src="../_images/shown.png"><img src="../_images/with%20space.png">'
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    app = SimpleNamespace(builder=SimpleNamespace(format="html"), outdir=tmp_path)
    finish(app, None)  # type: ignore[arg-type]  # what it asks of an application
    left = {path.name for path in (tmp_path / "_images").rglob("*") if path.is_file()}
    assert left == {"shown.png", "with space.png", "shown.webp"}


@pytest.mark.pages
def test_pages_have_lost_them(html: Path) -> None:
    css = (html / "_static/pygments.css").read_text(encoding="utf-8")
    marks = without_a_look(css)
    assert {"n", "p"} <= marks and not {"k", "s2", "c1", "mi", "o"} & marks
    text = (html / "chapters/implicit_bias/minimum_norm.html").read_text(encoding="utf-8")
    code = "".join(re.findall(r'<div class="highlight"><pre>.*?</pre>', text, re.DOTALL))
    left = set(re.findall(r'<span class="(\w+)">', code))
    assert "k" in left and not marks & left
