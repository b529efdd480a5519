"""Make every kept result that needs no GPU again and hold it against the committed one; this is `make kept`.

The experiments declare which results the book keeps and by which commands. Each command is run with another folder of
results, so that the committed files are not touched. One that needs data which do not ship with the book is left out.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from chapter import ROOT
from learning_dynamics import results
from learning_dynamics.experiments import command


def make_again(planned: command.Plan, root: Path = ROOT) -> str:
    """Run a result's command and return a line that says whether it agrees; a difference starts with `DIFFERS`."""
    name = f"{planned.chapter}/{planned.name}"
    if planned.device != "cpu":
        return f"{name}: left out, made on {planned.device}"
    if planned.needs:
        return f"{name}: left out, needs {', '.join(planned.needs)}: {planned.command}"
    try:
        old = results.load(planned.chapter, planned.name, folder=root / "book" / "results")
    except FileNotFoundError:
        return f"{name}: not made yet: {planned.command}"
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, *shlex.split(planned.command)[1:], "--out", folder, "--dirty"]
        settings = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(words, cwd=root, env=settings, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"DIFFERS {name}: its command failed: {done.stderr.strip()[-300:]}"
        try:
            new = results.load(planned.chapter, planned.name, folder=folder)
            agreement = results.agree(old, new.arrays, rtol=old.provenance.rtol)
        except ValueError as error:
            return f"DIFFERS {name}: {error}"
    if set(new.arrays) != set(old.arrays):
        return f"DIFFERS {name}: arrays {sorted(new.arrays)}, kept are {sorted(old.arrays)}"
    return f"{name}: {agreement.entries} entries agree to {old.provenance.rtol:g}"


def main() -> int:
    lines = []
    for planned in command.kept():
        lines.append(make_again(planned))
        print(lines[-1], flush=True)
    differ = sum(line.startswith("DIFFERS") for line in lines)
    print(f"{len(lines)} kept results, {differ} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    raise SystemExit(main())
