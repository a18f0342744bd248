"""The report: what it counts, whatever the order in which events and records come."""

from __future__ import annotations

import json
import math
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import demo_runs
import report_strategies as given_
from repeatguard_sdk.events import SUSPECTED_CAUSES, RepeatEvent, RunRecord
from repeatguard_sdk.report import Filters, Rate, Report, build_report, rate_of, to_json
from repeatguard_sdk.report._build import MAX_TOOLS
from repeatguard_sdk.report._tallies import MAX_GROUPS

many_events = st.lists(given_.events, max_size=12)
many_records = st.lists(given_.records, max_size=6)
EVENT = RepeatEvent(
    run_id="r1",
    number=1,
    at=1_000.0,
    call=2,
    turn=2,
    tool="look",
    finding="repeat",
    decision="replay",
    would="replay",
    count=2,
    cause="identical call",
    result_digest="d1",
    preview='"nothing"',
    style="options",
    effect="read",
    suspected_cause="unresolved",
    did="other_call",
)
RECORD = RunRecord(
    run_id="r1",
    started=900.0,
    ended=1_100.0,
    calls=2,
    turns=2,
    executed={"look": 1},
    replayed={"look": 1},
    joined={},
    refused={},
    events=1,
    reason="completed",
)


def event(**changes: Any) -> RepeatEvent:
    return attrs.evolve(EVENT, **changes)


def record(**changes: Any) -> RunRecord:
    return attrs.evolve(RECORD, **changes)


def one_tool(*events: RepeatEvent) -> Any:
    (tool,) = build_report(events, []).tools
    return tool


def rates(report: Report) -> list[Rate]:
    steps = [row.ended for row in report.next_steps]
    counts = [each.ended for row in report.next_steps for each in row.by_count]
    return [report.fire_rate, *(tool.ended for tool in report.tools), *steps, *counts]


# -- laws ------------------------------------------------------------------------------------------


@given(many_events, many_records, st.randoms(use_true_random=False))
def test_the_order_does_not_matter(events: Any, records: Any, chance: Any) -> None:
    """Files may be merged in any order."""
    expected = build_report(events, records)
    chance.shuffle(events)
    chance.shuffle(records)
    assert expected == build_report(events, records)


@given(many_events, many_records)
def test_parts_add_up(events: Any, records: Any) -> None:
    """What is counted by tool, detector, cause, result and day is everything."""
    report = build_report(events, records)
    assert len(events) == report.events == sum(tool.events for tool in report.tools)
    assert len(events) == sum(each.events for each in report.findings)
    assert len(events) == sum(each.events for each in report.causes)
    assert len(events) == sum(day.events for day in report.days)
    exits = sum(each.decision == "exit" for each in events)
    assert len(events) - exits == sum(row.events for row in report.next_steps)
    for tool in report.tools:
        assert tool.events == sum(group.events for group in tool.groups) + tool.other_results
        assert tool.events == sum(cause.events for cause in tool.causes)
        assert tool.calls == tool.executed + tool.replayed + tool.joined + tool.refused
        assert math.isclose(1, sum(group.share for group in tool.groups))
    if events:
        assert math.isclose(1, sum(tool.share for tool in report.tools))


@given(many_events, many_records)
def test_rates_lie_in_their_intervals(events: Any, records: Any) -> None:
    """A rate is within its interval and that within 0 and 1, or there is none of either."""
    for rate in rates(build_report(events, records)):
        if rate.of:
            assert None not in (rate.low, rate.rate, rate.high)
            assert 0 <= rate.low <= rate.rate <= rate.high <= 1
        else:
            assert rate.low is rate.rate is rate.high is None


@given(many_events, many_records)
def test_calls_add_up(events: Any, records: Any) -> None:
    """A call ran or was answered without execution; nothing is estimated."""
    answered = build_report(events, records).answered
    assert sum(run.calls for run in records) == answered.calls
    assert answered.calls == answered.executed + answered.without_execution


@given(many_events, many_records)
def test_runs_add_up(events: Any, records: Any) -> None:
    """All runs are those with a record and those that only left events."""
    report = build_report(events, records)
    assert report.runs == len(records) + report.unrecorded
    assert len({each.run_id for each in events}) == report.fire_rate.hits
    assert len(records) == sum(report.outcomes.values())


@given(many_events, many_records)
def test_the_report_is_json(events: Any, records: Any) -> None:
    """Whatever the tools wrote, the report is ASCII and reads back as what it was."""
    report = build_report(events, records)
    text = to_json(report)
    assert text.isascii()
    assert json.loads(text)["events"] == report.events


@given(st.integers(0, 500), st.integers(0, 500))
def test_an_interval_narrows_with_what_is_known(hits: int, more: int) -> None:
    """The same rate of ten times as many is surer."""
    few, many = rate_of(hits, hits + more), rate_of(10 * hits, 10 * (hits + more))
    if few.of:
        assert few.low <= many.low <= many.high <= few.high  # type: ignore[operator]


# -- rates -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [
        # Newcombe (1998), table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_interval_is_that_of_wilson(hits: int, of: int, low: float, high: float) -> None:
    """The four examples that Newcombe published come out to the digits he gives."""
    rate = rate_of(hits, of)
    assert (low, high) == (round(rate.low or 0, 4), round(rate.high or 0, 4))


def test_more_hits_than_there_are() -> None:
    """The mistake is named with both numbers."""
    with pytest.raises(ValueError, match=r"rate_of\(3, 2\)"):
        rate_of(3, 2)


# -- what stands behind the events -----------------------------------------------------------------


def test_one_result_is_one_group() -> None:
    """Events with the same digest are together, under the earliest preview there is."""
    tool = one_tool(
        event(at=3.0, preview="later"), event(at=1.0, preview=""), event(at=2.0, preview="earlier")
    )
    assert [("earlier", 3)] == [(group.preview, group.events) for group in tool.groups]


def test_an_error_is_no_result() -> None:
    """The same digest stands in two groups if it failed once."""
    tool = one_tool(event(), event(), event(failed=True))
    assert [(2, False), (1, True)] == [(group.events, group.failed) for group in tool.groups]


def test_without_a_digest_the_preview_is_the_group() -> None:
    """A result without identity still has a text."""
    tool = one_tool(*(event(result_digest="", preview=text) for text in "aab"))
    assert [("a", 2), ("b", 1)] == [(group.preview, group.events) for group in tool.groups]


def test_results_past_the_limit_are_counted() -> None:
    """A tool whose results all differ takes bounded room."""
    tool = one_tool(*(event(result_digest=str(number)) for number in range(MAX_GROUPS + 7)))
    assert (MAX_GROUPS, 7) == (len(tool.groups), tool.other_results)


def test_tools_past_the_limit_are_counted() -> None:
    """A model that makes up names takes bounded room."""
    report = build_report([event(tool=str(number)) for number in range(MAX_TOOLS + 3)], [])
    assert (MAX_TOOLS, 3) == (len(report.tools), report.other_tools)


def test_the_suspected_cause_is_the_most_frequent_one() -> None:
    """Each count stands beside its rule, and what has no cause does not hide one."""
    causes = ["constraint", "retryable", "retryable", None, None, None]
    tool = one_tool(*(event(suspected_cause=cause) for cause in causes))
    assert "retryable" == tool.suspected_cause
    assert [None, "retryable", "constraint"] == [each.cause for each in tool.causes]
    rules = {each.cause: each.rule for each in tool.causes}
    assert SUSPECTED_CAUSES["retryable"] == rules["retryable"]
    assert "No rule fits" in rules[None]


def test_the_worst_tool_is_first() -> None:
    """Tools are sorted by events, then by runs."""
    events = [event(tool="b"), event(tool="b"), event(tool="c"), event(tool="c", run_id="r2")]
    assert ["c", "b", "a"] == [
        tool.tool for tool in build_report([*events, event(tool="a")], []).tools
    ]


# -- what followed ---------------------------------------------------------------------------------


def test_a_note_ended_the_repetition() -> None:
    """Another call and an answer are an end, the same call is none, and the rest tells nothing."""
    steps = ["other_call", "answered", "same_call", "ended", None]
    (row,) = build_report([event(did=did) for did in steps], []).next_steps
    assert (2, 3) == (row.ended.hits, row.ended.of)
    assert (5, 1, 1) == (row.events, row.over, row.unknown)


def test_events_without_a_note_are_the_comparison() -> None:
    """They stand last, apart from those with a note, and an exit is in neither."""
    events = [
        *[event(style="", mode="observe", decision="execute", did="same_call")] * 3,
        event(),
        event(style="", decision="exit", did="ended"),
    ]
    rows = build_report(events, []).next_steps
    assert [("options", "enforce", 1), ("", "observe", 3)] == [
        (row.style, row.mode, row.events) for row in rows
    ]


def test_steps_are_told_apart_by_count() -> None:
    """A second call is left more easily than a tenth one, which stands with the fifth."""
    events = [event(count=2), event(count=5, did="same_call"), event(count=10, did="same_call")]
    (row,) = build_report(events, []).next_steps
    assert [(2, 1, 1), (5, 0, 2)] == [
        (each.count, each.ended.hits, each.ended.of) for each in row.by_count
    ]


def test_a_tool_counts_its_notes_only() -> None:
    """What followed where nothing was said is no merit of a note."""
    tool = one_tool(event(), event(style="", decision="execute", mode="observe", did="same_call"))
    assert (1, 1) == (tool.ended.hits, tool.ended.of)


# -- runs ------------------------------------------------------------------------------------------


def test_a_run_without_a_record() -> None:
    """A run that was killed is told apart, and is a run all the same."""
    report = build_report([event(run_id="killed"), event()], [record(), record(run_id="calm")])
    assert (3, 1) == (report.runs, report.unrecorded)
    assert (2, 3) == (report.fire_rate.hits, report.fire_rate.of)


def test_what_the_end_answered_is_the_rest() -> None:
    """No record counts the calls at the end of a run, but nothing else is left of all calls."""
    answered = build_report([], [record(calls=5, joined={"look": 1})]).answered
    assert (5, 1, 1, 1, 2) == (
        answered.calls,
        answered.executed,
        answered.replayed,
        answered.joined,
        answered.at_the_end,
    )
    assert 4 == answered.without_execution


def test_turns_are_saved_up_to_a_limit_that_was_given() -> None:
    """Without the limit nobody knows, and a run that opened no turn is not guessed at."""
    runs = [record(reason="stuck", turns=turns) for turns in (5, 12, 0)] + [record(turns=1)]
    unknown = build_report([], runs).early_ends
    assert (3, None, 1) == (unknown.runs, unknown.turns_left, unknown.without_turns)
    assert 5 == build_report([], runs, max_turns=10).early_ends.turns_left


def test_a_limit_that_is_none() -> None:
    """A limit below one turn is an error that says what is meant."""
    with pytest.raises(ValueError, match="max_turns=0"):
        build_report([], [], max_turns=0)


def test_what_enforce_would_have_done() -> None:
    """Replays are told apart by whether they would have been right, and runs are counted once."""
    soft = event(mode="observe", decision="execute", style="")
    events = [
        attrs.evolve(soft, differed=False),
        attrs.evolve(soft, differed=True),
        attrs.evolve(soft, differed=None),
        attrs.evolve(soft, would="refuse"),
        attrs.evolve(soft, would="exit"),
        attrs.evolve(soft, would="exit"),
        event(),
    ]
    would = build_report(events, []).would
    assert (3, 1, 1, 1) == (would.replayed, would.equal, would.differed, would.unknown)
    assert (1, 2, 1) == (would.refused, would.exited, would.runs_ended)


def test_what_is_about_no_tool() -> None:
    """A row about the run does not get the refusals of unknown names, which share its empty name."""
    tool = build_report([event(tool="")], [record(refused={"": 3})]).tools[0]
    assert ("", 0, 0) == (tool.tool, tool.calls, tool.refused)


# -- filters ---------------------------------------------------------------------------------------


def test_a_filter_on_tools() -> None:
    """Events and calls are those of the tool; what ended a run is not known by tool."""
    runs = [record(calls=9, executed={"look": 1, "other": 5}, refused={"quiet": 2})]
    filters = Filters(tools=("look", "quiet"))
    report = build_report([event(), event(tool="other")], runs, filters=filters)
    assert ["look"] == [tool.tool for tool in report.tools]
    assert (4, 1, 2, None) == (
        report.answered.calls,
        report.answered.executed,
        report.answered.refused,
        report.answered.at_the_end,
    )


def test_a_filter_on_findings() -> None:
    """Only the runs that such an event ended are ended early."""
    stuck = [record(run_id=run_id, reason="stuck") for run_id in ("r1", "r2")]
    events = [
        event(decision="exit", finding="cycle", run_id="r1"),
        event(decision="exit", run_id="r2"),
    ]
    report = build_report(events, stuck, filters=Filters(findings=("cycle",)))
    assert (1, 1) == (report.events, report.early_ends.runs)


def test_a_filter_on_times() -> None:
    """Events count by their own time, from the first moment on and before the second."""
    events = [event(at=float(at)) for at in (9, 10, 19, 20)]
    report = build_report(events, [], filters=Filters(since=10, until=20))
    assert (2, 10.0, 19.0) == (report.events, report.first_at, report.last_at)


@pytest.mark.parametrize("at", [math.nan, math.inf, -math.inf, -1.0, 1e300])
def test_a_time_that_is_none(at: float) -> None:
    """The clock of a host may give anything; the event counts, and its day is left out."""
    report = build_report([event(at=at), event()], [record(started=at)])
    assert (2, 1) == (report.events, sum(day.events for day in report.days))
    assert "NaN" not in to_json(report)


# -- real runs -------------------------------------------------------------------------------------


def test_real_runs_add_up() -> None:
    """Of real runs every cause is met, calls add up, and no record counts more than its calls."""
    sink = demo_runs.sample(runs=150)
    report = build_report(sink.repeats, sink.runs, max_turns=20)
    assert set(SUSPECTED_CAUSES) <= {each.cause for each in report.causes}
    assert 150 == report.runs
    assert report.answered.calls == sum(run.calls for run in sink.runs)
    done = ("executed", "replayed", "joined", "refused")
    for run in sink.runs:
        assert run.calls >= sum(sum(getattr(run, what).values()) for what in done)
    assert {"enforce", "advise", "observe"} <= {row.mode for row in report.next_steps}
