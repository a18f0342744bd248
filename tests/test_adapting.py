"""What a run offers an adapter: a loop that others end, calls of a framework, a history."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repeatguard_sdk import Registry, Run, StuckError, guarded_tool
from repeatguard_sdk._recalling import PastCall
from repeatguard_sdk._scope import mark_stop
from repeatguard_sdk._toolset import undeclared
from repeatguard_sdk.events import MemorySink
from repeatguard_sdk.exceptions import RepeatedFailure, RunStateError


class Desk:
    """Tools that note how often they ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.registry = Registry()

        @guarded_tool(registry=self.registry)
        def look_up(word: str) -> str:
            """Look a word up."""
            self.ran.append(word)
            return f"no entry for {word}"

        @guarded_tool(registry=self.registry, effect="final")
        def hand_over(summary: str) -> str:
            """Hand over."""
            return "handed over"

        self.look_up, self.hand_over = look_up, hand_over


@pytest.fixture
def desk() -> Desk:
    return Desk()


class Waiting(Exception):
    """Stands for a framework's wait for an approval."""


# -- the end of the loop ---------------------------------------------------------------------------


def test_a_governed_run_answers_every_call(desk: Desk) -> None:
    """Under an adapter nothing is raised from a tool, and the run tells that it is over."""
    with Run(registry=desk.registry) as run:
        run.govern()
        answers = [(run.turn(), desk.look_up("loop"))[1] for _ in range(5)]
        assert run.over
    assert ["no entry for loop"] * 5 == answers
    assert ["loop"] == desk.ran
    assert run.outcome is not None
    assert "stuck" == run.outcome.reason


def test_a_governed_run_still_raises_at_its_end(desk: Desk) -> None:
    """The error that the host asked for comes at the end of the block and not out of a tool."""
    reached: list[bool] = []

    def task() -> None:
        with Run(registry=desk.registry, on_stuck="raise") as run:
            run.govern()
            for _ in range(3):
                run.turn()
                desk.look_up("loop")
            reached.append(run.over)

    with pytest.raises(StuckError, match="look_up"):
        task()
    assert [True] == reached


@pytest.mark.parametrize("on_stuck", ["exit", "flag"])
def test_the_stop_of_an_adapter_ends_at_the_block(desk: Desk, on_stuck: Any) -> None:
    """An exception that an adapter ends its framework's loop with goes no further than the block."""
    with Run(registry=desk.registry, on_stuck=on_stuck) as run:
        run.govern()
        stop = ValueError("the framework's own kind")
        mark_stop(stop, run)
        raise stop
    assert run.outcome is not None
    assert "completed" == run.outcome.reason


def test_the_stop_of_another_run_passes(desk: Desk) -> None:
    """A block does not take the stop of a run that is not its own."""
    other = Run(registry=desk.registry)
    stop = ValueError("not mine")
    mark_stop(stop, other)
    with pytest.raises(ValueError, match="not mine"), Run(registry=desk.registry):
        raise stop


def test_a_run_is_governed_inside_its_block(desk: Desk) -> None:
    """An adapter cannot take a run that has not begun."""
    with pytest.raises(RunStateError, match="has not begun"):
        Run(registry=desk.registry).govern()


def test_control_flow_counts_for_nothing(desk: Desk) -> None:
    """An exception by which a framework leaves a tool is passed on, and the call is not counted."""
    attempts: list[int] = []

    @guarded_tool(registry=desk.registry)
    def pay(amount: int) -> str:
        """Pay."""
        attempts.append(amount)
        if len(attempts) < 6:
            raise Waiting
        return "paid"

    with Run(registry=desk.registry) as run:
        run.govern(control_flow=[Waiting])
        for _ in range(5):
            run.turn()
            with pytest.raises(Waiting):
                pay(5)
        run.turn()
        assert "paid" == pay(5)
        assert not run.observations()


# -- calls of a framework --------------------------------------------------------------------------


def test_an_observation_waits_with_its_call(desk: Desk) -> None:
    """What there is to say about a framework's call is found there and nowhere else."""
    with Run(registry=desk.registry) as run:
        calls = [run.hosted_call(None) for _ in range(2)]
        for call in calls:
            run.turn()
            with call.open():
                desk.look_up("loop")
        assert not run.observations()
    assert [[], ["repeat"]] == [
        [note.finding for note in call.observations or []] for call in calls
    ]
    assert [True, False] == [call.admission.executed for call in calls]


def test_an_observation_waits_in_the_queue_if_that_is_wanted(desk: Desk) -> None:
    """An adapter that sends messages finds the observations where every host does."""
    with Run(registry=desk.registry) as run:
        for _ in range(2):
            run.turn()
            with run.hosted_call(None, queued=True).open():
                desk.look_up("loop")
        assert ["repeat"] == [note.finding for note in run.observations()]


def test_a_call_tells_a_sentence_from_a_result(desk: Desk) -> None:
    """An answer that is the guard's own sentence is marked as such."""

    @guarded_tool(registry=desk.registry, max_calls=1)
    def draw(card: str) -> str:
        """Draw a card."""
        return card

    with Run(registry=desk.registry) as run:
        run.govern()
        first, second = run.hosted_call(None), run.hosted_call(None)
        with first.open():
            draw("a")
        run.turn()
        with second.open():
            answer = draw("b")
    assert first.spoken is None
    assert answer == second.spoken


def test_an_undeclared_tool_is_guarded(desk: Desk) -> None:
    """A tool that nobody declared runs twice, is noted, is answered from store and ends the run."""
    ran: list[str] = []
    tool = undeclared("shell")
    with Run(registry=desk.registry) as run:
        run.govern()
        decisions = []
        for number in range(5):
            run.turn()
            call = run.hosted_call(f"c{number}")
            with call.open():
                run.call(
                    tool, lambda **given: ran.append(given["line"]) or "ok", (), {"line": "ls"}
                )
            decisions.append(call.admission.decision)
    assert ["execute", "execute", "replay", "replay", "exit"] == decisions
    assert ["ls", "ls"] == ran


def test_a_tool_reads_as_the_model_knows_it(desk: Desk) -> None:
    """A tool that a framework shows under another name is counted and spoken of under that one."""
    import attrs

    tool = run_tool = desk.registry.get("look_up")
    assert run_tool is not None
    shown = attrs.evolve(tool, spec=attrs.evolve(run_tool.spec, name="kb_search"))
    with Run(registry=desk.registry) as run:
        run.offer([shown])
        for _ in range(2):
            run.turn()
            call = run.hosted_call(None)
            call.tool = shown
            with call.open():
                desk.look_up("loop")
        (note,) = call.observations or []
    assert note.text.startswith("kb_search(")
    assert "look_up" not in note.text


def test_options_are_made_of_what_is_offered(desk: Desk) -> None:
    """The options name the tools the model has at present, also those that nobody declared."""
    with Run(registry=desk.registry) as run:
        look_up = run.find_tool("look_up")
        assert look_up is not None
        run.offer([look_up, undeclared("browse", option="Open a page")])
        for _ in range(2):
            run.turn()
            desk.look_up("loop")
        (note,) = run.observations()
    assert ["browse: Open a page"] == [option.text for option in note.options]


def test_a_bypass_is_told_once_a_tool(desk: Desk) -> None:
    """A tool whose guard is not asked is a warning that names the fix, once."""
    sink = MemorySink()
    with Run(registry=desk.registry, events=sink) as run:
        for tool in ("look_up", "look_up", "hand_over"):
            run.bypassed(tool, "put the guard below")
    assert ["look_up", "hand_over"] == [warning.tool for warning in sink.warnings]
    assert "put the guard below" in sink.warnings[0].what


def test_a_guard_is_found_by_its_function(desk: Desk) -> None:
    """A framework that was given the function without its guard can be told which guard it lacks."""
    with Run(registry=desk.registry) as run:
        found = run.guard_on(desk.look_up.__wrapped__)  # type: ignore[attr-defined]
        assert found is run.find_tool("look_up")
        assert run.guard_on(test_a_guard_is_found_by_its_function) is None


# -- a history to take up --------------------------------------------------------------------------


def past(number: int, **given: Any) -> PastCall:
    return PastCall(**{"tool": "look_up", "arguments": '{"word": "loop"}', "turn": number, **given})


def test_a_history_counts_as_if_the_run_had_lived_on(desk: Desk) -> None:
    """After one recalled call the next equal one is answered from store, and the one after is the end."""
    with Run(registry=desk.registry) as run:
        run.govern()
        run.recall([past(1, result="no entry for loop", call_id="a")])
        run.turn()
        assert "no entry for loop" == desk.look_up("loop")
        assert not run.over
        run.turn()
        desk.look_up("loop")
        assert run.over
    assert [] == desk.ran


def test_a_history_is_neither_said_nor_reported_again(desk: Desk) -> None:
    """What was noted when the calls were made is no observation and no event now."""
    sink = MemorySink()
    with Run(registry=desk.registry, events=sink) as run:
        run.recall([past(turn, result="no entry for loop") for turn in (1, 2)])
        assert not run.observations()
        assert not sink.repeats
        assert 2 == run.calls


def test_twins_of_a_history_are_one_call(desk: Desk) -> None:
    """Equal calls of one turn count once, as they did."""
    with Run(registry=desk.registry) as run:
        run.recall([past(1, result="no entry for loop", call_id=name) for name in "abc"])
        run.turn()
        desk.look_up("loop")
        assert ["replay"] == [run.last_decision.decision] if run.last_decision else []
        assert not run.over


def test_a_redelivered_id_of_a_history_is_no_repeat(desk: Desk) -> None:
    """A call that is delivered again after a restart is answered and not counted."""
    with Run(registry=desk.registry) as run:
        run.recall([past(1, result="no entry for loop", call_id="a")])
        with run.hosted_call("a").open():
            assert "no entry for loop" == desk.look_up("loop")
        assert not run.observations()


def test_an_unknown_result_is_counted_and_not_served(desk: Desk) -> None:
    """Where a history does not tell a result, the next equal call runs."""
    with Run(registry=desk.registry) as run:
        run.recall([past(1)])
        run.turn()
        assert "no entry for loop" == desk.look_up("loop")
    assert ["loop"] == desk.ran


def test_errors_of_a_history_climb_with_those_that_follow(desk: Desk) -> None:
    """A failure known by its text alone and one that is raised now are the same failure again."""

    @guarded_tool(registry=desk.registry)
    def open_file(path: str) -> str:
        """Open a file."""
        raise FileNotFoundError(path)

    with Run(registry=desk.registry) as run:
        run.govern()
        given: dict[str, Any] = {"tool": "open_file", "arguments": {"path": "a"}}
        run.recall([past(1, **given, error="a")])
        run.turn()
        with pytest.raises(FileNotFoundError):
            open_file("a")
        assert ["same failure again"] == [run.last_decision.finding.cause]  # type: ignore[union-attr]
        run.turn()
        with pytest.raises((FileNotFoundError, RepeatedFailure)):
            open_file("a")
        assert run.last_decision is not None
        assert "refuse" == run.last_decision.decision


def test_refusals_of_a_history_count(desk: Desk) -> None:
    """Calls that reached no tool are counted on as well."""
    with Run(registry=desk.registry) as run:
        run.recall([past(turn, tool="nothing", refused="no such tool") for turn in (1, 2)])
        run.turn()
        note = run.refused("nothing", {"word": "loop"}, "no such tool")
        assert note is not None
        assert 3 == note.count


def test_a_stuck_history_is_stuck(desk: Desk) -> None:
    """A conversation that had come to its end is over when it is taken up."""
    with Run(registry=desk.registry) as run:
        run.govern()
        run.recall([past(turn, result="no entry for loop") for turn in (1, 2, 3)])
        assert run.over


def test_hidden_parameters_need_no_value(desk: Desk) -> None:
    """A history does not hold what the framework fills, and the calls are the same all the same."""

    class RunContext:
        pass

    @guarded_tool(registry=desk.registry)
    def fetch(ctx: RunContext, word: str) -> str:
        """Fetch."""
        desk.ran.append(word)
        return word

    with Run(registry=desk.registry) as run:
        run.recall([past(1, tool="fetch", result="loop")])
        run.turn()
        assert "loop" == fetch(RunContext(), "loop")
    assert [] == desk.ran


def test_a_coroutine_tool_is_recalled(desk: Desk) -> None:
    """A history of coroutine tools is taken up without a loop running."""

    @guarded_tool(registry=desk.registry)
    async def fetch(word: str) -> str:
        """Fetch."""
        desk.ran.append(word)
        return word

    async def go_on(run: Run) -> str:
        run.turn()
        return await fetch("loop")

    with Run(registry=desk.registry) as run:
        run.recall([past(1, tool="fetch", result="loop")])
        assert "loop" == asyncio.run(go_on(run))
    assert [] == desk.ran


EFFECTS = ("read", "write", "live", "unknown", "bookkeeping", "final")
steps = st.lists(
    st.tuples(
        st.sampled_from([*EFFECTS, "nothing"]),
        st.sampled_from("ab"),
        st.sampled_from(["page one", "page two", None]),
        st.booleans(),
    ),
    min_size=2,
    max_size=14,
)


class Stage:
    """A run whose tools return what the step says, `None` standing for a failure."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.result: str | None = None
        self.turn = 0
        for effect in EFFECTS:
            self.declare(effect)
        self.run = Run(registry=self.registry)
        # In a context of its own: no block ends it here.
        contextvars.copy_context().run(self.run.__enter__)
        self.run.govern()

    def declare(self, effect: Any) -> None:
        @guarded_tool(registry=self.registry, effect=effect, name=effect)
        def tool(word: str) -> str:
            """Do something."""
            if self.result is None:
                msg = f"{word} is broken"
                raise LookupError(msg)
            return self.result

    def live(self, tool: str, word: str, result: str | None, opens: bool) -> tuple[Any, PastCall]:
        self.result = result
        if opens or not self.turn:
            self.turn += 1
            self.run.turn()
        came: dict[str, Any] = {"tool": tool, "arguments": {"word": word}, "turn": self.turn}
        if tool == "nothing":
            self.run.refused(tool, {"word": word}, "no such tool")
            came["refused"] = "no such tool"
        else:
            try:
                came["result"] = self.run.dispatch(tool, {"word": word})
            except Exception as error:
                came["error"] = str(error)
        last = self.run.last_decision
        assert last is not None
        return (last.decision, last.executed, last.count, self.run.over), PastCall(**came)


@given(steps=steps, cut=st.integers(1, 13))
def test_a_run_that_is_taken_up_decides_as_one_that_lived_on(steps: Any, cut: int) -> None:
    """Wherever a conversation is cut, the run that recalls its first part decides alike on the rest."""
    lived = Stage()
    told = [lived.live(*step) for step in steps]
    taken_up = Stage()
    taken_up.run.recall([past for _, past in told[:cut]])
    taken_up.turn = told[cut - 1][1].turn if cut <= len(told) else lived.turn
    rest = [taken_up.live(*step)[0] for step in steps[cut:]]
    assert [decided for decided, _ in told[cut:]] == rest
