"""What all adapters share: effects, results read back from a history, the run that is found or opened."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Callable
from typing import Annotated, Any

import pytest

from repeatguard_sdk import Registry, Run, guarded_tool
from repeatguard_sdk._recalling import PastCall
from repeatguard_sdk._types import MISSING
from repeatguard_sdk.events import MemorySink
from repeatguard_sdk.integrations._conversation import Conversation, Settings
from repeatguard_sdk.integrations._framework import load
from repeatguard_sdk.integrations._history import is_note, read_back, without_note
from repeatguard_sdk.integrations._loop import Asked, Loop, as_text
from repeatguard_sdk.integrations._records import effect_of


class Desk:
    """One declared tool and one that is not."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.registry = Registry()
        self.events = MemorySink()
        self.settings = Settings(registry=self.registry, events=self.events)

        @guarded_tool(registry=self.registry)
        def look_up(word: str) -> str:
            """Look a word up."""
            self.ran.append(word)
            return f"page of {word}"

        self.look_up = look_up

    def plain(self, word: str, times: int = 1) -> str:
        """Say a word."""
        self.ran.append(word)
        return word * times


@pytest.fixture
def desk() -> Desk:
    return Desk()


# -- effects ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hints", "effect"),
    [
        (None, None),
        ({}, None),
        ({"readOnlyHint": True}, None),
        ({"readOnlyHint": True, "openWorldHint": True}, None),
        ({"readOnlyHint": True, "openWorldHint": False}, "read"),
        ({"read_only_hint": True, "open_world_hint": False}, "read"),
        ({"idempotentHint": True}, "write"),
        ({"destructiveHint": True, "idempotentHint": False}, None),
        ({"destructiveHint": False}, None),
        ({"readOnlyHint": False, "openWorldHint": False}, None),
    ],
)
def test_annotations_suggest_little(hints: Any, effect: str | None) -> None:
    """Only a read of a closed world and an idempotent change are worth a default."""
    assert effect == effect_of(hints)


def test_annotations_may_be_an_object() -> None:
    """The protocol's classes are read like its JSON."""

    class Annotations:
        readOnlyHint = True
        openWorldHint = False

    assert "read" == effect_of(Annotations())


def test_a_wrong_effect_is_told() -> None:
    """An effect that is none is an error where the adapter is made."""
    with pytest.raises(ValueError, match=r"effects\['shell'\] cannot be 'exec'; write one of read"):
        Settings(effects={"shell": "exec"})  # type: ignore[dict-item]


def test_a_wrong_delivery_is_told() -> None:
    """So is a delivery that there is not."""
    with pytest.raises(ValueError, match='write "result" or "messages"'):
        Settings(deliver="queue")  # type: ignore[arg-type]


def test_a_missing_framework_says_what_to_install() -> None:
    """Importing an adapter without its framework names the extra."""
    with pytest.raises(ModuleNotFoundError, match=r'pip install "repeatguard-sdk\[nothing\]"'):
        load("nothing_of_that_name", extra="nothing")


# -- histories -------------------------------------------------------------------------------------


def returning(hint: Any) -> Callable[..., Any]:
    def tool() -> Any: ...

    tool.__annotations__["return"] = hint
    return tool


@pytest.mark.parametrize(
    ("text", "hint", "value"),
    [
        ("page", str, "page"),
        ("page", "str", "page"),
        ("page", Annotated[str, "text"], "page"),
        ("3", int, 3),
        ("true", bool, True),
        ("True", bool, True),
        ('{"a": 1}', dict[str, int], {"a": 1}),
        ("{'a': 1}", dict[str, int], {"a": 1}),
        ("{'a': 1}", "dict[str, int]", {"a": 1}),
        ("[1, 2]", list, [1, 2]),
        ("page", dict, MISSING),
        ("1", str, "1"),
        ("page", Desk, MISSING),
        ("page", "Desk", MISSING),
        ("None", None, MISSING),
        ("page", str | None, MISSING),
    ],
)
def test_a_result_is_read_back(text: str, hint: Any, value: Any) -> None:
    """A text is what the tool's hint says, or nothing is known of it."""
    assert value == read_back(text, returning(hint))


def test_a_result_without_a_hint_is_text(desk: Desk) -> None:
    """Of a tool without a hint, or one that is not known, the text is the result."""

    def tool():  # type: ignore[no-untyped-def]
        ...

    assert "3" == read_back("3", tool)
    assert "3" == read_back("3", None)
    assert "page" == read_back("page", desk.look_up)


def test_our_own_text_is_known(desk: Desk) -> None:
    """A note behind a result, as a block or as a message is told from what others wrote."""
    conversation = Conversation(desk.settings)
    known = conversation.known("look_up", desk.look_up)
    texts = []
    for number in range(2):
        conversation.next_turn()
        call = conversation.call("look_up", {"word": "loop"}, f"c{number}", known)
        call.guard(lambda: desk.look_up("loop"))
        texts.append(call.answer("page of loop"))
    assert "page of loop" == texts[0]
    assert texts[0] == without_note(texts[1]) != texts[1]
    assert is_note(texts[1].removeprefix("page of loop\n\n"))
    assert not is_note("page of loop")


# -- the run ---------------------------------------------------------------------------------------


def test_the_run_of_the_host_is_taken(desk: Desk) -> None:
    """Inside a block the conversation is about that run, and does not end it."""
    with Run(registry=desk.registry) as run:
        conversation = Conversation(desk.settings)
        assert conversation.run is run
        conversation.close()
        assert run.guarding


def test_a_run_is_opened_that_guards_nothing_else(desk: Desk) -> None:
    """Where there is no block, a run is opened that is active in its own calls only."""
    conversation = Conversation(desk.settings)
    assert conversation.owns_run
    assert [desk.look_up("loop") for _ in range(4)] == ["page of loop"] * 4
    assert 4 == len(desk.ran)
    assert 0 == conversation.run.calls
    conversation.close()
    conversation.close()
    assert ["completed"] == [run.reason for run in desk.events.runs]


def test_a_user_after_the_end_begins_anew(desk: Desk) -> None:
    """A run of ours that is stuck makes place for the next when the user speaks."""
    loop = Loop([desk.look_up], desk.settings)
    for turn in range(4):
        loop.next_turn(users=1, past=list, state=MISSING)
        loop.answer([Asked("look_up", {"word": "loop"}, f"c{turn}")])
    assert loop.conversation.run.over
    assert loop.next_turn(users=2, past=list, state=MISSING)
    assert not loop.conversation.run.over
    (answer,) = loop.answer([Asked("look_up", {"word": "loop"}, "c9")])
    assert "page of loop" == answer.text
    assert 2 == len(desk.ran)


def test_a_guard_that_was_closed_begins_anew(desk: Desk) -> None:
    """A guard that is used after its end opens another run, which knows nothing of the first."""
    loop = Loop([desk.look_up], desk.settings)
    for turn in range(2):
        assert loop.next_turn(users=1, past=list, state=MISSING)
        (done,) = loop.answer([Asked("look_up", {"word": "loop"}, f"c{turn}")])
        loop.conversation.close()
        assert "page of loop" == done.text
    assert 2 == len(desk.ran)
    assert 2 == len(desk.events.runs)


def test_a_run_that_has_ended_guards_no_more(desk: Desk) -> None:
    """What is read after the block of its run is let through, without an error and uncounted."""
    with Run(registry=desk.registry):
        loop = Loop([desk.look_up, desk.plain], desk.settings)
    assert loop.next_turn(users=1, past=list, state=MISSING)
    asked = [Asked("look_up", {"word": "loop"}, None), Asked("nothing", None, None)]
    assert "page of loop" == loop.answer(asked)[0].text
    assert not desk.events.warnings


def test_a_conversation_inside_a_tool_has_a_run_of_its_own(desk: Desk) -> None:
    """An agent that is a tool of another one counts apart from it."""
    inner: list[Run] = []

    @guarded_tool(registry=desk.registry)
    def ask_expert(word: str) -> str:
        """Ask an expert."""
        conversation = Conversation(desk.settings)
        inner.append(conversation.run)
        known = conversation.known("look_up", desk.look_up)
        for _ in range(2):
            conversation.next_turn()
            conversation.call("look_up", {"word": word}, None, known).guard(
                lambda: desk.look_up(word)
            )
        conversation.close()
        return "asked"

    with Run(registry=desk.registry) as run:
        assert "asked" == ask_expert("loop")
        assert 1 == run.calls
    assert inner[0] is not run
    assert 2 == inner[0].calls
    assert ["loop"] == desk.ran


def test_a_call_of_the_same_run_inside_a_tool_is_not_counted(desk: Desk) -> None:
    """A tool that calls tools through the adapter is one call, and no bypass."""
    conversation = Conversation(desk.settings)
    known = conversation.known("look_up", desk.look_up)

    def body() -> str:
        inner = conversation.call("look_up", {"word": "loop"}, "inner", known)
        return str(inner.guard(lambda: desk.look_up("loop")))

    outer = conversation.call("plain", {}, "outer", conversation.known("plain", desk.plain))
    assert "page of loop" == outer.guard(body)
    assert 1 == conversation.run.calls
    assert not desk.events.warnings


def test_a_declared_tool_inside_an_undeclared_one_is_one_call(desk: Desk) -> None:
    """A tool that nobody declared and that calls a declared one is counted once, by the adapter."""
    loop = Loop({"wrapper": lambda word: desk.look_up(word)}, desk.settings)
    for _ in range(3):
        answer(loop, "wrapper", '{"word": "loop"}')
    assert 3 == loop.conversation.run.calls
    assert ["loop"] * 2 == desk.ran
    loop.conversation.close()
    assert [{"wrapper": 2}] == [dict(run.executed) for run in desk.events.runs]


def test_the_context_of_the_host_is_kept(desk: Desk) -> None:
    """What a tool sets in its context is seen behind the call, as without a guard."""
    seen: contextvars.ContextVar[str] = contextvars.ContextVar("seen", default="")

    @guarded_tool(registry=desk.registry)
    def note(word: str) -> str:
        """Note."""
        seen.set(word)
        return word

    Loop([note], desk.settings).answer([Asked("note", {"word": "loop"}, None)])
    assert "loop" == seen.get()


# -- loops written by hand -------------------------------------------------------------------------


def answer(loop: Loop, name: str, arguments: Any, call_id: str | None = None) -> str:
    loop.next_turn(users=1, past=list, state=MISSING)
    return loop.answer([Asked(name, arguments, call_id)])[0].text


def test_tools_may_be_named(desk: Desk) -> None:
    """A mapping gives the names the model sees."""
    loop = Loop({"kb": desk.look_up, "say": desk.plain}, desk.settings)
    assert "page of loop" == answer(loop, "kb", '{"word": "loop"}')
    assert "aa" == answer(loop, "say", '{"word": "a", "times": 2}')


def test_a_lambda_around_a_declared_tool_keeps_its_rules(desk: Desk) -> None:
    """A function that only calls the declared tool of that name is not taken for another tool."""
    loop = Loop({"look_up": lambda **given: desk.look_up(**given)}, desk.settings)
    for _ in range(2):
        text = answer(loop, "look_up", '{"word": "loop"}')
    assert ["loop"] == desk.ran
    assert text.startswith("page of loop\n\n---")
    assert not desk.events.warnings


def test_arguments_of_an_undeclared_tool_are_checked(desk: Desk) -> None:
    """Arguments that its signature does not take are refused with a sentence, and it does not run."""
    loop = Loop([desk.plain], desk.settings)
    text = answer(loop, "plain", '{"wort": "a"}')
    assert "The arguments do not fit plain (missing: word; unknown: wort)" in text
    assert [] == desk.ran


def test_a_tool_without_a_signature_is_called(desk: Desk) -> None:
    """What Python cannot read the signature of takes what the model gives."""
    loop = Loop({"biggest": max}, desk.settings)
    assert "Error: TypeError" in answer(loop, "biggest", "{}")


def test_a_partial_is_a_tool(desk: Desk) -> None:
    """A partial of a declared tool is that tool."""
    loop = Loop({"look_up": functools.partial(desk.look_up, word="loop")}, desk.settings)
    assert "page of loop" == answer(loop, "look_up", "{}")


def test_a_coroutine_tool_wants_the_other_method(desk: Desk) -> None:
    """A coroutine function given to the method that does not await is an error that names the other."""

    @guarded_tool(registry=desk.registry)
    async def fetch(word: str) -> str:
        """Fetch."""
        return word

    loop = Loop([fetch], desk.settings)
    with pytest.raises(TypeError, match="fetch is a coroutine function; await the method"):
        answer(loop, "fetch", '{"word": "loop"}')
    (done,) = asyncio.run(loop.aanswer([Asked("fetch", {"word": "loop"}, None)]))
    assert "loop" == done.text


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("page", "page"),
        ({"ä": 1}, '{"ä": 1}'),
        (None, "null"),
        ({1, 2} and object, f'"{object}"'),
    ],
)
def test_results_become_text(result: Any, text: str) -> None:
    """Text stays as it is, anything else becomes JSON."""
    assert text == as_text(result)


def test_a_bypass_by_the_wrong_order_keeps_the_rules(desk: Desk) -> None:
    """The function without its guard is counted under its declaration, and told once."""
    bare = desk.look_up.__wrapped__  # type: ignore[attr-defined]
    loop = Loop({"look_up": bare}, desk.settings)
    for _ in range(2):
        text = answer(loop, "look_up", '{"word": "loop"}')
    assert ["loop"] == desk.ran
    assert "was already answered" in text
    assert 1 == len(desk.events.warnings)


# -- call ids --------------------------------------------------------------------------------------


def test_an_id_of_an_earlier_response_is_another_call(desk: Desk) -> None:
    """Some providers count from "call_0" in each response: a circle must not look like a retry."""
    conversation = Conversation(desk.settings)
    known = conversation.known("look_up", desk.look_up)
    for _ in range(3):
        conversation.next_turn()
        call = conversation.call("look_up", {"word": "a"}, "call_0", known)
        call.guard(lambda: desk.look_up("a"))
    assert ["a"] == desk.ran
    assert conversation.run.stuck
    conversation.close()


def test_an_id_of_an_earlier_conversation_of_the_run_is_another_call(desk: Desk) -> None:
    """The run of a host may last for several: what the user asks for once more is looked up anew."""
    with Run(registry=desk.registry):
        for _ in range(2):
            conversation = Conversation(desk.settings)
            known = conversation.known("look_up", desk.look_up)
            conversation.next_turn(users=1)
            call = conversation.call("look_up", {"word": "a"}, "call_0", known)
            call.guard(lambda: desk.look_up("a"))
    assert ["a", "a"] == desk.ran


def test_an_id_of_the_same_response_is_a_retry(desk: Desk) -> None:
    """The framework makes the call again, and it counts once."""
    conversation = Conversation(desk.settings)
    known = conversation.known("look_up", desk.look_up)
    conversation.next_turn()
    for _ in range(3):
        call = conversation.call("look_up", {"word": "a"}, "call_0", known)
        call.guard(lambda: desk.look_up("a"))
    assert not desk.events.repeats
    assert not conversation.run.over
    conversation.close()


def test_ids_of_a_history_are_told_apart_too(desk: Desk) -> None:
    """Two equal calls of one id in two responses of the past are two; the next one is the third."""
    conversation = Conversation(desk.settings)
    known = conversation.known("look_up", desk.look_up)
    past = [
        PastCall(tool="look_up", arguments={"word": "a"}, result="x", call_id="call_0", turn=turn)
        for turn in (1, 2)
    ]
    assert conversation.next_turn(past=lambda: past)
    call = conversation.call("look_up", {"word": "a"}, "call_0", known)
    call.guard(lambda: desk.look_up("a"))
    assert conversation.run.stuck
    assert [] == desk.ran
    conversation.close()
