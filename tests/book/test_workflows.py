from __future__ import annotations

import subprocess
import sys

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
