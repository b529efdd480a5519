"""How a record looks: text for nbval, HTML for the reader, a line for a script.

The text holds no computed number. In the HTML every computed number stands in `<span class="measured">`, and the
look lives in the style sheet `claims.css`; there is no inline style.
"""

from __future__ import annotations

from html import escape
from typing import Any

Record = dict[str, Any]


def anchor(id: str) -> str:
    """Return the label of an id: what the page's directive and every link to it use."""
    return id.replace(":", "-").replace(".", "-")


def target(id: str) -> str:
    """Return the HTML id of the card or row itself; the anchor belongs to the statement's directive."""
    return f"claim-{anchor(id)}"


def text(record: Record) -> str:
    """Return id, verdict, criterion in symbols and the control's name."""
    lines = [f"[{record['verdict']}] {record['id']}: {record['statement']}"]
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
    classes = f"ld-claim ld-{record['show']} ld-{verdict.replace(' ', '-')}"
    head = (
        f'<span class="ld-verdict">{escape(verdict.capitalize())}</span> '
        f'<span class="ld-statement">{escape(record["statement"])}</span>'
    )
    body = _evidence(record) + _facts(record)
    version = f'id="{target(record["id"])}" data-ld-schema="{record["schema"]}"'
    if record["show"] == "row":
        return f'<details class="{classes}" {version}><summary class="ld-sentence">{head}</summary>{body}</details>'
    return (
        f'<div class="{classes}" {version}><p class="ld-sentence">{head}</p>{_evidence(record)}'
        f'<details class="ld-more"><summary>How it was checked</summary>{_facts(record)}</details></div>'
    )


def table_text(records: list[Record]) -> str:
    """Return one line per record."""
    return "\n".join(f"{record['id']}: {record['verdict']}" for record in records)


def table_html(records: list[Record]) -> str:
    """Return the chapter's ledger as a table with a link to each claim."""
    rows = "".join(
        f'<tr class="ld-{record["verdict"].replace(" ", "-")}">'
        f'<td><a class="ld-id" href="#{target(record["id"])}">{escape(record["id"])}</a></td>'
        f"<td>{escape(record['statement'])}</td>"
        f'<td class="ld-verdict">{escape(record["verdict"])}</td></tr>'
        for record in records
    )
    head = "<tr><th>Result</th><th>Claim</th><th>Verdict</th></tr>"
    return f'<table class="ld-table"><thead>{head}</thead><tbody>{rows}</tbody></table>'


def _measured(phrase: str) -> str:
    return f'<span class="measured">{escape(phrase)}</span>'


def _evidence(record: Record) -> str:
    parts = []
    if record["criterion"]:
        sentence = escape(record["criterion"]["sentence"])
        parts.append(f"{_measured(record['phrase'].capitalize())}; asked: {sentence}.")
    if record["control"]:
        name = escape(record["control"]["name"])
        parts.append(
            f'<span class="ld-breaks">What breaks it: {name}</span>: {_measured(record["control"]["phrase"])}.'
        )
    if record["reason"]:
        parts.append(f'<span class="ld-reason">{escape(record["reason"])}</span>.')
    if record["correction"]:
        correction = record["correction"]
        parts.append(
            f'<span class="ld-printed">Printed: {escape(correction["printed"])}.</span> '
            f'<span class="ld-right">Right: {escape(correction["right"])}</span> ({correction["evidence"]}).'
        )
    return f'<p class="ld-evidence">{" ".join(parts)}</p>' if parts else ""


def _facts(record: Record) -> str:
    facts = [("Result", f'<code class="ld-id">{escape(record["id"])}</code>')]
    if record["criterion"]:
        bound = record["criterion"]["bound"]
        values = bound if isinstance(bound, list) else [bound]
        facts.append(("Bound as a number", _measured(", ".join(f"{value:.3g}" for value in values))))
    facts.append(("Scale", escape(record["scale"])))
    if record["seeds"]:
        count = len(record["seeds"])
        facts.append(("Seeds", f'<span class="measured">{count}, from {record["seeds"][0]}</span>'))
    facts.append(("Device", _measured(record["device"])))
    name = f"Learning Dynamics, result {record['id']} of {record['chapter']}"
    facts.append(("Cite", f'<span class="ld-cite">{escape(name)}, with the release you read</span>'))
    rows = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts)
    return f'<dl class="ld-facts">{rows}</dl>'
