"""The contract of an adapter: the same cases in every framework, through its own loop."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from integrations._driver import MODES, Ask, Driver, Mode, Step, faults
from repeatguard_sdk import Memory, Policy, Registry, Run, StuckError, guarded_tool
from repeatguard_sdk.events import MemorySink
from repeatguard_sdk.exceptions import ToolDeclarationError

in_every_mode = pytest.mark.parametrize("mode", MODES)
needs = pytest.mark.needs


class Shop:
    """Tools of one conversation, and what became of them."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.events = MemorySink()
        self.bodies: list[str] = []
        self.guard: Callable[..., Any] = functools.partial(guarded_tool, registry=self.registry)
        self.settings: dict[str, Any] = {"registry": self.registry, "events": self.events}

        @self.guard
        def look_up(word: str) -> str:
            """Look a word up."""
            self.bodies.append(f"look_up {word}")
            return f"page of {word}"

        @self.guard(effect="write")
        def write_down(word: str) -> str:
            """Write a word down."""
            self.bodies.append(f"write_down {word}")
            return f"wrote {word}"

        @self.guard(effect="final")
        def hand_over(summary: str) -> str:
            """Hand the case over to a person."""
            self.bodies.append("hand_over")
            return "handed over"

        @self.guard
        def fail(word: str) -> str:
            """Fail."""
            self.bodies.append(f"fail {word}")
            msg = f"{word} is broken"
            raise LookupError(msg)

        def plain(word: str) -> str:
            """Say what nobody declared."""
            self.bodies.append(f"plain {word}")
            return f"plainly {word}"

        self.look_up, self.write_down, self.hand_over = look_up, write_down, hand_over
        self.fail, self.plain = fail, plain

    def tools(self, driver: Driver, *functions: Any) -> list[Any]:
        return [driver.tool(each) for each in functions or (self.look_up, self.hand_over)]

    @property
    def warnings(self) -> list[str]:
        return [f"{warning.tool}: {warning.what}" for warning in self.events.warnings]


@pytest.fixture
def shop() -> Shop:
    return Shop()


def ask(number: int, tool: str = "look_up", word: Any = "loop", **more: Any) -> Ask:
    return Ask(tool, {"word": word, **more}, f"call_{number}")


def again(times: int, tool: str = "look_up", word: Any = "loop") -> list[Step]:
    """Return a model that asks for the same, one call a response."""
    return [[ask(number, tool, word)] for number in range(1, times + 1)]


# -- equal calls -----------------------------------------------------------------------------------


@in_every_mode
def test_one_body_for_equal_calls(driver: Driver, shop: Shop, mode: Mode) -> None:
    """The second equal call gets the first result, and its tool does not run."""
    record = driver.run(shop.tools(driver), again(2), mode=mode, guard=shop.settings)
    assert ["look_up loop"] == shop.bodies
    assert record.plain("call_1") == record.plain("call_2") == "page of loop"


@in_every_mode
def test_the_second_call_is_noted(driver: Driver, shop: Shop, mode: Mode) -> None:
    """The observation stands behind the result of the repeated call and nowhere else."""
    record = driver.run(shop.tools(driver), again(2), mode=mode, guard=shop.settings)
    assert ["call_2"] == record.noted
    assert 'look_up(word="loop") was already answered at call 1' in record.results["call_2"]


def test_the_note_lists_the_tools_of_the_agent(driver: Driver, shop: Shop) -> None:
    """The options are the tools this agent was given, declared or not, and no others."""
    tools = shop.tools(driver, shop.look_up, shop.hand_over)
    record = driver.run(tools, again(2), guard=shop.settings)
    assert "- hand_over: Hand the case over to a person." in record.results["call_2"]
    assert "write_down" not in record.results["call_2"]


@needs("undeclared")
def test_the_note_lists_undeclared_tools(driver: Driver, shop: Shop) -> None:
    """A tool that nobody declared is an option too."""
    tools = shop.tools(driver, shop.look_up, shop.plain)
    record = driver.run(tools, again(2), guard=shop.settings)
    assert "\n- plain" in record.results["call_2"]


@in_every_mode
def test_twins_in_one_response_are_one_call(driver: Driver, shop: Shop, mode: Mode) -> None:
    """Equal calls of one response run once, share the result and are no repeat."""
    script = [[ask(1), ask(2), ask(3)]]
    record = driver.run(shop.tools(driver), script, mode=mode, guard=shop.settings)
    assert ["look_up loop"] == shop.bodies
    assert {"page of loop"} == set(record.results.values())
    assert 3 == len(record.results)
    assert not shop.events.repeats


def test_other_arguments_are_other_calls(driver: Driver, shop: Shop) -> None:
    """A model that goes on is left alone."""
    script: list[Step] = [[ask(number, word=f"word {number}")] for number in range(1, 6)]
    record = driver.run(shop.tools(driver), script, guard=shop.settings)
    assert 5 == len(shop.bodies)
    assert not record.noted
    assert not record.stopped


def test_a_write_lies_between(driver: Driver, shop: Shop) -> None:
    """After a successful write the same look-up runs again."""
    tools = shop.tools(driver, shop.look_up, shop.write_down)
    script: list[Step] = [[ask(1)], [ask(2, "write_down")], [ask(3)]]
    record = driver.run(tools, script, guard=shop.settings)
    assert ["look_up loop", "write_down loop", "look_up loop"] == shop.bodies
    assert not record.noted


def test_notes_stand_where_the_provider_takes_them(driver: Driver, shop: Shop) -> None:
    """Nothing stands between calls and their results, with repeats, twins and others in one response."""
    script: list[Step] = [[ask(1), ask(2, word="other")], [ask(3), ask(4, word="new"), ask(5)]]
    record = driver.run(shop.tools(driver), script, guard=shop.settings)
    assert [] == faults(record.layout)
    assert 5 == len(record.results)
    # Where a framework has threads, either of the twins may come first.
    assert {"call_3", "call_5"} & set(record.noted)


@needs("messages")
def test_notes_as_messages_come_after_all_results(driver: Driver, shop: Shop) -> None:
    """Where the host wants messages, the observation follows the last result of the response."""
    settings = {**shop.settings, "deliver": "messages"}
    script: list[Step] = [[ask(1)], [ask(2), ask(3, word="other")]]
    record = driver.run(shop.tools(driver), script, guard=settings)
    assert not record.noted
    assert [] == faults(record.layout)
    kinds = [kind for kind, _ in record.sent]
    assert 1 == kinds.count("note")
    assert ["result", "result", "note"] == kinds[kinds.index("note") - 2 :][:3]


# -- the end ---------------------------------------------------------------------------------------


@in_every_mode
@needs("loop")
def test_stop_at_the_third(driver: Driver, shop: Shop, mode: Mode) -> None:
    """The third equal call ends the loop before the model is asked again, and nothing is raised."""
    record = driver.run(shop.tools(driver), again(6), mode=mode, guard=shop.settings)
    assert record.stopped
    assert 3 == record.requests
    assert ["look_up loop"] == shop.bodies
    assert ["stuck"] == [run.reason for run in shop.events.runs]


@needs("loop")
def test_the_last_call_has_its_result(driver: Driver, shop: Shop) -> None:
    """The history of a stopped loop holds a result for every call."""
    record = driver.run(shop.tools(driver), again(6), guard=shop.settings)
    assert [] == faults(record.layout)
    assert "page of loop" == record.plain("call_3")


@in_every_mode
@needs("loop", "history")
def test_the_next_turn_is_legal(driver: Driver, shop: Shop, mode: Mode) -> None:
    """After a stop the user can speak and the provider takes the history."""
    tools = shop.tools(driver)
    first = driver.run(tools, again(6), mode=mode, guard=shop.settings)
    assert first.stopped
    second = driver.run(
        tools,
        ["all right"],
        mode=mode,
        user="leave it",
        history=first.history,
        guard=shop.settings,
    )
    assert second.error is None
    assert "all right" == second.text
    assert [] == faults(second.layout)


@needs("loop", "history")
def test_the_user_may_ask_again(driver: Driver, shop: Shop) -> None:
    """What the user says resets the counts: the same call runs, and the loop goes on."""
    tools = shop.tools(driver)
    first = driver.run(tools, again(6), guard=shop.settings)
    script: list[Step] = [[ask(11)], "found"]
    second = driver.run(tools, script, user="again", history=first.history, guard=shop.settings)
    assert 2 == len(shop.bodies)
    assert "found" == second.text
    assert not second.stopped


@needs("loop")
def test_a_hand_over_that_is_repeated_ends_finished(driver: Driver, shop: Shop) -> None:
    """A hand-off that had succeeded and is asked for again and again ends the loop as a success."""
    script: list[Step] = [
        [Ask("hand_over", {"summary": "x"}, f"call_{number}")] for number in range(1, 7)
    ]
    record = driver.run(shop.tools(driver), script, guard=shop.settings)
    assert record.stopped
    assert ["hand_over"] == shop.bodies
    assert ["finished"] == [run.reason for run in shop.events.runs]


# -- the run of the host ---------------------------------------------------------------------------


@in_every_mode
@needs("users_run", "loop")
def test_the_run_of_the_host_is_used(driver: Driver, shop: Shop, mode: Mode) -> None:
    """Inside a block the adapter takes that run, which tells at its end how it came out."""
    with Run(registry=shop.registry, events=shop.events) as run:
        driver.run(shop.tools(driver), again(6), mode=mode)
    assert run.stuck
    assert [run.run_id] == [each.run_id for each in shop.events.runs]
    assert run.outcome is not None
    assert "look_up" in run.outcome.summary
    assert ["look_up loop"] == shop.bodies


@needs("users_run", "loop")
def test_the_host_may_want_an_error(driver: Driver, shop: Shop) -> None:
    """The block of a run that is to raise raises at its end, with the outcome."""

    def task() -> None:
        with Run(registry=shop.registry, on_stuck="raise"):
            driver.run(shop.tools(driver), again(6))

    with pytest.raises(StuckError, match="look_up") as caught:
        task()
    assert "stuck" == caught.value.outcome.reason
    assert ["look_up loop"] == shop.bodies


@needs("users_run", "loop", "history")
def test_one_run_of_the_host_for_two_turns(driver: Driver, shop: Shop) -> None:
    """In a run that lasts for several turns of the user each of them resets the counts."""
    tools = shop.tools(driver)
    with Run(registry=shop.registry) as run:
        first = driver.run(tools, again(2))
        script: list[Step] = [[ask(11)], [ask(12)]]
        driver.run(tools, script, user="again", history=first.history)
        assert not run.over
    assert 2 == len(shop.bodies)


def test_two_conversations_do_not_meet(driver: Driver, shop: Shop) -> None:
    """Two conversations at once over the same tools count apart."""
    tools = shop.tools(driver)
    records: dict[str, Any] = {}
    gate = threading.Barrier(2, timeout=20)

    def converse(name: str) -> None:
        gate.wait()
        records[name] = driver.__class__().run(tools, again(2), guard=shop.settings)

    threads = [threading.Thread(target=converse, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert 2 == len(shop.bodies)
    assert [["call_2"], ["call_2"]] == [records[name].noted for name in "ab"]


def test_memory_outlives_a_run(driver: Driver, shop: Shop) -> None:
    """A memory given to the adapter carries results to its next run."""
    settings = {**shop.settings, "memory": Memory()}
    tools = shop.tools(driver)
    driver.run(tools, again(1), guard=settings)
    record = driver.run(tools, [[ask(11)]], guard=settings)
    assert ["look_up loop"] == shop.bodies
    assert ["call_11"] == record.noted


@needs("resume")
def test_a_conversation_is_taken_up(driver: Driver, shop: Shop) -> None:
    """A run that starts in the middle of a conversation counts what its history holds."""
    tools = shop.tools(driver)
    first = driver.run(tools, again(1), guard=shop.settings)
    shop.bodies.clear()
    script: list[Step] = [[ask(11)], [ask(12)], [ask(13)]]
    record = driver.run(tools, script, user=None, history=first.history, guard=shop.settings)
    assert [] == shop.bodies
    assert "page of loop" == record.plain("call_11")
    assert record.stopped
    assert 2 == record.requests


# -- calls that reach no tool, and those that fail -------------------------------------------------


@needs("unknown_tool")
def test_an_unknown_tool_is_counted(driver: Driver, shop: Shop) -> None:
    """A call of a tool that nobody has is counted like a failure, and ends the loop in the end."""
    record = driver.run(shop.tools(driver), again(8, "look_down"), guard=shop.settings)
    assert [] == faults(record.layout)
    assert {"look_down"} == {event.tool for event in shop.events.repeats}
    assert 4 == len(record.results) or "loop" in driver.cannot
    assert [] == shop.bodies


@needs("bad_arguments")
def test_bad_arguments_are_counted(driver: Driver, shop: Shop) -> None:
    """Arguments that do not fit never reach the tool, and are counted."""
    script: list[Step] = [[Ask("look_up", {"wort": "x"}, f"call_{n}")] for n in range(1, 9)]
    record = driver.run(shop.tools(driver), script, guard=shop.settings)
    assert [] == faults(record.layout)
    assert {"look_up"} == {event.tool for event in shop.events.repeats}
    assert 4 == len(record.results)
    assert [] == shop.bodies


@needs("bad_arguments")
def test_text_that_is_no_json_is_counted(driver: Driver, shop: Shop) -> None:
    """Arguments that cannot be parsed never reach the tool, and are counted."""
    script: list[Step] = [[Ask("look_up", '{"word": ', f"call_{n}")] for n in range(1, 9)]
    record = driver.run(shop.tools(driver), script, guard=shop.settings)
    assert {"look_up"} == {event.tool for event in shop.events.repeats}
    assert 4 == len(record.results)


@needs("denied")
def test_a_denied_call_is_counted(driver: Driver, shop: Shop) -> None:
    """A call that a person or a rule forbids is counted, and its tool is no option any more."""
    tools = [driver.denying(driver.tool(shop.look_up)), driver.tool(shop.hand_over)]
    record = driver.run(tools, again(8), guard=shop.settings)
    assert [] == faults(record.layout)
    assert 4 == len(record.results) or "loop" in driver.cannot
    assert [] == shop.bodies


def test_the_same_failure_climbs_the_ladder(driver: Driver, shop: Shop) -> None:
    """A failing call runs twice, is refused at the third and ends the run at the fourth."""
    tools = shop.tools(driver, shop.fail, shop.hand_over)
    record = driver.run(tools, again(8, "fail"), guard=shop.settings)
    assert ["fail loop"] * 2 == shop.bodies
    assert 4 == len(record.results) or "loop" in driver.cannot
    assert record.plain("call_1") == record.plain("call_2") == record.plain("call_3")


def test_a_failure_is_noted(driver: Driver, shop: Shop) -> None:
    """The observation about a failure stands behind the error."""
    tools = shop.tools(driver, shop.fail, shop.hand_over)
    record = driver.run(tools, again(2, "fail"), guard=shop.settings)
    assert ["call_2"] == record.noted


def test_a_failure_leaves_the_others_alone(driver: Driver, shop: Shop) -> None:
    """One tool of a response fails, and the others have their results."""
    tools = shop.tools(driver, shop.fail, shop.look_up)
    record = driver.run(tools, [[ask(1, "fail"), ask(2)]], guard=shop.settings)
    assert ["fail loop", "look_up loop"] == sorted(shop.bodies)
    assert "page of loop" == record.results["call_2"]
    assert [] == faults(record.layout)


@needs("retry")
def test_a_retry_under_one_id_is_not_counted(driver: Driver, shop: Shop) -> None:
    """What the framework delivers again under the same id is one call."""
    record = driver.retried(shop.tools(driver), again(1), times=4, guard=shop.settings)
    assert ["look_up loop"] == shop.bodies
    assert not record.noted
    assert not record.stopped


@needs("control_flow")
def test_control_flow_is_not_counted(driver: Driver, shop: Shop) -> None:
    """An exception by which the framework leaves a tool passes, and the call counts for nothing."""
    kind = driver.pausing()
    attempts: list[int] = []

    @shop.guard
    def pay(word: str) -> str:
        """Pay."""
        attempts.append(1)
        if len(attempts) < 5:
            raise kind
        return "paid"

    settings = {**shop.settings, "control_flow": (kind,)}
    with Run(registry=shop.registry, events=shop.events) as run:
        for number in range(1, 6):
            try:
                record = driver.run([driver.tool(pay)], [[ask(number, "pay")]], guard=settings)
            except kind:
                continue
    assert 5 == len(attempts)
    assert "paid" == record.results["call_5"]
    assert not run.stuck
    assert not shop.events.repeats


# -- tools nobody declared -------------------------------------------------------------------------


@needs("undeclared")
def test_an_undeclared_tool_may_change_anything(driver: Driver, shop: Shop) -> None:
    """A tool that nobody declared runs twice, is noted, is answered from store, and ends the loop."""
    record = driver.run(shop.tools(driver, shop.plain), again(8, "plain"), guard=shop.settings)
    assert ["plain loop"] * 2 == shop.bodies
    assert "plainly loop" == record.plain("call_3")
    assert "call_2" in record.noted
    assert 5 == len(record.results) or "loop" in driver.cannot


@needs("undeclared")
def test_the_host_may_know_an_effect(driver: Driver, shop: Shop) -> None:
    """The host says what a tool does that it cannot decorate."""
    settings = {**shop.settings, "effects": {"plain": "read"}}
    record = driver.run(shop.tools(driver, shop.plain), again(2, "plain"), guard=settings)
    assert ["plain loop"] == shop.bodies
    assert ["call_2"] == record.noted


@needs("annotations")
def test_annotations_are_defaults(driver: Driver, shop: Shop) -> None:
    """A tool that reads from a closed world is a read, unless the host knows better."""
    hints = {"readOnlyHint": True, "openWorldHint": False}
    tools = [driver.annotated_tool(shop.plain, hints)]
    driver.run(tools, again(2, "plain"), guard=shop.settings)
    assert 1 == len(shop.bodies)
    settings = {**shop.settings, "effects": {"plain": "live"}}
    driver.run(tools, again(2, "plain"), guard=settings)
    assert 3 == len(shop.bodies)


@needs("annotations")
def test_annotations_of_an_open_world_are_no_permission(driver: Driver, shop: Shop) -> None:
    """A server's word that its tool only reads is not enough to serve a stored result."""
    tools = [driver.annotated_tool(shop.plain, {"readOnlyHint": True})]
    driver.run(tools, again(2, "plain"), guard=shop.settings)
    assert 2 == len(shop.bodies)


def test_no_call_is_counted_twice(driver: Driver, shop: Shop) -> None:
    """A decorated tool that the adapter sees as well is counted once a call."""
    script: list[Step] = [[ask(number, word=f"word {number}")] for number in range(1, 5)]
    driver.run(shop.tools(driver), script, guard=shop.settings)
    assert [4] == [run.calls for run in shop.events.runs]


# -- a tool that goes past its guard ---------------------------------------------------------------


@needs("wrong_order")
def test_the_wrong_order_is_noticed(driver: Driver, shop: Shop) -> None:
    """Decorators in the wrong order are rejected, or told once and guarded all the same."""

    def look(word: str) -> str:
        """Look."""
        shop.bodies.append(word)
        return f"saw {word}"

    try:
        tool = driver.wrong_order(shop.guard, look)
    except ToolDeclarationError as error:
        rejected = str(error)
    else:
        rejected = ""
    if rejected:
        assert "directly above def" in rejected
        return
    driver.run([tool], again(2, "look"), guard=shop.settings)
    assert ["loop"] == shop.bodies
    assert 1 == len(shop.warnings)
    assert "look: " in shop.warnings[0]
    assert "directly above def" in shop.warnings[0]


@needs("cache")
def test_a_cache_in_front_is_noticed(driver: Driver, shop: Shop) -> None:
    """A cache in front of the guard is told once, and its calls are counted all the same."""
    kept: dict[str, str] = {}

    @functools.wraps(shop.look_up)
    def cached(word: str) -> str:
        if word not in kept:
            kept[word] = shop.look_up(word)
        return kept[word]

    record = driver.run(shop.tools(driver, cached), again(4), guard=shop.settings)
    assert ["look_up loop"] == shop.bodies
    assert "call_2" in record.noted
    assert 3 == len(record.results) or "loop" in driver.cannot
    assert 1 == len(shop.warnings)
    assert "cache" in shop.warnings[0]


# -- kinds of tools --------------------------------------------------------------------------------


@needs("async")
def test_coroutine_tools(driver: Driver, shop: Shop) -> None:
    """Coroutine functions are guarded as functions are, twins in flight at once too."""

    @shop.guard
    async def fetch(word: str) -> str:
        """Fetch."""
        shop.bodies.append(word)
        return f"fetched {word}"

    script: list[Step] = [[ask(1, "fetch"), ask(2, "fetch")], [ask(3, "fetch")]]
    record = driver.run([driver.tool(fetch)], script, mode="async", guard=shop.settings)
    assert ["loop"] == shop.bodies
    assert ["fetched loop"] * 3 == [record.plain(f"call_{number}") for number in (1, 2, 3)]
    assert ["call_3"] == record.noted


@needs("method")
def test_methods(driver: Driver, shop: Shop) -> None:
    """A bound method is a tool like any other."""

    class Library:
        @shop.guard
        def find(self, word: str) -> str:
            """Find."""
            shop.bodies.append(word)
            return f"found {word}"

    record = driver.run([driver.tool(Library().find)], again(2, "find"), guard=shop.settings)
    assert ["loop"] == shop.bodies
    assert ["call_2"] == record.noted
    assert not shop.warnings


@needs("context")
def test_context_parameters(driver: Driver, shop: Shop) -> None:
    """What the framework fills in itself is no part of a call's identity."""

    def body(word: str) -> str:
        shop.bodies.append(word)
        return f"with {word}"

    tool = driver.context_tool(shop.guard, body)
    record = driver.run([tool], again(2, "with_context"), guard=shop.settings)
    assert ["loop"] == shop.bodies
    assert "with loop" == record.plain("call_2")
    assert "context" not in record.results["call_2"].partition("was already")[0].partition("---")[0]


@needs("names")
def test_a_tool_under_another_name(driver: Driver, shop: Shop) -> None:
    """The observation calls a tool by the name the model knows."""
    tools = [driver.tool(shop.look_up, name="kb_search"), driver.tool(shop.hand_over)]
    record = driver.run(tools, again(2, "kb_search"), guard=shop.settings)
    assert 'kb_search(word="loop") was already answered' in record.results["call_2"]
    assert "look_up" not in record.results["call_2"]


@needs("typed")
def test_a_typed_result_stays_valid(driver: Driver, shop: Shop) -> None:
    """A replayed result is what the tool returned, and passes the framework's own checks."""

    def body(word: str) -> dict[str, int]:
        shop.bodies.append(word)
        return {"letters": len(word)}

    record = driver.run(
        [driver.typed_tool(shop.guard, body)], again(2, "typed"), guard=shop.settings
    )
    assert ["loop"] == shop.bodies
    first, second = (record.typed.get(f"call_{n}", record.plain(f"call_{n}")) for n in (1, 2))
    assert first == second
    assert "letters" in record.plain("call_2")


# -- modes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("softer", ["observe", "off"])
def test_a_softer_mode_changes_nothing(driver: Driver, shop: Shop, softer: Any) -> None:
    """Where the guard is only to watch, or is off, every call runs and no text is added."""
    settings = {**shop.settings, "policy": Policy(mode=softer)}
    record = driver.run(shop.tools(driver), again(4), guard=settings)
    assert ["look_up loop"] * 4 == shop.bodies
    assert not record.noted
    assert not record.stopped
    assert not shop.warnings
    assert bool(shop.events.repeats) is (softer == "observe")


def test_advice_withholds_nothing(driver: Driver, shop: Shop) -> None:
    """Under the advisory policy every call runs, and the third equal one is noted."""
    settings = {**shop.settings, "policy": Policy.advisory()}
    record = driver.run(shop.tools(driver), again(4), guard=settings)
    assert ["look_up loop"] * 4 == shop.bodies
    assert ["call_3"] == record.noted
