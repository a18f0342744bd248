"""`play`: the contract of the corpus, and what becomes of a fault inside the guard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pytest

from builds import interpreted_only
from repeatguard_sdk import CallDecision, Policy, Registry, Run, default_registry, guarded_tool
from repeatguard_sdk._firsts import FirstCalls
from repeatguard_sdk.events import GuardWarning, MemorySink, RunRecord
from repeatguard_sdk.testing import PlayedCall, is_transient_text, play, scripted_error


def step(tool: str = "look_up", **more: Any) -> dict[str, Any]:
    """Return a step."""
    return {"tool": tool, **more}


def walk(
    steps: list[dict[str, Any]], policy: Policy | None = None, **tools: dict[str, Any]
) -> list[PlayedCall]:
    """Play steps; `look_up` is a read unless it is declared otherwise."""
    return play({"tools": {"look_up": {}, **tools}, "steps": steps}, policy)


def decisions(played: list[PlayedCall]) -> list[str]:
    """Return what was decided for each call."""
    return [call.decision for call in played]


def said(call: PlayedCall) -> str:
    """Return the observation of a call that has one."""
    assert call.observation is not None
    return call.observation


# -- one value per call --------------------------------------------------------------------------


def test_each_call_has_one_value_in_order() -> None:
    """Decision, whether it ran, what came back, observation and finding; events have none."""
    first, second, third = walk(
        [step(result="a"), {"event": "auto_continue"}, step(result="b"), step(result="c")]
    )
    assert (first.decision, first.executed, first.returned) == ("execute", True, "a")
    assert (first.error, first.observation, first.finding) == (None, None, None)
    assert (second.decision, second.executed, second.returned) == ("replay", False, "a")
    assert second.finding == "repeat"
    assert "already answered at call 1" in said(second)
    assert (third.decision, third.executed, third.returned) == ("exit", False, None)
    assert third.finding == "repeat"


def test_the_value_holds_the_decision_in_full() -> None:
    """It is the run's own, with the call's number and count."""
    played = walk([step(result="a"), step(result="a")])
    value = played[1].value
    assert isinstance(value, CallDecision)
    assert (value.call, value.count, value.tool, value.executed) == (2, 2, "look_up", False)


def test_nothing_to_play() -> None:
    """A scenario without steps is no error."""
    assert walk([]) == []
    assert play({"tools": {}, "steps": []}) == []


def test_play_twice_is_the_same() -> None:
    """Nothing is left over from one walk to the next."""
    steps = [step(result="a"), step(result="a"), step(result="a")]
    assert decisions(walk(steps)) == decisions(walk(steps)) == ["execute", "replay", "exit"]


def test_the_scenario_is_not_changed() -> None:
    """Neither its arguments nor its results are touched, even if they are mutable."""
    scenario = {
        "tools": {"look_up": {"fields": {"q": "text"}}},
        "steps": [step(args={"q": " A "}, result={"rows": [1]})] * 2,
    }
    before = repr(scenario)
    played = play(scenario)
    played[1].returned["rows"].clear()
    assert repr(scenario) == before


def test_the_active_run_stays_the_callers() -> None:
    """A walk inside a run is neither seen by it nor ends it."""
    with Run([]) as run:
        walk([step(result="a")] * 3)
        assert run.calls == 0
        assert not run.over


def test_the_default_registry_gets_no_scripted_tools() -> None:
    """Names of a scenario are its own."""
    before = default_registry.names()
    walk([step(result="a")])
    assert default_registry.names() == before


def test_a_missing_result_is_none() -> None:
    """A step without result and error returns `None`."""
    (call,) = walk([step()])
    assert (call.decision, call.executed, call.returned, call.error) == (
        "execute",
        True,
        None,
        None,
    )


def test_declarations_are_those_of_guarded_tool() -> None:
    """Fields, budget, effect, volatile parts and the tool's own mode do what they do live."""
    folded = [step(args={"q": "a  b"}, result="x"), step(args={"q": "A B"}, result="y")]
    assert decisions(walk(folded, look_up={"fields": {"q": "text"}})) == ["execute", "replay"]
    other = [step(args={"q": n}, result=n) for n in range(3)]
    assert decisions(walk(other, look_up={"max_calls": 1})) == ["execute", "refuse", "refuse"]
    assert decisions(walk([step(result=1)] * 4, look_up={"repeatable": True})) == ["execute"] * 4
    timed = [step(result={"state": "on", "at": n}) for n in range(2)]
    assert walk(timed, look_up={"effect": "unknown", "volatile": ["at"]})[1].finding == "repeat"
    assert walk(timed, look_up={"effect": "unknown"})[1].finding is None
    assert decisions(walk([step(result=1)] * 3, look_up={"mode": "observe"})) == ["execute"] * 3


# -- turns, call ids, runs -----------------------------------------------------------------------


def test_steps_of_one_turn_are_one_call() -> None:
    """The second of a turn joins the first, whatever stands between; the next turn repeats it."""
    played = walk(
        [
            step(result="a", turn=1),
            step(result="b", args={"q": 1}, turn=1),
            step(result="c", turn=1),
            step(result="d", turn=2),
        ]
    )
    assert decisions(played) == ["execute", "execute", "join", "replay"]
    assert played[2].returned == "a"
    assert played[2].observation is None


def test_steps_without_turn_are_turns_of_their_own() -> None:
    """Also between steps that have one."""
    played = walk([step(result="a", turn=1), step(result="a"), step(result="a", turn=1)])
    assert decisions(played) == ["execute", "replay", "exit"]


def test_a_call_id_again_is_a_redelivery() -> None:
    """It is answered and counts for nothing."""
    played = walk(
        [
            step(result="a", call_id="1"),
            step(result="b", call_id="1"),
            step(result="c", call_id="2"),
        ]
    )
    assert decisions(played) == ["execute", "join", "replay"]
    assert [call.returned for call in played] == ["a", "a", "a"]
    assert played[1].observation is None


def test_runs_do_not_meet() -> None:
    """Each run has its own counts, turns and end; the order of the answers is that of the steps."""
    steps = [step(result=f"{name}{n}", run=name, turn=n) for n in range(3) for name in "ab"]
    played = walk(steps)
    assert decisions(played) == ["execute", "execute", "replay", "replay", "exit", "exit"]
    assert [call.returned for call in played[:4]] == ["a0", "b0", "a0", "b0"]


def test_an_exit_ends_its_own_run_only() -> None:
    """Later calls of that run are exits, those of another run go on."""
    steps = [step(result="x", run="a")] * 3 + [step(result="y", run="b")]
    steps += [step(result="z", args={"q": "new"}, run="a"), step(result="y", run="b")]
    played = walk(steps)
    assert decisions(played) == ["execute", "replay", "exit", "execute", "exit", "replay"]
    assert not played[4].executed


def test_after_an_exit_the_rest_are_exits() -> None:
    """Nothing more runs, also not after an event or for another tool."""
    steps = [step(result="x")] * 3 + [
        {"event": "user_message"},
        {"event": "progress"},
        step("other", result="y"),
        step(refused="denied"),
    ]
    played = walk(steps, other={})
    assert decisions(played) == ["execute", "replay", "exit", "exit", "exit"]
    assert not any(call.executed for call in played[2:])


def test_a_second_hand_off_ends_the_walk_as_finished() -> None:
    """`final` gets its first receipt, then the exit."""
    played = walk([step("submit", result="done")] * 3, submit={"effect": "final"})
    assert decisions(played) == ["execute", "replay", "exit"]
    assert played[1].returned == "done"


# -- events --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "third"),
    [
        ("user_message", "execute"),
        ("external_change", "execute"),
        ("progress", "execute"),
        ("compaction", "replay"),
        ("auto_continue", "exit"),
    ],
)
def test_what_an_event_does_to_a_third_call(event: str, third: str) -> None:
    """People and changes reset, a compaction delivers once more, machine-made text does nothing."""
    played = walk([step(result="a"), step(result="a"), {"event": event}, step(result="b")])
    assert decisions(played) == ["execute", "replay", third]
    assert played[2].returned == {"execute": "b", "replay": "a", "exit": None}[third]
    assert (played[2].observation is None) or third != "replay"


def test_an_event_of_one_run_only() -> None:
    """`run` names it; without, all runs that have begun are told."""
    steps = [step(result="x", run=name) for name in "abab"]
    ends = [step(result="x", run=name) for name in "ab"]
    one = walk([*steps, {"event": "progress", "run": "a"}, *ends])
    assert decisions(one)[-2:] == ["execute", "exit"]
    both = walk([*steps, {"event": "progress"}, *ends])
    assert decisions(both)[-2:] == ["execute", "execute"]


# -- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "Request timed out",
        "timeout",
        "time-out after 30 s",
        "Connection refused",
        "HTTP 429 Too Many Requests",
        "502 Bad Gateway",
        "status=503",
        "504",
    ],
)
def test_transient_texts(text: str) -> None:
    """They are raised as a transient type: two retries count for nothing."""
    assert is_transient_text(text)
    assert isinstance(scripted_error(text), (TimeoutError, ConnectionError))
    played = walk([step(error=text)] * 3 + [step(result="ok")])
    assert decisions(played) == ["execute"] * 4
    assert all(call.observation is None for call in played)
    assert [call.error for call in played] == [text, text, text, None]


@pytest.mark.parametrize("text", ["not found", "order 5030 is closed", "HTTP 404", "x504", ""])
def test_other_texts(text: str) -> None:
    """They climb the ladder of failures: run, run and note, refuse, exit."""
    assert not is_transient_text(text)
    played = walk([step(error=text)] * 4)
    assert decisions(played) == ["execute", "execute", "refuse", "exit"]
    assert [call.error for call in played[:3]] == [text] * 3
    assert [call.executed for call in played] == [True, True, False, False]
    assert played[0].observation is None
    assert "failed as it did" in said(played[1])
    assert "not run again" in said(played[2])


def test_a_failure_then_a_success() -> None:
    """An error is never served where the tool would now succeed."""
    played = walk([step(error="not yet"), step(result="ok"), step(result="ok")])
    assert decisions(played) == ["execute", "execute", "replay"]
    assert [call.returned for call in played] == [None, "ok", "ok"]


@pytest.mark.parametrize("refused", [True, "denied", "unknown name"])
def test_a_call_that_never_reached_its_tool(refused: Any) -> None:
    """It is counted by `run.refused` and climbs the ladder of failures."""
    played = walk([step(refused=refused, error="no permission")] * 4)
    assert decisions(played) == ["refuse", "refuse", "refuse", "exit"]
    assert not any(call.executed for call in played)
    assert [call.error for call in played[:2]] == ["no permission"] * 2
    assert played[0].observation is None
    assert "did not reach the tool" in said(played[1])


# -- modes and policies --------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["observe", "advise", "off"])
def test_softer_modes_run_everything(mode: str) -> None:
    """Only `advise` speaks; `off` decides nothing."""
    played = play({"tools": {"look_up": {}}, "mode": mode, "steps": [step(result="a")] * 4})
    assert decisions(played) == ["execute"] * 4
    assert all(call.executed for call in played)
    noted = [call.observation is not None for call in played]
    assert noted == [False, mode == "advise", mode == "advise", False]
    assert all((call.value is None) is (mode == "off") for call in played)


def test_observe_tells_what_it_would_have_done() -> None:
    """Each value carries it."""
    played = play({"tools": {"look_up": {}}, "mode": "observe", "steps": [step(result="a")] * 3})
    assert [call.value.would for call in played if call.value] == ["execute", "replay", "exit"]


def test_a_policy_of_ones_own() -> None:
    """It is the one that counts."""
    spelt = [step(args={"q": "a"}, result="x"), step(args={"q": "A"}, result="y")]
    assert decisions(walk(spelt)) == ["execute", "execute"]
    assert decisions(walk(spelt, Policy.strict())) == ["execute", "replay"]


def test_the_environment_overrides_the_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a test, so that a suite shows what it would do."""
    monkeypatch.setenv("REPEATGUARD_MODE", "observe")
    assert decisions(walk([step(result="a")] * 3)) == ["execute"] * 3


# -- a fault inside the guard --------------------------------------------------------------------


class Faulty(Exception):
    """Raised by the callables of a host."""


def _raise(*_: Any, **__: Any) -> Any:
    msg = "the host's own callable failed"
    raise Faulty(msg)


class BrokenSink:
    """A sink that raises on every event."""

    def emit(self, event: Any, /) -> None:
        _raise()


# A rule, a part of a result, an emptiness, a wording: the guard has an answer without them.
TOLERATED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "fields": ({"fields": {"q": _raise}}, {}),
    "volatile": ({"volatile": _raise}, {}),
    "empty": ({"empty": _raise}, {}),
    "style": ({}, {"style": _raise}),
}
# An order of options that raises or gives no options leaves nothing to say.
FAULTS: dict[str, Callable[..., Any]] = {
    "raises": _raise,
    "gives nothing": lambda options: None,
    "gives a number": lambda options: 5,
    "gives texts": lambda options: ["answer now"],
}


@pytest.mark.parametrize("where", TOLERATED)
def test_what_play_tolerates(where: str) -> None:
    """The walk is that of a scenario without the callable."""
    declaration, options = TOLERATED[where]
    played = walk([step(args={"q": "a"}, result="x")] * 3, Policy(**options), look_up=declaration)
    assert decisions(played) == ["execute", "replay", "exit"]
    assert "already answered" in said(played[1])


@pytest.mark.parametrize("where", TOLERATED)
def test_what_a_live_run_tolerates(where: str) -> None:
    """No call is lost, none is missed, and no warning is given."""
    declaration, options = TOLERATED[where]
    sink = MemorySink()
    tool = guarded_tool(registry=Registry(), **declaration)(plain_tool())
    with Run([tool], policy=Policy(**options), events=sink) as run:
        assert [tool("a"), tool("a")] == ["answer", "answer"]
        assert len(run.observations()) == 1
        tool("a")
        pytest.fail("the third call must leave the block")
    assert sink.warnings == []


def plain_tool() -> Callable[[str], str]:
    """Return a plain tool with one parameter."""

    def look_up(q: str) -> str:
        return "answer"

    return look_up


def test_a_sink_that_raises_is_tolerated() -> None:
    """What becomes of a call does not depend on who listens."""
    tool = guarded_tool(registry=Registry())(plain_tool())
    with Run([tool], events=BrokenSink()) as run:
        for _ in range(3):
            tool("a")
        pytest.fail("the third call must leave the block")
    assert run.stuck


@pytest.mark.parametrize("effect", ["read", "write", "unknown"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_raised_by_play(fault: str, effect: str) -> None:
    """A test must not pass where a live run would only warn."""
    policy = Policy(options=FAULTS[fault])
    with pytest.raises((Faulty, TypeError, AttributeError)):
        walk([step(result="a")] * 2, policy, look_up={"effect": effect})


@pytest.mark.parametrize("deliver", ["queue", "result"])
@pytest.mark.parametrize("effect", ["read", "write", "unknown"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_lets_a_live_call_through(fault: str, effect: Any, deliver: Any) -> None:
    """Each call has its answer, one warning names the fault, and the run ends where it should."""
    sink, answers = MemorySink(), []
    tool = guarded_tool(registry=Registry(), effect=effect)(plain_tool())
    policy = Policy(options=FAULTS[fault])
    with Run([tool], policy=policy, events=sink, deliver=deliver) as run:
        for _ in range(9):
            answers.append(tool("a").partition("\n")[0])
            run.messages("openai")
        pytest.fail("the run must leave its block")
    assert set(answers) == {"answer"}
    assert run.stuck
    assert run.outcome is not None
    assert "asked for" in run.outcome.summary
    (warning,) = sink.warnings
    assert isinstance(warning, GuardWarning)
    assert warning.tool == "look_up"
    assert warning.fault is not None
    assert type(warning.fault).__name__ in warning.what
    assert [type(event) for event in sink.runs] == [RunRecord]


@pytest.mark.parametrize("read", ["text", "options", "messages", "str"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_reaches_no_reader(fault: str, read: str) -> None:
    """Whoever reads what is waiting gets a text, or nothing, and no error of the host."""
    sink = MemorySink()
    tool = guarded_tool(registry=Registry())(plain_tool())
    with Run([tool], policy=Policy(options=FAULTS[fault]), events=sink) as run:
        tool("a")
        tool("a")
        if read == "messages":
            assert len(run.messages("openai")) <= 1
        for observation in run.observations():
            assert isinstance(observation.text, str)
            assert isinstance(str(observation), str)
            assert isinstance(observation.options, tuple)
    assert len(sink.warnings) == 1


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_reaches_no_caller_of_a_refused_call(fault: str) -> None:
    """A spent budget is said, with or without options."""
    tool = guarded_tool(registry=Registry(), max_calls=1)(plain_tool())
    with Run([tool], policy=Policy(options=FAULTS[fault]), events=MemorySink()):
        tool("a")
        assert isinstance(tool("b"), str)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_reaches_no_caller_of_dispatch(fault: str) -> None:
    """A call that does not fit is answered twice over, with or without options."""
    tool = guarded_tool(registry=Registry())(plain_tool())
    with Run([tool], policy=Policy(options=FAULTS[fault]), events=MemorySink()) as run:
        for _ in range(2):
            assert "do not fit" in run.dispatch("look_up", {})


@interpreted_only
def test_a_fault_before_a_call_lets_it_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool runs unguarded, once for each call, and one warning says so."""
    ran: list[str] = []

    @guarded_tool(registry=Registry())
    def look_up(q: str) -> str:
        ran.append(q)
        return "answer"

    sink = MemorySink()
    with Run([look_up], events=sink) as run:
        monkeypatch.setattr(FirstCalls, "begin", lambda *_: None)
        run._engine.admit = _raise  # type: ignore[method-assign]
        assert [look_up("a") for _ in range(4)] == ["answer"] * 4
    assert ran == ["a"] * 4
    (warning,) = sink.warnings
    assert isinstance(warning.fault, Faulty)
    assert run.outcome is not None
    assert run.outcome.reason == "completed"


@interpreted_only
@pytest.mark.parametrize("effect", ["read", "write", "unknown"])
@pytest.mark.parametrize("fails", [False, True], ids=["returns", "raises"])
def test_a_fault_after_a_call_keeps_what_it_came_to(
    effect: Any, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tool's result or error arrives, and the run can still end."""

    @guarded_tool(registry=Registry(), effect=effect)
    def look_up(q: str) -> str:
        if fails:
            raise LookupError(q)
        return "answer"

    sink = MemorySink()
    with Run([look_up], events=sink) as run:
        monkeypatch.setattr(FirstCalls, "settle", lambda *_: False)
        name = "settle_error" if fails else "settle"
        good = getattr(run._engine, name)
        setattr(run._engine, name, _raise)
        for query in "ab":
            if fails:
                with pytest.raises(LookupError, match=query):
                    look_up(query)
            else:
                assert look_up(query) == "answer"
        setattr(run._engine, name, good)
        for _ in range(9):
            if fails:
                with pytest.raises(LookupError):
                    look_up("c")
            else:
                look_up("c")
        pytest.fail("the run must leave its block")
    assert len(sink.warnings) == 1
    assert run.stuck


@interpreted_only
def test_a_fault_leaves_no_one_waiting() -> None:
    """A call that joined the one whose settlement failed takes over."""
    ran = []

    @guarded_tool(registry=Registry())
    async def look_up(q: str) -> str:
        ran.append(q)
        await asyncio.sleep(0)
        return "answer"

    async def agent() -> list[str]:
        async with Run([look_up], events=MemorySink()) as run:
            run._engine.settle = _raise  # type: ignore[method-assign]
            return await asyncio.wait_for(asyncio.gather(*(look_up("a") for _ in range(3))), 10)
        raise AssertionError

    assert asyncio.run(agent()) == ["answer"] * 3
    assert 1 <= len(ran) <= 3


def test_a_scripted_tools_own_error_is_no_fault() -> None:
    """Only what goes wrong inside the guard is raised."""
    played = walk([step(error="Faulty: inside the tool")])
    assert played[0].error == "Faulty: inside the tool"


def test_a_mapping_of_ones_own_is_a_scenario() -> None:
    """Any mapping will do, as a parsed file or a read-only view."""
    scenario: Mapping[str, Any] = MappingProxyType(
        {"tools": MappingProxyType({"look_up": {}}), "steps": (step(result="a"), step(result="a"))}
    )
    assert decisions(play(scenario)) == ["execute", "replay"]


def test_a_played_call_is_read_by_name_too() -> None:
    """A table of expectations names the fields it looks at."""
    (call,) = play({"tools": {"look": {}}, "steps": [{"tool": "look", "args": {}, "result": 1}]})
    assert [call[name] for name in ("decision", "executed", "returned")] == ["execute", True, 1]
