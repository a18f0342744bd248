"""Anthropic's messages: whose words a user's message holds, server tools, Claude Code sessions."""

from __future__ import annotations

from typing import Any

import pytest

from audit.told import calls_in, faults_in, runs_in, steps_in
from repeatguard_sdk._types import MISSING
from repeatguard_sdk.audit._recorded import RecordedCall

USER = {"role": "user", "content": "Where is it?"}


def text(text: str) -> dict[str, Any]:
    """Return a block of text."""
    return {"type": "text", "text": text}


def asked(*ids: str) -> dict[str, Any]:
    """Return a message of the model that asks for calls."""
    blocks = [{"type": "tool_use", "id": id_, "name": "look_up", "input": {"a": 1}} for id_ in ids]
    return {"role": "assistant", "content": blocks}


def result(id_: str, content: Any = "found", **more: Any) -> dict[str, Any]:
    """Return the block with the result of a call."""
    return {"type": "tool_result", "tool_use_id": id_, "content": content, **more}


def came(*blocks: dict[str, Any]) -> dict[str, Any]:
    """Return a user's message of blocks."""
    return {"role": "user", "content": list(blocks)}


def call(id_: str, turn: int, result: Any = "found", **more: Any) -> RecordedCall:
    """Return what such a call is read as."""
    return RecordedCall("look_up", {"a": 1}, result, turn=turn, call_id=id_)._replace(**more)


TALK = [USER, asked("a", "b"), came(result("a"), result("b")), asked("c"), came(result("c"))]
CALLS = [call("a", 1), call("b", 1), call("c", 2)]


@pytest.mark.parametrize(
    "document",
    [
        TALK,
        {"messages": TALK},
        {"system": "Be brief.", "model": "claude-sonnet-5", "max_tokens": 9, "messages": TALK},
        {"request": {"messages": TALK}, "response": {"type": "error"}},
        {"custom_id": "1", "body": {"messages": TALK}},
    ],
)
def test_messages_are_found_where_logs_keep_them(document: Any) -> None:
    """A list, a request and a request with its response are one run."""
    assert ["user_message", *CALLS] == steps_in([document])


def test_messages_one_a_line_are_one_run() -> None:
    """Messages that are documents of their own follow each other in one run."""
    assert ["user_message", *CALLS] == steps_in(TALK)


@pytest.mark.parametrize(
    "beside",
    [
        "<system-reminder>The list of todos is empty.</system-reminder>",
        "Continue.",
        "[Request interrupted by user]",
    ],
)
def test_text_beside_a_result_is_the_hosts(beside: str) -> None:
    """A user's message with a tool result in it is no person's, whatever stands beside it."""
    talk = [USER, asked("a"), came(result("a"), text(beside)), asked("b"), came(result("b"))]
    assert ["user_message", call("a", 1), call("b", 2)] == steps_in([talk])


def test_a_message_after_the_results_is_a_persons() -> None:
    """A user's message without a result is a person's, also right behind the results."""
    talk = [asked("a"), came(result("a")), came(text("And now?")), asked("b"), came(result("b"))]
    assert [call("a", 1), "user_message", call("b", 2)] == steps_in([talk])


def test_a_message_of_reminders_is_the_hosts() -> None:
    """A user's message that is all system reminders is nothing."""
    reminder = text("<system-reminder>Mind the time.</system-reminder>")
    talk = [USER, came(reminder), asked("a"), came(result("a"))]
    assert ["user_message", call("a", 1)] == steps_in([talk])


@pytest.mark.parametrize(
    ("block", "read"),
    [
        (result("a", "boom", is_error=True), {"error": "boom", "result": MISSING}),
        (
            result("a", [text("bo"), text("om")], is_error=True),
            {"error": "bo\nom", "result": MISSING},
        ),
        (result("a", "Error: boom", is_error=False), {"result": "Error: boom"}),
        (result("a", "Error: boom"), {"result": "Error: boom"}),
        (result("a", [text("found")]), {"result": "found"}),
        ({"type": "tool_result", "tool_use_id": "a"}, {"result": ""}),
        (result("a", [{"type": "image"}]), {"result": [{"type": "image"}]}),
    ],
)
def test_a_result_is_an_error_if_it_says_so(block: dict[str, Any], read: dict[str, Any]) -> None:
    """Only `is_error` makes a failure, for the format has that flag."""
    assert [call("a", 1, **read)] == calls_in([[asked("a"), came(block)]])


def test_tools_of_the_server_have_their_result_in_the_models_message() -> None:
    """A server's tool is called and answered in one message; its errors have a code."""
    use = {"type": "server_tool_use", "name": "web_search", "input": {"query": "q"}}
    found = {"type": "web_search_tool_result", "content": [{"type": "web_search_result"}]}
    error = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    blocks = [
        {**use, "id": "s1"},
        {**found, "tool_use_id": "s1"},
        {**use, "id": "s2"},
        {**found, "tool_use_id": "s2", "content": error},
        {"type": "mcp_tool_use", "id": "m", "name": "f", "input": {}, "server_name": "s"},
        {"type": "mcp_tool_result", "tool_use_id": "m", "is_error": False, "content": [text("x")]},
    ]
    one, two, three = calls_in([[USER, {"role": "assistant", "content": blocks}]])
    assert ("web_search", [{"type": "web_search_result"}]) == (one.tool, one.result)
    assert "max_uses_exceeded" == two.error
    assert ("f", "x") == (three.tool, three.result)


def test_a_log_of_whole_histories_is_one_run() -> None:
    """Of requests that each hold the history so far, only the longest counts."""
    documents = [{"system": "s", "messages": TALK[:end]} for end in (1, 3, 5)]
    assert ["user_message", *CALLS] == steps_in(documents)


def test_marks_of_the_cache_and_thoughts_do_not_matter() -> None:
    """Histories that differ in marks of the cache, reminders and thoughts are the same."""
    marked = came({**result("a"), "cache_control": {"type": "ephemeral"}}, result("b"))
    reminded = came(text("Where is it?"), text("<system-reminder>Soon.</system-reminder>"))
    thinking = {"type": "thinking", "thinking": "hm", "signature": "x"}
    thought = {**TALK[1], "content": [thinking, *asked("a", "b")["content"]]}
    documents = [{"system": "s", "messages": [reminded, thought, marked]}, {"messages": TALK}]
    assert ["user_message", *CALLS] == steps_in(documents)


def line(kind: str, message: Any = None, **more: Any) -> dict[str, Any]:
    """Return a line of a Claude Code session."""
    return {"type": kind, "sessionId": "s", "uuid": "u", "message": message, **more}


def test_a_claude_code_session_is_one_run() -> None:
    """Lines that share the id of a response are one turn; lines that hold no message are nothing."""
    one, two = ({**asked(id_), "id": "msg_1"} for id_ in "ab")
    documents = [
        {"type": "summary", "summary": "x", "leafUuid": "l"},
        {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
        line("user", {"role": "user", "content": "Caveat: ..."}, isMeta=True),
        line("user", USER),
        line("assistant", one),
        line("user", came(result("a"))),
        line("assistant", two),
        line("user", came(result("b"))),
        line("system", None, subtype="compact_boundary"),
        line("assistant", {**asked("c"), "id": "msg_2"}),
        line("user", came(result("c"))),
    ]
    (run,) = runs_in(documents)
    assert ["user_message", call("a", 1), call("b", 1), "compaction", call("c", 2)] == run.steps
    assert "s" == run.run_id


def test_a_side_chain_is_a_run_of_its_own() -> None:
    """What a subagent did stands between the lines of its agent and is another run."""
    documents = [
        line("assistant", asked("a")),
        line("assistant", asked("x"), isSidechain=True, agentId="7"),
        line("user", came(result("x")), isSidechain=True, agentId="7"),
        line("user", came(result("a"))),
    ]
    one, two = runs_in(documents)
    assert ("s", [call("a", 1)]) == (one.run_id, one.steps)
    assert ("s/7", [call("x", 1)]) == (two.run_id, two.steps)


@pytest.mark.parametrize(
    "odd",
    [
        None,
        "no message",
        {"role": "critic", "content": "hm"},
        {"role": "assistant", "content": [None, {"type": "tool_use"}, {"type": 7}]},
        came(result("none")),
        came(result("a", "a second answer")),
        {"role": "user"},
    ],
)
def test_what_cannot_be_used_is_passed_over(odd: Any) -> None:
    """Messages and blocks that are broken or unknown change nothing."""
    messages = [USER, asked("a"), came(result("a")), odd]
    assert ["user_message", call("a", 1)] == steps_in([{"messages": messages}], "anthropic")


def test_a_document_without_messages_is_a_fault() -> None:
    """A document that holds no messages is named with its line."""
    assert [(1, "no messages as anthropic has them")] == faults_in([{"level": "info"}], "anthropic")
