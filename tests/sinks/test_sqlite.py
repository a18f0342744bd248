"""The SQLite sink and its readers: what comes back, what is kept, what goes wrong."""

from __future__ import annotations

import contextlib
import decimal
import logging
import os
import queue
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from repeatguard_sdk import Registry, Run, guarded_tool
from repeatguard_sdk.events import FollowUp, GuardWarning, RepeatEvent, RunRecord
from repeatguard_sdk.exceptions import EventFileError
from repeatguard_sdk.sinks import _sqlite_file, _sqlite_reader, _sqlite_rows, _sqlite_writer
from repeatguard_sdk.sinks.sqlite import SQLiteSink, read_events, read_runs, read_warnings
from sink_work import check_file, look, put, record, repeat, warning, work


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.db"


@pytest.fixture
def sink(path: Path) -> Iterator[SQLiteSink]:
    made = SQLiteSink(path)
    yield made
    made.close()


def database(path: Path) -> contextlib.closing[sqlite3.Connection]:
    return contextlib.closing(sqlite3.connect(path, isolation_level=None))


# --- there and back -------------------------------------------------------------------------------


def test_a_run_can_be_read_back(path: Path, sink: SQLiteSink) -> None:
    """When its block has ended all is in the file, with what the model did next."""
    with Run([look], events=sink, run_id="mine") as run:
        for _ in range(3):
            run.turn()
            look("a")
    first, second = read_events(path)
    assert ("mine", 1, "look", "replay", "same_call") == (
        first.run_id, first.number, first.tool, first.decision, first.did,
    )  # fmt: skip
    assert ("exit", "ended", '"nothing about a"') == (second.decision, second.did, second.preview)
    (ended,) = read_runs(path)
    assert (3, 3, 2, "stuck") == (ended.calls, ended.turns, ended.events, ended.reason)
    assert ({"look": 1}, {"look": 1}) == (ended.executed, ended.replayed)


@pytest.mark.parametrize(
    "event",
    [
        repeat(),
        repeat(differed=None, call_id=None, suspected_cause=None, arguments=(), did="other_call"),
        repeat(differed=True, failed=True, turn=0, mode="observe", finding="cycle", tool="été 🐍"),
    ],
)
def test_every_field_of_an_event_comes_back(
    event: RepeatEvent, path: Path, sink: SQLiteSink
) -> None:
    """The value that is read equals the one that was written."""
    put(sink, event)
    assert [event] == list(read_events(path))


def test_every_field_of_runs_and_warnings_comes_back(path: Path, sink: SQLiteSink) -> None:
    """Counts by tool are those of their own run, also beside one without any call."""
    empty: dict[str, int] = {}
    nothing = record(run_id="n", executed=empty, replayed=empty, refused=empty, calls=0, events=0)
    runs = [record(), nothing, record(run_id="s", joined={"a": 1, "b": 2}, reason="failed")]
    put(sink, *runs, warning())
    assert runs == list(read_runs(path))
    assert [warning()] == list(read_warnings(path))


def test_what_followed_may_come_much_later(path: Path, sink: SQLiteSink) -> None:
    """It is filled in by run, number and time, in another transaction, and only there."""
    first, again = repeat(1), repeat(1, at=999.5)  # the run was taken up under the same id
    put(sink, first, again)
    put(sink, FollowUp(event=again, did="answered"), FollowUp(event=repeat(7), did="ended"))
    assert [None, "answered"] == [event.did for event in read_events(path)]
    put(sink, FollowUp(event=first, did="same_call"))
    assert ["same_call", "answered"] == [event.did for event in read_events(path)]


def test_the_columns_are_the_fields(path: Path, sink: SQLiteSink) -> None:
    """A field that is added to a value needs a migration, or it could not be written."""
    put(sink, warning())
    with database(path) as connection:
        there = {
            table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            for table in ("repeats", "runs", "warnings")
        }
    fields = {
        kind: [field.name for field in attrs.fields(kind)]
        for kind in (RepeatEvent, RunRecord, GuardWarning)
    }
    assert ["id", *fields[RepeatEvent]] == there["repeats"]
    assert {"id", *fields[RunRecord]} - set(_sqlite_rows.COUNTS) == set(there["runs"])
    assert {"id", *fields[GuardWarning]} - {"fault"} == set(there["warnings"])


def test_readers_choose(path: Path, sink: SQLiteSink) -> None:
    """By time, from the first second on and before the last one, by tool and by finding."""
    put(sink, *(repeat(n, tool=f"t{n % 3}") for n in range(6)), repeat(6, finding="cycle"))
    put(sink, record(ended=100.0), record(ended=200.0), warning(at=5.0), warning(tool="other"))

    def numbers(**chosen: Any) -> list[int]:
        return [event.number for event in read_events(path, **chosen)]

    assert [2, 3] == numbers(since=102, until=104)
    assert [1, 4] == numbers(tools=["t1"])
    assert [6] == numbers(findings=["cycle", "no_progress"])
    assert [] == numbers(tools=[])
    assert [200.0] == [run.ended for run in read_runs(path, since=100.5)]
    assert ["other"] == [each.tool for each in read_warnings(path, since=6, tools=["other"])]
    with pytest.raises(TypeError, match=r"tools='t1' is a bare string; write tools=\['t1'\]"):
        read_events(path, tools="t1")


def test_many_files_and_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are read one after the other, and each in pages, whose borders lose nothing."""
    monkeypatch.setattr(_sqlite_reader, "_PAGE", 3)
    paths = [tmp_path / "a b?#%.db", tmp_path / "ü.db"]
    for number, each in enumerate(paths):
        made = SQLiteSink(each)
        put(made, *(repeat(n, run_id=str(number)) for n in range(10)))
        put(made, *(record(run_id=str(n)) for n in range(7)))
        made.close()
    found = [(event.run_id, event.number) for event in read_events(paths)]
    assert [(str(file), n) for file in range(2) for n in range(10)] == found
    assert [{"look": 1}] * 14 == [run.executed for run in read_runs(map(str, paths))]


def test_a_reader_ends_while_others_write(path: Path, sink: SQLiteSink) -> None:
    """It tells what was there when it began, holds no writer up, and can be left half read."""
    put(sink, *(repeat(n) for n in range(1500)))
    reader = read_events(path)
    first = next(reader)
    put(sink, repeat(5000))
    with database(path) as other:
        other.execute("PRAGMA busy_timeout = 0")
        busy, _, _ = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert (0, 0) == (first.number, busy)
    assert 1499 == len(list(reader))
    next(left := read_events(path))
    del left
    assert 1501 == len(list(read_events(path)))


# --- what is kept ---------------------------------------------------------------------------------


def raw(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.iterdir())


def test_no_argument_is_in_the_file(path: Path, sink: SQLiteSink) -> None:
    """Whether the call ran, failed, did not fit, was refused, or the guard itself failed on it."""

    @guarded_tool(registry=Registry())
    def charge(card: Any, pin: str = "") -> str:
        if pin == "0007-secret":
            raise ValueError("declined")
        return "charged"

    class Odd:
        def __repr__(self) -> str:
            return "4111-secret"

        def __hash__(self) -> int:
            raise ValueError("4111-secret")

        def __eq__(self, other: object) -> bool:
            raise ValueError("4111-secret")

    with Run([charge], events=sink, on_stuck="flag") as run:
        for _ in range(3):
            charge("4111-secret")
            for wrong in ({"pin": "0007-secret"}, {"other": "4111-secret"}):
                with contextlib.suppress(ValueError, TypeError):
                    charge("4111-secret", **wrong)
            charge(Odd())
            charge(iter(["4111-secret"]))
            run.dispatch("charge", '{"card": "4111-secret", ')
            run.dispatch("charge", {"card": "4111-secret", "more": "0007-secret"})
            run.dispatch("nothing", {"card": "4111-secret"})
            run.refused(charge, {"card": "4111-secret"}, "denied")
            run.turn(state={"card": "4111-secret", "t": time.time()})
    put(sink, warning(what="ValueError: 4111-secret", fault=ValueError("4111-secret")))
    assert sink.dropped == 0
    assert len(list(read_events(path))) > 3
    assert len(list(read_warnings(path))) > 1
    assert b"card" in raw(path)
    assert b"secret" not in raw(path)


def test_previews_are_redacted_and_short(path: Path) -> None:
    """What the function returns is kept, 200 characters of it; without previews there are none."""
    made = SQLiteSink(path, redact=lambda text: text.replace("4111", "*" * 300))
    put(made, repeat(preview='"4111 was declined"'), warning(what="about 4111"))
    hidden = SQLiteSink(path, preview=False)
    put(hidden, repeat(preview='"4111"'))
    assert ['"' + "*" * 199, ""] == [event.preview for event in read_events(path)]
    assert b"4111" not in raw(path)
    made.close()
    hidden.close()


def test_only_the_owner_can_read_the_file(path: Path, sink: SQLiteSink) -> None:
    """Whatever the umask, for the database and for the files beside it."""
    before = os.umask(0)
    try:
        put(sink, repeat())
    finally:
        os.umask(before)
    files = list(path.parent.iterdir())
    assert {0o600} == {stat.S_IMODE(file.stat().st_mode) for file in files}
    assert path in files


@pytest.mark.parametrize(
    "odd",
    [
        repeat(at=float("nan")),
        repeat(count=2**70),
        repeat(tool="\ud800", call_id="a\0b"),
        repeat(tool="t" * 100_000),
        repeat(at=decimal.Decimal("1.5")),
        repeat(at="yesterday"),
    ],
)
def test_odd_values_are_kept_as_well_as_can_be(
    odd: RepeatEvent, path: Path, sink: SQLiteSink
) -> None:
    """One of them must not cost the others of its transaction."""
    put(sink, odd, repeat(2))
    assert [1, 2] == [event.number for event in read_events(path)]
    assert 0 == sink.dropped


def test_what_is_no_event_costs_only_itself(
    path: Path, sink: SQLiteSink, caplog: pytest.LogCaptureFixture
) -> None:
    """It is counted and said once."""
    put(sink, repeat(1), repeat(2, count=[]), object(), repeat(3))  # type: ignore[arg-type]
    assert [1, 3] == [event.number for event in read_events(path)]
    assert 2 == sink.dropped
    assert 1 == len(caplog.records)


# --- files that are not as they should be ----------------------------------------------------------


def test_a_newer_file_is_left_alone(path: Path, sink: SQLiteSink) -> None:
    """The error names both versions, at once where the file is there, and nothing is written to it."""
    put(sink, repeat())
    sink.close()
    with database(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    known = len(_sqlite_file.MIGRATIONS)
    with pytest.raises(EventFileError, match=f"has version 99, .* knows versions up to {known}"):
        SQLiteSink(path)
    with pytest.raises(EventFileError, match="version 99"):
        list(read_events(path))
    assert before == path.read_bytes()


def test_what_is_no_file_of_ours_is_left_alone(tmp_path: Path) -> None:
    """A text, and a database of another program."""
    text, other = tmp_path / "notes.txt", tmp_path / "other.db"
    text.write_text("a page of notes\n" * 100)
    with database(other) as connection:
        connection.execute("CREATE TABLE repeats (run_id TEXT)")
    for path, why in ((text, "is no SQLite database"), (other, "not one of repeatguard events")):
        before = path.read_bytes()
        with pytest.raises(EventFileError, match=why):
            SQLiteSink(path)
        with pytest.raises(EventFileError, match=why):
            list(read_events(path))
        assert before == path.read_bytes()


def test_a_file_that_is_not_there_cannot_be_read(path: Path) -> None:
    """And reading makes none; an empty one has no events."""
    with pytest.raises(FileNotFoundError, match=r"events\.db"):
        list(read_events(path))
    assert not path.exists()
    path.touch()
    assert [] == [*read_events(path), *read_runs(path), *read_warnings(path)]
    assert b"" == path.read_bytes()


@pytest.mark.parametrize(
    ("given", "kind"),
    [(":memory:", ValueError), ("", ValueError), ("a\0b", ValueError), (b"x", TypeError),
     (None, TypeError), (".", ValueError)],
)  # fmt: skip
def test_what_names_no_file_is_rejected(given: Any, kind: type[Exception]) -> None:
    """At once, with what to write instead."""
    with pytest.raises(kind, match=r"path|PathLike"):
        SQLiteSink(given)


def test_other_arguments_are_checked(path: Path) -> None:
    """Also at once."""
    with pytest.raises(ValueError, match="limit=0"):
        SQLiteSink(path, limit=0)
    with pytest.raises(TypeError, match="redact='x'"):
        SQLiteSink(path, redact="x")  # type: ignore[arg-type]


# --- versions -------------------------------------------------------------------------------------

NEXT = ("ALTER TABLE repeats ADD COLUMN host TEXT NOT NULL DEFAULT ''",)


def test_an_older_file_is_lifted_by_a_writer(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each missing version once; a process that knows only the older one goes on writing meanwhile."""
    older = SQLiteSink(path)
    put(older, repeat(1))
    monkeypatch.setattr(_sqlite_file, "MIGRATIONS", [*_sqlite_file.MIGRATIONS, NEXT])
    newer = SQLiteSink(path)
    put(newer, repeat(2))
    put(older, repeat(3))
    assert [1, 2, 3] == [event.number for event in read_events(path)]
    with database(path) as connection:
        assert (2,) == connection.execute("PRAGMA user_version").fetchone()
        assert [("",)] * 3 == connection.execute("SELECT host FROM repeats").fetchall()
    older.close()
    newer.close()


def test_an_older_file_is_read_as_it_is(path: Path) -> None:
    """Columns it does not have are those of the value's default, and nothing is written to it."""
    old = [sql for sql in _sqlite_file.MIGRATIONS[0] if "warnings" not in sql]
    with database(path) as connection:
        for sql in old:
            connection.execute(sql.replace("did TEXT", "x").replace("suspected_cause TEXT,", ""))
        connection.execute(f"PRAGMA application_id = {_sqlite_file.APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 1")
        names = [n for n in _sqlite_rows.REPEAT if n not in ("did", "suspected_cause")]
        put_in = f"INSERT INTO repeats ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
        connection.execute(put_in, [_sqlite_rows._cell(getattr(repeat(), n)) for n in names])
    before = path.read_bytes()
    assert [repeat(suspected_cause=None)] == list(read_events(path))
    assert [] == list(read_warnings(path))
    assert before == path.read_bytes()


def test_an_attempt_to_lift_that_fails_leaves_the_file_as_it_was(
    path: Path, sink: SQLiteSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it or nothing, and a later version can still do it."""
    put(sink, repeat(1))
    broken = (*NEXT, "ALTER TABLE nowhere ADD COLUMN x")
    with monkeypatch.context() as patched:
        patched.setattr(_sqlite_file, "MIGRATIONS", [*_sqlite_file.MIGRATIONS, broken])
        newer = SQLiteSink(path)
        put(newer, repeat(2))
        assert 1 == newer.dropped
    with database(path) as connection:
        assert (1,) == connection.execute("PRAGMA user_version").fetchone()
    put(sink, repeat(3))
    assert [1, 3] == [event.number for event in read_events(path)]
    newer.close()


def test_many_threads_make_one_file(path: Path) -> None:
    """Each with a sink of its own, all at once."""
    ready = threading.Barrier(8)

    def begin(number: int) -> None:
        ready.wait()
        made = SQLiteSink(path)
        work(made, f"run-{number}")
        made.close()
        assert 0 == made.dropped

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (24, 8) == check_file(path)


# --- trouble --------------------------------------------------------------------------------------


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [entry.getMessage() for entry in caplog.records if entry.levelno >= logging.WARNING]


def test_a_locked_file_costs_events_and_no_run(
    path: Path, sink: SQLiteSink, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After the patience they are counted and said once; when it is free again it goes on."""
    put(sink, repeat(1))
    monkeypatch.setattr(_sqlite_writer, "PATIENCE", 0.0)
    with database(path) as other:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        work(sink)
        assert time.monotonic() - began < 5
        assert sink.flush(30)
    assert 7 == sink.dropped
    assert "locked" in "".join(warned(caplog))
    work(sink, "later")
    assert ["r", "later", "later", "later"] == [event.run_id for event in read_events(path)]
    assert 1 == len(warned(caplog))


def test_a_file_that_is_locked_for_a_while_costs_nothing(path: Path, sink: SQLiteSink) -> None:
    """The events wait, the end of a block a second at most."""
    put(sink, repeat(1))
    with database(path) as other:
        other.execute("BEGIN EXCLUSIVE")
        began = time.monotonic()
        work(sink, "mine")
        assert time.monotonic() - began < 4
        assert not sink.flush(0.1)
    assert sink.flush(30)
    assert 0 == sink.dropped
    assert 4 == len(list(read_events(path)))


def test_a_full_queue_costs_events_and_is_told_to_the_run(path: Path) -> None:
    """`dropped` counts them for the sink, and `dropped_events` for the run."""
    made = SQLiteSink(path, limit=1)
    put(made, repeat(1))
    with database(path) as other:
        other.execute("BEGIN EXCLUSIVE")
        with Run([look], events=made) as run:
            for number in range(20):
                look(str(number))
                look(str(number))
            lost = run.dropped_events
        with contextlib.suppress(queue.Full):
            made.emit(repeat())  # the thread may have taken one meanwhile
        with pytest.raises(queue.Full, match="too many events wait"):
            made.emit(repeat())
    made.close()
    assert lost > 10
    assert made.dropped > lost


def test_a_full_disk_costs_events_and_no_run(
    path: Path, sink: SQLiteSink, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What was in the file stays, and it is written again when there is room."""
    put(sink, repeat(1))
    sink.close()
    opened = _sqlite_file.open_for_writing

    def small(path: Path) -> sqlite3.Connection:
        connection = opened(path)
        connection.execute("PRAGMA max_page_count = 1")
        return connection

    with monkeypatch.context() as patched:
        patched.setattr(_sqlite_writer, "open_for_writing", small)
        full = SQLiteSink(path)
        put(full, *(repeat(n, cause="long " * 100) for n in range(2, 200)))
        assert full.dropped > 100
        assert "full" in "".join(warned(caplog))
    put(full, repeat(200))
    full.close()
    found = [event.number for event in read_events(path)]
    assert (1, 200, 200 - full.dropped) == (found[0], found[-1], len(found))


def test_a_deleted_file_is_made_again(path: Path, sink: SQLiteSink) -> None:
    """Also where its log is left behind, and where another one was put in its place."""
    put(sink, repeat(1))
    path.unlink()
    assert 2 == len(list(path.parent.iterdir())), "the log is left behind"
    put(sink, repeat(2))
    assert [2] == [event.number for event in read_events(path)]
    for file in path.parent.iterdir():
        file.rename(path.parent / f"old-{file.name}")
    put(sink, repeat(3))
    assert [3] == [event.number for event in read_events(path)]
    assert [2] == [event.number for event in read_events(path.parent / "old-events.db")]
    assert 0 == sink.dropped


def test_a_place_where_nothing_can_be_written_costs_events(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder that is not there, a path through a file."""
    (tmp_path / "file").touch()
    for place in (tmp_path / "none" / "events.db", tmp_path / "file" / "events.db"):
        caplog.clear()
        made = SQLiteSink(place)
        work(made)
        work(made)
        made.close()
        assert 14 == made.dropped
        assert 1 == len(warned(caplog))
        assert str(place) in warned(caplog)[0]


def test_a_closed_sink_takes_no_event(path: Path) -> None:
    """It says so; closing twice does nothing."""
    made = SQLiteSink(path)
    put(made, repeat())
    made.close()
    made.close()
    with pytest.raises(ValueError, match="closed"):
        made.emit(repeat())
    assert [path] == list(path.parent.iterdir()), "nothing is left beside the file"


def test_an_idle_sink_holds_no_file(
    path: Path, sink: SQLiteSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second after the last event the file is closed and alone, and is opened again for the next."""
    monkeypatch.setattr("repeatguard_sdk._emitting._IDLE_SECONDS", 0.01)
    for number in range(3):
        put(sink, repeat(number))
        deadline = time.monotonic() + 10
        while len(list(path.parent.iterdir())) > 1 and time.monotonic() < deadline:
            time.sleep(0.005)
        assert [path] == list(path.parent.iterdir())
    assert 3 == len(list(read_events(path)))
