"""Ways in which a guard could be wrong, each found once by somebody who tried: none of them is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from repeatguard_sdk import Registry, Run, guarded_tool

guard: Callable[..., Any] = guarded_tool


def test_a_tool_that_changes_its_argument_makes_no_two_calls_one() -> None:
    """What counts is the argument as it was given, in the key, in the fold and in the text."""

    @guarded_tool(registry=Registry())
    def find(filters: dict[str, str]) -> str:
        filters.pop("name")
        return "three rows"

    with Run([find]) as run:
        for name in ("smith", "jones", "miller", "Smith"):
            run.turn()
            find({"name": name})
        assert not run.stuck
        (observation,) = run.observations()
        assert "Smith" in observation.text


def test_a_question_without_its_fact_is_no_other_question() -> None:
    """Consent to one deletion is no consent to the next."""
    tools, asked = Registry(), []

    @guarded_tool(registry=tools, effect="ask", slot="fact")
    def ask(question: str, fact: str | None = None) -> str:
        asked.append(question)
        return "yes"

    @guarded_tool(registry=tools, effect="write")
    def delete(key: str) -> str:
        return f"deleted {key}"

    with Run(registry=tools) as run:
        for key in "abc":
            run.turn()
            assert ask("Shall I go on?") == "yes"
            delete(key)
        assert run.review("What is your order number?") is None
    assert len(asked) == 3
    assert run.outcome is not None
    assert run.outcome.known == {}


@pytest.mark.parametrize("spelling", ["exit", "raise"])
def test_a_run_that_had_finished_is_not_stuck(spelling: Any) -> None:
    """After the hand-off a model may go in circles: the run ends, and its task was done."""
    tools = Registry()

    @guarded_tool(registry=tools, effect="final")
    def hand_over(reason: str) -> str:
        return "case 1"

    @guarded_tool(registry=tools)
    def get(key: int) -> str:
        return "same"

    with Run(registry=tools, on_stuck=spelling) as run:
        hand_over("a")
        for _ in range(9):
            run.turn()
            get(1)
    assert run.over
    assert not run.stuck
    assert run.outcome is not None
    assert run.outcome.reason == "finished"


def test_a_toggle_of_unknown_effect_moves_the_world_each_time() -> None:
    """It is meant to act again, so a look after it is another look, whatever it says."""
    tools, light = Registry(), [False]

    @guarded_tool(registry=tools, effect="unknown", repeatable=True)
    def toggle() -> str:
        light[0] = not light[0]
        return "ok"

    @guarded_tool(registry=tools)
    def look() -> bool:
        return light[0]

    seen = []
    with Run(registry=tools) as run:
        for _ in range(5):
            run.turn()
            toggle()
            seen.append(look())
    assert seen == [True, False, True, False, True]


def test_a_run_inside_a_tool_tells_what_it_changed() -> None:
    """Two runs do not share counts, but they share the world."""
    tools, world = Registry(), [""]

    @guarded_tool(registry=tools, effect="write")
    def put(value: str) -> str:
        world[0] = value
        return "done"

    @guarded_tool(registry=tools, effect="unknown")
    def agent(value: str) -> str:
        with Run([put]):
            put(value)
        return "done"

    @guarded_tool(registry=tools)
    def look() -> str:
        return world[0]

    seen = []
    with Run(registry=tools) as run:
        for value in ("a", "b", "a"):
            run.turn()
            agent(value)
            seen.append(look())
    assert seen == ["a", "b", "a"]


def test_an_answered_id_is_answered_the_same_again() -> None:
    """Whatever became of the call meanwhile: replayed, changed, forgotten at a user's word."""
    tools, ran = Registry(), []

    @guarded_tool(registry=tools)
    def get(key: int) -> str:
        return f"seen {key}"

    @guarded_tool(registry=tools, effect="write")
    def pay(key: int) -> str:
        ran.append(key)
        if len(ran) > 1:
            raise LookupError("no money left")
        return "paid"

    with Run(registry=tools) as run:
        run.dispatch("get", {"key": 1}, "c1")
        for _ in range(5):
            assert run.dispatch("get", {"key": 1}, "c2") == "seen 1"
        assert run.dispatch("pay", {"key": 1}, "c3") == "paid"
        run.user_message("hurry")
        assert run.dispatch("pay", {"key": 1}, "c3") == "paid"
        run.progress()
        with pytest.raises(LookupError):
            run.dispatch("pay", {"key": 1}, "c4")
        assert run.dispatch("pay", {"key": 1}, "c3") == "paid"
        for _ in range(5):
            run.dispatch("nothing", {}, "c5")
    assert ran == [1, 1]
    assert not run.stuck


def test_a_poll_is_not_frozen_by_a_provider_that_uses_its_ids_again() -> None:
    """Some give each turn's calls the same ids: in another turn it is another call."""
    tools, step = Registry(), [0]

    @guarded_tool(registry=tools, effect="live")
    def poll() -> int:
        step[0] += 1
        return step[0]

    with Run(registry=tools) as run:
        seen = []
        for _ in range(4):
            run.turn()
            seen.append(run.dispatch("poll", {}, "call_0"))
    assert seen == [1, 2, 3, 4]


def test_a_write_that_lands_after_the_users_word_was_done() -> None:
    """The user's message clears what was asked for before, and undoes nothing."""
    tools, ran = Registry(), []
    began, go = threading.Event(), threading.Event()

    @guarded_tool(registry=tools, effect="write")
    def pay(key: int) -> str:
        ran.append(key)
        began.set()
        assert go.wait(20)
        return "paid"

    with Run(registry=tools) as run:
        thread = threading.Thread(target=run.bind(lambda: pay(1)))
        thread.start()
        assert began.wait(20)
        run.user_message("hurry")
        go.set()
        thread.join()
        assert pay(1) == "paid"
    assert ran == [1]


def test_a_batch_of_results_too_big_to_keep_ends_nothing() -> None:
    """Equal calls of one turn are one, whether or not its result could be stored."""
    tools, written = Registry(), []

    @guarded_tool(registry=tools)
    def dump(key: int) -> str:
        return "v" * 2_000_000

    @guarded_tool(registry=tools, effect="write")
    def write(key: int) -> str:
        written.append(key)
        return "v" * 2_000_000

    with Run(registry=tools) as run:
        run.turn()
        for _ in range(5):
            assert len(dump(1)) == 2_000_000
            write(1)
        assert not run.stuck
        assert run.observations() == []
    assert written == [1]


def test_an_answer_of_the_user_counts_however_it_was_asked_for() -> None:
    """A question that cannot be compared, or is not guarded, still brings news."""
    tools, world = Registry(), [0]

    def ask(about: Any = None) -> str:
        world[0] += 1
        return "new"

    off = guard(registry=tools, name="off", effect="ask", mode="off")(ask)
    odd = guard(registry=tools, name="odd", effect="ask")(ask)

    @guarded_tool(registry=tools)
    def look() -> int:
        return world[0]

    with Run(registry=tools) as run:
        assert look() == 0
        odd(threading.Lock())
        assert look() == 1
        off()
        assert look() == 2
    assert not run.stuck


def test_two_tools_of_one_factory_are_two_tools() -> None:
    """What one data base answered is no answer of the other."""

    def query_of(rows: str) -> Any:
        @guarded_tool(registry=Registry())
        def query(table: str) -> str:
            return f"{rows} of {table}"

        return query

    first, second = query_of("a rows"), query_of("b rows")
    with Run() as run:
        assert first("t") == "a rows of t"
        assert second("t") == "b rows of t"
    assert not run.stuck


def test_a_state_that_leads_back_to_itself_is_a_state() -> None:
    """It has no identity to compare, and takes no time to find that out."""
    state: dict[str, Any] = {"n": 1}
    state["self"] = state
    with Run(registry=Registry()) as run:
        for _ in range(3):
            run.turn(state=state)


def test_a_clock_that_raises_costs_no_result() -> None:
    """The host's clock stamps events, and nothing else depends on it."""
    events: list[Any] = []

    def clock() -> float:
        raise OSError("no clock")

    @guarded_tool(registry=Registry())
    def get(key: int) -> str:
        return "same"

    with Run([get], clock=clock, events=events.append) as run:
        assert [get(1), get(1)] == ["same", "same"]
    assert run.outcome is not None
    assert events


def test_calls_beyond_a_budget_end_no_run_that_gets_things_done() -> None:
    """A refused look-up between writes that succeed is a nuisance and no loop."""
    tools = Registry()

    @guarded_tool(registry=tools, max_calls=1)
    def search(query: int) -> str:
        return f"found {query}"

    @guarded_tool(registry=tools, effect="write")
    def note(text: int) -> str:
        return f"noted {text}"

    with Run(registry=tools) as run:
        for number in range(9):
            run.turn()
            search(number)
            note(number)
        assert not run.stuck


def test_a_count_beyond_a_budget_starts_at_one_after_a_change_within_the_turn() -> None:
    """The change forgets the turn that was counted too, or the next refusal would be the 0th."""
    tools = Registry()

    @guarded_tool(registry=tools, max_calls=1)
    def search(query: int) -> str:
        return f"found {query}"

    with Run(registry=tools) as run:
        search(0)
        run.turn()
        search(1)
        run.progress()
        search(2)
        assert run.last_decision is not None
        assert run.last_decision.count == 1


def test_a_flag_beside_a_text_in_another_spelling_stays_a_flag() -> None:
    """Folding leaves `True`, `False` and 1 three arguments."""
    tools = Registry()

    @guarded_tool(registry=tools)
    def find(query: str, new: Any) -> str:
        return "nothing new"

    counts: list[int] = []
    with Run(registry=tools) as run:
        for query, new in (
            ("Red Hat", True),
            ("red hat", False),
            ("red hat", 1),
            ("red  HAT", True),
        ):
            run.turn()
            find(query, new)
            assert run.last_decision is not None
            counts.append(run.last_decision.count)
    assert counts == [1, 1, 1, 2]


class Mute(Exception):
    """An error whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError


def test_an_error_without_a_text_leaves_the_block_as_it_is() -> None:
    """The outcome does without its text, and the error is the host's own."""
    run = Run(registry=Registry())
    with pytest.raises(Mute), run:
        raise Mute
    assert run.outcome is not None
    assert run.outcome.reason == "failed"
