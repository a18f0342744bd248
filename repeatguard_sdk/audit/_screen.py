"""An identity of arguments that is coarser than every one the guard compares by, and cheap to make."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from typing import Any

_SPACES = b" \t\n\r\x0b\x0c"
_CONTAINERS = frozenset({dict, list, tuple})
_FLAT = frozenset({str, int, bool})


def _dump(arguments: Mapping[str, Any]) -> bytes:
    text = json.dumps(arguments, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def _quick_dump() -> Callable[[Mapping[str, Any]], bytes]:
    try:
        # Not by an import statement, so that it need not be there for a type checker either.
        orjson = importlib.import_module("orjson")
    except ImportError:
        return _dump
    dumps, sorts = orjson.dumps, orjson.OPT_SORT_KEYS
    return lambda arguments: dumps(arguments, option=sorts)


_dumped = _quick_dump()


def exact(arguments: Mapping[str, Any]) -> bytes | None:
    """Return JSON that is equal only for arguments that are; `None` for what JSON cannot hold."""
    try:
        return _dumped(arguments)
    except (TypeError, ValueError, RecursionError):
        return None


def coarse(arguments: Mapping[str, Any]) -> bytes | None:
    """Return an identity that is equal wherever the guard's own is, or its fold.

    It is JSON without white space, case, nulls (they may be absent) and parts of a cent;
    `tests/audit/test_screen.py` holds it against the guard's own.

    Returns:
        `None` where it may not be coarse enough: a fraction or a null inside of a list or an object, a
        character that JSON spells as a number.
    """
    kinds = set(map(type, arguments.values()))
    deep = False
    if not kinds <= _FLAT:
        deep = not kinds.isdisjoint(_CONTAINERS)
        arguments = {
            name: _rounded(value) for name, value in arguments.items() if value is not None
        }
    text = exact(arguments)
    if text is None or (deep and (b"." in text or b"null" in text)):
        return None
    if not text.isascii():
        # Lower case first: that of some letters depends on what follows.
        lower = text.decode("utf-8", "surrogatepass").lower()
        text = "".join(lower.split()).encode("utf-8", "surrogatepass")
    text = text.translate(None, _SPACES)
    if b"\\" in text:
        if b"\\u" in text:
            return None
        # First the backslash itself, or half of it would be taken for a line break's.
        text = text.replace(b"\\\\", b"\x00").replace(b"\\n", b"").replace(b"\\t", b"")
        text = text.replace(b"\\r", b"").replace(b"\\f", b"").replace(b"\\b", b"")
    return text.lower()


def _rounded(value: Any) -> Any:
    if type(value) is not float:
        return value
    try:
        rounded = round(value, 2)
        return int(rounded) if rounded == int(rounded) else rounded
    except (ValueError, OverflowError):
        return str(value)
