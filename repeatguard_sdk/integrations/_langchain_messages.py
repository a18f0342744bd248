"""Reading LangChain's messages: who wrote them, which calls have results, what a result holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from repeatguard_sdk._recalling import PastCall
from repeatguard_sdk._types import MISSING
from repeatguard_sdk.integrations._framework import load
from repeatguard_sdk.integrations._history import is_note, read_back, without_note
from repeatguard_sdk.integrations._records import Known
from repeatguard_sdk.integrations._tool_call import ToolCall

_messages = load("langchain_core.messages", extra="langchain")
HumanMessage: Any = _messages.HumanMessage
AIMessage: Any = _messages.AIMessage
ToolMessage: Any = _messages.ToolMessage

# How the framework's own human-in-the-loop middleware answers a call that a person rejected, where it
# keeps those that a person edited, and what it writes into their results.
_REJECTED = "User rejected the tool call"
_EDITED = "hitl_edited_tool_calls"
_INSTEAD = " Executed instead: "


def messages_in(state: Any) -> list[Any]:
    """Return the messages of a graph's state, whatever its shape."""
    if isinstance(state, list):
        return list(state)  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
    if isinstance(state, Mapping):
        return list(state.get("messages") or ())  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType,reportUnknownArgumentType]
    return list(getattr(state, "messages", None) or ())


def text_of(content: Any) -> str:
    """Return the text of a message's content, without a note of ours behind it."""
    if isinstance(content, str):
        return without_note(content)
    texts = (block if isinstance(block, str) else str(block.get("text") or "") for block in content)
    return "".join(text for text in texts if not is_note(text))


def is_person(message: Any) -> bool:
    """Tell whether a message is in a user's place and none that the machine put there."""
    if not isinstance(message, HumanMessage):
        return False
    content = message.content
    first = content if isinstance(content, str) else text_of(content[:1])
    # The framework summarizes a long history in a message of the user.
    return not is_note(first) and message.additional_kwargs.get("lc_source") is None


def asked_in(messages: Sequence[Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the tool calls of messages, those that do not parse too, each with its response's number."""
    turn = 0
    for message in messages:
        if isinstance(message, AIMessage):
            for call in (*message.tool_calls, *message.invalid_tool_calls):
                yield turn, call
            turn += 1


def results_in(messages: Sequence[Any]) -> dict[str, Any]:
    """Return the messages that hold results, by the id of their call."""
    return {each.tool_call_id: each for each in messages if isinstance(each, ToolMessage)}


def is_denied(message: Any) -> bool:
    """Tell whether the answer of a call says that a person rejected it."""
    return message.status == "error" and text_of(message.content).startswith(_REJECTED)


def arguments_of(asked: Mapping[str, Any], state: Any) -> Any:
    """Return the arguments that a call is made with: the model's, or those a person gave instead."""
    if not hasattr(state, "get"):
        return asked["args"]
    edits: Any = state.get(_EDITED)
    edited: Any = edits.get(asked["id"]) if edits else None
    if edited is None or edited["name"] != asked["name"]:
        return asked["args"]
    return edited["args"]


def is_edited(answer: Any) -> bool:
    """Tell whether a result is that of another call than the history has, which a person edited."""
    return _INSTEAD in text_of(answer.content)


def is_cleared(answer: Any) -> bool:
    """Tell whether the framework's context editing has taken a result from a request."""
    editing: Any = answer.response_metadata.get("context_editing")
    return bool(editing and editing.get("cleared"))


def reason_in(answer: Any) -> str:
    """Return why a call never reached its tool, without its id, which would make each one another."""
    text = text_of(answer.content)
    return text.replace(answer.tool_call_id, "...") if answer.tool_call_id else text


def past_call(
    turn: int, asked: Mapping[str, Any], answer: Any, known: Known | None, tool: Any
) -> PastCall:
    """Return a call of a history that has an answer.

    Args:
        turn: the number of its response.
        asked: the call.
        answer: the message with its result.
        known: what is known of the tool, `None` for a name that no tool has.
        tool: the framework's tool, if it is known.
    """
    given: dict[str, Any] = {
        "tool": asked["name"],
        "arguments": asked["args"],
        "call_id": asked["id"],
        "turn": turn,
    }
    if (denied := is_denied(answer)) or known is None:
        return PastCall(**given, refused=reason_in(answer), denied=denied)
    if answer.status == "error":
        # The host may have worded it; what was raised is not told.
        return PastCall(**given, error="")
    return PastCall(**given, result=_past_result(answer, known, tool))


def _past_result(answer: Any, known: Known, tool: Any) -> Any:
    if not known.guards_itself:
        return kept_of(answer)
    text = text_of(answer.content)
    if getattr(tool, "response_format", "content") == "content_and_artifact":
        return (text, answer.artifact) if isinstance(answer.content, str) else MISSING
    return read_back(text, function_of(tool)) if isinstance(answer.content, str) else MISSING


def function_of(tool: Any, *, asynchronous: bool = False) -> Callable[..., Any] | None:
    """Return what the framework calls for a tool.

    Args:
        tool: one of its tools.
        asynchronous: whether it is called in an event loop.
    """
    if hasattr(tool, "coroutine"):
        first, other = tool.func, tool.coroutine
    else:
        # A subclass; where it has no coroutine function, the inherited one calls the other.
        first = getattr(tool, "_run", None)
        other = getattr(tool, "_arun", None)
        inherited = getattr(other, "__module__", "").startswith("langchain_core.")
        other = None if inherited else other
    found: Callable[..., Any] | None = (other or first) if asynchronous else (first or other)
    return found


def annotations_of(tool: Any) -> Any:
    """Return the MCP annotations of a tool, `None` if it has none."""
    found = getattr(tool, "metadata", None)
    for name in ("mcp", "tool", "annotations"):
        inner = found.get(name) if isinstance(found, Mapping) else None  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
        found = inner if inner is not None else found  # pyright: ignore[reportUnknownVariableType]
    return found  # pyright: ignore[reportUnknownVariableType]


# -- results ---------------------------------------------------------------------------------------


def kept_of(answer: Any) -> Any:
    """Return what the guard keeps of a result: what the model reads, without the call's id.

    Args:
        answer: the message, `None` for a command that has none.
    """
    if answer is None:
        return "(a command without a message)"
    content = answer.content
    if isinstance(content, str):
        content = without_note(content)
    else:
        content = [each for each in content if isinstance(each, str) or not _is_note_block(each)]
    return content if answer.artifact is None else {"content": content, "artifact": answer.artifact}


def _is_note_block(block: Mapping[str, Any]) -> bool:
    return is_note(str(block.get("text", "")))


def answer_in(result: Any, call_id: str | None = None) -> Any:
    """Return the message that answers a call in what a tool gave, `None` if there is none.

    Args:
        result: a message, a command, or a list of both.
        call_id: the call; without one, the newest such message is taken.
    """
    found = list(_answers(result))
    mine = [each for each in found if call_id is None or each.tool_call_id == call_id]
    return mine[-1] if mine else None


def _answers(result: Any) -> Iterator[Any]:
    if isinstance(result, ToolMessage):
        yield result
    elif isinstance(result, list):
        for each in result:  # pyright: ignore[reportUnknownVariableType]
            yield from _answers(each)
    else:
        update = getattr(result, "update", None)
        inner = update.get("messages") if isinstance(update, Mapping) else update  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
        if isinstance(inner, list):
            yield from _answers([each for each in inner if isinstance(each, ToolMessage)])  # pyright: ignore[reportUnknownVariableType]


def exchanged(result: Any, old: Any, new: Any) -> Any:
    """Return what a tool gave with one message in the place of another."""
    if result is old:
        return new
    if isinstance(result, list):
        return [exchanged(each, old, new) for each in result]  # pyright: ignore[reportUnknownVariableType]
    update = getattr(result, "update", None)
    if isinstance(result, ToolMessage) or not isinstance(update, (list, Mapping)):
        return result
    if isinstance(update, list):
        return replace(result, update=exchanged(update, old, new))
    inner = exchanged(update.get("messages"), old, new)  # pyright: ignore[reportUnknownMemberType,reportUnknownArgumentType]
    return replace(result, update={**update, "messages": inner}) if inner is not None else result


def noted(answer: Any, call: ToolCall) -> Any:
    """Return a message with the notes of a call behind its content; itself if there are none."""
    content = answer.content
    if isinstance(content, str):
        text = call.answer(content)
        return answer if text == content else _with(answer, text)
    note = call.note_text()
    block = {"type": "text", "text": note}
    return _with(answer, [*content, block]) if note else answer


def _with(answer: Any, content: Any) -> Any:
    # It keeps its id, and so its place in the history.
    return answer.model_copy(update={"content": content})
