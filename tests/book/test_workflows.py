from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import suite
import versions
from chapter import ROOT


def test_workflows_follow_the_schema() -> None:
    """Checked with the schema that the checker ships; the workflows themselves run only where published."""
    files = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert {path.stem for path in files} == {"tests", "publish", "weekly", "colab"}
    checker = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    result = subprocess.run([*checker, *map(str, files)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
    broken = ROOT / "pyproject.toml"
    assert subprocess.run([*checker, str(broken)], capture_output=True, check=False).returncode != 0


def test_workflows_say_that_they_have_not_run() -> None:
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        assert path.read_text(encoding="utf-8").startswith("# Not run yet")


def test_actions_are_pinned_by_commit_and_only_the_deployment_may_write() -> None:
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        flow = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert flow["permissions"] == {"contents": "read"}, path.name
        for name, job in flow["jobs"].items():
            used = [step["uses"] for step in job["steps"] if "uses" in step]
            assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", each) for each in used), (path.name, used)
            if (path.stem, name) == (
                "publish",
                "deploy",
            ):  # takes what was made, and runs nothing of the repository
                assert job["permissions"] == dict.fromkeys(("pages", "id-token", "contents"), "write")
                assert not [each for each in used if each.startswith("actions/checkout@")]
            else:
                assert "permissions" not in job, (path.name, name)


def test_what_is_published_has_the_pdf_and_the_plain_notebooks() -> None:
    flow = yaml.safe_load((ROOT / ".github/workflows/publish.yml").read_text(encoding="utf-8"))
    steps = flow["jobs"]["book"]["steps"]
    made = [step["run"].split("#")[0].split() for step in steps if step.get("run", "").startswith("make ")]
    assert made == [["make", "pdf", "plain"]]
    assert [step["with"]["path"] for step in steps if "upload" in step.get("uses", "")] == [
        "book/_build/html",
        "book/_build/notebooks",
    ]


def test_torch_has_a_floor_and_no_ceiling_and_the_shipped_one_is_within() -> None:
    """2.6 has other random streams. Only the weekly run leaves the constraints, for the newest and the oldest."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    constrained = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in project["dependencies"] if line.startswith("torch")] == ["torch>=2.7"]
    assert [line for line in required if line.startswith("torch")] == ["torch>=2.7"]
    assert [line for line in constrained if not line.startswith("#")] == ["torch>=2.13,<2.14"]
    weekly = yaml.safe_load((ROOT / ".github/workflows/weekly.yml").read_text(encoding="utf-8"))["jobs"]
    settings = {row["setting"] for row in weekly["versions"]["strategy"]["matrix"]["include"]}
    assert settings == set(versions.SETTINGS)


def test_the_pre_commit_hook_is_the_style_part_and_needs_no_network() -> None:
    settings = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repository["repo"] for repository in settings["repos"]] == ["local"]
    hooks = [hook for repository in settings["repos"] for hook in repository["hooks"]]
    assert [(hook["entry"], hook["language"], hook["pass_filenames"]) for hook in hooks] == [
        (".venv/bin/python tools/suite.py style", "system", False)
    ]
    assert "style" in suite.PARTS


def test_style_asks_ruff_and_mypy(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(suite, "call", lambda *words: asked.append(words[2:4]) or True)
    assert suite.style()
    assert asked == [("ruff", "check"), ("ruff", "format"), ("mypy",)]


def test_a_test_that_never_ends_fails(tmp_path: Path) -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert 0 < settings["tool"]["pytest"]["ini_options"]["timeout"] <= 600
    test = tmp_path / "test_endless.py"
    test.write_text("def test_endless():\n    while True:\n        pass\n")
    options = ["-c", str(ROOT / "pyproject.toml"), "-o", "timeout=1", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, str(test)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1 and "Timeout" in done.stdout
