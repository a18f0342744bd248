"""Reading Anthropic's messages, objects or mappings: who spoke, what was asked, what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from repeatguard_sdk._recalling import PastCall
from repeatguard_sdk._run import Run
from repeatguard_sdk._types import MISSING, is_mapping
from repeatguard_sdk.integrations._history import is_note
from repeatguard_sdk.integrations._loop import Asked
from repeatguard_sdk.integrations._tool_call import ToolCall

# What a tool may return as it is: blocks that a result can hold.
_RESULT_BLOCKS = ("text", "image", "document", "search_result", "tool_reference")


def get(value: Any, name: str) -> Any:
    """Return an attribute of an object, or what a mapping has under its name; `None` without it."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]


def blocks_of(message: Any) -> Sequence[Any]:
    """Return the blocks of a message, or of a result: text alone is one block."""
    content: Any = get(message, "content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content or ()


def text_of(result: Any) -> str:
    """Return the text of a result as its tool gave it: the blocks that are ours left out."""
    texts = (str(get(block, "text") or "") for block in blocks_of(result))
    return "".join(text for text in texts if not is_note(text))


def is_user(message: Any) -> bool:
    """Tell whether a person wrote a message, or a part of one that holds results too."""
    if get(message, "role") != "user":
        return False
    return any(
        get(block, "type") != "tool_result" and not is_note(str(get(block, "text") or ""))
        for block in blocks_of(message)
    )


def asked_by(message: Any) -> list[Any]:
    """Return the blocks in which a model asks the host for a tool.

    What the provider runs itself (`server_tool_use`, `mcp_tool_use`) is not among them.
    """
    return [block for block in blocks_of(message) if get(block, "type") == "tool_use"]


def name_of(block: Any) -> str:
    """Return the name of the tool that is asked for; a toolset's member has that in front."""
    toolset, name = get(block, "toolset_name"), str(get(block, "name"))
    return f"{toolset}.{name}" if toolset else name


def as_asked(block: Any) -> Asked:
    """Return what a block asks for."""
    return Asked(name_of(block), get(block, "input"), get(block, "id"))


def is_compacted(blocks: Iterable[Any]) -> bool:
    """Tell whether a reply begins with a summary in place of the history before it."""
    return any(get(block, "type") == "compaction" for block in blocks)


def are_blocks(result: Any) -> bool:
    """Tell whether what a tool returned can be a result's content as it is."""
    blocks: Any = result
    return isinstance(result, list) and all(
        is_mapping(block) and block.get("type") in _RESULT_BLOCKS for block in blocks
    )


def with_note(result: Any, call: ToolCall) -> Any:
    """Return the content of a result, text or blocks, with what there is to say behind it."""
    if isinstance(result, str):
        return call.answer(result)
    note = call.note_text()
    return [*(result or ()), {"type": "text", "text": note}] if note else result


def notes_behind(asked: Iterable[Any], run: Run) -> list[Any]:
    """Drain what waits to be said as blocks to put behind all results of a response.

    Where a program asked, and not the model, it waits on: no text may stand beside the results then.
    """
    callers = (get(get(block, "caller"), "type") for block in asked)
    if any(caller not in (None, "direct") for caller in callers):
        return []
    return [block for message in run.messages("anthropic") for block in message["content"]]


def past_of(
    messages: Sequence[Any], remember: Callable[[Asked, Any, int], PastCall | None]
) -> list[PastCall]:
    """Return the calls since a person last wrote.

    Args:
        messages: a history.
        remember: makes one of what was asked, the block of its result or `None`, and the turn.
    """
    last = max((place for place, each in enumerate(messages) if is_user(each)), default=-1)
    recent = messages[last + 1 :]
    results = {
        get(block, "tool_use_id"): block
        for message in recent
        for block in blocks_of(message)
        if get(block, "type") == "tool_result"
    }
    past: list[PastCall] = []
    for turn, message in enumerate(recent):
        for block in asked_by(message) if get(message, "role") == "assistant" else ():
            result = results.get(get(block, "id"))
            call = remember(as_asked(block), result, turn)
            if call is not None and any(get(part, "type") != "text" for part in blocks_of(result)):
                # An image cannot be served from its text: such a call counts, no more.
                call = attrs.evolve(call, result=MISSING)
            if call is not None:
                past.append(call)
    return past


# -- what the tool runner has and gives -----------------------------------------------------------


class MemberFailed(Exception):
    """Carries the result by which a toolset tells of a failure, so that it is counted as one."""

    def __init__(self, text: str, result: Mapping[str, Any]) -> None:
        super().__init__(text, result)
        self.result = result

    def __str__(self) -> str:
        return str(self.args[0])


def reply_in(item: Any) -> Any:
    """Return the message of what a runner yielded; of a stream, as much as has been read."""
    if not hasattr(item.__class__, "current_message_snapshot"):
        return item
    try:
        return item.current_message_snapshot
    except AssertionError:
        return None


def replies_in(messages: Any) -> int:
    """Return how many messages of a history are the model's."""
    return sum(get(each, "role") == "assistant" for each in messages)


def answered_in(messages: Any) -> set[str]:
    """Return the ids of the calls that have a result in a history."""
    blocks = [block for message in messages for block in blocks_of(message)]
    return {get(block, "tool_use_id") for block in blocks if get(block, "type") == "tool_result"}


def neutral(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a toolset's member without what is of this one call."""
    plain = {name: value for name, value in result.items() if name != "tool_use_id"}
    if plain.get("is_error"):
        raise MemberFailed(text_of(plain), plain)
    return plain


def as_result_of(asked: Any, result: Any) -> dict[str, Any]:
    """Return the result of one call of a toolset's member; a text is the guard's own."""
    if isinstance(result, str):
        result = {"type": "tool_result", "toolset_name": asked.toolset_name, "content": result}
    return {**result, "tool_use_id": asked.id}


def closed(runner: Any) -> bool:
    """Close a runner from inside of its loop; it then stops before its next request.

    An older one has no such thing, or cannot be closed at work.
    """
    try:
        runner.close()
    except (AttributeError, ValueError):
        return False
    return True


async def aclosed(runner: Any) -> bool:
    """Close a runner as `closed` does."""
    try:
        await runner.close()
    except (AttributeError, RuntimeError):
        return False
    return True


def settled(result: Any) -> Any:
    """Return what a tool returned as it can be kept: the client takes blocks one by one too."""
    return list(result) if isinstance(result, Iterator) else result  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]
