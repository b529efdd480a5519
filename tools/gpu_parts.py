"""Make the results that need a GPU in parts of a few minutes, those worth most first, and say what is left.

    python tools/gpu_parts.py --minutes 8
    python tools/gpu_parts.py --minutes 8 --chapter recurrence/linear_recurrent_units --out DIR

Needs nothing but the library: no Snakemake, no Jupyter, no network. A result that is there is left alone; one whose
time is up goes on from its checkpoints at the next call. A result that needs a file which is not in `--data`, or a set
that was not downloaded, is named. On a cluster, `make paper PROFILE=slurm` does the same without a limit.

Exit statuses: 0 what could be done was done, 1 a result failed, 2 refused: a wrong argument, or no GPU here.
"""

from __future__ import annotations

import argparse
import csv
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import torch

from learning_dynamics.data.download import cache_folder
from learning_dynamics.data.public import PUBLIC
from learning_dynamics.experiments.command import STOPPED

ROOT = Path(__file__).resolve().parents[1]


def cuda() -> bool:
    """Return whether PyTorch finds a GPU here."""
    return torch.cuda.is_available()


def choose(rows: Sequence[dict[str, str]], chapter: str, result: str) -> list[dict[str, str]]:
    """Return the rows of a chapter, and of a result or of those that a pattern fits; an empty word stands for all."""
    known = sorted({row["chapter"] for row in rows})
    if chapter and chapter not in known:
        raise ValueError(f"chapter = {chapter!r}; allowed: {', '.join(known)}")
    rows = [row for row in rows if not chapter or row["chapter"] == chapter]
    names = [row["name"] for row in rows]
    if result and not any(fnmatchcase(name, result) for name in names):
        where = f" of {chapter}" if chapter else ""
        shown = ", ".join(names if chapter else names[:3]) + (
            "" if chapter else f", ... ({len(names)} in all)"
        )
        raise ValueError(f"result = {result!r}; allowed{where}: {shown}")
    return [row for row in rows if not result or fnmatchcase(row["name"], result)]


def missing(row: dict[str, str], data: Path) -> list[str]:
    """Return the files that a result needs and that are not there."""
    names = [pair.split("=", 1)[1] for pair in row["files"].split()]
    absent = [name for name in names if not (data / name).exists()]
    for each in row["sets"].split():
        absent += [each for file in PUBLIC[each].files if not (cache_folder() / file.path).exists()][:1]
    return absent


def make(row: dict[str, str], out: Path, data: Path, minutes: float, more: list[str]) -> int:
    """Run a result's command for at most so many minutes and return its exit status; 75 if it is not through."""
    places = {
        word: str(data if word == "FOLDER" else data / name)
        for word, name in (pair.split("=", 1) for pair in row["files"].split())
    }
    words = [sys.executable, *(places.get(word, word) for word in shlex.split(row["command"])[1:])]
    words += ["--out", str(out), *more]
    if row["resumable"] == "1":
        words += ["--minutes", f"{max(0.8 * minutes, 0.1):g}"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "lib")}
    try:
        return subprocess.run(words, cwd=ROOT, env=environment, check=False, timeout=60 * minutes).returncode
    except subprocess.TimeoutExpired:
        return STOPPED


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the results that need a GPU, in parts.")
    parser.add_argument("--minutes", type=float, default=8.0, help="of this call")
    parser.add_argument("--chapter", default="", help="only this chapter's")
    parser.add_argument(
        "--result", default="", help="only this one, or those that a pattern like 'digits-*' fits"
    )
    parser.add_argument("--out", type=Path, default=Path("out/results"), help="folder of all results")
    parser.add_argument(
        "--data", type=Path, default=Path("out/data"), help="folder of files that do not ship"
    )
    parser.add_argument("--table", type=Path, default=ROOT / "workflow" / "results.csv", help="another table")
    parser.add_argument("--dirty", action="store_true", help="although the library has uncommitted changes")
    options = parser.parse_args()
    with options.table.open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["gpu"] == "1"]
    try:
        rows = choose(rows, options.chapter, options.result)
        if not 0 < options.minutes < float("inf"):
            raise ValueError(f"minutes = {options.minutes}; allowed: a number > 0")
        if any("--device cuda" in row["command"] for row in rows) and not cuda():
            raise ValueError(
                f"device = 'cuda'; allowed where PyTorch finds a GPU; here is none, and {len(rows)} results need one: "
                "run this where one is, or on a cluster: make paper PROFILE=slurm"
            )
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    rows.sort(key=lambda row: (int(row["order"]), float(row["minutes"])))
    out, data = options.out.resolve(), options.data.resolve()
    said: dict[str, str] = {}
    until, failed = time.monotonic() + 60 * options.minutes, False
    for row in rows:
        name = f"{row['chapter']}/{row['name']}"
        if (out / f"{name}.npz").exists() and (out / f"{name}.json").exists():
            said[name] = "done"
        elif absent := missing(row, data):
            said[name] = f"needs {', '.join(absent)}"
        elif (remaining := (until - time.monotonic()) / 60) < min(1.0, options.minutes / 4):
            said[name] = f"left, about {row['minutes']} minutes ({row['basis']})"
        else:
            status = make(row, out, data, remaining, ["--dirty"] if options.dirty else [])
            said[name] = {0: "done", STOPPED: "begun, goes on at the next call"}.get(
                status, f"FAILED with status {status}"
            )
            failed |= status not in (0, STOPPED)
        print(f"{name}: {said[name]}", flush=True)
    print(f"{sum(word == 'done' for word in said.values())} of {len(said)} results are there, in {out}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
