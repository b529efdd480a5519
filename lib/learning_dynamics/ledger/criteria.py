"""Comparators: from numbers to *pass*, *weak* or *fail*.

A criterion is made from the measured quantity in symbols and its bound. A check puts its numbers and its control
through the same criterion, so nothing here knows which of the two it is looking at. Only numpy and scipy are
needed; tensors are converted on the way in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from learning_dynamics import statistics
from learning_dynamics.ledger.cards import number

EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "bfloat16": 2.0**-7, "float16": 2.0**-10}
Values = NDArray[np.float64]
LEVEL = 0.999
"""The least coverage of an interval that decides a verdict."""


class LedgerError(ValueError):
    """A check is malformed, or its computed verdict is not the expected one."""


@dataclass(frozen=True)
class Outcome:
    """What a criterion says about one set of numbers.

    Attributes:
        state: `"pass"`, `"weak"` (right side, too near the bound for the sample; or an interval that contains the
            claimed exponent and a neighbour) or `"fail"`.
        numbers: what is stored and later compared, name to float.
        phrase: the numbers as a reader's phrase, such as `28 values, worst 3.5e-11`.
    """

    state: str
    numbers: dict[str, float]
    phrase: str


class Criterion(Protocol):
    """What every comparator offers, all of it to be read only; the functions at the end of this file make them."""

    @property
    def symbols(self) -> str:
        """The measured quantity in symbols."""
        ...

    @property
    def relation(self) -> str:
        """The relation in a word or sign, for the record."""
        ...

    @property
    def bound(self) -> float | list[float]:
        """What it is compared with, for the record."""
        ...

    @property
    def noise(self) -> float:
        """Absolute size below which a digit of the measured numbers is rounding."""
        ...

    @property
    def rounding(self) -> bool:
        """The bound itself is a rounding tolerance: no digit below it would be repeated elsewhere."""
        ...

    @property
    def floor(self) -> float:
        """Size of one rounding error, where the bound is about rounding, else 0."""
        ...

    def sentence(self) -> str:
        """Return the criterion in symbols, without a computed number."""
        ...

    def judge(self, measured: Any, *, each: bool) -> Outcome:
        """Return what the numbers amount to.

        Args:
            measured: what was measured: a number, an array, or samples by name, as the criterion takes them.
            each: whether a single passing value already passes, as for a control.
        """
        ...


def machine_epsilon(dtype: object) -> float:
    """Return the spacing of floating point numbers at one, for a dtype given as a torch dtype, numpy dtype or name.

    Raises:
        LedgerError: the dtype is not one of the floating point types known here.
    """
    name = str(dtype).removeprefix("torch.")
    if name not in EPS:
        raise LedgerError(f"dtype = {name!r}; allowed: one of {', '.join(EPS)}")
    return EPS[name]


def as_values(measured: Any, what: str = "measured") -> Values:
    """Return real numbers of any shape as a flat float64 array.

    Raises:
        LedgerError: there is no number, a NaN or a masked one, or what is no real number: text, a truth value,
            a complex.
    """
    if isinstance(measured, np.ma.MaskedArray):
        raise LedgerError(f"{what} = a masked array; allowed: the numbers that count")
    try:
        if hasattr(measured, "detach"):
            measured = measured.detach().cpu().numpy()
        array = np.asarray(measured)
    except (TypeError, ValueError, RuntimeError) as error:
        raise LedgerError(f"{what} = {type(measured).__name__}; allowed: numbers ({error})") from error
    if (
        array.dtype == object
        and array.ndim == 1
        and array.size
        and all(np.ndim(value) == 0 for value in array)
    ):
        array = np.asarray([float(value) if hasattr(value, "__float__") else value for value in array])
    if array.dtype.kind not in "iuf":
        kind = {
            "b": "truth values",
            "c": "complex numbers",
            "U": "text",
            "S": "text",
            "O": type(measured).__name__,
        }
        raise LedgerError(f"{what} = {kind.get(array.dtype.kind, array.dtype)}; allowed: real numbers")
    values = array.astype(np.float64).reshape(-1)
    if values.size == 0:
        raise LedgerError(f"{what} = an empty sample; allowed: at least one number")
    if np.isnan(values).any():
        raise LedgerError(
            f"{what} = {int(np.isnan(values).sum())} of {values.size} values are NaN; allowed: numbers"
        )
    return values


def _finite(name: str, value: float) -> float:
    value = float(value)
    if not math.isfinite(value):
        raise LedgerError(f"{name} = {value}; allowed: a finite bound")
    return value


class _Comparator:
    """What most criteria share: nothing about rounding."""

    noise: float = 100 * EPS["float64"]
    rounding: bool = False
    floor: float = 0.0


@dataclass(frozen=True)
class _Bounds:
    """Every value lies between `low` and `high`, ends included; either may be absent (infinite).

    `rounding` marks a criterion whose bound is a rounding tolerance: numbers below it carry no digits that another
    machine would repeat.
    """

    symbols: str
    low: float = -math.inf
    high: float = math.inf
    bound_symbols: str = ""
    rounding: bool = False
    floor: float = 0.0
    signed: bool = True

    @property
    def relation(self) -> str:
        if math.isinf(self.low):
            return "<="
        return ">=" if math.isinf(self.high) else "between"

    @property
    def bound(self) -> float | list[float]:
        if self.relation == "between":
            return [self.low, self.high]
        return self.high if self.relation == "<=" else self.low

    def sentence(self) -> str:
        if self.relation == "between":
            return f"{number(self.low)} ≤ {self.symbols} ≤ {number(self.high)}"
        sign = "≤" if self.relation == "<=" else "≥"
        bound = self.bound_symbols or number(self.high if self.relation == "<=" else self.low)
        return f"{self.symbols} {sign} {bound}"

    @property
    def noise(self) -> float:
        if self.rounding:
            return self.high
        return 100 * (self.floor or EPS["float64"])

    def judge(self, measured: Any, *, each: bool) -> Outcome:
        values = as_values(measured)
        if not self.signed and (values < 0).any():
            raise LedgerError(
                f"{self.symbols} = {values.min():.3g}; allowed: a size >= 0; signed quantities say signed=True"
            )
        if not each and np.isinf(values).any():
            raise LedgerError(
                f"{self.symbols} = {int(np.isinf(values).sum())} of {values.size} values are infinite; "
                "allowed: finite ones"
            )
        inside = (values >= self.low) & (values <= self.high)
        passes = bool(inside.all()) if not each else bool(inside.any())
        low, high = float(values.min()), float(values.max())
        overshoot = np.maximum(values - self.high, self.low - values)
        worst = float(values[int(np.argmin(overshoot) if each else np.argmax(overshoot))])
        word = "closest to passing" if each else "worst"
        phrase = number(worst) if values.size == 1 else f"{values.size} values, {word} {number(worst)}"
        numbers = {"count": float(values.size), "min": low, "max": high, "worst": worst}
        return Outcome("pass" if passes else "fail", numbers, phrase)


@dataclass(frozen=True)
class _Exactly(_Comparator):
    """Every value equals one integer, without tolerance."""

    symbols: str
    value: int

    relation: ClassVar[str] = "=="

    @property
    def bound(self) -> float:
        return float(self.value)

    def sentence(self) -> str:
        return f"{self.symbols} = {self.value}"

    def judge(self, measured: Any, *, each: bool) -> Outcome:
        values = as_values(measured)
        equal = values == self.value
        passes = bool(equal.all()) if not each else bool(equal.any())
        low, high = values.min(), values.max()
        phrase = number(float(low)) if low == high else f"from {number(float(low))} to {number(float(high))}"
        if values.size > 1:
            phrase = f"{values.size} values, {phrase}"
        numbers = {"count": float(values.size), "min": float(low), "max": float(high)}
        return Outcome("pass" if passes else "fail", numbers, phrase)


@dataclass(frozen=True)
class _Exponent(_Comparator):
    """A confidence interval contains the claimed exponent and excludes its neighbours."""

    symbols: str
    claimed: float
    neighbours: tuple[float, ...]

    relation: ClassVar[str] = "interval contains"

    @property
    def bound(self) -> list[float]:
        return [self.claimed, *self.neighbours]

    def sentence(self) -> str:
        others = " and ".join(number(value) for value in self.neighbours)
        return f"the interval of {self.symbols} contains {number(self.claimed)} and excludes {others}"

    def judge(self, measured: Any, *, each: bool) -> Outcome:
        low, estimate, high = interval_ends(measured)
        contains = low <= self.claimed <= high
        excludes = all(not low <= value <= high for value in self.neighbours)
        state = "pass" if contains and excludes else ("weak" if contains else "fail")
        phrase = f"{number(estimate)}, interval {number(low)} to {number(high)}"
        return Outcome(state, {"low": low, "estimate": estimate, "high": high}, phrase)


@dataclass(frozen=True)
class _Ordering(_Comparator):
    """Paired over seeds, each named quantity is larger than the one before it."""

    symbols: str
    names: tuple[str, ...]
    level: float = 0.999

    relation: ClassVar[str] = "increasing"

    @property
    def bound(self) -> float:
        return 0.0

    def sentence(self) -> str:
        return f"{self.symbols}: " + " < ".join(self.names)

    def judge(self, measured: Any, *, each: bool) -> Outcome:
        if not isinstance(measured, Mapping) or set(measured) != set(self.names):
            raise LedgerError(
                f"measured = {type(measured).__name__}; allowed: one sample for each of {', '.join(self.names)}"
            )
        samples = [as_values(measured[name], name) for name in self.names]
        if len({sample.size for sample in samples}) != 1:
            raise LedgerError(
                f"seeds of measured = {[sample.size for sample in samples]}; allowed: the same for every name"
            )
        numbers: dict[str, float] = {}
        states, phrases = [], []
        for first, second, a, b in zip(self.names, self.names[1:], samples, samples[1:], strict=False):
            mean, error, low, _ = mean_and_interval(b - a, self.level, f"{second} minus {first}")
            states.append("pass" if low > 0 and mean >= 3 * error else ("weak" if mean > 0 else "fail"))
            numbers[f"{second} - {first}"] = mean
            numbers[f"{second} - {first}, low"] = low
            phrases.append(f"{second} exceeds {first} by {number(mean)} (at least {number(low)})")
        state = "fail" if "fail" in states else ("weak" if "weak" in states else "pass")
        return Outcome(state, numbers, "; ".join(phrases))


@dataclass(frozen=True)
class _Confident(_Comparator):
    """The mean over seeds lies on one side of a bound, by its t interval and by three standard errors."""

    symbols: str
    low: float = -math.inf
    high: float = math.inf
    level: float = 0.999

    @property
    def relation(self) -> str:
        return "mean <=" if math.isinf(self.low) else "mean >="

    @property
    def bound(self) -> float:
        return self.high if math.isinf(self.low) else self.low

    def sentence(self) -> str:
        sign = "≤" if math.isinf(self.low) else "≥"
        return f"mean of {self.symbols} {sign} {number(self.bound)}, {100 * self.level:g} % interval"

    def judge(self, measured: Any, *, each: bool) -> Outcome:
        mean, error, low, high = mean_and_interval(as_values(measured), self.level, self.symbols)
        distance = self.high - mean if math.isinf(self.low) else mean - self.low
        inside = low >= self.low and high <= self.high
        state = "fail" if distance < 0 else ("pass" if inside and distance >= 3 * error else "weak")
        count = as_values(measured).size
        numbers = {"count": float(count), "mean": mean, "standard error": error, "low": low, "high": high}
        phrase = f"{count} seeds, mean {number(mean)}, interval {number(low)} to {number(high)}"
        return Outcome(state, numbers, phrase)


def require_level(id: str, *judged: object) -> None:
    """Raise a LedgerError where an interval that decides a verdict covers less than `LEVEL`.

    Args:
        id: the claim's id.
        judged: a criterion, and what it judges; what has no level passes.
    """
    levels = [float(each.level) for each in judged if hasattr(each, "level")]
    if levels and min(levels) < LEVEL:
        raise LedgerError(f"{id}: level = {min(levels)}; allowed: an interval that covers at least {LEVEL}")


def interval_ends(measured: Any) -> tuple[float, float, float]:
    """Return low, estimate and high of anything that has these three attributes.

    Raises:
        LedgerError: they are absent, not finite or not in order.
    """
    try:
        ends = (float(measured.low), float(measured.estimate), float(measured.high))
    except AttributeError as error:
        message = f"measured = {type(measured).__name__}; allowed: an interval with low, estimate and high"
        raise LedgerError(message) from error
    if not all(math.isfinite(value) for value in ends):
        raise LedgerError(f"measured = {ends}; allowed: a finite interval")
    if not ends[0] <= ends[1] <= ends[2]:
        raise LedgerError(f"measured = {ends}; allowed: low <= estimate <= high")
    return ends


def mean_and_interval(values: Values, level: float, what: str) -> tuple[float, float, float, float]:
    """Return mean, standard error and the ends of Student's t interval of a sample.

    Raises:
        LedgerError: fewer than three values, or one that is infinite.
    """
    if values.size < 3:
        raise LedgerError(f"{what} = {values.size} seeds; allowed: at least three for an interval")
    try:
        interval = statistics.mean_interval(values, level)
    except ValueError as error:
        raise LedgerError(f"{what}: {error}") from error
    return interval.estimate, float(values.std(ddof=1)) / math.sqrt(values.size), interval.low, interval.high


def identity(
    symbols: str, *, condition: float = 1.0, size: float = 1.0, dtype: object = "float64"
) -> Criterion:
    """Two sides agree up to rounding: every |value| <= 100 eps condition size.

    Args:
        symbols: the measured difference in symbols.
        condition: condition number of the computation; 1 for a well-conditioned one.
        size: size of what is compared, in the units of the difference; 1 for a relative error.
        dtype: the floating point type of the computation.

    Returns:
        The criterion, for `Ledger.check`.

    Raises:
        LedgerError: `condition < 1`, or `size <= 0`, or either is not finite, or the condition leaves no digit.
    """
    if not _finite("condition", condition) >= 1:
        raise LedgerError(f"condition = {condition}; allowed: a condition number >= 1")
    if not _finite("size", size) > 0:
        raise LedgerError(f"size = {size}; allowed: a size > 0")
    eps = machine_epsilon(dtype)
    tolerance = 100 * eps * float(condition) * float(size)
    if 100 * eps * float(condition) > 1e-2:
        raise LedgerError(
            f"condition = {condition}; allowed: rounding below a hundredth of the size, or nothing is tested"
        )
    factors = ["100 ε"] + ["condition"] * (condition != 1) + ["size"] * (size != 1)
    return _Identity(symbols, -tolerance, tolerance, " · ".join(factors), True, eps * float(size))


@dataclass(frozen=True)
class _Identity(_Bounds):
    """A difference that should be zero: values are taken by absolute value."""

    @property
    def relation(self) -> str:
        return "<="

    @property
    def bound(self) -> float:
        return self.high

    def judge(self, measured: Any, *, each: bool) -> Outcome:
        return super().judge(np.abs(as_values(measured)), each=each)


def at_most(symbols: str, bound: float, *, bound_symbols: str = "", signed: bool = False) -> Criterion:
    """Every value is at most `bound`.

    Args:
        symbols: the measured quantity in symbols.
        bound: the bound as a number.
        bound_symbols: the bound in symbols; needed where its number is computed and not the same on every machine.
        signed: the quantity may be negative, and so may the bound.

    Returns:
        The criterion, for `Ledger.check`.

    Raises:
        LedgerError: the bound is not finite, or is negative without `signed=True` (an error or a distance never is).
    """
    if _finite("bound", bound) < 0 and not signed:
        raise LedgerError(f"bound = {bound}; allowed: >= 0 on an error; signed quantities say signed=True")
    return _Bounds(symbols, high=float(bound), bound_symbols=bound_symbols, signed=signed)


def at_least(symbols: str, bound: float, *, bound_symbols: str = "", signed: bool = False) -> Criterion:
    """Every value is at least `bound`.

    Args:
        symbols: the measured quantity in symbols.
        bound_symbols: the bound in symbols; needed where its number is computed and not the same on every machine.
        signed: the quantity may be negative, and so may the bound.
        bound: the bound as a number.

    Returns:
        The criterion, for `Ledger.check`.

    Raises:
        LedgerError: the bound is not finite, or is not positive without `signed=True` (any distance would pass).
    """
    if _finite("bound", bound) <= 0 and not signed:
        raise LedgerError(f"bound = {bound}; allowed: > 0 on a size; signed quantities say signed=True")
    return _Bounds(symbols, low=float(bound), bound_symbols=bound_symbols, signed=signed)


def between(symbols: str, low: float, high: float) -> Criterion:
    """Every value lies in [low, high].

    Args:
        symbols: the measured quantity in symbols.
        low: the lower end.
        high: the upper end, above the lower.

    Returns:
        The criterion, for `Ledger.check`.

    Raises:
        LedgerError: an end is not finite, or low >= high.
    """
    if _finite("low", low) >= _finite("high", high):
        raise LedgerError(f"low = {low}, high = {high}; allowed: low < high")
    return _Bounds(symbols, float(low), float(high))


def inequality(symbols: str, *, size: float = 1.0, dtype: object = "float64") -> Criterion:
    """A proved inequality without slack: every value (right minus left side) >= -100 eps size.

    Args:
        symbols: the measured quantity in symbols.
        size: size of what is compared, in the units of the difference, > 0.
        dtype: the floating point type of the computation.

    Returns:
        The criterion, for `Ledger.check`.

    Raises:
        LedgerError: `size <= 0` or not finite.
    """
    if not _finite("size", size) > 0:
        raise LedgerError(f"size = {size}; allowed: a size > 0")
    eps = machine_epsilon(dtype)
    return _Bounds(
        symbols, low=-100 * eps * float(size), bound_symbols="0 up to rounding", floor=eps * float(size)
    )


def exponent(symbols: str, claimed: float, *, neighbours: Sequence[float]) -> Criterion:
    """An interval of a fitted exponent contains the claimed one and excludes its neighbours.

    Args:
        symbols: the measured quantity in symbols.
        claimed: the exponent that is claimed.
        neighbours: the nearest exponents that one might confuse it with; at least one.

    Returns:
        The criterion, for `Ledger.check`.

    Raises:
        LedgerError: there is no neighbour, or the claimed value is among them.
    """
    others = tuple(_finite("neighbours", value) for value in neighbours)
    if not others or claimed in others:
        raise LedgerError(f"neighbours = {others}; allowed: at least one value other than {claimed}")
    return _Exponent(symbols, _finite("claimed", claimed), others)


def equals(symbols: str, value: int) -> Criterion:
    """Every value equals an integer exactly.

    Args:
        symbols: the measured quantity in symbols.
        value: the integer.

    Returns:
        The criterion, for `Ledger.check`.

    Raises:
        LedgerError: `value` is not an integer, or so large that its neighbours round to it.
    """
    if isinstance(value, bool) or int(value) != value:
        raise LedgerError(f"value = {value!r}; allowed: an integer; use `identity` for real numbers")
    if abs(value) >= 2**53:
        raise LedgerError(f"value = {value!r}; allowed: below 2^53, where float64 tells integers apart")
    return _Exactly(symbols, int(value))


def ordering(symbols: str, names: Sequence[str], *, level: float = 0.999) -> Criterion:
    """The named samples, paired over seeds, increase in this order.

    Args:
        symbols: the measured quantity in symbols.
        names: the samples' names, the least first; at least two.
        level: coverage of each interval, in [0.95, 1); `Ledger.check` refuses one below 0.999.

    Returns:
        The criterion, for `Ledger.check`.

    Raises:
        LedgerError: fewer than two names, a repeated name, or a level outside [0.95, 1).
    """
    if len(names) < 2 or len(set(names)) != len(names):
        raise LedgerError(f"names = {tuple(names)}; allowed: at least two different names")
    return _Ordering(symbols, tuple(names), _level(level))


def confident(
    symbols: str, *, at_most: float | None = None, at_least: float | None = None, level: float = 0.999
) -> Criterion:
    """The mean over seeds lies on the stated side of a bound, with confidence; too near it the verdict is `partly`.

    Args:
        symbols: the measured quantity in symbols.
        at_most: the bound from above, or
        at_least: the bound from below; exactly one of them.
        level: coverage of the interval, in [0.95, 1); `Ledger.check` refuses one below 0.999.

    Returns:
        The criterion, for `Ledger.check`.

    Raises:
        LedgerError: not exactly one bound is given, or it is not finite, or the level is outside [0.95, 1).
    """
    if at_most is not None and at_least is None:
        return _Confident(symbols, high=_finite("at_most", at_most), level=_level(level))
    if at_least is not None and at_most is None:
        return _Confident(symbols, low=_finite("at_least", at_least), level=_level(level))
    raise LedgerError(f"at_most, at_least = {at_most}, {at_least}; allowed: exactly one of them")


def _level(level: float) -> float:
    if not 0.95 <= level < 1:
        raise LedgerError(f"level = {level}; allowed: a confidence level from 0.95 to below 1")
    return float(level)
