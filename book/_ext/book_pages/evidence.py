"""The inventory's rows, each with what the committed notebooks say about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from learning_dynamics.ledger import read

INVENTORY = "book/inventory.csv"
CHECKED = ("holds", "reproduced", "partly", "not reproduced", "corrected")
STATES: dict[str, str] = {
    "holds": "a proved statement, within a derived tolerance",
    "reproduced": "an experiment that meets its criterion",
    "partly": "an interval leaves it open; the reason is measured",
    "not reproduced": "the criterion is not met; the reason is measured",
    "corrected": "the printed form fails, the corrected one holds",
    "out of reach": "needs hours or data that were not at hand; the command is ready",
    "stated": "no computation can check it; the page says why",
    "not evaluated": "not judged at this scale",
    "in the text": "a definition, a convention or a background theorem, stated in its chapter",
    "skipped": "left out, with the reason",
    "open": "its chapter is written, its check is not",
    "planned": "its chapter is not written yet",
}


@dataclass(frozen=True)
class Source:
    """One of the works whose statements the book checks."""

    code: str
    prefix: str
    name: str
    authors: str
    note: str


SOURCES = (
    Source("003", "regularization", "Implicit regularization", "Ma, 2022", "lecture notes, chapter 9"),
    Source("000", "implicit", "Implicit parameterization", "Gehring and others, 2021", "conference paper"),
    Source(
        "001", "representation", "Nonlinear representation learning", "Kawaguchi and others, 2022", "article"
    ),
    Source("002", "natgrad", "The natural gradient", "Martens, 2020", "article"),
    Source("004", "thesis", "Adaptive momentum optimizers", "Orvieto, 2023", "thesis"),
)


@dataclass(frozen=True)
class Row:
    """One line of the inventory and its record, if there is one."""

    id: str
    source: str
    label: str
    kind: str
    location: str
    title: str
    chapter: str
    must: str
    note: str
    record: dict[str, Any] | None
    written: bool

    @property
    def anchor(self) -> str:
        """The label of the id: `:` and `.` become `-`."""
        return anchor(self.id)

    @property
    def own(self) -> bool:
        """Whether the result is the book's own, not a source's."""
        return self.kind == "beyond"

    def state(self, has_anchor: Callable[[Row], bool]) -> str:
        """Return the verdict, or what stands in for one."""
        if self.record is not None:
            return self.record["verdict"]
        if self.must == "skip":
            return "skipped"
        if not self.written:
            return "planned"
        return "in the text" if self.must == "state" and has_anchor(self) else "open"


def anchor(id: str) -> str:
    """Return the label of an inventory id: what directives are labelled with and links point at."""
    return id.replace(":", "-").replace(".", "-")


def chapter_name(chapter: str) -> str:
    """Return a title for a chapter that has no page yet."""
    return chapter.rpartition("/")[2].replace("_", " ").capitalize()


def files(root: Path) -> list[Path]:
    """Return every file that the generated pages depend on."""
    return [root / INVENTORY, *sorted((root / "chapters").glob("*/*.ipynb"))]


def stamp(root: Path) -> tuple[tuple[str, int, int], ...]:
    """Return what changes when one of these files changes, appears or goes."""
    stats = [(path, path.stat()) for path in files(root)]
    return tuple((str(path.relative_to(root)), stat.st_mtime_ns, stat.st_size) for path, stat in stats)


def rows(root: Path) -> tuple[Row, ...]:
    """Return the inventory with its records, in the inventory's order.

    Raises:
        ValueError: A record's id is not in the inventory, or a record stands in another chapter than its row says.
    """
    return _rows(root, stamp(root))


@lru_cache(maxsize=2)
def _rows(root: Path, _: tuple[tuple[str, int, int], ...]) -> tuple[Row, ...]:
    lines = read.inventory(root / INVENTORY)
    home = {line["id"]: line["chapter"] for line in lines}
    found: dict[str, dict[str, Any]] = {}
    for record in read.records(root):
        if record["id"] not in home:
            raise ValueError(f"id in {record['chapter']} = {record['id']!r}; allowed: those of {INVENTORY}")
        if record["chapter"] != home[record["id"]]:
            raise ValueError(
                f"chapter of {record['id']!r} = {record['chapter']}; allowed by {INVENTORY}: {home[record['id']]}"
            )
        found[record["id"]] = record
    names = ("id", "source", "label", "kind", "location", "title", "chapter", "must", "note")
    return tuple(
        Row(
            **{name: line[name] for name in names},
            record=found.get(line["id"]),
            written=read.notebook_path(root, line["chapter"]).is_file(),
        )
        for line in lines
    )


def groups(table: Iterable[Row]) -> list[tuple[Source, list[Row]]]:
    """Return the rows by source, in the order of the book; the book's own results come last.

    Raises:
        ValueError: A row names a source that the book does not have.
    """
    own = Source("own", "own", "Beyond the sources", "this book", "checked in the same way")
    members: dict[str, list[Row]] = {source.code: [] for source in (*SOURCES, own)}
    for row in table:
        code = own.code if row.own else row.source
        if code not in members:
            raise ValueError(f"{INVENTORY}: source of {row.id!r} = {row.source!r}; allowed: the known ones")
        members[code].append(row)
    return [(source, members[source.code]) for source in (*SOURCES, own) if members[source.code]]
