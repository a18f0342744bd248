"""Responses: items, requests chained by id or by history, tools of the provider, Codex sessions."""

from __future__ import annotations

from typing import Any

import pytest

from audit.told import calls_in, faults_in, runs_in, steps_in
from repeatguard_sdk._types import MISSING
from repeatguard_sdk.audit._recorded import RecordedCall

USER = {"role": "user", "content": "Where is it?"}


def asked(id_: str, **more: Any) -> dict[str, Any]:
    """Return the item of a call."""
    return {
        "type": "function_call",
        "id": f"fc_{id_}",
        "call_id": id_,
        "name": "look_up",
        "arguments": '{"a": 1}',
        **more,
    }


def came(id_: str, output: Any = "found", **more: Any) -> dict[str, Any]:
    """Return the item of its output."""
    return {"type": "function_call_output", "call_id": id_, "output": output, **more}


def call(id_: str, turn: int, result: Any = "found", **more: Any) -> RecordedCall:
    """Return what such a call is read as."""
    return RecordedCall("look_up", {"a": 1}, result, turn=turn, call_id=id_)._replace(**more)


ITEMS = [USER, asked("a"), asked("b"), came("a"), came("b"), asked("c"), came("c")]
CALLS = [call("a", 1), call("b", 1), call("c", 2)]


@pytest.mark.parametrize(
    "document",
    [
        ITEMS,
        {"input": ITEMS},
        {"input": ITEMS[:-1], "output": ITEMS[-1:]},
        {"model": "gpt-5", "input": ITEMS, "object": "response"},
        {"request": {"input": ITEMS}, "response": {"object": "response", "output": []}},
    ],
)
def test_items_are_found_where_logs_keep_them(document: Any) -> None:
    """A list of items, or input and output, is one run; calls that stand together are one turn."""
    assert ["user_message", *CALLS] == steps_in([document])


def test_items_one_a_line_are_one_run() -> None:
    """Items that are documents of their own follow each other in one run."""
    assert CALLS == calls_in(ITEMS[1:])


def test_an_input_may_be_a_text() -> None:
    """A request whose input is a text is a person's message."""
    document = {"input": "Where is it?", "output": [asked("a")]}
    assert ["user_message", call("a", 1, MISSING)] == steps_in([document])


def exchange(number: int, asked_for: list[Any], gave: list[Any], **more: Any) -> dict[str, Any]:
    """Return a request with its response, whose id is its number."""
    return {
        "request": {"input": asked_for, **more},
        "response": {"object": "response", "id": f"resp_{number}", "output": gave},
    }


def test_responses_chained_by_id_are_one_run() -> None:
    """A response that continues another one's id belongs to its run, with other runs between."""
    documents = [
        exchange(1, [USER], [asked("a")]),
        exchange(2, [USER], [asked("x")]),
        exchange(3, [came("x")], [], previous_response_id="resp_2"),
        exchange(4, [came("a")], [asked("b")], previous_response_id="resp_1"),
        exchange(5, [came("b")], [], previous_response_id="resp_4"),
    ]
    one, two = runs_in(documents)
    assert ["user_message", call("a", 1), call("b", 2)] == one.steps
    assert ["user_message", call("x", 1)] == two.steps


def test_responses_of_a_conversation_are_one_run() -> None:
    """Requests that name a conversation hold only what is new in it."""
    documents = [
        exchange(1, [USER], [asked("a")], conversation="conv_1"),
        exchange(2, [came("a")], [], conversation={"id": "conv_1"}),
    ]
    (run,) = runs_in(documents)
    assert ["user_message", call("a", 1)] == run.steps
    assert "conv_1" == run.run_id


def test_one_response_is_one_turn() -> None:
    """Calls of one response are one turn, whatever of them has its result in the same output."""
    mcp = {"type": "mcp_call", "id": "m", "name": "f", "arguments": "{}", "output": "x"}
    document = exchange(1, [USER], [mcp, asked("a")])
    assert [1, 1] == [step.turn for step in calls_in([document])]


@pytest.mark.parametrize(
    ("item", "tool", "arguments", "result"),
    [
        (
            {"type": "web_search_call", "id": "w", "action": {"type": "search", "query": "q"}},
            "web_search",
            {"type": "search", "query": "q"},
            MISSING,
        ),
        (
            {"type": "file_search_call", "id": "f", "queries": ["q"], "results": [{"score": 1}]},
            "file_search",
            {"queries": ["q"]},
            [{"score": 1}],
        ),
        (
            {
                "type": "code_interpreter_call",
                "id": "c",
                "code": "1 + 1",
                "outputs": [{"type": "logs", "logs": "2"}],
            },
            "code_interpreter",
            {"code": "1 + 1"},
            [{"type": "logs", "logs": "2"}],
        ),
        (
            {"type": "mcp_call", "id": "m", "name": "f", "arguments": '{"a": 1}', "output": "x"},
            "f",
            {"a": 1},
            "x",
        ),
        (
            {"type": "image_generation_call", "id": "i", "result": "aGk="},
            "image_generation",
            {},
            "aGk=",
        ),
    ],
)
def test_tools_of_the_provider_have_the_result_they_hold(
    item: dict[str, Any], tool: str, arguments: Any, result: Any
) -> None:
    """A call that the provider executed has its arguments and, where it is there, its result."""
    expected = RecordedCall(tool, arguments, result, turn=1, call_id=item["id"])
    assert [expected] == calls_in([[USER, item]])


@pytest.mark.parametrize(
    ("item", "output", "tool", "arguments", "result"),
    [
        (
            {"type": "custom_tool_call", "call_id": "c", "name": "run", "input": "ls"},
            {"type": "custom_tool_call_output", "call_id": "c", "output": "a.txt"},
            "run",
            "ls",
            "a.txt",
        ),
        (
            {"type": "local_shell_call", "id": "x", "call_id": "c", "action": {"command": ["ls"]}},
            {"type": "local_shell_call_output", "id": "c", "output": "a.txt"},
            "local_shell",
            {"command": ["ls"]},
            "a.txt",
        ),
        (
            {"type": "computer_call", "call_id": "c", "action": {"type": "wait"}},
            {"type": "computer_call_output", "call_id": "c", "output": {"image_url": "x"}},
            "computer",
            {"type": "wait"},
            {"image_url": "x"},
        ),
        (
            {"type": "program", "id": "p", "call_id": "c", "code": "1"},
            {"type": "program_output", "id": "o", "call_id": "c", "result": "1"},
            "program",
            {"code": "1"},
            "1",
        ),
    ],
)
def test_tools_with_an_output_of_their_own(
    item: dict[str, Any], output: dict[str, Any], tool: str, arguments: Any, result: Any
) -> None:
    """A call that the host executed has the output that names it."""
    expected = RecordedCall(tool, arguments, result, turn=1, call_id="c")
    assert [expected] == calls_in([[USER, item, output]])


@pytest.mark.parametrize(
    ("item", "error"),
    [
        ({"error": {"type": "http_error", "code": 404, "message": "not found"}}, "not found"),
        ({"error": "not found"}, "not found"),
        ({"error": {"code": 404}}, '{"code": 404}'),
        ({"status": "failed"}, "failed"),
    ],
)
def test_a_call_of_a_server_says_that_it_failed(item: dict[str, Any], error: str) -> None:
    """An `mcp_call` with an error, or with the status of one, is a failure."""
    mcp = {"type": "mcp_call", "id": "m", "name": "f", "arguments": "{}", "output": None, **item}
    expected = RecordedCall("f", {}, error=error, turn=1, call_id="m")
    assert [expected] == calls_in([[USER, mcp]])


def test_an_error_that_a_server_gave_as_its_output_is_its_output() -> None:
    """An `mcp_call` has a flag for an error, so its text is not asked."""
    mcp = {"type": "mcp_call", "id": "m", "name": "f", "arguments": "{}", "output": "Error: x"}
    assert ["Error: x"] == [step.result for step in calls_in([[USER, mcp]])]


def test_an_output_reads_as_an_error_or_says_that_it_is_none() -> None:
    """An output's text tells a failure, and so does its status."""
    items = [
        asked("a"),
        came("a", "Error: no"),
        asked("b"),
        came("b", [{"type": "input_text", "text": "cut"}], status="incomplete"),
    ]
    assert ["Error: no", "cut"] == [step.error for step in calls_in([items])]


def test_a_compaction_is_told() -> None:
    """An item that stands for what was compacted is a compaction."""
    items = [USER, {"type": "compaction", "encrypted_content": "x"}, asked("a"), came("a")]
    assert ["user_message", "compaction", call("a", 1)] == steps_in([items])


def test_a_codex_session_is_one_run() -> None:
    """The lines of a Codex session are one run; what Codex says in a user's place is nothing."""
    environment = {"type": "input_text", "text": "<environment_context>\n..."}

    def line(item: dict[str, Any], kind: str = "response_item") -> dict[str, Any]:
        return {"timestamp": "2026-01-01T00:00:00Z", "type": kind, "payload": item}

    documents = [
        line({"id": "0199", "cwd": "/"}, "session_meta"),
        line({"type": "message", "role": "user", "content": [environment]}),
        line({"type": "user_message", "message": "Where?"}, "event_msg"),
        line(
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "Where?"}],
            }
        ),
        line(asked("a")),
        line({"type": "token_count"}, "event_msg"),
        line(came("a")),
        line({"message": "summary"}, "compacted"),
        line(asked("b")),
    ]
    expected = ["user_message", call("a", 1), "compaction", call("b", 2, MISSING)]
    assert expected == steps_in(documents)


@pytest.mark.parametrize(
    "odd",
    [
        None,
        "no item",
        {"type": "function_call", "call_id": "z"},
        {"type": "custom_tool_call"},
        {"type": 7},
        {"type": "unheard_of"},
        came("none"),
        {"type": "message", "role": "critic"},
    ],
)
def test_what_cannot_be_used_is_passed_over(odd: Any) -> None:
    """Items that are broken or unknown change nothing."""
    items = [USER, asked("a"), came("a"), odd]
    assert ["user_message", call("a", 1)] == steps_in([{"input": items}], "openai-responses")


def test_a_document_without_items_is_a_fault() -> None:
    """A document that holds no items is named with its line."""
    assert [(1, "no messages as openai-responses has them")] == faults_in(
        [{"level": "info"}], "openai-responses"
    )
