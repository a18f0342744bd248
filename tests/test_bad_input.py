"""Each mistake is answered where it is written: what was given, what is allowed, what to write."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from repeatguard_sdk import Ladder, Policy, Registry, Run, guarded_tool
from repeatguard_sdk.exceptions import (
    DuplicateToolError,
    PolicyError,
    RepeatGuardError,
    RunStateError,
    ScenarioError,
    ToolDeclarationError,
)
from repeatguard_sdk.testing import play


def get_order(order_id: str, amount: float = 0.0, note: str = "") -> str:
    """Look up an order."""
    return order_id


def ask_user(fact: str) -> str:
    """Ask the user."""
    return fact


def words(error: BaseException, *parts: str) -> None:
    """Check that an error's text names each part and reads as one sentence or two."""
    text = str(error)
    for part in parts:
        assert part in text, f"{part!r} is not in: {text}"
    assert "\n" not in text
    assert "0x" not in text


# -- a declaration -------------------------------------------------------------------------------


def lines(path: str) -> Iterator[str]:
    """Read lines."""
    yield path


async def events(topic: str) -> AsyncIterator[str]:
    """Read events."""
    yield topic


class StructuredTool:
    """Stands for LangChain's, which its own decorator makes."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func
        self.name = func.__name__


DECLARATIONS: dict[str, tuple[Any, dict[str, Any], tuple[str, ...]]] = {
    "a wrong name in case_fold": (
        get_order,
        {"case_fold": ["oder_id"]},
        (
            "get_order",
            "case_fold",
            "'oder_id'",
            "order_id, amount, note",
            "Did you mean 'order_id'",
        ),
    ),
    "a wrong name in money_fields": (
        get_order,
        {"money_fields": ["total"]},
        ("money_fields", "'total'", "order_id, amount, note"),
    ),
    "a wrong name in fields": (get_order, {"fields": {"nte": "text"}}, ("'nte'", "'note'")),
    "a bare text": (
        get_order,
        {"case_fold": "order_id"},
        ("case_fold", "list of names", "case_fold=['order_id']"),
    ),
    "a bare text for amounts": (
        get_order,
        {"money_fields": "amount"},
        ("money_fields=['amount']",),
    ),
    "a bare text for volatile": (get_order, {"volatile": "time"}, ("volatile=['time']",)),
    "two rules for one field": (
        get_order,
        {"case_fold": ["order_id"], "money_fields": ["order_id"]},
        ("'order_id'", "two rules", "'id'", "'money'", "keep one"),
    ),
    "two rules, one by name": (
        get_order,
        {"case_fold": ["note"], "fields": {"note": "text"}},
        ("'note'", "two rules", "'id'", "'text'"),
    ),
    "an unknown rule": (
        get_order,
        {"fields": {"note": "lower"}},
        ("'lower'", "'text'", "'space'", "callable"),
    ),
    "a list for fields": (get_order, {"fields": ["note"]}, ("fields", 'fields={"note": "text"}')),
    "a generator": (lines, {}, ("lines", "generator", "return a list")),
    "an async generator": (events, {}, ("events", "generator", "return a list")),
    "a tool object": (
        StructuredTool(get_order),
        {},
        ("StructuredTool", "@guarded_tool directly above def", "below the framework's decorator"),
    ),
    "a class": (StructuredTool, {}, ("the class StructuredTool", "directly above")),
    "no function": ("get_order", {}, ("a str", "not a function")),
    "a partial without a name": (functools.partial(get_order, "a"), {}, ("partial", 'name="..."')),
    "an unknown effect": (
        get_order,
        {"effect": "writes"},
        ("effect", "'writes'", "'write'", "'live'", "Did you mean 'write'"),
    ),
    "an unknown mode": (get_order, {"mode": "warn"}, ("mode", "'warn'", "'advise'")),
    "a slot without a question": (get_order, {"slot": "note"}, ("slot", 'effect="ask"')),
    "a slot that is no parameter": (
        ask_user,
        {"slot": "facts", "effect": "ask"},
        ("'facts'", "'fact'"),
    ),
    "a budget of nothing": (get_order, {"max_calls": 0}, ("max_calls", "at least 1", "0")),
    "a budget of a bool": (get_order, {"max_calls": True}, ("max_calls", "True")),
    "transient texts": (get_order, {"transient": ["timeout"]}, ("transient", "exception types")),
    "a blank name": (get_order, {"name": " "}, ("name", "not blank")),
    "a repeatable hand-off": (
        get_order,
        {"repeatable": True, "effect": "final"},
        ("repeatable", "'final'"),
    ),
    "a registry that is none": (get_order, {"registry": {}}, ("registry", "Registry()")),
}


@pytest.mark.parametrize("mistake", DECLARATIONS)
def test_a_declaration_that_cannot_work(mistake: str) -> None:
    """The decorator itself raises, before any call is made."""
    fn, options, parts = DECLARATIONS[mistake]
    with pytest.raises(ToolDeclarationError) as caught:
        guarded_tool(**{"registry": Registry(), **options})(fn)
    assert isinstance(caught.value, TypeError)
    words(caught.value, *parts)


def test_a_declaration_that_failed_left_nothing_behind() -> None:
    """A registry does not know a tool whose declaration was refused."""
    registry = Registry()
    with pytest.raises(ToolDeclarationError):
        guarded_tool(case_fold=["nobody"], registry=registry)(get_order)
    assert len(registry) == 0


def test_two_tools_of_one_name() -> None:
    """The error names both places."""
    registry = Registry()
    guarded_tool(name="look_up", registry=registry)(get_order)
    with pytest.raises(DuplicateToolError) as caught:
        guarded_tool(name="look_up", registry=registry)(ask_user)
    words(caught.value, "'look_up'", "get_order", "ask_user", "name=", "registry=Registry()")


def test_decorated_twice() -> None:
    """One of the two is too many."""
    registry = Registry()
    with pytest.raises(ToolDeclarationError) as caught:
        guarded_tool(registry=registry)(guarded_tool(registry=registry)(get_order))
    words(caught.value, "get_order", "already", "remove one")


# -- a policy ------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["note", "withhold", "exit"])
@pytest.mark.parametrize("value", [1, 0, -3, True, False, 2.0, "2"])
def test_a_threshold_that_makes_no_sense(step: str, value: Any) -> None:
    """Below 2 it would act on a first call, and a bool or a text is no number."""
    with pytest.raises(PolicyError) as caught:
        Ladder(**{"note": None, "withhold": None, "exit": None, step: value})
    assert isinstance(caught.value, ValueError)
    words(caught.value, step, str(value), "2")


@pytest.mark.parametrize(
    ("steps", "parts"),
    [
        ((3, 2, 4), ("note=3", "withhold=2", "write note <= withhold")),
        ((2, 4, 3), ("withhold=4", "exit=3", "write withhold <= exit")),
        ((5, None, 3), ("note=5", "exit=3", "write note <= exit")),
    ],
)
def test_ladder_steps_in_the_wrong_order(steps: tuple[Any, ...], parts: tuple[str, ...]) -> None:
    """The text names the two steps and how they must stand."""
    with pytest.raises(PolicyError) as caught:
        Ladder(*steps)
    words(caught.value, *parts)


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"mode": "strict"}, ("mode", "'strict'", "enforce", "advise", "observe", "off")),
        ({"mode": None}, ("mode", "None", "enforce")),
        ({"style": "short"}, ("style", "'short'", "options", "bare", "callable")),
        ({"style": None}, ("style", "None")),
        ({"folds": "yes"}, ("folds", "'yes'", "suspect", "convict")),
        ({"folds": True}, ("folds", "True", "suspect")),
        ({"options": ["a"]}, ("options", "['a']", "function")),
        ({"known_effects": (2, 2, 3)}, ("known_effects", "(2, 2, 3)", "Ladder(note=2")),
        ({"failing": 3}, ("failing", "3", "Ladder(")),
        ({"unknown": "2"}, ("unknown", "Ladder(")),
        ({"live": 3}, ("live", "Ladder(")),
        ({"cycle": 2}, ("cycle", "Ladder(")),
        ({"no_progress": 3}, ("no_progress", "Ladder(")),
        ({"advice": (3, 5, 8)}, ("advice", "Policy.advisory")),
        ({"same_errors": 1}, ("same_errors", "1", "2 or more")),
        ({"same_empties": True}, ("same_empties", "True", "at least 2")),
        ({"failures": "4"}, ("failures", "'4'", "at least 2")),
        ({"transient_retries": -1}, ("transient_retries", "-1", "at least 0")),
        ({"transient_retries": True}, ("transient_retries", "True")),
        ({"max_result_bytes": -1}, ("max_result_bytes", "-1")),
        ({"max_stored_bytes": 1e6}, ("max_stored_bytes", "1000000.0")),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_policy_that_makes_no_sense(options: dict[str, Any], parts: tuple[str, ...]) -> None:
    """A policy is checked when it is built."""
    with pytest.raises(PolicyError) as caught:
        Policy(**options)
    words(caught.value, *parts)


def test_a_bool_that_is_a_text() -> None:
    """A text such as "no" would count as true."""
    with pytest.raises(PolicyError) as caught:
        Policy(whole_run="no")  # type: ignore[arg-type]
    words(caught.value, "whole_run", "'no'", "True", "False")


@pytest.mark.parametrize("value", ["strict", "ENFORCED", "1", "true"])
def test_a_mode_in_the_environment_that_is_none(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """The variable is read when a run is made, and its error names it."""
    monkeypatch.setenv("REPEATGUARD_MODE", value)
    with pytest.raises(PolicyError) as caught:
        Run()
    words(
        caught.value, "REPEATGUARD_MODE", repr(value.lower()), "enforce", "advise", "observe", "off"
    )


# -- a run ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("on_stuck", "riase", ("'exit'", "'raise'", "'flag'")),
        ("on_stuck", None, ("'exit'", "'raise'", "'flag'")),
        ("deliver", "results", ("'queue'", "'result'")),
    ],
)
def test_a_choice_misspelt(option: str, value: Any, allowed: tuple[str, ...]) -> None:
    """The text names the option, what was given, and each choice."""
    with pytest.raises(RepeatGuardError) as caught:
        Run(**{option: value})
    words(caught.value, option, repr(value), *allowed)


def test_a_tool_that_is_not_decorated() -> None:
    """It would run unguarded in silence."""
    with pytest.raises(ToolDeclarationError) as caught:
        Run(tools=[get_order])
    words_of = str(caught.value)
    assert "get_order" in words_of
    assert "not decorated" in words_of
    assert "@guarded_tool directly above its def" in words_of


def test_two_tools_of_one_name_in_one_run() -> None:
    """A model cannot tell them apart, and one of them would be out of reach in silence."""
    one = guarded_tool(name="look_up", registry=Registry())(get_order)
    two = guarded_tool(name="look_up", registry=Registry())(ask_user)
    with pytest.raises(ToolDeclarationError) as caught:
        Run(tools=[one, two])
    words(caught.value, "'look_up'", "get_order", "ask_user", "name=")


def test_the_same_tool_given_twice() -> None:
    """Harmless: it is one tool."""
    one = guarded_tool(registry=Registry())(get_order)
    with Run(tools=[one, one]) as run:
        assert run.dispatch("get_order", {"order_id": "a"}) == "a"


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"policy": "strict"}, ("policy", "'strict'", "Policy")),
        ({"policy": Policy.strict}, ("policy", "Policy")),
        ({"events": 5}, ("events", "5", "emit")),
        ({"registry": {}}, ("registry", "Registry")),
        ({"clock": 5}, ("clock", "5")),
        ({"tools": guarded_tool(registry=Registry())(get_order)}, ("tools", "list")),
    ],
    ids=["a text", "not called", "a number", "a dict", "a moment", "one tool"],
)
def test_an_option_of_the_wrong_kind(options: dict[str, Any], parts: tuple[str, ...]) -> None:
    """What cannot work is said where the run is made, not at its first call."""
    with pytest.raises(RepeatGuardError) as caught:
        Run(**options)
    for part in parts:
        assert part in str(caught.value)


def test_a_sink_that_was_not_made() -> None:
    """A class is no sink: its `emit` would lack itself, and every event would be lost."""
    from repeatguard_sdk.events import MemorySink

    with pytest.raises(RepeatGuardError) as caught:
        Run(events=MemorySink)
    words(caught.value, "events", "MemorySink()")


def test_a_run_used_twice() -> None:
    """One run is one block."""
    run = Run([])
    with run:
        pass
    with pytest.raises(RunStateError) as caught, run:
        pass
    assert isinstance(caught.value, RuntimeError)
    words(caught.value, "ended", "one `with` block", "new Run(...)")


def test_a_run_entered_inside_itself() -> None:
    """The second entry raises, and the first goes on."""
    with Run([]) as run:
        with pytest.raises(RunStateError) as caught, run:
            pass
        words(caught.value, "open", "one `with` block")
        run.turn()
    assert run.outcome is not None
    assert run.outcome.reason == "completed"


USES: dict[str, Callable[[Run], Any]] = {
    "turn": lambda run: run.turn(),
    "user_message": lambda run: run.user_message("hello"),
    "progress": lambda run: run.progress(),
    "compacted": lambda run: run.compacted(),
    "know": lambda run: run.know(order_id="SO-1"),
    "refused": lambda run: run.refused("get_order", {}),
    "dispatch": lambda run: run.dispatch("get_order", {}),
    "adispatch": lambda run: asyncio.run(run.adispatch("get_order", {})),
}


@pytest.mark.parametrize("use", USES)
def test_a_run_used_before_its_block(use: str) -> None:
    """The text says that it has not begun, and how to begin."""
    with pytest.raises(RunStateError) as caught:
        USES[use](Run([]))
    words(caught.value, "not begun", "with Run(...) as run:")


@pytest.mark.parametrize("use", USES)
def test_a_run_used_after_its_end(use: str) -> None:
    """The text says that it has ended, and what a new task needs."""
    with Run([]) as run:
        pass
    with pytest.raises(RunStateError) as caught:
        USES[use](run)
    words(caught.value, "has ended", "new Run(...)")


def test_a_tool_bound_to_a_run_that_ended_is_the_plain_tool() -> None:
    """A callback that comes late is served, and counts for nothing."""
    tool = guarded_tool(registry=Registry())(get_order)
    with Run([tool]) as run:
        late = run.bind(tool)
    assert [late("a") for _ in range(4)] == ["a"] * 4
    assert run.calls == 0


def test_a_coroutine_tool_without_await() -> None:
    """`dispatch` says which method to write instead."""

    @guarded_tool(registry=Registry())
    async def look_up(query: str) -> str:
        return query

    with Run([look_up]) as run, pytest.raises(RunStateError) as caught:
        run.dispatch("look_up", {"query": "a"})
    words(caught.value, "look_up", "await run.adispatch(...)")


def test_the_key_of_what_is_no_tool() -> None:
    """A name that the run does not have is an error, not a key."""
    with Run([]) as run, pytest.raises(ToolDeclarationError) as caught:
        run.key_of("get_odrer", "a")
    words(caught.value, "'get_odrer'", "no tool of this run")


def test_messages_for_an_unknown_provider() -> None:
    """The text lists the providers, and the observations wait for the right one."""
    tool = guarded_tool(registry=Registry())(get_order)
    with Run([tool]) as run:
        tool("a")
        tool("a")
        with pytest.raises(ValueError, match="'opnai'") as caught:
            run.messages("opnai")
        assert "'openai'" in str(caught.value)
        assert len(run.messages("openai")) == 1


# -- a model's own mistakes are no errors --------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "parts"),
    [
        ("get_odrer", {}, ('no tool "get_odrer"', "get_order")),
        ("", {}, ("names no tool",)),
        ("get_order", "{'order_id'", ("no valid JSON",)),
        ("get_order", "[1]", ("must be a JSON object",)),
        ("get_order", '"SO-1"', ("must be a JSON object",)),
        ("get_order", {}, ("missing: order_id", "It takes: order_id, amount, note")),
        ("get_order", {"order_id": "a", "id": 1}, ("unknown: id",)),
        ("get_order", {1: 2}, ("names are text",)),
        ("get_order", None, ("missing: order_id",)),
    ],
)
def test_a_call_that_does_not_fit(name: str, arguments: Any, parts: tuple[str, ...]) -> None:
    """It reaches no tool, is counted, and the model gets a sentence that says what to change."""
    ran = []

    @guarded_tool(name="get_order", registry=Registry())
    def look_up(order_id: str, amount: float = 0.0, note: str = "") -> str:
        ran.append(order_id)
        return order_id

    with Run([look_up]) as run:
        said = run.dispatch(name, arguments)
    for part in parts:
        assert part in said
    assert run.calls == 1
    assert ran == []


@pytest.mark.parametrize("arguments", ["{not JSON", ["a"], 5])
def test_refused_arguments_of_another_kind(arguments: Any) -> None:
    """What a model wrote in place of arguments is counted as it is, or refused by name."""
    with Run([]) as run:
        try:
            for _ in range(2):
                run.refused("look_up", arguments, "no valid JSON")
        except RepeatGuardError as error:
            words(error, "arguments", "mapping")
        else:
            assert run.calls == 2
            assert len(run.observations()) == 1


# -- a scenario ----------------------------------------------------------------------------------


TOOLS = {"look_up": {"effect": "read"}}
SCENARIOS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "a list": ([], ("mapping", "list")),
    "nothing": (None, ("mapping", "NoneType")),
    "no tools": ({"steps": []}, ("'tools'", "mapping")),
    "no steps": ({"tools": TOOLS}, ("'steps'", "list")),
    "tools in a list": ({"tools": ["look_up"], "steps": []}, ("'tools'", "mapping")),
    "steps in a text": ({"tools": TOOLS, "steps": "look_up"}, ("'steps'", "list")),
    "steps in a mapping": ({"tools": TOOLS, "steps": {}}, ("'steps'", "list")),
    "a declaration in a text": (
        {"tools": {"look_up": "read"}, "steps": []},
        ("tools['look_up']", "keyword arguments of guarded_tool"),
    ),
    "an unknown declaration": (
        {"tools": {"look_up": {"efect": "read"}}, "steps": []},
        ("tools['look_up']", "efect", "effect"),
    ),
    "a wrong effect": (
        {"tools": {"look_up": {"effect": "reads"}}, "steps": []},
        ("look_up", "'reads'", "'read'"),
    ),
    "a step in a text": ({"tools": TOOLS, "steps": ["look_up"]}, ("steps[0]", "mapping")),
    "a step without a tool": ({"tools": TOOLS, "steps": [{"args": {}}]}, ("steps[0]", "tool")),
    "an unknown tool": (
        {"tools": TOOLS, "steps": [{"tool": "look_up"}, {"tool": "lookup"}]},
        ("steps[1]", "'lookup'", "'look_up'"),
    ),
    "an unknown part": (
        {"tools": TOOLS, "steps": [{"tool": "look_up", "arguments": {}}]},
        ("steps[0]", "arguments", "args"),
    ),
    "an unknown event": (
        {"tools": TOOLS, "steps": [{"event": "user"}]},
        ("steps[0]", "'user'", "user_message"),
    ),
    "a result and an error": (
        {"tools": TOOLS, "steps": [{"tool": "look_up", "result": "a", "error": "b"}]},
        ("steps[0]", "both"),
    ),
    "arguments in a list": (
        {"tools": TOOLS, "steps": [{"tool": "look_up", "args": ["a"]}]},
        ("steps[0]", "args", "mapping"),
    ),
    "arguments in a text": (
        {"tools": TOOLS, "steps": [{"tool": "look_up", "args": "a"}]},
        ("steps[0]", "args", "mapping"),
    ),
    "an error that is no text": (
        {"tools": TOOLS, "steps": [{"tool": "look_up", "error": 5}]},
        ("steps[0]", "error", "text"),
    ),
    "an unknown mode": (
        {"tools": TOOLS, "steps": [], "mode": "strict"},
        ("mode", "'strict'", "enforce"),
    ),
    "an unknown part of an event": (
        {"tools": TOOLS, "steps": [{"event": "user_message", "message": "again"}]},
        ("steps[0]", "message", "text"),
    ),
    "a call id that is no text": (
        {"tools": TOOLS, "steps": [{"tool": "look_up", "call_id": ["a"]}]},
        ("steps[0]", "call_id"),
    ),
}


@pytest.mark.parametrize("mistake", SCENARIOS)
def test_a_malformed_scenario(mistake: str) -> None:
    """`play` names the place, what was there, and what may be, before anything is played."""
    scenario, parts = SCENARIOS[mistake]
    with pytest.raises(RepeatGuardError) as caught:
        play(scenario)
    words(caught.value, *parts)
    assert isinstance(caught.value, (ScenarioError, ToolDeclarationError, PolicyError))


def test_a_policy_and_a_mode_that_differ() -> None:
    """A policy that is given wins over the scenario's mode, as its documentation says."""
    scenario = {"tools": TOOLS, "mode": "off", "steps": [{"tool": "look_up", "result": "a"}] * 2}
    assert [call.decision for call in play(scenario)] == ["execute", "execute"]
    assert [call.decision for call in play(scenario, Policy())] == ["execute", "replay"]
