"""Events on their way into the SQLite file: a queue, a thread, one transaction for what waits."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from repeatguard_sdk._emitting import Queued, Waiting
from repeatguard_sdk._redaction import Redaction
from repeatguard_sdk.sinks._sqlite_file import ATTEMPT_SECONDS, is_locked, open_for_writing
from repeatguard_sdk.sinks._sqlite_rows import Store, storing

# How long, in seconds, a batch waits for a file that others have locked.
PATIENCE = 30.0
_LOG = logging.getLogger("repeatguard_sdk")


class Writer:
    """Writes events into a file, each batch in one transaction.

    The connection is opened when it is needed, anew after a failure, after a fork, and when the file
    was deleted or another one was put in its place.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # Protects the two below; held through a transaction, through a fork, and by `close`.
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._inode: tuple[int, int] | None = None

    def write(self, batch: Sequence[Store]) -> None:
        """Write all of it or nothing.

        Raises:
            EventFileError, OSError, sqlite3.Error: nothing was written.
        """
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with self._lock:
                    self._transact(batch)
            except sqlite3.OperationalError as error:
                if not is_locked(error) or time.monotonic() >= deadline:
                    raise
            else:
                return

    def close(self) -> None:
        """Close the file, unless it is being written; the next batch opens it again."""
        if self._lock.acquire(timeout=2 * ATTEMPT_SECONDS):
            try:
                self._disconnect()
            finally:
                self._lock.release()

    def before_fork(self) -> None:
        """Close the file: a connection must not be carried into a child, not even to be closed."""
        self._lock.acquire()
        self._disconnect()

    def after_fork(self) -> None:
        """Go on, in parent and child alike."""
        self._lock.release()

    def _transact(self, batch: Sequence[Store]) -> None:
        connection = self._connected()
        try:
            connection.execute("BEGIN IMMEDIATE")
            for store in batch:
                store(connection)
            connection.execute("COMMIT")
        except BaseException as error:
            waits = isinstance(error, sqlite3.Error) and is_locked(error)
            if connection.in_transaction or not waits:
                self._disconnect()  # which rolls back
            raise

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and self._inode != _inode(self._path):
            self._disconnect()
        if self._connection is None:
            self._connection = open_for_writing(self._path)
            self._inode = _inode(self._path)
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Backlog(Queued):
    """The events that wait for a file.

    Args:
        path: the file.
        redaction: takes out what must not be kept, in the context of the event.
        limit: events that may wait.
    """

    most = 500

    def __init__(self, path: Path, redaction: Redaction, limit: int) -> None:
        super().__init__(redaction.apply, limit)
        self._path = path
        self._warned = False
        self.writer = Writer(path)

    def pass_on(self, batch: list[Waiting]) -> int:
        """Write the events; return how many were lost."""
        stores: list[Store] = []
        for context, event in batch:
            try:
                stores.append(storing(context.run(self._emit, event)))
            except BaseException as error:
                # A value of a host's that is no event's; the others go on.
                self._warn(error)
        try:
            self.writer.write(stores)
        except Exception as error:
            self._warn(error)
            return len(batch)
        return len(batch) - len(stores)

    def rest(self) -> None:
        """Close the file while there is nothing to write."""
        self.writer.close()

    def before_fork(self) -> None:
        """Wait for the transaction that is being written, at most a second."""
        self.writer.before_fork()

    def after_fork(self, *, child: bool) -> None:
        """Go on."""
        self.writer.after_fork()
        super().after_fork(child=child)

    def _warn(self, error: BaseException) -> None:
        if not self._warned:
            self._warned = True
            what = f"{type(error).__name__}: {error}"
            _LOG.warning(
                "events are lost, the run goes on: %s cannot be written: %s", self._path, what
            )
