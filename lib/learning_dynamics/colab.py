"""What a chapter's set-up cell does on Colab after it has installed the library."""

from __future__ import annotations

from pathlib import Path


def style_sheet() -> str:
    """Return the look of the ledger's cards: the file the pages use, from the wheel or from the repository.

    Raises:
        FileNotFoundError: neither place has it.
    """
    here = Path(__file__).resolve().parent
    for path in (here / "kept" / "claims.css", here.parents[1] / "book" / "_static" / "claims.css"):
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise FileNotFoundError(
        "claims.css = None; allowed: a file of the installed library or of the repository"
    )


def prepare() -> None:
    """Give every later cell the cards' look.

    Each output of Colab lives in a frame of its own, so the style sheet is sent before every cell.
    """
    from IPython import get_ipython
    from IPython.display import HTML, display

    style = HTML(f"<style>{style_sheet()}</style>")
    get_ipython().events.register("pre_run_cell", lambda *_: display(style))
