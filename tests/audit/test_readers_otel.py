"""Spans: what was executed, in which turn, in which run, in whatever order the spans arrive."""

from __future__ import annotations

import json
from typing import Any

import pytest

from audit.told import calls_in, faults_in, runs_in, steps_in
from repeatguard_sdk._types import MISSING
from repeatguard_sdk.audit._recorded import RecordedCall
from repeatguard_sdk.audit.readers import otel
from repeatguard_sdk.audit.readers._otlp import attributes_in

TRACE = "0af7651916cd43dd8448eb211c80319c"
SECOND = 1_750_000_000_000_000_000


def span(
    name: str, at: float, trace: str = TRACE, took: float = 0.5, **more: Any
) -> dict[str, Any]:
    """Return a span that began so many seconds after the first."""
    attributes = more.pop("attributes", {})
    return {
        "traceId": trace,
        "spanId": f"{int(at * 1000):016x}",
        "name": name,
        "startTimeUnixNano": str(SECOND + int(at * 1e9)),
        "endTimeUnixNano": str(SECOND + int((at + took) * 1e9)),
        "attributes": [
            {"key": f"gen_ai.{key}", "value": {"stringValue": value}}
            for key, value in attributes.items()
        ],
        **more,
    }


def tool(id_: str | None, at: float, result: str | None = "found", **more: Any) -> dict[str, Any]:
    """Return the span of an executed tool."""
    attributes = {"operation.name": "execute_tool", "tool.name": "look_up"}
    attributes["tool.call.arguments"] = '{"a": 1}'
    if id_ is not None:
        attributes["tool.call.id"] = id_
    if result is not None:
        attributes["tool.call.result"] = result
    return span(
        "execute_tool look_up", at, attributes={**attributes, **more.pop("attributes", {})}, **more
    )


def chat(at: float, before: Any = None, after: Any = None, **more: Any) -> dict[str, Any]:
    """Return the span of a request to the model."""
    attributes = {"operation.name": "chat"}
    if before is not None:
        attributes["input.messages"] = json.dumps(before)
        attributes["output.messages"] = json.dumps(after)
    return span("chat gpt-5", at, attributes={**attributes, **more.pop("attributes", {})}, **more)


def batch(*spans: dict[str, Any]) -> dict[str, Any]:
    """Return spans as a document of OTLP."""
    return {
        "resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": list(spans)}]}]
    }


def call(id_: str | None, turn: int, result: Any = "found", **more: Any) -> RecordedCall:
    """Return what such a call is read as."""
    return RecordedCall("look_up", {"a": 1}, result, turn=turn, call_id=id_)._replace(**more)


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"type": "text", "content": text}]}


def asked(*ids: str) -> dict[str, Any]:
    parts = [
        {"type": "tool_call", "id": id_, "name": "look_up", "arguments": {"a": 1}} for id_ in ids
    ]
    return {"role": "assistant", "parts": parts}


def came(id_: str, result: Any = "found", name: str = "response") -> dict[str, Any]:
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": id_, name: result}]}


# -- one run ---------------------------------------------------------------------------------------


def test_calls_after_one_answer_of_the_model_are_one_turn() -> None:
    """Without messages, a turn is what was executed between two requests to the model."""
    spans = [chat(0), tool("a", 1), tool("b", 2), chat(3), tool("c", 4)]
    assert [call("a", 1), call("b", 1), call("c", 2)] == steps_in([batch(*spans)])


def test_calls_that_overlap_are_one_turn() -> None:
    """Where the model's spans are missing too, calls that ran at the same time are one turn."""
    spans = [tool("a", 1, took=2), tool("b", 1.5), tool("c", 2.5), tool("d", 4)]
    assert [call("a", 1), call("b", 1), call("c", 1), call("d", 2)] == steps_in([batch(*spans)])


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_spans_come_in_any_order_and_in_any_document(cut: int) -> None:
    """Spans are in the order in which they began, however they are spread over documents."""
    spans = [tool("c", 4), chat(3), tool("b", 2), chat(0), tool("a", 1)]
    documents = [batch(*spans[:cut]), batch(*spans[cut:])]
    assert [call("a", 1), call("b", 1), call("c", 2)] == steps_in(documents)


def test_a_tool_within_a_tool_is_the_tools_own() -> None:
    """A span of a tool right inside of another tool's, such as that of an MCP client, is left out."""
    outer = tool("a", 1)
    inner = tool(None, 1.1, parentSpanId=outer["spanId"])
    assert [call("a", 1)] == steps_in([batch(inner, outer)])


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"status": {"code": 2, "message": "boom"}}, "boom"),
        ({"status": {"code": "STATUS_CODE_ERROR", "message": "boom"}}, "boom"),
        ({"status": {"code": 2}}, "failed"),
        ({"attributes": {"x": "y"}, "status": {"code": 2}}, "failed"),
    ],
)
def test_a_status_says_what_failed(more: dict[str, Any], error: str) -> None:
    """A span whose status is an error is a failure, with what the status says of it."""
    assert [call("a", 1, MISSING, error=error)] == steps_in([batch(tool("a", 1, **more))])


def test_an_error_type_or_an_exception_says_what_failed() -> None:
    """An `error.type` makes a failure; the event of an exception has its text."""
    typed, thrown = tool("a", 1), tool("b", 2)
    typed["attributes"].append({"key": "error.type", "value": {"stringValue": "Timeout"}})
    message = {"key": "exception.message", "value": {"stringValue": "boom"}}
    thrown["events"] = [{"name": "exception", "attributes": [message]}]
    thrown["status"] = {"code": 2}
    assert ["Timeout", "boom"] == [step.error for step in calls_in([batch(typed, thrown)])]


def test_a_status_that_is_no_error_outweighs_the_text() -> None:
    """A result that reads as an error is a result, for a span has a status."""
    assert [call("a", 1, "Error: x")] == steps_in([batch(tool("a", 1, "Error: x"))])


def test_a_call_may_lack_what_was_not_recorded() -> None:
    """Arguments and results that the tracer left out, as it does by default, are not there."""
    bare = span(
        "execute_tool f", 1, attributes={"tool.name": "f", "operation.name": "execute_tool"}
    )
    assert [RecordedCall("f", {}, turn=1)] == steps_in([batch(bare)])


# -- messages --------------------------------------------------------------------------------------

HISTORY = [said("Where?"), asked("a", "b"), came("a"), came("b", name="result")]


def test_messages_tell_turns_and_what_a_person_said() -> None:
    """Each request to the model holds the history so far; all of them are one run."""
    spans = [
        chat(0, HISTORY[:1], HISTORY[1:2]),
        chat(3, HISTORY, [asked("c")]),
        chat(6, [*HISTORY, asked("c"), came("c"), said("And now?")], [asked("d")]),
    ]
    expected = [
        "user_message",
        call("a", 1),
        call("b", 1),
        call("c", 2),
        "user_message",
        call("d", 3, MISSING),
    ]
    assert expected == steps_in([batch(*spans)])


def test_spans_complete_what_messages_tell() -> None:
    """A tool's span says what failed, and what came of the last calls, which no message holds."""
    spans = [
        chat(0, [said("Where?")], [asked("a")]),
        tool("a", 1, status={"code": 2, "message": "boom"}),
        chat(2, [said("Where?"), asked("a"), came("a", "went wrong")], [asked("b")]),
        tool("b", 3),
    ]
    expected = ["user_message", call("a", 1, MISSING, error="boom"), call("b", 2)]
    assert expected == steps_in([batch(*spans)])


def test_calls_that_no_message_holds_are_told_by_time() -> None:
    """If what was executed is not what the messages ask for, the spans tell it."""
    spans = [
        chat(0, [said("Where?")], []),
        tool(None, 1),
        chat(2, [said("Where?")], []),
        tool(None, 3),
        chat(4, [said("Where?"), said("And now?")], []),
        tool(None, 5),
    ]
    expected = ["user_message", call(None, 1), call(None, 2), "user_message", call(None, 3)]
    assert expected == steps_in([batch(*spans)])


def test_an_agent_within_the_agent_is_a_run_of_its_own() -> None:
    """Where messages tell two histories in a trace, each is a run."""
    spans = [
        chat(0, [said("Where?")], [asked("a")]),
        tool("a", 1, took=5),
        chat(2, [said("Look it up.")], [asked("x")]),
        tool("x", 3),
    ]
    one, two = runs_in([batch(*spans)])
    assert (TRACE, ["user_message", call("a", 1)]) == (one.run_id, one.steps)
    assert (f"{TRACE}/2", ["user_message", call("x", 1)]) == (two.run_id, two.steps)


@pytest.mark.parametrize("place", ["event", "record", "structured"])
def test_messages_may_stand_in_an_event(place: str) -> None:
    """Messages are read from a span's event, from a log record, and as structured values."""
    full = chat(0, HISTORY, [asked("c")])
    bare = chat(0)
    more = full["attributes"][1:]
    if place == "event":
        document = batch({**bare, "events": [{"name": "gen_ai.details", "attributes": more}]})
    elif place == "record":
        record = {"traceId": TRACE, "timeUnixNano": str(SECOND), "attributes": more}
        document = {**batch(bare), "resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}
    else:
        text = {"role": "user", "parts": [{"type": "text", "content": "Where?"}]}
        value = {"arrayValue": {"values": [_typed(message) for message in (text, asked("c"))]}}
        bare["attributes"].append({"key": "gen_ai.input.messages", "value": value})
        assert ["user_message", call("c", 1, MISSING)] == steps_in([batch(bare)])
        return
    expected = ["user_message", call("a", 1), call("b", 1), call("c", 2, MISSING)]
    assert expected == steps_in([document])


def _typed(value: Any) -> dict[str, Any]:
    """Return a value with its type, as OTLP writes it."""
    if isinstance(value, dict):
        pairs = [{"key": key, "value": _typed(inner)} for key, inner in value.items()]
        return {"kvlistValue": {"values": pairs}}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_typed(inner) for inner in value]}}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"stringValue": value}


def test_typed_values_are_read_in_both_spellings() -> None:
    """Attributes have a type each, in the names of JSON or of protobuf."""
    given = [
        {"key": "int", "value": {"intValue": "7"}},
        {"key": "names", "value": {"int_value": 7}},
        {"key": "flag", "value": {"boolValue": True}},
        {"key": "float", "value": {"doubleValue": 0.5}},
        {"key": "tree", "value": _typed({"a": [1, {"b": "c"}]})},
        {"key": "empty", "value": {}},
        {"value": {"intValue": "7"}},
        "odd",
    ]
    read = {"int": 7, "names": 7, "flag": True, "float": 0.5, "tree": {"a": [1, {"b": "c"}]}}
    assert {**read, "empty": None} == attributes_in(given)


# -- runs ------------------------------------------------------------------------------------------


def test_each_trace_is_a_run() -> None:
    """Traces that mix in a file are told apart by their ids."""
    other = "f" * 32
    documents = [
        batch(tool("a", 1), tool("x", 1, trace=other)),
        batch(tool("y", 2, trace=other), tool("b", 2)),
    ]
    one, two = runs_in(documents)
    assert (TRACE, [call("a", 1), call("b", 2)], 1) == (one.run_id, one.steps, one.line)
    assert (other, [call("x", 1), call("y", 2)], 1) == (two.run_id, two.steps, two.line)


def test_traces_of_a_conversation_are_one_run() -> None:
    """Each trace of a conversation is a person's next request in the same run."""
    named = {"attributes": {"conversation.id": "conv_1"}}
    other = "f" * 32
    documents = [
        batch(tool("b", 11, trace=other), chat(10, trace=other, **named)),
        batch(tool("a", 1), chat(0, **named)),
    ]
    (run,) = runs_in(documents)
    assert "conv_1" == run.run_id
    assert [call("a", 1), "user_message", call("b", 2)] == run.steps


def test_histories_go_on_in_the_next_trace_of_a_conversation() -> None:
    """Where messages are recorded they tell when a person spoke."""
    named = {"attributes": {"conversation.id": "conv_1"}}
    before = [said("Where?"), asked("a"), came("a"), said("And now?")]
    documents = [
        batch(chat(0, [said("Where?")], [asked("a")], **named), tool("a", 1)),
        batch(
            chat(10, before, [asked("b")], trace="f" * 32, **named), tool("b", 11, trace="f" * 32)
        ),
    ]
    assert ["user_message", call("a", 1), "user_message", call("b", 2)] == steps_in(documents)


def test_a_late_span_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a trace that was over because others came, the first late span is a fault."""
    monkeypatch.setattr(otel, "OPEN_TRACES", 2)
    traces = [f"{number:032x}" for number in range(3)]
    documents = [
        *(batch(tool("a", 1, trace=trace)) for trace in traces),
        batch(tool("b", 2, trace=traces[0])),
        batch(tool("c", 3, trace=traces[0]), tool("b", 2, trace=traces[2])),
    ]
    assert [(4, f"spans of trace {traces[0]} come after 2 others: left out")] == faults_in(
        documents, "otel"
    )


def test_a_bounded_number_of_conversations_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversation that stood still for the longest time is over when others come."""
    monkeypatch.setattr(otel, "OPEN_TRACES", 1)
    monkeypatch.setattr(otel, "OPEN_CONVERSATIONS", 1)
    documents = [
        batch(tool(str(n), n, trace=f"{n + 1:032x}", attributes={"conversation.id": name}))
        for n, name in enumerate(["one", "two", "one"])
    ]
    assert ["one", "two", "one"] == [run.run_id for run in runs_in(documents)]


def test_other_spans_are_nothing() -> None:
    """Spans without an attribute of the conventions, as of HTTP, are no runs and no faults."""
    assert [] == runs_in([batch(span("GET /", 1))])


def test_a_document_without_spans_is_a_fault() -> None:
    """A document that is no OTLP is named with its line."""
    assert [(1, "no OTLP JSON: it has no resourceSpans")] == faults_in([{"level": "info"}], "otel")
