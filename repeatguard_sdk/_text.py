"""Text of tools and arguments as data: one clamped line that cannot pass for anything else."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

# The line that opens our note inside a tool's result. Runs of dashes are shortened in everything
# quoted, so no quoted text can hold it.
DELIMITER = "--- repeatguard note (not part of the tool's result) ---"

_DEPTH = 6
_SORTED = 32
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
# Printable by Python's account, yet nothing is seen: fillers, joiners and variation selectors.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_SPACES = re.compile(r"[^\S\n]+")
_BREAKS = re.compile(r" ?\n\s*")
# Special tokens and tags of chat templates all open with "<"; comparisons ("a < b", "<=") stay.
_TAG = re.compile(r"[<\uff1c\ufe64](?=\s*[^\s\d=])")
_BRACKET = re.compile(
    r"\[(\s*/?\s*(?:INST|SYS|SYSTEM|SYSTEM_PROMPT|USER|ASSISTANT|AVAILABLE_TOOLS|TOOL_CALLS?"
    r"|TOOL_RESULTS?|TOOL_CONTENT)\s*)\]",
    re.IGNORECASE,
)
# A role at the head of what was a line, whatever signs stand before it: also after an escaped
# break and at the start of a string inside JSON text. Bounded, or signs would cost quadratic time.
_ROLE = re.compile(
    r"((?:^|[\n\"']|\\[nr])[\W_]{0,16})"
    r"(human|assistant|system|user|developer|tool|ai|instructions?|response|observation|thought"
    r"|action(?: input)?|final answer)[\s*_]*:",
    re.IGNORECASE,
)
_RULE = re.compile(r"([-=*~_#`])\1{2,}")
# Standard types whose text is their value and never an address.
_NUMBER_MODULES = frozenset({"decimal", "fractions"})
_TEXT_MODULES = frozenset({"datetime", "uuid", "pathlib", "pathlib._local"})


class _FullError(Exception):
    """There is no room for more text."""


def quote(value: Any, limit: int) -> str:
    """Show a value as data on one line: text in quotes, everything else as compact JSON.

    No address, no control or invisible character and no role or delimiter mark comes through, and
    nothing of the value is called but what its shape needs; it never raises.

    Args:
        value: anything.
        limit: characters shown; what is cut is marked by an ellipsis and, for text, counted.
    """
    shown, left = _quoted(value, limit)
    return f"{shown} (+{left} characters)" if left else shown


def arguments_preview(arguments: Mapping[str, Any], limit: int = 200) -> str:
    """Show arguments as ``order_id="SO-1", limit=5``; those that do not fit are counted.

    Args:
        arguments: parameter name to value.
        limit: characters shown.
    """
    parts: list[str] = []
    room = limit
    try:
        left = len(arguments)
        for name, value in arguments.items():
            label = first_line(name, 40)
            if parts and room < len(label) + 8:
                break
            # One long value must not hide those behind it.
            share = (room - len(label) - 3) // (1 if left == 1 else 2)
            part = f"{label}={_quoted(value, share)[0]}"
            parts.append(part)
            room -= len(part) + 2
            left -= 1
    except Exception:
        return ", ".join(parts)
    if left > 0:
        parts.append(f"… ({left} more)")
    return ", ".join(parts)


def first_line(text: Any, limit: int) -> str:
    """Return the first line of a text that says something, cleaned and clamped, without quotes.

    Args:
        text: a docstring, a name; anything but a `str` is taken by its type name.
        limit: characters shown, the ellipsis of a cut included.
    """
    source = str.__str__(text) if _is(text, str) else _type_name(text)
    head = source[: _window(limit)].lstrip()
    line = head.splitlines()[0] if head else ""
    shown, left = _clamp(line, limit)
    return f"{shown[: max(limit - 1, 1)].rstrip()}…" if left else shown


def without_delimiter(text: str) -> str:
    """Return a text in which nothing can be taken for the head of our note."""
    return text.replace(DELIMITER, DELIMITER.replace("---", "--"))


def _quoted(value: Any, limit: int) -> tuple[str, int]:
    """Return the quotation and, for text, the number of characters it leaves out."""
    limit = max(limit, 1)
    try:
        if _is(value, BaseException):
            value = _error_line(value)
        if _is(value, str):
            shown, left = _clamp(str.__str__(value), limit)
            # A quotation that holds its own quotes could be ended from within.
            shown = shown.replace('"', "'")
            return f'"{shown}{"…" * bool(left)}"', left
        text, whole = _compact(value, limit)
    except Exception:  # a hostile object must not reach the run
        text, whole = _type_name(value), True
    shown, left = _clamp(text, limit)
    return (shown if whole and not left else f"{shown}…"), 0


def _window(limit: int) -> int:
    # Far more than is shown, for what is removed; far less than what a tool may return.
    return limit * 4 + 256


def _clamp(source: str, limit: int) -> tuple[str, int]:
    """Clean the head of a text; return what is shown and how many characters are left out."""
    window = source[: _window(limit)]
    clean = _clean(window)
    shown = clean[:limit].rstrip()
    cut = max(len(clean) - limit, 0)
    return shown, cut + len(source) - len(window)


def _clean(text: str) -> str:
    if not (text.isascii() and text.isprintable()):
        text = _ANSI.sub("", text)
        text = "".join(c if c.isprintable() else _stand_in(c) for c in text)
        text = _UNSEEN.sub("", text)
    text = _SPACES.sub(" ", _RULE.sub(r"\1\1", text))
    text = _BREAKS.sub("\n", text).strip()
    text = _ROLE.sub(r"\1(\2)", text)
    text = _BRACKET.sub(r"(\1)", text)
    text = _TAG.sub("‹", text)
    return text.replace("\n", " ")


def _stand_in(char: str) -> str:
    if char in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029":
        return "\n"
    if char.isspace():
        return " "
    return "\ufffd" if "\ud800" <= char <= "\udfff" else ""


def _compact(value: Any, limit: int) -> tuple[str, bool]:
    """Write a value as compact JSON while there is room; return the text and if it is whole."""
    out: list[str] = []
    try:
        _write(value, out, [_window(limit)], 0)
    except _FullError:
        return "".join(out), False
    return "".join(out), True


def _put(text: str, out: list[str], room: list[int]) -> None:
    out.append(text)
    room[0] -= len(text)
    if room[0] < 0:
        raise _FullError


def _write(value: Any, out: list[str], room: list[int], depth: int) -> None:
    kind = _kind(value)
    if value is None or kind is bool:
        _put({None: "null", True: "true", False: "false"}[value], out, room)
    elif issubclass(kind, str):
        text, left = _clamp(str.__str__(value), room[0] + 1)
        _put(json.dumps(text + "…" * bool(left), ensure_ascii=False), out, room)
    elif issubclass(kind, int):
        # The digits of a huge number take quadratic time, and no reader wants them.
        bits = int.bit_length(value)
        _put(int.__repr__(value) if bits <= 256 else f"(integer of {bits} bits)", out, room)
    elif issubclass(kind, float):
        _put(float.__repr__(value), out, room)
    elif issubclass(kind, bytes | bytearray):
        _put(f"({len(value)} bytes)", out, room)
    elif issubclass(kind, BaseException):
        _write(_error_line(value), out, room, depth)
    elif issubclass(kind, enum.Enum):
        _put(f"{kind.__name__}.{value.name}", out, room)
    elif kind.__module__ in _NUMBER_MODULES:
        _put(str(value), out, room)
    elif kind.__module__ in _TEXT_MODULES:
        _write(str(value), out, room, depth)
    elif depth >= _DEPTH:
        _put("…", out, room)
    else:
        _write_compound(value, out, room, depth)


def _write_compound(value: Any, out: list[str], room: list[int], depth: int) -> None:
    kind = _kind(value)
    if issubclass(kind, Mapping):
        _write_items("{}", value.items(), out, room, depth)
    elif (fields := _fields(kind)) is not None:
        _put(kind.__name__, out, room)
        shown = ((name, getattr(value, name)) for name in fields)
        _write_items("{}", shown, out, room, depth)
    elif issubclass(kind, list | tuple):
        _write_items("[]", ((None, item) for item in value), out, room, depth)
    elif issubclass(kind, set | frozenset) and len(value) <= _SORTED:
        # The order of a set is an accident of the process; a big one is not worth sorting.
        texts = sorted(_compact(member, 64)[0] for member in value)
        _put(f"[{','.join(texts)}]", out, room)
    else:
        _put(_type_name(value), out, room)


def _write_items(
    ends: str, items: Iterable[tuple[Any, Any]], out: list[str], room: list[int], depth: int
) -> None:
    _put(ends[0], out, room)
    for number, (name, item) in enumerate(items):
        if number:
            _put(",", out, room)
        if ends == "{}":
            _write(name, out, room, depth + 1)
            _put(":", out, room)
        _write(item, out, room, depth + 1)
    _put(ends[1], out, room)


def _fields(kind: type[Any]) -> list[str] | None:
    """Return the names a record type shows of itself; what it hides from its repr stays hidden."""
    for attribute in ("__dataclass_fields__", "__pydantic_fields__"):
        named = _attribute(kind, attribute)
        if _is(named, dict):
            return [name for name, field in named.items() if field.repr]
    attributes = _attribute(kind, "__attrs_attrs__")
    if _is(attributes, tuple):
        return [field.name for field in attributes if field.repr]
    names = _attribute(kind, "_fields")
    return [*map(str, names)] if issubclass(kind, tuple) and _is(names, tuple) else None


def _attribute(kind: type[Any], name: str) -> Any:
    return getattr(kind, name, None)


def _error_line(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}".rstrip(": ")
    except Exception:  # the text of an error is the code of its author
        return _type_name(error)


def _kind(value: object) -> type[Any]:
    return type(value)


def _is(value: object, kind: type) -> bool:
    # By type: `isinstance` would ask the object itself, and an object can lie or raise.
    return issubclass(type(value), kind)


def _type_name(value: object) -> str:
    return f"{type.__getattribute__(type(value), '__name__')} object"
