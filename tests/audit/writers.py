"""Writers of runs in each format, for tests that write a run and read it back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from repeatguard_sdk._types import MISSING
from repeatguard_sdk.audit._recorded import Happening, RecordedCall

Steps = list[RecordedCall | Happening]
USER: dict[str, Any] = {"role": "user", "content": "And now?"}


def turns(steps: Steps) -> Iterator[list[RecordedCall] | Happening]:
    """Yield the calls turn by turn, and what happened between them."""
    turn: list[RecordedCall] = []
    for step in steps:
        if turn and (not isinstance(step, RecordedCall) or step.turn != turn[-1].turn):
            yield turn
            turn = []
        if isinstance(step, RecordedCall):
            turn.append(step)
        else:
            yield step
    if turn:
        yield turn


def answer(call: RecordedCall) -> Any:
    """Return what the model was given."""
    return call.result if call.error is None else call.error


def arguments(call: RecordedCall) -> str:
    """Return the arguments as the model writes them."""
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)


def answered(calls: Iterable[RecordedCall]) -> Iterator[RecordedCall]:
    """Yield the calls that have an answer."""
    return (call for call in calls if call.error is not None or call.result is not MISSING)


def openai_chat(steps: Steps) -> list[Any]:
    """Return the messages of Chat Completions."""
    messages: list[Any] = []
    for turn in turns(steps):
        if isinstance(turn, str):
            messages.append(USER)
            continue
        calls = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.tool, "arguments": arguments(call)},
            }
            for call in turn
        ]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        messages += [
            {"role": "tool", "tool_call_id": call.call_id, "content": answer(call)}
            for call in answered(turn)
        ]
    return messages


def openai_responses(steps: Steps) -> list[Any]:
    """Return the items of Responses."""
    items: list[Any] = []
    for turn in turns(steps):
        if isinstance(turn, str):
            items.append({"type": "message", **USER})
            continue
        items += [
            {
                "type": "function_call",
                "call_id": call.call_id,
                "name": call.tool,
                "arguments": arguments(call),
            }
            for call in turn
        ]
        items += [
            {"type": "function_call_output", "call_id": call.call_id, "output": answer(call)}
            for call in answered(turn)
        ]
    return items


def anthropic(steps: Steps) -> list[Any]:
    """Return Anthropic's messages."""
    messages: list[Any] = []
    for turn in turns(steps):
        if isinstance(turn, str):
            messages.append(USER)
            continue
        calls = [
            {"type": "tool_use", "id": call.call_id, "name": call.tool, "input": call.arguments}
            for call in turn
        ]
        messages.append({"role": "assistant", "content": calls})
        results = [
            {
                "type": "tool_result",
                "tool_use_id": call.call_id,
                "content": answer(call),
                "is_error": call.error is not None,
            }
            for call in answered(turn)
        ]
        if results:
            messages.append({"role": "user", "content": results})
    return messages


def langchain(steps: Steps) -> list[Any]:
    """Return LangChain's messages as `model_dump` makes them."""
    messages: list[Any] = []
    for turn in turns(steps):
        if isinstance(turn, str):
            messages.append({"type": "human", "content": "And now?"})
            continue
        calls = [
            {"name": call.tool, "args": call.arguments, "id": call.call_id, "type": "tool_call"}
            for call in turn
        ]
        messages.append({"type": "ai", "content": "", "tool_calls": calls})
        messages += [
            {
                "type": "tool",
                "content": answer(call),
                "tool_call_id": call.call_id,
                "status": "success" if call.error is None else "error",
            }
            for call in answered(turn)
        ]
    return messages


def otel(steps: Steps) -> list[Any]:
    """Return a trace of OTLP, a span a document: the model's with messages, and the tools'."""
    history: list[Any] = []
    spans: list[dict[str, Any]] = []
    for turn in turns(steps):
        if isinstance(turn, str):
            history.append({"role": "user", "parts": [{"type": "text", "content": "And now?"}]})
            continue
        asked = [
            {
                "type": "tool_call",
                "id": call.call_id,
                "name": call.tool,
                "arguments": call.arguments,
            }
            for call in turn
        ]
        spoken = {"role": "assistant", "parts": asked}
        chat = {"operation.name": "chat", "input.messages": json.dumps(history)}
        spans.append(_span("chat", {**chat, "output.messages": json.dumps([spoken])}, len(spans)))
        history.append(spoken)
        for call in turn:
            spans.append(_executed(call, len(spans)))
        for call in answered(turn):
            part = {"type": "tool_call_response", "id": call.call_id, "response": answer(call)}
            history.append({"role": "tool", "parts": [part]})
    chat = {"operation.name": "chat", "input.messages": json.dumps(history)}
    spans.append(_span("chat", {**chat, "output.messages": "[]"}, len(spans)))
    return [{"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]} for span in spans]


def _executed(call: RecordedCall, number: int) -> dict[str, Any]:
    attributes = {
        "operation.name": "execute_tool",
        "tool.name": call.tool,
        "tool.call.id": call.call_id,
        "tool.call.arguments": arguments(call),
    }
    if call.result is not MISSING:
        attributes["tool.call.result"] = call.result
    span = _span(f"execute_tool {call.tool}", attributes, number)
    if call.error is not None:
        span["status"] = {"code": 2, "message": call.error}
    return span


def _span(name: str, attributes: dict[str, Any], number: int) -> dict[str, Any]:
    return {
        "traceId": "ab" * 16,
        "spanId": f"{number:016x}",
        "name": name,
        "startTimeUnixNano": str(number + 1),
        "attributes": [
            {"key": f"gen_ai.{key}", "value": {"stringValue": value}}
            for key, value in attributes.items()
        ],
    }


def lines(steps: Steps) -> list[Any]:
    """Return a line with the run."""
    calls = [step for step in steps if isinstance(step, RecordedCall)]
    spoken: list[dict[str, int]] = []
    told: list[dict[str, Any]] = []
    for step in steps:
        if isinstance(step, RecordedCall):
            call = {"i": len(told), "turn": step.turn, "tool": step.tool, "args": step.arguments}
            call |= {"error": step.error is not None, "result_sha": "", "effect": None}
            told.append(call if answer(step) is MISSING else {**call, "result": answer(step)})
        elif len(told) < len(calls):
            spoken.append({"before_call": len(told)})
    return [{"run_id": "r", "calls": told, "user_messages": spoken, "external_events": []}]


def steps(steps: Steps) -> list[Any]:
    """Return the steps as `play` takes them, one a document."""
    told: list[Any] = []
    for step in steps:
        if isinstance(step, RecordedCall):
            came = {"result": step.result} if step.error is None else {"error": step.error}
            call = {"tool": step.tool, "args": step.arguments, "turn": step.turn}
            told.append({"run": "r", **call, "call_id": step.call_id, **came})
        else:
            told.append({"run": "r", "event": step})
    return told


WRITERS: dict[str, Callable[[Steps], list[Any]]] = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic,
    "langchain": langchain,
    "otel": otel,
    "lines": lines,
    "steps": steps,
}
OF_MESSAGES = ("openai-chat", "openai-responses", "anthropic", "langchain")
