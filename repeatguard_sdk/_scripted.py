"""What a recorded or scripted tool raises in place of the one that failed."""

from __future__ import annotations

import re

_TRANSIENT = re.compile(r"time.?out|timed.out|connection|\b(?:429|502|503|504)\b", re.IGNORECASE)


class ToolFailure(Exception):
    """What a scripted tool raises for an `error` that is not transient."""


def scripted_error(text: str) -> Exception:
    """Return what a scripted tool raises for an error text: a transient type where it names one."""
    return ConnectionError(text) if is_transient_text(text) else ToolFailure(text)


def is_transient_text(text: str) -> bool:
    """Tell whether an error text names a time-out, a connection, 429, 502, 503 or 504."""
    return _TRANSIENT.search(text) is not None
