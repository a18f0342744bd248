"""LangChain's messages in each form, and what became of calls that never reached their tool."""

from __future__ import annotations

from typing import Any

import pytest

from audit.told import calls_in, faults_in, runs_in, steps_in
from repeatguard_sdk._types import MISSING
from repeatguard_sdk.audit._recorded import RecordedCall

USER = {"type": "human", "content": "Where is it?"}


def asked(*ids: str, **more: Any) -> dict[str, Any]:
    """Return a message of the model that asks for calls."""
    calls = [{"name": "look_up", "args": {"a": 1}, "id": id_, "type": "tool_call"} for id_ in ids]
    return {"type": "ai", "content": "", "tool_calls": calls, "invalid_tool_calls": [], **more}


def came(id_: str, content: Any = "found", **more: Any) -> dict[str, Any]:
    """Return the message with the result of a call."""
    return {"type": "tool", "content": content, "tool_call_id": id_, "status": "success", **more}


def call(id_: str, turn: int, result: Any = "found", **more: Any) -> RecordedCall:
    """Return what such a call is read as."""
    return RecordedCall("look_up", {"a": 1}, result, turn=turn, call_id=id_)._replace(**more)


TALK = [USER, asked("a", "b"), came("a"), came("b"), asked("c"), came("c")]
STEPS = ["user_message", call("a", 1), call("b", 1), call("c", 2)]


@pytest.mark.parametrize(
    "document",
    [
        TALK,
        {"messages": TALK},
        {"values": {"messages": TALK}, "next": []},
        {"v": 4, "channel_values": {"messages": TALK}},
        {"checkpoint": {"channel_values": {"messages": TALK}}},
        {
            "lc": 1,
            "type": "constructor",
            "id": ["x", "ChatPromptValue"],
            "kwargs": {"messages": TALK},
        },
        {"run_type": "chain", "inputs": {"messages": TALK[:1]}, "outputs": {"messages": TALK}},
        {"run_type": "llm", "inputs": {"messages": [TALK]}, "outputs": None},
        {"inputs": {"messages": TALK[:-1]}, "outputs": {"output": TALK[-1]}},
    ],
)
def test_messages_are_found_where_logs_keep_them(document: Any) -> None:
    """A list, a state of a graph, a checkpoint and a LangSmith run are one run."""
    assert STEPS == steps_in([document])


def test_a_status_says_what_failed() -> None:
    """Only the status makes a failure where there is one; older messages are read by their text."""
    old = came("c", "Error: old")
    del old["status"]
    talk = [
        asked("a", "b", "c"),
        came("a", "boom", status="error"),
        came("b", "Error: but no failure"),
        old,
    ]
    assert [
        call("a", 1, MISSING, error="boom"),
        call("b", 1, "Error: but no failure"),
        call("c", 1, MISSING, error="Error: old"),
    ] == calls_in([talk])


def test_an_invalid_call_never_reached_its_tool() -> None:
    """A call whose arguments did not parse is refused, with the reason that the message gives."""
    invalid = [
        {"name": "look_up", "args": '{"a": ', "id": "x", "error": "no JSON"},
        {"name": "look_up", "args": "}", "id": "y", "error": None},
    ]
    assert [
        call("a", 1),
        call("x", 1, MISSING, arguments='{"a": ', error="no JSON", refused=True),
        call("y", 1, MISSING, arguments="}", error="arguments that are no JSON", refused=True),
    ] == calls_in([[asked("a", invalid_tool_calls=invalid), came("a")]])


def test_the_old_form_of_calls_is_read() -> None:
    """A `function_call` beside the message and the function's message belong together."""
    old = {"type": "ai", "content": "", "additional_kwargs": {}}
    old["additional_kwargs"] = {"function_call": {"name": "f", "arguments": "{}"}}
    talk = [USER, old, {"type": "function", "name": "f", "content": "found"}]
    assert [RecordedCall("f", {}, "found", turn=1)] == calls_in([talk])


def test_chat_messages_have_a_role() -> None:
    """A message whose type is "chat" is a person's if its role says so."""
    talk = [{"type": "chat", "role": role, "content": "Hello"} for role in ("user", "critic")]
    assert ["user_message"] == steps_in([talk])


def test_chunks_are_messages() -> None:
    """A message that was streamed has the class of a chunk."""
    assert STEPS[1:3] == calls_in([[{**asked("a", "b"), "type": "AIMessageChunk"}, *TALK[2:4]]])


def test_threads_may_mix() -> None:
    """Messages one a line belong to the thread they name."""
    documents = [{**message, "thread_id": name} for message in TALK for name in "12"]
    one, two = runs_in(documents)
    assert ["1", "2"] == [one.run_id, two.run_id]
    assert STEPS == one.steps == two.steps


@pytest.mark.parametrize(
    "odd",
    [
        None,
        "no message",
        {"type": "critic", "content": "hm"},
        {"type": "ai", "content": "", "tool_calls": [None, {}, {"name": 7}]},
        {"lc": 1, "type": "constructor", "id": ["x", "Prompt"], "kwargs": {}},
        {"lc": 1, "type": "constructor", "id": [], "kwargs": {}},
        came("none"),
        came("a", "a second answer"),
    ],
)
def test_what_cannot_be_used_is_passed_over(odd: Any) -> None:
    """Messages that are broken or unknown change nothing."""
    messages = [USER, asked("a"), came("a"), odd]
    assert ["user_message", call("a", 1)] == steps_in([{"messages": messages}], "langchain")


def test_a_document_without_messages_is_a_fault() -> None:
    """A document that holds no messages is named with its line."""
    assert [(1, "no messages as langchain has them")] == faults_in([{"level": "info"}], "langchain")
