"""Reading and writing the parts of pydantic-ai's messages, and finding the function behind a tool."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from repeatguard_sdk._recalling import PastCall
from repeatguard_sdk.integrations._framework import load
from repeatguard_sdk.integrations._history import is_note, read_back, without_note
from repeatguard_sdk.integrations._tool_call import ToolCall

_exceptions = load("pydantic_ai.exceptions", extra="pydantic-ai")
_messages = load("pydantic_ai.messages", extra="pydantic-ai")

# Errors whose text the model reads; the second came with later versions.
ModelRetry: type[Exception] = _exceptions.ModelRetry
ToolFailed: type[Exception] = getattr(_exceptions, "ToolFailed", _exceptions.ModelRetry)


def function_of(tool: Any) -> Callable[..., Any] | None:
    """Return the function behind a tool of a toolset, if it has one."""
    while hasattr(tool, "source_tool"):
        tool = tool.source_tool
    schema = getattr(getattr(tool, "call_func", None), "__self__", None)
    function: Callable[..., Any] | None = getattr(schema, "function", None)
    return function


def may_be_said(part: Any) -> bool:
    """Whether a part stands in a user's place and is none of our notes."""
    if part.part_kind != "user-prompt":
        return False
    content = part.content
    texts = [content] if isinstance(content, str) else [t for t in content if isinstance(t, str)]
    return not any(map(is_note, texts))


def _answers(messages: Iterable[Any]) -> dict[str, Any]:
    return {
        part.tool_call_id: part
        for message in messages
        for part in message.parts
        if part.part_kind in ("tool-return", "retry-prompt")
    }


def answered_calls(messages: Sequence[Any]) -> Iterator[tuple[int, Any, Any]]:
    """Yield each tool call that got an answer: its place among the messages, the call, the answer."""
    for place, message in enumerate(messages):
        if message.kind != "response":
            continue
        # Only up to the next response, which may use the same ids.
        after = itertools.takewhile(lambda each: each.kind == "request", messages[place + 1 :])
        answers = _answers(after)
        for part in message.parts:
            if part.part_kind == "tool-call" and part.tool_call_id in answers:
                yield place, part, answers[part.tool_call_id]


def outcome_of(answer: Any) -> str:
    """Return "success", "failed", "denied", "interrupted" or "retried"."""
    # In older versions an answer that asks to try again is a part of its own kind, and others that
    # are no success did not say so.
    retried = answer.part_kind == "retry-prompt"
    return "retried" if retried else str(getattr(answer, "outcome", "success"))


def text_of(answer: Any) -> str:
    """Return what the model reads of an answer, without our note."""
    content = answer.content
    return without_note(content) if isinstance(content, str) else str(content)


def past_call(turn: int, part: Any, answer: Any, tool: Any) -> PastCall | None:
    """Return a call of a history, `None` if it had no outcome.

    Args:
        turn: where in the history it was made.
        part: the call.
        answer: what answers it.
        tool: the tool, `None` if there is none of that name.
    """
    asked: dict[str, Any] = {
        "tool": part.tool_name,
        "arguments": part.args,
        "call_id": part.tool_call_id,
        "turn": turn,
    }
    outcome, text, plain = outcome_of(answer), text_of(answer), isinstance(answer.content, str)
    if outcome == "interrupted":
        return None
    # Details in a list are about the arguments; a text is what the tool said itself.
    if outcome == "denied" or (outcome == "retried" and (tool is None or not plain)):
        return PastCall(**asked, refused=text, denied=outcome == "denied")
    if outcome != "success":
        return PastCall(**asked, error=(ToolFailed if outcome == "failed" else ModelRetry)(text))
    function = None if tool is None else function_of(tool)
    return PastCall(**asked, result=read_back(text, function) if plain else answer.content)


def with_notes(call: ToolCall, result: Any) -> Any:
    """Return a result with what there is to say about it: in its text, or else beside it.

    Args:
        call: the call.
        result: what its tool returned.
    """
    if type(result) is str:
        return call.answer(result)
    returned = result if isinstance(result, _messages.ToolReturn) else None
    if returned is not None and type(returned.return_value) is str:
        return dataclasses.replace(returned, return_value=call.answer(returned.return_value))
    note = call.note_text()
    if not note:
        return result
    if returned is None:
        return _messages.ToolReturn(return_value=result, content=note)
    before: Any = returned.content
    if not before:
        return dataclasses.replace(returned, content=note)
    content: list[Any] = [before, note] if isinstance(before, str) else [*before, note]
    return dataclasses.replace(returned, content=content)


def beside(result: Any) -> Any:
    """Return what a tool gives the model beside its result, in a user's place; `None` if nothing."""
    return result.content if isinstance(result, _messages.ToolReturn) else None


def put_behind(notes: Sequence[str], messages: Sequence[Any]) -> None:
    """Put notes behind the results at the end of a history, where it ends in a request."""
    if notes and messages[-1].kind == "request":
        said = [_messages.UserPromptPart(content=note) for note in dict.fromkeys(notes)]
        # A new list of parts and no new message: this one is in the framework's history too.
        messages[-1].parts = [*messages[-1].parts, *said]
