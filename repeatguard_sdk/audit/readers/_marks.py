"""By what the formats of messages are told apart: only one of them writes these."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from repeatguard_sdk.audit._json import is_list, is_object, list_in, object_in
from repeatguard_sdk.audit.readers._reader import exchange, messages_in

# Parts of a message's content that only Anthropic has; results of its server's tools end alike.
_ANTHROPIC_PARTS = frozenset(
    {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "mcp_tool_use"}
)
_ANTHROPIC_FIELDS = ("system", "anthropic_version", "stop_sequences")
_RESPONSES_PARTS = frozenset({"input_text", "output_text", "input_image", "input_file"})
RESPONSES_ITEMS = frozenset(
    {
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "mcp_call",
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
        "additional_tools",
        "program",
        "program_output",
        "reasoning",
        "item_reference",
        "compaction",
        "compaction_trigger",
        "tool_search_call",
        "tool_search_output",
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "computer_call",
        "computer_call_output",
        "local_shell_call",
        "local_shell_call_output",
        "shell_call",
        "shell_call_output",
        "apply_patch_call",
        "apply_patch_call_output",
    }
)


def is_foreign(document: Any) -> bool:
    """Tell whether messages with roles are not those of Chat Completions."""
    return is_anthropic(document) or is_responses(document) or _has_other_parts(document)


def is_anthropic(document: Any) -> bool:
    """Tell whether a document holds what only Anthropic's messages and requests have."""
    request, response = exchange(document)
    if is_object(request) and is_list(request.get("messages")):
        if any(name in request for name in _ANTHROPIC_FIELDS):
            return True
        if any(
            is_object(tool) and "input_schema" in tool for tool in list_in(request.get("tools"))
        ):
            return True
    return _is_reply(response) or any(
        _is_reply(message) or bool(_part_types(message) & _ANTHROPIC_PARTS) or _has_result(message)
        for message in _messages(request)
    )


def is_responses(document: Any) -> bool:
    """Tell whether a document holds what only items, requests and answers of Responses have."""
    request, response = exchange(document)
    for body in (request, response):
        if is_object(body) and "messages" not in body:
            if body.get("object") == "response":
                return True
            items = [*list_in(body.get("input")), *list_in(body.get("output"))]
            if items and all(map(_may_be_item, items)):
                return True
    return any(map(is_item, _messages(request)))


def is_item(value: Any) -> bool:
    """Tell whether a value is an item of Responses, and nothing else."""
    if not is_object(value):
        return False
    kind = value.get("type")
    if kind == "message" and "role" in value and "stop_reason" not in value:
        return True
    if kind == "reasoning" and "summary" not in value:
        return False
    return (isinstance(kind, str) and kind in RESPONSES_ITEMS) or bool(
        "role" in value and _part_types(value) & _RESPONSES_PARTS
    )


def _may_be_item(value: Any) -> bool:
    return is_item(value) or (is_object(value) and "role" in value and "content" in value)


def _is_reply(value: Any) -> bool:
    return is_object(value) and value.get("type") == "message" and "stop_reason" in value


def _has_result(message: Any) -> bool:
    return any(kind.endswith("_tool_result") for kind in _part_types(message))


def _has_other_parts(document: Any) -> bool:
    """Tell whether a message has parts beside its role, as Gemini and OpenTelemetry write them."""
    return any(
        is_object(message) and "parts" in message for message in _messages(exchange(document)[0])
    )


def _messages(request: Any) -> Iterator[Any]:
    found = messages_in(request)
    yield from [request] if found is None else found


def _part_types(message: Any) -> set[str]:
    parts = list_in(object_in(message).get("content"))
    kinds = (object_in(part).get("type") for part in parts)
    return {kind for kind in kinds if isinstance(kind, str)}
