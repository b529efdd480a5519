"""Make every kept result that needs no GPU again and hold it against the committed one; this is `make kept`.

Each result's `.json` names the command that makes it. The command is run with LEARNING_DYNAMICS_RESULTS naming an empty
folder, so that the committed files are not touched. A command with a placeholder in capitals, such as `--files FOLDER`,
needs data that do not ship with the book and is left out.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from chapter import ROOT
from learning_dynamics import results


def kept(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Yield chapter and name of every kept result."""
    folder = root / "book" / "results"
    for path in sorted(folder.glob("*/*/*.json")):
        yield str(path.parent.relative_to(folder)), path.stem


def make_again(chapter: str, name: str, root: Path = ROOT) -> str:
    """Run a result's command and return a line that says whether it agrees; a difference starts with `DIFFERS`."""
    old = results.load(chapter, name, folder=root / "book" / "results")
    if not old.provenance.device.startswith("cpu"):
        return f"{chapter}/{name}: left out, made on {old.provenance.device}"
    words = shlex.split(old.provenance.command)
    if missing := [word for word in words if word.isalpha() and word.isupper()]:
        return f"{chapter}/{name}: left out, needs {', '.join(missing)}: {old.provenance.command}"
    if words[0] == "python":
        words[0] = sys.executable
    with tempfile.TemporaryDirectory() as folder:
        settings = os.environ | {"LEARNING_DYNAMICS_RESULTS": folder, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(words, cwd=root, env=settings, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"DIFFERS {chapter}/{name}: its command failed: {done.stderr.strip()[-300:]}"
        try:
            new = results.load(chapter, name, folder=folder)
            agreement = results.agree(old, new.arrays, rtol=old.provenance.rtol)
        except (ValueError, FileNotFoundError) as error:
            return f"DIFFERS {chapter}/{name}: {error}"
    if set(new.arrays) != set(old.arrays):
        return f"DIFFERS {chapter}/{name}: arrays {sorted(new.arrays)}, kept are {sorted(old.arrays)}"
    return f"{chapter}/{name}: {agreement.entries} entries agree to {old.provenance.rtol:g}"


def main() -> int:
    lines = []
    for chapter, name in kept():
        lines.append(make_again(chapter, name))
        print(lines[-1], flush=True)
    differ = sum(line.startswith("DIFFERS") for line in lines)
    print(f"{len(lines)} kept results, {differ} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    raise SystemExit(main())
