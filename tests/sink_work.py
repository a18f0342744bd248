"""Work whose events are known in number, done in this process or another, and a look at the file."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from pathlib import Path
from typing import Any

from repeatguard_sdk import Registry, Run, guarded_tool
from repeatguard_sdk.events import Event, GuardWarning, RepeatEvent, RunRecord
from repeatguard_sdk.sinks.sqlite import SQLiteSink, read_events, read_runs

PER_RUN = 3


@guarded_tool(registry=Registry())
def look(key: str) -> str:
    """Look a key up."""
    return f"nothing about {key}"


def work(sink: Any, run_id: str | None = None) -> None:
    """Make one run of six calls, three of which are repeats."""
    with Run([look], events=sink, run_id=run_id):
        for key in ("a", "b", "c"):
            look(key)
            look(key)


def write_for(path: str, name: str, seconds: float) -> dict[str, Any]:
    """Make runs for so long; tell what should be in the file, and how long an event took."""
    sink = SQLiteSink(path)
    end = time.monotonic() + seconds
    runs, slowest = 0, 0.0
    while time.monotonic() < end:
        began = time.monotonic()
        work(sink, f"{name}-{runs}")
        slowest = max(slowest, time.monotonic() - began)
        runs += 1
    flushed = sink.flush(60)
    sink.close()
    return {
        "name": name,
        "runs": runs,
        "dropped": sink.dropped,
        "flushed": flushed,
        "slowest": slowest,
    }


def repeat(number: int = 1, **changes: Any) -> RepeatEvent:
    fields: dict[str, Any] = {
        "run_id": "r", "number": number, "at": 100.0 + number, "call": 2, "turn": 1, "tool": "look",
        "finding": "repeat", "decision": "replay", "would": "replay", "count": 2,
        "cause": "identical call", "key_digest": "ab", "result_digest": "cd", "preview": '"x"',
        "style": "options", "call_id": "call-1", "effect": "read", "arguments": ("key", "limit"),
        "suspected_cause": "unresolved", "differed": False,
    }  # fmt: skip
    return RepeatEvent(**{**fields, **changes})


def record(**changes: Any) -> RunRecord:
    fields: dict[str, Any] = {
        "run_id": "r", "started": 90.0, "ended": 110.0, "calls": 3, "turns": 2, "executed": {"look": 1},
        "replayed": {"look": 1}, "joined": {}, "refused": {"other": 1}, "events": 1, "reason": "stuck",
    }  # fmt: skip
    return RunRecord(**{**fields, **changes})


def warning(**changes: Any) -> GuardWarning:
    return GuardWarning(**{"run_id": "r", "at": 105.0, "tool": "look", "what": "w", **changes})


def put(sink: SQLiteSink, *events: Event) -> None:
    """Give events to a sink and wait until they are written."""
    for event in events:
        sink.emit(event)
    assert sink.flush(30)


def check_file(path: str | Path) -> tuple[int, int]:
    """Hold that a file is sound and each run in it whole; return its numbers of events and runs."""
    connection = sqlite3.connect(path)
    try:
        assert [("ok",)] == connection.execute("PRAGMA integrity_check").fetchall()
        if not connection.execute("SELECT 1 FROM sqlite_master").fetchall():
            return 0, 0  # whoever made it was killed before it had tables
        ((orphans,),) = connection.execute(
            "SELECT count(*) FROM run_tools WHERE run NOT IN (SELECT id FROM runs)"
        ).fetchall()
        assert 0 == orphans
    finally:
        connection.close()
    events, numbers = 0, Counter[str]()
    for event in read_events(path):
        events += 1
        numbers[event.run_id] += 1
        assert numbers[event.run_id] == event.number, "none is missing before it, none is double"
        assert ("look", ("key",), "replay") == (event.tool, event.arguments, event.decision)
        assert event.preview.startswith('"nothing about ')
    runs = 0
    for run in read_runs(path):
        runs += 1
        # What a run's record tells was written before it or with it.
        assert numbers[run.run_id] == run.events == PER_RUN
        assert run.calls == sum(run.executed.values()) + sum(run.replayed.values())
    followed = {event.run_id for event in read_events(path) if event.did is None}
    ended = {run.run_id for run in read_runs(path)}
    assert not followed & ended, "of a run that has ended all is known"
    return events, runs
