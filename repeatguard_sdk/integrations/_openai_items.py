"""Reading items and messages of OpenAI's APIs, be they objects of a client or mappings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from repeatguard_sdk._types import is_mapping
from repeatguard_sdk.integrations._history import is_note, without_note


def get(item: Any, name: str) -> Any:
    """Return a field of an item; `None` if it has none."""
    return item.get(name) if is_mapping(item) else getattr(item, name, None)


def text_of(content: Any) -> str:
    """Return the text of a message's content or of a call's output: text, or parts of it."""
    if isinstance(content, str):
        return content
    parts: Sequence[Any] = content or ()
    return "".join(str(get(part, "text") or "") for part in parts)


def is_text(content: Any) -> bool:
    """Tell whether content is nothing but text: of an image or a file there is none to be read."""
    return isinstance(content, str) or all(get(part, "text") is not None for part in content or ())


def is_user(item: Any) -> bool:
    """Tell whether an item is a message in the user's place that is none of ours."""
    return get(item, "role") == "user" and not is_note(text_of(get(item, "content")))


def is_output(item: Any) -> bool:
    """Tell whether an item is the output of a call."""
    return str(get(item, "type")).endswith("_output")


def answered(items: Sequence[Any]) -> Iterator[tuple[Any, str | None, int]]:
    """Yield the calls that have their output, with its text as the tool gave it, and their turn.

    The text is `None` where the output is more than text.
    """
    outputs = {get(item, "call_id"): get(item, "output") for item in items if is_output(item)}
    turn, has_output = 0, False
    for item in items:
        has_output = has_output or is_output(item)
        if not str(get(item, "type")).endswith("_call"):
            continue
        # What comes after an output belongs to the next response.
        turn, has_output = turn + has_output, False
        call_id = get(item, "call_id")
        if call_id in outputs:
            output = outputs[call_id]
            yield item, without_note(text_of(output)) if is_text(output) else None, turn
