from __future__ import annotations

import builtins
from typing import Any

import pytest

from learning_dynamics._internal import display


def test_without_ipython_the_plain_line_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    real = builtins.__import__

    def absent(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("IPython"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    display.emit("text", "<p>", {}, plain="text 0.5")
    display.emit("text", "<p>", {})
    assert capsys.readouterr().out == "text 0.5\ntext\n"


def test_in_a_notebook_one_output_carries_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    import IPython
    import IPython.display

    shown: list[tuple[Any, dict[str, Any]]] = []
    monkeypatch.setattr(IPython, "get_ipython", lambda: object())
    monkeypatch.setattr(IPython.display, "display", lambda data, **options: shown.append((data, options)))
    display.emit("text", "<p>", {"key": {}})
    assert shown == [({"text/plain": "text", "text/html": "<p>"}, {"raw": True, "metadata": {"key": {}}})]


def test_nothing_is_written_unless_asked(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEARNING_DYNAMICS_RECORDS", raising=False)
    monkeypatch.chdir(tmp_path)
    display.write_line("part/name", "claims", {"id": "a"})
    assert list(tmp_path.iterdir()) == []
