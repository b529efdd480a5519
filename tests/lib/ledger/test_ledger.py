"""Each kind of check is shown right, then mutated until it fails; each malformed call has its own message."""

from __future__ import annotations

import copy
import json
import math
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learning_dynamics.ledger import (
    Ledger,
    LedgerError,
    at_least,
    at_most,
    between,
    cards,
    confident,
    control,
    correction,
    equals,
    exponent,
    identity,
    inequality,
    ordering,
    read,
)
from learning_dynamics.runs import Run

CHAPTER = "implicit_bias/minimum_norm"


@dataclass
class Interval:
    low: float
    estimate: float
    high: float


class Checked(Ledger):
    """The ledger, with a check that returns the record it stored."""

    def check(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        assert super().check(*args, **kwargs) is None
        return self.records[-1]


@pytest.fixture
def ledger() -> Ledger:
    return Checked(Run(CHAPTER))


SEEDS = torch.linspace(-1, 1, 40, dtype=torch.float64)
# name: criterion, numbers that pass, numbers that fail (used as control and as mutation)
KINDS: dict[str, tuple[Any, Any, Any]] = {
    "identity": (identity("|a − b|", condition=10, size=2), [1e-15, -3e-14], [1e-6]),
    "identity, negative": (identity("a − b"), [0.0], [-1e-3]),
    "identity, float32": (identity("|a − b|", dtype=torch.float32), torch.tensor([1e-6]), [1e-3]),
    "at_most": (at_most("error", 1e-10), torch.tensor([[1e-12, 1e-11]]), [0.5]),
    "at_least": (at_least("distance", 0.1), [0.5, 0.2], [1e-3]),
    "between": (between("ratio", 0.9, 1.1), [1.0], [2.0]),
    "inequality": (inequality("right − left"), [0.0, 3.0, -1e-16], [-1e-3]),
    "equals": (equals("rank", 20), torch.tensor([20, 20]), [19]),
    "exponent": (
        exponent("slope", -1, neighbours=(-0.5, -2)),
        Interval(-1.1, -1, -0.9),
        Interval(-0.6, -0.5, -0.4),
    ),
    "confident at most": (confident("error", at_most=1.0), SEEDS * 0.1, SEEDS * 0.1 + 2),
    "confident at least": (confident("error", at_least=1.0), SEEDS * 0.1 + 2, SEEDS * 0.1),
    "ordering": (
        ordering("error", ["small", "large"]),
        {"small": SEEDS, "large": SEEDS + 1 + 0.1 * SEEDS},
        {"large": SEEDS, "small": SEEDS + 1 + 0.1 * SEEDS},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_passes_and_its_mutation_fails(kind: str, ledger: Ledger) -> None:
    criterion, right, wrong = KINDS[kind]
    record = ledger.check(
        "a:right",
        "s",
        measured=right,
        criterion=criterion,
        control=control("broken", wrong),
        expected="holds",
    )
    assert record["verdict"] == "holds"
    assert record["control"]["passes"] is False
    with pytest.raises(LedgerError, match="expected 'holds'"):
        ledger.check(
            "a:wrong",
            "s",
            measured=clone(wrong),
            criterion=criterion,
            control=control("broken", wrong),
            expected="holds",
        )
    with pytest.raises(LedgerError, match="does not fail"):
        ledger.check(
            "a:blind",
            "s",
            measured=right,
            criterion=criterion,
            control=control("the same", clone(right)),
            expected="holds",
        )


def clone(numbers: Any) -> Any:
    return copy.deepcopy(numbers)


@pytest.mark.parametrize(
    ("claim", "numbers", "expected"),
    [
        ("proved", [0.5], "holds"),
        ("experiment", [0.5], "reproduced"),
        ("experiment", [2.0], "not reproduced"),
    ],
)
def test_verdicts_are_computed(claim: str, numbers: list, expected: str, ledger: Ledger) -> None:
    arguments: dict = {
        "measured": numbers,
        "criterion": at_most("error", 1.0),
        "control": control("broken", [3.0]),
        "claim": claim,
        "reason": "measured" if expected == "not reproduced" else None,
    }
    assert ledger.check("a:b", "s", expected=expected, **arguments)["verdict"] == expected
    others = {"holds", "reproduced", "not reproduced", "partly"} - {expected}
    for index, other in enumerate(sorted(others)):
        with pytest.raises(LedgerError, match="computed verdict"):
            ledger.check(f"a:c{index}", "s", expected=other, **(arguments | {"reason": "measured"}))


def test_a_sample_too_near_its_bound_is_partly(ledger: Ledger) -> None:
    record = ledger.check(
        "a:b",
        "s",
        measured=SEEDS,
        criterion=confident("error", at_most=0.1),
        control=control("broken", SEEDS + 5),
        expected="partly",
        reason="the bound lies within three standard errors",
    )
    assert record["verdict"] == "partly"


def test_a_corrected_statement_carries_both_forms(ledger: Ledger) -> None:
    forms = correction(printed="β/σ² ∝ 1/α", right="β/σ² ∝ 1/α²", evidence="refereed")
    record = ledger.check(
        "a:b",
        "s",
        measured=[1e-16],
        criterion=identity("error"),
        control=control("the printed form", [0.3]),
        expected="corrected",
        correction=forms,
    )
    assert record["verdict"] == "corrected"
    assert record["correction"] == {
        "printed": "β/σ² ∝ 1/α",
        "right": "β/σ² ∝ 1/α²",
        "evidence": "refereed",
    }
    with pytest.raises(LedgerError, match="correction = None; allowed: one with"):
        ledger.check(
            "a:c",
            "s",
            measured=[0.0],
            criterion=identity("e"),
            control=control("c", [1.0]),
            expected="corrected",
        )
    with pytest.raises(LedgerError, match="evidence = 'rumour'"):
        correction(printed="a", right="b", evidence="rumour")
    with pytest.raises(LedgerError, match="that differ"):
        correction(printed="a", right="a", evidence="refereed")


MALFORMED = {
    "NaN": ({"measured": [float("nan"), 1.0]}, "1 of 2 values are NaN"),
    "empty": ({"measured": torch.zeros(0)}, "measured = an empty sample"),
    "text": ({"measured": "0.3"}, "measured = text; allowed: real numbers"),
    "not numbers": ({"measured": [object()]}, "allowed: real numbers"),
    "numbers as text": ({"measured": ["0", "0.0"]}, "measured = text"),
    "truth values": ({"measured": torch.tensor([True])}, "measured = truth values"),
    "complex": ({"measured": torch.tensor([0 + 5j])}, "measured = complex numbers"),
    "sparse": ({"measured": torch.eye(2).to_sparse()}, "measured = Tensor; allowed: numbers"),
    "ragged": ({"measured": [[1.0], [1.0, 2.0]]}, "measured = list; allowed: numbers"),
    "infinite": ({"measured": [0.1, float("inf")]}, "1 of 2 values are infinite"),
    "negative size": ({"measured": [-0.1]}, "= -0.1; allowed: a size >= 0"),
    "wide rtol": ({"rtol": float("inf")}, "rtol = inf"),
    "endless noise": ({"noise": float("inf")}, "noise = inf"),
    "no seeds": ({"seeds": []}, r"seeds = \[\]"),
    "reason for success": ({"reason": "it is fine"}, "reason = 'it is fine'; allowed: None"),
    "corrected without its printed form": (
        {
            "control": None,
            "exempt": "definition",
            "expected": "corrected",
            "correction": correction(printed="a", right="b", evidence="refereed"),
        },
        "the printed form",
    ),
    "no control": ({"control": None}, "control = None; allowed: one that fails"),
    "bare control": ({"control": 3.0}, "control = float; allowed: control"),
    "control is NaN": ({"control": control("c", [float("nan")])}, "control 'c': .*NaN"),
    "control is empty": ({"control": control("c", [])}, "control 'c': .*empty"),
    "control passes": ({"control": control("c", [1e-3])}, "does not fail"),
    "part of the control passes": ({"control": control("c", [1e-3, 5.0])}, "does not fail"),
    "unknown verdict": ({"expected": "true"}, "expected = 'true'"),
    "verdict as result": ({"expected": "stated"}, "expected = 'stated'"),
    "unknown claim": ({"claim": "believed"}, "claim = 'believed'"),
    "unknown scale": ({"needs": "huge"}, "needs = 'huge'"),
    "unknown view": ({"show": "banner"}, "show = 'banner'"),
    "no reason": ({"expected": "not reproduced"}, "reason = None; allowed with"),
    "unknown exemption": ({"exempt": "hurry"}, "exempt = 'hurry'"),
    "bad id": ({"id": "thm 9.3"}, "allowed: source:name"),
    "two lines": ({"statement": "a\nb"}, "one line"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_each_malformed_call_has_its_own_message(case: str, ledger: Ledger) -> None:
    change, message = MALFORMED[case]
    arguments: dict = {
        "id": "a:b",
        "statement": "s",
        "measured": [0.1],
        "criterion": at_most("error", 1.0),
        "control": control("broken", [3.0]),
        "expected": "holds",
    }
    with pytest.raises((LedgerError, TypeError), match=message):
        ledger.check(**(arguments | change))
    assert ledger.records == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: at_most("error", -1.0), "allowed: >= 0"),
        (lambda: at_least("distance", -1.0), "allowed: > 0"),
        (lambda: at_most("error", float("nan")), "finite bound"),
        (lambda: between("ratio", 2, 1), "low < high"),
        (lambda: identity("e", condition=0.5), "condition = 0.5"),
        (lambda: identity("e", size=0.0), "size = 0.0"),
        (lambda: identity("e", condition=1e18), "nothing is tested"),
        (lambda: confident("e", at_most=1, level=0.01), "level = 0.01"),
        (lambda: identity("e", dtype="int8"), "dtype = 'int8'"),
        (lambda: inequality("e", size=-1.0), "size = -1.0"),
        (lambda: exponent("s", 1, neighbours=()), "neighbours"),
        (lambda: exponent("s", 1, neighbours=(1,)), "neighbours"),
        (lambda: equals("rank", 1.5), "allowed: an integer"),
        (lambda: ordering("e", ["a"]), "at least two"),
        (lambda: confident("e"), "exactly one"),
        (lambda: confident("e", at_most=1, level=1.0), "level = 1.0"),
        (lambda: control("broken", "it fails"), "allowed: numbers or a callable"),
        (lambda: control("", [1.0]), "allowed: words"),
    ],
)
def test_a_malformed_criterion_or_control_is_refused(make: Any, message: str) -> None:
    with pytest.raises(LedgerError, match=message):
        make()


def test_signed_quantities_may_have_negative_bounds(ledger: Ledger) -> None:
    ledger.check(
        "a:b",
        "s",
        measured=[-3.0],
        criterion=at_most("drift", -1.0, signed=True),
        control=control("no drift", [0.0]),
        expected="holds",
    )


def test_an_id_is_recorded_once(ledger: Ledger) -> None:
    ledger.stated("a:b", "s", why="a definition of words")
    with pytest.raises(LedgerError, match="recorded in .* already"):
        ledger.out_of_reach("a:b", "s", needs="a GPU for 3 hours", command="make run")


def test_control_is_not_the_measured_object(ledger: Ledger) -> None:
    numbers = [5.0]
    with pytest.raises(LedgerError, match="the measured quantity itself"):
        ledger.check(
            "a:b",
            "s",
            measured=numbers,
            criterion=at_most("e", 1),
            control=control("c", numbers),
            expected="holds",
        )


def test_callables_are_evaluated_and_their_exceptions_are_not_caught(ledger: Ledger) -> None:
    record = ledger.check(
        "a:b",
        "s",
        measured=lambda: [0.1],
        criterion=at_most("e", 1),
        control=control("c", lambda: [2.0]),
        expected="holds",
    )
    assert record["measured"]["worst"] == 0.1

    def broken() -> list[float]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ledger.check(
            "a:c",
            "s",
            measured=[0.1],
            criterion=at_most("e", 1),
            control=control("c", broken),
            expected="holds",
        )


def test_below_its_scale_a_check_is_not_evaluated() -> None:
    arguments: dict = {
        "measured": [5.0],
        "criterion": at_most("e", 1),
        "control": control("c", [2.0]),
        "expected": "holds",
        "needs": "book",
    }
    assert Checked(Run(CHAPTER, scale="smoke")).check("a:b", "s", **arguments)["verdict"] == "not evaluated"
    arguments |= {"measured": [0.5], "control": control("c", [0.7])}
    record = Checked(Run(CHAPTER, scale="smoke")).check("a:b", "s", **arguments)
    assert record["verdict"] == "not evaluated" and record["control"]["passes"] is True
    with pytest.raises(LedgerError, match="does not fail"):
        Checked(Run(CHAPTER, scale="book")).check("a:b", "s", **arguments)
    with pytest.raises(LedgerError):
        Ledger(Run(CHAPTER, scale="book")).check("a:b", "s", **arguments)


def test_definitions_need_no_control(ledger: Ledger) -> None:
    record = ledger.check(
        "a:b", "s", measured=[0.0], criterion=identity("e"), expected="holds", exempt="definition"
    )
    assert record["control"] is None


def test_intervals_need_three_seeds(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="at least three"):
        ledger.check(
            "a:b",
            "s",
            measured=[0.1, 0.1],
            criterion=confident("e", at_most=1),
            control=control("c", [5.0, 5.1, 5.2]),
            expected="holds",
        )


def test_a_diverged_control_is_stored_as_infinite(ledger: Ledger) -> None:
    record = ledger.check(
        "a:b",
        "s",
        measured=[0.0],
        criterion=at_most("e", 1),
        control=control("η > 2/L", [float("inf")]),
        expected="holds",
    )
    assert record["control"]["measured"]["worst"] == "inf"
    json.loads(json.dumps(record, allow_nan=False))


def example(ledger: Ledger, show: str = "card") -> dict:
    return ledger.check(
        "regularization:thm-9.3",
        "ends at X⁺y <b>",
        measured=[2.5e-15],
        criterion=identity("‖θ − X⁺y‖", condition=7.25),
        control=control("start at N(0, I)", [0.7531]),
        expected="holds",
        show=show,
    )


def test_text_has_no_number_and_html_marks_every_number(ledger: Ledger) -> None:
    import re

    record = example(ledger)
    assert "2.5e-15" not in cards.text(record) and "0.7531" not in cards.text(record)
    html = cards.html(record)
    assert "<b>" not in html and "style=" not in html
    rest = re.sub(r'<span class="measured">[^<]*</span>', "", html)
    assert "2.5e-15" in html and "2.5e-15" not in rest
    assert "0.753" in html and "0.753" not in rest
    assert "2.5e-15" in cards.plain(record)
    row = cards.html(record | {"show": "row"})
    assert row.startswith('<details class="ld-claim ld-row ld-holds"') and " open" not in row


def test_the_table_links_every_record(ledger: Ledger) -> None:
    example(ledger)
    ledger.stated("a:b", "s", why="w")
    html = cards.table_html(ledger.records)
    assert 'href="#claim-regularization-thm-9-3"' in html and 'href="#claim-a-b"' in html


def test_records_are_written_where_the_variable_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEARNING_DYNAMICS_RECORDS", str(tmp_path))
    for _ in range(2):  # a second run replaces the first
        ledger = Checked(Run(CHAPTER))
        example(ledger)
        ledger.stated("a:b", "s", why="w")
    assert [record["id"] for record in read.written_records(tmp_path, CHAPTER)] == [
        "regularization:thm-9.3",
        "a:b",
    ]


def copies(ledger: Ledger) -> tuple[dict, dict]:
    ledger.check(
        "a:b",
        "s",
        measured=[0.25, 0.5],
        criterion=at_most("error", 1.0),
        control=control("broken", [3.0]),
        expected="holds",
    )
    record = ledger.records[-1]
    return record, json.loads(json.dumps(record))


MUTATIONS = {
    "number": lambda r: r["measured"].update(worst=0.500001),
    "count": lambda r: r["measured"].update(count=3.0),
    "control": lambda r: r["control"]["measured"].update(worst=3.1),
    "bound": lambda r: r["criterion"].update(bound=1.1),
    "verdict": lambda r: r.update(verdict="reproduced"),
    "statement": lambda r: r.update(statement="t"),
    "scale": lambda r: r.update(scale="smoke"),
    "seeds": lambda r: r.update(seeds=[1]),
    "no control": lambda r: r.update(control=None),
    "control name": lambda r: r["control"].update(name="other"),
    "phrase": lambda r: r.update(phrase="2 values, worst 1e-9"),
    "NaN": lambda r: r["measured"].update(worst="nan"),
    "id": lambda r: r.update(id="a:c"),
    "rtol": lambda r: r.update(rtol=0.5),
    "noise": lambda r: r.update(noise=0.4),
    "dtype": lambda r: r.update(dtype="float32"),
    "floor": lambda r: r["criterion"].update(floor=0.5),
    "control passes": lambda r: r["control"].update(passes=True),
    "exempt": lambda r: r.update(exempt="definition"),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_stale_or_edited_record_is_found(mutation: str, ledger: Ledger) -> None:
    fresh, edited = copies(ledger)
    assert read.differences([edited], [fresh]) == []
    MUTATIONS[mutation](edited)
    assert read.differences([edited], [fresh])


def test_rounding_may_differ_between_machines_but_not_in_kind(ledger: Ledger) -> None:
    fresh = example(ledger)
    other = json.loads(json.dumps(fresh))
    for worst, agrees in [(2e-14, True), (0.0, True), (1e-13, True), (1e-12, False), (0.7, False)]:
        other["measured"].update(worst=worst, min=worst, max=worst)
        assert (read.differences([other], [fresh]) == []) is agrees, worst


def test_a_tolerance_of_rounding_may_move_by_a_hundredth(ledger: Ledger) -> None:
    """It holds a computed condition number, which other kernels move; a bound that the page states may not move."""
    fresh = example(ledger)
    assert fresh["criterion"]["rounding"]
    for factor, agrees in [(1 + 5e-3, True), (1.02, False), (0.5, False)]:
        other = json.loads(json.dumps(fresh))
        other["noise"] *= factor
        other["criterion"]["bound"] *= factor
        assert (read.differences([other], [fresh]) == []) is agrees, factor


@given(st.floats(-1e6, 1e6), st.floats(1e-12, 1e-3))
def test_close_is_symmetric_and_reflexive(x: float, rtol: float) -> None:
    y = x * (1 + 3 * rtol)
    assert read.close(x, x, 0, 0)
    assert read.close(x, y, rtol, 0) == read.close(y, x, rtol, 0) == (x == y)


def test_reading_needs_neither_torch_nor_numpy() -> None:
    code = (
        "import sys; import learning_dynamics.ledger.read as r; "
        "sys.exit(any(m in sys.modules for m in ('torch', 'numpy', 'scipy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 0}, "= 0; allowed: 1"),
        ({"verdict": "fine"}, "= 'fine'; allowed: holds"),
    ],
)
def test_reading_refuses_what_it_does_not_know(
    change: dict, message: str, tmp_path: Path, ledger: Ledger
) -> None:
    record = example(ledger)
    path = tmp_path / "chapters" / "part" / "name.ipynb"
    path.parent.mkdir(parents=True)

    def write(*records: dict) -> None:
        outputs = [{"metadata": {read.KEY: record}} for record in records]
        path.write_text(json.dumps({"cells": [{"outputs": outputs}, {}]}))

    write(record)
    assert read.records(tmp_path) == [json.loads(json.dumps(record))]
    write(record, record)
    with pytest.raises(ValueError, match="recorded twice"):
        read.records(tmp_path)
    write(record | change)
    with pytest.raises(ValueError, match=message):
        read.records(tmp_path)
    path.write_text("{")
    with pytest.raises(ValueError, match="no notebook"):
        read.records(tmp_path)


def test_the_inventory_refuses_a_repeated_id(tmp_path: Path) -> None:
    path = tmp_path / "inventory.csv"
    path.write_text("id,title\na:b,x\na:b,y\n")
    with pytest.raises(ValueError, match="stands twice"):
        read.inventory(path)


@pytest.mark.parametrize(
    ("measured", "broken", "verdict", "message"),
    [
        (
            [5.0],
            [9.0],
            "not reproduced",
            "computed verdict = 'not reproduced'; allowed: the expected 'holds'",
        ),
        ([0.5], [0.7], "holds", "control 'broken' = .* which does not fail"),
        ([math.nan], [9.0], "not evaluated", "NaN"),
    ],
)
def test_a_reader_who_changes_a_line_sees_a_red_card_and_goes_on(
    measured: list[float], broken: list[float], verdict: str, message: str
) -> None:
    call = {
        "measured": measured,
        "criterion": at_most("error", 1.0),
        "control": control("broken", broken),
        "expected": "holds",
    }
    with pytest.raises(LedgerError, match=message):
        Checked(Run(CHAPTER), strict=True).check("a:b", "s", **call)
    playing = Checked(Run(CHAPTER), strict=False)
    for show in ("card", "row"):
        record = playing.check(f"a:{show}", "s", show=show, **call)
        assert record["verdict"] == verdict and re.search(message, record["unexpected"])
        shown = cards.html(record)
        assert "ld-unexpected" in shown and "Not as in the book" in shown
        assert "not as in the book" in cards.text(record)
    assert "unexpected" not in playing.check(
        "a:good", "s", **call | {"measured": [0.5], "control": control("c", [3.0])}
    )
    with pytest.raises(LedgerError, match="allowed: one call an id"):
        playing.check("a:good", "s", **call)


def test_only_a_notebook_that_no_tool_executes_is_played_with(monkeypatch: pytest.MonkeyPatch) -> None:
    import IPython

    monkeypatch.delenv("LEARNING_DYNAMICS_STRICT", raising=False)
    assert Ledger(Run(CHAPTER)).strict
    monkeypatch.setattr(IPython, "get_ipython", lambda: object())
    assert not Ledger(Run(CHAPTER)).strict
    monkeypatch.setenv("LEARNING_DYNAMICS_STRICT", "1")
    assert Ledger(Run(CHAPTER)).strict


def test_an_interval_below_the_level_is_refused(ledger: Checked) -> None:
    from learning_dynamics.statistics import mean_interval

    sample = [1.0, 1.1, 0.9, 1.05, 0.95]
    common = {"control": control("none", [-1.0, -1.1, -0.9]), "expected": "holds"}
    low = confident("gain", at_least=0.0, level=0.95)
    with pytest.raises(LedgerError, match=r"level = 0\.95; allowed: an interval that covers at least 0\.999"):
        ledger.check("implicit:x", "A gain", measured=sample, criterion=low, **common)
    fitted = exponent("slope", 1.0, neighbours=[2.0])
    for measured, other, passes in [(0.95, 0.999, False), (0.999, 0.95, False), (0.999, 0.999, True)]:
        call = {
            "measured": mean_interval(sample, measured),
            "control": control("doubled", mean_interval([3 * x for x in sample], other)),
        }
        if passes:
            ledger.check("implicit:y", "A slope", criterion=fitted, expected="holds", **call)
        else:
            with pytest.raises(LedgerError, match="level"):
                ledger.check("implicit:y", "A slope", criterion=fitted, expected="holds", **call)


def test_a_table_of_checks_is_a_run_of_calls(ledger: Checked) -> None:
    wrong = control("off by one", 1.0)
    ledger.check_each(
        ("implicit:a", "First", 0.0, wrong),
        ("implicit:b", "Second", 1e-17, wrong, {"show": "card", "criterion": identity("other", size=2.0)}),
        criterion=identity("difference"),
        expected="holds",
    )
    first, second = ledger.records
    assert (first["id"], first["show"], second["show"]) == ("implicit:a", "row", "card")
    assert first["criterion"]["symbols"] == "difference" and second["criterion"]["symbols"] == "other"
    for rows in ((), (("implicit:c", "Third", 0.0),), (("implicit:c", "Third", 0.0, wrong, 3),)):
        with pytest.raises(LedgerError, match="allowed"):
            ledger.check_each(*rows, criterion=identity("difference"), expected="holds")


def test_integers_that_round_to_each_other_and_masked_numbers_are_refused() -> None:
    with pytest.raises(LedgerError, match=r"allowed: below 2\^53"):
        equals("n", 2**53)
    assert equals("n", 2**53 - 1).judge(2**53, each=False).state == "fail"
    with pytest.raises(LedgerError, match="masked array"):
        identity("x").judge(np.ma.array([0.0, 5.0], mask=[0, 1]), each=False)
