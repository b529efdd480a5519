"""Run the notebooks with other kernels, other numbers of threads or another Python, and compare all their numbers.

    python tools/versions.py                                     all settings, all chapters
    python tools/versions.py two-threads avx2 --chapter curvature/damping
    python tools/versions.py as-published --python /elsewhere/bin/python

This is `make versions`. A chapter passes if nbval finds every committed text again and `tools/compare.py` every
number. With `--out FOLDER` what has been run is kept there, and the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from chapter import ROOT, settings
from compare import compare
from learning_dynamics.ledger.read import chapters, notebook_path

SETTINGS = {
    "as-published": {},
    "two-threads": {"OMP_NUM_THREADS": "2"},
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
    },
    "oldest": {
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "OPENBLAS_CORETYPE": "Nehalem",
    },
}
WHERE = "import numpy, platform, torch; print(f'torch {torch.__version__}, numpy {numpy.__version__}, {torch.backends.cpu.get_cpu_capability()}, Python {platform.python_version()}')"  # noqa: E501


@dataclass(frozen=True)
class Outcome:
    """What one chapter gave under one setting: lines that differ from what is committed, and the seconds it took."""

    chapter: str
    differences: list[str]
    seconds: float


def environment(setting: str) -> dict[str, str]:
    """Return the variables under which a setting's notebooks run; a copy of the library is this folder's."""
    return os.environ | settings() | {"PYTHONPATH": str(ROOT / "lib")} | SETTINGS[setting]


def outcome(chapter: str, setting: str, python: Path | str = sys.executable, root: Path = ROOT) -> Outcome:
    """Run nbval on a chapter's notebook and hold its numbers and figures against the committed ones.

    Args:
        chapter: the chapter's id, `part/name`.
        setting: a key of `SETTINGS`.
        python: the interpreter, whose environment may hold another torch.
        root: the book's folder.
    """
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(python, "-m", "pytest", "-q", "--nbval", "--nbval-current-env", "-p", "no:cacheprovider"),
            *("--nbval-sanitize-with", ROOT / "tests/nbval/sanitize.cfg", "--timeout", "1800"),
            *("-c", os.devnull, "--rootdir", root, "-p", "no:cov", "--tb", "line"),
            notebook_path(root, chapter),
        ]
        variables = environment(setting) | {"LEARNING_DYNAMICS_RECORDS": folder}
        done = subprocess.run(
            [str(word) for word in command],
            cwd=root,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )
        lines = compare(chapter, Path(folder), root)
    if done.returncode:
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        lines = [
            f"{chapter}: nbval: {line}" for line in failed or [(done.stdout + done.stderr)[-300:]]
        ] + lines
    return Outcome(chapter, lines, time.perf_counter() - started)


def run(
    setting: str, names: list[str], python: Path | str = sys.executable, out: Path | None = None
) -> list[Outcome]:
    """Run chapters under one setting, printing each, and return what they gave; what `out` holds is not run again."""
    kept = out / f"{setting}.jsonl" if out else None
    found: list[Outcome] = []
    if kept and kept.exists():
        found = [Outcome(**json.loads(line)) for line in kept.read_text(encoding="utf-8").splitlines()]
    for chapter in names:
        if chapter in {each.chapter for each in found}:
            continue
        new = outcome(chapter, setting, python)
        found.append(new)
        print(f"{setting}: {chapter}: {len(new.differences)} differences, {new.seconds:.0f} s", flush=True)
        if kept:
            kept.parent.mkdir(parents=True, exist_ok=True)
            with kept.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(asdict(new)) + "\n")
    return [each for each in found if each.chapter in names]


def table(results: dict[str, list[Outcome]]) -> str:
    """Return setting, chapters run, chapters that differ and differences as a table in Markdown, then each line."""
    rows = ["| setting | chapters | that differ | differences |", "|---|---|---|---|"]
    for setting, found in results.items():
        differ = [each for each in found if each.differences]
        total = sum(len(each.differences) for each in found)
        rows.append(f"| {setting} | {len(found)} | {len(differ)} | {total} |")
    lines = [
        f"{setting}: {line}"
        for setting, found in results.items()
        for each in found
        for line in each.differences
    ]
    return "\n".join([*rows, "", *lines]).rstrip()


def main() -> int:
    parser = argparse.ArgumentParser(description="Same numbers with other kernels, threads and versions?")
    parser.add_argument("setting", nargs="*", help=f"{', '.join(SETTINGS)}; all if left out")
    parser.add_argument("--chapter", nargs="+", default=None, help="part/name; all chapters if left out")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of another environment")
    parser.add_argument("--out", type=Path, default=None, help="a folder that keeps what has been run")
    options = parser.parse_args()
    chosen, names = options.setting or list(SETTINGS), options.chapter or chapters(ROOT)
    for name, given, allowed in (("SETTING", chosen, list(SETTINGS)), ("CHAPTER", names, chapters(ROOT))):
        unknown = [each for each in given if each not in allowed]
        if unknown:
            print(f"{name} = {', '.join(unknown)}; allowed: {', '.join(allowed)}", file=sys.stderr)
            return 2
    results = {}
    for setting in chosen:
        where = subprocess.run(
            [options.python, "-c", WHERE],
            env=environment(setting),
            capture_output=True,
            text=True,
            check=True,
        )
        print(f"{setting}: {where.stdout.strip()}", flush=True)
        results[setting] = run(setting, names, options.python, options.out)
    print(table(results))
    return 1 if any(each.differences for found in results.values() for each in found) else 0


if __name__ == "__main__":
    raise SystemExit(main())
