"""How a run ends: the signal and its groups, the three spellings, what waits, the outcome."""

# ruff: noqa: PT012 - it is the whole block of a run that must raise

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from builds import interpreted_only
from repeatguard_sdk._ladder import Ladder
from repeatguard_sdk._outcome import Outcome
from repeatguard_sdk._policy import Policy
from repeatguard_sdk._registry import Registry
from repeatguard_sdk._run import Run
from repeatguard_sdk._scope import StuckSignal
from repeatguard_sdk._telling import Teller
from repeatguard_sdk._tool import guarded_tool
from repeatguard_sdk.events import MemorySink
from repeatguard_sdk.exceptions import RunStateError, StuckError

LONG = 20.0
needs_task_group = pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.TaskGroup")


class Broken(Exception):
    """An error of the block's own."""


class Desk:
    """A few tools that note when they run."""

    def __init__(self) -> None:
        self.registry = registry = Registry()
        self.ran: list[str] = []
        self.started, self.go = threading.Event(), threading.Event()

        @guarded_tool(registry=registry)
        def look(key: str) -> str:
            """Look a key up."""
            self.ran.append(f"look {key}")
            return f"seen {key}"

        @guarded_tool(registry=registry)
        async def alook(key: str) -> str:
            self.ran.append(f"alook {key}")
            await asyncio.sleep(0)
            return f"seen {key}"

        @guarded_tool(registry=registry, effect="write")
        def put(key: str) -> str:
            self.ran.append(f"put {key}")
            if key == "slow":
                self.started.set()
                assert self.go.wait(LONG)
            return f"put {key}"

        @guarded_tool(registry=registry)
        def fail(key: str) -> str:
            self.ran.append(f"fail {key}")
            raise LookupError(f"no {key}")

        @guarded_tool(registry=registry, effect="final")
        def submit(answer: str) -> str:
            """Hand the answer in."""
            self.ran.append(f"submit {answer}")
            if answer == "bad":
                raise ValueError("not accepted")
            return f"accepted {answer}"

        self.look, self.alook, self.put, self.fail, self.submit = look, alook, put, fail, submit

    def run(self, **options: Any) -> Run:
        return Run(registry=self.registry, **options)


@pytest.fixture
def desk() -> Desk:
    """Return fresh tools."""
    return Desk()


def swallow(function: Callable[[], Any]) -> BaseException | None:
    """Call as a framework does that swallows whatever a tool raises."""
    try:
        function()
    except BaseException as error:
        return error
    return None


def outcome_of(run: Run) -> Outcome:
    """Return the outcome of a run that has one."""
    assert run.outcome is not None
    return run.outcome


# -- the three spellings -----------------------------------------------------------------------


def test_exit_leaves_the_block_and_the_outcome_tells(desk: Desk) -> None:
    """By default the third identical call leaves the block; what follows goes on."""
    reached = []
    with desk.run() as run:
        for number in range(9):
            desk.look("a")
            reached.append(number)
    assert [0, 1] == reached
    assert ["look a"] == desk.ran
    assert (True, True, 3) == (run.stuck, run.over, run.calls)
    outcome = outcome_of(run)
    assert ("stuck", "look", 3, 3, False) == (
        outcome.reason,
        outcome.tool,
        outcome.count,
        outcome.calls,
        outcome.failed,
    )
    assert outcome.finding is not None
    assert ("repeat", 3) == (outcome.finding.kind, outcome.finding.count)


def test_raise_raises_at_the_boundary(desk: Desk) -> None:
    """Under "raise" the block is left the same way and `StuckError` is raised at its end."""
    with pytest.raises(StuckError) as caught, desk.run(on_stuck="raise") as run:
        for _ in range(9):
            desk.look("a")
    error = caught.value
    assert error.outcome is run.outcome
    assert str(error) == outcome_of(run).summary
    assert error.__cause__ is None
    assert error.__suppress_context__
    assert ["look a"] == desk.ran


def test_a_stuck_error_travels(desk: Desk) -> None:
    """A `StuckError` survives pickle, copy and deepcopy with its outcome and its text."""
    with pytest.raises(StuckError) as caught, desk.run(on_stuck="raise") as run:
        run.know(order_id="A1")
        swallow(lambda: desk.fail("x"))
        for _ in range(9):
            desk.look("a")
    error = caught.value
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(twin) is StuckError
        assert twin.outcome == error.outcome
        assert str(twin) == str(error)
    assert isinstance(error, Exception)
    assert "look" in str(error)


def test_raise_says_nothing_of_a_run_that_was_not_stuck(desk: Desk) -> None:
    """Under "raise" a run that completes or finishes raises nothing."""
    with desk.run(on_stuck="raise") as run:
        desk.look("a")
    assert "completed" == outcome_of(run).reason
    with desk.run(on_stuck="raise") as run:
        for _ in range(9):
            desk.submit("42")
    assert "finished" == outcome_of(run).reason


def test_raise_raises_although_the_signal_was_swallowed(desk: Desk) -> None:
    """A framework that swallows the signal does not hide the end from the host."""
    with pytest.raises(StuckError), desk.run(on_stuck="raise"):
        for _ in range(4):
            swallow(lambda: desk.look("a"))


def test_flag_raises_nothing(desk: Desk) -> None:
    """Under "flag" every call is answered, `stuck` is true, and the host ends the loop."""
    with desk.run(on_stuck="flag") as run:
        answers = [desk.look("a") for _ in range(6)]
        assert run.stuck
        assert run.over
        assert "stuck" == outcome_of(run).reason
    assert ["seen a"] * 6 == answers
    assert ["look a"] == desk.ran


@pytest.mark.parametrize("on_stuck", ["exit", "raise", "flag"])
def test_an_unknown_spelling_is_refused(on_stuck: str) -> None:
    """The spelling is checked where the run is made, and the error lists the three."""
    assert Run(on_stuck=on_stuck) is not None  # type: ignore[arg-type]
    with pytest.raises(RunStateError, match="'exit', 'raise', 'flag'"):
        Run(on_stuck=f"{on_stuck}s")  # type: ignore[arg-type]


# -- once stuck, always stuck ------------------------------------------------------------------


@pytest.mark.parametrize("on_stuck", ["exit", "raise"])
def test_a_swallowed_signal_comes_again(desk: Desk, on_stuck: Any) -> None:
    """After the end every guarded call and every turn raises the signal again; nothing runs."""
    try:
        with desk.run(on_stuck=on_stuck) as run:
            for _ in range(3):
                swallow(lambda: desk.look("a"))
            for later in (
                lambda: desk.look("a"),
                lambda: desk.look("new"),
                lambda: desk.put("new"),
                lambda: desk.fail("new"),
                lambda: desk.submit("new"),
                lambda: asyncio.run(desk.alook("new")),
                lambda: run.dispatch("look", {"key": "new"}),
                lambda: run.dispatch("nothing", {}),
                lambda: run.turn(),
            ):
                error = swallow(later)
                assert isinstance(error, StuckSignal)
                assert error.run is run
    except StuckError:
        assert "raise" == on_stuck
    assert run.stuck
    assert ["look a"] == desk.ran


def test_under_flag_later_calls_are_answered_and_do_not_run(desk: Desk) -> None:
    """After the end a call has its stored result, its stored error, or a sentence that says so."""
    with desk.run(on_stuck="flag") as run:
        desk.look("before")
        assert isinstance(swallow(lambda: desk.fail("before")), LookupError)
        for _ in range(3):
            desk.look("a")
        ran = list(desk.ran)
        assert "seen before" == desk.look("before")
        assert isinstance(swallow(lambda: desk.fail("before")), LookupError)
        assert "seen a" == desk.look("a")
        for later in (
            desk.look("new"),
            desk.put("new"),
            desk.submit("new"),
            asyncio.run(desk.alook("new")),
            run.dispatch("look", {"key": "newer"}),
        ):
            assert later.startswith("This task has ended: nothing more is run.")
            assert "look" in later
        run.turn()
    assert ran == desk.ran
    assert "stuck" == outcome_of(run).reason


def test_nothing_the_host_tells_brings_a_stuck_run_back(desk: Desk) -> None:
    """A user message, progress or a compaction does not make a run that ended go on."""
    with desk.run(on_stuck="flag") as run:
        for _ in range(3):
            desk.look("a")
        first = outcome_of(run)
        run.user_message("go on")
        run.progress()
        run.compacted()
        desk.look("new"), desk.put("new")
        assert run.stuck
    assert ["look a"] == desk.ran
    assert run.outcome is first


def test_the_first_end_stands(desk: Desk) -> None:
    """Another repetition after the end does not rewrite the outcome."""
    with desk.run(on_stuck="flag") as run:
        for _ in range(3):
            desk.look("a")
        for _ in range(5):
            desk.look("b")
    assert ("look", 3) == (outcome_of(run).tool, outcome_of(run).count)
    assert "seen a" in outcome_of(run).result


def test_the_signal_cannot_be_made_by_hand() -> None:
    """The signal has no public constructor."""
    with pytest.raises(TypeError, match="raised by a run only"):
        StuckSignal()


def test_the_signal_is_no_exception(desk: Desk) -> None:
    """An `except Exception` around the tools, as in most frameworks, does not stop the exit."""
    with desk.run() as run:
        for _ in range(9):
            try:
                desk.look("a")
            except Exception:
                pytest.fail("the signal is no Exception")
    assert run.stuck
    assert 3 == run.calls


def test_a_run_inside_finally_and_with_blocks_is_left_in_order(desk: Desk) -> None:
    """On its way out the signal runs every finally and every context manager of the host."""
    order = []

    class Resource:
        def __enter__(self) -> None:
            order.append("open")

        def __exit__(self, *_: object) -> None:
            order.append("close")

    with desk.run() as run, Resource():
        try:
            for _ in range(9):
                desk.look("a")
        finally:
            order.append("finally")
    assert run.stuck
    assert ["open", "finally", "close"] == order


# -- an exit that has to wait ------------------------------------------------------------------


def _begin_slow_write(desk: Desk, run: Run) -> threading.Thread:
    put = run.bind(desk.put)
    thread = threading.Thread(target=lambda: swallow(lambda: put("slow")), daemon=True)
    thread.start()
    assert desk.started.wait(LONG)
    return thread


def _end_slow_write(desk: Desk, thread: threading.Thread) -> None:
    desk.go.set()
    thread.join(LONG)
    assert not thread.is_alive()


@pytest.mark.parametrize("by", ["call", "turn", "dispatch"])
def test_an_exit_waits_for_a_write_in_flight(desk: Desk, by: str) -> None:
    """While a sibling writes, calls are answered; the next call or turn after it leaves."""
    reached = []
    with desk.run() as run:
        thread = _begin_slow_write(desk, run)
        assert ["seen a"] * 4 == [desk.look("a") for _ in range(4)]
        assert run.stuck
        assert desk.look("new").startswith("This task has ended: nothing more is run.")
        run.turn()
        reached.append("before")
        _end_slow_write(desk, thread)
        if by == "call":
            desk.look("newer")
        elif by == "turn":
            run.turn()
        else:
            run.dispatch("nothing", {})
        reached.append("after")
    assert ["before"] == reached
    assert ["put slow", "look a"] == desk.ran
    assert "stuck" == outcome_of(run).reason


def test_a_read_in_flight_does_not_hold_the_exit_back() -> None:
    """Only what may change the world is waited for."""
    started, go = threading.Event(), threading.Event()

    @guarded_tool(registry=Registry())
    def slow(key: str) -> str:
        if key == "slow":
            started.set()
            assert go.wait(LONG)
        return key

    with Run() as run:
        bound = run.bind(slow)
        thread = threading.Thread(target=lambda: bound("slow"), daemon=True)
        thread.start()
        assert started.wait(LONG)
        for _ in range(4):
            slow("a")
    go.set()
    thread.join(LONG)
    assert (True, 4) == (run.stuck, run.calls)


def test_a_cancelled_write_lets_the_exit_go(desk: Desk) -> None:
    """A write that was cancelled is no longer in flight."""

    @guarded_tool(registry=desk.registry, effect="write")
    async def aput(key: str) -> str:
        await asyncio.Event().wait()
        return key

    async def main() -> Run:
        with desk.run() as run:
            task = asyncio.create_task(aput("a"))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            for _ in range(4):
                desk.look("a")
        return run

    run = asyncio.run(main())
    assert (True, 4) == (run.stuck, run.calls)


@interpreted_only
def test_a_fault_of_the_guard_does_not_hold_the_exit_back(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that landed before the guard failed is in flight no longer."""
    reports = iter(range(1_000))
    report = Teller.report

    def faulty(teller: Teller, call: Any) -> None:
        if next(reports) == 1:
            raise OSError("the report failed")
        report(teller, call)

    monkeypatch.setattr(Teller, "report", faulty)

    @guarded_tool(registry=desk.registry, effect="write")
    def refuse(key: str) -> str:
        raise LookupError(f"no {key}")

    sink = MemorySink()
    with desk.run(events=sink) as run:
        for _ in range(2):
            assert isinstance(swallow(lambda: refuse("a")), LookupError)
        for _ in range(5):
            desk.look("b")
    assert [OSError] == [type(warning.fault) for warning in sink.warnings]
    assert (True, 5) == (run.stuck, run.calls)


def test_a_host_s_function_that_fails_does_not_fail_the_block(desk: Desk) -> None:
    """An order of the options that raises neither stops the exit nor comes out of the block."""

    def broken(options: Any) -> Any:
        raise OSError("the host's own function failed")

    with desk.run(policy=Policy(options=broken), events=MemorySink()) as run:
        for _ in range(5):
            desk.look("b")
    assert (True, 3) == (run.stuck, run.calls)
    assert "look" in outcome_of(run).summary


def test_a_deferred_exit_under_raise_still_raises(desk: Desk) -> None:
    """A block that ends by itself before the signal could be raised ends stuck all the same."""
    with pytest.raises(StuckError), desk.run(on_stuck="raise") as run:
        thread = _begin_slow_write(desk, run)
        for _ in range(4):
            desk.look("a")
        _end_slow_write(desk, thread)
    assert run.stuck


# -- groups and tasks --------------------------------------------------------------------------


def group_class() -> Any:
    """Return the class of exception groups, from the backport on Python 3.10."""
    if sys.version_info >= (3, 11):
        return BaseExceptionGroup  # noqa: F821
    return pytest.importorskip("exceptiongroup").BaseExceptionGroup


def signal_of(run: Run, look: Callable[[str], Any]) -> BaseException:
    """Bring a run to its end and return the signal."""
    for _ in range(2):
        look("a")
    error = swallow(lambda: look("a"))
    assert isinstance(error, StuckSignal)
    return error


def test_the_signal_alone_in_a_group_is_swallowed(desk: Desk) -> None:
    """A group, also of groups, that holds nothing but the signal leaves the block quietly."""
    group = group_class()
    with desk.run() as run:
        signal = signal_of(run, desk.look)
        raise group("tasks", [group("inner", [signal]), signal])
    assert run.stuck
    assert "" == outcome_of(run).error


@pytest.mark.parametrize("on_stuck", ["exit", "raise", "flag"])
def test_what_is_beside_the_signal_in_a_group_is_raised(desk: Desk, on_stuck: Any) -> None:
    """Other errors of the group stay a group and propagate, without the signal."""
    group, broken, other = group_class(), Broken("disk"), Broken("net")
    with pytest.raises(group) as caught, desk.run(on_stuck=on_stuck) as run:
        if on_stuck == "flag":
            for _ in range(3):
                desk.look("a")
            signal: BaseException = StuckSignal.of(run)
        else:
            signal = signal_of(run, desk.look)
        raise group("tasks", [broken, group("inner", [signal, other]), signal])
    leaves: list[BaseException] = []

    def collect(error: BaseException) -> None:
        if isinstance(error, group):
            for inner in error.exceptions:
                collect(inner)
        else:
            leaves.append(error)

    collect(caught.value)
    assert [broken, other] == leaves
    assert "stuck" == outcome_of(run).reason


def test_a_group_with_another_run_s_signal_passes(desk: Desk) -> None:
    """A run takes its own signal out of a group; the rest finds its own run."""
    group = group_class()
    with desk.run() as outer:
        first = signal_of(outer, outer.bind(desk.look))
        with desk.run() as inner:
            second = signal_of(inner, desk.look)
            raise group("tasks", [first, second])
        raise AssertionError("the outer signal was lost")
    assert inner.stuck
    assert outer.stuck


def test_a_group_without_a_signal_is_a_failure(desk: Desk) -> None:
    """A group of the block's own errors propagates as it is."""
    group = group_class()
    made = group("tasks", [Broken("disk")])
    with pytest.raises(group) as caught, desk.run() as run:
        raise made
    assert caught.value is made
    assert "failed" == outcome_of(run).reason


@needs_task_group
def test_the_exit_comes_out_of_a_task_group(desk: Desk) -> None:
    """The signal of a task cancels its siblings and leaves the block, out of the group."""
    cancelled = []

    async def sibling() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(1)
            raise

    async def main() -> Run:
        async with desk.run() as run, asyncio.TaskGroup() as group:
            group.create_task(sibling())
            for _ in range(4):
                group.create_task(looping())
        return run

    async def looping() -> None:
        for _ in range(9):
            await desk.alook("a")
            await asyncio.sleep(0)

    run = asyncio.run(main())
    assert run.stuck
    assert [1] == cancelled
    assert ["alook a"] == desk.ran


@needs_task_group
def test_an_error_beside_the_exit_comes_out_of_a_task_group(desk: Desk) -> None:
    """When a task fails while another leaves the run, the failure is raised."""

    async def failing() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise Broken("while it was cancelled")

    async def looping() -> None:
        for _ in range(9):
            await desk.alook("a")

    async def main(run: Run) -> None:
        async with run, asyncio.TaskGroup() as group:
            group.create_task(failing())
            group.create_task(looping())

    run = desk.run()
    with pytest.raises(group_class()) as caught:
        asyncio.run(main(run))
    assert [Broken] == [type(error) for error in caught.value.exceptions]
    assert "stuck" == outcome_of(run).reason


@needs_task_group
def test_a_write_of_a_sibling_task_is_not_cancelled_by_the_exit(desk: Desk) -> None:
    """The exit waits for the sibling's write, so the group does not cancel it halfway."""
    done: list[str] = []

    @guarded_tool(registry=desk.registry, effect="write")
    async def aput(key: str) -> str:
        for _ in range(20):
            await asyncio.sleep(0)
        done.append(key)
        return key

    async def looping() -> None:
        await asyncio.sleep(0)
        for _ in range(40):
            await desk.alook("a")
            await asyncio.sleep(0)

    async def main() -> Run:
        async with desk.run() as run, asyncio.TaskGroup() as group:
            group.create_task(aput("k"))
            group.create_task(looping())
        return run

    run = asyncio.run(main())
    assert ["k"] == done
    assert run.stuck


def test_the_exit_comes_out_of_gather(desk: Desk) -> None:
    """The signal of one awaitable of a gather leaves the block."""

    async def looping() -> None:
        for _ in range(9):
            await desk.alook("a")
            await asyncio.sleep(0)

    async def main() -> Run:
        async with desk.run() as run:
            await asyncio.gather(*(looping() for _ in range(3)))
        return run

    run = asyncio.run(main())
    assert run.stuck
    assert ["alook a"] == [done for done in desk.ran if done == "alook a"][:1]


def test_the_exit_comes_out_of_to_thread(desk: Desk) -> None:
    """The signal raised in a worker thread leaves the block of the task that awaits it."""

    async def main() -> Run:
        async with desk.run() as run:
            for _ in range(9):
                await asyncio.to_thread(desk.look, "a")
        return run

    run = asyncio.run(main())
    assert (True, 3) == (run.stuck, run.calls)


# -- other ends --------------------------------------------------------------------------------


@pytest.mark.parametrize("on_stuck", ["exit", "raise", "flag"])
def test_an_exception_of_the_block_is_a_failure(desk: Desk, on_stuck: Any) -> None:
    """What the block itself raises propagates as the same object, and the outcome is failed."""
    made, sink = Broken("disk full"), MemorySink()
    with pytest.raises(Broken) as caught, desk.run(on_stuck=on_stuck, events=sink) as run:
        desk.look("a")
        raise made
    assert caught.value is made
    outcome = outcome_of(run)
    assert ("failed", "Broken: disk full", 1) == (outcome.reason, outcome.error, outcome.calls)
    assert "Broken: disk full" in outcome.summary
    assert not run.stuck
    assert ["failed"] == [record.reason for record in sink.runs]


def test_an_exception_after_the_end_propagates(desk: Desk) -> None:
    """A host that turns the signal into its own error gets that error, and the run stays stuck."""
    with pytest.raises(Broken), desk.run(on_stuck="raise") as run:
        for _ in range(9):
            try:
                desk.look("a")
            except BaseException:
                raise Broken("wrapped") from None
    assert "stuck" == outcome_of(run).reason


def test_a_tool_s_error_that_leaves_the_block_is_a_failure(desk: Desk) -> None:
    """A tool's error nobody catches ends the run as failed."""
    with pytest.raises(LookupError), desk.run() as run:
        desk.fail("a")
    assert ("failed", "LookupError: no a") == (outcome_of(run).reason, outcome_of(run).error)


def test_a_repeated_failure_ends_with_the_error_in_the_outcome(desk: Desk) -> None:
    """The fourth identical failure leaves the block, and the outcome names the error."""
    with desk.run() as run:
        for _ in range(9):
            try:
                desk.fail("a")
            except LookupError:
                pass
    outcome = outcome_of(run)
    assert ("stuck", True, 4) == (outcome.reason, outcome.failed, outcome.count)
    assert "no a" in outcome.result
    assert ["fail a"] * 2 == desk.ran
    assert "First error:" in outcome.summary


@pytest.mark.parametrize("on_stuck", ["exit", "raise", "flag"])
def test_a_final_tool_finishes(desk: Desk, on_stuck: Any) -> None:
    """After a final tool's success the outcome is finished, by whatever way the block ends."""
    with desk.run(on_stuck=on_stuck) as run:
        desk.look("a")
        desk.submit("42")
    assert "finished" == outcome_of(run).reason
    reached = []
    with desk.run(on_stuck=on_stuck) as run:
        for number in range(3):
            assert "accepted 43" == desk.submit("43")
            reached.append(number)
    assert "finished" == outcome_of(run).reason
    assert (False, True) == (run.stuck, run.over)
    assert ([0, 1, 2] if on_stuck == "flag" else [0, 1]) == reached
    assert ["submit 43"] == desk.ran[2:]


def test_a_final_tool_that_fails_finishes_nothing(desk: Desk) -> None:
    """A hand-in that was not accepted is a failure like another, and repeated it is stuck."""
    with desk.run() as run:
        assert isinstance(swallow(lambda: desk.submit("bad")), ValueError)
    assert "completed" == outcome_of(run).reason
    with desk.run() as run:
        for _ in range(9):
            try:
                desk.submit("bad")
            except ValueError:
                pass
    assert "stuck" == outcome_of(run).reason


def test_a_finished_run_may_still_fail(desk: Desk) -> None:
    """An error after the final success is the block's own."""
    with pytest.raises(Broken), desk.run() as run:
        desk.submit("42")
        raise Broken("afterwards")
    assert "failed" == outcome_of(run).reason


def test_an_interrupt_is_not_swallowed(desk: Desk) -> None:
    """A `KeyboardInterrupt` in a tool or in the block propagates."""

    @guarded_tool(registry=desk.registry)
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), desk.run() as run:
        interrupted()
    assert "failed" == outcome_of(run).reason


# -- what the outcome tells --------------------------------------------------------------------


def test_the_outcome_is_something_to_act_on(desk: Desk) -> None:
    """Summary and dict name the call, its result, where the loop began, what else was tried."""
    with desk.run() as run:
        run.know(order_id="SO-7")
        run.turn()
        desk.put("x")
        swallow(lambda: desk.fail("y"))
        for _ in range(3):
            run.turn()
            desk.look("a")
            run.messages("openai")
    outcome = outcome_of(run)
    assert outcome.offered
    assert outcome.loop_start is not None
    assert (3, 2) == (outcome.loop_start.call, outcome.loop_start.turn)
    tried = [(other.tool, other.failed) for other in outcome.tried]
    assert [("put", False), ("fail", True)] == tried
    assert {"order_id": "SO-7"} == dict(outcome.known)
    assert any("submit" in option for option in outcome.options)
    for part in (
        'look(key="a") was asked for 3 times',
        'First result: "seen a"',
        "The loop began at call 3 (turn 2).",
        "- call 1: put(",
        "- call 2: fail(",
        'order_id = "SO-7"',
        "Offered and not taken:",
    ):
        assert part in outcome.summary
    told = json.loads(json.dumps(outcome.as_dict()))
    assert ("stuck", 3, "look", outcome.summary) == (
        told["reason"],
        told["count"],
        told["tool"],
        told["summary"],
    )
    assert {"call": 3, "turn": 2} == told["loop_start"]
    assert {"order_id": "SO-7"} == told["known"]


def test_every_outcome_is_a_dict(desk: Desk) -> None:
    """Outcomes of runs that were not stuck are JSON-able and summed up too."""
    with desk.run() as run:
        desk.look("a")
    told = json.loads(json.dumps(outcome_of(run).as_dict()))
    assert ("completed", 1, None) == (told["reason"], told["calls"], told["loop_start"])
    assert "Completed after 1 call." == told["summary"]


def test_what_nobody_read_was_not_offered(desk: Desk) -> None:
    """The options are there for the person who takes over, but the model is not blamed."""
    with desk.run() as run:
        for _ in range(3):
            desk.look("a")
    outcome = outcome_of(run)
    assert outcome.options
    assert not outcome.offered
    assert "Still open:" in outcome.summary
    assert "not taken" not in outcome.summary


def test_what_else_was_tried_is_told_in_the_tools_own_words() -> None:
    """Arguments by name, amounts as amounts, refusals and questions as what they were."""
    tools = Registry()

    @guarded_tool(registry=tools, effect="write", money_fields=["amount"])
    def refund(order_id: str, amount: float) -> str:
        """Refund an amount."""
        return "done"

    @guarded_tool(registry=tools, effect="ask", slot="fact")
    def ask_user(fact: str) -> str:
        """Ask the user."""
        return "SO-1"

    @guarded_tool(registry=tools)
    def look(**query: str) -> str:
        """Look something up."""
        return "found"

    with Run(registry=tools) as run:
        refund("a1", 5.0)
        ask_user("order id")
        run.dispatch("nope", {"a": 1})
        for _ in range(3):
            look(name="x")
    assert run.outcome is not None
    tried = [(call.tool, call.arguments) for call in run.outcome.tried]
    assert tried == [
        ("refund", 'order_id="a1", amount=5.00'),
        ("ask_user", '"order_id"'),
        ("nope", ""),
    ]
    assert "RepeatedFailure" not in run.outcome.summary


def test_a_budget_is_told_as_one() -> None:
    """Calls beyond a budget are other calls, so they were not the same one again."""
    tools = Registry()

    @guarded_tool(registry=tools, max_calls=1)
    def look(key: str) -> str:
        """Look something up."""
        return f"seen {key}"

    with Run(registry=tools) as run:
        for number in range(9):
            look(f"k{number}")
    assert run.outcome is not None
    assert "look was called beyond its budget in 4 turns" in run.outcome.summary
    assert "First" not in run.outcome.summary


def test_a_finished_run_offers_nothing() -> None:
    """After a hand-over there is nothing left to choose, for the model and for the summary."""
    tools = Registry()

    @guarded_tool(registry=tools, effect="final")
    def hand_over(reason: str) -> str:
        """Hand the case over."""
        return "case 1"

    @guarded_tool(registry=tools)
    def look(key: str) -> str:
        """Look something up."""
        return f"seen {key}"

    with Run(registry=tools) as run:
        look("a")
        hand_over("x")
        hand_over("x")
        (observation,) = run.observations()
        assert "Still open" not in observation.text
        hand_over("x")
    assert run.outcome is not None
    assert run.outcome.summary.startswith("Finished after 4 calls")
    assert "Still open" not in run.outcome.summary


def test_a_cycle_is_told_as_one(desk: Desk) -> None:
    """A run that ended in a circle says which tools went round."""
    policy = Policy(failing=Ladder(2, None, None), failures=None)
    with desk.run(policy=policy) as run:
        for _ in range(5):
            for key in "ab":
                try:
                    desk.fail(key)
                except LookupError:
                    pass
    outcome = outcome_of(run)
    assert outcome.finding is not None
    assert ("cycle", 3, ("fail", "fail")) == (
        outcome.finding.kind,
        outcome.finding.count,
        tuple(outcome.finding.tools),
    )
    assert "went round" in outcome.summary
    assert 6 == run.calls


def test_the_outcome_can_be_asked_while_calls_go_on(desk: Desk) -> None:
    """Under "flag" the outcome is fixed when the run is found stuck, and the same object later."""
    with desk.run(on_stuck="flag") as run:
        assert run.outcome is None
        for _ in range(3):
            desk.look("a")
        first = run.outcome
        desk.look("b")
        assert run.outcome is first
    assert run.outcome is first


def test_the_record_of_a_run_tells_its_end(desk: Desk) -> None:
    """The sink gets one record a run, with its reason and counts, after all its events."""
    events: list[Any] = []
    with desk.run(events=events.append, run_id="r-1") as run:
        for _ in range(9):
            desk.look("a")
    told = ["RepeatEvent", "FollowUp", "RepeatEvent", "RunRecord"]
    assert told == [type(event).__name__ for event in events]
    assert ["replay", "exit"] == [event.decision for event in events[:3:2]]
    record = events[-1]
    assert ("r-1", "stuck", 3, 2) == (record.run_id, record.reason, record.calls, record.events)
    assert ({"look": 1}, {"look": 1}) == (dict(record.executed), dict(record.replayed))
    assert run.run_id == "r-1"


def test_calls_after_the_end_are_not_in_the_outcome(desk: Desk) -> None:
    """However late it is read: the summary says after how many calls the run was stuck."""
    with desk.run(on_stuck="flag") as run:
        for _ in range(6):
            desk.look("a")
        assert run.outcome is not None
        assert 3 == run.outcome.calls
        assert "after 3 calls" in run.outcome.summary
        assert 6 == run.calls
