"""Sinks of a user's own: called in a thread of their own, they can neither break nor hold a run."""

from __future__ import annotations

import asyncio
import contextvars
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import Any, ClassVar

import pytest

from repeatguard_sdk import Registry, Run, guarded_tool
from repeatguard_sdk._emitting import Queued, emitter
from repeatguard_sdk.events import Event, GuardWarning, LoggingSink, MemorySink, RepeatEvent


@guarded_tool(registry=Registry())
def look(key: str) -> str:
    """Look a key up."""
    return f"nothing about {key}"


def warning(number: int) -> GuardWarning:
    return GuardWarning(run_id="r", at=float(number), tool="t", what="w")


def test_a_function_has_every_event_when_the_block_has_ended() -> None:
    """It is called in order, elsewhere, and the end of the block waits for it."""
    got: list[Event] = []
    threads: set[int] = set()

    def take(event: Event) -> None:
        threads.add(threading.get_ident())
        time.sleep(0.001)
        got.append(event)

    with Run([look], events=take):
        for _ in range(2):
            look("a")
    assert ["RepeatEvent", "FollowUp", "RunRecord"] == [type(event).__name__ for event in got]
    assert threading.get_ident() not in threads


def test_a_sink_that_hangs_holds_nothing_up() -> None:
    """The calls go on, the end of the block waits a second at most, and what is too much is dropped."""
    release = threading.Event()
    began = time.monotonic()
    with Run([look], events=lambda _: release.wait(60)) as run:
        for number in range(50):
            look(str(number))
            look(str(number))
    assert 50 == run._reporter._interventions
    assert time.monotonic() - began < 10
    release.set()


def test_on_an_event_loop_the_end_hardly_waits() -> None:
    """A loop serves others too."""
    release = threading.Event()

    async def main() -> float:
        async with Run([look], events=lambda _: release.wait(60)):
            look("a")
            look("a")
            began = time.monotonic()
        return time.monotonic() - began

    assert asyncio.run(main()) < 0.9
    release.set()


def test_a_full_queue_drops_and_counts() -> None:
    """Its memory is bounded, whatever the sink does."""
    release, taken = threading.Event(), threading.Event()

    def hang(_: Event) -> None:
        taken.set()
        release.wait(60)

    queue = Queued(hang, limit=5)
    queue.emit(warning(0))
    assert taken.wait(10)
    for number in range(1, 9):
        queue.emit(warning(number))
    assert 3 == queue.dropped
    release.set()
    queue.close(10)


@pytest.mark.parametrize("error", [OSError("no room"), SystemExit(1), KeyboardInterrupt()])
def test_what_a_sink_raises_is_counted(error: BaseException) -> None:
    """Not even an exit ends the thread that further events wait for."""
    got: list[Event] = []

    def fail(event: Event) -> None:
        got.append(event)
        raise error

    queue = Queued(fail)
    for number in range(3):
        queue.emit(warning(number))
    queue.close(10)
    assert (3, 3) == (len(got), queue.dropped)


def test_the_thread_ends_when_nothing_comes_and_begins_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A program with a thousand runs has no thousand idle threads."""
    monkeypatch.setattr("repeatguard_sdk._emitting._IDLE_SECONDS", 0.01)
    got: list[Event] = []
    queue = Queued(got.append)
    for number in range(3):
        queue.emit(warning(number))
        queue.close(10)
        deadline = time.monotonic() + 10
        while queue._running and time.monotonic() < deadline:
            time.sleep(0.005)
        assert not queue._running
    assert [0.0, 1.0, 2.0] == [event.at for event in got if isinstance(event, GuardWarning)]


def test_without_threads_a_sink_is_called_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some platforms have none, and none starts at the interpreter's end."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    got: list[Event] = []
    queue = Queued(got.append)
    queue.emit(warning(1))
    queue.emit(warning(2))
    assert [warning(1), warning(2)] == got


FORKED = """
import os, sys, time, warnings
from repeatguard_sdk._emitting import Queued
from repeatguard_sdk.events import GuardWarning
warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside a thread
def take(event):
    time.sleep(0.01)
    os.write(1, f"{event.run_id} {event.tool} {os.getpid()}\\n".encode())
def emit(who):
    queue.emit(GuardWarning(run_id=who, at=0.0, tool=str(os.getpid()), what=""))
queue = Queued(take)
for _ in range(20):
    emit("before")
time.sleep(0.03)
pid = os.fork()
emit("after" if pid else "child")
assert queue.flush(30) and not queue.dropped
if pid:
    assert (pid, 0) == os.waitpid(pid, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_fork_divides_the_work() -> None:
    """Each event is delivered once and by the process it arose in, the child's own ones too."""
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, check=True, timeout=60
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    assert {"before": 20, "after": 1, "child": 1} == Counter(who for who, _, _ in lines)
    assert all(arose == taken for _, arose, taken in lines)


def test_a_flush_waits_for_what_came_before_it_only() -> None:
    """Others may go on emitting for ever."""
    release = threading.Event()
    queue = Queued(lambda event: release.wait(60) if event.at else None)
    queue.emit(warning(0))
    assert queue.flush(10)
    queue.emit(warning(1))
    assert not queue.flush(0.01)
    release.set()
    assert queue.flush(10)


def test_a_sink_with_a_queue_of_its_own_is_flushed_when_the_block_ends() -> None:
    """As long as the end of a block waits for any sink; what the flush raises is not heard."""

    class Queueing:
        in_place = True
        waits: ClassVar[list[float]] = []

        def emit(self, event: Event, /) -> None:
            pass

        def flush(self, timeout: float) -> bool:
            self.waits.append(timeout)
            raise OSError("no room")

    async def main() -> None:
        async with Run([look], events=Queueing()):
            look("a")

    with Run([look], events=Queueing()) as run:
        look("a")
    asyncio.run(main())
    assert [1.0, 0.05] == Queueing.waits
    assert 0 == run.dropped_events


def test_a_sink_sees_the_context_of_the_event() -> None:
    """A trace or a tenant kept in a context variable is the one of the call."""
    tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="none")
    seen: list[str] = []
    token = tenant.set("north")
    with Run([look], events=lambda _: seen.append(tenant.get())):
        look("a")
        look("a")
    tenant.reset(token)
    assert {"north"} == set(seen)


def test_several_sinks_get_each_event() -> None:
    """One that raises costs the others nothing."""

    class Broken:
        in_place = True

        def emit(self, event: Event, /) -> None:
            raise OSError("no room")

    memory, got = MemorySink(), list[Event]()
    with Run([look], events=[Broken(), memory, got.append, LoggingSink()]) as run:
        look("a")
        look("a")
    assert 1 == len(memory.repeats)
    assert 3 == len(got)
    assert 3 == run.dropped_events


def test_many_threads_lose_no_event() -> None:
    """The queue is one, and each event goes through it once."""
    got: list[Any] = []
    queue = emitter(got.append)

    def emit(start: int) -> None:
        for number in range(start, start + 500):
            queue.emit(warning(number))

    threads = [threading.Thread(target=emit, args=(1_000 * n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    queue.close(30)
    assert 4_000 == len({event.at for event in got}) == len(got)
    assert 0 == queue.dropped


def test_events_carry_no_argument_value() -> None:
    """Digests, names of arguments and what came back are all that is kept."""
    sink = MemorySink()

    @guarded_tool(registry=Registry())
    def charge(card: str, pin: str) -> str:
        return "declined"

    with Run([charge], events=sink):
        for _ in range(2):
            charge("4111-1111", pin="0007")
    told = "".join(map(repr, sink.repeats))
    assert "4111" not in told
    assert "0007" not in told
    (event,) = sink.repeats
    assert isinstance(event, RepeatEvent)
    assert ("card", "pin") == event.arguments
