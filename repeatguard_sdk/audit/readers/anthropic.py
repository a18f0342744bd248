"""Anthropic's messages, and what Claude Code keeps of its sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from repeatguard_sdk.audit._json import is_object, list_in, text_in
from repeatguard_sdk.audit.readers._histories import Part
from repeatguard_sdk.audit.readers._marks import is_anthropic
from repeatguard_sdk.audit.readers._reader import MessageReader, exchange, messages_in, run_name
from repeatguard_sdk.audit.readers._talk import Answered, Called, Entry, content_of, said

_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})


class AnthropicReader(MessageReader):
    """Reads Anthropic's messages: lists of them, requests, requests with responses, one message.

    A document is a list of messages, a request body, a ``request`` with its ``response``, one
    message, or a line of a Claude Code session, where each holds one ``message``. A log of
    requests that hold the whole history so far is one run.

    A user's message that holds a tool result is the host's turn, whatever text stands beside the
    result: hosts put their reminders there, and nothing marks a text there as a person's. Any
    other user's message is a person's, unless it is all system reminders or the guard's notes.
    """

    name: ClassVar[str] = "anthropic"

    def recognises(self, document: Any) -> bool:
        """Tell whether a document holds what only Anthropic's messages and requests have."""
        return is_anthropic(document) or _is_session_line(document)

    def part(self, document: Any) -> Part | str | None:
        """Return what a document tells of a run."""
        if _is_session_line(document):
            return _session_part(document)
        request, response = exchange(document)
        run_id = run_name(document) or run_name(request)
        if _is_message(request):
            return Part(list(_entries([request])), run_id=run_id, piece=True)
        messages = messages_in(request)
        if messages is None:
            return self.nothing()
        entries = list(_entries(messages))
        answer = _entries([response] if _is_message(response) else [])
        return Part([*entries, *answer], sure=len(entries), run_id=run_id)


def _is_message(value: Any) -> bool:
    return is_object(value) and value.get("role") in ("user", "assistant")


def _entries(messages: list[Any]) -> Iterator[Entry]:
    for message in messages:
        if not is_object(message):
            continue
        if message.get("role") == "assistant":
            # The model's response has an id; in a request, the message is the turn.
            yield from _calls(message, text_in(message.get("id")))
        elif message.get("role") == "user":
            results = list(_results(message))
            yield from results or said(message.get("content"))


def _calls(message: dict[str, Any], response: str | None) -> Iterator[Entry]:
    for block in list_in(message.get("content")):
        if not is_object(block):
            continue
        kind = block.get("type")
        if isinstance(kind, str) and kind in _CALLS:
            if name := text_in(block.get("name")):
                yield Called(name, block.get("input"), text_in(block.get("id")), response)
        else:
            # What the server's tools gave stands in the model's own message.
            yield from _result(block)


def _results(message: dict[str, Any]) -> Iterator[Entry]:
    for block in list_in(message.get("content")):
        if is_object(block):
            yield from _result(block)


def _result(block: dict[str, Any]) -> Iterator[Entry]:
    kind = block.get("type")
    if not isinstance(kind, str) or not kind.endswith("tool_result"):
        return
    content = block.get("content")
    failed = block.get("is_error") is True
    if is_object(content) and str(content.get("type")).endswith("_error"):
        failed, content = True, content.get("error_code", content)
    yield Answered(text_in(block.get("tool_use_id")), None, content_of(content), failed)


# -- Claude Code -----------------------------------------------------------------------------------


def _is_session_line(document: Any) -> bool:
    return (
        is_object(document)
        and isinstance(document.get("type"), str)
        and any(name in document for name in ("sessionId", "leafUuid", "snapshot"))
    )


def _session_part(document: dict[str, Any]) -> Part | None:
    """Return what a line tells; a side chain (a subagent) is a run of its own."""
    message = document.get("message")
    run_id = text_in(document.get("sessionId"))
    if run_id and document.get("isSidechain"):
        run_id = f"{run_id}/{document.get('agentId') or 'side chain'}"
    if document.get("isCompactSummary") or document.get("subtype") == "compact_boundary":
        return Part(["compaction"], run_id=run_id, piece=True)
    if not _is_message(message):
        return None
    entries = list(_entries([message]))
    if document.get("isMeta"):
        entries = [entry for entry in entries if isinstance(entry, Answered)]
    return Part(entries, run_id=run_id, piece=True)
