"""Events read from SQLite files, beside those who write them: in pages, without holding them up."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from repeatguard_sdk._event import GuardWarning, RepeatEvent, RunRecord
from repeatguard_sdk._types import FindingKind
from repeatguard_sdk.sinks._sqlite_file import is_locked, open_for_reading
from repeatguard_sdk.sinks._sqlite_rows import COUNTS, REPEAT, RUN, WARNING, loaded

PATIENCE = 30.0
_PAGE = 1_000

T = TypeVar("T")
Given = str | os.PathLike[str]
Paths = Given | Iterable[Given]


def read_events(
    paths: Paths,
    *,
    since: float | None = None,
    until: float | None = None,
    tools: Iterable[str] | None = None,
    findings: Iterable[FindingKind] | None = None,
) -> Iterator[RepeatEvent]:
    """Yield the interventions of files of events, those of each file in the order they were written.

    A file may be written meanwhile: what it held at the beginning is yielded. Nothing is written to
    it, also where it is of an older version.

    Args:
        paths: a file, or several.
        since, until: seconds, by the clock of the runs; from `since` on, before `until`.
        tools: names of tools; default: all.
        findings: detectors; default: all.

    Raises:
        FileNotFoundError: there is no such file.
        EventFileError: a file is something else, or of a newer version.
        TypeError: a bare string where names are expected.
    """
    wanted = {"tool": _names("tools", tools), "finding": _names("findings", findings)}
    return _events(_listed(paths), _Span("at", since, until), wanted)


def read_runs(
    paths: Paths, *, since: float | None = None, until: float | None = None
) -> Iterator[RunRecord]:
    """Yield the runs that ended from `since` on and before `until`; the rest as in `read_events`."""
    return _runs(_listed(paths), _Span("ended", since, until))


def read_warnings(
    paths: Paths,
    *,
    since: float | None = None,
    until: float | None = None,
    tools: Iterable[str] | None = None,
) -> Iterator[GuardWarning]:
    """Yield the warnings; the rest as in `read_events`."""
    wanted = {"tool": _names("tools", tools)}
    return _warnings(_listed(paths), _Span("at", since, until), wanted)


class _Span:
    """A stretch of time in a column."""

    def __init__(self, column: str, since: float | None, until: float | None) -> None:
        self.column = column
        self.since = float("-inf") if since is None else float(since)
        self.until = float("inf") if until is None else float(until)


def _listed(paths: Paths) -> list[Path]:
    given = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    return [Path(os.path.realpath(path)) for path in given]


def _names(argument: str, names: Iterable[str] | None) -> Collection[str] | None:
    if isinstance(names, str):
        msg = f"{argument}={names!r} is a bare string; write {argument}=[{names!r}]"
        raise TypeError(msg)
    return None if names is None else frozenset(names)


def _events(
    paths: list[Path], span: _Span, wanted: Mapping[str, Collection[str] | None]
) -> Iterator[RepeatEvent]:
    for path in paths:
        with contextlib.closing(_opened(path)) as connection:
            for page in _pages(connection, "repeats", REPEAT, span):
                for _, row in page:
                    if _fits(row, wanted):
                        yield loaded(RepeatEvent, row)


def _warnings(
    paths: list[Path], span: _Span, wanted: Mapping[str, Collection[str] | None]
) -> Iterator[GuardWarning]:
    for path in paths:
        with contextlib.closing(_opened(path)) as connection:
            for page in _pages(connection, "warnings", WARNING, span):
                for _, row in page:
                    if _fits(row, wanted):
                        yield loaded(GuardWarning, row)


def _runs(paths: list[Path], span: _Span) -> Iterator[RunRecord]:
    for path in paths:
        with contextlib.closing(_opened(path)) as connection:
            for page in _pages(connection, "runs", RUN, span):
                counts = _counts(connection, page[0][0], page[-1][0])
                for number, row in page:
                    yield loaded(RunRecord, {**row, **counts.get(number, _no_counts())})


def _fits(row: Mapping[str, Any], wanted: Mapping[str, Collection[str] | None]) -> bool:
    return all(names is None or row[column] in names for column, names in wanted.items())


def _pages(
    connection: sqlite3.Connection, table: str, names: Iterable[str], span: _Span
) -> Iterator[list[tuple[int, dict[str, Any]]]]:
    """Yield the rows of a table, by number, each page in a short transaction of its own.

    A long one would keep the writers from putting their log back into the file.
    """
    there = {row[1] for row in _ask(connection, f"PRAGMA table_info({table})")}
    if not there:
        return
    known = [name for name in names if name in there]
    sql = (
        f"SELECT id, {', '.join(known)} FROM {table} WHERE id > ? AND id <= ? "  # noqa: S608
        f"AND {span.column} >= ? AND {span.column} < ? ORDER BY id LIMIT {_PAGE}"
    )
    ((last,),) = _ask(connection, f"SELECT coalesce(max(id), 0) FROM {table}")  # noqa: S608
    after = 0
    while rows := _ask(connection, sql, (after, last, span.since, span.until)):
        after = rows[-1][0]
        yield [(row[0], dict(zip(known, row[1:], strict=True))) for row in rows]


def _counts(
    connection: sqlite3.Connection, first: int, last: int
) -> dict[int, dict[str, dict[str, int]]]:
    """Return what became of the calls of each tool, by the number of the run."""
    found: dict[int, dict[str, dict[str, int]]] = {}
    sql = f"SELECT run, tool, {', '.join(COUNTS)} FROM run_tools WHERE run BETWEEN ? AND ?"  # noqa: S608
    for number, tool, *counts in _ask(connection, sql, (first, last)):
        of = found.setdefault(number, _no_counts())
        for name, count in zip(COUNTS, counts, strict=True):
            if count:
                of[name][tool] = count
    return found


def _no_counts() -> dict[str, dict[str, int]]:
    return {name: {} for name in COUNTS}


def _opened(path: Path) -> sqlite3.Connection:
    return _patiently(lambda: open_for_reading(path))


def _ask(connection: sqlite3.Connection, sql: str, values: Iterable[Any] = ()) -> list[Any]:
    given = tuple(values)
    return _patiently(lambda: connection.execute(sql, given).fetchall())


def _patiently(do: Callable[[], T]) -> T:
    """Do it again while others have the file locked, for half a minute at most."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return do()
        except sqlite3.OperationalError as error:
            if not is_locked(error) or time.monotonic() >= deadline:
                raise
