"""The host's state turn by turn: how long it has not changed, and whether a clock hides that."""

from __future__ import annotations

import datetime
import re
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeGuard

from repeatguard_sdk._canonical import comparable
from repeatguard_sdk._encode import record_fields
from repeatguard_sdk._types import is_mapping, is_sequence

# A state with more parts than that is not searched for clocks.
_MAX_LEAVES = 2_000
_CLOCK_NAME = re.compile(
    r"(?:^|[._])(?:now|time|timestamp|ts|clock|date|datetime|elapsed|uptime|"
    r"(?:\w+_)?(?:at|time|timestamp|ts|seconds|ms|elapsed))$",
    re.IGNORECASE,
)
_RANDOM_NAME = re.compile(
    r"(?:^|[._])(?:(?:\w+_)?(?:nonce|uuid|guid|seed|salt|token|trace_id|span_id|request_id|"
    r"message_id|run_id|correlation_id))$",
    re.IGNORECASE,
)
_CLOCK_TEXT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?\S*|\d\d:\d\d(?::\d\d)?(?:\.\d+)?")
_RANDOM_TEXT = re.compile(
    r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}|[0-9a-f]{16,}", re.IGNORECASE
)
# Seconds, milliseconds, micro- and nanoseconds since 1970, for the years 2001 to 2100.
_EPOCHS = ((1e9, 4.2e9), (1e12, 4.2e12), (1e15, 4.2e15), (1e18, 4.2e18))


class StateWatch:
    """What a run remembers of the states it was given.

    Attributes:
        token: identity of the newest state, `None` before any.
        unchanged: turns in a row that left it as it was.
        turn, call: where it last changed.
        leaves: its parts by dotted name, for the search for clocks.
    """

    __slots__ = ("call", "leaves", "token", "turn", "unchanged")

    def __init__(self) -> None:
        self.token: Hashable = None
        self.unchanged = 0
        self.turn = 0
        self.call = 0
        self.leaves: Mapping[str, Any] | None = None

    def clear(self) -> None:
        """Forget the states, as something else moved on."""
        self.token, self.unchanged, self.leaves = None, 0, None


def next_state(watch: StateWatch, token: Hashable, turn: int, call: int) -> int:
    """Compare a turn's state to the one before and return for how many turns it has not changed."""
    if token is None or token != watch.token:
        watch.token, watch.unchanged, watch.turn, watch.call = token, 0, turn, call
    else:
        watch.unchanged += 1
    return watch.unchanged


def next_turn(watch: StateWatch, turn: int, call: int, *, progressed: bool) -> int:
    """Without a state: return for how many turns there has been no new answer."""
    if progressed:
        watch.unchanged, watch.turn, watch.call = 0, turn, call
    else:
        watch.unchanged += 1
    return watch.unchanged


def identity_of(state: Any, ignore: Iterable[str]) -> Hashable:
    """Return the identity of a state by the canonical form of keys, without the ignored fields."""
    return comparable(state, tuple(ignore))


def leaves_of(state: Any, ignore: Iterable[str]) -> Mapping[str, Any] | None:
    """Return the parts of a state by dotted name; `None` where there are too many."""
    found: dict[str, Any] = {}
    skipped = frozenset(ignore)
    seen: set[int] = set()
    todo: list[tuple[str, Any]] = [("", state)]
    while todo:
        name, value = todo.pop()
        if name in skipped:
            continue
        children = None if id(value) in seen else _children(value)
        if children is not None:
            # A state may lead back to itself.
            seen.add(id(value))
        if children is None:
            found[name] = value
        else:
            todo += [(f"{name}.{key}" if name else str(key), item) for key, item in children]
        if len(found) + len(todo) > _MAX_LEAVES:
            return None
    return found


def _children(value: Any) -> list[tuple[Any, Any]] | None:
    if is_mapping(value):
        return list(value.items())
    if is_sequence(value):
        return list(enumerate(value))
    fields = record_fields(value)
    return None if fields is None else list(fields.items())


def volatile_change(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> tuple[str, ...]:
    """Return the fields of a change that touched clocks and random ids only, else nothing."""
    if before is None or after is None or before.keys() != after.keys():
        return ()
    changed = [name for name in after if not _same(before[name], after[name])]
    if all(_is_volatile(name, before[name], after[name]) for name in changed):
        return tuple(sorted(changed))
    return ()


def _same(before: Any, after: Any) -> bool:
    token = comparable(before)
    return token is not None and token == comparable(after)


def _is_volatile(name: str, before: Any, after: Any) -> bool:
    clock = (datetime.datetime, datetime.time)
    if isinstance(before, clock) and isinstance(after, clock):
        return True
    if isinstance(before, str) and isinstance(after, str):
        return any(
            pattern.fullmatch(before.strip()) and pattern.fullmatch(after.strip())
            for pattern in (_CLOCK_TEXT, _RANDOM_TEXT)
        ) or bool(_RANDOM_NAME.search(name))
    if _is_number(before) and _is_number(after):
        dated = any(low <= before < high and low <= after < high for low, high in _EPOCHS)
        return (dated or bool(_CLOCK_NAME.search(name))) and after > before
    return type(before) is type(after) and bool(_RANDOM_NAME.search(name))


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
