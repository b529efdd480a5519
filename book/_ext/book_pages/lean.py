"""What the pages do not need is not published: source maps and translations of the theme, colours that nobody sees."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

from PIL import Image, ImageChops
from sphinx.application import Sphinx

COLOURS = 256
LARGEST_CHANGE = 16
"""Of a pixel's red, green or blue, out of 255; a figure that would change more keeps all its colours."""


def finish(app: Sphinx, exception: Exception | None) -> None:
    """Make the folder of pages lean, at the end of a build of pages.

    The source maps go; they are for those who debug the theme. So do its translations, which only a build reads.
    Figures get a palette of 256 colours where that changes hardly a pixel, which makes them a third as large; the
    notebooks keep the figures as they are.
    """
    if exception is None and app.builder.format == "html":
        for path in Path(app.outdir, "_static").rglob("*.map"):
            path.unlink()
        shutil.rmtree(Path(app.outdir, "_static", "locales"), ignore_errors=True)
        for path in Path(app.outdir, "_images").glob("*.png"):
            shrink(path)


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
    """Run when the pages are written."""
    app.connect("build-finished", finish)
