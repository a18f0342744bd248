"""Events in an SQLite file, which any number of processes may write and read at once."""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import sqlite3
import threading
import time
import weakref
from pathlib import Path

from repeatguard_sdk._emitting import QUEUE_LIMIT
from repeatguard_sdk._event import Event
from repeatguard_sdk._redaction import Redact, Redaction
from repeatguard_sdk.sinks._sqlite_file import open_for_reading
from repeatguard_sdk.sinks._sqlite_reader import read_events, read_runs, read_warnings
from repeatguard_sdk.sinks._sqlite_writer import Backlog

__all__ = ["SQLiteSink", "read_events", "read_runs", "read_warnings"]

_AT_EXIT_SECONDS = 5.0
# Protects `_backlogs`, what is written at the interpreter's end.
_lock = threading.Lock()
_backlogs: weakref.WeakSet[Backlog] = weakref.WeakSet()


class SQLiteSink:
    """Writes events to an SQLite file, in a thread of its own.

    Kept are digests, names of tools and arguments, counts, and at most 200 characters of each
    result. The file is made when the first event comes, readable by its owner only. When the block
    of a run ends its events are in the file, unless that takes more than a second (on an event loop
    50 ms); the rest is written behind it, at the latest at the interpreter's end. A file that cannot be
    written costs events, never a run: they are counted, and the log says so once.

    Args:
        path: the file; several sinks and processes may share one.
        redact: called with each text that comes from a tool, in the sink's thread; what it returns
            is kept instead.
        preview: whether anything of results is kept.
        limit: events that may wait to be written.

    Raises:
        EventFileError: there is a file, and it is something else or of a newer version.
        TypeError, ValueError: `path` names no file, or another argument makes no sense.

    Example:
        >>> import pathlib, tempfile
        >>> from repeatguard_sdk import Registry, Run, guarded_tool
        >>> @guarded_tool(registry=Registry())
        ... def look_up(word: str) -> str:
        ...     return f"no entry for {word}"
        >>> path = pathlib.Path(tempfile.mkdtemp(), "events.db")
        >>> with Run([look_up], events=SQLiteSink(path)) as run:
        ...     answers = [look_up("loop"), look_up("loop")]
        >>> [(event.tool, event.decision, event.did) for event in read_events(path)]
        [('look_up', 'replay', 'answered')]
    """

    in_place = True  # it has a queue of its own, shared by all runs

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        redact: Redact | None = None,
        preview: bool = True,
        limit: int = QUEUE_LIMIT,
    ) -> None:
        redaction = Redaction(redact, preview=preview, faults=False)
        self.path = _checked_path(path)
        if type(limit) is not int or limit < 1:
            msg = f"limit={limit!r}: give how many events may wait, a number from 1"
            raise ValueError(msg)
        # A connection that fails for another reason may do so only now: writing will tell.
        with contextlib.suppress(OSError, sqlite3.Error):
            open_for_reading(self.path).close()
        self._backlog = Backlog(self.path, redaction, limit)
        self._closed = False
        with _lock:
            _backlogs.add(self._backlog)

    def __repr__(self) -> str:
        return f"<SQLiteSink {self.path}{', closed' * self._closed}>"

    @property
    def dropped(self) -> int:
        """Events this process has lost: the queue was full, or the file could not be written."""
        return self._backlog.dropped

    def emit(self, event: Event, /) -> None:
        """Queue one event; it returns at once.

        Raises:
            queue.Full: too many wait; the event is lost and counted.
            ValueError: the sink is closed.
        """
        if self._closed:
            msg = f"{self!r}: no event can be written any more"
            raise ValueError(msg)
        if not self._backlog.put(event):
            msg = f"{self!r}: too many events wait, this one is lost"
            raise queue.Full(msg)

    def flush(self, timeout: float = _AT_EXIT_SECONDS) -> bool:
        """Wait until what was emitted so far is written, at most `timeout` seconds.

        Returns:
            Whether all of it has been written or, where it could not be, counted in `dropped`.
        """
        return self._backlog.flush(timeout)

    def close(self, timeout: float = _AT_EXIT_SECONDS) -> None:
        """Write what waits, at most `timeout` seconds, and close the file; nothing comes after it."""
        self._closed = True
        self._backlog.flush(timeout)
        self._backlog.writer.close()


def _checked_path(path: str | os.PathLike[str]) -> Path:
    name = os.fspath(path)
    if not isinstance(name, str):
        msg = f"SQLiteSink({path!r}): give the path of a file as text or as a Path"
        raise TypeError(msg)
    if not name.strip() or "\0" in name or name == ":memory:":
        msg = (
            f"SQLiteSink({path!r}): give the path of a file; to keep events in memory, MemorySink()"
        )
        raise ValueError(msg)
    resolved = Path(os.path.realpath(name))  # unlike Path.resolve it takes a loop of links
    with contextlib.suppress(OSError):  # writing will tell
        if resolved.is_dir():
            msg = f"SQLiteSink({path!r}) is a folder; give the path of a file in it"
            raise ValueError(msg)
    return resolved


@atexit.register
def _write_the_rest() -> None:
    deadline = time.monotonic() + _AT_EXIT_SECONDS
    with _lock:
        backlogs = list(_backlogs)
    for backlog in backlogs:
        backlog.flush(max(0.0, deadline - time.monotonic()))
        backlog.writer.close()
