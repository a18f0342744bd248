"""One SQLite file and many processes: those that write it, fork, end, and are killed."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from repeatguard_sdk.sinks.sqlite import SQLiteSink, read_events, read_runs
from sink_work import PER_RUN, check_file, work, write_for

WRITERS = 10
SECONDS = float(os.environ.get("REPEATGUARD_TEST_SECONDS", "3"))

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


def run_program(program: str, *arguments: str | Path) -> Any:
    """Run a program with the helpers of the tests at hand; return what it prints, as JSON."""
    paths = [str(Path(__file__).parent.parent), *sys.path]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert (0, "") == (done.returncode, done.stderr)
    return json.loads(done.stdout or "null")


def test_ten_writers_and_a_reader_lose_nothing(tmp_path: Path) -> None:
    """Each event is in the file once; who reads meanwhile sees whole ones and never fewer than before."""
    path = tmp_path / "events.db"
    context = multiprocessing.get_context("spawn")
    with context.Pool(WRITERS) as pool:
        names = [(str(path), f"w{number}", SECONDS) for number in range(WRITERS)]
        writing = pool.starmap_async(write_for, names, chunksize=1)
        seen = read_while(path, writing)
        written = writing.get(120)
        pool.close()
        pool.join()
    assert [0] * WRITERS == [each["dropped"] for each in written]
    assert all(each["flushed"] for each in written)
    expected = {f"{each['name']}-{n}" for each in written for n in range(each["runs"])}
    assert (PER_RUN * len(expected), len(expected)) == check_file(path)
    assert expected == {run.run_id for run in read_runs(path)}
    assert sorted(seen) == seen
    slowest = max(each["slowest"] for each in written)
    print(
        f"{WRITERS} writers, {SECONDS:.0f} s: {len(expected)} runs, {PER_RUN * len(expected)} events, "
        f"{len(seen)} readings, slowest run {slowest:.2f} s, {path.stat().st_size >> 20} MiB"
    )


def read_while(path: Path, writing: Any) -> Sequence[int]:
    """Count the events again and again; each one is whole, and each run's before its record."""
    seen: list[int] = []
    while not writing.ready():
        writing.wait(0.05)
        if not path.exists():
            continue
        ended = {run.run_id for run in read_runs(path)}
        counts: dict[str, int] = {}
        for event in read_events(path):
            assert ("look", "repeat", '"nothing about ') == (
                event.tool, event.finding, event.preview[:15],
            )  # fmt: skip
            counts[event.run_id] = counts.get(event.run_id, 0) + 1
        assert {PER_RUN} >= {counts[run_id] for run_id in ended}
        seen.append(sum(counts.values()))
    return seen


# In each child the process is killed just before the statement of that number is executed.
KILLED_AT_EACH_STATEMENT = """
import json, os, signal, sys, warnings
from pathlib import Path
from sink_work import check_file, work
from repeatguard_sdk.sinks import _sqlite_file
from repeatguard_sdk.sinks.sqlite import SQLiteSink

folder, connect = Path(sys.argv[1]), _sqlite_file._connect

def child(path, last):
    statements = 0
    def count(_):
        nonlocal statements
        statements += 1
        if statements == last:
            os.kill(os.getpid(), signal.SIGKILL)
    def traced(path, mode):
        connection = connect(path, mode)
        connection.set_trace_callback(count)
        return connection
    _sqlite_file._connect = traced
    sink = SQLiteSink(path)
    work(sink, f"first-{last}")
    work(sink, f"second-{last}")
    sink.close()

def killed(path, last):
    pid = os.fork()
    if not pid:
        child(path, last)
        os._exit(0)
    return os.waitpid(pid, 0)[1] != 0

told = []
for name in ("new", "same"):
    last, done = 1, False
    while not done:
        path = folder / (f"{name}-{last}.db" if name == "new" else "same.db")
        done = not killed(path, last)
        events, runs = check_file(path) if path.exists() and path.stat().st_size else (0, 0)
        last += 1
    told.append([last - 2, events, runs])
    assert runs >= 2
print(json.dumps(told))
"""

KILLED_AT_RANDOM = """
import json, os, random, signal, sys, time
from sink_work import check_file, work
from repeatguard_sdk.sinks.sqlite import SQLiteSink

path, times, draw = sys.argv[1], int(sys.argv[2]), random.Random(int(sys.argv[3]))
sink, before, told = SQLiteSink(path), (0, 0), []
for attempt in range(times):
    pids = []
    for writer in range(2):
        pid = os.fork()
        if not pid:
            number = 0
            while True:
                number += 1
                work(sink, f"{attempt}-{writer}-{number}")
        pids.append(pid)
    time.sleep(draw.uniform(0.0, 0.06))
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for pid in pids:
        os.waitpid(pid, 0)
    if os.path.exists(path):
        found = check_file(path)
        assert found >= before
        before = found
work(sink, "afterwards")
sink.close()
print(json.dumps([before, check_file(path)]))
"""


@needs_fork
def test_a_writer_may_be_killed_between_any_two_statements(tmp_path: Path) -> None:
    """The database stays sound, what is in it is whole, and the next writer goes on."""
    (new, *_), (same, _, runs) = run_program(KILLED_AT_EACH_STATEMENT, tmp_path)
    assert new > 25
    assert same > 15
    assert runs > 2


@needs_fork
def test_writers_may_be_killed_at_any_moment(tmp_path: Path) -> None:
    """Nothing is lost that was in the file, nothing is half there, and it is written on."""
    times = 40 if SECONDS < 10 else 400
    before, after = run_program(KILLED_AT_RANDOM, tmp_path / "events.db", str(times), "7")
    assert before[1] > times
    assert [before[0] + PER_RUN, before[1] + 1] == after


def test_what_waits_is_written_at_the_end_of_the_interpreter(tmp_path: Path) -> None:
    """Also for a run that is never ended, and without a word about connections left open."""
    program = """
import sys
from sink_work import put, repeat
from repeatguard_sdk.sinks.sqlite import SQLiteSink
sink = SQLiteSink(sys.argv[1])
for number in range(5000):
    sink.emit(repeat(number))
"""
    run_program(program, path := tmp_path / "events.db")
    assert [path] == list(tmp_path.iterdir()), "it was closed"
    assert list(range(5000)) == [event.number for event in read_events(path)]


@needs_fork
def test_a_sink_goes_on_in_a_forked_child(tmp_path: Path) -> None:
    """What waits at the fork is written once, by the parent, and each process writes its own."""
    program = """
import os, sys
from sink_work import repeat, work
from repeatguard_sdk.sinks.sqlite import SQLiteSink
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside a thread
sink = SQLiteSink(sys.argv[1])
pids = []
for number in range(20):
    for part in range(200):
        sink.emit(repeat(part, run_id=f"parent-{number}"))
    pid = os.fork()
    if not pid:
        work(sink, f"child-{number}")
        sys.exit(sink.dropped)
    pids.append(pid)
assert [0] * 20 == [os.waitpid(pid, 0)[1] for pid in pids]
"""
    run_program(program, path := tmp_path / "events.db")
    assert [path] == list(tmp_path.iterdir())
    counts: dict[str, int] = {}
    for event in read_events(path):
        counts[event.run_id] = counts.get(event.run_id, 0) + 1
    children = {f"child-{n}": PER_RUN for n in range(20)}
    assert {**children, **{f"parent-{n}": 200 for n in range(20)}} == counts


@needs_fork
def test_a_sink_goes_on_in_a_pool(tmp_path: Path) -> None:
    """The workers of `multiprocessing` end without the interpreter's own end."""
    program = """
import multiprocessing, sys, warnings
from sink_work import work
from repeatguard_sdk.sinks.sqlite import SQLiteSink
warnings.simplefilter("ignore", DeprecationWarning)
sink = SQLiteSink(sys.argv[1])
work(sink, "before")
def one(number):
    work(sink, f"run-{number}")
    return sink.dropped
with multiprocessing.get_context("fork").Pool(4) as pool:
    assert [0] * 40 == pool.map(one, range(40))
    pool.close()
    pool.join()
"""
    run_program(program, path := tmp_path / "events.db")
    assert (41 * PER_RUN, 41) == check_file(path)


@needs_fork
def test_many_processes_make_one_file_at_once(tmp_path: Path) -> None:
    """None of them takes a file that another is just making for something else."""
    program = """
import json, multiprocessing, sys
from sink_work import work
from repeatguard_sdk.sinks.sqlite import SQLiteSink
def one(path):
    sink = SQLiteSink(path)
    work(sink)
    sink.close()
    return sink.dropped
with multiprocessing.get_context("fork").Pool(8) as pool:
    dropped = [pool.map(one, [f"{sys.argv[1]}/{n}.db"] * 8, chunksize=1) for n in range(30)]
    pool.close()
    pool.join()
print(json.dumps(dropped))
"""
    assert [[0] * 8] * 30 == run_program(program, tmp_path)
    assert {(8 * PER_RUN, 8)} == {check_file(path) for path in tmp_path.glob("*.db")}


@needs_fork
def test_a_fork_waits_for_no_lock_of_another_process(tmp_path: Path) -> None:
    """A thread that waits for a locked file lets a fork go between, and the child can write later."""
    program = """
import os, subprocess, sys, time, warnings
from sink_work import repeat, work
from repeatguard_sdk.sinks.sqlite import SQLiteSink
warnings.simplefilter("ignore", DeprecationWarning)
sink = SQLiteSink(sys.argv[1])
work(sink, "before")
lock = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
lock += "c.execute('BEGIN EXCLUSIVE'); print(flush=True); input(); c.execute('ROLLBACK'); c.close()"
command = [sys.executable, "-c", lock, sys.argv[1]]
other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
other.stdout.readline()
sink.emit(repeat(run_id="waits"))
time.sleep(0.2)
began = time.monotonic()
pid = os.fork()
if not pid:
    work(sink, "child")
    os._exit(0 if sink.flush(30) and sink.dropped == 0 else 1)
took = time.monotonic() - began
time.sleep(1.5)
other.communicate(b"\\n")
assert (pid, 0) == os.waitpid(pid, 0)
assert sink.flush(30) and sink.dropped == 0
print(took)
"""
    took = run_program(program, path := tmp_path / "events.db")
    assert took < 3
    ids = [event.run_id for event in read_events(path)]
    assert ["before"] * 3 + ["child"] * 3 + ["waits"] == sorted(ids, key=lambda i: i == "waits")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
def test_a_file_that_may_not_grow_costs_events_and_no_run(tmp_path: Path) -> None:
    """A write that fails in its middle leaves the file sound, and it goes on where there is room."""
    program = """
import json, resource, sys
from sink_work import repeat, put, check_file, work
from repeatguard_sdk.sinks.sqlite import SQLiteSink
sink = SQLiteSink(sys.argv[1])
work(sink, "before")
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
import logging
logging.disable()
for number in range(300):
    work(sink, f"run-{number}")
lost = sink.dropped
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
work(sink, "after")
assert sink.dropped == lost
sink.close()
print(lost)
"""
    lost = run_program(program, path := tmp_path / "events.db")
    assert lost > 100
    ids = [event.run_id for event in read_events(path)]
    assert ["before"] * 3 == ids[:3]
    assert ["after"] * 3 == ids[-3:]


def test_a_writer_that_ends_lets_another_begin(tmp_path: Path) -> None:
    """The file of one process is that of the next, and is alone when nobody has it open."""
    path = tmp_path / "events.db"
    for number in range(3):
        made = SQLiteSink(path)
        work(made, f"run-{number}")
        made.close()
        assert [path] == list(tmp_path.iterdir())
    assert (9, 3) == check_file(path)
    assert time.time() - 60 < next(read_events(path)).at <= time.time()
