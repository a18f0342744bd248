"""The file that `REPEATGUARD_EVENTS` names takes the events of each run that is given no sink."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from repeatguard_sdk import Run, _default_sink
from repeatguard_sdk._default_sink import EVENTS_VARIABLE, default_sink
from repeatguard_sdk.events import MemorySink
from repeatguard_sdk.sinks.sqlite import SQLiteSink, read_events, read_runs, read_warnings
from sink_work import look, work


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(_default_sink, "_sinks", {})
    monkeypatch.setenv(EVENTS_VARIABLE, str(tmp_path / "events.db"))
    return tmp_path / "events.db"


def close_all() -> None:
    for sink in _default_sink._sinks.values():
        assert isinstance(sink, SQLiteSink)
        sink.close()


def test_runs_without_a_sink_write_to_the_file(path: Path) -> None:
    """All of them through one sink, also in several threads at once."""
    threads = [threading.Thread(target=work, args=(None, str(number))) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    work(None, "last")
    assert {"0", "1", "2", "3", "last"} == {run.run_id for run in read_runs(path)}
    assert 15 == len(list(read_events(path)))
    assert default_sink() is default_sink()
    close_all()


def test_a_run_with_a_sink_does_not(path: Path) -> None:
    """What the program says goes before what the environment says; no sink at all is a way to say it."""
    memory = MemorySink()
    work(memory)
    work([])
    assert 3 == len(memory.repeats)
    assert not path.exists()


def test_the_variable_is_read_when_a_run_is_made(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be set late, changed and unset."""
    monkeypatch.delenv(EVENTS_VARIABLE)
    work(None)
    monkeypatch.setenv(EVENTS_VARIABLE, "  ")
    work(None)
    other = path.with_name("other.db")
    monkeypatch.setenv(EVENTS_VARIABLE, str(other))
    work(None, "other")
    monkeypatch.setenv(EVENTS_VARIABLE, f" {path} ")
    work(None, "mine")
    assert ["other"] == [run.run_id for run in read_runs(other)]
    assert ["mine"] == [run.run_id for run in read_runs(path)]
    close_all()


@pytest.mark.parametrize("wrong", ["a text", "a folder", "no folder", ":memory:"])
def test_a_path_that_cannot_work_costs_no_run(
    wrong: str, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who set it may not be who wrote the program: the log says it, once."""
    places = {"a folder": path.parent, "no folder": path.parent / "none" / "events.db"}
    monkeypatch.setenv(EVENTS_VARIABLE, str(places.get(wrong, wrong if ":" in wrong else path)))
    if wrong == "a text":
        path.write_text("notes\n" * 1_000)
    for _ in range(3):
        with Run([look]) as run:
            assert look("a") == look("a")
        assert 2 == run.calls
    said = [entry for entry in caplog.records if entry.levelno >= logging.WARNING]
    assert 1 == len(said)
    assert 1 == len(set(_default_sink._sinks.values()))


def test_a_warning_is_in_the_file_and_in_the_log(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A developer should not miss it because somebody collects events."""
    with Run([look]):
        look(iter("a"))  # type: ignore[arg-type]
    (kept,) = read_warnings(path)
    assert "cannot be compared" in kept.what
    assert kept.what in caplog.text
    close_all()


def test_nothing_of_it_is_loaded_before_it_is_needed() -> None:
    """Most programs keep no events, and the database is slow to load."""
    program = (
        "import json, sys; from repeatguard_sdk import Run; import repeatguard_sdk.events\n"
        "with Run([]): pass\n"
        "print(json.dumps([name for name in sys.modules if 'sqlite' in name]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert [] == json.loads(done.stdout)
