"""Messages of OpenAI's Chat Completions, and of everything that speaks as they do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from repeatguard_sdk.audit._json import is_list, is_object, list_in, object_in, text_in
from repeatguard_sdk.audit.readers._histories import Part
from repeatguard_sdk.audit.readers._marks import is_foreign
from repeatguard_sdk.audit.readers._reader import MessageReader, exchange, messages_in, run_name
from repeatguard_sdk.audit.readers._talk import Answered, Called, Entry, content_of, said

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


class OpenAIChatReader(MessageReader):
    """Reads Chat Completions: lists of messages, requests, requests with responses, completions.

    A document is a list of messages, an object with ``messages`` (a request body, a training
    example), a ``request`` with its ``response``, a stored completion, or one message; messages
    with an equal run, conversation, session, thread or trace id belong together, and so do
    messages without one that follow each other. A log of requests that hold the whole history so
    far is one run.

    A tool message has no flag for a failure: `reads_as_error` has the rule for its text. Messages
    without any call or part could be Anthropic's as well; they are read here, to the same effect.
    """

    name: ClassVar[str] = "openai-chat"

    def recognises(self, document: Any) -> bool:
        """Tell whether a document holds messages with roles, and nothing of another format."""
        request, response = exchange(document)
        if _choices(request) or _choices(response):
            return True
        messages = _messages(request)
        return bool(messages) and all(map(_is_message, messages)) and not is_foreign(document)

    def part(self, document: Any) -> Part | str | None:
        """Return what a document tells of a run."""
        request, response = exchange(document)
        run_id = run_name(document) or run_name(request)
        if _is_message(request):
            opens = request["role"] in ("system", "developer")
            return Part(list(_entries([request])), run_id=run_id, piece=True, opens=opens)
        messages = messages_in(request)
        answer = [*_choices(request), *_choices(response)]
        if not answer and _is_message(response):
            answer = [response]
        if messages is None and not answer:
            return self.nothing()
        entries = list(_entries(messages or []))
        return Part([*entries, *_entries(answer)], sure=len(entries), run_id=run_id)


def _messages(request: Any) -> list[Any]:
    return [request] if _is_message(request) else messages_in(request) or []


def _is_message(value: Any) -> bool:
    return is_object(value) and isinstance(value.get("role"), str) and value["role"] in _ROLES


def _choices(completion: Any) -> list[Any]:
    """Return the message of a completion's first choice: the others were not gone on with."""
    if not is_object(completion):
        return []
    for choice in list_in(completion.get("choices"))[:1]:
        message = object_in(choice).get("message")
        if is_object(message):
            return [message]
    return []


def _entries(messages: list[Any]) -> Iterator[Entry]:
    for message in messages:
        if not is_object(message):
            continue
        role, content = message.get("role"), message.get("content")
        if role == "user":
            yield from said(content)
        elif role == "assistant":
            yield from _calls(message)
        elif role == "tool":
            call_id = text_in(message.get("tool_call_id"))
            yield Answered(call_id, text_in(message.get("name")), content_of(content))
        elif role == "function":
            yield Answered(None, text_in(message.get("name")), content_of(content))


def _calls(message: dict[str, Any]) -> Iterator[Entry]:
    calls = message.get("tool_calls")
    for call in calls if is_list(calls) else []:
        if not is_object(call):
            continue
        call_id = text_in(call.get("id"))
        custom = call.get("custom")
        if is_object(custom):
            if name := text_in(custom.get("name")):
                yield Called(name, custom.get("input") or "", call_id, free=True)
            continue
        function = object_in(call.get("function"))
        if name := text_in(function.get("name")):
            yield Called(name, function.get("arguments"), call_id)
    legacy = object_in(message.get("function_call"))
    if not calls and (name := text_in(legacy.get("name"))):
        yield Called(name, legacy.get("arguments"))
