"""Many threads and tasks under one run: each call answered rightly, run once, counted exactly."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from builds import interpreted_only
from repeatguard_sdk._firsts import FirstCalls
from repeatguard_sdk._ladder import Ladder
from repeatguard_sdk._policy import Policy
from repeatguard_sdk._registry import Registry
from repeatguard_sdk._run import Run
from repeatguard_sdk._tool import guarded_tool
from repeatguard_sdk.events import MemorySink, RunRecord

LONG = 60.0
THREADS = 8
TASKS = 200
needs_task_group = pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.TaskGroup")

Job = tuple[str, str]
# Nothing ends these runs, so that every call of a plan is made.
ENDLESS = Policy(
    known_effects=Ladder(2, 2, None),
    failing=Ladder(2, 3, None),
    unknown=Ladder(2, 3, None),
    cycle=None,
)


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    """Make the interpreter change threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class Tools:
    """Reads of two kinds in both colours, which count how often each key ran."""

    def __init__(self) -> None:
        self.ran: Counter[Job] = Counter()
        self._lock = threading.Lock()
        registry = self.registry = Registry()

        @guarded_tool(registry=registry)
        def get(key: str) -> dict[str, list[str]]:
            self.note("get", key)
            return {"rows": [key]}

        @guarded_tool(registry=registry)
        def text(key: str) -> str:
            self.note("text", key)
            return f"text of {key}"

        @guarded_tool(registry=registry)
        async def aget(key: str) -> dict[str, list[str]]:
            self.note("aget", key)
            await asyncio.sleep(0)
            return {"rows": [key]}

        @guarded_tool(registry=registry)
        async def atext(key: str) -> str:
            self.note("atext", key)
            for _ in range(len(key)):
                await asyncio.sleep(0)
            return f"text of {key}"

        self.by_name: dict[str, Any] = {"get": get, "text": text, "aget": aget, "atext": atext}

    def note(self, tool: str, key: str) -> None:
        with self._lock:
            self.ran[tool, key] += 1


def plan(names: tuple[str, str], number: int) -> list[Job]:
    """Return a fixed random list of calls, few enough different ones that they meet."""
    dice = random.Random(7)
    return [(dice.choice(names), f"key {dice.randrange(20)}") for _ in range(number)]


def expected(job: Job) -> Any:
    """Return what a call must give."""
    name, key = job
    return f"text of {key}" if name.endswith("text") else {"rows": [key]}


def in_threads(number: int, work: Callable[[int], None]) -> list[BaseException]:
    """Run a function in threads that start together; return what they raised."""
    errors: list[BaseException] = []
    together = threading.Barrier(number)

    def body(index: int) -> None:
        try:
            together.wait(LONG)
            work(index)
        except BaseException as error:
            errors.append(error)
            together.abort()

    threads = [threading.Thread(target=body, args=(n,), daemon=True) for n in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert not any(thread.is_alive() for thread in threads), "deadlock"
    return errors


def check(jobs: list[Job], values: list[Any], tools: Tools, run: Run, sink: MemorySink) -> None:
    """Check that each distinct call ran once, each caller has its own value, counts are exact."""
    assert [expected(job) for job in jobs] == values
    distinct = set(jobs)
    assert dict.fromkeys(distinct, 1) == dict(tools.ran)
    copies = [value for value in values if isinstance(value, dict)]
    assert len(copies) == len({id(value) for value in copies})
    assert len(copies) == len({id(value["rows"]) for value in copies})
    copies[0]["rows"].append("changed by its receiver")
    assert all(len(value["rows"]) == 1 for value in copies[1:])
    assert len(jobs) == run.calls
    (record,) = sink.runs
    executed = Counter(name for name, _ in distinct)
    asked = Counter(name for name, _ in jobs)
    assert (len(jobs), executed, asked - executed, {}, {}, 0, "completed") == (
        record.calls,
        record.executed,
        record.joined,
        record.replayed,
        record.refused,
        record.events,
        record.reason,
    )
    assert [] == sink.repeats
    assert [] == sink.warnings


# -- one response, spread in every way a framework spreads it -----------------------------------


def by_thread(run: Run, tools: Tools, jobs: list[Job]) -> list[Any]:
    """Make the calls in bare threads, each with a share of the plan, through bind."""
    values: list[Any] = [None] * len(jobs)
    bound = {name: run.bind(tool) for name, tool in tools.by_name.items()}

    def work(index: int) -> None:
        for place in range(index, len(jobs), THREADS):
            name, key = jobs[place]
            values[place] = bound[name](key)

    assert [] == in_threads(THREADS, work)
    return values


def by_pool(run: Run, tools: Tools, jobs: list[Job]) -> list[Any]:
    """Submit each call to a pool, through bind."""
    with ThreadPoolExecutor(THREADS) as pool:
        futures = [pool.submit(run.bind(tools.by_name[name]), key) for name, key in jobs]
        return [future.result(LONG) for future in futures]


def by_dispatch(run: Run, tools: Tools, jobs: list[Job]) -> list[Any]:
    """Dispatch each call by name from a pool, each under a call id of its own."""

    def work(numbered: tuple[int, Job]) -> Any:
        number, (name, key) = numbered
        return run.dispatch(name, {"key": key}, call_id=f"id-{number}")

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(work, enumerate(jobs)))


def by_to_thread(run: Run, tools: Tools, jobs: list[Job]) -> list[Any]:
    """Await each call with `asyncio.to_thread`, which carries the run by itself."""

    async def main() -> list[Any]:
        return await asyncio.gather(
            *(asyncio.to_thread(tools.by_name[name], key) for name, key in jobs)
        )

    return asyncio.run(main())


@pytest.mark.parametrize("spread", [by_thread, by_pool, by_dispatch, by_to_thread])
def test_threads_share_the_calls_of_one_turn(spread: Callable[..., list[Any]]) -> None:
    """Eight threads make 400 calls of 40 kinds: each kind runs once, each caller has its value."""
    tools, sink, jobs = Tools(), MemorySink(), plan(("get", "text"), 400)
    with Run(registry=tools.registry, events=sink) as run:
        run.turn()
        values = spread(run, tools, jobs)
    check(jobs, values, tools, run, sink)


def test_tasks_of_one_gather_share_their_calls() -> None:
    """Two hundred awaits in one gather: each kind runs once, each caller has its value."""
    tools, sink, jobs = Tools(), MemorySink(), plan(("aget", "atext"), TASKS)

    async def main() -> tuple[list[Any], Run]:
        async with Run(registry=tools.registry, events=sink) as run:
            run.turn()
            values = await asyncio.gather(*(tools.by_name[name](key) for name, key in jobs))
        return values, run

    values, run = asyncio.run(main())
    check(jobs, values, tools, run, sink)


@needs_task_group
def test_tasks_of_one_group_share_their_calls() -> None:
    """Two hundred tasks of a group: each kind runs once, each caller has its value."""
    tools, sink, jobs = Tools(), MemorySink(), plan(("aget", "atext"), TASKS)

    async def main() -> tuple[list[Any], Run]:
        async with Run(registry=tools.registry, events=sink) as run:
            run.turn()
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(tools.by_name[name](key)) for name, key in jobs]
        return [task.result() for task in tasks], run

    values, run = asyncio.run(main())
    check(jobs, values, tools, run, sink)


def test_loops_in_several_threads_share_their_calls() -> None:
    """Event loops of eight threads serve one run; waiters wake in their own loop."""
    tools, sink, jobs = Tools(), MemorySink(), plan(("aget", "atext"), TASKS)
    values: list[Any] = [None] * len(jobs)

    with Run(registry=tools.registry, events=sink) as run:
        run.turn()

        def work(index: int) -> None:
            async def main() -> None:
                places = range(index, len(jobs), THREADS)
                calls = [run.bind(tools.by_name[jobs[n][0]])(jobs[n][1]) for n in places]
                for place, value in zip(places, await asyncio.gather(*calls), strict=True):
                    values[place] = value

            asyncio.run(main())

        assert [] == in_threads(THREADS, work)
    check(jobs, values, tools, run, sink)


def test_different_calls_do_not_meet() -> None:
    """Without turns, threads with arguments of their own all execute, and nothing joins."""
    tools, sink = Tools(), MemorySink()
    with Run(registry=tools.registry, events=sink) as run:
        get = run.bind(tools.by_name["get"])

        def work(index: int) -> None:
            for number in range(100):
                assert {"rows": [f"{index}.{number}"]} == get(f"{index}.{number}")

        assert [] == in_threads(THREADS, work)
    (record,) = sink.runs
    assert (800, {"get": 800}, {}, 0) == (
        run.calls,
        record.executed,
        record.joined,
        record.events,
    )
    assert {1} == set(tools.ran.values())


def test_cancelled_tasks_do_not_disturb_the_others() -> None:
    """A third of 200 tasks are cancelled at random moments; the rest all get their values."""
    tools, sink, jobs = Tools(), MemorySink(), plan(("aget", "atext"), TASKS)
    dice = random.Random(7)

    async def main() -> tuple[list[Any], set[int]]:
        async with Run(registry=tools.registry, events=sink, policy=ENDLESS) as run:
            run.turn()
            tasks = [asyncio.create_task(tools.by_name[name](key)) for name, key in jobs]
            cancelled = set(dice.sample(range(len(jobs)), len(jobs) // 3))
            for place in sorted(cancelled, key=lambda _: dice.random()):
                tasks[place].cancel()
                if dice.random() < 0.3:
                    await asyncio.sleep(0)
            values = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), LONG)
        return values, cancelled

    values, cancelled = asyncio.run(main())
    for place, (job, value) in enumerate(zip(jobs, values, strict=True)):
        if isinstance(value, asyncio.CancelledError):
            assert place in cancelled
        else:
            assert expected(job) == value
    (record,) = sink.runs
    assert [] == sink.repeats
    assert [] == sink.warnings
    # A call that was cancelled before it began was never made.
    assert record.calls <= len(jobs)
    assert sum(record.executed.values()) == sum(tools.ran.values())
    assert record.calls == sum(record.executed.values()) + sum(record.joined.values())


class Kill(BaseException):
    """Kills a thread's call as a framework's own signal would."""


def test_killed_owners_do_not_disturb_their_waiters() -> None:
    """Owners are killed at random in eight threads; every other call of the turn has its value."""
    dice, lock, sink = random.Random(7), threading.Lock(), MemorySink()
    killed: Counter[str] = Counter()
    ran: Counter[str] = Counter()

    @guarded_tool(registry=Registry())
    def get(key: str) -> list[str]:
        with lock:
            ran[key] += 1
            dies = dice.random() < 0.6
            killed[key] += dies
        if dies:
            raise Kill
        return [key]

    deaths = Counter[str]()
    with Run(events=sink) as run:
        bound = run.bind(get)

        def work(index: int) -> None:
            for number in range(150):
                key = f"{number}"
                try:
                    assert [key] == bound(key)
                except Kill:
                    with lock:
                        deaths[key] += 1

        run.turn()
        assert [] == in_threads(THREADS, work)
    assert +killed == deaths
    assert all(ran[key] <= killed[key] + 1 for key in ran)
    (record,) = sink.runs
    assert (1200, 0) == (record.calls, record.events)
    assert sum(ran.values()) == record.executed["get"]
    assert 1200 - sum(ran.values()) == record.joined.get("get", 0)


@interpreted_only
@pytest.mark.parametrize("where", ["engine", "firsts"])
@pytest.mark.parametrize("fails", [False, True])
def test_a_fault_of_the_guard_leaves_no_waiter_behind(
    monkeypatch: pytest.MonkeyPatch, where: str, fails: bool
) -> None:
    """When the guard fails on a write, its waiters share what came of it: it is done once."""
    entered, go, done, came = threading.Event(), threading.Event(), [], []
    sink = MemorySink()

    @guarded_tool(registry=Registry(), effect="write")
    def write(key: str) -> str:
        done.append(key)
        entered.set()
        assert go.wait(LONG)
        if fails:
            raise LookupError("no")
        return "receipt"

    def fault(*_: Any, **__: Any) -> Any:
        raise RuntimeError("the guard's own fault")

    with Run(events=sink) as run:
        if where == "firsts":
            # A first call of a tool that the run knows already takes the short way.
            go.set()
            with contextlib.suppress(LookupError):
                write("other")
            go.clear()
            entered.clear()
            done.clear()
            monkeypatch.setattr(FirstCalls, "settle", lambda *_: False)
        for name in ("settle", "settle_error"):
            monkeypatch.setattr(run._engine, name, fault)
        bound, before = run.bind(write), run.calls

        def work(index: int) -> None:
            try:
                came.append(bound("a"))
            except LookupError as error:
                came.append(str(error))

        def let_go() -> None:
            assert entered.wait(LONG)
            while run.calls < before + 3:
                time.sleep(0.001)
            go.set()

        opener = threading.Thread(target=let_go, daemon=True)
        opener.start()
        assert [] == in_threads(3, work)
        opener.join(LONG)
        assert run._engine.may_leave()
    assert ["no" if fails else "receipt"] * 3 == came
    assert ["a"] == done
    assert 1 == len(sink.warnings)


def test_observations_are_drained_once() -> None:
    """Threads that drain at the same time share the observations; none is lost or doubled."""
    tools, sink, seen = Tools(), MemorySink(), []
    with Run(registry=tools.registry, policy=ENDLESS, events=sink) as run:
        text = run.bind(tools.by_name["text"])

        def work(index: int) -> None:
            for number in range(60):
                text(f"{index}.{number}")
                text(f"{index}.{number}")
                seen.extend(run.observations())

        assert [] == in_threads(THREADS, work)
        seen.extend(run.observations())
    assert 480 == len(seen) == len({id(observation) for observation in seen})
    assert 480 == len(sink.repeats) == sink.runs[0].events


def test_many_runs_at_once_count_for_themselves() -> None:
    """Runs in sixteen threads over the same tools never see each other."""
    tools = Tools()
    counts: list[int] = []

    def work(index: int) -> None:
        for _ in range(20):
            with Run(registry=tools.registry) as run:
                for key in ("a", "b", "a", "b"):
                    tools.by_name["text"](key)
                assert not run.stuck
            counts.append(run.calls)

    assert [] == in_threads(16, work)
    assert [4] * 320 == counts
    assert {("text", "a"): 320, ("text", "b"): 320} == tools.ran


def test_one_exit_ends_the_run_for_every_thread() -> None:
    """Once one thread finds the run stuck, no thread executes anything any more."""
    registry, lock = Registry(), threading.Lock()
    late: list[str] = []
    ended = threading.Event()

    @guarded_tool(registry=registry)
    def get(key: str) -> str:
        if ended.is_set():
            late.append(key)
        return key

    with Run(registry=registry, on_stuck="flag") as run:
        bound = run.bind(get)
        answers: Counter[str] = Counter()

        def work(index: int) -> None:
            for number in range(200):
                if index == 0 and number == 100:
                    for _ in range(3):
                        bound("loop")
                    assert run.stuck
                    ended.set()
                known = ended.is_set()
                answer = bound(f"{index}.{number}")
                with lock:
                    answers["ended" if "has ended" in answer else "ran"] += 1
                assert not known or "has ended" in answer

        assert [] == in_threads(THREADS, work)
    # A call admitted just before the end may still enter its body after it.
    assert len(late) < THREADS
    assert 1600 == sum(answers.values())


# -- stress ------------------------------------------------------------------------------------


class World:
    """Values with versions, and tools that read, write, watch, append and fail."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.version: Counter[str] = Counter()
        self.written: Counter[str] = Counter()
        self.executed: Counter[str] = Counter()
        # The newest version whose write has been answered: no read that begins later may miss it.
        self.settled: Counter[str] = Counter()
        registry = self.registry = Registry()

        @guarded_tool(registry=registry)
        def read(key: str) -> dict[str, int]:
            with self.lock:
                self.executed["read"] += 1
                return {"version": self.version[key]}

        @guarded_tool(registry=registry, effect="write")
        def write(key: str, value: int) -> int:
            with self.lock:
                self.executed["write"] += 1
                self.version[key] += 1
                self.written[f"{key}={value}"] += 1
                return self.version[key]

        @guarded_tool(registry=registry, effect="live")
        def clock() -> int:
            with self.lock:
                self.executed["clock"] += 1
                return self.executed["clock"] // 10

        @guarded_tool(registry=registry, repeatable=True)
        def append(key: str) -> int:
            with self.lock:
                self.executed["append"] += 1
                return self.executed["append"]

        @guarded_tool(registry=registry)
        def fail(key: str) -> None:
            with self.lock:
                self.executed["fail"] += 1
            raise LookupError(f"no {key}")

        @guarded_tool(registry=registry)
        def flaky(key: str) -> str:
            with self.lock:
                self.executed["flaky"] += 1
                number = self.executed["flaky"]
            if number % 3:
                raise TimeoutError(f"after {number} ms")
            return key

        self.tools = {
            "read": read,
            "write": write,
            "clock": clock,
            "append": append,
            "fail": fail,
            "flaky": flaky,
        }

    def read(self, call: Callable[..., Any], key: str) -> None:
        with self.lock:
            least = self.settled[key]
        seen = call(key)["version"]
        assert seen >= least, f"{key}: version {seen} was served after {least} had been answered"

    def write(self, call: Callable[..., Any], key: str, value: int) -> None:
        receipt = call(key, value)
        with self.lock:
            self.settled[key] = max(self.settled[key], receipt)


def add_up(record: RunRecord, world: World, run: Run) -> None:
    """Check the totals of a run that never ended by itself."""
    assert dict(world.executed) == dict(record.executed)
    assert run.calls == record.calls
    assert record.calls == sum(
        sum(column.values())
        for column in (record.executed, record.replayed, record.joined, record.refused)
    )
    assert "completed" == record.reason


def step(world: World, bound: dict[str, Any], dice: random.Random, write: tuple[str, int]) -> None:
    """Make one random call; what the failing tools raise is theirs."""
    choice, key = dice.randrange(12), f"k{dice.randrange(4)}"
    if choice < 5:
        world.read(bound["read"], key)
    elif choice < 7:
        world.write(bound["write"], *write)
    elif choice == 7:
        assert isinstance(bound["clock"](), int)
    elif choice == 8:
        assert isinstance(bound["append"](key), int)
    elif choice < 11:
        with pytest.raises(LookupError, match=f"no {key}"):
            bound["fail"](key)
    else:
        try:
            assert key == bound["flaky"](key)
        except TimeoutError:
            pass


def test_stress_with_one_write_an_epoch() -> None:
    """16 threads, 300 random calls each, in ten stretches with one write each: it is done once."""
    world, sink, stretches = World(), MemorySink(), 10
    writes = [(f"k{number % 4}", number % 3) for number in range(stretches)]
    done: list[Counter[str]] = []
    with Run(registry=world.registry, policy=ENDLESS, events=sink) as run:
        bound = {name: run.bind(tool) for name, tool in world.tools.items()}

        def between() -> None:
            done.append(Counter(world.written))
            run.progress()

        together = threading.Barrier(16, action=between)

        def work(index: int) -> None:
            dice = random.Random(7 + index)
            for number in range(stretches):
                for _ in range(30):
                    step(world, bound, dice, writes[number])
                    if dice.random() < 0.05:
                        run.turn()
                together.wait(LONG)

        assert [] == in_threads(16, work)
    assert 4800 == run.calls
    so_far: Counter[str] = Counter()
    for (key, value), after in zip(writes, done, strict=True):
        so_far[f"{key}={value}"] += 1
        assert so_far == after
    add_up(sink.runs[0], world, run)
    assert [] == sink.warnings
    assert len(sink.repeats) == sink.runs[0].events


@pytest.mark.parametrize("turns", [False, True])
def test_stress_with_writes_that_race(turns: bool) -> None:
    """16 threads, 300 random calls each, writes against writes: no stale read, exact sums."""
    world, sink = World(), MemorySink(limit=100_000)
    with Run(registry=world.registry, policy=ENDLESS, events=sink) as run:
        bound = {name: run.bind(tool) for name, tool in world.tools.items()}

        def work(index: int) -> None:
            dice = random.Random(7 + index)
            for _ in range(300):
                step(world, bound, dice, (f"k{dice.randrange(4)}", dice.randrange(2)))
                if turns and dice.random() < 0.1:
                    run.turn()

        assert [] == in_threads(16, work)
    assert 4800 == run.calls
    add_up(sink.runs[0], world, run)
    assert [] == sink.warnings
    assert len(sink.repeats) == sink.runs[0].events
    # Between two runs of one write another one has succeeded.
    total = sum(world.written.values())
    for times in world.written.values():
        assert times <= total - times + 1


def test_stress_of_tasks() -> None:
    """200 tasks with random reads, writes and pauses under one run: no stale read, exact sums."""
    versions: Counter[str] = Counter()
    settled: Counter[str] = Counter()
    executed: Counter[str] = Counter()
    registry, sink = Registry(), MemorySink()

    @guarded_tool(registry=registry)
    async def read(key: str, pause: int) -> int:
        executed["read"] += 1
        seen = versions[key]
        for _ in range(pause):
            await asyncio.sleep(0)
        return seen

    @guarded_tool(registry=registry, effect="write")
    async def write(key: str, value: int) -> int:
        executed["write"] += 1
        for _ in range(value):
            await asyncio.sleep(0)
        versions[key] += 1
        await asyncio.sleep(0)
        return versions[key]

    async def task(index: int) -> None:
        dice = random.Random(7 + index)
        for _ in range(20):
            key = f"k{dice.randrange(3)}"
            if dice.random() < 0.6:
                least = settled[key]
                assert await read(key, dice.randrange(4)) >= least
            else:
                receipt = await write(key, dice.randrange(3))
                settled[key] = max(settled[key], receipt)
            await asyncio.sleep(0)

    async def main() -> Run:
        async with Run(registry=registry, policy=ENDLESS, events=sink) as run:
            await asyncio.wait_for(asyncio.gather(*(task(n) for n in range(TASKS))), LONG)
        return run

    run = asyncio.run(main())
    (record,) = sink.runs
    assert 4000 == run.calls == record.calls
    assert dict(executed) == dict(record.executed)
    assert 4000 == sum(
        sum(column.values())
        for column in (record.executed, record.replayed, record.joined, record.refused)
    )
