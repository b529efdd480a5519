"""Write workflow/results.csv, every kept and paper-scale result with its command and cost, and costs.csv, by chapter.

    python tools/workflow_table.py

Names and commands come from the experiments. A kept result's minutes are those that its .json names; `minutes` of the
others, `mem_mb`, `order` and `files` are entered by hand in the table and stay as they are there. A new result gets a
question mark for its minutes, which the tests refuse.
"""

from __future__ import annotations

import csv
import io
import json
import shlex
from pathlib import Path

from chapter import ROOT, write_atomically
from learning_dynamics.data.public import PUBLIC
from learning_dynamics.experiments import command

TABLE = Path("workflow") / "results.csv"
COLUMNS = (
    *("which", "chapter", "name", "gpu", "resumable", "minutes", "basis", "mem_mb", "order", "files", "sets"),
    "command",
)
"""`which`: kept or paper. `basis`: measured or estimated. `order`: on a GPU the smallest goes first. `files`: WORD=FILE
for what stands in the command for a file that does not ship. `sets`: public data sets that are downloaded before."""


def read(path: Path) -> dict[str, dict[str, str]]:
    """Return a table's rows by chapter/name; none if there is no table."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as stream:
        return {f"{row['chapter']}/{row['name']}": row for row in csv.DictReader(stream)}


def row(which: str, planned: command.Plan, old: dict[str, str], root: Path = ROOT) -> dict[str, str]:
    """Return a result's line of the table, with what was entered by hand before."""
    made = root / "book" / "results" / planned.chapter / f"{planned.name}.json"
    measured = json.loads(made.read_text(encoding="utf-8"))["wall_time"] / 60 if made.exists() else None
    given = {str(getattr(planned.options, option.key)) for option in planned.experiment.options}
    needed = given.union(shlex.split(planned.command)) if planned.scale == "paper" else set()
    return {
        "which": which,
        "chapter": planned.chapter,
        "name": planned.name,
        "gpu": str(int(planned.device.startswith("cuda"))),
        "resumable": str(int(planned.experiment.resumable)),
        "minutes": old.get("minutes", "?") if measured is None else f"{measured:.1f}",
        "basis": "estimated" if measured is None else "measured",
        "mem_mb": old.get("mem_mb", "2000"),
        "order": old.get("order", "9"),
        "files": old.get("files", " ".join(f"{word}=?" for word in planned.needs)),
        "sets": " ".join(name for name in PUBLIC if name.removesuffix("-test") in needed),
        "command": planned.command,
    }


def table(root: Path = ROOT) -> str:
    """Return the whole table as it should be."""
    old = read(root / TABLE)
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for which, planned in (("kept", command.kept()), ("paper", command.paper())):
        for each in sorted(planned, key=lambda each: (each.chapter, each.name)):
            writer.writerow(row(which, each, old.get(f"{each.chapter}/{each.name}", {}), root))
    return text.getvalue()


def costs(table: str) -> str:
    """Return what the results of each chapter cost in hours, from the text of the table: a line a chapter."""
    sums: dict[str, dict[str, float]] = {}
    for each in csv.DictReader(io.StringIO(table)):
        kind = "kept" if each["which"] == "kept" else "gpu" if each["gpu"] == "1" else "cpu"
        hours = sums.setdefault(each["chapter"], {"kept": 0.0, "cpu": 0.0, "gpu": 0.0})
        hours[kind] += float(each["minutes"]) / 60 if each["minutes"] != "?" else 0.0
    lines = ["chapter,kept: CPU hours (measured),paper: CPU hours (estimated),paper: GPU hours (estimated)"]
    for chapter, hours in sorted(sums.items()):
        shown = [
            "" if not value else "under 0.1" if value < 0.05 else f"{value:.{0 if value >= 10 else 1}f}"
            for value in hours.values()
        ]
        lines.append(",".join([chapter, *shown]))
    return "\n".join(lines) + "\n"


def main() -> int:
    text = table()
    write_atomically(ROOT / TABLE, text)
    write_atomically(ROOT / TABLE.with_name("costs.csv"), costs(text))
    open_questions = [line for line in text.splitlines() if "?" in line]
    print(f"{TABLE}: {len(text.splitlines()) - 1} results; {len(open_questions)} lack minutes or files")
    print("".join(f"  {line}\n" for line in open_questions), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
