"""Nested list operations as sequences of tokens, generated."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import require_count

OPERATIONS: dict[str, Callable[[list[int]], int]] = {
    "MAX": max,
    "MIN": min,
    "MED": lambda v: sorted(v)[(len(v) - 1) // 2],
    "SM": lambda v: sum(v) % 10,
}
TOKENS = ("PAD", *"0123456789", *(f"[{name}" for name in OPERATIONS), "]")
"""The alphabet; a token's number is its place here."""


class ListOps(NamedTuple):
    """Expressions and their values.

    Attributes:
        tokens: `(n, longest)` int64, places in `TOKENS`; shorter expressions are padded on the left.
        targets: `(n,)` int64, values from 0 to 9.
        lengths: `(n,)` int64, tokens without padding.
    """

    tokens: Tensor
    targets: Tensor
    lengths: Tensor


def listops(
    n: int,
    *,
    shortest: int = 20,
    longest: int = 100,
    depth: int = 5,
    arguments: int = 5,
    generator: torch.Generator,
) -> ListOps:
    """Return n random expressions like `[MAX 2 9 [MIN 4 7 ] 0 ]` (Nangia and Bowman 2018).

    Each argument is a digit or, down to the given depth, a nested operation, with even chances; expressions whose
    length is out of range are drawn again. MED of an even number of values is the lower of the middle two.

    Args:
        n: number of expressions, >= 1.
        shortest: least number of tokens, >= 4.
        longest: largest number of tokens, >= `shortest`.
        depth: how deeply operations nest, >= 1.
        arguments: an operation has 2 to this many, >= 2.
        generator: source of randomness on the CPU.

    Raises:
        ValueError: a size out of range, or lengths that such expressions hardly ever have.
    """
    require_count("n", n)
    require_count("shortest", shortest, least=4)
    require_count("longest", longest, least=shortest)
    require_count("depth", depth)
    require_count("arguments", arguments, least=2)
    draw = _Digits(generator)
    found: list[tuple[list[int], int]] = []
    for _ in range(2000 * n):
        tokens, value = _expression(draw, depth, arguments)
        if shortest <= len(tokens) <= longest:
            found.append((tokens, value))
            if len(found) == n:
                break
    else:
        raise ValueError(
            f"shortest, longest = {shortest}, {longest}; allowed: lengths that depth = {depth} and "
            f"arguments = {arguments} reach"
        )
    padded = torch.zeros(n, longest, dtype=torch.int64)
    for row, (tokens, _) in zip(padded, found, strict=True):
        row[longest - len(tokens) :] = torch.tensor(tokens)
    targets, lengths = ([value for _, value in found], [len(tokens) for tokens, _ in found])
    return ListOps(padded, torch.tensor(targets), torch.tensor(lengths))


def evaluate(tokens: list[int]) -> int:
    """Return the value of an expression; padding is skipped.

    Args:
        tokens: places in `TOKENS`.

    Raises:
        ValueError: the tokens are not one whole expression.
    """
    stack: list[str] = []
    values: list[list[int]] = [[]]
    for token in (TOKENS[t] for t in tokens if t):
        if token.startswith("["):
            stack.append(token[1:])
            values.append([])
        elif token == "]":
            if not stack or not values[-1]:
                raise ValueError(
                    "tokens have a bracket that closes nothing, or an operation without arguments; "
                    "allowed: whole expressions"
                )
            result = OPERATIONS[stack.pop()](values.pop())
            values[-1].append(result)
        else:
            values[-1].append(int(token))
    if stack or len(values[0]) != 1:
        raise ValueError("tokens are not one whole expression; allowed: one")
    return values[0][0]


class _Digits:
    """Small random whole numbers from a generator, drawn many at a time."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator
        self.pool: list[float] = []

    def below(self, bound: int) -> int:
        if not self.pool:
            self.pool = torch.rand(100_000, generator=self.generator, dtype=torch.float64).tolist()
        return int(self.pool.pop() * bound)


def _expression(draw: _Digits, depth: int, arguments: int) -> tuple[list[int], int]:
    operation = draw.below(len(OPERATIONS))
    name = list(OPERATIONS)[operation]
    tokens, values = [TOKENS.index(f"[{name}")], []
    for _ in range(2 + draw.below(arguments - 1)):
        if depth > 1 and draw.below(2):
            inner, value = _expression(draw, depth - 1, arguments)
            tokens += inner
        else:
            value = draw.below(10)
            tokens.append(1 + value)
        values.append(value)
    return [*tokens, len(TOKENS) - 1], OPERATIONS[name](values)
