"""Text of tools and models made safe to look at, in a terminal, a spreadsheet or a page."""

from __future__ import annotations

import unicodedata

# Seen as nothing, though `str.isprintable` holds.
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_MAX_MARKS = 3


def visible(text: str) -> str:
    """Return a text in which every character can be seen, and none changes those around it.

    Control characters, those that turn the direction of text and those that are invisible are written
    as in a Python text: there are pictures of some, but few phones have them. A letter keeps
    at most three marks above and below it.
    """
    if text.isascii() and text.isprintable():
        return text
    shown: list[str] = []
    marks = 0
    for char in text:
        marks = marks + 1 if unicodedata.combining(char) else 0
        if marks <= _MAX_MARKS:
            shown.append(_written(char))
    return "".join(shown)


def _written(char: str) -> str:
    if unicodedata.category(char) == "Zs":
        return " "
    code = ord(char)
    if char.isprintable() and char not in _UNSEEN and not _selects(code):
        return char
    if char in _ESCAPES:
        return _ESCAPES[char]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _selects(code: int) -> bool:
    """Tell whether a character only chooses the shape of the one before it."""
    return 0x180B <= code <= 0x180F or 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF


def shown(text: str, limit: int = 200) -> str:
    """Return a text that can be seen, cut at a limit with an ellipsis."""
    text = visible(text[: limit + 1])
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"
