"""Facts a run knows: told by the host, answered by the user, and not asked for again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from repeatguard_sdk import Policy, Registry, Run, guarded_tool
from repeatguard_sdk.events import MemorySink
from repeatguard_sdk.testing import play


class Desk:
    """An `ask` tool with a slot, a read, a write, and the questions the user really got."""

    def __init__(self, answers: Sequence[Any] = ("SO-1",)) -> None:
        self.registry = Registry()
        self.asked: list[str] = []
        left = list(answers)
        decorate: Callable[..., Any] = guarded_tool

        @decorate(effect="ask", slot="fact", registry=self.registry)
        def ask_user(fact: str, wording: str = "") -> Any:
            """Ask the user for a fact."""
            self.asked.append(fact)
            answer = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(answer, Exception):
                raise answer
            return answer

        @decorate(registry=self.registry)
        def get_order(key: str = "") -> str:
            return f"order {key}"

        @decorate(effect="write", registry=self.registry)
        def set_status(key: str = "") -> str:
            return "ok"

        self.ask_user, self.get_order, self.set_status = ask_user, get_order, set_status

    def run(self, **options: Any) -> Run:
        """Return a run over the tools."""
        return Run(registry=self.registry, **options)


def decision(run: Run) -> str:
    """Return what was decided for the newest call."""
    assert run.last_decision is not None
    return run.last_decision.decision


# -- told by the host ----------------------------------------------------------------------------


def test_a_question_is_answered_from_what_is_known() -> None:
    """The user is not asked, the model gets the fact, and is told that it was known."""
    desk, sink = Desk(), MemorySink()
    with desk.run(events=sink) as run:
        run.know(order_id="SO-7")
        assert desk.ask_user("order_id") == "SO-7"
        assert decision(run) == "replay"
        (observation,) = run.observations()
    assert desk.asked == []
    assert observation.finding == "asked_again"
    assert 'order_id is already known: it is "SO-7"' in observation.text
    assert "The user was not asked" in observation.text
    (event,) = sink.repeats
    assert (event.finding, event.decision, event.tool) == ("asked_again", "replay", "ask_user")


@pytest.mark.parametrize("name", ["order_id", "Order ID", "order-id", " ORDER  id ", "order.id"])
def test_a_fact_has_one_name_in_all_spellings(name: str) -> None:
    """Case, blanks and signs do not make another fact."""
    desk = Desk()
    with desk.run() as run:
        run.know(Order_Id="SO-7")
        assert desk.ask_user(name) == "SO-7"
    assert desk.asked == []


def test_the_wording_of_a_question_is_no_part_of_it() -> None:
    """The slot alone tells which fact is asked for."""
    desk = Desk()
    with desk.run() as run:
        desk.ask_user("order_id", wording="Which order is it?")
        assert desk.ask_user("order_id", wording="Could you give me the number?") == "SO-1"
        assert decision(run) == "replay"
    assert desk.asked == ["order_id"]


def test_what_is_not_known_is_asked() -> None:
    """Another fact is another question."""
    desk = Desk(["SO-1", "Ann"])
    with desk.run() as run:
        run.know(city="Bonn")
        assert desk.ask_user("order_id") == "SO-1"
        assert desk.ask_user("name") == "Ann"
        assert run.observations() == []
    assert desk.asked == ["order_id", "name"]


@pytest.mark.parametrize("value", [0, False, None, "", [], {"a": [1]}, 5, "SO-1"])
def test_the_host_may_know_any_value(value: Any) -> None:
    """What the host says is known is known, also that there is none."""
    desk = Desk()
    with desk.run() as run:
        run.know(order_id=value)
        assert desk.ask_user("order_id") == value
    assert desk.asked == []


def test_a_fact_cannot_be_changed_by_who_gets_it() -> None:
    """It is delivered as a copy."""
    desk = Desk()
    with desk.run(on_stuck="flag") as run:
        run.know(orders=["SO-1"])
        desk.ask_user("orders").clear()
        assert desk.ask_user("orders") == ["SO-1"]


def test_a_fact_that_changes() -> None:
    """The newest value answers, and the host may correct it."""
    desk = Desk()
    with desk.run() as run:
        run.know(order_id="SO-1")
        desk.ask_user("order_id")
        run.know(order_id="SO-2")
        assert desk.ask_user("order_id") == "SO-2"


def test_a_fact_that_cannot_be_copied_is_not_asked_for() -> None:
    """Nor does it break the run: the user is asked at most once."""
    desk, sink = Desk(), MemorySink()

    class Handle:
        def __deepcopy__(self, memo: Any) -> Any:
            msg = "no copy"
            raise RuntimeError(msg)

    with desk.run(events=sink, on_stuck="flag") as run:
        run.know(order_id=Handle())
        for _ in range(3):
            desk.ask_user("order_id")
    assert len(desk.asked) <= 1
    assert [warning for warning in sink.warnings if warning.fault is not None] == []


# -- answered by the user ------------------------------------------------------------------------


def test_an_answer_fills_the_slot() -> None:
    """What the user said once is known from then on, also to the outcome."""
    desk = Desk()
    with desk.run() as run:
        assert desk.ask_user("order_id") == "SO-1"
        assert run.observations() == []
        assert desk.ask_user("order_id") == "SO-1"
        (observation,) = run.observations()
    assert desk.asked == ["order_id"]
    assert observation.finding == "asked_again"
    assert run.outcome is not None
    assert run.outcome.known == {"order_id": "SO-1"}


def test_an_answer_changed_by_its_receiver_stays_known() -> None:
    """What the user said is kept as it was said."""
    desk = Desk([["SO-1", "SO-2"]])
    with desk.run() as run:
        desk.ask_user("orders").clear()
        assert desk.ask_user("orders") == ["SO-1", "SO-2"]
    assert run.outcome is not None
    assert run.outcome.known == {"orders": ["SO-1", "SO-2"]}


def test_an_answer_opens_an_epoch() -> None:
    """It is new material: what was read before may be read again."""
    desk = Desk()
    with desk.run() as run:
        desk.get_order("a")
        desk.ask_user("order_id")
        desk.get_order("a")
        assert decision(run) == "execute"
        assert run.observations() == []


def test_an_answer_from_the_ledger_opens_none() -> None:
    """Nothing new was learned."""
    desk = Desk()
    with desk.run() as run:
        run.know(order_id="SO-1")
        desk.get_order("a")
        desk.ask_user("order_id")
        desk.get_order("a")
        assert decision(run) == "replay"


@pytest.mark.parametrize("between", ["nothing", "write", "read", "progress", "other question"])
def test_the_third_asking_ends_the_run_whatever_the_epoch(between: str) -> None:
    """A filled slot stays filled, whatever happens in the world."""
    desk = Desk()
    with desk.run() as run:
        for number in range(3):
            run.turn()
            desk.ask_user("order_id")
            if between == "write":
                desk.set_status(str(number))
            elif between == "read":
                desk.get_order(str(number))
            elif between == "progress":
                run.progress()
            elif between == "other question":
                desk.ask_user(f"fact {number}")
        pytest.fail("the third asking must leave the block")
    assert desk.asked.count("order_id") == 1
    assert run.stuck
    assert run.outcome is not None
    assert run.outcome.finding is not None
    assert (run.outcome.finding.kind, run.outcome.count) == ("asked_again", 3)
    assert run.outcome.known["order_id"] == "SO-1"
    assert "Known:" in run.outcome.summary


def test_the_third_asking_for_what_the_host_told_ends_the_run() -> None:
    """The first of them was already one too many, and was answered."""
    desk = Desk()
    with desk.run() as run:
        run.know(order_id="SO-1")
        for _ in range(3):
            desk.ask_user("order_id")
            desk.set_status("x")
        pytest.fail("the third asking must leave the block")
    assert desk.asked == []
    assert run.stuck


@pytest.mark.parametrize("blank", ["", "   ", None, [], {}, "no results"])
def test_a_blank_answer_fills_nothing(blank: Any) -> None:
    """After a change in the world the user may be asked again, and then it is filled."""
    desk = Desk([blank, "SO-1"])
    with desk.run() as run:
        assert desk.ask_user("order_id") == blank
        assert run.outcome is None
        desk.set_status("x")
        assert desk.ask_user("order_id") == "SO-1"
        assert run.observations() == []
    assert desk.asked == ["order_id", "order_id"]
    assert run.outcome is not None
    assert run.outcome.known == {"order_id": "SO-1"}


def test_a_blank_answer_opens_no_epoch() -> None:
    """A user who said nothing has changed nothing."""
    desk = Desk([""])
    with desk.run() as run:
        desk.get_order("a")
        desk.ask_user("order_id")
        desk.get_order("a")
        assert decision(run) == "replay"


def test_a_question_that_failed_fills_nothing() -> None:
    """It is asked again, and its answer counts."""
    desk = Desk([LookupError("nobody there"), "SO-1"])
    with desk.run() as run:
        with pytest.raises(LookupError):
            desk.ask_user("order_id")
        assert desk.ask_user("order_id") == "SO-1"
        assert run.observations() == []
    assert run.outcome is not None
    assert run.outcome.known == {"order_id": "SO-1"}


def test_a_user_message_keeps_the_facts() -> None:
    """Counts and stored results go; what is known stays known, and is counted afresh."""
    desk = Desk()
    with desk.run() as run:
        run.know(city="Bonn")
        desk.ask_user("order_id")
        desk.ask_user("order_id")
        run.user_message("Hello?")
        assert desk.ask_user("order_id") == "SO-1"
        assert desk.ask_user("city") == "Bonn"
        assert not run.over
    assert desk.asked == ["order_id"]
    assert run.outcome is not None
    assert run.outcome.known == {"order_id": "SO-1", "city": "Bonn"}


def test_a_compaction_keeps_the_facts() -> None:
    """The model may have lost the answer: it gets it once more without penalty."""
    desk = Desk()
    with desk.run() as run:
        desk.ask_user("order_id")
        run.compacted()
        assert desk.ask_user("order_id") == "SO-1"
        assert run.observations() == []
        desk.ask_user("order_id")
        assert decision(run) == "replay"
    assert desk.asked == ["order_id"]


def test_two_runs_know_their_own_facts() -> None:
    """What one user said is nothing to the next."""
    desk = Desk(["SO-1", "SO-2"])
    for expected in ("SO-1", "SO-2"):
        with desk.run():
            assert desk.ask_user("order_id") == expected
    assert desk.asked == ["order_id"] * 2


def test_twins_of_one_turn_ask_once() -> None:
    """The user gets one question, and neither twin is a repeat."""
    desk = Desk()
    with desk.run() as run:
        run.turn()
        assert desk.ask_user("order_id") == desk.ask_user("Order ID") == "SO-1"
        assert run.observations() == []
    assert desk.asked == ["order_id"]


def test_an_async_question() -> None:
    """A coroutine tool fills and is answered alike; three at once ask once."""
    asked = []

    @guarded_tool(effect="ask", slot="fact", registry=Registry())
    async def ask_user(fact: str) -> str:
        asked.append(fact)
        await asyncio.sleep(0)
        return "SO-1"

    async def agent() -> list[str]:
        async with Run([ask_user]):
            answers = await asyncio.gather(*(ask_user("order_id") for _ in range(3)))
            return [*answers, await ask_user("order_id")]
        raise AssertionError

    assert asyncio.run(agent()) == ["SO-1"] * 4
    assert asked == ["order_id"]


# -- without a slot, and in softer modes ---------------------------------------------------------


def test_a_question_without_a_slot_climbs_as_a_read() -> None:
    """The guard cannot know which fact it asks for; equal questions are equal calls."""
    asked = []

    @guarded_tool(effect="ask", registry=Registry())
    def ask_user(question: str) -> str:
        asked.append(question)
        return "SO-1"

    with Run([ask_user], on_stuck="flag") as run:
        decided = []
        for _ in range(3):
            ask_user("Which order?")
            decided.append(decision(run))
    assert decided == ["execute", "replay", "exit"]
    assert len(asked) == 1


@pytest.mark.parametrize("value", [5, None, "", "  ", "???", ["a"]])
def test_a_slot_that_names_nothing(value: Any) -> None:
    """The call is compared like any other, and nothing breaks."""
    desk, sink = Desk(), MemorySink()
    with desk.run(events=sink, on_stuck="flag") as run:
        assert desk.ask_user(value) == "SO-1"
        desk.ask_user(value)
        assert decision(run) == "replay"
    assert len(desk.asked) == 1
    assert sink.warnings == []


@pytest.mark.parametrize("mode", ["advise", "observe", "off"])
def test_softer_modes_ask(mode: Any) -> None:
    """Nothing is withheld: the user is asked each time."""
    desk = Desk()
    with desk.run(policy=Policy(mode=mode)) as run:
        run.know(order_id="SO-9")
        assert [desk.ask_user("order_id") for _ in range(3)] == ["SO-1"] * 3
    assert len(desk.asked) == 3


def test_observe_tells_that_a_known_fact_was_asked_for() -> None:
    """The event of the first asking says what would have been done."""
    desk, sink = Desk(), MemorySink()
    with desk.run(policy=Policy(mode="observe"), events=sink) as run:
        run.know(order_id="SO-9")
        desk.ask_user("order_id")
    assert [(event.finding, event.would) for event in sink.repeats] == [("asked_again", "replay")]


def test_a_scenario_with_a_slot() -> None:
    """`play` walks it through the same code."""
    played = play(
        {
            "tools": {"ask_user": {"effect": "ask", "slot": "fact"}, "set": {"effect": "write"}},
            "steps": [
                {"tool": "ask_user", "args": {"fact": "size"}, "result": "XL"},
                {"tool": "set", "args": {"size": "XL"}, "result": "ok"},
                {"tool": "ask_user", "args": {"fact": "Size"}, "result": "L"},
                {"event": "external_change"},
                {"tool": "ask_user", "args": {"fact": "size"}, "result": "M"},
            ],
        }
    )
    assert [call.decision for call in played] == ["execute", "execute", "replay", "exit"]
    assert played[2].returned == "XL"
    assert played[2].finding == "asked_again"
