"""Which run guards a call: nested runs, tools in tools, threads, callbacks, foreign contexts."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from repeatguard_sdk._registry import Registry
from repeatguard_sdk._run import Run
from repeatguard_sdk._scope import StuckSignal, active, call_ids
from repeatguard_sdk._tool import guarded_tool
from repeatguard_sdk.exceptions import RunStateError

LONG = 20.0


class Tools:
    """A sync and an async read that note when they run."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.ran: list[str] = []

        @guarded_tool(registry=self.registry)
        def look(key: str) -> str:
            self.ran.append(key)
            return f"seen {key}"

        @guarded_tool(registry=self.registry)
        async def alook(key: str) -> str:
            self.ran.append(key)
            await asyncio.sleep(0)
            return f"seen {key}"

        self.look, self.alook = look, alook


@pytest.fixture
def tools() -> Tools:
    """Return fresh tools."""
    return Tools()


@contextlib.contextmanager
def whole(run: Run) -> Iterator[Run]:
    """Open a run whose block must be left by its end: an exit would skip the rest of the test."""
    with run:
        yield run
    assert run.outcome is not None
    assert "stuck" != run.outcome.reason, run.outcome.summary


def in_thread(function: Callable[[], Any]) -> Any:
    """Call a function in a bare thread and return what it returned or raised."""
    came: list[Any] = []

    def target() -> None:
        try:
            came.append(function())
        except BaseException as error:
            came.append(error)

    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    thread.join(LONG)
    assert not thread.is_alive(), "the call never came back"
    return came[0]


# -- the life of a run -------------------------------------------------------------------------


def test_a_run_is_entered_once() -> None:
    """A run that is open or has ended cannot be entered, and the error says what to do."""
    run = Run()
    with run, pytest.raises(RunStateError, match=r"is open; .* make a new Run\(\.\.\.\)"):
        run.__enter__()
    with pytest.raises(RunStateError, match=r"is ended; .* make a new Run\(\.\.\.\)"), run:
        pass


USES: list[tuple[str, Callable[[Run], Any]]] = [
    ("turn", lambda run: run.turn()),
    ("user_message", lambda run: run.user_message("hello")),
    ("progress", lambda run: run.progress()),
    ("compacted", lambda run: run.compacted()),
    ("know", lambda run: run.know(order_id="A")),
    ("refused", lambda run: run.refused("look", {"key": "a"}, "denied")),
    ("dispatch", lambda run: run.dispatch("look", {"key": "a"})),
    ("dispatch", lambda run: asyncio.run(run.adispatch("look", {"key": "a"}))),
]


@pytest.mark.parametrize(("name", "use"), USES)
def test_a_run_before_its_block_says_what_to_do(
    tools: Tools, name: str, use: Callable[[Run], Any]
) -> None:
    """What the host tells a run before its block is an error that names the block."""
    run = Run(registry=tools.registry)
    with pytest.raises(RunStateError, match=rf"run\.{name}\(\).*inside `with Run\(\.\.\.\)"):
        use(run)
    assert [] == tools.ran
    assert 0 == run.calls


@pytest.mark.parametrize(("name", "use"), USES)
def test_a_run_after_its_end_says_what_to_do(
    tools: Tools, name: str, use: Callable[[Run], Any]
) -> None:
    """What the host tells a run after its end is an error that asks for a new one."""
    with Run(registry=tools.registry) as run:
        pass
    with pytest.raises(RunStateError, match=rf"run\.{name}\(\).*has ended; .*new Run\(\.\.\.\)"):
        use(run)
    assert [] == tools.ran
    assert 0 == run.calls


def test_a_run_can_be_asked_at_any_time(tools: Tools) -> None:
    """Counts, outcome, observations and keys can be read before, in and after the block."""
    run = Run(registry=tools.registry)
    for _ in range(2):
        assert (0, False, False, []) == (run.calls, run.stuck, run.over, run.observations())
        assert run.key_of(tools.look, "a") == run.key_of("look", key="a")
        assert run.last_decision is None
        if run.outcome is None:
            with run:
                assert run.outcome is None
    assert run.outcome is not None
    assert "completed" == run.outcome.reason


def test_async_with_is_the_same_block(tools: Tools) -> None:
    """`async with Run()` guards, leaves on the third identical call and tells the outcome."""

    async def main() -> Run:
        async with Run(registry=tools.registry) as run:
            for _ in range(5):
                await tools.alook("a")
        return run

    run = asyncio.run(main())
    assert (True, 3) == (run.stuck, run.calls)
    assert ["a"] == tools.ran
    assert active.get() is None


def test_outside_a_run_a_tool_is_the_plain_tool(tools: Tools) -> None:
    """Without a run, before one and after one, every call runs."""
    for _ in range(4):
        tools.look("a")
    with Run(registry=tools.registry) as run:
        pass
    for _ in range(4):
        tools.look("a")
    assert 8 == len(tools.ran)
    assert 0 == run.calls


# -- nested runs -------------------------------------------------------------------------------


def test_nested_runs_do_not_meet(tools: Tools) -> None:
    """Inner calls count in the inner run only, and the outer one goes on where it was."""
    with whole(Run(registry=tools.registry)) as outer:
        tools.look("a")
        with whole(Run(registry=tools.registry)) as inner:
            tools.look("a")
            tools.look("a")
        assert (1, 2) == (outer.calls, inner.calls)
        tools.look("a")
        assert outer.last_decision is not None
        assert ("replay", 2) == (outer.last_decision.decision, outer.last_decision.count)
    assert ["a", "a"] == tools.ran
    assert active.get() is None


def test_an_inner_exit_leaves_the_inner_block_only(tools: Tools) -> None:
    """The inner run's end does not end the outer one."""
    with whole(Run(registry=tools.registry)) as outer:
        with Run(registry=tools.registry) as inner:
            for _ in range(3):
                tools.look("a")
        assert inner.stuck
        assert not outer.over
        tools.look("b")
    assert 1 == outer.calls


def test_the_outer_signal_passes_the_inner_block_untouched(tools: Tools) -> None:
    """The signal of the outer run is no business of the inner one; the outer block takes it."""
    reached = False
    with Run(registry=tools.registry) as outer:
        look = outer.bind(tools.look)
        with (
            pytest.raises(StuckSignal) as caught,
            Run(registry=tools.registry) as inner,
        ):  # the third call leaves both
            [look("a") for _ in range(3)]
        assert caught.value.run is outer
        assert not inner.stuck
        reached = True
        raise caught.value
    assert reached
    assert outer.stuck
    assert inner.outcome is not None
    assert "failed" == inner.outcome.reason


def test_two_runs_in_two_tasks_never_see_each_other(tools: Tools) -> None:
    """Runs of sibling tasks count for themselves while they interleave."""

    async def one() -> Run:
        with Run(registry=tools.registry) as run:
            for _ in range(2):
                await tools.alook("a")
                await asyncio.sleep(0)
        return run

    async def main() -> list[Run]:
        return list(await asyncio.gather(*(one() for _ in range(20))))

    runs = asyncio.run(main())
    assert [2] * 20 == [run.calls for run in runs]
    assert [False] * 20 == [run.stuck for run in runs]
    assert ["a"] * 20 == tools.ran


def test_blocks_that_end_crosswise(tools: Tools) -> None:
    """The inner run guards on after the outer one's end, and its own brings back the outermost."""
    with whole(Run(registry=tools.registry)) as outermost:
        first, second = Run(registry=tools.registry), Run(registry=tools.registry)
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        tools.look("a")
        tools.look("a")
        assert (0, 0, 2) == (outermost.calls, first.calls, second.calls)
        second.__exit__(None, None, None)
        tools.look("b")
        assert (1, 0, 2) == (outermost.calls, first.calls, second.calls)
    assert active.get() is None
    assert ["a", "b"] == tools.ran


def test_generators_that_interleave_their_runs(tools: Tools) -> None:
    """Two generators with a run each, stepped and closed in turn, leave no run behind."""

    def agent() -> Iterator[Run]:
        with Run(registry=tools.registry) as run:
            yield run

    first, second = agent(), agent()
    one, two = next(first), next(second)
    first.close()
    tools.look("a")
    second.close()
    tools.look("b")
    assert (0, 1) == (one.calls, two.calls)
    assert active.get() is None


# -- tools inside tools ------------------------------------------------------------------------


@pytest.mark.parametrize("through", ["call", "to_thread", "task", "dispatch", "bind", "pool"])
def test_a_tool_that_calls_a_tool_is_one_call(tools: Tools, through: str) -> None:
    """Only the outermost tool call is guarded, however the inner one is reached."""
    registry = tools.registry

    @guarded_tool(registry=registry)
    async def report(key: str) -> list[str]:
        found = []
        for _ in range(4):
            if through == "call":
                found.append(tools.look(key))
            elif through == "to_thread":
                found.append(await asyncio.to_thread(tools.look, key))
            elif through == "task":
                found.append(await asyncio.create_task(tools.alook(key)))
            elif through == "dispatch":
                found.append(run.dispatch("look", {"key": key}))
            elif through == "bind":
                found.append(run.bind(tools.look)(key))
            else:
                with ThreadPoolExecutor(1) as pool:
                    found.append(pool.submit(run.bind(tools.look), key).result(LONG))
        return found

    async def main() -> list[str]:
        found: list[str] = await report("a")
        return found

    with whole(Run(registry=registry)) as run:
        assert ["seen a"] * 4 == asyncio.run(main())
        assert 1 == run.calls
        tools.look("a")
        assert 2 == run.calls
    assert ["a"] * 5 == tools.ran


def test_what_was_bound_outside_is_not_guarded_inside(tools: Tools) -> None:
    """A callback bound before the tool call and used in its body is part of that call."""
    registry = tools.registry

    @guarded_tool(registry=registry)
    def report(key: str) -> str:
        return "".join(look(key) for _ in range(4))

    with whole(Run(registry=registry)) as run:
        look = run.bind(tools.look)
        report("a")
        assert 1 == run.calls
        look("a")
        assert 2 == run.calls


@pytest.mark.parametrize("through", ["call", "dispatch", "bind", "thread"])
def test_a_tool_that_calls_itself_alike_does_not_wait_for_itself(through: str) -> None:
    """A tool that asks for its own call again runs; nothing hangs."""
    registry, depth = Registry(), []

    @guarded_tool(registry=registry)
    def again(key: str) -> int:
        depth.append(1)
        if len(depth) >= 3:
            return len(depth)
        if through == "call":
            return again(key)
        if through == "dispatch":
            result: int = run.dispatch("again", {"key": key})
            return result
        if through == "bind":
            return run.bind(again)(key)
        deeper: int = in_thread(functools.partial(run.bind(again), key))
        return deeper

    with whole(Run(registry=registry)) as run:
        assert 3 == in_thread(lambda: run.bind(again)("a"))
        assert 1 == run.calls


def test_recursion_over_other_arguments() -> None:
    """A recursive tool is one call of the model, whatever it asks of itself."""

    @guarded_tool(registry=Registry())
    def fib(n: int) -> int:
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    with whole(Run()) as run:
        assert 55 == fib(10)
        assert 1 == run.calls
        assert 55 == fib(10)
        assert run.last_decision is not None
        assert "replay" == run.last_decision.decision


def test_a_tool_that_raises_gives_the_run_back(tools: Tools) -> None:
    """After a tool raised, sync or async, the next call is guarded again."""

    @guarded_tool(registry=tools.registry)
    def fail() -> None:
        raise LookupError("no")

    @guarded_tool(registry=tools.registry)
    async def afail() -> None:
        await asyncio.sleep(0)
        raise LookupError("no")

    async def main() -> None:
        with whole(Run(registry=tools.registry)) as run:
            with pytest.raises(LookupError, match="no"):
                fail()
            assert active.get() is run
            with pytest.raises(LookupError, match="no"):
                await afail()
            assert active.get() is run
            tools.look("a")
            assert 3 == run.calls

    asyncio.run(main())


def test_a_run_inside_a_tool_guards_its_own_calls(tools: Tools) -> None:
    """An agent inside a tool has its own run: its loop ends there, the outer run sees one call."""
    inner_runs: list[Run] = []

    @guarded_tool(registry=Registry())
    def agent(task: str) -> str:
        tools.look("before")
        with Run(registry=tools.registry) as inner:
            inner_runs.append(inner)
            for _ in range(9):
                tools.look("a")
        tools.look("after")
        return "gave up" if inner.stuck else "done"

    with whole(Run()) as outer:
        assert "gave up" == agent("t")
        assert 1 == outer.calls
        assert active.get() is outer
    assert 3 == inner_runs[0].calls
    assert ["before", "a", "after"] == tools.ran


def test_an_outer_call_id_is_back_after_an_inner_run(tools: Tools) -> None:
    """A run hides the call id around its block and brings it back at its end."""
    token = call_ids.set("id-1")
    try:
        with Run(registry=tools.registry):
            assert call_ids.get() is None
        assert "id-1" == call_ids.get()
    finally:
        call_ids.reset(token)


# -- threads, pools, callbacks -----------------------------------------------------------------


def test_a_bare_thread_is_not_guarded(tools: Tools) -> None:
    """Context variables do not follow into a thread: without bind the tool is the plain tool."""
    with whole(Run(registry=tools.registry)) as run:
        for _ in range(4):
            in_thread(lambda: tools.look("a"))
        assert 0 == run.calls


def test_bind_carries_a_run_into_a_thread(tools: Tools) -> None:
    """A bound function is guarded in a thread, and the thread's own context is left as it was."""
    with whole(Run(registry=tools.registry)) as run:
        look = run.bind(tools.look)

        def both() -> tuple[str, Any]:
            return look("a"), active.get()

        assert ("seen a", None) == in_thread(both)
        assert ("seen a", None) == in_thread(both)
        assert 2 == run.calls
    assert ["a"] == tools.ran


def test_bind_carries_a_run_into_a_pool(tools: Tools) -> None:
    """Each call a pool makes of a bound function is guarded; the worker is clean afterwards."""
    with ThreadPoolExecutor(2) as pool, whole(Run(registry=tools.registry)) as run:
        look = run.bind(tools.look)
        assert ["seen a", "seen b"] == list(pool.map(look, "ab"))
        assert ["seen a", "seen b"] == list(pool.map(look, "ab"))
        assert [None, None] == [pool.submit(active.get).result(LONG) for _ in range(2)]
        assert 4 == run.calls
    assert ["a", "b"] == sorted(tools.ran)


def test_the_signal_comes_out_of_a_pool(tools: Tools) -> None:
    """The exit raised in a worker reaches the block through the worker's future."""
    with ThreadPoolExecutor(1) as pool:
        with Run(registry=tools.registry) as run:
            for _ in range(5):
                pool.submit(run.bind(tools.look), "a").result(LONG)
        assert (True, 3) == (run.stuck, run.calls)
        assert "free" == pool.submit(lambda: "free").result(LONG)


def test_to_thread_needs_no_bind(tools: Tools) -> None:
    """`asyncio.to_thread` takes the context along, and the exit comes back through it."""

    async def main() -> Run:
        with Run(registry=tools.registry) as run:
            for _ in range(5):
                await asyncio.to_thread(tools.look, "a")
        return run

    run = asyncio.run(main())
    assert (True, 3) == (run.stuck, run.calls)


def test_bind_carries_a_run_into_a_callback(tools: Tools) -> None:
    """A bound callback of an event loop that was made before the run is guarded."""
    came: list[str] = []

    async def main() -> None:
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        bare = contextvars.Context()
        with whole(Run(registry=tools.registry)) as run:
            look = run.bind(lambda: came.append(tools.look("a")))
            loop.call_soon(look, context=bare)
            loop.call_soon(look, context=bare)
            loop.call_soon(done.set)
            await done.wait()
            assert 2 == run.calls
        assert bare.run(active.get) is None

    asyncio.run(main())
    assert ["seen a"] * 2 == came
    assert ["a"] == tools.ran


def test_the_loop_swallows_a_callback_s_signal_and_the_next_call_raises_it(tools: Tools) -> None:
    """An exit that an event loop reports and drops comes again at the next guarded call."""
    reported: list[BaseException] = []

    async def main() -> Run:
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
        with Run(registry=tools.registry) as run:
            for _ in range(3):
                loop.call_soon(run.bind(tools.look), "a")
            loop.call_soon(done.set)
            await done.wait()
            assert run.stuck
            await tools.alook("b")
            raise AssertionError("a run that is stuck went on")
        return run

    run = asyncio.run(main())
    assert [StuckSignal] == [type(error) for error in reported]
    assert run.stuck
    assert ["a"] == tools.ran


def test_bind_of_a_coroutine_function(tools: Tools) -> None:
    """A bound coroutine function is one, and guards in a loop of another thread."""
    with whole(Run(registry=tools.registry)) as run:
        bound = run.bind(tools.alook)
        assert inspect.iscoroutinefunction(bound)
        assert "seen a" == in_thread(lambda: asyncio.run(bound("a")))
        assert "seen a" == in_thread(lambda: asyncio.run(bound("a")))
        assert 2 == run.calls
    assert ["a"] == tools.ran


class Awaiter:
    """A callable object whose call is a coroutine, which no inspection of it tells."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    async def __call__(self) -> str:
        found: str = await self._tools.alook("a")
        return found


def test_bind_of_what_returns_a_coroutine(tools: Tools) -> None:
    """A lambda, a partial or an object whose call makes a coroutine is guarded while that runs."""
    with whole(Run(registry=tools.registry)) as run:
        for made in (
            run.bind(lambda: tools.alook("a")),
            run.bind(functools.partial(tools.alook, "a")),
        ):
            assert "seen a" == in_thread(lambda made=made: asyncio.run(made()))
        assert 2 == run.calls
        run.user_message("once more")
        assert "seen a" == in_thread(lambda: asyncio.run(run.bind(Awaiter(tools))()))
        assert 3 == run.calls
    assert ["a", "a"] == tools.ran


def test_bind_keeps_name_and_arguments(tools: Tools) -> None:
    """A bound function looks like the function and passes on every kind of argument."""

    def handler(first: int, *rest: int, key: str = "k", **more: int) -> Any:
        """Handle it."""
        return first, rest, key, more

    bound = Run().bind(handler)
    assert ("handler", "Handle it.") == (bound.__name__, bound.__doc__)
    assert (1, (2, 3), "x", {"run": 4, "function": 5}) == bound(1, 2, 3, key="x", run=4, function=5)


def test_bind_does_not_look_into_results() -> None:
    """A bound function hands on what no look at it allows."""

    class Shy:
        def __getattribute__(self, name: str) -> Any:
            raise LookupError(name)

    made = Shy()
    assert Run().bind(lambda: made)() is made


def test_bind_after_the_end_guards_nothing(tools: Tools) -> None:
    """A function bound to a run that has ended, or called after its end, is the plain function."""
    with Run(registry=tools.registry) as run:
        early = run.bind(tools.look)
    late = run.bind(tools.look)
    for _ in range(4):
        early("a"), late("a")
    assert 8 == len(tools.ran)
    assert 0 == run.calls


def test_bind_inside_an_inner_run_gives_that_back(tools: Tools) -> None:
    """A function bound to the outer run counts there, and the inner one goes on afterwards."""
    with whole(Run(registry=tools.registry)) as outer:
        with whole(Run(registry=tools.registry)) as inner:
            outer.bind(tools.look)("a")
            assert active.get() is inner
            tools.look("a")
        assert (1, 1) == (outer.calls, inner.calls)


# -- foreign contexts --------------------------------------------------------------------------


def test_an_async_generator_closed_in_another_task(tools: Tools) -> None:
    """A run in an async generator that another task closes ends without an error."""
    runs: list[Run] = []

    async def agent() -> AsyncIterator[str]:
        with Run(registry=tools.registry) as run:
            runs.append(run)
            while True:
                yield await tools.alook("a")

    async def main() -> None:
        stream = agent()
        assert "seen a" == await stream.__anext__()
        await asyncio.create_task(stream.aclose())  # type: ignore[attr-defined]
        assert runs[0].outcome is not None
        # The run leaked into this context, and guards nothing in it.
        for _ in range(4):
            await tools.alook("a")
        assert 1 == runs[0].calls
        with whole(Run(registry=tools.registry)) as run:
            await tools.alook("a")
            assert 1 == run.calls

    asyncio.run(main())
    assert 6 == len(tools.ran)


def test_a_sync_generator_stepped_in_a_thread_pool(tools: Tools) -> None:
    """A run in a generator stepped in fresh contexts ends without an error or a wrong count."""
    runs: list[Run] = []

    def agent() -> Iterator[str]:
        with Run(registry=tools.registry) as run:
            runs.append(run)
            for _ in range(5):
                yield tools.look("a")

    steps: list[str] = []
    stream = agent()
    with ThreadPoolExecutor(1) as pool:
        while True:
            context = contextvars.copy_context()
            step = pool.submit(context.run, next, stream, None).result(LONG)
            if step is None:
                break
            steps.append(step)
    assert ["seen a"] * 5 == steps
    assert runs[0].outcome is not None
    assert "completed" == runs[0].outcome.reason
    # Only its first step saw the run; what is lost is not counted wrongly.
    assert 1 == runs[0].calls
    assert active.get() is None


def test_a_bound_step_keeps_the_run_of_a_generator(tools: Tools) -> None:
    """Bind gives the steps of a generator their run in whatever context they are made."""

    def agent(run: Run) -> Iterator[str]:
        look = run.bind(tools.look)
        with run:
            for _ in range(5):
                yield look("a")

    run = Run(registry=tools.registry)
    stream, steps = agent(run), []
    with ThreadPoolExecutor(1) as pool:
        while step := pool.submit(contextvars.Context().run, next, stream, None).result(LONG):
            steps.append(step)
    assert ["seen a"] * 2 == steps
    assert (True, 3) == (run.stuck, run.calls)


def test_a_block_left_in_a_foreign_context(tools: Tools) -> None:
    """A run entered in one context and left in another ends; neither context guards afterwards."""
    run, context = Run(registry=tools.registry), contextvars.Context()
    context.run(run.__enter__)
    context.run(tools.look, "a")
    run.__exit__(None, None, None)
    assert run.outcome is not None
    for _ in range(4):
        context.run(tools.look, "a")
        tools.look("a")
    assert 1 == run.calls
    assert 9 == len(tools.ran)


def test_a_foreign_exit_leaves_the_run_of_that_context(tools: Tools) -> None:
    """Leaving a run in the context of another one does not take that one away."""
    elsewhere, context = Run(registry=tools.registry), contextvars.Context()
    context.run(elsewhere.__enter__)
    with whole(Run(registry=tools.registry)) as run:
        elsewhere.__exit__(None, None, None)
        assert active.get() is run
        tools.look("a")
        tools.look("a")
    assert ["a"] == tools.ran
    assert (2, 0) == (run.calls, elsewhere.calls)


def test_an_ended_run_that_leaked_hides_no_later_one(tools: Tools) -> None:
    """After a leak, the next run of that context guards, and gives back what was before it."""
    with whole(Run(registry=tools.registry)) as outer:
        leaked = Run(registry=tools.registry)
        leaked.__enter__()
        contextvars.Context().run(leaked.__exit__, None, None, None)
        with whole(Run(registry=tools.registry)) as run:
            tools.look("a")
            assert 1 == run.calls
        tools.look("a")
        assert (1, 0) == (outer.calls, leaked.calls)


def test_a_task_that_outlives_its_run_is_not_guarded(tools: Tools) -> None:
    """A background task started in the block calls the plain tool once the block is left."""

    async def main() -> int:
        go = asyncio.Event()

        async def background() -> None:
            await tools.alook("a")
            await go.wait()
            for _ in range(4):
                await tools.alook("a")

        with Run(registry=tools.registry) as run:
            task = asyncio.create_task(background())
            for _ in range(5):
                await asyncio.sleep(0)
            assert ["a"] == tools.ran
        go.set()
        await task
        return run.calls

    assert 1 == asyncio.run(main())
    assert 5 == len(tools.ran)


def test_a_call_that_lands_after_the_end_changes_nothing(tools: Tools) -> None:
    """A tool still running when the block is left returns its result to its caller."""
    started, go = threading.Event(), threading.Event()

    @guarded_tool(registry=tools.registry)
    def slow() -> str:
        started.set()
        assert go.wait(LONG)
        return "late"

    came: list[str] = []
    with Run(registry=tools.registry) as run:
        slow_call = run.bind(slow)
        thread = threading.Thread(target=lambda: came.append(slow_call()), daemon=True)
        thread.start()
        assert started.wait(LONG)
    outcome = run.outcome
    go.set()
    thread.join(LONG)
    assert ["late"] == came
    assert run.outcome is outcome
    assert 1 == run.calls
