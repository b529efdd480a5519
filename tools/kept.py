"""Hold kept results that were made again against the committed ones: python tools/kept.py FOLDER.

`make kept` makes them by Snakemake into FOLDER, without touching the committed files, and calls this.
"""

from __future__ import annotations

import sys
from pathlib import Path

from chapter import ROOT
from learning_dynamics import results
from learning_dynamics.experiments import command


def compare(planned: command.Plan, folder: Path, root: Path = ROOT) -> str:
    """Return a line that says whether a result made again agrees; a difference starts with `DIFFERS`."""
    name = f"{planned.chapter}/{planned.name}"
    try:
        new = results.load(planned.chapter, planned.name, folder=folder)
    except FileNotFoundError:
        return f"{name}: not made again"
    except ValueError as error:
        return f"DIFFERS {name}: {error}"
    try:
        old = results.load(planned.chapter, planned.name, folder=root / "book" / "results")
        if set(new.arrays) != set(old.arrays):
            return f"DIFFERS {name}: arrays {sorted(new.arrays)}, kept are {sorted(old.arrays)}"
        agreement = results.agree(old, new.arrays, rtol=old.provenance.rtol)
    except FileNotFoundError:
        return f"{name}: made, and none is kept yet"
    except ValueError as error:
        return f"DIFFERS {name}: {error}"
    worst = max((each.share for each in agreement.worst.values()), default=0.0)
    return (
        f"{name}: {agreement.entries} entries agree to {old.provenance.rtol:g}, the worst at {worst:.1g} of that "
        f"(kept at {old.provenance.commit[:8]}{'-dirty' * old.provenance.commit.endswith('-dirty')})"
    )


def main() -> int:
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        print(
            "usage: python tools/kept.py FOLDER (of results made again; `make kept` makes them)",
            file=sys.stderr,
        )
        return 2
    lines = [compare(planned, Path(sys.argv[1])) for planned in command.kept()]
    print("\n".join(lines))
    made = [line for line in lines if not line.endswith("not made again")]
    differ = sum(line.startswith("DIFFERS") for line in lines)
    print(f"{len(lines)} kept results, {len(made)} made again, {differ} differ")
    return 1 if differ or not made else 0


if __name__ == "__main__":
    raise SystemExit(main())
