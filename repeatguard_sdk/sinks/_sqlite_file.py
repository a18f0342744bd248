"""The SQLite file of events: whose it is, its versions, how it is made and opened."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import sys
import threading
from collections.abc import Generator
from pathlib import Path

from repeatguard_sdk.exceptions import EventFileError

APPLICATION_ID = 0x52475344  # "RGSD", in the header of every file of ours
# One attempt to get a lock; long waits are made of several, so that a fork or a close can go between.
ATTEMPT_SECONDS = 1.0

# Each entry lifts a file by one version and is never changed once released. A process that still runs
# the version before goes on writing: what is added needs a default.
MIGRATIONS: list[tuple[str, ...]] = [
    (
        """
        CREATE TABLE repeats (
            id INTEGER PRIMARY KEY,
            run_id TEXT NOT NULL,
            number INTEGER NOT NULL,
            at REAL NOT NULL,
            call INTEGER NOT NULL,
            turn INTEGER NOT NULL,
            tool TEXT NOT NULL,
            finding TEXT NOT NULL,
            decision TEXT NOT NULL,
            would TEXT NOT NULL,
            count INTEGER NOT NULL,
            cause TEXT NOT NULL,
            key_digest TEXT NOT NULL,
            result_digest TEXT NOT NULL,
            preview TEXT NOT NULL,
            style TEXT NOT NULL,
            mode TEXT NOT NULL,
            differed INTEGER,
            call_id TEXT,
            effect TEXT NOT NULL,
            arguments TEXT NOT NULL,
            failed INTEGER NOT NULL,
            suspected_cause TEXT,
            did TEXT
        )
        """,
        # Not unique: a run that is forked counts on in both processes.
        "CREATE INDEX repeats_of_run ON repeats (run_id, number, at)",
        """
        CREATE TABLE runs (
            id INTEGER PRIMARY KEY,
            run_id TEXT NOT NULL,
            started REAL NOT NULL,
            ended REAL NOT NULL,
            calls INTEGER NOT NULL,
            turns INTEGER NOT NULL,
            events INTEGER NOT NULL,
            reason TEXT NOT NULL
        )
        """,
        """
        CREATE TABLE run_tools (
            run INTEGER NOT NULL REFERENCES runs (id),
            tool TEXT NOT NULL,
            executed INTEGER NOT NULL,
            replayed INTEGER NOT NULL,
            joined INTEGER NOT NULL,
            refused INTEGER NOT NULL,
            PRIMARY KEY (run, tool)
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE warnings (
            id INTEGER PRIMARY KEY,
            run_id TEXT NOT NULL,
            at REAL NOT NULL,
            tool TEXT NOT NULL,
            what TEXT NOT NULL
        )
        """,
    ),
]

# Protects the moment in which a file is made: closing any handle of it would take away the locks
# that SQLite holds on it for a connection of this process.
_making = threading.Lock()


def is_locked(error: sqlite3.Error) -> bool:
    """Tell whether it is only that another connection is at work."""
    # The error code is there from Python 3.11 on, the texts are those of all versions.
    return "locked" in str(error) or "locking protocol" in str(error)


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Return a connection to a file of this version, which is made or lifted to it.

    Raises:
        EventFileError: the file is something else, or newer.
        OSError, sqlite3.Error: it cannot be written.
    """
    _make(path)
    connection = _connect(path, "rw")
    try:
        if version_of(connection, path) < len(MIGRATIONS):
            _migrate(connection, path)
        # Where there is no shared memory it stays with the journal, and is slower but right.
        connection.execute("PRAGMA journal_mode = WAL")
        # Safe against the death of the process; a power cut may take the last commits, whole ones.
        connection.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Return a connection that cannot write.

    Raises:
        FileNotFoundError: there is no such file.
        EventFileError: the file is something else, or newer.
        sqlite3.Error: it cannot be read.
    """
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    connection = _connect(path, "ro")
    try:
        version_of(connection, path)
    except sqlite3.OperationalError:
        connection.close()
        if any(_beside(path, suffix).exists() for suffix in ("-wal", "-journal")):
            raise
        # In a folder that cannot be written no file can be made beside it, and nobody else writes.
        connection = _connect(path, "ro&immutable=1")
        try:
            version_of(connection, path)
        except BaseException:
            connection.close()
            raise
    except BaseException:
        connection.close()
        raise
    return connection


def version_of(connection: sqlite3.Connection, path: Path) -> int:
    """Return the version of a file of ours, 0 for an empty one.

    Raises:
        EventFileError: it is something else, or newer.
    """
    try:
        owner, version, tables = _header(connection)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        msg = f"{path} is no SQLite database ({error}); give another path"
        raise EventFileError(msg) from None
    if owner != APPLICATION_ID and (owner or version or tables):
        msg = f"{path} is an SQLite database, but not one of repeatguard events; give another path"
        raise EventFileError(msg)
    if version > len(MIGRATIONS):
        msg = (
            f"{path} has version {version}, and this repeatguard-sdk knows versions up to "
            f"{len(MIGRATIONS)}; install a newer one, or give another path"
        )
        raise EventFileError(msg)
    return version


def _header(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """Return owner, version and number of tables, all of one moment: another may be making them."""
    begun = connection.in_transaction
    if not begun:
        connection.execute("BEGIN")
    try:
        (owner,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    finally:
        if not begun and connection.in_transaction:
            connection.execute("ROLLBACK")
    return owner, version, tables


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    # No mode that makes a file: `_make` does, so that only its owner can read it. Whoever uses the
    # connection from several threads has a lock of his own. Transactions are begun by hand.
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=ATTEMPT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    # Another process may have been quicker.
    for migration in MIGRATIONS[version_of(connection, path) :]:
        for statement in migration:
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    connection.execute("COMMIT")


def _make(path: Path) -> None:
    """Make an empty file that only its owner can read, if there is none."""
    with _making:
        if path.exists():
            return
        with _alone_in(path.parent):
            if path.exists():
                return
            for suffix in ("-wal", "-shm", "-journal"):
                # Left by a file that was deleted, they would be taken for parts of the new one.
                _beside(path, suffix).unlink(missing_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


@contextlib.contextmanager
def _alone_in(folder: Path) -> Generator[None]:
    """Let no other process make a file of events in a folder at the same time."""
    if sys.platform == "win32":
        # What is open cannot be deleted there, so that nothing is left behind.
        yield
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # not every file system can
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
