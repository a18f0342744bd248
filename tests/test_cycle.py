"""Cycles: laps of 2 to 6 calls that come back with the same results."""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repeatguard_sdk import Policy, Registry, Run, guarded_tool
from repeatguard_sdk._ring import PairRing
from repeatguard_sdk.detectors.cycle import Cycle, completed
from repeatguard_sdk.events import MemorySink
from repeatguard_sdk.testing import PlayedCall, play

PERIODS = (2, 3, 4, 5, 6)


def laps(period: int, times: int, *, result: Any = "done") -> list[dict[str, Any]]:
    """Steps that go round: one write a tool, so that each opens an epoch and none is a repeat."""
    lap = [{"tool": f"step{n}", "args": {"n": n}, "result": result} for n in range(period)]
    return lap * times


def writes(number: int) -> dict[str, Any]:
    """Declarations of that many writing tools."""
    return {f"step{n}": {"effect": "write"} for n in range(number)}


def cycles(played: list[PlayedCall]) -> list[int]:
    """Numbers of the calls with a cycle's finding."""
    return [number for number, call in enumerate(played, 1) if call.finding == "cycle"]


@pytest.mark.parametrize("period", PERIODS)
def test_cycle_is_noted_at_two_laps_and_ends_the_run_at_three(period: int) -> None:
    """Each period from 2 to 6 is found as its second and third lap are complete."""
    played = play({"tools": writes(period), "steps": laps(period, 5)})
    assert cycles(played) == [2 * period, 3 * period]
    assert played[2 * period - 1].decision == "execute"
    assert played[2 * period - 1].value.count == 1
    assert played[2 * period - 1].value.finding.count == 2
    assert played[3 * period - 1].decision == "exit"
    assert played[3 * period - 1].executed
    assert [call.executed for call in played] == [True] * 3 * period + [False] * 2 * period


@pytest.mark.parametrize("period", [7, 8, 12])
def test_longer_laps_are_no_cycle(period: int) -> None:
    """What comes back after more than six calls is left alone."""
    played = play({"tools": writes(period), "steps": laps(period, 4)})
    assert cycles(played) == []
    assert all(call.decision == "execute" for call in played)


@pytest.mark.parametrize("period", PERIODS)
def test_cycle_may_begin_anywhere(period: int) -> None:
    """Other calls before the first lap change nothing but the numbers."""
    before = [{"tool": "step0", "args": {"n": -n}, "result": "x"} for n in range(1, 4)]
    played = play({"tools": writes(period), "steps": [*before, *laps(period, 3)]})
    assert cycles(played) == [3 + 2 * period, 3 + 3 * period]


def test_text_names_the_two_calls_it_alternates_between() -> None:
    """The text of a period of two says "alternating between these two", in order."""
    played = play({"tools": writes(2), "steps": laps(2, 2)})
    assert "alternating between these two: step0, step1" in played[3].observation


@pytest.mark.parametrize("period", PERIODS[1:])
def test_text_names_the_calls_of_a_lap_in_order(period: int) -> None:
    """The text of a longer lap lists its tools as they were called."""
    played = play({"tools": writes(period), "steps": laps(period, 2)})
    names = ", ".join(f"step{n}" for n in range(period))
    assert names in played[-1].observation
    assert played[-1].value.finding.tools == tuple(f"step{n}" for n in range(period))


def test_text_of_two_calls_of_one_tool_says_so() -> None:
    """Two settings of one tool are two calls: set and set back."""
    steps = [{"tool": "set", "args": {"v": v}, "result": "ok"} for v in (1, 2)] * 2
    played = play({"tools": {"set": {"effect": "write"}}, "steps": steps})
    assert cycles(played) == [4]
    assert "alternating between two calls of set" in played[3].observation


@pytest.mark.parametrize(
    ("declared", "fault"),
    [
        ({"effect": "live"}, {}),
        ({"effect": "write", "repeatable": True}, {}),
        ({"effect": "unknown", "repeatable": True}, {}),
        ({"effect": "bookkeeping"}, {}),
        ({"effect": "write"}, {"error": "connection lost"}),
    ],
    ids=["live", "repeatable write", "repeatable unknown", "bookkeeping", "transient"],
)
def test_live_repeatable_and_transient_calls_are_no_part_of_a_cycle(
    declared: dict[str, Any], fault: dict[str, Any]
) -> None:
    """A lap in which one of two calls does not count is a lap of one, which is no cycle."""
    outcome = fault or {"result": "same"}
    lap = [
        {"tool": "step0", "args": {"n": 0}, "result": "done"},
        {"tool": "other", "args": {"n": 1}, **outcome},
    ]
    tools = {"step0": {"effect": "write", "repeatable": True}, "other": declared}
    assert cycles(play({"tools": tools, "steps": lap * 4})) == []


@pytest.mark.parametrize("declared", [{"effect": "live"}, {"effect": "bookkeeping"}])
def test_calls_that_do_not_count_hide_no_cycle(declared: dict[str, Any]) -> None:
    """Polls and plans between the calls of a lap, never the same twice, do not break it."""
    steps: list[dict[str, Any]] = []
    for number, step in enumerate(laps(3, 2)):
        steps += [step, {"tool": "other", "args": {"n": number}, "result": number}]
    played = play({"tools": {**writes(3), "other": declared}, "steps": steps})
    assert cycles(played) == [11]


@pytest.mark.parametrize("period", PERIODS)
@pytest.mark.parametrize("which", [0, 1])
def test_changed_result_breaks_a_cycle(period: int, which: int) -> None:
    """One other result in the second lap, and two more laps are needed."""
    steps = laps(period, 4)
    changed = period + which
    steps[changed] = {**steps[changed], "result": "something else"}
    found = cycles(play({"tools": writes(period), "steps": steps}))
    assert found == [changed + 1 + 2 * period]


def test_a_failure_is_another_result_than_the_answer_of_the_same_text() -> None:
    """A call that raised is not equal to one that returned the text of the error."""
    lap = [
        {"tool": "step0", "args": {}, "result": "x"},
        {"tool": "step1", "args": {}, "result": "y"},
    ]
    other = [lap[0], {"tool": "step1", "args": {}, "error": "y"}]
    assert cycles(play({"tools": writes(2), "steps": [*lap, *other, *lap, *other]})) == [8]


def test_one_call_whose_answers_alternate_is_no_cycle() -> None:
    """A cycle needs two different calls: answers that change are news."""
    steps = [{"tool": "step0", "args": {}, "result": result} for result in "xyxyxyxy"]
    assert cycles(play({"tools": writes(1), "steps": steps})) == []


def test_repeats_of_one_call_are_no_cycle() -> None:
    """A lap of one is the counter's, not a cycle of two."""
    steps = [{"tool": "poke", "args": {}, "result": "x"}] * 9
    played = play({"tools": {"poke": {"effect": "write", "repeatable": True}}, "steps": steps})
    assert cycles(played) == []


def test_shorter_lap_inside_a_longer_one_is_named() -> None:
    """A lap of four that is two laps of two is found as a lap of two."""
    played = play({"tools": writes(2), "steps": laps(2, 4)})
    assert cycles(played) == [4, 6]
    assert played[3].value.finding.tools == ("step0", "step1")


def test_user_message_clears_the_laps() -> None:
    """What the user asks for again is no lap."""
    half = laps(2, 1)
    steps = [*half, {"event": "user_message"}, *half]
    assert cycles(play({"tools": writes(2), "steps": steps})) == []


@pytest.mark.parametrize("event", ["progress", "compaction", "auto_continue"])
def test_other_events_clear_no_laps(event: str) -> None:
    """Only a user's word breaks the streak."""
    half = laps(2, 1)
    played = play({"tools": writes(2), "steps": [*half, {"event": event}, *half]})
    assert cycles(played) == [4]


def test_replayed_calls_are_laps_too() -> None:
    """A lap that is answered from store is a lap: two reads and a plan that never ends."""
    steps = [{"tool": t, "args": {}, "result": t} for t in ("a", "b")] * 3
    played = play({"tools": {"a": {}, "b": {}}, "steps": steps})
    assert [call.decision for call in played[:5]] == [
        "execute",
        "execute",
        "replay",
        "replay",
        "exit",
    ]
    assert played[2].finding == "repeat"
    assert played[3].finding == "cycle"


def test_cycle_and_counter_on_one_call_are_one_observation() -> None:
    """The call that is a repeat and completes a lap is spoken of once, and the text has the shape."""
    registry, sink = Registry(), MemorySink()
    tools = [guarded_tool(name=n, registry=registry)(lambda n=n: n) for n in ("first", "second")]
    with Run(registry=registry, events=sink) as run:
        for tool in tools * 2:
            tool()
        found = run.observations()
        assert [each.finding for each in found] == ["repeat", "cycle"]
        assert "alternating between these two: first, second" in found[1].text
    assert [event.call for event in sink.repeats] == [3, 4]


def test_advice_in_place_of_the_exit() -> None:
    """In advise a cycle ends nothing: it is noted at two laps and at three."""
    played = play({"tools": writes(2), "steps": laps(2, 3), "mode": "advise"})
    assert [number for number in cycles(played) if played[number - 1].observation] == [4, 6]
    assert [played[number - 1].value.would for number in (4, 6)] == ["execute", "exit"]
    assert all(call.executed for call in played)


def test_cycle_can_be_turned_off() -> None:
    """`Policy(cycle=None)` looks for none."""
    played = play({"tools": writes(2), "steps": laps(2, 6)}, Policy(cycle=None))
    assert cycles(played) == []
    assert all(call.executed for call in played)


def test_cycle_through_an_unknown_tool_is_found() -> None:
    """Edit, run, edit back, run: the shell's answers come back, the files too."""
    lap = [
        {"tool": "edit", "args": {"v": 1}, "result": "ok"},
        {"tool": "shell", "args": {"c": "pytest"}, "result": "1 failed"},
        {"tool": "edit", "args": {"v": 2}, "result": "ok"},
        {"tool": "shell", "args": {"c": "pytest"}, "result": "2 failed"},
    ]
    tools = {"edit": {"effect": "write"}, "shell": {"effect": "unknown"}}
    played = play({"tools": tools, "steps": lap * 3})
    assert cycles(played) == [8, 12]
    assert played[11].decision == "exit"


# -- the ring ------------------------------------------------------------------------------------


def naive(pairs: list[tuple[int, Any]]) -> tuple[int, int] | None:
    """Look over the whole history: the shortest period whose lap the newest pair completes."""
    for period in PERIODS:
        run = 0
        while run + period < len(pairs) and _equal(pairs[-1 - run], pairs[-1 - run - period]):
            run += 1
        if run >= period and run % period == 0 and len({key for key, _ in pairs[-period:]}) > 1:
            return period, run // period + 1
    return None


def _equal(one: tuple[int, Any], other: tuple[int, Any]) -> bool:
    return one == other and one[1] is not None


few_pairs = st.tuples(st.integers(1, 3), st.sampled_from(["x", "x", "y", None]))
histories = st.one_of(
    st.lists(few_pairs, max_size=40),
    st.tuples(
        st.lists(few_pairs, max_size=5),
        st.lists(few_pairs, min_size=1, max_size=7),
        st.integers(1, 6),
        st.lists(few_pairs, max_size=9),
    ).map(lambda parts: parts[0] + parts[1] * parts[2] + parts[3]),
)


@settings(max_examples=1500, deadline=None)
@given(histories)
def test_ring_finds_what_a_scan_of_the_whole_history_finds(history: list[Any]) -> None:
    """After each pair the ring of six knows the same cycle as a scan from the start."""
    ring = PairRing()
    for length, (number, token) in enumerate(history, 1):
        ring.append(number, token, f"tool{number}")
        found = completed(ring)
        assert naive(history[:length]) == (None if found is None else (found.period, found.laps))
        if found is not None:
            lap = history[length - found.period : length]
            assert found.tools == tuple(f"tool{number}" for number, _ in lap)


@settings(max_examples=300, deadline=None)
@given(histories, st.sets(st.integers(0, 39)))
def test_new_pairs_may_take_the_short_way(history: list[Any], fresh: set[int]) -> None:
    """A pair told to be new leaves the ring as one that is compared and equals none."""
    slow, fast = PairRing(), PairRing()
    for place, (number, token) in enumerate(history):
        mine = 1000 + place if place in fresh else number
        (fast.append_new if place in fresh else fast.append)(mine, token, "tool")
        slow.append(mine, token, "tool")
        assert completed(fast) == completed(slow)


def _operations(appends: int, after: int) -> int:
    """Count the lines Python runs for some appends to a ring that has seen `after` pairs."""
    ring, lines = PairRing(), 0
    script = random.Random(7)
    for _ in range(after):
        ring.append(script.randrange(3), "x", "tool")

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for number in range(appends):
            ring.append(number % 3, "x", "tool")
            completed(ring)
    finally:
        sys.settrace(before)
    return lines


def test_an_append_costs_the_same_after_a_hundred_thousand() -> None:
    """The lines run for sixty appends do not grow with what the ring has seen."""
    few, many = _operations(60, after=100), _operations(60, after=100_000)
    assert abs(many - few) <= few * 0.1


def test_ring_keeps_a_few_laps_and_no_more() -> None:
    """The memory of the ring does not grow either."""
    ring = PairRing()
    for number in range(1000):
        ring.append(number, "x", "tool")
        ring.append_new(1000 + number, "x", "tool")
        assert len(ring._pairs) <= 8 * PERIODS[-1]
    assert len(ring.newest(PERIODS[-1])) == PERIODS[-1]
    ring.clear()
    assert ring._pairs == []
    assert completed(ring) is None


def test_found_cycle_says_its_period_laps_and_tools() -> None:
    """The detector's verdict is a value."""
    ring = PairRing()
    for number in (1, 2, 1, 2):
        ring.append(number, "x", f"tool{number}")
    assert completed(ring) == Cycle(2, 2, ("tool1", "tool2"))
