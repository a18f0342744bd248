"""The state that the host gives with each turn: when it does not change, and when only a clock does."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import uuid
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from repeatguard_sdk import Ladder, Policy, Registry, Run, guarded_tool
from repeatguard_sdk.events import MemorySink
from repeatguard_sdk.exceptions import RunStateError

TOOLS = Registry()


@guarded_tool(registry=TOOLS)
def look(what: str) -> str:
    """Look something up."""
    return f"seen {what}"


@dataclasses.dataclass
class Basket:
    """A state as a dataclass."""

    items: list[str]


@attrs.define
class Ticket:
    """A state as an attrs class."""

    open: bool


@functools.cache
def order_model() -> Any:
    """Return a pydantic model."""
    pydantic = pytest.importorskip("pydantic")
    return pydantic.create_model("Order", status=(str, ...))


def pydantic_state() -> Any:
    """Return a state as an instance of it."""
    return order_model()(status="paid")


@pytest.mark.parametrize(
    "make",
    [
        lambda: {"open": ["SO-1"], "n": 1},
        lambda: ["a", {"b": 2}],
        lambda: {1, 2, 3},
        lambda: Basket(["bench"]),
        lambda: Ticket(open=True),
        pydantic_state,
        lambda: "text",
        lambda: None,
    ],
)
def test_any_record_is_a_state(make: Callable[[], Any]) -> None:
    """Equal records made anew are one state: three turns note it, six end the run."""
    said = []
    with Run(registry=TOOLS) as run:
        for _ in range(9):
            said.append(run.turn(state=make()))
    assert [None, None, None, "no_progress"] == [o and o.finding for o in said[:4]]
    assert [None, None] == said[4:6]
    assert len(said) == 6
    assert run.outcome is not None
    assert run.outcome.reason == "stuck"
    assert run.outcome.finding is not None
    assert (run.outcome.finding.kind, run.outcome.finding.count) == ("no_progress", 6)
    assert "did not change for 6 turns" in run.outcome.summary


def test_a_change_starts_the_count_afresh() -> None:
    """Two unchanged turns, a change, two unchanged turns: nothing to say."""
    with Run(registry=TOOLS) as run:
        assert not any(run.turn(state={"n": n}) for n in (1, 1, 1, 2, 2, 2, 1, 1, 1))
    assert run.outcome is not None
    assert run.outcome.reason == "completed"


@pytest.mark.parametrize("tell", ["user_message", "progress"])
def test_what_the_host_tells_starts_the_count_afresh(tell: str) -> None:
    """A user's words, or progress that the state does not show, are no standstill."""
    with Run(registry=TOOLS) as run:
        for turn in range(12):
            assert run.turn(state={"n": 1}) is None
            if turn % 3 == 2:
                getattr(run, tell)()


def test_a_state_changed_in_place_has_changed() -> None:
    """The run keeps an identity and not the object, so the host may go on using its own."""
    state = {"done": 0}
    with Run(registry=TOOLS) as run:
        for _ in range(9):
            state["done"] += 1
            assert run.turn(state=state) is None


def test_the_observation_waits_with_the_others() -> None:
    """It is delivered as every observation is, and offers what is open."""
    with Run(registry=TOOLS) as run:
        for n in range(4):
            run.turn(state=1)
            look(str(n))
        (message,) = run.messages("openai")
    assert "has changed for 3 turns" in message["content"]
    assert "answer the user now, from look" in message["content"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (datetime.datetime(2026, 1, 1, 9), datetime.datetime(2026, 1, 1, 10)),
        ("2026-01-01T09:00:00Z", "2026-01-01T09:00:07Z"),
        (1_767_225_600, 1_767_225_660),
        (1_767_225_600_123, 1_767_225_660_456),
        (str(uuid.UUID(int=1)), str(uuid.UUID(int=2))),
        ("9f86d081884c7d659a2feaa0c55ad015", "3c9909afec25354d551dae21590bb26e"),
    ],
)
def test_a_clock_or_a_random_id_is_warned_about_once(before: Any, after: Any) -> None:
    """The warning names the field and the way out; the turns count as progress until then."""
    sink = MemorySink()
    with Run(registry=TOOLS, events=sink) as run:
        for value in (before, after, before, after):
            run.turn(state={"order": {"status": "paid", "seen": value}})
    (warning,) = sink.warnings
    assert "order.seen" in warning.what
    assert "ignore=['order.seen']" in warning.what


def test_a_clock_beside_a_real_change_is_no_concern() -> None:
    """A state that moves in other fields too is what a state should be."""
    sink = MemorySink()
    with Run(registry=TOOLS, events=sink) as run:
        for n in range(5):
            run.turn(state={"n": n, "at": datetime.datetime(2026, 1, 1, n)})
    assert sink.warnings == []


@pytest.mark.parametrize(
    ("before", "after"), [("paid", "shipped"), (1, 2), (10.5, 11.0), (["a"], ["b"]), (True, False)]
)
def test_an_ordinary_field_is_no_clock(before: Any, after: Any) -> None:
    """A status, a count or a flag that changes is progress, whatever else stands still."""
    sink = MemorySink()
    with Run(registry=TOOLS, events=sink) as run:
        for value in (before, after, before, after):
            run.turn(state={"status": value})
    assert sink.warnings == []


def test_ignored_fields_do_not_count() -> None:
    """With the clock taken out, the standstill is seen, and there is nothing to warn about."""
    sink = MemorySink()
    said = []
    with Run(registry=TOOLS, events=sink) as run:
        for n in range(4):
            state = {"order": {"status": "paid", "at": datetime.datetime(2026, 1, 1, n)}}
            said.append(run.turn(state=state, ignore=["order.at"]))
    assert said[-1] is not None
    assert sink.warnings == []


def test_a_bare_string_of_ignored_fields_is_rejected() -> None:
    """It would be taken for a list of letters."""
    with Run(registry=TOOLS) as run, pytest.raises(RunStateError, match=r"ignore=\['at'\]"):
        run.turn(state={}, ignore="at")


def test_without_a_state_nothing_is_concluded_by_default() -> None:
    """Three look-ups in a row, or three turns of thought, are no standstill."""
    with Run(registry=TOOLS) as run:
        assert not any(run.turn() for _ in range(20))


def test_without_a_state_a_new_answer_is_progress_if_the_detector_is_asked_for() -> None:
    """Turns with new answers move on; those without any, once asked for, are noted."""
    policy = Policy(no_progress=Ladder(note=3, withhold=None, exit=None))
    with Run(registry=TOOLS, policy=policy) as run:
        for n in range(6):
            assert run.turn() is None
            look(str(n))
        said = [run.turn() for _ in range(4)]
    assert [None, None, None, "no_progress"] == [o and o.finding for o in said]


@pytest.mark.parametrize(("mode", "noted"), [("advise", True), ("observe", False), ("off", False)])
def test_the_softer_modes_never_end_a_run(mode: Any, noted: bool) -> None:
    """Advice speaks once; observation tells the sink what would have been done."""
    sink = MemorySink()
    with Run(registry=TOOLS, policy=Policy(mode=mode), events=sink) as run:
        said = [run.turn(state=1) for _ in range(8)]
    assert noted is any(said)
    assert run.outcome is not None
    assert run.outcome.reason == "completed"
    ended = [event for event in sink.repeats if event.would == "exit"]
    assert (mode != "off") is bool(ended)
