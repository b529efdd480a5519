"""Make kept or paper-scale results by Snakemake, say what is left, and hold kept ones against those of the book.

    python tools/make_results.py kept --chapter part/name --result NAME
    python tools/make_results.py kept --shard 1/4
    python tools/make_results.py paper --chapter part/name --profile slurm -- --dry-run

`make kept` and `make paper` call it. A value that is empty counts as left out; what follows `--` goes to Snakemake. An
argument that is not as described, or a profile that cannot work here, is named in one line before anything is done.
Exit statuses: 0 all that was asked for is there (and agrees), 1 something failed, differs or is lacking, 2 refused.
"""

from __future__ import annotations

import argparse
import csv
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

import kept
from chapter import ROOT
from gpu_parts import choose, cuda, missing
from learning_dynamics.experiments import command

SNAKEMAKE = ROOT / ".venv-workflow" / "bin" / "snakemake"
PROFILES = ROOT / "workflow" / "profiles"
# What pods and this machine have in common: results, checkpoints, files that do not ship.
SHARED = ROOT / "out"
PLUGINS = ("snakemake_executor_plugin_kubernetes", "snakemake_storage_plugin_fs")


def profile_folder(name: str) -> Path:
    """Return the folder of a profile: one of the book's, by its name, or a folder of one's own."""
    known = sorted(path.parent.name for path in PROFILES.glob("*/config.yaml"))
    if name in known:
        return PROFILES / name
    if name and (Path(name) / "config.yaml").is_file():
        return Path(name).resolve()
    raise ValueError(
        f"profile = {name!r}; allowed: {', '.join(known)}, or a folder that has such a config.yaml"
    )


def settings_of(folder: Path) -> dict[str, Any]:
    return yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8")) or {}


def executor_of(folder: Path) -> str:
    return str(settings_of(folder).get("executor", "local"))


def refuse(folder: Path) -> None:
    """Raise a ValueError if a profile's executor cannot work here."""
    settings, executor = settings_of(folder), executor_of(folder)
    if executor == "slurm":
        if shutil.which("sbatch") is None or shutil.which("sinfo") is None:
            raise ValueError(f"profile = {folder.name!r}; allowed where SLURM's sbatch and sinfo are")
        asked = subprocess.run(["sinfo", "--noheader"], capture_output=True, text=True, check=False)
        if asked.returncode or not asked.stdout.strip():
            reason = (asked.stderr.strip().splitlines() or ["it lists no partition"])[0]
            raise ValueError(f"profile = {folder.name!r}; allowed where SLURM answers; sinfo says: {reason}")
    elif executor == "kubernetes":
        for key in ("container-image", "kubernetes-persistent-volumes"):
            if not settings.get(key):
                raise ValueError(f"{key} = None; allowed: what {folder / 'config.yaml'} says it stands for")
        places = [str(volume).partition(":")[2] for volume in settings["kubernetes-persistent-volumes"]]
        if not any(place and ROOT.is_relative_to(place) for place in places):
            raise ValueError(f"clone = {str(ROOT)!r}; allowed: a folder on a volume of the pods, in {places}")
        if shutil.which("rsync") is None:
            raise ValueError(f"profile = {folder.name!r}; allowed where rsync is, here and in the image")
        code = f"import {PLUGINS[0]}, {PLUGINS[1]}, kubernetes.config as c; c.load_config()"
        tried = subprocess.run(
            [SNAKEMAKE.with_name("python"), "-c", code], capture_output=True, text=True, check=False
        )
        if tried.returncode:
            reason = tried.stderr.strip().splitlines()[-1]
            raise ValueError(f"profile = {folder.name!r}; allowed where a cluster can be reached: {reason}")


def for_pods(folder: Path) -> list[str]:
    """Return what Snakemake needs to run in pods that see the clone: its own programs, and where its sources go."""
    if executor_of(folder) != "kubernetes":
        return []
    programs = f"export PATH={shlex.quote(str(SNAKEMAKE.parent))}:$PATH"
    storage = ["--default-storage-provider", "fs", "--default-storage-prefix", str(SHARED)]
    return ["--precommand", programs, *storage]


def snakemake(options: argparse.Namespace, folder: Path, gpu: str) -> int:
    """Let Snakemake make the results and return its exit status; an interrupt stops it, and it ends in order."""
    pods = executor_of(folder) == "kubernetes"
    settings = {
        "which": options.which,
        "chapter": options.chapter,
        "result": options.result,
        "shard": options.shard,
        "gpu": gpu,
        "out": options.out.relative_to(SHARED) if pods else options.out,
        "data": options.data.relative_to(SHARED) if pods else options.data,
        "root": SHARED if pods else "",
        "table": options.table,
        "python": sys.executable,
        "dirty": "1" if options.dirty else "",
    }
    words = [str(SNAKEMAKE), "--snakefile", str(ROOT / "workflow" / "Snakefile"), "--profile", str(folder)]
    words += [
        *for_pods(folder),
        *options.more,
        "--config",
        *(f"{key}={value}" for key, value in settings.items() if value),
    ]
    library = os.pathsep.join(filter(None, [str(ROOT / "lib"), os.environ.get("PYTHONPATH")]))
    # what lies in the folder is packed for pods, so it is a small one; no path of theirs is relative to it
    place = ROOT / "workflow" if pods else ROOT
    process = subprocess.Popen(words, cwd=place, env=os.environ | {"PYTHONPATH": library})
    while True:
        try:
            status = process.wait()
            if status and any((place / ".snakemake" / "locks").glob("*.lock")):
                print(
                    "another call is making these results, or was killed; in the second case say this once: "
                    f"{SNAKEMAKE} --snakefile {ROOT}/workflow/Snakefile --directory {place} --unlock",
                    file=sys.stderr,
                )
            return status
        except KeyboardInterrupt:
            print("stopping; the same command goes on from here", file=sys.stderr)


def failure(row: dict[str, str], out: Path) -> str | None:
    """Return why a result is not there, if its command failed: the last line that it wrote."""
    name = f"{row['chapter']}/{row['name']}"
    if not (out / ".failed" / name.replace("/", "--")).exists():
        return None
    log = out / "logs" / f"{name}.log"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    said = [line for line in lines if line.strip() and line != "failed before, not tried again"]
    return f"FAILED: {said[-1] if said else 'it wrote nothing'} (all of it: {log})"


def state(row: dict[str, str], out: Path, data: Path, gpu: str) -> tuple[str, bool]:
    """Return what is to be said of a paper-scale result, and whether it is there."""
    if all((out / row["chapter"] / f"{row['name']}.{kind}").exists() for kind in ("npz", "json")):
        return "done", True
    if gpu == "0" and row["gpu"] == "1":
        return "left out, needs a GPU", False
    absent = [name for name in missing(row | {"sets": ""}, data)]
    if absent:
        return f"left out, needs {', '.join(absent)} in {data}", False
    return failure(row, out) or f"not made yet, about {row['minutes']} minutes ({row['basis']})", False


def report(options: argparse.Namespace, rows: list[dict[str, str]], gpu: str) -> bool:
    """Print a line for each result, and a sum; return whether all is well."""
    plans = (
        {f"{plan.chapter}/{plan.name}": plan for plan in command.kept()} if options.which == "kept" else {}
    )
    there = differ = failed = 0
    for row in rows:
        name = f"{row['chapter']}/{row['name']}"
        said, done = state(row, options.out, options.data, gpu)
        failed += said.startswith("FAILED")
        if done and name in plans:
            line = kept.compare(plans[name], options.out)
            differ += line.startswith("DIFFERS")
        else:
            line = f"{name}: {said}"
        there += done
        if done or not (options.shard and said.startswith("not made")):  # in another share
            print(line)
    compared = f", {differ} differ from the book's" if plans else ""
    print(f"{there} of {len(rows)} results are there, in {options.out}{compared}, {failed} failed")
    return bool(there) and not differ and not failed


def parse(words: list[str]) -> argparse.Namespace:
    own, more = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    parser = argparse.ArgumentParser(description="Make results by Snakemake.", allow_abbrev=False)
    parser.add_argument("which", choices=("kept", "paper"))
    parser.add_argument("--chapter", default="", help="only this chapter's")
    parser.add_argument(
        "--result", default="", help="only this one, or those that a pattern like 'chain_*' fits"
    )
    parser.add_argument("--shard", default="", help="k/m: the k-th of m shares of about equal time")
    parser.add_argument("--profile", default="local", help="of Snakemake: one of the book's, or a folder")
    parser.add_argument("--out", type=Path, default=None, help="folder of all results")
    parser.add_argument(
        "--data", type=Path, default=Path("out/data"), help="folder of files that do not ship"
    )
    parser.add_argument("--table", type=Path, default=ROOT / "workflow" / "results.csv", help="another table")
    parser.add_argument("--dirty", action="store_true", help="although the library has uncommitted changes")
    options = parser.parse_args(own)
    options.more = more
    options.out = (options.out or Path("out") / ("kept" if options.which == "kept" else "results")).resolve()
    options.data, options.table = options.data.resolve(), options.table.resolve()
    return options


def main(words: list[str] | None = None) -> int:
    options = parse(sys.argv[1:] if words is None else words)
    try:
        with options.table.open(encoding="utf-8", newline="") as stream:
            rows = [row for row in csv.DictReader(stream) if row["which"] == options.which]
        if options.which == "kept":
            rows = [row for row in rows if row["gpu"] == "0"]
        rows = choose(rows, options.chapter, options.result)
        k, _, m = options.shard.partition("/")
        if options.shard and not (k.isdecimal() and m.isdecimal() and 1 <= int(k) <= int(m)):
            raise ValueError(f"shard = {options.shard!r}; allowed: k/m with 1 <= k <= m, such as 1/4")
        folder = profile_folder(options.profile)
        refuse(folder)
        for key, path in (("out", options.out), ("data", options.data)):
            if executor_of(folder) == "kubernetes" and not path.is_relative_to(SHARED):
                raise ValueError(f"{key} = {str(path)!r}; allowed with pods: a folder in {SHARED}")
        here = executor_of(folder) == "local"
        gpu = "0" if options.which == "kept" or (here and not cuda()) else ""
        if gpu == "0" and all(row["gpu"] == "1" for row in rows):
            raise ValueError(
                f"profile = {folder.name!r}; allowed where PyTorch finds a GPU, which {len(rows)} of {len(rows)} "
                "results need; here is none: PROFILE=slurm sends them to a cluster"
            )
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    status = snakemake(options, folder, gpu)
    if any(word in ("--dry-run", "-n", "--unlock", "--summary") for word in options.more):
        return 1 if status else 0
    well = report(options, rows, gpu)
    return 0 if well and status == 0 else 1


if __name__ == "__main__":
    raise SystemExit(main())
