r"""One command for all experiments: the same options, refusals before computing, exit statuses, and a registry.

An experiment is a module `experiments/CHAPTER/NAME.py` that declares itself::

    from learning_dynamics.experiments.command import Call, Experiment, Option, Scaled

    def compute(call: Call) -> dict[str, Tensor]:
        '''Return the arrays of one result.'''
        runs = [call.piece(f"rate-{rate}", learn, rate, call.seeds, call.options.steps) for rate in call.options.rates]
        return {"error": torch.stack([each["error"] for each in runs])}

    EXPERIMENT = Experiment(
        chapter="noise/fractional_noise",
        name=lambda options: "long-runs",
        compute=compute,
        options=(
            Option("--steps", "number of steps", Scaled(smoke=20, book=1000, paper=100_000)),
            Option("--rates", "learning rates", (0.1, 0.3)),
        ),
        seeds=Scaled(smoke=2, book=12, paper=64),
        rtol=1e-3,
        resumable=True,
        kept=("", "--seed 1"),
    )

    def main(arguments: Sequence[str] | None = None) -> int:
        '''Compute and keep.'''
        return EXPERIMENT.main(arguments)

    if __name__ == "__main__":
        sys.exit(main())

and is called as `python -m learning_dynamics.experiments.CHAPTER.NAME --steps 500`. Every experiment has

    --scale    smoke (seconds), book (what the book keeps) or paper (the source's sizes): sets the defaults of the rest
    --device   cpu unless said otherwise, so that a command gives the same result everywhere
    --seed     the seed that all streams are derived from; `--seeds`, if the experiment has several, says how many
    --part     k/m, or a part's name, where the experiment is split
    --out      folder of all results, if not the book's
    --minutes  stop after so many with exit status 75; the same command goes on where it was
    --resume   save what is done and go on from what an earlier call saved (`--minutes` does so too)
    --overwrite, --dirty

Before anything is computed a call is refused if its result exists (unless `--overwrite`, or `--resume` where the
experiment has checkpoints; if the same command made the result already, there is nothing left to do) or if the library
has changes that are not committed (unless `--dirty`; the result's commit then ends in `-dirty`). On a CPU it computes
with one thread. Exit statuses: 0 kept, 1 failed, 2 refused or bad arguments, 75 the time was up.

Below `book`, and above, the scale is appended to the result's name, as is the part. `kept` lists the calls whose
results lie in the book, `paper` those that take a GPU or data that do not ship; `experiments()`, `kept()` and
`paper()` list them all, with names and commands, and `plan(line)` says what any command would write.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import pkgutil
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import torch
from threadpoolctl import threadpool_limits

from learning_dynamics import results
from learning_dynamics._internal import checkpoints
from learning_dynamics._internal.checkpoints import OutOfTimeError
from learning_dynamics.data import DataError
from learning_dynamics.runs import SCALES, Run

__all__ = [
    "Call",
    "Experiment",
    "Option",
    "OutOfTimeError",
    "Plan",
    "Scaled",
    "experiments",
    "kept",
    "paper",
    "plan",
    "whole",
]

STOPPED = 75
"""Exit status of a call whose time was up."""
PREFIX = "python -m learning_dynamics.experiments."


class Scaled(NamedTuple):
    """A default that depends on the scale.

    Attributes:
        smoke: the value at `"smoke"`.
        book: the value at `"book"`.
        paper: the value at `"paper"`.
    """

    smoke: Any
    book: Any
    paper: Any


@dataclass(frozen=True)
class Option:
    """An argument of one experiment.

    The kind of its values follows from the default: a whole number is at least 1, a real number is finite, `False`
    makes a flag, a tuple takes one or more values.

    Args:
        name: `--name`, or `name` for one that has no dashes and must be given.
        about: what it is, for the help text.
        default: value if left out, or one for each scale; None for none.
        kind: makes a value from a word, or raises a ValueError that says which words are allowed; from the default if
            left out. A `Path` is recorded by its name if that has an ending, else by `metavar`, so that no machine's
            folders are kept.
        allowed: all values there are, if they can be listed.
        required: it must be given.
        metavar: stands for the value in the help text.
    """

    name: str
    about: str
    default: Any = None
    kind: Callable[[str], Any] | None = None
    allowed: Sequence[str] = ()
    required: bool = False
    metavar: str | None = None

    @property
    def key(self) -> str:
        """Its name as an attribute of the options."""
        return self.name.lstrip("-").replace("-", "_")

    def at(self, scale: str) -> Any:
        """Return the default at a scale.

        Args:
            scale: `"smoke"`, `"book"` or `"paper"`.
        """
        return getattr(self.default, scale) if isinstance(self.default, Scaled) else self.default

    @property
    def many(self) -> bool:
        """Whether it takes one or more values."""
        return isinstance(self.at("book"), tuple)

    def value(self, word: str) -> Any:
        """Return the value that a word stands for.

        Args:
            word: one word of the command line.

        Raises:
            ValueError: it stands for none.
        """
        example = self.at("book")
        example = (example or (None,))[0] if self.many else example
        kind = self.kind or (str if example is None else type(example))
        if self.allowed:
            good, allowed = word in self.allowed, ", ".join(self.allowed)
        elif kind is int:
            good, allowed = word.isdecimal() and int(word) >= 1, "an integer >= 1"
        elif kind is float:
            good, allowed = _finite(word), "a finite number"
        else:
            try:
                return kind(word)
            except ValueError as error:
                raise ValueError(f"{self.key} = {word!r}; allowed: {error}") from error
        if not good:
            raise ValueError(f"{self.key} = {word!r}; allowed: {allowed}")
        return kind(word)

    def words(self, value: Any, scale: str) -> list[str]:
        """Return the words that give a value on the command line, none where it is the default of the scale.

        Args:
            value: what the option is to be.
            scale: `"smoke"`, `"book"` or `"paper"`.
        """
        if value == self.at(scale):
            return []
        if value is True:
            return [self.name]
        values = value if isinstance(value, tuple) else (value,)
        words = [
            (each.name if each.suffix else self.metavar or "FOLDER") if isinstance(each, Path) else str(each)
            for each in values
        ]
        return [self.name, *words] if self.name.startswith("--") else words

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        """Add it to a parser; what is missing has the value None, so that it can be told from what is given.

        Args:
            parser: the parser of the command.
        """
        default = self.at("book")
        about = self.about
        if default is not None and default is not False:
            shown = " ".join(map(str, default)) if self.many else default
            about += (
                f" (default: {shown}{', other at other scales' if isinstance(self.default, Scaled) else ''})"
            )
        if self.allowed:
            about += f"; one of {', '.join(self.allowed)}"
        about = about.replace("%", "%%")
        if default is False:
            parser.add_argument(self.name, action="store_true", help=about)
            return
        nargs = "+" if self.many else None if self.name.startswith("--") else "?"
        metavar = self.metavar or (self.key.upper() if self.name.startswith("--") else self.key)
        parser.add_argument(
            self.name, type=_for_argparse(self), nargs=nargs, default=None, metavar=metavar, help=about
        )


@dataclass(eq=False)
class Call:
    """What `compute` is given.

    Attributes:
        options: the experiment's own options and scale, device, seed and part as attributes; with `each`, one value of
            that option.
        run: scale, device, seed and part; its generators and `share`.
        seeds: as many seeds as `--seeds` asks for, shared by no other `--seed`; `[seed]` if the experiment has one.
        name: the result's name.
        part: the part's name or k/m; `all` if not split.
        folder: the folder of this result's checkpoints, or None when nothing is to be saved.
        until: the value of `time.monotonic()` at which to stop, or None.
        wall_time: seconds, set by an experiment that counts them over several calls by itself.
    """

    options: argparse.Namespace
    run: Run
    seeds: list[int]
    name: str
    part: str
    folder: Path | None = None
    until: float | None = None
    wall_time: float | None = None
    _settings: str = ""
    _earlier: float = field(default=0.0)

    def piece(self, name: str, compute: Callable[..., Mapping[str, Any]], *arguments: Any) -> dict[str, Any]:
        """Return what `compute(*arguments)` returns, saved for a later call if this one saves anything.

        Args:
            name: the piece's name, a file name of its own among those of this result.
            compute: returns tensors, numbers and strings by name.
            arguments: its arguments.

        Raises:
            OutOfTimeError: the time is up and the piece is not there yet; at least one is made in each call.
        """
        if self.folder is None:
            return dict(compute(*arguments))
        path = self.folder / f"{name}.pt"
        if (state := checkpoints.load(path, settings=self._settings)) is not None:
            self._earlier += state["seconds"]
            return state["piece"]
        if self.until is not None and self._made and time.monotonic() >= self.until:
            raise OutOfTimeError(
                f"{self.name}: the time was up before {name}; the same call goes on from there"
            )
        began = time.monotonic()
        piece = dict(compute(*arguments))
        checkpoints.save(path, {"piece": piece, "seconds": time.monotonic() - began}, settings=self._settings)
        self._made = True
        return piece

    _made: bool = False


@dataclass(frozen=True, eq=False)
class Plan:
    """One result that a call would write.

    Attributes:
        experiment: which experiment makes it.
        name: the result's name in the folder of its chapter.
        command: the command that makes it and nothing else, the one its .json names.
        options: as `Call` has them.
        scale, device, seed, count, part: as on the command line; `count` is the number of seeds, 0 without `--seeds`.
        needs: what stands in the command for files that do not ship with the book.
    """

    experiment: Experiment
    name: str
    command: str
    options: argparse.Namespace
    scale: str
    device: str
    seed: int
    count: int
    part: str
    needs: tuple[str, ...]

    @property
    def chapter(self) -> str:
        """The chapter's id."""
        return self.experiment.chapter

    def call(self) -> Call:
        """Return what `compute` is given."""
        part = self.part if isinstance(self.experiment.parts, int) else "all"
        run = Run(self.chapter, self.scale, self.device, self.seed, part)
        seeds = [10_000 * self.seed + i for i in range(self.count)] if self.count else [self.seed]
        values = [getattr(self.options, option.key) for option in self.experiment.options]
        given = [value for value in values if isinstance(value, Path) and value.exists()]
        data = f", data {checkpoints.fingerprint(*given)}" if given else ""
        return Call(self.options, run, seeds, self.name, self.part, _settings=self.command + data)


@dataclass(frozen=True, eq=False)
class Experiment:
    """An experiment of a chapter, whose results are kept.

    Args:
        chapter: the chapter's id, `part/name`.
        name: the result's name, given the options; part and scale are appended.
        compute: returns the arrays of one result.
        options: its own options, in the order in which a command names them.
        seeds: how many seeds `--seeds` stands for if left out; None if there is only `--seed`.
        parts: the m of `--part k/m`, or the names of the parts, of which a call then names one.
        each: an option that takes several values; every value makes a result of its own.
        rtol: relative difference that making a result again may show, or a function of the options.
        resumable: `compute` goes on from checkpoints, by `call.piece` or by `call.folder` and `call.until`.
        devices: where it can run.
        kept: the arguments of the calls whose results lie in the book.
        paper: the arguments of the calls that need a GPU, or hours, or data that do not ship.
        check: raises a ValueError if options do not fit together.
        separator: stands before the part and the scale in a result's name.
    """

    chapter: str
    name: Callable[[argparse.Namespace], str]
    compute: Callable[[Call], Mapping[str, Any]]
    options: Sequence[Option] = ()
    seeds: int | Scaled | None = None
    parts: int | Sequence[str] = 1
    each: str | None = None
    rtol: float | Callable[[argparse.Namespace], float] = 1e-6
    resumable: bool = False
    devices: Sequence[str] = ("cpu", "cuda")
    kept: Sequence[str] = ()
    paper: Sequence[str] = ()
    check: Callable[[argparse.Namespace], None] | None = None
    separator: str = "-"

    @property
    def module(self) -> str:
        """The full name of the module that declares it, also when that module is run as a script."""
        name = self.compute.__module__
        if name == "__main__" and (spec := getattr(sys.modules[name], "__spec__", None)) is not None:
            return spec.name
        return name

    def plans(self, words: Sequence[str]) -> tuple[Plan, ...]:
        """Return what a call with these arguments would write; nothing is read or written.

        Args:
            words: the arguments of the command, one a word.

        Raises:
            ValueError: an argument is not as described.
        """
        return self._plans(self._parse(words))

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Compute and keep; return the exit status, as the module's docstring has it.

        Args:
            arguments: those of the command line if left out.
        """
        try:
            given = self._parse(sys.argv[1:] if arguments is None else arguments)
            planned = self._plans(given)
            folder = self._folder(given)
            todo = [each for each in planned if not self._done(each, folder, given)]
            commit = self._commit(given)
            self._require_files(planned)
            calls = [(each, each.call()) for each in todo]
        except ValueError as error:
            print(f"{PREFIX}{self.module.split('.', 2)[-1]}: {error}", file=sys.stderr)
            return 2
        until = None if given.minutes is None else time.monotonic() + 60 * given.minutes
        for each, call in calls:
            if given.resume or given.minutes is not None:
                call.folder, call.until = _checkpoints(folder) / each.chapter / each.name, until
            try:
                self._keep(each, call, folder, commit, given.overwrite)
            except OutOfTimeError as stopped:
                print(stopped, file=sys.stderr)
                return STOPPED
            except (ValueError, OSError, DataError) as error:
                print(f"{each.name}: {type(error).__name__}: {error}", file=sys.stderr)
                return 1
        return 0

    def _keep(self, each: Plan, call: Call, folder: Path, commit: str, overwrite: bool) -> None:
        began = time.perf_counter()
        with _one_thread(call.run.device):
            arrays = self.compute(call)
            seconds = time.perf_counter() - began + call._earlier
            path = results.keep(
                each.chapter,
                each.name,
                arrays,
                command=each.command,
                seeds=call.seeds,
                device=call.run.device,
                wall_time=seconds if call.wall_time is None else call.wall_time,
                rtol=self.rtol(each.options) if callable(self.rtol) else self.rtol,
                commit=commit,
                folder=folder,
                overwrite=overwrite,
            )
        if call.folder is not None:
            shutil.rmtree(call.folder, ignore_errors=True)
        print(f"kept {path} after {seconds:.0f} s", flush=True)

    def _folder(self, given: argparse.Namespace) -> Path:
        if given.out is not None:
            return given.out
        folder = results.folder()
        if folder == results.PACKAGE / "kept":
            raise ValueError(
                "out = None; allowed where the library is installed without its repository: a folder"
            )
        return folder

    def _done(self, each: Plan, folder: Path, given: argparse.Namespace) -> bool:
        """Return whether a result is there already and was made by the same command, for one who resumes."""
        path = results.path(each.chapter, each.name, folder)
        described = path.with_suffix(".json")
        if given.overwrite or not (path.exists() and described.exists()):
            return False
        if not (given.resume or given.minutes is not None):
            raise ValueError(
                f"{each.chapter}/{each.name} is kept already; allowed: --overwrite, or another --out"
            )
        command = json.loads(described.read_text(encoding="utf-8"))["command"]
        if command != each.command:
            raise ValueError(
                f"{each.chapter}/{each.name} is kept already, made by `{command}`; allowed: --overwrite"
            )
        print(f"{each.chapter}/{each.name} is kept already", flush=True)
        return True

    def _commit(self, given: argparse.Namespace) -> str:
        commit = results.library_commit()
        if commit.endswith("-dirty") and not given.dirty:
            raise ValueError("the library has changes that are not committed; allowed: a commit, or --dirty")
        return commit

    def _require_files(self, planned: Sequence[Plan]) -> None:
        for option in self.options:
            value = getattr(planned[0].options, option.key)
            if isinstance(value, Path) and not value.exists():
                raise ValueError(f"{option.key} = {str(value)!r}; allowed: a file or folder that exists")

    def _all_options(self) -> list[Option]:
        own = list(self.options)
        if self.seeds is not None:
            own.append(Option("--seeds", "number of seeds", self.seeds, kind=int))
        return own

    def _parser(self) -> _Parser:
        about = sys.modules[self.compute.__module__].__doc__
        parser = _Parser(
            prog=f"{PREFIX}{self.module.split('.', 2)[-1]}",
            description=about,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        for option in self._all_options():
            option.add_to(parser)
        common = parser.add_argument_group("options of every experiment")
        for option in self._common():
            option.add_to(common)
        return parser

    def _common(self) -> list[Option]:
        if isinstance(self.parts, int):
            split = [f"{k}/{self.parts}" for k in range(1, self.parts + 1)] if self.parts > 1 else []
            part = Option("--part", "which part of a result that is split", "all", allowed=["all", *split])
        else:
            part = Option("--part", "which part", allowed=tuple(self.parts), required=True)
        return [
            Option("--scale", "sizes", "book", allowed=SCALES),
            Option("--seed", "seed that all others are derived from", 0, kind=whole),
            part,
            Option("--device", f"where: {' or '.join(self.devices)}", "cpu", kind=self._device),
            Option("--out", "folder of all results, if not the book's", kind=Path, metavar="FOLDER"),
            Option("--resume", "save what is done and go on from what is there", False),
            Option("--minutes", "stop in time with exit status 75; the same command goes on", kind=_minutes),
            Option("--overwrite", "replace a result that exists", False),
            Option("--dirty", "compute with changes that are not committed", False),
        ]

    def _device(self, word: str) -> str:
        if word.split(":")[0] not in self.devices:
            raise ValueError(", ".join(self.devices))
        return word

    def _parse(self, words: Sequence[str]) -> argparse.Namespace:
        given = self._parser().parse(words)
        common = self._common()
        scale = given.scale or "book"
        for option in (*self._all_options(), *common):
            value = getattr(given, option.key)
            if value is None:
                value = option.at(scale)
                if value is None and (option.required or not option.name.startswith("--")):
                    allowed = f"one of {', '.join(option.allowed)}" if option.allowed else option.about
                    raise ValueError(f"{option.key} is missing; allowed: {allowed}")
            setattr(given, option.key, tuple(value) if isinstance(value, list) else value)
        if not self.resumable and (given.resume or given.minutes is not None):
            name = "resume" if given.resume else "minutes"
            raise ValueError(
                f"{name} = {getattr(given, name)}; allowed only for an experiment with checkpoints"
            )
        return given

    def _plans(self, given: argparse.Namespace) -> tuple[Plan, ...]:
        keys = [option.key for option in self.options]
        own = {key: getattr(given, key) for key in [*keys, "scale", "device", "seed", "part"]}
        values = [own] if self.each is None else [own | {self.each: value} for value in own[self.each]]
        return tuple(self._plan(given, argparse.Namespace(**value)) for value in values)

    def _plan(self, given: argparse.Namespace, options: argparse.Namespace) -> Plan:
        if self.check is not None:
            self.check(options)
        name = [self.name(options)]
        if isinstance(self.parts, int):
            name += [] if given.part == "all" else ["part", given.part.split("/")[0]]
        else:
            name.append(given.part)
        name += [] if given.scale == "book" else [given.scale]
        words: list[str] = []
        needs = []
        for option in self._all_options():
            value = getattr(given if option.key == "seeds" else options, option.key)
            words += option.words(value, given.scale)
            if isinstance(value, Path):
                needs.append(option.words(value, given.scale)[-1])
        for option in self._common()[:4]:  # scale, seed, part, device
            words += option.words(getattr(given, option.key), "book")
        return Plan(
            self,
            self.separator.join(name),
            shlex.join([*PREFIX.split()[:2], self.module, *words]),
            options,
            given.scale,
            given.device,
            given.seed,
            0 if self.seeds is None else given.seeds,
            given.part,
            tuple(needs),
        )


def experiments() -> dict[str, Experiment]:
    """Return all experiments by the name of their module: each module below this package that has an `EXPERIMENT`."""
    package = importlib.import_module(__package__ or "learning_dynamics.experiments")
    found = {}
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        declared = getattr(importlib.import_module(module.name), "EXPERIMENT", None)
        if isinstance(declared, Experiment) and declared.module == module.name:
            found[module.name] = declared
    return found


def kept() -> tuple[Plan, ...]:
    """Return every result that the book keeps, with the command that makes it."""
    return tuple(_listed("kept"))


def paper() -> tuple[Plan, ...]:
    """Return every result that takes a GPU, hours or data that do not ship, with the command that makes it."""
    return tuple(_listed("paper"))


def plan(line: str) -> tuple[Plan, ...]:
    """Return what a command would write.

    Args:
        line: `python -m learning_dynamics.experiments.CHAPTER.NAME ...`, as a .json or a page has it.

    Raises:
        ValueError: it is no such command, or an argument is not as described.
    """
    words = shlex.split(line)
    known = experiments()
    if words[:2] != PREFIX.split()[:2] or len(words) < 3 or words[2] not in known:
        raise ValueError(f"command = {line!r}; allowed: {PREFIX}CHAPTER.NAME of {', '.join(known)}")
    return known[words[2]].plans(words[3:])


def _listed(which: str) -> Iterator[Plan]:
    for experiment in experiments().values():
        for line in getattr(experiment, which):
            yield from experiment.plans(shlex.split(line))


def _checkpoints(folder: Path) -> Path:
    """Return where checkpoints of results in a folder lie: in it, but for the book's own results in the repository."""
    package = results.PACKAGE
    return (
        package.parents[1] if folder.is_relative_to(package.parents[1] / "book") else folder
    ) / ".checkpoints"


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are exceptions in the library's dialect."""

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        given, unknown = self.parse_known_args(list(words))
        if unknown:
            options = [name for action in self._actions for name in action.option_strings]
            raise ValueError(f"{unknown[0]} is no argument; allowed: {', '.join(options)}")
        return given

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print; the text of a value's own error is already in the dialect."""
        about, _, rest = message.removeprefix("argument ").partition(": ")
        if "; allowed: " in rest:
            raise ValueError(rest)
        raise ValueError(f"{about} has no value; allowed: as --help says" if rest else message)


def _for_argparse(option: Option) -> Callable[[str], Any]:
    def value(word: str) -> Any:
        try:
            return option.value(word)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return value


def _finite(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def whole(word: str) -> int:
    """Return the number that a word stands for: a kind of `Option`.

    Args:
        word: digits.

    Raises:
        ValueError: it is not a whole number from 0.
    """
    if not word.isdecimal():
        raise ValueError("an integer >= 0")
    return int(word)


def _minutes(word: str) -> float:
    if not (_finite(word) and float(word) > 0):
        raise ValueError("a number > 0")
    return float(word)


@contextmanager
def _one_thread(device: torch.device | str) -> Iterator[None]:
    """Compute with one thread if on a CPU, and put the number of threads back afterwards."""
    if torch.device(device).type != "cpu":
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(threads)
