"""Messages of LangChain, in each of the forms it writes them, and the states of LangGraph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from repeatguard_sdk.audit._json import is_list, is_object, list_in, object_in, text_in
from repeatguard_sdk.audit.readers._histories import Part
from repeatguard_sdk.audit.readers._reader import MessageReader, messages_in, run_name
from repeatguard_sdk.audit.readers._talk import Answered, Called, Entry, content_of, said

# The type of a message by the class that the serialised constructor names.
_CLASSES = {
    "HumanMessage": "human",
    "AIMessage": "ai",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "FunctionMessage": "function",
    "ChatMessage": "chat",
    "RemoveMessage": "remove",
}
_TYPES = frozenset(_CLASSES.values())
# Where the state of a graph is kept in what is written of it.
_STATES = ("values", "channel_values", "state", "checkpoint", "kwargs")


class LangChainReader(MessageReader):
    """Reads LangChain messages: `messages_to_dict`, `dumpd`, `dumps` and `model_dump`.

    A document is a list of messages, an object with ``messages`` (a state of a graph, also inside
    of ``values``, ``channel_values`` or ``checkpoint``), a LangSmith run with messages among its
    ``inputs`` and ``outputs``, or one message. States that hold the whole history so far are one
    run.

    A tool message whose status is "error" is a failure. An invalid tool call is one that never
    reached its tool.
    """

    name: ClassVar[str] = "langchain"

    def recognises(self, document: Any) -> bool:
        """Tell whether a document holds messages by their LangChain type, or their classes."""
        if _unpacked(document) is not None:
            return True
        request, response = _messages(document)
        found = [*request, *response]
        return bool(found) and all(_unpacked(message) is not None for message in found)

    def part(self, document: Any) -> Part | str | None:
        """Return what a document tells of a run."""
        run_id = run_name(document)
        one = _unpacked(document)
        if one is not None:
            opens = one[0] == "system"
            return Part(list(_entries([document])), run_id=run_id, piece=True, opens=opens)
        request, response = _messages(document)
        if not request and not response:
            return self.nothing()
        entries = list(_entries(request))
        return Part([*entries, *_entries(response)], sure=len(entries), run_id=run_id)


def _messages(document: Any) -> tuple[list[Any], list[Any]]:
    """Return the messages of a document: those that were there, and those that came after."""
    if is_object(document) and is_object(document.get("inputs")):
        before = messages_in(document["inputs"]) or []
        after = _outputs(object_in(document.get("outputs")))
        # A graph puts out its whole state.
        return ([], after) if len(after) > len(before) else (before, after)
    for _ in range(len(_STATES)):
        if not is_object(document) or is_list(document.get("messages")):
            break
        document = next((document[name] for name in _STATES if is_object(document.get(name))), None)
    return messages_in(document) or [], []


def _outputs(outputs: dict[str, Any]) -> list[Any]:
    """Return the messages that a LangSmith run put out."""
    found = messages_in(outputs)
    if found is not None:
        return found
    generations = messages_in(outputs, "generations")
    if generations:
        return [object_in(generations[0]).get("message")]
    return [outputs["output"]] if _unpacked(outputs.get("output")) is not None else []


def _unpacked(message: Any) -> tuple[str, dict[str, Any]] | None:
    """Return the type and the fields of a message in any of its forms; `None` if it is none."""
    if not is_object(message):
        return None
    if "lc" in message and is_list(message.get("id")) and message["id"]:
        name = str(message["id"][-1]).removesuffix("Chunk")
        if name in _CLASSES and is_object(message.get("kwargs")):
            return _CLASSES[name], message["kwargs"]
        return None
    kind = message.get("type")
    if not isinstance(kind, str) or ("role" in message and kind != "chat"):
        return None
    kind = _CLASSES.get(kind.removesuffix("Chunk"), kind)
    if kind not in _TYPES:
        return None
    if is_object(message.get("data")):
        return kind, message["data"]
    return (kind, message) if "content" in message else None


def _entries(messages: list[Any]) -> Iterator[Entry]:
    for message in messages:
        found = _unpacked(message)
        if found is None:
            continue
        kind, fields = found
        if kind == "human" or (kind == "chat" and fields.get("role") in ("user", "human")):
            yield from said(fields.get("content"))
        elif kind == "ai":
            yield from _calls(fields)
        elif kind == "tool":
            call_id = text_in(fields.get("tool_call_id"))
            # Older messages have no status.
            failed = fields["status"] == "error" if "status" in fields else None
            content = content_of(fields.get("content"))
            yield Answered(call_id, text_in(fields.get("name")), content, failed)
        elif kind == "function":
            yield Answered(None, text_in(fields.get("name")), content_of(fields.get("content")))


def _calls(fields: dict[str, Any]) -> Iterator[Entry]:
    for call in list_in(fields.get("tool_calls")):
        if is_object(call) and (name := text_in(call.get("name"))):
            yield Called(name, call.get("args"), text_in(call.get("id")))
    for call in list_in(fields.get("invalid_tool_calls")):
        if is_object(call) and (name := text_in(call.get("name"))):
            why = text_in(call.get("error")) or "arguments that are no JSON"
            yield Called(name, call.get("args"), text_in(call.get("id")), refused=why)
    more = object_in(fields.get("additional_kwargs"))
    legacy = object_in(more.get("function_call"))
    if not fields.get("tool_calls") and (name := text_in(legacy.get("name"))):
        yield Called(name, legacy.get("arguments"))
