"""The ledger of one chapter: checks in, computed verdicts out.

The author states the verdict that is expected; the ledger computes one from the numbers, the criterion and the
control, and raises when the two differ. No call takes a verdict as its result.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from learning_dynamics._internal.display import begin, emit, in_a_reader_s_notebook, write_line
from learning_dynamics.ledger import cards
from learning_dynamics.ledger.criteria import Criterion, LedgerError, Outcome, machine_epsilon, require_level
from learning_dynamics.ledger.read import KEY, SCHEMA
from learning_dynamics.runs import SCALES, Run

CHECKED = ("holds", "reproduced", "partly", "not reproduced", "corrected")
EVIDENCE = ("refereed", "rederived")
EXEMPT = ("definition", "existence")
_ID = re.compile(r"[a-z][a-z_]*:[A-Za-z0-9][A-Za-z0-9.\-]*")


@dataclass(frozen=True)
class Control:
    """An instance on which the check must fail.

    Attributes:
        name: what is broken, in a few words.
        value: the numbers that the same criterion must reject, or a callable that computes them.
    """

    name: str
    value: Any


@dataclass(frozen=True)
class Correction:
    """A statement whose printed form fails.

    Attributes:
        printed: the statement as its source prints it.
        right: the statement as it holds.
        evidence: "refereed" (an independent referee derived the correction again) or "rederived" (an exact
            counterexample runs in the chapter, and a second derivation agreed).
    """

    printed: str
    right: str
    evidence: str


def control(name: str, value: Any | Callable[[], Any]) -> Control:
    """Return a control for `Ledger.check`.

    Args:
        name: what is broken, in a few words.
        value: the numbers that the same criterion must reject, or a callable that computes them.

    Raises:
        LedgerError: the name is empty or the value is text: a control is measured, never asserted.
    """
    if not name.strip():
        raise LedgerError(f"control's name = {name!r}; allowed: words that say what is broken")
    if value is None or isinstance(value, str):
        raise LedgerError(f"control {name!r} = {value!r}; allowed: numbers or a callable")
    return Control(name, value)


def correction(*, printed: str, right: str, evidence: str) -> Correction:
    """Return both forms of a corrected statement.

    Args:
        printed: the statement as its source prints it.
        right: the statement as it holds.
        evidence: "refereed" (an independent referee derived the correction again) or "rederived" (an exact
            counterexample runs in the chapter, and a second derivation agreed).

    Raises:
        LedgerError: a form is empty, the two are equal, or the evidence is not a known kind.
    """
    if not printed.strip() or not right.strip() or printed == right:
        raise LedgerError(f"printed, right = {printed!r}, {right!r}; allowed: two forms that differ")
    if evidence not in EVIDENCE:
        raise LedgerError(f"evidence = {evidence!r}; allowed: one of {', '.join(EVIDENCE)}")
    return Correction(printed, right, evidence)


class Ledger:
    """All records of one chapter's run.

    Args:
        run: the chapter's run; its scale, device and seed go into every record.
        strict: whether a check that does not come out as in the book stops the run. By default it does, but in a
            notebook that somebody plays with: there a red card says so and the run goes on.
    """

    def __init__(self, run: Run, *, strict: bool | None = None) -> None:
        self.run = run
        self.strict = not in_a_reader_s_notebook() if strict is None else strict
        self.records: list[dict[str, Any]] = []
        begin(run.chapter)

    def check(
        self,
        id: str,
        statement: str,
        *,
        measured: Any | Callable[[], Any],
        criterion: Criterion,
        control: Control | None = None,
        expected: str,
        claim: Literal["proved", "experiment"] = "proved",
        show: Literal["card", "row"] = "row",
        seeds: Sequence[int] | None = None,
        needs: str = "smoke",
        rtol: float | None = None,
        noise: float | None = None,
        dtype: object = None,
        reason: str | None = None,
        correction: Correction | None = None,
        exempt: str | None = None,
    ) -> None:
        """Compute, show and store the verdict on one claim.

        Args:
            id: the inventory's id of the claim.
            statement: the claim in one line of plain text.
            measured: the numbers, or a callable that computes them.
            criterion: the comparator, from `learning_dynamics.ledger`.
            control: what must fail under the same comparator, every value of it.
            expected: the verdict the author expects.
            claim: a `"proved"` claim that passes *holds*; an `"experiment"` that passes is *reproduced*.
            show: `"card"` for the page's main results, `"row"` for all others.
            seeds: the seeds behind the numbers; the run's own if left out.
            needs: the smallest scale at which criterion and control can be judged; below it the verdict is *not
                evaluated*.
            rtol: relative tolerance when a recomputed number is held against the committed one; by default 1e-6,
                or 1e-3 if `dtype` is float32.
            noise: absolute size below which digits are rounding; by default the criterion's own.
            dtype: floating point type of the computation; the run's own if left out.
            reason: why it does not (fully) reproduce, as measured; required with *partly* and *not reproduced*.
            correction: both forms, if the printed one fails; then the control is the printed form.
            exempt: `"definition"` or `"existence"` for the two kinds of claim that need no control.

        Raises:
            LedgerError: the call is malformed; where the ledger is strict also if the control passes, an interval
                covers less than 0.999, the computed verdict is not the expected one, or the numbers cannot be judged.
        """
        self._admit(id, statement, show)
        self._check_words(id, expected, claim, needs, reason, correction)
        self._check_control(id, measured, control, exempt, correction)
        self._check_tolerances(id, rtol, noise, seeds)
        too_small = SCALES.index(self.run.scale) < SCALES.index(needs)
        try:
            found = measured() if callable(measured) else measured
            require_level(id, criterion, found)
            outcome = criterion.judge(found, each=False)
            failing = None if control is None else self._judge_control(id, criterion, control)
        except LedgerError as error:
            if self.strict:
                raise
            self._store(
                self._base(id, statement, expected, "not evaluated", show) | {"unexpected": str(error)}
            )
            return
        verdict = "not evaluated" if too_small else self._verdict(outcome, claim, correction)
        unexpected = []
        if failing is not None and failing["passes"] and not too_small:
            unexpected.append(
                f"control {failing['name']!r} = {failing['phrase']}, which does not fail {criterion.sentence()!r}; "
                "allowed: one that fails, or this check cannot tell right from wrong"
            )
        if not too_small and verdict != expected:
            unexpected.append(
                f"computed verdict = {verdict!r}; allowed: the expected {expected!r}: {outcome.phrase}; "
                f"criterion {criterion.sentence()} (bound {criterion.bound})"
            )
        if unexpected and self.strict:
            raise LedgerError(": ".join([id, unexpected[0]]))
        if reason is not None and verdict in ("holds", "reproduced") and not unexpected:
            raise LedgerError(f"{id}: reason = {reason!r}; allowed: None where the verdict is {verdict!r}")
        single = machine_epsilon(dtype or self.run.dtype) > 1e-10
        record = self._base(id, statement, expected, verdict, show) | {
            "measured": _plain(outcome.numbers),
            "phrase": outcome.phrase,
            "criterion": {
                "relation": criterion.relation,
                "symbols": criterion.symbols,
                "bound": criterion.bound,
                "sentence": criterion.sentence(),
                "rounding": criterion.rounding,
                "floor": criterion.floor,
            },
            "rtol": rtol if rtol is not None else (1e-3 if single else 1e-6),
            "noise": criterion.noise if noise is None else noise,
            "control": failing,
            "exempt": exempt,
            "seeds": [self.run.seed] if seeds is None else [int(seed) for seed in seeds],
            "dtype": str(dtype or self.run.dtype).removeprefix("torch."),
            "reason": reason,
            "correction": None if correction is None else vars(correction) | {},
        }
        self._store(record | ({"unexpected": "; ".join(unexpected)} if unexpected else {}))

    def check_each(self, *rows: tuple[Any, ...], **shared: Any) -> None:
        """Check several claims of one shape: a table in the place of a run of calls.

            ledger.check_each(
                ("thesis:eq-120", "The layer is this loop", off, control("without D", off_without)),
                ("thesis:eq-121", "So is the diagonal one", off_diagonal, control("real part only", off_real)),
                criterion=identity("relative difference"),
                expected="holds",
            )

        Args:
            rows: for each claim its id, the statement, what is measured and the control (None where the claim is
                exempt); after these, if need be, a dict of keywords of `check` that are its own.
            shared: the keywords of `check` that all claims share.

        Raises:
            LedgerError: no row, one of another length, or as `check`.
        """
        if not rows:
            raise LedgerError("rows = (); allowed: at least one claim")
        for row in rows:
            if len(row) not in (4, 5) or not isinstance(row[-1], dict) and len(row) == 5:
                raise LedgerError(
                    f"row = {row[:1]} of {len(row)} entries; allowed: id, statement, measured, control, and a dict of "
                    "keywords"
                )
            own = row[4] if len(row) == 5 else {}
            self.check(row[0], row[1], measured=row[2], control=row[3], **{**shared, **own})

    def out_of_reach(
        self,
        id: str,
        statement: str,
        *,
        needs: str,
        command: str,
        stand_in: str | None = None,
        show: str = "row",
    ) -> None:
        """Record a claim that cannot be computed here: what it needs, in hours or data, and the ready command.

        Args:
            id: the result's id in the inventory, not recorded before.
            statement: what is claimed, in one line.
            needs: what is missing: hours, data, a GPU.
            command: the command that computes it.
            stand_in: what is shown in its place, if something is.
            show: "row" (closed), or "card" (open).

        Raises:
            LedgerError: the id is malformed or repeated, or `needs` or `command` is empty.
        """
        self._admit(id, statement, show)
        if not needs.strip() or not command.strip():
            raise LedgerError(
                f"{id}: needs, command = {needs!r}, {command!r}; "
                "allowed: the hours or data it lacks, and the command for it"
            )
        record = self._base(id, statement, "out of reach", "out of reach", show)
        reason = f"Needs {needs}; ready command: {command}"
        self._store(record | {"reason": reason + (f"; stand-in: {stand_in}" if stand_in else "")})

    def stated(self, id: str, statement: str, *, why: str, show: str = "row") -> None:
        """Record a claim that no computation can check, and why.

        Args:
            id: the result's id in the inventory, not recorded before.
            statement: what is claimed, in one line.
            why: why no computation can check it.
            show: "row" (closed), or "card" (open).

        Raises:
            LedgerError: the id is malformed or repeated, or `why` is empty.
        """
        self._admit(id, statement, show)
        if not why.strip():
            raise LedgerError(f"{id}: why = {why!r}; allowed: the reason why no check is possible")
        self._store(self._base(id, statement, "stated", "stated", show) | {"reason": why})

    def table(self) -> None:
        """Show the chapter's ledger: every record so far in one table."""
        emit(cards.table_text(self.records), cards.table_html(self.records), {})

    def _admit(self, id: str, statement: str, show: str) -> None:
        if not _ID.fullmatch(id):
            raise LedgerError(f"id = {id!r}; allowed: source:name, as in the inventory")
        if any(record["id"] == id for record in self.records):
            raise LedgerError(f"id = {id!r}, recorded in {self.run.chapter} already; allowed: one call an id")
        if not statement.strip() or "\n" in statement:
            raise LedgerError(f"{id}: statement = {statement!r}; allowed: one line")
        if show not in ("card", "row"):
            raise LedgerError(f"{id}: show = {show!r}; allowed: 'card' or 'row'")

    @staticmethod
    def _check_words(
        id: str, expected: str, claim: str, needs: str, reason: str | None, correction: Correction | None
    ) -> None:
        if expected not in CHECKED:
            raise LedgerError(f"{id}: expected = {expected!r}; allowed: one of {', '.join(CHECKED)}")
        if claim not in ("proved", "experiment"):
            raise LedgerError(f"{id}: claim = {claim!r}; allowed: 'proved' or 'experiment'")
        if needs not in SCALES:
            raise LedgerError(f"{id}: needs = {needs!r}; allowed: one of {', '.join(SCALES)}")
        if expected in ("partly", "not reproduced") and not (reason and reason.strip()):
            raise LedgerError(f"{id}: reason = {reason!r}; allowed with {expected!r}: what was measured")
        if (expected == "corrected") != (correction is not None):
            raise LedgerError(
                f"{id}: correction = {correction}; allowed: one with expected='corrected' and only there"
            )

    @staticmethod
    def _check_control(
        id: str, measured: Any, control: Control | None, exempt: str | None, correction: Correction | None
    ) -> None:
        if exempt is not None and exempt not in EXEMPT:
            raise LedgerError(f"{id}: exempt = {exempt!r}; allowed: one of {', '.join(EXEMPT)}")
        if control is None and exempt is None:
            raise LedgerError(f"{id}: control = None; allowed: one that fails, or exempt=...")
        if control is not None and not isinstance(control, Control):
            raise LedgerError(f"{id}: control = {type(control).__name__}; allowed: control(name, value)")
        if correction is not None and control is None:
            raise LedgerError(f"{id}: control = None; allowed: the printed form of a corrected statement")
        if control is not None and control.value is measured:
            raise LedgerError(
                f"{id}: control {control.name!r} = the measured quantity itself; allowed: another one"
            )

    @staticmethod
    def _check_tolerances(
        id: str, rtol: float | None, noise: float | None, seeds: Sequence[int] | None
    ) -> None:
        if rtol is not None and not 0 <= rtol <= 0.5:
            raise LedgerError(f"{id}: rtol = {rtol}; allowed: a number from 0 to 0.5")
        if noise is not None and not 0 <= noise < math.inf:
            raise LedgerError(f"{id}: noise = {noise}; allowed: a finite number >= 0")
        if seeds is not None and len(seeds) == 0:
            raise LedgerError(f"{id}: seeds = []; allowed: the seeds behind the numbers")

    @staticmethod
    def _judge_control(id: str, criterion: Criterion, control: Control) -> dict[str, Any]:
        value = control.value() if callable(control.value) else control.value
        require_level(id, value)
        try:
            outcome = criterion.judge(value, each=True)
        except LedgerError as error:
            raise LedgerError(f"{id}: control {control.name!r}: {error}") from error
        return {
            "name": control.name,
            "measured": _plain(outcome.numbers),
            "phrase": outcome.phrase,
            "passes": outcome.state != "fail",
        }

    @staticmethod
    def _verdict(outcome: Outcome, claim: str, correction: Correction | None) -> str:
        if outcome.state == "pass":
            if correction is not None:
                return "corrected"
            return "holds" if claim == "proved" else "reproduced"
        return "partly" if outcome.state == "weak" else "not reproduced"

    def _base(self, id: str, statement: str, expected: str, verdict: str, show: str) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "id": id,
            "chapter": self.run.chapter,
            "statement": statement,
            "expected": expected,
            "verdict": verdict,
            "show": show,
            "scale": self.run.scale,
            "device": str(self.run.device),
            "measured": None,
            "criterion": None,
            "control": None,
            "seeds": [],
            "reason": None,
            "correction": None,
        }

    def _store(self, record: dict[str, Any]) -> None:
        write_line(self.run.chapter, "claims", record)
        self.records.append(record)
        emit(cards.text(record), cards.html(record), {KEY: record}, plain=cards.plain(record))


def _plain(numbers: dict[str, float]) -> dict[str, float | str]:
    """JSON has no infinity: write it as text."""
    return {key: value if math.isfinite(value) else str(value) for key, value in numbers.items()}
