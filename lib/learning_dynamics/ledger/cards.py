"""How a record looks: text for nbval, HTML for the reader, a line for a script.

The text holds no computed number. In the HTML every computed number stands in `<span class="measured">`, which holds
no tag, and the look lives in the style sheet `claims.css`; there is no inline style.

A card is a sentence: *Holds*, the statement; "8 values, worst 4.4e-16 against 2.2e-12. What breaks it: leaving out
the network's part (0.486 at best)." Everything else is folded. A row is the statement and the verdict.
"""

from __future__ import annotations

import math
import re
from html import escape
from typing import Any

Record = dict[str, Any]

# An index or exponent of a symbol: `F_out`, `θ_{k+1}`, `‖A‖_F`, `e^{−t}`; not `matrix_rank`, whose stem is a word.
_SCRIPT = re.compile(
    r"(?<=\S)(?:(?P<sup>\^)|(?<![A-Za-z0-9][A-Za-z0-9])_)(?:\{(?P<group>[^{}]+)\}|(?P<word>[^\W_]+))"
)


def anchor(id: str) -> str:
    """Return the label of an id: what the page's directive and every link to it use."""
    return id.replace(":", "-").replace(".", "-")


def target(id: str) -> str:
    """Return the HTML id of a record's sentence; the anchor belongs to the statement's directive."""
    return f"claim-{anchor(id)}"


def number(value: float) -> str:
    """Format a measured number for a reader: three digits, no padded exponent."""
    if not math.isfinite(value):
        return "infinite" if value > 0 else "minus infinity"
    text = f"{value:.3g}"
    if "e" in text:
        mantissa, exponent = text.split("e")
        text = f"{mantissa}e{int(exponent)}"
    return text


def formula(line: str) -> str:
    """Return a line of plain text as HTML, with `_` and `^` after a symbol as subscript and superscript."""

    def script(match: re.Match[str]) -> str:
        tag = "sup" if match["sup"] else "sub"
        return f"<{tag}>{match['group'] or match['word']}</{tag}>"

    return _SCRIPT.sub(script, escape(line, quote=False))


def text(record: Record) -> str:
    """Return id, verdict, criterion in symbols and the control's name."""
    lines = [f"[{record['verdict']}] {record['id']}: {record['statement']}"]
    if record.get("unexpected"):
        lines.append(f"    not as in the book: {record['unexpected']}")
    if record["criterion"]:
        lines.append(f"    criterion: {record['criterion']['sentence']}")
    if record["control"]:
        lines.append(f"    what breaks it: {record['control']['name']}")
    if record["reason"]:
        lines.append(f"    why: {record['reason']}")
    return "\n".join(lines)


def plain(record: Record) -> str:
    """Return the text with its numbers, for a terminal."""
    lines = [text(record)]
    if record["criterion"]:
        lines.append(f"    measured: {record['phrase']}")
    if record["control"]:
        lines.append(f"    control:  {record['control']['phrase']}")
    return "\n".join(lines)


def html(record: Record) -> str:
    """Return the reader's card or closed row."""
    verdict = record["verdict"]
    tone = "ld-unexpected" if record.get("unexpected") else _tone(verdict)
    opening = f'class="ld-claim ld-{record["show"]} {tone}" data-ld-schema="{record["schema"]}"'
    sentence = f'class="ld-sentence" id="{target(record["id"])}"'
    word = f'<span class="ld-verdict">{escape(verdict.capitalize())}</span>'
    statement = f'<span class="ld-statement">{formula(record["statement"])}</span>'
    evidence, facts = _evidence(record), _facts(record)
    if record["show"] == "row":
        head = f"<summary {sentence}>{statement} {word}</summary>"
        opening += " open" if record.get("unexpected") else ""
        return f'<details {opening}>{head}<div class="ld-unfolded">{evidence}{facts}</div></details>'
    more = f'<details class="ld-more"><summary>How it was checked</summary>{facts}</details>'
    return f"<div {opening}><p {sentence}>{word} {statement}</p>{evidence}{more}</div>"


def table_text(records: list[Record]) -> str:
    """Return one line per record."""
    return "\n".join(f"{record['id']}: {record['verdict']}" for record in records)


def table_html(records: list[Record]) -> str:
    """Return the chapter's ledger as a table with a link to each claim."""
    rows = "".join(
        f'<tr class="{_tone(record["verdict"])}">'
        f'<td><span class="ld-statement">{formula(record["statement"])}</span> '
        f'<a class="ld-id" href="#{target(record["id"])}">{escape(record["id"])}</a></td>'
        f'<td class="ld-verdict">{escape(record["verdict"])}</td></tr>'
        for record in records
    )
    head = '<tr><th scope="col">Claim</th><th scope="col">Verdict</th></tr>'
    return f'<table class="ld-table"><thead>{head}</thead><tbody>{rows}</tbody></table>'


def _tone(verdict: str) -> str:
    return f"ld-{verdict.replace(' ', '-')}"


def _measured(phrase: str) -> str:
    return f'<span class="measured">{escape(phrase)}</span>'


def _against(criterion: Record) -> str:
    """Return what the measured numbers are held against, in a few words; empty where the phrase says it all."""
    bound, relation = criterion["bound"], criterion["relation"]
    if relation == "increasing":
        return ""
    if relation == "between":
        return f" against {number(bound[0])} to {number(bound[1])}"
    if relation == "interval contains":
        return f"; claimed {number(bound[0])}, not {' or '.join(number(value) for value in bound[1:])}"
    if relation == "<=" and bound > 0:
        return f" against {number(bound)}"
    if relation == ">=" and criterion["floor"]:
        return " against at least 0, up to rounding"
    words = {"<=": "at most", "mean <=": "at most", ">=": "at least", "mean >=": "at least", "==": "exactly"}
    return f" against {words[relation]} {number(bound)}"


def _breaking(control: Record) -> str:
    """Return the control's numbers: one value, or the one that comes nearest to passing."""
    numbers = control["measured"]
    if "worst" not in numbers:
        return str(control["phrase"])
    return number(float(numbers["worst"])) + (" at best" if float(numbers["count"]) > 1 else "")


def _evidence(record: Record) -> str:
    parts = []
    if record.get("unexpected"):
        parts.append(f"<strong>Not as in the book</strong>: {_measured(record['unexpected'].rstrip('.'))}.")
    if record["criterion"]:
        parts.append(f"{_measured(record['phrase'] + _against(record['criterion']))}.")
    if record["control"]:
        name, numbers = formula(record["control"]["name"]), _measured(_breaking(record["control"]))
        parts.append(f'<span class="ld-breaks">What breaks it: {name} ({numbers}).</span>')
    if record["reason"]:
        reason = record["reason"].rstrip(".")
        parts.append(f'<span class="ld-reason">{formula(reason[0].upper() + reason[1:])}.</span>')
    if record["correction"]:
        correction = record["correction"]
        parts.append(
            f'<span class="ld-printed">Printed: {formula(correction["printed"])}.</span> '
            f'<span class="ld-right">Right: {formula(correction["right"])}</span> ({correction["evidence"]}).'
        )
    return f'<p class="ld-evidence">{" ".join(parts)}</p>' if parts else ""


def _facts(record: Record) -> str:
    facts = []
    if record["criterion"]:
        facts.append(("Asked", formula(record["criterion"]["sentence"])))
    run = f"{record['scale']} scale"
    if record["seeds"]:
        count = len(record["seeds"])
        run += f", {count} seed{'s' if count > 1 else ''} from {record['seeds'][0]}"
    facts.append(("Run", _measured(f"{run}, {record['device']}")))
    id = f'<code class="ld-id">{escape(record["id"])}</code>'
    facts.append(("Cite", f"{id} in <cite>Learning Dynamics</cite>, with the release you read"))
    rows = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts)
    return f'<dl class="ld-facts">{rows}</dl>'
