"""Drafts reviewed in a run: what is asked of the user that the run already knows."""

from __future__ import annotations

from typing import Any

import pytest

from repeatguard_sdk import Policy, Registry, Run, Slot, guarded_tool
from repeatguard_sdk.events import MemorySink
from repeatguard_sdk.exceptions import RunStateError, ToolDeclarationError

TOOLS = Registry()


@guarded_tool(registry=TOOLS, effect="ask", slot="fact")
def ask_user(fact: str) -> str:
    """Ask the customer one question."""
    return "SO-1042"


@guarded_tool(registry=TOOLS, effect="final")
def hand_over(reason: str) -> str:
    """Hand the case over to a person."""
    return "done"


def test_a_told_fact_is_not_asked_for() -> None:
    """The observation says what is known and what to do instead of asking."""
    with Run(registry=TOOLS) as run:
        run.know(order_id="SO-1042")
        observation = run.review("Could you please tell me your order number?")
    assert observation is not None
    assert observation.finding == "asked_again"
    assert 'order_id is already known: it is "SO-1042"' in observation.text
    assert "hand_over" in observation.text


def test_what_the_user_answered_is_known_too() -> None:
    """An answered question fills its slot, and the text says which call that was."""
    with Run(registry=TOOLS) as run:
        assert run.review("What is your order number?") is None
        ask_user("order id")
        observation = run.review("What is your order number?")
    assert observation is not None
    assert "already known from call 1" in observation.text


def test_a_slot_has_the_names_the_host_gives_it() -> None:
    """An alias declared once holds for the rest of the run, and is no fact by itself."""
    with Run(registry=TOOLS) as run:
        run.know(Slot("order_id", ["parcel code"]))
        assert run.review("What is your parcel code?") is None
        run.know(order_id="SO-1042")
        assert run.review("What is your parcel code?") is not None


@pytest.mark.parametrize(
    "draft",
    [
        "I see order SO-1042, is that right?",
        "Your order number is on the receipt.",
        "What is your email?",
        "What is the order number of the second parcel?",
        "",
    ],
)
def test_other_drafts_pass(draft: str) -> None:
    """A confirmation, a statement, an unknown fact, another item, nothing at all."""
    with Run(registry=TOOLS) as run:
        run.know(order_id="SO-1042")
        assert run.review(draft) is None


def test_a_fact_that_is_nothing_is_not_known() -> None:
    """To ask for what was told as `None` is right."""
    with Run(registry=TOOLS) as run:
        run.know(order_id=None)
        assert run.review("What is your order number?") is None


def test_the_review_is_an_event_and_counts_no_call() -> None:
    """The host gets the text at once, so it does not wait with the others."""
    sink = MemorySink()
    with Run(registry=TOOLS, events=sink) as run:
        run.know(order_id="SO-1042")
        run.review("What is your order number?")
        assert run.observations() == []
        assert run.calls == 0
    (event,) = sink.repeats
    assert (event.finding, event.cause) == ("asked_again", "order_id is known")


@pytest.mark.parametrize(("mode", "said"), [("advise", True), ("observe", False), ("off", False)])
def test_the_softer_modes(mode: Any, said: bool) -> None:
    """Advice is given, observation only recorded."""
    with Run(registry=TOOLS, policy=Policy(mode=mode)) as run:
        run.know(order_id="SO-1042")
        assert said is (run.review("What is your order number?") is not None)


def test_a_review_outside_the_block_is_an_error() -> None:
    """As everything that is told to a run or asked of it."""
    with pytest.raises(RunStateError, match="has not begun"):
        Run(registry=TOOLS).review("What is your order number?")


def test_a_slot_that_makes_no_sense_is_rejected() -> None:
    """A bare string of aliases would be taken for a list of letters."""
    with pytest.raises(ToolDeclarationError):
        Slot("order_id", "order no")
