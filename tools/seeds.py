"""Run chapters at `book` with other seeds and hold their verdicts against the committed ones.

python tools/seeds.py part/name [...] --seeds 1 2 3
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from chapter import ROOT, settings, slot
from learning_dynamics.ledger.read import chapters, notebook_path, notebook_records, written_records


def verdicts(chapter: str, seed: int, folder: Path) -> dict[str, str] | None:
    """Run a chapter as a script and return id to verdict, or None if it failed."""
    script = ROOT / "chapters" / f"{chapter}.py"
    command = [sys.executable, "-m", "learning_dynamics", str(script)]
    command += ["--seed", str(seed), "--out", str(folder)]
    variables = os.environ | settings()
    with slot():
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr.strip().splitlines()[-1])
        return None
    return {record["id"]: record["verdict"] for record in written_records(folder, chapter)}


def main() -> int:
    parser = argparse.ArgumentParser(description="Same verdicts with other seeds?")
    parser.add_argument("chapter", nargs="*", help="part/name; all chapters if left out")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    options = parser.parse_args()
    failed = False
    for chapter in options.chapter or chapters(ROOT):
        if chapter not in chapters(ROOT):
            parser.error(f"CHAPTER = {chapter!r}; allowed: {', '.join(chapters(ROOT))}")
        committed = {r["id"]: r["verdict"] for r in notebook_records(notebook_path(ROOT, chapter))}
        for seed in options.seeds:
            with tempfile.TemporaryDirectory() as folder:
                found = verdicts(chapter, seed, Path(folder) / "out")
            same = found == committed
            failed |= not same
            print(f"{chapter}, seed {seed}: {'same verdicts' if same else 'OTHER VERDICTS'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
