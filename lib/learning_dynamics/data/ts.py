"""The text format of the time-series classification archives: one series a line, `1.0,2.5,...:label`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

SETTINGS = (
    "univariate", "dimension", "dimensions", "timestamps", "missing", "equallength", "serieslength", "classlabel",
    "targetlabel",
)  # fmt: skip
"""Header lines that say how the data are to be read (compared in lower case); the others are names and remarks."""


def read_ts(path: Path | str) -> tuple[np.ndarray, np.ndarray]:
    """Return univariate series of one length and their labels from a `.ts` file (Bagnall et al. 2018).

    Lines that start with `#` are comments and those with `@` are headers; the data begin after `@data`. What the
    headers declare is held against the data: one channel, no time stamps, nothing missing, the length of a series,
    and the names of the classes.

    Args:
        path: the file.

    Returns:
        Series `(n, T)` float64 and labels `(n,)`, strings.

    Raises:
        ValueError: the file has no data; a header declares what is not read here (several channels, time stamps,
            missing values, unequal lengths, a number to predict) or says something twice; or a line has several
            channels, a value that is missing or not finite, another length, or a label that is empty or not declared;
            or the file is no text in UTF-8.
    """
    path = Path(path)
    headers: dict[str, str] = {}
    series: list[np.ndarray] = []
    labels: list[str] = []
    length, classes = 0, frozenset[str]()
    for number, line in enumerate(_text(path).split("\n"), 1):
        line, place = line.strip(), f"{path.name}, line {number}"
        if not line or line.startswith("#"):
            continue
        if line.startswith("@"):
            word, rest = (*line[1:].split(None, 1), "", "")[:2]
            word = word.lower()
            if "data" in headers or (word in SETTINGS and word in headers):
                raise ValueError(f"{place} = {line!r}; allowed: each header once, before @data")
            headers[word] = rest.strip()
            if word == "data":
                length, classes = _declared(path.name, headers)
            continue
        if "data" not in headers:
            raise ValueError(f"{place} = {line!r}; allowed before @data: comments and settings")
        row, label = _series(place, line)
        length = length or len(row)
        if len(row) != length:
            raise ValueError(f"{place}: {len(row)} values; allowed: {length}")
        if not label or (classes and label not in classes):
            allowed = ", ".join(sorted(classes)) if classes else "a name"
            raise ValueError(f"{place}: label = {label!r}; allowed: {allowed}")
        series.append(row)
        labels.append(label)
    if not series:
        raise ValueError(f"{path.name} has no series after @data; allowed: at least one")
    return np.stack(series), np.array(labels)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path.name} = {error.reason} at byte {error.start}; allowed: text in UTF-8"
        ) from error


def _series(place: str, line: str) -> tuple[np.ndarray, str]:
    """Return the values `(T,)` and the label of a line; `place` says in an error where it stands."""
    values, _, label = (part.strip() for part in line.rpartition(":"))
    if ":" in values or not values:
        raise ValueError(f"{place} = {line[:40]!r}; allowed: one channel and a label, `1.0,2.5,...:label`")
    plain = values if values.isascii() and "_" not in values else "?"  # float takes 1_000 and other alphabets
    try:
        row = np.array([float(value) for value in plain.split(",")])
    except ValueError:
        raise ValueError(f"{place} = {line[:40]!r}; allowed: numbers, none missing") from None
    if not np.isfinite(row).all():
        raise ValueError(f"{place} = {line[:40]!r}; allowed: finite numbers")
    return row, label


def _declared(file: str, headers: dict[str, str]) -> tuple[int, frozenset[str]]:
    """Return the length of a series (0 where none is declared) and the classes (none if they are not named)."""
    for word, right in (
        ("univariate", "true"),
        ("dimension", "1"),
        ("dimensions", "1"),
        ("timestamps", "false"),
        ("missing", "false"),
        ("equallength", "true"),
    ):
        if headers.get(word, right).lower() != right:
            raise ValueError(f"{file}: @{word} = {headers[word]!r}; allowed: {right}")
    if headers.get("targetlabel", "false").lower() != "false":
        raise ValueError(
            f"{file}: @targetlabel = {headers['targetlabel']!r}; allowed: false, a file of classes"
        )
    length, (kind, *names) = (
        headers.get("serieslength", "0"),
        headers.get("classlabel", "true").split() or [""],
    )
    if not length.isdecimal():
        raise ValueError(f"{file}: @seriesLength = {length!r}; allowed: an integer")
    if kind.lower() != "true":
        raise ValueError(
            f"{file}: @classLabel = {headers['classlabel']!r}; allowed: true and the names of the classes"
        )
    return int(length), frozenset(names)
