"""Our own lines: runs, scenarios and steps, with the same meaning as `play` and the example."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from audit.told import calls_in, faults_in, runs_in, steps_in
from repeatguard_sdk._types import MISSING
from repeatguard_sdk.audit._files import Documents
from repeatguard_sdk.audit._recorded import RecordedCall
from repeatguard_sdk.audit.readers import READERS, steps

DATA = Path(__file__).parent.parent / "data"


def call(i: int, tool: str = "look_up", **more: Any) -> dict[str, Any]:
    """Return a recorded call."""
    return {
        "i": i,
        "turn": i,
        "tool": tool,
        "args": {"a": 1},
        "error": False,
        "result": "found",
        "result_sha": f"sha{i}",
        "effect": "read",
        **more,
    }


def run(*calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a line with a run."""
    return {"run_id": "r", "calls": list(calls), "user_messages": [], "external_events": [], **more}


def read(turn: int, **more: Any) -> RecordedCall:
    """Return what such a call is read as."""
    recorded = RecordedCall("look_up", {"a": 1}, "found", turn=turn, effect="read")
    return recorded._replace(**more)


# -- a run a line ----------------------------------------------------------------------------------


def test_a_line_is_a_run() -> None:
    """A run has its calls in order, and its name."""
    (only,) = runs_in([run(call(0), call(1))])
    assert ("r", 1, None) == (only.run_id, only.line, only.succeeded)
    assert [read(0), read(1)] == only.steps


def test_a_failed_call_has_the_text_of_its_failure() -> None:
    """The result of a call that failed is the text of its error."""
    assert [read(0, result=MISSING, error="boom")] == steps_in(
        [run(call(0, error=True, result="boom"))]
    )


@pytest.mark.parametrize("error", [True, False])
def test_a_result_that_was_cut_is_known_by_its_digest(error: bool) -> None:
    """A result that ends in "…" was cut, and what it is known by is the digest of the whole."""
    (only,) = calls_in([run(call(7, result="foun…", error=error))])
    assert "sha7" == only.digest
    assert "foun…" == (only.error if error else only.result)


@pytest.mark.parametrize(
    ("word", "effect"), [("terminal", "final"), ("session", "unknown"), ("write", "write")]
)
def test_effects_are_read_in_our_words(word: str, effect: str) -> None:
    """What the data call terminal is final, and a session may change anything."""
    assert [effect] == [step.effect for step in calls_in([run(call(0, effect=word))])]


def test_a_tool_whose_effect_differs_may_change_anything() -> None:
    """A shell reads and writes: all its calls are of unknown effect, those of others are not."""
    calls = calls_in([run(call(0, "sh"), call(1, "sh", effect="write"), call(2))])
    assert ["unknown", "unknown", "read"] == [step.effect for step in calls]


def test_what_happened_stands_before_its_call() -> None:
    """A person's message comes first, each is told once a call, and none after the last call."""
    spoken = [{"before_call": number} for number in (0, 0, 1, 2)]
    changed = [{"before_call": 1, "tool": "toggle"}, {"before_call": 1, "tool": "toggle"}]
    line = run(call(0), call(1), user_messages=spoken, external_events=changed)
    expected = ["user_message", read(0), "user_message", "external_change", read(1)]
    assert expected == steps_in([line])


@pytest.mark.parametrize(
    ("reward", "succeeded"),
    [(1, True), (1.0, True), (0.5, False), (0, False), (None, None), ("1", None)],
)
def test_a_reward_tells_whether_it_succeeded(reward: Any, succeeded: bool | None) -> None:
    """A reward of one or more is a task that was solved."""
    assert [succeeded] == [each.succeeded for each in runs_in([run(call(0), reward=reward)])]


def test_the_real_runs_are_read() -> None:
    """Each line of the test data is a run, with the calls and what lay between them as recorded."""
    path = DATA / "transcripts.jsonl"
    documents = [found for found in Documents(path) if isinstance(found, tuple)]
    runs = list(READERS["lines"].read(documents, str(path)))
    assert 174 == len(runs)
    for (line, given), found in zip(documents, runs, strict=True):
        assert not isinstance(found, str)
        assert (line, given["run_id"]) == (found.line, found.run_id)
        told = json.loads(json.dumps(given["calls"]))
        calls = [step for step in found.steps if isinstance(step, RecordedCall)]
        assert [each["args"] for each in told] == [each.arguments for each in calls]
        assert [each["result"] for each in told] == [
            each.result if each.error is None else each.error for each in calls
        ]
        spoken = {event["before_call"] for event in given["user_messages"]}
        assert len(spoken & set(range(len(told)))) == found.steps.count("user_message")


def test_a_run_may_have_a_number() -> None:
    """A run that is called by a number has it as its name, one without a name its line."""
    assert ["17"] == [each.run_id for each in runs_in([run(call(0), run_id=17)])]
    assert ["log.jsonl:1"] == [each.run_id for each in runs_in([run(call(0), run_id=None)])]


def test_calls_may_lack_what_they_do_not_need() -> None:
    """A call needs its tool; its turn is then its own."""
    bare = {"run_id": "r", "calls": [{"tool": "f", "args": '{"a": 1}'}, {"tool": "f", "turn": "x"}]}
    expected = [RecordedCall("f", {"a": 1}, turn=0), RecordedCall("f", {}, turn=1)]
    assert expected == steps_in([bare])


@pytest.mark.parametrize(
    "broken",
    [
        run(call(0, tool=["a"])),
        run({"i": 0}),
        {"run_id": "r", "calls": [3]},
        run(call(0), user_messages=[3]),
        run(call(0), user_messages=7),
    ],
)
def test_a_line_that_is_broken_inside_is_a_fault(broken: Any) -> None:
    """A run with a call that is none is a fault with its line, and the next one is read."""
    documents = [run(call(0)), broken, run(call(0))]
    ((line, what),) = faults_in(documents, "lines")
    assert 2 == line
    assert what.startswith("cannot be read: ")


def test_a_line_that_is_something_else_is_a_fault() -> None:
    """A line of another kind says what is missing, and a step what reads it."""
    assert [
        (1, 'neither a run with "calls" nor a scenario with "steps"'),
        (2, "one step of a run; read such files with --from steps"),
    ] == faults_in([{"a": 1}, {"tool": "f", "args": {}}], "lines")


# -- steps -----------------------------------------------------------------------------------------

STEP = {"tool": "look_up", "args": {"a": 1}, "result": "found"}


def test_a_scenario_is_a_run() -> None:
    """A whole scenario has its tools' effects, reads where none is declared."""
    tools = {"look_up": {}, "pay": {"effect": "write"}, "odd": {"effect": "none such"}}
    documents = [{"id": "s", "tools": tools, "steps": [STEP, {"tool": "pay"}, {"tool": "odd"}]}]
    (only,) = runs_in(documents)
    assert "s" == only.run_id
    assert [
        read(1),
        RecordedCall("pay", {}, None, turn=2, effect="write"),
        RecordedCall("odd", {}, None, turn=3),
    ] == only.steps


def test_runs_of_a_scenario_are_runs() -> None:
    """Steps that name a run are that run's; an event without one is told to all that have begun."""
    steps = [{**STEP, "run": "a"}, {"event": "user_message"}, {**STEP, "run": "b"}]
    one, two = runs_in([{"id": "s", "tools": {"look_up": {}}, "steps": steps}])
    assert ("s/a", [read(1), "user_message"]) == (one.run_id, one.steps)
    assert ("s/b", [read(1)]) == (two.run_id, two.steps)


def test_a_step_of_a_scenario_that_is_none_is_a_fault() -> None:
    """What is no step is named, and the others are read."""
    scenario = {"tools": {"look_up": {}}, "steps": [STEP, {"event": "none such"}]}
    assert [(1, "no step: {'event': 'none such'}")] == faults_in([scenario], "lines")


@pytest.mark.parametrize("name", ["field_reports.jsonl", "peer_scenarios.jsonl"])
def test_the_scenarios_are_read(name: str) -> None:
    """Every call of the scenarios of the test data is read."""
    documents = [found for found in Documents(DATA / name) if isinstance(found, tuple)]
    runs = runs_in([document for _, document in documents])
    told = sum("tool" in step for _, document in documents for step in document["steps"])
    assert told == sum(isinstance(step, RecordedCall) for each in runs for step in each.steps)


def test_steps_one_a_line_are_one_run() -> None:
    """Steps without a run are one run, called by its file."""
    documents = [
        {"event": "user_message", "run": ""},
        {**STEP, "turn": 7, "call_id": "a"},
        {**STEP, "turn": 7},
        {"event": "external_change"},
        {"event": "auto_continue"},
        {"event": "progress"},
        {"event": "compaction"},
        {"tool": "look_up", "args": {"a": 1}, "error": "boom"},
        {**STEP, "refused": "denied"},
    ]
    (only,) = runs_in(documents)
    one = read(1, effect=None)
    assert "log.jsonl" == only.run_id
    assert [
        "user_message",
        one._replace(call_id="a"),
        one,
        "external_change",
        "external_change",
        "compaction",
        one._replace(turn=2, result=MISSING, error="boom"),
        one._replace(turn=3, result=MISSING, error="denied", refused=True),
    ] == only.steps


def test_steps_of_several_runs_may_mix() -> None:
    """Lines of several runs are told apart by their name, and turns are each run's own."""
    documents = [{**STEP, "run": name, "turn": 1} for name in "abab"]
    one, two = runs_in(documents)
    assert ("a", [read(1, effect=None)] * 2, 1) == (one.run_id, one.steps, one.line)
    assert ("b", [read(1, effect=None)] * 2, 2) == (two.run_id, two.steps, two.line)


def test_a_bounded_number_of_runs_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run that stood still the longest is over; what comes later is another run of its name."""
    monkeypatch.setattr(steps, "OPEN", 2)
    documents = [{**STEP, "run": name} for name in "abacb"]
    assert ["b", "a", "c", "b"] == [each.run_id for each in runs_in(documents)]


def test_a_line_that_is_no_step_is_a_fault() -> None:
    """A line without a tool or a known event is named with its line."""
    odd: list[Any] = [{"event": "none such"}, {"event": 7}, {"tool": 7}, [STEP]]
    what = 'no step: it has neither a "tool" nor an "event" that is known'
    assert [(line, what) for line in (1, 2, 3, 4)] == faults_in(odd, "steps")
