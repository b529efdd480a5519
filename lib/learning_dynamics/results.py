"""Kept results: what a figure needs beyond the time a chapter has, computed once and committed.

A result is `PART/NAME/RUN.npz` with `RUN.json` beside it, which says how it was made. They lie in `book/results` of the
repository, and in `learning_dynamics/kept` where the library is installed.
"""

from __future__ import annotations

import hashlib
import io
import json
import operator
import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from learning_dynamics._internal.files import write_whole

LARGEST = 300_000
PACKAGE = Path(__file__).resolve().parent


class DisagreementError(ValueError):
    """A kept result and its recomputation differ; the message names the array and the worst entry."""


@dataclass(frozen=True)
class Provenance:
    """How a kept result was made.

    Attributes:
        command: the command that makes it again.
        commit: the repository's commit, with `-dirty` if the library had other changes, or `unknown`.
        seeds: the seeds behind it.
        device: the device, in words.
        torch: the version of torch.
        wall_time: seconds.
        rtol: relative difference that making it again may show.
        sha256: checksum of the .npz.
    """

    command: str
    commit: str
    seeds: tuple[int, ...]
    device: str
    torch: str
    wall_time: float
    rtol: float
    sha256: str


@dataclass(frozen=True, eq=False)
class Kept:
    """A kept result: its arrays by name, and how they were made.

    Attributes:
        chapter: the chapter's id, `part/name`.
        run_name: the result's own name.
        arrays: the arrays by name.
        provenance: how they were made.
    """

    chapter: str
    run_name: str
    arrays: dict[str, np.ndarray]
    provenance: Provenance

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.arrays:
            raise KeyError(f"{self.chapter}/{self.run_name} has no array {name!r}: {', '.join(self.arrays)}")
        return self.arrays[name]


@dataclass(frozen=True)
class Worst:
    """The entry of an array that differs most, measured against what is allowed there.

    Attributes:
        index: its place.
        kept, recomputed: its two values.
        share: the difference divided by the allowed one, at most 1.
    """

    index: tuple[int, ...]
    kept: float
    recomputed: float
    share: float


@dataclass(frozen=True)
class Agreement:
    """Kept and recomputed arrays agree.

    Attributes:
        worst: the worst entry of each array, by its name.
        entries: how many were compared.
        rtol, atol: the tolerances that were asked for.
    """

    worst: dict[str, Worst]
    entries: int
    rtol: float
    atol: float


def folder() -> Path:
    """Return where kept results lie: the repository's `book/results`, else the installed library's `kept`.

    The environment variable LEARNING_DYNAMICS_RESULTS names another folder, so that a result can be made again beside
    the committed one.

    Raises:
        FileNotFoundError: there is neither.
    """
    if named := os.environ.get("LEARNING_DYNAMICS_RESULTS"):
        return Path(named)
    if (repository := _repository()) is not None:
        return repository / "book" / "results"
    if (PACKAGE / "kept").is_dir():
        return PACKAGE / "kept"
    raise FileNotFoundError(
        "kept results = None; allowed: a folder of a repository or of the installed library"
    )


def path(chapter: str, run_name: str, root: Path | str | None = None) -> Path:
    """Return where a result's .npz lies, or would lie; its .json is beside it.

    Args:
        chapter: the chapter's id, `part/name`.
        run_name: the result's name.
        root: the folder of all results; `folder()` if left out.

    Raises:
        ValueError: a name is not as described.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*/[a-z][a-z0-9_]*", chapter):
        raise ValueError(f"chapter = {chapter!r}; allowed: 'part/name' in lower case")
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", run_name):
        raise ValueError(
            f"run_name = {run_name!r}; allowed: lower case letters, digits, hyphens and underscores"
        )
    return (folder() if root is None else Path(root)) / chapter / f"{run_name}.npz"


def library_commit() -> str:
    """Return the commit of the repository that the library lies in, with `-dirty` if the library is not as committed.

    `unknown` where there is no repository. A file that was never committed counts; what lies outside `lib` does not.
    """
    if (repository := _repository()) is None:
        return "unknown"
    git = ["git", "-C", str(repository)]
    try:
        head, changed = (
            subprocess.run([*git, *words], capture_output=True, text=True, check=True).stdout.strip()
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--", "lib"])
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("-dirty" if changed else "")


def keep(
    chapter: str,
    run_name: str,
    arrays: Mapping[str, Any],
    *,
    command: str,
    seeds: Sequence[int],
    device: torch.device | str,
    wall_time: float,
    rtol: float = 1e-6,
    commit: str | None = None,
    folder: Path | str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a result and how it was made; what an interruption leaves half done, `load` refuses.

    Args:
        chapter: the chapter's id, `part/name`.
        run_name: the result's name: lower case letters, digits, hyphens and underscores.
        arrays: tensors or arrays of numbers by name, any shape. Diverged runs are inf, never NaN.
        command: the command that makes it again.
        seeds: the seeds behind it.
        device: the device it was computed on.
        wall_time: seconds it took.
        rtol: relative difference that making it again may show, at least 0.
        commit: the commit when it was begun; the present one if left out.
        folder: the folder of all results; `folder()` if left out.
        overwrite: replace a result of the same name.

    Returns:
        The path of the .npz.

    Raises:
        ValueError: an argument is not as described, or a file would exceed 300 kB.
        FileExistsError: there is a result of this name and `overwrite` is False.
    """
    target = path(chapter, run_name, folder)
    if not command.strip():
        raise ValueError(f"command = {command!r}; allowed: the command that makes the result again")
    if not 0 <= wall_time < float("inf"):
        raise ValueError(f"wall_time = {wall_time!r}; allowed: seconds >= 0")
    if not 0 <= rtol < float("inf"):
        raise ValueError(f"rtol = {rtol!r}; allowed: a number >= 0")
    if not arrays:
        raise ValueError("arrays is empty; allowed: at least one")
    checked = {name: _number_array(name, values) for name, values in arrays.items()}
    for name, values in checked.items():
        if name in ("allow_pickle", "file"):  # savez would take them for arguments of its own
            raise ValueError(f"arrays has the name {name!r}; allowed: another word")
        if not re.fullmatch(r"[A-Za-z]\w*", name):
            raise ValueError(
                f"arrays has the name {name!r}; allowed: a word of letters, digits and underscores"
            )
        if np.isnan(values).any():
            index = _plain_index(np.argwhere(np.isnan(values))[0])
            raise ValueError(f"arrays[{name!r}] is NaN at {index}; allowed: numbers, inf for a diverged run")
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **checked)  # type: ignore[arg-type]  # no array is called allow_pickle, see above
    content = buffer.getvalue()
    provenance = Provenance(
        command=command,
        commit=library_commit() if commit is None else commit,
        seeds=_whole_numbers(seeds),
        device=_device_in_words(device),
        torch=str(torch.__version__),
        wall_time=round(float(wall_time), 3),
        rtol=float(rtol),
        sha256=hashlib.sha256(content).hexdigest(),
    )
    described = (json.dumps(asdict(provenance), indent=1, ensure_ascii=False) + "\n").encode()
    for ending, size in ((".npz", len(content)), (".json", len(described))):
        if size > LARGEST:
            raise ValueError(f"{run_name}{ending} would take {size} bytes; allowed: at most {LARGEST}")
    if target.exists() and target.with_suffix(".json").exists() and not overwrite:
        raise FileExistsError(
            f"{chapter}/{run_name} is kept already; allowed: overwrite=True or another name"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, content)
    write_whole(target.with_suffix(".json"), described)
    return target


def load(chapter: str, run_name: str, *, folder: Path | str | None = None) -> Kept:
    """Return a kept result.

    Args:
        chapter: the chapter's id, `part/name`.
        run_name: the result's name.
        folder: the folder of all results; `folder()` if left out.

    Raises:
        FileNotFoundError: there is no such result.
        ValueError: a name is not as described, the .json is damaged, or the .npz is not the one that it describes.
    """
    found_at = path(chapter, run_name, folder)
    described = found_at.with_suffix(".json")
    if not (found_at.is_file() and described.is_file()):
        there = sorted(found.stem for found in found_at.parent.glob("*.npz"))
        raise FileNotFoundError(f"{chapter} has no kept result {run_name!r}; allowed: one of {there}")
    try:
        fields = json.loads(described.read_text(encoding="utf-8"))
        provenance = Provenance(**(fields | {"seeds": tuple(fields["seeds"])}))
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{chapter}/{run_name}.json = {type(error).__name__}: {error}; allowed: as results.keep writes it"
        ) from error
    content = found_at.read_bytes()
    if hashlib.sha256(content).hexdigest() != provenance.sha256:
        raise ValueError(f"SHA-256 of {chapter}/{run_name}.npz = another; allowed: the one in its .json")
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return Kept(chapter, run_name, {name: arrays[name] for name in arrays.files}, provenance)


def agree(
    kept: Kept | Mapping[str, Any], recomputed: Mapping[str, Any], rtol: float, atol: float = 0.0
) -> Agreement:
    """Hold recomputed arrays against kept ones: |kept - recomputed| <= atol + rtol |kept| in every entry.

    Args:
        kept: a kept result, or the slices of its arrays that were recomputed, by name.
        recomputed: the same arrays computed again; each must be among the kept ones and of the same shape.
        rtol: allowed relative difference.
        atol: allowed absolute difference.

    Returns:
        What was compared, with the worst entry of each array.

    Raises:
        DisagreementError: an array is missing, has another shape, holds NaN, or differs; one line names it.
        ValueError: a tolerance is negative, or nothing is compared.
    """
    for name, value in (("rtol", rtol), ("atol", atol)):
        if not 0 <= value < float("inf"):
            raise ValueError(f"{name} = {value!r}; allowed: a number >= 0")
    if not recomputed:
        raise ValueError("recomputed is empty; allowed: at least one array")
    old = kept.arrays if isinstance(kept, Kept) else kept
    worst = {}
    entries = 0
    for name, values in recomputed.items():
        if name not in old:
            raise DisagreementError(
                f"{name} was recomputed but is not kept: kept are {', '.join(sorted(old))}"
            )
        array = _number_array(name, values)
        worst[name] = _worst(name, _number_array(name, old[name]), array, rtol, atol)
        entries += array.size
    return Agreement(worst, entries, rtol, atol)


def _worst(name: str, kept: np.ndarray, recomputed: np.ndarray, rtol: float, atol: float) -> Worst:
    if kept.shape != recomputed.shape:
        raise DisagreementError(f"{name} has shape {recomputed.shape} recomputed and {kept.shape} kept")
    if not kept.size:
        raise ValueError(f"{name} has shape {kept.shape}; allowed: at least one entry")
    equal = kept == recomputed  # before large integers are rounded
    kept, recomputed = np.asarray(kept, np.float64), np.asarray(recomputed, np.float64)
    for side, values in (("recomputed", recomputed), ("kept", kept)):
        if np.isnan(values).any():
            raise DisagreementError(
                f"{name} is NaN at {_plain_index(np.argwhere(np.isnan(values))[0])} in the {side} array"
            )
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        share = np.abs(kept - recomputed) / (atol + rtol * np.abs(kept))
    both_finite = np.isfinite(kept) & np.isfinite(recomputed)
    share = np.where(equal, 0.0, np.where(both_finite & ~np.isnan(share), share, np.inf))
    index = np.unravel_index(int(share.argmax()), share.shape)
    entry = Worst(_plain_index(index), float(kept[index]), float(recomputed[index]), float(share[index]))
    if entry.share > 1:
        raise DisagreementError(
            f"{name} differs, worst at {entry.index}: kept {entry.kept!r}, recomputed {entry.recomputed!r}, "
            f"{entry.share:.3g} times what rtol = {rtol:g} and atol = {atol:g} allow"
        )
    return entry


def _number_array(name: str, values: Any) -> np.ndarray:
    if isinstance(values, np.ma.MaskedArray):
        raise ValueError(f"{name} is a masked array; allowed: all its numbers, inf for a diverged run")
    try:
        if isinstance(values, torch.Tensor):
            values = values.detach().cpu().resolve_conj().resolve_neg()
            values = (values.float() if values.dtype == torch.bfloat16 else values).numpy()
        array = np.asarray(values)
    except (TypeError, ValueError) as error:
        reason = str(error).partition(". ")[0]
        raise ValueError(f"{name} = {reason}; allowed: an array of numbers") from error
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} has dtype {array.dtype}; allowed: booleans, integers or real numbers")
    return array


def _whole_numbers(seeds: Sequence[int]) -> tuple[int, ...]:
    try:
        return tuple(operator.index(seed) for seed in seeds)
    except TypeError:
        raise ValueError(f"seeds = {seeds!r}; allowed: integers") from None


def _plain_index(index: Any) -> tuple[int, ...]:
    return tuple(int(i) for i in index)


def _repository() -> Path | None:
    """Return the book's repository if the library lies in it."""
    root = PACKAGE.parents[1]
    return root if (root / "pyproject.toml").is_file() and (root / "book").is_dir() else None


def _device_in_words(device: torch.device | str) -> str:
    device = torch.device(device)
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    return f"{device} ({platform.machine()}, {torch.get_num_threads()} threads)"
