"""Calls that share one outcome: in flight at once, in one turn, or delivered twice by call id."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from repeatguard_sdk._ladder import Ladder
from repeatguard_sdk._policy import Policy
from repeatguard_sdk._registry import Registry
from repeatguard_sdk._run import Run
from repeatguard_sdk._scope import StuckSignal
from repeatguard_sdk._tool import guarded_tool
from repeatguard_sdk.events import MemorySink, RunRecord

LONG = 20.0


class Kill(BaseException):
    """Ends a thread as a framework's own signal would."""


class Refused(Exception):
    """A tool's own error, which carries a value."""


class Gate:
    """A tool body waits here; the test lets it go on when the others have joined."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self._open = threading.Semaphore(0)

    def wait(self) -> None:
        self.entered.release()
        assert self._open.acquire(timeout=LONG), "the test never opened the gate"

    def await_entry(self) -> None:
        assert self.entered.acquire(timeout=LONG), "the tool never ran"

    def let_one_pass(self) -> None:
        self._open.release()


class Caller(threading.Thread):
    """One call in a thread of its own, and what came of it."""

    def __init__(self, run: Run, function: Callable[..., Any], *args: Any) -> None:
        super().__init__(daemon=True)
        self._call = lambda: run.bind(function)(*args)
        self.value: Any = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.value = self._call()
        except BaseException as error:
            self.error = error

    def end(self) -> Any:
        self.join(LONG)
        assert not self.is_alive(), "the call never came back"
        return self.value


@contextlib.contextmanager
def whole(run: Run) -> Iterator[Run]:
    """Open a run whose block must be left by its end: an exit would skip the rest of the test."""
    with run:
        yield run
    assert run.outcome is not None
    assert "stuck" != run.outcome.reason, run.outcome.summary


def wait_for_calls(run: Run, number: int) -> None:
    """Wait until that many calls were admitted; a waiter joins in the same step."""
    deadline = time.monotonic() + LONG
    while run.calls < number:
        assert time.monotonic() < deadline, f"{run.calls} calls and not {number}"
        time.sleep(0.001)


async def let_run(run: Run, number: int) -> None:
    """Let the other tasks go on until that many calls were admitted."""
    for _ in range(10_000):
        if run.calls >= number:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"{run.calls} calls and not {number}")


def record_of(sink: MemorySink) -> RunRecord:
    """Return the record of the one run."""
    (record,) = sink.runs
    return record


# -- in flight at once: threads ----------------------------------------------------------------


@pytest.mark.parametrize("effect", ["read", "write", "ask", "final"])
def test_three_identical_calls_in_threads_are_one_call(effect: Any) -> None:
    """Three identical calls in flight at once run once, count once, and each gets its own copy."""
    gate, sink, ran = Gate(), MemorySink(), []

    @guarded_tool(effect=effect, registry=Registry())
    def fetch(key: str) -> dict[str, list[str]]:
        ran.append(key)
        gate.wait()
        return {"rows": [key]}

    with whole(Run(events=sink)) as run:
        callers = [Caller(run, fetch, "a") for _ in range(3)]
        gate.await_entry()
        wait_for_calls(run, 3)
        gate.let_one_pass()
        values = [caller.end() for caller in callers]
        later = fetch("a")
        assert run.last_decision is not None
        assert (run.last_decision.decision, run.last_decision.count) == ("replay", 2)

    assert ["a"] == ran
    assert [{"rows": ["a"]}] * 4 == [*values, later]
    values[0]["rows"].append("changed by its receiver")
    assert [["a"], ["a"], ["a"]] == [value["rows"] for value in [*values[1:], later]]
    record = record_of(sink)
    assert ({"fetch": 1}, {"fetch": 2}, {"fetch": 1}) == (
        record.executed,
        record.joined,
        record.replayed,
    )
    assert 4 == record.calls == run.calls


@pytest.mark.parametrize("declared", [{"effect": "live"}, {"repeatable": True}])
def test_live_and_repeatable_calls_run_each_time(declared: dict[str, Any]) -> None:
    """Three identical live or repeatable calls in flight at once run three times."""
    gate, sink, ran = Gate(), MemorySink(), []

    @guarded_tool(registry=Registry(), **declared)
    def act(key: str) -> int:
        ran.append(key)
        gate.wait()
        return len(ran)

    with whole(Run(events=sink)) as run:
        callers = [Caller(run, act, "a") for _ in range(3)]
        for _ in callers:
            gate.await_entry()
        for _ in callers:
            gate.let_one_pass()
        for caller in callers:
            assert 3 == caller.end()

    assert ["a"] * 3 == ran
    assert ({"act": 3}, {}) == (record_of(sink).executed, record_of(sink).joined)


def test_an_owner_killed_in_its_thread_is_replaced_by_a_waiter() -> None:
    """A `BaseException` of the owner is its own; one waiter runs the tool, the rest join."""
    gate, sink, ran = Gate(), MemorySink(), []

    @guarded_tool(registry=Registry())
    def fetch(key: str) -> list[str]:
        ran.append(key)
        gate.wait()
        if len(ran) == 1:
            raise Kill
        return [key]

    with whole(Run(events=sink)) as run:
        owner = Caller(run, fetch, "a")
        gate.await_entry()
        waiters = [Caller(run, fetch, "a") for _ in range(3)]
        wait_for_calls(run, 4)
        gate.let_one_pass()
        gate.await_entry()
        gate.let_one_pass()
        assert [["a"]] * 3 == [waiter.end() for waiter in waiters]
        owner.end()
        assert isinstance(owner.error, Kill)
        assert ["a"] == fetch("a")
        assert run.last_decision is not None
        assert ("replay", 2) == (run.last_decision.decision, run.last_decision.count)

    assert ["a", "a"] == ran
    record = record_of(sink)
    assert ({"fetch": 2}, {"fetch": 2}) == (record.executed, record.joined)


def test_waiters_abandoned_twice_still_get_their_result() -> None:
    """Two owners in a row are killed; the third one's result reaches everybody who is left."""
    gate, ran = Gate(), []

    @guarded_tool(registry=Registry())
    def fetch(key: str) -> str:
        ran.append(key)
        number = len(ran)
        gate.wait()
        if number < 3:
            raise Kill
        return f"{key}{number}"

    with whole(Run()) as run:
        callers = [Caller(run, fetch, "a")]
        gate.await_entry()
        callers += [Caller(run, fetch, "a") for _ in range(4)]
        wait_for_calls(run, 5)
        for _ in range(2):
            gate.let_one_pass()
            gate.await_entry()
        gate.let_one_pass()
        for caller in callers:
            caller.end()

    assert 3 == len(ran)
    assert 2 == sum(isinstance(caller.error, Kill) for caller in callers)
    assert ["a3"] * 3 == [caller.value for caller in callers if caller.error is None]


def test_a_failure_after_a_takeover_counts_as_a_failure() -> None:
    """A waiter that took over and failed stands on the ladder as any first failure does."""
    gate, ran = Gate(), []

    @guarded_tool(registry=Registry())
    def fetch(key: str) -> str:
        ran.append(key)
        gate.wait()
        if len(ran) == 1:
            raise Kill
        raise Refused("no such row")

    with whole(Run()) as run:
        owner = Caller(run, fetch, "a")
        gate.await_entry()
        waiter = Caller(run, fetch, "a")
        wait_for_calls(run, 2)
        gate.let_one_pass()
        gate.await_entry()
        gate.let_one_pass()
        owner.end(), waiter.end()
        assert isinstance(waiter.error, Refused)
        gate.let_one_pass()
        with pytest.raises(Refused):
            fetch("a")
        assert run.last_decision is not None
        assert 2 == run.last_decision.count
        assert 1 == len(run.observations())


def test_waiters_of_a_failure_get_an_error_of_their_own() -> None:
    """Waiters of an owner that raises get the same type, text and fields, but another object."""
    gate = Gate()

    @guarded_tool(registry=Registry())
    def fetch(key: str) -> str:
        gate.wait()
        error = Refused(f"no row {key}", 404)
        error.status = 404  # type: ignore[attr-defined]
        raise error

    with whole(Run()) as run:
        callers = [Caller(run, fetch, "a") for _ in range(3)]
        gate.await_entry()
        wait_for_calls(run, 3)
        gate.let_one_pass()
        for caller in callers:
            caller.end()

    errors = [caller.error for caller in callers]
    assert [Refused] * 3 == [type(error) for error in errors]
    assert 1 == len({str(error) for error in errors})
    assert [404] * 3 == [error.status for error in errors]  # type: ignore[union-attr]
    assert 3 == len({id(error) for error in errors})


def test_the_exit_of_an_owner_does_not_leave_its_waiters_hanging() -> None:
    """An owner whose outcome completes the third lap leaves; its waiters get that outcome."""
    gate, laps = Gate(), []

    @guarded_tool(registry=Registry())
    def fail(key: str) -> str:
        laps.append(key)
        if len(laps) == 6:
            gate.wait()
        raise Refused("always")

    with Run(policy=Policy(failing=Ladder(2, None, None), failures=None)) as run:
        for key in "ababa":
            with pytest.raises(Refused):
                fail(key)
        owner = Caller(run, fail, "b")
        gate.await_entry()
        waiters = [Caller(run, fail, "b") for _ in range(2)]
        wait_for_calls(run, 8)
        gate.let_one_pass()
        owner.end()
        assert isinstance(owner.error, StuckSignal)
        for waiter in waiters:
            waiter.end()
            assert isinstance(waiter.error, Refused)
    assert run.stuck
    assert list("ababab") == laps


def test_waiters_of_a_killed_owner_do_not_run_after_the_end() -> None:
    """A waiter that would take over in a run found stuck meanwhile leaves it without executing."""
    gate, ran = Gate(), []

    @guarded_tool(registry=Registry())
    def slow(key: str) -> str:
        ran.append(key)
        gate.wait()
        raise Kill

    @guarded_tool(registry=Registry())
    def quick() -> str:
        return "same"

    with Run() as run:
        owner = Caller(run, slow, "a")
        gate.await_entry()
        waiter = Caller(run, slow, "a")
        wait_for_calls(run, 2)
        loop = [Caller(run, quick) for _ in range(1)]
        loop[-1].end()
        for _ in range(2):
            loop.append(Caller(run, quick))
            loop[-1].end()
        assert isinstance(loop[-1].error, StuckSignal)
        gate.let_one_pass()
        owner.end(), waiter.end()
        assert isinstance(owner.error, Kill)
        assert isinstance(waiter.error, StuckSignal)

    assert ["a"] == ran


# -- in flight at once: tasks ------------------------------------------------------------------


def test_three_identical_calls_in_one_gather_are_one_call() -> None:
    """Identical awaits of one gather run once and each gets its own copy."""
    sink, ran = MemorySink(), []

    @guarded_tool(registry=Registry())
    async def fetch(key: str) -> dict[str, list[str]]:
        ran.append(key)
        await asyncio.sleep(0)
        return {"rows": [key]}

    async def main() -> list[Any]:
        with whole(Run(events=sink)) as run:
            values = await asyncio.gather(fetch("a"), fetch("a"), fetch("a"))
            again = await fetch("a")
            assert run.last_decision is not None
            assert 2 == run.last_decision.count
        return [*values, again]

    values = asyncio.run(main())
    assert ["a"] == ran
    assert 4 == len({id(value["rows"]) for value in values})
    assert [{"rows": ["a"]}] * 4 == values
    assert ({"fetch": 1}, {"fetch": 2}) == (record_of(sink).executed, record_of(sink).joined)


@pytest.mark.parametrize("declared", [{"effect": "live"}, {"repeatable": True}])
def test_live_and_repeatable_tasks_run_each_time(declared: dict[str, Any]) -> None:
    """Identical live or repeatable awaits of one gather run each."""
    ran: list[str] = []

    @guarded_tool(registry=Registry(), **declared)
    async def act(key: str) -> int:
        ran.append(key)
        await asyncio.sleep(0)
        return len(ran)

    async def main() -> list[int]:
        with whole(Run()):
            return await asyncio.gather(act("a"), act("a"), act("a"))

    assert [3, 3, 3] == asyncio.run(main())


def test_a_cancelled_owner_is_replaced_by_a_waiter() -> None:
    """Cancelling the task that runs the tool cancels it alone; a waiter runs the tool."""
    ran: list[str] = []

    @guarded_tool(registry=Registry())
    async def fetch(key: str) -> str:
        ran.append(key)
        number = len(ran)
        if number == 1:
            await asyncio.Event().wait()
        return f"{key}{number}"

    async def main() -> None:
        sink = MemorySink()
        with whole(Run(events=sink)) as run:
            owner = asyncio.create_task(fetch("a"))
            waiters = [asyncio.create_task(fetch("a")) for _ in range(2)]
            await let_run(run, 3)
            owner.cancel()
            assert ["a2", "a2"] == await asyncio.gather(*waiters)
            with pytest.raises(asyncio.CancelledError):
                await owner
            assert "a2" == await fetch("a")
            assert run.last_decision is not None
            assert ("replay", 2) == (run.last_decision.decision, run.last_decision.count)
        record = record_of(sink)
        assert ({"fetch": 2}, {"fetch": 1}) == (record.executed, record.joined)
        assert 4 == record.calls

    asyncio.run(main())
    assert ["a", "a"] == ran


def test_an_owner_that_timed_out_leaves_nothing_to_replay() -> None:
    """A tool cancelled by the caller's time limit is run by the next equal call, as a first one."""
    ran: list[str] = []

    @guarded_tool(registry=Registry())
    async def fetch(key: str) -> str:
        ran.append(key)
        if len(ran) == 1:
            await asyncio.Event().wait()
        return key

    async def main() -> None:
        with whole(Run()) as run:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(fetch("a"), 0.005)
            assert "a" == await fetch("a")
            assert run.last_decision is not None
            assert ("execute", 1) == (run.last_decision.decision, run.last_decision.count)

    asyncio.run(main())
    assert ["a", "a"] == ran


def test_a_cancelled_waiter_leaves_the_owner_alone() -> None:
    """Cancelling one waiter touches neither the owner nor the other waiters."""
    ran: list[str] = []

    async def main() -> None:
        gate = asyncio.Event()

        @guarded_tool(registry=Registry())
        async def fetch(key: str) -> str:
            ran.append(key)
            await gate.wait()
            return key

        with whole(Run()) as run:
            owner, first, second = (asyncio.create_task(fetch("a")) for _ in range(3))
            await let_run(run, 3)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            gate.set()
            assert ["a", "a"] == await asyncio.gather(owner, second)

    asyncio.run(main())
    assert ["a"] == ran


def test_tasks_abandoned_twice_still_get_their_result() -> None:
    """Two owners in a row are cancelled; the rest get the third one's result."""
    ran: list[str] = []

    @guarded_tool(registry=Registry())
    async def fetch(key: str) -> str:
        ran.append(key)
        number = len(ran)
        if number < 3:
            await asyncio.Event().wait()
        return f"{key}{number}"

    async def main() -> None:
        with whole(Run()) as run:
            tasks = [asyncio.create_task(fetch("a")) for _ in range(5)]
            await let_run(run, 5)
            tasks[0].cancel()
            for _ in range(10):
                await asyncio.sleep(0)
            # The waiters were told in the order they joined.
            tasks[1].cancel()
            came = await asyncio.gather(*tasks, return_exceptions=True)
        assert [asyncio.CancelledError] * 2 == [type(error) for error in came[:2]]
        assert ["a3"] * 3 == came[2:]

    asyncio.run(main())
    assert 3 == len(ran)


def test_an_owner_and_its_waiter_cancelled_together() -> None:
    """When owner and one waiter are cancelled in one step, the other waiter takes over."""
    ran: list[str] = []

    @guarded_tool(registry=Registry())
    async def fetch(key: str) -> str:
        ran.append(key)
        if len(ran) == 1:
            await asyncio.Event().wait()
        return key

    async def main() -> None:
        with whole(Run()) as run:
            tasks = [asyncio.create_task(fetch("a")) for _ in range(3)]
            await let_run(run, 3)
            tasks[0].cancel()
            tasks[1].cancel()
            came = await asyncio.gather(*tasks, return_exceptions=True)
        assert "a" == came[2]

    asyncio.run(main())
    assert 2 == len(ran)


def test_a_task_dropped_in_another_context_frees_its_waiters() -> None:
    """A coroutine closed outside its context, as a dying loop does, abandons its flight cleanly."""
    ran: list[str] = []

    class Pause:
        def __await__(self) -> Any:
            yield

    @guarded_tool(registry=Registry())
    async def fetch(key: str) -> str:
        ran.append(key)
        await Pause()
        return key

    with whole(Run()):
        context = contextvars.copy_context()
        dropped = fetch("a")
        context.run(dropped.send, None)
        dropped.close()

        async def main() -> str:
            return await asyncio.wait_for(fetch("a"), LONG)

        async def unpaused() -> str:
            waiting = fetch("a")
            waiting.send(None)
            with pytest.raises(StopIteration) as ended:
                waiting.send(None)
            return str(ended.value.value)

        assert "a" == asyncio.run(unpaused())
    assert ["a", "a"] == ran


def test_waiters_in_two_event_loops_share_one_flight() -> None:
    """A task in another thread's loop waits for the owner in this one."""
    gate, ran = Gate(), []

    @guarded_tool(registry=Registry())
    async def fetch(key: str) -> str:
        ran.append(key)
        await asyncio.get_running_loop().run_in_executor(None, gate.wait)
        return key

    with whole(Run()) as run:
        callers = [Caller(run, lambda: asyncio.run(fetch("a"))) for _ in range(2)]
        gate.await_entry()
        wait_for_calls(run, 2)
        gate.let_one_pass()
        assert ["a", "a"] == [caller.end() for caller in callers]
    assert ["a"] == ran


# -- flights and writes ------------------------------------------------------------------------


def test_a_flight_from_before_a_write_is_not_joined() -> None:
    """A read that began before a write landed is not shared by one that begins after it."""
    gate, world, ran = Gate(), {"x": "old"}, []

    @guarded_tool(registry=Registry())
    def read(name: str) -> str:
        seen = world[name]
        ran.append(seen)
        if len(ran) == 1:
            gate.wait()
        return seen

    @guarded_tool(effect="write", registry=Registry())
    def write(name: str, value: str) -> str:
        world[name] = value
        return "ok"

    with whole(Run()) as run:
        early = Caller(run, read, "x")
        gate.await_entry()
        write("x", "new")
        assert "new" == read("x")
        gate.let_one_pass()
        assert "old" == early.end()
        assert "new" == read("x")
        assert run.last_decision is not None
        assert ("replay", 2) == (run.last_decision.decision, run.last_decision.count)
    assert ["old", "new"] == ran


def test_a_read_in_flight_during_a_write_is_not_served_afterwards() -> None:
    """What a read saw before a write landed is never replayed after it."""
    gate, world = Gate(), {"x": "old"}

    @guarded_tool(registry=Registry())
    def read(name: str) -> str:
        seen = world[name]
        if seen == "old":
            gate.wait()
        return seen

    @guarded_tool(effect="write", registry=Registry())
    def write(name: str, value: str) -> str:
        world[name] = value
        return "ok"

    with whole(Run()) as run:
        early = Caller(run, read, "x")
        gate.await_entry()
        write("x", "new")
        gate.let_one_pass()
        assert "old" == early.end()
        assert "new" == read("x")
        assert run.last_decision is not None
        assert ("execute", 1) == (run.last_decision.decision, run.last_decision.count)


@pytest.mark.parametrize("effect", ["write", "unknown"])
def test_a_write_that_comes_home_late_still_changes_the_world(effect: Any) -> None:
    """A (slow), B, A again (slower): a read between the landings of A is stale after them."""
    world = {"x": 0}
    started, go = threading.Semaphore(0), [threading.Event(), threading.Event()]
    runs: list[int] = []

    @guarded_tool(registry=Registry())
    def read() -> int:
        return world["x"]

    @guarded_tool(effect=effect, registry=Registry())
    def put(value: int) -> str:
        if value == 1:
            number = len(runs)
            runs.append(number)
            started.release()
            assert go[number].wait(LONG)
        world["x"] = value
        return f"x is {value}"

    with whole(Run()) as run:
        first = Caller(run, put, 1)
        assert started.acquire(timeout=LONG)
        put(2)
        second = Caller(run, put, 1)
        assert started.acquire(timeout=LONG)
        go[0].set()
        first.end()
        put(2)
        assert 2 == read()
        go[1].set()
        second.end()
        assert 1 == world["x"]
        assert 1 == read()


def test_an_abandoned_write_may_have_changed_the_world() -> None:
    """A read from before a write that was killed halfway is not replayed after it."""
    world = {"x": "old"}

    @guarded_tool(registry=Registry())
    def read() -> str:
        return world["x"]

    @guarded_tool(effect="write", registry=Registry())
    def write(value: str) -> str:
        world["x"] = value
        raise Kill

    with whole(Run()):
        assert "old" == read()
        with pytest.raises(Kill):
            write("new")
        assert "new" == read()


def test_equal_writes_in_flight_are_done_once() -> None:
    """Two identical writes at once are one write, and a later one gets its receipt."""
    gate, done = Gate(), []

    @guarded_tool(effect="write", registry=Registry())
    def pay(order: str) -> str:
        done.append(order)
        gate.wait()
        return f"receipt {len(done)}"

    with whole(Run()) as run:
        callers = [Caller(run, pay, "A") for _ in range(2)]
        gate.await_entry()
        wait_for_calls(run, 2)
        gate.let_one_pass()
        assert ["receipt 1"] * 2 == [caller.end() for caller in callers]
        assert "receipt 1" == pay("A")
    assert ["A"] == done


# -- one turn ----------------------------------------------------------------------------------


def test_sequential_twins_of_one_turn_are_one_call() -> None:
    """Equal calls one after the other in a turn count once; the next turn counts on."""
    sink, ran = MemorySink(), []

    @guarded_tool(registry=Registry())
    def fetch(key: str) -> list[str]:
        ran.append(key)
        return [key]

    with Run(events=sink) as run:
        run.turn()
        values = [fetch("a") for _ in range(4)]
        assert run.last_decision is not None
        assert ("join", 0) == (run.last_decision.decision, run.last_decision.count)
        run.turn()
        values += [fetch("a") for _ in range(4)]
        assert not run.stuck
        run.turn()
        fetch("a")

    assert ["a"] == ran
    assert [["a"]] * 8 == values
    assert 8 == len({id(value) for value in values})
    assert "stuck" == record_of(sink).reason
    assert ({"fetch": 1}, {"fetch": 6}, {"fetch": 1}) == (
        record_of(sink).executed,
        record_of(sink).joined,
        record_of(sink).replayed,
    )


def test_twins_across_a_write_of_the_same_turn_are_two_calls() -> None:
    """Read, write, read in one turn: the second read sees what the write did."""
    world = ["old"]

    @guarded_tool(registry=Registry())
    def read() -> str:
        return world[0]

    @guarded_tool(effect="write", registry=Registry())
    def write(value: str) -> str:
        world[0] = value
        return "ok"

    with whole(Run()) as run:
        run.turn()
        assert "old" == read()
        write("new")
        assert "new" == read()
        assert "new" == read()
        assert run.last_decision is not None
        assert "join" == run.last_decision.decision


def test_twins_of_a_failing_call_get_its_error() -> None:
    """A failing call and its twins of the turn are one failure, and each raises its own object."""
    ran: list[str] = []

    @guarded_tool(registry=Registry())
    def fetch(key: str) -> str:
        ran.append(key)
        raise Refused(f"no {key}")

    errors = []
    with whole(Run()) as run:
        run.turn()
        for _ in range(5):
            with pytest.raises(Refused, match="no a") as caught:
                fetch("a")
            errors.append(caught.value)
        assert [] == run.observations()
        run.turn()
        with pytest.raises(Refused):
            fetch("a")
        assert 1 == len(run.observations())

    assert ["a", "a"] == ran
    assert 5 == len({id(error) for error in errors})


@pytest.mark.parametrize("declared", [{"effect": "live"}, {"repeatable": True}])
def test_live_and_repeatable_twins_of_a_turn_run_each_time(declared: dict[str, Any]) -> None:
    """A turn does not make live or repeatable calls one."""
    ran: list[int] = []

    @guarded_tool(registry=Registry(), **declared)
    def act() -> int:
        ran.append(1)
        return len(ran)

    with whole(Run()) as run:
        run.turn()
        assert [1, 2, 3] == [act() for _ in range(3)]


def test_a_twin_that_takes_over_belongs_to_the_turn_it_was_asked_in() -> None:
    """Twins of one turn stay one call when the first of them is killed."""
    ran: list[str] = []

    @guarded_tool(registry=Registry())
    def fetch(key: str) -> str:
        ran.append(key)
        if len(ran) == 1:
            raise Kill
        return key

    with whole(Run()) as run:
        run.turn()
        with pytest.raises(Kill):
            fetch("a")
        assert ["a", "a"] == [fetch("a"), fetch("a")]
        run.turn()
        fetch("a")
        assert run.last_decision is not None
        assert ("replay", 2) == (run.last_decision.decision, run.last_decision.count)
    assert ["a", "a"] == ran


@pytest.mark.parametrize("mode", ["advise", "observe"])
def test_modes_that_withhold_nothing_run_every_twin(mode: Any) -> None:
    """In the softer modes each twin runs and none of them counts twice."""
    ran: list[str] = []

    @guarded_tool(registry=Registry())
    def fetch(key: str) -> str:
        ran.append(key)
        return key

    with whole(Run(policy=Policy(mode=mode))) as run:
        run.turn()
        for _ in range(3):
            fetch("a")
        assert run.last_decision is not None
        assert ("execute", "join") == (run.last_decision.decision, run.last_decision.would)
        assert [] == run.observations()
    assert ["a"] * 3 == ran


# -- call ids ----------------------------------------------------------------------------------


class Desk:
    """A read and a write that count, and a run that dispatches to them."""

    def __init__(self, **declared: Any) -> None:
        self.ran: list[str] = []
        self.fail = False
        registry = Registry()

        @guarded_tool(registry=registry, **declared)
        def call(key: str) -> str:
            self.ran.append(key)
            if self.fail:
                raise Refused(f"no {key}")
            return f"{key}{len(self.ran)}"

        @guarded_tool(effect="write", registry=registry)
        def other(key: str) -> str:
            return f"other {key}"

        self.registry = registry


@pytest.mark.parametrize(
    "declared",
    [{}, {"effect": "write"}, {"effect": "unknown"}, {"effect": "live"}, {"repeatable": True}],
)
def test_the_same_call_id_again_is_a_redelivery(declared: dict[str, Any]) -> None:
    """One id delivered many times runs once, gives the stored result and counts once."""
    desk = Desk(**declared)
    with whole(Run(registry=desk.registry)) as run:
        values = [run.dispatch("call", {"key": "a"}, call_id="id-1") for _ in range(6)]
        assert not run.stuck
        assert [] == run.observations()
    assert ["a1"] * 6 == values
    assert ["a"] == desk.ran


def test_another_call_id_is_a_repeat() -> None:
    """The same call under a new id climbs the ladder: replayed, then the run ends."""
    desk, reached = Desk(), []
    with Run(registry=desk.registry) as run:
        for number in range(3):
            run.dispatch("call", {"key": "a"}, call_id=f"id-{number}")
            reached.append(number)
    assert run.stuck
    assert [0, 1] == reached
    assert ["a"] == desk.ran


def test_the_id_of_a_failed_call_runs_again_uncounted() -> None:
    """Infrastructure that retries a failed delivery runs the tool, and no failure is added up."""
    desk = Desk()
    desk.fail = True
    with whole(Run(registry=desk.registry)) as run:
        for _ in range(6):
            with pytest.raises(Refused, match="no a"):
                run.dispatch("call", {"key": "a"}, call_id="id-1")
        assert [] == run.observations()
        desk.fail = False
        assert "a7" == run.dispatch("call", {"key": "a"}, call_id="id-1")
        assert "a7" == run.dispatch("call", {"key": "a"}, call_id="id-1")
    assert 7 == len(desk.ran)


def test_the_same_id_on_another_call_is_another_call() -> None:
    """A provider that uses an id twice for two calls gets two executions."""
    desk = Desk()
    with whole(Run(registry=desk.registry)) as run:
        assert "a1" == run.dispatch("call", {"key": "a"}, call_id="id-1")
        assert "b2" == run.dispatch("call", {"key": "b"}, call_id="id-1")
    assert ["a", "b"] == desk.ran


@pytest.mark.parametrize("blank", [None, ""])
def test_no_call_id_is_no_redelivery(blank: str | None) -> None:
    """Providers that give no id, or a blank one, cannot make a repeat look like a redelivery."""
    desk = Desk()
    with Run(registry=desk.registry) as run:
        for _ in range(3):
            run.dispatch("call", {"key": "a"}, call_id=blank)
    assert run.stuck
    assert ["a"] == desk.ran


def test_a_redelivered_write_is_not_done_again_in_a_later_epoch() -> None:
    """The id of a write that succeeded gets its receipt whatever happened since."""
    desk = Desk(effect="write")
    with whole(Run(registry=desk.registry)) as run:
        assert "a1" == run.dispatch("call", {"key": "a"}, call_id="id-1")
        run.dispatch("other", {"key": "b"}, call_id="id-2")
        run.progress()
        assert "a1" == run.dispatch("call", {"key": "a"}, call_id="id-1")
        assert "a2" == run.dispatch("call", {"key": "a"}, call_id="id-3")
    assert ["a", "a"] == desk.ran


@pytest.mark.parametrize("between", [False, True])
def test_a_redelivered_write_without_a_kept_receipt_is_not_done_twice(between: bool) -> None:
    """A receipt too big to keep cannot be replayed, and the write is not done for it again."""
    desk = Desk(effect="write")
    with whole(Run(registry=desk.registry, policy=Policy(max_result_bytes=1))) as run:
        assert "a1" == run.dispatch("call", {"key": "a"}, call_id="id-1")
        if between:
            run.dispatch("other", {"key": "b"}, call_id="id-2")
        for _ in range(4):
            answer = run.dispatch("call", {"key": "a"}, call_id="id-1")
            assert isinstance(answer, str)
            assert "call" in answer
        assert not run.stuck
    assert ["a"] == desk.ran


def test_a_redelivered_read_without_a_kept_result_runs_again_uncounted() -> None:
    """A read too big to keep is read again for a redelivery, and is no repeat."""
    desk = Desk()
    with whole(Run(registry=desk.registry, policy=Policy(max_result_bytes=1))) as run:
        for number in range(1, 6):
            assert f"a{number}" == run.dispatch("call", {"key": "a"}, call_id="id-1")
        assert [] == run.observations()
        assert not run.stuck


def test_a_redelivered_suspect_is_a_redelivery() -> None:
    """A call that was convicted by an equal result keeps its own id."""
    registry = Registry()

    @guarded_tool(registry=registry)
    def find(query: str) -> str:
        return "one row"

    with whole(Run(registry=registry)) as run:
        run.dispatch("find", {"query": "red  shoes"}, call_id="id-1")
        run.dispatch("find", {"query": "Red shoes"}, call_id="id-2")
        assert run.last_decision is not None
        assert 2 == run.last_decision.count
        for _ in range(3):
            assert "one row" == run.dispatch("find", {"query": "Red shoes"}, call_id="id-2")
        assert not run.stuck


def test_a_call_id_does_not_reach_a_run_inside_the_tool() -> None:
    """The id of an outer tool call says nothing about the calls of an agent inside that tool."""
    outer_tools, inner_tools, ran = Registry(), Registry(), []

    @guarded_tool(registry=inner_tools)
    def look(key: str) -> str:
        ran.append(key)
        return key

    @guarded_tool(registry=outer_tools)
    def agent(task: str) -> str:
        with Run(registry=inner_tools) as inner:
            for _ in range(5):
                look("a")
        return "stuck" if inner.stuck else "went on for ever"

    with whole(Run(registry=outer_tools)) as outer:
        assert "stuck" == outer.dispatch("agent", {"task": "t"}, call_id="id-1")
    assert ["a"] == ran


def test_an_id_that_fails_for_ever_is_a_loop_and_no_retry() -> None:
    """A framework's retries are free; a back end that reuses one id does not escape the ladder."""
    ran: list[str] = []

    @guarded_tool(registry=(tools := Registry()))
    def look(key: str) -> str:
        ran.append(key)
        raise LookupError(key)

    with Run(registry=tools) as run:
        for _ in range(20):
            with contextlib.suppress(LookupError):
                run.dispatch("look", {"key": "a"}, "c1")
    assert run.stuck
    assert len(ran) <= 13
