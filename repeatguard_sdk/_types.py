"""The words of the package as types: effects, rules, decisions, findings, reasons, modes."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Literal, get_args

Effect = Literal["read", "write", "live", "ask", "bookkeeping", "final", "unknown"]
RuleName = Literal["exact", "space", "text", "id", "money", "path", "ignore"]
Rule = RuleName | Callable[[Any], Any]
Decision = Literal["execute", "replay", "join", "refuse", "exit"]
FindingKind = Literal["repeat", "cycle", "no_progress", "asked_again", "same_outcome"]
Reason = Literal["completed", "finished", "stuck", "failed"]
Mode = Literal["enforce", "advise", "observe", "off"]
OnStuck = Literal["exit", "raise", "flag"]
Deliver = Literal["queue", "result"]
Rank = Literal["user", "tool", "developer", "system"]

EFFECTS: tuple[str, ...] = get_args(Effect)
RULE_NAMES: tuple[str, ...] = get_args(RuleName)
MODES: tuple[str, ...] = get_args(Mode)

# What a call of an undeclared or shell-like tool may have done: anything.
CHANGING_EFFECTS = frozenset({"write", "final", "unknown"})


class Missing(enum.Enum):
    """The one value that means "nothing was given", where `None` is a value."""

    MISSING = enum.auto()

    def __repr__(self) -> str:
        return "MISSING"


MISSING = Missing.MISSING
