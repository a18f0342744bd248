"""JSON text to values, alike with orjson installed and without it."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from typing import Any, TypeGuard

try:
    # Not by an import statement, so that it need not be there for a type checker either.
    _quick: Callable[[bytes], Any] | None = importlib.import_module("orjson").loads
except ImportError:
    _quick = None

BOM = b"\xef\xbb\xbf"
# Digits and the minus sign become one character, all else another: twenty in a row, or a minus and
# nineteen, are then found at once.
_DIGITS = bytes(48 if code == 45 or 48 <= code <= 57 else 32 for code in range(256))
_TWENTY = b"0" * 20


class BrokenJson(Exception):
    """A text that is no JSON; its message says why and where."""


def parse(text: bytes) -> Any:
    """Return the value of a JSON text in UTF-8.

    orjson is only the quick way to what `json` gives: of equal names the last one counts, `NaN`
    and `Infinity` are read (Python writes them), half of a surrogate pair is kept (logs are cut
    anywhere), and an integer keeps all its digits. What orjson refuses is given to `json`, and so
    is a text with twenty digits in a row, for orjson rounds what does not fit into 64 bits: two
    account numbers must not become one.

    Raises:
        BrokenJson: it is no JSON, no UTF-8, or nested too deeply.
    """
    if _quick is not None and not _has_long_number(text):
        try:
            return _quick(text)
        except ValueError:
            pass
    try:
        return json.loads(decode(text))
    except json.JSONDecodeError as error:
        msg = f"no JSON: {error.msg} at column {error.colno}"
        raise BrokenJson(msg) from None
    except ValueError as error:
        # More digits than Python turns into a number.
        msg = f"no JSON that can be read: {error}"
        raise BrokenJson(msg) from None
    except RecursionError:
        msg = "nested too deeply to be read"
        raise BrokenJson(msg) from None


def _has_long_number(text: bytes) -> bool:
    if len(text) < len(_TWENTY):
        return False
    return _TWENTY in text.translate(_DIGITS)


def decode(text: bytes) -> str:
    """Return the text that bytes in UTF-8 stand for, without a byte order mark.

    Raises:
        BrokenJson: they are not UTF-8.
    """
    try:
        return text.removeprefix(BOM).decode()
    except UnicodeDecodeError as error:
        msg = f"not UTF-8: byte 0x{text[error.start]:02x} at column {error.start + 1}"
        raise BrokenJson(msg) from None


# A document is whatever a file holds: these look at a part of one without trusting it.
def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Tell whether a value is a JSON object."""
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Tell whether a value is a JSON list."""
    return isinstance(value, list)


def object_in(value: Any) -> dict[str, Any]:
    """Return a value that is an object; an empty one for any other."""
    return value if is_object(value) else {}


def list_in(value: Any) -> list[Any]:
    """Return a value that is a list; an empty one for any other."""
    return value if is_list(value) else []


def text_in(value: Any) -> str | None:
    """Return a value that is a text and not empty; `None` for any other."""
    return value if isinstance(value, str) and value else None


def name_in(value: Any) -> str | None:
    """Return a value that may name something, as text: a text or a whole number; else `None`."""
    return str(value) if isinstance(value, (str, int)) and str(value) else None


def value_of(text: str) -> Any:
    """Return what a JSON text inside a document stands for; the text itself if it is none."""
    try:
        return parse(text.encode("utf-8", "surrogatepass"))
    except BrokenJson:
        return text
