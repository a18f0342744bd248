"""The words of the package as types: effects, rules, decisions, findings, reasons, modes."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Literal, TypeGuard, get_args

Effect = Literal["read", "write", "live", "ask", "bookkeeping", "final", "unknown"]
RuleName = Literal["exact", "space", "text", "id", "money", "path", "ignore"]
Rule = RuleName | Callable[[Any], Any]
Decision = Literal["execute", "replay", "join", "refuse", "exit"]
FindingKind = Literal["repeat", "cycle", "no_progress", "asked_again", "same_outcome"]
Reason = Literal["completed", "finished", "stuck", "failed"]
Mode = Literal["enforce", "advise", "observe", "off"]
NextStep = Literal["same_call", "other_call", "answered", "ended"]
SuspectedCause = Literal["unresolved", "retryable", "capability", "constraint"]
OnStuck = Literal["exit", "raise", "flag"]
Deliver = Literal["queue", "result"]
Rank = Literal["user", "tool", "developer", "system"]

EFFECTS: tuple[str, ...] = get_args(Effect)
RULE_NAMES: tuple[str, ...] = get_args(RuleName)
MODES: tuple[Mode, ...] = get_args(Mode)

# Effects of which a call may have changed the world.
CHANGING_EFFECTS = frozenset({"write", "final", "unknown"})

# Up to here a text is kept as it is; a longer one by its digest, so that a key stays small.
TEXT_LIMIT: Final = 256


class KeyKind(enum.Enum):
    """The first part of a key that is not a tool's plain arguments; no argument equals it."""

    SLOT = enum.auto()
    MISFIT = enum.auto()
    REFUSED = enum.auto()


class Missing(enum.Enum):
    """The one value that means "nothing was given", where `None` is a value."""

    MISSING = enum.auto()

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing.MISSING


# `isinstance` alone leaves the parts of what it finds without a type.
def is_mapping(value: Any) -> TypeGuard[Mapping[Any, Any]]:
    """Tell whether a value is a mapping."""
    return isinstance(value, Mapping)


def is_sequence(value: Any) -> TypeGuard[Sequence[Any]]:
    """Tell whether a value is a list or a tuple."""
    return isinstance(value, (list, tuple))


def is_tuple(value: Any) -> TypeGuard[tuple[Any, ...]]:
    """Tell whether a value is a tuple."""
    return isinstance(value, tuple)


def is_collection(value: Any) -> TypeGuard[Collection[Any]]:
    """Tell whether a value is a list, a tuple or a set."""
    return isinstance(value, (list, tuple, set, frozenset))
