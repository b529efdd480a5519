"""The ledger: checks that can fail, and the records they leave.

`read` is imported without torch; everything else is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from learning_dynamics.ledger import read
    from learning_dynamics.ledger.book import Control, Correction, Ledger, control, correction
    from learning_dynamics.ledger.criteria import (
        LedgerError,
        at_least,
        at_most,
        between,
        confident,
        equals,
        exponent,
        identity,
        inequality,
        ordering,
    )

_HOME = {
    "Control": "book",
    "Correction": "book",
    "Ledger": "book",
    "LedgerError": "criteria",
    "at_least": "criteria",
    "at_most": "criteria",
    "between": "criteria",
    "confident": "criteria",
    "control": "book",
    "correction": "book",
    "equals": "criteria",
    "exponent": "criteria",
    "identity": "criteria",
    "inequality": "criteria",
    "ordering": "criteria",
}

__all__ = [
    "Control",
    "Correction",
    "Ledger",
    "LedgerError",
    "at_least",
    "at_most",
    "between",
    "confident",
    "control",
    "correction",
    "equals",
    "exponent",
    "identity",
    "inequality",
    "ordering",
    "read",
]


def __getattr__(name: str) -> Any:
    if name == "read":
        return import_module(f"{__name__}.read")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
