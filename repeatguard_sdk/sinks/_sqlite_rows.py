"""Events as rows of the SQLite file, and back."""

from __future__ import annotations

import functools
import json
import math
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import attrs

from repeatguard_sdk._event import Event, FollowUp, GuardWarning, RepeatEvent, RunRecord
from repeatguard_sdk._redaction import storable
from repeatguard_sdk._types import is_tuple

_PREVIEW = 200
_SECONDS = ("at", "started", "ended")
_LARGEST = 2**63 - 1
# Per-tool counts of a run, in a table of their own.
COUNTS = ("executed", "replayed", "joined", "refused")

Store = Callable[[sqlite3.Connection], None]
T = TypeVar("T", RepeatEvent, GuardWarning, RunRecord)


def columns(kind: type[attrs.AttrsInstance], *without: str) -> tuple[str, ...]:
    """Return the columns in which a value is kept: its fields."""
    return tuple(field.name for field in attrs.fields(kind) if field.name not in without)


REPEAT = columns(RepeatEvent)
RUN = columns(RunRecord, *COUNTS)
WARNING = columns(GuardWarning, "fault")
_PREVIEW_AT = REPEAT.index("preview")


def _insert(table: str, names: Sequence[str]) -> str:
    return (
        f"INSERT INTO {table} ({', '.join(names)}) "  # noqa: S608 - names of our own
        f"VALUES ({', '.join('?' * len(names))})"
    )


_INSERT_REPEAT = _insert("repeats", REPEAT)
_INSERT_RUN = _insert("runs", RUN)
_INSERT_COUNTS = _insert("run_tools", ("run", "tool", *COUNTS))
_INSERT_WARNING = _insert("warnings", WARNING)
_FOLLOW_UP = "UPDATE repeats SET did = ? WHERE run_id = ? AND number = ? AND at = ?"


def storing(event: Event) -> Store:
    """Return what writes an event, all its values being such as SQLite takes."""
    if isinstance(event, FollowUp):
        of = event.event
        where = _cells(of, ("run_id", "number", "at"))
        return functools.partial(_execute, _FOLLOW_UP, [event.did, *where])
    if isinstance(event, RepeatEvent):
        row = _cells(event, REPEAT)
        row[_PREVIEW_AT] = row[_PREVIEW_AT][:_PREVIEW]
        return functools.partial(_execute, _INSERT_REPEAT, row)
    if isinstance(event, GuardWarning):
        return functools.partial(_execute, _INSERT_WARNING, _cells(event, WARNING))
    counts = [getattr(event, name) for name in COUNTS]
    tools = dict.fromkeys(tool for each in counts for tool in each)
    rows = [[_cell(tool), *(_cell(each.get(tool, 0)) for each in counts)] for tool in tools]
    return functools.partial(_store_run, _cells(event, RUN), rows)


def _execute(sql: str, values: Sequence[Any], connection: sqlite3.Connection) -> None:
    connection.execute(sql, values)


def _store_run(
    run: Sequence[Any], tools: Sequence[Sequence[Any]], connection: sqlite3.Connection
) -> None:
    number = connection.execute(_INSERT_RUN, run).lastrowid
    connection.executemany(_INSERT_COUNTS, [(number, *row) for row in tools])


def _cells(event: Event, names: Sequence[str]) -> list[Any]:
    return [
        _seconds(getattr(event, name)) if name in _SECONDS else _cell(getattr(event, name))
        for name in names
    ]


def _cell(value: Any) -> Any:
    """Return a value as SQLite can keep it; what it cannot would cost the whole batch."""
    if value is None:
        return None
    if isinstance(value, str):
        return storable(value)
    if is_tuple(value):
        return json.dumps([storable(str(part)) for part in value])
    return max(-_LARGEST, min(int(value), _LARGEST))


def _seconds(value: Any) -> float:
    # The clock is a host's. 0.0 is what a run takes for one that fails.
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return number if math.isfinite(number) else 0.0


def loaded(kind: type[T], row: Mapping[str, Any]) -> T:
    """Return the value that a row holds; fields the file does not know yet keep their default."""
    fields = dict(row)
    if "arguments" in fields:
        fields["arguments"] = _names(fields["arguments"])
    for name in ("failed", "differed"):
        if fields.get(name) is not None:
            fields[name] = bool(fields[name])
    return kind(**fields)


@functools.lru_cache(maxsize=1_000)  # calls of one tool have the same
def _names(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))
