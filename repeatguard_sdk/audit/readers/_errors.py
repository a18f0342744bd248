"""What reads as an error, in formats whose results carry no flag for one."""

from __future__ import annotations

import re
from typing import Any

from repeatguard_sdk.audit._json import is_object, value_of

_TRACEBACK = "Traceback (most recent call last)"
_HEAD = re.compile(
    r"""
    (?:Error|ERROR|error)
    (?:\ (?:executing|calling|running|invoking)\ (?:tool|function)\b[^:\n]{0,200})? :
    | An\ error\ occurred\ while\ running\ the\ tool\b
    | (?:[A-Za-z_]\w*\.)* [A-Z]\w* (?:Error|Exception) (?: : | \( )
    """,
    re.VERBOSE,
)
_FIRST_KEY = re.compile(
    r'\{\s*"error"\s*:\s*(?!\s|null\b|false\b|""|\[\s*\]|\{\s*\}|0\s*[,}])', re.IGNORECASE
)
_FLAG = re.compile(r'"(?:isError|is_error)"\s*:\s*true\b')


def reads_as_error(result: Any) -> bool:
    """Tell whether a result that carries no flag says that the call failed.

    Only what tools and frameworks write when a call raised, for a result that merely speaks of
    an error (a log that was read, a search for "error") is a result. It is a failure if it

    - begins with ``Error:``, also as ``Error executing tool look_up:``, with what the OpenAI
      Agents SDK writes by default ("An error occurred while running the tool"), with an exception
      as Python names one (``ValueError: ...``, ``ToolException('...')``), or with a traceback; or
    - is a JSON object whose first name is "error", with anything but null, false, 0 or nothing as
      its value; or
    - is a JSON object with "isError" or "is_error" true.

    White space before it does not count.
    """
    if is_object(result):
        name, value = next(iter(result.items()), ("", None))
        return bool((name.lower() == "error" and value) or _is_flagged(result))
    if not isinstance(result, str):
        return False
    text = result.lstrip()
    if text.startswith("{"):
        return _FIRST_KEY.match(text) is not None or (
            _FLAG.search(text) is not None and _is_flagged(value_of(text))
        )
    return text.startswith(_TRACEBACK) or _HEAD.match(text) is not None


def _is_flagged(value: Any) -> bool:
    return is_object(value) and (value.get("isError") is True or value.get("is_error") is True)
