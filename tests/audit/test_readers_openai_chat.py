"""Chat Completions: every document they come in, and what the text of a result says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from audit.told import calls_in, faults_in, runs_in, steps_in
from repeatguard_sdk._types import MISSING
from repeatguard_sdk.audit._recorded import RecordedCall

USER = {"role": "user", "content": "Where is it?"}


def asked(*ids: str, tool: str = "look_up", arguments: str = '{"a": 1}') -> dict[str, Any]:
    """Return a message of the model that asks for calls."""
    calls = [
        {"id": id_, "type": "function", "function": {"name": tool, "arguments": arguments}}
        for id_ in ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def came(id_: str, content: Any = "found") -> dict[str, Any]:
    """Return the message with the result of a call."""
    return {"role": "tool", "tool_call_id": id_, "content": content}


def call(id_: str | None, turn: int, result: Any = "found", **more: Any) -> RecordedCall:
    """Return what such a call is read as."""
    return RecordedCall("look_up", {"a": 1}, result, turn=turn, call_id=id_)._replace(**more)


TALK = [USER, asked("a", "b"), came("a"), came("b"), asked("c"), came("c")]
CALLS = [call("a", 1), call("b", 1), call("c", 2)]


@pytest.mark.parametrize(
    "document",
    [
        TALK,
        {"messages": TALK},
        {"model": "gpt-5", "messages": TALK, "tools": []},
        {"request": {"messages": TALK}, "response": None},
        {"request": json.dumps({"messages": TALK}), "response": "{}"},
        {"request": {"url": "/v1", "body": {"messages": TALK}}, "response": {"body": {}}},
        {"custom_id": "1", "method": "POST", "url": "/v1", "body": {"messages": TALK}},
        {"messages": [TALK]},
    ],
)
def test_messages_are_found_where_logs_keep_them(document: Any) -> None:
    """A list, a request, a request with its response, also as JSON in a text, is one run."""
    assert ["user_message", *CALLS] == steps_in([document])


def test_a_completion_alone_has_calls_without_results() -> None:
    """A stored completion gives the calls of its first choice; what came of them is not there."""
    choices = [{"index": 0, "message": asked("a")}, {"index": 1, "message": asked("b")}]
    document = {"object": "chat.completion", "id": "chatcmpl-1", "choices": choices}
    assert [call("a", 1, MISSING)] == steps_in([document])


def test_messages_one_a_line_are_one_run() -> None:
    """Messages that are documents of their own follow each other in one run."""
    assert ["user_message", *CALLS] == steps_in(TALK)


def test_a_system_message_begins_the_next_run() -> None:
    """Where runs of single messages begin with a system message, the next one begins a run."""
    system = {"role": "system", "content": "Be brief."}
    one, two = runs_in([system, *TALK, system, USER])
    assert ["user_message", *CALLS] == one.steps
    assert (["user_message"], 8) == (two.steps, two.line)


def test_messages_with_a_name_of_their_run_may_mix() -> None:
    """Messages one a line belong to the session they name."""
    documents = [{**message, "session_id": name} for message in TALK for name in ("s1", "s2")]
    one, two = runs_in(documents)
    assert ["s1", "s2"] == [one.run_id, two.run_id]
    assert one.steps == two.steps == ["user_message", *CALLS]


@pytest.mark.parametrize(
    "named", [{"run_id": "r"}, {"conversation_id": "r"}, {"metadata": {"thread_id": "r"}}]
)
def test_a_run_has_the_name_its_document_gives_it(named: dict[str, Any]) -> None:
    """The run is called what its document calls it, else by file and line."""
    assert ["r"] == [run.run_id for run in runs_in([{"messages": TALK, **named}])]
    assert ["log.jsonl:1"] == [run.run_id for run in runs_in([{"messages": TALK}])]


# -- whole histories -------------------------------------------------------------------------------


def test_a_log_of_whole_histories_is_one_run() -> None:
    """Of requests that each hold the history so far, only the longest counts."""
    documents = [{"messages": TALK[:end]} for end in (1, 4, 6)]
    assert ["user_message", *CALLS] == steps_in(documents)


def test_a_history_that_was_logged_late_adds_nothing() -> None:
    """A beginning of a known history, wherever it stands, is no run of its own."""
    documents = [{"messages": TALK[:end]} for end in (4, 6, 1, 6)]
    assert ["user_message", *CALLS] == steps_in(documents)


def test_two_histories_may_mix() -> None:
    """Conversations whose requests alternate in a log are told apart by their ids."""
    other = [USER, asked("x"), came("x"), asked("y"), came("y")]
    one, two = runs_in([{"messages": log[:end]} for end in (3, 4, 6) for log in (TALK, other)])
    assert ["user_message", *CALLS] == one.steps
    assert ["user_message", call("x", 1), call("y", 2)] == two.steps


def test_runs_of_one_task_are_runs_of_their_own() -> None:
    """Two runs that begin with the same words and differ in their calls are two."""
    other = [USER, asked("x"), came("x")]
    assert 2 == len(runs_in([{"messages": TALK}, {"messages": other}]))


def test_the_response_may_come_back_in_another_form() -> None:
    """A request that holds the last response in the host's own form still continues it."""
    loose = asked("a", arguments='{"a":1}')
    documents = [
        {"request": {"messages": [USER]}, "response": {"choices": [{"message": asked("a")}]}},
        {"request": {"messages": [USER, loose, came("a")]}, "response": None},
    ]
    assert ["user_message", call("a", 1)] == steps_in(documents)


def test_a_host_that_cuts_its_history_has_one_run() -> None:
    """A history that lost its beginning goes on with what it shares; the cut is a compaction."""
    system = {"role": "system", "content": "Be brief."}
    turns = [[asked(id_), came(id_)] for id_ in "abcde"]
    kept = [
        [system, USER, *turns[0], *turns[1]],
        [system, *turns[0], *turns[1], *turns[2]],
        [system, *turns[1], *turns[2], *turns[3]],
        [system, *turns[1], *turns[2], *turns[3], *turns[4]],
    ]
    a, b, c, d, e = (call(id_, turn) for turn, id_ in enumerate("abcde", start=1))
    steps = ["user_message", a, b, "compaction", c, "compaction", d, e]
    assert steps == steps_in([{"messages": messages} for messages in kept])


def test_a_bounded_number_of_runs_is_held() -> None:
    """After so many other runs one is over, and what comes later of it is a run of its own."""
    many = [{"messages": [USER, asked(f"n{n}"), came(f"n{n}")]} for n in range(70)]
    late = {"messages": [*many[0]["messages"], asked("late")]}
    runs = runs_in([*many, late])
    assert 71 == len(runs)
    assert ["log.jsonl:1", "log.jsonl:71"] == [runs[0].run_id, runs[-1].run_id]


# -- calls and results -----------------------------------------------------------------------------


def test_the_old_form_of_calls_is_read() -> None:
    """A `function_call` and the function's message, which have no ids, belong together by name."""
    messages = [
        USER,
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "found"},
    ]
    assert [RecordedCall("f", {}, "found", turn=1)] == calls_in([messages])


def test_the_input_of_a_custom_tool_is_a_text() -> None:
    """A custom tool is called with a text, which stays one even if it is JSON."""
    custom = {"id": "a", "type": "custom", "custom": {"name": "run", "input": '{"a": 1}'}}
    messages = [{"role": "assistant", "tool_calls": [custom]}, came("a")]
    assert [RecordedCall("run", '{"a": 1}', "found", turn=1, call_id="a")] == calls_in([messages])


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        (None, {}),
        ({"a": 1}, {"a": 1}),
        ('{"a": ', '{"a": '),
        ("[1]", "[1]"),
        ('"{}"', '"{}"'),
        ([1], "[1]"),
    ],
)
def test_arguments_that_are_no_object_stay_what_they_are(arguments: Any, read: Any) -> None:
    """Arguments that parse to an object are one; anything else is the text that the model wrote."""
    (only,) = calls_in([[asked("a", arguments=arguments), came("a")]])
    assert read == only.arguments


@pytest.mark.parametrize(
    ("content", "result"),
    [
        ("found", "found"),
        ([{"type": "text", "text": "found"}], "found"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        (None, ""),
        ([{"type": "image_url"}], [{"type": "image_url"}]),
    ],
)
def test_a_result_is_what_the_model_was_given(content: Any, result: Any) -> None:
    """Parts of text are one text; a result with other parts stays as it is."""
    assert [call("a", 1, result)] == calls_in([[asked("a"), came("a", content)]])


@pytest.mark.parametrize(
    "text",
    [
        "Error: no order SO-2",
        "error: not found",
        " Error executing tool look_up: boom",
        "Error calling function 'look_up': boom",
        "ValueError: bad order",
        "requests.exceptions.HTTPError: 404",
        "ToolException('boom')",
        "An error occurred while running the tool. Please try again. Error: boom",
        'Traceback (most recent call last):\n  File "x.py"',
        '{"error": "not found"}',
        '{"error": {"code": 404}, "id": 1}',
        '{"content": [], "isError": true}',
    ],
)
def test_a_text_that_reads_as_an_error_is_one(text: str) -> None:
    """What tools and frameworks write when a call raised is a failure with that text."""
    assert [call("a", 1, MISSING, error=text)] == calls_in([[asked("a"), came("a", text)]])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No errors were found.",
        "Errors: 0",
        "The log says: Error: disk full",
        "error handling in Python: a guide",
        "Terrors: a film",
        '{"error": null, "rows": []}',
        '{"error": ""}',
        '{"error": false}',
        '{"errors": []}',
        '{"rows": [{"error": "x"}]}',
        '{"text": "isError: true"}',
        '{"rows": [{"isError": true}]}',
        '["error"]',
        "An error occurred in 1998.",
    ],
)
def test_a_text_that_speaks_of_errors_is_a_result(text: str) -> None:
    """A result in which the word occurs is no failure."""
    assert [call("a", 1, text)] == calls_in([[asked("a"), came("a", text)]])


# -- what cannot be used ---------------------------------------------------------------------------


def test_a_call_without_a_result_has_none() -> None:
    """A call that got no answer has no result, in the middle as at the end."""
    steps = calls_in([[asked("a", "b"), came("b"), asked("c")]])
    assert [call("a", 1, MISSING), call("b", 1), call("c", 2, MISSING)] == steps


@pytest.mark.parametrize(
    "odd",
    [
        came("none"),
        came("a", "a second answer"),
        {"role": "critic", "content": "hm"},
        {"content": "no role"},
        "no message",
        None,
        {"role": "assistant", "tool_calls": "none"},
        {"role": "assistant", "tool_calls": [None, {}, {"function": {"name": 3}}]},
        {"role": "tool"},
        {"role": 7},
    ],
)
def test_what_cannot_be_used_is_passed_over(odd: Any) -> None:
    """An answer to nothing, a second one, an unknown role and a broken message change nothing."""
    assert ["user_message", call("a", 1)] == steps_in(
        [{"messages": [USER, asked("a"), came("a"), odd]}], "openai-chat"
    )


def test_ids_that_begin_anew_in_each_turn_are_told_apart() -> None:
    """Servers that count their calls from zero give equal ids; the answer is that of the newest."""
    messages = [asked("0"), came("0", "one"), asked("0"), came("0", "two")]
    assert [call("0", 1, "one"), call("0", 2, "two")] == calls_in([messages])


@pytest.mark.parametrize(
    "content",
    [
        "<system-reminder>Mind the time.</system-reminder>",
        "Note on the tool calls above (automatic, not from the user):\nThe same.",
        "",
        None,
        " \n",
        [{"type": "text", "text": "<system-reminder>open end"}],
    ],
)
def test_what_the_host_says_in_a_users_place_is_nothing(content: Any) -> None:
    """System reminders, the guard's own notes and blank text are no words of a person."""
    assert [] == steps_in([[{"role": "user", "content": content}]])


@pytest.mark.parametrize(
    "content",
    [
        "Hello",
        [{"type": "text", "text": "Hello"}],
        [{"type": "image_url", "image_url": {"url": "x"}}],
        "<system-reminder>Mind it.</system-reminder>\nHello",
    ],
)
def test_a_person_may_show_or_say_something(content: Any) -> None:
    """Text beside a reminder, and an image, are a person's."""
    assert ["user_message"] == steps_in([[{"role": "user", "content": content}]])


def test_a_document_without_messages_is_a_fault() -> None:
    """A document that holds no messages is named with its line, and the rest goes on."""
    documents = [{"messages": TALK}, {"level": "info"}, {"messages": "none"}]
    assert [
        (2, "no messages as openai-chat has them"),
        (3, "no messages as openai-chat has them"),
    ] == faults_in(documents, "openai-chat")
