"""Items of OpenAI's Responses, and what Codex keeps of its sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from repeatguard_sdk.audit._json import is_object, list_in, object_in, text_in
from repeatguard_sdk.audit.readers._histories import Part
from repeatguard_sdk.audit.readers._marks import is_item, is_responses
from repeatguard_sdk.audit.readers._reader import MessageReader, exchange, messages_in, run_name
from repeatguard_sdk.audit.readers._talk import Answered, Called, Entry, content_of, said

_PARTS = ("text", "output_text", "input_text")
# Where the calls of built-in tools keep what they were asked for, and what came of it.
_ASKED = ("action", "queries", "code", "operation", "arguments", "input")
_CAME = ("results", "outputs", "output", "result")
_SESSION = frozenset({"session_meta", "event_msg", "turn_context", "response_item", "compacted"})
# What Codex puts into a user's place by itself.
_BY_CODEX = ("<environment_context>", "<user_instructions>", "# AGENTS.md instructions")


class OpenAIResponsesReader(MessageReader):
    """Reads Responses: lists of items, requests and responses, one item, and Codex sessions.

    A document is a list of items, an object with ``input`` and ``output``, a ``request`` with its
    ``response``, a stored response, or one item. A response that has a ``previous_response_id``
    continues that response's run, one of a ``conversation`` that conversation's; requests that
    hold the whole history so far are one run.

    The calls of one response are one turn; in a list of items, those that stand together. The
    tools of the provider are called by their type without "_call" (``web_search``); they have a
    result where the item holds one. An output has no flag for a failure: `reads_as_error` has the
    rule for its text; ``mcp_call`` has its error.
    """

    name: ClassVar[str] = "openai-responses"

    def recognises(self, document: Any) -> bool:
        """Tell whether a document holds items of Responses, or a line of a Codex session."""
        return is_responses(document) or _is_session_line(document)

    def part(self, document: Any) -> Part | str | None:
        """Return what a document tells of a run."""
        if _is_session_line(document):
            return _session_part(document)
        if is_item(document):
            return Part(list(_entries([document])), run_id=run_name(document), piece=True)
        request, response = exchange(document)
        response = response if is_object(response) else request
        items = messages_in(request, "input")
        output = list_in(object_in(response).get("output"))
        asked = object_in(request).get("input")
        if items is None and not output and not isinstance(asked, str):
            return self.nothing()
        entries = list(said(asked)) if items is None and asked else list(_entries(items or []))
        name = text_in(object_in(response).get("id"))
        answer = list(_entries(output, response=name))
        after, run_id = _continued(request, response)
        return Part(
            [*entries, *answer],
            sure=len(entries),
            run_id=run_name(document) or run_id,
            names=tuple(each for each in (name, run_id) if each),
            after=after,
        )


def _continued(request: Any, response: Any) -> tuple[str | None, str | None]:
    """Return the response that an exchange continues, and its conversation."""
    after = conversation = None
    for body in (object_in(request), object_in(response)):
        after = after or text_in(body.get("previous_response_id"))
        named = body.get("conversation")
        conversation = conversation or text_in(object_in(named).get("id")) or text_in(named)
    return after or conversation, conversation


def _entries(items: list[Any], response: str | None = None) -> Iterator[Entry]:
    for item in items:
        if not is_object(item):
            continue
        kind = item.get("type", "message")
        if kind == "message":
            if item.get("role") == "user" and not _is_by_codex(item):
                yield from said(item.get("content"))
        elif kind == "compaction":
            yield "compaction"
        elif isinstance(kind, str) and kind.endswith("_output"):
            # The output of a local shell has the id of its call in "id".
            call_id = text_in(item.get("call_id")) or text_in(item.get("id"))
            failed = True if item.get("status") in ("failed", "incomplete") else None
            output = item.get("output", item.get("result"))
            yield Answered(call_id, text_in(item.get("name")), content_of(output, _PARTS), failed)
        elif isinstance(kind, str) and (kind.endswith("_call") or kind == "program"):
            yield from _call(kind, item, response)


def _call(kind: str, item: dict[str, Any], response: str | None) -> Iterator[Entry]:
    call_id = text_in(item.get("call_id")) or text_in(item.get("id"))
    tool = text_in(item.get("name"))
    if kind == "function_call":
        if tool:
            yield Called(tool, item.get("arguments"), call_id, response)
    elif kind == "custom_tool_call":
        if tool:
            yield Called(tool, item.get("input") or "", call_id, response, free=True)
    else:
        asked = {name: item[name] for name in _ASKED if item.get(name) is not None}
        # What is one object already needs no name around it.
        (alone,) = asked.values() if len(asked) == 1 else (None,)
        arguments = asked if alone is None or not _is_whole(alone) else alone
        yield Called(tool or kind.removesuffix("_call"), arguments, call_id, response)
        yield from _outcome(item, call_id)


def _is_whole(value: Any) -> bool:
    return is_object(value) or (isinstance(value, str) and value.lstrip().startswith("{"))


def _outcome(item: dict[str, Any], call_id: str | None) -> Iterator[Entry]:
    """Yield what came of a call of the provider's, where its item holds that."""
    error = item.get("error")
    if error:
        text = object_in(error).get("message") or error
        yield Answered(call_id, None, text, failed=True)
        return
    if item.get("status") == "failed":
        yield Answered(call_id, None, "failed", failed=True)
        return
    for name in _CAME:
        if item.get(name) is not None:
            flag = False if item.get("type") == "mcp_call" else None
            yield Answered(call_id, None, content_of(item[name], _PARTS), failed=flag)
            return


# -- Codex -----------------------------------------------------------------------------------------


def _is_session_line(document: Any) -> bool:
    return (
        is_object(document)
        and is_object(document.get("payload"))
        and isinstance(document.get("type"), str)
        and document["type"] in _SESSION
    )


def _session_part(document: dict[str, Any]) -> Part | None:
    payload = document["payload"]
    if document["type"] == "session_meta":
        return Part([], piece=True, opens=True)
    if document["type"] == "compacted":
        return Part(["compaction"], piece=True)
    if document["type"] == "response_item":
        return Part(list(_entries([payload])), piece=True)
    return None


def _is_by_codex(item: dict[str, Any]) -> bool:
    content = content_of(item.get("content"), _PARTS)
    return isinstance(content, str) and content.lstrip().startswith(_BY_CODEX)
