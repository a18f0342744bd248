"""What the model did after an intervention is filled in, and only from what it could have read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from repeatguard_sdk import Policy, Registry, Run, guarded_tool
from repeatguard_sdk.events import MemorySink


class Desk:
    """Two look-ups, one of which always fails, and a sink."""

    def __init__(self) -> None:
        self.sink = MemorySink()
        self.registry = Registry()
        decorate: Callable[..., Any] = guarded_tool

        @decorate(registry=self.registry)
        def look(key: str) -> str:
            return f"nothing about {key}"

        @decorate(registry=self.registry)
        def broken(key: str) -> str:
            msg = "out of order"
            raise LookupError(msg)

        self.look, self._broken = look, broken

    def broken(self, key: str) -> None:
        """Call the tool that fails."""
        with pytest.raises(LookupError):
            self._broken(key)

    def run(self, **options: Any) -> Run:
        """Return a run over them."""
        return Run(registry=self.registry, events=self.sink, **options)

    @property
    def did(self) -> list[str | None]:
        """What followed each intervention."""
        return [event.did for event in self.sink.repeats]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def in_turns(run: Run, *turns: Callable[[], Any]) -> None:
    for turn in turns:
        run.turn()
        turn()


def test_another_call_in_the_next_response(desk: Desk) -> None:
    """It is known as soon as that response is complete."""
    with desk.run() as run:
        in_turns(run, lambda: desk.look("a"), lambda: desk.look("a"), lambda: desk.look("b"))
        assert [None] == desk.did
        run.turn()
        assert ["other_call"] == desk.did


def test_the_same_call_in_the_next_response(desk: Desk) -> None:
    """The repetition survived the note, and the exit it led to is the end of itself."""
    with desk.run() as run:
        in_turns(run, *[lambda: desk.look("a")] * 3)
    assert run.stuck
    assert ["same_call", "ended"] == desk.did


def test_the_same_call_beside_another_one(desk: Desk) -> None:
    """The order within the response does not matter."""
    with desk.run(on_stuck="flag") as run:
        in_turns(run, lambda: desk.look("a"), lambda: desk.look("a"))
        run.turn()
        desk.look("b")
        desk.look("a")
        assert "same_call" == desk.did[0]


def test_a_call_of_the_same_response_tells_nothing(desk: Desk) -> None:
    """It was made before the model could read the note."""
    with desk.run() as run:
        in_turns(run, lambda: desk.look("a"))
        run.turn()
        desk.look("a")
        desk.look("b")
        run.turn()
        assert [None] == desk.did
        desk.look("c")
    assert ["other_call"] == desk.did


def test_without_turns_the_next_call_tells(desk: Desk) -> None:
    """Each call is then a response of its own."""
    with desk.run():
        desk.look("a")
        desk.look("a")
        desk.look("b")
        assert ["other_call"] == desk.did


def test_a_first_call_of_a_tool_is_seen_like_any_other(desk: Desk) -> None:
    """The short way of common calls is closed while a follow-up is awaited."""
    with desk.run() as run:
        in_turns(run, lambda: desk.look("x"), lambda: desk.look("a"), lambda: desk.look("a"))
        for key in "bcd":
            run.turn()
            desk.look(key)
        assert ["other_call"] == desk.did


def test_an_answer_to_the_user(desk: Desk) -> None:
    """No call followed: the user spoke next, or the run was completed."""
    with desk.run() as run:
        in_turns(run, lambda: desk.look("a"), lambda: desk.look("a"))
        run.user_message()
        assert ["answered"] == desk.did
        in_turns(run, lambda: desk.look("a"), lambda: desk.look("a"))
    assert ["answered", "answered"] == desk.did


def test_a_run_that_failed(desk: Desk) -> None:
    """It ended, and nothing was answered."""

    def task() -> None:
        with desk.run() as run:
            in_turns(run, lambda: desk.look("a"), lambda: desk.look("a"))
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        task()
    assert ["ended"] == desk.did


def test_a_row_of_failures_goes_on_with_the_same_tool(desk: Desk) -> None:
    """The finding is about the tool, whatever the arguments."""
    with desk.run() as run:
        in_turns(run, *[lambda key=key: desk.broken(key) for key in "abcd"])
        (event,) = [each for each in desk.sink.repeats if each.finding == "same_outcome"]
        assert "same_call" == event.did


def test_a_circle_goes_on_with_any_call_of_it(desk: Desk) -> None:
    """Its next lap begins with another call than the one that closed the last lap."""
    with desk.run(policy=Policy(mode="advise")) as run:
        for key in ["a", "b"] * 3:
            run.turn()
            desk.look(key)
        run.turn()
        cycles = [each for each in desk.sink.repeats if each.finding == "cycle"]
        assert cycles
        assert "same_call" == cycles[0].did


def test_the_softer_modes_are_followed_too(desk: Desk) -> None:
    """What the model does where nothing was said is the figure to compare with."""
    with desk.run(policy=Policy(mode="observe")) as run:
        in_turns(run, lambda: desk.look("a"), lambda: desk.look("a"), lambda: desk.look("b"))
    assert ["other_call"] == desk.did


def test_an_event_tells_what_it_is_about(desk: Desk) -> None:
    """Number, id and names of the arguments, never their values."""
    with desk.run() as run:
        for call_id in ("c1", "c2"):
            run.turn()
            run.dispatch("look", {"key": "secret"}, call_id)
        (event,) = desk.sink.repeats
    assert (1, "c2", ("key",), "read") == (
        event.number,
        event.call_id,
        event.arguments,
        event.effect,
    )
    assert "unresolved" == event.suspected_cause
    assert not event.failed
