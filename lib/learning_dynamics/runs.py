"""How a chapter runs: at which scale, on which device, from which seed.

A chapter makes one `Run` from its parameters cell and asks it for everything that depends on them.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import TypeVar

import torch

from learning_dynamics._internal.arguments import require_choice, require_count

SCALES = ("smoke", "book", "paper")
T = TypeVar("T")


@dataclass(frozen=True)
class Run:
    """One execution of one chapter.

    Args:
        chapter: the chapter's id, `part/name`.
        scale: `"smoke"` (every cell, seconds), `"book"` (what is published) or `"paper"` (the source's sizes).
        device: `"auto"` (CUDA if there is one, else CPU), `"cpu"` or `"cuda"`, with an index if wanted.
        seed: a non-negative integer; every random stream of the chapter is derived from it.
        part: `"all"`, or `"k/m"`, the k-th of m parts of a run that is split, counted from 1.
        dtype: the floating point type of the chapter's theory; float64 unless said otherwise.

    Raises:
        ValueError: an argument is outside what is allowed; the message names it, its value and the choice.
    """

    chapter: str
    scale: str = "book"
    device: torch.device | str = "auto"
    seed: int = 0
    part: str = "all"
    dtype: torch.dtype = torch.float64
    _part: tuple[int, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]*/[a-z][a-z0-9_]*", self.chapter):
            raise ValueError(f"chapter = {self.chapter!r}; allowed: 'part/name' in lower case")
        require_choice("scale", self.scale, SCALES)
        require_count("seed", self.seed, least=0)
        if not self.dtype.is_floating_point:
            raise ValueError(f"dtype = {self.dtype}; allowed: a floating point type")
        object.__setattr__(self, "device", resolve_device(self.device))
        object.__setattr__(self, "_part", self._parse_part())

    def _parse_part(self) -> tuple[int, int]:
        if self.part == "all":
            return 1, 1
        match = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", str(self.part))
        if not match or int(match[1]) > int(match[2]):
            raise ValueError(f"part = {self.part!r}; allowed: 'all' or 'k/m' with 1 <= k <= m")
        return int(match[1]), int(match[2])

    def pick(self, *, smoke: T, book: T, paper: T) -> T:
        """Return the value for this run's scale.

        Args:
            smoke: the value at `"smoke"`.
            book: the value at `"book"`.
            paper: the value at `"paper"`.
        """
        return {"smoke": smoke, "book": book, "paper": paper}[self.scale]

    def seeds(self, *, smoke: int, book: int, paper: int) -> list[int]:
        """Return as many seeds as the scale asks for; runs with different `seed` share none.

        Args:
            smoke: how many at `"smoke"`, 1 to 9999.
            book: how many at `"book"`.
            paper: how many at `"paper"`.

        Raises:
            ValueError: a count is not between 1 and 9999.
        """
        count = self.pick(smoke=smoke, book=book, paper=paper)
        if not 1 <= count <= 9999:
            raise ValueError(f"{self.scale} = {count}; allowed: between 1 and 9999 seeds")
        return [10_000 * self.seed + i for i in range(count)]

    def generator(self, stream: str, seed: int | None = None, *, index: int | None = None) -> torch.Generator:
        """Return a CPU generator for one named stream, so that adding a stream changes no other.

        `run.generator("start", seed)` is the same for every `run`: it belongs to that seed alone. Streams of one
        name that are only numbered, one a width or one a start, take an `index`, and follow the run's own seed.

        Args:
            stream: a name such as `"data"` or `"start"`.
            seed: one of `seeds(...)`; the run's own seed if left out.
            index: in the place of `seed`: a number from 0 to 9999, for the `index`-th of the run's seeds.

        Raises:
            ValueError: both are given, or the index is out of range.
        """
        if index is not None:
            if seed is not None:
                raise ValueError(f"seed = {seed}, index = {index}; allowed: one of the two")
            require_count("index", index, least=0, most=9999)
            seed = 10_000 * self.seed + index
        key = f"{self.seed if seed is None else seed}:{stream}".encode()
        state = int.from_bytes(hashlib.sha256(key).digest()[:8], "big") >> 1
        return torch.Generator().manual_seed(state)

    def share(self, items: list[T]) -> list[T]:
        """Return this part's share of a list of independent pieces: every m-th, starting at the k-th.

        Args:
            items: the pieces, the same list in every part.
        """
        index, count = self._part
        return items[index - 1 :: count]


def resolve_device(device: torch.device | str) -> torch.device:
    """Return the device that a name stands for.

    Args:
        device: `"auto"` (CUDA if there is one, else CPU), `"cpu"`, `"cuda"` or `"cuda:k"`, or a device.

    Raises:
        ValueError: the name is not a device, or CUDA is asked for where there is none.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if not re.fullmatch(r"cpu|cuda(:\d+)?", str(device)):
        raise ValueError(f"device = {str(device)!r}; allowed: 'auto', 'cpu' or 'cuda'")
    resolved = torch.device(device)
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device = {str(device)!r}; allowed here, without CUDA: 'auto' or 'cpu'")
    return resolved
