from __future__ import annotations

from pathlib import Path

import IPython
import IPython.display
import pytest

from learning_dynamics import colab


class Events:
    def __init__(self) -> None:
        self.registered: list[tuple[str, object]] = []

    def register(self, name: str, function: object) -> None:
        self.registered.append((name, function))


class Shell:
    def __init__(self) -> None:
        self.events = Events()


def test_prepare_sends_the_look_before_every_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    shell, shown = Shell(), []
    monkeypatch.setattr(IPython, "get_ipython", lambda: shell)
    monkeypatch.setattr(IPython.display, "display", shown.append)
    colab.prepare()
    ((name, function),) = shell.events.registered
    assert name == "pre_run_cell"
    function("info")
    assert shown[0].data == f"<style>{colab.style_sheet()}</style>"
    assert ".ld-claim" in shown[0].data


def test_the_style_sheet_comes_from_the_wheel_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "lib" / "learning_dynamics"
    (package / "kept").mkdir(parents=True)
    monkeypatch.setattr(colab, "__file__", str(package / "colab.py"))
    with pytest.raises(FileNotFoundError, match=r"claims\.css"):
        colab.style_sheet()
    (package / "kept" / "claims.css").write_text(".ld-claim {}")
    assert colab.style_sheet() == ".ld-claim {}"
