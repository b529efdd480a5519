"""Other kernels, threads and versions: what is set, what is compared, what is kept of a run that was stopped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import versions
from chapter import ROOT
from versions import Outcome


def test_a_setting_reaches_the_kernels_and_the_threads() -> None:
    code = "import torch; print(torch.backends.cpu.get_cpu_capability(), torch.get_num_threads())"
    said = {}
    for setting in versions.SETTINGS:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=versions.environment(setting),
            capture_output=True,
            text=True,
            check=True,
        )
        said[setting] = done.stdout.split()
    assert said["oldest"] == ["DEFAULT", "1"]
    assert said["avx2"][0] in ("AVX2", "DEFAULT") and said["avx2"][1] == "1"
    assert said["as-published"][1] == "1"
    assert said["two-threads"] == [said["as-published"][0], "2"]


def test_what_ran_is_kept_and_the_table_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def outcome(chapter: str, setting: str, python: object) -> Outcome:
        asked.append(chapter)
        return Outcome(chapter, ["a: x", "a: y"] if chapter == "part/a" else [], 1.0)

    monkeypatch.setattr(versions, "outcome", outcome)
    assert len(versions.run("avx2", ["part/a"], out=tmp_path)) == 1
    found = versions.run("avx2", ["part/a", "part/b"], out=tmp_path)
    assert asked == ["part/a", "part/b"] and [each.chapter for each in found] == asked
    text = versions.table({"avx2": found, "oldest": []})
    assert (
        "| avx2 | 2 | 1 | 2 |" in text
        and "| oldest | 0 | 0 | 0 |" in text
        and text.endswith("avx2: a: x\navx2: a: y")
    )


def test_a_bad_setting_or_chapter_is_named() -> None:
    for words, message in (
        (["sse"], "SETTING = sse; allowed: as-published"),
        (["--chapter", "a"], "CHAPTER = a;"),
    ):
        done = subprocess.run(
            [sys.executable, "versions.py", *words],
            cwd=ROOT / "tools",
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr
