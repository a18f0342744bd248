"""One tool failing alike, finding nothing, or failing again and again, whatever the arguments."""

from __future__ import annotations

import functools
import json
import re
import string
from collections.abc import Hashable
from typing import Any, Final, NamedTuple

from repeatguard_sdk._entry import ToolState
from repeatguard_sdk._spec import ToolSpec
from repeatguard_sdk._types import MISSING, is_collection, is_mapping, is_sequence

# A result that long says more than "nothing found".
_SHORT_TEXT = 80
_THINGS = (
    r"results?|match(?:es)?|hits?|records?|rows?|items?|entries|entry|data|documents?|files?|"
    r"output|content|scans?|events?|orders?|users?|products?|answers?|occurrences?|suggestions?"
)
# What may follow: where or what was looked for, not what happened to the things.
_TAIL = (
    r"(?:\s+(?:were|was|could be|have been|has been))?"
    r"(?:\s+(?:found|available|match(?:ed|ing)?|returned|recorded|exists?|to (?:show|display)"
    r"|yet|here))*"
    r"(?:\s+(?:for|in|on|at|with|within|under|matching|containing|about|of|from|by)\b"
    r"[^.;,!?]*)?"
)
_NOTHING = (
    rf"\W*(?:(?:no|zero|0)\s+(?:[\w-]+\s+){{0,2}}(?:{_THINGS}){_TAIL}"
    rf"|nothing(?:\s+was)?(?:\s+found|\s+matched)?|none(?:\s+found)?|not found|empty"
    rf"|empty\s+(?:{_THINGS}|list|response|string)|\(?empty [\w]+\)?|n/a|null)\W*"
)

_JSON_SPACES: Final = " \t\n\r"
_HOLDS_NOTHING = re.compile(r"\[\s*\]|^\{\s*\}")

# How a text that says "nothing" may begin: no, nothing, none, null, not, n/a, zero, 0, empty.
_FIRST = frozenset("nNzZ0eE")
# How most texts begin, and none that says "nothing".
TELLING: Final = frozenset(string.ascii_letters + string.digits) - _FIRST


@functools.cache
def _nothing() -> re.Pattern[str]:
    # Compiled when the first text of that kind is met: it takes longer than to load most modules.
    return re.compile(_NOTHING, re.IGNORECASE | re.DOTALL)


class Row(NamedTuple):
    """Outcomes of one tool in a row that are worth a note."""

    what: str
    length: int


def found_nothing(result: Any, spec: ToolSpec) -> bool:
    """Tell whether a result found nothing.

    By default: `None`, blank text, empty containers and JSON text of them, an object whose
    only list is empty, and a short text such as "no results"; ``empty=`` of the tool decides
    otherwise. A predicate that raises counts as "found something".
    """
    rule = spec.empty
    try:
        if rule is MISSING:
            return is_empty(result)
        return bool(rule(result)) if callable(rule) else bool(result == rule)
    except Exception:
        return False


def may_be_nothing(text: str) -> bool:
    """Tell whether a text may have found nothing, by its first character: most begin otherwise."""
    first = text[:1]
    return not first.isalnum() or first in _FIRST


def is_empty(result: Any) -> bool:
    """Tell whether a result is one that found nothing, whatever its tool says of it."""
    if result is None:
        return True
    if isinstance(result, str):
        return _is_empty_text(result)
    if is_collection(result):
        return not result
    if is_mapping(result):
        lists = [item for item in result.values() if is_sequence(item)]
        return not result or (len(lists) == 1 and not lists[0])
    return False


def _is_empty_text(text: str) -> bool:
    if len(text) > 4 * _SHORT_TEXT:
        return False
    text = text.strip()
    if not text:
        return True
    if not may_be_nothing(text):
        return False
    if text[0] == "[":
        # As JSON has it, without reading the list: many results are one.
        return text[-1] == "]" and not text[1:-1].strip(_JSON_SPACES)
    if text[0] == "{" or text == "null":
        if text[0] == "{" and _HOLDS_NOTHING.search(text) is None:
            # Most objects hold no empty list, and need no parsing to tell.
            return False
        try:
            return is_empty(json.loads(text))
        except ValueError:
            return False
    return len(text) <= _SHORT_TEXT and _nothing().fullmatch(text) is not None


def is_blank(result: Any) -> bool:
    """Tell whether a result says nothing at all, as a tool that has nothing to say always does."""
    return result is None or (type(result) is str and not result.strip())


def add_success(state: ToolState, turn: int, *, empty: bool, blank: bool) -> None:
    """Add a result to the tool's row: it ends a row of failures, and feeds or ends one of empties.

    The results of one turn count once, for the model asked all of it before it saw any: one of
    three wrong notes on 174 real runs was such a batch.
    """
    if state.failures:
        state.end_failures()
    if not empty:
        state.end_empties()
    state.has_spoken = state.has_spoken or not blank
    if empty and state.empty_turn != turn:
        state.empties += 1
        state.empty_turn = turn


def add_failure(state: ToolState, turn: int, token: Hashable, *, reached: bool) -> None:
    """Add a failure to the tool's row; those of one turn count once.

    Args:
        reached: whether the tool ran; what it found before is not undone by a call that did not.
    """
    if reached:
        state.end_empties()
    if state.failed_turn == turn:
        return
    state.failed_turn = turn
    state.failures += 1
    state.errors = state.errors + 1 if token == state.error_token else 1
    state.error_token = token


def noteworthy(
    state: ToolState, *, errors: int | None, empties: int | None, failures: int | None
) -> Row | None:
    """Return the row that has just become worth a note; once a row.

    A tool that has never said anything, such as a place to think, may have nothing to say: it
    gets twice the patience. The other two of the three wrong notes were such a tool's.
    """
    if not state.failures_noted:
        for what, length, threshold in (
            ("errors alike", state.errors, errors),
            ("failures", state.failures, failures),
        ):
            if threshold is not None and length >= threshold:
                state.failures_noted = True
                return Row(what, length)
    if empties is not None and not state.has_spoken:
        empties *= 2
    if empties is not None and state.empties >= empties and not state.empties_noted:
        state.empties_noted = True
        return Row("empty results", state.empties)
    return None
