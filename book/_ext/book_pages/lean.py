"""What the pages do not need is not published: source maps, translations and old fonts of the theme, colours and marks.

Two thirds of the marks that name the parts of code, those of names and of punctuation, give the colour of all code.
"""

from __future__ import annotations

import io
import re
import shutil
from pathlib import Path
from urllib.parse import unquote

from PIL import Image, ImageChops
from sphinx.application import Sphinx

COLOURS = 256
LARGEST_CHANGE = 16
"""Of a pixel's red, green or blue, out of 255; a figure that would change more keeps all its colours."""


def finish(app: Sphinx, exception: Exception | None) -> None:
    """Make the folder of pages lean, at the end of a build of pages.

    The source maps go; they are for those who debug the theme. So do its translations, which only a build reads, and
    fonts in the format of browsers before 2016. Code loses the marks that do not show. Pictures of an earlier build
    that no page shows any more go, too.
    Figures get a palette of 256 colours where that changes hardly a pixel, which makes them a third as large; the
    notebooks keep the figures as they are.
    """
    if exception is None and app.builder.format == "html":
        for ending in ("*.map", "*.ttf"):
            for path in Path(app.outdir, "_static").rglob(ending):
                path.unlink()
        shutil.rmtree(Path(app.outdir, "_static", "locales"), ignore_errors=True)
        for path in Path(app.outdir, "_images").glob("*.png"):
            shrink(path)
        marks = without_a_look(Path(app.outdir, "_static", "pygments.css").read_text(encoding="utf-8"))
        shown: set[str] = set()
        for path in Path(app.outdir).rglob("*.html"):
            text = path.read_text(encoding="utf-8")
            shown |= {unquote(name) for name in re.findall(r"_images/([^/\"'?#\s)]+)", text)}
            if (lean := unmarked(text, marks)) != text:
                path.write_text(lean, encoding="utf-8")
        for path in Path(app.outdir, "_images").glob("*"):
            if path.is_file() and path.name not in shown:
                path.unlink()


def without_a_look(css: str) -> set[str]:
    """Return the classes of parts of code that have the colour of all code, and nothing else, in every theme.

    Args:
        css: The style sheet that Pygments writes for the theme.
    """
    rules = re.findall(r'html\[data-theme="(\w+)"\] \.highlight (?:\.(\w+) )?\{ ([^}]*) \}', css)
    whole = {theme: look.split("color: ")[-1] for theme, mark, look in rules if not mark}
    looks: dict[str, set[str]] = {}
    for theme, mark, look in rules:
        if mark:
            looks.setdefault(mark, set()).add(theme if look == f"color: {whole[theme]}" else "")
    return {mark for mark, themes in looks.items() if themes == set(whole)}


def unmarked(page: str, marks: set[str]) -> str:
    """Return a page whose code has no marks of some classes around its words.

    Args:
        page: The HTML of a page.
        marks: The classes, as of `without_a_look`.
    """
    if not marks:
        return page
    mark = re.compile(rf'<span class="(?:{"|".join(sorted(marks))})">([^<]*)</span>')
    return re.sub(
        r'(?<=<div class="highlight">)<pre>.*?</pre>',
        lambda code: mark.sub(r"\1", code[0]),
        page,
        flags=re.DOTALL,
    )


def shrink(path: Path) -> bool:
    """Give a PNG a palette, in place, and return whether it has one now.

    Args:
        path: The file.
    """
    with Image.open(path) as found:
        if found.mode == "P":
            return True
        picture = found.convert("RGBA")
    if min(picture.getchannel("A").tobytes()) < 255:
        return False
    full = picture.convert("RGB")
    few = full.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    if max(ImageChops.difference(full, few.convert("RGB")).tobytes()) > LARGEST_CHANGE:
        return False
    content = io.BytesIO()
    few.save(content, "PNG", optimize=True)
    if content.tell() >= path.stat().st_size:
        return False
    path.write_bytes(content.getvalue())
    return True


def setup(app: Sphinx) -> None:
    """Run when the pages are written, after the theme, which writes the style sheet of code at that time, too."""
    app.connect("build-finished", finish, priority=900)
