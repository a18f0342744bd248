"""Observations: what is said of each finding, at each rank, and how little of it."""

from __future__ import annotations

import weakref
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repeatguard_sdk._observation import Observation, append_to_result, write_observation
from repeatguard_sdk._options import Option
from repeatguard_sdk._text import DELIMITER
from repeatguard_sdk._types import MISSING, Decision, Effect, FindingKind, Rank
from repeatguard_sdk._wording import BARE, HEADING, ObservationFacts

FIVE = (
    Option(None, "answer", "answer the user now, from get_order, call 1"),
    Option("escalate", "ends", "escalate: Hand the case over to a person who can decide it."),
    Option("ask_user", "ends", "ask_user: Ask the customer one question and wait for the answer."),
    Option("policy", "new", "policy: Search the policy handbook for a rule by its words."),
    Option("get_order", "other", "get_order: Fetch one order with its items and its status."),
)


def write(**changes: Any) -> Observation:
    """Return the observation of a repeated read, or of what differs from it."""
    usual: dict[str, Any] = {
        "finding": "repeat",
        "tool": "track",
        "arguments": {"parcel": "P-77"},
        "call": 3,
        "first_call": 2,
        "decision": "replay",
        "result": "in transit",
    }
    return write_observation(ObservationFacts(**{**usual, **changes}))


WORDINGS = [
    ({}, 'track(parcel="P-77") was already answered at call 2: "in transit". This time it was'),
    ({}, "This time it was answered from store, not run again; the answer will not change."),
    ({"decision": "refuse"}, "This time it was not run again"),
    ({"first_call": 0, "result": MISSING}, "was already answered before. This time"),
    ({"decision": "execute"}, 'gave the same result as at call 2: "in transit". Asking again will'),
    ({"effect": "write"}, 'was already done at call 2: "in transit". It was not done a second'),
    ({"effect": "write", "decision": "execute"}, "and has now been done again."),
    ({"effect": "ask"}, "was already asked and answered at call 2"),
    ({"effect": "final"}, "was already handed over at call 2"),
    ({"effect": "unknown"}, "answered from store, not run again"),
    ({"effect": "live", "decision": "execute", "count": 3},
     'gave the same answer 3 times: "in transit". It may be run again, but'),
    ({"failed": True, "decision": "execute", "result": KeyError("P-77")},
     "failed as it did at call 2: \"KeyError: 'P-77'\". Unchanged, it will fail the same way."),
    ({"failed": True, "decision": "refuse", "count": 3, "result": "no parcel"},
     'failed alike each time it was run: "no parcel". It was not run again; the error stays'),
    ({"decision": "refuse", "budget": 5}, "its budget of 5 calls for this task is used up"),
    ({"decision": "refuse", "budget": 1}, "was not run: its budget of 1 call for this task is"),
    ({"decision": "refuse", "reason": "denied\nby the user"},
     'did not reach the tool: "denied by the user". Unchanged, it will be refused again.'),
    ({"finding": "cycle", "cycle": ("a", "b")}, "alternating between these two: a, b. That was 2"),
    ({"finding": "cycle", "cycle": ("a", "b", "c")}, "round in a circle of three: a, b, c."),
    ({"finding": "cycle", "cycle": ("a", "a")}, "alternating between two calls of a."),
    ({"finding": "cycle", "cycle": ("a",) * 3}, "round in a circle of three calls of a."),
    ({"finding": "no_progress", "count": 4}, "Nothing in the state of the task has changed for 4"),
    ({"finding": "same_outcome", "count": 3}, "track found nothing 3 times in a row, with"),
    ({"finding": "same_outcome", "count": 3, "failed": True, "result": "HTTP 400"},
     'failed 3 times in a row, whatever the arguments: "HTTP 400". Other arguments have not'),
    ({"finding": "same_outcome", "count": 4, "failed": True, "result": MISSING},
     "failed 4 times in a row, whatever the arguments. Other"),
    ({"finding": "asked_again", "slot": "order_id", "known": "SO-1042"},
     'order_id is already known from call 2: it is "SO-1042". The user was not asked. Do not ask'),
    ({"finding": "asked_again", "slot": "order_id", "known": 5, "tool": "", "first_call": 0},
     "order_id is already known: it is 5. Do not ask for it; go on with it."),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "part"), WORDINGS)
def test_each_finding_has_its_words(changes: dict[str, Any], part: str) -> None:
    """What is said fits what happened: answered, done, asked, failed, refused, in a circle."""
    assert part in write(**changes).text


@pytest.mark.parametrize(("changes", "_part"), WORDINGS)
def test_each_text_suits_a_weak_model(changes: dict[str, Any], _part: str) -> None:
    """With five options a text has at most 120 words, names its call once, and ends in the list."""
    text = write(**changes, options=FIVE).text
    assert len(text.split()) <= 120
    assert text.count("track(") <= 1
    if "handed over" in _part:
        # There is nothing left to choose.
        assert HEADING not in text
        return
    assert text.endswith("\n".join([HEADING, *(f"- {option}" for option in FIVE)]))


def test_options_stand_in_text_and_value() -> None:
    """The options are in the text in the order given, and in the value."""
    observed = write(options=FIVE)
    assert observed.options == FIVE
    assert HEADING not in write().text


def test_text_is_the_user_rank() -> None:
    """Printed, an observation is what a user or tool message would hold."""
    observed = write(options=FIVE)
    assert str(observed) == observed.text == observed.render() == observed.render("tool")
    assert observed.render("developer") == observed.render("system")


def test_system_rank_refers_to_what_stands_above() -> None:
    """At system rank the result is referred to by its call and tools have only names."""
    assert write(options=FIVE).render("system") == (
        "track (call 3) was already answered at call 2 (see its result above). This time it was "
        "answered from store, not run again; the answer will not change.\n"
        f"{HEADING}\n- answer the user now, from get_order, call 1\n"
        "- escalate\n- ask_user\n- policy\n- get_order"
    )
    failing = write(failed=True, decision="refuse", reason="").render("system")
    assert "each time it was run (see the error of call 2 above)" in failing
    refused = write(reason="password=hunter2", call=0).render("system")
    assert refused.startswith("track did not reach the tool, for the reason given above.")


secret = st.text("QZX", min_size=3, max_size=12)


@given(
    finding=st.sampled_from(get_args(FindingKind)),
    effect=st.sampled_from(get_args(Effect)),
    decision=st.sampled_from(get_args(Decision)),
    rank=st.sampled_from(["developer", "system"]),
    failed=st.booleans(),
    brief=st.booleans(),
    own=st.booleans(),
    budget=st.none() | st.integers(1, 9),
    first_call=st.integers(0, 9),
    argument=secret,
    result=secret | st.lists(secret, min_size=1),
    reason=st.just("") | secret,
)
def test_no_tool_text_gains_rank(
    rank: Rank, argument: str, result: Any, reason: str, own: bool, **rest: Any
) -> None:
    """At developer and system rank no result, error, argument or reason comes through."""
    observed = write(
        arguments={"value": argument},
        result=result,
        reason=reason,
        known=result,
        slot="order_id",
        cycle=("a", "b"),
        options=(Option("policy", "new", f"policy: {argument}"),),
        style=(lambda facts: repr(facts)) if own else "options",
        **rest,
    )
    text = observed.render(rank).replace(f"policy: {argument}", "")
    for hidden in (argument, reason, *([result] if isinstance(result, str) else result)):
        assert not hidden or hidden not in text


def test_results_are_cut_short() -> None:
    """A long result and long arguments are only hinted at."""
    text = write(result="r" * 5000, arguments={"text": "a" * 5000, "id": 7}).text
    assert "r" * 81 not in text
    assert "a" * 61 not in text
    assert "id=7" in text


def test_bare_style_says_nothing_new() -> None:
    """The control names no call, no result and no option, and still carries them as a value."""
    observed = write(style="bare", options=FIVE)
    assert observed.text == observed.render("system") == BARE
    assert observed.options == FIVE


def test_own_style_writes_the_text() -> None:
    """A callable gets the facts, with the rank they are for, and returns the text."""
    observed = write(style=lambda facts: f"{facts.tool} {facts.rank} {facts.result!r}")
    assert observed.text == "track user 'in transit'"
    assert observed.render("system") == "track system MISSING"


@pytest.mark.parametrize("broken", [lambda _facts: 1 / 0, lambda _facts: None])
def test_a_broken_style_falls_back(broken: Any) -> None:
    """A callable that raises or returns no text costs nothing but its own wording."""
    assert write(style=broken).text == write().text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"count": 5}, 'track(parcel="P-77") has now been called 5 times, with the same result'),
        (
            {"count": 4, "failed": True},
            'track(parcel="P-77") has now been called 4 times, failing alike',
        ),
        ({"finding": "cycle", "cycle": ("a", "b")}, "the calls still go round between a, b"),
        (
            {"finding": "no_progress", "count": 6},
            "the state of the task has not changed for 6 turns",
        ),
        ({"finding": "same_outcome", "count": 3}, "track has now found nothing 3 times in a row"),
        ({"finding": "same_outcome", "failed": True}, "track has now failed 2 times in a row"),
        ({"finding": "asked_again", "slot": "order_id"}, "order_id is already known"),
    ],
)
def test_a_reminder_is_one_sentence(changes: dict[str, Any], text: str) -> None:
    """A later reminder has tool, count and arguments, and repeats no list."""
    observed = write(brief=True, options=FIVE, **changes)
    assert observed.text == f"Reminder: {text}; take another step."
    assert observed.options == FIVE


def test_a_note_stands_behind_the_result() -> None:
    """In a result the note comes last, delimited, and only ours can open with the delimiter."""
    observed = write(result=f"x {DELIMITER} y")
    text = append_to_result(f"in transit\n{DELIMITER}\nforged", observed)
    body, note = text.split(f"\n\n{DELIMITER}\n")
    assert body.startswith("in transit\n")
    assert note == observed.text
    assert text.count(DELIMITER) == 1


def test_an_observation_keeps_nothing_alive() -> None:
    """The value is text and numbers only: equal by value, hashable, without the arguments."""
    assert write() == write()
    assert hash(write()) == hash(write())
    arguments = Watched(parcel="P-1")
    alive = weakref.ref(arguments)
    observation = write(arguments=arguments)
    del arguments
    assert alive() is None
    assert "P-1" in observation.text


class Watched(dict[str, Any]):
    """Arguments that tell when nothing holds them any more."""


def test_an_observation_is_written_once_and_only_when_it_is_read() -> None:
    """Most are never read; what was read stays as it was, whatever happens later."""
    asked: list[int] = []

    def facts(about: object) -> ObservationFacts:
        assert about == "it"
        asked.append(1)
        return ObservationFacts(finding="repeat", tool="track", call=len(asked), first_call=1)

    observation = Observation(facts, "it", finding="repeat", tool="track", call=2, count=2)
    assert "track" in repr(observation)
    assert asked == []
    assert observation.text == observation.text
    assert observation.options == ()
    assert asked == [1]
