"""Reading a framework's history: which texts are ours, and what a result was before it became text."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable
from typing import Any, get_args, get_origin

from repeatguard_sdk._messages import USER_HEAD
from repeatguard_sdk._spec import find_record
from repeatguard_sdk._text import DELIMITER
from repeatguard_sdk._types import MISSING

_PARTING = f"\n\n{DELIMITER}\n"
_PLAIN: dict[str, type] = {
    "bool": bool,
    "dict": dict,
    "float": float,
    "int": int,
    "list": list,
    "str": str,
}


def without_note(text: str) -> str:
    """Return the text of a result as its tool gave it, without what `ToolCall.answer` put behind it."""
    return text.partition(_PARTING)[0]


def is_note(text: str) -> bool:
    """Tell whether a message in a user's place, or a block behind a result, is one of ours."""
    return text.startswith((USER_HEAD, DELIMITER))


def read_back(text: str, function: Callable[..., Any] | None) -> Any:
    """Return the result a text in a history was made of, or `MISSING` if that cannot be told.

    A replay must be what the tool returns: an agent's framework may check it against the hints. A text is
    read as JSON, or as Python spells it, where the tool's return hint is a plain type.

    Args:
        text: the result's text, without a note.
        function: the tool's function, as far as it is known.
    """
    hint = _return_hint(function)
    if hint is MISSING:
        # Nobody says what it returns: most such tools return text.
        return text
    kind = _PLAIN.get(hint) if isinstance(hint, str) else get_origin(hint) or hint
    if kind is str:
        return text
    if not isinstance(kind, type) or kind not in _PLAIN.values():
        return MISSING
    for read in (json.loads, ast.literal_eval):
        try:
            value: Any = read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if type(value) is kind:
            return value
    return MISSING


def _return_hint(function: Callable[..., Any] | None) -> Any:
    """Return the hint of what a call returns: a name where it is text, `MISSING` if there is none."""
    if function is None:
        return MISSING
    record = find_record(function)
    try:
        signature = getattr(record, "spec").signature if record else inspect.signature(function)  # noqa: B009
        hint = signature.return_annotation
    except (TypeError, ValueError):
        return MISSING
    if hint is inspect.Signature.empty:
        return MISSING
    if isinstance(hint, str):
        return hint.partition("[")[0].strip()
    args = get_args(hint)
    # `Annotated[str, ...]` is a str.
    return args[0] if hasattr(hint, "__metadata__") and args else hint
