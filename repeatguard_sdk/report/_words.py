"""How names, numbers and times of a report read, for every renderer."""

from __future__ import annotations

import datetime

from repeatguard_sdk._types import FindingKind, SuspectedCause
from repeatguard_sdk.report._rates import Rate
from repeatguard_sdk.report._values import NextSteps
from repeatguard_sdk.report._visible import shown

NO_TOOL = "the run itself"

CAUSE_NAMES: dict[SuspectedCause | None, str] = {
    "unresolved": "does not resolve",
    "retryable": "reads as retryable",
    "capability": "missing capability",
    "constraint": "constraint not met",
    None: "no rule fits",
}
FINDING_NAMES: dict[FindingKind, str] = {
    "repeat": "the same call again",
    "cycle": "going in circles",
    "no_progress": "no progress",
    "asked_again": "asked what is known",
    "same_outcome": "same outcome in a row",
}


def tool_name(tool: str, limit: int = 80) -> str:
    """Return the name of a tool, or what stands for the run."""
    return shown(tool, limit) or NO_TOOL


def style_name(row: NextSteps) -> str:
    """Return how a style reads."""
    return f'"{shown(row.style, 40)}" note' if row.style else "no note"


def percent(share: float | None) -> str:
    """Return a share as a percentage without needless digits."""
    if share is None:
        return "–"
    return f"{share * 100:.0f} %" if share in (0, 1) or share >= 0.1 else f"{share * 100:.1f} %"


def interval(rate: Rate) -> str:
    """Return the interval of a rate; empty for a rate of nothing."""
    if rate.low is None or rate.high is None:
        return ""
    return f"{rate.low * 100:.0f} to {rate.high * 100:.0f} %"


def of(rate: Rate) -> str:
    """Return a rate as counts and percentage."""
    return f"{rate.hits} of {rate.of} ({percent(rate.rate)})" if rate.of else "–"


def count(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def moment(at: float | None) -> str:
    """Return a moment in UTC to the minute; as it is, if it is none that a calendar has."""
    if at is None:
        return "–"
    try:
        when = datetime.datetime.fromtimestamp(at, datetime.timezone.utc)
    except (OverflowError, OSError, ValueError):
        return f"{at:g}"
    return f"{when:%Y-%m-%d %H:%M} UTC"
