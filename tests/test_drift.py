"""A world that moves by itself: nothing stored is served across a live tool's changed answer."""

from __future__ import annotations

from typing import Any

import pytest

from repeatguard_sdk.testing import PlayedCall, play

TOOLS = {
    "read": {"effect": "read"},
    "shell": {"effect": "unknown"},
    "send": {"effect": "write"},
    "poll": {"effect": "live"},
}


def walk(*steps: str) -> list[PlayedCall]:
    """Play steps such as `read=1`, `read!not ready` or `poll=done`."""
    scripted: list[dict[str, Any]] = []
    for step in steps:
        how = "error" if "!" in step else "result"
        tool, _, came = step.partition("!" if "!" in step else "=")
        scripted.append({"tool": tool, "args": {"q": 1}, how: came})
    return play({"tools": TOOLS, "steps": scripted})


def test_a_result_that_has_become_ready_is_not_missed() -> None:
    """The job was running, the poll says it is done: the same read has another answer now."""
    played = walk("read=pending", "poll=running", "poll=running", "poll=done", "read=ready")
    assert played[-1].executed
    assert played[-1].returned == "ready"
    assert played[-1].observation is None


def test_a_failure_is_not_refused_once_the_poll_has_changed() -> None:
    """Twice not ready, then done: the third asking is the one that works."""
    played = walk("read!not ready", "poll=running", "read!not ready", "poll=done", "read=ready")
    assert [call.executed for call in played] == [True] * 5
    assert played[-1].returned == "ready"


def test_an_unchanged_poll_lets_nothing_through() -> None:
    """Ten equal answers are no sign that anything moved."""
    played = walk("poll=running", "read=1", *["poll=running"] * 10, "read=1")
    assert played[-1].decision == "replay"


def test_the_first_answer_of_a_poll_is_no_change() -> None:
    """There is nothing it could differ from."""
    assert walk("read=1", "poll=running", "read=1")[-1].decision == "replay"


def test_a_clock_between_equal_reads_does_not_hide_the_loop() -> None:
    """Each read runs, for it might have changed; that it did not is counted all the same."""
    steps = [step for n in range(5) for step in ("read=same", f"poll=12:0{n}")]
    played = walk("poll=11:59", *steps)
    reads = played[1::2]
    assert [call.executed for call in reads[:3]] == [True, True, True]
    assert [call.finding for call in reads[:3]] == [None, "repeat", "repeat"]
    assert reads[2].decision == "exit"


@pytest.mark.parametrize("effect", ["write", "final"])
def test_a_write_stays_done(effect: str) -> None:
    """That the world moves is no reason to do a thing twice."""
    tools = {"send": {"effect": effect}, "poll": {"effect": "live"}}
    steps = [("send", "receipt"), ("poll", "a"), ("poll", "b"), ("send", "another receipt")]
    played = play(
        {"tools": tools, "steps": [{"tool": t, "args": {}, "result": r} for t, r in steps]}
    )
    assert [call.executed for call in played] == [True, True, True, False]
    assert played[-1].returned == "receipt"


@pytest.mark.parametrize("slot", [None, "fact"])
def test_the_user_is_not_asked_again_because_a_clock_went_on(slot: str | None) -> None:
    """What a person said does not move with the world."""
    tools = {
        "ask": {"effect": "ask", **({"slot": slot} if slot else {})},
        "poll": {"effect": "live"},
    }
    steps = [("ask", "large"), ("poll", "1"), ("poll", "2"), ("ask", "small")]
    played = play(
        {
            "tools": tools,
            "steps": [{"tool": t, "args": {"fact": "size"}, "result": r} for t, r in steps],
        }
    )
    assert not played[-1].executed
    assert played[-1].returned == "large"


def test_an_unknown_tool_runs_again_where_it_would_have_been_withheld() -> None:
    """Its third equal call is replayed only while nothing moved."""
    still = walk("poll=1", "shell=x", "shell=x", "poll=1", "shell=x")
    moved = walk("shell=x", "poll=1", "shell=x", "poll=2", "shell=x")
    assert still[-1].decision == "replay"
    assert moved[-1].executed
    assert moved[-1].finding == "repeat"
