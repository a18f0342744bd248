"""Moments as a person writes them: a date, a time, how long ago."""

from __future__ import annotations

import datetime
import re

_AGO = re.compile(r"(\d{1,6}) ?([smhdw])", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_ALLOWED = (
    "write a date (2026-11-30), a time (2026-11-30T08:00, yours unless a zone such as +00:00 "
    "follows), or how long ago (7d, 12h, 30m)"
)


def moment(text: str, *, now: float, ends: bool = False) -> float:
    """Return a moment in Unix seconds.

    Args:
        text: an ISO date or time, or a number with s, m, h, d or w.
        now: what "ago" counts from.
        ends: whether a date without time means the end of that day.

    Raises:
        ValueError: it is none of these; the text says what to write.
    """
    given = text.strip()
    ago = _AGO.fullmatch(given)
    if ago is not None:
        return now - int(ago[1]) * _SECONDS[ago[2].lower()]
    try:
        # Python 3.10 does not know the Z.
        when = datetime.datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", given))
        if ends and _DATE.fullmatch(given):
            when += datetime.timedelta(days=1)
        return when.timestamp()
    except (ValueError, OverflowError, OSError):
        msg = f"{text!r}: {_ALLOWED}"
        raise ValueError(msg) from None
